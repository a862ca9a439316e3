//! Every point that is declared can be fired; whatever could protect less than it seems is an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstop_engine::{
    AgentMatcher, Engine, HookOptions, Hosts, InterceptorOptions, InvalidMatcher, OperatorSettings,
    OwnerSettings, RegisterError, Rewrite, Snapshot, ToolMatcher,
};
use backstop_hooks::points::*;
use backstop_hooks::{
    ClaimPoint, DecidePoint, Honour, Hook, HostProfile, ObservePoint, OwnerId, Point, PointId,
    for_each_point, hook_fn,
};

use crate::support::{block_on, context, engine, engine_with, on, options, tool_call};

/// The sample event of a point, as the contract's own tests have it.
pub(crate) fn sample<P: Point>() -> P::Event {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../hooks/samples");
    let text = std::fs::read_to_string(format!("{folder}/{}.json", P::INFO.name)).unwrap();
    let sample: serde_json::Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(sample["event"].clone()).unwrap()
}

pub(crate) trait ByMode {
    fn decide<P: DecidePoint>(&mut self);
    fn observe<P: ObservePoint>(&mut self);
    fn claim<P: ClaimPoint>(&mut self)
    where
        P::Outcome: backstop_hooks::Claim;
}

macro_rules! visit {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal, $injection:literal,
       $event:ident, $outcome:ident, $summary:literal;)*) => {
        /// Visits every point of the catalogue by its mode.
        pub(crate) fn visit_all(visitor: &mut impl ByMode) {
            $(visit!(@ $mode $point visitor);)*
        }
    };
    (@ Decide $point:ident $visitor:ident) => { $visitor.decide::<$point>(); };
    (@ Observe $point:ident $visitor:ident) => { $visitor.observe::<$point>(); };
    (@ Claim $point:ident $visitor:ident) => { $visitor.claim::<$point>(); };
}
for_each_point!(visit);

#[derive(Default)]
struct Fires {
    fired: Vec<PointId>,
}

impl Fires {
    /// Registers a hook and fires the point; the hook must have been asked.
    fn fire<P: Point>(&mut self, dispatch: impl FnOnce(&Engine, P::Event)) {
        let engine = engine();
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let hook: Arc<dyn Hook<P>> = hook_fn::<P, _>(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        });
        on::<P>(&engine, "h", 0, hook);
        dispatch(&engine, sample::<P>());
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{}", P::INFO.name);
        self.fired.push(P::INFO.id);
    }
}

impl ByMode for Fires {
    fn decide<P: DecidePoint>(&mut self) {
        self.fire::<P>(|engine, event| {
            assert!(block_on(engine.decide::<P>(event, &context())).blocked().is_none());
        });
    }

    fn observe<P: ObservePoint>(&mut self) {
        self.fire::<P>(|engine, event| drop(block_on(engine.observe::<P>(&event, &context()))));
    }

    fn claim<P: ClaimPoint>(&mut self)
    where
        P::Outcome: backstop_hooks::Claim,
    {
        self.fire::<P>(|engine, event| {
            assert!(block_on(engine.claim::<P>(&event, &context())).outcome.is_none());
        });
    }
}

#[test]
fn law_07_a_program_that_embeds_the_engine_can_fire_every_point() {
    let mut fires = Fires::default();
    visit_all(&mut fires);
    assert_eq!(fires.fired, PointId::ALL);
}

fn nothing<P: Point>() -> Arc<dyn Hook<P>> {
    hook_fn::<P, _>(|_, _| Ok(None))
}

/// A process with a proxy, in a world with a bot.
fn proxy() -> Snapshot {
    let deaf = Honour::Ignored("nobody reads it");
    let proxy = HostProfile::new("proxy", "the proxy")
        .fires([PointId::BeforeLlmCall, PointId::MessageBefore])
        .except(PointId::MessageBefore, "metadata", deaf)
        .except(PointId::BeforeLlmCall, "tools", Honour::Stricter("the call is refused"));
    let bot = HostProfile::new("bot", "the bot").fires([PointId::BeforeToolCall]);
    Snapshot::empty(OperatorSettings::default())
        .hosted_by(Hosts::new([proxy.clone()]).elsewhere([proxy, bot]))
}

