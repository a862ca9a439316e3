//! Real small programs, and that nothing is left of them.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::pending;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use backstop_process::{Descriptors, Family, Program, Running, read_bounded};
use tokio::io::{AsyncBufReadExt as _, BufReader};

const GRACE: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(100);

fn family() -> Family {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Family::new("BACKSTOP_TEST_ID", format!("test-{}-{next}", std::process::id()))
}

fn shell(script: &str) -> Program {
    let mut program = Program::new("/bin/sh");
    program.arguments = vec!["-c".into(), script.into()];
    program.environment = BTreeMap::from([("PATH".into(), OsString::from("/usr/bin:/bin"))]);
    program.output = Stdio::piped();
    program
}

/// Whether there is such a process that is not merely waiting to be collected.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !stat.is_empty() && !rest.starts_with(['Z', 'X']))
}

fn wait_until_gone(pid: &str) {
    let begin = Instant::now();
    while runs(pid) {
        assert!(begin.elapsed() < GRACE, "{pid} is still there");
        std::thread::yield_now();
    }
}

/// Starts a script that prints the number of a process, and reads it.
async fn started(family: &Family, script: &str) -> (Running, String) {
    let mut running = family.start(shell(script)).unwrap();
    let mut lines = BufReader::new(running.take_output().unwrap()).lines();
    let pid = lines.next_line().await.unwrap().unwrap();
    assert!(runs(pid.trim()), "{pid}");
    (running, pid.trim().to_owned())
}

#[tokio::test]
async fn a_program_that_ends_is_told_by_its_status() {
    let family = family();
    let mut running = family.start(shell("printf hello; exit 3")).unwrap();
    let output = read_bounded(running.take_output().unwrap(), 100).await.unwrap();
    let ending = running.finish(pending::<()>(), GRACE).await;
    assert_eq!((output.bytes.as_slice(), output.is_cut), (&b"hello"[..], false));
    assert_eq!(ending.status.unwrap().code(), Some(3));
    assert_eq!((ending.stopped, ending.leftovers), (None, false));
}

#[tokio::test]
async fn a_program_that_ignores_the_polite_signal_is_killed() {
    let family = family();
    let (running, pid) = started(&family, "trap '' TERM; echo $$; while :; do sleep 60; done").await;
    let ending = running.finish(std::future::ready("stop"), SHORT).await;
    assert_eq!(ending.status.unwrap().signal(), Some(9));
    assert_eq!(ending.stopped, Some("stop"));
    assert!(!runs(&pid));
}

#[tokio::test]
async fn a_program_may_end_itself_within_its_grace() {
    let family = family();
    let (running, _) = started(&family, "trap 'exit 7' TERM; echo $$; while :; do sleep 0.01; done").await;
    let ending = running.finish(std::future::ready(()), GRACE).await;
    assert_eq!(ending.status.unwrap().code(), Some(7));
}

