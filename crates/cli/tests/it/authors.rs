//! `backstop plugins new`, `test`, `types`, and what `inspect` says of hooks.

use std::path::Path;

use serde_json::Value;

use super::support::{Done, User};

/// A plugin in JavaScript whose hooks behave in each of the ways in which one can.
const CODE: &str = r#"import { definePluginEntry } from "backstop/plugin-sdk";
export default definePluginEntry({ id: "odd", name: "Odd", register(api) {
    api.on("before_tool_call", () => ({ block: true, blockReason: "no" }), { registrationId: "blocks" });
    api.on("session_start", () => {}, { registrationId: "watches" });
    api.registerTool({ name: "odd_tool", description: "", parameters: { type: "object" }, execute: () => ({ content: [] }) });
    BAD
} });"#;
const MANIFEST: &str = r#"{"id": "odd", "version": "1.0.0", "kind": "script", "entry": "a.js"}"#;

fn odd(user: &User, bad: &str) -> String {
    let folder = user.path().join("odd");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("backstop.plugin.json"), MANIFEST).unwrap();
    std::fs::write(folder.join("a.js"), CODE.replace("BAD", bad)).unwrap();
    folder.to_str().unwrap().to_owned()
}

fn inspected(user: &User, args: &[&str]) -> (Option<i32>, Value) {
    let done = user.run(&[&["plugins", "inspect"], args, &["--json"]].concat());
    (done.code, done.json())
}

fn install(user: &User, place: &str) {
    let hash = inspected(user, &[place]).1["hash"].as_str().unwrap().to_owned();
    user.run(&["plugins", "install", place, "--yes", "--trust", &hash]).succeeded();
}

fn hooks(told: &Value) -> Vec<(String, Value, Value)> {
    let hooks = told["run"]["hooks"].as_array().unwrap_or_else(|| panic!("{told}"));
    let one = |hook: &Value| {
        (hook["point"].as_str().unwrap().to_owned(), hook["answer"].clone(), hook["failure"].clone())
    };
    hooks.iter().map(one).collect()
}

#[test]
fn code_that_is_not_trusted_runs_only_where_a_person_says_so() {
    let user = User::new();
    let place = odd(&user, "");
    let (code, told) = inspected(&user, &[&place]);
    assert_eq!((code, &told["run"]), (Some(0), &Value::Null));
    let (code, told) = inspected(&user, &[&place, "--run"]);
    assert_eq!(code, Some(0), "{told}");
    let blocked = serde_json::json!({"block": true, "blockReason": "no"});
    let expected = [
        ("before_tool_call".to_owned(), blocked, Value::Null),
        ("session_start".to_owned(), Value::Null, Value::Null),
    ];
    assert_eq!(hooks(&told), expected);
    assert_eq!(told["run"]["offers"][0]["name"], "odd_tool");
    assert!(
        told["run"]["heapBytes"].as_u64().is_some_and(|heap| heap > 0)
            && told["run"]["hooks"][0]["heapBytes"].is_u64(),
        "{told}"
    );
    let child = user.command(&["plugins", "inspect", &place, "--run"]).env("AI_AGENT", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&child.stderr).contains("is for people"));
    let hash = told["hash"].as_str().unwrap();
    user.run(&["plugins", "install", &place, "--yes", "--trust", hash]).succeeded();
    let (code, told) = inspected(&user, &["odd"]);
    assert_eq!((code, &told["run"]), (Some(0), &Value::Null), "looking runs nothing, trusted or not");
    let child = user.command(&["plugins", "inspect", "odd", "--run"]).env("AI_AGENT", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&child.stderr).contains("is for people"));
    let (code, told) = inspected(&user, &["odd", "--run"]);
    assert_eq!((code, hooks(&told).len()), (Some(0), 2), "{told}");
    user.run(&["plugins", "disable", "odd"]).succeeded();
    let (code, told) = inspected(&user, &["odd", "--run"]);
    assert_eq!((code, &told["run"]), (Some(1), &Value::Null), "what is switched off is not run: {told}");
    assert!(user.run(&["plugins", "inspect", "odd", "--run"]).out.contains("switched off"));
    user.run(&["plugins", "enable", "odd"]).succeeded();
    let root = told["installed"]["folder"].as_str().unwrap();
    std::fs::write(Path::new(root).join("a.js"), "changed").unwrap();
    let (code, told) = inspected(&user, &["odd"]);
    assert_eq!((code, &told["run"]), (Some(0), &Value::Null), "and what has changed does not");
}

