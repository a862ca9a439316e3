//! The models that a request names: the one that it is for, and all others.
//!
//! A list of models holds for each of them, so they are read in one place, wherever a wire or a server that speaks it names
//! one: in the address (Gemini, deployments of Azure), in `model`, in what may step in (`fallbacks`, `models`, `modelName` of a
//! routing), in tools (advisors, images), and in the query, which some servers read before the body.
//!
//! *Closed.* Every key that speaks of models or of what falls back names one by its string, but for the few that are listed;
//! inside of such an object every string does, whatever its key, and so do the keys of a map from models to what is set for
//! them. In an address, what stands in front of a known ending and is neither a version nor a known name is a model, and so is
//! each name of a list by comma.
//! Limits: a key of a map from models to other models only says what they step in for and is not read; what a stored prompt or
//! an agent at the provider names is not in the request, and a provider that may choose by itself (`autoMode`) is taken to be
//! asked for a model of that name.

use std::borrow::Cow;

use backstop_llm::wire::parse_request;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::endpoint::{Endpoint, Family, Operation, unescaped, unescaped_by_anyone};
use crate::operations::PREFIXES;

/// The models that a request names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedModels {
    /// The one that it is for, as far as it says so in exactly one way.
    pub(crate) main: Option<String>,
    /// The others, each once.
    pub(crate) others: Vec<String>,
}

/// Objects of a request that hold what their author wants: schemas, arguments, results; in order.
const OWN: [&str; 30] = [
    "args",
    "arguments",
    "attributes",
    "content",
    "env",
    "examples",
    "filters",
    "functionResponse",
    "function_response",
    "headers",
    "input",
    "inputSchema",
    "input_examples",
    "input_schema",
    "json",
    "json_schema",
    "labels",
    "metadata",
    "output",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
    "promptVariables",
    "properties",
    "requestMetadata",
    "responseJsonSchema",
    "responseSchema",
    "response_schema",
    "schema",
    "variables",
];

/// Keys that speak of models and name none, in small letters and without what parts their words.
const NAMES_NONE: [&str; 6] = [
    "additionalmodelresponsefieldpaths",
    "fallbackcredittoken",
    "modelarmorconfig",
    "modelroutingpreference",
    "modelselectionconfig",
    "featureselectionpreference",
];

/// Keys inside an object that speaks of models whose values name none: how a model is asked, and what it is asked;
/// in order.
const SETTINGS: [&str; 60] = [
    "apibase",
    "apikey",
    "apiversion",
    "baseurl",
    "cachecontrol",
    "container",
    "contextmanagement",
    "effort",
    "extrabody",
    "extraheaders",
    "extraquery",
    "frequencypenalty",
    "generationconfig",
    "inputs",
    "instructions",
    "logitbias",
    "logprobs",
    "maxcompletiontokens",
    "maxoutputtokens",
    "maxretries",
    "maxtokens",
    "mcpservers",
    "messages",
    "mode",
    "n",
    "order",
    "outputconfig",
    "paralleltoolcalls",
    "presencepenalty",
    "prompt",
    "provider",
    "reasoning",
    "reasoningeffort",
    "responseformat",
    "rpm",
    "safetysettings",
    "seed",
    "servicetier",
    "speed",
    "stop",
    "stopsequences",
    "store",
    "stream",
    "streamoptions",
    "system",
    "systeminstruction",
    "temperature",
    "thinking",
    "timeout",
    "toolchoice",
    "toolconfig",
    "tools",
    "topk",
    "toplogprobs",
    "topp",
    "tpm",
    "type",
    "user",
    "verbosity",
    "weight",
];

/// Keys inside an object that speaks of models under which one or more are named; any other key there may be a model itself.
const FIELDS: [&str; 13] = [
    "id",
    "name",
    "model",
    "models",
    "modelid",
    "modelids",
    "modellist",
    "modelname",
    "modelnames",
    "fallback",
    "fallbacks",
    "fallbackmodel",
    "fallbackmodels",
];

/// Fields of a request by which Azure and servers of OpenAI's older API name a model, in small letters and without what parts
/// their words. Further inside, others have fields of these names for something else.
const DEPLOYED: [&str; 8] = [
    "deployment",
    "deploymentid",
    "deploymentname",
    "deployments",
    "engine",
    "engineid",
    "enginename",
    "engines",
];

/// Keys under which the provider chooses by itself.
const CHOOSES: &str = "automode";

