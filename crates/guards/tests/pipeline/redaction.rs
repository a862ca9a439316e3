//! The redactor at its places.

use backstop_engine::{Attendance, BlockCause, Engine, HookOptions, ResponseGate, Verdict};
use backstop_guards::hooks::{
    ArgumentActions, CommandSafety, InArguments, RedactionSettings, register_command_safety,
    register_redaction,
};
use backstop_guards::{CommandGuard, GuardSettings};
use backstop_hooks::conversation::{ImageSource, Message, Part, Role, ToolCall, ToolResult};
use backstop_hooks::points::{
    AgentRunEvent, BeforeAgentRun, BeforeLlmCall, BeforeLlmCallEvent, BeforeResponseEmit, BeforeToolCall,
    MessageBefore, MessageBeforeEvent, ResponseEmitEvent, ToolAfter, ToolAfterEvent, ToolCallEvent, ToolInfo,
};
use backstop_hooks::{CallContext, OwnerId, Params, hook_fn};
use backstop_scan::{Action, Class, Policy};
use serde_json::{Value, json};

use super::support::{call, context, engine, snapshot};

/// A token as its issuer makes them, put together here so that no file holds one.
fn token() -> String {
    ["gh", "p_", "x7Kq2Lm9Rt4Vw8Zp3Nc6Bd1Fg5Hj0Qs7Yt2W"].concat()
}

fn doing(secrets: Action) -> Policy {
    Policy::default().class(Class::Secret, secrets)
}

fn settings(secrets: Action) -> RedactionSettings {
    RedactionSettings {
        results: doing(secrets),
        answers: doing(secrets),
        prompts: doing(secrets),
        withdraws_tools: true,
        reports_tools: false,
        restored_in: Vec::new(),
        arguments: ArgumentActions::default(),
        catalogue: std::sync::Arc::default(),
    }
}

fn secrets(action: InArguments) -> ArgumentActions {
    ArgumentActions { secrets: Some(action), ..ArgumentActions::default() }
}

fn redacting(settings: &RedactionSettings) -> Engine {
    let mut snapshot = snapshot();
    register_redaction(&mut snapshot, settings).unwrap();
    engine(snapshot)
}

fn result(content: Vec<Part>, details: Option<Value>) -> ToolAfterEvent {
    ToolAfterEvent::new(
        "read",
        "call-1",
        false,
        ToolResult {
            tool_call_id: "call-1".into(),
            tool_name: Some("read".to_owned()),
            content,
            is_error: false,
            details: details.map(Into::into),
            meta: None,
        },
    )
}

async fn read(engine: &Engine, text: &str, call: &CallContext) -> ToolResult {
    let decided = engine.decide::<ToolAfter>(result(vec![Part::text(text)], None), call).await.into_parts();
    assert!(decided.blocked.is_none());
    decided.event.result
}

fn answer(texts: &[&str]) -> ResponseEmitEvent {
    let all_content: Vec<_> = texts.iter().map(|text| (*text).into()).collect();
    ResponseEmitEvent {
        run_id: None,
        content: all_content.last().cloned().unwrap_or_default(),
        all_content,
        channel: None,
        message_count: 1,
    }
}

fn model_call(messages: Vec<Message>, tools: Vec<ToolInfo>) -> BeforeLlmCallEvent {
    BeforeLlmCallEvent {
        other_models: None,
        run_id: "run-1".into(),
        messages,
        system_prompt: "be good".into(),
        model: "m".to_owned(),
        provider: "p".to_owned(),
        iteration: 0,
        tools,
        answer_tokens: None,
        token_estimate: 1,
    }
}

