//! Verdict hooks approve, deny or modify a call, and are told how it went.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::{
    AnyVerdictHook, BlockCause, Budget, Engine, FailureKind, FailureSource, HookOptions, HookVerdict, Hosts,
    LlmAnswer, LlmCall, LlmCallHook, LlmChanges, OperatorSettings, RegisterError, Said, Snapshot, Style,
    ToolCallHook, Verdict, VerdictCall, VerdictHook, VerdictSet, VerdictSlot, VerdictType, VerdictTypeError,
    VerdictTypes,
};
use backstop_hooks::conversation::{Message, ToolResult};
use backstop_hooks::points::{
    AfterToolCall, AfterToolCallEvent, BeforeLlmCall, BeforeLlmCallEvent, BeforeToolCall, LlmOutput,
    LlmOutputEvent, ToolInfo,
};
use backstop_hooks::{ApprovalRequest, FailurePolicy, HookError, HostProfile, Malformed, OwnerId, PointId};
use serde_json::json;

use crate::{Notes, command, context, note, params, permit, taken};

/// What a hook of the tests does.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Approves,
    Denies,
    Appends(&'static str),
    Asks,
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
            Does::Appends(more) => Ok(HookVerdict::Modify(params(json!({
                "command": format!("{}{more}", call.map(|call| command(call.arguments)).unwrap_or_default())
            })))),
            Does::Asks => Ok(HookVerdict::Ask(Box::new(ApprovalRequest::cut("sure?", "it says so")))),
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

    async fn teardown(&self) {
        note(&self.notes, format!("{} down", self.name));
    }
}

#[async_trait]
impl ToolCallHook for Scripted {
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

    fn watches() -> bool {
        true
    }
}

fn options(id: &str) -> HookOptions {
    HookOptions::new(OwnerId::operator()).id(id).configured()
}