/// Segments of an address behind which a model stands.
const BEFORE_MODEL: [&str; 4] = ["models", "model", "deployments", "engines"];

/// Endings of an address in front of which a model may stand, in small letters.
const ENDINGS: [&str; 15] = [
    "/chat/completions",
    "/completions",
    "/embeddings",
    "/images/generations",
    "/images/edits",
    "/images/variations",
    "/audio/speech",
    "/audio/transcriptions",
    "/audio/translations",
    "/moderations",
    "/responses",
    "/responses/compact",
    "/responses/input_tokens",
    "/messages",
    "/messages/count_tokens",
];

impl NamedModels {
    /// The models of a request for `path` with this `body`, and the [ones in its query](in_query).
    ///
    /// # Errors
    /// If two readers could understand the body in two ways, or none at all: nobody knows then which models it names.
    pub(crate) fn of(
        endpoint: Endpoint,
        path: &str,
        in_query: &[String],
        body: &[u8],
    ) -> Result<Self, serde_json::Error> {
        let main = main_model(endpoint, path, body).map(Cow::into_owned);
        let mut found: Vec<String> = in_path(path).into_iter().chain(before_ending(path)).collect();
        found.extend_from_slice(in_query);
        // What has no body names none there.
        if !body.trim_ascii().is_empty()
            && let Value::Object(mut fields) = parse_request(body)?
        {
            if endpoint.operation == Operation::BedrockCount {
                lift_counted(&mut fields);
            }
            fields.iter().for_each(|(key, value)| collect(key, value, is_deployed(key), &mut found));
        }
        let lists = found.iter().chain(&main).filter(|name| name.contains(','));
        let listed: Vec<String> =
            lists.flat_map(|name| name.split(',')).map(|name| name.trim().to_owned()).collect();
        found.extend(listed.into_iter().filter(|name| !name.is_empty()));
        let mut others: Vec<String> = Vec::new();
        for name in found {
            if main.as_ref() != Some(&name) && !others.contains(&name) {
                others.push(name);
            }
        }
        Ok(Self { main, others })
    }
}

/// The model that a request is for, as far as it says so in exactly one way.
pub(crate) fn main_model<'a>(endpoint: Endpoint, path: &'a str, body: &'a [u8]) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        model: Option<Cow<'a, str>>,
    }
    /// A body of Bedrock's Converse, into which the gateway has put the model of the address.
    #[derive(Deserialize)]
    struct OfBedrock<'a> {
        #[serde(borrow, rename = "modelId")]
        model: Option<Cow<'a, str>>,
    }
    if endpoint.family == Family::Gemini {
        return in_path(path).map(Cow::Owned);
    }
    if endpoint.is_of_bedrock() {
        return serde_json::from_slice::<OfBedrock<'_>>(body).ok()?.model;
    }
    if endpoint.operation == Operation::Batch {
        return first_of_batch(body).map(Cow::Owned);
    }
    let said = serde_json::from_slice::<Document<'_>>(body).ok()?.model;
    said.or_else(|| in_path(path).map(Cow::Owned))
}

/// Puts what is counted beside the model, where it names others as a request does.
fn lift_counted(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(input)) = fields.shift_remove("input") {
        let values = input.into_iter().map(|(_, value)| value).enumerate();
        fields.extend(values.map(|(place, value)| (format!("counted {place}"), value)));
    }
}

/// The models that a query names, whichever of its pairs a server reads.
pub(crate) fn in_query(query: Option<&str>) -> Vec<String> {
    // Some servers part pairs by a semicolon, too.
    let pairs = query.unwrap_or_default().split(['&', ';']);
    let named = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = of_query(name);
        let name = plain(&name);
        let speaks = speaks_of_models(&name) || name.contains("deployment") || name.contains("engine");
        let value = of_query(value);
        (speaks && !value.is_empty()).then(|| value.strip_prefix("models/").unwrap_or(&value).to_owned())
    });
    named.collect()
}

/// What a name or a value in a query says; an escape that is none stays.
fn of_query(text: &str) -> String {
    String::from_utf8_lossy(&unescaped_by_anyone(&text.replace('+', " "))).into_owned()
}

/// The model of the first request of a batch, which goes to one provider with all of them.
fn first_of_batch(body: &[u8]) -> Option<String> {
    let batch: Value = serde_json::from_slice(body).ok()?;
    Some(batch.pointer("/requests/0/params/model")?.as_str()?.to_owned())
}

