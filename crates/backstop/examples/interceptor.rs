//! Interceptors: hooks that are given an output and edit it in place.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use backstop::Engine;
use backstop::engine::{Attendance, InterceptorOptions, format_event};
use backstop::hooks::points::{ToolBefore, ToolCallEvent};
use backstop::hooks::{CallContext, Params};
use serde_json::{Map, Value, json};

fn text<'a>(args: &'a Params, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().build();
    let interceptors = engine.interceptors();
    interceptors.set_on_event(Some(Arc::new(|event| println!("{}", format_event(event)))));

    let commands = |priority| InterceptorOptions {
        priority,
        tool_matcher: Some("^exec$".to_owned()),
        ..InterceptorOptions::default()
    };
    // The higher priority runs first, and the next one sees what it left.
    interceptors.add::<ToolBefore>("safety:no-force", commands(100), |_, output| {
        if text(&output.args, "command").contains("--force") {
            output.block = Some(true);
            output.block_reason = Some("nothing is forced here".into());
        }
        Ok(())
    })?;
    interceptors.add::<ToolBefore>("style:no-colour", commands(0), |_, output| {
        if !text(&output.args, "command").contains("--color") {
            let mut args: Map<String, Value> = (*output.args).clone();
            args.insert(
                "command".to_owned(),
                format!("{} --color=never", text(&output.args, "command")).into(),
            );
            output.args = args.into();
        }
        Ok(())
    })?;

    for (command, runs) in [("ls", Some("ls --color=never")), ("git push --force", None)] {
        let params = Params::from_value(json!({ "command": command })).unwrap_or_default();
        let call = ToolCallEvent::new("exec", params);
        let verdict = engine.permit_tool_call(call, &CallContext::default(), &Attendance::Nobody).await;
        let permitted = verdict.permit.ok();
        let ran = permitted.as_ref().map(|permit| text(&permit.params, "command"));
        println!("{command}: {}", ran.unwrap_or("blocked"));
        assert_eq!(ran, runs);
    }
    assert!(interceptors.remove(&"style:no-colour".into())?);
    Ok(())
}
