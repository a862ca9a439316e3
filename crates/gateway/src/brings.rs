//! What requests bring that no codec reads.
//!
//! A body that nobody expects is a way past those who judge: servers ignore it or read it, and nobody here would know. So each
//! [operation](crate::operations) that passes unread declares what it brings, and where hooks decide or the operator pays,
//! anything else is refused. *Closed*: fields, and forms of their values.
//!
//! What is allowed here is shown to hooks as [words](crate::inspect), where they judge requests.

use serde_json::Value;

use backstop_llm::wire::parse_request;

/// The longest word, in bytes.
const LONGEST_WORD: usize = 256;
/// The longest id, in bytes.
const LONGEST_ID: usize = 128;
/// The most items of a list of ids.
const MOST_IDS: usize = 10_000;

/// What a request brings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Brings {
    /// No body. One that is empty, or an empty object, passes here and everywhere.
    Nothing,
    /// A file, in parts.
    Parts,
    /// An object of JSON that has at most these fields.
    Object(&'static [(&'static str, Form)]),
    /// What a codec reads, or those who judge batches and files.
    Read,
}

/// The form of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// A number.
    Number,
    /// A line of text that is no longer than 256 bytes.
    Word,
    /// Ids that the provider gave.
    Ids,
    /// The MD5 of a file, in hexadecimal digits.
    Md5,
    /// When a file is deleted: `anchor` and `seconds`.
    Expiry,
}

impl Brings {
    /// Why a body is none of these, if it is none. `is_in_parts` says what its type is.
    pub(crate) fn refuses(self, body: &[u8], is_in_parts: bool) -> Option<&'static str> {
        let is_empty = || {
            let body = body.trim_ascii();
            body.is_empty() || matches!(parse_request(body), Ok(Value::Object(fields)) if fields.is_empty())
        };
        match self {
            Self::Read => None,
            // That says nothing, wherever it stands.
            _ if is_empty() => None,
            Self::Nothing => Some("it has a body, and this operation has none"),
            Self::Parts => (!is_in_parts).then_some("its body is not in parts (`multipart/form-data`)"),
            Self::Object(forms) => match parse_request(body) {
                Ok(Value::Object(fields)) => {
                    let is_known = |name: &str, value: &Value| {
                        forms.iter().any(|(known, form)| *known == name && form.fits(value))
                    };
                    let fits = fields.iter().all(|(name, value)| is_known(name, value));
                    (!fits).then_some("its body has a field that this operation does not have, or that has another form there")
                }
                _ => Some("its body is no object of JSON"),
            },
        }
    }
}

impl Form {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Number => value.is_number(),
            Self::Word => value.as_str().is_some_and(is_word),
            Self::Ids => value.as_array().is_some_and(|ids| {
                ids.len() <= MOST_IDS && ids.iter().all(|id| id.as_str().is_some_and(is_id))
            }),
            Self::Md5 => value
                .as_str()
                .is_some_and(|text| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())),
            Self::Expiry => value.as_object().is_some_and(|fields| {
                fields.iter().all(|(name, value)| match name.as_str() {
                    "anchor" => value == "created_at",
                    "seconds" => value.is_number(),
                    _ => false,
                })
            }),
        }
    }
}

fn is_word(text: &str) -> bool {
    text.len() <= LONGEST_WORD && !text.chars().any(char::is_control)
}

fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_body_brings_none() {
        for body in ["", " \n", "{}", " { } "] {
            assert!(Brings::Nothing.refuses(body.as_bytes(), false).is_none(), "{body:?}");
        }
        for body in ["x", "[]", "null", "0", "{\"x\":1}", "{}{}", "\"\"", "{\"\":null}"] {
            assert!(Brings::Nothing.refuses(body.as_bytes(), false).is_some(), "{body:?}");
        }
    }

    #[test]
    fn an_object_has_known_fields_of_known_forms() {
        let completion = Brings::Object(&[("part_ids", Form::Ids), ("md5", Form::Md5)]);
        let md5 = "0123456789abcdef".repeat(2);
        let good = [
            "{}".to_owned(),
            r#"{"part_ids":["part_1","part-b"]}"#.to_owned(),
            format!(r#"{{"part_ids":[],"md5":"{md5}"}}"#),
        ];
        for body in &good {
            assert!(completion.refuses(body.as_bytes(), false).is_none(), "{body}");
            // Whatever stands beside it, nothing passes that would not pass alone.
            let beside =
                format!("{}{}\"x\":1}}", body.trim_end_matches('}'), if body == "{}" { "" } else { "," });
            assert!(completion.refuses(beside.as_bytes(), false).is_some(), "{beside}");
        }
        for body in [
            "[]",
            r#"{"part_ids":"part_1"}"#,
            r#"{"part_ids":["part_1 and more"]}"#,
            r#"{"part_ids":[""]}"#,
            r#"{"part_ids":[["part_1"]]}"#,
            r#"{"md5":"a sentence of thirty-two bytes.."}"#,
            r#"{"part_ids":[],"part_ids":["a b"]}"#,
        ] {
            assert!(completion.refuses(body.as_bytes(), false).is_some(), "{body}");
        }
    }
}
