//! What somebody who can write the folder would hide: missing checkpoints, foreign ones, a false name, entries behind a damaged one.

use std::fs;
use std::ops::ControlFlow;
use std::time::SystemTime;

use backstop_trail::{
    Body, Checkpoint, Draft, Log, SignedCheckpoint, SigningKey, TrailError, Trust, Unproved, VerifyError,
    Wrong, now, verify,
};
use serde_json::json;

use crate::support::{Place, bodies, draft, drafts, frame, told};

/// A log of that many entries, one in a second, all covered by checkpoints of up to 100 entries each.
fn signed(entries: u64) -> Place {
    let place = Place::new();
    let mut log = place.open();
    let begun = now() - entries as i64 * 1000;
    let drafts: Vec<_> = (0..entries).map(|n| Draft { at: begun + n as i64 * 1000, ..draft(n) }).collect();
    for group in drafts.chunks(100) {
        log.append(group).unwrap();
        log.checkpoint().unwrap();
    }
    place
}

fn remove(place: &Place, files: &[&str]) {
    for file in files {
        let path = place.log().join(file);
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.unwrap();
    }
}

/// Changes an entry, as whoever can write the file does.
fn change(place: &Place, at: usize) {
    let mut frames = place.frames(0);
    let entry = String::from_utf8(frames[at][8..].to_vec()).unwrap();
    frames[at] = frame(entry.replace("\"number\":", "\"numbers\":").as_bytes());
    place.put_frames(0, &frames);
}

/// What the next process does.
fn goes_on(place: &Place) {
    let mut log = place.open();
    log.append(&[draft(1)]).unwrap();
    log.checkpoint().unwrap();
}

fn unproved(place: &Place) -> Vec<Unproved> {
    place.verify().unwrap().unproved
}

#[test]
fn missing_checkpoints_are_not_signed_over_in_silence() {
    let place = signed(300);
    let kept = place.reader().checkpoint().unwrap().unwrap();
    remove(&place, &["tile", "frontier", "checkpoint", "checkpoints"]);
    let sound = place.copy();
    change(&place, 5);
    goes_on(&place);
    goes_on(&place);
    let lost = json!({ "file": "checkpoint", "covers": 0, "unsigned": 300 });
    assert_eq!(bodies(&place, "recovered"), [lost]);
    assert_eq!(unproved(&place), [Unproved { index: 301, entries: 0..300 }]);
    // Whoever has a checkpoint from before can tell.
    let trust =
        |place: &Place| Trust { key: Some(place.verifier()), kept: vec![kept.clone()], ..Trust::default() };
    let found = verify(&place.reader(), &trust(&place));
    assert!(matches!(found, Err(VerifyError::Rewritten { size: 300 })), "{found:?}");
    goes_on(&sound);
    assert_eq!(unproved(&sound).len(), 1);
    assert_eq!(verify(&sound.reader(), &trust(&sound)).unwrap().unproved, []);
    // One from afterwards says nothing of what was before.
    let later = sound.reader().checkpoint().unwrap().unwrap();
    let trust = Trust { key: Some(sound.verifier()), kept: vec![later], ..Trust::default() };
    assert_eq!(verify(&sound.reader(), &trust).unwrap().unproved.len(), 1);
}

#[test]
fn an_older_checkpoint_in_the_place_of_the_newest_is_told() {
    let place = signed(700);
    let all = place.reader().checkpoints().unwrap().0;
    let old = &all[1];
    fs::write(place.log().join("checkpoint"), old.to_string()).unwrap();
    let put_back = place.copy();
    goes_on(&put_back);
    assert_eq!(bodies(&put_back, "recovered"), [json!({ "file": "checkpoint", "covers": 700 })]);
    assert_eq!(unproved(&put_back), []);
    let text = all[..2].iter().map(|note| format!("--\n{note}")).collect::<String>();
    fs::write(place.log().join("checkpoints"), text).unwrap();
    goes_on(&place);
    assert_eq!(unproved(&place), [Unproved { index: 701, entries: 200..700 }]);
}

