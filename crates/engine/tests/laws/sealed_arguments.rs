//! The second judgement of a call, with the values of its placeholders in it: it may not come to anything that
//! was not approved.

use std::sync::Arc;

use backstop_engine::{
    Asker, Attendance, BlockCause, Engine, FailureKind, HookMode, HookOptions, Snapshot, ToolVerdict,
    Unsealer,
};
use backstop_hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop_hooks::{
    ApprovalRequest, CallContext, Decision, Ground, OwnerId, Params, Severity, Text, hook_fn,
};
use backstop_store::{ApprovalRecord, SqliteStore, Store};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{block_on, command, context, exec, params};

const PLACEHOLDER: &str = "{{secret:1}}";

/// Puts `value` in the place of the placeholder, wherever it stands.
#[derive(Debug)]
struct Values(String);

impl Values {
    fn fill(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = text.replace(PLACEHOLDER, &self.0),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.fill(field)),
            _ => {}
        }
    }
}

impl Unsealer for Values {
    fn unseal(&self, event: &ToolCallEvent, _: &CallContext) -> Option<Params> {
        let mut arguments = event.params.to_value();
        assert!(self.0 != "panic", "on purpose");
        self.fill(&mut arguments);
        (arguments != event.params.to_value()).then(|| params(arguments))
    }
}

struct Says(Decision);

impl Asker for Says {
    fn ask<'a>(&'a self, _: &'a ApprovalRecord) -> backstop_engine::AskFuture<'a> {
        Box::pin(std::future::ready(Some(self.0)))
    }

    fn name(&self) -> &str {
        "somebody"
    }
}

/// A toy guard. Commands are words and `;`: `net` wants a human, and so does `boot`; `halt` is stopped.
fn judged(command: &str) -> (bool, Vec<Ground>) {
    let processes = command.split(';').map(|process| process.split_whitespace().collect::<Vec<_>>());
    let processes: Vec<_> = processes.filter(|words| !words.is_empty()).collect();
    let is = |words: &[&str], name: &str| words.first() == Some(&name);
    let grounds =
        processes.iter().filter(|words| is(words, "net") || is(words, "boot")).map(|words| Ground {
            rule: format!("toy.{}", words.first().unwrap()).into(),
            about: words.iter().map(|word| Text::from(*word)).collect(),
        });
    (processes.iter().any(|words| is(words, "halt")), grounds.collect())
}

fn guard(engine: &Engine) {
    let hook = hook_fn::<BeforeToolCall, _>(|event, _| {
        let command = command(event);
        if command.contains("rewrite-me") {
            return Ok(Some(ToolCallOutcome::rewrite(params(serde_json::json!({ "command": "ls" })))));
        }
        let (stopped, grounds) = judged(&command);
        Ok(match (stopped, grounds.is_empty()) {
            (true, _) => Some(ToolCallOutcome::block("no")),
            (false, true) => None,
            // The text shows nothing of what differs: what counts is what it rests on.
            (false, false) => {
                Some(ToolCallOutcome::ask(ApprovalRequest::cut("look at this", "").grounds(grounds)))
            }
        })
    });
    engine.registry().on(hook, HookOptions::new(OwnerId::builtin()).id("toy")).unwrap();
}

fn with_value(value: &str) -> Engine {
    beside(Arc::new(SqliteStore::in_memory()), value)
}

/// The same, with answers in that store.
fn beside(store: Arc<dyn Store>, value: &str) -> Engine {
    let mut snapshot = Snapshot::empty(Default::default());
    snapshot.set_unsealer(Arc::new(Values(value.to_owned())));
    let engine = Engine::builder().snapshot(snapshot).store(store).build();
    guard(&engine);
    engine
}

async fn run(engine: &Engine, command: &str) -> ToolVerdict {
    engine
        .permit_tool_call(
            exec(command),
            &context(),
            &Attendance::Present(Arc::new(Says(Decision::AllowOnce))),
        )
        .await
}

fn cause(verdict: ToolVerdict) -> BlockCause {
    verdict.permit.unwrap_err().cause
}

#[tokio::test]
async fn using_the_network_does_not_approve_rebooting_the_machine() {
    let sealed = format!("net {PLACEHOLDER}");
    let planted = run(&with_value("; boot now"), &sealed).await;
    let receipt = serde_json::to_string(&planted.receipt).unwrap();
    assert!(receipt.contains("placeholder.changes-call") && !receipt.contains("now"), "{receipt}");
    assert_eq!(cause(planted), BlockCause::Decision);
    let permitted = run(&with_value("example.com"), &sealed).await.permit.unwrap();
    assert_eq!(command(&permitted), "net example.com", "what was approved runs");
}

