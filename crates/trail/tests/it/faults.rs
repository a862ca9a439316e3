use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use backstop_trail::{Body, Draft, Log, Options, VerifyError, now};

use crate::support::{Place, draft, drafts, told};

/// What the test binary is told to be when it is its own child.
const CHILD: &str = "BACKSTOP_TRAIL_TEST_CHILD";
/// How many groups are refused for want of room.
const REFUSED: u64 = 10;
/// How many have room afterwards.
const ROOM: u64 = 3;

#[test]
fn a_file_that_was_cut_at_any_byte_is_recovered_and_says_so() {
    let place = Place::new();
    place.open().append(&drafts(3)).unwrap();
    let frames = place.frames(0);
    let bytes = fs::read(place.segment(0)).unwrap();
    let mut ends = vec![0];
    frames.iter().for_each(|frame| ends.push(ends[ends.len() - 1] + frame.len()));
    for cut in 0..=bytes.len() {
        let broken = place.copy();
        fs::write(broken.segment(0), &bytes[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let mut log = broken.open();
        log.append(&[draft(99)]).unwrap();
        log.checkpoint().unwrap();
        let mut expected: Vec<String> = (0..whole).map(|n| n.to_string()).collect();
        if !ends.contains(&cut) {
            expected.push("recovered".to_owned());
            let kept = fs::read_dir(broken.log().join("torn")).unwrap().next().unwrap().unwrap().path();
            assert_eq!(fs::read(kept).unwrap(), &bytes[ends[whole]..cut], "what was cut off is kept");
        }
        expected.push("99".to_owned());
        assert_eq!(told(&broken.reader()), expected, "cut at {cut}");
        let report = broken.verify().unwrap();
        assert_eq!(report.recovered.len(), usize::from(!ends.contains(&cut)));
    }
}

#[test]
fn what_a_checkpoint_covers_can_t_be_cut_off_by_recovery() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    log.checkpoint().unwrap();
    drop(log);
    let bytes = fs::read(place.segment(0)).unwrap();
    for cut in 0..bytes.len() {
        let broken = place.copy();
        fs::write(broken.segment(0), &bytes[..cut]).unwrap();
        assert!(broken.verify().is_err(), "cut at {cut}");
        broken.open().append(&drafts(9)).unwrap();
        let found = broken.verify();
        assert!(
            matches!(found, Err(VerifyError::Between { .. } | VerifyError::Entry { .. })),
            "{cut}: {found:?}"
        );
    }
}

#[test]
fn every_part_that_can_be_thrown_away_can() {
    let place = Place::new();
    let mut options = place.options();
    options.segment_bytes = 30_000;
    Log::open(options.clone()).unwrap().append(&drafts(1000)).unwrap();
    place.open().checkpoint().unwrap();
    let root = place.verify().unwrap().root;
    for gone in ["frontier", "tile", "entries/0000000000000000.places", "entries/0000000000000512.places"] {
        let broken = place.copy();
        let path = broken.log().join(gone);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.unwrap();
        assert_eq!(broken.reader().root(1000).unwrap(), root, "{gone}");
        assert_eq!(broken.reader().size().unwrap(), 1000, "{gone}");
        let mut options = options.clone();
        (options.folder, options.key) = (broken.log(), broken.key());
        assert_eq!(Log::open(options).unwrap().append(&drafts(300)).unwrap().size, 1300, "{gone}");
        assert_eq!(broken.verify().unwrap().size, 1300, "{gone}");
        assert_eq!(broken.reader().entry(700).unwrap(), place.reader().entry(700).unwrap(), "{gone}");
    }
}

#[test]
fn a_tile_that_a_power_failure_emptied_is_computed_again() {
    let place = Place::new();
    place.open().append(&drafts(600)).unwrap();
    fs::write(place.log().join("tile/0/001"), "").unwrap();
    place.open().checkpoint().unwrap();
    let proof = place.reader().prove(300).unwrap();
    assert!(proof.proves(&place.reader().entry(300).unwrap(), &place.verifier()));
}

#[test]
fn an_edge_that_a_power_failure_left_behind_the_entries_misleads_nobody() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(250)).unwrap();
    log.checkpoint().unwrap();
    log.append(&drafts(6)).unwrap();
    assert!(place.log().join("frontier").exists());
    drop(log);
    let bytes: usize = place.frames(0)[..251].iter().map(Vec::len).sum();
    OpenOptions::new().write(true).open(place.segment(0)).unwrap().set_len(bytes as u64).unwrap();
    let large = |n: u64| Draft::new(now(), "test", Body::of(&"x".repeat(n as usize)).unwrap());
    for n in 1..=4 {
        assert_eq!(place.open().append(&[large(n * 1000)]).unwrap().size, 251 + n, "each has the log anew");
    }
    assert_eq!(place.open().append(&drafts(300)).unwrap().size, 555);
    let report = place.verify().unwrap();
    // The tile that told of the entries that are gone is put aside, and an entry tells of it.
    assert_eq!((report.size, report.recovered.len(), report.torn), (556, 1, false));
}