/// Entries of that age, in milliseconds.
fn aged(count: u64, age: i64) -> Vec<Draft> {
    drafts(count).into_iter().map(|draft| Draft { at: now() - age, ..draft }).collect()
}

#[test]
fn entries_without_a_checkpoint_are_told_where_they_are_old() {
    for (age, is_told) in [(0, false), (120_000, true)] {
        for covers in [0, 3, 300] {
            let place = signed(covers);
            place.open().append(&aged(2, age)).unwrap();
            // Somebody makes the log look new.
            let origin = fs::OpenOptions::new().write(true).open(place.log().join("origin")).unwrap();
            origin.set_modified(SystemTime::now()).unwrap();
            goes_on(&place);
            goes_on(&place);
            let report = place.verify().unwrap();
            let told: Vec<_> = report.late.iter().map(|late| (late.index, late.entries.clone())).collect();
            let expected = if is_told { vec![(covers + 3, covers..covers + 2)] } else { vec![] };
            assert_eq!((told, report.unproved), (expected, vec![]), "{age} {covers}");
        }
    }
}

#[test]
fn dropped_checkpoints_of_a_few_old_entries_are_told() {
    let place = Place::new();
    let mut log = place.open();
    for (group, age) in [(5, 300_000), (100, 200_000), (100, 130_000)] {
        log.append(&aged(group, age)).unwrap();
        log.checkpoint().unwrap();
    }
    drop(log);
    put_back(&place, &place.reader().checkpoints().unwrap().0[0]);
    change(&place, 9);
    goes_on(&place);
    assert_eq!(unproved(&place), [Unproved { index: 206, entries: 5..205 }]);
}

/// Puts an older checkpoint in the place of the newest, and cuts all behind it off.
fn put_back(place: &Place, older: &SignedCheckpoint) {
    for (name, text) in [("checkpoint", older.to_string()), ("checkpoints", format!("--\n{older}"))] {
        fs::write(place.log().join(name), text).unwrap();
    }
}

/// Rewrites the entries from a place on, with that time.
fn rewrite(place: &Place, from: usize, at: i64) {
    let mut frames = place.frames(0);
    for bytes in &mut frames[from..] {
        let mut entry: serde_json::Value = serde_json::from_slice(&bytes[8..]).unwrap();
        (entry["at"], entry["body"]) = (at.into(), json!({ "number": 7 }));
        *bytes = frame(Body::of(&entry).unwrap().as_str().as_bytes());
    }
    place.put_frames(0, &frames);
}

#[test]
fn entries_that_were_rewritten_with_a_time_that_is_yet_to_come_are_told() {
    let place = signed(300);
    let (older, newest) = (place.reader().checkpoints().unwrap().0, place.reader().checkpoint().unwrap());
    remove(&place, &["tile", "frontier"]);
    put_back(&place, &older[0]);
    let young = place.copy();
    rewrite(&place, 100, now() + 3_600_000);
    goes_on(&place);
    let report = place.verify().unwrap();
    let told =
        report.late.iter().map(|late| &late.entries).chain(report.unproved.iter().map(|told| &told.entries));
    assert_eq!(told.collect::<Vec<_>>(), [&(100..300)]);
    // Entries that are as young as others may be about to sign: fewer than 256 of them show only against what others have kept.
    rewrite(&young, 100, now());
    goes_on(&young);
    let report = young.verify().unwrap();
    assert_eq!((report.late, report.unproved), (vec![], vec![]));
    let trust = Trust { key: Some(young.verifier()), kept: newest.into_iter().collect(), ..Trust::default() };
    let found = verify(&young.reader(), &trust);
    assert!(matches!(found, Err(VerifyError::Rewritten { size: 300 })), "{found:?}");
}

