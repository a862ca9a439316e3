//! Texts that may come from the environment.
//!
//! `${VAR}` inside a text stands for an environment variable; `$${` is the literal text `${`. A value from the environment
//! is treated as a secret: a [`Text`] prints as it was written, and only [`Text::expose`] returns the value. A repository
//! file never reads the environment, because the value could leave the machine in a message or a request that the
//! same repository shaped.

use std::fmt;

use crate::place::Place;
use crate::problem::{Problem, ProblemKind, quote};

/// What [`Secret`] and masked options show instead of characters.
pub(crate) const MASK: &str = "***";

const VARIABLE_HINT: &str =
    "a variable is written `${NAME}`, defaults are not supported; `$${` is the text `${`";

/// A text as written and with its variables resolved.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    /// As written, with `${VAR}`.
    written: String,
    /// With variables filled in; `None` when nothing had to be.
    expanded: Option<String>,
    /// The written text without what is literal: `***${VAR}`.
    masked: String,
    /// The variables that it is made of.
    variables: Vec<String>,
}

impl Text {
    /// Creates a literal text, without variables.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Self {
        let written = text.into();
        Self { written, expanded: None, masked: MASK.to_owned(), variables: Vec::new() }
    }

    /// Returns the resolved text, including secrets. Do not print it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.expanded.as_deref().unwrap_or(&self.written)
    }

    /// Returns the text as its author wrote it, `${VAR}` and all; safe to print unless the file itself holds a secret.
    #[must_use]
    pub fn as_written(&self) -> &str {
        &self.written
    }

    /// Returns whether some of it came from the environment.
    #[must_use]
    pub const fn is_from_environment(&self) -> bool {
        !self.variables.is_empty()
    }

    /// Returns the names of the variables that it is made of.
    #[must_use]
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// As written, every literal character hidden.
    pub(crate) fn masked(&self) -> &str {
        &self.masked
    }

    /// Fills in variables. `environment` is `None` where the environment may not be read.
    pub(crate) fn expand(
        written: &str,
        at: &Place,
        environment: Option<&Environment<'_>>,
    ) -> Result<Self, Problem> {
        let mut parts = Parts::default();
        let mut rest = written;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                parts.literal(before);
                parts.literal("${");
                rest = after;
                continue;
            }
            parts.literal(before);
            let wrong = |message: String| Problem::new(ProblemKind::Environment, at.clone(), message);
            let (name, after) =
                after.split_once('}').filter(|(name, _)| is_variable_name(name)).ok_or_else(|| {
                    wrong("`${` must be followed by the name of a variable and `}`".to_owned())
                        .with_hint(VARIABLE_HINT)
                })?;
            let Some(environment) = environment else {
                let hint = "only the operator's file may use `${NAME}`; `$${` is the text `${`";
                return Err(
                    wrong(format!("a repository file may not read `${{{}}}`", quote(name))).with_hint(hint)
                );
            };
            let Some(value) = environment(name) else {
                let name = quote(name);
                let hint = format!("set it before starting, for example `export {name}=...`");
                return Err(wrong(format!("the environment variable `{name}` is not set")).with_hint(hint));
            };
            parts.variable(name, &value);
            rest = after;
        }
        parts.literal(rest);
        Ok(parts.finish(written))
    }
}

/// How an environment variable is looked up.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

#[derive(Default)]
struct Parts {
    expanded: String,
    masked: String,
    variables: Vec<String>,
}

impl Parts {
    fn literal(&mut self, text: &str) {
        self.expanded.push_str(text);
        if !text.is_empty() && !self.masked.ends_with(MASK) {
            self.masked.push_str(MASK);
        }
    }

    fn variable(&mut self, name: &str, value: &str) {
        self.expanded.push_str(value);
        self.masked.push_str(&format!("${{{name}}}"));
        self.variables.push(name.to_owned());
    }

    fn finish(self, written: &str) -> Text {
        let expanded = (self.expanded != written).then_some(self.expanded);
        let Self { masked, variables, .. } = self;
        Text { written: written.to_owned(), expanded, masked, variables }
    }
}

fn is_variable_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.written, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// A text that is a secret even if it is written in the file: it never prints, only its `${VAR}` names do.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) Text);

impl Secret {
    /// Returns the secret itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Returns the names of the variables that it is made of.
    #[must_use]
    pub fn variables(&self) -> &[String] {
        self.0.variables()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.masked())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.masked())
    }
}

/// The path of a file that holds a secret and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile(pub(crate) Text);

impl SecretFile {
    /// Returns the path with its variables filled in.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Returns the names of the variables that the path is made of.
    #[must_use]
    pub fn variables(&self) -> &[String] {
        self.0.variables()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(written: &str) -> Result<Text, Problem> {
        let environment = |name: &str| (name == "TOKEN").then(|| "s3cr3t".to_owned());
        Text::expand(written, &Place::file_only("f"), Some(&environment))
    }

    #[test]
    fn variables_are_filled_in_and_never_printed() {
        let text = expand("Bearer ${TOKEN}!").unwrap();
        assert_eq!(text.expose(), "Bearer s3cr3t!");
        assert!(text.is_from_environment());
        assert_eq!(text.variables(), ["TOKEN"]);
        assert_eq!(format!("{text} {text:?}"), r#"Bearer ${TOKEN}! "Bearer ${TOKEN}!""#);
        assert_eq!(format!("{}", Secret(text)), "***${TOKEN}***");
    }

    #[test]
    fn a_doubled_dollar_is_text() {
        let text = expand("a$${TOKEN} $5 $").unwrap();
        assert_eq!(text.expose(), "a${TOKEN} $5 $");
        assert!(!text.is_from_environment());
    }

    #[test]
    fn what_is_not_a_set_variable_is_an_error() {
        let unnamed = "`${` must be followed by the name of a variable and `}`";
        for (written, message) in [
            ("${NONE}", "the environment variable `NONE` is not set"),
            ("${TOKEN:-x}", unnamed),
            ("${TOKEN", unnamed),
            ("${", unnamed),
            ("${}", unnamed),
        ] {
            assert_eq!(expand(written).unwrap_err().message(), message);
        }
    }
}
