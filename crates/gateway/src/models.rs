//! The models that a request names: the one that it is for, and all others.
//!
//! A list of models holds for each of them, so they are read in one place, wherever a wire or a server that speaks it names
//! one: in the address (Gemini, deployments of Azure), in `model`, in what may step in (`fallbacks`, `models`, `modelName` of a
//! routing), and in tools (advisors, images).
//!
//! *Closed.* Every key that speaks of models or of what falls back names one by its string, but for the few that are listed.
//! Limits: what a stored prompt or an agent at the provider names is not in the request, and a provider that may choose by
//! itself (`autoMode`) is taken to be asked for a model of that name.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::endpoint::{Endpoint, Family, unescaped};

/// The models that a request names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedModels {
    /// The one that it is for, as far as it says so in exactly one way.
    pub(crate) main: Option<String>,
    /// The others, each once. Empty for a body that can't be read.
    pub(crate) others: Vec<String>,
}

/// Objects of a request that hold what their author wants: schemas, arguments, results.
const OWN: [&str; 26] = [
    "arguments",
    "args",
    "attributes",
    "content",
    "env",
    "examples",
    "filters",
    "functionResponse",
    "function_response",
    "headers",
    "input",
    "input_examples",
    "input_schema",
    "json_schema",
    "labels",
    "metadata",
    "output",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
    "properties",
    "responseJsonSchema",
    "responseSchema",
    "response_schema",
    "schema",
    "variables",
];

/// Keys that speak of models and name none, in small letters and without what parts their words.
const NAMES_NONE: [&str; 4] =
    ["modelarmorconfig", "modelroutingpreference", "modelselectionconfig", "featureselectionpreference"];

/// Keys under which the provider chooses by itself.
const CHOOSES: &str = "automode";

/// Segments of an address behind which a model stands.
const BEFORE_MODEL: [&str; 3] = ["models", "model", "deployments"];

impl NamedModels {
    /// The models of a request for `path` with this `body`.
    pub(crate) fn of(endpoint: Endpoint, path: &str, body: &[u8]) -> Self {
        let main = main_model(endpoint, path, body).map(Cow::into_owned);
        let mut found: Vec<String> = in_path(path).into_iter().collect();
        if let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(body) {
            fields.iter().for_each(|(key, value)| collect(key, value, &mut found));
        }
        let mut others: Vec<String> = Vec::new();
        for name in found {
            if main.as_ref() != Some(&name) && !others.contains(&name) {
                others.push(name);
            }
        }
        Self { main, others }
    }
}

/// The model that a request is for, as far as it says so in exactly one way.
pub(crate) fn main_model<'a>(endpoint: Endpoint, path: &'a str, body: &'a [u8]) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        model: Option<Cow<'a, str>>,
    }
    if endpoint.family == Family::Gemini {
        return in_path(path).map(Cow::Owned);
    }
    let said = serde_json::from_slice::<Document<'_>>(body).ok()?.model;
    said.or_else(|| in_path(path).map(Cow::Owned))
}

/// The model that an address names: `/v1beta/models/m:generateContent`, `/openai/deployments/d/chat/completions`.
fn in_path(path: &str) -> Option<String> {
    let is_before = |before: &str| BEFORE_MODEL.iter().any(|known| before.eq_ignore_ascii_case(known));
    let mut pairs = path.rsplit('/').zip(path.rsplit('/').skip(1));
    let (name, _) = pairs.find(|(name, before)| !name.is_empty() && is_before(before))?;
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    unescaped(name).ok()
}

fn collect(key: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(name) if names_a_model(key) && !name.is_empty() => {
            found.push(name.strip_prefix("models/").unwrap_or(name).to_owned());
        }
        Value::Array(items) => {
            // The items of `input` are the wire's; it is an object of that name that belongs to its author.
            let key = if names_a_model(key) { key } else { "" };
            items.iter().for_each(|item| collect(key, item, found));
        }
        Value::Object(_) if OWN.contains(&key) => {}
        Value::Object(fields) => collect_fields(key, fields, found),
        _ => {}
    }
}

fn collect_fields(key: &str, fields: &Map<String, Value>, found: &mut Vec<String>) {
    if plain(key) == CHOOSES {
        found.push(key.to_owned());
    }
    // A model may be an object with a name of its own.
    let is_model = names_a_model(key);
    for (inside, value) in fields {
        let is_its_name = is_model && matches!(inside.as_str(), "id" | "name");
        collect(if is_its_name { key } else { inside }, value, found);
    }
}

