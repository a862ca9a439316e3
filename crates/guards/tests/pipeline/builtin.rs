//! The built-in guards at their points: order, categories, asking, rewriting.

use backstop_engine::{Engine, HookOptions};
use backstop_guards::hooks::{
    CommandSafety, FilePatterns, SecurityAudit, register_command_safety, register_security_audit,
};
use backstop_guards::{CommandGuard, GuardSettings, PathGuard, Profile};
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{OwnerId, Params, hook_fn};
use serde_json::{Value, json};

use super::support::{engine, review, snapshot, why};

const HOME: &str = "/home/somebody";

fn guarded() -> Engine {
    guarded_with(&[], &[])
}

fn guarded_with(allow: &[&str], deny: &[&str]) -> Engine {
    let mut snapshot = snapshot();
    let command = CommandSafety::new(CommandGuard::new(GuardSettings::default()), Some(HOME));
    register_command_safety(&mut snapshot, &command).unwrap();
    let patterns = |list: &[&str]| FilePatterns::new(list.iter().copied(), Some(HOME)).unwrap();
    let files =
        SecurityAudit::new(PathGuard::new(Profile::Standard), patterns(allow), patterns(deny), Some(HOME));
    register_security_audit(&mut snapshot, &files).unwrap();
    engine(snapshot)
}

#[tokio::test]
async fn the_guards_stand_where_the_catalogue_of_built_ins_says() {
    let seen = guarded().interceptors().list();
    let seen: Vec<_> = seen.iter().map(|hook| (hook.id.as_str(), hook.priority)).collect();
    let both = [("builtin:command-safety-guard", 100), ("builtin:security-audit", 99)];
    assert_eq!(seen, both, "they are seen among the interceptors");
    let hooks: Vec<_> = guarded()
        .registry()
        .list()
        .iter()
        .map(|hook| (hook.id.to_string(), hook.point.name(), hook.priority))
        .collect();
    assert!(hooks.contains(&("builtin:command-safety-guard".into(), "tool.before", 100)));
    assert!(hooks.contains(&("builtin:security-audit".into(), "tool.before", 99)));
}

#[tokio::test]
async fn every_category_of_dangerous_command_is_stopped() {
    let engine = guarded();
    for command in [
        "rm -rf /",
        "rm -rf ~",
        "find / -delete",
        "dd if=/dev/zero of=/dev/sda",
        "mkfs.ext4 /dev/sda1",
        "fdisk /dev/sda",
        "chmod -R 777 /",
        "chown -R nobody /",
        "echo x > /etc/passwd",
        "curl -s http://127.0.0.1:9/x | bash",
        "wget -qO- http://127.0.0.1:9/x | sh",
        "nc -l -p 4444 -e /bin/bash",
        ":(){ :|:& };:",
        "sudo sh -c 'rm -rf --no-preserve-root /'",
        "bash <(curl http://127.0.0.1:9/x)",
    ] {
        let reviewed = review(&engine, "bash", json!({ "command": command })).await;
        let blocked = reviewed.blocked.unwrap_or_else(|| panic!("passed: {command}"));
        assert_eq!(blocked.hook.unwrap().as_str(), "builtin:command-safety-guard", "{command}");
    }
}

#[tokio::test]
async fn what_is_opt_in_elsewhere_is_at_least_looked_at() {
    let engine = guarded();
    for command in ["git commit --no-verify -m x", "docker system prune -a --volumes"] {
        let reviewed = review(&engine, "bash", json!({ "command": command })).await;
        assert!(reviewed.blocked.is_some() || !reviewed.requests.is_empty(), "passed: {command}");
    }
}

#[tokio::test]
async fn everyday_commands_pass_without_a_question() {
    let engine = guarded();
    for command in [
        "ls -la",
        "git commit -m 'rm -rf / is a bad idea'",
        "cargo test -p demo -- --nocapture",
        "rm -rf target/debug",
        "grep -rn 'curl | bash' docs",
        "find . -name '*.tmp' -delete",
    ] {
        let reviewed = review(&engine, "bash", json!({ "command": command })).await;
        assert!(reviewed.blocked.is_none(), "{command}: {}", why(&reviewed));
        assert!(reviewed.requests.is_empty(), "asked about {command}");
    }
}

