use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use crate::entry::{Body, Draft};
use crate::faults::{self, Asked};
use crate::log::{Log, Options};
use crate::{Reader, Report, SigningKey, Trust, Writer, verify};

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("log")
    }

    fn options(&self) -> Options {
        Options::new(self.log(), self.0.path().join("key"))
    }

    fn open(&self) -> Log {
        Log::open(self.options()).unwrap()
    }

    fn segment(&self) -> PathBuf {
        self.log().join("entries/0000000000000000.log")
    }

    fn length(&self) -> u64 {
        fs::metadata(self.segment()).unwrap().len()
    }

    fn refuse(&self, times: usize) {
        faults::refuse(&self.log(), times);
    }

    /// What the disk was asked for besides names since this was last called.
    fn asked(&self) -> Vec<Asked> {
        faults::asked(&self.log()).into_iter().filter(|asked| *asked != Asked::Names).collect()
    }

    fn verify(&self) -> Report {
        let reader = Reader::new(&self.log());
        let origin = reader.origin().unwrap().unwrap();
        let key = SigningKey::open(&self.0.path().join("key")).unwrap().verifier(&origin);
        verify(&reader, &Trust { key, clock_tolerance: 10_000, ..Trust::default() }).unwrap()
    }
}

fn drafts(count: u64) -> Vec<Draft> {
    (0..count).map(|n| Draft::new(crate::now(), "test", Body::of(&json!({ "number": n })).unwrap())).collect()
}

/// Takes what is in a file from a place on, as a system may give up what it could not write.
fn lose(path: &Path, from: u64) {
    let length = fs::metadata(path).unwrap().len();
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(from)).unwrap();
    file.write_all(&vec![0; usize::try_from(length - from).unwrap()]).unwrap();
}

#[test]
fn what_the_disk_refused_is_written_again_before_it_counts() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    log.sync().unwrap();
    let before = place.length();
    log.append(&drafts(2)).unwrap();
    place.asked();
    place.refuse(2);
    // The system would tell of it once; what is not on the disk stays refused.
    log.sync().unwrap_err();
    log.sync().unwrap_err();
    log.sync().unwrap();
    let again = Asked::Again(before, place.length());
    assert_eq!(
        place.asked(),
        [Asked::Refused, again.clone(), Asked::Refused, again, Asked::Kept],
        "no more than what was not on the disk"
    );
    log.sync().unwrap();
    assert_eq!(place.asked(), [Asked::Kept], "what is on the disk is not written again");
}

#[test]
fn a_checkpoint_that_the_disk_refused_has_no_durable_entry_count() {
    for refused in [1, 2] {
        let place = Place::new();
        let writer = Writer::new(place.options());
        writer.append(drafts(1), true).unwrap().wait().unwrap();
        place.asked();
        place.refuse(refused);
        // So many that a checkpoint goes with them.
        let written = writer.append(drafts(300), true).unwrap().wait();
        assert_eq!(written.is_ok(), refused == 1, "{written:?}");
        let asked = place.asked();
        assert!(matches!(asked[..2], [Asked::Refused, Asked::Again(..)]), "{asked:?}");
        assert_eq!(asked.last() == Some(&Asked::Kept), refused == 1, "{asked:?}");
        writer.append(drafts(1), true).unwrap().wait().unwrap();
        assert_eq!(place.verify().missing, 0);
    }
}

#[test]
fn what_the_disk_refused_to_one_that_ended_is_written_again_by_the_next() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    log.checkpoint().unwrap();
    log.append(&drafts(2)).unwrap();
    place.refuse(1);
    log.sync().unwrap_err();
    drop(log);
    for refused in [1, 0] {
        place.asked();
        place.refuse(refused);
        let mut log = place.open();
        log.append(&drafts(1)).unwrap();
        assert_eq!(log.sync().is_err(), refused == 1);
        let last = if refused == 1 { Asked::Refused } else { Asked::Kept };
        // The system has told of it, and tells no other process.
        assert_eq!(place.asked(), [Asked::Again(0, place.length()), last]);
    }
    let mut log = place.open();
    log.append(&drafts(1)).unwrap();
    log.sync().unwrap();
    assert_eq!(place.asked(), [Asked::Kept]);
    assert_eq!(place.verify().missing, 0);
}

