//! The keys of a mapping, none of which is unknown.

use backstop::yaml::{Entry, Kind, Node, Place, Problem, ProblemKind, quote, suggestion};

/// A mapping of which every key is known.
pub(super) struct Fields<'n> {
    pub(super) at: &'n Place,
    entries: &'n [Entry],
}

impl<'n> Fields<'n> {
    /// Reads a mapping; `what` it is, with its article, for errors.
    pub(super) fn of(node: &'n Node, what: &str, known: &[&str]) -> Result<Self, Problem> {
        let Kind::Map(entries) = &node.kind else {
            return Err(wrong(node, format!("{what} is a mapping, found {}", node.shape()))
                .with_hint(format!("its keys: {}", known.join(", "))));
        };
        match entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            Some(entry) => Err(unknown(entry, known)),
            None => Ok(Self { at: &node.at, entries }),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    pub(super) fn required(&self, key: &str, hint: &str) -> Result<&'n Node, Problem> {
        self.get(key).ok_or_else(|| {
            Problem::new(ProblemKind::MissingKey, self.at.clone(), format!("`{key}` is missing"))
                .with_hint(hint)
        })
    }
}

/// An unknown key, with the nearest known one.
pub(super) fn unknown(entry: &Entry, known: &[&str]) -> Problem {
    let message = format!("unknown key `{}`", quote(&entry.key));
    Problem::new(ProblemKind::UnknownKey, entry.key_at.clone(), message)
        .with_hint(suggestion(&entry.key, known, "keys"))
}

/// A value that is not what it must be.
pub(super) fn wrong(node: &Node, message: impl Into<String>) -> Problem {
    Problem::new(ProblemKind::BadValue, node.at.clone(), message)
}

/// A text with something in it.
pub(super) fn text<'n>(node: &'n Node, key: &str) -> Result<&'n str, Problem> {
    match &node.kind {
        Kind::Text(text) if !text.trim().is_empty() => Ok(text),
        Kind::Text(_) | Kind::Null => Err(wrong(node, format!("`{key}` is empty"))),
        _ => Err(wrong(node, format!("`{key}` is a text, found {}", node.describe()))
            .with_hint("a text that looks like something else is written in quotes")),
    }
}

/// One text, or a list of some.
pub(super) fn texts(node: &Node, key: &str) -> Result<Vec<String>, Problem> {
    match &node.kind {
        Kind::List(items) if items.is_empty() => Err(wrong(node, format!("`{key}` is an empty list"))),
        Kind::List(items) => items.iter().map(|item| text(item, key).map(str::to_owned)).collect(),
        _ => Ok(vec![text(node, key)?.to_owned()]),
    }
}
