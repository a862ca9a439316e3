use std::fs;
use std::ops::ControlFlow;

use backstop_trail::{Frame, Log, Reader, TrailError};
use proptest::prelude::*;

use crate::support::{Place, draft, drafts};

/// A log of several segments, and what it is opened with.
fn long(count: u64) -> Place {
    let place = Place::new();
    let mut options = place.options();
    options.segment_bytes = 30_000;
    let mut log = Log::open(options).unwrap();
    for n in 0..count {
        log.append(&[draft(n)]).unwrap();
    }
    place
}

fn seen(frame: &Frame<'_>) -> Vec<u8> {
    frame.entry().map_or_else(|| frame.leaf().to_vec(), <[u8]>::to_vec)
}

fn forwards(log: &Reader) -> Vec<(u64, Vec<u8>)> {
    forwards_from(log, 0)
}

fn forwards_from(log: &Reader, from: u64) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    log.scan(from, |index, frame| {
        all.push((index, seen(&frame)));
        ControlFlow::Continue(())
    })
    .unwrap();
    all
}

fn backwards(log: &Reader, before: u64) -> Result<Vec<(u64, Vec<u8>)>, TrailError> {
    let mut all = Vec::new();
    let reached = log.scan_back(before, |index, frame| {
        all.push((index, seen(&frame)));
        ControlFlow::Continue(())
    })?;
    assert_eq!(reached, all.last().map_or(0, |(index, _)| *index));
    all.reverse();
    Ok(all)
}

#[test]
fn backwards_is_forwards_the_other_way_round() {
    for count in [0, 1, 255, 256, 257, 1000] {
        let place = long(count);
        let all = forwards(&place.reader());
        assert_eq!(all.len() as u64, count);
        for before in [0, 1, 200, 256, 257, 511, 512, 513, 999, 1000, u64::MAX] {
            let expected = &all[..usize::try_from(before.min(count)).unwrap()];
            assert_eq!(backwards(&place.reader(), before).unwrap(), expected, "{count} before {before}");
        }
    }
}

#[test]
fn whoever_breaks_is_told_how_far_it_went_and_can_go_on_there() {
    let place = long(700);
    let (mut before, mut all) = (u64::MAX, Vec::new());
    while before > 0 {
        let mut left = 37;
        before = place
            .reader()
            .scan_back(before, |index, frame| {
                all.push((index, seen(&frame)));
                left -= 1;
                if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .unwrap();
    }
    all.reverse();
    assert_eq!(all, forwards(&place.reader()));
}

#[test]
fn without_places_or_with_wrong_ones_it_is_the_same() {
    let place = Place::new();
    let mut options = place.options();
    options.segment_bytes = 120_000;
    let mut log = Log::open(options).unwrap();
    for _ in 0..29 {
        log.append(&drafts(100)).unwrap();
    }
    let all = forwards(&place.reader());
    let firsts: Vec<u64> = (0..2900).filter(|first| place.segment(*first).exists()).collect();
    assert!(firsts.len() > 1);
    for first in [firsts[0], firsts[firsts.len() - 1]] {
        let path = place.log().join(format!("entries/{first:016}.places"));
        let sound = fs::read(&path).unwrap();
        assert!(sound.len() >= 16, "it has several rows");
        let shifted = [&sound[8..], &1_000_000_u64.to_le_bytes()].concat();
        let frames = place.frames(first);
        let within: usize = frames[..100].iter().map(Vec::len).sum();
        let added = [&(within as u64).to_le_bytes()[..], &sound].concat();
        let moved = [&(within as u64).to_le_bytes()[..], &sound[8..]].concat();
        let cut = sound[..8].to_vec();
        for wrong in [
            Vec::new(),
            vec![7; 3],
            vec![9; 64],
            sound[8..].to_vec(),
            cut,
            shifted,
            added,
            moved,
            vec![0; 16],
        ] {
            fs::write(&path, &wrong).unwrap();
            assert_eq!(backwards(&place.reader(), u64::MAX).unwrap(), all, "{first}: {wrong:?}");
            for from in [first + 1, first + 256, first + 300, 2_899] {
                let wanted: Vec<_> = all.iter().filter(|(index, _)| *index >= from).cloned().collect();
                assert_eq!(forwards_from(&place.reader(), from), wanted, "{first}, from {from}: {wrong:?}");
            }
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(backwards(&place.reader(), u64::MAX).unwrap(), all);
        fs::write(&path, sound).unwrap();
    }
    fs::remove_file(place.log().join("frontier")).unwrap();
    assert_eq!(backwards(&place.reader(), u64::MAX).unwrap(), all);
}

#[test]
fn what_was_pruned_keeps_its_number() {
    let place = long(800);
    let mut options = place.options();
    options.segment_bytes = 30_000;
    Log::open(options).unwrap().prune(600, 1, "test", "ann", |index, _| index % 7 == 0).unwrap();
    assert_eq!(backwards(&place.reader(), u64::MAX).unwrap(), forwards(&place.reader()));
}

#[test]
fn a_torn_end_hides_nothing_and_a_missing_segment_is_told() {
    let place = long(800);
    let all = forwards(&place.reader());
    let last = (0..800).rev().find(|first| place.segment(*first).exists()).unwrap();
    let mut bytes = fs::read(place.segment(last)).unwrap();
    bytes.extend_from_slice(&[1, 2, 3]);
    fs::write(place.segment(last), bytes).unwrap();
    assert_eq!(backwards(&place.reader(), u64::MAX).unwrap(), all);
    for gone in (0..last).filter(|first| place.segment(*first).exists()) {
        let broken = place.copy();
        fs::remove_file(broken.segment(gone)).unwrap();
        assert!(matches!(backwards(&broken.reader(), u64::MAX), Err(TrailError::Damaged { .. })), "{gone}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn of_a_log_that_was_cut_anywhere_whole_entries_are_shown(cut in any::<prop::sample::Index>()) {
        let place = Place::new();
        place.open().append(&drafts(300)).unwrap();
        let bytes = fs::read(place.segment(0)).unwrap();
        fs::write(place.segment(0), &bytes[..cut.index(bytes.len() + 1)]).unwrap();
        prop_assert_eq!(backwards(&place.reader(), u64::MAX).unwrap(), forwards(&place.reader()));
    }
}
