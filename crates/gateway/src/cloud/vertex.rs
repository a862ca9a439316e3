//! Vertex AI: Anthropic's Messages and Gemini's wire, below a project and a location
//! (`/v1/projects/<p>/locations/<l>/publishers/<publisher>/models/<model>:<verb>`).
//!
//! Of Anthropic, `rawPredict` and `streamRawPredict` are answers, the second as server-sent events; their bodies have no
//! `model`, and `anthropic_version` beside the rest. A count of tokens is a model of its own (`count-tokens:rawPredict`), and
//! its body does name the model. Of Google, bodies and verbs are those of Gemini's own API. A provider asks below its own
//! project and location, whatever a client's address says. Other publishers and verbs are not spoken here.

use http::uri::PathAndQuery;

use super::fields::Fields;
use super::{LONGEST_MODEL, NotSpoken, Plain, Unspoken, names, query_of_google};
use crate::endpoint::{Operation, unescaped};
use crate::upstream::is_version;

/// What counts tokens, in place of a model.
pub(super) const COUNT: &str = "count-tokens";
const VERSION: &str = "vertex-2023-10-16";
/// What is asked of Gemini's models.
const VERBS: [&str; 3] = ["generateContent", "streamGenerateContent", "countTokens"];

/// What a client asks for.
#[derive(Debug)]
pub(super) struct Asked {
    /// The path in the wire of the maker.
    pub(super) target: String,
    /// The model and whether a stream is wanted, where the maker's wire has them in the body.
    pub(super) said: Option<(Option<String>, bool)>,
}

/// What a path behind its version asks for; `None` if it is not below a project and a location.
pub(super) fn spoken(segments: &[&str]) -> Result<Option<Asked>, NotSpoken> {
    let [projects, _, locations, _, rest @ ..] = segments else { return Ok(None) };
    if !(names(projects, "projects") && names(locations, "locations")) {
        return Ok(None);
    }
    // What else is there is asked with credentials of Google's, which are for no maker.
    let [publishers, publisher, models, model] = rest else { return Err(NotSpoken::Vertex) };
    if !(names(publishers, "publishers") && names(models, "models")) {
        return Err(NotSpoken::Vertex);
    }
    let model = unescaped(model).map_err(|_| NotSpoken::Model)?;
    let (model, verb) = model.split_once(':').ok_or(NotSpoken::Vertex)?;
    segment(model).map_err(|_| NotSpoken::Model)?;
    let asked = match (*publisher, verb) {
        ("anthropic", "rawPredict") if model == COUNT => {
            ("/v1/messages/count_tokens".to_owned(), Some((None, false)))
        }
        ("anthropic", "rawPredict") => ("/v1/messages".to_owned(), Some((Some(model.to_owned()), false))),
        ("anthropic", "streamRawPredict") if model != COUNT => {
            ("/v1/messages".to_owned(), Some((Some(model.to_owned()), true)))
        }
        ("google", verb) if VERBS.contains(&verb) => (format!("/v1beta/models/{model}:{verb}"), None),
        _ => return Err(NotSpoken::Vertex),
    };
    Ok(Some(Asked { target: asked.0, said: asked.1 }))
}

/// Where Gemini Live is, at Google's makers or in their cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LivePath {
    /// The maker's API.
    Maker,
    /// Vertex AI.
    Vertex,
}

const LIVE_OF_MAKER: (&str, &str) =
    ("/ws/google.ai.generativelanguage.", ".GenerativeService.BidiGenerateContent");
const LIVE_OF_VERTEX: (&str, &str) = ("/ws/google.cloud.aiplatform.", ".LlmBidiService/BidiGenerateContent");

/// Which of the two a path is, letter by letter, whatever its version.
pub(crate) fn live_path(path: &str) -> Option<LivePath> {
    if live_version(path, LIVE_OF_MAKER).is_some() {
        return Some(LivePath::Maker);
    }
    live_version(path, LIVE_OF_VERTEX).map(|_| LivePath::Vertex)
}

fn live_version<'a>(path: &'a str, (before, behind): (&str, &str)) -> Option<&'a str> {
    let version = path.strip_prefix(before)?.strip_suffix(behind)?;
    let is_plain = version.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_version(version) && is_plain).then_some(version)
}

/// The address of Gemini Live below `base`, for a client that asked for it at `target`: what its query says besides goes to nobody
/// else.
pub(super) fn live(base: &str, target: &PathAndQuery, at: LivePath) -> Result<PathAndQuery, Unspoken> {
    let path = target.path();
    let (own, (before, behind)) = match at {
        LivePath::Maker => (live_version(path, LIVE_OF_MAKER), LIVE_OF_MAKER),
        LivePath::Vertex => (live_version(path, LIVE_OF_VERTEX), LIVE_OF_VERTEX),
    };
    let query = target.query().filter(|_| own.is_some()).map(|query| format!("?{query}"));
    // In the cloud versions have other names.
    let usual = if at == LivePath::Maker { "v1beta" } else { "v1beta1" };
    let version = own.unwrap_or(usual);
    let query = query.unwrap_or_default();
    format!("{base}{before}{version}{behind}{query}").parse().map_err(|_| Unspoken::Path)
}

/// The name of a model as a segment of a path.
pub(super) fn segment(model: &str) -> Result<&str, Unspoken> {
    let is_plain = model.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte));
    let is_name = !model.bytes().all(|byte| byte == b'.') && model.len() <= LONGEST_MODEL;
    if is_plain && is_name { Ok(model) } else { Err(Unspoken::Model) }
}

/// The body in Vertex AI of what is asked by `fields`.
pub(super) fn wrap(fields: &mut Fields<'_>) {
    fields.remove("anthropic_beta");
    let is_its =
        |version: serde_json::Value| version.as_str().is_some_and(|said| said.starts_with("vertex-"));
    if !fields.value("anthropic_version").is_some_and(is_its) {
        fields.set("anthropic_version", &VERSION.into());
    }
}

/// Where a request of Gemini's wire goes below `base`: to the model by which it was judged.
pub(super) fn google(base: &str, asked: &Plain<'_>) -> Result<PathAndQuery, Unspoken> {
    let is_asked = matches!(
        asked.endpoint.operation,
        Operation::GenerateContent | Operation::StreamGenerateContent | Operation::CountTokens
    );
    let segments: Vec<&str> = asked.target.path().trim_end_matches('/').split('/').skip(1).collect();
    let last = match segments.as_slice() {
        [models, last] if names(models, "models") => last,
        [version, models, last] if is_version(&version.to_ascii_lowercase()) && names(models, "models") => {
            last
        }
        _ => return Err(Unspoken::Operation),
    };
    let last = unescaped(last).map_err(|_| Unspoken::Path)?;
    let (named, verb) = last.split_once(':').ok_or(Unspoken::Operation)?;
    let verb = VERBS.into_iter().find(|known| verb.eq_ignore_ascii_case(known));
    let verb = verb.filter(|_| is_asked).ok_or(Unspoken::Operation)?;
    let model = asked.model.filter(|model| *model == named).ok_or(Unspoken::NoModel)?;
    let (model, query) = (segment(model)?, query_of_google(asked.target));
    format!("{base}/google/models/{model}:{verb}{query}").parse().map_err(|_| Unspoken::Path)
}