#[test]
fn entries_that_change_under_a_process_that_has_seen_them_are_told() {
    for (signs, covers) in [(true, 0), (false, 3)] {
        let place = signed(3);
        let older = place.reader().checkpoint().unwrap().unwrap();
        let mut log = place.open();
        log.append(&drafts(4)).unwrap();
        if signs {
            log.checkpoint().unwrap();
        }
        put_back(&place, &older);
        rewrite(&place, 3, now());
        // The process reads anew what it believes that another one has replaced.
        fs::write(place.log().join("lock"), 77_u64.to_le_bytes()).unwrap();
        log.append(&drafts(1)).unwrap();
        log.checkpoint().unwrap();
        let gone = json!({ "file": "entries", "covers": covers, "unsigned": 7 - covers });
        assert_eq!(bodies(&place, "recovered"), [gone]);
        assert_eq!(unproved(&place), [Unproved { index: 7, entries: covers..7 }]);
        log.append(&drafts(1)).unwrap();
        log.checkpoint().unwrap();
        assert_eq!(unproved(&place).len(), 1, "it is told once");
    }
}

#[test]
fn what_others_did_to_the_files_in_order_is_no_finding() {
    let place = Place::new();
    let options = || backstop_trail::Options { segment_bytes: 1, ..place.options() };
    let (mut log, mut other) = (Log::open(options()).unwrap(), Log::open(options()).unwrap());
    log.append(&drafts(300)).unwrap();
    other.prune(200, 5, "test", "ann", |index, _| index % 3 == 0).unwrap();
    log.append(&drafts(300)).unwrap();
    // Many tiles and segments behind what the other one has seen.
    for _ in 0..9 {
        log.append(&drafts(100)).unwrap();
    }
    other.append(&drafts(1)).unwrap();
    other.rotate(5, "ann").unwrap();
    log.append(&drafts(1)).unwrap();
    log.checkpoint().unwrap();
    assert_eq!(bodies(&place, "recovered"), Vec::<serde_json::Value>::new());
    assert_eq!(unproved(&place), []);
}

#[test]
fn what_a_process_wrote_itself_and_signs_late_is_no_finding() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&aged(2, 120_000)).unwrap();
    log.append(&aged(2, 120_000)).unwrap();
    log.checkpoint().unwrap();
    log.append(&aged(2, 120_000)).unwrap();
    log.checkpoint().unwrap();
    assert_eq!(unproved(&place), []);
}

#[test]
fn a_log_that_becomes_shorter_under_a_process_is_told() {
    let place = signed(3);
    let mut log = place.open();
    log.append(&drafts(4)).unwrap();
    let frames = place.frames(0);
    place.put_frames(0, &frames[..5]);
    log.append(&drafts(1)).unwrap();
    log.checkpoint().unwrap();
    // The first three are what the process had found, and what is left behind them may be something else than was there.
    let gone = json!({ "file": "entries", "covers": 3, "unsigned": 4 });
    assert_eq!(bodies(&place, "recovered"), [gone]);
    assert_eq!(unproved(&place), [Unproved { index: 5, entries: 3..5 }]);
    log.append(&drafts(1)).unwrap();
    log.checkpoint().unwrap();
    assert_eq!(unproved(&place).len(), 1, "it is told once");
}

#[test]
fn bytes_that_can_t_be_told_from_entries_are_not_lost_in_silence() {
    let place = signed(3);
    place.open().append(&drafts(2)).unwrap();
    let mut frames = place.frames(0);
    // Each of these may begin an entry of 80 KB.
    frames[4] = [0xff, 0x3f, 1, 0, 0xaa, 0xaa, 0xaa, 0xaa].repeat(15_000);
    place.put_frames(0, &frames);
    goes_on(&place);
    let told = bodies(&place, "recovered");
    assert_eq!((told.len(), &told[0]["covers"], &told[0]["unsigned"]), (1, &json!(4), &json!(1)));
    assert_eq!(unproved(&place), [Unproved { index: 4, entries: 4..5 }]);
}

