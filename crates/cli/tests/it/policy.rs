//! The version of the policy that entries of the trail name, whoever writes them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::support::User;

const LOOSE: &str = "guards: {command_safety: {unknown: ask}}\n";
const STRICT: &str = "guards: {command_safety: {unknown: block}}\n";

fn hook(user: &User, command: &str) {
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "permission_mode": "default", "tool_use_id": "toolu_1", "tool_input": { "command": command },
    });
    user.feed(&["hook", "claude"], event.to_string()).succeeded();
}

fn policies(entries: &[Value]) -> BTreeSet<String> {
    entries.iter().filter_map(|entry| entry["policy"].as_str().map(str::to_owned)).collect()
}

#[test]
fn each_hook_names_the_policy_by_which_it_judged_and_the_trail_says_what_that_is() {
    let user = User::with_config(LOOSE);
    hook(&user, "ls");
    hook(&user, "pwd");
    user.configure(&format!("# The same.\n{LOOSE}"));
    hook(&user, "ls");
    let before = user.whole_trail();
    assert_eq!(policies(&before).len(), 1, "comments and places are no policy: {before:?}");
    user.configure(STRICT);
    hook(&user, "ls");
    let trail = user.whole_trail();
    let receipts: Vec<&Value> = trail.iter().filter(|entry| entry["kind"] == "receipt").collect();
    let versions: Vec<&Value> = receipts.iter().map(|entry| &entry["policy"]).collect();
    assert!(versions.windows(2).take(2).all(|two| two[0] == two[1]), "{versions:?}");
    assert_ne!(versions.first(), versions.last(), "another policy");
    // What a version is stands in front of the first entry that names it, and each is told of once.
    for version in policies(&trail) {
        let named: Vec<&Value> = trail.iter().filter(|entry| entry["policy"] == version).collect();
        assert_eq!(named[0]["kind"], "configuration.read", "{named:?}");
        let told = named.iter().filter(|entry| entry["kind"] == "configuration.read").count();
        assert_eq!(told, 1, "{named:?}");
        let digits = version.strip_prefix("sha256:").unwrap().get(..12).unwrap();
        let found = user.run(&["log", "--policy", digits, "--oldest-first", "--json"]).succeeded().lines();
        assert_eq!(found.len(), named.len(), "{found:?}");
        assert_eq!(policies(&found), BTreeSet::from([version]));
    }
    user.run(&["audit", "verify"]).succeeded();
}
