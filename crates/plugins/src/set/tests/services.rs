//! Services, in this process and under Node.

use super::*;

const SERVES: &str = r#"{"id": "serves", "version": "1", "kind": "script", "entry": "index.mjs", "api": "openclaw",
    "permissions": {"files": {"write": ["${data}"]}}}"#;
/// Two services, the first of which starts only once, and a hook that takes all memory when it is told to. What the second writes
/// says that the first is done with: one that is stopped while it starts is stopped.
const SERVICES: &str = r#"
    import fs from "node:fs"; import path from "node:path";
    export default { id: "serves", register(api) {
        const at = (name) => path.join(api.runtime.state.resolveStateDir(), name);
        const write = (line) => fs.appendFileSync(at("log"), line + "\n");
        api.registerService({ id: "once", start: () => {
            if (fs.existsSync(at("once"))) throw new Error("only once");
            fs.writeFileSync(at("once"), "");
        }, stop: () => write("never") });
        api.registerService({ id: "beat", start: () => write("start"), stop: () => write("stop") });
        api.on("before_tool_call", (event) => {
            const kept = [];
            while (event.params.boom) kept.push(new Array(10000).fill(kept.length));
        });
    } };"#;

/// Waits until a file has these lines.
async fn until_lines(log: &Path, lines: &[&str]) {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let written = fs::read_to_string(log).unwrap_or_default();
        if written.lines().eq(lines.iter().copied()) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "{written} is not {lines:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn passes(engine: &Engine, params: Value) -> bool {
    let event = ToolCallEvent::new("exec", Params::from_value(params).unwrap());
    engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await.permit.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn services_whose_runtime_is_lost_are_started_again_in_the_next_one_and_stopped_once() {
    let files = [("backstop.plugin.json", SERVES), ("index.mjs", SERVICES)];
    let (_folder, plugin) = wanted(&files, r#"{"files": {"write": ["${data}"]}}"#);
    let log = plugin.installed.data.join("log");
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    // Nobody's service is started again where none was started.
    assert!(!passes(&engine, serde_json::json!({ "boom": true })).await);
    assert!(passes(&engine, serde_json::json!({})).await && !log.exists());
    assert_eq!(set.start_services().await, []);
    until_lines(&log, &["start"]).await;
    let mut lines = vec!["start"];
    for _ in 0..2 {
        assert!(!passes(&engine, serde_json::json!({ "boom": true })).await, "a gate that failed blocks");
        lines.push("start");
        // Nobody has asked anything of it meanwhile.
        until_lines(&log, &lines).await;
    }
    assert_eq!(set.stop_services().await, []);
    lines.push("stop");
    until_lines(&log, &lines).await;
    // What was stopped stays so.
    let _ = passes(&engine, serde_json::json!({ "boom": true })).await;
    assert_eq!(set.stop_services().await, []);
    until_lines(&log, &lines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_under_node_are_started_again_where_its_process_died() {
    let boom = "while (event.params.boom) kept.push(new Array(10000).fill(kept.length));";
    let dies = SERVICES.replace(boom, "if (event.params.boom) process.exit(1);");
    assert_ne!(dies, SERVICES);
    let files = [("backstop.plugin.json", SERVES), ("index.mjs", dies.as_str())];
    let (_folder, plugin) = wanted(&files, r#"{"files": {"write": ["${data}"]}}"#);
    let log = plugin.installed.data.join("log");
    let set = loaded(Wanted { runtime: RunsIn::Node, ..plugin }).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    assert_eq!(set.start_services().await, []);
    until_lines(&log, &["start"]).await;
    assert!(!passes(&engine, serde_json::json!({ "boom": true })).await, "a gate that failed blocks");
    until_lines(&log, &["start", "start"]).await;
    assert_eq!(set.stop_services().await, []);
    until_lines(&log, &["start", "start", "stop"]).await;
    set.shut_down().await;
}
