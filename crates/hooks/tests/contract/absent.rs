//! Law 12: absent is not empty.

use backstop_hooks::points::{
    AfterLlmCall, BeforeAgentRun, BeforeLlmCall, BeforePromptBuild, BeforeResponseEmit, BeforeToolCall,
    SubagentDeliveryTarget, ToolBefore,
};
use backstop_hooks::{Event, Latch, Mode, Outcome, Point, PointId};
use serde_json::{Value, json};

use crate::sample::{Sample, Visit, answer, each_point, field, merged};

/// The empty value of the same kind.
fn emptied(value: &Value) -> Option<Value> {
    match value {
        Value::String(_) => Some(json!("")),
        Value::Array(_) => Some(json!([])),
        Value::Object(_) => Some(json!({})),
        Value::Bool(_) => Some(json!(false)),
        Value::Number(_) | Value::Null => None,
    }
}

fn open_ended<P: Point>() -> bool {
    P::Outcome::FIELDS.iter().any(|of| of.latch == Latch::PerKey)
}

struct Empties;

impl Visit for Empties {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let full = sample.outcomes.first().unwrap();
        for (name, value) in full.as_object().unwrap() {
            let Some(empty) = emptied(value) else { continue };
            let mut asked = full.clone();
            asked[name] = empty.clone();
            // Where empty makes no sense (no title, no such action) it is refused, never taken for absent.
            if let Ok(Some(outcome)) = P::Outcome::from_json(asked) {
                assert_eq!(field(&outcome, name), Some(empty), "`{name}` at {}", P::INFO.name);
            }
        }
    }
}

#[test]
fn law_12_absent_is_not_empty_at_any_point() {
    each_point(&mut Empties);
}

struct Nulls;

impl Visit for Nulls {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let full = sample.outcomes.first().unwrap();
        for name in full.as_object().unwrap().keys() {
            let mut asked = full.clone();
            asked[name] = Value::Null;
            match P::Outcome::from_json(asked) {
                Err(_) => {}
                // The one list that restricts even when it is malformed.
                Ok(Some(outcome)) if name == "toolsAllow" => {
                    assert_eq!(field(&outcome, name), Some(json!([])));
                }
                // Values that may be absent are cleared by it, which is not the same as saying nothing.
                Ok(Some(outcome)) if P::INFO.id == PointId::ParamsBefore => {
                    assert_eq!(field(&outcome, name), Some(Value::Null));
                }
                Ok(_) => panic!("`{name}: null` passes at {}", P::INFO.name),
            }
        }
    }
}

#[test]
fn law_12_absent_is_not_empty_so_null_is_refused() {
    each_point(&mut Nulls);
}

struct Strangers;

impl Visit for Strangers {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        if open_ended::<P>() {
            return;
        }
        for outcome in &sample.outcomes {
            let mut asked = outcome.clone();
            asked["surprise"] = json!(true);
            assert!(P::Outcome::from_json(asked).is_err(), "an unknown field passes at {}", P::INFO.name);
        }
    }
}

#[test]
fn law_12_absent_is_not_empty_so_unknown_fields_are_refused() {
    each_point(&mut Strangers);
}

struct WrongTypes;

impl Visit for WrongTypes {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        let full = sample.outcomes.first().unwrap();
        for (name, value) in full.as_object().unwrap() {
            let mut asked = full.clone();
            asked[name] = if value.is_number() { json!("seven") } else { json!(7) };
            match P::Outcome::from_json(asked) {
                Err(_) => {}
                Ok(Some(outcome)) if name == "toolsAllow" => {
                    assert_eq!(field(&outcome, name), Some(json!([])));
                }
                Ok(_) => panic!("`{name}` of a wrong type passes at {}", P::INFO.name),
            }
        }
        for not_an_object in [json!(7), json!("pass"), json!(true)] {
            assert!(P::Outcome::from_json(not_an_object).is_err(), "{}", P::INFO.name);
        }
    }
}

#[test]
fn law_12_wrong_types_are_refused_not_ignored() {
    each_point(&mut WrongTypes);
}

struct NoOpinion;

impl Visit for NoOpinion {
    fn visit<P: Point>(&mut self, sample: &Sample) {
        if P::INFO.id != PointId::BeforeAgentRun {
            assert_eq!(P::Outcome::from_json(Value::Null), Ok(None), "{}", P::INFO.name);
        }
        if P::INFO.mode == Mode::Claim {
            return;
        }
        sample.for_all_answers::<P>(|answers| {
            let all = merged(&answers);
            let mut and_nothing = all.clone();
            assert_eq!(and_nothing.merge(P::Outcome::default()), Vec::<&str>::new());
            assert_eq!(and_nothing, all, "no opinion is neutral");
        });
    }
}

#[test]
fn law_12_absent_is_no_opinion() {
    each_point(&mut NoOpinion);
}

#[test]
fn law_12_absent_is_not_empty_inside_values_too() {
    type Calls = <AfterLlmCall as Point>::Outcome;
    assert!(Calls::from_json(json!({"toolCalls": [{"id": "call-1", "name": null}]})).is_err());
    // Arguments may be any JSON, so `null` is read: as arguments that are not the model's.
    let edited = answer::<AfterLlmCall>(json!({"toolCalls": [{"id": "call-1", "arguments": null}]}));
    let event = Sample::of("after_llm_call").event::<AfterLlmCall>();
    assert!(event.check(&edited).is_err());
    assert!(<SubagentDeliveryTarget as Point>::Outcome::from_json(json!({"origin": {"to": null}})).is_err());
}

#[test]
fn empty_string_and_empty_list_are_answers() {
    let earlier = answer::<BeforeLlmCall>(json!({"systemPrompt": "x", "tools": [{"name": "exec"}]}));
    let cleared = answer::<BeforeLlmCall>(json!({"systemPrompt": "", "messages": [], "tools": []}));
    let all = merged(&[earlier, cleared]);
    assert_eq!(all.system_prompt.as_deref(), Some(""));
    assert_eq!(all.messages.as_deref(), Some(&[][..]));
    assert_eq!(all.tools.unwrap().0, []);

    let none_left = answer::<AfterLlmCall>(json!({"toolCalls": []}));
    assert_eq!(none_left.tool_calls.unwrap().0, []);

    let silent = answer::<BeforeResponseEmit>(json!({"content": ""}));
    let loud = answer::<BeforeResponseEmit>(json!({"content": "x"}));
    assert_eq!(merged(&[loud, silent]).content.as_deref(), Some(""));

    let bare = answer::<BeforeToolCall>(json!({"params": {}}));
    assert!(bare.params.unwrap().is_empty());
    let bare = answer::<ToolBefore>(json!({"args": {}}));
    assert!(bare.args.unwrap().is_empty());

    let first = answer::<BeforePromptBuild>(json!({"systemPrompt": ""}));
    let second = answer::<BeforePromptBuild>(json!({"systemPrompt": "x"}));
    assert_eq!(merged(&[second, first]).system_prompt.as_deref(), Some(""));

    // `false` is an answer that blocks nothing, and can't lift a block.
    let open = answer::<BeforeToolCall>(json!({"block": false}));
    assert_eq!(open.block, Some(false));
    assert!(!open.blocks());
    let blocked = answer::<BeforeToolCall>(json!({"block": true}));
    assert!(merged(&[blocked, open]).blocks());
}

#[test]
fn law_12_null_at_the_strict_gate_is_malformed() {
    assert!(<BeforeAgentRun as Point>::Outcome::from_json(Value::Null).is_err());
}
