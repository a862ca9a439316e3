//! Bodies in parts (`multipart/form-data`, RFC 7578), read in one way or not at all.
//!
//! Servers read such bodies with much patience, each with its own: headers that are folded or doubled, names in other
//! charsets, line ends without a return, texts in front of the first part. What only some of them would find is a text that
//! nobody judged. So the form that clients write is read here and everything else is refused:
//!
//! - The body begins with its first delimiter and ends with its last, but for one line end. The delimiter's text stands
//!   nowhere else.
//! - A part has a `content-disposition` of `form-data` with a `name`, and a `filename` if it is a file; a `content-type` if it
//!   wants, and its length. No header is there twice or folded, no name is escaped or in other letters than a table knows it.
//! - No name is there twice, but those of lists (`image[]`), and no list is there under two names.
//! - What is no file is UTF-8, whatever the part says of it.
//!
//! Parts are spans of the body, so that what is not changed leaves as it came. Limits: 256 parts, 4 KiB for the headers
//! of one.

use std::collections::HashMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use memchr::memmem;
use serde_json::{Map, Value};
use thiserror::Error;

/// More parts than any operation has.
const MOST_PARTS: usize = 256;
/// The most bytes of the headers of a part.
const MOST_HEADERS: usize = 4_096;
/// The longest boundary (RFC 2046, 5.1.1). Of the signs that may stand in one, those pass at which no reader stops.
const LONGEST_BOUNDARY: usize = 70;
/// The type of such a body.
const KIND: &str = "multipart/form-data";
/// A name by which HTML forms tell a charset.
const CHARSET: &str = "_charset_";

/// Why a body in parts is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("its parts can't be read in one way only: {0}")]
pub(crate) struct Unclear(&'static str);

/// A body in parts.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    body: Bytes,
    boundary: String,
    parts: Vec<Part>,
}

/// A part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its name, as it stands.
    pub(crate) name: String,
    /// What the file is called, if it is one.
    pub(crate) file: Option<String>,
    /// The type of its content, as it stands.
    pub(crate) kind: Option<String>,
    /// Where its content stands.
    span: Range<usize>,
    /// Whether it says how long it is.
    has_length: bool,
}

/// Whether a body with these headers is one in parts, or may be taken for one.
pub(crate) fn is_in_parts(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_TYPE).iter().any(|value| {
        let value = value.as_bytes().to_ascii_lowercase();
        memmem::find(&value, b"multipart/").is_some()
    })
}

impl Form {
    /// Reads a body, decoded of its compression.
    ///
    /// # Errors
    /// [`Unclear`] if two readers could find other parts in it.
    pub(crate) fn read(headers: &HeaderMap, body: Bytes) -> Result<Self, Unclear> {
        let boundary = boundary(headers).ok_or(Unclear("its type names no plain boundary"))?;
        let parts = parts(&body, boundary.as_bytes())?;
        are_distinct(&parts)?;
        let form = Self { body, boundary, parts };
        let is_text = |part: &&Part| part.file.is_some() || form.text(part).is_some();
        if form.parts.iter().all(|part| is_text(&part)) {
            Ok(form)
        } else {
            Err(Unclear("one that is no file is not UTF-8"))
        }
    }

    /// What stands between its parts, without the dashes in front of it.
    pub(crate) fn boundary(&self) -> &str {
        &self.boundary
    }

    /// Its parts, in their order.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The bytes of a part.
    pub(crate) fn bytes(&self, part: &Part) -> Bytes {
        self.body.get(part.span.clone()).map_or_else(Bytes::new, |bytes| self.body.slice_ref(bytes))
    }

    /// What a part says, if it is a text.
    pub(crate) fn text(&self, part: &Part) -> Option<&str> {
        self.body.get(part.span.clone()).and_then(|bytes| str::from_utf8(bytes).ok())
    }

    /// The body with other contents in the places of some parts, by their position; `None` if the delimiter stands in one, or
    /// such a part says how long it is.
    pub(crate) fn with(&self, new: &[(usize, Bytes)]) -> Option<Bytes> {
        let delimiter = self.delimiter()?;
        let mut written = BytesMut::with_capacity(self.body.len());
        let mut from = 0;
        for (position, content) in new {
            let part = self.parts.get(*position).filter(|part| !part.has_length)?;
            if memmem::find(content, delimiter).is_some() {
                return None;
            }
            written.extend_from_slice(self.body.get(from..part.span.start)?);
            written.extend_from_slice(content);
            from = part.span.end;
        }
        written.extend_from_slice(self.body.get(from..)?);
        Some(written.freeze())
    }

