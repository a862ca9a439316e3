//! Which requests may pass without a codec that reads them.
//!
//! What a provider offers beside answers grows: fine-tuning, evaluations, searches, administration of the account with
//! the keys in it. So the operations that pass are listed here by method and shape of their path, and everything else is
//! refused while hooks decide, or while it would be asked with the operator's key. The operator opens single ones by
//! name (`gateway.allow`): `POST /v1/fine_tuning/jobs`, `GET /v1/vector_stores/{id}`.
//!
//! A segment in braces stands for any one segment. Letter case, trailing slashes and escapes make no difference, as
//! they make none for [endpoints](crate::endpoint). The listed ones are known behind a version, or the names by which
//! servers set their OpenAI-like API apart; behind anything else a path is another operation.

use http::{HeaderMap, HeaderValue, Method, header};

use crate::brings::{Brings, Form};
use crate::endpoint::{Endpoint, Family, Operation, normal, unescaped};
use crate::readable::readable;
use crate::upstream::is_version;

/// What passes without a judge, and what it brings: lists of models, the states of batches, and files, which a request has to
/// name before a model reads them.
const LISTED: [(&str, &str, Brings); 18] = [
    ("GET", "", Brings::Nothing),
    ("GET", "models", Brings::Nothing),
    ("GET", "models/{model}", Brings::Nothing),
    ("DELETE", "responses/{id}", Brings::Nothing),
    ("GET", "messages/batches", Brings::Nothing),
    ("GET", "messages/batches/{id}", Brings::Nothing),
    ("POST", "messages/batches/{id}/cancel", Brings::Nothing),
    ("DELETE", "messages/batches/{id}", Brings::Nothing),
    ("GET", "files", Brings::Nothing),
    ("POST", "files", Brings::Parts),
    ("GET", "files/{id}", Brings::Nothing),
    ("DELETE", "files/{id}", Brings::Nothing),
    ("GET", "files/{id}/content", Brings::Nothing),
    ("GET", "files/{id}:download", Brings::Nothing),
    (
        "POST",
        "uploads",
        Brings::Object(&[
            ("purpose", Form::Word),
            ("filename", Form::Word),
            ("mime_type", Form::Word),
            ("bytes", Form::Number),
            ("expires_after", Form::Expiry),
        ]),
    ),
    ("POST", "uploads/{id}/parts", Brings::Parts),
    ("POST", "uploads/{id}/complete", Brings::Object(&[("part_ids", Form::Ids), ("md5", Form::Md5)])),
    ("POST", "uploads/{id}/cancel", Brings::Nothing),
];

/// States of batches of OpenAI's API. Those of others hold the answers.
const STATES: [(&str, &str, Brings); 3] = [
    ("GET", "batches", Brings::Nothing),
    ("GET", "batches/{id}", Brings::Nothing),
    ("POST", "batches/{id}/cancel", Brings::Nothing),
];

/// What a codec reads although it has no body: its answer.
const ANSWERED: [(&str, &str, Brings); 1] = [("POST", "responses/{id}/cancel", Brings::Nothing)];

/// One model of a list, where its name has a slash: of OpenAI's API, as servers of many makers speak it.
const MODEL_OF_MAKER: &str = "models/{maker}/{model}";

/// What Gemini has below a model, which is none.
const BELOW_MODELS: [&str; 2] = ["operations", "permissions"];

/// Names in front of the version, or in its place, of servers that speak one of the APIs beside one of their own. None of them
/// says which operation is meant, and none is a model.
pub(crate) const PREFIXES: [&str; 6] =
    ["openai", "anthropic", "api", "compat", "compatible-mode", "inference"];

/// Names behind which a model stands, and behind that what is done with it.
const OF_MODEL: [&str; 2] = ["deployments", "engines"];

/// Words in the names of headers and of what a query holds by which some servers take another method or path than the
/// request's. None that the wires define has one.
const OTHER_REQUEST: [&str; 4] = ["method", "original-ur", "rewrite-ur", "forwarded-ur"];

/// Names in a query by which Google's servers take another type of body, or other headers, than the request's.
const OTHER_HEAD: [&str; 2] = ["$ct", "$httpheaders"];

/// The header in which Anthropic's and OpenAI's SDKs say which of their helpers a program called.
const HELPER: &str = "x-stainless-helper-method";

/// The longest path that an error repeats.
const LONGEST_SHOWN: usize = 200;

/// An operation that the operator opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOperation {
    method: Method,
    path: String,
}

