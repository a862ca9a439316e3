//! Verdict hooks approve, deny or modify a call, and are told how it went.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::{
    Engine, FailureKind, HookOptions, HookVerdict, OperatorSettings, Said, Snapshot, Style, Verdict,
    VerdictCall, VerdictHook, VerdictSet, VerdictTypeError, VerdictTypes, register_verdict_hook,
};
use backstop_hooks::conversation::ToolResult;
use backstop_hooks::points::{AfterToolCall, AfterToolCallEvent, BeforeToolCall};
use backstop_hooks::{HookError, Malformed, OwnerId};
use serde_json::json;

use crate::{Notes, command, context, note, params, permit, taken};

/// What a hook of the tests does.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Approves,
    Denies,
    Appends(&'static str),
    Fails,
    Panics,
    Hangs,
}

struct Scripted {
    name: &'static str,
    notes: Notes,
    setup: Does,
    pre: Does,
    post: Does,
}

fn scripted(name: &'static str, notes: &Notes, pre: Does) -> Scripted {
    Scripted { name, notes: Arc::clone(notes), setup: Does::Approves, pre, post: Does::Approves }
}

impl Scripted {
    async fn act(&self, does: Does, call: Option<VerdictCall<'_>>) -> Result<HookVerdict, HookError> {
        match does {
            Does::Approves => Ok(HookVerdict::Approve),
            Does::Denies => Ok(HookVerdict::Deny { reasoning: Some("no".into()) }),
            Does::Appends(more) => Ok(HookVerdict::Modify {
                modified_arguments: params(json!({
                    "command": format!("{}{more}", call.map(|call| command(call.arguments)).unwrap_or_default())
                })),
            }),
            Does::Fails => Err(HookError::failed("broken")),
            Does::Panics => panic!("on purpose"),
            Does::Hangs => std::future::pending().await,
        }
    }
}

#[async_trait]
impl VerdictHook for Scripted {
    async fn setup(&self) -> Result<(), HookError> {
        note(&self.notes, format!("{} up", self.name));
        self.act(self.setup, None).await.map(drop)
    }

    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        note(&self.notes, format!("{} {} {}", self.name, call.tool_name, command(call.arguments)));
        assert_eq!(call.session_id.unwrap().as_str(), "session-1");
        if matches!(self.pre, Does::Appends(more) if command(call.arguments).contains(more)) {
            return Ok(HookVerdict::Approve);
        }
        self.act(self.pre, Some(call)).await
    }

    async fn post_call(&self, call: VerdictCall<'_>, result: Option<&ToolResult>) -> Result<(), HookError> {
        note(&self.notes, format!("{} after {} {}", self.name, call.tool_name, result.is_some()));
        self.act(self.post, Some(call)).await.map(drop)
    }

    fn watches(&self) -> bool {
        true
    }

    async fn teardown(&self) {
        note(&self.notes, format!("{} down", self.name));
    }
}

fn options(id: &str) -> HookOptions {
    HookOptions::new(OwnerId::operator()).id(id).configured()
}

fn engine(hooks: Vec<Scripted>) -> Engine {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    for hook in hooks {
        let id = hook.name;
        register_verdict_hook(&mut snapshot, &(Arc::new(hook) as Arc<dyn VerdictHook>), options(id)).unwrap();
    }
    Engine::builder().snapshot(snapshot).build()
}

#[tokio::test]
async fn hooks_run_in_their_order_and_the_first_deny_ends_it() {
    let notes = Notes::default();
    let engine = engine(vec![
        scripted("a", &notes, Does::Approves),
        scripted("b", &notes, Does::Denies),
        scripted("c", &notes, Does::Approves),
    ]);
    let blocked = permit(&engine, "exec", "ls").await.permit.unwrap_err();
    assert_eq!(blocked.reason.unwrap(), "no");
    assert_eq!(blocked.hook.unwrap().as_str(), "b");
    assert_eq!(taken(&notes), ["a exec ls", "b exec ls"]);
}