    /// The first line, by which parts are told.
    fn delimiter(&self) -> Option<&[u8]> {
        self.body.get(..memmem::find(&self.body, b"\r\n")?)
    }

    /// Its texts as an object, in which lists are arrays: what is asked, without the files.
    pub(crate) fn fields(&self) -> Value {
        let mut fields = Map::new();
        for part in self.parts.iter().filter(|part| part.file.is_none()) {
            let says = Value::from(self.text(part).unwrap_or_default());
            match part.name.strip_suffix("[]") {
                None => drop(fields.insert(part.name.clone(), says)),
                Some(list) => {
                    let list = fields.entry(list).or_insert_with(|| Value::Array(Vec::new()));
                    if let Value::Array(items) = list {
                        items.push(says);
                    }
                }
            }
        }
        fields.into()
    }
}

impl Part {
    /// The name of what it belongs to: `expires_after` of `expires_after[anchor]`.
    pub(crate) fn base(&self) -> &str {
        self.name.split('[').next().unwrap_or_default()
    }
}

/// The boundary that the type of the body names.
fn boundary(headers: &HeaderMap) -> Option<String> {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return None };
    let (kind, parameter) = kind.to_str().ok()?.split_once(';')?;
    let (name, value) = parameter.trim_matches([' ', '\t']).split_once('=')?;
    if !kind.trim().eq_ignore_ascii_case(KIND) || !name.eq_ignore_ascii_case("boundary") {
        return None;
    }
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"')?,
        None => value,
    };
    // At others some readers stop.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.+".contains(&byte);
    let is_one = (1..=LONGEST_BOUNDARY).contains(&value.len()) && value.bytes().all(is_plain);
    is_one.then(|| value.to_owned())
}

/// The parts of a body.
fn parts(body: &[u8], boundary: &[u8]) -> Result<Vec<Part>, Unclear> {
    let delimiter = [b"--", boundary].concat();
    let mut found = memmem::find_iter(body, &delimiter);
    if found.next() != Some(0) {
        return Err(Unclear("it does not begin with a part"));
    }
    let mut parts = Vec::new();
    let mut start = delimiter.len();
    loop {
        let rest = body.get(start..).unwrap_or_default();
        match rest.strip_prefix(b"--") {
            Some(b"" | b"\r\n") => {
                // Readers that look for the delimiter see none behind the last.
                return if found.next().is_none() { Ok(parts) } else { Err(ELSEWHERE) };
            }
            Some(_) => return Err(Unclear("something stands behind the last one")),
            None if rest.starts_with(b"\r\n") => {}
            None => return Err(ELSEWHERE),
        }
        let next = found.next().ok_or(Unclear("the last one has no end"))?;
        let inside = body.get(start + 2..next).unwrap_or_default();
        let inside = inside.strip_suffix(b"\r\n").ok_or(ELSEWHERE)?;
        if parts.len() >= MOST_PARTS {
            return Err(Unclear("there are more of them than any operation has"));
        }
        parts.push(part(inside, start + 2)?);
        start = next + delimiter.len();
    }
}

const ELSEWHERE: Unclear = Unclear("what parts them stands elsewhere, too");

/// A part, which begins at `at` in its body.
fn part(inside: &[u8], at: usize) -> Result<Part, Unclear> {
    let end = memmem::find(inside.get(..MOST_HEADERS).unwrap_or(inside), b"\r\n\r\n");
    let end = end.ok_or(Unclear("one has no headers, or too many"))?;
    let head = inside.get(..end).and_then(|head| str::from_utf8(head).ok());
    let head = head.ok_or(Unclear("a header is not UTF-8"))?;
    let content = inside.get(end + 4..).unwrap_or_default();
    let (mut disposition, mut kind, mut has_length) = (None, None, false);
    for line in head.split("\r\n") {
        if line.contains(|c: char| c.is_control()) {
            return Err(Unclear("a header has a control character in it"));
        }
        let (name, value) = line.split_once(':').ok_or(Unclear("a header has no name"))?;
        let value = value.trim_matches(' ');
        let is_first = match name.to_ascii_lowercase().as_str() {
            "content-disposition" => disposition.replace(value).is_none(),
            "content-type" if is_utf8(value) => kind.replace(value.to_owned()).is_none(),
            "content-length" if value == content.len().to_string() => {
                !std::mem::replace(&mut has_length, true)
            }
            _ => return Err(Unclear("one has a header that some readers go by and others do not")),
        };
        if !is_first {
            return Err(Unclear("one has a header twice"));
        }
    }
    let (name, file) = disposition.and_then(names).ok_or(Unclear("one has no plain name"))?;
    let start = at + end + 4;
    Ok(Part { name, file, kind, span: start..start + content.len(), has_length })
}

