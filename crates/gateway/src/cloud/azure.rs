//! Azure OpenAI: OpenAI's wires, where a model is asked for by the name of its deployment.
//!
//! There are two forms of addresses. Those of version 1 (`/openai/v1/chat/completions`) differ from OpenAI's by what stands in
//! front, and the deployment is the `model` of the body. The older ones (`/openai/deployments/<name>/chat/completions?api-version=..`)
//! name it themselves, and a `model` in the body means nothing. A client that speaks either is understood, whatever the form
//! of the provider; one that speaks OpenAI's gets the form of the provider.

use http::HeaderMap;
use http::uri::PathAndQuery;
use serde_json::Value;

use super::fields::Fields;
use super::{MODEL, Named, Unspoken, with};
use crate::endpoint::{Operation, unescaped};
use crate::upstream::strip_version;

/// What all of its addresses have.
const ROOT: &str = "/openai";
/// Addresses of version 1, which want no version of the API.
const FIRST: &str = "/openai/v1";
const DEPLOYMENTS: &str = "deployments";
const API_VERSION: &str = "api-version";

/// What is asked of a deployment rather than of the service (`_deployments_endpoints` of OpenAI's Python SDK).
pub(crate) const OF_DEPLOYMENTS: [&str; 8] = [
    "/completions",
    "/chat/completions",
    "/embeddings",
    "/audio/transcriptions",
    "/audio/translations",
    "/audio/speech",
    "/images/generations",
    "/images/edits",
];

/// What is asked of a deployment by a path without its front (`deployments/<name>/embeddings` gives `embeddings`); `None` if the path
/// is no such one.
pub(crate) fn of_deployment(path: &str) -> Option<&str> {
    let (_, rest) = path.strip_prefix(DEPLOYMENTS)?.strip_prefix('/')?.split_once('/')?;
    OF_DEPLOYMENTS.iter().any(|known| known.strip_prefix('/') == Some(rest)).then_some(rest)
}

/// The header in which a response names the deployment that draws its pictures.
const IMAGES: &str = "x-ms-oai-image-generation-deployment";
/// How the names of headers begin that only Azure reads, and by which it takes another deployment than the address's.
pub(crate) const OF_AZURE: &str = "x-ms-oai-";

/// The deployments that headers name: models, like that of the address.
pub(crate) fn in_headers(headers: &HeaderMap) -> Vec<String> {
    let named = headers.get_all(IMAGES).iter();
    named.map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect()
}

/// Whether these headers may make Azure do what nobody here reads. One name of a deployment for pictures is read, and means
/// something to a response `at_azure` alone.
pub(crate) fn says_more(headers: &HeaderMap, operation: Operation, at_azure: bool) -> bool {
    let is_read = at_azure && operation == Operation::Responses;
    let named = in_headers(headers);
    let is_one = matches!(named.as_slice(), [name] if segment(name).is_ok() && !name.is_empty());
    let mut others = headers.keys().filter(|name| name.as_str().starts_with(OF_AZURE));
    others.any(|name| name.as_str() != IMAGES || !(is_read && is_one))
}

/// The deployment that a path names.
pub(crate) fn deployment(path: &str) -> Option<String> {
    let is_list = |segment: &str| unescaped(segment).is_ok_and(|name| name.eq_ignore_ascii_case(DEPLOYMENTS));
    let mut pairs = path.rsplit('/').zip(path.rsplit('/').skip(1));
    let (name, _) = pairs.find(|(name, before)| !name.is_empty() && is_list(before))?;
    unescaped(name).ok()
}

/// A body that names this deployment as its model.
pub(crate) fn with_model(body: &[u8], deployment: &str) -> Named {
    match Fields::of(body) {
        Some(fields) => with(fields, &[(MODEL, Value::from(deployment))]),
        None => Named::Unreadable,
    }
}

/// Where a request for `target` goes at a provider with this `base` and version of the API.
pub(crate) fn target(
    base: &str,
    api_version: Option<&str>,
    target: &PathAndQuery,
    model: Option<&str>,
) -> Result<PathAndQuery, Unspoken> {
    let base = base.strip_suffix(FIRST).or_else(|| base.strip_suffix(ROOT)).unwrap_or(base);
    let (path, query) = (target.path(), target.query());
    let path = if is_below(ROOT, path) {
        path.to_owned()
    } else {
        let rest = strip_version(path).unwrap_or(path);
        match (api_version, OF_DEPLOYMENTS.contains(&rest.trim_end_matches('/'))) {
            (None, _) => format!("{FIRST}{rest}"),
            (Some(_), true) => {
                let name = model.filter(|model| !model.is_empty()).ok_or(Unspoken::NoModel)?;
                format!("{ROOT}/{DEPLOYMENTS}/{}{rest}", segment(name)?)
            }
            (Some(_), false) => format!("{ROOT}{rest}"),
        }
    };
    let added = api_version.filter(|_| !is_below(FIRST, &path) && !query.is_some_and(names_version));
    let query = match (query, added) {
        (query, Some(version)) => {
            let more = query.map(|query| format!("{query}&")).unwrap_or_default();
            format!("?{more}{API_VERSION}={version}")
        }
        (Some(query), None) => format!("?{query}"),
        (None, None) => String::new(),
    };
    format!("{base}{path}{query}").parse().map_err(|_| Unspoken::Path)
}

