//! The JSON form: what is read is what is written, and `Debug` tells nothing of it.

use std::collections::BTreeSet;

use backstop_hooks::points::BeforeToolCall;
use backstop_hooks::{
    CallContext, Context, HookError, HookFuture, HookResult, Json, JsonFuture, JsonHook, Outcome, Point,
    PointId, event_json, json_hook,
};
use serde_json::{Value, json};

use crate::sample::{BODY, Sample, Visit, each_point};

struct RoundTrip;

impl Visit for RoundTrip {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let event = sample.event::<P>();
        assert_eq!(serde_json::to_value(&event).unwrap(), sample.event, "event of {}", P::INFO.name);
        for outcome in &sample.outcomes {
            let read = P::Outcome::from_json(outcome.clone())
                .unwrap_or_else(|error| panic!("outcome of {}: {error}", P::INFO.name))
                .unwrap();
            assert_eq!(&serde_json::to_value(&read).unwrap(), outcome, "outcome of {}", P::INFO.name);
        }
    }
}

#[test]
fn every_event_and_outcome_is_written_as_it_was_read() {
    each_point(&mut RoundTrip);
}

struct Silent;

impl Visit for Silent {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let event = sample.event::<P>();
        for shown in [format!("{event:?}"), format!("{event:#?}")] {
            assert!(!shown.contains(BODY), "{}: {shown}", P::INFO.name);
        }
        for outcome in &sample.outcomes {
            let outcome = P::Outcome::from_json(outcome.clone()).unwrap();
            let shown = format!("{outcome:?}");
            assert!(!shown.contains(BODY), "{}: {shown}", P::INFO.name);
        }
    }
}

#[test]
fn debug_never_prints_bodies() {
    each_point(&mut Silent);
}

struct Complete;

impl Visit for Complete {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let keys = |value: &Value| -> BTreeSet<String> {
            value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
        };
        let schema = P::INFO.id.event_schema();
        assert_eq!(keys(&sample.event), keys(&schema.as_value()["properties"]), "event of {}", P::INFO.name);
        let full = keys(sample.outcomes.first().unwrap());
        for of in P::Outcome::FIELDS.iter().filter(|of| of.name != "*") {
            assert!(full.contains(of.name), "the first outcome of {} lacks `{}`", P::INFO.name, of.name);
        }
    }
}

#[test]
fn samples_have_every_field() {
    each_point(&mut Complete);
}

/// Answers whatever it was told to.
struct Parrot(Value);

impl JsonHook for Parrot {
    fn call<'a>(&'a self, point: PointId, event: Value) -> JsonFuture<'a> {
        assert_eq!(point, PointId::BeforeToolCall);
        assert_eq!(event["context"]["pluginConfig"], json!({"strict": true}));
        assert_eq!(event["toolName"], "exec");
        let answer = self.0.clone();
        Box::pin(async move { Ok(answer) })
    }
}

/// Polls a future that never waits.
pub(crate) fn now<P: Point>(mut future: HookFuture<'_, P>) -> HookResult<P> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut cx) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("the hook waits"),
    }
}

#[test]
fn a_json_hook_sees_the_context_and_its_answer_is_judged_strictly() {
    let event = Sample::of("before_tool_call").event::<BeforeToolCall>();
    let (call, config) = (CallContext::default(), Json::new(json!({"strict": true})));
    let cx = Context { call: &call, plugin_config: &config, deadline: None, evidence: None, forms: None };
    let ask = |answer: Value| {
        let hook = json_hook::<BeforeToolCall>(std::sync::Arc::new(Parrot(answer)));
        match hook.call(&event, cx) {
            backstop_hooks::Answer::Later(future) => now::<BeforeToolCall>(future),
            backstop_hooks::Answer::Now(result) => result,
        }
    };
    assert_eq!(ask(Value::Null), Ok(None));
    assert!(ask(json!({"block": true})).unwrap().unwrap().blocks());
    assert!(matches!(ask(json!({"blok": true})), Err(HookError::Malformed(_))));
    assert_eq!(event_json::<BeforeToolCall>(&event, cx)["params"], event.params.to_value());
}
