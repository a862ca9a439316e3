//! The shapes that values of headers may have.
//!
//! Most shapes say nothing of their own: a number, a date, one of a few words. What remains is a *word*: an id, a name, a
//! version, a seal. Words are short, have no blank in them and few parts, and are [shown to redactors](Shape::is_word) before they
//! pass: an id can be any word, also one that is a secret.
//!
//! A shape either takes a value as it is, or takes a part of it that is closed (the products of a `user-agent` without their
//! comments, a type of media without parameters that nobody knows), or takes nothing.
//!
//! Limits: a few short words can be any few; whether an id was made at random is not to be seen.

use std::borrow::Cow;

use backstop_hooks::TraceParent;
use http::HeaderValue;
use jiff::Timestamp;

use super::media;

/// The length of a `traceparent` without what later versions may add.
const TRACE_PARENT: usize = 55;
/// The most digits of a number: those of a time in milliseconds. A number of a card has more.
const MOST_DIGITS: usize = 13;
/// The most ranges at once.
const MOST_RANGES: usize = 4;
/// The longest date.
const LONGEST_DATE: usize = 35;
/// The longest id.
const LONGEST_ID: usize = 64;
/// The most parts that an id has between its signs, and how many of them may be words.
const MOST_PARTS: usize = 8;
const MOST_WORD_PARTS: usize = 2;
/// The longest name of a model, an organization or a client.
const LONGEST_NAME: usize = 64;
/// The most names in a list, and the bytes of all.
const MOST_NAMES: usize = 32;
const LONGEST_LIST: usize = 1_024;
/// The longest token that only its maker reads.
const LONGEST_SEAL: usize = 4_096;
/// The longest credentials.
const LONGEST_CREDENTIALS: usize = 8_192;
/// The most products of a client, and the longest part of one.
const MOST_PRODUCTS: usize = 8;
const LONGEST_PRODUCT: usize = 32;
/// What stands for a version in the names of SDKs (`OpenAI/JS 5.20.1`).
const LANGUAGES: [&str; 9] = ["JS", "Python", "Go", "Java", "Ruby", "PHP", "CSharp", "Kotlin", "TypeScript"];
/// Clients that say no version of theirs.
const UNVERSIONED: [&str; 4] = ["Bun", "Deno", "node", "undici"];
/// What the makers' SDKs put in front of the ids by which they ask once more.
const RETRIES: [&str; 2] = ["stainless-node-retry-", "stainless-python-retry-"];
/// What caches are told, without numbers.
const DIRECTIVES: [&str; 7] =
    ["no-cache", "no-store", "no-transform", "must-revalidate", "private", "public", "immutable"];

/// What a value of a header may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A number in decimals.
    Number,
    /// A time, or how long until then: a number, `6m0s`, a date of HTTP (RFC 9110, 5.6.7) or of RFC 3339.
    Time,
    /// Yes or no.
    Flag,
    /// One of these words, in any letter case.
    OneOf(&'static [&'static str]),
    /// A list of these words, each perhaps with a weight (`;q=0.5`).
    EachOf(&'static [&'static str]),
    /// What a cache is told.
    Caching,
    /// A range of bytes (RFC 9110, 14), asked for or given.
    Range,
    /// A tag of a version (RFC 9110, 8.8.3).
    Tag,
    /// A type of media, without parameters that nobody knows.
    Media,
    /// A list of types of media, or of all.
    Accept,
    /// A list of languages.
    Languages,
    /// An id.
    Id,
    /// A name, a version or a state.
    Name,
    /// A list of names.
    Names,
    /// The kind of an error at Amazon, without the address behind it.
    Kind,
    /// A token that only its maker reads.
    Seal,
    /// The products of a client, without comments.
    Products,
    /// The address of a site, without a path.
    Site,
    /// Whom a request belongs to (W3C Trace Context, `traceparent`).
    Trace,
    /// A key or a token of the client's.
    Credentials,
}

impl Shape {
    /// What of a value has this shape; `None` if it has another.
    pub(crate) fn of(self, value: &HeaderValue) -> Option<HeaderValue> {
        let text = std::str::from_utf8(value.as_bytes()).ok()?.trim_matches([' ', '\t']);
        let taken = self.taken(text)?;
        if taken.as_bytes() == value.as_bytes() {
            return Some(value.clone());
        }
        HeaderValue::from_str(&taken).ok()
    }

    /// Whether values of this shape can be words that nobody listed.
    pub(crate) const fn is_word(self) -> bool {
        match self {
            Self::Tag
            | Self::Id
            | Self::Name
            | Self::Names
            | Self::Kind
            | Self::Seal
            | Self::Products
            | Self::Site
            | Self::Range
            | Self::Languages
            | Self::Trace => true,
            Self::Number
            | Self::Time
            | Self::Flag
            | Self::OneOf(_)
            | Self::EachOf(_)
            | Self::Caching
            | Self::Media
            | Self::Accept
            // Whoever asks is to be let in by it, so it is a secret for sure.
            | Self::Credentials => false,
        }
    }

