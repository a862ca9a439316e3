//! Pruning beside those who write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_trail::{Log, Options};

use crate::support::{Place, draft, drafts, told};

fn impatient(place: &Place) -> Log {
    let patience = Duration::from_millis(20);
    Log::open(Options { patience, segment_bytes: 20_000, ..place.options() }).unwrap()
}

#[test]
fn whoever_writes_goes_on_while_it_is_looked_at_what_goes() {
    let place = Place::new();
    let (mut log, mut other) = (impatient(&place), impatient(&place));
    log.append(&drafts(600)).unwrap();
    let mut asked = Vec::new();
    let gone = log.prune(500, 5, "age", "ann", |index, _| {
        asked.push(index);
        if index % 100 == 0 {
            other.append(&[draft(1000 + index)]).unwrap();
        }
        index % 2 == 0
    });
    assert_eq!(gone.unwrap(), 250);
    assert_eq!(asked, (0..500).collect::<Vec<_>>());
    let expected = (0..600).map(|n| if n < 500 && n % 2 == 1 { "pruned".to_owned() } else { n.to_string() });
    let expected = expected.chain((0..5).map(|n| (1000 + n * 100).to_string()));
    assert_eq!(told(&place.reader()), expected.chain(["tombstone".to_owned()]).collect::<Vec<_>>());
    other.append(&drafts(300)).unwrap();
    other.checkpoint().unwrap();
    let report = place.verify().unwrap();
    assert_eq!((report.pruned, report.missing), (250, 0));
}

#[test]
fn of_two_that_prune_at_once_one_waits() {
    let place = Place::new();
    let (mut log, mut other) = (impatient(&place), impatient(&place));
    log.append(&drafts(300)).unwrap();
    let gone = log.prune(300, 5, "age", "ann", |index, _| {
        if index == 7 {
            let refused = other.prune(300, 5, "age", "bob", |_, _| false).unwrap_err().to_string();
            assert!(refused.contains("pruning"), "{refused}");
        }
        index >= 100
    });
    assert_eq!(gone.unwrap(), 100);
    let left = std::fs::read_dir(place.log().join("entries")).unwrap();
    assert!(
        left.into_iter().all(|file| file.unwrap().path().extension().is_some_and(|ends| ends != "pruned")),
        "no draft is left"
    );
    assert_eq!(other.prune(200, 5, "age", "bob", |_, _| false).unwrap(), 100, "each goes once");
    assert_eq!(place.verify().unwrap().pruned, 200);
}

#[test]
fn many_segments_are_pruned_while_others_write() {
    let place = Place::new();
    let done = AtomicBool::new(false);
    let open = || Log::open(Options { segment_bytes: 20_000, ..place.options() }).unwrap();
    open().append(&drafts(3000)).unwrap();
    let written = std::thread::scope(|scope| {
        let writers = [(); 2].map(|()| {
            scope.spawn(|| {
                let (mut log, mut written) = (open(), 0);
                while !done.load(Ordering::Acquire) {
                    log.append(&drafts(7)).unwrap();
                    log.sync().unwrap();
                    written += 7;
                }
                written
            })
        });
        let mut log = open();
        for end in [500, 1500, 2999, 3100] {
            log.prune(end, 5, "age", "ann", |index, _| index % 10 == 0).unwrap();
        }
        done.store(true, Ordering::Release);
        writers.map(|writer| writer.join().unwrap()).iter().sum::<u64>()
    });
    place.open().checkpoint().unwrap();
    let report = place.verify().unwrap();
    assert_eq!((report.missing, report.recovered.len(), report.wrong_tiles), (0, 0, 0));
    assert!(report.pruned >= 2700, "{report:?}");
    let kept = told(&place.reader()).iter().filter(|told| *told != "pruned" && *told != "tombstone").count();
    assert_eq!(kept as u64 + report.pruned, 3000 + written);
}
