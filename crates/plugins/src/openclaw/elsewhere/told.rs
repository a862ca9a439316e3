//! What a plugin in a program of its own said: an answer as data, or an error in words.

use std::time::Duration;

use backstop_script::{Answer, Ended, FunctionId, JsonText, KeptFunction, Limits, Place, ScriptError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    #[serde(default)]
    none: bool,
    #[serde(default)]
    json: Option<Value>,
    #[serde(default)]
    functions: Vec<(String, u32)>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Where {
    file: String,
    line: u32,
    column: u32,
}

/// What went wrong there, as it is said over the pipe. Node says no more than the first four.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Wrong {
    Thrown {
        message: String,
        #[serde(default)]
        code: Option<String>,
        #[serde(default)]
        stack: String,
        #[serde(default)]
        place: Option<Where>,
    },
    Syntax {
        message: String,
        place: Where,
    },
    Malformed {
        path: String,
        reason: String,
    },
    None,
    Module {
        specifier: String,
        importer: String,
        reason: String,
    },
    Late {
        millis: u64,
        #[serde(default)]
        place: Option<Where>,
    },
    Ended(WhyEnded),
    Busy {
        limit: usize,
    },
    Other {
        reason: String,
    },
}

/// Why a runtime was ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "lowercase")]
pub(crate) enum WhyEnded {
    /// Bytes that it might have.
    Memory { most: u64, place: Option<Where> },
    /// How long it might go on.
    Jobs { millis: u64 },
    /// How long it might go on.
    Slice { millis: u64, place: Option<Where> },
}

