//! Verdict hooks that ship with Backstop, named by `type:` in the lists of `hooks.tool_call` and `hooks.llm_call`:
//!
//! | type | judges | by |
//! | --- | --- | --- |
//! | `passthrough` | tool calls, model calls | nothing: it approves |
//! | `policy` | tool calls | allow and deny lists, patterns in arguments |
//! | `human_approval` | tool calls | a human, where its condition holds |
//! | `webhook` | tool calls, model calls | an HTTP endpoint |

mod arguments;
mod human_approval;
mod passthrough;
mod policy;
mod tool_pattern;
mod webhook;

use backstop_engine::{VerdictType, VerdictTypes};
use backstop_hooks::{Malformed, ToolName};

pub use human_approval::{HumanApproval, HumanApprovalOptions, When};
pub use passthrough::Passthrough;
pub use policy::{Policy, PolicyOptions};
pub use tool_pattern::ToolPattern;
pub use webhook::{Webhook, WebhookOptions};

/// Makes the types available to the configuration. `tools` are the known tools; a
/// rule with a name close to one of them gets a hint.
pub fn register_types(types: &mut VerdictTypes, tools: &[ToolName]) {
    types.register("passthrough", VerdictType::for_all_calls(Passthrough::from_config).placeholder());
    let known = tools.to_vec();
    types.register(
        "policy",
        VerdictType::for_tool_calls(move |config| Policy::new(&read::<PolicyOptions>(config)?, &known)),
    );
    let known = tools.to_vec();
    types.register(
        "human_approval",
        VerdictType::for_tool_calls(move |config| {
            HumanApproval::new(&read::<HumanApprovalOptions>(config)?, &known)
        }),
    );
    types.register("webhook", VerdictType::for_all_calls(|config| Webhook::new(read(config)?)));
}

/// Reads a type's options. Serde's messages name keys and expected types; the values that it quotes for
/// mistyped scalars may be secrets, so only its first clause is passed on.
fn read<T: serde::de::DeserializeOwned>(config: &serde_json::Value) -> Result<T, Malformed> {
    let config = if config.is_null() { serde_json::json!({}) } else { config.clone() };
    serde_json::from_value(config).map_err(|error| {
        let message = error.to_string();
        let safe = match message
            .strip_prefix("invalid type: ")
            .or_else(|| message.strip_prefix("invalid value: "))
        {
            Some(rest) => match rest.rsplit_once(", expected ") {
                Some((_, expected)) => format!("expected {expected}"),
                None => "a value has the wrong type".to_owned(),
            },
            None => message,
        };
        Malformed::new(safe)
    })
}
