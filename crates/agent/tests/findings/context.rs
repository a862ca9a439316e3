//! What the model reads: context of hooks, queued injections, and what may not be read at all.

use std::sync::{Arc, Mutex};

use backstop_agent::{TurnInput, TurnOutcome, TurnTrigger};
use backstop_engine::{HookOptions, RegisterError, Rewrite};
use backstop_hooks::points::{
    AgentReplyEvent, AgentReplyOutcome, AgentRunEvent, AgentRunOutcome, AgentTurnPrepare, BeforeAgentReply,
    BeforeAgentRun, BeforeAgentStart, BeforeLlmCall, BeforePromptBuild, BeforeResponseEmit, ContextOutcome,
    HeartbeatEvent, HeartbeatPromptContribution, LlmInput, LlmInputEvent, MessageBefore, MessageBeforeEvent,
    MessageBeforeOutcome, Placement, PromptBuildEvent, PromptBuildOutcome, ResponseEmitEvent,
    ResponseEmitOutcome, ToolsAllow, TurnPrepareEvent,
};
use backstop_hooks::{OwnerId, PointId, hook_fn};
use backstop_store::{NewInjection, Timestamp};
use serde_json::json;

use crate::support::{Bench, answered, calls, roles, says};

async fn queue(bench: &Bench, text: &str, placement: Placement) {
    let injection = NewInjection {
        session_key: "main".into(),
        owner: OwnerId::operator(),
        text: text.into(),
        placement,
        idempotency_key: None,
        ttl: None,
        metadata: None,
    };
    bench.store.enqueue_injection(injection, Timestamp::now()).await.unwrap();
}

#[tokio::test]
async fn context_of_hooks_is_read_in_every_call_of_the_turn_and_not_stored() {
    let bench = Bench::new([calls("read", json!({ "path": "." })), says("done"), says("later")]);
    bench.on::<MessageBefore>(hook_fn(|event: &MessageBeforeEvent, _| {
        let message = Some(event.message.replace("plese", "please").into());
        Ok(Some(MessageBeforeOutcome { message, metadata: None }))
    }));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    bench.on::<AgentTurnPrepare>(hook_fn(move |event: &TurnPrepareEvent, _| {
        log.lock().unwrap().push(event.queued_injections.len());
        Ok(Some(ContextOutcome { prepend_context: Some("PREPARED".into()), append_context: None }))
    }));
    let build = bench.on::<BeforePromptBuild>(hook_fn(|_: &PromptBuildEvent, _| {
        Ok(Some(PromptBuildOutcome {
            append_context: Some("BUILT".into()),
            prepend_system_context: Some("FIRST".into()),
            tools_allow: Some(ToolsAllow::new(["group:fs"])),
            ..Default::default()
        }))
    }));
    bench.on::<BeforeAgentStart>(hook_fn(|_: &PromptBuildEvent, _| {
        Ok(Some(backstop_hooks::points::AgentStartOutcome {
            tools_allow: Some(ToolsAllow::new(["read", "exec"])),
            append_system_context: Some("LAST".into()),
            ..Default::default()
        }))
    }));
    queue(&bench, "INJECTED", Placement::PrependContext).await;
    let inputs = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&inputs);
    bench.on::<LlmInput>(hook_fn(move |event: &LlmInputEvent, _| {
        log.lock().unwrap().push((event.prompt.to_string(), roles(&event.history_messages)));
        Ok(None)
    }));
    let session = bench.session().await;
    bench.say(&session, "plese look").await;
    let prompt = "INJECTED\n\nPREPARED\n\nplease look\n\nBUILT".to_owned();
    assert_eq!(*inputs.lock().unwrap(), [(prompt.clone(), String::new()), (prompt, "at".to_owned())]);
    for recorded in bench.model.requests() {
        let request = recorded.request;
        let prompt = request.messages[0].visible_text();
        assert_eq!(prompt, "INJECTED\n\nPREPARED\n\nplease look\n\nBUILT");
        assert_eq!(request.system_text().unwrap(), "FIRST\n\nBe good.\n\nLAST");
        let tools: Vec<&str> = request.tools.iter().map(backstop_llm::ToolDefinition::name).collect();
        assert_eq!(tools, ["read"], "each list of tools can only narrow");
    }
    assert_eq!(bench.transcript(&session).await[0].visible_text(), "please look");
    bench.engine.registry().remove(&build);
    bench.say(&session, "next").await;
    assert!(!bench.last_request().contains("BUILT") && !bench.last_request().contains("INJECTED"));
    assert_eq!(*seen.lock().unwrap(), [1, 0], "an injection is delivered once");
}

