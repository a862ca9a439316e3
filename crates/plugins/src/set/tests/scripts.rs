//! Scripts: what is read of them, and what their manifests have to say.

use super::*;

#[tokio::test]
async fn a_script_stands_with_what_it_registers_where_its_manifest_says() {
    let code = r#"import { definePluginEntry } from "backstop/plugin-sdk";
        export default definePluginEntry({ id: "mine", name: "Mine", register(api) {
            api.on("before_tool_call", () => ({ block: true, blockReason: "no" }));
        } });"#;
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js",
        "points": [{"point": "before_tool_call"}]}"#;
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", code)], "{}");
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let points: Vec<_> = snapshot.iter().map(|meta| meta.point).collect();
    assert_eq!(points, [PointId::BeforeToolCall]);
    let elsewhere = manifest.replace("before_tool_call", "session_start");
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", &elsewhere), ("a.js", code)], "{}");
    let error = loaded(plugin).await.unwrap_err();
    assert!(error.contains("before_tool_call") && error.contains("manifest"), "{error}");
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", "const x = ;")], "{}");
    let error = loaded(plugin).await.unwrap_err();
    assert!(error.contains("`mine`") && error.contains("a.js"), "{error}");
}

#[tokio::test]
async fn law_04_code_that_is_changed_after_the_look_does_not_run() {
    let files = [("backstop.plugin.json", COMMAND), ("hook.sh", "exit 0")];
    let (_folder, plugin) = wanted(&files, "{}");
    let script = plugin.installed.root.join("hook.sh");
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    let judge = async || {
        let event = ToolCallEvent::new("exec", Params::default());
        engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await
    };
    assert!(judge().await.permit.is_ok());
    fs::write(&script, "exit  0").unwrap();
    let verdict = judge().await;
    assert!(verdict.permit.is_err());
    let said = verdict.receipt.steps[0].failure.as_ref().unwrap().message.to_string();
    assert!(said.contains("`hook.sh` was changed since it was looked at"), "{said}");
    fs::write(&script, "exit 0").unwrap();
    assert!(judge().await.permit.is_ok(), "it is what was trusted again");
}

#[tokio::test]
async fn options_are_held_against_the_schema_before_code_runs() {
    let manifest = |schema: &str, api: &str| {
        format!(
            r#"{{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "api": "{api}", "configSchema": {schema}}}"#
        )
    };
    let level = r#"{"type": "object", "properties": {"level": {"type": "integer", "maximum": 3}}, "required": ["level"]}"#;
    let unread = r#"{"type": "object", "properties": {"level": {"pattern": "x"}}}"#;
    for (schema, api, config, said) in [
        (level, "backstop", serde_json::json!({ "level": 2 }), None),
        (level, "backstop", serde_json::json!({ "level": 4 }), Some("`level` has to be at most 3")),
        (level, "openclaw", serde_json::json!({ "level": "2" }), Some("`level` is no integer")),
        (level, "backstop", Value::Null, Some("`level` is missing")),
        (
            unread,
            "backstop",
            serde_json::json!({}),
            Some("configSchema.properties.level.pattern` is not read"),
        ),
        (unread, "openclaw", serde_json::json!({}), None),
    ] {
        let manifest = manifest(schema, api);
        let code = "export default { register() {} };";
        let (_folder, mut plugin) = wanted(&[("backstop.plugin.json", &manifest), ("a.js", code)], "{}");
        plugin.config = Json::new(config.clone());
        match (loaded(plugin).await, said) {
            (Err(error), Some(said)) => {
                assert!(error.contains(said) && error.contains("`mine`"), "{error}");
            }
            (Ok(set), None) => {
                let seated = set.seat(&mut Snapshot::empty(OperatorSettings::default())).unwrap();
                assert_eq!(seated[0].1.left_out.len(), usize::from(schema == unread), "{seated:?}");
            }
            (other, _) => panic!("{config}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn law_07_a_policy_that_the_manifest_does_not_name_is_an_error() {
    let code = r#"export default { register(api) {
        api.registerTrustedToolPolicy({ id: "walls", description: "Walls.", evaluate() {} }); } };"#;
    let manifest = |contracts: &str| {
        format!(
            r#"{{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "contracts": {contracts}}}"#
        )
    };
    for (contracts, is_good) in [
        ("{}", false),
        (r#"{"trustedToolPolicies": ["Walls"]}"#, false),
        (r#"{"trustedToolPolicies": ["walls"]}"#, true),
    ] {
        let manifest = manifest(contracts);
        let (_folder, plugin) = wanted(&[("backstop.plugin.json", &manifest), ("a.js", code)], "{}");
        match loaded(plugin).await {
            Ok(_) => assert!(is_good, "{contracts}"),
            Err(error) => {
                assert!(
                    !is_good && error.contains("`walls`") && error.contains("contracts.trustedToolPolicies"),
                    "{error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_script_reads_its_own_files_without_a_grant_and_nobody_is_let_write_where_code_is() {
    let code = r#"import { readFileSync, writeFileSync } from "node:fs";
        import { fileURLToPath } from "node:url";
        const own = fileURLToPath(new URL("./words.txt", import.meta.url));
        const told = (act) => { try { return act(); } catch (error) { return error.code; } };
        const all = [told(() => readFileSync(own, "utf8")), told(() => writeFileSync(own, "x")), told(() => readFileSync("/etc/hostname", "utf8"))];
        export default { register(api) { api.on("before_tool_call", () => ({ block: true, blockReason: all.join() })); } };"#;
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "points": [{"point": "before_tool_call"}],
        "permissions": {"files": {"write": ["/", "${workspace}"]}}}"#;
    let files = [("backstop.plugin.json", manifest), ("a.js", code), ("words.txt", "words")];
    let (_folder, plugin) = wanted(&files, "{}");
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    let event = ToolCallEvent::new("exec", Params::default());
    let verdict = engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await;
    let said = verdict.permit.err().and_then(|blocked| blocked.reason).unwrap().text().as_str().to_owned();
    assert_eq!(said, "words,EACCES,EACCES");
    let (folder, plugin) = wanted(&files, "{}");
    for (grant, is_error) in [
        (folder.path().join("plugins/code"), true),
        (folder.path().to_owned(), true),
        (folder.path().join("work"), false),
    ] {
        let words = format!(r#"{{"files": {{"write": ["{}"]}}}}"#, grant.display());
        let words: Words = serde_json::from_str(&words).unwrap();
        let plugin = Wanted { granted: Permissions::try_from(&words).unwrap(), ..plugin.clone() };
        match loaded(plugin).await {
            Ok(_) => assert!(!is_error, "{words:?}"),
            Err(error) => assert!(is_error && error.contains("grants.files.write"), "{error}"),
        }
    }
    // A working folder around the plugins is an accident of where somebody stands: it is read, and that is said.
    let words: Words = serde_json::from_str(r#"{"files": {"write": ["${workspace}"]}}"#).unwrap();
    let plugin = Wanted { granted: Permissions::try_from(&words).unwrap(), ..plugin };
    let surroundings = Surroundings { workspace: Some(folder.path().to_owned()), ..surroundings() };
    let set = PluginSet::load(vec![plugin], &surroundings).await.unwrap();
    let seated = set.seat(&mut Snapshot::empty(OperatorSettings::default())).unwrap();
    let said = seated[0].1.left_out.iter().find(|left_out| left_out.why.contains("holds the code")).unwrap();
    assert!(said.what.contains("agent works in"), "{said:?}");
}
