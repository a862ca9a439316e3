//! The tools that a request offers and the provider runs by itself.
//!
//! What such a tool does is done before anybody here hears of it, so it is judged where it is offered. It stands in
//! the list of tools, or somewhere else: in a field of its own (`mcp_servers`, `web_search_options`, `container`), in a
//! namespace, among the items of a conversation, in a field that nobody here knows. One in the list is taken out if it may not be used; with one elsewhere the
//! request is refused.
//!
//! The tools of a provider that the client runs are [listed](tool_class), since their calls are judged in the answers; every other
//! one counts as run by the provider. So does an item, a block or a part of a message of which nobody here knows what it does:
//! it may offer something, and is judged as an offer that is named after it. Providers name the same thing differently, so each tool has several names, and is
//! refused by any of them.

use std::collections::{HashMap, HashSet};

use backstop_hooks::conversation::{Part, ToolSpec};
use backstop_hooks::points::ToolInfo;
use backstop_hooks::{Json, Text, ToolName};
use backstop_llm::wire::{TypeClass, is_known_input, own_meta, request_fields, tool_class};
use backstop_llm::{Api, ModelRequest, ToolDefinition};
use serde_json::{Map, Value, json};

/// The type of what only holds tools, and gives them a part of their names.
const NAMESPACE: &str = "namespace";

/// What providers call a thing, and what policies call it.
const ALSO_CALLED: [(&str, &str); 19] = [
    ("nova_grounding", "web_search"),
    ("nova_code_interpreter", "code_execution"),
    ("googleSearch", "web_search"),
    ("google_search", "web_search"),
    ("googleSearchRetrieval", "web_search"),
    ("enterpriseWebSearch", "web_search"),
    ("googleMaps", "web_maps"),
    ("parallelAiSearch", "web_search"),
    ("exaAiSearch", "web_search"),
    ("urlContext", "web_fetch"),
    ("url_context", "web_fetch"),
    ("codeExecution", "code_execution"),
    ("code_interpreter", "code_execution"),
    ("programmatic_tool_calling", "code_execution"),
    ("fileSearch", "file_search"),
    // OpenRouter's plugin, and what else has another one search for it: xAI, Alibaba's Model Studio, Groq.
    ("web", "web_search"),
    ("search_parameters", "web_search"),
    ("enable_search", "web_search"),
    ("browser_search", "web_search"),
];

/// What OpenRouter takes behind the name of a model for its web plugin (`openai/gpt-4o:online`).
const ONLINE: &str = "online";

/// What stands in the list of tools has its place there; what stands elsewhere can't be taken out.
type Place = Option<usize>;

/// A tool that a request offers.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// What hooks are told. No two offers of the provider's have the same name.
    pub(super) info: ToolInfo,
    /// All that it may be called, its own name among it.
    pub(super) names: Vec<String>,
    /// Its place in the list of tools; `None` if it stands elsewhere. Several may stand at one place, and leave together.
    pub(super) place: Place,
    /// The name that it would have if no other tool had that.
    plain_name: String,
}

impl Offer {
    /// Whether the provider runs it, so that nobody here sees its calls before they are made.
    pub(super) fn is_run_by_provider(&self) -> bool {
        self.info.provider_run == Some(true)
    }

    /// It stands in a namespace: it is called as its calls are, and refused by the bare name as well.
    fn stand_in(&mut self, namespace: &str) {
        let joined = ToolName::in_namespace(namespace, &self.info.name);
        // The name with the namespace in front, whichever of the two that is: a tool that is known keeps its own beside it.
        let called = format!("{namespace}__{}", self.info.name);
        for name in [called.as_str(), joined.canonical(), joined.called()] {
            if !self.names.iter().any(|known| known == name) {
                self.names.push(name.to_owned());
            }
        }
        self.info.name.clone_from(&called);
        self.plain_name = called;
    }

