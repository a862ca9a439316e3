//! Entries that a killed process left without a checkpoint: they come under a signature, and it is told.

use std::fs;
use std::io::{BufRead as _, BufReader};

use backstop_trail::{Draft, Late, Log, Report, Trust, Unproved, VerifyError, now, verify};
use serde_json::json;

use crate::faults::child;
use crate::support::{Place, bodies, draft, drafts, frame};

/// Entries of two minutes ago: another process should have signed them by now.
fn old(count: u64) -> Vec<Draft> {
    drafts(count).into_iter().map(|draft| Draft { at: now() - 120_000, ..draft }).collect()
}

/// What the next process does.
fn goes_on(place: &Place) {
    let mut log = place.open();
    log.append(&[draft(1)]).unwrap();
    log.checkpoint().unwrap();
}

fn found(report: &Report) -> Vec<(u64, std::ops::Range<u64>)> {
    report.late.iter().map(|late| (late.index, late.entries.clone())).collect()
}

/// Changes an entry, as whoever can write the file does.
fn change(place: &Place, at: usize) {
    let mut frames = place.frames(0);
    let entry = String::from_utf8(frames[at][8..].to_vec()).unwrap();
    frames[at] = frame(entry.replace("\"number\":", "\"numbers\":").as_bytes());
    place.put_frames(0, &frames);
}

/// A log with three signed entries, and such that a process left which was killed with them.
fn left(entries: &[Draft]) -> Place {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    log.checkpoint().unwrap();
    // Nothing of this log is done when it goes, as when its process is killed.
    place.open().append(entries).unwrap();
    place
}

#[test]
fn what_a_killed_process_left_unsigned_is_signed_by_the_next_and_told() {
    let place = Place::new();
    for round in 0..3 {
        let mut running = child("leaves", &place).spawn().unwrap();
        let lines = BufReader::new(running.stdout.take().unwrap()).lines();
        let left =
            lines.map_while(Result::ok).find_map(|line| line.split_once("left ").map(|l| l.1.to_owned()));
        running.kill().unwrap();
        running.wait().unwrap();
        let process = left.unwrap();
        let before = place.verify().unwrap();
        assert!(before.size >= before.covered + 6 && before.late.len() == round, "{before:?}");
        goes_on(&place);
        let report = place.verify().unwrap();
        assert_eq!((report.size, report.unproved.as_slice()), (report.covered, [].as_slice()));
        let [.., Late { index, entries, processes, others }] = report.late.as_slice() else {
            panic!("it is told: {report:?}")
        };
        assert_eq!((report.late.len(), entries), (round + 1, &(before.covered..before.size)));
        assert!(*index >= before.size && processes.as_slice() == [process] && *others == 0);
        let told = bodies(&place, "unsigned").pop().unwrap();
        assert_eq!(
            told["note"],
            "nothing proves that they were not changed between their append and this entry"
        );
        assert_eq!(told["processes"][0]["entries"], before.size - before.covered);
        goes_on(&place);
        assert_eq!(place.verify().unwrap().late.len(), round + 1, "it is told once");
    }
    // From its checkpoint on they are proved as all others.
    for index in 0..place.verify().unwrap().size {
        let changed = place.copy();
        let mut frames = changed.frames(0);
        let entry = String::from_utf8(frames[index as usize][8..].to_vec()).unwrap();
        frames[index as usize] = frame(entry.replacen("\"at\":1", "\"at\":2", 1).as_bytes());
        changed.put_frames(0, &frames);
        assert!(changed.verify().is_err(), "entry {index}");
    }
}

#[test]
fn a_process_that_runs_signs_what_another_one_left() {
    let place = Place::new();
    let mut runs = place.open();
    runs.append(&drafts(3)).unwrap();
    runs.checkpoint().unwrap();
    place.open().append(&old(4)).unwrap();
    runs.checkpoint().unwrap();
    let report = place.verify().unwrap();
    assert_eq!((found(&report), report.covered), (vec![(7, 3..7)], 8));
}

#[test]
fn an_end_that_was_cut_at_any_byte_is_signed_and_told() {
    let place = left(&old(3));
    let bytes = fs::read(place.segment(0)).unwrap();
    let mut ends = vec![0];
    place.frames(0).iter().for_each(|frame| ends.push(ends[ends.len() - 1] + frame.len()));
    for cut in 0..=bytes.len() {
        let broken = place.copy();
        fs::write(broken.segment(0), &bytes[..cut]).unwrap();
        goes_on(&broken);
        let verified = broken.verify();
        if cut < ends[3] {
            assert!(verified.is_err(), "{cut}: a checkpoint covers it: {verified:?}");
            continue;
        }
        let report = verified.unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count() as u64 - 1;
        let torn = u64::from(!ends.contains(&cut));
        let expected = if whole > 3 { vec![(whole + torn + 1, 3..whole)] } else { vec![] };
        assert_eq!((found(&report), report.unproved.as_slice()), (expected, [].as_slice()), "cut at {cut}");
        assert_eq!((report.recovered.len() as u64, report.covered), (torn, report.size), "cut at {cut}");
    }
}

