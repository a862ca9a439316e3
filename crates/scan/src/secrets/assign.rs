//! A secret by its name: `password = "..."`, `"api_key": "..."`, `--token ...`, `Authorization: Bearer ...`.
//!
//! After a keyword, the text is read as assignments are written in code, configuration, headers,
//! command lines and prose: the rest of the name, closing quotes, an operator, an opening quote, the value.
//! The name decides how much evidence the value needs: anything in quotes after
//! `password =` counts, but a `key` must look generated. References to variables, calls, type names and
//! placeholders are not secrets, and neither is a description of one (`token_type`, `key_id`, `password_hint`).

use super::super::span::{Class, Evidence, Span};
use super::super::text::{
    ALNUM, ANY_HEX, BASE64, ByteSet, DASH, DIGIT, DOT, EQUALS, LETTER, LOWER, PLUS_SLASH, SPACE, TOKEN_MARK,
    UNDERSCORE, UPPER, URL64, WORD, at, before, contains_folded, cut, starts_folded, trim_end,
};
use super::quality::{is_placeholder, is_random, is_scrawl, randomness, starts_as_reference};

/// What a name promises about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Password,
    Secret,
    Token,
    Key,
    Authorization,
}

impl Name {
    fn kind(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Secret => "generic_secret",
            Self::Token => "generic_token",
            Self::Key => "generic_api_key",
            Self::Authorization => "authorization",
        }
    }
}

/// How far behind a keyword its value may begin.
const REACH: usize = 72;
/// The longest value that is read; what is longer is data.
const LONGEST: usize = 300;
pub(super) const VALUE: ByteSet = URL64.or(BASE64).or(EQUALS).or(DOT).or(TOKEN_MARK);
const SOLID: ByteSet = URL64.or(PLUS_SLASH).or(EQUALS);

/// What may follow a keyword inside of the same word.
const ENDINGS: [&[u8]; 19] = [
    b"",
    b"s",
    b"word",
    b"words",
    b"wd",
    b"phrase",
    b"key",
    b"keys",
    b"code",
    b"orization",
    b"entication",
    b"token",
    b"tokens",
    b"value",
    b"e",
    b"ential",
    b"entials",
    b"secret",
    b"id",
];

/// Words in a name that make it the description of a secret.
const DESCRIBING: [&[u8]; 44] = [
    b"name",
    b"size",
    b"length",
    b"len",
    b"type",
    b"types",
    b"path",
    b"file",
    b"url",
    b"uri",
    b"count",
    b"index",
    b"version",
    b"format",
    b"store",
    b"hash",
    b"digest",
    b"fingerprint",
    b"checksum",
    b"label",
    b"title",
    b"hint",
    b"prompt",
    b"field",
    b"column",
    b"limit",
    b"expiry",
    b"ttl",
    b"timeout",
    b"policy",
    b"scope",
    b"endpoint",
    b"usage",
    b"ref",
    b"range",
    b"pair",
    b"binding",
    b"kind",
    b"event",
    b"up",
    b"down",
    b"code",
    b"stream",
    b"placeholder",
];

/// Words before `key` that make it something to look up by.
const LOOKUP: [&[u8]; 12] = [
    b"public",
    b"pub",
    b"primary",
    b"foreign",
    b"partition",
    b"cache",
    b"sort",
    b"group",
    b"unique",
    b"object",
    b"row",
    b"map",
];

/// Bare values that are names of types and constants.
const TYPES: [&[u8]; 26] = [
    b"string",
    b"str",
    b"bool",
    b"boolean",
    b"int",
    b"integer",
    b"none",
    b"null",
    b"nil",
    b"true",
    b"false",
    b"required",
    b"optional",
    b"option",
    b"text",
    b"varchar",
    b"char",
    b"any",
    b"object",
    b"number",
    b"undefined",
    b"bytes",
    b"self",
    b"enabled",
    b"disabled",
    b"default",
];

/// How a value stands behind its name.
#[derive(Clone, Copy, Debug, Default)]
struct Joint {
    operator: bool,
    /// A comma or a bracket: `set("KEY", "value")`.
    argument: bool,
    quote: Option<u8>,
    words: u8,
    newlines: u8,
    /// `Bearer`, `Basic` or another scheme was read.
    scheme: bool,
    /// The name is an identifier of the secret, not the secret.
    id: bool,
    flag: bool,
    /// The value is compared with the name: `secret != "..."`.
    compared: bool,
}

