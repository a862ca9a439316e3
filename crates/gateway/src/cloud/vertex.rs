//! Vertex AI: Anthropic's Messages and Gemini's wire, below a project and a location
//! (`/v1/projects/<p>/locations/<l>/publishers/<publisher>/models/<model>:<verb>`).
//!
//! Of Anthropic, `rawPredict` and `streamRawPredict` are answers, the second as server-sent events; their bodies have no
//! `model`, and `anthropic_version` beside the rest. A count of tokens is a model of its own (`count-tokens:rawPredict`), and
//! its body does name the model. Of Google, bodies and verbs are those of Gemini's own API. A provider asks below its own
//! project and location, whatever a client's address says. Other publishers and verbs are not spoken here.

use http::uri::PathAndQuery;

use super::fields::Fields;
use super::{LONGEST_MODEL, NotSpoken, Unspoken, names};
use crate::endpoint::{Endpoint, Operation, unescaped};

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
    let [projects, _, locations, _, publishers, publisher, models, model] = segments else { return Ok(None) };
    let is_its = names(projects, "projects") && names(locations, "locations");
    if !(is_its && names(publishers, "publishers") && names(models, "models")) {
        return Ok(None);
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

/// Where a request of Gemini's wire goes below `base`.
pub(super) fn google(
    base: &str,
    endpoint: Endpoint,
    target: &PathAndQuery,
) -> Result<PathAndQuery, Unspoken> {
    let is_asked = matches!(
        endpoint.operation,
        Operation::GenerateContent | Operation::StreamGenerateContent | Operation::CountTokens
    );
    let last = target.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let last = unescaped(last).map_err(|_| Unspoken::Path)?;
    let (model, verb) = last.split_once(':').ok_or(Unspoken::Operation)?;
    let verb = VERBS.into_iter().find(|known| verb.eq_ignore_ascii_case(known));
    let verb = verb.filter(|_| is_asked).ok_or(Unspoken::Operation)?;
    let query = target.query().map(|query| format!("?{query}")).unwrap_or_default();
    let model = segment(model)?;
    format!("{base}/google/models/{model}:{verb}{query}").parse().map_err(|_| Unspoken::Path)
}
