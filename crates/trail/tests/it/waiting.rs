use std::time::Duration;

use backstop_trail::{Body, Draft, TrailError, Writer};

use crate::support::{Place, draft, drafts, told};

/// Waits for the thread of a writer that is gone.
fn until(place: &Place, kind: &str) -> Vec<String> {
    for _ in 0..2000 {
        let told = told(&place.reader());
        if told.iter().any(|told| told == kind) {
            return told;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no `{kind}` came")
}

#[test]
fn who_waits_is_told_after_everything_before_is_written() {
    let place = Place::new();
    let writer = Writer::new(place.options());
    for n in 0..3 {
        writer.push(draft(n)).unwrap();
    }
    let written = writer.append(vec![draft(3), draft(4)], true).unwrap().wait().unwrap();
    let extent = written.extent;
    assert_eq!(written.first, 3);
    assert_eq!(
        (extent.size, told(&place.reader())),
        (5, ["0", "1", "2", "3", "4"].map(str::to_owned).to_vec())
    );
    assert_eq!(extent.root, place.reader().root(5).unwrap());
    let nothing = writer.append(Vec::new(), false).unwrap().wait().unwrap();
    assert_eq!((nothing.first, nothing.extent), (5, extent));
}

#[test]
fn an_entry_that_nobody_waits_for_is_written_soon() {
    let place = Place::new();
    let writer = Writer::new(place.options());
    writer.push(draft(5)).unwrap();
    assert_eq!(until(&place, "5"), ["5"]);
}

#[test]
fn a_process_that_ends_in_order_says_so() {
    let place = Place::new();
    let writer = Writer::new(place.options());
    writer.announce(Body::of(&"program").unwrap()).unwrap();
    let other = writer.clone();
    writer.push(draft(1)).unwrap();
    drop(writer);
    other.push(draft(2)).unwrap();
    drop(other);
    assert_eq!(until(&place, "stop"), ["start", "1", "2", "stop"]);
    let report = until_covered(&place, 4);
    assert!(report.processes.is_empty(), "{report:?}");
}

#[test]
fn an_announced_process_that_writes_nothing_says_that_it_goes_on() {
    let place = Place::new();
    let writer = Writer::beating(place.options(), Duration::from_millis(50));
    writer.announce(Body::of(&"program").unwrap()).unwrap();
    let told = until(&place, "heartbeat");
    assert!(told.starts_with(&["start", "heartbeat"].map(str::to_owned)), "{told:?}");
}

#[test]
fn what_somebody_waits_for_is_on_the_disk() {
    let place = Place::new();
    let writer = Writer::new(place.options());
    let kept = |n, durable| {
        writer.append(vec![draft(n)], durable).unwrap().wait().unwrap();
        writer.kept()
    };
    assert_eq!([kept(0, false), kept(1, true), kept(2, false), kept(3, true)], [0, 2, 2, 4]);
}

#[tokio::test]
async fn what_was_lost_while_the_log_could_not_be_opened_shows_afterwards() {
    let place = Place::new();
    // Where the folder of the log should be, there is a file.
    std::fs::write(place.log(), "").unwrap();
    let writer = Writer::new(place.options());
    writer.append(drafts(3), true).unwrap().written().await.unwrap_err();
    std::fs::remove_file(place.log()).unwrap();
    writer.append(vec![draft(3)], true).unwrap().written().await.unwrap();
    writer.checkpoint().await.unwrap();
    let report = place.verify().unwrap();
    assert_eq!((report.size, report.missing), (1, 3));
}

fn until_covered(place: &Place, size: u64) -> backstop_trail::Report {
    for _ in 0..2000 {
        let report = place.verify().unwrap();
        if report.covered == size {
            return report;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no checkpoint came")
}

#[test]
fn what_finds_no_place_is_refused_and_shows() {
    let place = Place::new();
    // A log that somebody else holds: nothing can be written, and the queue fills.
    let held = place.open();
    drop(held);
    let lock = std::fs::File::open(place.log().join("lock")).unwrap();
    lock.lock().unwrap();
    let writer = Writer::new(place.options());
    let waiting = writer.append(vec![draft(0)], false).unwrap();
    while writer.waiting() > 0 {
        std::thread::yield_now();
    }
    let mut refused = 0_u64;
    for n in 0..20_000 {
        match writer.push(draft(n)) {
            Ok(()) => assert_eq!(refused, 0),
            Err(TrailError::Full(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    lock.unlock().unwrap();
    waiting.wait().unwrap();
    assert!(refused > 3000);
    while writer.waiting() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let last = writer.append(drafts(1), true).unwrap().wait().unwrap();
    assert_eq!(last.extent.size, 20_000 - refused + 2);
    assert_eq!(place.verify().unwrap().missing, refused);
}

#[test]
fn what_waits_for_other_writers_in_vain_is_missing() {
    let place = Place::new();
    drop(place.open());
    let lock = std::fs::File::open(place.log().join("lock")).unwrap();
    let options = || backstop_trail::Options { patience: Duration::from_millis(20), ..place.options() };
    // One that has the log open, and one whose first entries these are.
    let writers = [Writer::new(options()), Writer::new(options())];
    writers[0].append(drafts(1), true).unwrap().wait().unwrap();
    lock.lock().unwrap();
    for writer in &writers {
        let refused = writer.append(drafts(3), true).unwrap().wait().unwrap_err();
        assert!(refused.to_string().contains("lock"), "{refused}");
        // What only explains others is missed by nobody.
        writer.append(vec![Draft { once: true, ..draft(7) }], true).unwrap().wait().unwrap_err();
    }
    lock.unlock().unwrap();
    for writer in &writers {
        writer.append(drafts(1), true).unwrap().wait().unwrap();
    }
    let report = place.verify().unwrap();
    assert_eq!((report.size, report.missing), (3, 6), "{report:?}");
}

#[tokio::test]
async fn a_process_can_say_that_it_stops() {
    let place = Place::new();
    let writer = Writer::new(place.options());
    writer.announce(Body::of(&"program").unwrap()).unwrap();
    writer.push(draft(1)).unwrap();
    let note = writer.conclude().await.unwrap();
    assert_eq!(
        (note.checkpoint().size, told(&place.reader())),
        (3, ["start", "1", "stop"].map(str::to_owned).to_vec())
    );
    writer.append(vec![draft(2)], true).unwrap().written().await.unwrap();
    let report = place.verify().unwrap();
    assert!(report.processes.is_empty() && report.missing == 0, "what comes after all is of another one");
}

#[tokio::test]
async fn a_checkpoint_can_be_asked_for() {
    let place = Place::new();
    let writer = Writer::new(place.options());
    writer.push(draft(1)).unwrap();
    let note = writer.checkpoint().await.unwrap();
    assert_eq!(note.checkpoint().size, 1);
    assert!(note.is_signed_by(&place.verifier()));
}

#[test]
fn the_log_and_its_key_are_their_owners_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(300)).unwrap();
    log.checkpoint().unwrap();
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.log()), 0o700);
    for file in
        [place.key(), place.segment(0), place.log().join("checkpoint"), place.log().join("checkpoints")]
    {
        assert_eq!(mode(file.clone()), 0o600, "{}", file.display());
    }
}
