//! Approvals across processes: one process asks, another answers.

use std::process::Child;

use backstop::hooks::{Decision, Digest};
use backstop::store::{AnswerStore, ApprovalFilter, NewApproval, PersonsAnswer, SqliteStore, Timestamp};
use serde_json::Value;

use super::support::{ModelServer, User, block_on, done, snapshot, until};

/// A call that a human is asked about, and that does nothing but write a file.
const ASKED: &str = r#"eval "$PLAN" || true; echo ran > ran.txt"#;

pub(super) fn script(turns: usize) -> String {
    let call = serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {"command": ASKED}}]});
    let answer = serde_json::json!({"text": "finished"});
    (0..turns).map(|_| format!("{call}\n{answer}\n")).collect()
}

pub(super) fn agent(user: &User, more: &[&str]) -> Child {
    user.command(&[&["agent", "-m", "go"], more].concat()).spawn().unwrap()
}

fn waiting(user: &User) -> Value {
    until("a question", || {
        let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
        list.as_array().unwrap().first().cloned()
    })
}

fn code(approval: &Value) -> String {
    approval["code"].as_str().unwrap().to_owned()
}

pub(super) fn ran(user: &User) -> bool {
    user.work().join("ran.txt").exists()
}

fn scene(turns: usize) -> (User, ModelServer) {
    let user = User::new();
    let model = ModelServer::start(&user, &script(turns));
    user.configure(&model.config(""));
    (user, model)
}

#[test]
fn an_answer_from_another_process_lets_the_call_run_once() {
    let (user, model) = scene(1);
    let child = agent(&user, &["--wait-approvals"]);
    let approval = waiting(&user);
    assert!(!ran(&user));
    let shown = user.run(&["approvals", "show", &code(&approval)]).succeeded().out;
    insta::with_settings!({ filters => [
        (r"code: [A-Z0-9]+", "code: [code]"),
        (r"workspace: /.*/work", "workspace: [folder]/work"),
        (r"session: s-[0-9a-f]+", "session: [session]"),
        (r"\d+ s( ago)?", "[span]"),
        (r"[0-9a-f]{12}", "[digest]"),
    ] }, { insta::assert_snapshot!(shown) });
    let approved = user.run(&["approvals", "approve", &code(&approval)]).succeeded();
    assert!(approved.out.contains("by the command line"), "{}", approved.whole());
    let done = done(child).succeeded();
    assert_eq!(done.out, "finished\n");
    assert!(ran(&user));
    let again = user.run(&["approvals", "deny", &code(&approval)]);
    assert_eq!(again.code, Some(1), "the first answer counts: {}", again.whole());
    assert!(again.whole().contains("is already used by "), "{}", again.whole());
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn whoever_answers_is_named_as_the_operator_names_them() {
    let user = User::new();
    let model = ModelServer::start(&user, &script(1));
    let uid = rustix::process::getuid().as_raw();
    user.configure(&model.config(&format!("approvals: {{people: {{ann: {{account: \"{uid}\"}}}}}}\n")));
    let child = agent(&user, &["--wait-approvals"]);
    let code = code(&waiting(&user));
    let approved = user.run(&["approvals", "approve", &code]).succeeded();
    assert!(approved.out.contains("allowed by ann: "), "{}", approved.whole());
    assert!(approved.out.contains(&format!("(uid {uid})")), "{}", approved.whole());
    done(child).succeeded();
    let answered = user.trail().into_iter().find(|entry| entry["kind"] == "approval.answered").unwrap();
    assert!(answered["body"]["by"].as_str().unwrap().starts_with("ann: "), "{answered}");
    let found = |who: &str| {
        let args = ["log", "--json", "--kind", "approval.answered", "--who", who];
        user.run(&args).succeeded().lines().len()
    };
    assert_eq!((found("ann"), found("an")), (1, 0), "they are found by that name");
    assert_eq!(model.stop().code, Some(0));
}

/// A configuration in which whoever runs this test is `ann`.
fn routed(model: &ModelServer, route: &str) -> String {
    let uid = rustix::process::getuid().as_raw();
    model.config(&format!(
        "approvals:\n  people: {{ann: {{account: \"{uid}\"}}, bob: {{user: bob}}, carl: {{user: carl}}}}\n  routes: [{route}]\n"
    ))
}

#[test]
fn a_call_waits_until_as_many_have_allowed_it_as_must() {
    let user = User::new();
    let call = serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {"command": ASKED}}]});
    let told =
        serde_json::json!({"expect": {"tool_result_contains": "denied by a human"}, "text": "all right"});
    let model = ModelServer::start(&user, &format!("{call}\n{told}\n"));
    let escalate = "escalate: {afterMs: 600000, to: [carl]}";
    user.configure(&routed(&model, &format!("{{ask: [ann, bob], votes: 2, {escalate}}}")));
    let child = agent(&user, &["--wait-approvals"]);
    let code = code(&waiting(&user));
    let always = user.run(&["approvals", "approve", &code, "--always"]);
    assert_eq!(always.code, Some(1), "{}", always.whole());
    let approved = user.run(&["approvals", "approve", &code]).succeeded();
    let list = user.run(&["approvals", "list"]).succeeded();
    let shown = user.run(&["approvals", "show", &code]).succeeded();
    let stands = "1 of 2: ann allowed it; waiting for bob; from 20";
    assert!(approved.out.contains("waits, expires") && approved.err.contains(stands), "{}", approved.whole());
    assert!(list.out.contains("votes") && list.out.contains(stands), "{}", list.whole());
    let votes = shown.out.lines().find_map(|line| line.strip_prefix("  votes: ")).unwrap();
    assert!(votes.starts_with(stands) && votes.ends_with("Z on also for carl"), "{votes}");
    assert!(!ran(&user));
    // Who has allowed it can't deny it, and the vote stands in the trail.
    let other = user.run(&["approvals", "deny", &code]);
    assert!(other.whole().contains("you have answered with allow-once already"), "{}", other.whole());
    let voted = user.trail().into_iter().find(|entry| entry["kind"] == "approval.voted").unwrap();
    assert_eq!((&voted["body"]["person"], &voted["body"]["needed"]), (&"ann".into(), &2.into()), "{voted}");
    // Another configuration asks ann no more: then she does not count, and can't answer.
    user.configure(&routed(&model, "{ask: [bob]}").replace("ann: {", "anna: {"));
    let left = user.run(&["approvals", "approve", &code]);
    assert!(left.whole().contains("anna is not asked; bob may answer"), "{}", left.whole());
    user.configure(&routed(&model, "{ask: [ann, bob]}"));
    crate::support::interrupt(&child);
    done(child);
    assert!(!ran(&user));
    drop(model);
}