/// A hook that says which options and which variable it has, and leaves a mark in its folder for data.
const TELLS: &str = r#"api.on("before_tool_call", () => ({ block: true, blockReason: JSON.stringify([api.pluginConfig ?? null, process.env.MARK ?? null]) }),
    { registrationId: "tells" });"#;
const GIVES: &str = "plugins: {entries: {odd: {config: {word: special}, grants: {env: [MARK]}}}}\n";

fn tells(user: &User, place: &str) -> String {
    let args = ["plugins", "inspect", place, "--run", "--json"];
    let done = user.command(&args).env("MARK", "granted").output().unwrap();
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn a_folder_that_claims_an_id_gets_nothing_that_was_given_to_that_id() {
    let user = User::with_config(GIVES);
    let place = odd(&user, TELLS);
    let asks = MANIFEST.replace("\"kind\"", r#""permissions": {"env": ["MARK"]}, "kind""#);
    std::fs::write(Path::new(&place).join("backstop.plugin.json"), asks).unwrap();
    let told = tells(&user, &place);
    assert!(told.contains("tells") && !told.contains("special") && !told.contains("granted\\"), "{told}");
    let said = user.run(&["plugins", "inspect", &place, "--run"]).out;
    assert!(said.contains("without what the configuration says"), "{said}");
    std::fs::create_dir_all(Path::new(&place).join("tests")).unwrap();
    let expected = serde_json::json!({
        "point": "before_tool_call", "event": {"toolName": "exec", "params": {}}, "expect": {"blockReason": "no"},
    });
    std::fs::write(Path::new(&place).join("tests/one.json"), expected.to_string()).unwrap();
    // The same as it is installed gets it, wherever it lies.
    user.configure("{}\n");
    install(&user, &place);
    user.configure(GIVES);
    for place in [place.as_str(), "odd"] {
        let told = tells(&user, place);
        assert!(told.contains("special") && told.contains("granted\\"), "{place}: {told}");
    }
    assert!(!user.run(&["plugins", "test", &place]).whole().contains("without what the configuration says"));
    // One byte more is somebody else.
    std::fs::write(Path::new(&place).join("more"), "x").unwrap();
    let told = tells(&user, &place);
    assert!(told.contains("tells") && !told.contains("special") && !told.contains("granted\\"), "{told}");
    assert!(user.run(&["plugins", "test", &place]).whole().contains("without what the configuration says"));
}

/// An author tests hooks that need a grant before anybody can give it: events of tests are the author's own.
#[test]
fn hooks_that_need_a_grant_are_tested_without_it_and_it_is_told() {
    let user = User::new();
    let place = odd(&user, "api.on('before_agent_run', () => ({ outcome: 'block', reason: 'no' }));");
    std::fs::create_dir_all(Path::new(&place).join("tests")).unwrap();
    let test = r#"{"point": "before_agent_run", "event": {"prompt": "hi", "messages": []}, "expect": {"outcome": "block"}}"#;
    std::fs::write(Path::new(&place).join("tests/one.json"), test).unwrap();
    let done = user.run(&["plugins", "test", &place]);
    assert!(done.code == Some(0) && done.out.contains("1 passed"), "{}", done.whole());
    assert!(done.err.contains("plugins.entries.odd.hooks.allowConversationAccess: true"), "{}", done.whole());
    // Whoever decides about it is told that it can't stand as it is.
    let (_, told) = inspected(&user, &[&place, "--run"]);
    let told = told.to_string();
    assert!(told.contains("allowConversationAccess"), "{told}");
    install(&user, &place);
    let done = user.run(&["plugins", "test", &place]);
    assert!(
        done.code != Some(0) && done.err.contains("error: plugin `odd`: `odd` may not have hooks"),
        "{}",
        done.whole()
    );
}

#[test]
fn samples_leave_nothing_in_the_data_of_a_plugin() {
    let user = User::new();
    let manifest = r#"{"id": "odd", "version": "1.0.0", "kind": "command", "command": ["sh", "${plugin}/hook.sh"],
        "points": [{"point": "before_tool_call"}]}"#;
    let place = odd(&user, "");
    std::fs::write(Path::new(&place).join("backstop.plugin.json"), manifest).unwrap();
    let code =
        "test -n \"$HOME\" && mkdir -p \"$HOME\" && touch \"$HOME/mark\" && echo \"at $HOME\" >&2; exit 2\n";
    std::fs::write(Path::new(&place).join("hook.sh"), code).unwrap();
    install(&user, &place);
    user.configure("plugins: {entries: {odd: {grants: {files: {write: ['${data}']}}}}}\n");
    let (_, told) = inspected(&user, &["odd", "--run"]);
    let said = told["run"]["hooks"][0]["answer"]["blockReason"].as_str().unwrap_or_else(|| panic!("{told}"));
    let sample = Path::new(said.trim().strip_prefix("at ").unwrap());
    let data = user.path().join("data/backstop/plugins/data/odd");
    assert!(!sample.starts_with(&data) && !sample.exists() && !data.exists(), "{said}");
    // Where it judges, it is its own.
    let done = user.run(&["check", "--tool", "canvas", "--args", "{}"]).whole();
    assert!(done.contains("plugins/data/odd") && data.join("mark").exists(), "{done}");
}

#[test]
fn a_hook_that_hangs_throws_or_answers_garbage_is_shown_as_that_and_the_others_are_fired() {
    let user = User::new();
    for (bad, said) in [
        (
            "api.on('before_agent_run', () => { throw new Error('oh no'); }, { registrationId: 'bad' });",
            "oh no",
        ),
        (
            "api.on('before_llm_call', () => { for (;;) {} }, { registrationId: 'bad', timeoutMs: 1600 });",
            "a.js:6:1: no answer within ",
        ),
        (
            "api.on('tool.after', () => ({ block: 'true' }), { registrationId: 'bad' });",
            "malformed answer: `answer.block`",
        ),
    ] {
        // It reads the conversation, which the operator allows.
        user.configure("{}\n");
        let place = odd(&user, bad);
        install(&user, &place);
        user.configure("plugins: {entries: {odd: {hooks: {allowConversationAccess: true}}}}\n");
        let (code, told) = inspected(&user, &[&place, "--run"]);
        let hooks = hooks(&told);
        let failed: Vec<_> = hooks.iter().filter(|(_, _, failure)| !failure.is_null()).collect();
        assert_eq!((code, hooks.len(), failed.len()), (Some(1), 3, 1), "{bad}: {told}");
        assert!(failed[0].2.as_str().unwrap().contains(said), "{bad}: {told}");
        let text = user.run(&["plugins", "inspect", &place, "--run"]);
        assert!(text.code == Some(1) && text.out.contains("FAILED"), "{}", text.whole());
        user.run(&["plugins", "remove", "odd"]).succeeded();
    }
    let place = odd(&user, "throw new Error('not today');");
    let done = user.run(&["plugins", "inspect", &place, "--run"]);
    assert!(
        done.code == Some(1) && done.out.contains("not today") && done.out.contains("a.js"),
        "{}",
        done.whole()
    );
    user.configure("{}\n");
    let place = odd(&user, "api.on('llm_output', () => {}); api.on('cron_changed', () => {});");
    let (code, told) = inspected(&user, &[&place, "--run"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told["run"]["leftOut"].to_string().contains("allowConversationAccess"), "{told}");
    assert!(told["run"]["waiting"].to_string().contains("cron_changed"), "{told}");
}

fn tested(user: &User, folder: &str) -> Done {
    user.run(&["plugins", "test", folder, "--json"])
}

#[test]
fn a_new_plugin_passes_its_tests_at_once_and_says_where_it_does_not() {
    let user = User::new();
    for (flag, file) in [("--ts", "index.ts"), ("--js", "index.js"), ("--python", "hook.py")] {
        let name = format!("new{flag}");
        user.run(&["plugins", "new", &name, flag]).succeeded();
        let folder = user.work().join(&name);
        let whole = user.run(&["plugins", "test", &name]).succeeded().out;
        assert!(whole.contains("ok   stops-sudo") && whole.contains("2 passed, 0 failed"), "{whole}");
        let again = user.run(&["plugins", "new", &name, flag]);
        assert!(again.code != Some(0), "nothing is written over");
        let code = std::fs::read_to_string(folder.join(file)).unwrap();
        std::fs::write(folder.join(file), code.replace("sudo is not allowed", "never")).unwrap();
        let failed = tested(&user, &name);
        let told = failed.json();
        assert_eq!(
            (failed.code, &told["passed"], &told["failed"]),
            (Some(1), &1.into(), &1.into()),
            "{told}"
        );
        let whole = user.run(&["plugins", "test", &name]);
        assert!(
            whole.out.contains("FAIL stops-sudo") && whole.out.contains("`blockReason` is another"),
            "{}",
            whole.whole()
        );
        // It can be installed as it is.
        let (_, told) = inspected(&user, &[&format!("./{name}")]);
        let hash = told["hash"].as_str().unwrap();
        user.run(&["plugins", "install", &format!("./{name}"), "--yes", "--trust", hash]).succeeded();
    }
}

#[test]
fn a_test_that_tests_nothing_does_not_pass() {
    let user = User::new();
    user.run(&["plugins", "new", "mine", "--js"]).succeeded();
    let tests = user.work().join("mine/tests");
    for (text, said) in [
        (
            r#"{"point": "before_tool_call", "event": {"toolName": "exec", "params": {}}}"#,
            "`expect` or `fails`",
        ),
        (r#"{"point": "before_tool_cal", "event": {}, "expect": null}"#, "before_tool_call"),
        (r#"{"point": "before_tool_call", "event": {"tool": "exec"}, "expect": null}"#, "no event"),
        (r#"{"point": "before_tool_call", "event": {}, "expected": null}"#, "no test"),
        (
            r#"{"point": "before_tool_call", "event": {"toolName": "exec", "params": {}}, "fails": "x"}"#,
            "nothing failed",
        ),
        ("{", "no test"),
    ] {
        std::fs::write(tests.join("odd.json"), text).unwrap();
        let told = tested(&user, "mine");
        let wrong = told.json()["tests"]
            .as_array()
            .unwrap()
            .iter()
            .find(|test| test["test"] == "odd")
            .unwrap()["wrong"]
            .to_string();
        assert!(told.code == Some(1) && wrong.contains(said), "{text}: {wrong}");
    }
    std::fs::remove_dir_all(&tests).unwrap();
    assert_eq!(user.run(&["plugins", "test", "mine"]).code, Some(1), "no tests");
    std::fs::create_dir(&tests).unwrap();
    assert!(user.run(&["plugins", "test", "mine"]).err.contains("no test"));
    let child = user.command(&["plugins", "test", "mine"]).env("AI_AGENT", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&child.stderr).contains("is for people"));
}

#[test]
fn the_types_are_printed_or_written() {
    let user = User::new();
    let printed = user.run(&["plugins", "types"]).succeeded().out;
    assert!(printed.contains("declare module \"backstop/plugin-sdk\"") && printed.contains("before_install"));
    user.run(&["plugins", "types", "."]).succeeded();
    let written = std::fs::read_to_string(user.work().join("backstop-plugin-sdk.d.ts")).unwrap();
    assert_eq!(written.trim_end(), printed.trim_end());
}

#[test]
fn types_are_written_through_no_link() {
    let user = User::new();
    let victim = user.path().join("victim");
    std::fs::write(&victim, "kept").unwrap();
    let place = user.work().join("backstop-plugin-sdk.d.ts");
    for target in [victim.clone(), user.path().join("not-there")] {
        std::os::unix::fs::symlink(&target, &place).unwrap();
        let refused = user.run(&["plugins", "types", "."]);
        assert!(refused.code != Some(0) && refused.err.contains("no plain file"), "{}", refused.whole());
        std::fs::remove_file(&place).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
    assert!(!user.path().join("not-there").exists());
    // A second name of another file is not written through either.
    std::fs::hard_link(&victim, &place).unwrap();
    user.run(&["plugins", "types", "."]).succeeded();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
    assert!(std::fs::read_to_string(&place).unwrap().contains("declare module"));
    let left = std::fs::read_dir(user.work()).unwrap().count();
    assert_eq!(left, 1, "nothing else is left");
}

#[test]
fn nothing_is_written_among_installed_plugins() {
    let user = User::new();
    user.run(&["plugins", "new", "mine", "--js"]).succeeded();
    super::plugin_tools::install(&user, &user.work().join("mine"));
    let told = user.run(&["plugins", "list", "--json"]).succeeded().json();
    let code = told[0]["folder"].as_str().unwrap().to_owned();
    let link = user.path().join("link");
    std::os::unix::fs::symlink(&code, &link).unwrap();
    let link = link.to_str().unwrap();
    let [beside, below] = ["other", "code"]
        .map(|place| user.path().join("data/backstop/plugins").join(place).display().to_string());
    for args in [
        vec!["plugins", "types", &code],
        vec!["plugins", "types", link],
        vec!["plugins", "types", &beside],
        vec!["plugins", "new", &format!("{link}/more")],
        vec!["plugins", "new", &format!("{below}/more")],
    ] {
        let refused = user.run(&args);
        let said =
            refused.err.contains("among the folders of installed plugins") && refused.err.contains("hint: ");
        assert!(refused.code != Some(0) && said, "{args:?}: {}", refused.whole());
    }
    let told = user.run(&["plugins", "list", "--json"]).succeeded().json();
    assert_eq!(told[0]["state"], "on");
}
