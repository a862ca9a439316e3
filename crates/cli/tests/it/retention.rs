//! `backstop sessions delete`, `backstop prune` and `retention:`.

use std::path::Path;

use serde_json::{Value, json};

use super::support::{ModelServer, User};

/// A user whose agent has answered so many times, each in a session of its own.
fn after_turns(count: usize) -> (User, ModelServer) {
    let user = User::new();
    let script = r#"{"text": "the answer is forty-two-9917"}"#.to_owned() + "\n";
    let model = ModelServer::start(&user, &script.repeat(count));
    user.configure(&model.config(""));
    for _ in 0..count {
        user.run(&["agent", "-m", "hi"]).succeeded();
    }
    (user, model)
}

fn sessions(user: &User) -> Vec<String> {
    let listed = user.run(&["sessions", "list", "--json"]).succeeded().json();
    listed.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

fn said(user: &User, kind: &str) -> Vec<Value> {
    let entries = user.trail();
    let of_kind = entries.iter().filter(|entry| entry["kind"] == kind);
    of_kind.map(|entry| entry["body"].clone()).collect()
}

fn is_in_files(user: &User, needle: &str) -> bool {
    is_below(&user.path().join("data/backstop"), needle)
}

fn is_below(folder: &Path, needle: &str) -> bool {
    std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).any(|path| {
        if path.is_dir() {
            return is_below(&path, needle);
        }
        path.is_file()
            && std::fs::read(path).unwrap().windows(needle.len()).any(|part| part == needle.as_bytes())
    })
}

#[test]
fn a_session_is_deleted_by_id_wiped_and_said_in_the_trail() {
    let (user, _model) = after_turns(2);
    assert!(is_in_files(&user, "forty-two-9917"));
    let [second, first] = sessions(&user).try_into().unwrap();
    let would = user.run(&["sessions", "delete", &first, "--dry-run"]).succeeded();
    assert_eq!(would.out, format!("{first}\n"));
    assert_eq!(sessions(&user).len(), 2);
    user.run(&["sessions", "delete", &first]).succeeded();
    assert_eq!(sessions(&user), std::slice::from_ref(&second));
    let again = user.run(&["sessions", "delete", &first]);
    assert_eq!(again.code, Some(1), "{}", again.whole());
    assert!(again.err.contains("there is no session"), "{}", again.whole());
    user.run(&["sessions", "delete", &second, "--transcripts"]).succeeded();
    assert_eq!(sessions(&user), std::slice::from_ref(&second));
    assert!(!is_in_files(&user, "forty-two-9917"), "nothing of what was said is left on the disk");
    let [deleted] = said(&user, "session.deleted").try_into().unwrap();
    assert_eq!((&deleted["cause"], &deleted["messages"]), (&json!("asked"), &json!(2)));
    assert!(deleted["by"].as_str().unwrap().ends_with(", by the command line"), "{deleted}");
    assert_eq!(said(&user, "transcript.deleted").len(), 1);
    user.run(&["audit", "verify"]).succeeded();
}

#[test]
fn sessions_are_deleted_by_age_and_by_agent() {
    let (user, _model) = after_turns(2);
    let none = user.run(&["sessions", "delete", "--older-than", "1d", "--json"]).succeeded().json();
    assert_eq!(none["deleted"], json!([]));
    let none = user.run(&["sessions", "delete", "--agent", "other", "--json"]).succeeded().json();
    assert_eq!(none["deleted"], json!([]));
    assert_eq!(user.run(&["sessions", "list", "--agent", "other", "--json"]).succeeded().json(), json!([]));
    let all = user.run(&["sessions", "delete", "--agent", "main", "--json"]).succeeded().json();
    assert_eq!(all["deleted"].as_array().unwrap().len(), 2);
    assert!(sessions(&user).is_empty());
    let nothing_named = user.run(&["sessions", "delete"]);
    assert_eq!(nothing_named.code, Some(2), "{}", nothing_named.whole());
}

