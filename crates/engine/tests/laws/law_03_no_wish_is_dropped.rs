//! Whatever hooks there are, what reaches the model, the tool and the user is acceptable to each of them. A rewrite
//! that is not taken would be consent, so it ends the call, unless its author said that it is optional.

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{Attendance, BlockCause, DecidedParts, Engine, HookOptions, Rewrite, Said};
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{
    AgentStartOutcome, BeforeAgentStart, BeforeLlmCall, BeforeLlmCallOutcome, BeforeMessageWrite,
    BeforePromptBuild, BeforeResponseEmit, BeforeToolCall, MessageWriteEvent, MessageWriteOutcome,
    PromptBuildEvent, PromptBuildOutcome, ResponseEmitEvent, ResponseEmitOutcome, ToolBefore,
    ToolBeforeOutcome, ToolCallOutcome, TrustedPolicyOutcome, TrustedToolPolicy,
};
use backstop_hooks::{ApprovalRequest, DecidePoint, Hook, Severity, TimeoutBehavior, hook_fn};
use backstop_store::ApprovalFilter;
use proptest::prelude::*;
use serde_json::json;

use crate::law_04_what_was_judged_is_what_runs::llm_call;
use crate::support::{block_on, command, context, engine, exec, on, options, params};

/// What a hook thinks of a value, which is a text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// It must not hold the letter.
    BlockIf(char),
    /// It must not hold the letter, which is taken out.
    Strip(char),
    /// It must hold the letter, which is put in.
    Add(char),
    /// It must be exactly this.
    Be(&'static str),
    /// A human must agree if it holds the letter.
    AskIf(char, Severity, TimeoutBehavior, u64),
}

#[derive(Clone, Copy, Debug)]
struct Spec {
    rule: Rule,
    optional: bool,
    priority: i32,
    stage: usize,
}

/// What a hook wants done with a value.
enum Wish {
    Nothing,
    Block,
    Write(String),
    Ask(ApprovalRequest),
}

impl Rule {
    fn wish(self, value: &str) -> Wish {
        match self {
            Self::BlockIf(letter) if value.contains(letter) => Wish::Block,
            Self::Strip(letter) if value.contains(letter) => Wish::Write(value.replace(letter, "")),
            Self::Add(letter) if !value.contains(letter) => Wish::Write(format!("{value}{letter}")),
            Self::Be(text) if value != text => Wish::Write(text.to_owned()),
            Self::AskIf(letter, severity, behavior, seconds) if value.contains(letter) => {
                let request = ApprovalRequest::cut("sure?", "").severity(severity);
                Wish::Ask(request.timeout(Duration::from_secs(seconds), behavior).unwrap())
            }
            _ => Wish::Nothing,
        }
    }

    /// Whether the hook has nothing against the value; whom it would ask is not looked at.
    fn accepts(self, value: &str) -> bool {
        matches!(self.wish(value), Wish::Nothing | Wish::Ask(_))
    }
}

fn specs(with_asks: bool) -> impl Strategy<Value = Vec<Spec>> {
    let letter = || prop::sample::select(vec!['a', 'b', 'c', 'x']);
    let severity = prop::sample::select(vec![Severity::Info, Severity::Warning, Severity::Critical]);
    let silence = prop::sample::select(vec![TimeoutBehavior::Allow, TimeoutBehavior::Deny]);
    let ask = (letter(), severity, silence, 5_u64..60).prop_map(|(l, s, b, t)| Rule::AskIf(l, s, b, t));
    let rule = prop_oneof![
        2 => letter().prop_map(Rule::BlockIf),
        3 => letter().prop_map(Rule::Strip),
        3 => letter().prop_map(Rule::Add),
        1 => prop::sample::select(vec!["x", "ab", "c"]).prop_map(Rule::Be),
        (if with_asks { 3 } else { 0 }) => ask,
    ];
    let spec = (rule, any::<bool>(), -2..3, 0_usize..3).prop_map(|(rule, optional, priority, stage)| Spec {
        rule,
        optional,
        priority,
        stage,
    });
    prop::collection::vec(spec, 0..7)
}

fn how(index: usize, spec: Spec) -> HookOptions {
    let rewrite = if spec.optional { Rewrite::Optional } else { Rewrite::Required };
    options(&index.to_string(), spec.priority).rewrite(rewrite)
}