#[test]
fn what_is_lost_of_an_older_segment_is_told_once_and_keeps_nothing_else_back() {
    let place = Place::new();
    let open = || Log::open(Options { segment_bytes: 1, ..place.options() }).unwrap();
    let mut log = open();
    log.append(&drafts(3)).unwrap();
    log.sync().unwrap();
    let before = place.length();
    log.append(&drafts(2)).unwrap();
    place.refuse(1);
    log.sync().unwrap_err();
    // Another one goes on behind it, and then the system gives up what it had not written.
    let mut other = open();
    other.append(&drafts(1)).unwrap();
    other.sync().unwrap();
    other.append(&drafts(300)).unwrap();
    other.sync().unwrap();
    assert!(fs::metadata(place.log().join("entries/0000000000000256.log")).is_ok(), "or this proves nothing");
    lose(&place.segment(), before);
    log.sync().unwrap_err();
    for _ in 0..2 {
        log.append(&drafts(1)).unwrap();
        log.sync().unwrap();
    }
}

#[test]
fn nothing_is_signed_that_the_disk_refused() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    place.asked();
    place.refuse(1);
    log.checkpoint().unwrap_err();
    // Whoever forgets the end of the log remembers what is not on the disk.
    log.forget();
    assert_eq!(log.checkpoint().unwrap().checkpoint().size, 3);
    assert_eq!(place.asked(), [Asked::Refused, Asked::Again(0, place.length()), Asked::Kept]);
}

#[test]
fn what_can_t_be_told_on_a_full_disk_lets_no_entry_count_that_is_not_on_it() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(1)).unwrap();
    log.sync().unwrap();
    place.asked();
    // A group, and not the entry that a checkpoint failed behind it.
    log.append(&drafts(253)).unwrap();
    fs::remove_file(place.0.path().join("key")).ok();
    fs::create_dir(place.0.path().join("key")).unwrap();
    faults::room(&place.log(), Some(1));
    log.append(&drafts(2)).unwrap();
    place.asked();
    log.sync().unwrap();
    assert_eq!(place.asked(), [Asked::Kept], "no file, no promise");
}

#[test]
fn what_the_system_gave_up_is_lost_to_whoever_waits_and_told() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    log.sync().unwrap();
    let before = place.length();
    log.append(&drafts(2)).unwrap();
    place.refuse(1);
    log.sync().unwrap_err();
    lose(&place.segment(), before);
    log.sync().unwrap_err();
    log.append(&drafts(1)).unwrap();
    log.sync().unwrap();
    log.checkpoint().unwrap();
    let report = place.verify();
    assert_eq!((report.missing, report.recovered.len()), (2, 1), "{report:?}");
}

#[test]
fn what_was_lost_while_signing_is_not_taken_for_kept_by_whoever_waits() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(1)).unwrap();
    log.sync().unwrap();
    let before = place.length();
    log.append(&drafts(2)).unwrap();
    place.refuse(1);
    log.sync().unwrap_err();
    lose(&place.segment(), before);
    // A checkpoint that goes with other entries finds out.
    log.checkpoint().unwrap_err();
    log.sync().unwrap_err();
    log.append(&drafts(1)).unwrap();
    log.sync().unwrap();
    log.checkpoint().unwrap();
    let report = place.verify();
    assert_eq!((report.missing, report.recovered.len()), (2, 1), "{report:?}");
}

#[test]
fn what_nobody_waits_for_any_more_is_tried_again_too() {
    for durable in [false, true] {
        let place = Place::new();
        let writer = Writer::new(place.options());
        writer.append(drafts(1), true).unwrap().wait().unwrap();
        let before = place.length();
        place.asked();
        place.refuse(1);
        assert_eq!(writer.append(drafts(1), durable).unwrap().wait().is_err(), durable);
        let mut asked = Vec::new();
        for _ in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            asked.append(&mut place.asked());
            if asked.contains(&Asked::Kept) {
                break;
            }
        }
        assert_eq!(asked, [Asked::Refused, Asked::Again(before, place.length()), Asked::Kept]);
    }
}

