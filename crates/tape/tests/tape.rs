//! What is recorded is read by the key alone, whole or up to where it was cut off, and by age as well.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    reason = "tests fail loudly, helpers of tests too"
)]

use std::io::BufReader;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_tape::{
    Bounds, Decryptor, Encryptor, Identity, InvalidKey, Note, Recipient, Recorder, Redact, Settings, Tape,
    TapeError,
};
use proptest::prelude::*;

fn sealed(plain: &[u8], cuts: &[usize], to: &Recipient) -> Vec<u8> {
    let mut encryptor = Encryptor::new(Vec::new(), to).unwrap();
    let mut rest = plain;
    for cut in cuts {
        let (now, later) = rest.split_at(*cut.min(&rest.len()));
        encryptor.push(now).unwrap();
        rest = later;
    }
    encryptor.push(rest).unwrap();
    encryptor.finish().unwrap()
}

fn opened(sealed: &[u8], identity: &Identity) -> Result<(Vec<u8>, bool), TapeError> {
    let mut decryptor = Decryptor::new(BufReader::new(sealed), identity)?;
    let mut plain = Vec::new();
    while let Some(chunk) = decryptor.next_chunk()? {
        plain.extend(chunk);
    }
    Ok((plain, decryptor.has_ended()))
}

const CHUNK: usize = 64 * 1024;

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sealed_is_opened_however_it_was_cut(
        length in prop_oneof![0..300_usize, CHUNK - 2..CHUNK + 3, 2 * CHUNK - 1..2 * CHUNK + 2],
        cuts in prop::collection::vec(0..CHUNK + 9, 0..4),
    ) {
        let identity = Identity::generate().unwrap();
        let plain: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let sealed = sealed(&plain, &cuts, &identity.recipient());
        prop_assert_eq!(opened(&sealed, &identity).unwrap(), (plain, true));
    }

    #[test]
    fn what_was_changed_is_not_opened(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let identity = Identity::generate().unwrap();
        let plain = vec![7; CHUNK + 100];
        let mut sealed = sealed(&plain, &[], &identity.recipient());
        let at = at.index(sealed.len());
        sealed[at] ^= 1 << bit;
        match opened(&sealed, &identity) {
            Err(_) => {}
            // The end of it is told to be missing, and nothing else is made of it.
            Ok((read, has_ended)) => prop_assert!(!has_ended && read == plain[..CHUNK]),
        }
    }

    #[test]
    fn what_was_cut_off_is_read_up_to_its_last_whole_chunk(left in 0..2 * CHUNK + 400) {
        let identity = Identity::generate().unwrap();
        let plain: Vec<u8> = (0..2 * CHUNK + 100).map(|at| (at % 251) as u8).collect();
        let sealed = sealed(&plain, &[], &identity.recipient());
        let header = sealed.len() - plain.len() - 3 * 16;
        let left = left.min(sealed.len() - 1);
        match opened(&sealed[..left], &identity) {
            Err(_) => prop_assert!(left < header),
            Ok((read, has_ended)) => {
                prop_assert!(!has_ended);
                let whole = ((left - header) / (CHUNK + 16)).min(2) * CHUNK;
                prop_assert_eq!(read, &plain[..whole]);
            }
        }
    }
}

#[test]
fn what_was_cut_off_at_any_byte_is_told() {
    let identity = Identity::generate().unwrap();
    let sealed = sealed(b"a line\nanother\n", &[], &identity.recipient());
    for left in 0..sealed.len() {
        match opened(&sealed[..left], &identity) {
            Err(TapeError::CutOff) => {}
            Ok((read, has_ended)) => assert!(read.is_empty() && !has_ended, "{left}"),
            Err(other) => panic!("{left}: {other}"),
        }
    }
    assert!(opened(&[sealed.as_slice(), b"x"].concat(), &identity).is_ok_and(|(_, has_ended)| !has_ended));
}