/// A hook at a point: `read` gets the text out of the event, `write` makes an outcome of what is wanted.
fn hook<P: DecidePoint>(
    rule: Rule,
    read: impl Fn(&P::Event) -> String + Send + Sync + 'static,
    write: impl Fn(Wish) -> Option<P::Outcome> + Send + Sync + 'static,
) -> Arc<dyn Hook<P>> {
    hook_fn::<P, _>(move |event, _| Ok(write(rule.wish(&read(event)))))
}

/// Everybody who was asked accepts the value, an optional rewrite left aside.
fn assert_accepted(specs: &[Spec], value: &str) -> Result<(), TestCaseError> {
    for spec in specs {
        let rewrites = matches!(spec.rule, Rule::Strip(_) | Rule::Add(_) | Rule::Be(_));
        prop_assert!(
            spec.rule.accepts(value) || (spec.optional && rewrites),
            "{:?} does not accept {:?}",
            spec,
            value
        );
    }
    Ok(())
}

/// Puts the hooks at one point and sends `x` past them. Returns what comes out, if anything does.
fn through<P: DecidePoint>(
    specs: &[Spec],
    event: P::Event,
    read: impl Fn(&P::Event) -> String + Send + Sync + Clone + 'static,
    write: impl Fn(Wish) -> Option<P::Outcome> + Send + Sync + Clone + 'static,
) -> Option<String> {
    let engine = engine();
    for (index, spec) in specs.iter().enumerate() {
        let hook = hook::<P>(spec.rule, read.clone(), write.clone());
        engine.registry().on::<P>(hook, how(index, *spec)).unwrap();
    }
    let DecidedParts { event, blocked, .. } = block_on(engine.decide::<P>(event, &context())).into_parts();
    blocked.is_none().then(|| read(&event))
}

fn emit(text: &str) -> ResponseEmitEvent {
    ResponseEmitEvent {
        run_id: None,
        content: text.into(),
        all_content: vec!["earlier".into(), text.into()],
        channel: None,
        message_count: 2,
    }
}