impl AllowedOperation {
    /// Requests of this method whose path is `path`, in which a segment in braces stands for any one. `None` if the
    /// method is none, or if the path names no operation: behind a version, the names that servers put in front of it and
    /// the deployment that is asked, a word has to stand, since `POST /openai/{x}` would be every operation.
    pub fn new(method: &str, path: &str) -> Option<Self> {
        let method = Method::from_bytes(method.as_bytes()).ok()?;
        let path = path.trim_matches('/').to_ascii_lowercase();
        names_an_operation(&path).then_some(Self { method, path })
    }
}

/// Whether a pattern in small letters says which operation it is about, behind everything that is only a way to one.
fn names_an_operation(pattern: &str) -> bool {
    let is_front = |segment: &str| is_version(segment) || PREFIXES.contains(&segment);
    let mut rest = pattern.split('/').skip_while(|segment| is_front(segment));
    let mut first = rest.next();
    while first.is_some_and(|segment| OF_MODEL.contains(&segment)) {
        first = rest.by_ref().skip(1).find(|segment| !is_front(segment));
    }
    first.is_some_and(|segment| !segment.is_empty() && !segment.starts_with('{'))
}

/// Why a request passes, or that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// A codec reads it: it passes where nobody judges, and those who judge read it.
    Read,
    /// It is known to be harmless.
    Listed,
    /// The operator opened it.
    Opened,
    /// Neither.
    Closed,
}

impl Permission {
    /// What holds for a request.
    pub(crate) fn of(
        endpoint: Endpoint,
        method: &Method,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
        allowed: &[AllowedOperation],
    ) -> Self {
        // A path that can be read in two ways was refused before anybody asks.
        let Ok(path) = normal(path) else { return Self::Closed };
        let path = path.trim_matches('/');
        let is_itself = is_itself(headers, query);
        if is_itself && is_read(endpoint, method, path) {
            return Self::Read;
        }
        if is_itself && is_listed(endpoint, method, path) {
            return Self::Listed;
        }
        let is_it = |operation: &AllowedOperation| operation.method == *method && fits(&operation.path, path);
        if is_itself && allowed.iter().any(is_it) { Self::Opened } else { Self::Closed }
    }
}

/// The name of an operation, as an error shows it and `gateway.allow` takes it.
pub(crate) fn name_of(method: &Method, path: &str) -> String {
    let path = normal(path).unwrap_or_default();
    let path: String = path.trim_end_matches('/').chars().take(LONGEST_SHOWN).collect();
    format!("{method} {}", if path.is_empty() { "/" } else { &path })
}

fn is_read(endpoint: Endpoint, method: &Method, path: &str) -> bool {
    let is_made = endpoint.family == Family::OpenAi && file_use(method, path) == Some(FileUse::Create);
    if is_made || readable(method, path).is_some() || batch(method, path).is_some() {
        return true;
    }
    match endpoint.operation {
        Operation::Messages
        | Operation::CountTokens
        | Operation::ChatCompletions
        | Operation::Responses
        | Operation::GenerateContent
        | Operation::StreamGenerateContent
        | Operation::Converse
        | Operation::BedrockCount => *method == Method::POST,
        Operation::StoredResponse => {
            let stored = [(Method::GET, "responses/{id}"), (Method::POST, "responses/{id}/cancel")];
            stored.iter().any(|(of, shape)| of == method && fits(shape, without_prefix(path)))
        }
        Operation::Embeddings
        | Operation::Document
        | Operation::Batch
        | Operation::Models
        | Operation::Live
        | Operation::Other => false,
    }
}

/// What a request about a batch brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    /// Requests that a model is asked later.
    Requests,
    /// The answers to them.
    Answers,
}

/// What a request brings that is about a batch of Anthropic Messages. `path` is a [normal](crate::endpoint::normal) one.
pub(crate) fn batch(method: &Method, path: &str) -> Option<Batch> {
    let rest = without_prefix(path.trim_matches('/'));
    match *method {
        Method::POST if fits("messages/batches", rest) => Some(Batch::Requests),
        Method::GET if fits("messages/batches/{id}/results", rest) => Some(Batch::Answers),
        _ => None,
    }
}

/// What a request is about that has to do with files and OpenAI's batches of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// A file is stored.
    Upload,
    /// A batch is made of one.
    Create,
    /// States of batches are read.
    States,
    /// What a file holds is read.
    Content,
}