/// Returns the secret that is assigned to the name which holds the keyword from `start` to `end`.
pub(super) fn find(text: &[u8], name: Name, start: usize, end: usize) -> Option<Span> {
    read(text, name, start, end, |joint, value| judge(text, name, value, joint))
}

/// Returns where a value begins that text which has not arrived may make the secret of the name which holds the keyword
/// from `start` to `end`.
pub(super) fn open(text: &[u8], name: Name, start: usize, end: usize) -> Option<usize> {
    // A value that has ended is judged as it will be in the whole text: what is found ends the reading.
    let known = |joint, value| match is_cut_off(text, value, joint) {
        true => Some(Some(value)),
        false => judge(text, name, value, joint).map(|_| None),
    };
    read(text, name, start, end, known).flatten()
}

/// Reads on from a keyword, and asks at each place where a value may begin, until there is an answer.
fn read<T>(
    text: &[u8],
    name: Name,
    start: usize,
    end: usize,
    mut ask: impl FnMut(Joint, usize) -> Option<T>,
) -> Option<T> {
    let word = WORD.or(DASH).run_back(text, start, 40);
    let prefix = cut(text, word, start);
    let in_mark =
        is_mark(text, word.saturating_sub(1)) || is_mark(text, word.saturating_sub("[redacted:".len()));
    let front = cut(text, word.saturating_sub("public ".len()), word);
    if in_mark || describes(name, prefix) || front.eq_ignore_ascii_case(b"public ") {
        return None;
    }
    let mut joint =
        Joint { flag: at(text, word) == b'-' && SPACE.has(before(text, word)), ..Joint::default() };
    let mut pos = skip_rest_of_word(text, start, end, &mut joint)?;
    let limit = end.saturating_add(REACH).min(text.len());
    while pos < limit {
        let byte = at(text, pos);
        match byte {
            b'[' if is_mark(text, pos) => return None,
            b'\n' => joint.newlines += 1,
            b' ' | b'\t' | b'\r' | b'\\' => {}
            b'=' | b':' | b'>' => {
                joint.compared |= byte == b'=' && joint.operator && matches!(before(text, pos), b'=');
                joint.compared |= byte == b'=' && before(text, pos) == b'!';
                joint.operator = true;
            }
            b',' | b'(' => joint.argument = true,
            b'"' | b'\'' | b'`'
                if joint.quote.is_none() && (joint.operator || joint.argument || joint.words > 0) =>
            {
                let opens = matches!(
                    before(text, pos),
                    b' ' | b'=' | b':' | b',' | b'(' | b'>' | b'\\' | b'\t' | b'\n' | b'{' | b'['
                );
                if opens {
                    joint.quote = Some(byte);
                }
            }
            b'"' | b'\'' | b'`' => {
                if joint.quote.is_some() {
                    return None;
                }
            }
            b'!' | b'?' | b'|' | b'[' | b']' | b')' if !joint.operator => {}
            _ if VALUE.has(byte) || joint.quote.is_some() => {
                if let Some(answer) = ask(joint, pos) {
                    return Some(answer);
                }
                pos = skip_word(text, pos, &mut joint)?;
                continue;
            }
            _ => return None,
        }
        if joint.newlines > 2 {
            return None;
        }
        pos += 1;
    }
    None
}

/// Returns whether a mark begins at `start` that stands in the place of something, which was the value.
fn is_mark(text: &[u8], start: usize) -> bool {
    let end = LOWER.or(UNDERSCORE).run(text, start + 1, 40);
    let kind = cut(text, start + 1, end);
    at(text, start) == b'['
        && (kind == b"redacted" && at(text, end) == b':' || !kind.is_empty() && at(text, end) == b'#')
}

fn describes(name: Name, prefix: &[u8]) -> bool {
    // A nonce of RFC 6455 that every client makes up for itself and every server sees.
    if contains_folded(prefix, b"websocket") {
        return true;
    }
    let public = contains_folded(prefix, b"public") || (name == Name::Key && contains_folded(prefix, b"pub"));
    public || (name == Name::Key && LOOKUP.iter().any(|word| ends_with_word(prefix, word)))
}

fn ends_with_word(name: &[u8], word: &[u8]) -> bool {
    let trimmed = name.strip_suffix(b"_").or_else(|| name.strip_suffix(b"-")).unwrap_or(name);
    trimmed.len() >= word.len()
        && trimmed.get(trimmed.len() - word.len()..).is_some_and(|tail| tail.eq_ignore_ascii_case(word))
}

