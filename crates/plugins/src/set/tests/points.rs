//! Where a plugin has hooks, and when it is not loaded for want of them.

use super::*;

#[tokio::test]
async fn a_plugin_is_skipped_where_its_code_had_no_hook_when_it_was_loaded_with_the_same() {
    let code = "export default { id: 'mine', register(api) {
        api.on(api.pluginConfig?.point ?? 'session_start', () => undefined);
    } };";
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "api": "openclaw"}"#;
    let files = [("backstop.plugin.json", manifest), ("a.js", code)];
    let (_folder, plugin) = wanted(&files, "{}");
    assert_eq!(stands(&plugin), [true, true], "nobody knows yet");
    loaded(plugin.clone()).await.unwrap();
    assert_eq!(stands(&plugin), [true, false]);
    // With anything else, it may have others.
    let options = Json::new(serde_json::json!({ "point": "before_tool_call" }));
    let other = Wanted { config: options, ..plugin.clone() };
    assert_eq!(stands(&other), [true, true]);
    let at = Surroundings { workspace: Some("/elsewhere".into()), ..surroundings() };
    assert!(plugin.may_stand_at(&[PointId::BeforeToolCall], &at));
    loaded(other.clone()).await.unwrap();
    assert_eq!(stands(&other), [false, true]);
    assert_eq!(stands(&plugin), [true, false], "each is noted beside the others");
    // Trusting it anew forgets what was noted.
    let home = Home::new(&plugin.installed.store);
    home.trust(&plugin.installed.id, plugin.installed.record.hash, 2).unwrap();
    assert_eq!(stands(&plugin), [true, true]);
    loaded(plugin.clone()).await.unwrap();
    fs::write(plugin.installed.store.join("points/mine.json"), "{}").unwrap();
    assert_eq!(stands(&plugin), [true, true], "what can't be read is not there");
}

/// Whether it may have hooks at the start of a session, and before a tool call.
fn stands(plugin: &Wanted) -> [bool; 2] {
    [PointId::SessionStart, PointId::BeforeToolCall]
        .map(|point| plugin.may_stand_at(&[point], &surroundings()))
}

/// Where something outside can change what its code registers, one load says nothing of the next: a gate would be skipped for good because a
/// file was not there once.
#[tokio::test]
async fn law_07_a_plugin_that_something_outside_can_change_is_loaded_at_every_event() {
    let code = "import fs from 'node:fs';
        export default { id: 'mine', register(api) {
            api.on('session_start', () => undefined);
            try { if (!fs.existsSync(api.pluginConfig.file)) return; } catch { return; }
            api.on('before_tool_call', () => ({ block: true }));
        } };";
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "api": "openclaw", "permissions":
        {"files": {"read": ["${data}"]}, "env": ["GIVEN"], "hosts": ["127.0.0.1:9"], "programs": ["tool"], "user": true}}"#;
    let files = [("backstop.plugin.json", manifest), ("a.js", code)];
    for grants in [
        r#"{"files": {"read": ["${data}"]}}"#,
        r#"{"env": ["GIVEN"]}"#,
        r#"{"hosts": ["127.0.0.1:9"]}"#,
        r#"{"programs": ["tool"]}"#,
        r#"{"user": true}"#,
    ] {
        let (_folder, mut plugin) = wanted(&files, grants);
        let file = plugin.installed.data.join("there");
        plugin.config = Json::new(serde_json::json!({ "file": file }));
        let before = loaded(plugin.clone()).await.unwrap();
        assert!(!points_of(&before).contains(&PointId::BeforeToolCall), "{grants}");
        assert_eq!(stands(&plugin), [true, true], "{grants}");
        fs::create_dir_all(&plugin.installed.data).unwrap();
        fs::write(&file, "").unwrap();
        let after = loaded(plugin.clone()).await.unwrap();
        assert_eq!(
            points_of(&after).contains(&PointId::BeforeToolCall),
            grants.contains("files"),
            "{grants}"
        );
        // What is noted for it with no grant is not said of it with one, nor of it elsewhere.
        loaded(Wanted { granted: Permissions::default(), ..plugin.clone() }).await.unwrap();
        assert_eq!(stands(&plugin), [true, true], "{grants}");
        let alone = Wanted { granted: Permissions::default(), ..plugin };
        assert_eq!(stands(&alone), [true, false], "{grants}");
        for runtime in [RunsIn::Apart, RunsIn::Node] {
            assert_eq!(stands(&Wanted { runtime, ..alone.clone() }), [true, true], "{runtime:?}");
        }
    }
}