#[tokio::test]
async fn an_injection_that_no_model_read_waits_for_the_next_turn() {
    let failing = json!({ "fault": { "http_status": { "status": 400 } } });
    let bench = Bench::new([failing, says("ok")]);
    queue(&bench, "REMEMBER", Placement::AppendContext).await;
    let session = bench.session().await;
    assert!(matches!(bench.say(&session, "one").await.outcome, TurnOutcome::Failed { .. }));
    assert_eq!(bench.say(&session, "two").await.outcome, answered("ok"));
    assert!(bench.last_request().contains("two\\n\\nREMEMBER"));
    let left = bench
        .store
        .take_injections(session.key(), &"r".into(), &[OwnerId::operator()].into(), Timestamp::now())
        .await
        .unwrap();
    assert!(left.is_empty());
}

#[tokio::test]
async fn a_prompt_that_was_stopped_is_not_kept() {
    let bench = Bench::with([says("fine")], |setup| {
        setup.settings.verbosity = backstop_agent::Verbosity::Full;
    });
    bench.on::<BeforeAgentRun>(hook_fn(|event: &AgentRunEvent, _| {
        Ok(event.prompt.contains("hunter2").then(|| AgentRunOutcome::Block {
            reason: "contains hunter2".into(),
            message: Some("no passwords, please".into()),
            category: Some("secrets".to_owned()),
            metadata: None,
        }))
    }));
    let session = bench.session().await;
    let report = bench.say(&session, "my password is hunter2").await;
    let TurnOutcome::Blocked { point, message, .. } = &report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!(*point, PointId::BeforeAgentRun);
    assert!(message.contains("no passwords, please"));
    assert_eq!(roles(&bench.transcript(&session).await), "u");
    assert!(!bench.stored(&session).await.contains("hunter2"));
    assert!(!bench.screen.shows("hunter2"));
    assert_eq!(bench.say(&session, "hello").await.outcome, answered("fine"));
    assert!(!bench.last_request().contains("hunter2"));
    assert!(bench.last_request().contains("no passwords, please"));
}

#[tokio::test]
async fn a_hook_can_answer_in_place_of_the_model_and_is_judged_too() {
    let bench = Bench::new([says("never")]);
    bench.on::<BeforeAgentReply>(hook_fn(|event: &AgentReplyEvent, _| {
        let reply = (event.cleaned_body != *"quiet").then(|| "the secret word".into());
        Ok(Some(AgentReplyOutcome { handled: true, reply, reason: None }))
    }));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "quiet").await.outcome, TurnOutcome::Silent);
    assert_eq!(bench.say(&session, "talk").await.outcome, answered("the secret word"));
    bench.on::<BeforeResponseEmit>(hook_fn(|event: &ResponseEmitEvent, _| {
        let content = Some(event.content.replace("secret", "***").into());
        Ok(Some(ResponseEmitOutcome { content, ..Default::default() }))
    }));
    assert_eq!(bench.say(&session, "again").await.outcome, answered("the *** word"));
    assert_eq!(bench.model.report().requests, 0);
    assert_eq!(bench.screen.texts(), ["the secret word", "the *** word"]);
}

#[tokio::test]
async fn heartbeat_turns_get_their_own_context() {
    let bench = Bench::new([says("all quiet"), says("hello")]);
    bench.on::<HeartbeatPromptContribution>(hook_fn(|event: &HeartbeatEvent, _| {
        let text = format!("STATUS of {}", event.heartbeat_name.as_deref().unwrap_or("?"));
        Ok(Some(ContextOutcome { prepend_context: Some(text.into()), append_context: None }))
    }));
    let session = bench.session().await;
    let trigger = TurnTrigger::Heartbeat { name: Some("disk".to_owned()) };
    let input = TurnInput { trigger, ..TurnInput::user("anything to do?") };
    assert_eq!(bench.turn(&session, input).await.outcome, answered("all quiet"));
    assert!(bench.last_request().contains("STATUS of disk"));
    bench.say(&session, "hi").await;
    assert!(!bench.last_request().contains("STATUS"));
}