/// The model that an address names: `/v1beta/models/m:generateContent`, `/openai/deployments/d/chat/completions`.
fn in_path(path: &str) -> Option<String> {
    let mut pairs = path.rsplit('/').zip(path.rsplit('/').skip(1));
    let (name, _) = pairs.find(|(name, before)| !name.is_empty() && is_before_model(before))?;
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    unescaped(name).ok()
}

fn is_before_model(segment: &str) -> bool {
    let segment = unescaped(segment).unwrap_or_default();
    BEFORE_MODEL.iter().any(|known| segment.eq_ignore_ascii_case(known))
}

/// Whether an address of Gemini's wire names its model in one way: as the one segment behind the only `models`, with the
/// verb, or not at all. Of `models/a/b:generateContent` nobody knows which it is.
pub(crate) fn names_in_one_way(path: &str) -> bool {
    let segments: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let mut before = segments.iter().enumerate().filter(|(_, segment)| is_before_model(segment));
    before.next().is_none_or(|(at, _)| at + 2 == segments.len()) && before.next().is_none()
}

/// What stands in front of a known ending, as far as it is neither a version, the name of an API, nor a word behind which a
/// model stands.
fn before_ending(path: &str) -> Vec<String> {
    let Ok(path) = unescaped(path.trim_end_matches('/')) else { return Vec::new() };
    let small = path.to_ascii_lowercase();
    let Some(before) = ENDINGS.iter().find_map(|ending| small.strip_suffix(ending)) else {
        return Vec::new();
    };
    let is_front = |segment: &str| {
        let segment = segment.to_ascii_lowercase();
        is_only_a_version(&segment) || PREFIXES.contains(&segment.as_str()) || is_before_model(&segment)
    };
    let segments = path.get(..before.len()).unwrap_or_default().split('/');
    segments.filter(|segment| !segment.is_empty() && !is_front(segment)).map(str::to_owned).collect()
}

/// `v1`, `v1beta2`, and not `v1-large`.
fn is_only_a_version(segment: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = segment.strip_prefix('v').filter(|rest| !rest.is_empty()) else { return false };
    ["alpha", "beta"].iter().find_map(|stage| rest.split_once(stage)).map_or_else(
        || digits(rest),
        |(before, behind)| !before.is_empty() && digits(before) && digits(behind),
    )
}

/// Collects what an element of a conversation, its tools or its system prompt name.
pub(crate) fn named_in_part(part: &Value, found: &mut Vec<String>) {
    collect("", part, false, found);
}

/// Collects what `value` names; `within` an object that speaks of models, whatever its key.
fn collect(key: &str, value: &Value, within: bool, found: &mut Vec<String>) {
    let plain = plain(key);
    let is_own = || OWN.binary_search(&key).is_ok();
    let is_setting = || SETTINGS.binary_search(&&*plain).is_ok() || is_own();
    let speaks = (speaks_of_models(&plain) || (within && !is_setting())) && !NAMES_NONE.contains(&&*plain);
    match value {
        Value::String(name) if speaks && !name.is_empty() => {
            found.push(name.strip_prefix("models/").unwrap_or(name).to_owned());
        }
        Value::Array(items) => {
            // The items of `input` are the wire's; it is an object of that name that belongs to its author.
            let key = if speaks { key } else { "" };
            items.iter().for_each(|item| collect(key, item, speaks, found));
        }
        Value::Object(_) if is_own() => {}
        Value::Object(fields) => {
            if plain == CHOOSES {
                found.push(key.to_owned());
            }
            let is_named = speaks_of_models(&plain);
            collect_fields(fields, speaks, is_named, found);
        }
        _ => {}
    }
}

/// Collects what an object names; `is_named` says that it stands right under a key that speaks of models.
fn collect_fields(fields: &Map<String, Value>, within: bool, is_named: bool, found: &mut Vec<String>) {
    let is_known = |key: &str| {
        let plain = plain(key);
        let few = [FIELDS.as_slice(), &NAMES_NONE, &[CHOOSES]];
        let is_listed = OWN.binary_search(&key).is_ok() || SETTINGS.binary_search(&&*plain).is_ok();
        is_listed || few.iter().any(|known| known.contains(&&*plain))
    };
    for (key, value) in fields {
        // Of a map from models to what is set for them, whatever stands beside.
        if within && is_named && !is_known(key) && !matches!(value, Value::String(_) | Value::Array(_)) {
            found.push(key.clone());
        }
        collect(key, value, within, found);
    }
}