fn names_a_model(key: &str) -> bool {
    let plain = plain(key);
    (plain.contains("model") || plain.contains("fallback")) && !NAMES_NONE.contains(&plain.as_str())
}

fn plain(key: &str) -> String {
    key.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn named(path: &str, body: &str) -> NamedModels {
        let endpoint = Endpoint::of(path, &HeaderMap::new()).unwrap();
        NamedModels::of(endpoint, path, body.as_bytes())
    }

    #[test]
    fn models_are_read_wherever_a_wire_names_one() {
        for (body, others) in [
            (r#"{"model":"a","messages":[{"role":"user","content":"model"}]}"#, vec![]),
            (r#"{"model":"a","models":["b","c","a"]}"#, vec!["b", "c"]),
            (r#"{"model":"a","fallbacks":["b",{"model":"c","max_tokens":1}]}"#, vec!["b", "c"]),
            (r#"{"model":"a","fallback_models":["b"],"fallbackModel":"c"}"#, vec!["b", "c"]),
            (r#"{"model":"a","extra_body":{"models":["b"]}}"#, vec!["b"]),
            (r#"{"model":"a","route":{"model":{"id":"b"}}}"#, vec!["b"]),
            (
                r#"{"model":"a","tools":[{"type":"advisor_20260301","name":"advisor","model":"b"}]}"#,
                vec!["b"],
            ),
            (r#"{"model":"a","tools":[{"type":"image_generation","model":"b"}]}"#, vec!["b"]),
            (
                r#"{"model":"a","input":[{"type":"additional_tools","tools":[{"type":"image_generation","model":"b"}]}]}"#,
                vec!["b"],
            ),
            (r#"{"model":"a","requests":[{"model":"models/e","content":{"parts":[]}}]}"#, vec!["e"]),
            // What belongs to a tool, a schema or a text is no model.
            (
                r#"{"model":"a","messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"model":"b"}}]}]}"#,
                vec![],
            ),
            (
                r#"{"model":"a","tools":[{"input_schema":{"properties":{"model":{"model":"b"}}}}],"metadata":{"model":"b"}}"#,
                vec![],
            ),
            ("[", vec![]),
        ] {
            assert_eq!(named("/v1/chat/completions", body).others, others, "{body}");
        }
    }

    #[test]
    fn the_address_names_a_model_beside_the_body() {
        let azure = "/openai/deployments/large/chat/completions";
        let both = named(azure, r#"{"model":"small"}"#);
        assert_eq!((both.main.as_deref(), both.others), (Some("small"), vec!["large".to_owned()]));
        let alone = named(azure, "{}");
        assert_eq!((alone.main.as_deref(), alone.others), (Some("large"), vec![]));
        let gemini = "/v1beta/models/m%31:generateContent";
        let both = named(gemini, r#"{"model":"models/m2","contents":[]}"#);
        assert_eq!((both.main.as_deref(), both.others), (Some("m1"), vec!["m2".to_owned()]));
        let routed = r#"{"generationConfig":{"routingConfig":{"manualMode":{"modelName":"m2"}},"modelSelectionConfig":{"featureSelectionPreference":"X"}}}"#;
        assert_eq!(named(gemini, routed).others, ["m2"]);
        let chosen =
            r#"{"generationConfig":{"routingConfig":{"autoMode":{"modelRoutingPreference":"BALANCED"}}}}"#;
        assert_eq!(named(gemini, chosen).others, ["autoMode"]);
    }

    #[test]
    fn the_main_model_is_read_from_body_or_path() {
        let main = |path: &str, body: &str| named(path, body).main;
        let chat = "/v1/chat/completions";
        assert_eq!(main(chat, r#"{"messages":[{"model":"no"}],"model":"gpt-x"}"#).unwrap(), "gpt-x");
        assert_eq!(main(chat, r#"{"model":"a\u0062c"}"#).unwrap(), "abc");
        for unclear in [r#"{"model":"a","model":"b"}"#, r#"{"model":1}"#, "{}", "[", ""] {
            assert_eq!(main(chat, unclear), None, "{unclear}");
        }
        assert_eq!(main("/v1beta/models/gemini-x:generateContent", "").unwrap(), "gemini-x");
    }
}
