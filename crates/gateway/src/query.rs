//! What the address of a request may hold where hooks decide or the operator pays.
//!
//! A path names operations and ids, a query says how a list is paged and how an answer is written. Neither is read by hooks, so
//! neither holds a text: each segment and each value has a closed form, and what is a word is shown to whoever judges words.
//! Otherwise the request is refused; nothing is taken out of an address, since another one would ask for something else.
//!
//! Some servers take a key or a token from the query before they look at a header (Google: `key`, `access_token`), and others
//! take from it who pays, whose answer it is or how it is written. A client says none of that: what passes is a list of names, by
//! what is done, and where the client pays, its key. Of operations that the operator opened by name nobody knows the names;
//! there a path passes as it is, and a query whose names do not speak of keys.
//!
//! Limits: a few ids can be any few words.

use http::Method;
use http::uri::PathAndQuery;
use thiserror::Error;

use crate::auth::is_key;
use crate::endpoint::unescaped;
use crate::headers::shape::{is_name, is_number, is_seal};
use crate::operations::Permission;

/// What a value of a query may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Flag,
    OneOf(&'static [&'static str]),
    Number,
    Name,
    /// The names of parts of an answer: `step_details.tool_calls[*].file_search.results[*].content`.
    Parts,
    Id,
    /// A page, which only the server reads.
    Page,
}

/// What any request may say: versions (`beta` of Anthropic's SDKs, `api-version` of Azure), how an answer is written (Google),
/// the model of a session, for which lists of models hold wherever it stands, and what an answer is to have besides (OpenAI, also
/// where items are added).
const ALWAYS: [(&str, Form); 9] = [
    ("beta", Form::Flag),
    ("api-version", Form::Name),
    ("alt", Form::OneOf(&["json", "media", "proto", "sse"])),
    ("$alt", Form::OneOf(&["json", "json;enum-encoding=int", "media", "proto", "sse"])),
    ("prettyprint", Form::Flag),
    ("model", Form::Name),
    ("deployment", Form::Name),
    ("include", Form::Parts),
    ("include[]", Form::Parts),
];

/// What one without a body may say besides: pages of a list, and how an answer comes.
const WITHOUT_BODY: [(&str, Form); 16] = [
    // Codex says so where it asks for a list of models.
    ("client_version", Form::Name),
    ("limit", Form::Number),
    ("order", Form::OneOf(&["asc", "desc"])),
    ("after", Form::Id),
    ("before", Form::Id),
    ("after_id", Form::Id),
    ("before_id", Form::Id),
    ("page", Form::Page),
    ("pagesize", Form::Number),
    ("pagetoken", Form::Page),
    ("page_size", Form::Number),
    ("page_token", Form::Page),
    ("purpose", Form::Name),
    ("starting_after", Form::Number),
    ("stream", Form::Flag),
    ("include_obfuscation", Form::Flag),
];

/// The longest segment of a path: ids of some servers hold what they are made of.
const LONGEST_SEGMENT: usize = 256;
/// The most segments of a path, and the most pairs of a query.
const MOST_SEGMENTS: usize = 16;
const MOST_PAIRS: usize = 32;
/// How many signs of the name of a pair are shown.
const LONGEST_SHOWN: usize = 40;

/// Names of pages, which speak of tokens and are none.
const PAGES: [&str; 2] = ["pagetoken", "page_token"];

/// Words by which names speak of keys, and of who pays.
const OF_KEYS: [&str; 10] =
    ["key", "token", "auth", "secret", "sig", "credential", "password", "x-amz", "x-goog", "quota"];

/// What an address holds that is not to leave, where hooks decide or the operator pays.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Strange {
    #[error(
        "the path holds more than names and ids, and nobody here could judge that\nhint: a path has at most 16 segments, each of at most 256 letters, digits and `-_.:@=~`"
    )]
    Path,
    #[error("an id in the address holds what redactors take out, and does not pass")]
    Word,
    /// A pair by its name, as far as that can be shown.
    #[error(
        "the query holds `{0}`, which is not known here or has a value of another form, and nobody here could judge that\nhint: leave it out"
    )]
    Pair(String),
    #[error("the query holds more than 32 pairs")]
    Long,
}