    /// Whether it stays, where the tools of these names are left. One that is called like another and has therefore got a
    /// number goes with that, too: who takes a name away means all that have it.
    pub(super) fn stays(&self, left: &HashSet<&str>) -> bool {
        left.contains(self.info.name.as_str()) && left.contains(self.plain_name.as_str())
    }
}

/// Everything that a request offers, wherever it stands. A field that its wire's table of fields has not may do so: it is an
/// offer that is named after it.
pub(super) fn offers(api: Api, request: &ModelRequest) -> Vec<Offer> {
    let mut found = Vec::new();
    for (place, tool) in request.tools.iter().enumerate() {
        match tool {
            ToolDefinition::Function { spec, meta } => {
                found.push(function(spec, place));
                // What nobody knows may be the provider's to do, as beside any other tool.
                let beside = own_meta(meta.as_ref(), api).into_iter();
                let unknown = beside.filter(|(field, _)| !BESIDE_FUNCTION.contains(&field.as_str()));
                found.extend(unknown.map(|(field, value)| offer(&field, &value, Some(place))));
            }
            ToolDefinition::Provider { raw } => read(raw, Some(place), &mut found),
        }
    }
    of_fields(api, &request.extra, &mut found);
    of_models(request, &mut found);
    let parts = request.messages.iter().flat_map(|message| &message.content);
    for part in request.system.iter().chain(parts) {
        if let Part::Unknown { raw } = part {
            of_part(api, raw, request, &mut found);
        }
    }
    tell_apart(&mut found);
    found
}

/// What the names of the models offer that may answer.
fn of_models(request: &ModelRequest, found: &mut Vec<Offer>) {
    let others = request.extra.get("models").and_then(Value::as_array).into_iter().flatten();
    let models = std::iter::once(request.model.as_str()).chain(others.filter_map(Value::as_str));
    let is_online =
        |model: &&str| model.split(':').skip(1).any(|variant| variant.eq_ignore_ascii_case(ONLINE));
    found.extend(models.filter(is_online).map(|model| offer("web", &model.into(), None)));
}

/// What a document offers by fields that its table does not list, wherever a conversation would have them.
pub(super) fn offers_of_document(unlisted: &Map<String, Value>) -> Vec<Offer> {
    let told = unlisted.iter().filter(|(_, value)| !value.is_null());
    let mut found: Vec<Offer> = told.map(|(name, value)| offer(name, value, None)).collect();
    tell_apart(&mut found);
    found
}

/// What a message offers.
fn of_part(api: Api, raw: &Value, request: &ModelRequest, found: &mut Vec<Offer>) {
    match api {
        // A tool that a message adds is one of the list, which is judged there, or something else.
        Api::BedrockConverse => {
            if let Some(added) = raw.get("toolAddition") {
                let added = added.get("tool").unwrap_or(added);
                let name = added.get("name").and_then(Value::as_str).unwrap_or_default();
                if added.get("serverName").is_some() || !request.tools.iter().any(|tool| tool.name() == name)
                {
                    found.push(offer(kind(added), added, None));
                }
            }
        }
        Api::AnthropicMessages => {
            let kept = raw.get("tool_changes");
            let kept = kept.map(|kept| kept.as_array().map_or(std::slice::from_ref(kept), Vec::as_slice));
            for change in std::iter::once(raw).chain(kept.into_iter().flatten()) {
                if change.get("type").and_then(Value::as_str) == Some(ADDITION) {
                    added(change.get("tool").unwrap_or(change), found);
                }
            }
        }
        Api::OpenAiChat | Api::OpenAiResponses | Api::Gemini => {}
    }
    each(raw.get("tools"), None, found);
    for kind in kinds_of_input(api, raw) {
        if !is_known_input(api, kind) && !is_known_input(api, &camel(kind)) {
            found.push(offer(kind, raw, None));
        }
    }
}

