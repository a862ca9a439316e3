//! Tools of scripts.

use super::*;

/// Tools of a script, by name.
async fn tools(code: &str) -> (tempfile::TempDir, PluginSet) {
    let code = format!(
        "import {{ definePluginEntry }} from 'backstop/plugin-sdk';
         export default definePluginEntry({{ id: 'mine', register(api) {{
             const tool = (name, execute) => api.registerTool({{ name, description: '', parameters: {{}}, execute }});
             {code}
         }} }});"
    );
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js"}"#;
    let (folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", &code)], "{}");
    (folder, loaded(plugin).await.unwrap())
}

async fn call(set: &PluginSet, name: &str, budget: Duration) -> offers::tools::ToolAnswer {
    let tool = set.tools().find(|tool| tool.name() == name).unwrap();
    let arguments = serde_json::Map::new();
    let context = CallContext::default();
    let request = offers::tools::ToolRequest { id: "c1", arguments: &arguments, context: &context };
    tool.call(request, budget).await
}

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_tool_that_hangs_is_given_up_and_told() {
    let (_folder, set) = tools(
        "let aborted = 0;
         tool('waits', (id, params, signal) => new Promise(() => signal.addEventListener('abort', () => { aborted += 1; })));
         tool('spins', () => { for (;;); });
         tool('aborted', () => String(aborted));",
    )
    .await;
    let given_up =
        |answer: &offers::tools::ToolAnswer| answer.is_error && answer.text.contains("no answer within");
    let answer = call(&set, "waits", Duration::from_millis(300)).await;
    assert!(given_up(&answer), "{answer:?}");
    // Whoever does not wait any more drops the call, and the tool hears of it.
    let waiting = call(&set, "waits", PATIENCE);
    assert!(tokio::time::timeout(Duration::from_millis(100), waiting).await.is_err());
    let told = async { while call(&set, "aborted", PATIENCE).await.text != "2" {} };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    let answer = call(&set, "spins", Duration::from_millis(300)).await;
    assert!(given_up(&answer), "{answer:?}");
}

#[tokio::test]
async fn a_tool_outlives_the_set_that_it_was_taken_from_and_dies_with_its_last_user() {
    let (_folder, set) = tools("tool('works', async () => 'yes');").await;
    let tool = set.tools().next().unwrap().clone();
    set.shut_down().await;
    drop(set);
    let (arguments, context) = (serde_json::Map::new(), CallContext::default());
    let request = offers::tools::ToolRequest { id: "c1", arguments: &arguments, context: &context };
    assert_eq!(tool.call(request, PATIENCE).await.text, "yes");
}

#[tokio::test]
async fn a_tool_that_the_manifest_does_not_name_is_an_error() {
    let code = "export default { id: 'mine', register(api) {
        api.registerTool({ name: 'other', description: '', parameters: {}, execute() {} }); } };";
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "contracts": {"tools": ["named"]}}"#;
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", code)], "{}");
    let error = loaded(plugin).await.unwrap_err();
    assert!(error.contains("`other`") && error.contains("contracts.tools"), "{error}");
}

#[tokio::test]
async fn what_no_host_takes_is_said_at_load_one_by_one() {
    let (_folder, set) = tools(
        "api.registerHttpRoute({ path: '/mine', handler() {} });
         api.registerGatewayMethod('mine.status', () => {});",
    )
    .await;
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    let seated = set.seat(&mut snapshot).unwrap();
    let left_out: Vec<_> = seated[0].1.left_out.iter().map(|left| left.what.as_str()).collect();
    assert_eq!(left_out, ["route `/mine`", "method `mine.status`"]);
}
