//! The digest of an event that holds what was said: a tree over its texts.
//!
//! A conversation comes again with every turn, longer by a message or two, and the same text comes alone before that. So a text is
//! hashed once: its digest stands in its place in whatever is hashed with it, and is known wherever the text is shared
//! ([`Text::digest`]). The same holds for a list of parts, and for a value of JSON that the wires hand on as it came.
//!
//! ```text
//! event    = H(point "/v3"  NUL  canonical JSON of the event, with the digests of its leaves in their places)
//! message  = H("message/v3" NUL  canonical JSON of the message, with the digest of its content)
//! content  = H("content/v3" NUL  canonical JSON of the list of parts, with the digests of their leaves)
//! tool     = H("tool/v3"    NUL  canonical JSON of the tool, with the digests of its description and schema)
//! text     = H("text"       NUL  the text)
//! JSON     = H("json"       NUL  its canonical JSON)
//! ```
//!
//! `H` is SHA-256 and `point` the name of the hook point. A leaf stands there as the string that a digest is written as, a list of
//! leaves as the list of those strings. What is a leaf depends on the names of fields and the type of a part alone, never on what they
//! hold, so that no two events are one text. The names of the roles have the version in them: a digest of another form is never equal.
//! `docs/digests.md` lists the leaves and describes how to compute a digest from a transcript.

use serde::Serialize;

use super::{Digest, canonical};
use crate::conversation::{ImageSource, Message, Part, Role, ToolSpec};
use crate::points::ToolInfo;
use crate::value::{Json, Text};

/// How the digest of an event is computed. Digests of different forms can't be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestForm {
    /// From the canonical JSON of all of it.
    #[default]
    Whole,
    /// As a tree over its texts.
    Tree,
}

impl DigestForm {
    /// Returns the number of the form in records. The second one was in no release.
    pub fn version(self) -> u32 {
        match self {
            Self::Whole => 1,
            Self::Tree => 3,
        }
    }
}

