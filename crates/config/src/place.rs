//! Values with their place, or without one because they are built in.

pub use backstop_yaml::{Place, Spanned};

/// A value that always exists: written in a file, or the built-in default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Where it was written; `None` for the built-in default.
    pub at: Option<Place>,
}

impl<T> Setting<T> {
    /// Creates a built-in default.
    #[must_use]
    pub const fn built_in(value: T) -> Self {
        Self { value, at: None }
    }

    /// Returns whether no file sets this value.
    #[must_use]
    pub const fn is_built_in(&self) -> bool {
        self.at.is_none()
    }
}

/// A closed list: anything that it does not name is not allowed, so an empty list allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed<T>(pub Vec<T>);