/// Returns where the name goes on behind the word of the keyword, unless the keyword is a part of another word.
fn skip_rest_of_word(text: &[u8], start: usize, end: usize, joint: &mut Joint) -> Option<usize> {
    let upper = UPPER.has(before(text, end));
    let case = if upper { UPPER } else { LOWER };
    let same = case.run(text, end, 24);
    let camel = upper && LOWER.has(at(text, same));
    let ending = cut(text, end, if camel { end } else { same });
    if !ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)) {
        // A value may be glued to a name in capitals: `xKEYabc...`; a keyword inside of a word is none.
        return None;
    }
    joint.id = ending.eq_ignore_ascii_case(b"id");
    let mut pos = if camel { end } else { same };
    // `secretKeyName`, `token2`: further words of the same name.
    while ALNUM.has(at(text, pos)) && pos < start + REACH {
        let head = pos;
        pos = if DIGIT.has(at(text, pos)) {
            DIGIT.run(text, pos, 4)
        } else {
            LOWER.run(text, UPPER.run(text, pos, 24), 24)
        };
        let word = cut(text, head, pos);
        if DESCRIBING.iter().any(|known| word.eq_ignore_ascii_case(known)) {
            return None;
        }
        joint.id |= word.eq_ignore_ascii_case(b"id") || word.eq_ignore_ascii_case(b"ids");
        if pos == head {
            return None;
        }
    }
    Some(pos)
}

/// Steps over a word that is not the value: part of the name, or the scheme of an authorization.
fn skip_word(text: &[u8], pos: usize, joint: &mut Joint) -> Option<usize> {
    let end = ALNUM.run(text, pos, 24);
    let word = cut(text, pos, end);
    if word.is_empty() {
        let separator = matches!(at(text, pos), b'_' | b'-' | b'.' | b'*' | b'+' | b'/');
        return (!joint.operator && separator).then_some(pos + 1);
    }
    if joint.operator || joint.argument {
        let scheme = [
            &b"bearer"[..],
            b"basic",
            b"token",
            b"sswskey",
            b"ssws",
            b"apikey",
            b"key",
            b"digest",
            b"flyv1",
            b"new",
            b"value",
        ];
        let known = scheme.iter().any(|known| word.eq_ignore_ascii_case(known));
        let spaced = matches!(at(text, end), b' ' | b'=' | b'"');
        if !known || !spaced || joint.scheme {
            return None;
        }
        joint.scheme = true;
        return Some(end);
    }
    joint.words += 1;
    joint.id |= word.eq_ignore_ascii_case(b"id") || word.eq_ignore_ascii_case(b"ids");
    let describing = DESCRIBING.iter().any(|known| word.eq_ignore_ascii_case(known));
    let glued = end - pos == 24 || DIGIT.has(at(text, pos));
    (!describing && !glued && joint.words <= 4).then_some(end)
}

/// The longest value without quotes in which any sign may stand.
const LONGEST_SCRAWL: usize = 100;

/// Returns the end of what stands without blanks and quotes from `start` on.
fn solid_end(text: &[u8], start: usize) -> usize {
    let rest = cut(text, start, text.len().min(start + LONGEST_SCRAWL));
    start
        + rest
            .iter()
            .position(|&b| !b.is_ascii_graphic() || matches!(b, b'"' | b'\'' | b'`'))
            .unwrap_or(rest.len())
}

fn judge(text: &[u8], name: Name, start: usize, joint: Joint) -> Option<Span> {
    let scrawl = solid_end(text, start);
    let (end, confidence) = match joint.quote {
        None if joint.operator && is_scrawl(cut(text, start, scrawl)) => (scrawl, 0.55),
        Some(quote) if !joint.scheme => judge_quoted(text, name, start, quote, joint)?,
        _ => judge_bare(text, name, start, joint)?,
    };
    let kind = name.kind();
    Some(Span { class: Class::Secret, kind, start, end, confidence, evidence: Evidence::Assignment })
}

/// Returns whether the value that begins at `start` reaches the end of the text.
fn is_cut_off(text: &[u8], start: usize, joint: Joint) -> bool {
    let rest = cut(text, start, start.saturating_add(LONGEST).min(text.len()));
    match joint.quote {
        Some(quote) if !joint.scheme => rest.len() < LONGEST && !rest.iter().any(|&b| closes(quote, b)),
        _ => {
            let scrawled = joint.operator && solid_end(text, start) == text.len();
            scrawled || VALUE.run(text, start, LONGEST + 1) == text.len()
        }
    }
}

fn closes(quote: u8, byte: u8) -> bool {
    byte == quote || byte == b'\n' || byte == b'\\'
}