#[test]
fn whoever_asked_may_not_answer_and_nobody_is_a_denial() {
    let user = User::new();
    let call = serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {"command": ASKED}}]});
    let told =
        serde_json::json!({"expect": {"tool_result_contains": "nobody may answer it"}, "text": "all right"});
    let model = ModelServer::start(&user, &format!("{call}\n{told}\n"));
    user.configure(&routed(&model, "{ask: [ann], barred: requester}"));
    assert_eq!(done(agent(&user, &["--wait-approvals"])).succeeded().out, "all right\n");
    assert!(!ran(&user));
    assert_eq!(model.stop().code, Some(0));
    let model = ModelServer::start(&user, &script(1));
    user.configure(&routed(&model, "{ask: [ann, bob], barred: requester}"));
    let child = agent(&user, &["--wait-approvals"]);
    let code = code(&waiting(&user));
    for deed in ["approve", "deny"] {
        let refused = user.run(&["approvals", deed, &code]);
        assert!(
            refused.whole().contains("ann asked for the call and may not answer; bob may answer"),
            "{}",
            refused.whole()
        );
    }
    crate::support::interrupt(&child);
    done(child);
    assert!(!ran(&user));
}

#[test]
fn an_agent_that_asks_too_much_is_refused_and_that_is_said() {
    let user = User::new();
    let call = |n: u32| {
        let command = format!("{ASKED} # {n}");
        serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {"command": command}}]})
    };
    let told = serde_json::json!({"expect": {"tool_result_contains": "asks too much"}, "text": "all right"});
    let model = ModelServer::start(&user, &format!("{}\n{}\n{told}\n", call(1), call(2)));
    user.configure(&model.config("approvals: {limits: {open: 1}}\n"));
    assert_eq!(done(agent(&user, &[])).succeeded().out, "all right\n");
    let list = user.run(&["approvals", "list"]).succeeded();
    assert!(list.err.contains("note: 1 more question was refused since "), "{}", list.whole());
    assert!(list.err.contains("agent `main` asks too much"), "{}", list.whole());
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn a_denial_is_told_to_the_model_and_nothing_runs() {
    let user = User::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let command = format!("{ASKED} # {token}");
    let call = serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {"command": command}}]});
    let told = serde_json::json!({
        "expect": {"tool_result_contains": "the human says: use the copy"}, "text": "all right",
    });
    let model = ModelServer::start(&user, &format!("{call}\n{told}\n"));
    user.configure(&model.config(""));
    let child = agent(&user, &["--wait-approvals"]);
    let asked = waiting(&user);
    assert!(!asked.to_string().contains(&token) && asked["masked"] == 1, "{asked}");
    user.run(&["approvals", "deny", &code(&asked), "--say", "use the copy"]).succeeded();
    assert_eq!(done(child).succeeded().out, "all right\n");
    assert!(!ran(&user));
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn without_anybody_the_call_is_denied_and_can_be_allowed_once_later() {
    let (user, _model) = scene(3);
    done(agent(&user, &[])).succeeded();
    assert!(!ran(&user));
    let list = user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
    assert_eq!(list[0]["state"]["status"], "unattended");
    user.run(&["allow-once", &code(&list[0])]).succeeded();
    done(agent(&user, &[])).succeeded();
    assert!(ran(&user));
    std::fs::remove_file(user.work().join("ran.txt")).unwrap();
    done(agent(&user, &[])).succeeded();
    assert!(!ran(&user), "the allowance was for one call");
}