#[test]
fn the_name_of_a_segment_is_on_the_disk_before_its_entries_count() {
    let place = Place::new();
    let open = || Log::open(Options { segment_bytes: 1000, ..place.options() }).unwrap();
    // Whoever began it was killed.
    open().look().unwrap();
    let mut log = open();
    log.append(&drafts(1)).unwrap();
    faults::asked(&place.log());
    log.sync().unwrap();
    let names = [Asked::Kept, Asked::Names];
    assert_eq!(faults::asked(&place.log()), names);
    log.append(&drafts(255)).unwrap();
    log.append(&drafts(1)).unwrap();
    faults::asked(&place.log());
    log.sync().unwrap();
    assert_eq!(faults::asked(&place.log()), [Asked::Kept], "a checkpoint has kept the second one");
    log.append(&drafts(1)).unwrap();
    log.sync().unwrap();
    assert_eq!(faults::asked(&place.log()), [Asked::Kept]);
}

#[test]
fn the_name_of_a_segment_that_is_replaced_is_on_the_disk() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(300)).unwrap();
    log.sync().unwrap();
    faults::asked(&place.log());
    log.prune(100, 5, "age", "ann", |_, _| false).unwrap();
    assert_eq!(faults::asked(&place.log()).last(), Some(&Asked::Names));
    // Something in its middle is none of ours.
    let mut bytes = fs::read(place.segment()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(place.segment(), bytes).unwrap();
    fs::remove_file(place.log().join("frontier")).unwrap();
    drop(log);
    place.open().append(&drafts(1)).unwrap();
    assert!(place.log().join("damaged").exists());
    assert!(faults::asked(&place.log()).contains(&Asked::Names));
}

#[test]
fn a_segment_that_the_disk_refuses_is_not_left_for_the_next_one() {
    let place = Place::new();
    let mut log = Log::open(Options { segment_bytes: 1000, ..place.options() }).unwrap();
    log.append(&drafts(1)).unwrap();
    log.sync().unwrap();
    place.asked();
    place.refuse(1);
    log.append(&drafts(255)).unwrap();
    assert!(!place.log().join("entries/0000000000000256.log").exists());
    log.append(&drafts(255)).unwrap();
    log.sync().unwrap();
    let asked = place.asked();
    assert!(matches!(asked[..2], [Asked::Refused, Asked::Again(..)]), "{asked:?}");
    log.append(&drafts(256)).unwrap();
    log.checkpoint().unwrap();
    assert_eq!(place.verify().missing, 0);
}

#[test]
fn of_a_group_that_does_not_fit_nothing_is_in_the_log() {
    // In one segment, and with more of them between.
    for (segment_bytes, room) in [(1 << 20, 1), (1 << 20, 3), (1000, 1), (1000, 2), (1000, 3)] {
        let place = Place::new();
        let open = || Log::open(Options { segment_bytes, ..place.options() }).unwrap();
        let mut log = open();
        let before = log.append(&drafts(255)).unwrap();
        let files = || {
            let listed = fs::read_dir(place.log().join("entries")).unwrap();
            let mut listed: Vec<_> = listed.map(|file| file.unwrap().file_name()).collect();
            listed.sort();
            listed
        };
        let (listed, length) = (files(), place.length());
        faults::room(&place.log(), Some(room));
        log.append(&drafts(1000)).unwrap_err();
        faults::room(&place.log(), None);
        assert_eq!(Reader::new(&place.log()).extent().unwrap(), before, "{segment_bytes}, {room}");
        assert_eq!((files(), place.length()), (listed, length));
        assert!(!place.log().join("tile").exists() && !place.log().join("frontier").exists());
        // Others go on, and so does whoever had no room.
        open().append(&drafts(7)).unwrap();
        assert_eq!(log.append(&drafts(600)).unwrap().size, 255 + 7 + 600);
        log.sync().unwrap();
        log.checkpoint().unwrap();
        let report = place.verify();
        assert_eq!((report.size, report.missing, report.recovered.len()), (862, 1000, 0), "{report:?}");
    }
}