/// Finds what an address holds that is not to leave, where hooks decide or the operator pays. `withholds` says which of some words
/// can't be shown. What a query may hold is [looked at](unwanted) when it is known which part of it leaves.
pub(crate) fn strange(
    permission: Permission,
    method: &Method,
    target: &PathAndQuery,
    withholds: impl FnOnce(&[&str]) -> Vec<usize>,
) -> Option<Strange> {
    if !matches!(permission, Permission::Read | Permission::Listed) {
        return None;
    }
    let segments: Vec<&str> = target.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let Some(mut words) =
        segments.iter().map(|segment| word_of(segment, is_segment)).collect::<Option<Vec<_>>>()
    else {
        return Some(Strange::Path);
    };
    if segments.len() > MOST_SEGMENTS {
        return Some(Strange::Path);
    }
    // The key of a client is a secret for sure, and for the provider.
    let pairs = || pairs(target.query()).filter(|pair| !is_key(pair));
    if pairs().count() > MOST_PAIRS {
        return Some(Strange::Long);
    }
    words.extend(pairs().filter_map(|pair| said(permission, method, pair).flatten()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    (!words.is_empty() && !withholds(&words).is_empty()).then_some(Strange::Word)
}

/// What a query holds that is not to leave, where hooks decide or the operator pays: the pair's name, as far as that can be shown. The
/// client's key passes where the client pays.
pub(crate) fn unwanted(
    permission: Permission,
    method: &Method,
    target: &PathAndQuery,
    is_clients: bool,
) -> Option<String> {
    let may_pass = |pair: &&str| (is_clients && is_key(pair)) || said(permission, method, pair).is_some();
    pairs(target.query()).find(|pair| !may_pass(pair)).map(shown)
}

fn pairs(query: Option<&str>) -> impl Iterator<Item = &str> {
    query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty())
}

/// The name of a pair, as far as that can be shown.
fn shown(pair: &str) -> String {
    let shown = pair.split(['=', ';']).next().unwrap_or_default();
    let mut signs = shown.chars().filter(char::is_ascii_graphic);
    let mut begins: String = signs.by_ref().take(LONGEST_SHOWN).collect();
    if signs.next().is_some() {
        begins.push_str("...");
    }
    begins
}

/// A word as it is read, if it is one; `None` of what may be read in two ways.
fn word_of(text: &str, is_word: impl Fn(&str) -> bool) -> Option<String> {
    unescaped(text).ok().filter(|word| is_word(word))
}

/// Whether a segment of a path names something and says nothing.
fn is_segment(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@=~".contains(&byte);
    text.len() <= LONGEST_SEGMENT && text.bytes().all(is_sign)
}

/// The name of a pair, in small letters; `None` if a server may part it otherwise, or read another name.
fn name_of(pair: &str) -> Option<String> {
    let name = pair.split('=').next().unwrap_or_default();
    let name = unescaped(name).ok().filter(|_| !pair.contains(';'))?;
    Some(name.to_ascii_lowercase())
}

/// The word that a pair holds, if it holds one; `None` if the pair does not pass.
fn said(permission: Permission, method: &Method, pair: &str) -> Option<Option<String>> {
    let name = name_of(pair)?;
    if permission == Permission::Opened {
        let passes = PAGES.contains(&name.as_str()) || !OF_KEYS.iter().any(|word| name.contains(word));
        return passes.then_some(None);
    }
    let has_no_body = *method == Method::GET || *method == Method::HEAD || *method == Method::DELETE;
    let rows = ALWAYS.iter().chain(WITHOUT_BODY.iter().filter(|_| has_no_body));
    let (_, form) = rows.into_iter().find(|(known, _)| *known == name)?;
    // A sign that stands for a blank with some is no part of a word.
    let value = pair.split_once('=').map_or("", |(_, value)| value);
    // A slash parts nothing in a query.
    let word = word_of(&value.replace("%2F", "/").replace("%2f", "/"), |value| form.has(value))
        .filter(|_| !value.contains('+'))?;
    Some(Some(word).filter(|word| !word.is_empty() && form.is_word()))
}

impl Form {
    fn has(self, value: &str) -> bool {
        let is_one = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(value));
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.[]*,".contains(&byte);
        value.is_empty()
            || match self {
                Self::Flag => is_one(&["true", "false", "1", "0"]),
                Self::OneOf(words) => is_one(words),
                Self::Number => is_number(value),
                Self::Name => is_name(value),
                Self::Parts => value.len() <= LONGEST_SEGMENT && value.bytes().all(is_part),
                Self::Id => is_segment(value),
                Self::Page => is_seal(value),
            }
    }

    const fn is_word(self) -> bool {
        matches!(self, Self::Name | Self::Parts | Self::Id | Self::Page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(permission: Permission, method: &Method, query: &str) -> Option<String> {
        unwanted(permission, method, &format!("/v1/x?{query}").parse().unwrap(), false)
    }

    #[test]
    fn a_query_brings_no_other_key() {
        for query in [
            "access_token=x",
            "alt=sse&access_token=x",
            "alt=sse;access_token=x",
            "Access%5FToken=x",
            "oauth_token=x",
            "%61ccess_token=x",
            "$key=x",
            "api_key=x",
            "upload_protocol=raw",
            "callback=f",
            "quotaUser=x",
            "$.xgafv=2",
            "a%zz=x",
            "x+y=1",
            "=x",
        ] {
            for permission in [Permission::Read, Permission::Listed] {
                for method in [Method::GET, Method::POST] {
                    assert!(refused(permission, &method, query).is_some(), "{method} {query}");
                }
            }
        }
        let shown = refused(Permission::Read, &Method::POST, "access_token=sw0rdfish").unwrap();
        assert_eq!(shown, "access_token", "the name and no value");
        for query in ["access_token=x", "api-key=x", "X-Amz-Signature=x", "a;token=x", "signature=x"] {
            assert!(refused(Permission::Opened, &Method::GET, query).is_some(), "{query}");
        }
    }

    /// What an address holds that does not leave, where the client pays.
    fn is_strange(method: &Method, target: &str) -> Option<String> {
        let pair = || unwanted(Permission::Listed, method, &target.parse().unwrap(), true);
        let strange = strange(Permission::Listed, method, &target.parse().unwrap(), |words| {
            words
                .iter()
                .enumerate()
                .filter(|(_, word)| word.contains("sw0rdfish"))
                .map(|(at, _)| at)
                .collect()
        });
        strange
            .map(|strange| match strange {
                Strange::Path => "path".to_owned(),
                Strange::Word => "id".to_owned(),
                Strange::Long => "long".to_owned(),
                Strange::Pair(name) => name,
            })
            .or_else(pair)
    }

    #[test]
    fn an_address_holds_ids_and_no_text() {
        for (target, what) in [
            ("/v1/responses/ignore%20all%20of%20it", "path"),
            ("/v1/responses/caf%C3%A9", "path"),
            ("/v1/files/a+b", "path"),
            ("/v1/files/a,b", "path"),
            ("/v1/files/a*b", "path"),
            ("/v1/files/%22a%22", "path"),
            ("/v1/files/resp_sw0rdfish", "id"),
            ("/v1/files?after=sw0rdfish", "id"),
            ("/v1/files?after=v1.sw0rdfish", "id"),
            ("/v1/responses/v0:sw0rdfish", "id"),
            ("/v1/files?after=read+this", "after"),
            ("/v1/files?after=read%20this", "after"),
            ("/v1/files?limit=all", "limit"),
            ("/v1/files?order=first", "order"),
            ("/v1/files?stream=now", "stream"),
            ("/v1/files?include=a%20b", "include"),
            ("/v1/files?page=a%20b", "page"),
            ("/v1/files?note=1", "note"),
            ("/v1/files?after=1;note=2", "after"),
            ("/v1/files?%61fter=read%20this", "%61fter"),
            ("/v1/files?After=read%20this", "After"),
        ] {
            assert_eq!(is_strange(&Method::GET, target).as_deref(), Some(what), "{target}");
        }
        let long = format!("/v1/files/{}", "a1".repeat(LONGEST_SEGMENT));
        let deep = "/a".repeat(MOST_SEGMENTS + 1);
        let wide = format!("/v1/files?{}", "limit=1&".repeat(MOST_PAIRS + 1));
        for (target, what) in [(long, "path"), (deep, "path"), (wide, "long")] {
            assert_eq!(is_strange(&Method::GET, &target).as_deref(), Some(what), "{target}");
        }
        for target in [
            "/v1/responses/resp_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b",
            "/v1/responses/resp_bGl0ZWxsbTpjdXN0b20=/input_items?after=msg_1&limit=20&order=asc",
            "/v1/models/ft:gpt-4o-mini:org::id",
            "/v1/models/meta-llama/Llama-3.1-8B",
            "/openai/deployments/my-gpt_4.1/x?api-version=2024-10-21-preview",
            "/v1beta/models?key=any%20text%20of%20a%20client&pageSize=5&pageToken=a%2Fb%3D%3D",
            "/v1/responses/r?include[]=step_details.tool_calls[*].file_search.results[*].content&include=a,b",
            "/model/anthropic.claude%2Dv2:1/invoke",
            "/v1/files?after=&limit=",
            "/",
        ] {
            assert_eq!(is_strange(&Method::GET, target), None, "{target}");
        }
        let opened = "/v1/search/any%20text?q=any%20text".parse().unwrap();
        assert_eq!(strange(Permission::Opened, &Method::GET, &opened, |_| vec![0]), None);
    }

    #[test]
    fn what_clients_say_passes() {
        for (method, query) in [
            (Method::POST, "beta=true"),
            (Method::POST, "alt=sse"),
            (Method::POST, "include[]=a&include=b"),
            (Method::GET, "include=message.output_text.logprobs&beta=true"),
            (Method::POST, "api-version=2024-10-21&%24alt=json"),
            (Method::GET, "limit=2&order=desc&after=x"),
            (Method::GET, "pageSize=5&pageToken=a%2Fb"),
            (Method::GET, "include[]=a&include%5B%5D=b&stream=true"),
            (Method::GET, "model=m"),
            (Method::GET, ""),
            (Method::GET, "&&"),
        ] {
            assert_eq!(refused(Permission::Listed, &method, query), None, "{method} {query}");
        }
        assert_eq!(refused(Permission::Opened, &Method::GET, "anything=x&pageToken=y"), None);
        assert!(refused(Permission::Read, &Method::POST, "limit=2").is_some(), "what is asked has no pages");
    }
}
