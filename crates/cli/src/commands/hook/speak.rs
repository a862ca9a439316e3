//! Saying the answer: stdout in one write, stderr, and the exit code that fits what could be said.

use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use backstop::clients::{Answer, Reason, universal_deny};

use crate::exit::Exit;

/// Refuses in the words that all clients obey: for when nothing is known of the event.
pub(crate) fn refuse_blindly(why: &str) -> Exit {
    speak(&universal_deny(&Reason::new(&format!("backstop could not judge this: {why}"))))
}

/// Says the answer. One that should have let the call run but could not be said is a refusal.
pub(super) fn speak(answer: &Answer) -> Exit {
    let unheard = answer.exit_code() == 0 && !answer.stdout().is_empty() && nobody_reads();
    let written = if unheard { Err(io::ErrorKind::BrokenPipe.into()) } else { write(answer.stdout()) };
    if !answer.stderr().is_empty() {
        remark(answer.stderr());
    }
    match (written, answer.exit_code()) {
        (Ok(()), 0) => Exit::Success,
        (Err(error), 0) => {
            remark(&format!("backstop could not write its answer to stdout: {error}"));
            Exit::Refused
        }
        (Ok(()) | Err(_), _) => Exit::Refused,
    }
}

/// A line on stderr. That nobody reads it is no failure: the exit code says the same.
pub(super) fn remark(text: &str) {
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Whether stdout is the null device: what the runtime opens in the place of a stdout that was closed.
fn nobody_reads() -> bool {
    // A file has no device number of its own: where a mishap put one in the place of the device, every other file and
    // pipe would look like it.
    let null = std::fs::metadata("/dev/null").ok().filter(|data| data.file_type().is_char_device());
    let out = rustix::fs::fstat(io::stdout()).ok();
    matches!((null, out), (Some(null), Some(out)) if null.rdev() == out.st_rdev)
}
