//! The line that a client shows of its run: that it is guarded, what was judged, and what waits.
//!
//! The run writes it into a file of its folder, which what it runs can read and not change; the client starts this program
//! with the word [`STATUS_WORD`] and that file to print it. Nothing else of the run is told inside.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop::clients::install::STATUS_WORD;
use backstop::store::{AnswerStore, ApprovalFilter};

use super::watch::Counted;
use crate::exit::Exit;
use crate::output::one_line;

/// How often the line is written anew, where it changes.
const EVERY: Duration = Duration::from_secs(1);
/// The longest line, in characters.
pub(in crate::commands) const MOST_CHARS: usize = 200;
/// The most of what a client writes to the command that is taken from it, in bytes.
pub(in crate::commands) const MOST_TAKEN: u64 = 1024 * 1024;
/// The most questions that are counted.
pub(in crate::commands) const MOST_WAITING: usize = 99;

/// Prints the line of a run, where this process is to do that. `None` where it is not: without a file it is about what is
/// installed for good.
pub(crate) fn print_line() -> Option<Exit> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != STATUS_WORD {
        return None;
    }
    let path = words.next().map(PathBuf::from).filter(|path| path.is_absolute())?;
    // A client may take a command for broken that does not take what it is given.
    let _ = std::io::copy(&mut std::io::stdin().lock().take(MOST_TAKEN), &mut std::io::sink());
    let mut line = String::new();
    let file = fs::File::open(path).ok();
    let read = file.map(|file| file.take(4 * MOST_CHARS as u64).read_to_string(&mut line));
    let line = match read {
        Some(Ok(1..)) => one_line(&line, MOST_CHARS),
        _ => "backstop: the run is over".to_owned(),
    };
    let _ = writeln!(std::io::stdout().lock(), "{line}");
    Some(Exit::Success)
}

/// The file of a run's line.
pub(super) fn file(folder: &Path) -> PathBuf {
    folder.join("status")
}

/// What is said where calls were judged.
pub(in crate::commands) fn guarded(profile: &str, counted: Counted, waiting: usize) -> String {
    let Counted { judged, blocked, asked } = counted;
    let waits = waits(waiting);
    format!("guarded by backstop ({profile}) \u{b7} {judged} judged, {blocked} blocked, {asked} asked{waits}")
}

/// What is said of questions that nobody has answered.
pub(in crate::commands) fn waits(waiting: usize) -> String {
    match waiting {
        0 => String::new(),
        1 => " \u{b7} 1 question waits: backstop approvals list".to_owned(),
        more => format!(" \u{b7} {more} questions wait: backstop approvals list"),
    }
}

/// Keeps the line up to date for as long as it is not dropped.
pub(super) async fn keep(
    folder: &Path,
    profile: &str,
    counted: impl Fn() -> Counted,
    answers: &dyn AnswerStore,
) -> std::convert::Infallible {
    let (path, new) = (file(folder), folder.join("status.new"));
    let mut written = String::new();
    loop {
        // One that can't be read is told of by whoever is asked.
        let waiting =
            answers.approvals(ApprovalFilter::Pending, MOST_WAITING).await.map_or(0, |all| all.len());
        let now = guarded(profile, counted(), waiting);
        if now != written && fs::write(&new, &now).and_then(|()| fs::rename(&new, &path)).is_ok() {
            written = now;
        }
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_was_judged_and_what_waits() {
        let counted = Counted { judged: 12, blocked: 1, asked: 2 };
        assert_eq!(
            guarded("standard", counted, 0),
            "guarded by backstop (standard) \u{b7} 12 judged, 1 blocked, 2 asked"
        );
        assert!(guarded("core", counted, 1).ends_with("1 question waits: backstop approvals list"));
        assert!(guarded("core", counted, 3).ends_with("3 questions wait: backstop approvals list"));
    }
}
