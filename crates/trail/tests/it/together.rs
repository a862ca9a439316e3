use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use backstop_trail::merkle::Frontier;
use backstop_trail::{Log, Reader, Trust, verify};
use proptest::prelude::*;

use crate::support::{Place, draft, drafts, frame, told};

#[derive(Clone, Debug)]
enum Step {
    Append(usize, u64),
    Reopen(usize),
    Sync(usize),
    Checkpoint(usize),
    Prune(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..3_usize;
    prop_oneof![
        6 => (who.clone(), 1..90_u64).prop_map(|(who, count)| Step::Append(who, count)),
        1 => who.clone().prop_map(Step::Reopen),
        1 => who.clone().prop_map(Step::Sync),
        1 => who.clone().prop_map(Step::Checkpoint),
        1 => (who, 0..400_u64).prop_map(|(who, end)| Step::Prune(who, end)),
    ]
}

/// The root of the tree over what is there, computed from the entries alone.
fn root(log: &Reader) -> [u8; 32] {
    let mut frontier = Frontier::default();
    log.scan(0, |_, frame| {
        frontier.push(frame.leaf());
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    frontier.root()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_several_write_is_one_log(steps in prop::collection::vec(step(), 1..30)) {
        let place = Place::new();
        let open = || {
            let mut options = place.options();
            options.segment_bytes = 20_000;
            Log::open(options).unwrap()
        };
        let mut logs = [open(), open(), open()];
        let (mut expected, mut number) = (Vec::<String>::new(), 0);
        for step in steps {
            match step {
                Step::Append(who, count) => {
                    let group: Vec<_> = (number..number + count).map(draft).collect();
                    expected.extend((number..number + count).map(|n| n.to_string()));
                    number += count;
                    let extent = logs[who].append(&group).unwrap();
                    prop_assert_eq!(extent.size, expected.len() as u64);
                    prop_assert_eq!(extent.root, root(&place.reader()));
                }
                Step::Reopen(who) => logs[who] = open(),
                Step::Sync(who) => logs[who].sync().unwrap(),
                Step::Checkpoint(who) => {
                    let note = logs[who].checkpoint().unwrap();
                    prop_assert_eq!(note.checkpoint().size, expected.len() as u64);
                }
                Step::Prune(who, end) => {
                    let end = (end as usize).min(expected.len());
                    let gone = logs[who].prune(end as u64, 5, "age", "ann", |index, _| index % 7 == 0);
                    let gone = gone.unwrap();
                    let mut count = 0;
                    for (index, told) in expected[..end].iter_mut().enumerate() {
                        if index % 7 != 0 && told != "pruned" && told != "tombstone" {
                            *told = "pruned".to_owned();
                            count += 1;
                        }
                    }
                    prop_assert_eq!(gone, count);
                    if count > 0 {
                        expected.push("tombstone".to_owned());
                    }
                }
            }
        }
        prop_assert_eq!(told(&place.reader()), expected.clone());
        logs[0].checkpoint().unwrap();
        let report = place.verify().unwrap();
        prop_assert_eq!((report.size, report.missing, report.wrong_tiles), (expected.len() as u64, 0, 0));
        prop_assert_eq!(report.pruned, expected.iter().filter(|told| *told == "pruned").count() as u64);
        for from in [0, 1, 255, 256, 300, expected.len() as u64] {
            let mut count = 0;
            place.reader().scan(from, |_, _| { count += 1; std::ops::ControlFlow::Continue(()) }).unwrap();
            prop_assert_eq!(count, (expected.len() as u64).saturating_sub(from));
        }
    }
}

#[test]
fn whoever_checks_a_log_at_work_finds_nothing_wrong() {
    let place = Place::new();
    place.open().append(&drafts(3)).unwrap();
    place.open().checkpoint().unwrap();
    let entry = |n| frame(&draft(n).sealed("p", n).unwrap());
    let (first, second) = (entry(1), entry(2));
    let (half, rest) = first.split_at(first.len() / 2);
    let rest = [rest, &second].concat();
    let file = OpenOptions::new().write(true).open(place.segment(0)).unwrap();
    let length = file.metadata().unwrap().len();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                file.write_all_at(half, length).unwrap();
                file.write_all_at(&rest, length + half.len() as u64).unwrap();
                file.set_len(length).unwrap();
            }
        });
        let check = |_| verify(&place.reader(), &Trust::default());
        let found = (0..8_000).map(check).find(Result::is_err);
        is_done.store(true, Ordering::Relaxed);
        assert!(found.is_none(), "{found:?}");
    });
}

#[test]
fn many_threads_with_a_log_each_lose_nothing() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut log = place.open();
                for _ in 0..50 {
                    log.append(&drafts(7)).unwrap();
                }
                log.sync().unwrap();
            });
        }
    });
    place.open().checkpoint().unwrap();
    let report = place.verify().unwrap();
    assert_eq!((report.size, report.missing), (4 * 50 * 7, 0));
}
