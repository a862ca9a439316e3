//! Types of media that are known, with the parameters that are.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::shape::is_number;

/// The types that requests and answers of models, and files, have.
const TYPES: [&str; 55] = [
    "application/gzip",
    "application/json",
    "application/jsonl",
    "application/msword",
    "application/octet-stream",
    "application/pdf",
    "application/problem+json",
    "application/vnd.amazon.eventstream",
    "application/vnd.api+json",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/x-jsonl",
    "application/x-jsonlines",
    "application/x-ndjson",
    "application/x-www-form-urlencoded",
    "application/xml",
    "application/yaml",
    "application/zip",
    "audio/aac",
    "audio/basic",
    "audio/flac",
    "audio/l16",
    "audio/m4a",
    "audio/mp3",
    "audio/mp4",
    "audio/mpeg",
    "audio/mpga",
    "audio/ogg",
    "audio/opus",
    "audio/pcm",
    "audio/wav",
    "audio/webm",
    "audio/x-wav",
    "image/avif",
    "image/bmp",
    "image/gif",
    "image/heic",
    "image/heif",
    "image/jpeg",
    "image/png",
    "image/svg+xml",
    "image/tiff",
    "image/webp",
    "multipart/byteranges",
    "multipart/form-data",
    "multipart/mixed",
    "text/css",
    "text/csv",
    "text/event-stream",
    "text/html",
    "text/markdown",
    "text/plain",
    "video/mp4",
    "video/webm",
];

/// The charsets that are passed on. Answers in another one than UTF-8 are refused where hooks decide.
const CHARSETS: [&str; 9] =
    ["ascii", "iso-8859-1", "latin1", "us-ascii", "utf-16", "utf-16be", "utf-16le", "utf-8", "utf8"];

/// How sounds are packed.
const CODECS: [&str; 6] = ["aac", "flac", "mp3", "opus", "pcm", "vorbis"];

/// The longest type with its parameters.
const LONGEST: usize = 256;
/// How types of bodies in parts begin, and what only they have.
const MULTIPART: &str = "multipart/";
const BOUNDARY: &str = "boundary";
/// The longest boundary of a body in parts (RFC 2046, 5.1.1).
const LONGEST_BOUNDARY: usize = 70;

/// A type of media with the parameters that are known; `None` if the type is not.
pub(super) fn known(text: &str) -> Option<Cow<'_, str>> {
    let mut parts = text.split(';').map(|part| part.trim_matches([' ', '\t']));
    let kind = parts.next().filter(|kind| text.len() <= LONGEST && is_known(kind))?;
    let is_in_parts = kind.get(..MULTIPART.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(MULTIPART));
    let given: Vec<&str> = parts.collect();
    let mut names = BTreeSet::new();
    let mut is_kept = |parameter: &str| {
        let name = parameter.split('=').next().unwrap_or_default().to_ascii_lowercase();
        is_parameter(parameter) && (is_in_parts || name != BOUNDARY) && names.insert(name)
    };
    let kept: Vec<&str> = given.iter().copied().filter(|parameter| is_kept(parameter)).collect();
    if kept.len() == given.len() {
        return Some(Cow::Borrowed(text));
    }
    Some(Cow::Owned(std::iter::once(kind).chain(kept).collect::<Vec<_>>().join("; ")))
}

/// Whether a text is a type that is known, or stands for several of them (`text/*`).
pub(super) fn is_range(text: &str) -> bool {
    let is_family = |family: &str| {
        TYPES
            .iter()
            .any(|kind| kind.split('/').next().is_some_and(|known| known.eq_ignore_ascii_case(family)))
    };
    text == "*/*" || text.strip_suffix("/*").is_some_and(is_family) || is_known(text)
}

fn is_known(kind: &str) -> bool {
    TYPES.iter().any(|known| known.eq_ignore_ascii_case(kind))
}

fn is_parameter(text: &str) -> bool {
    let Some((name, value)) = text.split_once('=') else { return false };
    let inside = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let is_one = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(inside));
    match name.to_ascii_lowercase().as_str() {
        "charset" => is_one(&CHARSETS),
        "codec" | "codecs" => is_one(&CODECS),
        "rate" | "channels" | "q" => is_number(inside),
        // A boundary is not to be read by anybody but him who parts the body by it, and a shorter one would part it elsewhere.
        BOUNDARY => {
            let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&byte);
            (1..=LONGEST_BOUNDARY).contains(&inside.len()) && inside.bytes().all(is_sign)
        }
        _ => false,
    }
}
