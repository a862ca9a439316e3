//! An entry as a line for people.

use backstop::CONFIGURATION_READ;
use backstop::clients::Client;
use backstop::store::{APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_ENDED, PEER_CHECKPOINT, Timestamp};
use jiff::tz::TimeZone;

use super::facts::Facts;
use crate::commands::config::CONFIGURATION_PINNED;
use crate::output::{Paint, Style, one_line};

/// The most characters of why.
const MOST_WHY: usize = 160;

/// Returns the line.
pub(super) fn of(facts: &Facts<'_>, paint: Paint) -> String {
    let entry = facts.entry;
    let decision = facts.decision().unwrap_or("-");
    let style = match decision {
        "block" | "deny" => Style::Bad,
        "ask" | "modify" | "edit" | "respond" | "dropped" => Style::Notice,
        "pass" | "handled" => Style::Good,
        _ if decision.starts_with("allow") => Style::Good,
        _ => Style::Faint,
    };
    let from = match (facts.host(), facts.agent()) {
        (Some(host), Some(agent)) => format!("{host}/{agent}"),
        (host, agent) => host.or(agent).unwrap_or("-").to_owned(),
    };
    let what = match (facts.is_receipt(), facts.tool(), facts.point()) {
        (true, Some(tool), _) => tool,
        (true, None, Some(point)) => point,
        _ => &entry.kind,
    };
    let cells = [
        format!("{:>6}", entry.seq),
        local(entry.at),
        paint.with(style, format_args!("{:<10}", one_line(decision, 12))),
        format!("{:<16}", one_line(&from, 24)),
        format!("{:<20}", one_line(what, 32)),
        one_line(&why(facts), MOST_WHY),
    ];
    cells.join("  ").trim_end().to_owned()
}

fn local(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => at.to_string(),
    }
}

/// Who said so, and why.
fn why(facts: &Facts<'_>) -> String {
    let mut parts = Vec::new();
    if facts.is_receipt() {
        parts.extend(judged(facts));
    } else {
        parts.extend(told(facts));
    }
    let rules = facts.rules();
    if !rules.is_empty() {
        let rules = format!("by {}", rules.join(", "));
        match parts.last_mut() {
            Some(last) => *last = format!("{last} {rules}"),
            None => parts.push(rules),
        }
    }
    for (hook, would, by) in facts.would() {
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
        parts.push(format!("{hook} would {would}{by}"));
    }
    if let Some(called) = facts.called_as() {
        parts.push(format!("called as {called}"));
    }
    parts.extend(facts.by().map(|who| format!("by {who}")));
    parts.extend(facts.requester().map(|who| format!("for {who}")));
    parts.join("; ")
}

fn judged(facts: &Facts<'_>) -> Vec<String> {
    let hook = facts.hook().unwrap_or("no hook");
    let asked = facts.text("/approval/substitute").or_else(|| facts.resolution());
    let asked = match facts.flag("/approval/hosted") {
        true => Some(format!("put to {}", own_user(facts))),
        false => asked.map(|resolution| format!("asked: {resolution}")),
    };
    let changed = facts.text("/editedFrom/by").map(|by| format!("changed by {by}"));
    let stopped = match facts.text("/blocked/cause") {
        Some("decision") => Some(hook.to_owned()),
        Some("failure") => Some(format!("{hook} failed ({})", facts.text("/blocked/kind").unwrap_or("-"))),
        Some("approval") => None,
        Some("withheld") => Some("withheld from the model's answer".to_owned()),
        Some("unstable-rewrite") => Some(format!("{hook} would change again what was judged")),
        Some("too-deep") => Some("nested too deep in hooks".to_owned()),
        Some(other) => Some(other.to_owned()),
        None => None,
    };
    let is_stopped = stopped.is_some();
    let mut parts: Vec<String> = changed.into_iter().chain(asked).chain(stopped).collect();
    if !is_stopped {
        parts.extend(facts.spoke().into_iter().map(|(hook, said)| format!("{hook} {said}")));
    }
    parts
}

/// The beginning of a digest, which says that it is one.
fn short(digest: &str) -> String {
    const MOST: usize = 12;
    let digest = digest.trim_start_matches("sha256:");
    let begin: String = digest.chars().take(MOST).collect();
    if begin.len() == digest.len() { begin } else { format!("{begin}…") }
}

/// The moment that stands there.
fn moment(facts: &Facts<'_>, pointer: &str) -> Option<String> {
    let millis = facts.number(pointer).and_then(|millis| i64::try_from(millis).ok());
    millis.map(Timestamp::from_millis).map(local)
}

