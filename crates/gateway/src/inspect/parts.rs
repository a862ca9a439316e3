//! A body in parts as a document: the texts among them.
//!
//! A picture is edited and a recording is transcribed by what stands beside the file. Which parts hold no text is told by the
//! [table](TextTable) of the operation, as it tells it for fields: a part that no table knows is a text, its name among
//! them, and a file stands only where the table has what nobody can read. The name of a file is a text where it
//! is more than a word. What was changed is written in its place; a file is passed as it came. Words, such as the name and the type
//! of a file, what stands in the place of one, and the boundary between the parts, are shown as they are and can't be changed
//! ([`LiveParts::words`]).

use backstop_hooks::Text;
use backstop_llm::live::{TextTable, Word, is_name, sealed};
use backstop_llm::wire::is_setting;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use crate::multipart::{Form, Part};

/// Why a body in parts is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadParts {
    #[error(transparent)]
    Unclear(#[from] crate::multipart::Unclear),
    #[error("one of its parts is a file, and this operation knows none of that name")]
    File,
}

/// A body in parts on its way.
#[derive(Debug)]
pub(super) struct LiveParts {
    form: Form,
    texts: Vec<Said>,
    words: Vec<Word>,
}

/// A text in it.
#[derive(Debug)]
struct Said {
    text: String,
    /// The part whose content it is; `None` for a name, which stays.
    part: Option<usize>,
}

impl LiveParts {
    /// Reads a body with these headers by a table.
    ///
    /// # Errors
    /// [`BadParts`] if it can't be read in one way only, or has a file where none belongs.
    pub(super) fn read(table: &TextTable, headers: &HeaderMap, body: Bytes) -> Result<Self, BadParts> {
        let form = Form::read(headers, body)?;
        let (mut texts, mut words) = (Vec::new(), vec![Word::new(form.boundary())]);
        for (position, part) in form.parts().iter().enumerate() {
            let (is_known, is_opaque) = known(table, part);
            let name = part.file.as_deref().filter(|name| !is_name(name));
            let names = (!is_known).then_some(part.name.as_str()).into_iter().chain(name);
            texts.extend(names.map(|name| Said { text: name.to_owned(), part: None }));
            words.extend(part.file.iter().filter(|name| is_name(name)).chain(&part.kind).map(Word::new));
            if is_known && part.name.trim_end_matches("[]") != part.base() {
                words.push(Word::new(&part.name));
            }
            if part.file.is_some() {
                if !is_opaque {
                    return Err(BadParts::File);
                }
                continue;
            }
            let says = form.text(part).unwrap_or_default();
            // What stands in the place of a file may be one, written as an address.
            let data = sealed(says).filter(|(address, _)| is_opaque && !address.is_empty());
            if let Some((address, data)) = data {
                words.extend([Word::new(address), Word::sealed(data)]);
            }
            let is_word = table.names.contains(&part.base()) && is_name(says);
            if is_word && !is_setting(&says.into()) {
                words.push(Word::new(says));
            }
            if !(data.is_some() || is_word || says.is_empty()) {
                texts.push(Said { text: says.to_owned(), part: Some(position) });
            }
        }
        Ok(Self { form, texts, words })
    }

    /// The texts, in their order.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|said| said.text.as_str())
    }

    /// What it says in single words, which stay as they are: values of known parts, names and types of files, the boundary.
    pub(super) fn words(&self) -> &[Word] {
        &self.words
    }

    /// What it says, without the files.
    pub(super) fn fields(&self) -> Value {
        self.form.fields()
    }

    /// The body with these texts in the places of its own; `None` if that can't be said.
    pub(super) fn write(&self, texts: &[Text]) -> Option<Bytes> {
        if texts.len() != self.texts.len() {
            return None;
        }
        let changed = self.texts.iter().zip(texts).filter(|(old, new)| old.text != new.as_str());
        let new: Option<Vec<(usize, Bytes)>> =
            changed.map(|(old, new)| Some((old.part?, Bytes::copy_from_slice(new.as_bytes())))).collect();
        self.form.with(&new?)
    }
}

/// Whether a table knows a part, and whether it holds what nobody can read.
fn known(table: &TextTable, part: &Part) -> (bool, bool) {
    let base = part.base();
    let is_opaque = table.opaque.contains(&base);
    (is_opaque || table.texts.contains(&base) || table.names.contains(&base) && is_plain(part), is_opaque)
}

/// Whether what stands in the brackets of a name is a word.
fn is_plain(part: &Part) -> bool {
    is_name(&part.name)
}
