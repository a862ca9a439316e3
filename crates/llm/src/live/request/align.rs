//! Which items of a list are which of its edited form.

use crate::live::steps::step as count;

/// How many items that are gone in a row are looked behind. An item that stands farther away counts as a new one.
const FARTHEST: usize = 1_024;
/// How many items are looked at for each that there is, and [`FARTHEST`] at least: lists that have little in common would take
/// as many looks as the product of their lengths. What is not found then counts as new, or as changed.
const MOST_LOOKS: usize = 4;

/// What stands at one place of the new list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The old item, as it was.
    Keep(usize),
    /// The old item, changed into the new one.
    Edit(usize, usize),
    /// A new item.
    New(usize),
}

/// The new list, told by the old one. Old items rise from step to step; those that no step names are gone.
/// An item is taken for the changed form of another one only if they are `similar`.
pub(super) fn align<T: PartialEq>(old: &[T], new: &[T], similar: impl Fn(&T, &T) -> bool) -> Vec<Step> {
    let front = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let most = old.len().min(new.len()) - front;
    let back = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (old.len() - back, new.len() - back);
    let mut steps: Vec<Step> = (0..front).map(Step::Keep).collect();
    let mut next = front;
    let same_count = old_end == new_end;
    let mut looks = (MOST_LOOKS * (old.len() + new.len())).max(FARTHEST);
    for (at, item) in new.iter().enumerate().take(new_end).skip(front) {
        count();
        let candidates = || old.iter().enumerate().take(old_end).skip(next);
        // In lists of the same length items are more likely changed than moved.
        let equal = match same_count {
            true => old.get(at).filter(|old| at >= next && *old == item).map(|_| at),
            false => {
                let near = candidates().take(FARTHEST.min(looks)).inspect(|_| count());
                let mut near = near.inspect(|_| looks -= 1);
                near.find(|(_, old)| *old == item).map(|(place, _)| place)
            }
        };
        let alike = candidates().next().filter(|(_, old)| similar(old, item)).map(|(place, _)| place);
        let step = match (equal, alike) {
            (Some(place), _) => Step::Keep(place),
            (None, Some(place)) => Step::Edit(place, at),
            (None, None) => Step::New(at),
        };
        match step {
            Step::Keep(place) | Step::Edit(place, _) => next = place + 1,
            Step::New(_) if same_count => next += 1,
            Step::New(_) => {}
        }
        steps.push(step);
    }
    steps.extend((old_end..old.len()).map(Step::Keep));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(old: &str, new: &str) -> Vec<Step> {
        let items = |text: &str| text.chars().collect::<Vec<_>>();
        align(&items(old), &items(new), char::eq_ignore_ascii_case)
    }

    #[test]
    fn items_are_found_again() {
        use Step::{Edit, Keep, New};
        assert_eq!(steps("abc", "abc"), [Keep(0), Keep(1), Keep(2)]);
        assert_eq!(steps("abcde", "bde"), [Keep(1), Keep(3), Keep(4)]);
        assert_eq!(steps("abc", "aBc"), [Keep(0), Edit(1, 1), Keep(2)]);
        assert_eq!(steps("abc", "Ac"), [Edit(0, 0), Keep(2)]);
        assert_eq!(steps("ab", "axb"), [Keep(0), New(1), Keep(1)]);
        assert_eq!(steps("abc", "xyC"), [New(0), New(1), Edit(2, 2)]);
        assert_eq!(steps("", "x"), [New(0)]);
        assert_eq!(steps("ab", ""), []);
    }

    proptest! {
        #[test]
        fn steps_tell_the_new_list(old in "[abAB]{0,7}", new in "[abABc]{0,7}") {
            let old_items: Vec<char> = old.chars().collect();
            let new_items: Vec<char> = new.chars().collect();
            let told: String = steps(&old, &new).iter().map(|step| match step {
                Step::Keep(place) => old_items[*place],
                Step::Edit(_, at) | Step::New(at) => new_items[*at],
            }).collect();
            prop_assert_eq!(told, new);
            let places: Vec<usize> = steps(&old, &new_items.iter().collect::<String>()).iter().filter_map(|step| match step {
                Step::Keep(place) | Step::Edit(place, _) => Some(*place),
                Step::New(_) => None,
            }).collect();
            prop_assert!(places.is_sorted_by(|left, right| left < right));
        }
    }
}