#[tokio::test]
async fn what_a_program_leaves_in_its_group_ends_with_it() {
    let family = family();
    let (running, pid) = started(&family, "sleep 60 >/dev/null & echo $!").await;
    let ending = running.finish(pending::<()>(), SHORT).await;
    assert!(ending.leftovers && !runs(&pid));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_leaves_the_group_is_found_by_its_mark() {
    let family = family();
    let daemon = "(setsid sh -c 'echo $$; exec sleep 60 >/dev/null' &) ; sleep 60";
    let (running, pid) = started(&family, daemon).await;
    running.finish(std::future::ready(()), SHORT).await;
    wait_until_gone(&pid);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_descendant_that_leaves_the_group_and_its_mark_is_found_by_its_parent() {
    let family = family();
    // Its parent lives until all are asked to end.
    let stray = "env -i setsid sh -c 'echo $$; exec /bin/sleep 60 >/dev/null' & wait";
    let (running, pid) = started(&family, stray).await;
    running.finish(std::future::ready(()), SHORT).await;
    wait_until_gone(&pid);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_a_program_or_its_family_ends_all_of_it() {
    let family = family();
    let daemon = "(setsid sh -c 'echo $$; exec sleep 60 >/dev/null' &) ; sleep 60";
    let (running, pid) = started(&family, daemon).await;
    drop(running);
    wait_until_gone(&pid);
    let (running, pid) = started(&family, "(setsid sh -c 'echo $$; exec sleep 60 >/dev/null' &)").await;
    running.finish(pending::<()>(), SHORT).await;
    drop(family);
    wait_until_gone(&pid);
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_the_mark() {
    let family = family();
    let mut program = shell("env | sort");
    program.environment.insert("GIVEN".into(), "yes".into());
    let mut running = family.start(program).unwrap();
    let output = read_bounded(running.take_output().unwrap(), 10_000).await.unwrap();
    let text = String::from_utf8(output.bytes).unwrap();
    let own = ["PWD=", "SHLVL=", "OLDPWD=", "_="];
    let names: Vec<&str> = text
        .lines()
        .filter(|line| !own.iter().any(|name| line.starts_with(name)))
        .filter_map(|line| line.split('=').next())
        .collect();
    assert_eq!(names, ["BACKSTOP_TEST_ID", "GIVEN", "PATH"]);
}

#[tokio::test]
async fn a_flood_is_cut_and_the_program_stands_still() {
    let family = family();
    let mut running = family.start(shell("while :; do echo flood; done")).unwrap();
    let output = read_bounded(running.take_output().unwrap(), 1000).await.unwrap();
    assert!(output.is_cut);
    assert_eq!(output.bytes.len(), 1000);
    assert!(!format!("{output:?}").contains("102"), "its bytes are shown");
    running.finish(std::future::ready(()), SHORT).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_gets_no_descriptor_that_was_not_given() {
    use std::os::fd::AsRawFd as _;
    // One that this process would hand on: a copy without close-on-exec, below 10 where there is room.
    let (reader, writer) = std::io::pipe().unwrap();
    let handed_on = rustix::io::dup(&reader).unwrap();
    let family = family();
    let list = "ls /proc/self/fd";
    let listed = async |descriptors| {
        let mut program = shell(list);
        program.descriptors = descriptors;
        let mut running = family.start(program).unwrap();
        let output = read_bounded(running.take_output().unwrap(), 10_000).await.unwrap();
        running.finish(pending::<()>(), GRACE).await;
        let text = String::from_utf8(output.bytes).unwrap();
        text.split_whitespace().map(|fd| fd.parse().unwrap()).collect::<Vec<i32>>()
    };
    let number = handed_on.as_raw_fd();
    assert!(listed(Descriptors::HandedOn).await.contains(&number), "the test hands nothing on");
    if number <= 9 {
        let open = listed(Descriptors::None).await;
        // The last is the folder that `ls` reads.
        assert_eq!(open.into_iter().filter(|fd| *fd <= 9).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
    drop(writer);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error() {
    let error = family().start(Program::new("/nonexistent/program")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn arguments_and_environment_are_not_shown() {
    let mut program = shell("hunter2");
    program.environment.insert("TOKEN".into(), "hunter2".into());
    assert!(!format!("{program:?}").contains("hunter2"));
}

/// How a script ends that may write to so much memory, and what it prints.
async fn ended_with(memory: Option<u64>, script: &str) -> (Option<i32>, String) {
    let family = family();
    let mut running = family.start(Program { memory, ..shell(script) }).unwrap();
    let output = read_bounded(running.take_output().unwrap(), 100).await.unwrap();
    let ending = running.finish(pending::<()>(), GRACE).await;
    (
        ending.status.and_then(|status| status.code()),
        String::from_utf8(output.bytes).unwrap().trim().to_owned(),
    )
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_is_bounded_for_whatever_it_starts_and_never_more_is_allowed_than_before() {
    const MOST: u64 = 64 << 20;
    // A last line that does not end is held in memory, all of it.
    let hog = "head -c 150000000 /dev/zero | tail -n 1 | wc -c; echo done";
    assert_eq!(ended_with(None, hog).await, (Some(0), "150000000\ndone".to_owned()));
    assert_eq!(ended_with(Some(MOST), hog).await, (Some(0), "0\ndone".to_owned()));
    assert_eq!(ended_with(Some(MOST), "ulimit -d; ulimit -Hd").await.1, "65536\n65536");
}