    /// Whether a value of this shape can be one. Types of media are listed, but for what parts a body.
    pub(crate) fn is_word_in(self, value: &HeaderValue) -> bool {
        self.is_word() || (self == Self::Media && value.as_bytes().contains(&b'='))
    }

    /// Whether several values are one list.
    pub(crate) const fn is_list(self) -> bool {
        matches!(self, Self::EachOf(_) | Self::Caching | Self::Accept | Self::Languages | Self::Names)
    }

    fn taken(self, text: &str) -> Option<Cow<'_, str>> {
        let is_it = match self {
            Self::Number => is_number(text),
            Self::Time => is_time(text),
            Self::Flag => is_one_of(&["true", "false", "1", "0", "?1", "?0"], text),
            Self::OneOf(words) => is_one_of(words, text),
            Self::EachOf(words) => is_list(text, |item| is_one_of(words, without_weight(item))),
            Self::Caching => is_list(text, is_directive),
            Self::Range => is_range(text),
            Self::Tag => is_tag(text),
            Self::Languages => is_list(text, |item| is_language(without_weight(item))),
            Self::Accept => is_list(text, |item| media::is_range(without_weight(item))),
            Self::Id => is_id(text),
            Self::Name => is_name(text),
            Self::Names => is_list(text, is_name),
            Self::Seal => is_seal(text),
            Self::Site => is_site(text),
            Self::Trace => is_trace(text),
            Self::Credentials => is_credentials(text),
            Self::Media => return media::known(text),
            Self::Products => return products(text).map(Cow::Owned),
            Self::Kind => {
                return text.split(':').next().filter(|kind| is_name(kind)).map(Cow::Borrowed);
            }
        };
        is_it.then_some(Cow::Borrowed(text))
    }
}

fn is_one_of(words: &[&str], text: &str) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(text))
}

fn is_list(text: &str, is_item: impl Fn(&str) -> bool) -> bool {
    text.len() <= LONGEST_LIST
        && text.split(',').count() <= MOST_NAMES
        && text.split(',').map(|item| item.trim_matches([' ', '\t'])).all(is_item)
}

/// An item of a list without how much it is wanted.
fn without_weight(item: &str) -> &str {
    let weighted = item.rsplit_once(';').and_then(|(item, weight)| {
        let weight = weight.trim_matches([' ', '\t']).strip_prefix("q=")?;
        let is_weight = weight.len() <= 5 && is_number(weight);
        is_weight.then(|| item.trim_end_matches([' ', '\t']))
    });
    weighted.unwrap_or(item)
}

fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is a number in decimals.
pub(crate) fn is_number(text: &str) -> bool {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    are_digits(whole) && are_digits(part) && whole.len() + part.len() <= MOST_DIGITS + 1
}

fn is_time(text: &str) -> bool {
    is_number(text) || is_duration(text) || is_http_date(text) || is_rfc_3339(text)
}

/// As OpenAI writes it (`6m0s`, `20ms`).
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 7] = ["ms", "us", "ns", "d", "h", "m", "s"];
    let (mut rest, mut parts) = (text, 0);
    while !rest.is_empty() {
        let end = rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(end);
        let Some(after) = UNITS.iter().find_map(|unit| behind.strip_prefix(unit)) else { return false };
        parts += 1;
        if !is_number(number) || parts > UNITS.len() {
            return false;
        }
        rest = after;
    }
    parts > 0
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
fn is_http_date(text: &str) -> bool {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts: Vec<&str> = text.split(' ').collect();
    let [day, date, month, year, time, zone] = parts.as_slice() else { return false };
    let is_clock = |time: &str| {
        let parts: Vec<&str> = time.split(':').collect();
        parts.len() == 3 && parts.iter().all(|part| part.len() == 2 && are_digits(part))
    };
    day.strip_suffix(',').is_some_and(|day| DAYS.contains(&day))
        && (date.len() == 2 && are_digits(date))
        && MONTHS.contains(month)
        && (year.len() == 4 && are_digits(year))
        && is_clock(time)
        && *zone == "GMT"
}

fn is_rfc_3339(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_digit() || b"-:.+TZ".contains(&byte);
    text.len() <= LONGEST_DATE && text.bytes().all(is_sign) && text.parse::<Timestamp>().is_ok()
}

fn is_directive(text: &str) -> bool {
    match text.split_once('=') {
        None => is_one_of(&DIRECTIVES, text),
        Some((name, seconds)) => is_one_of(&["max-age", "s-maxage"], name) && is_number(seconds),
    }
}