/// The type of an item, a block or a part of a message; where things have none, their fields.
fn kinds_of_input(api: Api, raw: &Value) -> Vec<&str> {
    match api {
        Api::Gemini | Api::BedrockConverse => {
            raw.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect()
        }
        // Without a type it is a message, or stands for an item that the provider has.
        Api::OpenAiChat | Api::OpenAiResponses | Api::AnthropicMessages => {
            raw.get("type").and_then(Value::as_str).into_iter().collect()
        }
    }
}

/// The type of a block of Anthropic's that offers one more tool from there on.
const ADDITION: &str = "tool_addition";

/// What is offered from a place of a conversation on: a tool of the list, which is judged there, one of a server's, whether or not
/// the list has that closed, or what is defined in it.
fn added(tool: &Value, found: &mut Vec<Offer>) {
    let text = |field: &str| tool.get(field).and_then(Value::as_str);
    match (text("type"), text("server_name"), text("name")) {
        (Some("tool_reference"), None, Some(name)) if found.iter().any(|offer| offer.plain_name == name) => {}
        (Some("mcp_tool_reference"), Some(server), Some(name)) => {
            let of_server = json!({"mcp_server_name": server, "allowed_tools": [name]});
            found.push(offer("mcp_toolset", &of_server, None));
        }
        (Some("mcp_toolset_reference"), Some(server), _) => {
            found.push(offer("mcp_toolset", &json!({"mcp_server_name": server}), None));
        }
        (Some("tool_definition"), _, _) if tool.get("definition").is_some_and(Value::is_object) => {
            each(tool.get("definition"), None, found);
        }
        (kind, _, _) => found.push(offer(kind.unwrap_or(ADDITION), tool, None)),
    }
}

/// What the fields of a request offer besides the list of tools.
fn of_fields(api: Api, extra: &Value, found: &mut Vec<Offer>) {
    for (field, value) in extra.as_object().into_iter().flatten() {
        match (field.as_str(), value) {
            (_, Value::Null) => {}
            ("mcp_servers", Value::Array(servers)) => {
                servers.iter().for_each(|server| found.push(offer("mcp", server, None)));
            }
            ("mcp_servers", server) => found.push(offer("mcp", server, None)),
            ("web_search_options", options) => found.push(offer("web_search", options, None)),
            (PLUGINS, Value::Array(plugins)) => found.extend(plugins.iter().map(plugin)),
            (field, value) if !is_told(field, value) => {}
            ("container", container) => found.push(offer("skills", container, None)),
            (OF_MODEL, fields) if api == Api::BedrockConverse => of_model(fields, found),
            (FALLBACKS, instead) if api == Api::AnthropicMessages => of_fallbacks(instead, found),
            (field, value) => {
                if request_fields(api).class(field).is_none_or(|class| class == TypeClass::Ran) {
                    found.push(offer(field, value, None));
                }
            }
        }
    }
}

/// Where a request lists plugins of OpenRouter.
const PLUGINS: &str = "plugins";

/// A plugin, which is called by its id, and as one of them.
fn plugin(raw: &Value) -> Offer {
    let mut offer = offer(raw.get("id").and_then(Value::as_str).unwrap_or(PLUGINS), raw, None);
    if !offer.names.iter().any(|name| name == PLUGINS) {
        offer.names.push(PLUGINS.to_owned());
    }
    offer
}

/// Whether a field that may offer something does. A container by itself is a place; skills in it are programs that run there.
pub(super) fn is_told(field: &str, value: &Value) -> bool {
    match (field, value) {
        ("container", Value::String(_)) => false,
        ("container", Value::Object(container)) => {
            container.get("skills").is_some_and(|skills| !skills.is_null())
        }
        _ => true,
    }
}

/// Where a request of Anthropic's says which models may step in.
const FALLBACKS: &str = "fallbacks";

/// What those offer that may step in: each is said in the fields of a request, which count in place of the request's own.
fn of_fallbacks(instead: &Value, found: &mut Vec<Offer>) {
    let one = std::slice::from_ref(instead);
    for instead in instead.as_array().map_or(one, Vec::as_slice) {
        match instead {
            Value::Object(fields) => {
                let mut rest = fields.clone();
                each(rest.shift_remove("tools").as_ref(), None, found);
                of_fields(Api::AnthropicMessages, &rest.into(), found);
            }
            // The name of a model.
            Value::Null | Value::String(_) => {}
            other => found.push(offer(FALLBACKS, other, None)),
        }
    }
}

