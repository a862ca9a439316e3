//! The tools that a request offers and the provider runs by itself.
//!
//! What such a tool does is done before anybody here hears of it, so it is judged where it is offered. It stands in
//! the list of tools, or somewhere else: in a field of its own (`mcp_servers`, `web_search_options`, `container`), in a
//! namespace, among the items of a conversation, in a field that nobody here knows. One in the list is taken out if it may not be used; with one elsewhere the
//! request is refused.
//!
//! The tools of a provider that the client runs are listed here, since their calls are judged in the answers; every other
//! one counts as run by the provider. Providers name the same thing differently, so each tool has several names, and is
//! refused by any of them.

use backstop_hooks::conversation::Part;
use backstop_hooks::points::ToolInfo;
use backstop_hooks::{Json, Text};
use backstop_llm::wire::{TypeClass, request_fields};
use backstop_llm::{Api, ModelRequest, ToolDefinition};
use serde_json::Value;

/// Types of tools that the client runs, without the date of their version, and of what only holds tools.
const RUN_BY_CLIENTS: [&str; 16] = [
    // Where the provider may begin to remember.
    "cachePoint",
    "functionDeclarations",
    "function_declarations",
    "function",
    "custom",
    "namespace",
    "local_shell",
    "apply_patch",
    "computer",
    "computer_use",
    "computerUse",
    "bash",
    "text_editor",
    "memory",
    "str_replace_based_edit_tool",
    "str_replace_editor",
];

/// What providers call a thing, and what policies call it.
const ALSO_CALLED: [(&str, &str); 14] = [
    ("nova_grounding", "web_search"),
    ("nova_code_interpreter", "code_execution"),
    ("googleSearch", "web_search"),
    ("google_search", "web_search"),
    ("googleSearchRetrieval", "web_search"),
    ("enterpriseWebSearch", "web_search"),
    ("googleMaps", "web_maps"),
    ("parallelAiSearch", "web_search"),
    ("urlContext", "web_fetch"),
    ("url_context", "web_fetch"),
    ("codeExecution", "code_execution"),
    ("code_interpreter", "code_execution"),
    ("programmatic_tool_calling", "code_execution"),
    ("fileSearch", "file_search"),
];

/// Fields of a request that are known to offer tools besides the list.
const FIELDS: [&str; 3] = ["mcp_servers", "web_search_options", "container"];

/// A tool that the provider runs.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// What hooks are told.
    pub(super) info: ToolInfo,
    /// All that it may be called, the name above among it.
    pub(super) names: Vec<String>,
    /// Its place in the list of tools; `None` if it stands elsewhere.
    pub(super) place: Option<usize>,
}

/// What a request offers that the provider runs. A field that its wire's table of fields has not may do so: it is an offer
/// that is named after it.
pub(super) fn offers(api: Api, request: &ModelRequest) -> Vec<Offer> {
    let mut found = Vec::new();
    for (place, tool) in request.tools.iter().enumerate() {
        if let ToolDefinition::Provider { raw } = tool {
            read(raw, Some(place), &mut found);
        }
    }
    for field in FIELDS {
        match request.extra.get(field) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(Value::Array(servers)) => {
                servers.iter().for_each(|server| found.push(offer("mcp", server, None)));
            }
            // A container by itself is a place; skills in it are programs that run there.
            Some(container) if field == "container" && container.get("skills").is_none_or(Value::is_null) => {
            }
            Some(options) => found.push(offer(kind_of_field(field), options, None)),
        }
    }
    for (field, value) in request.extra.as_object().into_iter().flatten() {
        if field == OF_MODEL && api == Api::BedrockConverse {
            of_model(value, &mut found);
            continue;
        }
        let is_known = FIELDS.contains(&field.as_str())
            || request_fields(api).class(field).is_some_and(|class| class != TypeClass::Ran);
        if !is_known && !value.is_null() {
            found.push(offer(field, value, None));
        }
    }
    let parts = request.messages.iter().flat_map(|message| &message.content);
    for part in parts {
        // A tool that a message adds is one of the list, which is judged there, or something else.
        if let Part::Unknown { raw } = part
            && let Some(added) = raw.get("toolAddition").filter(|_| api == Api::BedrockConverse)
        {
            let added = added.get("tool").unwrap_or(added);
            let name = added.get("name").and_then(Value::as_str).unwrap_or_default();
            if added.get("serverName").is_some() || !request.tools.iter().any(|tool| tool.name() == name) {
                found.push(offer(kind(added), added, None));
            }
        }
        if let Part::Unknown { raw } = part
            && let Some(Value::Array(tools)) = raw.get("tools")
        {
            tools.iter().for_each(|tool| read(tool, None, &mut found));
        }
    }
    found
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
            _ if is_harmless => {}
            Value::Array(tools) if field == "tools" => {
                tools.iter().for_each(|tool| read(tool, None, found));
            }
            value => found.push(offer(field, value, None)),
        }
    }
}