fn tool_stage(engine: &Engine, index: usize, spec: Spec) {
    let options = how(index, spec);
    let args = |text: String| params(json!({ "command": text }));
    let registered = match spec.stage {
        0 => engine.registry().on(
            hook::<TrustedToolPolicy>(spec.rule, command, move |wish| {
                let none = TrustedPolicyOutcome::default();
                match wish {
                    Wish::Nothing => None,
                    Wish::Block => Some(TrustedPolicyOutcome { block: Some(true), ..none }),
                    Wish::Write(text) => Some(TrustedPolicyOutcome { params: Some(args(text)), ..none }),
                    Wish::Ask(request) => {
                        Some(TrustedPolicyOutcome { require_approval: Some(request.into()), ..none })
                    }
                }
            }),
            options,
        ),
        // Interceptors have no way to ask.
        1 if !matches!(spec.rule, Rule::AskIf(..)) => {
            let read = |event: &backstop_hooks::points::ToolBeforeEvent| {
                event.args.get("command").and_then(|text| text.as_str()).unwrap_or_default().to_owned()
            };
            let write = move |wish| match wish {
                Wish::Nothing | Wish::Ask(_) => None,
                Wish::Block => Some(ToolBeforeOutcome { block: Some(true), ..Default::default() }),
                Wish::Write(text) => Some(ToolBeforeOutcome { args: Some(args(text)), ..Default::default() }),
            };
            engine.registry().on(hook::<ToolBefore>(spec.rule, read, write), options)
        }
        _ => engine.registry().on(
            hook::<BeforeToolCall>(spec.rule, command, move |wish| match wish {
                Wish::Nothing => None,
                Wish::Block => Some(ToolCallOutcome::block("no")),
                Wish::Write(text) => Some(ToolCallOutcome::rewrite(args(text))),
                Wish::Ask(request) => Some(ToolCallOutcome::ask(request)),
            }),
            options,
        ),
    };
    registered.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn law_03_what_reaches_the_tool_is_acceptable_to_every_hook(specs in specs(true)) {
        let engine = engine();
        for (index, spec) in specs.iter().enumerate() {
            tool_stage(&engine, index, *spec);
        }
        let reviewed = block_on(engine.review_tool_call(exec("x"), &context(), false));
        if reviewed.blocked.is_some() {
            return Ok(());
        }
        let value = command(&reviewed.event);
        assert_accepted(&specs, &value)?;
        let asking: Vec<_> = specs
            .iter()
            .filter_map(|spec| match spec.rule {
                Rule::AskIf(letter, severity, silence, seconds) if value.contains(letter) => {
                    Some((severity, silence, seconds))
                }
                _ => None,
            })
            .collect();
        prop_assert!(reviewed.requests.len() >= asking.len(), "a question was dropped");
        if asking.is_empty() {
            return Ok(());
        }
        block_on(engine.permit_tool_call(exec("x"), &context(), &Attendance::Nobody));
        let row = block_on(engine.store().approvals(ApprovalFilter::All, 2)).unwrap().remove(0).request;
        let patience = row.expires_at.as_millis() - row.created_at.as_millis();
        for (severity, silence, seconds) in asking {
            prop_assert!(row.severity >= severity);
            prop_assert!(silence == TimeoutBehavior::Allow || row.timeout_behavior == TimeoutBehavior::Deny);
            let most = i64::try_from(seconds).unwrap() * 1000;
            prop_assert!(row.timeout_behavior == TimeoutBehavior::Allow || patience <= most);
        }
    }

    #[test]
    fn law_03_what_reaches_the_model_is_acceptable_to_every_hook(specs in specs(false)) {
        let read = |event: &backstop_hooks::points::BeforeLlmCallEvent| {
            event.messages.iter().map(Message::visible_text).collect::<String>()
        };
        let write = |wish| match wish {
            Wish::Nothing | Wish::Ask(_) => None,
            Wish::Block => Some(BeforeLlmCallOutcome { block: Some(true), ..Default::default() }),
            Wish::Write(text) => {
                Some(BeforeLlmCallOutcome { messages: Some(vec![Message::user(text)]), ..Default::default() })
            }
        };
        if let Some(value) = through::<BeforeLlmCall>(&specs, llm_call("x"), read, write) {
            assert_accepted(&specs, &value)?;
        }
    }

    #[test]
    fn law_03_what_reaches_the_user_is_acceptable_to_every_hook(specs in specs(false), all in any::<bool>()) {
        let read = |event: &ResponseEmitEvent| event.content.to_string();
        let write = move |wish| match wish {
            Wish::Nothing | Wish::Ask(_) => None,
            Wish::Block => Some(ResponseEmitOutcome { block: Some(true), ..Default::default() }),
            Wish::Write(text) if all => Some(ResponseEmitOutcome {
                all_content: Some(vec!["earlier".into(), text.into()]),
                ..Default::default()
            }),
            Wish::Write(text) => Some(ResponseEmitOutcome { content: Some(text.into()), ..Default::default() }),
        };
        if let Some(value) = through::<BeforeResponseEmit>(&specs, emit("x"), read, write) {
            assert_accepted(&specs, &value)?;
        }
    }

    #[test]
    fn law_03_what_is_stored_is_acceptable_to_every_hook(specs in specs(false)) {
        let read = |event: &MessageWriteEvent| event.message.visible_text();
        let write = |wish| match wish {
            Wish::Nothing | Wish::Ask(_) => None,
            Wish::Block => Some(MessageWriteOutcome { block: Some(true), ..Default::default() }),
            Wish::Write(text) => {
                Some(MessageWriteOutcome { message: Some(Message::user(text)), ..Default::default() })
            }
        };
        let event = MessageWriteEvent::new(Message::user("x"));
        if let Some(value) = through::<BeforeMessageWrite>(&specs, event, read, write) {
            assert_accepted(&specs, &value)?;
        }
    }
}

fn says(text: &'static str) -> Arc<dyn Hook<BeforeLlmCall>> {
    hook_fn::<BeforeLlmCall, _>(move |_, _| {
        let messages = Some(vec![Message::user(text)]);
        Ok(Some(BeforeLlmCallOutcome { messages, ..Default::default() }))
    })
}

fn redacts_messages() -> Arc<dyn Hook<BeforeLlmCall>> {
    hook_fn::<BeforeLlmCall, _>(|event, _| {
        let clean = |message: &Message| Message::user(message.visible_text().replace("hunter2", "***"));
        let messages: Vec<_> = event.messages.iter().map(clean).collect();
        let outcome = || BeforeLlmCallOutcome { messages: Some(messages.clone()), ..Default::default() };
        Ok((messages != event.messages).then(outcome))
    })
}

