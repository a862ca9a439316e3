//! The conformance cases of every point: an event, the answers that a hook there may give, and what its silence means.
//!
//! They are the samples of the contract, so that a new point has its cases as soon as it has a sample.

use std::fmt::Write as _;

use backstop_hooks::{Mode, PointId};
use serde_json::{Value, json};

use crate::error::Error;
use crate::workspace::read;

/// What the texts of people and models in the samples begin with, for other tests.
const BODY: &str = "CONFIDENTIAL ";

/// One point a line.
pub(super) fn points() -> Result<String, Error> {
    let mut text = "{\"points\": [\n".to_owned();
    for (number, point) in PointId::ALL.iter().enumerate() {
        let separator = if number + 1 == PointId::ALL.len() { "" } else { "," };
        let _ = writeln!(text, "{}{separator}", case(*point)?);
    }
    text.push_str("]}\n");
    Ok(text)
}

fn case(point: PointId) -> Result<Value, Error> {
    let path = format!("crates/hooks/samples/{}.json", point.name());
    let sample: Value = serde_json::from_str(&read(&path)?.replace(BODY, ""))
        .map_err(|source| Error::Json { what: path, source })?;
    let watches = point.info().mode == Mode::Observe;
    let answers = if watches { json!([]) } else { sample.get("outcomes").cloned().unwrap_or_default() };
    // The one gate that takes no silence for an answer: the SDKs answer in its place.
    let silence = if point == PointId::BeforeAgentRun { json!({ "outcome": "pass" }) } else { Value::Null };
    Ok(json!({ "point": point.name(), "event": sample.get("event"), "answers": answers, "silence": silence }))
}