fn judge_quoted(text: &[u8], name: Name, start: usize, quote: u8, joint: Joint) -> Option<(usize, f32)> {
    let rest = cut(text, start, start.saturating_add(LONGEST).min(text.len()));
    let end = start + rest.iter().position(|&b| closes(quote, b)).unwrap_or(rest.len());
    let value = cut(text, start, end);
    if at(text, end) == b'\n' || value.len() < 4 || is_placeholder(value) {
        return None;
    }
    if let Some(confidence) = generated(name, value, joint) {
        return Some((end, confidence));
    }
    if joint.id || joint.newlines > 0 {
        return None;
    }
    let symbols = punctuation(value);
    let spaces = SPACE.count(value);
    let scrambled = spaces == 0
        && value.len() >= 12
        && (symbols * 3 >= value.len() || symbols >= 4 && !is_code(value) && DIGIT.count(value) > 0);
    let joined = joint.operator || joint.argument;
    if scrambled && joined && !is_path(value) {
        return Some((end, 0.6));
    }
    if matches!(value.first(), Some(b'+' | b'.' | b',' | b')' | b'/' | b';')) {
        return None;
    }
    match name {
        Name::Password if is_own_name(value) => None,
        Name::Password if spaces > 0 => {
            (value.len() >= 12 && spaces <= 6 && joint.operator && !is_sentence(value)).then_some((end, 0.5))
        }
        Name::Password if joint.operator || joint.words > 0 => {
            Some((end, if DIGIT.count(value) + symbols > 0 { 0.8 } else { 0.6 }))
        }
        Name::Secret if spaces == 0 && joint.operator && value.len() >= 8 => {
            let mixed = DIGIT.count(value) > 0 && LETTER.count(value) > 0 && symbols == 0 && !is_path(value);
            let compared = joint.compared && !is_code(value) && !is_path(value);
            (mixed || compared).then_some((end, 0.55))
        }
        _ => None,
    }
}

fn judge_bare(text: &[u8], name: Name, start: usize, joint: Joint) -> Option<(usize, f32)> {
    let mut end = VALUE.run(text, start, LONGEST + 1);
    if end - start > LONGEST {
        return None;
    }
    end = trim_end(text, start, end, if name == Name::Password { DOT } else { DOT.or(TOKEN_MARK) });
    // Parameters of a URL and lists end where the next one begins.
    let cut_at = cut(text, start, end).iter().position(|b| matches!(b, b'&' | b'|' | b'#'));
    if let Some(offset) = cut_at.filter(|&offset| offset >= 8) {
        end = start + offset;
    }
    let value = cut(text, start, end);
    if value.len() < 4
        || is_placeholder(value)
        || starts_as_reference(cut(text, before_dollar(text, start), end))
        || at(text, end) == b'('
    {
        return None;
    }
    if joint.scheme && name == Name::Authorization {
        let plain =
            SOLID.or(DOT).all(value) && value.len() >= 12 && (DIGIT.count(value) > 0 || is_random(value));
        return plain.then_some((end, 0.75));
    }
    if let Some(confidence) = generated(name, value, joint) {
        return Some((end, confidence));
    }
    (name == Name::Password && !joint.id && is_setting(text, start, end, value, joint)).then_some((end, 0.55))
}

/// Returns whether a bare word behind `password` is a value: on a line of a settings file, an environment
/// assignment, a field of a connection string or a command-line flag.
fn is_setting(text: &[u8], start: usize, end: usize, value: &[u8], joint: Joint) -> bool {
    let strong = DIGIT.count(value) > 0 && LETTER.count(value) > 0
        || punctuation(value) > 0 && LETTER.count(value) > 3;
    let tight = matches!(before(text, start), b'=' | b'>') && joint.words == 0;
    let closed = matches!(at(text, end), 0 | b'\n' | b'\r' | b';' | b' ' | b'&' | b'<' | b'\t');
    let type_name = TYPES.iter().any(|known| value.eq_ignore_ascii_case(known));
    let member =
        value.contains(&b'.') && value.iter().all(|&b| WORD.or(DOT).has(b)) && DIGIT.count(value) == 0;
    // A tag of YAML says how the next value is to be read (`!vault`, `!Ref`).
    let tag = value.strip_prefix(b"!").is_some_and(|tag| LETTER.or(UNDERSCORE).or(DASH).all(tag));
    let code = is_code(value) || member || tag || value.contains(&b':') || type_name || is_own_name(value);
    let introduced =
        joint.flag && !joint.operator || tight || joint.operator && strong && joint.newlines == 0;
    value.len() >= 5
        && closed
        && !code
        && introduced
        && (strong || tight && value.len() >= 6 && !UPPER.has(at(text, start)))
        && !at_rust_path(value)
}