fn engine(hooks: Vec<Scripted>) -> Engine {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    for hook in hooks {
        let id = hook.name;
        AnyVerdictHook::for_tool_calls(Arc::new(hook))
            .register(VerdictSlot::ToolPreCall, &mut snapshot, options(id))
            .unwrap();
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
fn a_watching_half_that_nobody_calls_is_said() {
    let proxy = HostProfile::new("proxy", "the proxy").fires([PointId::BeforeToolCall]);
    let agent =
        HostProfile::new("agent", "the agent").fires([PointId::BeforeToolCall, PointId::AfterToolCall]);
    for (here, told) in [(proxy, false), (agent.clone(), true)] {
        let mut snapshot = Snapshot::empty(OperatorSettings::default())
            .hosted_by(Hosts::new([here]).elsewhere([agent.clone()]));
        let hook = AnyVerdictHook::for_tool_calls(Arc::new(scripted("a", &Notes::default(), Does::Approves)));
        let options = HookOptions::new(OwnerId::operator()).id("a");
        hook.register(VerdictSlot::ToolPreCall, &mut snapshot, options).unwrap();
        let metas: Vec<_> = snapshot.iter().collect();
        assert_eq!(metas.len(), if told { 2 } else { 1 });
        let hints = &metas[0].hints;
        assert_eq!(hints.is_empty(), told, "{hints:?}");
        assert!(hints.iter().all(|hint| hint.contains("`after_tool_call`") && hint.contains("the agent")));
    }
}

#[test]
fn types_are_found_by_name_or_refused_with_the_names_there_are() {
    let mut types = VerdictTypes::default();
    let approving = || scripted("p", &Notes::default(), Does::Approves);
    types.register("passthrough", VerdictType::for_tool_calls(move |_| Ok(approving())));
    let picky = VerdictType::for_tool_calls(move |config| match config.get("url") {
        Some(_) => Ok(approving()),
        None => Err(Malformed::new("`url` is missing")),
    });
    types.register("picky", picky);
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
        let hook = AnyVerdictHook::for_tool_calls(Arc::new(hook));
        set.register(&mut snapshot, &hook, VerdictSlot::ToolPreCall, options(id)).unwrap();
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

#[tokio::test]
async fn a_verdict_may_ask() {
    let notes = Notes::default();
    let engine = engine(vec![scripted("a", &notes, Does::Asks), scripted("b", &notes, Does::Appends(" -l"))]);
    let event = crate::tool_call("exec", "ls");
    let reviewed = engine.review_tool_call(event, &context("main"), false).await;
    assert!(reviewed.blocked.is_none());
    let request = &reviewed.requests[0];
    assert_eq!((request.title().as_str(), request.hook().unwrap().as_str()), ("sure?", "a"));
    assert!(permit(&engine, "exec", "ls").await.permit.is_err(), "nobody is there to be asked");
}

/// A hook for model calls that says what it is told to say.
struct Model {
    notes: Notes,
    verdict: HookVerdict<LlmChanges>,
}

impl VerdictHook for Model {}

#[async_trait]
impl LlmCallHook for Model {
    async fn pre_call(&self, call: LlmCall<'_>) -> Result<HookVerdict<LlmChanges>, HookError> {
        let (request, session) = (call.request, call.session_id.unwrap());
        note(&self.notes, format!("{} {} in {session}", request.model, request.messages.len()));
        Ok(self.verdict.clone())
    }

    async fn post_call(&self, answer: LlmAnswer<'_>) -> Result<(), HookError> {
        let text = answer.output.last_assistant.as_ref().map(Message::visible_text);
        note(&self.notes, format!("answered {}", text.unwrap_or_default()));
        Ok(())
    }

    fn watches() -> bool {
        true
    }
}

fn model_engine(verdict: HookVerdict<LlmChanges>) -> (Engine, Notes) {
    let (notes, mut snapshot) = (Notes::default(), Snapshot::empty(OperatorSettings::default()));
    let hook = Model { notes: Arc::clone(&notes), verdict };
    AnyVerdictHook::for_llm_calls(Arc::new(hook))
        .register(VerdictSlot::LlmPreCall, &mut snapshot, options("model"))
        .unwrap();
    (Engine::builder().snapshot(snapshot).build(), notes)
}

fn question() -> BeforeLlmCallEvent {
    let tool = |name: &str| ToolInfo::named(name);
    let tools = vec![tool("read"), tool("exec")];
    BeforeLlmCallEvent {
        other_models: None,
        run_id: "run-1".into(),
        messages: vec![Message::user("hi")],
        system_prompt: "be kind".into(),
        model: "test-model".to_owned(),
        provider: "test".to_owned(),
        iteration: 0,
        tools,
        answer_tokens: None,
        token_estimate: 1,
    }
}

#[tokio::test]
async fn llm_call_hooks_are_asked() {
    let (engine, notes) = model_engine(HookVerdict::Approve);
    let decided = engine.decide::<BeforeLlmCall>(question(), &context("main")).await.into_parts();
    assert!(decided.blocked.is_none());
    assert_eq!(decided.event.messages.len(), 1);
    let output = LlmOutputEvent::new("run-1", "session-1", "test", "test-model", Vec::new())
        .last_assistant(Message::assistant("hello"));
    engine.observe::<LlmOutput>(&output, &context("main")).await;
    assert_eq!(taken(&notes), ["test-model 1 in session-1", "answered hello"]);
}

#[tokio::test]
async fn model_calls_are_denied_and_modified() {
    let (engine, _) = model_engine(HookVerdict::Deny { reasoning: Some("not now".into()) });
    let blocked =
        engine.decide::<BeforeLlmCall>(question(), &context("main")).await.into_parts().blocked.unwrap();
    assert_eq!((blocked.cause, blocked.reason.unwrap().as_str()), (BlockCause::Decision, "not now"));

    let (engine, _) = model_engine(HookVerdict::Modify(LlmChanges {
        messages: Some(vec![Message::user("ho")]),
        system_prompt: Some("".into()),
        tools: Some(vec!["read".to_owned(), "never-offered".to_owned()]),
    }));
    let decided = engine.decide::<BeforeLlmCall>(question(), &context("main")).await.into_parts();
    assert!(decided.blocked.is_none());
    assert_eq!(decided.event.messages[0].visible_text(), "ho");
    assert_eq!(decided.event.system_prompt.as_str(), "");
    let left: Vec<&str> = decided.event.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(left, ["read"]);
}

#[tokio::test]
async fn a_model_call_that_would_be_asked_about_is_denied() {
    let request = ApprovalRequest::cut("may it read this?", "");
    let (engine, _) = model_engine(HookVerdict::Ask(Box::new(request)));
    let blocked =
        engine.decide::<BeforeLlmCall>(question(), &context("main")).await.into_parts().blocked.unwrap();
    let reason = blocked.reason.unwrap();
    assert!(reason.starts_with("may it read this?") && reason.contains("nobody can be asked"), "{reason}");
}

#[test]
fn a_hook_stands_only_where_it_has_something_to_say() {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    let model = Model { notes: Notes::default(), verdict: HookVerdict::Approve };
    let model = AnyVerdictHook::for_llm_calls(Arc::new(model));
    let possible = vec![VerdictSlot::LlmPreCall, VerdictSlot::LlmPostCall];
    for slot in [VerdictSlot::ToolPreCall, VerdictSlot::ToolPostCall] {
        let error = model.register(slot, &mut snapshot, options("x")).unwrap_err();
        assert_eq!(error, RegisterError::Slot { slot, possible: possible.clone() });
        assert!(error.to_string().contains("`llm_call.pre_call`"), "{error}");
    }
    model.register(VerdictSlot::LlmPostCall, &mut snapshot, options("x")).unwrap();
    let listed: Vec<_> = snapshot.iter().map(|meta| meta.point.name()).collect();
    assert_eq!(listed, ["llm_output"]);
}

struct Strict(Option<FailurePolicy>);

impl VerdictHook for Strict {
    fn on_failure(&self) -> Option<FailurePolicy> {
        self.0
    }
}

#[async_trait]
impl ToolCallHook for Strict {
    async fn pre_call(&self, _: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        Err(HookError::Unreachable("nobody there".to_owned()))
    }
}

#[tokio::test]
async fn receipts_say_whose_word_a_failure_policy_is() {
    use FailurePolicy::{Closed, Open, OpenIfUnreachable};
    for (own, entry, by_id, policy, source) in [
        (None, None, None, Closed, FailureSource::Default),
        (Some(Closed), None, None, Closed, FailureSource::Entry),
        (Some(OpenIfUnreachable), None, None, OpenIfUnreachable, FailureSource::Entry),
        (Some(OpenIfUnreachable), Some(Closed), None, Closed, FailureSource::Entry),
        (Some(Closed), Some(Open), None, Closed, FailureSource::Entry),
        (None, None, Some(Open), Open, FailureSource::Operator),
        (Some(OpenIfUnreachable), None, Some(Closed), Closed, FailureSource::Operator),
        (Some(Closed), None, Some(Open), Closed, FailureSource::Entry),
    ] {
        let on_failure = by_id.map(|policy| ("strict".into(), policy)).into_iter().collect();
        let mut snapshot = Snapshot::empty(OperatorSettings { on_failure, ..OperatorSettings::default() });
        let options = HookOptions { on_failure: entry, ..options("strict") };
        AnyVerdictHook::for_tool_calls(Arc::new(Strict(own)))
            .register(VerdictSlot::ToolPreCall, &mut snapshot, options)
            .unwrap();
        let engine = Engine::builder().snapshot(snapshot).build();
        let verdict = permit(&engine, "exec", "ls").await;
        let step = &verdict.receipt.steps[0];
        assert_eq!((step.hook.on_failure, step.hook.failure_source), (policy, source));
        assert_eq!(step.passed_despite_failure, policy != Closed);
        assert_eq!(verdict.permit.is_ok(), policy != Closed);
        let wire = serde_json::to_value(step).unwrap();
        assert_eq!(wire["onFailure"], serde_json::to_value(policy).unwrap());
        assert_eq!(wire["failureSource"], serde_json::to_value(source).unwrap());
    }
}

/// As the system of the verdict hooks shows it: by the tool's own name.
struct MyHook;

impl VerdictHook for MyHook {}

#[async_trait]
impl ToolCallHook for MyHook {
    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        if call.tool_name == "run_command" && command(call.arguments).contains("sudo") {
            return Ok(HookVerdict::Deny { reasoning: Some("sudo not allowed".into()) });
        }
        Ok(HookVerdict::Approve)
    }
}

#[tokio::test]
async fn the_verdict_example_denies_run_command() {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    AnyVerdictHook::for_tool_calls(Arc::new(MyHook))
        .register(VerdictSlot::ToolPreCall, &mut snapshot, options("my_hook"))
        .unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    let denied = async |tool: &str, command: &str| {
        let event = crate::tool_call(tool, command);
        engine.decide::<BeforeToolCall>(event, &context("main")).await.blocked().is_some()
    };
    assert!(denied("run_command", "sudo ls").await);
    assert!(!denied("run_command", "ls").await);
    assert!(!denied("exec", "sudo ls").await, "the hook asks about the name that it knows");
}

/// A hook that says everything about itself, or nothing.
struct Plain {
    says: bool,
}

#[async_trait]
impl VerdictHook for Plain {
    fn budget(&self) -> Option<Budget> {
        self.says.then(|| Budget::from_millis(123).unwrap())
    }

    fn judges_values(&self) -> bool {
        self.says
    }

    fn hints(&self) -> Vec<String> {
        if self.says { vec!["mind the gap".to_owned()] } else { Vec::new() }
    }
}

#[async_trait]
impl ToolCallHook for Plain {
    async fn pre_call(&self, _: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        Ok(HookVerdict::Approve)
    }
}

#[async_trait]
impl LlmCallHook for Plain {
    async fn pre_call(&self, _: LlmCall<'_>) -> Result<HookVerdict<LlmChanges>, HookError> {
        Ok(HookVerdict::Approve)
    }
}

/// A hook that says nothing of itself: what the trait says in its place.
struct Silent;

impl VerdictHook for Silent {}

#[async_trait]
impl ToolCallHook for Silent {
    async fn pre_call(&self, _: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        Ok(HookVerdict::Approve)
    }
}

#[test]
fn what_a_verdict_hook_says_of_itself_holds_where_it_is_registered() {
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    for (hook, id) in [
        (AnyVerdictHook::for_tool_calls(Arc::new(Plain { says: true })), "says"),
        (AnyVerdictHook::for_tool_calls(Arc::new(Plain { says: false })), "says-no"),
        (AnyVerdictHook::for_tool_calls(Arc::new(Silent)), "silent"),
    ] {
        // Hooks that ship with Backstop judge values unless they say otherwise: a verdict hook always says.
        let options = HookOptions::new(OwnerId::builtin()).id(id);
        hook.register(VerdictSlot::ToolPreCall, &mut snapshot, options).unwrap();
    }
    let listed: Vec<_> = snapshot.iter().collect();
    let told = |at: usize| {
        (listed[at].budget == Duration::from_millis(123), listed[at].judges_values, listed[at].hints.len())
    };
    assert_eq!(listed.len(), 3, "none of them watches");
    assert_eq!((told(0), told(1), told(2)), ((true, true, 1), (false, false, 0), (false, false, 0)));
    let slots = |hook: AnyVerdictHook| hook.slots().collect::<Vec<_>>();
    let plain = || Arc::new(Plain { says: true });
    assert_eq!(slots(AnyVerdictHook::for_llm_calls(plain())), [VerdictSlot::LlmPreCall]);
    let both = [VerdictSlot::ToolPreCall, VerdictSlot::LlmPreCall];
    assert_eq!(slots(AnyVerdictHook::for_all_calls(plain())), both);
}

/// One that watches nothing may stand among the watchers only where it says that it is a mark.
#[test]
fn only_watchers_and_marks_stand_where_calls_are_watched() {
    let hook = || AnyVerdictHook::for_all_calls(Arc::new(Plain { says: false }));
    for slot in [VerdictSlot::ToolPostCall, VerdictSlot::LlmPostCall] {
        let mut snapshot = Snapshot::empty(OperatorSettings::default());
        let refused = hook().register(slot, &mut snapshot, options("plain")).unwrap_err();
        assert!(matches!(refused, RegisterError::Slot { .. }), "{refused}");
        hook().placeholder().register(slot, &mut snapshot, options("mark")).unwrap();
        assert_eq!(snapshot.iter().count(), 1);
        assert!(hook().placeholder().slots().any(|possible| possible == slot));
    }
}

/// A host that never says what came of calls has no watching half to register, and none of it is an error.
#[test]
fn a_watcher_judges_where_nobody_can_tell_it_what_came_of_the_calls() {
    let point = PointId::BeforeToolCall;
    let host = HostProfile::new("gate", "a gate").fires([point]);
    let mut snapshot = Snapshot::empty(OperatorSettings::default()).hosted_by(Hosts::new([host]));
    let watcher = AnyVerdictHook::for_tool_calls(Arc::new(scripted("a", &Notes::default(), Does::Approves)));
    watcher.register(VerdictSlot::ToolPreCall, &mut snapshot, options("watches")).unwrap();
    let points: Vec<_> = snapshot.iter().map(|meta| meta.point).collect();
    assert_eq!(points, [point]);
}