#[test]
fn what_no_kill_leaves_is_told_as_damage() {
    let at = |seconds: i64| Draft { at: now() - 300_000 + seconds * 1000, ..draft(1) };
    let stop = |draft: Draft| Draft { kind: "stop".to_owned(), ..draft };
    let a_minute_apart = vec![at(0), at(60), at(61)];
    let in_order = vec![at(0), stop(at(1))];
    let many = (0..5000).map(|_| at(0)).collect();
    for (what, entries) in [("a minute apart", a_minute_apart), ("ended in order", in_order), ("many", many)]
    {
        let place = left(&entries);
        fs::write(place.log().join("checkpoint"), place.reader().checkpoints().unwrap().0[0].to_string())
            .unwrap();
        let first = fs::read_to_string(place.log().join("checkpoint")).unwrap();
        fs::write(place.log().join("checkpoints"), format!("--\n{first}")).unwrap();
        goes_on(&place);
        let report = place.verify().unwrap();
        let end = 3 + entries.len() as u64;
        assert_eq!((found(&report), report.unproved.len()), (vec![], 1), "{what}");
        assert_eq!(report.unproved[0].entries, 3..end, "{what}");
    }
}

#[test]
fn behind_255_entries_only_one_group_of_one_process_may_stand() {
    for (groups, is_left) in [(vec![255, 3000], true), (vec![200, 56, 100], false)] {
        let place = left(&[]);
        let signed =
            ["checkpoint", "checkpoints"].map(|name| (name, fs::read(place.log().join(name)).unwrap()));
        for group in groups {
            place.open().append(&drafts(group)).unwrap();
        }
        signed.iter().for_each(|(name, bytes)| fs::write(place.log().join(name), bytes).unwrap());
        goes_on(&place);
        let report = place.verify().unwrap();
        assert_eq!((report.late.len(), report.unproved.len()), (usize::from(is_left), usize::from(!is_left)));
    }
}

#[test]
fn a_damaged_checkpoint_is_left_by_no_kill() {
    let place = left(&old(3));
    fs::write(place.log().join("checkpoint"), "x").unwrap();
    goes_on(&place);
    let report = place.verify().unwrap();
    assert_eq!((found(&report), report.unproved.len()), (vec![], 1));
}

#[test]
fn a_checkpoint_that_only_the_file_of_all_has_is_put_back_and_the_rest_is_told() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    let first = log.checkpoint().unwrap();
    log.append(&drafts(2)).unwrap();
    log.checkpoint().unwrap();
    place.open().append(&old(2)).unwrap();
    // A kill between the two files.
    fs::write(place.log().join("checkpoint"), first.to_string()).unwrap();
    goes_on(&place);
    let report = place.verify().unwrap();
    assert_eq!(bodies(&place, "recovered"), [json!({ "file": "checkpoint", "covers": 5 })]);
    assert_eq!((found(&report), report.unproved), (vec![(9, 5..7)], vec![]));
}

#[test]
fn entries_that_were_changed_before_they_were_signed_show_only_against_a_witness() {
    let place = left(&old(3));
    let head = place.reader().extent().unwrap();
    let sound = place.copy();
    change(&place, 4);
    goes_on(&place);
    goes_on(&sound);
    // The log alone can't tell them apart, and says so of both.
    for place in [&place, &sound] {
        assert_eq!(found(&place.verify().unwrap()), [(7, 3..6)]);
    }
    let trust = |place: &Place| Trust { key: Some(place.verifier()), heads: vec![head], ..Trust::default() };
    let known = verify(&place.reader(), &trust(&place));
    assert!(matches!(known, Err(VerifyError::Rewritten { size: 6 })), "{known:?}");
    assert_eq!(verify(&sound.reader(), &trust(&sound)).unwrap().late, []);
}

#[test]
fn a_root_that_is_not_that_of_the_entries_before_proves_nothing() {
    let place = left(&old(3));
    goes_on(&place);
    // Changed behind the telling, and signed by whoever has the key: every checkpoint is made anew.
    let told = place.frames(0);
    let forged = Place::new();
    fs::copy(place.key(), forged.key()).unwrap();
    for file in ["origin", "lock"] {
        fs::create_dir_all(forged.log().join("entries")).unwrap();
        fs::copy(place.log().join(file), forged.log().join(file)).unwrap();
    }
    forged.put_frames(0, &told);
    change(&forged, 4);
    Log::open(forged.options()).unwrap().checkpoint().unwrap();
    let report = forged.verify().unwrap();
    assert_eq!(found(&report), []);
    assert!(report.unproved.contains(&Unproved { index: 7, entries: 3..6 }), "{report:?}");
}

#[test]
fn what_tells_of_them_is_never_pruned() {
    let place = left(&old(3));
    goes_on(&place);
    let size = place.reader().size().unwrap();
    place.open().prune(size, now(), "age", "ann", |_, _| false).unwrap();
    assert_eq!(bodies(&place, "unsigned").len(), 1);
    assert_eq!(found(&place.verify().unwrap()), [(7, 3..6)]);
}

#[test]
fn where_nothing_was_ever_signed_the_first_append_of_the_next_process_signs() {
    let place = Place::new();
    place.open().append(&old(2)).unwrap();
    assert_eq!(place.verify().unwrap().covered, 0);
    place.open().append(&drafts(1)).unwrap();
    let report = place.verify().unwrap();
    assert_eq!((found(&report), report.covered), (vec![(3, 0..2)], 4));
}

#[test]
fn a_writer_counts_what_it_signed_late() {
    let place = left(&old(3));
    let writer = backstop_trail::Writer::new(place.options());
    assert_eq!(writer.late(), 0);
    // What the first one signs is counted before the next job.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(writer.checkpoint()).unwrap();
    runtime.block_on(writer.checkpoint()).unwrap();
    writer.append(drafts(1), true).unwrap().wait().unwrap();
    assert_eq!(writer.late(), 3);
}
