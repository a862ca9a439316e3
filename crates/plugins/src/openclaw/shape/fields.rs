//! Fields of events and contexts that the other system calls otherwise, or has in another place.
//!
//! The law: *a field is there if the host knows the fact*, under the name that the import promises. What no host here knows
//! (`transcriptPath`, `harnessId`) is absent, as it may be there.

use backstop_hooks::PointId;
use serde_json::{Map, Value, json};

type Fields = Map<String, Value>;

/// Gives an event the fields that it has in the other system.
pub(super) fn event(point: PointId, event: &mut Fields, context: &Fields) {
    match point {
        PointId::ModelCallStarted => take(event, context, &["sessionKey", "sessionId"]),
        PointId::ModelCallEnded => {
            take(event, context, &["sessionKey", "sessionId"]);
            rename(event, "requestBytes", "requestPayloadBytes");
            rename(event, "responseBytes", "responseStreamBytes");
        }
        PointId::LlmOutput => {
            if let Some(Value::Object(usage)) = event.get_mut("usage") {
                let total = usage.values().filter_map(Value::as_u64).fold(0, u64::saturating_add);
                usage.insert("total".to_owned(), total.into());
            }
            if let (Some(Value::String(provider)), Some(Value::String(model))) =
                (event.get("provider"), event.get("model"))
            {
                let resolved = format!("{provider}/{model}");
                event.insert("resolvedRef".to_owned(), resolved.into());
            }
        }
        PointId::BeforeAgentFinalize => {
            take(event, context, &["sessionKey"]);
            put(event, "cwd", context.get("workspaceDir"));
        }
        PointId::BeforeAgentRun => {
            take(event, context, &["channelId"]);
            for name in ["accountId", "senderId", "senderIsOwner"] {
                put(event, name, requester(context, name));
            }
        }
        PointId::BeforePromptBuild | PointId::BeforeAgentStart => {
            let id = event.get("currentUserMessage").and_then(|message| message.get("id")).cloned();
            put(event, "currentUserMessageId", id.as_ref());
        }
        PointId::SubagentSpawned => {
            event.insert("threadRequested".to_owned(), Value::Bool(false));
            put(event, "requester", whose(context).as_ref());
        }
        PointId::SubagentProgress => {
            let phase = if event.contains_key("outcome") { "ended" } else { "started" };
            event.insert("phase".to_owned(), phase.into());
            put(event, "requester", whose(context).as_ref());
        }
        PointId::SubagentEnded => {
            let target = event.get("childSessionKey").cloned();
            put(event, "targetSessionKey", target.as_ref());
            event.insert("targetKind".to_owned(), "subagent".into());
            let reason = reason(event.get("outcome").and_then(Value::as_str));
            event.insert("reason".to_owned(), reason.into());
            put(event, "accountId", requester(context, "accountId"));
        }
        _ => {}
    }
}

/// Gives a handler's context the flat fields that it has there: who asked, the trace, the model.
pub(super) fn context(context: &mut Fields, event: &Fields) {
    for name in ["senderId", "accountId", "channel"] {
        let known = requester(context, name).cloned();
        put(context, name, known.as_ref());
    }
    let provider = context.get("messageProvider").cloned();
    put(context, "channel", provider.as_ref());
    for name in ["traceId", "spanId", "parentSpanId"] {
        let known = context.get("trace").and_then(|trace| trace.get(name)).cloned();
        put(context, name, known.as_ref());
    }
    put(context, "modelId", event.get("model"));
    put(context, "modelProviderId", event.get("provider"));
}

/// Puts a value where there is none.
fn put(fields: &mut Fields, name: &str, value: Option<&Value>) {
    if let Some(value) = value.filter(|value| !value.is_null()) {
        fields.entry(name).or_insert_with(|| value.clone());
    }
}

fn take(event: &mut Fields, context: &Fields, names: &[&str]) {
    for name in names {
        put(event, name, context.get(*name));
    }
}

fn rename(event: &mut Fields, ours: &str, theirs: &str) {
    if let Some(value) = event.remove(ours) {
        event.insert(theirs.to_owned(), value);
    }
}

