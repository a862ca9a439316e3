//! What the query of a request may hold where the operator pays.
//!
//! Some servers take a key or a token from the query before they look at a header (Google: `key`, `access_token`), and others
//! take from it who pays, whose answer it is or how it is written. With the operator's key a client says none of that: what
//! passes is a list of names, by what is done. Of operations that the operator opened by name nobody knows the names;
//! there a query passes whose names do not speak of keys.

use http::Method;
use http::uri::PathAndQuery;

use crate::endpoint::unescaped;
use crate::operations::Permission;

/// What any request may say: versions (`beta` of Anthropic's SDKs, `api-version` of Azure), how an answer is written (Google),
/// the model of a session, for which lists of models hold wherever it stands, and what an answer is to have besides (OpenAI, also
/// where items are added).
const ALWAYS: [&str; 9] =
    ["beta", "api-version", "alt", "$alt", "prettyprint", "model", "deployment", "include", "include[]"];

/// What one without a body may say besides: pages of a list, and how an answer comes.
const WITHOUT_BODY: [&str; 15] = [
    "limit",
    "order",
    "after",
    "before",
    "after_id",
    "before_id",
    "page",
    "pagesize",
    "pagetoken",
    "page_size",
    "page_token",
    "purpose",
    "starting_after",
    "stream",
    "include_obfuscation",
];

/// Names of pages, which speak of tokens and are none.
const PAGES: [&str; 2] = ["pagetoken", "page_token"];

/// Words by which names speak of keys, and of who pays.
const OF_KEYS: [&str; 10] =
    ["key", "token", "auth", "secret", "sig", "credential", "password", "x-amz", "x-goog", "quota"];

/// What a query holds that is not to leave with the operator's key: the pair's name, as far as that can be shown.
pub(crate) fn unwanted(permission: Permission, method: &Method, target: &PathAndQuery) -> Option<String> {
    let pairs = target.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| name_of(pair).filter(|name| passes(permission, method, name)).ok_or(pair)).find_map(
        |name| {
            let pair = name.err()?;
            let shown = pair.split(['=', ';']).next().unwrap_or_default();
            Some(shown.chars().filter(char::is_ascii_graphic).take(40).collect())
        },
    )
}

/// The name of a pair, in small letters; `None` if a server may part it otherwise, or read another name.
fn name_of(pair: &str) -> Option<String> {
    let name = pair.split('=').next().unwrap_or_default();
    let name = unescaped(name).ok().filter(|_| !pair.contains(';'))?;
    Some(name.to_ascii_lowercase())
}

fn passes(permission: Permission, method: &Method, name: &str) -> bool {
    if permission == Permission::Opened {
        return PAGES.contains(&name) || !OF_KEYS.iter().any(|word| name.contains(word));
    }
    let has_no_body = *method == Method::GET || *method == Method::HEAD || *method == Method::DELETE;
    ALWAYS.contains(&name) || (has_no_body && WITHOUT_BODY.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(permission: Permission, method: &Method, query: &str) -> Option<String> {
        unwanted(permission, method, &format!("/v1/x?{query}").parse().unwrap())
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

    #[test]
    fn what_clients_say_passes() {
        for (method, query) in [
            (Method::POST, "beta=true"),
            (Method::POST, "alt=sse"),
            (Method::POST, "include[]=a&include=b"),
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
