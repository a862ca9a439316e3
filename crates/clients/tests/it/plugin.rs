//! The generated OpenCode plugin, loaded by Node and called as OpenCode calls it, with a program in the place
//! of Backstop that answers as it is told.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use backstop_clients::install::{Folders, Scope, plan_install};
use backstop_clients::{Client, Moment};
use serde_json::{Value, json};

/// Loads the plugin, calls its hooks, and prints what became of the arguments and the result.
const DRIVER: &str = r#"
import { Backstop } from "./plugin.mjs"
const hooks = await Backstop({ directory: process.argv[2] })
await hooks.config({ mcp: { box: {} } })
await hooks.event({ event: { type: "session.created", properties: { info: { id: "child", parentID: "parent" } } } })
const before = { args: { command: "ls", timeout: 5 } }
const args = before.args
const after = process.argv[3] === "mcp" ? { content: [{ type: "text", text: "key" }] } : { output: "key", metadata: { output: "key" } }
const outcome = {}
try { await hooks["tool.execute.before"]({ tool: "bash", sessionID: "child", callID: "c" }, before); outcome.args = args } catch (error) { outcome.refused = error.message }
try { await hooks["tool.execute.after"]({ tool: "bash", sessionID: "child", callID: "c", args }, after); outcome.after = after } catch (error) { outcome.withheld = error.message }
try { await hooks["chat.message"]({ sessionID: "child" }, { parts: [{ type: "text", text: "hi" }] }); outcome.message = true } catch (error) { outcome.unsent = error.message }
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "parent" } } })
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "child" } } })
console.log(JSON.stringify(outcome))
"#;

fn node() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("node")).find(|node| node.is_file())
}

/// Runs the plugin with `program` as the text of the shell script that stands for Backstop.
fn driven(program: &str, kind: &str) -> Option<(Value, Vec<Value>)> {
    let Some(node) = node() else {
        eprintln!("skipped: there is no `node` on this machine to load the plugin");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let backstop = folder.path().join("it's a backstop").join("backstop");
    script(
        &backstop,
        &format!(
            "#!/bin/sh\ncat >> \"$(dirname \"$0\")/payloads\"; echo >> \"$(dirname \"$0\")/payloads\"\n{program}\n"
        ),
    );
    let folders = Folders::new(folder.path(), folder.path());
    let plan = plan_install(Client::OpenCode, Scope::Project, &folders, &backstop).unwrap();
    let [change] = plan.changes.as_slice() else { panic!("one file") };
    fs::write(folder.path().join("plugin.mjs"), change.after.as_ref().unwrap()).unwrap();
    fs::write(folder.path().join("driver.mjs"), DRIVER).unwrap();
    let output = Command::new(node)
        .arg("driver.mjs")
        .arg(folder.path())
        .arg(kind)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let payloads = fs::read_to_string(backstop.with_file_name("payloads")).unwrap_or_default();
    let payloads = payloads.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Some((serde_json::from_slice(&output.stdout).unwrap(), payloads))
}

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_passes_is_left_as_it_is() {
    let Some((outcome, payloads)) = driven(r#"printf '{"decision":"pass"}'"#, "native") else { return };
    assert_eq!(outcome["args"], json!({ "command": "ls", "timeout": 5 }));
    assert_eq!(outcome["after"]["output"], "key");
    assert_eq!(outcome["message"], true);
    let before = payloads.iter().find(|payload| payload["event"] == "tool.execute.before").unwrap();
    assert_eq!((&before["parentSessionID"], &before["mcpServers"]), (&json!("parent"), &json!(["box"])));
    let read = |payload: &Value| {
        let payload = backstop_clients::Payload::parse(payload.to_string().as_bytes()).unwrap();
        let event = Client::OpenCode.read(&payload, None).unwrap();
        (event.frame.session_key().unwrap().to_string(), event.moment)
    };
    let events: Vec<_> = payloads.iter().map(read).collect();
    assert!(events.iter().all(|(key, _)| key == "opencode:parent:child"), "{events:?}");
    assert!(matches!(events.first(), Some((_, Moment::SubAgentStart))), "{events:?}");
    assert!(matches!(events.last(), Some((_, Moment::SubAgentStop(_)))), "{events:?}");
}

#[test]
fn changed_arguments_and_results_are_taken_whole() {
    let answer = r#"case "$(tail -n 1 "$(dirname "$0")/payloads")" in
*execute.before*) printf '{"decision":"rewrite","args":{"command":"echo safe"}}' ;;
*execute.after*content*) printf '{"decision":"replace","result":[{"type":"text","text":"***"}]}' ;;
*execute.after*) printf '{"decision":"replace","result":"***"}' ;;
*) printf '{"decision":"pass"}' ;;
esac"#;
    for kind in ["native", "mcp"] {
        let Some((outcome, _)) = driven(answer, kind) else { return };
        assert_eq!(outcome["args"], json!({ "command": "echo safe" }));
        assert!(outcome["after"].to_string().contains("***"), "{outcome}");
        assert!(!outcome["after"].to_string().contains("key"), "{outcome}");
    }
}

#[test]
fn a_refusal_reaches_the_model_with_its_reason() {
    let Some((outcome, _)) = driven("echo 'not here' >&2; exit 2", "native") else { return };
    for field in ["refused", "withheld", "unsent"] {
        assert_eq!(outcome[field], "not here", "{outcome}");
    }
}

#[test]
fn everything_but_a_clear_answer_is_a_refusal() {
    for broken in [
        "",
        "exit 1",
        "exit 101",
        "kill -9 $$",
        "printf '{\"decision\":'",
        "echo hello",
        "printf '{}'",
        "printf '{\"decision\":\"allow\"}'",
        "printf '{\"decision\":\"rewrite\"}'",
    ] {
        let Some((outcome, _)) = driven(broken, "native") else { return };
        for field in ["refused", "withheld", "unsent"] {
            let said =
                outcome[field].as_str().unwrap_or_else(|| panic!("`{broken}` passed at {field}: {outcome}"));
            assert!(said.contains("backstop could not judge this"), "{said}");
        }
    }
}
