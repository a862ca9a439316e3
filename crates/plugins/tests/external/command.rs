//! Programs for one event: exit codes, answers, and scripts that were written for Claude Code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backstop_engine::{Engine, FailureKind};
use backstop_hooks::CallContext;
use backstop_hooks::PointId;
use backstop_hooks::points::{AgentFinalizeEvent, AgentRunEvent, BeforeAgentFinalize, BeforeAgentRun};
use backstop_plugins::external::command::{CommandSettings, Commands, Dialect};
use backstop_plugins::registration::{HookSpec, Registration};

use crate::support::{engine_of, failure, judge, judge_in, observe, passes, runs, until};

fn script(folder: &Path, text: &str, dialect: Dialect) -> CommandSettings {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file: PathBuf = folder.join(format!("{number}.hook"));
    std::fs::write(&file, text).unwrap();
    let program = if text.starts_with("import ") { "python3" } else { "/bin/sh" };
    CommandSettings {
        program: program.into(),
        arguments: vec![file.into()],
        directory: folder.to_owned(),
        environment: BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]),
        dialect,
        seal: None,
    }
}

fn engine(folder: &Path, point: PointId, text: &str, dialect: Dialect) -> Engine {
    engine_of(point, Commands::default().hook(point, script(folder, text, dialect)).unwrap())
}

fn gate(folder: &Path, text: &str) -> Engine {
    engine(folder, PointId::BeforeToolCall, text, Dialect::Backstop)
}

#[tokio::test]
async fn exit_codes_are_those_of_the_hooks_of_coding_agents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert!(passes(&gate(path, "exit 0"), "ls").await, "nobody need read what it is given");
    assert!(passes(&gate(path, "cat >/dev/null; echo null"), "ls").await);
    let blocked = judge(&gate(path, "cat >/dev/null; echo 'not here' >&2; exit 2"), "ls").await;
    assert_eq!(blocked.permit.unwrap_err().reason.unwrap().text().as_str(), "not here");
    let blocked = judge(&gate(path, "exit 2"), "ls").await;
    assert!(blocked.permit.is_err(), "a stop without a reason is one");
    let said = gate(path, r#"echo '{"block": true, "blockReason": "said"}'"#);
    assert_eq!(judge(&said, "ls").await.permit.unwrap_err().reason.unwrap().text().as_str(), "said");
}

