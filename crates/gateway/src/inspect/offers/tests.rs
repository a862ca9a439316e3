use super::*;
use serde_json::json;

fn names(tool: Value) -> Vec<String> {
    let request = ModelRequest {
        tools: vec![ToolDefinition::Provider { raw: tool.into() }],
        ..ModelRequest::default()
    };
    let offers = offers(Api::OpenAiResponses, &request).into_iter().filter(Offer::is_run_by_provider);
    offers.flat_map(|offer| offer.names).collect()
}

#[test]
fn a_tool_has_the_names_of_policies() {
    for (tool, name) in [
        (json!({"type": "web_search_20250305", "name": "web_search"}), "web_search"),
        (json!({"type": "web_search_preview_2025_03_11"}), "web_search"),
        (json!({"type": "web_fetch_20250910", "name": "web_fetch"}), "web_fetch"),
        (json!({"googleSearch": {}}), "web_search"),
        (json!({"exaAiSearch": {}}), "web_search"),
        (json!({"exa_ai_search": {}}), "web_search"),
        (json!({"type": "tool_search_tool_bm25_20251119"}), "tool_search_tool_bm25"),
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
        (json!({"type": "mcp", "server_url": "https://x"}), "mcp__*"),
        (json!({"type": "mcp_toolset"}), "mcp__*"),
        (json!({"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}), "web_search"),
        (json!({"type": "tool_of_tomorrow"}), "tool_of_tomorrow"),
        (json!({"type": "openrouter:web_search"}), "web_search"),
        (json!({"type": "maker/tool_of_tomorrow"}), "tool_of_tomorrow"),
        (json!({"type": "browser_search"}), "web_search"),
        // A field that makes no namespace of it.
        (json!({"type": "web_search", "tools": []}), "web_search"),
        (json!({"type": "web_search", "tools": [{"type": "function", "name": "f"}]}), "web_search"),
    ] {
        let found = names(tool.clone());
        assert!(found.iter().any(|found| found == name), "{tool}: {found:?}");
    }
}

/// Who searches for a model may be asked to by a plugin, by a field, or by the name of the model.
#[test]
fn a_search_has_its_name_however_it_is_asked_for() {
    let of = |model: &str, extra: Value| {
        let request = ModelRequest { extra: extra.into(), ..ModelRequest::new(model, Vec::new()) };
        offers(Api::OpenAiChat, &request).into_iter().flat_map(|offer| offer.names).collect::<Vec<_>>()
    };
    for (model, extra) in [
        ("openai/m:online", json!({})),
        ("openai/m:free:Online", json!({})),
        ("openai/m", json!({"models": ["a", "b:online"]})),
        ("m", json!({"plugins": [{"id": "file-parser"}, {"id": "web", "max_results": 3}]})),
        ("m", json!({"search_parameters": {"mode": "on"}})),
        ("m", json!({"enable_search": true})),
    ] {
        let names = of(model, extra.clone());
        assert!(names.iter().any(|name| name == "web_search"), "{model} {extra}: {names:?}");
    }
    assert!(of("m:free", json!({"models": ["online"]})).is_empty());
    let plugins = of("m", json!({"plugins": [{"id": "file-parser"}, "what", 1]}));
    assert_eq!(plugins.iter().filter(|name| *name == "plugins").count(), 3, "{plugins:?}");
}

#[test]
fn what_the_client_runs_is_judged_when_it_is_called() {
    for tool in [
        json!({"type": "bash_20250124", "name": "bash"}),
        json!({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}),
        json!({"type": "computer_use_preview"}),
        json!({"type": "browser_toolset_20260801"}),
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
    let [Offer { info, names, place: None, .. }] = found.as_slice() else { panic!("{found:?}") };
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
    let found = offers(Api::OpenAiResponses, &ModelRequest::new("m", vec![message]));
    let found: Vec<_> =
        found.iter().map(|offer| (offer.info.name.as_str(), offer.is_run_by_provider())).collect();
    assert_eq!(found, [("x", true), ("f", false)]);
}

/// Where a list is expected, readers take a single object for a list of one, in whatever spelling its key is.
#[test]
fn a_single_object_is_a_list_of_one() {
    for key in ["googleSearch", "google_search", "googleSearchRetrieval", "google_search_retrieval"] {
        let tool = json!({key: {}});
        for raw in [
            tool.clone(),
            json!({"tools": tool}),
            json!({"tools": [tool]}),
            json!({"tools": {"tools": tool}}),
            json!({"type": "namespace", "name": "n", "tools": tool}),
        ] {
            let names = names(raw.clone());
            assert!(names.iter().any(|name| name == "web_search"), "{raw}: {names:?}");
            assert!(names.iter().any(|name| name == key), "{raw}: {names:?}");
        }
        let instead = json!({"fallbacks": [{"model": "m", "tools": tool}]});
        let asked = ModelRequest { extra: instead.into(), ..ModelRequest::default() };
        let found = offers(Api::AnthropicMessages, &asked);
        assert!(found.iter().any(|offer| offer.names.iter().any(|name| name == "web_search")), "{key}");
    }
    for (key, name) in
        [("google_maps", "web_maps"), ("enterprise_web_search", "web_search"), ("file_search", "file_search")]
    {
        assert!(names(json!({key: {}})).iter().any(|own| own == name), "{key}");
    }
    assert_eq!(names(json!({"tools": "googleSearch"})), ["tools"]);
}

#[test]
fn tools_in_a_namespace_are_called_as_their_calls_are() {
    let raw = json!({"type": "namespace", "name": "crm", "tools": [
        {"type": "function", "name": "delete"},
        {"type": "custom", "name": "exec"},
        {"type": "web_search"},
        {"type": "mcp", "server_label": "shop", "allowed_tools": ["buy"]},
    ]});
    let request =
        ModelRequest { tools: vec![ToolDefinition::Provider { raw: raw.into() }], ..ModelRequest::default() };
    let found = offers(Api::OpenAiResponses, &request);
    let named: Vec<_> = found.iter().map(|offer| offer.info.name.as_str()).collect();
    assert_eq!(named, ["crm", "crm__delete", "crm__exec", "crm__web_search", "crm__shop"]);
    for (offer, names) in found.iter().skip(1).zip([
        ["crm__delete", "delete"],
        ["crm__exec", "exec"],
        ["crm__web_search", "web_search"],
        ["crm__shop", "mcp__shop__buy"],
    ]) {
        assert!(names.iter().all(|name| offer.names.iter().any(|own| own == name)), "{:?}", offer.names);
    }
}

fn usable(raw: Value) -> Option<Vec<String>> {
    offer("mcp", &raw, None).info.allowed_tools
}

#[test]
fn what_of_a_server_may_be_used_is_read_in_all_forms() {
    let one = || Some(vec!["buy".to_owned()]);
    for (raw, expected) in [
        (json!({}), None),
        (json!({"allowed_tools": ["buy"]}), one()),
        (json!({"allowed_tools": []}), Some(vec![])),
        (json!({"allowed_tools": null}), None),
        (json!({"allowed_tools": {"tool_names": ["buy"]}}), one()),
        (json!({"allowed_tools": {"read_only": true}}), None),
        (json!({"allowed_tools": ["buy", 1]}), None),
        (json!({"tool_configuration": {"allowed_tools": ["buy"]}}), one()),
        (json!({"default_config": {"enabled": false}, "configs": {"buy": {"enabled": true}}}), one()),
        (json!({"default_config": {"enabled": false}, "configs": {"buy": {"enabled": "yes"}}}), one()),
        (
            json!({"default_config": {"enabled": false}, "configs": {"buy": {"defer_loading": true}}}),
            Some(vec![]),
        ),
        (json!({"default_config": {"enabled": false}}), Some(vec![])),
        (json!({"default_config": {"enabled": true}, "configs": {"buy": {"enabled": true}}}), None),
        (json!({"configs": {"buy": {"enabled": false}}}), None),
        (json!({"default_config": {"enabled": false}, "configs": ["buy"]}), None),
    ] {
        assert_eq!(usable(raw.clone()), expected, "{raw}");
    }
    // A tool that is named is one by which policies refuse the server, whatever the rest of it is.
    let raw = json!({"type": "mcp_toolset", "mcp_server_name": "shop", "configs": {"buy": {"enabled": true}, "look": {"enabled": false}}});
    let names = offer("mcp_toolset", &raw, None).names;
    assert!(
        ["mcp__shop__buy", "mcp__shop__*"].iter().all(|name| names.iter().any(|own| own == name)),
        "{names:?}"
    );
    assert!(!names.contains(&"mcp__shop__look".to_owned()), "{names:?}");
}

#[test]
fn tools_that_are_called_alike_are_told_apart() {
    let connector = |label: &str| json!({"type": "mcp", "server_label": label});
    let nameless = json!({"type": "web_search"});
    let tools =
        [connector("a"), connector("b"), connector("a"), nameless.clone(), nameless.clone(), nameless];
    let function = ToolSpec { name: "b".to_owned(), description: None, input_schema: Json::default() };
    let tools =
        tools.map(|raw| ToolDefinition::Provider { raw: raw.into() }).into_iter().chain([function.into()]);
    let request = ModelRequest { tools: tools.collect(), ..ModelRequest::default() };
    let found = offers(Api::OpenAiResponses, &request);
    let names: Vec<&str> = found.iter().map(|offer| offer.info.name.as_str()).collect();
    assert_eq!(names, ["a", "b#2", "a#2", "web_search", "web_search#2", "web_search#3", "b"]);
    let stay = |left: &[&str]| {
        let left: HashSet<&str> = left.iter().copied().collect();
        found
            .iter()
            .filter(|offer| offer.stays(&left))
            .map(|offer| offer.info.name.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(stay(&["a", "a#2", "web_search#2"]), ["a", "a#2"]);
    assert_eq!(stay(&["a#2", "b", "web_search", "web_search#3"]), ["web_search", "web_search#3", "b"]);
}

/// The names under which tools of the provider's are judged that a message of Anthropic's offers.
fn offered_by(block: &Value, tools: Vec<ToolDefinition>) -> Vec<String> {
    let body = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [block, {"type": "text", "text": "hi"}]}]});
    let mut request = Api::AnthropicMessages.decode_request(&body).unwrap().request;
    request.tools = tools;
    let found = offers(Api::AnthropicMessages, &request).into_iter().filter(Offer::is_run_by_provider);
    found
        .flat_map(|offer| {
            assert_eq!(offer.place, None);
            offer.names
        })
        .collect()
}

#[test]
fn tools_that_a_message_adds_are_judged() {
    let definition = |definition: Value| json!({"type": "tool_definition", "definition": definition});
    for (tool, name) in [
        (definition(json!({"type": "web_fetch_20260318", "name": "web_fetch"})), "web_fetch"),
        (definition(json!({"type": "mcp_toolset", "mcp_server_name": "shop"})), "mcp__shop__*"),
        (definition(json!({"type": "tool_of_tomorrow"})), "tool_of_tomorrow"),
        (json!({"type": "tool_definition", "definition": [1]}), "tool_definition"),
        (json!({"type": "mcp_tool_reference", "server_name": "shop", "name": "buy"}), "mcp__shop__buy"),
        (json!({"type": "mcp_toolset_reference", "server_name": "shop"}), "mcp__shop__*"),
        // Of whatever it is.
        (json!({"type": "tool_reference", "name": "lookup"}), "lookup"),
        (json!({"type": "reference_of_tomorrow", "name": "lookup"}), "reference_of_tomorrow"),
        (json!("lookup"), "tool_addition"),
    ] {
        let added = json!({"type": "tool_addition", "tool": tool});
        let kept = json!({"type": "compaction", "content": "so far", "tool_changes": [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "x"}}, added]});
        let one = json!({"type": "compaction", "content": "so far", "tool_changes": added});
        for block in [added, kept, one] {
            let found = offered_by(&block, Vec::new());
            assert!(found.iter().any(|found| found == name), "{block}: {found:?}");
        }
    }
    // A function of the client's, and one of the list.
    let own = definition(json!({"name": "lookup", "input_schema": {"type": "object"}}));
    assert_eq!(offered_by(&json!({"type": "tool_addition", "tool": own}), Vec::new()), Vec::<String>::new());
    let spec = ToolSpec { name: "lookup".to_owned(), description: None, input_schema: Json::new(json!({})) };
    let listed = ToolDefinition::Function { spec, meta: None };
    let named = json!({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "lookup"}});
    assert_eq!(offered_by(&named, vec![listed]), Vec::<String>::new());
}

