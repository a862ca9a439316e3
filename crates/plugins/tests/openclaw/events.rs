use backstop_engine::Verdict;
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{AgentEnd, AgentEndEvent, BeforeMessageWrite, MessageWriteEvent};
use backstop_plugins::openclaw::Dialect::{Backstop, OpenClaw};
use serde_json::json;

use crate::support::{Plugins, call, context, engine};

/// Whether an expression over `event` and `ctx` holds at `before_tool_call`; the reason of the block says what it is.
async fn told(dialect: backstop_plugins::openclaw::Dialect, expression: &str) -> String {
    let plugins = Plugins::new();
    let source = format!(
        "export default {{ register(api) {{ api.on(\"before_tool_call\", (event, ctx) => \
         ({{ block: true, blockReason: String({expression}) }})); }} }};"
    );
    let config = json!({ "level": { "of": 7 } });
    let plugin = plugins.load_with("mine", dialect, &source, config).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let reviewed = engine.review_tool_call(call("bash", json!({ "command": "ls" })), &context(), false).await;
    reviewed.blocked.unwrap().reason.unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_a_plain_object_with_its_context() {
    for dialect in [OpenClaw, Backstop] {
        for (expression, expected) in [
            ("event.toolName", "exec"),
            ("event.calledAs", "bash"),
            ("event.params.command", "ls"),
            ("event.runId", "run-1"),
            ("event.toolCallId", "call-1"),
            ("ctx.agentId + ctx.sessionKey + ctx.sessionId + ctx.runId", "mainchatsession-1run-1"),
            ("ctx.toolName + ctx.toolCallId", "execcall-1"),
            ("ctx.pluginConfig.level.of", "7"),
            ("event.context.pluginConfig.level.of", "7"),
            ("event.context === ctx", "true"),
            ("JSON.stringify({ ...event, context: 0 }).includes('\"command\":\"ls\"')", "true"),
            ("Object.keys(event).includes(\"params\") && \"params\" in event", "true"),
            ("(({ params: { command } }) => command)(event)", "ls"),
            ("Object.getPrototypeOf(event) === Object.prototype", "true"),
            ("typeof ctx.abortSignal.aborted", "boolean"),
            ("Object.keys(ctx).includes(\"abortSignal\")", "false"),
            ("Object.isFrozen(ctx.pluginConfig.level)", "true"),
        ] {
            assert_eq!(told(dialect, expression).await, expected, "{expression}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_have_the_shape_of_the_import() {
    let message = json!({ "role": "tool", "content": [
        { "type": "toolResult", "toolCallId": "c1", "toolName": "exec", "isError": false, "content": [
            { "type": "text", "text": "a secret" },
        ]},
    ]});
    let message: Message = serde_json::from_value(message).unwrap();
    let theirs = r#"
        api.on("before_message_write", (event) => event.message.role === "toolResult"
            ? { message: { ...event.message, content: [{ type: "text", text: event.message.content[0].text.replace("secret", "-") }] } }
            : { block: true });
    "#;
    let ours = r#"
        api.on("before_message_write", (event) => {
            const message = structuredClone(event.message);
            message.content[0].content[0].text = message.content[0].content[0].text.replace("secret", "-");
            return { message };
        });
    "#;
    for (dialect, body) in [(OpenClaw, theirs), (Backstop, ours)] {
        let body =
            body.replace("structuredClone(event.message)", "JSON.parse(JSON.stringify(event.message))");
        let plugins = Plugins::new();
        let plugin = plugins.register("mine", dialect, &body).await.unwrap();
        let (engine, _) = engine(&[&plugin]);
        let decided =
            engine.decide::<BeforeMessageWrite>(MessageWriteEvent::new(message.clone()), &context()).await;
        assert_eq!(decided.receipt().verdict, Verdict::Modify, "{:?}", decided.receipt().steps[0].failure);
        let written = serde_json::to_value(&decided.event().message).unwrap();
        assert_eq!(written["role"], "tool");
        assert_eq!(written["content"][0]["toolCallId"], "c1");
        assert_eq!(written["content"][0]["content"][0]["text"], "a -");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn observers_are_told() {
    let plugins = Plugins::new();
    let body = r#"
        let ended = "nothing";
        api.on("agent_end", (event) => { ended = `${event.success} ${event.durationMs}`; });
        api.on("before_tool_call", () => ({ block: true, blockReason: ended }));
    "#;
    let plugin = plugins.register("mine", OpenClaw, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let event: AgentEndEvent =
        serde_json::from_value(json!({ "runId": "r", "messages": [], "success": true, "durationMs": 12 }))
            .unwrap();
    engine.observe::<AgentEnd>(&event, &context()).await;
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.blocked.unwrap().reason.unwrap().to_string(), "true 12");
}
