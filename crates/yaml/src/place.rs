//! Where a value was written.
//!
//! Every key and value keeps its place for as long as it lives, so that an error found long after parsing (a matcher
//! that matches no tool, a regular expression that does not compile) can still point at the line its author has to
//! change.

use std::fmt;
use std::sync::Arc;

/// A position in a file: file, line and column (both from 1), or the file as a whole.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    file: Arc<str>,
    position: Option<(usize, usize)>,
}

impl Place {
    /// The file as a whole, for problems that have no line, such as an unreadable file.
    #[must_use]
    pub fn file_only(file: impl Into<Arc<str>>) -> Self {
        Self { file: file.into(), position: None }
    }

    /// A position in a file. Lines and columns count from 1, columns in characters.
    #[must_use]
    pub fn new(file: impl Into<Arc<str>>, line: usize, column: usize) -> Self {
        Self { file: file.into(), position: Some((line, column)) }
    }

    /// The file as it was named when it was read.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1; `None` where the place is the whole file.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.position.map(|(line, _)| line)
    }

    /// The column in characters, from 1; `None` where the place is the whole file.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.position.map(|(_, column)| column)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(f, "{}:{line}:{column}", self.file),
            None => f.write_str(&self.file),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value that was written in a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spanned<T> {
    /// What was written.
    pub value: T,
    /// Where it was written.
    pub at: Place,
}