#[test]
fn a_question_waits_as_long_as_the_operator_says() {
    let user = User::new();
    let call = serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {"command": ASKED}}]});
    let told = serde_json::json!({"expect": {"tool_result_contains": "timed out"}, "text": "too late"});
    let model = ModelServer::start(&user, &format!("{call}\n{told}\n"));
    user.configure(
        &model.config("").replace("scripted-model }", "scripted-model, approvals: {timeoutMs: 200} }"),
    );
    assert_eq!(done(agent(&user, &["--wait-approvals"])).succeeded().out, "too late\n");
    assert!(!ran(&user));
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn always_holds_until_it_is_revoked() {
    let (user, _model) = scene(3);
    let child = agent(&user, &["--wait-approvals"]);
    let approval = waiting(&user);
    let args = ["approvals", "approve", &code(&approval), "--always", "--for", "8h", "--scope", "rule"];
    user.run(&args).succeeded();
    done(child).succeeded();
    let grants = user.run(&["grants", "list", "--json"]).succeeded().json();
    assert_eq!(grants.as_array().unwrap().len(), 1);
    assert_eq!(grants[0]["question"]["hook"], "builtin:command-safety-guard");
    assert_eq!(grants[0]["target"]["kind"], "rule");
    assert_eq!(
        grants[0]["place"]["workspace"],
        std::fs::canonicalize(user.work()).unwrap().to_str().unwrap()
    );
    assert!(grants[0]["createdBy"].as_str().unwrap().contains("(uid "), "{grants:#}");
    std::fs::remove_file(user.work().join("ran.txt")).unwrap();
    done(agent(&user, &[])).succeeded();
    assert!(ran(&user), "a grant answers");
    std::fs::remove_file(user.work().join("ran.txt")).unwrap();
    user.run(&["grants", "revoke", grants[0]["id"].as_str().unwrap()]).succeeded();
    done(agent(&user, &[])).succeeded();
    assert!(!ran(&user), "a revoked grant does not");
    let kinds =
        |kind: &str| user.run(&["log", "--oldest-first", "--json"]).succeeded().out.matches(kind).count();
    assert_eq!([kinds("approval.answered"), kinds("grant.given"), kinds("grant.revoked")], [1, 1, 1]);
    user.run(&["audit", "verify"]).succeeded();
}

