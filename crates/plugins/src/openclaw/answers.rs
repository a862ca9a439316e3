//! Answers of plugins: what a handler returned, as an outcome of its point.
//!
//! The law: *failing is not passing*. What is no outcome is malformed, and a gate that answers it has failed. Fields that later
//! versions of the other system have are read where their meaning is known here. Those that can only inform somebody
//! ([`INFORMATIONAL`]) are left out, which is logged; any other is malformed, since nobody knows what it asked for.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{
    HookError, HookResult, Malformed, OnResolution, Outcome, Point, PointId, Resolution, Text,
};
use backstop_script::{Answer, Argument, Arguments, FunctionId, JsonText, Loaded};
use serde_json::{Map, Value};

use super::desk::Desk;
use super::{Dialect, shape};

/// How long a plugin may take to hear how its question ended.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// Why a call is blocked whose hook was to be told and could not be.
const UNTOLD: &str = "the hook that had asked could not be told the answer";
/// Why a call is blocked about whose answer a hook said something that is none.
const UNREAD: &str =
    "the hook that had asked said something about the answer that is neither a block nor nothing";

/// Names of fields that say something about an answer and ask for nothing: whatever they hold, the answer is no milder without them.
/// Where a point has a field of this name it is read.
const INFORMATIONAL: [&str; 12] = [
    "category",
    "comment",
    "confidence",
    "debug",
    "docsUrl",
    "labels",
    "metadata",
    "note",
    "policyId",
    "ruleId",
    "tags",
    "telemetry",
];

/// Reads an answer at the point `P`.
pub(super) fn outcome<P: Point>(
    script: &Loaded,
    dialect: Dialect,
    desk: &Desk,
    event: &P::Event,
    answer: Answer,
) -> HookResult<P> {
    let Answer { json, functions } = answer;
    let read = || -> Result<Value, HookError> {
        let value: Value = json.read().map_err(|_| Malformed::new("the answer is no JSON"))?;
        Ok(match (dialect, value) {
            (Dialect::OpenClaw, Value::Object(answer)) => {
                let mut answer = translated::<P>(answer, event)?;
                inform::<P>(&mut answer, desk);
                Value::Object(answer)
            }
            (_, value) => value,
        })
    };
    let mut outcome = match P::Outcome::from_json(read()?) {
        Ok(outcome) => outcome,
        Err(wrong) => return Err(located::<P>(read()?, &wrong).into()),
    };
    if let Some(outcome) = &mut outcome {
        for function in functions {
            outcome.listen(&listener(script.clone(), function.id));
        }
    }
    Ok(outcome)
}

/// What is wrong with an answer, with the field that it is about.
fn located<P: Point>(value: Value, wrong: &Malformed) -> Malformed {
    let Value::Object(fields) = value else {
        let point = P::INFO.name;
        return Malformed::new(format!(
            "`answer` is no object\n  hint: a hook at {point} answers an object with fields, or nothing"
        ));
    };
    let alone = |(name, value): (String, Value)| {
        let error = P::Outcome::from_json(Value::Object(Map::from_iter([(name.clone(), value)]))).err()?;
        // A name that is none may be anything that the hook was told.
        let is_name = name.len() <= 40 && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (error == *wrong && is_name).then(|| Malformed::new(format!("`answer.{name}`: {}", error.message())))
    };
    fields.into_iter().find_map(alone).unwrap_or_else(|| wrong.clone())
}

fn translated<P: Point>(
    answer: Map<String, Value>,
    event: &P::Event,
) -> Result<Map<String, Value>, HookError> {
    // The event is only needed for what is laid over it.
    let needs_event = answer.contains_key("params") || answer.contains_key("result");
    let event = match serde_json::to_value(event) {
        Ok(Value::Object(event)) if needs_event => event,
        _ => Map::new(),
    };
    let mut answer = shape::our_answer(answer, &event).map_err(Malformed::new)?;
    // A policy there may say that it does not allow, which is a block by another name.
    if let Some(allow) = answer.remove("allow") {
        if allow != Value::Bool(false) {
            return Err(Malformed::new("`allow` can only be `false`").into());
        }
        answer.insert("block".to_owned(), Value::Bool(true));
        if let Some(reason) = answer.remove("reason") {
            answer.insert("blockReason".to_owned(), reason);
        }
    }
    Ok(answer)
}

/// Leaves out what only informs. At a point whose fields are nobody's to choose (variables of a command), or that takes exact
/// forms only, everything is read.
fn inform<P: Point>(answer: &mut Map<String, Value>, desk: &Desk) {
    let fields = P::INFO.fields;
    let is_exact = P::INFO.id == PointId::BeforeAgentRun || fields.iter().any(|field| field.name == "*");
    if fields.is_empty() || is_exact {
        return;
    }
    let leave_out = |from: &mut Map<String, Value>, within: &str, known: &dyn Fn(&str) -> bool| {
        for name in INFORMATIONAL {
            if !known(name) && from.remove(name).is_some() {
                desk.not_read(&format!("`{within}{name}` of an answer at `{}`", P::INFO.name));
            }
        }
    };
    leave_out(answer, "", &|name| fields.iter().any(|field| field.name == name));
    if let Some(Value::Object(request)) = answer.get_mut("requireApproval") {
        leave_out(request, "requireApproval.", &|_| false);
    }
}

/// Tells a function of a plugin how its question ended. One that can't be told has nothing more to say.
fn listener(script: Loaded, function: FunctionId) -> OnResolution {
    let kept = Arc::new(Kept { script, function });
    Arc::new(move |resolution: Resolution| {
        let kept = Arc::clone(&kept);
        Box::pin(async move { kept.tell(resolution).await })
    })
}

/// A function that is let go of when nobody can call it any more.
struct Kept {
    script: Loaded,
    function: FunctionId,
}

impl Kept {
    /// Whoever can't take the answer, or says something about it that can't be read, objects.
    async fn tell(&self, resolution: Resolution) -> Option<Text> {
        let Ok(text) = JsonText::of(&resolution) else { return Some(UNTOLD.into()) };
        let arguments = Arguments::new([Argument::Json(text)]);
        match self.script.call(self.function, &arguments, TOLD_WITHIN).await {
            Ok(None) => None,
            Ok(Some(answer)) => blocked(&answer.json),
            Err(error) => {
                tracing::warn!(plugin = self.script.name(), %error, "a plugin could not be told how its question ended");
                Some(UNTOLD.into())
            }
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.script.release(self.function);
    }
}

/// A block after all, `{ block: true, blockReason }`. `{}` and `{ block: false }` are none; what is anything else objects.
fn blocked(answer: &JsonText) -> Option<Text> {
    let Ok(Value::Object(mut answer)) = answer.read::<Value>() else { return Some(UNREAD.into()) };
    let (block, reason) = (answer.remove("block"), answer.remove("blockReason"));
    let reason = match reason {
        None => Some("blocked by the hook that had asked".to_owned()),
        Some(Value::String(reason)) => Some(reason),
        Some(_) => None,
    };
    match (block, reason) {
        (Some(Value::Bool(true)), Some(reason)) if answer.is_empty() => Some(reason.into()),
        (None | Some(Value::Bool(false)), Some(_)) if answer.is_empty() => None,
        _ => Some(UNREAD.into()),
    }
}