/// Which call an answer is for: the one that waits, unless it says until when another one may begin.
fn answered(facts: &Facts<'_>) -> String {
    let later = moment(facts, "/laterUntil");
    let later = later.map_or_else(String::new, |until| format!(": for one later call until {until}"));
    format!("about {}{later}", facts.tool().unwrap_or("-"))
}

/// Whom a client asks by itself.
fn own_user(facts: &Facts<'_>) -> String {
    let client = facts.client().map(|name| match name.parse::<Client>() {
        Ok(client) => client.title(),
        Err(_) => name,
    });
    format!("the user of {}", client.unwrap_or("the client"))
}

/// What became of a question until now.
fn waited(facts: &Facts<'_>) -> String {
    match facts.text("/why") {
        None if facts.flag("/unattended") => "nobody could be asked".to_owned(),
        None if facts.flag("/hosted") => format!("put to {}", own_user(facts)),
        None => format!("waits until {}", moment(facts, "/until").unwrap_or_else(|| "-".to_owned())),
        Some("deadline") if facts.flag("/silenceAllows") => {
            "nobody answered in time, so it passes".to_owned()
        }
        Some("deadline") => "nobody answered in time".to_owned(),
        Some("withdrawn") => "whoever asked does not wait any more".to_owned(),
        Some("let-run") => format!("{} let it run", own_user(facts)),
        Some("run-ended") => "the run that asked is over".to_owned(),
        Some("session-deleted") => "its session was deleted".to_owned(),
        Some("lost") => "the database has nothing of it".to_owned(),
        Some("unreadable") => "what the database has of it can't be read".to_owned(),
        Some(other) => other.to_owned(),
    }
}