/// The only amount that a tool of the agent's takes is a time.
#[test]
fn an_answer_up_to_a_sum_allows_calls_within_it() {
    let user = User::new();
    let turn = |millis: u32| {
        let arguments = serde_json::json!({"command": ASKED, "timeout_ms": millis});
        let call = serde_json::json!({"tool_calls": [{"name": "exec", "arguments": arguments}]});
        format!("{call}\n{}\n", serde_json::json!({"text": "finished"}))
    };
    let model = ModelServer::start(&user, &[9_000, 20_000, 20_001, 19_999].map(turn).concat());
    user.configure(&model.config(""));
    let child = agent(&user, &["--wait-approvals"]);
    let asked = waiting(&user);
    assert_eq!(asked["amounts"][0]["amount"], "9000", "{asked:#}");
    let approve =
        |up_to: &str| user.run(&["approvals", "approve", &code(&asked), "--always", "--up-to", up_to]);
    assert!(approve("command=1").whole().contains("`command` is no amount in it"));
    assert!(approve("timeout_ms=-1").whole().contains("an amount is a number"));
    approve("timeout_ms=40000").succeeded();
    done(child).succeeded();
    for runs in [true, false, true] {
        std::fs::remove_file(user.work().join("ran.txt")).unwrap_or_default();
        done(agent(&user, &[])).succeeded();
        assert_eq!(ran(&user), runs);
    }
    let grants = user.run(&["grants", "list"]).succeeded().out;
    assert!(grants.contains("39999 of 40000 in `timeout_ms`"), "{grants}");
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn an_answer_that_does_not_count_leaves_no_grant() {
    let (user, _model) = scene(1);
    done(agent(&user, &[])).succeeded();
    let list = user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
    let late = user.run(&["approvals", "approve", &code(&list[0]), "--always"]);
    assert_eq!(late.code, Some(1), "{}", late.whole());
    assert_eq!(user.run(&["grants", "list", "--json"]).succeeded().out, "[]\n");
}

/// The call names a script, and the yes was for what was in it.
#[test]
fn a_call_that_is_allowed_once_runs_the_script_that_was_asked_about() {
    let user = User::new();
    let script = user.work().join("deploy.sh");
    let write = |text: &str| std::fs::write(&script, text).unwrap();
    let hook = || {
        let event = serde_json::json!({
            "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
            "permission_mode": "default", "tool_input": { "command": "bash deploy.sh" },
        });
        user.feed(&["hook", "codex"], event.to_string()).code
    };
    let asked = || user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
    write(ASKED);
    assert_eq!((hook(), hook()), (Some(2), Some(2)));
    let first = asked();
    assert_eq!(first.as_array().unwrap().len(), 1, "{first:#}");
    user.run(&["allow-once", &code(&first[0])]).succeeded();
    write(&ASKED.replace("ran", "other"));
    assert_eq!(hook(), Some(2));
    let second = asked();
    assert_eq!(second[0]["state"]["status"], "unattended", "{second:#}");
    assert!(second[0]["starts"].to_string().contains("other.txt"), "it is shown as it is now: {second:#}");
    write(ASKED);
    assert_eq!((hook(), hook()), (Some(0), Some(2)), "the same script runs, once");
}

#[test]
fn a_killed_run_resumes_whole_and_asks_again_before_the_call_runs() {
    let user = User::new();
    let call = serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {"command": ASKED}}]});
    let model = ModelServer::start(&user, &format!("{call}\n{call}\n{{\"text\": \"finished\"}}\n"));
    user.configure(&model.config(""));
    let mut killed = agent(&user, &["--wait-approvals"]);
    let left = waiting(&user);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let session = left["session"].as_str().unwrap();
    let resumed = agent(&user, &["--wait-approvals", "--session", session]);
    let asked_again = until("the question of the resumed run", || {
        let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
        list.as_array().unwrap().iter().find(|approval| approval["run"] != left["run"]).cloned()
    });
    assert_eq!(asked_again["digest"], left["digest"]);
    assert!(!ran(&user));
    user.run(&["approvals", "approve", &code(&asked_again)]).succeeded();
    assert_eq!(done(resumed).succeeded().out, "finished\n");
    assert!(ran(&user));
    let transcript = user.run(&["sessions", "show", session, "--json"]).succeeded().json();
    assert_eq!(open_calls(&transcript), 0, "{transcript:#}");
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn an_answer_to_a_killed_run_counts_once_for_the_resumed_call() {
    let user = User::new();
    let call = serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {"command": ASKED}}]});
    let model = ModelServer::start(&user, &format!("{call}\n{call}\n{{\"text\": \"finished\"}}\n"));
    user.configure(&model.config(""));
    let mut killed = agent(&user, &["--wait-approvals"]);
    let left = waiting(&user);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let told = user.run(&["approvals", "approve", &code(&left)]);
    assert!(told.code != Some(0) && told.err.contains("allow-once"), "{}", told.whole());
    user.run(&["allow-once", &code(&left)]).succeeded();
    assert!(!ran(&user), "the call that waited is gone");
    let session = left["session"].as_str().unwrap();
    done(agent(&user, &["--session", session])).succeeded();
    assert!(ran(&user), "the same call, resumed, runs on the answer");
    let list = user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
    assert_eq!(list[0]["state"]["status"], "used", "{list:#}");
    assert_eq!(model.stop().code, Some(0));
}

