//! Verdict hooks that ship with Backstop: `passthrough`, `policy` and `webhook`, named by `type:` in
//! `hooks.tool_call.pre_call` of the configuration.

mod passthrough;
mod policy;
mod webhook;

use std::sync::Arc;

use backstop_engine::{VerdictHook, VerdictTypes};
use backstop_hooks::{Malformed, ToolName};

pub use passthrough::Passthrough;
pub use policy::{Policy, PolicyOptions};
pub use webhook::{Webhook, WebhookOptions};

/// Adds the types to what the configuration can name. `tools` are the tools that exist; a rule of a
/// policy that would deny none of them is refused.
pub fn register_types(types: &mut VerdictTypes, tools: &[ToolName]) {
    types.register("passthrough", |config| {
        Passthrough::from_config(config).map(|hook| Arc::new(hook) as Arc<dyn VerdictHook>)
    });
    let tools = tools.to_vec();
    types.register("policy", move |config| {
        let options: PolicyOptions = read(config)?;
        Ok(Arc::new(Policy::new(&options, &tools)?))
    });
    types.register("webhook", |config| {
        let options: WebhookOptions = read(config)?;
        Ok(Arc::new(Webhook::new(options)?))
    });
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
