//! Free-form options: what a hook type, a plugin or a rule pack defines for itself.
//!
//! The configuration does not know their keys. It keeps the tree with the place of each node, so that the code that
//! knows them can report a mistake as precisely as this crate reports its own ([`Options::place_of`]).

use std::fmt;

use serde_json::{Map, Value, json};

use crate::config_value::{ConfigValue, shown};
use crate::place::Place;
use crate::reader::Reader;
use crate::text::Text;
use backstop_yaml::{Entry, Kind, Node};

/// A mapping whose keys this crate does not know.
#[derive(Clone, PartialEq)]
pub struct Options {
    root: Tree,
}

#[derive(Clone, PartialEq)]
struct Tree {
    at: Place,
    kind: Branch,
}

#[derive(Clone, PartialEq)]
enum Branch {
    Fixed(Value),
    Text(Text),
    List(Vec<Tree>),
    Map(Vec<MapEntry>),
}

#[derive(Clone, PartialEq)]
struct MapEntry {
    key: String,
    key_at: Place,
    value: Tree,
}

impl MapEntry {
    fn node(&self) -> Entry {
        Entry { key: self.key.clone(), key_at: self.key_at.clone(), value: self.value.node() }
    }
}

/// Parts of key names under which literal text is a secret.
const SECRET_WORDS: [&str; 9] =
    ["auth", "token", "secret", "password", "passwd", "api_key", "apikey", "credential", "private"];

impl Options {
    /// Returns the options with variables filled in, secrets included. Do not print it.
    #[must_use]
    pub fn expose(&self) -> Value {
        self.root.value(&|text, _| text.expose().to_owned(), false)
    }

    /// Returns the options for people: variables as `${VAR}`, texts under names such as `auth_header` masked.
    #[must_use]
    pub fn masked(&self) -> Value {
        self.root
            .value(&|text, secret| (if secret { text.masked() } else { text.as_written() }).to_owned(), false)
    }

    /// Returns the options with variables filled in, secrets included, with the place of each value. Do not print it.
    #[must_use]
    pub fn expose_node(&self) -> Node {
        self.root.node()
    }

    /// Returns where the mapping starts.
    #[must_use]
    pub const fn at(&self) -> &Place {
        &self.root.at
    }

    /// Returns the place of the value that a JSON pointer (RFC 6901, such as `/deny_tools/0`) names, or of the deepest value
    /// on the way that exists.
    #[must_use]
    pub fn place_of(&self, pointer: &str) -> &Place {
        let mut tree = &self.root;
        for step in pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")) {
            let next = match &tree.kind {
                Branch::List(items) => step.parse().ok().and_then(|index: usize| items.get(index)),
                Branch::Map(entries) => {
                    entries.iter().find(|entry| entry.key == step).map(|entry| &entry.value)
                }
                Branch::Fixed(_) | Branch::Text(_) => None,
            };
            match next {
                Some(next) => tree = next,
                None => break,
            }
        }
        &tree.at
    }
}

impl Tree {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let kind = match &node.kind {
            Kind::Null => Branch::Fixed(Value::Null),
            Kind::Bool(value) => Branch::Fixed(Value::Bool(*value)),
            Kind::Integer(value) => Branch::Fixed(Value::from(*value)),
            Kind::Number(value) => Branch::Fixed(Value::from(*value)),
            Kind::Text(text) if text.trim().is_empty() => Branch::Text(Text::literal(text)),
            Kind::Text(_) => Branch::Text(Text::read(node, cx)?),
            Kind::List(items) => Branch::List(read_all(items.iter().map(|item| Self::read(item, cx)))?),
            Kind::Map(entries) => {
                let read = entries.iter().map(|entry| {
                    let value = Self::read(&entry.value, cx)?;
                    Some(MapEntry { key: entry.key.clone(), key_at: entry.key_at.clone(), value })
                });
                Branch::Map(read_all(read)?)
            }
        };
        Some(Self { at: node.at.clone(), kind })
    }

    fn node(&self) -> Node {
        let kind = match &self.kind {
            Branch::Fixed(Value::Bool(value)) => Kind::Bool(*value),
            Branch::Fixed(Value::Number(value)) => match value.as_i64() {
                Some(value) => Kind::Integer(value),
                None => value.as_f64().map_or(Kind::Null, Kind::Number),
            },
            Branch::Fixed(_) => Kind::Null,
            Branch::Text(text) => Kind::Text(text.expose().to_owned()),
            Branch::List(items) => Kind::List(items.iter().map(Self::node).collect()),
            Branch::Map(entries) => Kind::Map(entries.iter().map(MapEntry::node).collect()),
        };
        Node { at: self.at.clone(), kind }
    }

    fn value(&self, print: &dyn Fn(&Text, bool) -> String, secret: bool) -> Value {
        match &self.kind {
            Branch::Fixed(value) => value.clone(),
            Branch::Text(text) => Value::String(print(text, secret)),
            Branch::List(items) => items.iter().map(|item| item.value(print, secret)).collect(),
            Branch::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|MapEntry { key, value, .. }| {
                        (key.clone(), value.value(print, secret || is_secret_name(key)))
                    })
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

/// Collects without stopping at the first `None`, so that every problem is recorded.
fn read_all<T>(items: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    items.collect::<Vec<_>>().into_iter().collect()
}

fn is_secret_name(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.masked(), f)
    }
}

impl ConfigValue for Options {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        cx.map(node)?;
        Some(Self { root: Tree::read(node, cx)? })
    }

    fn schema() -> Value {
        json!({ "type": "object" })
    }

    fn show(&self) -> Value {
        self.masked()
    }
}

/// A list of rules or programs: a file, or its content.
#[derive(Clone, Debug, PartialEq)]
pub enum Pack {
    /// The path of a file, relative to the configuration file's folder.
    File(crate::place::Spanned<Text>),
    /// The content, written inline.
    Inline(Options),
}

impl ConfigValue for Pack {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        match node.kind {
            Kind::Map(_) => Options::read(node, cx).map(Self::Inline),
            Kind::Text(_) => ConfigValue::read(node, cx).map(Self::File),
            _ => cx.expected(node, "the path of a file or what would be in it"),
        }
    }

    fn schema() -> Value {
        json!({ "type": ["string", "object"] })
    }

    fn show(&self) -> Value {
        match self {
            Self::File(path) => path.show(),
            Self::Inline(options) => shown(options.show(), Some(options.at())),
        }
    }

    fn values(&self) -> Value {
        match self {
            Self::File(path) => path.values(),
            Self::Inline(options) => options.values(),
        }
    }
}