#[test]
fn what_nobody_knows_in_a_message_may_offer_something() {
    let text = |api: Api, part: Value| match api {
        Api::OpenAiResponses => json!({"model": "m", "input": [part, {"role": "user", "content": "hi"}]}),
        Api::Gemini => json!({"model": "m", "contents": [{"role": "user", "parts": [part, {"text": "hi"}]}]}),
        Api::BedrockConverse => {
            json!({"modelId": "m", "messages": [{"role": "user", "content": [part, {"text": "hi"}]}]})
        }
        _ => {
            json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [part, {"type": "text", "text": "hi"}]}]})
        }
    };
    let untyped = |api| matches!(api, Api::Gemini | Api::BedrockConverse);
    for api in
        [Api::AnthropicMessages, Api::OpenAiChat, Api::OpenAiResponses, Api::Gemini, Api::BedrockConverse]
    {
        let part = |kind: &str| {
            if untyped(api) {
                json!({kind: {"url": "https://x.example"}})
            } else {
                json!({"type": kind, "url": "https://x.example"})
            }
        };
        let found = |kind: &str| -> Vec<String> {
            let request = api.decode_request(&text(api, part(kind))).unwrap().request;
            offers(api, &request).into_iter().flat_map(|offer| offer.names).collect()
        };
        for unknown in ["connectorOfTomorrow", "tool_of_tomorrow"] {
            assert!(found(unknown).contains(&unknown.to_owned()), "{api}: {:?}", found(unknown));
        }
        let known = match api {
            Api::AnthropicMessages => "document",
            Api::OpenAiChat => "input_audio",
            Api::OpenAiResponses => "configuration_update",
            Api::Gemini => "fileData",
            Api::BedrockConverse => "video",
        };
        assert_eq!(found(known), Vec::<String>::new(), "{api}");
    }
    let other = json!({"model": "m", "contents": [{"role": "user", "parts": [{"file_data": {"file_uri": "https://x.example"}}]}]});
    let request = Api::Gemini.decode_request(&other).unwrap().request;
    assert!(offers(Api::Gemini, &request).is_empty(), "in the other spelling");
}