/// What a request does with files and batches of them. `path` is a [normal](crate::endpoint::normal) one.
pub(crate) fn file_use(method: &Method, path: &str) -> Option<FileUse> {
    let rest = without_prefix(path.trim_matches('/'));
    let is = |shape: &str| fits(shape, rest);
    match *method {
        Method::POST if is("files") => Some(FileUse::Upload),
        Method::POST if is("batches") => Some(FileUse::Create),
        Method::POST if is("batches/{id}/cancel") => Some(FileUse::States),
        Method::GET if is("batches") || is("batches/{id}") => Some(FileUse::States),
        Method::GET | Method::HEAD if is("files/{id}/content") || is("files/{id}:download") => {
            Some(FileUse::Content)
        }
        _ => None,
    }
}

fn is_listed(endpoint: Endpoint, method: &Method, path: &str) -> bool {
    let is_below = path.rsplit('/').next().is_some_and(|last| BELOW_MODELS.contains(&last));
    let is_of_maker = || {
        let of_maker = ("GET", MODEL_OF_MAKER, Brings::Nothing);
        endpoint.family == Family::OpenAi && !is_below && row(&[of_maker], method, path).is_some()
    };
    row(&LISTED, method, path).is_some()
        || (endpoint.family == Family::OpenAi && row(&STATES, method, path).is_some())
        || is_of_maker()
}

/// What a request brings that has this permission.
pub(crate) fn brings(permission: Permission, method: &Method, path: &str) -> Brings {
    // What the operator opened is the operator's to know, and what is closed does not pass.
    if !matches!(permission, Permission::Read | Permission::Listed) {
        return Brings::Read;
    }
    if matches!(*method, Method::GET | Method::HEAD | Method::DELETE) {
        return Brings::Nothing;
    }
    let Ok(path) = normal(path) else { return Brings::Nothing };
    let path = path.trim_matches('/');
    let mut rows = [LISTED.as_slice(), &STATES, &ANSWERED].into_iter();
    match rows.find_map(|rows| row(rows, method, path)) {
        Some(brings) => brings,
        None if permission == Permission::Read => Brings::Read,
        None => Brings::Nothing,
    }
}

/// What an operation brings, if it is one of these.
fn row(rows: &[(&str, &str, Brings)], method: &Method, path: &str) -> Option<Brings> {
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    let rest = without_prefix(path);
    let is = |of: &str, shape: &str| of == method && (fits(shape, rest) || fits(shape, path));
    rows.iter().find(|(of, shape, _)| is(of, shape)).map(|(_, _, brings)| *brings)
}

/// A path without its version, and without the names that stand around it.
pub(crate) fn without_prefix(path: &str) -> &str {
    let mut rest = path;
    for _ in 0..3 {
        let (first, more) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_version(first) && !PREFIXES.contains(&first) {
            break;
        }
        rest = more;
    }
    rest
}

/// Whether a path has a shape, segment by segment.
pub(crate) fn fits(shape: &str, path: &str) -> bool {
    let (mut shapes, mut segments) = (shape.split('/'), path.split('/'));
    loop {
        match (shapes.next(), segments.next()) {
            (None, None) => return true,
            (Some(shape), Some(segment)) if fits_segment(shape, segment) => {}
            _ => return false,
        }
    }
}

/// A segment in braces stands for any one; behind the brace may stand a verb.
fn fits_segment(shape: &str, segment: &str) -> bool {
    match shape.strip_prefix('{').and_then(|shape| shape.split_once('}')) {
        Some((_, "")) => !segment.is_empty() && !segment.contains(':'),
        Some((_, verb)) => {
            segment.strip_suffix(verb).is_some_and(|name| !name.is_empty() && !name.contains(':'))
        }
        None => shape == segment,
    }
}

/// Whether a server takes a request for what its method and path say.
pub(crate) fn is_itself(headers: &HeaderMap, query: Option<&str>) -> bool {
    !says_another(headers, query) && !is_grpc(headers)
}

/// Whether a header or the query may make a server take another method or path.
fn says_another(headers: &HeaderMap, query: Option<&str>) -> bool {
    let is_one = |name: &str| {
        let name = name.to_ascii_lowercase().replace('_', "-");
        OTHER_REQUEST.iter().any(|word| name.contains(word)) || OTHER_HEAD.contains(&name.as_str())
    };
    let pairs = query.unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    // What can't be read as a name may be any.
    let mut names = pairs.map(|name| unescaped(name).map_or(true, |name| is_one(&name)));
    headers.keys().any(|name| name != HELPER && is_one(name.as_str())) || names.any(|is_one| is_one)
}

