//! The secret path of an incoming webhook: whoever knows it can post.

use super::super::span::{Class, Evidence, Span};
use super::super::text::{
    ALNUM, DASH, DOT, PLUS_SLASH, TOKEN_MARK, URL64, before, contains_folded, cut, starts_folded,
};
use super::quality::{is_placeholder, is_random};
use super::{LOOKBACK, WORD_BYTES};

/// How the addresses of webhooks begin.
const HOSTS: [&[u8]; 5] = [
    b"hooks.slack.com/",
    b"discord.com/api/",
    b"discordapp.com/api/",
    b"outlook.office.com/",
    b"webhook.office.com/",
];
const SCHEMES: [&[u8]; 2] = [b"https://", b"http://"];
/// The longest path that is read.
const LONGEST_PATH: usize = 300;

/// Returns the webhook whose address holds the mark from `start` to `end`: from its scheme or known host on.
pub(super) fn find(text: &[u8], start: usize, end: usize) -> Option<Span> {
    let word = WORD_BYTES.run_back(text, start, LOOKBACK);
    let begin = with_scheme(text, first_host(text, word, end)?);
    let tail = URL64.or(PLUS_SLASH).or(DOT).or(TOKEN_MARK).run(text, end, LONGEST_PATH);
    let path = cut(text, end, tail);
    let random = path.split(|b| *b == b'/').any(|part| part.len() >= 16 && is_random(part));
    let usable = random && !is_placeholder(path) && DASH.or(ALNUM).count(path) >= 24;
    usable.then_some(Span {
        class: Class::Secret,
        kind: "webhook_url",
        start: begin,
        end: tail,
        confidence: 0.9,
        evidence: Evidence::Format,
    })
}

/// Returns where the address of a webhook begins that text which has not arrived may complete.
pub(super) fn open(text: &[u8]) -> Option<usize> {
    let word = WORD_BYTES.run_back(text, text.len(), LOOKBACK + LONGEST_PATH);
    let tail = cut(text, word, text.len());
    let begun = |literal: &[u8]| {
        let most = tail.len().min(literal.len() - 1);
        let longest = (1..=most).rev().find(|&len| {
            let start = text.len() - len;
            starts_folded(literal, cut(text, start, text.len())) && !ALNUM.has(before(text, start))
        });
        longest.map(|len| text.len() - len)
    };
    let host = first_host(text, word, text.len());
    let hosts = host.into_iter().chain(HOSTS.iter().filter_map(|host| begun(host)));
    let schemes = SCHEMES.iter().filter_map(|scheme| {
        let whole = tail.ends_with(scheme).then(|| text.len() - scheme.len());
        whole.or_else(|| begun(scheme))
    });
    hosts.map(|host| with_scheme(text, host)).chain(schemes).min()
}

/// Returns where the first known host between `from` and `to` begins.
fn first_host(text: &[u8], from: usize, to: usize) -> Option<usize> {
    let stretch = cut(text, from, to);
    if !stretch.contains(&b'/') || !HOSTS.iter().any(|host| contains_folded(stretch, host)) {
        return None;
    }
    (from..to).find(|&at| {
        !ALNUM.has(before(text, at)) && HOSTS.iter().any(|host| starts_folded(cut(text, at, to), host))
    })
}

/// Returns the start of an address with its scheme, given where the host begins.
fn with_scheme(text: &[u8], host: usize) -> usize {
    let front = cut(text, 0, host);
    let scheme = SCHEMES.iter().find(|scheme| front.ends_with(scheme)).map_or(0, |scheme| scheme.len());
    host - scheme
}
