//! From a program that shows an error to a small one that shows it too.
//!
//! What is made smaller is the list of decisions, not the text: so every try is a program the generator could have made.

/// Most tries for one failure.
const TRIES: usize = 1500;

/// The smallest list found for which `fails` still holds.
pub(crate) fn smallest(mut list: Vec<u32>, mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    let mut tries = 0;
    loop {
        let before = (list.len(), list.iter().map(|&n| u64::from(n)).sum::<u64>());
        let mut keep = |list: &mut Vec<u32>, candidate: Vec<u32>| {
            tries += 1;
            let better = tries <= TRIES && candidate != *list && fails(&candidate);
            if better {
                *list = candidate;
            }
            better
        };
        for size in [32, 16, 8, 4, 2, 1] {
            let mut at = 0;
            while at < list.len() {
                let candidate: Vec<u32> = list
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| !(at..at + size).contains(i))
                    .map(|(_, n)| *n)
                    .collect();
                if !keep(&mut list, candidate) {
                    at += size;
                }
            }
        }
        for at in 0..list.len() {
            let now = list.get(at).copied().unwrap_or(0);
            for smaller in [0, now / 2, now.saturating_sub(1)] {
                let candidate =
                    list.iter().enumerate().map(|(i, n)| if i == at { smaller } else { *n }).collect();
                if smaller < now && keep(&mut list, candidate) {
                    break;
                }
            }
        }
        let after = (list.len(), list.iter().map(|&n| u64::from(n)).sum::<u64>());
        if after == before || tries > TRIES {
            return list;
        }
    }
}
