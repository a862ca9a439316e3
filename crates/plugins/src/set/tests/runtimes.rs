//! What runs the code of a script.

use super::*;

const SCRIPT: &str = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "./index.ts", "points": [{"point": "before_tool_call"}],
    "permissions": {"env": ["GIVEN"]}}"#;
const UNDER_NODE: &str = r#"
    import { definePluginEntry } from "backstop/plugin-sdk";
    import { connect } from "node:http2";
    export default definePluginEntry({ id: "mine", register(api) {
        api.on("before_tool_call", async (event: { params: { command: string } }) => {
            if (event.params.command === "die") process.exit(0);
            return { block: true, blockReason: `${typeof connect} ${process.env.GIVEN} ${process.env.KEPT} ${process.pid}` };
        });
    } });
"#;

/// The reason, or the failure, of a call with this command.
async fn told(engine: &Engine, command: &str) -> String {
    let params = Params::from_value(serde_json::json!({ "command": command })).unwrap();
    let event = ToolCallEvent::new("exec", params);
    let verdict = engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await;
    let failure = verdict.receipt.steps.iter().find_map(|step| step.failure.as_ref());
    let failure = failure.map(|failure| failure.message.to_string());
    failure.unwrap_or_else(|| verdict.permit.unwrap_err().reason.unwrap().text().as_str().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_runs_under_node_where_the_operator_says_so_and_what_was_looked_at_is_what_runs() {
    let (_folder, plugin) = wanted(
        &[("backstop.plugin.json", SCRIPT), ("index.ts", UNDER_NODE)],
        r#"{"env": ["GIVEN", "KEPT"]}"#,
    );
    let entry = plugin.installed.root.join("index.ts");
    let set = loaded(Wanted { runtime: RunsIn::Node, ..plugin }).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    let said = told(&engine, "ls").await;
    assert!(said.starts_with("function given undefined "), "{said}");
    // What was trusted is what is started again; the other is not.
    fs::write(&entry, format!("{UNDER_NODE}// more")).unwrap();
    told(&engine, "die").await;
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let said = told(&engine, "ls").await;
        assert!(!said.starts_with("function"), "changed code ran: {said}");
        if said.contains("plugins trust") {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{said}");
    }
    set.shut_down().await;
}

/// A machine without programs.
pub(super) struct Nothing;

impl Machine for Nothing {
    fn program(&self, _: &str) -> Result<FoundProgram, String> {
        Err("none is in `PATH`".to_owned())
    }

    fn path(&self) -> &std::ffi::OsStr {
        std::ffi::OsStr::new("")
    }
}

#[tokio::test]
async fn other_runtimes_are_for_scripts_and_have_to_be_there() {
    let (_folder, plugin) =
        wanted(&[("backstop.plugin.json", COMMAND), ("hook.sh", "exit 0")], r#"{"env": ["GIVEN"]}"#);
    let said = loaded(Wanted { runtime: RunsIn::Node, ..plugin.clone() }).await.unwrap_err();
    assert!(said.contains("`runtime: node` is for") && said.contains("command"), "{said}");
    let said = loaded(Wanted { runtime: RunsIn::Apart, ..plugin }).await.unwrap_err();
    assert!(said.contains("`runtime: process` is for") && said.contains("command"), "{said}");
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", SCRIPT), ("index.ts", UNDER_NODE)], "{}");
    // A program that would not know what it is started for is not started as a plugin's process.
    let apart = Wanted { runtime: RunsIn::Apart, ..plugin.clone() };
    let said = loaded(apart).await.unwrap_err();
    assert!(said.contains("`mine`: this program can't run plugins in processes of their own"), "{said}");
    let surroundings = Surroundings { machine: &Nothing, ..surroundings() };
    let wanted = Wanted { runtime: RunsIn::Node, ..plugin };
    let said = PluginSet::load(vec![wanted], &surroundings).await.unwrap_err().to_string();
    assert!(said.contains("`mine`: there is no Node.js to run it under: none is in `PATH`"), "{said}");
}
