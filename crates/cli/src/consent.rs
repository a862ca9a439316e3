//! Consent that a person types: the one function behind every question that is answered by a line.
//!
//! The law: *only a whole line that is exactly `yes` is consent*. The end of input, more on the line, another spelling or anything
//! around it are no. Questions that are answered by one key are the agent's (`commands/agent/asker.rs`), and need the key alone.
//!
//! Limits: no more of an answer is read than tells it apart from `yes`; what is left of a longer line is the terminal's.

use std::io::{self, BufRead, Read as _};

/// What consent is.
const YES: &[u8] = b"yes\n";

/// Whether the next line of `input` is consent.
///
/// # Errors
///
/// When it can't be read, which is no consent either.
pub(crate) fn is_yes(input: &mut impl BufRead) -> io::Result<bool> {
    let mut line = Vec::new();
    let most = u64::try_from(YES.len()).unwrap_or_default().saturating_add(1);
    input.take(most).read_until(b'\n', &mut line)?;
    Ok(line == YES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_line_that_is_yes_is_consent_and_nothing_else() {
        assert!(is_yes(&mut &b"yes\n"[..]).unwrap());
        assert!(is_yes(&mut &b"yes\nno\n"[..]).unwrap(), "what follows is another answer");
        let blanks = |count: usize, after: &str| format!("yes{}{after}", " ".repeat(count));
        let lines = [
            "",
            "\n",
            "yes",
            "ye",
            "y\n",
            "Yes\n",
            "YES\n",
            " yes\n",
            "yes \n",
            "yes\r\n",
            "yes\t\n",
            "yess\n",
            "yes no\n",
            "no\nyes\n",
            "\u{feff}yes\n",
        ];
        for line in lines {
            assert!(!is_yes(&mut line.as_bytes()).unwrap(), "{line:?}");
        }
        // However much stands between, and wherever a reader stops.
        for count in 1..200 {
            for after in ["", "\n", "but not this\n", "yes\n"] {
                assert!(!is_yes(&mut blanks(count, after).as_bytes()).unwrap(), "{count} {after:?}");
            }
        }
    }
}
