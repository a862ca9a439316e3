//! Places in JSON text, and edits that touch nothing else.
//!
//! A [`Node`] is a value's place in a text; [`Splices`] are the pieces of the text that change. What is not
//! spliced stays as it was written: order, white space, escapes, number formats. The text has been read by
//! the strict parser before; here it is only measured, and anything unexpected is `None`.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

use super::steps::{step, steps};

/// A value in JSON text.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    text: &'a str,
    span: Range<usize>,
}

/// An entry of an object.
pub(crate) struct Member<'a> {
    /// The key.
    pub(crate) key: Cow<'a, str>,
    /// From the key's quote to the value's end.
    pub(crate) span: Range<usize>,
    /// The value.
    pub(crate) value: Node<'a>,
}

impl<'a> Node<'a> {
    /// The one value of a text.
    pub(crate) fn root(text: &'a str) -> Option<Self> {
        let start = skip_space(text.as_bytes(), 0);
        let end = skip_value(text.as_bytes(), start)?;
        steps(end - start);
        Some(Self { text, span: start..end })
    }

    /// Where the value stands, quotes and brackets included.
    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The value as it is written.
    pub(crate) fn raw(&self) -> &'a str {
        self.text.get(self.span.clone()).unwrap_or_default()
    }

    /// Whether it is null.
    pub(crate) fn is_null(&self) -> bool {
        self.raw() == "null"
    }

    /// The text of a string.
    pub(crate) fn string(&self) -> Option<Cow<'a, str>> {
        let body = self.raw().strip_prefix('"')?.strip_suffix('"')?;
        if body.contains('\\') {
            return serde_json::from_str::<String>(self.raw()).ok().map(Cow::Owned);
        }
        Some(Cow::Borrowed(body))
    }

    /// The entries of an object, in order; none of anything else.
    pub(crate) fn members(&self) -> Vec<Member<'a>> {
        self.entries().collect()
    }

    fn entries(&self) -> impl Iterator<Item = Member<'a>> + use<'a> {
        let (text, bytes) = (self.text, self.text.as_bytes());
        let is_object = bytes.get(self.span.start) == Some(&b'{');
        let mut at = if is_object { skip_space(bytes, self.span.start + 1) } else { bytes.len() };
        std::iter::from_fn(move || {
            let begin = (bytes.get(at) == Some(&b'"')).then_some(at)?;
            let key_end = skip_string(bytes, begin)?;
            let colon = skip_space(bytes, key_end);
            let start = skip_space(bytes, colon + 1);
            let end = skip_value(bytes, start)?;
            steps(end - begin);
            at = skip_comma(bytes, end);
            let key = Node { text, span: begin..key_end }.string().unwrap_or_default();
            Some(Member { key, span: begin..end, value: Node { text, span: start..end } })
        })
    }

    /// The items of an array, in order; none of anything else.
    pub(crate) fn items(&self) -> Vec<Node<'a>> {
        let mut found = Vec::new();
        let bytes = self.text.as_bytes();
        if bytes.get(self.span.start) != Some(&b'[') {
            return found;
        }
        let mut at = skip_space(bytes, self.span.start + 1);
        while at + 1 < self.span.end {
            let Some(end) = skip_value(bytes, at) else { break };
            steps(end - at);
            found.push(Node { text: self.text, span: at..end });
            at = skip_comma(bytes, end);
        }
        found
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        self.entries().find(|member| member.key == key).map(|member| member.value)
    }

    /// The value of a key, unless it is null.
    pub(crate) fn get_some(&self, key: &str) -> Option<Self> {
        self.get(key).filter(|value| !value.is_null())
    }
}

fn skip_space(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

fn skip_comma(bytes: &[u8], end: usize) -> usize {
    let at = skip_space(bytes, end);
    if bytes.get(at) == Some(&b',') { skip_space(bytes, at + 1) } else { at }
}

/// The end of the string whose quote stands at `at`.
fn skip_string(bytes: &[u8], at: usize) -> Option<usize> {
    let inside = at + 1;
    literal_end(bytes, inside).map(|end| end + 1)
}

/// The place of the quote that ends the string whose inside begins at `at`.
pub(crate) fn literal_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let found = at + memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(found) == Some(&b'"') {
            return Some(found);
        }
        at = found + 2;
    }
}