#[test]
fn a_segment_that_was_ended_and_has_no_end_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let tape = Tape::in_folder(folder.path());
    let sealed = sealed(b"a line\n", &[], &identity.recipient());
    let read = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let segments = tape.segments().unwrap();
        let [segment] = segments.as_slice() else { panic!("{segments:?}") };
        let read = (segment.read::<TapeError>(&identity, |_| Ok(())), segment.is_abandoned());
        std::fs::remove_file(path).unwrap();
        read
    };
    let longer = [sealed.as_slice(), b"x"].concat();
    for bytes in [longer.as_slice(), &sealed[..sealed.len() - 1], &sealed[..9]] {
        let (whole, _) = read("1700000000000-00000001.age", bytes);
        assert!(matches!(whole, Err(TapeError::Damaged(_))), "{whole:?}");
        assert!(matches!(read("1700000000000-00000001.age.part", bytes), (Ok(false), true)));
        assert!(matches!(read("9700000000000-00000001.age.part", bytes), (Ok(false), false)));
    }
    assert!(matches!(read("1700000000000-00000001.age", &sealed), (Ok(true), false)));
}

#[test]
fn keys_are_those_of_age() {
    // From age's own tests: an identity and its recipient.
    let secret = format!("AGE-SECRET-KEY-{}", "1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX");
    let identity: Identity = secret.parse().unwrap();
    assert_eq!(identity.expose(), secret);
    assert_eq!(
        identity.recipient().to_string(),
        "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
    );
    assert_eq!(identity.recipient().to_string().parse::<Recipient>().unwrap(), identity.recipient());
    let file = format!("# created: now\n# public key: {}\n\n{secret}\n", identity.recipient());
    assert_eq!(Identity::in_file(&file).unwrap().recipient(), identity.recipient());
    assert_eq!(format!("{identity:?}"), "Identity(..)");
    // One letter is another, the case is mixed, a secret where a recipient belongs.
    let text = identity.recipient().to_string();
    assert_eq!(text.replace("zvky", "zvkg").parse::<Recipient>(), Err(InvalidKey::Recipient));
    assert_eq!(format!("A{}", &text[1..]).parse::<Recipient>(), Err(InvalidKey::Recipient));
    assert_eq!(secret.parse::<Recipient>(), Err(InvalidKey::Secret));
    assert!("".parse::<Recipient>().is_err() && Identity::in_file("# nothing\n").is_err());
    // A key of low order, with which nothing secret can be agreed.
    let low = bech32::encode::<bech32::Bech32>(bech32::Hrp::parse("age").unwrap(), &[0; 32]).unwrap();
    assert_eq!(low.parse::<Recipient>(), Err(InvalidKey::Recipient));
}

#[test]
fn nobody_else_reads_it() {
    let (ours, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let sealed = sealed(b"words", &[], &ours.recipient());
    assert!(matches!(opened(&sealed, &other), Err(TapeError::OtherKey)));
    assert!(!sealed.windows(5).any(|window| window == b"words"));
    assert!(matches!(opened(b"nothing", &ours), Err(TapeError::Format(_))));
}

/// What the tests record.
struct Words(Vec<u8>);

impl Redact for Words {
    fn weight(&self) -> usize {
        self.0.len()
    }

    fn line(self: Box<Self>) -> Option<Vec<u8>> {
        (self.0 != b"never").then_some(self.0)
    }

    fn gap(lost: u64) -> Vec<u8> {
        format!("{lost} are missing").into_bytes()
    }
}

/// Longer than a disk takes for what the tests record.
const LONG: Duration = Duration::from_mins(1);

/// For those who record where nothing goes wrong.
fn undisturbed(note: Note<'_>) {
    assert!(!matches!(note, Note::Failed(_)), "{note:?}");
}

fn settings(folder: &Path, recipient: Recipient) -> Settings {
    let bounds = Bounds { age: Duration::from_hours(24), bytes: 1 << 30 };
    Settings { tape: Tape::in_folder(folder.join("tape")), recipient, bounds }
}

fn lines(tape: &Tape, identity: &Identity) -> Vec<String> {
    let mut lines = Vec::new();
    for segment in tape.segments().unwrap() {
        let whole = segment.read::<TapeError>(identity, |line| {
            lines.push(String::from_utf8(line.to_vec()).unwrap());
            Ok(())
        });
        assert!(whole.unwrap() && segment.is_whole);
    }
    lines
}

#[test]
fn what_is_recorded_is_read_in_its_order_and_what_is_missing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let settings = settings(folder.path(), identity.recipient());
    let (notes, noted) = channel();
    let told = move |note: Note<'_>| notes.send(format!("{note:?}")).unwrap();
    let recorder = Recorder::start(settings.clone(), told).unwrap();
    for word in ["one", "never", "two"] {
        recorder.record(Words(word.into()));
    }
    assert_eq!(recorder.end(LONG), 0);
    assert_eq!(recorder.lost(), 1);
    recorder.record(Words(b"late".to_vec()));
    recorder.record(Words(b"later".to_vec()));
    assert_eq!(recorder.lost(), 3);
    let noted: Vec<String> = noted.try_iter().collect();
    assert_eq!(noted, ["Missing(1)", "Gone"], "told once");
    assert_eq!(lines(&settings.tape, &identity), ["one", "1 are missing", "two"]);
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(settings.tape.folder()), 0o700);
    assert_eq!(mode(&settings.tape.segments().unwrap()[0].path), 0o600);
}

