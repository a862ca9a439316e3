//! Name patterns.

use globset::{Glob, GlobMatcher};

/// A name pattern: `*` stands for any characters, `?` for one, `{a,b}` for either.
#[derive(Clone, Debug)]
pub struct Pattern(GlobMatcher);

/// An invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is no pattern: {why}")]
pub struct InvalidPattern {
    pattern: String,
    why: String,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    ///
    /// [`InvalidPattern`].
    pub fn new(pattern: &str) -> Result<Self, InvalidPattern> {
        let glob = Glob::new(pattern)
            .map_err(|error| InvalidPattern { pattern: pattern.to_owned(), why: error.kind().to_string() })?;
        Ok(Self(glob.compile_matcher()))
    }

    /// The pattern that matches this name alone.
    ///
    /// # Errors
    ///
    /// [`InvalidPattern`], if the name is too long.
    pub fn exact(name: &str) -> Result<Self, InvalidPattern> {
        Self::new(&globset::escape(name))
    }

    /// Returns whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    /// Returns whether a name that may be missing matches. Only `*` matches a missing name.
    pub fn matches_any(&self, name: Option<&str>) -> bool {
        name.map_or_else(|| self.0.glob().glob() == "*", |name| self.matches(name))
    }
}
