use backstop_trail::{Body, Draft, Entry, Log, Options, TrailError, Writer, now};
use proptest::prelude::*;
use serde_json::json;

use crate::support::Place;

const LABEL: &str = "policy";

fn labelled(kind: &str, value: &str, once: bool) -> Draft {
    let mut draft = Draft::new(now(), kind, Body::of(&json!({})).unwrap());
    draft.labels.insert(LABEL.to_owned(), value.to_owned());
    draft.once = once;
    draft
}

/// An explanation of a value, and an entry that has it.
fn pair(value: &str) -> [Draft; 2] {
    [labelled("explains", value, true), labelled("has", value, false)]
}

fn options(place: &Place) -> Options {
    Options { remembers: Some(LABEL), ..place.options() }
}

/// The kinds and values of all entries.
fn all(place: &Place) -> Vec<(String, String)> {
    let mut found = Vec::new();
    place
        .reader()
        .scan(0, |_, frame| {
            let entry = Entry::read(frame.entry().unwrap()).unwrap();
            found.push((entry.kind, entry.labels.get(LABEL).cloned().unwrap_or_default()));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    found
}

fn explained(place: &Place) -> usize {
    all(place).iter().filter(|(kind, _)| kind == "explains").count()
}

#[test]
fn a_value_is_explained_once_for_one_process_after_the_other() {
    let place = Place::new();
    for _ in 0..200 {
        Log::open(options(&place)).unwrap().append(&pair("v1")).unwrap();
    }
    assert_eq!((explained(&place), all(&place).len()), (1, 201));
    // Behind 256 entries a process that begins reads none of those before.
    for _ in 0..400 {
        Log::open(options(&place)).unwrap().append(&pair("v1")).unwrap();
    }
    assert_eq!(explained(&place), 3);
    assert!(place.verify().unwrap().processes.is_empty(), "what is left out has no number");
}

#[test]
fn what_is_not_remembered_is_explained_each_time() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&pair("v1")).unwrap();
    log.append(&pair("v1")).unwrap();
    assert_eq!(explained(&place), 2);
}

#[test]
fn a_group_that_could_not_be_written_explains_nothing() {
    let place = Place::new();
    let mut log = Log::open(options(&place)).unwrap();
    log.append(&[labelled("has", "v0", false)]).unwrap();
    // Where the segment should be is a folder.
    let segment = place.segment(0);
    let kept = segment.with_extension("kept");
    std::fs::rename(&segment, &kept).unwrap();
    std::fs::create_dir(&segment).unwrap();
    let mut other = Log::open(options(&place)).unwrap();
    other.append(&pair("v1")).unwrap_err();
    std::fs::remove_dir(&segment).unwrap();
    std::fs::rename(&kept, &segment).unwrap();
    other.append(&pair("v1")).unwrap();
    assert_eq!(explained(&place), 1);
}

#[test]
fn who_waits_is_told_where_theirs_are_whatever_was_left_out() {
    let place = Place::new();
    let writer = Writer::new(options(&place));
    let firsts: Vec<u64> = ["a", "a", "b", "a"]
        .into_iter()
        .map(|value| writer.append(pair(value).to_vec(), false).unwrap().wait().unwrap().first)
        .collect();
    assert_eq!(firsts, [1, 2, 4, 5]);
    let nothing = writer.append(Vec::new(), false).unwrap().wait().unwrap();
    assert_eq!(nothing.first, 6);
}

#[test]
fn what_explains_others_is_not_missing_where_there_is_no_room_for_it() {
    let place = Place::new();
    drop(place.open());
    // A log that somebody else holds: nothing can be written, and the queue fills.
    let lock = std::fs::File::open(place.log().join("lock")).unwrap();
    lock.lock().unwrap();
    let (writer, group) = (Writer::new(options(&place)), pair("v1").to_vec());
    let first = writer.append(group.clone(), false).unwrap();
    while writer.waiting() > 0 {
        std::thread::yield_now();
    }
    let mut refused = 0_u64;
    for _ in 0..9_000 {
        if let Err(error) = writer.append(group.clone(), false) {
            assert!(matches!(error, TrailError::Full(_)), "{error}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    lock.unlock().unwrap();
    first.wait().unwrap();
    while writer.waiting() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    writer.append(group, true).unwrap().wait().unwrap();
    assert_eq!(place.verify().unwrap().missing, refused, "one of each two");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Whichever processes write which values, in groups of whatever length: what explains a value stands before the first entry that has it.
    #[test]
    fn what_explains_a_value_stands_before_the_entries_that_have_it(
        groups in prop::collection::vec((0..3_usize, prop::collection::vec(0..4_u8, 1..4), any::<bool>()), 1..24)
    ) {
        let place = Place::new();
        let mut logs: Vec<_> = (0..3).map(|_| Log::open(options(&place)).unwrap()).collect();
        let mut wanted = 0;
        for (who, values, anew) in groups {
            if anew {
                logs[who] = Log::open(options(&place)).unwrap();
            }
            wanted += values.len();
            let group: Vec<_> = values.iter().flat_map(|value| pair(&value.to_string())).collect();
            logs[who].append(&group).unwrap();
        }
        let all = all(&place);
        prop_assert_eq!(all.iter().filter(|(kind, _)| kind == "has").count(), wanted);
        for (place, (kind, value)) in all.iter().enumerate() {
            let is_explained = all[..place].contains(&("explains".to_owned(), value.clone()));
            prop_assert_eq!(is_explained, kind == "has", "{:?}", all);
        }
    }
}
