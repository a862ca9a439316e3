//! Which provider a request goes to: the one its path names, else the first route whose patterns fit its model,
//! else the providers of its family.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use globset::GlobSet;
use serde::Deserialize;
use serde_json::Value;

use crate::endpoint::{Endpoint, Family};
use crate::error::{Failure, StartError};
use crate::settings::Settings;
use crate::upstream::{Provider, globs};

/// The ways of requests.
#[derive(Debug)]
pub(crate) struct Routes {
    providers: BTreeMap<String, Arc<Provider>>,
    by_model: Vec<(GlobSet, Vec<Arc<Provider>>)>,
    by_family: BTreeMap<Family, Vec<Arc<Provider>>>,
    reads_models: bool,
}

impl Routes {
    pub(crate) fn new(settings: &Settings) -> Result<Self, StartError> {
        let mut providers = BTreeMap::new();
        for (name, provider) in &settings.providers {
            let provider = Provider::new(name, provider, &settings.timeouts, &settings.proxies)?;
            providers.insert(name.clone(), Arc::new(provider));
        }
        let found = |names: &[String], place: &str| -> Result<Vec<_>, StartError> {
            let missing =
                |name: &String| StartError::NoProvider { name: name.clone(), place: place.to_owned() };
            names.iter().map(|name| providers.get(name).cloned().ok_or_else(|| missing(name))).collect()
        };
        let mut by_model = Vec::new();
        for route in &settings.routes {
            let place = "`gateway.routes`";
            let models = globs(&route.models)
                .map_err(|pattern| StartError::Pattern { pattern, place: place.to_owned() })?;
            by_model.push((models, found(&route.providers, place)?));
        }
        let mut by_family = BTreeMap::new();
        for (family, names) in &settings.defaults {
            by_family.insert(*family, found(names, &format!("`gateway.providers.{}`", family.as_str()))?);
        }
        let reads_models = !by_model.is_empty() || providers.values().any(|provider| provider.lists_models());
        Ok(Self { providers, by_model, by_family, reads_models })
    }

    /// Whether the way of a request depends on its model.
    pub(crate) fn reads_models(&self) -> bool {
        self.reads_models
    }

    /// The providers to ask, in order; never none.
    pub(crate) fn find(
        &self,
        named: Option<&str>,
        endpoint: Endpoint,
        model: Option<&str>,
    ) -> Result<&[Arc<Provider>], Failure> {
        if let Some(name) = named {
            let provider = self.providers.get(name);
            let provider = provider.ok_or_else(|| Failure::UnknownProvider(name.to_owned()))?;
            return Ok(std::slice::from_ref(provider));
        }
        let by_model =
            model.and_then(|model| self.by_model.iter().find(|(models, _)| models.is_match(model)));
        if let Some((_, providers)) = by_model {
            return Ok(providers);
        }
        let providers = self.by_family.get(&endpoint.family).map_or(&[][..], Vec::as_slice);
        if providers.is_empty() { Err(Failure::NoProvider(endpoint.family)) } else { Ok(providers) }
    }
}

/// The model that a request is for, as far as it says so in exactly one way.
pub(crate) fn model_of<'a>(endpoint: Endpoint, path: &'a str, body: &'a [u8]) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        model: Option<Cow<'a, str>>,
    }
    if endpoint.family == Family::Gemini {
        let (_, rest) = path.rsplit_once("/models/")?;
        return Some(Cow::Borrowed(rest.split_once(':').map_or(rest, |(model, _)| model)));
    }
    serde_json::from_slice::<Document<'_>>(body).ok()?.model
}

/// Objects of a request that hold what their author wants: schemas, arguments, results.
const OWN: [&str; 13] = [
    "arguments",
    "args",
    "content",
    "filters",
    "input",
    "input_schema",
    "metadata",
    "output",
    "parameters",
    "properties",
    "responseSchema",
    "schema",
    "variables",
];

/// The models that a request names besides the one that it is for: those that step in (`fallbacks`, `models`), and
/// those of tools (advisors, images). Empty for what can't be read.
pub(crate) fn other_models(body: &[u8]) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(body) else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in &fields {
        if key != "model" {
            collect(key, value, &mut found);
        }
    }
    found
}

fn collect(key: &str, value: &Value, found: &mut Vec<String>) {
    match (key, value) {
        ("model" | "models" | "fallbacks", Value::String(name)) => {
            found.push(name.strip_prefix("models/").unwrap_or(name).to_owned());
        }
        ("models" | "fallbacks", Value::Array(items)) => {
            items.iter().for_each(|item| collect(key, item, found));
        }
        (_, Value::Array(items)) => items.iter().for_each(|item| collect("", item, found)),
        (key, Value::Object(_)) if OWN.contains(&key) => {}
        (_, Value::Object(fields)) => fields.iter().for_each(|(key, value)| collect(key, value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn model(path: &str, body: &str) -> Option<String> {
        let endpoint = Endpoint::of(path, &HeaderMap::new()).unwrap();
        model_of(endpoint, path, body.as_bytes()).map(Cow::into_owned)
    }

    #[test]
    fn models_are_read_wherever_a_wire_names_one() {
        let others = |body: &str| other_models(body.as_bytes());
        for (body, named) in [
            (r#"{"model":"a","messages":[{"role":"user","content":"model"}]}"#, vec![]),
            (r#"{"model":"a","models":["b","c"]}"#, vec!["b", "c"]),
            (r#"{"model":"a","fallbacks":["b",{"model":"c"}]}"#, vec!["b", "c"]),
            (
                r#"{"model":"a","tools":[{"type":"advisor_20260301","name":"advisor","model":"b"}]}"#,
                vec!["b"],
            ),
            (r#"{"model":"a","tools":[{"type":"image_generation","model":"b"}]}"#, vec!["b"]),
            (
                r#"{"model":"a","input":[{"type":"additional_tools","tools":[{"type":"image_generation","model":"b"}]}]}"#,
                vec!["b"],
            ),
            (r#"{"requests":[{"model":"models/e","content":{"parts":[]}}]}"#, vec!["e"]),
            // What belongs to a tool, a schema or a text is no model.
            (
                r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"model":"b"}}]}]}"#,
                vec![],
            ),
            (
                r#"{"tools":[{"input_schema":{"properties":{"model":{"model":"b"}}}}],"metadata":{"model":"b"}}"#,
                vec![],
            ),
            ("[", vec![]),
        ] {
            assert_eq!(others(body), named, "{body}");
        }
    }

    #[test]
    fn models_are_read_from_body_or_path() {
        let chat = "/v1/chat/completions";
        assert_eq!(model(chat, r#"{"messages":[{"model":"no"}],"model":"gpt-x"}"#).unwrap(), "gpt-x");
        assert_eq!(model(chat, r#"{"model":"a\u0062c"}"#).unwrap(), "abc");
        for unclear in [r#"{"model":"a","model":"b"}"#, r#"{"model":1}"#, "{}", "[", ""] {
            assert_eq!(model(chat, unclear), None, "{unclear}");
        }
        assert_eq!(model("/v1beta/models/gemini-x:generateContent", "").unwrap(), "gemini-x");
    }
}