/// Whether the type of a part names no other charset, and no parts inside of it.
fn is_utf8(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let mut parameters = kind.split(';').map(str::trim);
    let is_plain = parameters
        .next()
        .is_some_and(|kind| !kind.starts_with("multipart/") && !kind.starts_with("message/"));
    is_plain
        && parameters.all(|parameter| match parameter.split_once('=') {
            Some(("charset", name)) => ["utf-8", "utf8", "us-ascii"].contains(&name.trim_matches('"')),
            Some((name, _)) => !name.starts_with("charset"),
            None => true,
        })
}

/// The name of a part, and that of its file: `form-data; name="image"; filename="cat.png"`.
fn names(disposition: &str) -> Option<(String, Option<String>)> {
    let mut rest = disposition.strip_prefix("form-data").or_else(|| disposition.strip_prefix("Form-Data"))?;
    let (mut name, mut file) = (None, None);
    while !rest.is_empty() {
        let parameter = rest.strip_prefix(';')?.trim_start_matches(' ');
        let (key, value) = parameter.split_once('=')?;
        let (value, more) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => {
                let (value, _) = value.split_once(';').unwrap_or((value, ""));
                (value, parameter.get(key.len() + 1 + value.len()..)?)
            }
        };
        let is_first = match key {
            "name" => name.replace(value).is_none(),
            "filename" => file.replace(value).is_none(),
            _ => return None,
        };
        if !is_first || value.contains(['\\', '"']) {
            return None;
        }
        rest = more;
    }
    // A name is what programs call it, and no escape.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
    let name = name.filter(|name| !name.is_empty() && name.bytes().all(is_plain) && *name != CHARSET)?;
    Some((name.to_owned(), file.map(str::to_owned)))
}