#[tokio::test]
async fn law_03_a_harmless_hook_in_front_of_the_redactor_does_not_silence_it_at_before_llm_call() {
    let engine = engine();
    on(
        &engine,
        "greets",
        9,
        hook_fn::<BeforeLlmCall, _>(|event, _| {
            let greeted = event.messages.iter().any(|message| message.visible_text() == "hello");
            let mut messages = event.messages.clone();
            messages.push(Message::user("hello"));
            Ok((!greeted).then(|| BeforeLlmCallOutcome { messages: Some(messages), ..Default::default() }))
        }),
    );
    on(&engine, "redactor", 0, redacts_messages());
    let decided = engine.decide::<BeforeLlmCall>(llm_call("my hunter2"), &context()).await.into_parts();
    assert_eq!(decided.blocked, None);
    assert_eq!(decided.event.messages, [Message::user("my ***"), Message::user("hello")]);
}

#[tokio::test]
async fn law_03_a_harmless_hook_in_front_of_the_redactor_does_not_silence_it_at_before_response_emit() {
    let engine = engine();
    on(
        &engine,
        "signs",
        9,
        hook_fn::<BeforeResponseEmit, _>(|event, _| {
            let signed = (!event.content.ends_with('!')).then(|| format!("{}!", event.content));
            Ok(signed.map(|text| ResponseEmitOutcome { content: Some(text.into()), ..Default::default() }))
        }),
    );
    on(
        &engine,
        "redactor",
        0,
        hook_fn::<BeforeResponseEmit, _>(|event, _| {
            let clean: Vec<_> =
                event.all_content.iter().map(|text| text.replace("hunter2", "***").into()).collect();
            let outcome = || ResponseEmitOutcome { all_content: Some(clean.clone()), ..Default::default() };
            Ok((clean != event.all_content).then(outcome))
        }),
    );
    let decided = engine.decide::<BeforeResponseEmit>(emit("my hunter2"), &context()).await.into_parts();
    assert_eq!(decided.blocked, None);
    assert_eq!(decided.event.content, "my ***!");
    assert_eq!(decided.event.all_content, ["earlier", "my ***!"]);
}

#[tokio::test]
async fn law_03_a_sanitised_command_is_what_a_human_is_asked_about_and_what_runs() {
    let engine = engine();
    on(
        &engine,
        "asks",
        9,
        hook_fn::<BeforeToolCall, _>(|_, _| {
            Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", ""))))
        }),
    );
    on(
        &engine,
        "sanitises",
        0,
        hook_fn::<BeforeToolCall, _>(|event, _| {
            let clean = command(event).replace(" --force", "");
            let rewrite = || ToolCallOutcome::rewrite(params(json!({ "command": clean.clone() })));
            Ok((clean != command(event)).then(rewrite))
        }),
    );
    let asked = engine.permit_tool_call(exec("push --force"), &context(), &Attendance::Nobody).await;
    assert!(asked.permit.is_err());
    let row = engine.store().approvals(ApprovalFilter::All, 2).await.unwrap().remove(0).request;
    assert_eq!(row.digest, backstop_engine::tool_call_digest(&exec("push")));
    assert_eq!(command(&asked.event), "push");
}

#[tokio::test]
async fn law_03_a_lenient_request_of_a_trusted_policy_does_not_soften_a_strict_one() {
    let engine = engine();
    for (id, priority, silence) in
        [("lenient", 9, TimeoutBehavior::Allow), ("strict", 0, TimeoutBehavior::Deny)]
    {
        on(
            &engine,
            id,
            priority,
            hook_fn::<TrustedToolPolicy, _>(move |_, _| {
                let request = ApprovalRequest::cut(id, "").timeout(Duration::from_secs(9), silence).unwrap();
                Ok(Some(TrustedPolicyOutcome {
                    require_approval: Some(request.into()),
                    ..Default::default()
                }))
            }),
        );
    }
    engine.permit_tool_call(exec("ls"), &context(), &Attendance::Nobody).await;
    let row = engine.store().approvals(ApprovalFilter::All, 2).await.unwrap().remove(0).request;
    assert_eq!(row.timeout_behavior, TimeoutBehavior::Deny);
    assert_eq!(row.reasons.len(), 2, "every reason is shown");
}