/// A recording whose secrets take as long to find as the test wants.
struct Slow(Arc<Mutex<()>>, Sender<()>, usize);

impl Redact for Slow {
    fn weight(&self) -> usize {
        self.2
    }

    fn line(self: Box<Self>) -> Option<Vec<u8>> {
        let _ = self.1.send(());
        drop(self.0.lock());
        Some(b"slow".to_vec())
    }

    fn gap(lost: u64) -> Vec<u8> {
        format!("{lost} are missing").into_bytes()
    }
}

#[test]
fn nobody_waits_and_what_does_not_fit_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let settings = settings(folder.path(), identity.recipient());
    let recorder = Recorder::start(settings.clone(), undisturbed).unwrap();
    let (gate, (begun, begins)) = (Arc::new(Mutex::new(())), channel());
    let held = gate.lock().unwrap();
    let slow = |weight| Slow(Arc::clone(&gate), begun.clone(), weight);
    recorder.record(slow(1));
    begins.recv().unwrap();
    // The thread is at the first one. The queue holds so many, and so many bytes.
    recorder.record(slow(17 << 20));
    for _ in 0..1_030 {
        recorder.record(slow(1));
    }
    assert_eq!(recorder.lost(), 1 + 6);
    // Nobody waits for what is slow, and what was not written by then is told.
    let began = std::time::Instant::now();
    assert_eq!(recorder.end(Duration::from_millis(10)), 1 + 1_024);
    assert!(began.elapsed() < LONG);
    drop(held);
    assert_eq!(recorder.end(LONG), 0);
    let read = lines(&settings.tape, &identity);
    assert_eq!(read.len(), 1 + 1_024 + 1);
    assert!(read.contains(&"7 are missing".to_owned()));
}

#[test]
fn nobody_waits_for_a_recorder_that_is_dropped_and_it_writes_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let settings = settings(folder.path(), identity.recipient());
    let recorder = Recorder::start(settings.clone(), undisturbed).unwrap();
    let (gate, (begun, begins)) = (Arc::new(Mutex::new(())), channel());
    let held = gate.lock().unwrap();
    recorder.record(Slow(Arc::clone(&gate), begun, 1));
    begins.recv().unwrap();
    drop(recorder);
    drop(held);
    let began = std::time::Instant::now();
    while !settings.tape.segments().unwrap().iter().any(|segment| segment.is_whole) {
        assert!(began.elapsed() < LONG, "it is written by and by");
        std::thread::yield_now();
    }
    assert_eq!(lines(&settings.tape, &identity), ["slow"]);
}

/// A recording that ends the thread that writes it.
struct Panics;

impl Redact for Panics {
    fn weight(&self) -> usize {
        1
    }

    fn line(self: Box<Self>) -> Option<Vec<u8>> {
        panic!("on purpose")
    }

    fn gap(_: u64) -> Vec<u8> {
        Vec::new()
    }
}