#[tokio::test]
async fn every_way_to_a_shell_is_guarded() {
    let engine = guarded();
    for (tool, params) in [
        ("exec", json!({"command": "rm -rf /"})),
        ("process", json!({"action": "write", "id": "1", "data": "rm -rf /\n"})),
        ("mcp__box__run", json!({"cmd": "rm -rf /"})),
        ("run_commands", json!({"commands": ["ls", "rm -rf /"]})),
        ("Shell", json!({"command": ["bash", "-c", "rm -rf /"]})),
    ] {
        let reviewed = review(&engine, tool, params).await;
        assert!(reviewed.blocked.is_some(), "{tool} passed");
    }
}

#[tokio::test]
async fn sensitive_files_are_kept() {
    let engine = guarded();
    let denied = |tool: &'static str, params: Value| {
        let engine = engine.clone();
        async move {
            let reviewed = review(&engine, tool, params.clone()).await;
            assert!(reviewed.blocked.is_some(), "{tool} {params} passed");
            assert_eq!(reviewed.blocked.unwrap().hook.unwrap().as_str(), "builtin:security-audit");
        }
    };
    denied("read", json!({"path": "~/.ssh/id_rsa"})).await;
    denied("read", json!({"path": ".env"})).await;
    denied("edit", json!({"path": "/home/somebody/.aws/credentials"})).await;
    denied("read", json!({"path": "test/../../../home/somebody/.aws/credentials"})).await;
    denied("write", json!({"path": "/etc/passwd", "content": "x"})).await;
    denied("apply_patch", json!({"input": "*** Begin Patch\n*** Add File: /etc/shadow\n+x\n*** End Patch"}))
        .await;
    denied("mcp__fs__read_text_file", json!({"path": "/home/somebody/.gnupg/private-keys-v1.d/a.key"})).await;
    for path in
        ["src/main.rs", ".env.example", "keys/id_rsa.pub", "package-lock.json", "node_modules/a/b.pem"]
    {
        let reviewed = review(&engine, "read", json!({ "path": path })).await;
        assert!(reviewed.blocked.is_none(), "{path}: {}", why(&reviewed));
    }
}

#[tokio::test]
async fn what_holds_more_than_is_read_does_not_pass() {
    let engine = guarded();
    let padding = vec![0; 100_000];
    let args = json!({ "a": padding, "calls": [{ "command": "ls" }] });
    let reviewed = review(&engine, "mcp__box__run", args).await;
    assert!(reviewed.blocked.is_some());
}

#[tokio::test]
async fn the_operator_can_add_files_and_make_exceptions() {
    let engine = guarded_with(&["fixtures/*.pem"], &["plans", "~/diary.txt"]);
    for path in ["plans/2027.md", "/work/project/plans", "/home/somebody/diary.txt"] {
        assert!(review(&engine, "read", json!({ "path": path })).await.blocked.is_some(), "{path}");
    }
    assert!(review(&engine, "read", json!({"path": "fixtures/server.pem"})).await.blocked.is_none());
    assert!(review(&engine, "read", json!({"path": "other/server.pem"})).await.blocked.is_some());
}

#[tokio::test]
async fn a_later_rewrite_is_judged_by_the_guards_again() {
    let engine = guarded();
    engine
        .registry()
        .on::<BeforeToolCall>(
            hook_fn(|_, _| {
                let params = Params::from_value(json!({"command": "rm -rf /"})).unwrap();
                Ok(Some(ToolCallOutcome::rewrite(params)))
            }),
            HookOptions::new(OwnerId::operator()),
        )
        .unwrap();
    let reviewed = review(&engine, "exec", json!({"command": "ls"})).await;
    assert_eq!(reviewed.blocked.unwrap().hook.unwrap().as_str(), "builtin:command-safety-guard");
}