#[test]
fn law_07_a_hook_where_no_host_of_the_process_fires_is_an_error_that_names_who_does() {
    let mut snapshot = proxy();
    assert!(snapshot.on::<BeforeLlmCall>(nothing(), options("ok", 0)).is_ok());
    let elsewhere = snapshot.on::<BeforeToolCall>(nothing(), options("h", 0)).unwrap_err();
    assert_eq!(
        elsewhere.to_string(),
        "no hook can stand at `before_tool_call` here: the proxy never fires it\nhint: these do: the bot"
    );
    let nowhere = snapshot.on::<MessageSent>(nothing(), options("h", 0)).unwrap_err();
    assert!(nowhere.to_string().ends_with("hint: no host fires it yet"), "{nowhere}");
    assert_eq!(snapshot.iter().count(), 1);
}

#[test]
fn law_07_a_process_with_several_hosts_takes_what_any_of_them_fires() {
    let hosts = Hosts::new([
        HostProfile::new("proxy", "the proxy").fires([PointId::BeforeLlmCall]),
        HostProfile::new("bot", "the bot").fires([PointId::BeforeToolCall]),
    ]);
    let mut snapshot = Snapshot::empty(OperatorSettings::default()).hosted_by(hosts);
    assert!(snapshot.on::<BeforeLlmCall>(nothing(), options("a", 0)).is_ok());
    assert!(snapshot.on::<BeforeToolCall>(nothing(), options("b", 0)).is_ok());
    let error = snapshot.on::<LlmInput>(nothing(), options("c", 0)).unwrap_err();
    assert!(error.to_string().contains("the proxy, the bot never fires it"), "{error}");
}

#[test]
fn law_07_a_hook_that_can_only_say_what_no_host_honours_is_an_error() {
    let mut snapshot = proxy();
    let only_tags = options("tags", 0).answers(&["metadata"]);
    let error = snapshot.on::<MessageBefore>(nothing(), only_tags).unwrap_err();
    assert!(matches!(error, RegisterError::NotHonoured { .. }), "{error}");
    assert!(error.to_string().contains("`metadata` at `message.before`"), "{error}");
    let rewrites_too = options("rewrites", 0).answers(&["metadata", "message"]);
    assert!(snapshot.on::<MessageBefore>(nothing(), rewrites_too).is_ok());
    let narrows = options("narrows", 0).answers(&["tools"]);
    assert!(
        snapshot.on::<BeforeLlmCall>(nothing(), narrows).is_ok(),
        "what is answered more strictly counts"
    );
    let misspelt = options("misspelt", 0).answers(&["tols"]);
    let error = snapshot.on::<BeforeLlmCall>(nothing(), misspelt).unwrap_err();
    assert!(matches!(error, RegisterError::NoField { field: "tols", .. }), "{error}");
}

#[test]
fn law_07_a_rewrite_that_gives_way_or_not_where_there_is_none_is_an_error() {
    for rewrite in [Rewrite::Required, Rewrite::Optional] {
        let mut snapshot = Snapshot::empty(OperatorSettings::default());
        let error = snapshot.on::<AfterLlmCall>(nothing(), options("firm", 0).rewrite(rewrite)).unwrap_err();
        assert_eq!(error, RegisterError::NoRewrite { hook: "firm".into(), point: PointId::AfterLlmCall });
        assert!(error.to_string().contains("`after_llm_call`"), "{error}");
        assert!(snapshot.on::<BeforeLlmCall>(nothing(), options("firm", 0).rewrite(rewrite)).is_ok());
    }
}

#[test]
fn law_07_the_part_of_a_guard_that_its_host_never_shows_is_left_out() {
    let mut snapshot = proxy();
    assert_eq!(snapshot.on_if_fired::<BeforeToolCall>(nothing(), options("h", 0)), Ok(None));
    assert_eq!(snapshot.on_if_fired::<BeforeLlmCall>(nothing(), options("h", 0)), Ok(Some("h".into())));
}

#[test]
fn law_07_hooks_that_stay_over_a_reload_are_admitted_by_the_next_hosts() {
    let engine = engine();
    on::<BeforeToolCall>(&engine, "h", 0, nothing());
    let error = engine.registry().reload(proxy()).unwrap_err();
    assert!(matches!(error, RegisterError::NotFired { .. }), "{error}");
    assert_eq!(engine.registry().list().len(), 1, "what was refused changed nothing");
}

#[test]
fn law_07_two_hooks_with_one_id_are_an_error_wherever_they_stand() {
    let engine = engine();
    on::<BeforeToolCall>(&engine, "h", 0, nothing());
    let error = engine.registry().on::<BeforeLlmCall>(nothing(), options("h", 0)).unwrap_err();
    assert_eq!(error, RegisterError::Duplicate("h".into()));
    assert!(error.to_string().contains("hint:"));
    assert_eq!(engine.registry().list().len(), 1);
}

