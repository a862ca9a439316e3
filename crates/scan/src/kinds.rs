//! The names of everything that is detected, and their descriptions.

use std::collections::BTreeSet;

use super::{Class, Scanner};

/// A kind's description and source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its class.
    pub class: Class,
    /// Its name, as in [`Span::kind`](super::Span::kind).
    pub kind: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    /// The document that its format was taken from.
    pub source: &'static str,
}

/// The kinds of the catalogue, as `build.rs` made them of it.
static CATALOGUE: &[Described] = include!(concat!(env!("OUT_DIR"), "/kinds.rs"));

const fn secret(kind: &'static str, what: &'static str, source: &'static str) -> Described {
    Described { class: Class::Secret, kind, what, source }
}

const fn pii(kind: &'static str, what: &'static str, source: &'static str) -> Described {
    Described { class: Class::Pii, kind, what, source }
}

const fn hidden(kind: &'static str, what: &'static str, source: &'static str) -> Described {
    Described { class: Class::Hidden, kind, what, source }
}

/// The kinds that have a structure which no table of shapes could say: each has code of its own.
static STRUCTURED: &[Described] = &[
    secret(
        "authorization",
        "a value behind `Authorization` or `Bearer`",
        "RFC 9110, section 11.6.2; RFC 6750",
    ),
    secret(
        "generic_api_key",
        "a random value that is called a key",
        "how assignments are written in code and settings",
    ),
    secret(
        "generic_secret",
        "a random value that is called a secret",
        "how assignments are written in code and settings",
    ),
    secret(
        "generic_token",
        "a random value that is called a token",
        "how assignments are written in code and settings",
    ),
    secret("json_web_token", "a JSON web token", "RFC 7519"),
    secret(
        "password",
        "a value that is called a password",
        "how assignments are written in code, settings, netrc(5)",
    ),
    secret(
        "private_key",
        "a private key in text armour",
        "RFC 7468; PROTOCOL.key of OpenSSH; the PPK format of PuTTY",
    ),
    secret(
        "url_password",
        "a password in an address or behind a login option",
        "RFC 3986, section 3.2.1; curl(1), -u",
    ),
    secret(
        "webhook_url",
        "the address of an incoming webhook, which is all it takes to post",
        "Slack, Discord and Microsoft Teams: incoming webhooks",
    ),
    pii("bic", "a bank's identifier code near words about banks", "ISO 9362"),
    pii(
        "crypto_address",
        "the address of a wallet of Bitcoin or Ethereum",
        "BIP 13, BIP 173, BIP 350; EIP-55",
    ),
    pii("date", "a date in a text that is no longer than a line", "ISO 8601, and how people write dates"),
    pii("date_of_birth", "a date near words about birth", "ISO 8601, and how people write dates"),
    pii("email", "a mail address", "RFC 5322, section 3.4.1"),
    pii("iban", "an international bank account number", "ISO 13616, IBAN registry"),
    pii("ip_address", "an address of the internet protocol", "RFC 791, RFC 4291"),
    pii("mac_address", "the address of a network interface", "IEEE 802, EUI-48"),
    pii("payment_card", "the number of a payment card", "ISO/IEC 7812"),
    pii("phone", "a telephone number", "ITU-T E.164, E.123"),
    pii("url", "a link that is all of a text", "RFC 3986"),
    hidden("bidi_override", "a character that turns the direction of writing", "Unicode, UAX 9"),
    hidden("homoglyph_host", "a host name that mixes alphabets", "Unicode, UTS 39"),
    hidden("tag_character", "a character of the invisible alphabet of tags", "Unicode, block Tags"),
    hidden("terminal_escape", "a control sequence of a terminal", "ECMA-48"),
    hidden(
        "variation_selector",
        "a variation selector behind a character that has no variants",
        "Unicode, section 23.4",
    ),
    hidden("zero_width", "a character without width between Latin letters", "Unicode, section 23.2"),
];

impl Scanner {
    /// Returns the description of each built-in kind, by class, then by name.
    pub fn described() -> Vec<Described> {
        let mut all: Vec<Described> = CATALOGUE.iter().chain(STRUCTURED).copied().collect();
        all.sort_by_key(|described| (described.class, described.kind));
        all
    }

    /// Returns the kinds of a class that no shape can express: each has code of its own, and no entry in the catalogue.
    pub fn structured(class: Class) -> impl Iterator<Item = &'static str> {
        STRUCTURED.iter().filter(move |described| described.class == class).map(|described| described.kind)
    }

    /// Returns the kinds of a class, as in [`Span::kind`](super::Span::kind), in alphabetical order, without those that an
    /// operator added.
    #[must_use]
    pub fn kinds(class: Class) -> BTreeSet<&'static str> {
        let all = CATALOGUE.iter().chain(STRUCTURED);
        all.filter(|described| described.class == class).map(|described| described.kind).collect()
    }
}