/// What policies call the thing that a field offers.
fn kind_of_field(field: &str) -> &str {
    if field == "container" { "skills" } else { "web_search" }
}

/// A tool of the list, if the provider runs it.
pub(super) fn offer_of(raw: &Value) -> Option<Offer> {
    let kind = kind(raw);
    (!is_run_by_client(kind, raw)).then(|| offer(kind, raw, None))
}

/// A tool, and those in it: whatever its type is, a field `tools` does not make it less than it says it is.
fn read(raw: &Value, place: Option<usize>, found: &mut Vec<Offer>) {
    if let Some(system) = raw.get("systemTool") {
        let name = system.get("name").and_then(Value::as_str).unwrap_or("systemTool");
        found.push(offer(name, system, place));
    }
    if let Some(Value::Array(inside)) = raw.get("tools") {
        inside.iter().for_each(|tool| read(tool, None, found));
    }
    // Where a tool has no type, each key of it is one: `{"googleSearch": {}, "codeExecution": {}}`.
    let keys = raw.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let kinds: Vec<&str> = match raw.get("type").and_then(Value::as_str) {
        Some(kind) => vec![kind],
        None => keys.collect(),
    };
    for kind in kinds.into_iter().filter(|kind| *kind != "systemTool") {
        let servers =
            raw.get(kind).filter(|_| matches!(kind, "mcpServers" | "mcp_servers")).and_then(Value::as_array);
        let servers = servers.into_iter().flatten();
        found.extend(servers.map(|server| offer("mcp", server, place)));
        if !is_run_by_client(kind, raw) {
            found.push(offer(kind, raw, place));
        }
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
    RUN_BY_CLIENTS.contains(&plain) || local_shell
}

/// `web_search_20250305` and `web_search_preview_2025_03_11` as `web_search`.
fn without_version(kind: &str) -> &str {
    let plain = kind.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    plain.strip_suffix("_preview").unwrap_or(plain)
}

fn offer(kind: &str, raw: &Value, place: Option<usize>) -> Offer {
    let text = |field: &str| raw.get(field).and_then(Value::as_str);
    let label = text("server_label").or_else(|| text("mcp_server_name"));
    let label = label.or_else(|| text("name").filter(|_| kind == "mcp"));
    let allowed = allowed_tools(raw);
    let named = text("name").unwrap_or(kind);
    let plain = without_version(kind);
    let mut names = vec![named.to_owned(), kind.to_owned(), plain.to_owned()];
    names.extend(ALSO_CALLED.iter().filter(|(own, _)| *own == plain).map(|(_, also)| (*also).to_owned()));
    if let Some(label) = label {
        let tools = if allowed.is_empty() { vec!["*".to_owned()] } else { allowed.clone() };
        names.extend(tools.iter().map(|tool| format!("mcp__{label}__{tool}")));
    }
    let mut distinct: Vec<String> = Vec::with_capacity(names.len());
    names.into_iter().for_each(|name| {
        if !name.is_empty() && !distinct.contains(&name) {
            distinct.push(name);
        }
    });
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
        allowed_tools: (!allowed.is_empty()).then_some(allowed),
        approval,
        ..ToolInfo::named(named)
    };
    Offer { info, names: distinct, place }
}