/// Where a request of Bedrock has fields of the model's own.
const OF_MODEL: &str = "additionalModelRequestFields";
/// Those that offer nothing, besides the ones of Anthropic's wire.
const INERT_OF_MODEL: [&str; 5] =
    ["inferenceConfig", "reasoningConfig", "reasoning_config", "reasoning_effort", "repetition_penalty"];

/// What the fields of a model's own offer: they are those of its maker's wire, so each that is not known to be harmless may be
/// anything.
fn of_model(fields: &Value, found: &mut Vec<Offer>) {
    let Some(fields) = fields.as_object() else {
        found.push(offer(OF_MODEL, fields, None));
        return;
    };
    for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let is_harmless = INERT_OF_MODEL.contains(&field.as_str())
            || request_fields(Api::AnthropicMessages).class(field) == Some(TypeClass::Inert);
        match value {
            instead if field == FALLBACKS => of_fallbacks(instead, found),
            _ if is_harmless => {}
            tools if field == "tools" => each(Some(tools), None, found),
            value => found.push(offer(field, value, None)),
        }
    }
}

/// Every tool of a list; a single object is a list of one. Something else in its place may be one.
fn each(tools: Option<&Value>, place: Place, found: &mut Vec<Offer>) {
    match tools {
        None | Some(Value::Null) => {}
        Some(Value::Array(tools)) => tools.iter().for_each(|tool| read(tool, place, found)),
        Some(tool @ Value::Object(_)) => read(tool, place, found),
        Some(other) => found.push(offer("tools", other, place)),
    }
}

/// A tool, and those in it: whatever its type is, a field `tools` does not make it less than it says it is.
fn read(raw: &Value, place: Place, found: &mut Vec<Offer>) {
    if let Some(system) = raw.get("systemTool") {
        let name = system.get("name").and_then(Value::as_str).unwrap_or("systemTool");
        found.push(offer(name, system, place));
    }
    match raw.get("type").and_then(Value::as_str) {
        Some(kind) => found.push(typed(kind, raw, place)),
        None if is_function(raw) => found.push(typed("function", raw, place)),
        // Where a tool has no type, each key of it is one: `{"googleSearch": {}, "codeExecution": {}}`.
        None => raw.as_object().into_iter().flatten().for_each(|(key, value)| match (key.as_str(), value) {
            ("systemTool" | "tools", _) => {}
            ("mcpServers" | "mcp_servers", Value::Array(servers)) if !servers.is_empty() => {
                found.extend(servers.iter().map(|server| offer("mcp", server, place)));
            }
            ("functionDeclarations" | "function_declarations", Value::Array(declared)) => {
                found.extend(declared.iter().map(|function| typed("function", function, place)));
            }
            (kind, said) => {
                let said = Value::from(Map::from_iter([(kind.to_owned(), said.clone())]));
                found.push(typed(kind, &said, place));
            }
        }),
    }
    let first = found.len();
    each(raw.get("tools"), place, found);
    if let Some(namespace) = namespace_of(raw) {
        found.iter_mut().skip(first).for_each(|offer| offer.stand_in(namespace));
    }
}

/// The namespace in whose name the tools in this one are called.
fn namespace_of(raw: &Value) -> Option<&str> {
    let is_namespace = raw.get("type").and_then(Value::as_str) == Some(NAMESPACE);
    raw.get("name").and_then(Value::as_str).filter(|name| is_namespace && !name.is_empty())
}

/// What a function of the client's has that says of no type, as Anthropic's wire lets it.
const OF_FUNCTION: [&str; 9] = [
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "description",
    "eager_input_streaming",
    "input_examples",
    "input_schema",
    "name",
    "strict",
];