#[test]
fn law_07_a_matcher_that_can_match_nothing_is_an_error() {
    let engine = engine();
    assert_eq!(ToolMatcher::names([""]).unwrap_err(), InvalidMatcher::Empty);
    assert_eq!(ToolMatcher::names([]).unwrap_err(), InvalidMatcher::Empty);
    assert_eq!(ToolMatcher::names(["group:fss"]).unwrap_err(), InvalidMatcher::Group("group:fss".to_owned()));
    assert!(matches!(ToolMatcher::regex("(").unwrap_err(), InvalidMatcher::Regex { .. }));
    assert!(matches!(AgentMatcher::regex("[").unwrap_err(), InvalidMatcher::Regex { .. }));
    let error = engine
        .registry()
        .on::<BeforeLlmCall>(nothing(), options("h", 0).tools(ToolMatcher::names(["exec"]).unwrap()))
        .unwrap_err();
    assert!(matches!(error, RegisterError::NoTools { .. }));
    assert!(engine.registry().list().is_empty());
}

#[test]
fn law_07_a_name_that_nobody_knows_is_accepted_and_a_typo_is_a_hint() {
    let engine = engine();
    let known = engine.registry().snapshot();
    for (id, matcher, hints) in [
        ("mail", ToolMatcher::names(["send_email"]), 0),
        ("mcp", ToolMatcher::regex("^send_"), 1),
        ("typo", ToolMatcher::names(["exce", "read"]), 1),
        ("fine", ToolMatcher::names(["run_command", "group:fs"]), 0),
    ] {
        let matcher = matcher.unwrap();
        assert_eq!(matcher.hints(known.tools()).len(), hints, "{id}: {:?}", matcher.hints(known.tools()));
        engine.registry().on::<BeforeToolCall>(nothing(), options(id, 0).tools(matcher)).unwrap();
    }
    let typo = ToolMatcher::names(["exce"]).unwrap().hints(known.tools()).remove(0);
    assert_eq!(typo, "no known tool is called `exce`; did you mean `exec`?");
}

#[tokio::test]
async fn law_07_another_spelling_gets_no_call_past_a_hook() {
    for matcher in
        [ToolMatcher::names(["exec"]), ToolMatcher::names(["run_command"]), ToolMatcher::regex("^run_")]
    {
        let engine = engine();
        let deny = hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("no"))));
        engine.registry().on(deny, options("deny", 0).tools(matcher.unwrap())).unwrap();
        for (called, denied) in [("run_command", true), ("exec", true), ("Bash", true), ("read", false)] {
            let event = tool_call(called, serde_json::json!({}));
            let decided = engine.decide::<BeforeToolCall>(event, &context()).await;
            assert_eq!(decided.blocked().is_some(), denied, "{called}");
        }
    }
}

#[test]
fn law_07_a_change_that_is_refused_in_part_changes_nothing() {
    let engine = engine();
    let refused = engine.registry().update(|snapshot| {
        snapshot.on::<BeforeToolCall>(nothing(), options("one", 0))?;
        snapshot.on::<BeforeToolCall>(nothing(), options("one", 0))
    });
    assert!(refused.is_err());
    assert!(engine.registry().list().is_empty());
}

#[test]
fn law_07_what_the_operator_forbids_is_an_error_and_not_a_hook_that_never_runs() {
    let plugin = || HookOptions::new(OwnerId::new("plugin")).id("h");
    let settings = |settings: OwnerSettings| {
        engine_with(OperatorSettings {
            owners: [(OwnerId::new("plugin"), settings)].into(),
            ..OperatorSettings::default()
        })
    };
    let none = settings(OwnerSettings::default());
    assert!(matches!(
        none.registry().on::<BeforeLlmCall>(nothing(), plugin()).unwrap_err(),
        RegisterError::ConversationAccess { .. }
    ));
    assert!(none.registry().on::<BeforeToolCall>(nothing(), plugin()).is_ok());
    assert!(matches!(
        none.registry().on::<TrustedToolPolicy>(nothing(), plugin().id("other")).unwrap_err(),
        RegisterError::Untrusted(_)
    ));
    let off = settings(OwnerSettings { enabled: Some(false), ..OwnerSettings::default() });
    assert!(matches!(
        off.registry().on::<BeforeToolCall>(nothing(), plugin()).unwrap_err(),
        RegisterError::Disabled(_)
    ));
    assert!(matches!(
        off.interceptors()
            .add::<ToolBefore>(
                "i",
                InterceptorOptions { owner: Some("plugin".into()), ..InterceptorOptions::default() },
                |_, _| Ok(())
            )
            .unwrap_err(),
        RegisterError::Disabled(_)
    ));
}