fn points_of(set: &PluginSet) -> Vec<PointId> {
    set.0.iter().flat_map(|plugin| plugin.registration.hooks()).map(|spec| spec.point).collect()
}

/// A process looks at the whole machine, whatever it is granted.
#[tokio::test]
async fn law_07_nothing_is_noted_of_a_plugin_that_is_a_process() {
    let manifest =
        r#"{"id": "mine", "version": "1", "kind": "process", "command": ["python3", "${plugin}/p.py"]}"#;
    let code = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        hooks = [{"id": "h", "point": "session_start"}]
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"protocol": 1, "hooks": hooks}}
        print(json.dumps(answer), flush=True)
"#;
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("p.py", code)], "{}");
    let set = loaded(plugin.clone()).await.unwrap();
    assert_eq!(points_of(&set), [PointId::SessionStart]);
    assert_eq!(stands(&plugin), [true, true]);
    set.shut_down().await;
}

#[tokio::test]
async fn law_07_code_that_has_a_hook_where_it_had_none_before_is_refused() {
    let code = "export default { id: 'mine', register(api) {
        api.on('session_start', () => undefined);
        api.on('before_tool_call', () => ({ block: true }));
    } };";
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "api": "openclaw"}"#;
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", code)], "{}");
    loaded(plugin.clone()).await.unwrap();
    loaded(plugin.clone()).await.unwrap();
    // As if it had chosen by the clock when it was noted.
    let notes = plugin.installed.store.join("points/mine.json");
    let mut noted: Value = serde_json::from_str(&fs::read_to_string(&notes).unwrap()).unwrap();
    noted["notes"][0]["points"] = json!(["session_start"]);
    fs::write(&notes, noted.to_string()).unwrap();
    assert_eq!(stands(&plugin), [true, false]);
    let error = loaded(plugin.clone()).await.unwrap_err();
    for words in ["`mine`", "`before_tool_call`", "may have been skipped", "backstop plugins trust mine"] {
        assert!(error.contains(words), "{error}");
    }
    // Fewer hooks are what the code says, as ever.
    noted["notes"][0]["points"] = json!(["session_start", "before_tool_call", "session_end"]);
    fs::write(&notes, noted.to_string()).unwrap();
    loaded(plugin.clone()).await.unwrap();
}

#[tokio::test]
async fn law_07_a_point_of_the_manifest_at_which_the_code_registers_nothing_is_an_error() {
    let late = "Promise.resolve().then(() => api.on('before_tool_call', () => ({ block: true })));";
    let other = "api.on('session_start', () => {});";
    let option = "if (api.pluginConfig?.on) api.on('before_tool_call', () => ({ block: true }));";
    let there = "api.on('before_tool_call', () => ({ block: true }));";
    for (body, named, said) in [
        ("", r#"{"point": "before_tool_call"}"#, Some("it registered no hooks at all")),
        (late, r#"{"point": "before_tool_call"}"#, Some("it registered no hooks at all")),
        (option, r#"{"point": "before_tool_call"}"#, Some("it registered no hooks at all")),
        (
            other,
            r#"{"point": "before_tool_call"}, {"point": "session_start"}"#,
            Some("hooks at `session_start`"),
        ),
        (
            option,
            r#"{"point": "before_tool_call", "optional": true}, {"point": "before_tool_call", "id": "b"}"#,
            Some("it registered no hooks at all"),
        ),
        (option, r#"{"point": "before_tool_call", "optional": true}"#, None),
        (there, r#"{"point": "before_tool_call", "optional": true}"#, None),
        (there, r#"{"point": "before_tool_call"}"#, None),
    ] {
        let manifest = format!(
            r#"{{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "points": [{named}]}}"#
        );
        let code = format!("export default {{ id: 'mine', register(api) {{ {body} }} }};");
        let files = [("backstop.plugin.json", manifest.as_str()), ("a.js", code.as_str())];
        let (_folder, plugin) = wanted(&files, "{}");
        match (loaded(plugin).await, said) {
            (Ok(_), None) => {}
            (Err(error), Some(said)) => {
                assert!(error.contains(said), "{body}: {error}");
                assert!(error.contains("`mine`") && error.contains("names `before_tool_call`"), "{error}");
            }
            (found, _) => panic!("{body} {named}: {:?}", found.err()),
        }
    }
}
