//! Every point that is declared can be fired; whatever could protect less than it seems is an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backstop_engine::{
    AgentMatcher, Engine, HookOptions, InterceptorOptions, InvalidMatcher, OperatorSettings, OwnerSettings,
    RegisterError, ToolMatcher,
};
use backstop_hooks::points::*;
use backstop_hooks::{
    ClaimPoint, DecidePoint, Hook, ObservePoint, OwnerId, Point, PointId, SyncPoint, for_each_point, hook_fn,
};

use crate::support::{block_on, context, engine, engine_with, on, options};

/// The sample event of a point, as the contract's own tests have it.
pub(crate) fn sample<P: Point>() -> P::Event {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../hooks/tests/samples");
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
    fn write<P: SyncPoint>(&mut self);
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
    (@ Sync $point:ident $visitor:ident) => { $visitor.write::<$point>(); };
}
for_each_point!(visit);

#[derive(Default)]
struct Fires {
    fired: Vec<PointId>,
    pending: Vec<&'static str>,
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
        match engine.registry().on::<P>(hook, options("h", 0)) {
            Ok(_) => {
                dispatch(&engine, sample::<P>());
                assert_eq!(asked.load(Ordering::Relaxed), 1, "{}", P::INFO.name);
                self.fired.push(P::INFO.id);
            }
            Err(RegisterError::Pending { point, reason }) => {
                assert!(!reason.is_empty());
                self.pending.push(point.name());
            }
            Err(error) => panic!("{}: {error}", P::INFO.name),
        }
    }
}

impl ByMode for Fires {
    fn decide<P: DecidePoint>(&mut self) {
        self.fire::<P>(|engine, event| {
            assert!(block_on(engine.decide::<P>(event, &context())).blocked.is_none());
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

    fn write<P: SyncPoint>(&mut self) {
        self.fire::<P>(|engine, event| assert!(engine.write::<P>(event, &context()).blocked.is_none()));
    }
}

/// The points that no host fires yet. This list only shrinks.
const PENDING: &[&str] = &[
    "inbound_claim",
    "before_dispatch",
    "reply_dispatch",
    "message_sending",
    "reply_payload_sending",
    "message_sent",
    "channel_pairing_requested",
    "before_reset",
    "subagent_progress",
    "subagent_spawning",
    "subagent_delivery_target",
    "gateway_start",
    "gateway_stop",
    "cron_changed",
    "cron_reconciled",
    "before_install",
];

#[test]
fn law_07_every_point_is_fired_or_says_why_not() {
    let mut fires = Fires::default();
    visit_all(&mut fires);
    assert_eq!(fires.fired.len() + fires.pending.len(), PointId::ALL.len());
    let new: Vec<_> = fires.pending.iter().filter(|name| !PENDING.contains(name)).collect();
    assert!(new.is_empty(), "the list of pending points only shrinks: {new:?}");
}

fn nothing<P: Point>() -> Arc<dyn Hook<P>> {
    hook_fn::<P, _>(|_, _| Ok(None))
}

#[test]
fn law_07_a_hook_where_nothing_fires_is_an_error_that_says_why() {
    let error = engine().registry().on::<MessageSent>(nothing(), options("h", 0)).unwrap_err();
    assert!(error.to_string().starts_with("no hook can stand at `message_sent` yet: "), "{error}");
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
    let register = |tools| engine.registry().on::<BeforeToolCall>(nothing(), options("h", 0).tools(tools));
    for matcher in
        [ToolMatcher::names(["exce"]), ToolMatcher::regex("^exce$"), ToolMatcher::names(["exec", "reed"])]
    {
        let error = register(matcher.unwrap()).unwrap_err();
        assert!(matches!(
            &error,
            RegisterError::Matcher { error: InvalidMatcher::MatchesNothing { .. }, .. }
        ));
        let text = error.to_string();
        assert!(text.contains("hook `h`") && text.contains("known tools: read, write"), "{text}");
    }
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
fn law_07_a_tool_of_a_plugin_can_be_matched_once_it_is_known() {
    let engine = engine();
    let matcher = || ToolMatcher::names(["deploy"]).unwrap();
    assert!(engine.registry().on::<BeforeToolCall>(nothing(), options("h", 0).tools(matcher())).is_err());
    let registered = engine.registry().update(|snapshot| {
        snapshot.add_tools(["Deploy"]);
        snapshot.on::<BeforeToolCall>(nothing(), options("h", 0).tools(matcher()))
    });
    assert!(registered.is_ok());
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
