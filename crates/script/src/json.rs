//! JSON as text: what crosses between a script and its host.

use std::sync::Arc;

use serde::Serialize;

/// A JSON text. Values of people and models travel in it, so `Debug` shows its size only.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// The JSON form of `value`.
    ///
    /// # Errors
    ///
    /// When `value` has no JSON form, such as a map whose keys are no texts.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// Takes a text that is JSON. A text that is none becomes an error of the call that it is given to.
    #[must_use]
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The JSON `null`.
    #[must_use]
    pub fn null() -> Self {
        Self("null".into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// When the text is no JSON, or no `T`.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl std::fmt::Debug for JsonText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}
