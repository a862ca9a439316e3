//! Digests of the audit trail by a key of the operator's.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::support::{Done, User, done, last_code, until};

/// A user who records, and whose trail has keyed digests. Returns the file with the key of the tape, and what names the other key.
fn keyed() -> (User, String, String) {
    let user = User::new();
    let [tape, digests] = ["tape.key", "digest.key"].map(|name| user.path().join(name).display().to_string());
    let made = user.run(&["tape", "keygen", &tape]).succeeded();
    let named = user.run(&["audit", "keygen", &digests]).succeeded();
    configure(&user, made.out.trim(), Some(&digests));
    (user, tape, named.out.trim().to_owned())
}

fn configure(user: &User, recipient: &str, key: Option<&str>) {
    let audit = key.map_or_else(String::new, |key| format!("audit: {{digest_key: \"{key}\"}}\n"));
    user.configure(&format!(
        "tape: {{recipient: {recipient}}}\nagent: {{approvals: {{wait: true}}}}\n{audit}"
    ));
}

fn recipient(tape: &str) -> String {
    let text = std::fs::read_to_string(tape).unwrap();
    text.lines().find_map(|line| line.strip_prefix("# public key: ")).unwrap().to_owned()
}

fn event(user: &User, command: &str) -> String {
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "permission_mode": "default", "tool_use_id": "toolu_01234567890123456789", "tool_input": { "command": command },
    });
    event.to_string()
}

fn hook(user: &User, command: &str) -> Done {
    user.feed(&["hook", "claude"], event(user, command))
}

/// Has a person answer the question about a command that is judged and never runs.
fn answered(user: &User, command: &str, answer: &str) {
    let path = user.path().join("event.json");
    std::fs::write(&path, event(user, command)).unwrap();
    let child = user.command(&["hook", "codex"]).stdin(std::fs::File::open(path).unwrap()).spawn().unwrap();
    let code = until("a question", || {
        let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
        list.as_array()?.first()?["code"].as_str().map(str::to_owned)
    });
    user.run(&["approvals", answer, &code]).succeeded();
    done(child);
}

/// All texts in a value that are plain digests.
fn plain(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.contains("sha256:") && !text.starts_with("hmac-") => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(plain).collect(),
        Value::Object(fields) => fields.values().flat_map(plain).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn every_process_keys_what_it_says_and_people_are_suggested_what_they_answered() {
    let (user, tape, named) = keyed();
    hook(&user, "ls");
    for _ in 0..2 {
        answered(&user, "git reset --hard", "approve");
        answered(&user, "git stash drop", "deny");
    }
    let trail = user.trail();
    let bodies: Vec<&Value> = trail.iter().map(|entry| &entry["body"]).collect();
    assert!(trail.iter().filter(|entry| entry["kind"] == "approval.answered").count() == 4, "{trail:?}");
    assert!(
        bodies
            .iter()
            .any(|body| body["judged"].as_str().is_some_and(|text| text.starts_with("hmac-sha256:")))
    );
    for body in &bodies {
        assert_eq!(plain(body), [""; 0], "{body}");
        assert!(body.to_string().contains("hmac-sha256:") == (body["digestKey"] == json!(named)), "{body}");
    }
    let args = ["--json", "suggest", "--identity", &tape, "--min", "2"];
    let report = user.run(&args).succeeded().json();
    assert_eq!(report["suggestions"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!((&report["unconfirmed"], &report["illegible"]), (&json!(0), &json!(0)), "{report}");
    user.run(&["audit", "verify"]).succeeded();
    // Without the key, or with another, it says that it can't compare, and suggests no exception.
    let other = user.path().join("other.key").display().to_string();
    user.run(&["audit", "keygen", &other]).succeeded();
    for key in [None, Some(other.as_str())] {
        configure(&user, &recipient(&tape), key);
        let said = user.run(&args);
        let report = said.json();
        assert_eq!((said.code, &report["illegible"]), (Some(3), &json!(4)), "{}", said.whole());
        let found = report["suggestions"].as_array().unwrap();
        assert!(found.iter().all(|one| one["kind"] != "exception"), "{report}");
        assert!(said.err.contains(&named) && said.err.contains("audit.digest_key"), "{}", said.whole());
    }
}

#[test]
fn no_call_is_judged_while_the_key_is_gone_or_others_can_read_it() {
    let (user, _, named) = keyed();
    assert_eq!(hook(&user, "ls").code, Some(0));
    let text = std::fs::read_to_string(user.path().join("config/backstop/backstop.yaml")).unwrap();
    user.configure(&text.replace("{wait: true}", "{wait: false}"));
    user.feed(&["hook", "codex"], event(&user, "git reset --hard"));
    let code = last_code(&user);
    let path = user.path().join("digest.key");
    let text = std::fs::read_to_string(&path).unwrap();
    let before = user.trail().len();
    let refused = |said: &str| {
        user.run(&["log"]).succeeded();
        user.run(&["audit", "verify"]).succeeded();
        for refused in [hook(&user, "ls"), user.run(&["allow-once", &code])] {
            assert!(refused.code != Some(0) && refused.err.contains(said), "{}", refused.whole());
            assert!(!refused.whole().contains(text.trim()), "{}", refused.whole());
        }
    };
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    refused("chmod 600");
    std::fs::remove_file(&path).unwrap();
    refused("audit keygen");
    std::fs::write(&path, "a password\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    refused("holds no key");
    std::fs::write(&path, &text).unwrap();
    assert_eq!(user.trail().len(), before, "nothing was written");
    assert_eq!(hook(&user, "ls").code, Some(0));
    // A key that is there is never made anew.
    let again = user.run(&["audit", "keygen", &path.display().to_string()]);
    assert!(again.code == Some(1) && std::fs::read_to_string(&path).unwrap() == text, "{}", again.whole());
    let shown = user.run(&["config", "show"]).succeeded();
    assert!(!shown.whole().contains(text.trim()) && !shown.whole().contains(&named), "{}", shown.whole());
}