#[test]
fn a_checkpoint_that_none_of_our_keys_signed_stops_no_signing() {
    let place = signed(300);
    let foreign = SigningKey::open(&place.path().join("foreign")).unwrap();
    let origin = place.reader().origin().unwrap().unwrap();
    let huge = Checkpoint { origin: origin.clone(), size: u64::MAX, root: [7; 32] };
    let mut unsigned = huge.clone().signed(&[&foreign]).to_string();
    let line = unsigned.rfind("— ").unwrap();
    unsigned.truncate(line);
    unsigned.push_str(&format!("— {origin} AAAA{}=\n", "A".repeat(87)));
    for forged in [huge.signed(&[&foreign]).to_string(), unsigned] {
        let copy = place.copy();
        fs::write(copy.log().join("checkpoint"), &forged).unwrap();
        let found = copy.verify();
        assert!(matches!(found, Err(VerifyError::Signature { size: u64::MAX })), "{found:?}");
        let mut log = copy.open();
        log.append(&drafts(300)).unwrap();
        drop(log);
        let told = bodies(&copy, "recovered");
        assert_eq!(
            (told.len(), &told[0]["file"], &told[0]["covers"]),
            (1, &json!("checkpoint"), &json!(300))
        );
        let kept = copy.log().join("damaged").join(told[0]["kept"].as_str().unwrap());
        assert_eq!(fs::read_to_string(kept).unwrap(), forged);
        assert_eq!((copy.verify().unwrap().covered, unproved(&copy)), (601, vec![]));
    }
}

#[test]
fn a_checkpoint_of_a_key_that_was_replaced_covers_nothing() {
    let place = signed(3);
    let first = SigningKey::open(&place.key()).unwrap();
    place.open().append(&aged(2, 120_000)).unwrap();
    place.open().checkpoint().unwrap();
    place.open().rotate(5, "ann").unwrap();
    assert_eq!(bodies(&place, "recovered").len(), 0);
    let newest = place.reader().checkpoint().unwrap().unwrap().checkpoint().clone();
    let forged = Checkpoint { size: newest.size + 1, ..newest.clone() }.signed(&[&first]);
    let copy = place.copy();
    fs::write(copy.log().join("checkpoint"), forged.to_string()).unwrap();
    goes_on(&copy);
    assert_eq!(bodies(&copy, "recovered"), [json!({ "file": "checkpoint", "covers": newest.size })]);
    assert_eq!(unproved(&copy), []);
    // Where it is the only one, as a crash may leave it, or whoever has that key by now.
    for last in [newest.clone().signed(&[&first]), place.reader().checkpoints().unwrap().0[1].clone()] {
        let copy = place.copy();
        put_back(&copy, &last);
        goes_on(&copy);
        assert_eq!(unproved(&copy), [Unproved { index: newest.size + 1, entries: 0..newest.size }]);
    }
    place.open().rotate(6, "ann").unwrap();
    fs::write(place.log().join("checkpoint"), forged.to_string()).unwrap();
    goes_on(&place);
    assert_eq!(bodies(&place, "recovered").len(), 1, "a key before that one is nobody's");
}

#[test]
fn a_false_name_is_not_believed_because_a_checkpoint_is_gone() {
    let place = signed(3);
    let name = place.reader().origin().unwrap().unwrap();
    fs::write(place.log().join("origin"), "other/log\n").unwrap();
    let foreign = SigningKey::open(&place.path().join("foreign")).unwrap();
    let forged = Checkpoint { origin: "other/log".to_owned(), size: 3, root: [7; 32] }.signed(&[&foreign]);
    for checkpoint in [None, Some(forged.to_string())] {
        let copy = place.copy();
        remove(&copy, &["checkpoint"]);
        checkpoint.into_iter().for_each(|note| fs::write(copy.log().join("checkpoint"), note).unwrap());
        assert_eq!(copy.open().origin(), name);
        goes_on(&copy);
        assert_eq!(bodies(&copy, "recovered").iter().filter(|told| told["file"] == "origin").count(), 1);
        copy.verify().unwrap();
    }
}

#[test]
fn whoever_only_opens_the_log_tells_what_was_put_aside() {
    let place = signed(3);
    fs::write(place.log().join("origin"), "x y").unwrap();
    place.open().probe().unwrap();
    assert_eq!(bodies(&place, "recovered").len(), 1);
}