impl Wrong {
    /// As it is said.
    pub(crate) fn of(error: ScriptError) -> Self {
        let at = |Place { file, line, column }| Where { file, line, column };
        match error {
            ScriptError::Thrown { message, place, code, stack } => {
                Self::Thrown { message, code, stack, place: place.map(at) }
            }
            ScriptError::Syntax { place, message } => Self::Syntax { message, place: at(place) },
            ScriptError::Malformed { path, reason } => Self::Malformed { path, reason },
            ScriptError::NoFunction { .. } => Self::None,
            ScriptError::Module { specifier, importer, reason } => {
                Self::Module { specifier, importer, reason }
            }
            ScriptError::TimedOut { budget, at: place } => {
                Self::Late { millis: millis(budget), place: place.map(at) }
            }
            ScriptError::Ended { why, .. } => Self::Ended(match why {
                Ended::OutOfMemory { most, at: place } => {
                    WhyEnded::Memory { most: u64::try_from(most).unwrap_or(u64::MAX), place: place.map(at) }
                }
                Ended::EndlessJobs { within } => WhyEnded::Jobs { millis: millis(within) },
                Ended::SliceOver { within, at: place } => {
                    WhyEnded::Slice { millis: millis(within), place: place.map(at) }
                }
            }),
            ScriptError::Busy { limit } => Self::Busy { limit },
            other => Self::Other { reason: other.to_string() },
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn place(at: Where) -> Place {
    Place { file: at.file, line: at.line, column: at.column }
}

fn unreadable() -> ScriptError {
    ScriptError::Elsewhere {
        reason: "the plugin's process answered what is no answer of the protocol".to_owned(),
        is_malformed: true,
    }
}

/// Reads what was answered to a call of the function `name`, in whose answer functions may stand at `places`.
pub(super) fn answer(
    said: Value,
    generation: u32,
    name: &str,
    places: &[String],
) -> Result<Option<Answer>, ScriptError> {
    let said: Said = serde_json::from_value(said).map_err(|_| unreadable())?;
    match said {
        Said { error: Some(wrong), none: false, json: None, .. } => Err(match error(&wrong) {
            Some(ScriptError::NoFunction { .. }) => ScriptError::NoFunction { name: name.to_owned() },
            Some(error) => error,
            None => unreadable(),
        }),
        Said { none: true, json: None, error: None, .. } => Ok(None),
        Said { none: false, json: Some(json), error: None, functions } => {
            let json = JsonText::of(&json).map_err(|_| unreadable())?;
            let most = Limits::default().answer_bytes;
            if json.as_str().len() > most {
                let (path, reason) = ("answer".to_owned(), format!("is larger than {most} bytes"));
                return Err(ScriptError::Malformed { path, reason });
            }
            let is_asked_for = |(at, _): &(String, u32)| places.contains(at);
            if functions.len() > places.len() || !functions.iter().all(is_asked_for) {
                return Err(unreadable());
            }
            let kept =
                |(at, number): (String, u32)| KeptFunction { at, id: FunctionId::of(number, generation) };
            Ok(Some(Answer { json, functions: functions.into_iter().map(kept).collect() }))
        }
        Said { .. } => Err(unreadable()),
    }
}

/// Reads what went wrong there.
pub(super) fn error(said: &Value) -> Option<ScriptError> {
    Some(match Wrong::deserialize(said).ok()? {
        Wrong::Thrown { message, code, stack, place: at } => {
            ScriptError::Thrown { message, place: at.map(place), code, stack }
        }
        Wrong::Syntax { message, place: at } => ScriptError::Syntax { place: place(at), message },
        Wrong::Malformed { path, reason } => ScriptError::Malformed { path, reason },
        Wrong::None => ScriptError::NoFunction { name: String::new() },
        Wrong::Module { specifier, importer, reason } => ScriptError::Module { specifier, importer, reason },
        Wrong::Late { millis, place: at } => {
            ScriptError::TimedOut { budget: Duration::from_millis(millis), at: at.map(place) }
        }
        Wrong::Ended(why) => ScriptError::Ended {
            why: match why {
                WhyEnded::Memory { most, place: at } => Ended::OutOfMemory {
                    most: usize::try_from(most).unwrap_or(usize::MAX),
                    at: at.map(place),
                },
                WhyEnded::Jobs { millis } => Ended::EndlessJobs { within: Duration::from_millis(millis) },
                WhyEnded::Slice { millis, place: at } => {
                    Ended::SliceOver { within: Duration::from_millis(millis), at: at.map(place) }
                }
            },
            again_in: Duration::ZERO,
        },
        Wrong::Busy { limit } => ScriptError::Busy { limit },
        Wrong::Other { reason } => ScriptError::Elsewhere { reason, is_malformed: false },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_one_thing_or_unreadable() {
        let places = ["a.b".to_owned()];
        let answer = |said, generation| answer(said, generation, "#1", &places);
        assert_eq!(answer(json!({ "none": true }), 1), Ok(None));
        let said = answer(json!({ "json": { "block": true }, "functions": [["a.b", 7]] }), 2);
        let said = said.unwrap().unwrap();
        assert_eq!(said.json.as_str(), r#"{"block":true}"#);
        assert_eq!(said.functions[0].id, FunctionId::of(7, 2));
        for bad in [
            json!(null),
            json!({}),
            json!({ "json": null }),
            json!({ "none": true, "json": {} }),
            json!({ "json": {}, "error": { "kind": "none" } }),
            json!({ "json": {}, "more": 1 }),
            json!({ "error": { "kind": "other" } }),
            json!({ "json": {}, "functions": [[1, 2]] }),
            json!({ "json": {}, "functions": [["a", 2]] }),
            json!({ "json": {}, "functions": [["a.b", 2], ["a.b", 3]] }),
        ] {
            let said = answer(bad.clone(), 1);
            assert!(
                matches!(said, Err(ScriptError::Elsewhere { is_malformed: true, .. })),
                "{bad}: {said:?}"
            );
        }
        let large = answer(json!({ "json": "x".repeat(2 << 20) }), 1);
        assert!(matches!(large, Err(ScriptError::Malformed { .. })), "{large:?}");
        let none = answer(json!({ "error": { "kind": "none" } }), 1).unwrap_err();
        assert_eq!(none.to_string(), "the script has no function #1");
    }
}
