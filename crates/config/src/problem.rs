//! All problems of a configuration as one error.
//!
//! A file is read to its end and every problem is collected. Only a syntax error ends the reading, because nothing
//! after it can be trusted.

pub use backstop_yaml::{Problem, ProblemKind};
pub(crate) use backstop_yaml::{escape, is_invisible, nearest, quote, quoted_list, suggestion};

/// The configuration does not load: every problem that was found, in the order of the files and lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", render(problems))]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    /// Returns the problems, never empty.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// `Ok` if there is no problem, else the error that carries them all.
    ///
    /// # Errors
    /// When `problems` is not empty.
    pub fn check(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

/// How many problems the text of an error lists. A foreign file must not be able to flood a terminal.
const LISTED: usize = 50;

fn render(problems: &[Problem]) -> String {
    let mut blocks: Vec<String> = problems.iter().take(LISTED).map(ToString::to_string).collect();
    let rest = problems.len().saturating_sub(LISTED);
    if rest > 0 {
        blocks.push(format!("error: {rest} further problems are not listed"));
    }
    blocks.join("\n\n")
}