#[tokio::test]
async fn the_same_rule_about_something_else_is_another_question() {
    for value in ["a; net evil.example", "one two", "; net"] {
        let verdict = run(&with_value(value), &format!("net {PLACEHOLDER}")).await;
        assert_eq!(cause(verdict), BlockCause::Decision, "{value}");
    }
}

/// With another value in its place it would be another call, so no answer outlives the call that it was given to.
#[tokio::test]
async fn a_call_with_a_placeholder_is_allowed_once_and_never_from_now_on() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let sealed = format!("net {PLACEHOLDER}");
    let asked = async |engine: &Engine, attendance: &Attendance| {
        engine.permit_tool_call(exec(&sealed), &context(), attendance).await.permit
    };
    let says = |decision| Attendance::Present(Arc::new(Says(decision)) as Arc<dyn Asker>);
    // Where it stands for nothing it is a word like any other.
    let plain = Engine::builder().store(Arc::clone(&store)).build();
    guard(&plain);
    asked(&plain, &says(Decision::AllowAlways)).await.unwrap();
    asked(&plain, &Attendance::Nobody).await.unwrap();
    let one = beside(Arc::clone(&store), "example.com");
    asked(&one, &Attendance::Nobody).await.unwrap_err();
    asked(&one, &says(Decision::AllowAlways)).await.unwrap_err();
    assert_eq!(store.grants(9).await.unwrap().len(), 1, "the one for the word");
    asked(&one, &says(Decision::AllowOnce)).await.unwrap();
    for value in ["example.com", "other.example"] {
        asked(&beside(Arc::clone(&store), value), &Attendance::Nobody).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_question_where_none_was_asked_is_a_block() {
    let verdict = run(&with_value("x; net a"), &format!("echo {PLACEHOLDER}")).await;
    assert_eq!(cause(verdict), BlockCause::Decision);
}

#[tokio::test]
async fn what_the_guards_stop_with_the_values_in_place_does_not_run() {
    let verdict = run(&with_value("x; halt"), &format!("echo {PLACEHOLDER}")).await;
    let blocked = verdict.permit.unwrap_err();
    assert_eq!((blocked.cause, blocked.hook), (BlockCause::Decision, Some("toy".into())));
    assert!(blocked.reason.unwrap().contains("placeholders"));
}

#[tokio::test]
async fn what_the_guards_rewrite_with_the_values_in_place_does_not_run() {
    let verdict = run(&with_value("rewrite-me"), &format!("echo {PLACEHOLDER}")).await;
    assert_eq!(cause(verdict), BlockCause::UnstableRewrite { writer: None });
}

#[tokio::test]
async fn values_that_can_not_be_put_in_are_a_block() {
    crate::model::quiet();
    let verdict = run(&with_value("panic"), &format!("echo {PLACEHOLDER}")).await;
    assert_eq!(cause(verdict), BlockCause::Failure { kind: FailureKind::Panicked });
}

#[tokio::test]
async fn a_graver_or_another_text_of_a_request_without_grounds_is_another_question() {
    let asks = |describe: fn(&str) -> ApprovalRequest, value: &'static str| async move {
        let mut snapshot = Snapshot::empty(Default::default());
        snapshot.set_unsealer(Arc::new(Values(value.to_owned())));
        let engine = Engine::builder().snapshot(snapshot).build();
        let hook = hook_fn::<BeforeToolCall, _>(move |event, _| {
            Ok(Some(ToolCallOutcome::ask(describe(&command(event)))))
        });
        engine.registry().on(hook, HookOptions::new(OwnerId::builtin()).id("words")).unwrap();
        run(&engine, &format!("say {PLACEHOLDER}")).await.permit.is_ok()
    };
    assert!(asks(|command| ApprovalRequest::cut("sure?", command), "hello").await);
    assert!(asks(|_| ApprovalRequest::cut("sure?", "always the same"), "hello").await);
    assert!(!asks(|command| ApprovalRequest::cut("sure?", &command.to_uppercase()), "hello").await);
    assert!(!asks(|command| ApprovalRequest::cut(&command.replace("{{", ""), ""), "hello").await);
    let grave = |command: &str| match command.contains("hello") {
        true => ApprovalRequest::cut("sure?", "").severity(Severity::Critical),
        false => ApprovalRequest::cut("sure?", ""),
    };
    assert!(!asks(grave, "hello").await);
}