fn skip_value(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' => skip_string(bytes, start),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, start);
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = skip_string(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        b',' | b'}' | b']' | b':' => None,
        _ => {
            let rest = bytes.get(start..)?;
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
            Some(start + rest.iter().position(is_end).unwrap_or(rest.len()))
        }
    }
}

/// `text` as a JSON string, quotes included.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What a list (an array, or the entries of an object) shall hold.
pub(crate) enum Slot {
    /// The entry at this place of the old list. Places rise from slot to slot.
    Keep(usize),
    /// A new entry, as it is to be written.
    New(String),
}

/// Pieces of a text that change.
#[derive(Default)]
pub(crate) struct Splices(Vec<(Range<usize>, String)>);

impl Splices {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes `text` in place of what stands in `span`; the last word about a span counts.
    pub(crate) fn replace(&mut self, span: Range<usize>, text: impl Into<String>) {
        step();
        self.0.push((span, text.into()));
    }

    /// Makes the list in `list` hold `slots`; commas follow. Separators between entries that stay
    /// neighbours are not touched.
    pub(crate) fn set_list(&mut self, list: &Node<'_>, entries: &[Range<usize>], slots: Vec<Slot>) {
        let inside = list.span.start + 1;
        let (begin, end) = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => (first.start, last.end),
            _ => (inside, inside),
        };
        let between = |left: Option<&Range<usize>>, right: Option<&Range<usize>>| {
            left.zip(right).and_then(|(left, right)| list.text.get(left.end..right.start))
        };
        let usual = between(entries.first(), entries.get(1)).unwrap_or(",");
        let (mut written_to, mut last, mut empty, mut new) = (begin, None, true, String::new());
        for slot in slots {
            step();
            match slot {
                Slot::New(entry) => {
                    if !empty {
                        new.push_str(usual);
                    }
                    empty = false;
                    new.push_str(&entry);
                }
                Slot::Keep(place) => {
                    let Some(entry) = entries.get(place) else { continue };
                    let is_next = last.map_or(place == 0, |last: usize| last + 1 == place);
                    if !is_next || !new.is_empty() {
                        if !empty {
                            let before = place.checked_sub(1).and_then(|before| entries.get(before));
                            new.push_str(between(before, Some(entry)).unwrap_or(usual));
                        }
                        self.replace(written_to..entry.start, std::mem::take(&mut new));
                    }
                    (written_to, last, empty) = (entry.end, Some(place), false);
                }
            }
        }
        if written_to != end || !new.is_empty() {
            self.replace(written_to..end, new);
        }
    }

    /// Takes entries out of an object or array.
    pub(crate) fn remove(
        &mut self,
        list: &Node<'_>,
        entries: &[Range<usize>],
        is_removed: impl Fn(usize) -> bool,
    ) {
        let kept = (0..entries.len()).filter(|place| !is_removed(*place)).map(Slot::Keep).collect();
        self.set_list(list, entries, kept);
    }

    /// Takes the entries out of an object whose key is one of `keys`.
    pub(crate) fn remove_members(&mut self, object: &Node<'_>, is_removed: impl Fn(&str) -> bool) {
        let members = object.members();
        let spans: Vec<_> = members.iter().map(|member| member.span.clone()).collect();
        self.remove(object, &spans, |place| members.get(place).is_some_and(|member| is_removed(&member.key)));
    }

    /// The text with the pieces in place. A piece inside another one that is replaced is gone with it.
    pub(crate) fn apply(mut self, text: &str) -> String {
        self.0.sort_by_key(|(span, _)| (span.start, span.end));
        let more: usize = self.0.iter().map(|(_, new)| new.len()).sum();
        let mut out = String::with_capacity(text.len() + more);
        let mut at = 0;
        for (place, (span, new)) in self.0.iter().enumerate() {
            // Sorting keeps the order in which they were said.
            let is_overruled =
                !span.is_empty() && self.0.get(place + 1).is_some_and(|(next, _)| next == span);
            if span.start < at || is_overruled {
                continue;
            }
            out.push_str(text.get(at..span.start).unwrap_or_default());
            out.push_str(new);
            at = span.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn slots(list: &str, keep: &[usize], new: &[(usize, &str)]) -> String {
        let root = Node::root(list).unwrap();
        let spans: Vec<_> = root.items().iter().map(Node::span).collect();
        let mut slots: Vec<Slot> = keep.iter().map(|place| Slot::Keep(*place)).collect();
        for (at, text) in new {
            slots.insert(*at, Slot::New((*text).to_owned()));
        }
        let mut splices = Splices::default();
        splices.set_list(&root, &spans, slots);
        splices.apply(list)
    }

    #[test]
    fn values_are_found_where_they_stand() {
        let text = " {\"a\" : [1, \"x\\\"]\", {\"b\":null}] ,\"c\\u0064\":-1.50e3}\n";
        let root = Node::root(text).unwrap();
        let items = root.get("a").unwrap().items();
        assert_eq!(items.iter().map(Node::raw).collect::<Vec<_>>(), ["1", "\"x\\\"]\"", "{\"b\":null}"]);
        assert_eq!(items[1].string().unwrap(), "x\"]");
        assert_eq!(root.get("cd").unwrap().raw(), "-1.50e3");
        assert!(items[2].get("b").unwrap().is_null() && items[2].get_some("b").is_none());
        assert!(
            Node::root("[]").unwrap().items().is_empty() && Node::root("{ }").unwrap().members().is_empty()
        );
    }

    #[test]
    fn removed_entries_go_with_their_comma() {
        let list = "[ 1 , 2,3 ]";
        assert_eq!(slots(list, &[0, 1, 2], &[]), list);
        assert_eq!(slots(list, &[1, 2], &[]), "[ 2,3 ]");
        assert_eq!(slots(list, &[0, 2], &[]), "[ 1,3 ]");
        assert_eq!(slots(list, &[0, 1], &[]), "[ 1 , 2 ]");
        assert_eq!(slots(list, &[], &[]), "[  ]");
        assert_eq!(slots("[]", &[], &[(0, "7"), (1, "8")]), "[7,8]");
        assert_eq!(slots("[1,2]", &[0, 1], &[(0, "0"), (2, "9"), (4, "5")]), "[0,1,9,2,5]");
        assert_eq!(slots("[1,2]", &[1], &[(0, "0")]), "[0,2]");
    }

    proptest! {
        #[test]
        fn edited_lists_are_the_lists_asked_for(
            old in prop::collection::vec("[a-z\"\\\\]{0,3}", 0..6),
            choice in prop::collection::vec((any::<bool>(), any::<bool>()), 7),
            separator in prop::sample::select(vec![",", " , ", ",\n  "]),
        ) {
            let text = format!("[{}]", old.iter().map(|word| quote(word)).collect::<Vec<_>>().join(separator));
            let (mut expected, mut slots) = (Vec::new(), Vec::new());
            for place in 0..=old.len() {
                let (keep, add) = choice[place];
                if add {
                    expected.push(json!(7));
                    slots.push(Slot::New("7".to_owned()));
                }
                if keep && place < old.len() {
                    expected.push(json!(old[place]));
                    slots.push(Slot::Keep(place));
                }
            }
            let root = Node::root(&text).unwrap();
            let spans: Vec<_> = root.items().iter().map(Node::span).collect();
            let mut splices = Splices::default();
            splices.set_list(&root, &spans, slots);
            let edited: Value = serde_json::from_str(&splices.apply(&text)).unwrap();
            prop_assert_eq!(edited, Value::from(expected));
        }
    }
}
