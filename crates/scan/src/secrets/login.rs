//! Passwords where people and programs write logins: in URLs, after options of tools, in `netrc` files.

use super::quality::{is_placeholder, starts_as_reference};
use crate::span::{Class, Evidence, Span};
use crate::text::{ALNUM, DASH, LETTER, SPACE, at, before, contains_folded, cut};

/// The longest part of a URL that names its user and host.
const LONGEST_AUTHORITY: usize = 256;
/// The longest login behind an option.
const LONGEST_LOGIN: usize = 160;
/// How far before an option its tool may be named, in bytes.
const TOOL_REACH: usize = 256;
/// Tools whose `-p` is followed by a password.
const PASSWORD_TOOLS: [&[u8]; 9] = [
    b"sshpass",
    b"psexec",
    b"docker login",
    b"podman login",
    b"az login",
    b"oc login",
    b"kinit",
    b"rabbitmqadmin",
    b"mosquitto_",
];
/// Tools that read a password right behind `-p`, and with a blank in between ask for it (mysql(1) 8.4, 7z(1)).
const GLUED_PASSWORD_TOOLS: [&[u8]; 5] = [b"mysql", b"mariadb", b"7z", b"7za", b"unrar"];
/// Words that stand for a password where none is written.
const FILLERS: [&[u8]; 6] = [b"password", b"pass", b"passwd", b"pwd", b"pw", b"test"];

/// A login, or the place where one may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Login {
    /// `user:password` behind an option of curl.
    User,
    /// A password behind an option.
    Password,
    /// A password that is glued to its option.
    Glued,
    /// A password behind an option of clients of Redis (redis-cli 7.4 `-a`, `--pass`).
    Store,
}

impl Login {
    /// Programs of which one has to be named in front of the option.
    fn tools(self) -> &'static [&'static [u8]] {
        match self {
            Self::User => &[b"curl"],
            Self::Password => &PASSWORD_TOOLS,
            Self::Glued => &GLUED_PASSWORD_TOOLS,
            Self::Store => &[b"redis-cli", b"valkey-cli", b"keydb-cli", b"redli", b"iredis"],
        }
    }

    /// Returns whether an option that ends at `flag_end` is one of its tools'. `-a` is an option of nearly everything, so that
    /// what stands between the tool and a `Store` may not end the command.
    fn belongs_to_tool(self, text: &[u8], flag_end: usize) -> bool {
        let front = cut(text, flag_end.saturating_sub(TOOL_REACH), flag_end);
        let ends = |b: &u8| matches!(b, b';' | b'|' | b'&' | b'\n');
        let begin = if self == Self::Store { front.iter().rposition(ends).unwrap_or(0) } else { 0 };
        let front = cut(front, begin, front.len());
        self.tools().iter().any(|tool| contains_folded(front, tool))
    }
}

fn password(start: usize, end: usize, confidence: f32) -> Span {
    let evidence = Evidence::Context;
    Span { class: Class::Secret, kind: "url_password", start, end, confidence, evidence }
}

fn ends_authority(byte: u8) -> bool {
    matches!(byte, b'/' | b'"' | b'\'' | b'<' | b'>' | b'?' | b'`' | b' ' | b'\n' | b'\t' | b'\\')
}

fn is_filler(value: &[u8]) -> bool {
    FILLERS.iter().any(|known| value.eq_ignore_ascii_case(known))
}

/// Returns where a password begins that text which has not arrived may complete: in a URL with `://` at `colon`.
pub(super) fn open_url(text: &[u8], colon: usize) -> Option<usize> {
    open_password(text, colon + 3, LONGEST_AUTHORITY, ends_authority)
}

/// Returns the same for a login behind an option that ends at `flag_end`.
pub(super) fn open(text: &[u8], login: Login, flag_end: usize) -> Option<usize> {
    let start = login_start(text, login, flag_end);
    match login {
        Login::User => open_password(text, start, LONGEST_LOGIN, |byte| SPACE.has(byte)),
        Login::Password | Login::Glued | Login::Store => {
            let value = cut(text, start, text.len());
            let goes_on = value.len() < LONGEST_LOGIN && !value.iter().any(|&b| SPACE.has(b));
            (goes_on && login.belongs_to_tool(text, flag_end)).then_some(start.min(text.len()))
        }
    }
}

fn open_password(text: &[u8], start: usize, longest: usize, ends: impl Fn(u8) -> bool) -> Option<usize> {
    let login = cut(text, start, text.len());
    let goes_on = login.len() < longest && !login.iter().any(|&b| ends(b));
    login.iter().position(|&b| b == b':').filter(|_| goes_on).map(|separator| start + separator + 1)
}

