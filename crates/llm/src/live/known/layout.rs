//! Where the parts of a request stand in its bytes.
//!
//! One look from left to right finds the elements of the conversation, the tools and the system prompt, without reading them.
//!
//! Law: *a guess is never taken for a reading*. The look gives up wherever it could differ from a reader (a key with an escape, a
//! field that stands twice, an element that is no object). What it finds is read on its own by the strict parser, and so is the
//! [frame](Layout::frame), in which an empty list stands in the place of each part: if all of them are values of JSON, the body is the
//! one object of JSON that is made of them.

use std::ops::Range;

use memchr::memchr2;

/// The fields whose parts are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    /// The list of the conversation's elements.
    pub(super) list: &'static str,
    /// The tools.
    pub(super) tools: Option<&'static str>,
    /// The system prompt.
    pub(super) system: Option<&'static str>,
}

/// The parts of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The list with its brackets.
    list: Range<usize>,
    /// Its elements, in order.
    pub(super) elements: Vec<Range<usize>>,
    /// The list of tools.
    pub(super) tools: Option<Range<usize>>,
    /// The system prompt.
    pub(super) system: Option<Range<usize>>,
}

/// What stands in the place of a part in the frame.
const NOTHING: &[u8] = b"[]";

/// A body that was read before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before<'a> {
    pub(super) body: &'a [u8],
    pub(super) layout: &'a Layout,
}

/// The parts of a body, and which of them stood in the one before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) layout: Layout,
    /// For each element, whether the one before has the same bytes at its place.
    pub(super) same: Vec<bool>,
    pub(super) same_tools: bool,
    pub(super) same_system: bool,
}

impl Layout {
    /// Looks for the parts of `body`; `None` where a reader has to look itself. What stood at the same place of a body `before` is
    /// compared instead of looked through.
    pub(super) fn of(body: &[u8], fields: Fields, before: Option<Before<'_>>) -> Option<Seen> {
        let mut look = Look { body, at: 0, before };
        look.space();
        look.expect(b'{')?;
        look.members(fields)
    }

    /// The body with nothing in the places of the parts.
    pub(super) fn frame(&self, body: &[u8]) -> Option<Vec<u8>> {
        let mut parts: Vec<&Range<usize>> =
            [Some(&self.list), self.tools.as_ref(), self.system.as_ref()].into_iter().flatten().collect();
        parts.sort_by_key(|part| part.start);
        let mut frame = Vec::with_capacity(body.len().saturating_sub(self.list.len()).min(4_096));
        let mut at = 0;
        for part in parts {
            frame.extend_from_slice(body.get(at..part.start)?);
            frame.extend_from_slice(NOTHING);
            at = part.end;
        }
        frame.extend_from_slice(body.get(at..)?);
        Some(frame)
    }

    /// How many parts stand in the frame as a value of their own, besides the list.
    pub(super) fn others(&self) -> usize {
        usize::from(self.tools.is_some()) + usize::from(self.system.is_some())
    }
}

impl<'a> Before<'a> {
    fn bytes(self, part: Option<&Range<usize>>) -> Option<&'a [u8]> {
        self.body.get(part?.clone())
    }
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    list: Option<Range<usize>>,
    elements: Vec<Range<usize>>,
    same: Vec<bool>,
    tools: Option<Range<usize>>,
    same_tools: bool,
    system: Option<Range<usize>>,
    same_system: bool,
}

/// A look at a body, from left to right.
struct Look<'a> {
    body: &'a [u8],
    at: usize,
    before: Option<Before<'a>>,
}