/// A child of this test binary.
pub(crate) fn child(role: &str, place: &Place) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "faults::is_a_child", "--nocapture"]);
    command.env(CHILD, format!("{role}\n{}\n{}", place.log().display(), place.key().display()));
    command.stdout(Stdio::piped()).stdin(Stdio::null());
    command
}

/// Nothing by itself: what the tests here start.
#[test]
fn is_a_child() {
    let Ok(said) = std::env::var(CHILD) else { return };
    let [role, folder, key] = said.split('\n').collect::<Vec<_>>().try_into().unwrap();
    let options = Options::new(folder, key);
    match role {
        "writes" => {
            let writer = backstop_trail::Writer::new(options);
            writer.announce(Body::of(&1).unwrap()).unwrap();
            for n in 0.. {
                writer.append(drafts(5), true).unwrap().wait().unwrap();
                writer.push(draft(n)).unwrap();
                writeln!(std::io::stdout(), "kept {n}").unwrap();
            }
        }
        "leaves" => {
            // Long ago, by their own times.
            let at = now() - 300_000;
            let old = |draft: Draft| Draft { at, ..draft };
            let mut log = Log::open(options).unwrap();
            let start = Draft::new(at, backstop_trail::KIND_START, Body::of(&1).unwrap());
            log.append(&[start]).unwrap();
            log.append(&drafts(5).into_iter().map(old).collect::<Vec<_>>()).unwrap();
            writeln!(std::io::stdout(), "left {}", log.process()).unwrap();
            loop {
                std::thread::park();
            }
        }
        "fills" => {
            let mut log = Log::open(options).unwrap();
            while log.append(&drafts(40)).is_ok() {}
            let full = log.append(&drafts(40)).unwrap_err();
            assert!(full.is_full_disk(), "{full}");
            log.append(&drafts(1)).unwrap();
            log.checkpoint().unwrap();
        }
        "persists" => {
            let writer = backstop_trail::Writer::new(options);
            let kept = || writer.append(drafts(5), true).unwrap().wait();
            while kept().is_ok() {}
            for _ in 1..REFUSED {
                let full = kept().unwrap_err();
                assert!(full.is_full_disk(), "{full}");
            }
            writeln!(std::io::stdout(), "full").unwrap();
            // Until there is room.
            std::io::stdin().read_line(&mut String::new()).unwrap();
            for _ in 0..ROOM {
                let last = kept().unwrap();
                assert_eq!(writer.kept(), last.extent.size);
            }
        }
        other => panic!("{other}"),
    }
}

/// Returns the same child, for whom each file is full after some kilobytes. The signal that goes with it is ignored, so that writing fails
/// instead.
#[cfg(target_os = "linux")]
fn limited(child: &Command) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$@\"", "sh"]).arg(child.get_program());
    limited.args(child.get_args());
    limited.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited
}