/// What stands beside the name, the description and the schema of a function on any wire, and notes of the codecs.
const BESIDE_FUNCTION: [&str; 13] = [
    "allowed_callers",
    "behavior",
    "cache_control",
    "defer_loading",
    "eager_input_streaming",
    "functions",
    "input_examples",
    "output_schema",
    "parameters",
    "response",
    "responseJsonSchema",
    "strict",
    "type",
];

/// Whether a tool without a type is a function, and nothing else.
fn is_function(raw: &Value) -> bool {
    let is_known = |fields: &Map<String, Value>| fields.keys().all(|key| OF_FUNCTION.contains(&key.as_str()));
    raw.get("name").is_some_and(Value::is_string) && raw.as_object().is_some_and(is_known)
}

/// A tool of which the type is known.
fn typed(kind: &str, raw: &Value, place: Place) -> Offer {
    let mut offer = offer(kind, raw, place);
    if is_run_by_client(kind, raw) {
        offer.info.provider_run = None;
    }
    offer
}

/// A function of the list.
fn function(spec: &ToolSpec, place: usize) -> Offer {
    let info = ToolInfo {
        description: spec.description.clone(),
        input_schema: (!spec.input_schema.is_null()).then(|| spec.input_schema.clone()),
        ..ToolInfo::named(&spec.name)
    };
    Offer { info, names: vec![spec.name.clone()], place: Some(place), plain_name: spec.name.clone() }
}

/// Numbers the tools of the provider's that are called like another one: what can't be named can't be taken away.
fn tell_apart(offers: &mut [Offer]) {
    let of_clients = offers.iter().filter(|offer| !offer.is_run_by_provider());
    let mut taken: HashMap<String, usize> = of_clients.map(|offer| (offer.plain_name.clone(), 1)).collect();
    for offer in offers.iter_mut().filter(|offer| offer.is_run_by_provider()) {
        let mut count = taken.get(&offer.plain_name).copied().unwrap_or_default();
        while count > 0 {
            count += 1;
            let numbered = format!("{}#{count}", offer.plain_name);
            if !taken.contains_key(&numbered) {
                taken.insert(numbered.clone(), 1);
                offer.info.name = numbered;
                break;
            }
        }
        taken.insert(offer.plain_name.clone(), count.max(1));
    }
}

/// The type of a tool, or the key under which it stands (`{"googleSearch": {}}`).
fn kind(raw: &Value) -> &str {
    let by_key = || raw.as_object().and_then(|fields| fields.keys().next()).map(String::as_str);
    raw.get("type").and_then(Value::as_str).or_else(by_key).unwrap_or_default()
}

fn is_run_by_client(kind: &str, raw: &Value) -> bool {
    let plain = without_version(kind);
    let environment = raw.pointer("/environment/type").and_then(Value::as_str);
    // The same shell runs here or in a container there.
    let local_shell = plain == "shell" && matches!(environment, None | Some("local"));
    local_shell || matches!(tool_class(plain), Some(TypeClass::Call | TypeClass::Inert))
}

/// `web_search_20250305` and `web_search_preview_2025_03_11` as `web_search`.
fn without_version(kind: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut plain = kind;
    while let Some((before, _)) = plain.rsplit_once('_').filter(|(_, last)| is_number(last)) {
        plain = before;
    }
    plain.strip_suffix("_preview").unwrap_or(plain)
}

/// `google_search` as `googleSearch`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut camel, word| {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
        camel
    })
}