/// The fields of an event that are hashed on their own, by the names that they have in JSON.
#[derive(Clone, Debug, Default)]
pub struct Leaves(Vec<(&'static str, Leaf)>);

impl Leaves {
    /// Creates a list of those that are there.
    pub(crate) fn new(leaves: impl IntoIterator<Item = (&'static str, Option<Leaf>)>) -> Self {
        Self(leaves.into_iter().filter_map(|(name, leaf)| Some((name, leaf?))).collect())
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What stands in the place of a field in the text that is hashed.
#[derive(Clone, Debug)]
pub(crate) enum Leaf {
    /// A digest.
    One(Digest),
    /// A list of digests.
    Each(Vec<Digest>),
    /// An object with one member, of which the value is a digest.
    Member(&'static str, Digest),
}

impl Leaf {
    /// Writes it as canonical JSON. Neither a digest nor a name has anything to escape.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let digest = |out: &mut Vec<u8>, digest: &Digest| {
            out.push(b'"');
            out.extend_from_slice(digest.text(&mut [0; super::TEXT_LEN]).as_bytes());
            out.push(b'"');
        };
        match self {
            Self::One(one) => digest(out, one),
            Self::Each(all) => {
                out.push(b'[');
                for (place, one) in all.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    digest(out, one);
                }
                out.push(b']');
            }
            Self::Member(name, one) => {
                out.extend_from_slice(b"{\"");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                digest(out, one);
                out.push(b'}');
            }
        }
    }
}

/// What is hashed on its own.
pub(crate) trait AsLeaf {
    /// Returns what stands in its place; `None` if there is nothing.
    fn leaf(&self) -> Option<Leaf>;
}

impl AsLeaf for Text {
    fn leaf(&self) -> Option<Leaf> {
        Some(Leaf::One(self.digest()))
    }
}

impl AsLeaf for Vec<Message> {
    fn leaf(&self) -> Option<Leaf> {
        Some(Leaf::Each(self.iter().map(Message::digest).collect()))
    }
}

impl AsLeaf for Vec<ToolInfo> {
    fn leaf(&self) -> Option<Leaf> {
        let digest = |tool: &ToolInfo| {
            Digest::of_tool(tool, tool.description.as_ref(), tool.input_schema.as_ref().map(Json::digest))
        };
        Some(Leaf::Each(self.iter().map(digest).collect()))
    }
}

impl AsLeaf for Vec<ToolSpec> {
    fn leaf(&self) -> Option<Leaf> {
        let digest = |tool: &ToolSpec| {
            Digest::of_tool(tool, tool.description.as_ref(), Some(tool.input_schema.digest()))
        };
        Some(Leaf::Each(self.iter().map(digest).collect()))
    }
}

impl<T: AsLeaf> AsLeaf for Option<T> {
    fn leaf(&self) -> Option<Leaf> {
        self.as_ref().and_then(AsLeaf::leaf)
    }
}

/// Says which fields of an event are hashed on their own, and their names in JSON.
macro_rules! leaves {
    ($($field:ident: $name:literal),+ $(,)?) => {
        fn leaves(&self) -> crate::digest::Leaves {
            use crate::digest::AsLeaf as _;
            crate::digest::Leaves::new([$(($name, self.$field.leaf())),+])
        }
    };
}

pub(crate) use leaves;

impl Digest {
    /// Returns the digest of `event` in the role `kind`, as a tree over these leaves.
    pub(crate) fn of_tree<T: Serialize>(kind: &str, event: &T, leaves: &Leaves) -> Self {
        Self::with_leaves(&[kind, "/v3"], event, &leaves.0)
    }

    /// Returns the digest of the parts of a message, or of what a tool answered.
    pub(crate) fn of_parts(parts: &[Part]) -> Self {
        let mut text = Vec::with_capacity(256);
        text.push(b'[');
        for (place, part) in parts.iter().enumerate() {
            if place > 0 {
                text.push(b',');
            }
            canonical::append(&mut text, part, leaf_of(part).as_slice());
        }
        text.push(b']');
        Self::of_bytes(&["content/v3"], &text)
    }

    fn of_tool<T: Serialize>(tool: &T, description: Option<&Text>, schema: Option<Self>) -> Self {
        let description = description.map(|text| ("description", Leaf::One(text.digest())));
        let schema = schema.map(|digest| ("inputSchema", Leaf::One(digest)));
        let leaves: Vec<_> = description.into_iter().chain(schema).collect();
        Self::with_leaves(&["tool/v3"], tool, &leaves)
    }

    fn with_leaves<T: Serialize>(role: &[&str], value: &T, leaves: &[(&'static str, Leaf)]) -> Self {
        let mut text = Vec::with_capacity(1024);
        canonical::append(&mut text, value, leaves);
        Self::of_bytes(role, &text)
    }
}

/// Returns the field of a part that is hashed on its own.
fn leaf_of(part: &Part) -> Option<(&'static str, Leaf)> {
    Some(match part {
        Part::Text { text, meta: _ } | Part::Thinking { text, meta: _ } => ("text", Leaf::One(text.digest())),
        Part::ToolResult(result) => ("content", Leaf::One(Digest::of_parts(&result.content))),
        Part::Image { source: ImageSource::Data(data), .. } => {
            ("source", Leaf::Member("data", data.digest()))
        }
        Part::Image { source: ImageSource::Url(url), .. } => ("source", Leaf::Member("url", url.digest())),
        Part::Unknown { raw } => ("raw", Leaf::One(raw.digest())),
        Part::ToolCall(_) => return None,
    })
}

impl Message {
    /// Returns the digest of the message: a leaf of the tree that the digest of a conversation is. That of its content is
    /// computed once for all copies.
    pub fn digest(&self) -> Digest {
        let leaf = ("content", Leaf::One(self.content.digest()));
        match self {
            // Most messages of live traffic say nothing else, and are as many as the turns of a conversation.
            Self { role, content: _, id: None, run_id: None, meta: None } => {
                let mut text = Vec::with_capacity(128);
                text.extend_from_slice(br#"{"content":"#);
                leaf.1.write(&mut text);
                text.extend_from_slice(plain(*role));
                Digest::of_bytes(&["message/v3"], &text)
            }
            other => Digest::with_leaves(&["message/v3"], other, &[leaf]),
        }
    }
}

/// Returns the rest of the canonical JSON of a message that has a role and a content.
fn plain(role: Role) -> &'static [u8] {
    match role {
        Role::System => br#","role":"system"}"#,
        Role::User => br#","role":"user"}"#,
        Role::Assistant => br#","role":"assistant"}"#,
        Role::Tool => br#","role":"tool"}"#,
    }
}