#[test]
fn whole_entries_behind_a_damaged_one_are_kept_and_told() {
    let place = Place::new();
    place.open().append(&drafts(9)).unwrap();
    let sound = fs::read(place.segment(0)).unwrap();
    let ends: Vec<usize> = place
        .frames(0)
        .iter()
        .scan(0, |end, frame| {
            *end += frame.len();
            Some(*end)
        })
        .collect();
    for at in (0..ends[7]).step_by(7) {
        let broken = place.copy();
        let mut bytes = sound.clone();
        bytes[at] ^= 0x41;
        fs::write(broken.segment(0), &bytes).unwrap();
        let bad = ends.iter().filter(|end| **end <= at).count();
        let found = broken.verify();
        assert!(
            matches!(found, Err(VerifyError::Entry { index, why: Wrong::Unreadable }) if index == bad as u64),
            "{at}: {found:?}"
        );
        goes_on(&broken);
        let mut expected: Vec<String> = (0..9).filter(|n| *n != bad).map(|n| n.to_string()).collect();
        expected.extend(["recovered".to_owned(), "1".to_owned()]);
        assert_eq!(told(&broken.reader()), expected, "byte {at}");
        let recovered = &bodies(&broken, "recovered")[0];
        let kept = broken.log().join("damaged").join(recovered["kept"].as_str().unwrap());
        assert_eq!(fs::read(kept).unwrap(), bytes, "nothing is destroyed");
        let report = broken.verify().unwrap();
        assert_eq!((report.missing, report.torn), (1, false));
        assert_eq!(report.unproved, [Unproved { index: 8, entries: bad as u64..8 }]);
    }
}

#[test]
fn a_damaged_entry_that_a_tile_knows_leaves_all_others_their_numbers_and_proofs() {
    let place = signed(300);
    let (proof, root) = (place.reader().prove(250).unwrap(), place.reader().root(300).unwrap());
    let mut frames = place.frames(0);
    for bad in [100, 101] {
        frames[bad][20] ^= 1;
    }
    place.put_frames(0, &frames);
    remove(&place, &["frontier"]);
    goes_on(&place);
    let found = told(&place.reader());
    assert_eq!((found[99].as_str(), found[100].as_str(), found[101].as_str()), ("99", "pruned", "pruned"));
    assert_eq!((found[102].as_str(), found[300].as_str()), ("102", "recovered"));
    assert_eq!(place.reader().root(300).unwrap(), root);
    assert_eq!(place.reader().prove(250).unwrap().entry, proof.entry);
    let found = place.verify();
    assert!(matches!(found, Err(VerifyError::Entry { index: 100, why: Wrong::Untold })), "{found:?}");
}

#[test]
fn a_tile_that_is_not_what_the_entries_make_is_kept_and_told() {
    let place = signed(300);
    let tile = fs::read(place.log().join("tile/0/000")).unwrap();
    change(&place, 5);
    remove(&place, &["frontier"]);
    goes_on(&place);
    let told = bodies(&place, "recovered");
    assert_eq!(told[0]["file"], "tile/0/0");
    let kept = place.log().join("damaged").join(told[0]["kept"].as_str().unwrap());
    assert_eq!(fs::read(kept).unwrap(), tile);
}

#[test]
fn a_missing_segment_is_passed_over_by_no_reader() {
    let place = Place::new();
    let mut options = place.options();
    options.segment_bytes = 1;
    Log::open(options).unwrap().append(&drafts(700)).unwrap();
    for gone in [0, 256] {
        let broken = place.copy();
        fs::remove_file(broken.segment(gone)).unwrap();
        let mut shown = Vec::new();
        let scanned = broken.reader().scan(0, |index, _| {
            shown.push(index);
            ControlFlow::Continue(())
        });
        assert!(matches!(scanned, Err(TrailError::Damaged { .. })), "{gone}: {scanned:?}");
        assert_eq!(shown, (0..gone).collect::<Vec<_>>());
        let scanned = broken.reader().scan(600, |_, _| ControlFlow::Continue(()));
        assert_eq!(scanned.unwrap(), 700, "what is there is shown");
    }
}