/// Whether nobody but Azure has this address. `/openai/v1` is that of others, too.
pub(super) fn is_asked(target: &PathAndQuery) -> bool {
    let is_deployment = is_its(target.path()) && deployment(target.path()).is_some();
    is_deployment || target.query().is_some_and(names_version)
}

fn names_version(query: &str) -> bool {
    query.split('&').any(is_version_of_api)
}

/// Whether a path is one of Azure's.
pub(crate) fn is_its(path: &str) -> bool {
    is_below(ROOT, path)
}

/// Whether a path is one of those below `root`, whatever its letter case.
fn is_below(root: &str, path: &str) -> bool {
    path.split_at_checked(root.len()).is_some_and(|(front, rest)| {
        front.eq_ignore_ascii_case(root) && (rest.is_empty() || rest.starts_with('/'))
    })
}

fn is_version_of_api(pair: &str) -> bool {
    let name = pair.split('=').next().unwrap_or_default();
    unescaped(name).is_ok_and(|name| name.eq_ignore_ascii_case(API_VERSION))
}

/// The name of a deployment as a segment of a path.
fn segment(name: &str) -> Result<&str, Unspoken> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain && !name.bytes().all(|byte| byte == b'.') { Ok(name) } else { Err(Unspoken::Model) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(base: &str, version: Option<&str>, path: &str, model: Option<&str>) -> Result<String, Unspoken> {
        target(base, version, &path.parse().unwrap(), model).map(|target| target.to_string())
    }

    #[test]
    fn who_speaks_openai_is_sent_to_the_form_of_the_provider() {
        let chat = "/v1/chat/completions";
        for (base, version, path, expected) in [
            ("", None, chat, "/openai/v1/chat/completions"),
            ("/openai/v1", None, chat, "/openai/v1/chat/completions"),
            ("/x/openai", None, "/chat/completions", "/x/openai/v1/chat/completions"),
            ("", Some("V"), chat, "/openai/deployments/m/chat/completions?api-version=V"),
            ("/openai/v1", Some("V"), chat, "/openai/deployments/m/chat/completions?api-version=V"),
            ("", Some("V"), "/v1/embeddings?a=b", "/openai/deployments/m/embeddings?a=b&api-version=V"),
            ("", Some("V"), "/v1/responses", "/openai/responses?api-version=V"),
            ("", Some("V"), "/v1/models", "/openai/models?api-version=V"),
            ("", None, "/v1/responses/r?stream=true", "/openai/v1/responses/r?stream=true"),
        ] {
            assert_eq!(
                to(base, version, path, Some("m")).as_deref(),
                Ok(expected),
                "{base} {version:?} {path}"
            );
        }
    }

    #[test]
    fn who_speaks_azure_is_taken_at_its_word() {
        let chat = "/openai/deployments/d/chat/completions";
        for (version, path, expected) in [
            (None, format!("{chat}?api-version=2"), format!("{chat}?api-version=2")),
            (Some("V"), format!("{chat}?api-version=2"), format!("{chat}?api-version=2")),
            (Some("V"), format!("{chat}?api%2Dversion=2"), format!("{chat}?api%2Dversion=2")),
            (Some("V"), chat.to_owned(), format!("{chat}?api-version=V")),
            (Some("V"), "/OpenAI/v1/responses".to_owned(), "/OpenAI/v1/responses".to_owned()),
        ] {
            assert_eq!(to("", version, &path, None), Ok(expected), "{path}");
        }
        assert_eq!(to("", None, "/openaix/v1/models", None).as_deref(), Ok("/openai/v1/openaix/v1/models"));
    }

    #[test]
    fn a_name_that_would_be_another_path_is_refused() {
        let chat = |model| to("", Some("V"), "/v1/chat/completions", model);
        assert_eq!(chat(None), Err(Unspoken::NoModel));
        assert_eq!(chat(Some("")), Err(Unspoken::NoModel));
        for name in ["..", ".", "a/b", "a?b", "a#b", "a%2fb", "a b", "a;b", "\u{fc}", "a\\b", "a:b"] {
            assert_eq!(chat(Some(name)), Err(Unspoken::Model), "{name}");
        }
        assert!(chat(Some("gpt-4.1_x")).is_ok());
    }

    #[test]
    fn the_address_says_which_deployment() {
        for path in [
            "/openai/deployments/d-1/chat/completions",
            "/openai/Deployment%73/d%2D1/chat/completions",
            "/x/openai/deployments/d-1/embeddings",
        ] {
            assert_eq!(deployment(path).as_deref(), Some("d-1"), "{path}");
        }
        for path in
            ["/v1/chat/completions", "/openai/deployments", "/openai/deployments/", "/openai/v1/responses"]
        {
            assert_eq!(deployment(path), None, "{path}");
        }
    }

    #[test]
    fn a_body_has_the_model_of_its_address() {
        let named = |body: &str| with_model(body.as_bytes(), "d");
        assert_eq!(named(r#"{"model": "d", "n":1}"#), Named::Same);
        assert_eq!(named(r#"{"n": 1.0}"#), Named::Added(r#"{"model":"d","n":1.0}"#.into()));
        assert_eq!(named(r#"{"n": 1.0, "model":"x"}"#), Named::Changed(r#"{"n":1.0,"model":"d"}"#.into()));
        assert_eq!(named(r#"{"model":null}"#), Named::Changed(r#"{"model":"d"}"#.into()));
        for unreadable in ["", "[]", r#"{"model":"d","model":"x"}"#] {
            assert_eq!(named(unreadable), Named::Unreadable);
        }
    }
}
