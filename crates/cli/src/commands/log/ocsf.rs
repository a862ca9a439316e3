//! Entries as events of the Open Cybersecurity Schema Framework, <https://schema.ocsf.io>, version [`VERSION`].
//!
//! Each is an *API Activity* (class 6003): an agent (`actor`) asks for an operation (`api`), and what was decided about it is said by the
//! profile `security_control`. Entries that judge nothing (questions, answers, grants, starts) are of the same class with the activity *Other*, and their
//! kind is `metadata.event_code`. `metadata.sequence` is the number of the entry, as `backstop audit proof` takes it. What the schema has no
//! name for is in `unmapped`.
//!
//! Source: `events/application/api_activity.json`, `events/base_event.json`, `profiles/security_control.json`, `objects/{actor,api,metadata,
//! network_endpoint,policy,product,trace}.json` and `dictionary.json` of <https://github.com/ocsf/ocsf-schema> at 1.8.0.

use backstop::store::{APPROVAL_ASKED, APPROVAL_ENDED};
use serde_json::{Map, Value, json};

use super::facts::Facts;

/// The version of the schema.
const VERSION: &str = "1.8.0";
const CLASS: u32 = 6003;
const OTHER: u32 = 99;

/// Returns the event.
pub(super) fn event(facts: &Facts<'_>) -> Value {
    let entry = facts.entry;
    let (action, disposition) = control(facts);
    let mut profiles = Vec::new();
    let mut event = json!({
        "activity_id": OTHER,
        "activity_name": if facts.is_receipt() { "Judge" } else { "Record" },
        "category_uid": 6,
        "category_name": "Application Activity",
        "class_uid": CLASS,
        "class_name": "API Activity",
        "type_uid": CLASS * 100 + OTHER,
        "type_name": "API Activity: Other",
        "severity_id": severity(facts),
        "time": entry.at.as_millis(),
        "actor": actor(facts),
        "api": {
            "operation": facts.tool().or_else(|| facts.point()).unwrap_or(&entry.kind),
            "service": { "name": facts.host().unwrap_or("backstop") },
        },
        "src_endpoint": { "svc_name": facts.client().or_else(|| facts.host()).unwrap_or("backstop") },
        "unmapped": entry.body,
    });
    let Some(fields) = event.as_object_mut() else { return event };
    if let Some((action_id, action)) = action {
        profiles.push("security_control");
        fields.insert("action_id".to_owned(), json!(action_id));
        fields.insert("action".to_owned(), json!(action));
        if let Some((disposition_id, disposition)) = disposition {
            fields.insert("disposition_id".to_owned(), json!(disposition_id));
            fields.insert("disposition".to_owned(), json!(disposition));
        }
        if let Some(hook) = facts.hook() {
            let rules = facts.rules();
            let desc = (!rules.is_empty()).then(|| rules.join(", "));
            let mut policy = json!({ "uid": hook, "is_applied": true });
            if let (Some(policy), Some(desc)) = (policy.as_object_mut(), desc) {
                policy.insert("desc".to_owned(), json!(desc));
            }
            fields.insert("policy".to_owned(), policy);
        }
    }
    if let Some(trace) = facts.trace() {
        profiles.push("trace");
        fields.insert("trace".to_owned(), json!({ "uid": trace }));
    }
    fields.insert("metadata".to_owned(), metadata(facts, &profiles));
    event
}

fn metadata(facts: &Facts<'_>, profiles: &[&str]) -> Value {
    let entry = facts.entry;
    let mut metadata = json!({
        "version": VERSION,
        "product": { "name": "Backstop", "vendor_name": "Backstop", "version": env!("CARGO_PKG_VERSION") },
        "log_name": "audit",
        "event_code": entry.kind,
        "sequence": entry.seq,
        "uid": entry.digest,
        "profiles": profiles,
    });
    if let (Some(run), Some(fields)) = (&entry.run, metadata.as_object_mut()) {
        fields.insert("correlation_uid".to_owned(), json!(run));
    }
    if let (Some(policy), Some(fields)) = (&entry.policy, metadata.as_object_mut()) {
        fields.insert("labels".to_owned(), json!([format!("backstop.policy:{policy}")]));
    }
    metadata
}

fn actor(facts: &Facts<'_>) -> Value {
    let mut actor = Map::new();
    // One of these must be there: the process that wrote the entry always is.
    actor.insert("app_uid".to_owned(), json!(facts.entry.process));
    if let Some(agent) = facts.agent() {
        actor.insert("app_name".to_owned(), json!(agent));
    }
    if let Some(session) = &facts.entry.session {
        actor.insert("session".to_owned(), json!({ "uid": session }));
    }
    if let Some(who) = facts.who() {
        actor.insert("user".to_owned(), json!({ "name": who }));
    }
    Value::Object(actor)
}