fn offer(kind: &str, raw: &Value, place: Place) -> Offer {
    let text = |field: &str| raw.get(field).and_then(Value::as_str);
    let label = text("server_label").or_else(|| text("mcp_server_name"));
    let label = label.or_else(|| text("name").filter(|_| kind == "mcp"));
    let usable = Usable::of(raw);
    // Connectors of one type are told apart by what they are for.
    let named = text("name").or(label).or_else(|| text("connector_id")).unwrap_or(kind);
    let plain = without_version(kind);
    // Whose it is may stand in front (`openrouter:web_search`).
    let bare = plain.rsplit([':', '/']).next().unwrap_or(plain);
    let mut names = vec![named.to_owned(), kind.to_owned(), plain.to_owned(), bare.to_owned()];
    // Gemini takes either spelling.
    let other = camel(bare);
    let is_own = |own: &str| own == bare || own == other;
    names.extend(
        ALSO_CALLED
            .iter()
            .filter(|(own, _)| is_own(own))
            .flat_map(|(own, also)| [*own, *also])
            .map(str::to_owned),
    );
    // A server that has no name has tools of any server's.
    let label = label.or_else(|| is_connector(plain).then_some(""));
    if let Some(label) = label {
        let server = if label.is_empty() { "mcp__".to_owned() } else { format!("mcp__{label}__") };
        let any = (!usable.is_closed || usable.named.is_empty()).then_some("*");
        let tools = usable.named.iter().map(String::as_str).chain(any);
        names.extend(tools.map(|tool| format!("{server}{tool}")));
    }
    let mut seen = HashSet::new();
    names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
    let transport = raw.pointer("/streamableHttpTransport/url").and_then(Value::as_str);
    let server = ["server_url", "url", "connector_id"].into_iter().find_map(text).or(transport);
    let approval =
        raw.get("require_approval").map(|mode| mode.as_str().map_or_else(|| mode.to_string(), str::to_owned));
    let info = ToolInfo {
        description: text("server_description").or_else(|| text("description")).map(Text::from),
        input_schema: Some(Json::new(raw.clone())),
        kind: Some(plain.to_owned()),
        provider_run: Some(true),
        server: server.map(str::to_owned),
        allowed_tools: usable.is_closed.then_some(usable.named),
        approval,
        ..ToolInfo::named(named)
    };
    Offer { plain_name: info.name.clone(), info, names, place }
}

/// Whether a tool of this type is all that a server has.
fn is_connector(plain: &str) -> bool {
    matches!(plain, "mcp" | "mcp_toolset" | "mcpServers" | "mcp_servers")
}

/// The tools of a server that may be used.
#[derive(Debug, Default)]
struct Usable {
    /// Those that are named.
    named: Vec<String>,
    /// Nothing else may be used.
    is_closed: bool,
}

impl Usable {
    /// A list may stand in several places and forms. What can't be read as one closes nothing.
    fn of(raw: &Value) -> Self {
        let lists = [
            raw.get("allowed_tools").filter(|listed| !listed.is_null()),
            raw.pointer("/tool_configuration/allowed_tools").filter(|listed| !listed.is_null()),
        ];
        let mut usable = Self::default();
        let mut is_open = false;
        for listed in lists.into_iter().flatten() {
            let listed = listed.get("tool_names").unwrap_or(listed);
            match listed.as_array().map(|listed| listed.iter().map(Value::as_str).collect::<Option<Vec<_>>>())
            {
                Some(Some(listed)) => {
                    usable.named.extend(listed.into_iter().map(str::to_owned));
                    usable.is_closed = true;
                }
                _ => is_open = true,
            }
        }
        // Anthropic's toolsets: all tools of the server, or none, but for those that are configured otherwise.
        let is_off = |config: &Value| config.get("enabled") == Some(&Value::Bool(false));
        let others_are_off = raw.get("default_config").is_some_and(is_off);
        usable.is_closed |= others_are_off;
        match raw.get("configs") {
            None | Some(Value::Null) => {}
            Some(Value::Object(configs)) => {
                let is_on =
                    |config: &Value| !is_off(config) && (!others_are_off || config.get("enabled").is_some());
                let on = configs.iter().filter(|(_, config)| is_on(config));
                usable.named.extend(on.map(|(name, _)| name.clone()));
            }
            Some(_) => is_open = true,
        }
        usable.is_closed &= !is_open;
        usable
    }
}

#[cfg(test)]
mod tests;