impl<'a> Look<'a> {
    fn byte(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.byte()? == byte).then(|| self.at += 1)
    }

    /// Takes what parts a member from the next one: whether there is one, which may not be so.
    fn next_member(&mut self) -> Option<()> {
        self.space();
        match self.byte()? {
            b',' => self.at += 1,
            b'}' => {}
            _ => return None,
        }
        Some(())
    }

    /// Takes the members of the body up to its end.
    fn members(&mut self, fields: Fields) -> Option<Seen> {
        let mut found = Found::default();
        loop {
            self.space();
            if self.byte()? == b'}' {
                self.at += 1;
                self.space();
                let Found { list, elements, same, tools, same_tools, system, same_system } = found;
                let layout = Layout { list: list?, elements, tools, system };
                return (self.at == self.body.len()).then_some(Seen {
                    layout,
                    same,
                    same_tools,
                    same_system,
                });
            }
            self.member(fields, &mut found)?;
            self.next_member()?;
        }
    }

    fn member(&mut self, fields: Fields, found: &mut Found) -> Option<()> {
        let key = self.string()?;
        let key = self.body.get(key)?;
        // A reader takes an escaped key for the one that it spells.
        if key.contains(&b'\\') {
            return None;
        }
        let is = |field: Option<&str>| field.is_some_and(|field| field.as_bytes() == key);
        self.space();
        self.expect(b':')?;
        self.space();
        let start = self.at;
        if is(Some(fields.list)) {
            // Of two lists no reader takes both.
            if found.list.is_some() {
                return None;
            }
            self.list(found)?;
            found.list = Some(start..self.at);
        } else if is(fields.tools) {
            let before = self.before.and_then(|before| before.bytes(before.layout.tools.as_ref()));
            (found.tools, found.same_tools) = self.part(before)?;
        } else if is(fields.system) {
            let before = self.before.and_then(|before| before.bytes(before.layout.system.as_ref()));
            (found.system, found.same_system) = self.part(before)?;
        } else {
            self.value()?;
        }
        Some(())
    }

    /// Takes a value that is a part if it is a list; whether it is the one that stood there `before`.
    fn part(&mut self, before: Option<&[u8]>) -> Option<(Option<Range<usize>>, bool)> {
        let start = self.at;
        let is_list = self.byte()? == b'[';
        let is_same = self.skip(before);
        if !is_same {
            self.value()?;
        }
        Some((is_list.then_some(start..self.at), is_same))
    }

    /// Takes a value that was looked through before, if it stands here.
    fn skip(&mut self, before: Option<&[u8]>) -> bool {
        let rest = self.body.get(self.at..).unwrap_or_default();
        let same = before.filter(|known| rest.starts_with(known));
        self.at += same.map_or(0, <[u8]>::len);
        same.is_some()
    }

    /// Takes a list of objects, of which there is at least one.
    fn list(&mut self, found: &mut Found) -> Option<()> {
        self.expect(b'[')?;
        loop {
            self.space();
            let start = self.at;
            let place = found.elements.len();
            let before = self.before.and_then(|before| before.bytes(before.layout.elements.get(place)));
            let is_same = self.skip(before);
            if !is_same {
                if self.byte()? != b'{' {
                    return None;
                }
                self.container()?;
            }
            found.elements.push(start..self.at);
            found.same.push(is_same);
            self.space();
            match self.byte()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Takes a value, whatever it is.
    fn value(&mut self) -> Option<()> {
        match self.byte()? {
            b'"' => self.string().map(drop),
            b'{' | b'[' => self.container(),
            _ => {
                while !matches!(self.byte()?, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') {
                    self.at += 1;
                }
                Some(())
            }
        }
    }

    /// Takes an object or a list with all that is in it.
    fn container(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.byte()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Takes a string; returns what stands between its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let rest = self.body.get(self.at..)?;
            let hit = memchr2(b'"', b'\\', rest)?;
            self.at += hit + 1;
            if rest.get(hit) == Some(&b'"') {
                return Some(start..self.at - 1);
            }
            // Whatever is escaped, a reader says what.
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: Fields = Fields { list: "messages", tools: Some("tools"), system: Some("system") };

    fn look(body: &str) -> Option<Seen> {
        Layout::of(body.as_bytes(), FIELDS, None)
    }

    #[test]
    fn parts_are_found_wherever_they_stand() {
        let body = r#" { "system" : [ {"x":"]"} ], "a":-1.5e3,"messages":[ {"a":"\"}{"} , {"b":[{}]} ],"tools":[{}], "z":null } "#;
        let layout = look(body).unwrap().layout;
        let elements: Vec<&str> =
            layout.elements.iter().map(|element| body.get(element.clone()).unwrap()).collect();
        assert_eq!(elements, [r#"{"a":"\"}{"}"#, r#"{"b":[{}]}"#]);
        let frame = layout.frame(body.as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(frame).unwrap(),
            r#" { "system" : [], "a":-1.5e3,"messages":[],"tools":[], "z":null } "#
        );
        assert_eq!(layout.others(), 2);
    }

    #[test]
    fn it_gives_up_where_readers_may_differ() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"messages":[]}"#,
            r#"{"messages":{}}"#,
            r#"{"messages":"x"}"#,
            r#"{"messages":[1]}"#,
            r#"{"messages":[{}],"messages":[{}]}"#,
            r#"{"messages":[{}],"m\u0065ssages":[{}]}"#,
            r#"{"messages":[{}]"#,
            r#"{"messages":[{}}"#,
            r#"{"messages":[{},]}"#,
            r#"{"messages":[{}{}]}"#,
            r#"{"messages":[{}]} x"#,
            r#"{"messages":[{"x":"]}"#,
        ] {
            assert_eq!(look(body), None, "{body}");
        }
    }

    #[test]
    fn a_look_beside_an_older_body_finds_the_same() {
        let old = r#"{"tools":[{"a":1}],"messages":[{"a":1},{"b":2},{"c":3}],"system":[{}]}"#;
        let layout = look(old).unwrap().layout;
        let before = Some(Before { body: old.as_bytes(), layout: &layout });
        for (new, same) in [
            (r#"{"tools":[{"a":1}],"messages":[{"a":1},{"b":2},{"c":3},{"d":4}],"system":[{}]}"#, 5),
            (r#"{"tools":[{"a":1}],"messages":[{"a":1},{"b":2},{"c":3}],"system":[{}]}"#, 5),
            (r#"{"x":1,"tools":[{"a":1}],"messages":[{"a":2},{"b":2}],"system":[{},{}]}"#, 2),
            (r#"{"tools":[{"a":1},1],"messages":[{"a":1}],"x":1}"#, 1),
            (r#"{"messages":[{"a":1}],"tools":[{"a":1}],"system":"[{}]"}"#, 2),
            (r#"{"tools":null,"messages":[{"b":2},{"b":2}, {"c":3 }]}"#, 1),
            (r#"{"messages":[{"a":1},{"b":2},{"c":3}"#, 0),
            (r#"{"messages":[{"a":1}1]}"#, 0),
        ] {
            let seen = Layout::of(new.as_bytes(), FIELDS, before);
            let counted = seen.as_ref().map_or(0, |seen| {
                let elements = seen.same.iter().filter(|same| **same).count();
                elements + usize::from(seen.same_tools) + usize::from(seen.same_system)
            });
            assert_eq!(counted, same, "{new}");
            assert_eq!(seen.map(|seen| seen.layout), look(new).map(|seen| seen.layout), "{new}");
        }
    }
}
