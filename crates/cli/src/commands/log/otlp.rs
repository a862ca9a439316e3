//! Entries as logs of OpenTelemetry, in the JSON encoding of OTLP: an object as a file exporter writes it on each line.
//!
//! Source: <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding> (names in lowerCamelCase, 64-bit integers as decimal texts,
//! enumerations as numbers, trace ids in hexadecimal), and `opentelemetry/proto/logs/v1/logs.proto`. Attributes have the names that
//! spans have ([traces](../../../../../docs/traces.md)); `backstop.seq` is the number that `backstop audit proof` takes.

use serde_json::{Value, json};

use super::facts::Facts;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Returns the logs of one entry.
pub(super) fn logs(facts: &Facts<'_>) -> Value {
    let entry = facts.entry;
    let at =
        u64::try_from(entry.at.as_millis()).unwrap_or_default().saturating_mul(NANOS_PER_MILLI).to_string();
    let (severity, word) = if facts.is_blocked() { (13, "WARN") } else { (9, "INFO") };
    let mut record = json!({
        "timeUnixNano": at,
        "observedTimeUnixNano": at,
        "severityNumber": severity,
        "severityText": word,
        "eventName": format!("backstop.{}", entry.kind),
        "body": any(&entry.body),
        "attributes": attributes(facts),
    });
    // An id of another length makes the whole record invalid.
    let trace =
        facts.trace().filter(|trace| trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if let (Some(trace), Some(record)) = (trace, record.as_object_mut()) {
        record.insert("traceId".to_owned(), json!(trace.to_ascii_lowercase()));
    }
    json!({ "resourceLogs": [{
        "resource": { "attributes": [text("service.name", "backstop"), text("service.version", env!("CARGO_PKG_VERSION"))] },
        "scopeLogs": [{ "scope": { "name": "backstop.audit" }, "logRecords": [record] }],
    }] })
}

fn attributes(facts: &Facts<'_>) -> Vec<Value> {
    let entry = facts.entry;
    let digest = entry.digest.to_string();
    let texts = [
        ("backstop.kind", Some(entry.kind.as_str())),
        ("backstop.digest", Some(&digest)),
        ("backstop.process", Some(&entry.process)),
        ("backstop.session.id", entry.session.as_ref().map(AsRef::as_ref)),
        ("backstop.run.id", entry.run.as_ref().map(AsRef::as_ref)),
        ("backstop.policy", entry.policy.as_deref()),
        ("backstop.receipt.id", facts.text("/id")),
        ("backstop.verdict", facts.text("/verdict")),
        ("backstop.point", facts.point()),
        ("backstop.host", facts.host()),
        ("backstop.client", facts.client()),
        ("backstop.workspace", facts.workspace()),
        ("backstop.blocked.hook", facts.text("/blocked/hook")),
        ("backstop.approval.resolution", facts.resolution()),
        ("gen_ai.agent.id", facts.agent()),
        ("gen_ai.tool.name", facts.tool()),
        ("gen_ai.tool.call.id", facts.text("/toolCallId")),
        ("enduser.id", facts.who()),
    ];
    let mut attributes =
        vec![json!({ "key": "backstop.seq", "value": { "intValue": entry.seq.to_string() } })];
    attributes.extend(texts.into_iter().filter_map(|(key, value)| Some(text(key, value?))));
    let rules = facts.rules();
    if !rules.is_empty() {
        let values: Vec<Value> = rules.into_iter().map(|rule| json!({ "stringValue": rule })).collect();
        attributes.push(json!({ "key": "backstop.rules", "value": { "arrayValue": { "values": values } } }));
    }
    attributes
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Returns a value as OTLP has it.
fn any(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => json!({ "intValue": integer.to_string() }),
            None => json!({ "doubleValue": number }),
        },
        Value::String(text) => json!({ "stringValue": text }),
        Value::Array(items) => {
            json!({ "arrayValue": { "values": items.iter().map(any).collect::<Vec<_>>() } })
        }
        Value::Object(fields) => {
            let values = fields.iter().map(|(key, value)| json!({ "key": key, "value": any(value) }));
            json!({ "kvlistValue": { "values": values.collect::<Vec<_>>() } })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::log::ocsf::tests::blocked;

    #[test]
    fn a_block_is_the_log_that_it_was() {
        let entry = blocked();
        insta::assert_snapshot!(serde_json::to_string_pretty(&logs(&Facts::of(&entry))).unwrap());
    }

    #[test]
    fn what_is_no_trace_id_is_none() {
        for wrong in ["", "0af7", "0af7651916cd43dd8448eb211c80319g", "0af7651916cd43dd8448eb211c80319c0"] {
            let mut entry = blocked();
            entry.body = json!({ "traceId": wrong }).into();
            let logs = logs(&Facts::of(&entry));
            assert_eq!(
                logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0].get("traceId"),
                None,
                "{wrong}"
            );
        }
    }
}