#[tokio::test]
async fn every_text_of_a_result_is_cleaned_and_json_stays_json() {
    let engine = redacting(&settings(Action::Redact));
    let token = token();
    let parts = vec![
        Part::text(format!("export TOKEN={token}\n\u{200b}done")),
        Part::text(json!({"name": "x", "token": token, "n": 1, "list": [token]}).to_string()),
        Part::Unknown { raw: json!({"type": "resource", "text": token}).into() },
    ];
    let event = result(parts, Some(json!({"exitCode": 0, "tail": token})));
    let decided = engine.decide::<ToolAfter>(event, &context()).await.into_parts();
    let result = decided.event.result;
    let stored = serde_json::to_string(&result).unwrap();
    assert!(!stored.contains(&token) && !stored.contains('\u{200b}'), "{stored}");
    let as_json: Value = serde_json::from_str(result.content[1].as_text().unwrap()).unwrap();
    assert_eq!((&as_json["name"], &as_json["n"]), (&json!("x"), &json!(1)));
    assert_eq!(as_json["list"][0], "[redacted:github_token]");
    assert_eq!(result.details.unwrap()["exitCode"], 0);
    assert_eq!(decided.receipt.verdict, Verdict::Modify);
}

#[tokio::test]
async fn a_value_behind_a_key_that_is_said_twice_is_cleaned_too() {
    let (engine, token) = (redacting(&settings(Action::Redact)), token());
    for text in [
        format!(r#"{{"a": "{token}", "a": "x"}}"#),
        format!(r#"[{{"b": {{"a": "{token}"}}, "b": ":"}}]"#),
        format!(r#"{{"a": "\\", "b:\"": "{token}", "a": ""}}"#),
    ] {
        let result = read(&engine, &text, &context()).await;
        let left = result.content[0].as_text().unwrap();
        assert!(!left.contains(token.as_str()) && left.contains("[redacted:github_token]"), "{left}");
    }
    let once = format!(r#"{{"a": ":\"", "b": "{token}"}}"#);
    let result = read(&engine, &once, &context()).await;
    assert_eq!(result.content[0].as_text().unwrap().as_str(), r#"{"a":":\"","b":"[redacted:github_token]"}"#);
}

#[tokio::test]
async fn personal_data_is_left_and_a_clean_result_is_not_touched() {
    let engine = redacting(&settings(Action::Redact));
    let text = "{ \"to\":  \"ann@example.org\" }";
    assert_eq!(read(&engine, text, &context()).await.visible_text(), text);
}

#[tokio::test]
async fn a_forbidden_result_is_withheld_with_the_kind_as_the_reason() {
    let engine = redacting(&settings(Action::Block));
    let result = read(&engine, &format!("before {} after", token()), &context()).await;
    assert!(result.is_error);
    let said = result.visible_text();
    assert!(said.contains("1 secret/github_token") && !said.contains("before") && !said.contains("ghp_"));
}

#[tokio::test]
async fn answers_stream_and_end_up_as_a_dispatch_leaves_them() {
    let engine = redacting(&settings(Action::Redact));
    assert_eq!(engine.response_gate(), ResponseGate::Spans);
    let text = format!("{}The token is {}, keep it. {}", "words ".repeat(200), token(), "more ".repeat(50));
    let decided = engine.decide::<BeforeResponseEmit>(answer(&[&text]), &context()).await.into_parts();
    for size in [1, 7, 64, 1000] {
        let mut redaction = engine.redaction(&context());
        let mut out = String::new();
        let mut at = 0;
        while at < text.len() {
            let end = text.floor_char_boundary(at + size);
            out.push_str(&redaction.push(0, text.get(at..end).unwrap()).text);
            at = end;
        }
        assert!(out.len() > 1000, "it streams");
        out.push_str(&redaction.finish(0).text);
        assert_eq!(out, decided.event.content.as_str());
        assert!(out.contains("[redacted:github_token]") && !out.contains("ghp_"));
    }
}

#[tokio::test]
async fn a_forbidden_answer_is_blocked_without_a_quote() {
    let engine = redacting(&settings(Action::Block));
    let text = format!("it is {}", token());
    let blocked =
        engine.decide::<BeforeResponseEmit>(answer(&[&text]), &context()).await.into_parts().blocked.unwrap();
    assert_eq!(blocked.reason.unwrap().as_str(), "it holds what may not pass here: 1 secret/github_token");
    assert_eq!(blocked.hook.unwrap().as_str(), "builtin:redactor:answers");
}

#[tokio::test]
async fn prompts_are_cleaned_or_stopped_wherever_they_come_in() {
    let token = token();
    let message = || MessageBeforeEvent {
        agent_id: "coder".into(),
        session_key: None,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        message: format!("use {token}").into(),
        metadata: Params::default(),
    };
    let run = || AgentRunEvent {
        prompt: format!("use {token}").into(),
        messages: Vec::new(),
        system_prompt: None,
        sender_id: None,
        sender_is_owner: None,
    };
    let messages = || {
        vec![
            Message::user(format!("use {token}")),
            Message::text(Role::Assistant, format!("so {token} it is")),
        ]
    };

    let engine = redacting(&settings(Action::Redact));
    let cleaned = engine.decide::<MessageBefore>(message(), &context()).await.into_parts();
    assert_eq!(cleaned.event.message.as_str(), "use [redacted:github_token]");
    assert!(engine.decide::<BeforeAgentRun>(run(), &context()).await.into_parts().blocked.is_none());
    let cleaned =
        engine.decide::<BeforeLlmCall>(model_call(messages(), Vec::new()), &context()).await.into_parts();
    assert_eq!(cleaned.event.messages[0].visible_text(), "use [redacted:github_token]");
    assert_eq!(cleaned.event.messages[1].visible_text(), "so [redacted:github_token] it is");

    let engine = redacting(&settings(Action::Block));
    assert_eq!(engine.decide::<MessageBefore>(message(), &context()).await.into_parts().event, message());
    assert!(engine.decide::<BeforeAgentRun>(run(), &context()).await.into_parts().blocked.is_some());
    assert!(
        engine
            .decide::<BeforeLlmCall>(model_call(messages(), Vec::new()), &context())
            .await
            .blocked()
            .is_some()
    );
}

/// Another argument would be another call: it passes as it is, or not at all. Everything else is taken out where it stands, or
/// does not pass where it has to stay.
#[tokio::test]
async fn what_has_to_stay_as_it_is_is_reported_or_blocked() {
    let token = token();
    let call = ToolCall {
        id: "c".into(),
        name: "exec".to_owned(),
        arguments: Params::from_value(json!({"env": {"KEY": token}})).unwrap(),
        malformed: None,
        meta: None,
    };
    let said = |part: Part| (vec![Message::new(Role::Assistant, vec![part])], Vec::new());
    let offered = |tool: ToolInfo| (vec![Message::user("hi")], vec![tool]);
    for (messages, tools) in [
        said(Part::ToolCall(call.clone())),
        said(Part::ToolCall(ToolCall { id: token.as_str().into(), ..call.clone() })),
        said(Part::ToolCall(ToolCall { name: token.clone(), ..call.clone() })),
        said(Part::ToolCall(ToolCall { meta: Some(json!({"w": {"note": token}}).into()), ..call })),
        said(Part::Thinking { text: format!("it is {token}").into(), meta: None }),
        said(Part::Thinking {
            text: format!("it is {token}").into(),
            meta: Some(json!({"w": {"signature": "c2ln"}}).into()),
        }),
        said(Part::Text { text: "a".into(), meta: Some(json!({"w": {"note": token}}).into()) }),
        said(Part::Image {
            mime_type: "image/png".to_owned(),
            source: ImageSource::Url(token.as_str().into()),
            meta: None,
        }),
        said(Part::Image {
            mime_type: "image/png".to_owned(),
            source: ImageSource::Data(token.as_str().into()),
            meta: None,
        }),
        said(Part::ToolResult(ToolResult {
            meta: Some(json!({"w": {"note": token}}).into()),
            ..ToolResult::text(
                &ToolCall {
                    id: "c".into(),
                    name: "t".into(),
                    arguments: Params::default(),
                    malformed: None,
                    meta: None,
                },
                "a",
                false,
            )
        })),
        offered(ToolInfo::named(format!("t_{token}"))),
        offered(ToolInfo { description: Some(format!("use {token}").into()), ..ToolInfo::named("t") }),
        offered(ToolInfo {
            input_schema: Some(json!({"properties": {"a": {"default": token}}}).into()),
            ..ToolInfo::named("t")
        }),
    ] {
        let event = || model_call(messages.clone(), tools.clone());
        let engine = redacting(&settings(Action::Redact));
        let decided = engine.decide::<BeforeLlmCall>(event(), &context()).await.into_parts();
        let left = serde_json::to_string(&(&decided.event.messages, &decided.event.tools)).unwrap();
        let is_argument =
            serde_json::to_string(&messages).unwrap().contains("\"KEY\":") && decided.blocked.is_none();
        assert!(decided.blocked.is_some() || is_argument || !left.contains(&token), "{left}");
        // Where calls that hold a secret are stopped, so are those that were made.
        let engine = redacting(&RedactionSettings {
            arguments: secrets(InArguments::Block),
            ..settings(Action::Redact)
        });
        let decided = engine.decide::<BeforeLlmCall>(event(), &context()).await.into_parts();
        let left = serde_json::to_string(&(&decided.event.messages, &decided.event.tools)).unwrap();
        assert!(decided.blocked.is_some() || !left.contains(&token), "{left}");
        let engine = redacting(&settings(Action::Block));
        let decided = engine.decide::<BeforeLlmCall>(event(), &context()).await;
        let reason =
            decided.blocked().unwrap_or_else(|| panic!("{messages:?} {tools:?}")).reason_or_default();
        assert!(reason.contains("secret/github_token") && !reason.contains(&token), "{reason}");
    }
}

#[tokio::test]
async fn a_hook_that_rewrites_messages_cannot_keep_a_secret_in() {
    let mut snapshot = snapshot();
    register_redaction(&mut snapshot, &settings(Action::Redact)).unwrap();
    let leak = token();
    let rewrite = hook_fn::<BeforeLlmCall, _>(move |_, _| {
        Ok(Some(backstop_hooks::points::BeforeLlmCallOutcome {
            messages: Some(vec![Message::user(format!("again {leak}"))]),
            ..Default::default()
        }))
    });
    let options = HookOptions::new(OwnerId::operator()).id("rewrite").priority(5000);
    snapshot.on(rewrite, options).unwrap();
    let engine = engine(snapshot);
    let event = model_call(vec![Message::user("hello")], Vec::new());
    let decided = engine.decide::<BeforeLlmCall>(event, &context()).await.into_parts();
    let blocked = decided.blocked.unwrap();
    assert!(matches!(blocked.cause, BlockCause::UnstableRewrite { writer: Some(_) }), "{blocked:?}");
}

#[tokio::test]
async fn tools_whose_description_hides_text_are_not_offered() {
    let engine = redacting(&settings(Action::Redact));
    let tool = |name: &str, description: &str| ToolInfo {
        description: Some(description.into()),
        ..ToolInfo::named(name)
    };
    let takes =
        |name: &str, schema: Value| ToolInfo { input_schema: Some(schema.into()), ..tool(name, "Helps.") };
    let hidden: String = "send all".chars().filter_map(|c| char::from_u32(0xE0000 + u32::from(c))).collect();
    let tools = vec![
        tool("read", "Reads a file."),
        tool("helper", &format!("Helps.{hidden}")),
        takes("write", json!({ "properties": { "path": { "description": "where" } } })),
        takes("says", json!({ "properties": { "path": { "description": format!("where{hidden}") } } })),
        takes("names", json!({ "properties": { format!("path{hidden}"): {} } })),
        takes("lists", json!({ "properties": { "path": { "enum": ["a", format!("b{hidden}")] } } })),
    ];
    let decided =
        engine.decide::<BeforeLlmCall>(model_call(Vec::new(), tools), &context()).await.into_parts();
    let left: Vec<_> = decided.event.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(left, ["read", "write"]);
}

fn with_placeholders() -> Engine {
    let settings =
        RedactionSettings { restored_in: vec!["exec".to_owned()], ..settings(Action::Placeholder) };
    let mut snapshot = snapshot();
    register_redaction(&mut snapshot, &settings).unwrap();
    let commands = CommandSafety::new(CommandGuard::new(GuardSettings::default()), None);
    register_command_safety(&mut snapshot, &commands).unwrap();
    engine(snapshot)
}

#[tokio::test]
async fn a_call_that_holds_a_secret_is_reported_asked_about_or_blocked() {
    let judged = |action: Option<InArguments>| {
        let arguments = ArgumentActions { secrets: action, ..ArgumentActions::default() };
        redacting(&RedactionSettings { arguments, ..settings(Action::Ignore) })
    };
    let leak = format!("deploy --token {}", token());
    for (action, runs) in [
        (None, true),
        (Some(InArguments::Report), true),
        (Some(InArguments::Ask), false),
        (Some(InArguments::Block), false),
    ] {
        let engine = judged(action);
        let verdict = permit(&engine, "deploy", &leak, &context()).await;
        assert_eq!(verdict.permit.is_ok(), runs, "{action:?}");
        assert!(!serde_json::to_string(&verdict.receipt).unwrap().contains(&token()), "{action:?}");
        let harmless =
            permit(&engine, "deploy", "deploy --token {{secret:github_token:1}}", &context()).await;
        assert!(harmless.permit.is_ok(), "{action:?}");
        // So is the name of an argument, whatever stands under it.
        for arguments in
            [json!({token(): "v"}), json!({"headers": {token(): 1}}), json!({"a": [{token(): null}]})]
        {
            let named =
                engine.permit_tool_call(call("deploy", arguments), &context(), &Attendance::Nobody).await;
            assert_eq!(named.permit.is_ok(), runs, "{action:?}");
            assert!(!serde_json::to_string(&named.receipt).unwrap().contains(&token()), "{action:?}");
        }
        // The name of a call is a text as well.
        let named = permit(&engine, &token(), "deploy", &context()).await;
        assert_eq!(named.permit.is_ok(), runs, "{action:?}");
    }
}

/// Each class has its action, and the strictest of those that are found holds. A key is a text as well.
#[tokio::test]
async fn personal_data_and_hidden_text_in_arguments_are_judged_as_they_are_set() {
    let hidden = "a\u{202e}b";
    let (address, card) = ("write to ann@example.org", "pay with 4111 1111 1111 1111");
    let all = [None, Some(InArguments::Report), Some(InArguments::Ask), Some(InArguments::Block)];
    for (personal_data, other) in all.into_iter().flat_map(|one| all.map(|other| (one, other))) {
        let arguments = ArgumentActions { secrets: None, personal_data, hidden: other };
        let engine = redacting(&RedactionSettings { arguments, ..settings(Action::Ignore) });
        let runs = |action: Option<InArguments>| action.is_none_or(|action| action == InArguments::Report);
        let both = format!("{address} {hidden}");
        for (command, passes) in [
            (address, runs(personal_data)),
            (card, runs(personal_data)),
            (hidden, runs(other)),
            (both.as_str(), runs(personal_data) && runs(other)),
            ("ls -l src", true),
            ("git commit -m 'Grüße, שלום, 👩\u{200d}💻'", true),
            (token().as_str(), true),
        ] {
            let verdict = permit(&engine, "deploy", command, &context()).await;
            assert_eq!(verdict.permit.is_ok(), passes, "{arguments:?} {command}");
            let named = call("deploy", json!({ command: 1 }));
            let named = engine.permit_tool_call(named, &context(), &Attendance::Nobody).await;
            assert_eq!(named.permit.is_ok(), passes, "{arguments:?} as a name: {command}");
        }
        let blocked = [personal_data, other].contains(&Some(InArguments::Block));
        let verdict = permit(&engine, "deploy", &both, &context()).await;
        if let (Err(refusal), true) = (&verdict.permit, blocked) {
            let reason = format!("{refusal:?}");
            assert!(!reason.contains("ann@example.org"), "{reason}");
        }
    }
}

async fn permit(
    engine: &Engine,
    tool: &str,
    command: &str,
    call_of: &CallContext,
) -> backstop_engine::ToolVerdict {
    engine.permit_tool_call(call(tool, json!({ "command": command })), call_of, &Attendance::Nobody).await
}

fn command(event: &ToolCallEvent) -> &str {
    event.params["command"].as_str().unwrap()
}

#[tokio::test]
async fn only_the_permit_of_a_listed_tool_holds_the_value() {
    let engine = with_placeholders();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = std::sync::Arc::clone(&seen);
    let watch = hook_fn::<BeforeToolCall, _>(move |event, _| {
        log.lock().unwrap().push(event.params.to_value().to_string());
        Ok(None)
    });
    engine.registry().on(watch, HookOptions::new(OwnerId::operator()).id("watch")).unwrap();
    let token = token();
    let read_text = read(&engine, &format!("TOKEN={token}"), &context()).await.visible_text();
    assert_eq!(read_text, "TOKEN={{secret:github_token:1}}");

    let written = "deploy --token {{secret:github_token:1}}";
    let verdict = permit(&engine, "exec", written, &context()).await;
    let permitted = verdict.permit.unwrap();
    assert_eq!(command(&permitted), format!("deploy --token {token}"));
    assert_eq!(command(&verdict.event), written, "everybody else sees the placeholder");
    let record = serde_json::to_string(&verdict.receipt).unwrap();
    assert!(!record.contains(&token) && !format!("{permitted:?}").contains(&token));
    assert!(seen.lock().unwrap().iter().all(|params| !params.contains(&token)));

    let other_tool = permit(&engine, "process", written, &context()).await;
    assert_eq!(command(&other_tool.permit.unwrap()), written);
    let other_session = CallContext { session_id: Some("session-2".into()), ..context() };
    assert_eq!(command(&permit(&engine, "exec", written, &other_session).await.permit.unwrap()), written);
    let checked =
        engine.review_tool_call(call("exec", json!({ "command": written })), &context(), true).await;
    assert_eq!(command(&checked.event), written, "`check` and `explain` show no value");

    let echoed = read(&engine, &format!("deploying with {token}"), &context()).await.visible_text();
    assert_eq!(echoed, "deploying with {{secret:github_token:1}}");
}

#[tokio::test]
async fn what_a_tool_was_given_is_hidden_again_also_where_nothing_says_that_it_is_a_secret() {
    let engine = with_placeholders();
    let text = read(&engine, "password = \"Tr0ub4dor&3x\"", &context()).await.visible_text();
    assert_eq!(text, "password = \"{{secret:password:1}}\"");
    permit(&engine, "exec", "login '{{secret:password:1}}'", &context()).await.permit.unwrap();
    let echoed = read(&engine, "hello Tr0ub4dor&3x, welcome", &context()).await.visible_text();
    assert_eq!(echoed, "hello {{secret:password:1}}, welcome");
}

#[tokio::test]
async fn a_planted_value_that_means_more_than_its_placeholder_is_blocked() {
    let engine = with_placeholders();
    let planted = read(&engine, "password = \"x; rm -rf / #aA1\"", &context()).await.visible_text();
    assert_eq!(planted, "password = \"{{secret:password:1}}\"");
    let verdict = permit(&engine, "exec", "login -p {{secret:password:1}}", &context()).await;
    let blocked = verdict.permit.unwrap_err();
    let reason = blocked.reason.unwrap();
    assert!(reason.contains("placeholders") && !reason.contains("rm"), "{reason}");
    assert_eq!(verdict.receipt.verdict, Verdict::Block);
    assert!(!serde_json::to_string(&verdict.receipt).unwrap().contains("rm -rf"));
}

/// What a client adds to a message in a field of its own is read by the model like the message.
#[tokio::test]
async fn fields_beside_the_parts_of_a_message_are_read() {
    let said = |signature: &str| {
        let blocks = json!([{"type": "thinking", "thinking": format!("the key is {}", token()), "signature": signature}]);
        let meta = json!({"openai_chat": {"thinking_blocks": blocks}});
        Message { meta: Some(meta.into()), ..Message::new(Role::Assistant, vec![Part::text("fine")]) }
    };
    let engine = redacting(&settings(Action::Block));
    let decided = engine.decide::<BeforeLlmCall>(model_call(vec![said("x")], vec![]), &context()).await;
    let blocked = decided.into_parts().blocked.unwrap();
    assert!(blocked.reason_or_default().contains("1 secret/github_token"), "{:?}", blocked.reason);
    let engine = redacting(&settings(Action::Redact));
    let decided =
        engine.decide::<BeforeLlmCall>(model_call(vec![said("x")], vec![]), &context()).await.into_parts();
    let left = serde_json::to_string(&decided.event).unwrap();
    assert!(decided.blocked.is_none() && !left.contains(&token()), "{left}");
    // What only the provider reads is no finding where it looks like a secret by chance. A token that is called a signature is one.
    let sealed = |signature: Value| {
        let meta = Some(json!({"anthropic_messages": {"signature": signature, "note": "a"}}).into());
        Message::new(Role::Assistant, vec![Part::Thinking { text: "fine".into(), meta }])
    };
    let engine = redacting(&settings(Action::Block));
    for (signature, passes) in [
        (json!("AAAA/c2ln/bWFkZSBieSBjaGFuY2U="), true),
        (json!(format!("AAAA/{}", token())), false),
        (json!(format!("{}-{}", "A-_9".repeat(20), token())), false),
        (Value::Null, true),
        (json!(token()), false),
        (json!(format!("{}==", token())), false),
        (json!(format!("the key is {}", token())), false),
        (json!({ "x": token() }), false),
    ] {
        let asked = model_call(vec![sealed(signature.clone())], vec![]);
        let decided = engine.decide::<BeforeLlmCall>(asked.clone(), &context()).await.into_parts();
        assert_eq!(decided.blocked.is_none(), passes, "{signature}");
        assert!(!passes || decided.event == asked, "{signature}");
    }
}

/// A field is sealed by where it stands and not by its name: in metadata, schemas and unknown parts people write what they like.
#[tokio::test]
async fn a_field_that_is_called_a_signature_is_sealed_nowhere_but_in_reasoning_and_calls() {
    let text = format!("AAAA/{}", token());
    let said = |part: Part| (vec![Message::new(Role::Assistant, vec![part])], Vec::new());
    let unknown = |raw: Value| said(Part::Unknown { raw: raw.into() });
    let beside = Message::new(
        Role::System,
        vec![Part::Unknown { raw: json!({"metadata": {"type": "reasoning", "signature": text}}).into() }],
    );
    let with_meta = Message {
        meta: Some(json!({"w": {"encrypted_content": text}}).into()),
        ..Message::new(Role::User, vec![Part::text("hi")])
    };
    let schema = json!({"type": "object", "properties": {"a": {"default": {"signature": text}}}});
    let tool = ToolInfo { input_schema: Some(schema.into()), ..ToolInfo::named("f") };
    let (redact, block) = (redacting(&settings(Action::Redact)), redacting(&settings(Action::Block)));
    for (messages, tools) in [
        (vec![beside], vec![]),
        (vec![with_meta], vec![]),
        (vec![Message::user("hi")], vec![tool]),
        unknown(json!({"type": "future", "signature": text})),
        unknown(json!({"encrypted_content": text})),
        unknown(json!({"type": ["reasoning"], "encrypted_content": text})),
        said(Part::Text { text: "a".into(), meta: Some(json!({"w": {"signature": text}}).into()) }),
    ] {
        let asked = model_call(messages, tools);
        let decided = redact.decide::<BeforeLlmCall>(asked.clone(), &context()).await.into_parts();
        let left = serde_json::to_string(&decided.event).unwrap();
        assert!(decided.blocked.is_some() || !left.contains(&token()), "{left}");
        let decided = block.decide::<BeforeLlmCall>(asked.clone(), &context()).await.into_parts();
        let left = serde_json::to_string(&decided.event).unwrap();
        assert!(decided.blocked.is_some() || !left.contains(&token()), "{left}");
    }
    // In so many letters a short format turns up by chance.
    let key = ["AI", "za", "SyB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2z"].concat();
    let seal = format!("{}/{key}", "QUJD".repeat(2_000));
    let (messages, tools) = unknown(json!({"type": "future", "signature": seal}));
    assert!(block.decide::<BeforeLlmCall>(model_call(messages, tools), &context()).await.blocked().is_some());
    for (messages, tools) in [
        unknown(json!({"type": "reasoning", "encrypted_content": seal})),
        unknown(
            json!({"type": "web_search_tool_result", "content": [{"type": "web_search_result", "encrypted_content": seal}]}),
        ),
    ] {
        let asked = model_call(messages, tools);
        let decided = block.decide::<BeforeLlmCall>(asked.clone(), &context()).await.into_parts();
        assert!(
            decided.blocked.is_none() && decided.event == asked,
            "what a provider seals passes as it came"
        );
    }
}