/// `bytes=0-9`, `bytes 0-9/100` and their like.
fn is_range(text: &str) -> bool {
    let Some(range) = text.strip_prefix("bytes").and_then(|range| range.strip_prefix(['=', ' '])) else {
        return false;
    };
    let is_place = |place: &str| place.is_empty() || (place.len() <= MOST_DIGITS && are_digits(place));
    let is_item = |item: &str| {
        let (places, whole) = item.split_once('/').unwrap_or((item, ""));
        let is_span = places.split_once('-').is_some_and(|(from, to)| is_place(from) && is_place(to));
        (is_span || places == "*") && (whole == "*" || is_place(whole))
    };
    range.split(',').count() <= MOST_RANGES && range.split(',').all(|item| is_item(item.trim_matches(' ')))
}

fn is_tag(text: &str) -> bool {
    let tag = text.strip_prefix("W/").unwrap_or(text);
    let inside = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    text == "*" || is_id(inside.unwrap_or(tag))
}

fn is_language(text: &str) -> bool {
    let mut parts = text.split('-');
    let are_letters = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphabetic());
    // A script, or a country in letters or in numbers (BCP 47).
    let is_part = |part: &str| {
        (matches!(part.len(), 2 | 4) && are_letters(part)) || (part.len() == 3 && are_digits(part))
    };
    text == "*"
        || (parts.next().is_some_and(|first| matches!(first.len(), 2 | 3) && are_letters(first))
            && text.len() <= 12
            && parts.all(is_part))
}

/// Whether a text is an id: letters and digits in a few parts, of which not many are words.
pub(crate) fn is_id(text: &str) -> bool {
    let text = RETRIES.iter().find_map(|front| text.strip_prefix(front)).unwrap_or(text);
    let parts = || text.split(['-', '_', '.', ':']);
    let is_word = |part: &&str| {
        part.bytes().all(|byte| byte.is_ascii_alphabetic())
            && !part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    (1..=LONGEST_ID).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
        && text.bytes().any(|byte| byte.is_ascii_alphanumeric())
        && parts().count() <= MOST_PARTS
        && parts().filter(is_word).count() <= MOST_WORD_PARTS
}

/// Whether a text is a name: of a model, a version, a client.
pub(crate) fn is_name(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/@=+".contains(&byte);
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(is_sign)
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'@')
}

/// Whether a text is a token that only its maker reads.
pub(crate) fn is_seal(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:+/=~".contains(&byte);
    (1..=LONGEST_SEAL).contains(&text.len()) && text.bytes().all(is_sign)
}

/// `https://` and a host.
fn is_site(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.map(|host| host.strip_suffix('/').unwrap_or(host)).is_some_and(|host| {
        is_name(host) && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte))
    })
}

/// What later versions may add at the end can be any text.
fn is_trace(text: &str) -> bool {
    text.len() == TRACE_PARENT && TraceParent::parse(text).is_some()
}

/// A key, or a token behind its scheme, or a signature of Amazon's.
fn is_credentials(text: &str) -> bool {
    const SIGNATURE: &str = "AWS4-HMAC-SHA256";
    let (scheme, token) = text.split_once(' ').unwrap_or(("", text));
    let is_sign = |byte: u8| byte.is_ascii_graphic();
    let is_scheme = scheme.is_empty() || is_one_of(&["Bearer", "Basic", "Token"], scheme);
    let is_token = is_scheme && token.bytes().all(is_sign);
    let is_signature = scheme == SIGNATURE && token.bytes().all(|byte| is_sign(byte) || byte == b' ');
    (1..=LONGEST_CREDENTIALS).contains(&text.len()) && (is_token || is_signature)
}

/// The products of a client, each with a version, without comments and whatever else stands between them.
fn products(text: &str) -> Option<String> {
    let (mut open, mut depth) = (String::new(), 0_usize);
    for sign in text.chars() {
        match sign {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            sign if depth == 0 => open.push(sign),
            _ => {}
        }
    }
    let found: Vec<&str> = open.split([' ', '\t']).filter(|product| is_product(product)).collect();
    let found = found.get(..MOST_PRODUCTS).unwrap_or(&found);
    (!found.is_empty()).then(|| found.join(" "))
}

fn is_product(text: &str) -> bool {
    let is_version = |part: &str| {
        let number = part.strip_prefix('v').unwrap_or(part);
        number.bytes().next().is_some_and(|first| first.is_ascii_digit())
    };
    let is_part = |part: &str| {
        (1..=LONGEST_PRODUCT).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+@-".contains(&byte))
    };
    let parts: Vec<&str> = text.split('/').collect();
    parts.iter().all(|part| is_part(part))
        && match parts.as_slice() {
            [word] => is_version(word) || UNVERSIONED.contains(word),
            [_, behind @ ..] if behind.len() <= 3 => {
                behind.iter().any(|part| is_version(part) || LANGUAGES.contains(part))
            }
            _ => false,
        }
}

#[cfg(test)]
mod tests;