/// Returns where the value of an option begins that ends at `flag_end`: behind a blank or a sign, and a quote.
fn login_start(text: &[u8], login: Login, flag_end: usize) -> usize {
    let is_parted = login != Login::Glued && matches!(at(text, flag_end), b' ' | b'=');
    let parted = flag_end + usize::from(is_parted);
    parted + usize::from(matches!(at(text, parted), b'"' | b'\''))
}

/// Returns the password in `scheme://user:password@host`, given where `://` stands.
pub(super) fn url_password(text: &[u8], colon: usize) -> Option<Span> {
    let scheme = LETTER.run_back(text, colon, 16);
    let user = colon + 3;
    let authority = cut(text, user, (user + LONGEST_AUTHORITY).min(text.len()));
    let stop = authority.iter().position(|&b| ends_authority(b));
    let authority = cut(authority, 0, stop.unwrap_or(authority.len()));
    let split = authority.iter().rposition(|&b| b == b'@')?;
    let (login, host) = (cut(authority, 0, split), cut(authority, split + 1, authority.len()));
    let separator = login.iter().position(|&b| b == b':')?;
    let (name, value) = (cut(login, 0, separator), cut(login, separator + 1, login.len()));
    let generic = [&b"user"[..], b"username", b"usr", b"login", b"name"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known));
    let filler = is_filler(value) && !value.eq_ignore_ascii_case(b"test");
    let reference = starts_as_reference(value)
        || starts_as_reference(name)
        || value.iter().any(|b| matches!(b, b'{' | b'}' | b'(' | b'[' | b'$'));
    let named = contains_folded(value, b"_password") || contains_folded(value, b"password_");
    if colon == scheme
        || value.len() < 3
        || host.is_empty()
        || reference
        || named
        || is_placeholder(value)
        || (name == value && !name.is_empty())
    {
        return None;
    }
    let start = user + separator + 1;
    let confidence = match (generic, filler) {
        (true, true) => super::format::ONLY_SHAPED,
        (false, false) => 0.85,
        _ => 0.6,
    };
    Some(password(start, start + value.len(), confidence))
}

/// Returns what stands behind an option that ends at `flag_end`, if its tool is named in front of it.
pub(super) fn behind_option(text: &[u8], login: Login, flag_end: usize) -> Option<Span> {
    if !login.belongs_to_tool(text, flag_end) {
        return None;
    }
    let start = login_start(text, login, flag_end);
    let quote = Some(before(text, start)).filter(|b| matches!(b, b'"' | b'\'') && start > flag_end);
    let rest = cut(text, start, (start + LONGEST_LOGIN).min(text.len()));
    let stop = rest.iter().position(|b| SPACE.has(*b) || *b == b'\\' || Some(*b) == quote);
    let whole = cut(rest, 0, stop.unwrap_or(rest.len()));
    let (name, value) = match login {
        Login::User => {
            let separator = whole.iter().position(|&b| b == b':')?;
            (cut(whole, 0, separator), cut(whole, separator + 1, whole.len()))
        }
        Login::Password | Login::Glued | Login::Store => (&b""[..], whole),
    };
    let reference = whole.iter().any(|b| matches!(b, b'$' | b'<' | b'>' | b'{'));
    let option = DASH.has(at(value, 0)) && (value.len() < 4 || login != Login::User);
    let path = login != Login::User && value.iter().all(|&b| b.is_ascii_digit() || matches!(b, b':' | b'/'));
    if value.len() < 4
        || is_filler(value)
        || reference
        || option
        || path
        || is_placeholder(value)
        || name == value
    {
        return None;
    }
    let from = start + whole.len() - value.len();
    Some(password(from, from + value.len(), 0.75))
}

/// Returns the password of a `netrc` entry, given where the word `password` stands: behind a machine and a login.
pub(super) fn netrc(text: &[u8], start: usize, end: usize) -> Option<Span> {
    let word = cut(text, start, end + 4);
    let value = end + 5;
    if word != b"password" || !SPACE.has(before(text, start)) || !SPACE.has(at(text, value - 1)) {
        return None;
    }
    let front = cut(text, start.saturating_sub(TOOL_REACH), start);
    let mut words = front.split(|b| SPACE.has(*b)).filter(|word| !word.is_empty()).rev();
    let (_, key) = (words.next()?, words.next()?);
    let machine = words.any(|word| matches!(word, b"machine" | b"default"));
    let tail = super::assign::VALUE.run(text, value, LONGEST_LOGIN);
    let secret = cut(text, value, tail);
    let closed = tail == text.len() || SPACE.has(at(text, tail));
    let login = matches!(key, b"login" | b"account");
    let usable = secret.len() >= 3 && !is_placeholder(secret) && ALNUM.count(secret) > 1;
    (machine && login && closed && usable).then_some(Span {
        class: Class::Secret,
        kind: "password",
        start: value,
        end: tail,
        confidence: 0.8,
        evidence: Evidence::Context,
    })
}
