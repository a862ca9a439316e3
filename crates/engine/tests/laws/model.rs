//! A reference model of a tool call's way through the gates, and random sets of hooks to compare with.
//!
//! The model knows a value (a string of letters), a list of hooks and nothing else: no futures, no
//! snapshots, no outcomes. What it expects and what the engine does must be the same, step by step.

use std::sync::Arc;

use backstop_engine::{Budget, Engine, HookMode, HookOptions, Said, Verdict, Would};
use backstop_hooks::points::{
    BeforeToolCall, ToolBefore, ToolBeforeOutcome, ToolCallOutcome, TrustedPolicyOutcome, TrustedToolPolicy,
};
use backstop_hooks::{
    ApprovalRequest, FailurePolicy, Hook, HookError, HookResult, Malformed, Params, Point, async_hook_fn,
    hook_fn,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{block_on, command, context, engine, exec, options, params};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Behaviour {
    Nothing,
    Pass,
    /// Adds the letter, each time it is asked.
    Append(char),
    /// Adds the letter unless it is there.
    AddOnce(char),
    Block,
    BlockIf(char),
    Ask,
    Fails(How, FailurePolicy),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum How {
    Says,
    Unreachable,
    Malformed,
    Panics,
    PanicsLater,
    Hangs,
}

/// The three points that share the arguments, in running order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Trusted,
    Interceptor,
    Typed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) stage: Stage,
    pub(crate) priority: i32,
    pub(crate) behaviour: Behaviour,
}

pub(crate) fn steady() -> impl Strategy<Value = Behaviour> {
    let letter = prop::sample::select(vec!['a', 'b', 'c']);
    let policy = prop::sample::select(vec![
        FailurePolicy::Closed,
        FailurePolicy::Open,
        FailurePolicy::OpenIfUnreachable,
    ]);
    let how = prop::sample::select(vec![
        How::Says,
        How::Unreachable,
        How::Malformed,
        How::Panics,
        How::PanicsLater,
        How::Hangs,
    ]);
    prop_oneof![
        3 => Just(Behaviour::Nothing),
        2 => Just(Behaviour::Pass),
        4 => letter.prop_map(Behaviour::AddOnce),
        1 => Just(Behaviour::Block),
        2 => Just(Behaviour::Ask),
        2 => (how, policy).prop_map(|(how, policy)| Behaviour::Fails(how, policy)),
    ]
}

pub(crate) fn any_behaviour() -> impl Strategy<Value = Behaviour> {
    let letter = prop::sample::select(vec!['a', 'b', 'c']);
    prop_oneof![
        4 => steady(),
        2 => letter.clone().prop_map(Behaviour::Append),
        2 => letter.prop_map(Behaviour::BlockIf),
    ]
}

fn stage() -> impl Strategy<Value = Stage> {
    prop::sample::select(vec![Stage::Trusted, Stage::Interceptor, Stage::Typed, Stage::Typed])
}

pub(crate) fn hooks(behaviour: impl Strategy<Value = Behaviour>) -> impl Strategy<Value = Vec<Spec>> {
    let spec = (stage(), -2..3, behaviour).prop_map(|(stage, priority, behaviour)| Spec {
        stage,
        priority,
        behaviour,
    });
    prop::collection::vec(spec, 0..8)
}

/// What came out, by either way of finding out.
#[derive(Debug, PartialEq)]
pub(crate) struct CameOut {
    pub(crate) verdict: Verdict,
    pub(crate) value: String,
    /// Hooks whose requests a human would see.
    pub(crate) asked: Vec<String>,
    pub(crate) blocked_by: Option<String>,
    /// Who was asked, whether again, and what they said.
    pub(crate) steps: Vec<(String, bool, Said)>,
}

impl CameOut {
    /// `block > ask > pass`.
    pub(crate) fn strictness(&self) -> u8 {
        match (self.verdict, self.asked.is_empty()) {
            (Verdict::Block, _) => 2,
            (_, false) => 1,
            _ => 0,
        }
    }
}

struct Model {
    value: String,
    version: u32,
    asked: Vec<(Stage, String)>,
    blocked_by: Option<String>,
    steps: Vec<(String, bool, Said)>,
}

pub(crate) fn expected(specs: &[Spec]) -> CameOut {
    let mut order: Vec<(usize, Spec)> = specs.iter().copied().enumerate().collect();
    order.sort_by_key(|(_, spec)| (spec.stage, -spec.priority));
    let mut model = Model { value: "x".into(), version: 0, asked: vec![], blocked_by: None, steps: vec![] };
    let mut judged = vec![0; order.len()];
    for again in [false, true] {
        if again && model.version == 0 {
            break;
        }
        for (seat, (index, spec)) in order.iter().enumerate() {
            if model.blocked_by.is_some() || (again && judged[seat] == model.version) {
                continue;
            }
            model.ask(&index.to_string(), *spec, again);
            judged[seat] = model.version;
        }
    }
    let verdict = match (&model.blocked_by, model.value != "x") {
        (Some(_), _) => Verdict::Block,
        (None, true) => Verdict::Modify,
        (None, false) => Verdict::Pass,
    };
    let asked =
        if model.blocked_by.is_some() { vec![] } else { model.asked.into_iter().map(|(_, id)| id).collect() };
    CameOut { verdict, value: model.value, asked, blocked_by: model.blocked_by, steps: model.steps }
}

