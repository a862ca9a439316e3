//! How verdict hooks end, and what they are given for what they only watch.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::{
    AnyVerdictHook, Budget, FailureSource, HookOptions, HookVerdict, LlmCall, LlmCallHook, LlmChanges,
    OperatorSettings, Snapshot, ToolCallHook, VerdictCall, VerdictHook, VerdictSet, VerdictSlot,
};
use backstop_hooks::{FailurePolicy, HookError, OwnerId};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::{Notes, note, taken};

/// How a hook takes its end.
#[derive(Clone, Copy)]
enum Ends {
    Well,
    Panicking,
    Never,
}

struct Ending {
    name: &'static str,
    notes: Notes,
    ends: Ends,
}

#[async_trait]
impl VerdictHook for Ending {
    async fn teardown(&self) {
        note(&self.notes, format!("{} down", self.name));
        match self.ends {
            Ends::Well => {}
            Ends::Panicking => panic!("on purpose"),
            Ends::Never => std::future::pending().await,
        }
    }
}

/// Notes of which hooks somebody is warned.
struct Warnings(Notes);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Hooks(&self.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Hooks<'a>(&'a Notes);

impl Visit for Hooks<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "hook" {
            note(self.0, format!("{value:?}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_hooks_that_can_not_be_torn_down_somebody_is_warned_and_the_others_are_all_the_same() {
    let (notes, warned) = (Notes::default(), Notes::default());
    let mut set = VerdictSet::default();
    let hooks =
        [("first", Ends::Well), ("hangs", Ends::Never), ("panics", Ends::Panicking), ("last", Ends::Well)];
    for (name, ends) in hooks {
        set.adopt(name.into(), Arc::new(Ending { name, notes: Arc::clone(&notes), ends }));
    }
    let shown = format!("{set:?}");
    assert!(hooks.iter().all(|(name, _)| shown.contains(name)), "{shown}");
    let running = set.start().await.unwrap();
    assert_eq!(format!("{running:?}"), shown);
    let _here = tracing::subscriber::set_default(Warnings(Arc::clone(&warned)));
    running.stop().await;
    assert_eq!(taken(&notes), ["last down", "panics down", "hangs down", "first down"]);
    assert_eq!(taken(&warned), ["panics", "hangs"]);
}

/// A hook that judges and watches every call.
struct Watcher;

impl VerdictHook for Watcher {}

#[async_trait]
impl ToolCallHook for Watcher {
    async fn pre_call(&self, _: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        Ok(HookVerdict::Approve)
    }

    fn watches() -> bool {
        true
    }
}

#[async_trait]
impl LlmCallHook for Watcher {
    async fn pre_call(&self, _: LlmCall<'_>) -> Result<HookVerdict<LlmChanges>, HookError> {
        Ok(HookVerdict::Approve)
    }

    fn watches() -> bool {
        true
    }
}

/// What the entry says of failing and of time is about the judgement.
#[test]
fn a_hook_that_watches_behind_its_judgement_has_a_budget_and_a_policy_for_that() {
    for slot in [VerdictSlot::ToolPreCall, VerdictSlot::LlmPreCall] {
        let mut snapshot = Snapshot::empty(OperatorSettings::default());
        let options = HookOptions {
            on_failure: Some(FailurePolicy::Closed),
            timeout: Some(Budget::from_millis(123).unwrap()),
            ..HookOptions::new(OwnerId::operator()).id("both").configured()
        };
        AnyVerdictHook::for_all_calls(Arc::new(Watcher)).register(slot, &mut snapshot, options).unwrap();
        let metas: Vec<_> = snapshot.iter().collect();
        let halves: Vec<_> =
            metas.iter().map(|meta| (meta.id.as_str(), meta.budget, meta.failure_source)).collect();
        let judging = ("both", Duration::from_millis(123), FailureSource::Entry);
        let watching = ("both:post", Duration::from_secs(5), FailureSource::Default);
        assert_eq!(halves, [judging, watching]);
    }
}