#[tokio::test]
async fn modified_arguments_reach_the_next_hook_and_the_tool() {
    let notes = Notes::default();
    let engine = engine(vec![
        scripted("a", &notes, Does::Appends(" -l")),
        scripted("b", &notes, Does::Appends(" -h")),
        scripted("c", &notes, Does::Approves),
    ]);
    let permit = permit(&engine, "exec", "ls").await.permit.unwrap();
    assert_eq!(command(&permit.params), "ls -l -h");
    assert_eq!(taken(&notes)[..3], ["a exec ls", "b exec ls -l", "c exec ls -l -h"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_denies() {
    let kinds = [
        (Does::Fails, FailureKind::Failed),
        (Does::Panics, FailureKind::Panicked),
        (Does::Hangs, FailureKind::TimedOut),
    ];
    for (does, kind) in kinds {
        let engine = engine(vec![scripted("a", &Notes::default(), does)]);
        let verdict = permit(&engine, "exec", "ls").await;
        assert!(verdict.permit.is_err());
        assert_eq!(verdict.receipt.steps[0].failure.as_ref().unwrap().kind, kind);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_after_the_call_never_propagate() {
    let event = AfterToolCallEvent::new("exec", params(json!({ "command": "ls" })), 1)
        .error(backstop_hooks::Text::from("it failed"));
    for post in [Does::Fails, Does::Panics, Does::Hangs] {
        let notes = Notes::default();
        let broken = Scripted { post, ..scripted("broken", &notes, Does::Approves) };
        let engine = engine(vec![broken, scripted("fine", &notes, Does::Approves)]);
        let start = tokio::time::Instant::now();
        let receipt = engine.observe::<AfterToolCall>(&event, &context("main")).await;
        assert!(start.elapsed() <= Duration::from_millis(5_100), "a notification has 5 s");
        assert_eq!(receipt.verdict, Verdict::Observed);
        assert_eq!((receipt.steps[0].said, receipt.steps[1].said), (Said::Failed, Said::Nothing));
        assert_eq!(taken(&notes), ["broken after exec false", "fine after exec false"]);
    }
}

#[tokio::test]
async fn without_hooks_every_call_passes_and_nothing_is_asked() {
    let engine = engine(vec![]);
    assert!(!engine.has_hooks::<BeforeToolCall>());
    let verdict = permit(&engine, "exec", "ls").await;
    assert!(verdict.receipt.steps.is_empty());
    assert_eq!(command(&verdict.permit.unwrap().params), "ls");
}

#[test]
fn both_halves_are_listed_as_verdict_hooks() {
    let engine = engine(vec![scripted("a", &Notes::default(), Does::Approves)]);
    let listed: Vec<_> = engine
        .registry()
        .list()
        .iter()
        .map(|meta| (meta.id.to_string(), meta.point.name(), meta.style))
        .collect();
    assert_eq!(
        listed,
        [
            ("a".to_owned(), "before_tool_call", Style::Verdict),
            ("a:post".to_owned(), "after_tool_call", Style::Verdict),
        ]
    );
}

#[test]
fn types_are_found_by_name_or_refused_with_the_names_there_are() {
    let mut types = VerdictTypes::default();
    types.register("passthrough", |_| Ok(Arc::new(scripted("p", &Notes::default(), Does::Approves))));
    types.register("picky", |config| match config.get("url") {
        Some(_) => Ok(Arc::new(scripted("p", &Notes::default(), Does::Approves))),
        None => Err(Malformed::new("`url` is missing")),
    });
    assert!(types.build("passthrough", &json!({})).is_ok());
    let unknown = types.build("passtrough", &json!({})).err().unwrap();
    assert_eq!(unknown.to_string(), "unknown hook type `passtrough`\nhint: known types: passthrough, picky");
    let refused = types.build("picky", &json!({})).err().unwrap();
    assert!(matches!(&refused, VerdictTypeError::Config { name, .. } if name == "picky"));
    assert!(refused.to_string().contains("`url` is missing"));
}

fn set(hooks: Vec<Scripted>) -> (VerdictSet, Snapshot) {
    let (mut set, mut snapshot) = (VerdictSet::default(), Snapshot::empty(OperatorSettings::default()));
    for hook in hooks {
        let id = hook.name;
        set.register(&mut snapshot, &(Arc::new(hook) as Arc<dyn VerdictHook>), options(id)).unwrap();
    }
    (set, snapshot)
}

#[tokio::test]
async fn hooks_are_set_up_in_order_and_torn_down_once_in_reverse() {
    let notes = Notes::default();
    let (set, snapshot) =
        set(vec![scripted("a", &notes, Does::Approves), scripted("b", &notes, Does::Approves)]);
    let running = set.start().await.unwrap();
    assert_eq!(taken(&notes), ["a up", "b up"]);
    assert_eq!(snapshot.iter().count(), 4);
    running.stop().await;
    assert_eq!(taken(&notes), ["b down", "a down"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_can_not_be_set_up_keeps_the_configuration_from_loading() {
    for (setup, said) in
        [(Does::Fails, "broken"), (Does::Panics, "panicked"), (Does::Hangs, "not done within 30 s")]
    {
        let notes = Notes::default();
        let bad = Scripted { setup, ..scripted("bad", &notes, Does::Approves) };
        let (set, _) =
            set(vec![scripted("a", &notes, Does::Approves), bad, scripted("never", &notes, Does::Approves)]);
        let error = set.start().await.err().unwrap();
        assert_eq!(error.hook().as_str(), "bad");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(taken(&notes), ["a up", "bad up", "a down"]);
    }
}