/// What one guard was allowed is not what another one asks, also where both ask in the same words for the same rules.
#[tokio::test]
async fn the_same_question_of_another_hook_is_another_question() {
    for (sealed, open, is_same) in [("one", "one", true), ("one", "two", false)] {
        let engine = {
            let mut snapshot = Snapshot::empty(Default::default());
            snapshot.set_unsealer(Arc::new(Values("value".to_owned())));
            Engine::builder().snapshot(snapshot).build()
        };
        for id in ["one", "two"] {
            let hook = hook_fn::<BeforeToolCall, _>(move |event, _| {
                let asks = if command(event).contains(PLACEHOLDER) { sealed } else { open };
                let ground = Ground { rule: "toy.say".into(), about: vec!["say".into()] };
                let request = ApprovalRequest::cut("sure?", "").grounds([ground]);
                Ok((asks == id).then(|| ToolCallOutcome::ask(request)))
            });
            engine.registry().on(hook, HookOptions::new(OwnerId::builtin()).id(id)).unwrap();
        }
        let verdict = run(&engine, &format!("say {PLACEHOLDER}")).await;
        assert_eq!(verdict.permit.is_ok(), is_same, "asked by {sealed}, and then by {open}");
    }
}

/// They were derived from the placeholders, and so are not those of the call that runs.
#[tokio::test]
async fn the_call_with_its_values_has_no_paths_of_the_call_without_them() {
    let mut snapshot = Snapshot::empty(Default::default());
    snapshot.set_unsealer(Arc::new(Values("value".to_owned())));
    let engine = Engine::builder().snapshot(snapshot).build();
    let hook = hook_fn::<BeforeToolCall, _>(|event, _| {
        let stale = !command(event).contains(PLACEHOLDER) && event.derived_paths.is_some();
        Ok(stale.then(|| ToolCallOutcome::block("stale paths")))
    });
    engine.registry().on(hook, HookOptions::new(OwnerId::builtin()).id("paths")).unwrap();
    let mut event = exec(&format!("cat {PLACEHOLDER}"));
    event.derived_paths = Some(vec![PLACEHOLDER.to_owned()]);
    let verdict = engine.permit_tool_call(event, &context(), &Attendance::Nobody).await;
    assert_eq!(verdict.event.derived_paths.as_ref().map(Vec::len), Some(1));
    assert_eq!(verdict.permit.unwrap().derived_paths, None);
}

#[tokio::test]
async fn hooks_that_are_not_built_in_never_see_a_value() {
    let engine = with_value("the-value");
    let seen = Arc::new(std::sync::Mutex::new(String::new()));
    let log = Arc::clone(&seen);
    let watch = hook_fn::<BeforeToolCall, _>(move |event, _| {
        log.lock().unwrap().push_str(&command(event));
        Ok(None)
    });
    engine.registry().on(watch, HookOptions::new(OwnerId::new("plugin")).id("watch")).unwrap();
    run(&engine, &format!("net {PLACEHOLDER}")).await.permit.unwrap();
    assert!(!seen.lock().unwrap().contains("the-value"));
}

#[tokio::test]
async fn a_hook_in_shadow_never_sees_a_value() {
    let engine = with_value("the-value");
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let watch = hook_fn::<BeforeToolCall, _>(move |event, _| {
        log.lock().unwrap().push(command(event));
        Ok(None)
    });
    let options = HookOptions::new(OwnerId::builtin()).id("watch").mode(HookMode::Shadow);
    engine.registry().on(watch, options).unwrap();
    run(&engine, &format!("net {PLACEHOLDER}")).await.permit.unwrap();
    assert_eq!(*seen.lock().unwrap(), [format!("net {PLACEHOLDER}")]);
}

fn filled(grounds: &[Ground], value: &str) -> Vec<Ground> {
    let word = |word: &Text| Text::from(word.replace(PLACEHOLDER, value));
    let fill = |ground: &Ground| Ground {
        rule: ground.rule.clone(),
        about: ground.about.iter().map(word).collect(),
    };
    grounds.iter().map(fill).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// The relation: a value runs only if the judgement of the call with it is the judgement of the call with its
    /// placeholder, read with the value in its place.
    #[test]
    fn law_04_a_planted_value_whose_judgement_differs_from_its_placeholders_never_runs(
        before in prop::collection::vec(prop::sample::select(vec!["net", "boot", "echo", "a", ";"]), 0..4),
        after in prop::collection::vec(prop::sample::select(vec!["net", "b", ";"]), 0..3),
        value in prop::collection::vec(prop::sample::select(vec!["net", "boot", "halt", "x", ";", " ", ""]), 0..5),
        glue in prop::sample::select(vec!["", " "]),
    ) {
        let value = value.join(glue);
        let sealed = format!("{} {PLACEHOLDER} {}", before.join(" "), after.join(" "));
        let open = sealed.replace(PLACEHOLDER, &value);
        let (stopped_sealed, grounds) = judged(&sealed);
        let (stopped, asks) = judged(&open);
        let allowed = filled(&grounds, &value);
        let same = !stopped_sealed && !stopped && asks.iter().all(|ask| allowed.contains(ask));
        let verdict = block_on(run(&with_value(&value), &sealed));
        prop_assert_eq!(verdict.permit.is_ok(), same, "{} with {:?}", sealed, value);
    }
}
