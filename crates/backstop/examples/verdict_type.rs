//! A type of verdict hook of a program's own, which the operator names in `backstop.yaml`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use async_trait::async_trait;
use backstop::config::{InRepository, LayerKind, Source};
use backstop::engine::{Attendance, HookVerdict, ToolCallHook, VerdictCall, VerdictHook, VerdictType};
use backstop::hooks::points::ToolCallEvent;
use backstop::hooks::{CallContext, HookError, Malformed, Params};
use backstop::{Backstop, HookTypes, load_sources};
use serde_json::{Value, json};

/// Denies calls whose arguments are longer than so many bytes.
struct Longest {
    bytes: usize,
}

impl Longest {
    fn from_config(config: &Value) -> Result<Self, Malformed> {
        let bytes = config.get("bytes").and_then(Value::as_u64).and_then(|bytes| usize::try_from(bytes).ok());
        match bytes {
            Some(bytes) => Ok(Self { bytes }),
            None => Err(Malformed::new("`bytes` is to be a whole number")),
        }
    }
}

impl VerdictHook for Longest {}

// It judges tool calls, so the lists under `hooks.tool_call` are where it can stand.
#[async_trait]
impl ToolCallHook for Longest {
    async fn pre_call(&self, call: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        let length = serde_json::to_string(call.arguments).map_err(HookError::failed)?.len();
        Ok(match length > self.bytes {
            true => HookVerdict::Deny { reasoning: Some("these arguments are too long".into()) },
            false => HookVerdict::Approve,
        })
    }
}

const FILE: &str = "
hooks:
  tool_call:
    pre_call:
      - type: longest
        config: { bytes: 40 }
";

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut types = HookTypes::built_in(&[]);
    // It can do nothing but deny, so a repository's file may ask for it.
    types.register("longest", InRepository::Allowed, VerdictType::for_tool_calls(Longest::from_config));

    // A program reads the files of `Locations`; what it is told about a mistake has file, line and column.
    let source = |text: &str| [Source::new(LayerKind::Operator, "backstop.yaml", text)];
    let wrong = load_sources(&source(&FILE.replace("longest", "longst")), &types, &|_| None);
    println!("{}", wrong.err().map(|error| error.to_string()).unwrap_or_default());

    let config = load_sources(&source(FILE), &types, &|_| None)?;
    let backstop = Backstop::builder().hook_types(types).config(config).build().await?;
    for (text, passes) in [("short", true), ("much longer than anybody has reason to write", false)] {
        let params = Params::from_value(json!({ "text": text })).unwrap_or_default();
        let call = ToolCallEvent::new("message", params);
        let engine = backstop.engine();
        let verdict = engine.permit_tool_call(call, &CallContext::default(), &Attendance::Nobody).await;
        let said = verdict.permit.as_ref().err().map(|blocked| blocked.reason_or_default().to_string());
        println!("{text}: {}", said.as_deref().unwrap_or("passes"));
        assert_eq!(said.is_none(), passes);
    }
    backstop.shut_down().await;
    Ok(())
}
