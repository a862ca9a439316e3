//! `backstop log`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use backstop::store::{
    AuditBody, AuditBound, AuditStore as _, Durability, NewAuditEntry, SqliteStore, Timestamp,
};
use serde_json::{Value, json};

use super::support::{User, done, interrupt, snapshot, until};

/// The time of the first entry.
const FIRST: i64 = 1_764_331_200_000;
const HOUR: i64 = 3_600_000;

/// The trail of a user, written as another process does.
struct Trail {
    store: SqliteStore,
    runtime: tokio::runtime::Runtime,
}

impl Trail {
    fn of(user: &User) -> Self {
        let store = SqliteStore::new(user.path().join("data/backstop/backstop.db"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { store, runtime }
    }

    fn add(&self, entries: Vec<NewAuditEntry>) {
        self.runtime.block_on(self.store.append_audit_all(entries, Durability::Now)).unwrap();
    }

    fn sign(&self) {
        self.runtime.block_on(self.store.conclude_audit()).unwrap();
    }
}

fn entry(at: i64, kind: &str, session: Option<&str>, body: Value) -> NewAuditEntry {
    NewAuditEntry {
        at: Timestamp::from_millis(at),
        kind: kind.to_owned(),
        session: session.map(Into::into),
        run: Some("run-1".into()),
        body: AuditBody::of(&body),
    }
}

/// One of each sort, an hour after each other.
fn entries() -> Vec<NewAuditEntry> {
    let receipt = |more: Value| {
        let mut body = json!({ "id": "r-1", "point": "before_tool_call", "tool": "exec", "agentId": "main", "host": "agent", "verdict": "pass" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let blocked = json!({
        "verdict": "block", "calledAs": "Bash", "agentId": "claude", "host": "hooks", "client": "claude", "workspace": "/home/ann/shop",
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "blocked": { "cause": "decision", "hook": "builtin:command-safety-guard", "reason": { "rules": ["net.pipe-to-shell"] } },
    });
    let asked = json!({
        "approval": { "resolution": "allow-once", "rules": ["net.send"] }, "requester": { "senderId": "ann" }, "workspace": "/home/ann",
    });
    vec![
        entry(FIRST, "receipt", Some("s-1"), receipt(json!({}))),
        entry(FIRST + HOUR, "receipt", Some("s-2"), receipt(blocked)),
        entry(FIRST + 2 * HOUR, "receipt", Some("s-1"), receipt(asked)),
        entry(
            FIRST + 3 * HOUR,
            "receipt",
            Some("s-1"),
            receipt(json!({ "verdict": "modify", "tool": "write", "workspace": "/home/annika" })),
        ),
        entry(
            FIRST + 4 * HOUR,
            "approval.answered",
            Some("s-1"),
            json!({
                "tool": "exec", "decision": "allow-once", "by": "ann", "agent": "main", "host": "agent", "workspace": "/home/ann",
                "rules": ["net.send"], "laterUntil": FIRST + 5 * HOUR,
            }),
        ),
        entry(
            FIRST + 5 * HOUR,
            "grant.given",
            None,
            json!({
                "tool": "exec", "rules": ["net.send"], "by": "bob", "hook": "h", "agent": "claude", "workspace": "/home/ann/shop",
                "approval": "a-1", "requester": { "senderId": "ann" },
            }),
        ),
    ]
}

fn filled() -> (User, Trail) {
    let user = User::new();
    let trail = Trail::of(&user);
    trail.add(entries());
    (user, trail)
}

fn numbers(user: &User, args: &[&str]) -> Vec<u64> {
    let done = user.run(&[&["log", "--json"], args].concat()).succeeded();
    done.lines().iter().map(|entry| entry["seq"].as_u64().unwrap()).collect()
}

#[test]
fn entries_are_shown_in_words_the_newest_first() {
    let (user, _trail) = filled();
    let done = user.command(&["log"]).env("TZ", "UTC").spawn().unwrap();
    snapshot!(super::support::done(done).whole());
}

#[test]
fn filters_hold_what_they_name_and_only_that() {
    let (user, _trail) = filled();
    for (filter, expected) in [
        (&["--verdict", "block"][..], &[2][..]),
        (&["--verdict", "ask"], &[3]),
        (&["--verdict", "pass"], &[3, 1]),
        (&["--tool", "exec"], &[6, 5, 3, 2, 1]),
        (&["--tool", "Bash"], &[2]),
        (&["--tool", "exe"], &[]),
        (&["--rule", "net.send"], &[6, 5, 3]),
        (&["--rule", "net"], &[]),
        (&["--agent", "claude"], &[6, 2]),
        (&["--session", "s-2"], &[2]),
        (&["--session", "s"], &[]),
        (&["--workspace", "/home/ann"], &[6, 5, 3, 2]),
        (&["--workspace", "/home/ann/./shop/../shop"], &[6, 2]),
        (&["--who", "ann"], &[6, 5, 3]),
        (&["--kind", "grant.given"], &[6]),
        (&["--since", "2025-11-28T15:00:00Z"], &[6, 5, 4]),
        (&["--until", "2025-11-28T13:00:00Z"], &[1]),
        (&["--since", "2025-11-28T13:00:00Z", "--until", "2025-11-28T14:00:00Z"], &[2]),
        (&["--since", "2h"], &[]),
        (&["--tool", "exec", "--who", "ann", "--kind", "receipt"], &[3]),
        (&["--after", "4"], &[6, 5]),
        (&["--after", "4", "--oldest-first"], &[5, 6]),
        (&["--oldest-first"], &[1, 2, 3, 4, 5, 6]),
    ] {
        assert_eq!(numbers(&user, filter), expected, "{filter:?}");
    }
}

#[test]
fn what_hooks_in_shadow_would_have_done_is_found() {
    let user = User::with_config(
        "hooks: {tool_call: {pre_call: [{type: policy, id: new, mode: shadow, config: {deny_tools: [canvas]}}]}}\n",
    );
    let (trail, shadow) = (Trail::of(&user), |would: &str| {
        json!({
            "id": "r-1", "point": "before_tool_call", "tool": "exec", "verdict": "pass",
            "steps": [{ "hook": "new", "said": "nothing", "shadow": true, "would": would, "wouldBy": ["house.rule"] }],
        })
    });
    trail.add(vec![
        entry(FIRST, "receipt", None, shadow("block")),
        entry(FIRST + HOUR, "receipt", None, shadow("ask")),
        entry(FIRST + 2 * HOUR, "receipt", None, json!({ "id": "r-2", "verdict": "block", "steps": [] })),
    ]);
    for (filter, expected) in [
        (&["--would", "block"][..], &[1][..]),
        (&["--would", "ask"], &[2]),
        (&["--would", "modify"], &[]),
        (&["--would", "any"], &[2, 1]),
        (&["--would", "any", "--verdict", "block"], &[]),
        (&["--rule", "house.rule"], &[2, 1]),
    ] {
        assert_eq!(numbers(&user, filter), expected, "{filter:?}");
    }
    let line = user.run(&["log", "--would", "block"]).succeeded().out;
    assert!(line.contains("new would block by house.rule"), "{line}");
}

#[test]
fn a_limit_that_cuts_says_so() {
    let (user, _trail) = filled();
    let some = user.run(&["log", "--limit", "2", "--json"]).succeeded();
    assert_eq!(some.lines().len(), 2);
    assert!(some.err.contains("2 entries were shown, and older ones were not looked at"), "{}", some.whole());
    let first = user.run(&["log", "--limit", "2", "--oldest-first", "--json"]).succeeded();
    assert!(first.err.contains("later ones were not looked at"), "{}", first.whole());
    let all = user.run(&["log", "--all"]).succeeded();
    assert!(all.err.is_empty() && all.out.lines().count() == 6, "{}", all.whole());
    for args in [
        &["log", "--limit", "0"][..],
        &["log", "--since", "yesterday"],
        &["log", "--verdict", "deny"],
        &["log", "--json", "--format", "csv"],
        &["log", "--follow", "--limit", "10001"],
        &["log", "--follow", "--oldest-first"],
    ] {
        assert_eq!(user.run(args).code, Some(2), "{args:?}");
    }
}

/// A command whose lines are read as they come.
struct Following {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Following {
    fn start(user: &User, args: &[&str]) -> Self {
        let mut child = user.command(&[&["log", "--follow", "--json"], args].concat()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines }
    }

    fn next(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(super::support::PATIENCE).unwrap()).unwrap()
    }

    fn numbers(&self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.next()["seq"].as_u64().unwrap()).collect()
    }
}

#[test]
fn following_shows_the_last_ones_and_what_other_processes_add_until_ctrl_c() {
    let (user, trail) = filled();
    let following = Following::start(&user, &["--limit", "2"]);
    assert_eq!(following.numbers(2), [5, 6]);
    trail.add(entries());
    assert_eq!(following.numbers(6), [7, 8, 9, 10, 11, 12]);
    // The beginning goes, and the rest keeps its numbers.
    let now = Timestamp::from_millis(FIRST);
    let pruned = trail.store.prune_audit(AuditBound::through(8), usize::MAX, now, "ann");
    trail.runtime.block_on(pruned).unwrap();
    trail.add(entries());
    assert_eq!(following.numbers(7), [13, 14, 15, 16, 17, 18, 19]);
    let other = Trail::of(&user);
    other.add(entries()[..1].to_vec());
    assert_eq!(following.numbers(1), [20]);
    interrupt(&following.child);
    assert_eq!(done(following.child).code, Some(130));
}

#[test]
fn following_begins_before_there_is_a_trail_and_filters_what_comes() {
    let user = User::new();
    let following = Following::start(&user, &["--verdict", "block"]);
    let trail = Trail::of(&user);
    trail.add(entries());
    assert_eq!(following.numbers(1), [2]);
    interrupt(&following.child);
    assert_eq!(done(following.child).code, Some(130));
}

#[test]
fn a_reader_that_goes_is_a_quiet_end() {
    let (user, _trail) = filled();
    for args in [&["log", "--follow"][..], &["log", "--follow", "--json"]] {
        let mut child = user.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        drop(out);
        until("it ends", || child.try_wait().unwrap());
        let ended = done(child);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn what_is_exported_leads_to_the_proof_of_the_entry() {
    let (user, trail) = filled();
    trail.sign();
    let key = user.run(&["audit", "verify", "--json"]).succeeded().json();
    let key = key["checkpoints"]["key"].as_str().unwrap().to_owned();
    let export = |format: &str| user.run(&["log", "--format", format, "--verdict", "block"]).succeeded();
    let ocsf = export("ocsf").lines().remove(0);
    let otlp = export("otlp").lines().remove(0);
    let record = &otlp["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
    let csv = export("csv").out;
    let row = csv.lines().nth(1).unwrap();
    let numbers = [
        ocsf["metadata"]["sequence"].as_u64().unwrap(),
        record["attributes"][0]["value"]["intValue"].as_str().unwrap().parse().unwrap(),
        row.split(',').next().unwrap().parse().unwrap(),
    ];
    assert_eq!(numbers, [2, 2, 2]);
    let file = user.path().join("entry.tlog-proof");
    std::fs::write(&file, user.run(&["audit", "proof", "2"]).succeeded().out).unwrap();
    let checked = user.run(&["audit", "check", file.to_str().unwrap(), "--public-key", &key, "--json"]);
    let proved = &checked.succeeded().json()["entry"];
    assert_eq!(proved["body"], ocsf["unmapped"]);
    assert_eq!(record["traceId"], proved["body"]["traceId"]);
    let digest = user.trail()[1]["digest"].clone();
    assert_eq!(ocsf["metadata"]["uid"], digest);
    assert!(row.contains(digest.as_str().unwrap()), "{row}");
}

#[test]
fn an_empty_table_has_a_heading() {
    let user = User::new();
    let done = user.run(&["log", "--format", "csv"]).succeeded();
    assert!(
        done.out.starts_with("number,time,kind,decision,") && done.out.ends_with("digest\r\n"),
        "{}",
        done.whole()
    );
}

#[test]
fn a_trail_that_nothing_signs_is_not_called_whole() {
    let (user, trail) = filled();
    trail.sign();
    let sound = user.run(&["audit", "verify"]).succeeded();
    assert!(sound.out.contains("the audit trail is whole"), "{}", sound.whole());
    let head = user.run(&["audit", "head"]).succeeded().out;
    let folder = user.path().join("data/backstop/backstop.trail");
    // An entry is changed as whoever knows the format does, and what would show it is gone.
    for gone in ["checkpoint", "checkpoints"] {
        std::fs::remove_file(folder.join(gone)).unwrap();
    }
    let verified = user.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(3), "{}", verified.whole());
    assert!(
        verified.err.contains("warning: the audit trail has no signed checkpoint"),
        "{}",
        verified.whole()
    );
    assert!(!verified.out.contains("is whole"), "{}", verified.whole());
    let json = user.run(&["audit", "verify", "--json"]);
    assert_eq!((json.code, &json.json()["checkpoints"]["covered"]), (Some(3), &json!(0)));
    // A head proves as much as a checkpoint.
    let file = user.path().join("head.json");
    std::fs::write(&file, head).unwrap();
    user.run(&["audit", "verify", "--head", file.to_str().unwrap()]).succeeded();
    trail.add(entries());
    let later = user.run(&["audit", "verify", "--head", file.to_str().unwrap()]);
    assert_eq!(later.code, Some(3), "{}", later.whole());
}

#[test]
fn missing_checkpoints_are_told_after_the_next_process_has_signed() {
    let (user, trail) = filled();
    trail.sign();
    let folder = user.path().join("data/backstop/backstop.trail");
    for gone in ["checkpoint", "checkpoints"] {
        std::fs::remove_file(folder.join(gone)).unwrap();
    }
    let origin = std::fs::OpenOptions::new().write(true).open(folder.join("origin")).unwrap();
    let early = std::time::SystemTime::now() - std::time::Duration::from_secs(600);
    origin.set_modified(early).unwrap();
    let next = Trail::of(&user);
    next.add(entries());
    next.sign();
    let verified = user.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(3), "{}", verified.whole());
    assert!(verified.err.contains("no checkpoint covered the entries 1 to "), "{}", verified.whole());
    let json = user.run(&["audit", "verify", "--json"]).json();
    assert_eq!(json["unproved"][0]["from"], 1, "{json}");
    let log = user.run(&["log", "--kind", "recovered"]).succeeded();
    assert!(log.out.contains("`checkpoint` was missing; "), "{}", log.whole());
}

#[test]
fn entries_that_a_killed_process_left_unsigned_are_signed_and_told() {
    let user = User::new();
    let receipt = || entry(FIRST, "receipt", None, json!({ "verdict": "pass" }));
    let killed = Trail::of(&user);
    killed.add(vec![receipt(), receipt(), receipt()]);
    killed.sign();
    let folder = user.path().join("data/backstop/backstop.trail");
    for gone in ["checkpoint", "checkpoints"] {
        std::fs::remove_file(folder.join(gone)).unwrap();
    }
    let next = Trail::of(&user);
    next.add(vec![entry(Timestamp::now().as_millis(), "receipt", None, json!({ "verdict": "pass" }))]);
    next.sign();
    let verified = user.run(&["audit", "verify"]).succeeded();
    assert!(verified.out.contains("the audit trail is whole"), "{}", verified.whole());
    assert!(verified.err.contains("note: the entries 1 to 3, of process "), "{}", verified.whole());
    let strict = user.run(&["audit", "verify", "--strict", "--json"]);
    assert_eq!((strict.code, &strict.json()["late"][0]["through"]), (Some(3), &json!(3)));
    let log = user.run(&["log", "--kind", "unsigned"]).succeeded();
    assert!(log.out.contains("3 entries behind 0 were left unsigned"), "{}", log.whole());
    let doctor = user.run(&["doctor"]);
    assert!(doctor.whole().contains("3 entries behind 0 were left unsigned"), "{}", doctor.whole());
}

/// All files below a folder, by their paths within it.
fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in std::fs::read_dir(next).unwrap().map(|found| found.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push((path.strip_prefix(folder).unwrap().to_owned(), std::fs::read(&path).unwrap()));
            }
        }
    }
    files
}

#[test]
fn a_witness_shows_what_the_trail_alone_can_t() {
    let (user, trail) = filled();
    trail.sign();
    let alone = user.run(&["audit", "verify"]).succeeded();
    assert!(alone.out.contains("no witness, and no head that was kept elsewhere"), "{}", alone.whole());
    let refused = user.run(&["audit", "witness"]);
    assert!(refused.code == Some(1) && refused.err.contains("hint: `audit.witness`"), "{}", refused.whole());

    let kept = user.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    user.configure(&format!("audit: {{ witness: [{{ to: {} }}] }}\n", kept.display()));
    let unknown = user.run(&["audit", "verify"]);
    assert_eq!(unknown.code, Some(3), "{}", unknown.whole());
    assert!(unknown.err.contains("it has no checkpoint yet"), "{}", unknown.whole());
    let early = files_below(&user.path().join("data/backstop/backstop.trail"));
    let later = Trail::of(&user);
    later.add(entries());
    later.sign();
    let told = user.run(&["audit", "witness"]).succeeded();
    assert!(told.out.contains("has a checkpoint of "), "{}", told.whole());
    let sound = user.run(&["audit", "verify"]).succeeded();
    assert!(sound.out.contains("keeps 1 checkpoint"), "{}", sound.whole());
    assert!(!sound.out.contains("no witness"), "{}", sound.whole());

    // An auditor who may not read the key.
    let key = user.run(&["audit", "verify", "--json"]).succeeded().json();
    let key = key["checkpoints"]["key"].as_str().unwrap().to_owned();
    let own = user.path().join("data/backstop/audit.key");
    std::fs::rename(&own, user.path().join("away")).unwrap();
    let unchecked = user.run(&["audit", "verify"]);
    assert_eq!(unchecked.code, Some(3), "{}", unchecked.whole());
    assert!(
        unchecked.err.contains("`--trail-key`") && !unchecked.out.contains("is whole"),
        "{}",
        unchecked.whole()
    );
    let checked = user.run(&["audit", "verify", "--trail-key", &key]).succeeded();
    assert!(checked.out.contains("are signed by"), "{}", checked.whole());
    std::fs::rename(user.path().join("away"), own).unwrap();

    // The trail as it was before: sound in itself.
    let folder = user.path().join("data/backstop/backstop.trail");
    std::fs::remove_dir_all(&folder).unwrap();
    for (path, bytes) in early {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    for arguments in [vec!["audit", "verify"], vec!["audit", "verify", "--witness", kept.to_str().unwrap()]] {
        let cut = user.run(&arguments);
        assert_eq!(cut.code, Some(1), "{}", cut.whole());
        assert!(cut.err.contains("the audit trail was cut off"), "{}", cut.whole());
    }
    let told = user.run(&["audit", "witness"]);
    assert!(told.code == Some(1) && told.err.contains("the trail was cut off"), "{}", told.whole());
}

#[test]
fn the_doctor_says_how_far_the_copies_in_a_folder_reach() {
    let (user, trail) = filled();
    trail.sign();
    let kept = user.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    user.configure(&format!("audit: {{ witness: [{{ to: {} }}] }}\n", kept.display()));
    let said = || {
        let told = user.run(&["doctor", "claude", "--json"]).json();
        let about = told.as_array().unwrap().last().unwrap();
        assert_eq!(about["client"], Value::Null, "{told}");
        let check = &about["checks"][0];
        (check["grade"].as_str().unwrap().to_owned(), check["text"].as_str().unwrap().to_owned())
    };
    let (grade, text) = said();
    assert!(grade == "warning" && text.contains("of the first 0 entries"), "{grade} {text}");
    user.run(&["audit", "witness"]).succeeded();
    let (grade, text) = said();
    assert!(grade == "good" && text.contains("of the first 6 entries"), "{grade} {text}");
    let later = Trail::of(&user);
    later.add(entries());
    later.sign();
    let (grade, text) = said();
    assert!(grade == "warning" && text.contains("more than an hour ago"), "{grade} {text}");
    std::fs::remove_dir_all(&kept).unwrap();
    let (grade, text) = said();
    assert!(grade == "warning" && text.contains("can't be listed"), "{grade} {text}");
}

#[test]
fn what_passed_is_pruned_before_decisions_and_old_proofs_hold() {
    let (user, trail) = filled();
    trail.sign();
    let verified = user.run(&["audit", "verify", "--json"]).succeeded().json();
    let key = verified["checkpoints"]["key"].as_str().unwrap().to_owned();
    let file = user.path().join("entry.tlog-proof");
    std::fs::write(&file, user.run(&["audit", "proof", "1"]).succeeded().out).unwrap();
    let kept = user.run(&["audit", "prune"]).succeeded();
    assert!(kept.err.contains("everything is kept"), "{}", kept.whole());
    user.configure("retention: { audit: { days: 1, decisions: { days: 36500 } } }\n");
    let due = user.run(&["audit", "prune", "--dry-run"]).succeeded();
    assert_eq!(due.out, "would prune 2 entries between 1 and 4, 0 of them decisions\n");
    assert_eq!(user.trail().len(), 6, "it was only said");
    let pruned = user.run(&["audit", "prune", "--json"]).succeeded().json();
    assert_eq!(
        pruned,
        json!({ "due": { "entries": 2, "decisions": 0, "first": 1, "last": 4 }, "pruned": 2 })
    );
    assert_eq!(numbers(&user, &["--oldest-first"]), [2, 3, 5, 6, 7]);
    user.run(&["audit", "check", file.to_str().unwrap(), "--public-key", &key]).succeeded();
    assert_eq!(user.run(&["audit", "verify", "--json"]).succeeded().json()["pruned"], 2);
    // Four times as long, where nothing is said about them.
    user.configure("retention: { audit: { days: 1 } }\n");
    assert_eq!(user.run(&["audit", "prune", "--json"]).succeeded().json()["due"]["decisions"], 4);
    assert!(user.run(&["audit", "prune", "--dry-run"]).succeeded().err.contains("nothing is to go"));
}

#[test]
fn a_new_key_takes_over_and_both_are_trusted() {
    let (user, trail) = filled();
    trail.sign();
    let key = |user: &User| {
        let verified = user.run(&["audit", "verify", "--json"]).succeeded().json();
        verified["checkpoints"]["key"].as_str().unwrap().to_owned()
    };
    let old = key(&user);
    let rotated = user.run(&["audit", "rotate", "--json"]).succeeded().json();
    assert_eq!((rotated["was"].as_str().unwrap(), rotated["key"].as_str().unwrap()), (&*old, &*key(&user)));
    assert_ne!(old, key(&user));
    assert!(user.path().join("data/backstop/audit.key.old").exists());
}