#[test]
fn what_is_lost_with_the_thread_that_writes_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), Identity::generate().unwrap().recipient());
    let (notes, noted) = channel();
    let told = move |note: Note<'_>| notes.send(format!("{note:?}")).unwrap();
    let recorder = Recorder::start(settings, told).unwrap();
    recorder.record(Panics);
    assert_eq!(recorder.end(LONG), 1);
    recorder.record(Panics);
    assert_eq!((recorder.lost(), noted.try_iter().collect::<Vec<_>>()), (1, vec!["Gone".to_owned()]));
}

#[test]
fn a_tape_keeps_what_its_bounds_say_and_leaves_other_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let settings = settings(folder.path(), identity.recipient());
    for word in ["one", "two", "three"] {
        let recorder = Recorder::start(settings.clone(), undisturbed).unwrap();
        recorder.record(Words(word.into()));
        assert_eq!(recorder.end(LONG), 0);
    }
    let other = settings.tape.folder().join("notes.age");
    std::fs::write(&other, "x").unwrap();
    let old = settings.tape.folder().join("0000000000007-00000000.age.part");
    std::fs::write(&old, "of a process that was killed").unwrap();
    let all = settings.tape.segments().unwrap();
    assert_eq!(all.len(), 4);
    // However small a file is, it takes up a block.
    let bounds = Bounds { age: Duration::from_hours(1), bytes: 4096 };
    assert_eq!(settings.tape.due(bounds).unwrap().len(), 3);
    assert_eq!(settings.tape.prune(bounds).unwrap().gone.len(), 3);
    assert!(other.exists() && !old.exists());
    assert_eq!(lines(&settings.tape, &identity).len(), 1);
    assert_eq!(Tape::in_folder(folder.path().join("none")).segments().unwrap(), []);
}

#[test]
fn a_tape_that_cannot_be_written_is_told_of_and_recording_goes_on_when_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let settings = settings(folder.path(), identity.recipient());
    // Where the folder should be, something else is.
    std::fs::write(settings.tape.folder(), "x").unwrap();
    let (notes, noted) = channel();
    let told = move |note: Note<'_>| notes.send(format!("{note:?}")).unwrap();
    let recorder = Recorder::start(settings.clone(), told).unwrap();
    recorder.record(Words(b"one".to_vec()));
    assert!(noted.recv().unwrap().starts_with("Failed"), "told once it fails");
    recorder.record(Words(b"two".to_vec()));
    // The thread is done with both as soon as it is told of a third one that is gone.
    while recorder.lost() < 2 {
        std::thread::yield_now();
    }
    std::fs::remove_file(settings.tape.folder()).unwrap();
    recorder.record(Words(b"three".to_vec()));
    recorder.record(Words(vec![b'x'; 5 << 20]));
    assert_eq!(recorder.end(LONG), 0);
    assert_eq!(recorder.lost(), 3);
    assert_eq!(lines(&settings.tape, &identity), ["2 are missing", "three", "1 are missing"]);
    let noted: Vec<String> = noted.try_iter().collect();
    assert_eq!(noted, ["Missing(3)"], "told once for each segment");
}

#[test]
fn what_can_not_be_deleted_keeps_nobody_from_recording() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let settings = settings(folder.path(), identity.recipient());
    std::fs::create_dir(settings.tape.folder()).unwrap();
    // A folder stands where the mark should.
    std::fs::create_dir(settings.tape.folder().join("pruned")).unwrap();
    let mark = std::fs::File::open(settings.tape.folder().join("pruned")).unwrap();
    mark.set_modified(std::time::SystemTime::now() - Duration::from_hours(9)).unwrap();
    let (notes, noted) = channel();
    let told = move |note: Note<'_>| notes.send(format!("{note:?}")).unwrap();
    let recorder = Recorder::start(settings.clone(), told).unwrap();
    recorder.record(Words(b"one".to_vec()));
    assert_eq!(recorder.end(LONG), 0);
    assert!(noted.try_iter().next().unwrap().starts_with("Kept("));
    assert_eq!(lines(&settings.tape, &identity), ["one"]);
}