#[tokio::test]
async fn law_03_two_required_rewrites_that_exclude_each_other_end_the_call_and_are_both_named() {
    let engine = engine();
    on(&engine, "first", 9, says("first"));
    on(&engine, "second", 5, says("second"));
    let blocked =
        engine.decide::<BeforeLlmCall>(llm_call("x"), &context()).await.into_parts().blocked.unwrap();
    assert_eq!(blocked.cause, BlockCause::UnstableRewrite { writer: Some("second".into()) });
    let reason = blocked.reason.unwrap();
    assert!(reason.contains("`first`") && reason.contains("`second`"), "{}", reason.as_str());
}

#[tokio::test]
async fn law_03_an_optional_rewrite_gives_way_to_a_hook_before_it_and_the_receipt_says_so() {
    let engine = engine();
    on(&engine, "redactor", 9, redacts_messages());
    let optional = options("utility", 0).rewrite(Rewrite::Optional);
    engine.registry().on::<BeforeLlmCall>(says("hunter2"), optional).unwrap();
    let decided = engine.decide::<BeforeLlmCall>(llm_call("hi"), &context()).await.into_parts();
    assert_eq!(decided.blocked, None);
    assert_eq!(decided.event.messages, [Message::user("hi")]);
    assert_eq!(decided.outcome.messages, None);
    let heard = decided.receipt.steps.iter().find(|step| step.proposal_of.is_some()).unwrap();
    assert_eq!((heard.hook.id.as_str(), heard.said), ("redactor", Said::Rewrote));
    let utility = decided.receipt.steps.iter().find(|step| step.hook.id.as_str() == "utility").unwrap();
    assert_eq!(utility.refused, ["messages"]);
    assert_eq!(utility.yielded_to, Some("redactor".into()));
    let json = serde_json::to_value(&decided.receipt).unwrap();
    assert!(json["steps"].as_array().unwrap().iter().any(|step| step["yieldedTo"] == "redactor"), "{json}");
}

#[tokio::test]
async fn law_03_an_optional_rewrite_to_which_nobody_objects_is_taken_and_judged_once() {
    let engine = engine();
    on(&engine, "redactor", 9, redacts_messages());
    let optional = options("utility", 0).rewrite(Rewrite::Optional);
    engine.registry().on::<BeforeLlmCall>(says("hello"), optional).unwrap();
    let decided = engine.decide::<BeforeLlmCall>(llm_call("hi"), &context()).await.into_parts();
    assert_eq!(decided.event.messages, [Message::user("hello")]);
    let asked: Vec<_> = decided.receipt.steps.iter().map(|step| step.hook.id.as_str()).collect();
    assert_eq!(asked, ["redactor", "redactor", "utility"], "one judgement per version of the value");
}

#[tokio::test]
async fn law_03_a_gate_is_never_optional() {
    let engine = engine();
    let optional = || options("gate", 0).rewrite(Rewrite::Optional);
    let blocks = hook_fn::<BeforeToolCall, _>(|_, _| {
        let outcome = ToolCallOutcome {
            params: Some(params(json!({ "command": "y" }))),
            ..ToolCallOutcome::block("no")
        };
        Ok(Some(outcome))
    });
    on(&engine, "be-x", 9, hook::<BeforeToolCall>(Rule::Be("x"), command, |_| None));
    engine.registry().on(blocks, optional()).unwrap();
    let reviewed = engine.review_tool_call(exec("x"), &context(), false).await;
    assert_eq!(reviewed.blocked.unwrap().reason.unwrap(), "no");
    assert!(
        reviewed.receipt.steps.iter().all(|step| step.proposal_of.is_none()),
        "nobody is asked about the arguments of a call that does not run"
    );

    let engine = self::engine();
    on(
        &engine,
        "objects",
        9,
        hook_fn::<BeforeToolCall, _>(|event, _| {
            Ok((command(event) == "y").then(|| ToolCallOutcome::block("not y")))
        }),
    );
    let asks = hook_fn::<BeforeToolCall, _>(|_, _| {
        let ask = ToolCallOutcome::ask(ApprovalRequest::cut("sure?", ""));
        Ok(Some(ToolCallOutcome { params: Some(params(json!({ "command": "y" }))), ..ask }))
    });
    engine.registry().on(asks, optional()).unwrap();
    let reviewed = engine.review_tool_call(exec("x"), &context(), false).await;
    assert!(reviewed.blocked.is_none());
    assert_eq!(command(&reviewed.event), "x", "the rewrite gives way");
    assert_eq!(reviewed.requests.len(), 1, "the question does not");
}