fn speaks_of_models(plain: &str) -> bool {
    plain.contains("model") || plain.contains("fallback")
}

/// Whether a field of a request names a model by another word.
fn is_deployed(key: &str) -> bool {
    DEPLOYED.contains(&&*plain(key))
}

/// A key in small letters and without what parts its words.
fn plain(key: &str) -> Cow<'_, str> {
    if key.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Cow::Borrowed(key);
    }
    key.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn named(path: &str, body: &str) -> NamedModels {
        let endpoint = Endpoint::of(path, &HeaderMap::new()).unwrap();
        NamedModels::of(endpoint, path, &[], body.as_bytes()).unwrap()
    }

    #[test]
    fn lists_of_keys_are_in_order() {
        assert!(OWN.is_sorted() && SETTINGS.is_sorted());
    }

    #[test]
    fn models_are_read_wherever_a_wire_names_one() {
        for (body, others) in [
            (r#"{"model":"a","messages":[{"role":"user","content":"model"}]}"#, vec![]),
            (r#"{"model":"a","models":["b","c","a"]}"#, vec!["b", "c"]),
            (r#"{"model":"a","fallbacks":["b",{"model":"c","max_tokens":1}]}"#, vec!["b", "c"]),
            (r#"{"model":"a","fallback_models":["b"],"fallbackModel":"c"}"#, vec!["b", "c"]),
            (r#"{"model":"a","extra_body":{"models":["b"]}}"#, vec!["b"]),
            // From a model to those that step in for it.
            (r#"{"model":"a","fallbacks":[{"a":["b"]}]}"#, vec!["b"]),
            (r#"{"model":"a","fallbacks":[{"a":[{"b":["c"]}]}]}"#, vec!["c"]),
            (r#"{"model":"a","context_window_fallback_dict":{"a":"b"}}"#, vec!["b"]),
            (r#"{"model":"a","models":{"b":{"weight":1},"c":2}}"#, vec!["b", "c"]),
            // What is known beside a model does not hide it.
            (r#"{"model":"a","models":{"b":{"weight":1},"my-model":{"weight":1}}}"#, vec!["b", "my-model"]),
            (r#"{"model":"a","models":{"mode":"any","b":{"weight":1},"type":1}}"#, vec!["b"]),
            (r#"{"model":"a","fallbacks":[{"model":"b","c":{"weight":1}}]}"#, vec!["b", "c"]),
            (
                r#"{"model":"a","fallbacks":[{"model":"b","output_config":{"effort":"low"},"seed":1,"metadata":{}}]}"#,
                vec!["b"],
            ),
            (r#"{"model":"a","fallbacks":[{"deployment":"b"}]}"#, vec!["b"]),
            (
                r#"{"model":"a","fallbacks":[{"model":"b","api_key":"k","messages":[{"role":"user","content":"x"}]}]}"#,
                vec!["b"],
            ),
            (
                r#"{"model":"a","fallbacks":[{"type":"x","tools":[{"type":"image_generation","model":"b"}]}]}"#,
                vec!["b"],
            ),
            (r#"{"model":"a","fallback_credit_token":"x"}"#, vec![]),
            (r#"{"model":"a","engine":"b","deployment":"c","deployment_id":"d"}"#, vec!["b", "c", "d"]),
            // The search of a provider has an engine, too.
            (r#"{"model":"a","plugins":[{"id":"web","engine":"native"}]}"#, vec![]),
            (r#"{"model":"a, b,c"}"#, vec!["a", "b", "c"]),
            (r#"{"model":"a","models":["b,c"]}"#, vec!["b,c", "b", "c"]),
            (r#"{"model":"a","additionalModelResponseFieldPaths":["/stop_sequence"]}"#, vec![]),
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
        ] {
            assert_eq!(named("/v1/chat/completions", body).others, others, "{body}");
        }
    }

    #[test]
    fn a_body_with_two_meanings_names_nobody_knows_what() {
        let chat = "/v1/chat/completions";
        let endpoint = Endpoint::of(chat, &HeaderMap::new()).unwrap();
        for body in
            [r#"{"model":"a","fallbacks":["b"],"fallbacks":[]}"#, r#"{"model":"a","fallbacks":["b"]"#, "["]
        {
            assert!(NamedModels::of(endpoint, chat, &[], body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn the_address_names_a_model_beside_the_body() {
        let azure = "/openai/deployments/large/chat/completions";
        let both = named(azure, r#"{"model":"small"}"#);
        assert_eq!((both.main.as_deref(), both.others), (Some("small"), vec!["large".to_owned()]));
        assert_eq!(
            named("/openai/deployment%73/large/chat/completions", "{}").main.as_deref(),
            Some("large")
        );
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
    fn an_address_of_gemini_names_one_model() {
        for path in [
            "/v1beta/models/m:generateContent",
            "/models/m:generateContent/",
            "/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
            "/v1internal:generateContent",
            "/v1beta/tunedModels/m:generateContent",
        ] {
            assert!(names_in_one_way(path), "{path}");
        }
        for path in [
            "/v1beta/models/cheap/large:generateContent",
            "/v1beta/Model%73/cheap/large:generateContent",
            "/v1/projects/p/models/cheap/large:generateContent",
            "/v1beta/models/cheap/models/large:generateContent",
            "/v1beta/models:generateContent/models/x/y:generateContent",
        ] {
            assert!(!names_in_one_way(path), "{path}");
        }
    }

    #[test]
    fn a_query_names_models_beside_the_body() {
        for (query, found) in [
            ("model=large", vec!["large"]),
            ("api-version=1&mod%65l=l%61rge&limit=2", vec!["large"]),
            ("a=b;Model_Name=models/large", vec!["large"]),
            ("deployment_id=a%2Flarge&engine=b+c&fallbacks[]=d", vec!["a/large", "b c", "d"]),
            ("model=%zz%4&model=", vec!["%zz%4"]),
            ("alt=sse&beta=true&key=k&limit=2", vec![]),
        ] {
            assert_eq!(in_query(Some(query)), found, "{query}");
        }
        let chat = "/v1/chat/completions";
        let endpoint = Endpoint::of(chat, &HeaderMap::new()).unwrap();
        let found =
            NamedModels::of(endpoint, chat, &in_query(Some("model=b&model=a")), br#"{"model":"a"}"#).unwrap();
        assert_eq!((found.main.as_deref(), found.others), (Some("a"), vec!["b".to_owned()]));
    }

    #[test]
    fn what_stands_in_front_of_an_ending_is_a_model() {
        for (path, named_there) in [
            ("/v1/engines/large/completions", Some("large")),
            ("/v1/Engines/large/chat/completions", Some("large")),
            ("/openai/deployments/large/chat/completions", Some("large")),
            ("/v1/Large/chat/completions", Some("Large")),
            ("/v1-large/chat/completions", Some("v1-large")),
            ("/v1/large/responses/compact", Some("large")),
            ("/v1/l%61rge/embeddings/", Some("large")),
            ("/large/v1/chat/completions", Some("large")),
            ("/endpoints/v1/chat/completions", Some("endpoints")),
            ("/deployments/large/v1/chat/completions", Some("large")),
            ("/large/openai/v1/chat/completions", Some("large")),
            ("/v1/chat/completions", None),
            ("/chat/completions", None),
            ("/api/v1/chat/completions", None),
            ("/openai/chat/completions", None),
            ("/v1beta/openai/responses", None),
        ] {
            let others = named(path, r#"{"model":"small"}"#).others;
            assert_eq!(others, named_there.into_iter().collect::<Vec<_>>(), "{path}");
        }
    }

    #[test]
    fn the_main_model_is_read_from_body_or_path() {
        let main = |path: &str, body: &str| {
            let endpoint = Endpoint::of(path, &HeaderMap::new()).unwrap();
            main_model(endpoint, path, body.as_bytes()).map(Cow::into_owned)
        };
        let chat = "/v1/chat/completions";
        assert_eq!(main(chat, r#"{"messages":[{"model":"no"}],"model":"gpt-x"}"#).unwrap(), "gpt-x");
        assert_eq!(main(chat, r#"{"model":"a\u0062c"}"#).unwrap(), "abc");
        for unclear in [r#"{"model":"a","model":"b"}"#, r#"{"model":1}"#, "{}", "[", ""] {
            assert_eq!(main(chat, unclear), None, "{unclear}");
        }
        assert_eq!(main("/v1beta/models/gemini-x:generateContent", "").unwrap(), "gemini-x");
    }
}
