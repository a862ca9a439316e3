use std::fs;

use backstop_trail::{Body, Draft, SignedCheckpoint, SigningKey, Trust, VerifyError, Wrong, now, verify};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Place, bodies, drafts, frame};

/// A log of two full tiles and a half, with a checkpoint of all.
fn log() -> Place {
    let place = Place::new();
    let mut log = place.open();
    for group in drafts(640).chunks(50) {
        log.append(group).unwrap();
    }
    log.checkpoint().unwrap();
    place
}

fn wrong(found: Result<backstop_trail::Report, VerifyError>) -> u64 {
    match found {
        Err(VerifyError::Entry { index, .. }) => index,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_log_that_nobody_touched_is_whole() {
    let report = log().verify().unwrap();
    assert_eq!((report.size, report.covered, report.missing, report.pruned), (640, 640, 0, 0));
    assert_eq!((report.witnessed, report.wrong_tiles, report.torn), (None, 0, false));
    assert!(report.processes.is_empty() && report.backwards.is_empty() && report.recovered.is_empty());
}

#[test]
fn the_first_wrong_entry_is_named() {
    let place = log();
    let frames = place.frames(0);
    let changed = |at: usize| {
        let entry = String::from_utf8(frames[at][8..].to_vec()).unwrap();
        let mut all = frames.clone();
        all[at] = frame(entry.replace("\"number\":", "\"numbers\":").as_bytes());
        all
    };
    let removed = |at: usize| {
        let mut all = frames.clone();
        all.remove(at);
        all
    };
    let doubled = |at: usize| {
        let mut all = frames.clone();
        all.insert(at + 1, frames[at].clone());
        all
    };
    let swapped = |at: usize| {
        let mut all = frames.clone();
        all.swap(at, at + 1);
        all
    };
    let alien = |at: usize| {
        let entry = String::from_utf8(frames[at][8..].to_vec()).unwrap();
        let mut all = frames.clone();
        all.insert(at, frame(entry.replace("\"process\":\"", "\"process\":\"x").as_bytes()));
        all
    };
    for at in [0_usize, 7, 255, 256, 300, 511] {
        for (what, all, first) in [
            ("changed", changed(at), at),
            ("removed", removed(at), at),
            ("doubled", doubled(at), at + 1),
            ("swapped", swapped(at), at),
            ("put in", alien(at), at),
        ] {
            let broken = place.copy();
            broken.put_frames(0, &all);
            assert_eq!(wrong(broken.verify()), first as u64, "{what} at {at}");
        }
    }
}

#[test]
fn what_no_tile_has_yet_is_found_between_checkpoints() {
    let place = log();
    let mut frames = place.frames(0);
    let entry = String::from_utf8(frames[600][8..].to_vec()).unwrap();
    frames[600] = frame(entry.replace("\"number\":", "\"numbers\":").as_bytes());
    place.put_frames(0, &frames);
    match place.verify() {
        Err(VerifyError::Between { from, through }) => {
            assert!(from <= 600 && through >= 600, "{from} {through}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cut_off_end_shows_against_the_logs_own_checkpoint_and_against_a_kept_one() {
    let place = log();
    let kept = place.reader().checkpoint().unwrap().unwrap();
    place.put_frames(0, &place.frames(0)[..600]);
    assert!(matches!(place.verify(), Err(VerifyError::CutOff { size: 600, known: 640 })));
    // Whoever cuts the checkpoints off as well has an older log, which is sound in itself.
    let older: Vec<SignedCheckpoint> = place.reader().checkpoints().unwrap().0;
    let older: Vec<_> = older.iter().filter(|note| note.checkpoint().size <= 600).collect();
    let text = older.iter().map(|note| format!("--\n{note}")).collect::<String>();
    fs::write(place.log().join("checkpoints"), text).unwrap();
    fs::write(place.log().join("checkpoint"), older.last().unwrap().to_string()).unwrap();
    assert_eq!(place.verify().unwrap().witnessed, None);
    let trust = Trust { key: Some(place.verifier()), kept: vec![kept], ..Trust::default() };
    let found = verify(&place.reader(), &trust);
    assert!(matches!(found, Err(VerifyError::CutOff { size: 600, known: 640 })), "{found:?}");
}

#[test]
fn a_log_that_was_written_anew_shows_against_a_kept_checkpoint_only() {
    let place = log();
    let kept = place.reader().checkpoint().unwrap().unwrap();
    let origin = place.reader().origin().unwrap().unwrap();
    fs::remove_dir_all(place.log()).unwrap();
    fs::create_dir_all(place.log()).unwrap();
    fs::write(place.log().join("origin"), origin).unwrap();
    let mut other = drafts(700);
    other.remove(3);
    place.open().append(&other).unwrap();
    place.open().checkpoint().unwrap();
    assert_eq!(place.verify().unwrap().size, 699);
    let trust = Trust { key: Some(place.verifier()), kept: vec![kept], ..Trust::default() };
    let found = verify(&place.reader(), &trust);
    assert!(matches!(found, Err(VerifyError::Rewritten { size: 640 })), "{found:?}");
}

#[test]
fn a_checkpoint_of_another_key_or_another_log_is_none() {
    let (place, other) = (log(), log());
    let trust = Trust { key: Some(other.verifier()), ..Trust::default() };
    let found = verify(&place.reader(), &trust);
    assert!(matches!(found, Err(VerifyError::Signature { .. })), "{found:?}");
    let kept = vec![other.reader().checkpoint().unwrap().unwrap()];
    let found = verify(&place.reader(), &Trust { kept, ..Trust::default() });
    assert!(matches!(found, Err(VerifyError::OtherLog { .. })), "{found:?}");
}

#[test]
fn a_missing_segment_is_found() {
    let place = Place::new();
    let mut options = place.options();
    options.segment_bytes = 1;
    backstop_trail::Log::open(options).unwrap().append(&drafts(700)).unwrap();
    place.open().checkpoint().unwrap();
    assert_eq!(place.verify().unwrap().size, 700);
    fs::remove_file(place.segment(256)).unwrap();
    let found = place.verify();
    assert!(matches!(found, Err(VerifyError::Entry { index: 256, why: Wrong::Missing })), "{found:?}");
}

#[test]
fn an_entry_that_is_gone_without_a_tombstone_is_found() {
    let place = log();
    take_away(&place, 9);
    let found = place.verify();
    assert!(matches!(found, Err(VerifyError::Entry { index: 9, why: Wrong::Untold })), "{found:?}");
}

/// Replaces an entry by its hash, as pruning does.
fn take_away(place: &Place, at: usize) {
    let mut frames = place.frames(0);
    let leaf = backstop_trail::merkle::leaf_hash(&frames[at][8..]);
    let length = (32_u32 | 1 << 31).to_le_bytes();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(&leaf);
    frames[at] = [&length[..], &hasher.finalize().to_le_bytes(), &leaf].concat();
    place.put_frames(0, &frames);
}

#[test]
fn a_tombstone_that_no_key_of_the_log_signed_takes_nothing_away() {
    let signed = |place: &Place| bodies(place, "tombstone").remove(0)["signature"].clone();
    let pruned = |place: &Place| place.open().prune(1, 5, "test", "ann", |_, _| false).unwrap();
    // Those of another tombstone of this log, and of the same one of another log.
    let (same, other) = (Place::new(), Place::new());
    for place in [&same, &other] {
        place.open().append(&drafts(20)).unwrap();
    }
    pruned(&same);
    other.open().prune(10, 5, "test", "ann", |index, _| index != 9).unwrap();
    for signature in [None, Some(json!("AAAA")), Some(signed(&same)), Some(signed(&other))] {
        let place = same.copy();
        let mut body =
            json!({ "policy": "test", "by": "ann", "count": 1, "ranges": [{ "start": 9, "end": 10 }] });
        signature.into_iter().for_each(|signature| body["signature"] = signature);
        let forged = Draft::new(now(), "tombstone", Body::of(&body).unwrap()).sealed("p", 1).unwrap();
        let mut frames = place.frames(0);
        let index = frames.len() as u64;
        frames.push(frame(&forged));
        place.put_frames(0, &frames);
        place.open().append(&drafts(1)).unwrap();
        place.open().checkpoint().unwrap();
        take_away(&place, 9);
        let found = place.verify();
        let is_found =
            matches!(found, Err(VerifyError::Entry { index: i, why: Wrong::FalseTombstone }) if i == index);
        assert!(is_found, "{found:?}");
    }
}

/// Adds a tombstone for an entry that this key has signed, as whoever has the key and can write the file does. Returns its place.
fn bury(place: &Place, key: &SigningKey, at: u64) -> u64 {
    let origin = place.reader().origin().unwrap().unwrap();
    let mut body =
        json!({ "policy": "test", "by": "ann", "count": 1, "ranges": [{ "start": at, "end": at + 1 }] });
    let text = format!("backstop trail tombstone\n{origin}\n{}\n", Body::of(&body).unwrap().as_str());
    body["signature"] = BASE64.encode(key.sign(&text)).into();
    let entry = Draft::new(now(), "tombstone", Body::of(&body).unwrap()).sealed("p", 1).unwrap();
    let mut frames = place.frames(0);
    frames.push(frame(&entry));
    place.put_frames(0, &frames);
    frames.len() as u64 - 1
}

#[test]
fn a_key_that_was_replaced_takes_nothing_away() {
    let place = Place::new();
    place.open().append(&drafts(20)).unwrap();
    place.open().checkpoint().unwrap();
    let old = SigningKey::open(&place.key()).unwrap();
    // While it signs, it does.
    let sound = place.copy();
    bury(&sound, &old, 9);
    sound.open().checkpoint().unwrap();
    sound.open().rotate(5, "ann").unwrap();
    take_away(&sound, 9);
    assert_eq!(sound.verify().unwrap().pruned, 1);
    place.open().rotate(5, "ann").unwrap();
    let index = bury(&place, &old, 9);
    place.open().append(&drafts(1)).unwrap();
    place.open().checkpoint().unwrap();
    take_away(&place, 9);
    let found = place.verify();
    let is_found =
        matches!(found, Err(VerifyError::Entry { index: i, why: Wrong::FalseTombstone }) if i == index);
    assert!(is_found, "{found:?}");
}

#[test]
fn what_only_a_key_signed_that_was_replaced_is_not_proved() {
    let place = Place::new();
    place.open().append(&drafts(20)).unwrap();
    let before = place.open().checkpoint().unwrap();
    let old = SigningKey::open(&place.key()).unwrap();
    let rotated = place.open().rotate(5, "ann").unwrap();
    assert_eq!(place.verify().unwrap().covered, 21);
    // Whoever has it signs what they like, and removes what the next one has signed.
    let forged = rotated.checkpoint.checkpoint().clone().signed(&[&old]);
    for note in [before, forged] {
        let place = place.copy();
        for (name, text) in [("checkpoint", note.to_string()), ("checkpoints", format!("--\n{note}"))] {
            fs::write(place.log().join(name), text).unwrap();
        }
        assert_eq!(place.verify().unwrap().covered, 0);
        let trust = Trust { key: old.verifier(&note.checkpoint().origin), ..Trust::default() };
        let covered = verify(&place.reader(), &trust).unwrap().covered;
        assert_eq!(covered, note.checkpoint().size, "that key is trusted");
    }
}

#[test]
fn a_tombstone_counts_by_the_key_that_signed_at_its_place() {
    let place = Place::new();
    place.open().append(&drafts(20)).unwrap();
    for end in [2, 4, 6] {
        place.open().prune(end, 5, "test", "ann", |_, _| false).unwrap();
        assert_eq!(place.verify().unwrap().pruned, end);
        place.open().rotate(5, "ann").unwrap();
        assert_eq!(place.verify().unwrap().pruned, end);
    }
}

#[test]
fn a_wrong_tile_is_told_and_is_no_wrong_entry() {
    let place = log();
    let tile = place.log().join("tile/0/001");
    let mut bytes = fs::read(&tile).unwrap();
    bytes[77] ^= 1;
    fs::write(&tile, bytes).unwrap();
    assert_eq!(place.verify().unwrap().wrong_tiles, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_changed_byte_is_found(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let place = Place::new();
        let mut log = place.open();
        log.append(&drafts(300)).unwrap();
        log.checkpoint().unwrap();
        let frames = place.frames(0);
        let mut bytes = frames.concat();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        fs::write(place.segment(0), bytes).unwrap();
        let mut end = 0;
        let entry = frames.iter().take_while(|frame| { end += frame.len(); end <= at }).count() as u64;
        prop_assert_eq!(wrong(place.verify()), entry);
    }
}