#[test]
fn a_killed_process_loses_nothing_that_was_waited_for_and_what_it_lost_shows() {
    let place = Place::new();
    for round in 1..=4_u64 {
        let mut running = child("writes", &place).spawn().unwrap();
        let lines = BufReader::new(running.stdout.take().unwrap()).lines();
        let kept = lines.map_while(Result::ok).filter(|line| line.contains("kept ")).nth(3 * round as usize);
        assert!(kept.is_some());
        running.kill().unwrap();
        running.wait().unwrap();
        place.open().append(&[draft(0)]).unwrap();
        let report = place.verify().unwrap();
        assert_eq!((report.missing, report.processes.len() as u64), (0, round));
        assert!(report.processes.iter().all(|process| process.started && !process.stopped));
        let last = report.processes.iter().map(|process| process.last).min().unwrap();
        assert!(last > 5 * 3, "what was waited for is there: {last}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn on_a_full_disk_nothing_is_half_written_and_what_is_lost_shows() {
    let place = Place::new();
    place.open();
    let ended = limited(&child("fills", &place)).stdout(Stdio::null()).status().unwrap();
    assert!(ended.success());
    let report = place.verify().unwrap();
    assert!(report.size % 40 == 1 && !report.torn && report.recovered.is_empty(), "{report:?}");
    assert_eq!(
        (report.missing, report.processes[0].missing.first()),
        (80, Some(&(report.size..report.size + 80)))
    );
    place.open().append(&drafts(3)).unwrap();
    assert_eq!(place.verify().unwrap().size, report.size + 3);
}

#[cfg(target_os = "linux")]
#[test]
fn law_08_on_a_full_disk_nothing_that_is_waited_for_counts_and_with_room_all_goes_on() {
    let place = Place::new();
    place.open();
    let mut running = limited(&child("persists", &place));
    let mut running = running.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("full")), "{:?}", running.wait());
    let mut log = place.open();
    let before = log.look().unwrap().size;
    assert!(before > 0 && before.is_multiple_of(5), "{before}");
    // Retention makes room, and takes nothing that was waited for with it but what it names.
    log.prune(before, 5, "age", "ann", |index, _| index % 5 == 4).unwrap();
    running.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(running.wait().unwrap().success());
    log.checkpoint().unwrap();
    let report = place.verify().unwrap();
    assert_eq!((report.size, report.pruned), (before + 1 + 5 * ROOM, before / 5 * 4), "{report:?}");
    // What was refused shows as what is missing, and nothing else is.
    let missing = (report.missing, report.processes.iter().map(|process| process.lost).sum());
    assert_eq!(missing, (5 * REFUSED, 5 * REFUSED), "{report:?}");
    assert!(report.recovered.is_empty() && report.unproved.is_empty() && !report.torn, "{report:?}");
}

#[test]
fn a_torn_checkpoint_spoils_no_other() {
    let place = Place::new();
    let mut log = place.open();
    for _ in 0..3 {
        log.append(&drafts(2)).unwrap();
        log.checkpoint().unwrap();
    }
    let path = place.log().join("checkpoints");
    let length = fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 20).unwrap();
    log.append(&drafts(2)).unwrap();
    log.checkpoint().unwrap();
    let (all, torn) = place.reader().checkpoints().unwrap();
    let sizes: Vec<u64> = all.iter().map(|note| note.checkpoint().size).collect();
    assert_eq!((sizes.as_slice(), torn), ([2, 4, 8].as_slice(), 1));
    assert_eq!(place.verify().unwrap().covered, 8);
}

#[test]
fn checkpoints_of_any_length_are_checked_and_signed_behind() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(2)).unwrap();
    log.checkpoint().unwrap();
    let path = place.log().join("checkpoints");
    // As long as those of half a year, in one that is torn.
    let all = OpenOptions::new().write(true).open(&path).unwrap();
    all.set_len((256 << 20) + 1).unwrap();
    log.append(&drafts(2)).unwrap();
    let newest = log.checkpoint().unwrap();
    // What a killed process leaves.
    let old = Draft { at: now() - 120_000, ..draft(1) };
    log.append(&[old.clone(), old]).unwrap();
    drop(log);
    for is_there in [true, false] {
        if !is_there {
            fs::remove_file(place.log().join("checkpoint")).unwrap();
        }
        let mut log = place.open();
        log.append(&drafts(1)).unwrap();
        assert!(log.checkpoint().unwrap().checkpoint().size > newest.checkpoint().size);
        let report = place.verify().unwrap();
        assert_eq!((report.covered, report.torn_checkpoints), (report.size, 1));
        assert_eq!((report.late.len(), report.unproved.len()), (1, 0));
    }
    assert!(place.reader().checkpoints().is_err(), "nobody holds them all");
}

#[test]
fn a_clock_that_jumps_is_told_and_stops_nothing() {
    let place = Place::new();
    let mut log = place.open();
    for at in [1_000_000, i64::MAX, 5_000_000, 0, -7, i64::MIN, 4_999_999] {
        let mut draft = draft(1);
        draft.at = at;
        log.append(&[draft]).unwrap();
    }
    log.checkpoint().unwrap();
    let report = place.verify().unwrap();
    let back: Vec<u64> = report.backwards.iter().map(|step| step.index).collect();
    assert_eq!((report.size, back), (7, vec![2, 3, 4, 5, 6]));
    assert!(report.backwards.iter().all(|step| step.after == i64::MAX));
}