#[test]
fn a_folder_that_others_can_write_and_a_link_are_no_tape_and_a_pipe_is_no_segment() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let settings = settings(folder.path(), identity.recipient());
    let record = || {
        let (notes, noted) = channel();
        let told = move |note: Note<'_>| notes.send(format!("{note:?}")).unwrap();
        let recorder = Recorder::start(settings.clone(), told).unwrap();
        recorder.record(Words(b"one".to_vec()));
        recorder.end(LONG);
        noted.try_iter().next()
    };
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(&other, settings.tape.folder()).unwrap();
    assert!(record().unwrap().contains("a link"));
    std::fs::remove_file(settings.tape.folder()).unwrap();
    std::fs::create_dir(settings.tape.folder()).unwrap();
    let open = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(settings.tape.folder(), mode).unwrap();
    };
    open(0o777);
    assert!(record().unwrap().contains("others can write"));
    open(0o700);
    assert_eq!(record(), None);
    // Between listing and reading, a link takes the place of a file.
    let segment = settings.tape.segments().unwrap().remove(0);
    std::fs::rename(&segment.path, other.join("x")).unwrap();
    std::os::unix::fs::symlink(other.join("x"), &segment.path).unwrap();
    assert!(segment.read::<TapeError>(&identity, |_| Ok(())).is_err());
}

#[test]
fn who_records_prunes_now_and_then_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let settings = settings(folder.path(), identity.recipient());
    let record = || {
        let (notes, noted) = channel();
        let told = move |note: Note<'_>| notes.send(format!("{note:?}")).unwrap();
        let recorder = Recorder::start(settings.clone(), told).unwrap();
        recorder.record(Words(b"one".to_vec()));
        recorder.end(LONG);
        noted.try_iter().collect::<Vec<String>>()
    };
    let old = settings.tape.folder().join("0000000000007-00000000.age");
    let put_old = || std::fs::write(&old, "old").unwrap();
    std::fs::create_dir(settings.tape.folder()).unwrap();
    put_old();
    assert_eq!(record(), ["Pruned { segments: 1, bytes: 3 }"]);
    put_old();
    assert_eq!(record(), [""; 0], "somebody did just now");
    // A mark of a time that is yet to come is no reason to keep anything.
    let mark = std::fs::File::options().write(true).open(settings.tape.folder().join("pruned")).unwrap();
    mark.set_modified(std::time::SystemTime::now() + Duration::from_hours(9)).unwrap();
    assert_eq!(record(), ["Pruned { segments: 1, bytes: 3 }"]);
    assert_eq!(lines(&settings.tape, &identity).len(), 3);
}

/// Where the test below is started again, to be killed, and records into this folder for this recipient.
const KILLED: &str = "BACKSTOP_TEST_TAPE_KILLED";

#[test]
fn what_a_killed_process_recorded_is_read_up_to_its_last_whole_chunk() {
    if let Ok(said) = std::env::var(KILLED) {
        let (recipient, folder) = said.split_once(' ').unwrap();
        let settings = settings(Path::new(folder), recipient.parse().unwrap());
        let recorder = Recorder::start(settings, undisturbed).unwrap();
        for number in 0..1_000 {
            recorder.record(Words(format!("{number:04} {}", "x".repeat(995)).into_bytes()));
            std::thread::sleep(Duration::from_millis(1));
        }
        // Until it is killed, or whoever started it is gone.
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::generate().unwrap();
    let tape = Tape::in_folder(folder.path().join("tape"));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["what_a_killed_process_recorded_is_read_up_to_its_last_whole_chunk", "--exact"])
        .env(KILLED, format!("{} {}", identity.recipient(), folder.path().display()))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let written = || tape.segments().unwrap().first().map_or(0, |segment| segment.bytes);
    while written() < 200_000 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let segments = tape.segments().unwrap();
    let [segment] = segments.as_slice() else { panic!("{segments:?}") };
    let mut numbers = Vec::new();
    let whole = segment.read::<TapeError>(&identity, |line| {
        numbers.push(std::str::from_utf8(&line[..4]).unwrap().parse::<usize>().unwrap());
        Ok(())
    });
    assert!(!whole.unwrap() && !segment.is_whole, "its end is told to be missing");
    assert!(numbers.len() >= 3 * CHUNK / 1_001 - 1, "{}", numbers.len());
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>(), "in order, and none is made up");
}