#[tokio::test]
async fn texts_of_whoever_takes_no_part_here_wait_for_a_host_in_which_they_do() {
    let bench = Bench::new([says("one"), says("two"), says("three")]);
    let owner = OwnerId::new("switched-off");
    let injection = NewInjection {
        session_key: "main".into(),
        owner: owner.clone(),
        text: "REMEMBER".into(),
        placement: Placement::PrependContext,
        idempotency_key: None,
        ttl: None,
        metadata: None,
    };
    bench.store.enqueue_injection(injection, Timestamp::now()).await.unwrap();
    let session = bench.session().await;
    let mut read = Vec::new();
    for turn in 0..3 {
        if turn == 1 {
            let change = |next: &mut backstop_engine::Snapshot| {
                next.add_owner(owner.clone());
                Ok::<_, RegisterError>(())
            };
            bench.engine.registry().update(change).unwrap();
        }
        bench.say(&session, "hi").await;
        read.push(bench.last_request().contains("REMEMBER"));
    }
    assert_eq!(
        read,
        [false, true, false],
        "not by a host in which it is off, and once by one in which it is on"
    );
}

#[tokio::test]
async fn prompt_injection_switch_covers_before_llm_call() {
    let owner = OwnerId::new("plugin");
    let mut settings = backstop_engine::OperatorSettings::default();
    let allowed = backstop_engine::OwnerSettings {
        allow_conversation_access: Some(true),
        allow_prompt_injection: Some(false),
        ..Default::default()
    };
    settings.owners.insert(owner.clone(), allowed);
    let bench = Bench::new([says("ok")]);
    bench.engine.registry().replace(backstop_engine::Snapshot::empty(settings));
    let refused = bench.engine.registry().on::<BeforeLlmCall>(
        hook_fn(|_: &backstop_hooks::points::BeforeLlmCallEvent, _| Ok(None)),
        HookOptions::new(owner.clone()),
    );
    assert!(matches!(refused, Err(RegisterError::PromptInjection { .. })));
    // What it queued earlier is not read either.
    let injection = NewInjection {
        session_key: "main".into(),
        owner,
        text: "OBEY".into(),
        placement: Placement::PrependContext,
        idempotency_key: None,
        ttl: None,
        metadata: None,
    };
    bench.store.enqueue_injection(injection, Timestamp::now()).await.unwrap();
    let session = bench.session().await;
    bench.say(&session, "hi").await;
    assert!(!bench.last_request().contains("OBEY"));
}

/// What the model reads as system prompt when a hook at each of the two points writes one.
async fn with_two_writers(
    newer: fn(&str) -> Option<&'static str>,
    rewrite: Option<Rewrite>,
) -> Option<String> {
    let bench = Bench::new([says("done")]);
    bench.on::<BeforePromptBuild>(hook_fn(move |event: &PromptBuildEvent, _| {
        let wrote = newer(event.system_prompt.as_deref().unwrap_or_default());
        Ok(wrote.map(|text| PromptBuildOutcome { system_prompt: Some(text.into()), ..Default::default() }))
    }));
    let older = hook_fn(|event: &PromptBuildEvent, _| {
        let seen = event.system_prompt.as_deref().unwrap_or_default();
        let clean = seen.replace("hunter2", "***");
        Ok((clean != seen).then(|| backstop_hooks::points::AgentStartOutcome {
            system_prompt: Some(clean.into()),
            ..Default::default()
        }))
    });
    let options = HookOptions { rewrite, ..HookOptions::new(OwnerId::operator()) };
    bench.engine.registry().on::<BeforeAgentStart>(older, options).unwrap();
    let session = bench.session().await;
    bench.say(&session, "go").await;
    bench.model.requests().first().map(|recorded| recorded.request.system_text().unwrap().to_string())
}

#[tokio::test]
async fn a_system_prompt_of_the_older_point_is_judged_by_the_newer_one_and_not_dropped() {
    let settled = |seen: &str| (!seen.contains("key:")).then_some("key: hunter2");
    assert_eq!(with_two_writers(settled, None).await.unwrap(), "key: ***", "nobody objects");
    let insists = |_: &str| Some("key: hunter2");
    assert_eq!(with_two_writers(insists, None).await.unwrap(), "key: hunter2", "a convenience gives way");
    assert_eq!(with_two_writers(insists, Some(Rewrite::Required)).await, None, "a necessity does not");
}