/// The tools of a server that may be used, as far as they are listed.
fn allowed_tools(raw: &Value) -> Vec<String> {
    let lists = [
        raw.get("allowed_tools"),
        raw.pointer("/allowed_tools/tool_names"),
        raw.pointer("/tool_configuration/allowed_tools"),
    ];
    let names = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(tool: Value) -> Vec<String> {
        let request = ModelRequest {
            tools: vec![ToolDefinition::Provider { raw: tool.into() }],
            ..ModelRequest::default()
        };
        offers(Api::OpenAiResponses, &request).into_iter().flat_map(|offer| offer.names).collect()
    }

    #[test]
    fn a_tool_has_the_names_of_policies() {
        for (tool, name) in [
            (json!({"type": "web_search_20250305", "name": "web_search"}), "web_search"),
            (json!({"type": "web_search_preview_2025_03_11"}), "web_search"),
            (json!({"type": "web_fetch_20250910", "name": "web_fetch"}), "web_fetch"),
            (json!({"googleSearch": {}}), "web_search"),
            (json!({"urlContext": {}}), "web_fetch"),
            (json!({"codeExecution": {}}), "code_execution"),
            (json!({"googleSearch": {}, "codeExecution": {}}), "code_execution"),
            (json!({"functionDeclarations": [], "urlContext": {}}), "web_fetch"),
            (
                json!({"mcpServers": [{"name": "shop", "streamableHttpTransport": {"url": "https://x"}}]}),
                "mcp__shop__*",
            ),
            (json!({"type": "code_interpreter", "container": {"type": "auto"}}), "code_execution"),
            (json!({"type": "shell", "environment": {"type": "container_auto"}}), "shell"),
            (json!({"type": "mcp", "server_label": "shop", "server_url": "https://x"}), "mcp__shop__*"),
            (
                json!({"type": "mcp", "server_label": "shop", "allowed_tools": {"tool_names": ["buy"]}}),
                "mcp__shop__buy",
            ),
            (json!({"type": "mcp_toolset", "mcp_server_name": "shop"}), "mcp__shop__*"),
            (json!({"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}), "web_search"),
            (json!({"type": "tool_of_tomorrow"}), "tool_of_tomorrow"),
            // A field that makes no namespace of it.
            (json!({"type": "web_search", "tools": []}), "web_search"),
            (json!({"type": "web_search", "tools": [{"type": "function", "name": "f"}]}), "web_search"),
        ] {
            let found = names(tool.clone());
            assert!(found.iter().any(|found| found == name), "{tool}: {found:?}");
        }
    }

    #[test]
    fn what_the_client_runs_is_judged_when_it_is_called() {
        for tool in [
            json!({"type": "bash_20250124", "name": "bash"}),
            json!({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}),
            json!({"type": "computer_use_preview"}),
            json!({"type": "custom", "name": "apply"}),
            json!({"type": "shell"}),
            json!({"type": "shell", "environment": {"type": "local"}}),
            json!({"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}),
        ] {
            assert_eq!(names(tool.clone()), Vec::<String>::new(), "{tool}");
        }
    }

    #[test]
    fn a_server_says_where_it_is_and_what_may_be_used() {
        let raw = json!({"type": "url", "name": "shop", "url": "https://mcp.example", "tool_configuration": {"allowed_tools": ["buy"]}});
        let request = ModelRequest { extra: json!({"mcp_servers": [raw]}).into(), ..ModelRequest::default() };
        let found = offers(Api::AnthropicMessages, &request);
        let [Offer { info, names, place: None }] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((info.server.as_deref(), info.provider_run), (Some("https://mcp.example"), Some(true)));
        assert_eq!(info.allowed_tools, Some(vec!["buy".to_owned()]));
        assert!(names.contains(&"mcp__shop__buy".to_owned()), "{names:?}");
    }

    #[test]
    fn tools_are_found_wherever_they_stand() {
        let request = |extra: Value| ModelRequest { extra: extra.into(), ..ModelRequest::default() };
        for (extra, count) in [
            // What nobody knows may offer something.
            (json!({"plugins": [{"id": "web"}]}), 1),
            (json!({"future": true}), 1),
            (json!({"future": null}), 0),
            (json!({"metadata": {"a": "b"}, "temperature": 1, "top_k": 3}), 0),
            (json!({"web_search_options": {}}), 1),
            (json!({"container": {"skills": [{"type": "custom", "skill_id": "s"}]}}), 1),
            (json!({"container": {"id": "c"}}), 0),
            (json!({"container": "c"}), 0),
            (json!({"mcp_servers": []}), 0),
        ] {
            assert_eq!(offers(Api::AnthropicMessages, &request(extra.clone())).len(), count, "{extra}");
        }
        let item = json!({"type": "additional_tools", "tools": [{"type": "mcp", "server_label": "x"}, {"type": "function", "name": "f"}]});
        let message = backstop_hooks::conversation::Message::new(
            backstop_hooks::conversation::Role::Assistant,
            vec![Part::Unknown { raw: item.into() }],
        );
        assert_eq!(offers(Api::OpenAiResponses, &ModelRequest::new("m", vec![message])).len(), 1);
    }
}