/// What other entries tell, in words where they have some.
fn told(facts: &Facts<'_>) -> Vec<String> {
    let number = |pointer: &str| facts.number(pointer).unwrap_or_default();
    let text = |pointer: &str| facts.text(pointer).unwrap_or("-");
    match facts.entry.kind.as_str() {
        "start" => vec![format!("{} began (pid {})", text("/program"), number("/pid"))],
        CONFIGURATION_READ => {
            let policy = facts.entry.policy.as_deref();
            let policy = policy.map_or_else(String::new, |policy| format!("policy {}: ", short(policy)));
            let cause = facts.text("/cause").map_or_else(String::new, |cause| format!(": {cause}"));
            vec![format!("{policy}the configuration {} holds{cause}", short(text("/digest")))]
        }
        CONFIGURATION_PINNED => {
            vec![format!("hooks judge by the configuration {} from here on", short(text("/digest")))]
        }
        kind if kind.starts_with("client.") => {
            let half = if facts.flag("/failed") { ", and failed half way" } else { "" };
            vec![format!("the hooks in {}, for this {}{half}", text("/client"), text("/scope"))]
        }
        kind if kind.starts_with("plugin.") => {
            vec![format!("the plugin {} as {}", text("/plugin"), text("/hash"))]
        }
        APPROVAL_ANSWERED => vec![answered(facts)],
        APPROVAL_ASKED | APPROVAL_ENDED => vec![format!("about {}: {}", text("/tool"), waited(facts))],
        "stop" => vec![format!("process {} ended", facts.entry.process)],
        "gap" => vec![format!("{} receipts are missing here", number("/lost"))],
        "hooks" => {
            let listed = facts.entry.body.get("hooks").and_then(serde_json::Value::as_array);
            vec![format!("{} hooks, which receipts name", listed.map_or(0, Vec::len))]
        }
        "heartbeat" => vec!["nothing happened".to_owned()],
        "recovered" => vec![match facts.text("/file") {
            Some(file) => {
                let what = if facts.text("/kept").is_some() {
                    "was damaged, and is put aside"
                } else {
                    "was missing"
                };
                let unsigned = facts.number("/unsigned").map_or_else(String::new, |unsigned| {
                    let covers = number("/covers");
                    format!("; {unsigned} entries behind {covers} were covered by no checkpoint")
                });
                format!("`{file}` {what}{unsigned}")
            }
            None => format!("{} bytes that a crash tore are put aside", number("/bytes")),
        }],
        "unsigned" => {
            let (unsigned, covers) = (number("/unsigned"), number("/covers"));
            let process = text("/processes/0/process");
            vec![format!(
                "{unsigned} entries behind {covers} were left unsigned, as a killed process does ({process}), and are signed from here on: nothing proves that they were not changed before"
            )]
        }
        "impaired" => vec![format!(
            "`{}` could not be {}: {}",
            text("/file"),
            facts.text("/not").unwrap_or("written"),
            text("/why")
        )],
        "omitted" => {
            vec![format!("an entry `{}` of {} bytes was too large", text("/kind"), number("/bytes"))]
        }
        "tombstone" => vec![format!("{} entries were pruned ({})", number("/count"), text("/policy"))],
        "rotated" => vec!["another key signs from here on".to_owned()],
        PEER_CHECKPOINT => {
            vec![format!(
                "the trail {} of another gateway has {} entries",
                text("/origin"),
                number("/entries")
            )]
        }
        "chain" => vec!["the chain of an earlier version ends".to_owned()],
        _ => facts.tool().map(|tool| format!("about {tool}")).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use backstop::hooks::Digest;
    use backstop::store::AuditEntry;
    use serde_json::{Value, json};

    use super::*;

    fn entry(kind: &str, body: Value) -> AuditEntry {
        AuditEntry {
            seq: 7,
            at: Timestamp::from_millis(0),
            kind: kind.to_owned(),
            session: None,
            run: None,
            policy: None,
            body: body.into(),
            process: "p".to_owned(),
            n: 1,
            digest: Digest::of_text("audit", "x"),
        }
    }

    fn words(kind: &str, body: Value) -> String {
        let entry = entry(kind, body);
        let line = of(&Facts::of(&entry), Paint::new(false));
        // Behind number and time.
        line.split_whitespace().skip(3).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_line_says_what_was_decided_for_whom_and_why() {
        let blocked = json!({
            "point": "before_tool_call", "verdict": "block", "tool": "exec", "calledAs": "Bash", "agentId": "claude", "host": "hooks",
            "blocked": { "cause": "decision", "hook": "builtin:guard", "reason": { "rules": ["net.pipe", "fs.rm"] } },
        });
        assert_eq!(
            words("receipt", blocked),
            "block hooks/claude exec builtin:guard by net.pipe, fs.rm; called as Bash"
        );
        let asked = json!({
            "point": "before_tool_call", "verdict": "pass", "tool": "exec", "agentId": "main", "host": "agent",
            "approval": { "resolution": "allow-once", "rules": ["net.send"] }, "steps": [{ "hook": "a", "said": "asked" }],
            "requester": { "senderId": "ann" },
        });
        assert_eq!(
            words("receipt", asked),
            "ask agent/main exec asked: allow-once; a asked by net.send; for ann"
        );
        let shadowed = json!({
            "point": "before_tool_call", "verdict": "pass", "tool": "exec",
            "steps": [
                { "hook": "new", "said": "nothing", "shadow": true, "would": "block", "wouldBy": ["net.send"] },
                { "hook": "newer", "said": "nothing", "shadow": true, "would": "ask" },
            ],
        });
        assert_eq!(words("receipt", shadowed), "pass - exec new would block by net.send; newer would ask");
        let failed = json!({ "point": "before_llm_call", "verdict": "block", "blocked": { "cause": "failure", "kind": "timeout", "hook": "h" } });
        assert_eq!(words("receipt", failed), "block - before_llm_call h failed (timeout)");
        let changed = json!({
            "verdict": "pass", "point": "before_tool_call", "tool": "exec",
            "editedFrom": { "approval": "a", "by": "ann@tty1" }, "steps": [],
        });
        assert!(words("receipt", changed).contains("exec changed by ann@tty1"));
        let edited = json!({
            "verdict": "block", "point": "before_tool_call", "tool": "exec", "blocked": { "cause": "approval" },
            "approval": { "resolution": "deny", "substitute": "edit" }, "steps": [],
        });
        assert!(words("receipt", edited).contains("exec asked: edit"));
        let answer = json!({ "tool": "exec", "decision": "deny", "by": "ann@tty1" });
        assert_eq!(words("approval.answered", answer), "deny - approval.answered about exec; by ann@tty1");
        let later = json!({
            "tool": "exec", "agent": "claude", "host": "hooks", "decision": "allow-once", "by": "ann@tty1", "rules": ["net.send"],
            "requester": { "senderId": "bob" }, "laterUntil": 1_772_359_500_000_u64,
        });
        let until = local(Timestamp::from_millis(1_772_359_500_000));
        assert_eq!(
            words(APPROVAL_ANSWERED, later),
            format!(
                "allow-once hooks/claude approval.answered about exec: for one later call until {until} by net.send; by ann@tty1; for bob"
            )
        );
        let asked = json!({
            "tool": "exec", "calledAs": "Bash", "agent": "claude", "host": "hooks", "rules": ["net.send"],
            "until": 1_772_359_500_000_u64, "requester": { "senderId": "bob" },
        });
        assert_eq!(
            words(APPROVAL_ASKED, asked),
            format!(
                "- hooks/claude approval.asked about exec: waits until {until} by net.send; called as Bash; for bob"
            )
        );
        assert_eq!(
            words(APPROVAL_ASKED, json!({ "tool": "exec", "unattended": true })),
            "- - approval.asked about exec: nobody could be asked"
        );
        let hosted = json!({
            "tool": "exec", "host": "hooks", "agentId": "claude", "client": "claude", "verdict": "ask", "point": "before_tool_call",
            "approval": { "hosted": true, "rules": ["net.send"] },
        });
        assert_eq!(
            words("receipt", hosted),
            "ask hooks/claude exec put to the user of Claude Code by net.send"
        );
        assert_eq!(
            words(APPROVAL_ASKED, json!({ "tool": "exec", "client": "claude", "hosted": true })),
            "- - approval.asked about exec: put to the user of Claude Code"
        );
        assert_eq!(
            words(APPROVAL_ENDED, json!({ "tool": "exec", "client": "claude", "why": "let-run" })),
            "- - approval.ended about exec: the user of Claude Code let it run"
        );
        for (why, more, told) in [
            ("deadline", false, "nobody answered in time"),
            ("deadline", true, "nobody answered in time, so it passes"),
            ("withdrawn", false, "whoever asked does not wait any more"),
            ("run-ended", false, "the run that asked is over"),
            ("session-deleted", false, "its session was deleted"),
            ("lost", false, "the database has nothing of it"),
            ("unreadable", false, "what the database has of it can't be read"),
        ] {
            let ended = words(APPROVAL_ENDED, json!({ "tool": "exec", "why": why, "silenceAllows": more }));
            assert_eq!(ended, format!("- - approval.ended about exec: {told}"));
        }
        assert_eq!(words("gap", json!({ "lost": 3 })), "- - gap 3 receipts are missing here");
    }

    #[test]
    fn a_digest_that_is_cut_says_so_and_a_plugins_hash_is_whole() {
        let hash = format!("sha256:{}", "0123456789abcdef".repeat(4));
        let read = words(CONFIGURATION_READ, json!({ "digest": hash, "cause": "SIGHUP" }));
        assert!(read.contains("the configuration 0123456789ab… holds: SIGHUP"), "{read}");
        assert!(words(CONFIGURATION_READ, json!({})).contains("the configuration - holds"));
        let pinned = words(CONFIGURATION_PINNED, json!({ "digest": hash, "by": "ann" }));
        assert!(
            pinned.contains("hooks judge by the configuration 0123456789ab… from here on; by ann"),
            "{pinned}"
        );
        let peer = words(PEER_CHECKPOINT, json!({ "origin": "backstop/b", "entries": 7 }));
        assert!(peer.contains("the trail backstop/b of another gateway has 7 entries"), "{peer}");
        let removed = words("client.removed", json!({ "client": "codex", "scope": "user", "by": "ann" }));
        assert!(removed.contains("client.removed the hooks in codex, for this user; by ann"), "{removed}");
        let half = json!({ "client": "codex", "scope": "user", "by": "ann", "failed": true });
        let half = words("client.removed", half);
        assert!(half.contains("for this user, and failed half way; by ann"), "{half}");
        let installed = words("plugin.installed", json!({ "plugin": "p", "hash": hash, "by": "ann" }));
        assert!(installed.contains(&format!("the plugin p as {hash}; by ann")), "{installed}");
    }

    #[test]
    fn nothing_in_an_entry_can_drive_a_terminal() {
        let hostile = "\u{1b}[2J\nx\u{202e}";
        let body = json!({
            "client": hostile, "scope": hostile, "point": hostile, "verdict": hostile, "tool": hostile, "calledAs": hostile, "agentId": hostile, "host": hostile,
            "by": hostile, "rules": [hostile], "steps": [{ "hook": hostile, "said": hostile, "would": hostile, "wouldBy": [hostile] }],
            "blocked": { "cause": hostile, "hook": hostile }, "approval": { "resolution": hostile }, "why": hostile, "until": hostile,
            "requester": { "senderId": hostile },
        });
        for kind in [
            "receipt",
            hostile,
            "start",
            "recovered",
            "unsigned",
            "tombstone",
            "client.removed",
            CONFIGURATION_PINNED,
            APPROVAL_ANSWERED,
            APPROVAL_ASKED,
            APPROVAL_ENDED,
        ] {
            let mut entry = entry(kind, body.clone());
            entry.process = hostile.to_owned();
            let line = of(&Facts::of(&entry), Paint::new(false));
            assert!(!line.chars().any(|char| char.is_control() || char == '\u{202e}'), "{line:?}");
        }
    }
}