/// Whether a request may be taken for a call of gRPC, whose paths are its maker's and whose body is no JSON.
fn is_grpc(headers: &HeaderMap) -> bool {
    let kinds = headers.get_all(header::CONTENT_TYPE).iter().map(HeaderValue::as_bytes);
    kinds.flat_map(|kinds| kinds.split(|byte| *byte == b',')).any(|kind| {
        let begins = kind.trim_ascii_start().get(.."application/grpc".len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(b"application/grpc"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(request: &str, allowed: &[&str]) -> Permission {
        let (method, path) = request.split_once(' ').unwrap();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let headers = HeaderMap::new();
        let endpoint = Endpoint::of(path, &headers).unwrap();
        let allowed: Vec<AllowedOperation> = allowed
            .iter()
            .map(|name| {
                let (method, path) = name.split_once(' ').unwrap();
                AllowedOperation::new(method, path).unwrap()
            })
            .collect();
        Permission::of(endpoint, &method, path, None, &headers, &allowed)
    }

    #[test]
    fn what_is_known_to_be_harmless_passes() {
        for request in [
            "GET /v1/models",
            "HEAD /v1/models/",
            "GET /V1/Models/gpt",
            "GET /models",
            "GET /v1/models/meta/llama",
            "GET /openai/v1/models",
            "GET /v1beta/openai/models",
            "GET /v1beta/models/gemini",
            "HEAD /",
            "GET /v1",
            "POST /v1/messages",
            "POST /anything/v1/messages",
            "POST /v1/messages/count_tokens",
            "POST /v1/chat/completions",
            "POST /openai/deployments/gpt/chat/completions",
            "POST /v1/responses",
            "POST /v1/responses/input_tokens",
            "GET /v1/responses/resp_1",
            "DELETE /v1/responses/resp_1",
            "POST /v1/responses/resp_1/cancel",
            "POST /v1beta/models/g:generateContent",
            "POST /v1beta/models/g:countTokens",
            "POST /v1beta/models/g:embedContent",
            "POST /v1/embeddings",
            "POST /v1/completions",
            "POST /v1/moderations",
            "GET /v1/responses/resp_1/input_items",
            "POST /v1/conversations",
            "POST /openai/deployments/small/embeddings",
            "GET /v1/files/file_1/content",
            "POST /v1/uploads/u/parts",
            "POST /v1/batches",
            "GET /v1/batches",
            "GET /v1/batches/b",
            "POST /v1/batches/b/cancel",
        ] {
            let passes = [Permission::Listed, Permission::Read];
            assert!(passes.contains(&permission(request, &[])), "{request}");
        }
    }

    /// Whatever stands in front of an operation, it brings what it declares, and what only reads or deletes brings nothing.
    #[test]
    fn what_is_not_read_declares_what_it_brings() {
        for (method, shape, declared) in LISTED.iter().chain(&STATES).chain(&ANSWERED) {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let path = shape.replace(['{', '}'], "");
            for front in ["", "/v1", "/openai/v1"] {
                let path = format!("{front}/{path}");
                let brought = brings(Permission::Listed, &method, &path);
                assert_eq!(format!("{brought:?}"), format!("{declared:?}"), "{method} {path}");
            }
            if method != Method::POST {
                assert!(matches!(declared, Brings::Nothing), "{method} {shape}");
            }
        }
        for (request, permission) in
            [("GET /v1/conversations/c/items", Permission::Read), ("DELETE /v1/x", Permission::Listed)]
        {
            let (method, path) = request.split_once(' ').unwrap();
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert!(matches!(brings(permission, &method, path), Brings::Nothing), "{request}");
        }
        assert!(matches!(brings(Permission::Read, &Method::POST, "/v1/chat/completions"), Brings::Read));
        assert!(matches!(brings(Permission::Opened, &Method::GET, "/v1/files"), Brings::Read));
    }

    #[test]
    fn everything_else_is_closed() {
        for request in [
            "POST /v1/decisions",
            "POST /v1/dreams",
            "POST /v1/summarize",
            // Where it goes on stands in the answer, past the proxy.
            "POST /upload/v1beta/files",
            "POST /v1/fine_tuning/jobs",
            "POST /v1/vector_stores/vs/search",
            "GET /v1/organization/admin_api_keys",
            "POST /v1/tunnels/t/reveal_token",
            "GET /v1/vaults/v/credentials",
            "GET /v1/completions",
            "GET /v1/chat/completions",
            "DELETE /v1/models/ft",
            "POST /v1/models",
            "PATCH /v1/files/f",
            "GET /v1/organization/models",
            "GET /v1/projects/p/files",
            "GET /v1/openai/api/v1/models",
            // No model, but what was done with one.
            "GET /v1beta/models/m/operations",
            "GET /v1beta/models/m/permissions",
            "GET /v1beta/models/maker/m",
            "GET /v1/models/m/operations",
            "HEAD /v1/models/m/Operations/",
            "POST /v1/x/embeddings",
            "POST /v1beta/models/m:embedContent:run",
            "POST /",
            "GET /v1/messages",
            "OPTIONS /v1/models",
        ] {
            assert_eq!(permission(request, &[]), Permission::Closed, "{request}");
        }
    }

    #[test]
    fn the_operator_opens_single_operations() {
        let allowed = ["POST /v1/fine_tuning/jobs", "GET /v1/Jobs/{id}", "POST /v1/models/{m}:tune"];
        for request in [
            "POST /v1/fine_tuning/jobs",
            "POST /v1/fine_tuning/jobs/",
            "GET /v1/jobs/b1",
            "POST /v1/models/x:tune",
        ] {
            assert_eq!(permission(request, &allowed), Permission::Opened, "{request}");
        }
        for request in [
            "GET /v1/fine_tuning/jobs",
            "POST /v1/fine_tuning/jobs/j",
            "POST /v2/fine_tuning/jobs",
            "GET /v1/jobs",
            "GET /v1/jobs/b1/x",
            "POST /v1/models/x:other",
        ] {
            assert_eq!(permission(request, &allowed), Permission::Closed, "{request}");
        }
    }

    #[test]
    fn a_pattern_says_which_operation_it_is_about() {
        // Whatever way leads to an operation, and however much of it: what stands behind has to be a word.
        let fronts = ["v1", "v1beta", "V2", "API", "deployments/{d}", "openai/engines/e"];
        let fronts = [fronts.as_slice(), &PREFIXES].concat();
        for first in &fronts {
            for second in &fronts {
                for way in [String::new(), format!("/{first}"), format!("/{first}/{second}")] {
                    for any in ["/{x}", "/{x}/{y}", "/{x}:run", "/{x}/jobs", ""] {
                        let pattern = format!("{way}{any}");
                        assert_eq!(AllowedOperation::new("POST", &pattern), None, "{pattern}");
                    }
                    let pattern = format!("{way}/jobs/{{id}}");
                    assert!(AllowedOperation::new("POST", &pattern).is_some(), "{pattern}");
                }
            }
        }
    }

    #[test]
    fn another_method_behind_the_method_is_another_operation() {
        let endpoint = Endpoint::of("/v1/files/f", &HeaderMap::new()).unwrap();
        let closed = |query: Option<&str>, headers: &[(&str, &str)]| {
            let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let headers: HeaderMap = headers.collect();
            [vec![], vec![AllowedOperation::new("GET", "/v1/files/{f}").unwrap()]].iter().all(|allowed| {
                let path = "/v1/files/f";
                let permission = Permission::of(endpoint, &Method::GET, path, query, &headers, allowed);
                permission == Permission::Closed
            })
        };
        for header in [
            ("x-http-method-override", "DELETE"),
            ("X-HTTP-METHOD_OVERRIDE", "DELETE"),
            ("x-original-method", "DELETE"),
            ("x-original-url", "/v1/other"),
            ("x-rewrite-url", "/v1/other"),
            ("content-type", " application/GRPC+proto"),
            ("content-type", "application/json, application/grpc"),
        ] {
            assert!(closed(None, &[header]), "{header:?}");
        }
        assert!(closed(None, &[("content-type", "application/json"), ("content-type", "application/grpc")]));
        for query in [
            "_method=DELETE",
            "a=b&$httpMethod=DELETE",
            "X-HTTP%2DMethod-Override=DELETE",
            "%zz=1",
            "$ct=application/grpc",
            "a=b&%24Ct",
            "%24%63t=x",
            "$httpHeaders=x",
        ] {
            assert!(closed(Some(query), &[]), "{query}");
        }
        assert!(!closed(Some("limit=2&order=desc"), &[("content-type", "application/json")]));
        assert!(!closed(None, &[("x-stainless-helper-method", "stream")]));
    }

    #[test]
    fn a_name_is_one_that_opens() {
        assert_eq!(name_of(&Method::POST, "/V1/Dreams/"), "POST /v1/dreams");
        assert_eq!(name_of(&Method::GET, "/"), "GET /");
        assert_eq!(
            permission("POST /v1/dreams", &[&name_of(&Method::POST, "/v1/Dreams")]),
            Permission::Opened
        );
        assert!(name_of(&Method::GET, &format!("/{}", "x".repeat(999))).len() < 220);
    }
}