#[tokio::test]
async fn law_05_whatever_else_a_command_does_blocks_at_a_gate_and_is_recorded_at_an_observer() {
    let folder = tempfile::tempdir().unwrap();
    for (text, kind, said) in [
        ("exit 1", FailureKind::Failed, "exit status: 1"),
        ("exit 127", FailureKind::Failed, "exit status: 127"),
        ("kill -s KILL $$", FailureKind::Failed, "signal: 9"),
        ("echo yes", FailureKind::Malformed, "no JSON"),
        (r#"echo '{"block": "true"}'"#, FailureKind::Malformed, "malformed"),
        (r#"echo '{"block": true, "block": false}'"#, FailureKind::Malformed, "a key twice (line 1"),
        (r#"echo '{"params": [{"a": {"b": 1, "b": 1}}]}'"#, FailureKind::Malformed, "a key twice (line 1"),
        (r#"echo '{"block": true} {}'"#, FailureKind::Malformed, "no JSON"),
        ("while :; do echo flood; done", FailureKind::Malformed, "more than 1048576 bytes"),
        ("exit 2 ", FailureKind::Failed, "nothing can be stopped"),
    ] {
        let stops = text == "exit 2 ";
        if !stops {
            let (found, message) = failure(&gate(folder.path(), text), "ls").await;
            assert_eq!(found, kind, "{text}: {message}");
            assert!(message.contains(said), "{text}: {message}");
        }
        let watches = engine(folder.path(), PointId::AfterToolCall, text, Dialect::Backstop);
        let receipt = observe(&watches, "ls").await;
        let failure = receipt.steps[0].failure.as_ref().unwrap();
        assert!(stops || failure.kind == kind, "{text}");
        assert!(receipt.blocked.is_none());
    }
    let mut absent = script(folder.path(), "", Dialect::Backstop);
    absent.program = "/nonexistent/program".into();
    let hook = Commands::default().hook(PointId::BeforeToolCall, absent).unwrap();
    let (kind, message) = failure(&engine_of(PointId::BeforeToolCall, hook), "ls").await;
    assert!(kind == FailureKind::Unreachable && message.contains("could not be started"), "{message}");
}

#[tokio::test]
async fn a_command_is_told_what_happens_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let text = "import json, os, sys\nevent = json.load(sys.stdin)\nassert event['point'] == os.environ['BACKSTOP_POINT']\n\
        json.dump({'block': True, 'blockReason': event['toolName'] + ' ' + event['params']['command']}, sys.stdout)";
    let blocked = judge(&gate(folder.path(), text), "ls -la").await.permit.unwrap_err();
    assert_eq!(blocked.reason.unwrap().text().as_str(), "exec ls -la");
    let large = "x".repeat(3 << 20);
    let unread = judge(&gate(folder.path(), "exit 0"), &large).await;
    assert!(unread.permit.is_ok(), "a large event that is not read is no failure");
}

#[tokio::test]
async fn a_command_that_is_not_awaited_any_more_ends_with_its_tree() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "sleep 60 & echo $! > {0}/child.new; mv {0}/child.new {0}/child; wait",
        folder.path().display()
    );
    let engine = gate(folder.path(), &text);
    let waits = tokio::spawn(async move { judge(&engine, "ls").await });
    let file = folder.path().join("child");
    until("it runs", || file.exists()).await;
    let child = std::fs::read_to_string(file).unwrap();
    assert!(runs(&child));
    waits.abort();
    until("its child is gone", || !runs(&child)).await;
}

#[tokio::test]
async fn what_a_command_leaves_running_does_not_keep_its_answer_back() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"sleep 60 & echo '{"block": true, "blockReason": "said"}'"#;
    assert!(judge(&gate(folder.path(), text), "ls").await.permit.is_err());
}

/// As people write them for Claude Code: it reads its payload, looks at the tool, and answers by exit code.
const NO_SUDO: &str = r#"import json, sys
payload = json.load(sys.stdin)
if payload["hook_event_name"] == "PreToolUse" and payload["tool_name"] == "Bash":
    if "sudo" in payload["tool_input"].get("command", ""):
        print("Blocked: sudo is not allowed", file=sys.stderr)
        sys.exit(2)
"#;

/// The other form: it answers in JSON.
const DECIDES: &str = r#"import json, sys
payload = json.load(sys.stdin)
command = payload["tool_input"].get("command", "")
decision = "deny" if "deny" in command else "ask" if "ask" in command else "allow"
output = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": "because"}
if "rewrite" in command:
    output["updatedInput"] = {"command": "echo changed"}
print(json.dumps({"hookSpecificOutput": output}))
"#;

#[tokio::test]
async fn scripts_for_claude_code_stand_in_a_pipeline_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let sudo = engine(folder.path(), PointId::BeforeToolCall, NO_SUDO, Dialect::Claude);
    assert!(passes(&sudo, "ls").await);
    let blocked = judge(&sudo, "sudo ls").await.permit.unwrap_err();
    assert_eq!(blocked.reason.unwrap().text().as_str(), "Blocked: sudo is not allowed");
    let decides = engine(folder.path(), PointId::BeforeToolCall, DECIDES, Dialect::Claude);
    assert!(passes(&decides, "ls").await);
    assert!(!passes(&decides, "deny").await);
    assert!(!passes(&decides, "ask").await, "nobody is there to be asked");
    let verdict = judge(&decides, "rewrite").await;
    let event = verdict.permit.unwrap().redeem().unwrap();
    assert_eq!(event.params.get("command").unwrap(), "echo changed");
}

