//! What providers are told of the spans of our own agent's model calls.

use serde_json::json;

use super::super::support::{User, done};
use super::collector::{Collector, Manner, Received};
use super::{ACME_IDS, Provider, SPAN, TRACE, calling, conform, named, one, saying, telemetry, telemetry_at};

/// The configuration of an agent that asks this provider.
fn asking(provider: &Provider, more: &str) -> String {
    provider.config(&format!("agent: {{ provider: upstream, model: scripted-model }}\n{more}"))
}

/// What an agent does that first calls a tool, is then told to wait, and tries again.
fn calls_and_retries() -> Provider {
    let write = calling("write", &json!({ "path": "a.txt", "content": "argument-sentinel" }));
    let busy = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "later" } });
    Provider::answering(vec![(200, write), (529, busy), (200, saying())])
}

/// A turn, with what its environment says of a trace.
fn turn(user: &User, parent: &str) {
    let mut command = user.command(&["agent", "-m", "prompt-sentinel"]);
    command.env("TRACEPARENT", parent).env("TRACESTATE", "vendor=state-sentinel");
    command.env("BAGGAGE", "user=state-sentinel");
    done(command.spawn().unwrap()).succeeded();
}

#[test]
fn a_provider_is_told_of_the_span_of_the_agent_s_model_call_and_of_nothing_else() {
    let (collector, provider) = (Collector::start(Manner::Takes), calls_and_retries());
    let user = User::with_config(&asking(&provider, &telemetry(&collector)));
    turn(&user, &format!("00-{TRACE}-{SPAN}-00"));
    let spans = conform(&collector, &[SPAN]);
    let calls = named(&spans, "chat scripted-model");
    let told = |call: &Received| Some(format!("00-{TRACE}-{}-01", call.id));
    let [first, second] = calls.as_slice() else { panic!("two calls: {calls:#?}") };
    // A try of the same call stands in the same span.
    assert_eq!(provider.told("traceparent"), [told(first), told(second), told(second)]);
    for name in ["tracestate", "baggage", "x-team"] {
        assert_eq!(provider.told(name), [None, None, None], "{name}");
    }
}

#[test]
fn an_agent_without_a_collector_tells_of_no_trace() {
    let provider = calls_and_retries();
    let user = User::with_config(&asking(&provider, ""));
    turn(&user, &format!("00-{TRACE}-{SPAN}-01"));
    for name in ["traceparent", "tracestate", "baggage"] {
        assert_eq!(provider.told(name), [None, None, None], "{name}");
    }
}

#[test]
fn an_agent_s_trace_that_is_not_recorded_is_told_of_as_such() {
    let (collector, provider) = (Collector::start(Manner::Takes), calls_and_retries());
    let user = User::with_config(&asking(&provider, &telemetry_at(&collector.endpoint, ", sample: 0")));
    turn(&user, &format!("00-{TRACE}-{SPAN}-01"));
    let told: Vec<String> = provider.told("traceparent").into_iter().flatten().collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told.iter().all(|told| told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00")),
        "{told:?}"
    );
    assert_eq!(collector.requests(), 0);
}

#[test]
fn an_agent_s_parent_that_is_none_or_a_secret_reaches_no_provider() {
    let secret = format!("acad{}", "0123456789".repeat(3).split_at(28).0);
    for parent in [format!("00-{secret}-{SPAN}-01"), "00-state-sentinel-01".to_owned()] {
        let (collector, provider) = (Collector::start(Manner::Takes), calls_and_retries());
        let user = User::with_config(&asking(&provider, &format!("{ACME_IDS}{}", telemetry(&collector))));
        turn(&user, &parent);
        let spans = conform(&collector, &[]);
        let turn = one(&spans, "invoke_agent main");
        assert!(turn.parent.is_empty() && turn.trace != secret, "{turn:?}");
        let told: Vec<String> = provider.told("traceparent").into_iter().flatten().collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told.iter().all(|told| told.contains(&turn.trace)), "{told:?}");
    }
}
