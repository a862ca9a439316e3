//! The catalogue agrees with itself: what a point's outcome can do decides what a failure there means.

use std::collections::BTreeSet;

use backstop_hooks::{FailurePolicy, Family, Latch, Mode, PointId};

/// Outcome fields of family A that become part of what a model reads.
const READ_BY_THE_MODEL: &[&str] = &[
    "message",
    "messages",
    "systemPrompt",
    "prependContext",
    "appendContext",
    "prependSystemContext",
    "appendSystemContext",
];

fn fields_that(point: PointId, is: impl Fn(Latch) -> bool) -> bool {
    point.info().fields.iter().any(|field| is(field.latch))
}

#[test]
fn prompt_injection_switch_covers_before_llm_call() {
    assert!(PointId::BeforeLlmCall.info().prompt_injection);
    for point in PointId::ALL.iter().map(|point| point.info()) {
        // At the gate before a run, `message` is what the user reads.
        let gate = point.id == PointId::BeforeAgentRun;
        let writes = point.fields.iter().any(|field| READ_BY_THE_MODEL.contains(&field.name));
        if point.family == Family::Model && !gate {
            assert_eq!(point.prompt_injection, writes, "{}", point.name);
        }
    }
}

#[test]
fn law_5_failing_is_not_passing_wherever_an_outcome_can_block() {
    for point in PointId::ALL {
        if fields_that(*point, |latch| latch == Latch::Block) {
            assert_eq!(point.info().failure, FailurePolicy::Closed, "{point}");
        }
    }
}

#[test]
fn observers_answer_nothing_and_never_block_by_failing() {
    for point in PointId::ALL.iter().map(|point| point.info()) {
        assert_eq!(point.mode == Mode::Observe, point.fields.is_empty(), "{}", point.name);
        if point.mode == Mode::Observe || point.mode == Mode::Claim {
            assert_eq!(point.failure, FailurePolicy::Open, "{}", point.name);
        }
    }
}

#[test]
fn law_10_every_point_has_a_finite_budget() {
    for point in PointId::ALL.iter().map(|point| point.info()) {
        assert!((1..=600_000).contains(&point.budget_ms), "{}", point.name);
        if matches!(point.id, PointId::ToolResultPersist | PointId::BeforeMessageWrite) {
            assert!(point.budget_ms <= 1_000, "{} is on the write path", point.name);
        }
    }
}

#[test]
fn claims_can_be_taken() {
    for point in PointId::ALL.iter().map(|point| point.info()) {
        let handled = point.fields.iter().any(|field| field.name == "handled");
        assert_eq!(point.mode == Mode::Claim, handled, "{}", point.name);
    }
}

#[test]
fn names_are_unique_and_parse_back() {
    let mut seen = BTreeSet::new();
    for point in PointId::ALL {
        for name in std::iter::once(&point.name()).chain(point.info().aliases) {
            assert!(seen.insert(*name), "`{name}` names two points");
            assert_eq!(name.parse(), Ok(*point));
        }
    }
}

#[test]
fn hooks_that_see_the_conversation_need_access() {
    // INVARIANT (content is gated): around model calls only telemetry and background turns are free.
    let free: Vec<_> = PointId::ALL
        .iter()
        .filter(|point| point.info().family == Family::Model && !point.info().conversation_access)
        .map(|point| point.name())
        .collect();
    assert_eq!(free, ["model_call_started", "model_call_ended", "heartbeat_prompt_contribution"]);
}