impl Model {
    fn ask(&mut self, id: &str, spec: Spec, again: bool) {
        let said = match spec.behaviour {
            Behaviour::Nothing => Said::Nothing,
            Behaviour::Pass => Said::Pass,
            Behaviour::Append(letter) => self.rewrite(id, letter, again),
            Behaviour::AddOnce(letter) if self.value.contains(letter) => Said::Nothing,
            Behaviour::AddOnce(letter) => self.rewrite(id, letter, again),
            Behaviour::Block => self.block(id),
            Behaviour::BlockIf(letter) if self.value.contains(letter) => self.block(id),
            Behaviour::BlockIf(_) => Said::Nothing,
            // Interceptors have no way to ask.
            Behaviour::Ask if spec.stage == Stage::Interceptor => Said::Nothing,
            Behaviour::Ask => self.request(id, spec.stage),
            Behaviour::Fails(how, policy) => {
                let outage = matches!(how, How::Unreachable | How::Hangs);
                if policy == FailurePolicy::Closed || (policy == FailurePolicy::OpenIfUnreachable && !outage)
                {
                    self.blocked_by = Some(id.to_owned());
                }
                Said::Failed
            }
        };
        self.steps.push((id.to_owned(), again, said));
    }

    fn block(&mut self, id: &str) -> Said {
        self.blocked_by = Some(id.to_owned());
        Said::Blocked
    }

    fn rewrite(&mut self, id: &str, letter: char, again: bool) -> Said {
        if again {
            self.blocked_by = Some(id.to_owned());
            return Said::Rewrote;
        }
        self.value.push(letter);
        self.version += 1;
        Said::Rewrote
    }

    fn request(&mut self, id: &str, stage: Stage) -> Said {
        self.asked.retain(|(_, asked)| asked != id);
        self.asked.push((stage, id.to_owned()));
        Said::Asked
    }
}

enum Act {
    Nothing,
    Pass,
    Rewrite(Params),
    Block,
    Ask(ApprovalRequest),
}

fn act(behaviour: Behaviour, value: &str) -> Result<Act, HookError> {
    let with = |letter: char| Act::Rewrite(params(json!({ "command": format!("{value}{letter}") })));
    Ok(match behaviour {
        Behaviour::Pass => Act::Pass,
        Behaviour::Append(letter) => with(letter),
        Behaviour::AddOnce(letter) if !value.contains(letter) => with(letter),
        Behaviour::Block => Act::Block,
        Behaviour::BlockIf(letter) if value.contains(letter) => Act::Block,
        Behaviour::Ask => Act::Ask(ApprovalRequest::cut("may I?", "")),
        Behaviour::Fails(How::Says, _) => return Err(HookError::failed("no")),
        Behaviour::Fails(How::Unreachable, _) => return Err(HookError::Unreachable("no".into())),
        Behaviour::Fails(How::Malformed, _) => return Err(Malformed::new("no").into()),
        Behaviour::Fails(How::Panics, _) => panic!("on purpose"),
        Behaviour::Nothing | Behaviour::AddOnce(_) | Behaviour::BlockIf(_) | Behaviour::Fails(..) => {
            Act::Nothing
        }
    })
}

fn hook<P: Point>(
    behaviour: Behaviour,
    value: impl Fn(&P::Event) -> String + Send + Sync + Clone + 'static,
    outcome: impl Fn(Act) -> Option<P::Outcome> + Send + Sync + 'static,
) -> Arc<dyn Hook<P>> {
    match behaviour {
        Behaviour::Fails(How::Hangs, _) => {
            async_hook_fn::<P, _, _>(|_, _| std::future::pending::<HookResult<P>>())
        }
        Behaviour::Fails(How::PanicsLater, _) => {
            async_hook_fn::<P, _, _>(|_, _| async { panic!("on purpose") })
        }
        _ => hook_fn::<P, _>(move |event, _| Ok(outcome(act(behaviour, &value(event))?))),
    }
}

/// What a typed hook of this behaviour is.
fn typed(behaviour: Behaviour) -> Arc<dyn Hook<BeforeToolCall>> {
    hook::<BeforeToolCall>(behaviour, command, |act| match act {
        Act::Nothing => None,
        Act::Pass => Some(ToolCallOutcome::default()),
        Act::Rewrite(params) => Some(ToolCallOutcome::rewrite(params)),
        Act::Block => Some(ToolCallOutcome { block: Some(true), ..Default::default() }),
        Act::Ask(request) => Some(ToolCallOutcome::ask(request)),
    })
}