#[test]
fn prune_applies_what_the_operator_keeps_and_the_trail_still_verifies() {
    let (user, model) = after_turns(3);
    let nothing = user.run(&["prune"]).succeeded();
    assert!(nothing.err.contains("everything is kept for ever"), "{}", nothing.whole());
    assert_eq!(sessions(&user).len(), 3);
    user.configure(&model.config("retention: { sessions: { most: 1 } }\n"));
    let kept = sessions(&user).remove(0);
    let swept = user.run(&["prune", "--json"]).succeeded().json();
    assert_eq!(swept["sessions"], 2);
    assert_eq!(sessions(&user), [kept]);
    user.run(&["audit", "verify"]).succeeded();
    let idle = user.run(&["prune", "--json"]).succeeded().json();
    assert_eq!(idle["sessions"], 0, "a second time there is nothing to do");
}

#[test]
fn the_audit_trail_loses_its_beginning_and_says_so() {
    let (user, model) = after_turns(3);
    user.configure(&model.config("retention: { audit: { most: 5 } }\n"));
    let swept = user.run(&["prune", "--json"]).succeeded().json();
    assert!(swept["auditEntries"].as_u64().unwrap() > 0, "{swept}");
    let entries = user.trail();
    let of = |kind: &str| entries.iter().filter(|entry| entry["kind"] == kind).count();
    // Five, what says that others are gone, and what the policy is that some of the five name.
    assert_eq!((entries.len() - of("hooks"), of("tombstone")), (7, 1));
    let said = said(&user, "tombstone").remove(0);
    assert!(said["by"].as_str().unwrap().ends_with(", by the command line"), "{said}");
    let verified = user.run(&["audit", "verify", "--json"]).succeeded().json();
    assert_eq!((&verified["pruned"], &verified["missing"]), (&swept["auditEntries"], &json!(0)));
}

#[test]
fn the_agent_deletes_what_is_kept_no_longer_and_never_the_session_it_works_in() {
    let (user, model) = after_turns(4);
    let [_, second, _, oldest] = sessions(&user).try_into().unwrap();
    // Everything is too much, and it goes on with the oldest.
    user.configure(&model.config("retention: { transcripts: { max_bytes: 1 }, sessions: { most: 2 } }\n"));
    user.run(&["agent", "-m", "hi", "--session", &oldest]);
    let left = sessions(&user);
    assert!(left.contains(&oldest) && !left.contains(&second), "{left:?}");
    let transcript = user.run(&["sessions", "show", &oldest]).succeeded().out;
    assert!(transcript.contains("forty-two-9917"), "{transcript}");
    assert!(said(&user, "session.deleted").iter().all(|body| body["by"] == "retention (agent)"));
}

#[test]
fn a_repository_has_no_say_in_what_is_kept() {
    let (user, _model) = after_turns(2);
    std::fs::write(user.work().join("backstop.yaml"), "retention: { sessions: { most: 1 } }\n").unwrap();
    let pruned = user.run(&["prune"]).succeeded();
    assert!(pruned.err.contains("retention"), "{}", pruned.whole());
    assert_eq!(sessions(&user).len(), 2);
}

#[test]
fn an_agent_may_not_delete_its_traces() {
    let user = User::new();
    for command in ["backstop prune", "backstop sessions delete s-1", "backstop sessions delete --agent main"]
    {
        let call = json!({ "command": command }).to_string();
        let judged = user.run(&["check", "--tool", "exec", "--args", &call]);
        assert!(judged.out.starts_with("block by"), "{command}: {}", judged.whole());
    }
    let looking = json!({ "command": "backstop sessions list" }).to_string();
    let judged = user.run(&["check", "--tool", "exec", "--args", &looking]).succeeded();
    assert!(!judged.out.starts_with("block"), "{}", judged.whole());
}