/// Whether no two names are one for some reader.
fn are_distinct(parts: &[Part]) -> Result<(), Unclear> {
    let mut known: HashMap<String, &str> = HashMap::new();
    for part in parts {
        let list = part.name.strip_suffix("[]");
        let plain = list.unwrap_or(&part.name).to_ascii_lowercase();
        match known.insert(plain, &part.name) {
            Some(other) if list.is_none() || other != part.name => {
                return Err(Unclear("two have one name"));
            }
            Some(_) | None => {}
        }
    }
    // `a` and `a[b]` are one for who reads brackets.
    let is_inside =
        |part: &Part| part.base() != part.name && known.contains_key(&part.base().to_ascii_lowercase());
    let is_list = |part: &Part| part.name.ends_with("[]") && part.base().len() + 2 == part.name.len();
    if parts.iter().any(|part| is_inside(part) && !is_list(part)) {
        return Err(Unclear("two have one name"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn headers(kinds: &[&str]) -> HeaderMap {
        let kinds = kinds.iter().map(|kind| (header::CONTENT_TYPE, HeaderValue::from_str(kind).unwrap()));
        kinds.collect()
    }

    fn read(body: &str) -> Result<Form, Unclear> {
        Form::read(&headers(&["multipart/form-data; boundary=x"]), Bytes::copy_from_slice(body.as_bytes()))
    }

    fn one(disposition: &str, content: &str) -> String {
        format!("--x\r\nContent-Disposition: {disposition}\r\n\r\n{content}\r\n")
    }

    fn body(parts: &[(&str, &str)]) -> String {
        let parts = parts.iter().map(|(name, content)| one(&format!("form-data; name=\"{name}\""), content));
        parts.collect::<String>() + "--x--\r\n"
    }

    #[test]
    fn parts_are_read_as_clients_write_them() {
        let file = "--x\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a b.png\"\r\n\
                    content-type: image/png\r\nContent-Length: 6\r\n\r\n\0\r\n--y\r\n";
        let text = body(&[("prompt", "a\r\nb"), ("n", ""), ("include[]", "c"), ("include[]", "d")]);
        let form = read(&format!("{file}{text}")).unwrap();
        assert_eq!(form.fields(), json!({"prompt": "a\r\nb", "n": "", "include": ["c", "d"]}));
        let image = &form.parts()[0];
        assert_eq!((image.name.as_str(), image.file.as_deref()), ("image", Some("a b.png")));
        assert_eq!(form.text(image), Some("\0\r\n--y"));
        assert!(read("--x--").unwrap().parts().is_empty());
        for disposition in
            ["form-data; name=a", "form-data; name=a; filename=b.c", "form-data; filename=\"\"; name=\"a\""]
        {
            let form = read(&(one(disposition, "y") + "--x--")).unwrap();
            assert_eq!(form.parts()[0].name, "a", "{disposition}");
        }
    }

    #[test]
    fn what_has_two_readings_is_refused() {
        let with = |head: &str| format!("--x\r\n{head}\r\n\r\nword\r\n--x--\r\n");
        let named = "Content-Disposition: form-data; name=\"a\"";
        for body in [
            String::new(),
            "--x".to_owned(),
            "--x\r\n".to_owned(),
            format!("\r\n{}", body(&[("a", "b")])),
            format!("word\r\n{}", body(&[("a", "b")])),
            format!("{}word", body(&[("a", "b")])),
            format!("{}{}", body(&[("a", "b")]), body(&[("c", "d")])),
            body(&[("a", "b")]).replace("--x--\r\n", ""),
            body(&[("a", "b")]).replace("\r\n", "\n"),
            body(&[("a", "b\n--x\nc")]),
            body(&[("a", "b--xc")]),
            body(&[("a", "b\r\n--x \r\nc")]),
            body(&[("a", "b"), ("a", "c")]),
            body(&[("a", "b"), ("A", "c")]),
            body(&[("a", "b"), ("a[]", "c")]),
            body(&[("a", "b"), ("a[c]", "c")]),
            body(&[("a[c]", "b"), ("a", "c")]),
            body(&[("a%20", "b")]),
            body(&[("_charset_", "utf-7")]),
            body(&[("", "b")]),
            with("Content-Type: text/plain"),
            with(&format!("{named}\r\n{named}")),
            with(&format!("{named}\r\nContent-Type: text/plain\r\ncontent-type: text/plain")),
            with(&format!("{named}\r\nContent-Type: text/plain; charset=utf-16")),
            with(&format!("{named}\r\nContent-Type: multipart/mixed; boundary=y")),
            with(&format!("{named}\r\nContent-Transfer-Encoding: base64")),
            with(&format!("{named}\r\nContent-Length: 3")),
            with(&format!("{named}\r\nX-More: y")),
            with(&format!("{named};\r\n filename=\"b\"")),
            with(&format!("{named}\nX: y")),
            with(&format!("{named}\rX: y")),
            with(&format!("{named} ; filename=\"b\"")),
            with(&format!("{named}; name=\"b\"")),
            with(&format!("{named}; NAME=\"b\"")),
            with(&format!("{named}; filename*=utf-8''b")),
            with(&format!("{named}; filename=\"b\\\"; name=\\\"c\"")),
            with(&format!("{named}; other=\"b\"")),
            with("Content-Disposition: attachment; name=\"a\""),
            with("Content-Disposition: form-data"),
            with("Content-Disposition: form-data; filename=\"b\""),
            with("Content-Disposition : form-data; name=\"a\""),
            with("Content-Disposition: form-data; name=\"a"),
        ] {
            assert!(read(&body).is_err(), "{body:?}");
        }
        let latin =
            Bytes::from_static(b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\xe9\r\n--x--");
        assert!(Form::read(&headers(&["multipart/form-data; boundary=x"]), latin).is_err());
        let many: Vec<(String, &str)> = (0..=MOST_PARTS).map(|number| (format!("a{number}"), "")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, says)| (name.as_str(), *says)).collect();
        assert!(read(&body(&many)).is_err() && read(&body(&many[1..])).is_ok());
        assert!(read(&with(&format!("{named}; filename=\"{}\"", "b".repeat(MOST_HEADERS)))).is_err());
    }

    #[test]
    fn the_boundary_is_named_once_and_plainly() {
        let plain = body(&[("a", "b")]);
        let body = || Bytes::from(plain.clone());
        for kind in ["multipart/form-data; boundary=x", "Multipart/Form-Data;Boundary=\"x\""] {
            assert!(is_in_parts(&headers(&[kind])));
            assert!(Form::read(&headers(&[kind]), body()).is_ok(), "{kind}");
        }
        for kinds in [
            vec!["multipart/form-data"],
            vec!["multipart/form-data; boundary="],
            vec!["multipart/form-data; boundary=x; boundary=y"],
            vec!["multipart/form-data; boundary=x; charset=utf-7"],
            vec!["multipart/form-data; boundary=\"x\\\"\""],
            vec!["multipart/form-data; boundary*=x"],
            vec!["multipart/form-data; boundary=\"x,y\""],
            vec!["multipart/form-data; boundary=x, text/plain"],
            vec!["multipart/mixed; boundary=x"],
            vec!["multipart/form-data; boundary=x", "multipart/form-data; boundary=x"],
            vec!["application/json", "multipart/form-data; boundary=x"],
        ] {
            assert!(is_in_parts(&headers(&kinds)));
            assert!(Form::read(&headers(&kinds), body()).is_err(), "{kinds:?}");
        }
        assert!(!is_in_parts(&headers(&["application/json"])) && !is_in_parts(&headers(&[])));
        for (sign, is_plain) in [("-", true), ("_", true), (".", true), ("+", true), ("9", true)]
            .into_iter()
            .chain([",", ";", "'", ":", "=", "?", "/", "(", ")", " ", "\\"].map(|sign| (sign, false)))
        {
            let whole = plain.replace("--x", &format!("--x{sign}y"));
            for kind in [
                format!("multipart/form-data; boundary=x{sign}y"),
                format!("multipart/form-data; boundary=\"x{sign}y\""),
            ] {
                let form = Form::read(&headers(&[&kind]), Bytes::from(whole.clone()));
                assert_eq!(form.is_ok(), is_plain, "{kind}");
            }
        }
    }

    #[test]
    fn other_contents_stand_in_the_place_of_their_part() {
        let form = read(&body(&[("a", "b"), ("c", "d"), ("e", "f")])).unwrap();
        assert_eq!(form.with(&[]).unwrap(), form.body);
        let new = form.with(&[(0, "longer".into()), (2, "".into())]).unwrap();
        assert_eq!(new, body(&[("a", "longer"), ("c", "d"), ("e", "")]));
        assert_eq!(form.with(&[(1, "x--x".into())]), None, "it would part the body");
        assert_eq!(form.with(&[(7, "x".into())]), None);
        let sized =
            "--x\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Length: 1\r\n\r\nb\r\n--x--";
        assert_eq!(read(sized).unwrap().with(&[(0, "longer".into())]), None);
    }

    proptest! {
        /// What is read is what was written, in any order, and nothing of a body is in no part.
        #[test]
        fn parts_are_those_that_were_written(contents in proptest::collection::vec("[a-z\r\n\"-]{0,9}", 0..6), seed in 0usize..720) {
            let names = ["a", "b", "c", "d", "e", "f"];
            let mut parts: Vec<(&str, &str)> = names.iter().copied().zip(contents.iter().map(String::as_str)).collect();
            prop_assume!(!contents.iter().any(|content| content.contains("--x")));
            let size = parts.len().max(1);
            parts.rotate_left(seed % size);
            let written = body(&parts);
            let form = read(&written).unwrap();
            let found: Vec<(&str, &str)> =
                form.parts().iter().map(|part| (part.name.as_str(), form.text(part).unwrap())).collect();
            prop_assert_eq!(&found, &parts);
        }

        /// A byte more or less is refused, or reads as parts with the same names and no other texts than those that stand there.
        #[test]
        fn no_change_hides_a_text(at in 0usize..200, insert in prop_oneof![Just("\r"), Just("\n"), Just("-"), Just("\""), Just(";"), Just(" ")]) {
            let mut written = body(&[("a", "one"), ("b", "two words"), ("c", "three")]);
            prop_assume!(at <= written.len());
            written.insert_str(at, insert);
            if let Ok(form) = read(&written) {
                let texts: String = form.parts().iter().map(|part| form.text(part).unwrap()).collect();
                for word in ["one", "two", "words", "three"] {
                    let cut = written.contains(word);
                    prop_assert!(!cut || texts.contains(word), "{:?}", written);
                }
            }
        }
    }
}