/// A number of the schema, and its caption.
type Word = (u32, &'static str);

/// Returns what the control did (`action_id`), and what came of it (`disposition_id`).
fn control(facts: &Facts<'_>) -> (Option<Word>, Option<Word>) {
    const ALLOWED: Word = (1, "Allowed");
    const BLOCKED: Word = (2, "Blocked");
    const APPROVED: Word = (8, "Approved");
    match facts.decision() {
        Some("pass") => (Some(ALLOWED), Some(ALLOWED)),
        Some("ask") => (Some(ALLOWED), Some(APPROVED)),
        Some("block" | "deny") => (Some((2, "Denied")), Some(BLOCKED)),
        Some("modify" | "edit") => (Some((4, "Modified")), Some((11, "Corrected"))),
        // What a person answers for a tool, it does not do.
        Some("respond") => (Some((2, "Denied")), Some(BLOCKED)),
        Some("handled") => (Some((OTHER, "handled")), None),
        Some("observed") => (Some((3, "Observed")), Some((17, "Logged"))),
        Some("dropped") => (Some((OTHER, "dropped")), None),
        Some(decision) if decision.starts_with("allow") => (Some(ALLOWED), Some(APPROVED)),
        _ => (None, None),
    }
}

/// Returns the severity: informational, low where something was changed, asked about or given up, medium where it was stopped or where entries
/// are missing, were not written or were signed late, high where the trail was damaged.
fn severity(facts: &Facts<'_>) -> u32 {
    match facts.decision() {
        _ if facts.entry.kind == "recovered" => 4,
        _ if ["gap", "omitted", "impaired", "unsigned"].contains(&facts.entry.kind.as_str()) => 3,
        _ if facts.is_blocked() => 3,
        Some("ask" | "modify" | "edit" | "respond" | "dropped") => 2,
        _ if [APPROVAL_ASKED, APPROVAL_ENDED].contains(&facts.entry.kind.as_str()) => 2,
        _ => 1,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use backstop::hooks::Digest;
    use backstop::store::{AuditEntry, Timestamp};

    use super::*;

    /// What the schema says of an object: the attributes that must be there, others that may, and of which there must be one.
    struct Known {
        required: &'static [&'static str],
        optional: &'static [&'static str],
        one_of: &'static [&'static str],
    }

    /// The objects that are used, as version 1.8.0 has them (as far as their attributes are used).
    fn known(object: &str) -> Known {
        let (required, optional, one_of): (&[_], &[_], &[_]) = match object {
            "api_activity" => (
                &[
                    "activity_id",
                    "category_uid",
                    "class_uid",
                    "metadata",
                    "severity_id",
                    "time",
                    "type_uid",
                    "actor",
                    "api",
                    "src_endpoint",
                ],
                &[
                    "activity_name",
                    "category_name",
                    "class_name",
                    "type_name",
                    "unmapped",
                    "action_id",
                    "action",
                    "disposition_id",
                    "disposition",
                    "policy",
                    "trace",
                ],
                &[],
            ),
            "metadata" => (
                &["product", "version"],
                &["uid", "sequence", "event_code", "log_name", "correlation_uid", "labels", "profiles"],
                &[],
            ),
            "product" => (&[], &["name", "vendor_name", "version"], &["name", "uid"]),
            "actor" => (
                &[],
                &["app_name", "app_uid", "session", "user"],
                &["process", "user", "iam_role", "invoked_by", "session", "app_name", "app_uid"],
            ),
            "session" => (&[], &["uid"], &[]),
            "user" => (&[], &["name"], &["account", "name", "uid"]),
            "api" => (&["operation"], &["service"], &[]),
            "service" => (&[], &["name"], &["name", "uid"]),
            "src_endpoint" => (&[], &["svc_name"], &["ip", "uid", "name", "hostname", "svc_name"]),
            "policy" => (&[], &["uid", "desc", "is_applied"], &["name", "type", "uid"]),
            "trace" => (&["uid"], &[], &[]),
            other => panic!("`{other}` is no object that is known here"),
        };
        Known { required, optional, one_of }
    }

    fn conform(object: &str, value: &Value) {
        let (fields, known) = (value.as_object().unwrap(), known(object));
        for name in known.required {
            assert!(fields.contains_key(*name), "{object} lacks {name}: {value}");
        }
        let is_one = known.one_of.is_empty() || known.one_of.iter().any(|name| fields.contains_key(*name));
        assert!(is_one, "{object} names nothing: {value}");
        for (name, value) in fields {
            assert!(
                known.required.contains(&name.as_str()) || known.optional.contains(&name.as_str()),
                "{object} has no {name}"
            );
            if value.is_object() && name != "unmapped" {
                conform(name, value);
            }
            let is_number = name.ends_with("_id")
                || ["category_uid", "class_uid", "type_uid", "sequence", "time"].contains(&name.as_str());
            assert_eq!(value.is_number(), is_number, "{object}.{name}: {value}");
        }
    }

    fn entry(kind: &str, body: Value) -> AuditEntry {
        AuditEntry {
            seq: 7,
            at: Timestamp::from_millis(1_764_331_200_123),
            kind: kind.to_owned(),
            session: Some("s-1".into()),
            run: Some("run-1".into()),
            policy: Some(Digest::of_text("policy", "x").to_string()),
            body: body.into(),
            process: "p-1".to_owned(),
            n: 3,
            digest: Digest::of_text("audit", "x"),
        }
    }

    pub(crate) fn blocked() -> AuditEntry {
        let body = json!({
            "id": "r-1", "point": "before_tool_call", "verdict": "block", "tool": "exec", "calledAs": "Bash", "agentId": "claude",
            "host": "hooks", "client": "claude", "workspace": "/home/ann", "toolCallId": "call-1", "elapsedUs": 12, "share": 0.5,
            "traceId": "0af7651916cd43dd8448eb211c80319c", "requester": { "senderId": "ann" }, "none": null, "yes": true,
            "blocked": { "cause": "decision", "hook": "builtin:guard", "reason": { "rules": ["net.pipe", "fs.rm"] } },
        });
        entry("receipt", body)
    }

    #[test]
    fn a_block_is_the_event_that_it_was() {
        let entry = blocked();
        insta::assert_snapshot!(serde_json::to_string_pretty(&event(&Facts::of(&entry))).unwrap());
    }

    #[test]
    fn a_call_that_was_given_up_is_not_approved_and_a_damaged_trail_is_no_information() {
        let given_up =
            entry("receipt", json!({ "verdict": "dropped", "approval": { "resolution": "aborted" } }));
        let given_up = event(&Facts::of(&given_up));
        assert_eq!((&given_up["action"], given_up.get("disposition")), (&json!("dropped"), None));
        let severities = [
            ("recovered", 4),
            ("gap", 3),
            ("omitted", 3),
            ("impaired", 3),
            ("unsigned", 3),
            (APPROVAL_ASKED, 2),
            (APPROVAL_ENDED, 2),
            ("start", 1),
        ];
        for (kind, severity) in severities {
            let entry = entry(kind, json!({}));
            assert_eq!(event(&Facts::of(&entry))["severity_id"], severity, "{kind}");
        }
    }

    #[test]
    fn every_event_is_one_of_the_schema() {
        let verdicts = ["pass", "modify", "block", "handled", "observed", "dropped", "later"];
        let mut entries: Vec<AuditEntry> =
            verdicts.map(|verdict| entry("receipt", json!({ "verdict": verdict }))).into();
        entries.push(blocked());
        entries.push(entry("receipt", json!({ "verdict": "pass", "approval": {}, "hook": "h" })));
        entries.push(entry(
            "approval.answered",
            json!({ "decision": "allow-once", "by": "ann", "tool": "exec" }),
        ));
        for decision in ["deny", "edit", "respond"] {
            entries.push(entry("approval.answered", json!({ "decision": decision })));
        }
        entries.push(entry(
            APPROVAL_ASKED,
            json!({ "tool": "exec", "agent": "a", "hooks": ["h"], "rules": ["r"] }),
        ));
        entries.push(entry(APPROVAL_ENDED, json!({ "tool": "exec", "why": "deadline" })));
        entries.push(entry("start", json!(null)));
        entries.push(AuditEntry { session: None, run: None, policy: None, ..entry("gap", json!([])) });
        for entry in &entries {
            let event = event(&Facts::of(entry));
            conform("api_activity", &event);
            assert_eq!(
                event["type_uid"],
                event["class_uid"].as_u64().unwrap() * 100 + event["activity_id"].as_u64().unwrap()
            );
            let is_control = event.get("action_id").is_some();
            let profiles = event["metadata"]["profiles"].as_array().unwrap();
            assert_eq!(profiles.contains(&json!("security_control")), is_control, "{event}");
        }
    }
}