#[tokio::test]
async fn law_03_allow_of_a_script_never_loosens() {
    let folder = tempfile::tempdir().unwrap();
    let commands = Commands::default();
    let mut registration = Registration::new("mine").unwrap();
    for (name, text) in [("allows", DECIDES), ("blocks", NO_SUDO)] {
        for before in [1, -1] {
            let mut spec = HookSpec::at("before_tool_call", format!("{name}{before}")).unwrap();
            spec.priority = before;
            let hook = commands.hook(spec.point, script(folder.path(), text, Dialect::Claude)).unwrap();
            registration.hook(spec, std::sync::Arc::new(hook)).unwrap();
        }
    }
    assert!(!passes(&crate::support::engine_with(&registration), "sudo ls").await);
}

#[tokio::test]
async fn law_14_a_script_never_starts_in_the_folder_of_the_session_and_learns_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session");
    std::fs::create_dir(&session).unwrap();
    let told = "printf '%s %s' \"$(pwd)\" \"$CLAUDE_PROJECT_DIR\" > told; exit 0";
    let engine = engine(folder.path(), PointId::BeforeToolCall, told, Dialect::Claude);
    let context =
        CallContext { workspace_dir: Some(session.display().to_string()), ..CallContext::default() };
    assert!(judge_in(&engine, "ls", &context).await.permit.is_ok());
    let written = std::fs::read_to_string(folder.path().join("told")).unwrap();
    let root = folder.path().canonicalize().unwrap();
    assert_eq!(written, format!("{} {}", root.display(), session.display()));
}

#[tokio::test]
async fn scripts_for_claude_code_judge_prompts_and_ends_of_turns() {
    let folder = tempfile::tempdir().unwrap();
    let prompt = "import json, sys\np = json.load(sys.stdin)\nassert p['hook_event_name'] == 'UserPromptSubmit'\n\
        if 'secret' in p['prompt']: print(json.dumps({'decision': 'block', 'reason': 'a secret'}))\nelse: print('some context')";
    let prompts = engine(folder.path(), PointId::BeforeAgentRun, prompt, Dialect::Claude);
    for (text, blocks) in [("hello", false), ("my secret", true)] {
        let event =
            serde_json::from_value::<AgentRunEvent>(serde_json::json!({ "prompt": text, "messages": [] }))
                .unwrap();
        let decided = prompts.decide::<BeforeAgentRun>(event, &CallContext::default()).await;
        assert_eq!(decided.blocked().is_some(), blocks, "{text}: {:?}", decided.blocked());
    }
    let stop = "import json, sys\np = json.load(sys.stdin)\nassert p['hook_event_name'] == 'Stop'\n\
        if not p['stop_hook_active']: print('run the tests', file=sys.stderr); sys.exit(2)";
    let ends = engine(folder.path(), PointId::BeforeAgentFinalize, stop, Dialect::Claude);
    for (again, revises) in [(false, true), (true, false)] {
        let event = serde_json::from_value::<AgentFinalizeEvent>(
            serde_json::json!({ "sessionId": "s", "stopHookActive": again }),
        )
        .unwrap();
        let decided = ends.decide::<BeforeAgentFinalize>(event, &CallContext::default()).await;
        let action = format!("{:?}", decided.outcome());
        assert_eq!(action.contains("Revise"), revises, "{action}");
    }
}

#[test]
fn points_that_claude_code_has_no_event_for_are_an_error_at_load() {
    let folder = tempfile::tempdir().unwrap();
    let settings = script(folder.path(), "", Dialect::Claude);
    let error = Commands::default().hook(PointId::BeforeLlmCall, settings).unwrap_err().to_string();
    assert!(error.contains("before_llm_call") && error.contains("before_tool_call"), "{error}");
}
