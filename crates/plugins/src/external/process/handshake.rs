//! What a program says of itself when it is started.

use backstop_engine::{Budget, ToolMatcher};
use backstop_hooks::{Json, Trigger};
use serde::Deserialize;
use serde_json::Value;

use super::fault::Fault;
use crate::external::{PROTOCOL, shown};
use crate::registration::{HookSpec, MOST_HOOKS, MOST_OFFERS, Offer, OfferKind};

/// Most events that a program may want to work on at once.
const MOST_AT_ONCE: usize = 256;
/// The version of the events and outcomes of each point.
const POINT_VERSION: u32 = 1;

/// What a program declared.
#[derive(Clone, Debug)]
pub(super) struct Handshake {
    pub(super) concurrency: usize,
    pub(super) hooks: Vec<HookSpec>,
    pub(super) offers: Vec<Offer>,
    /// As it was written, to be compared with what the program says when it is started again.
    written: Value,
}

impl Handshake {
    /// Whether another start declared the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    protocol: u32,
    #[serde(default, rename = "name")]
    _name: Option<String>,
    #[serde(default, rename = "version")]
    _version: Option<String>,
    #[serde(default = "one")]
    concurrency: usize,
    #[serde(default)]
    hooks: Vec<WireHook>,
    #[serde(default)]
    tools: Vec<WireTool>,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireHook {
    id: String,
    point: String,
    #[serde(default = "current")]
    version: u32,
    #[serde(default)]
    priority: i32,
    timeout_ms: Option<u64>,
    matcher: Option<Matcher>,
    triggers: Option<Vec<Trigger>>,
    dispatch_kinds: Option<Vec<String>>,
}

fn current() -> u32 {
    POINT_VERSION
}

/// An expression, or names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Matcher {
    Expression(String),
    Names(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireTool {
    name: String,
    description: String,
    input_schema: Value,
}

fn wrong(message: impl std::fmt::Display) -> Fault {
    Fault::Handshake(format!("answered `initialize` wrongly: {message}"))
}

/// Reads the answer to `initialize`.
pub(super) fn read(written: Value) -> Result<Handshake, Fault> {
    // A host that knows less than the program says so before it looks at anything else.
    let protocol = written.get("protocol").and_then(Value::as_u64);
    if protocol != Some(PROTOCOL.into()) {
        let theirs = protocol.map_or_else(|| "none".to_owned(), |version| version.to_string());
        return Err(wrong(format_args!(
            "it speaks protocol {theirs}, and this host speaks {PROTOCOL}\nhint: use a version of the SDK that speaks {PROTOCOL}"
        )));
    }
    let wire: Wire =
        serde_json::from_value(written.clone()).map_err(|error| wrong(shown(&error.to_string(), 200)))?;
    debug_assert_eq!(wire.protocol, PROTOCOL);
    if !(1..=MOST_AT_ONCE).contains(&wire.concurrency) {
        return Err(wrong(format_args!("`concurrency` is a number between 1 and {MOST_AT_ONCE}")));
    }
    if wire.hooks.len() > MOST_HOOKS || wire.tools.len() > MOST_OFFERS {
        return Err(wrong(format_args!("it declares more than {MOST_HOOKS} hooks or {MOST_OFFERS} tools")));
    }
    let hooks = wire.hooks.into_iter().map(hook).collect::<Result<_, _>>()?;
    let offers = wire.tools.into_iter().map(tool).collect();
    Ok(Handshake { concurrency: wire.concurrency, hooks, offers, written })
}

fn hook(wire: WireHook) -> Result<HookSpec, Fault> {
    let id = shown(&wire.id, 60);
    let wrong = |message: String| wrong(format_args!("hook `{id}`: {message}"));
    if wire.id.is_empty() || wire.id.len() > 128 || wire.id.chars().any(char::is_control) {
        return Err(wrong("`id` is a name of 1 to 128 bytes".to_owned()));
    }
    let mut spec = HookSpec::at(&wire.point, wire.id.clone()).map_err(|error| wrong(error.to_string()))?;
    if wire.version != POINT_VERSION {
        return Err(wrong(format!(
            "it wants version {} of `{}`, and this host has {POINT_VERSION}",
            wire.version, spec.point
        )));
    }
    spec.priority = wire.priority;
    spec.timeout =
        wire.timeout_ms.map(Budget::from_millis).transpose().map_err(|error| wrong(error.to_string()))?;
    spec.tools = match &wire.matcher {
        None => None,
        Some(Matcher::Expression(pattern)) => Some(ToolMatcher::regex(pattern)),
        Some(Matcher::Names(names)) => Some(ToolMatcher::names(names.iter().map(String::as_str))),
    }
    .transpose()
    .map_err(|error| wrong(error.to_string()))?;
    spec.triggers = wire.triggers;
    spec.dispatch_kinds = wire.dispatch_kinds;
    Ok(spec)
}

fn tool(wire: WireTool) -> Offer {
    Offer {
        kind: OfferKind::Tool,
        name: wire.name,
        description: wire.description,
        schema: Some(Json::new(wire.input_schema)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_handshake_is_read_whole_or_not_at_all() {
        let handshake = read(json!({ "protocol": 1, "name": "x", "concurrency": 4,
            "hooks": [{ "id": "a", "point": "before_tool_call", "version": 1, "priority": 50, "timeoutMs": 10,
                "matcher": ["exec"], "triggers": ["user", "cron"], "dispatchKinds": ["turn"] },
                { "id": "b", "point": "deactivate", "matcher": null }],
            "tools": [{ "name": "t", "description": "d", "inputSchema": {} }] }))
        .unwrap();
        assert_eq!((handshake.concurrency, handshake.hooks.len(), handshake.offers.len()), (4, 2, 1));
        assert_eq!(handshake.hooks[0].priority, 50);
        assert_eq!(handshake.hooks[1].name, "deactivate");
        for (bad, said) in [
            (json!(null), "speaks protocol none"),
            (json!({ "protocol": 2 }), "speaks protocol 2"),
            (json!({ "protocol": 1, "concurrency": 0 }), "between 1 and 256"),
            (json!({ "protocol": 1, "hook": [] }), "unknown field"),
            (
                json!({ "protocol": 1, "hooks": [{ "id": "a", "point": "before_tool_cal" }] }),
                "before_tool_call",
            ),
            (json!({ "protocol": 1, "hooks": [{ "id": "", "point": "tool.before" }] }), "1 to 128"),
            (
                json!({ "protocol": 1, "hooks": [{ "id": "a", "point": "tool.before", "version": 2 }] }),
                "version 2",
            ),
            (
                json!({ "protocol": 1, "hooks": [{ "id": "a", "point": "tool.before", "timeoutMs": 0 }] }),
                "600000",
            ),
            (
                json!({ "protocol": 1, "hooks": [{ "id": "a", "point": "tool.before", "matcher": "(" }] }),
                "expression",
            ),
            (
                json!({ "protocol": 1, "hooks": [{ "id": "a", "point": "tool.before", "prio": 1 }] }),
                "unknown field",
            ),
        ] {
            let fault = read(bad.clone()).unwrap_err().to_string();
            assert!(fault.contains(said), "{bad}: {fault}");
        }
    }
}