type Wrap<'a> = &'a dyn Fn(usize, Arc<dyn Hook<BeforeToolCall>>) -> Arc<dyn Hook<BeforeToolCall>>;

fn register(engine: &Engine, index: usize, spec: Spec, wrap: Wrap<'_>) {
    register_as(engine, &index.to_string(), HookMode::Enforce, spec, &|hook| wrap(index, hook));
}

fn register_as(
    engine: &Engine,
    id: &str,
    mode: HookMode,
    spec: Spec,
    wrap: &dyn Fn(Arc<dyn Hook<BeforeToolCall>>) -> Arc<dyn Hook<BeforeToolCall>>,
) {
    let mut options =
        HookOptions { timeout: Some(Budget::from_millis(50).unwrap()), mode, ..options(id, spec.priority) };
    if let Behaviour::Fails(_, policy) = spec.behaviour {
        options.on_failure = Some(policy);
    }
    match spec.stage {
        Stage::Trusted => {
            let hook = hook::<TrustedToolPolicy>(spec.behaviour, command, |act| match act {
                Act::Nothing => None,
                Act::Pass => Some(TrustedPolicyOutcome::default()),
                Act::Rewrite(params) => {
                    Some(TrustedPolicyOutcome { params: Some(params), ..Default::default() })
                }
                Act::Block => Some(TrustedPolicyOutcome { block: Some(true), ..Default::default() }),
                Act::Ask(request) => Some(TrustedPolicyOutcome {
                    require_approval: Some(request.into()),
                    ..Default::default()
                }),
            });
            engine.registry().on(hook, options).unwrap();
        }
        Stage::Interceptor => {
            let value = |event: &backstop_hooks::points::ToolBeforeEvent| {
                event.args.get("command").and_then(|c| c.as_str()).unwrap_or_default().to_owned()
            };
            let hook = hook::<ToolBefore>(spec.behaviour, value, |act| match act {
                Act::Nothing | Act::Ask(_) => None,
                Act::Pass => Some(ToolBeforeOutcome::default()),
                Act::Rewrite(args) => Some(ToolBeforeOutcome { args: Some(args), ..Default::default() }),
                Act::Block => Some(ToolBeforeOutcome { block: Some(true), ..Default::default() }),
            });
            engine.registry().on(hook, options).unwrap();
        }
        Stage::Typed => {
            let hook = wrap(typed(spec.behaviour));
            engine.registry().on(hook, options).unwrap();
        }
    }
}

pub(crate) fn actual(specs: &[Spec]) -> CameOut {
    actual_with(specs, &|_, hook| hook)
}

/// As [`actual`], with something around each typed hook.
pub(crate) fn actual_with(specs: &[Spec], wrap: Wrap<'_>) -> CameOut {
    let engine = engine();
    for (index, spec) in specs.iter().enumerate() {
        register(&engine, index, *spec, wrap);
    }
    came_out(&engine).0
}

/// As [`actual`], with hooks in shadow beside the others, put in before the one of that place. Also returns what they would have done.
pub(crate) fn actual_beside(
    specs: &[Spec],
    shadows: &[(usize, Spec)],
) -> (CameOut, Vec<(String, Option<Would>)>) {
    let engine = engine();
    let put = |place: usize| {
        for (number, (_, spec)) in
            shadows.iter().enumerate().filter(|(_, (at, _))| at % (specs.len() + 1) == place)
        {
            register_as(&engine, &format!("shadow {number}"), HookMode::Shadow, *spec, &|hook| hook);
        }
    };
    for (index, spec) in specs.iter().enumerate() {
        put(index);
        register(&engine, index, *spec, &|_, hook| hook);
    }
    put(specs.len());
    came_out(&engine)
}

fn came_out(engine: &Engine) -> (CameOut, Vec<(String, Option<Would>)>) {
    let reviewed = block_on(engine.review_tool_call(exec("x"), &context(), false));
    let (shadows, steps): (Vec<_>, Vec<_>) =
        reviewed.receipt.steps.iter().partition(|step| step.hook.mode.is_shadow());
    let mut would: Vec<_> = shadows.iter().map(|step| (step.hook.id.to_string(), step.would)).collect();
    would.sort();
    let came_out = CameOut {
        verdict: reviewed.receipt.verdict,
        value: command(&reviewed.event),
        asked: reviewed.requests.iter().map(|request| request.hook().unwrap().to_string()).collect(),
        blocked_by: reviewed.blocked.and_then(|blocked| blocked.hook).map(|hook| hook.to_string()),
        steps: steps.iter().map(|step| (step.hook.id.to_string(), step.again, step.said)).collect(),
    };
    (came_out, would)
}

/// Panics are on purpose here; their reports would bury the others.
pub(crate) fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&"on purpose") {
                report(info);
            }
        }));
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laws_01_to_06_the_engine_does_what_the_model_does(specs in hooks(any_behaviour())) {
        quiet();
        prop_assert_eq!(actual(&specs), expected(&specs));
    }
}