#[tokio::test]
async fn law_03_an_optional_rewrite_gives_way_to_the_gates_of_every_point_before_it() {
    let engine = engine();
    on(
        &engine,
        "policy",
        0,
        hook_fn::<TrustedToolPolicy, _>(|event, _| {
            let block = || TrustedPolicyOutcome { block: Some(true), ..Default::default() };
            Ok((command(event) == "y").then(block))
        }),
    );
    let utility = hook_fn::<BeforeToolCall, _>(|_, _| {
        Ok(Some(ToolCallOutcome::rewrite(params(json!({ "command": "y" })))))
    });
    engine.registry().on(utility, options("utility", 99).rewrite(Rewrite::Optional)).unwrap();
    let reviewed = engine.review_tool_call(exec("x"), &context(), false).await;
    assert!(reviewed.blocked.is_none());
    assert_eq!(command(&reviewed.event), "x");
}

#[tokio::test]
async fn law_03_a_failure_to_judge_an_optional_rewrite_is_an_objection() {
    let engine = engine();
    on(
        &engine,
        "fragile",
        9,
        hook_fn::<BeforeLlmCall, _>(|event, _| match event.messages[0].visible_text().as_str() {
            "hi" => Ok(None),
            _ => Err(backstop_hooks::HookError::failed("no")),
        }),
    );
    engine
        .registry()
        .on::<BeforeLlmCall>(says("hello"), options("utility", 0).rewrite(Rewrite::Optional))
        .unwrap();
    let decided = engine.decide::<BeforeLlmCall>(llm_call("hi"), &context()).await.into_parts();
    assert_eq!(decided.blocked, None);
    assert_eq!(decided.event.messages, [Message::user("hi")]);
}

pub(crate) fn prompt_event() -> PromptBuildEvent {
    PromptBuildEvent {
        prompt: "p".into(),
        messages: vec![],
        current_user_message: None,
        system_prompt: Some("configured".into()),
    }
}

#[tokio::test]
async fn law_03_where_failing_is_passing_rewrites_are_optional_unless_a_hook_says_otherwise() {
    let write = |text: &'static str| {
        hook_fn::<BeforePromptBuild, _>(move |event, _| {
            let context = Some(format!("seen {}", event.system_prompt.as_deref().unwrap_or_default()).into());
            let outcome = PromptBuildOutcome {
                system_prompt: Some(text.into()),
                prepend_context: context,
                ..Default::default()
            };
            Ok(Some(outcome))
        })
    };
    let engine = engine();
    on(&engine, "first", 9, write("first"));
    on(&engine, "second", 5, write("second"));
    let decided = engine.decide::<BeforePromptBuild>(prompt_event(), &context()).await.into_parts();
    assert_eq!(decided.blocked, None);
    assert_eq!(decided.event.system_prompt.unwrap(), "first");
    assert_eq!(decided.outcome.system_prompt.unwrap(), "first");
    assert_eq!(decided.outcome.prepend_context.unwrap(), "seen configured\n\nseen first", "said once each");

    let engine = self::engine();
    on(&engine, "first", 9, write("first"));
    engine
        .registry()
        .on::<BeforePromptBuild>(write("second"), options("second", 5).rewrite(Rewrite::Required))
        .unwrap();
    let decided = engine.decide::<BeforePromptBuild>(prompt_event(), &context()).await.into_parts();
    assert_eq!(decided.blocked, None);
    let gave_way: Vec<_> = decided
        .receipt
        .steps
        .iter()
        .filter_map(|step| step.yielded_to.as_ref())
        .map(backstop_hooks::HookId::as_str)
        .collect();
    assert_eq!(gave_way, ["second"]);
    assert_eq!(
        decided.event.system_prompt.unwrap(),
        "second",
        "the first one is optional itself, and gives way"
    );

    let engine = self::engine();
    on(
        &engine,
        "old",
        0,
        hook_fn::<BeforeAgentStart, _>(|_, _| {
            Ok(Some(AgentStartOutcome { system_prompt: Some("old".into()), ..Default::default() }))
        }),
    );
    let decided = engine.decide::<BeforeAgentStart>(prompt_event(), &context()).await.into_parts();
    assert_eq!(decided.event.system_prompt.unwrap(), "old");
}