fn at_rust_path(value: &[u8]) -> bool {
    value.windows(2).any(|pair| pair == b"::" || pair == b"()" || pair == b"=>" || pair == b"->")
}

/// Returns the confidence in a value that looks generated, given what its name promises.
fn generated(name: Name, value: &[u8], joint: Joint) -> Option<f32> {
    if !SOLID.or(DOT).or(TOKEN_MARK).all(value) || is_path(value) {
        return None;
    }
    let joined = joint.operator || joint.argument;
    let uuid = is_uuid(value);
    if uuid {
        return (!joint.id && name != Name::Authorization).then_some(0.6);
    }
    let shortest = match name {
        Name::Secret | Name::Token | Name::Password if joined => 10,
        Name::Key | Name::Authorization if joined => 14,
        _ => 16,
    };
    let digits = DIGIT.count(value);
    if digits == value.len() {
        return (joined && !joint.id && name == Name::Token && (16..=40).contains(&digits)).then_some(0.5);
    }
    if value.len() < shortest || is_version_or_date(value) {
        return None;
    }
    let bar = if joined && digits > 0 { 1.0 } else { 1.1 };
    let score = randomness(value);
    let groups = value.split(|b| !b.is_ascii_alphanumeric()).count();
    let dense = groups <= 1 + value.len() / 4;
    let bar = if value.len() < 14 { bar * 1.4 } else { bar };
    (score >= bar && dense).then_some(if score >= 1.5 { 0.8 } else { 0.65 })
}

fn before_dollar(text: &[u8], start: usize) -> usize {
    if matches!(before(text, start), b'$' | b'{') { start - 1 } else { start }
}

fn punctuation(value: &[u8]) -> usize {
    value
        .iter()
        .filter(|b| b.is_ascii_punctuation() && !matches!(b, b'_' | b'-' | b'.' | b'/' | b':' | b','))
        .count()
}

/// Returns whether the value repeats the name of the field: `password=password`, `"password": "user_password"`.
fn is_own_name(value: &[u8]) -> bool {
    let bare = WORD.or(DASH).or(DOT).all(value) && DIGIT.count(value) == 0;
    let named =
        [&b"password"[..], b"passwd", b"passphrase", b"credential", b"secret", b"token", b"fake", b"string"];
    bare && (named.iter().any(|known| value.eq_ignore_ascii_case(known))
        || value.windows(2).any(|pair| matches!(pair, [b'_' | b'-' | b'.', _]))
            && named.iter().any(|known| contains_folded(value, known)))
}

fn is_sentence(value: &[u8]) -> bool {
    let ends = matches!(value.last(), Some(b'.' | b'!' | b'?' | b':'));
    let asks = [
        &b"password"[..],
        b"please",
        b"enter",
        b"must",
        b"invalid",
        b"wrong",
        b"failed",
        b"error",
        b"%s",
        b"{}",
        b" is ",
    ];
    ends || asks.iter().any(|word| contains_folded(value, word))
}

fn is_code(value: &[u8]) -> bool {
    value.iter().any(|b| matches!(b, b'(' | b')' | b'<' | b'{' | b'[' | b'&')) || at_rust_path(value)
}

fn is_path(value: &[u8]) -> bool {
    let slashes = value.iter().filter(|&&b| b == b'/').count();
    let dots = value.iter().filter(|&&b| b == b'.').count();
    let words = value
        .split(|b| matches!(b, b'/' | b'.' | b':'))
        .filter(|part| part.len() >= 3 && randomness(part) < 0.7 && LETTER.all(part))
        .count();
    value.windows(3).any(|w| w == b"://") || (slashes + dots >= 2 && words >= 2) || (dots >= 1 && words >= 2)
}

fn is_uuid(value: &[u8]) -> bool {
    let groups: Vec<usize> = value.split(|&b| b == b'-').map(<[u8]>::len).collect();
    groups == [8, 4, 4, 4, 12] && value.iter().all(|b| ALNUM.or(DASH).has(*b)) && ANY_HEX.count(value) >= 20
}

fn is_version_or_date(value: &[u8]) -> bool {
    DIGIT.or(DOT).or(DASH).all(value)
        || (starts_folded(value, b"v") && DIGIT.or(DOT).all(cut(value, 1, value.len())))
}