fn requester<'a>(context: &'a Fields, name: &str) -> Option<&'a Value> {
    context.get("requester")?.get(name)
}

/// Where whoever asked for a sub-agent is.
fn whose(context: &Fields) -> Option<Value> {
    let mut place = Map::new();
    for name in ["channel", "accountId"] {
        put(&mut place, name, requester(context, name));
    }
    put(&mut place, "channelId", context.get("channelId"));
    (!place.is_empty()).then(|| json!(place))
}

/// Why a sub-agent ended, in their words.
fn reason(outcome: Option<&str>) -> &'static str {
    match outcome {
        Some("ok") | None => "subagent-complete",
        Some("killed") => "subagent-killed",
        Some("reset") => "session-reset",
        Some("deleted") => "session-delete",
        Some(_) => "subagent-error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openclaw::Dialect;
    use crate::openclaw::shape::shown;

    /// The fields of events in the other system by point, those that a host here knows, and those that none does.
    const FIELDS: &[(PointId, &[&str], &[&str])] = &[
        (PointId::BeforeModelResolve, &["prompt", "attachments"], &[]),
        (PointId::AgentTurnPrepare, &["prompt", "messages", "queuedInjections"], &[]),
        (
            PointId::BeforePromptBuild,
            &["prompt", "currentUserMessage", "currentUserMessageId", "messages"],
            &[],
        ),
        (
            PointId::BeforeAgentRun,
            &["prompt", "messages", "systemPrompt", "accountId", "channelId", "senderId", "senderIsOwner"],
            &[],
        ),
        (PointId::BeforeAgentReply, &["cleanedBody"], &[]),
        (
            PointId::BeforeAgentFinalize,
            &[
                "runId",
                "sessionId",
                "sessionKey",
                "turnId",
                "provider",
                "model",
                "cwd",
                "stopHookActive",
                "lastAssistantMessage",
                "messages",
            ],
            &["transcriptPath"],
        ),
        (PointId::AgentEnd, &["runId", "messages", "success", "error", "durationMs"], &[]),
        (
            PointId::ModelCallStarted,
            &[
                "runId",
                "callId",
                "sessionKey",
                "sessionId",
                "provider",
                "model",
                "api",
                "transport",
                "contextTokenBudget",
                "contextWindowSource",
                "contextWindowReferenceTokens",
            ],
            &[],
        ),
        (
            PointId::ModelCallEnded,
            &[
                "runId",
                "callId",
                "sessionKey",
                "sessionId",
                "provider",
                "model",
                "api",
                "transport",
                "contextTokenBudget",
                "contextWindowSource",
                "contextWindowReferenceTokens",
                "durationMs",
                "outcome",
                "errorCategory",
                "failureKind",
                "requestPayloadBytes",
                "responseStreamBytes",
                "timeToFirstByteMs",
                "upstreamRequestIdHash",
            ],
            &[],
        ),
        (
            PointId::LlmInput,
            &[
                "runId",
                "sessionId",
                "provider",
                "model",
                "systemPrompt",
                "prompt",
                "historyMessages",
                "imagesCount",
                "tools",
            ],
            &[],
        ),
        (
            PointId::LlmOutput,
            &[
                "runId",
                "sessionId",
                "provider",
                "model",
                "contextTokenBudget",
                "contextWindowSource",
                "contextWindowReferenceTokens",
                "resolvedRef",
                "assistantTexts",
                "lastAssistant",
                "usage",
            ],
            &["harnessId", "prompt", "reasoningEffort", "fastMode"],
        ),
        (PointId::BeforeToolCall, &["toolName", "params", "runId", "toolCallId", "derivedPaths"], &[]),
        (
            PointId::AfterToolCall,
            &["toolName", "params", "runId", "toolCallId", "result", "error", "durationMs"],
            &[],
        ),
        (
            PointId::SubagentSpawned,
            &[
                "childSessionKey",
                "agentId",
                "mode",
                "requester",
                "threadRequested",
                "runId",
                "resolvedModel",
                "resolvedProvider",
            ],
            &["label"],
        ),
        (PointId::SubagentProgress, &["phase", "runId", "childSessionKey", "requester", "outcome"], &[]),
        (
            PointId::SubagentEnded,
            &["targetSessionKey", "targetKind", "reason", "accountId", "runId", "outcome"],
            &["sendFarewell", "endedAt", "error"],
        ),
        (PointId::SessionStart, &["sessionId", "sessionKey", "resumedFrom"], &[]),
    ];

    /// A context in which everything is known.
    fn everything() -> Value {
        json!({
            "agentId": "main", "sessionKey": "chat", "sessionId": "s-1", "runId": "run-1", "trigger": "user", "channelId": "C1",
            "messageProvider": "slack", "workspaceDir": "/work",
            "requester": { "channel": "slack", "accountId": "a-1", "senderId": "u-1", "senderIsOwner": true, "roleIds": [] },
            "trace": { "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "parentSpanId": "00f067aa0ba902b7" },
        })
    }

    fn told(point: PointId) -> (Fields, Fields) {
        let (Value::Object(event), Value::Object(context)) = (point.sample_event(), everything()) else {
            panic!("{point}: no object")
        };
        shown(Dialect::OpenClaw, point, event, context)
    }

    #[test]
    fn events_have_the_fields_that_the_import_promises() {
        for (point, known, unknown) in FIELDS {
            let (event, _) = told(*point);
            for name in *known {
                assert!(event.contains_key(*name), "{point}: `{name}` of {:?}", event.keys());
            }
            for name in *unknown {
                assert!(!event.contains_key(*name), "{point}: `{name}` is known by now");
            }
        }
    }

    #[test]
    fn renamed_fields_keep_their_values() {
        let (ended, _) = told(PointId::ModelCallEnded);
        assert_eq!((&ended["requestPayloadBytes"], &ended["sessionKey"]), (&json!(2048), &json!("chat")));
        assert!(!ended.contains_key("requestBytes"));
        assert_eq!(told(PointId::LlmOutput).0["usage"]["total"], 1160);
        assert_eq!(told(PointId::LlmOutput).0["resolvedRef"], "anthropic/large-1");
        let (run, _) = told(PointId::BeforeAgentRun);
        assert_eq!(
            (&run["senderId"], &run["senderIsOwner"]),
            (&json!("u-7"), &json!(false)),
            "as the event has it"
        );
        assert_eq!((&run["accountId"], &run["channelId"]), (&json!("a-1"), &json!("C1")));
        let (build, _) = told(PointId::BeforePromptBuild);
        assert_eq!(build["currentUserMessageId"], "m1");
        assert_eq!(build["currentUserMessage"]["content"][0]["text"], "please list the files");
        let (ended, _) = told(PointId::SubagentEnded);
        assert_eq!(
            (&ended["targetSessionKey"], &ended["reason"]),
            (&json!("sub:1"), &json!("subagent-complete"))
        );
    }

    #[test]
    fn a_context_is_flat_and_says_nothing_that_is_not_known() {
        let (_, context) = told(PointId::ModelCallStarted);
        for (name, value) in [
            ("senderId", "u-1"),
            ("accountId", "a-1"),
            ("channel", "slack"),
            ("traceId", "0af7651916cd43dd8448eb211c80319c"),
            ("spanId", "b7ad6b7169203331"),
            ("parentSpanId", "00f067aa0ba902b7"),
            ("modelId", "large-1"),
            ("modelProviderId", "anthropic"),
        ] {
            assert_eq!(context[name], value, "{name}");
        }
        let Value::Object(event) = PointId::BeforeToolCall.sample_event() else { panic!("no object") };
        let (_, context) = shown(Dialect::OpenClaw, PointId::BeforeToolCall, event, Map::new());
        for name in ["senderId", "accountId", "channel", "traceId", "spanId", "modelId", "modelProviderId"] {
            assert!(!context.contains_key(name), "{name}");
        }
    }

    #[test]
    fn our_own_dialect_has_our_own_fields() {
        for point in PointId::ALL {
            let (Value::Object(event), Value::Object(context)) = (point.sample_event(), everything()) else {
                panic!("{point}: no object")
            };
            let (now, _) = shown(Dialect::Backstop, *point, event.clone(), context.clone());
            assert_eq!(now, event, "{point}");
        }
    }
}