/// How many questions are listed.
const LISTED: usize = 200;

#[test]
fn a_question_that_waits_is_listed_however_many_came_and_ended_since() {
    let (user, model) = scene(1);
    let child = agent(&user, &["--wait-approvals"]);
    let code = code(&waiting(&user));
    let store: Box<dyn AnswerStore> =
        Box::new(SqliteStore::new(user.path().join("data/backstop/backstop.db")));
    let first = block_on(store.approvals(ApprovalFilter::All, 1)).unwrap().remove(0).request;
    let later = block_on(async {
        let mut later = Vec::new();
        for number in 0..=LISTED {
            let digest = Digest::of("tool_call", &number);
            let another = NewApproval { digest, waiter: None, created_at: Timestamp::now(), ..first.clone() };
            later.push(store.create_approval(another).await.unwrap().id);
        }
        later
    });
    // What ends first is first.
    let listed = user.run(&["approvals", "list"]).succeeded();
    assert!(listed.out.lines().nth(1).unwrap().contains(&code), "{}", listed.whole());
    assert!(listed.err.contains("2 more are not listed"), "{}", listed.whole());
    block_on(async {
        for id in &later {
            let no = PersonsAnswer::new(Decision::Deny, "a test", Timestamp::now());
            store.answer_approval(id, no).await.unwrap();
        }
    });
    let listed = user.run(&["approvals", "list"]).succeeded();
    assert!(listed.out.contains(&code) && listed.out.lines().count() == 2, "{}", listed.whole());
    let all = user.run(&["approvals", "list", "--all"]).succeeded();
    assert_eq!(all.out.lines().count(), LISTED + 1, "{}", all.whole());
    assert!(all.err.contains("older ones are not listed"), "{}", all.err);
    user.run(&["approvals", "deny", &code]).succeeded();
    done(child);
    assert_eq!(model.stop().code, Some(0));
}

/// Tool calls in a transcript that have no result.
pub(crate) fn open_calls(transcript: &Value) -> usize {
    let parts = |kind: &str| {
        transcript["transcript"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|entry| entry["message"]["content"].as_array().unwrap())
            .filter(|part| part["type"] == kind)
            .count()
    };
    parts("toolCall") - parts("toolResult")
}

#[test]
fn names_that_mean_nothing() {
    let user = User::new();
    snapshot!(user.run(&["approvals", "show", "NOPE"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: there is no approval `NOPE`
    hint: `backstop approvals list` shows what waits
    ");
    snapshot!(user.run(&["grants", "revoke", "nope"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: there is no grant `nope`
    hint: `backstop grants list` shows those in force
    ");
    snapshot!(user.run(&["approvals", "list"]).whole(), @r"
    exit: 0
    --- stdout
    --- stderr
    no approvals wait
    ");
    snapshot!(user.run(&["grants", "list"]).whole(), @r"
    exit: 0
    --- stdout
    --- stderr
    no grants are in force
    ");
}
