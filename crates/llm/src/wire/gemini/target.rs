//! Addresses: `/v1beta/models/NAME:generateContent`, and what else ends like that.

use std::fmt::Write;

use backstop_hooks::Secret;

use crate::wire::{RequestTarget, StreamFraming};

pub(crate) const VERSION: &str = "/v1beta";

const WHOLE: &str = "generateContent";
const STREAM: &str = "streamGenerateContent";

/// The address below the version. A name with slashes is a resource (`tunedModels/x`), any other one a model.
pub(crate) fn request_path(model: &str, stream: bool) -> String {
    let segments: Vec<String> =
        model.split('/').filter(|segment| !matches!(*segment, "" | "." | "..")).map(encode).collect();
    let collection = if segments.len() > 1 { "" } else { "models/" };
    let method = if stream { "streamGenerateContent?alt=sse" } else { WHOLE };
    format!("/{collection}{}:{method}", segments.join("/"))
}

/// What an address says; `None` if it asks for no answer. Whatever stands before the model's collection
/// (version, project, location, publisher) is not looked at.
pub(crate) fn request_target(path_and_query: &str) -> Option<RequestTarget> {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let path = decode(path)?;
    let (resource, method) = path.trim_end_matches('/').rsplit_once(':')?;
    // Generously: an address that the provider understands and this does not is a way around the hooks.
    let stream = method.eq_ignore_ascii_case(STREAM);
    if !stream && !method.eq_ignore_ascii_case(WHOLE) {
        return None;
    }
    let (rest, name) = resource.rsplit_once('/')?;
    let collection = rest.rsplit('/').next().unwrap_or_default();
    if name.is_empty() || collection.is_empty() {
        return None;
    }
    let model = if collection == "models" { name.to_owned() } else { format!("{collection}/{name}") };
    let value = |names: &[&str]| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut found =
            pairs.filter(|(name, _)| decode(name).is_some_and(|name| names.contains(&name.as_str())));
        decode(found.next()?.1)
    };
    let events = value(&["alt", "$alt"]).is_some_and(|alt| alt.split(';').next() == Some("sse"));
    Some(RequestTarget {
        model: Some(model),
        stream,
        framing: if events { StreamFraming::Events } else { StreamFraming::JsonArray },
        key: value(&["key"]).map(Secret::new),
    })
}

/// The segment with everything escaped that could end it.
fn encode(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The text without escapes; `None` if that is no text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let ahead = rest.clone();
        let mut digit = || char::from(rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (byte == b'%').then(|| Some(digit()? * 16 + digit()?)).flatten() {
            Some(escaped) => bytes.push(escaped),
            None => {
                rest = ahead;
                bytes.push(byte);
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(address: &str) -> Option<(String, bool, StreamFraming)> {
        let target = request_target(address)?;
        Some((target.model?, target.stream, target.framing))
    }

    #[test]
    fn addresses_of_both_products_are_read() {
        let (events, array) = (StreamFraming::Events, StreamFraming::JsonArray);
        for (address, model, stream, framing) in [
            ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro", false, array),
            ("/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini-2.5-pro", true, events),
            ("/v1beta/models/m:streamGenerateContent?key=k&%61lt=sse", "m", true, events),
            ("/v1beta/models/m:streamGenerateContent?$alt=sse%3Benum-encoding=int", "m", true, events),
            ("/v1beta/models/m:streamGenerateContent", "m", true, array),
            ("/v1beta/models/m:streamGenerateContent?alt=json", "m", true, array),
            ("/v1beta/models/m%3AgenerateContent", "m", false, array),
            ("/v1beta/models/m:streamgeneratecontent/", "m", true, array),
            ("/v1beta/tunedModels/t-1:generateContent", "tunedModels/t-1", false, array),
            (
                "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse",
                "m",
                true,
                events,
            ),
            ("/v1beta1/projects/p/locations/l/endpoints/7:generateContent", "endpoints/7", false, array),
        ] {
            assert_eq!(read(address), Some((model.to_owned(), stream, framing)), "{address}");
        }
        for address in [
            "/v1beta/models/m:countTokens",
            "/v1beta/models",
            "/v1beta/models/:generateContent",
            "/v1beta/models/m",
            "/x:generateContent",
            "/v1/messages",
            "",
        ] {
            assert_eq!(read(address), None, "{address}");
        }
    }

    #[test]
    fn a_models_name_cannot_leave_its_place() {
        for (model, path) in [
            ("gemini-2.5-pro", "/models/gemini-2.5-pro:generateContent"),
            ("models/gemini-2.5-pro", "/models/gemini-2.5-pro:generateContent"),
            ("tunedModels/t", "/tunedModels/t:generateContent"),
            ("../../admin", "/models/admin:generateContent"),
            ("a?b#c:d e", "/models/a%3Fb%23c%3Ad%20e:generateContent"),
        ] {
            assert_eq!(request_path(model, false), path);
        }
        for model in ["gemini-2.5-pro", "a?b#c:d e", "tunedModels/t", "é%41"] {
            let target = request_target(&format!("{VERSION}{}", request_path(model, true))).unwrap();
            assert_eq!((target.model.as_deref(), target.stream), (Some(model), true));
        }
    }

    #[test]
    fn the_key_of_an_address_is_never_shown() {
        let target = request_target("/v1beta/models/m:generateContent?key=hunter%32").unwrap();
        assert_eq!(target.key.as_ref().unwrap().expose(), "hunter2");
        assert!(!format!("{target:?}").contains("hunter"));
    }
}
