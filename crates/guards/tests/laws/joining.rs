//! Joining: a command in any construct of the shell is judged at least as strictly as alone, unless the construct keeps
//! it from running.

use super::frames::{FRAMES, Frame, framed};
use super::generated::share;
use super::{Change, assert_none, guard, milder, stopped};

/// Frames that give what stands in them words of its own.
const WITH_WORDS: [&str; 8] = [
    "positional",
    "callback",
    "argument of a function",
    "sh -c with words",
    "expanded again",
    "subscript",
    "subscript of a name",
    "subscript in a test",
];

/// Frames in which the shell that runs it has another name.
const NAMED: [&str; 10] = [
    "script",
    "descriptor of the command",
    "link of a folder",
    "found by its name",
    "found by the name of another",
    "soft link made before",
    "hard link made before",
    "copied as a link",
    "copied with others",
    "copied in a folder",
];

/// Why a command is not the same any more in the frame, if it is not.
fn difference(frame: &str, command: &str) -> Option<&'static str> {
    let reads_words = ["$@", "$*", "$0", "$1", "$9", "${@", "${*"].iter().any(|name| command.contains(name));
    let named = NAMED.contains(&frame) && command.contains("$0");
    let has_words = WITH_WORDS.contains(&frame) && reads_words;
    (has_words || named).then_some("it reads words that the frame gives it")
}

#[test]
fn joining_never_makes_a_verdict_milder() {
    let stopped = stopped(&guard());
    let every = share(4);
    let half = FRAMES.len().div_ceil(2);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let work = |frames: &'static [Frame]| {
            let stopped = &stopped;
            scope.spawn(move || {
                let changes = frames.iter().map(|(name, frame)| -> Change<'_> {
                    let is_same = |command: &str| difference(name, command).is_none();
                    (
                        name,
                        Box::new(move |command| is_same(command).then(|| framed(frame, command)).flatten()),
                    )
                });
                milder(stopped, every, changes)
            })
        };
        let workers: Vec<_> = FRAMES.chunks(half).map(work).collect();
        let all =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| panic!("a worker failed")));
        all.flatten().collect()
    });
    assert_none(&wrong);
}
