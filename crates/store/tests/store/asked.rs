//! Questions in the trail: each that is filed, and each that ends without an answer.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{ApprovalId, Decision, Digest, Severity, TimeoutBehavior};
use backstop_store::{
    APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_ENDED, Always, AlwaysScope, AnswerStore, ApprovalFilter,
    ApprovalReason, ApprovalState, ApprovalStore as _, AskedPeople, AskingLimits, AuditEntry, AuditFilter,
    CreateApprovalError, Deletion, DeletionCause, EditedFrom, Escalation, GRANT_GIVEN, GRANT_REVOKED,
    GrantPlace, NewApproval, PersonName, Route, SqliteStore, Store, Timestamp, allow_always, is_decision,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{at, block_on, digest, over_all_forms, question, session};

over_all_forms!(
    a_question_is_in_the_trail_and_nothing_of_its_words,
    who_was_to_answer_is_in_the_trail,
    what_makes_the_entry_too_large_is_named_and_left_out,
    whoever_finds_a_question_finds_what_came_of_it,
    an_answer_is_recorded_whatever_the_question_rests_on,
    a_question_that_nobody_answers_says_why,
    a_question_that_ended_in_time_or_waits_has_no_other_end,
    what_nobody_could_be_asked_says_so_and_has_no_end,
    what_a_client_asks_its_own_user_says_so_and_ends_once_its_tool_has_run,
    a_question_that_is_refused_is_not_in_the_trail,
    a_deleted_session_ends_what_it_waits_for,
);

const HOUR: Duration = Duration::from_secs(3_600);

async fn told(store: &dyn Store) -> Vec<AuditEntry> {
    let all = store.audit(&AuditFilter::default(), 0, 9_999).await.unwrap();
    all.into_iter().filter(|entry| entry.kind.starts_with("approval.")).collect()
}

/// The kinds of the entries about one question.
async fn kinds(store: &dyn Store, id: &ApprovalId) -> Vec<String> {
    let about = |entry: &AuditEntry| entry.body.get("approval").and_then(Value::as_str) == Some(id.as_str());
    told(store).await.into_iter().filter(about).map(|entry| entry.kind).collect()
}

fn reason(hook: &str, rules: &[&str]) -> ApprovalReason {
    ApprovalReason {
        owner: "builtin".into(),
        hook: hook.into(),
        title: "a secret title".into(),
        description: "a secret description".into(),
        severity: Severity::Critical,
        rules: rules.iter().map(|rule| (*rule).into()).collect(),
        program: Some(vec!["secret-program".to_owned()]),
    }
}

async fn a_question_is_in_the_trail_and_nothing_of_its_words(store: &dyn Store) {
    let asked = NewApproval {
        title: "a secret title".into(),
        description: "a secret description".into(),
        tool_name: backstop_hooks::ToolName::new("Bash"),
        host: Some("hooks".to_owned()),
        client: Some("claude".to_owned()),
        place: GrantPlace {
            workspace: Some("/work".to_owned()),
            requester: Some(json!(["slack", null, "ann"]).to_string()),
            channel: None,
        },
        reasons: vec![reason("b", &["net.send", "fs.rm"]), reason("a", &["net.send"]), reason("b", &[])],
        whole: Some(json!({ "command": "a secret command" }).into()),
        timeout_behavior: TimeoutBehavior::Allow,
        edited_from: Some(EditedFrom {
            approval: "before".into(),
            by: "ann".to_owned(),
            person: None,
            digest: digest("before"),
            shown: json!("a secret place").into(),
        }),
        ..question("a secret command")
    };
    let record = store.create_approval(asked).await.unwrap();
    let entries = told(store).await;
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!(entry.kind, APPROVAL_ASKED);
    assert_eq!(
        (entry.at, entry.session.as_ref(), entry.run.as_ref()),
        (at(1_000), Some(&"s1".into()), Some(&"r1".into()))
    );
    let body = entry.body.to_value();
    assert!(!body.to_string().contains("secret"), "{body}");
    assert_eq!(
        body,
        json!({
            "approval": record.id, "digest": record.request.digest, "tool": "exec", "calledAs": "Bash", "toolCallId": "c1",
            "severity": "critical", "agent": "main", "sessionKey": "chat", "host": "hooks", "client": "claude", "workspace": "/work",
            "requester": { "channel": "slack", "senderId": "ann" }, "hooks": ["a", "b"], "rules": ["fs.rm", "net.send"],
            "until": at(2_000), "silenceAllows": true, "editedFrom": "before",
        })
    );
    assert!(is_decision(&entry.kind, &body), "it is kept as long as decisions are");
    // It is found by what it is about.
    for filter in [
        AuditFilter { rule: Some("fs.rm".to_owned()), ..AuditFilter::default() },
        AuditFilter { tool: Some("Bash".to_owned()), ..AuditFilter::default() },
        AuditFilter { agent: Some("main".to_owned()), ..AuditFilter::default() },
        AuditFilter { workspace: Some("/".to_owned()), ..AuditFilter::default() },
        AuditFilter { who: Some("ann".to_owned()), ..AuditFilter::default() },
    ] {
        assert_eq!(store.audit(&filter, 0, 9).await.unwrap(), entries, "{filter:?}");
    }
}

/// What a question is found by, what came of it is found by as well.
async fn whoever_finds_a_question_finds_what_came_of_it(store: &dyn Store) {
    let rules = ["net.send"];
    let asked = |command: &str, unattended: bool| {
        let place = GrantPlace {
            workspace: Some("/work".to_owned()),
            requester: Some(json!(["slack", null, "ann"]).to_string()),
            channel: Some(json!(["slack", "C1"]).to_string()),
        };
        let mut program = reason("a", &rules);
        program.program = Some(vec!["git".to_owned(), "push".to_owned()]);
        let asked = NewApproval {
            host: Some("hooks".to_owned()),
            client: Some("claude".to_owned()),
            place,
            reasons: vec![program],
            expires_at: Timestamp::now().after(HOUR),
            ..question(command)
        };
        async move { store.file_approval(asked, unattended, &AskingLimits::default()).await.unwrap() }
    };
    let denied = asked("denied", false).await;
    store.resolve_approval(&denied.id, Decision::Deny, "bob", at(1_500)).await.unwrap();
    let later = asked("later", true).await;
    store.allow_later(&later.id, &"bob".into(), HOUR, at(1_500)).await.unwrap();
    let ended = asked("ended", false).await;
    store.cancel_approval(&ended.id, at(1_500)).await.unwrap();
    let always = asked("always", false).await;
    let scope = AlwaysScope::Program;
    let scope = Always { scope, ttl: None, times: None };
    let (_, grants) = allow_always(store, &always.id, &scope, &"bob".into()).await.unwrap();
    store.revoke_grant(&grants[0].id, "carl", at(1_700)).await.unwrap();
    let all = store.audit(&AuditFilter::default(), 0, 99).await.unwrap();
    let kinds: Vec<&str> = all.iter().map(|entry| entry.kind.as_str()).collect();
    let answers = [APPROVAL_ASKED, APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_ANSWERED];
    let others =
        [APPROVAL_ASKED, APPROVAL_ENDED, APPROVAL_ASKED, GRANT_GIVEN, APPROVAL_ANSWERED, GRANT_REVOKED];
    assert_eq!(kinds, [&answers[..], &others[..]].concat());
    for filter in [
        AuditFilter { rule: Some("net.send".to_owned()), ..AuditFilter::default() },
        AuditFilter { tool: Some("exec".to_owned()), ..AuditFilter::default() },
        AuditFilter { agent: Some("main".to_owned()), ..AuditFilter::default() },
        AuditFilter { workspace: Some("/".to_owned()), ..AuditFilter::default() },
        AuditFilter { who: Some("ann".to_owned()), ..AuditFilter::default() },
        AuditFilter { session: Some("s1".into()), ..AuditFilter::default() },
    ] {
        assert_eq!(store.audit(&filter, 0, 99).await.unwrap(), all, "{filter:?}");
    }
    for entry in &all {
        let body = entry.body.to_value();
        assert!(!body.to_string().contains("secret") && !body.to_string().contains("push"), "{body}");
        assert!(is_decision(&entry.kind, &body), "{body}");
    }
    let about = json!({
        "tool": "exec", "severity": "critical", "agent": "main", "host": "hooks", "client": "claude", "workspace": "/work",
        "requester": { "channel": "slack", "senderId": "ann" }, "rules": ["net.send"], "by": "bob",
    });
    let with = |more: Value| {
        let mut about = about.clone();
        about.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        about
    };
    let said = |number: usize| all[number].body.to_value();
    assert_eq!(
        said(1),
        with(json!({ "approval": denied.id, "digest": digest("denied"), "decision": "deny" }))
    );
    let until = at(1_500).after(HOUR);
    assert_eq!(
        said(3),
        with(json!({
            "approval": later.id, "digest": digest("later"), "decision": "allow-once", "laterUntil": until,
        }))
    );
    let grant = &grants[0];
    let of_grant = json!({
        "grant": grant.id, "approval": always.id, "agent": "main", "tool": "exec", "workspace": "/work", "rules": ["net.send"],
        "requester": { "channel": "slack", "senderId": "ann" }, "channel": { "provider": "slack", "id": "C1" },
    });
    let mut given = of_grant.clone();
    given.as_object_mut().unwrap().extend([
        ("hook".to_owned(), json!("a")),
        ("covers".to_owned(), json!({ "program": Digest::of("program", &["git", "push"]) })),
        ("until".to_owned(), json!(grant.granted.expires_at)),
        ("times".to_owned(), json!(null)),
        ("by".to_owned(), json!("bob")),
    ]);
    assert_eq!(said(7), given);
    let mut revoked = of_grant;
    revoked.as_object_mut().unwrap().insert("by".to_owned(), json!("carl"));
    assert_eq!(said(9), revoked);
}

async fn what_a_client_asks_its_own_user_says_so_and_ends_once_its_tool_has_run(store: &dyn Store) {
    let asked = || NewApproval { client: Some("claude".to_owned()), expires_at: at(9_000), ..question("ls") };
    let limits = AskingLimits::default();
    let hosted = store.file_hosted_approval(asked(), &limits).await.unwrap();
    assert_eq!(
        store.file_hosted_approval(asked(), &limits).await.unwrap().id,
        hosted.id,
        "it is one question"
    );
    // Of two calls, the program tells which has run.
    let again = NewApproval { call: "c9".into(), ..asked() };
    let again = store.file_hosted_approval(again, &limits).await.unwrap();
    assert_ne!(again.id, hosted.id);
    let ended =
        store.end_hosted_approvals(&"main".into(), &"s1".into(), &"c9".into(), at(2_900)).await.unwrap();
    assert_eq!(ended.iter().map(|record| &record.id).collect::<Vec<_>>(), [&again.id]);
    // Where the same could be put to nobody, that is another matter.
    let unattended = store.create_unattended_approval(asked()).await.unwrap();
    assert_ne!(hosted.id, unattended.id);
    let said = |entry: &AuditEntry| {
        let is = |name: &str| entry.body.get(name) == Some(&json!(true));
        (is("hosted"), is("unattended"))
    };
    assert_eq!(
        told(store).await.iter().map(said).collect::<Vec<_>>(),
        [(true, false), (true, false), (false, false), (false, true)]
    );
    let (agent, session) = ("main".into(), "s1".into());
    for (agent, session, call) in [("other", "s1", "c1"), ("main", "s2", "c1"), ("main", "s1", "c2")]
        .map(|(a, s, c)| (a.into(), s.into(), c.into()))
    {
        assert!(store.end_hosted_approvals(&agent, &session, &call, at(3_000)).await.unwrap().is_empty());
    }
    let ended = store.end_hosted_approvals(&agent, &session, &"c1".into(), at(3_000)).await.unwrap();
    let ids: Vec<_> = ended.iter().map(|record| record.id.clone()).collect();
    assert_eq!(ids, std::slice::from_ref(&hosted.id));
    assert_eq!(kinds(store, &hosted.id).await, [APPROVAL_ASKED, APPROVAL_ENDED]);
    assert_eq!(told(store).await[4].body.get("why"), Some(&json!("let-run")));
    // It ran, and is over; the other one can still be allowed.
    store.allow_later(&hosted.id, &"me".into(), HOUR, at(3_100)).await.unwrap_err();
    store.allow_later(&unattended.id, &"me".into(), HOUR, at(3_100)).await.unwrap();
    assert!(store.end_hosted_approvals(&agent, &session, &"c1".into(), at(3_200)).await.unwrap().is_empty());
}

async fn an_answer_is_recorded_whatever_the_question_rests_on(store: &dyn Store) {
    let rules: Vec<String> = (0..9_000).map(|number| format!("rule.{number}")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let asked = NewApproval { reasons: vec![reason("a", &rules)], ..question("ls") };
    let record = store.create_approval(asked).await.unwrap();
    store.resolve_approval(&record.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    let all = told(store).await;
    let body = all.last().unwrap().body.to_value();
    assert_eq!((&body["by"], &body["omitted"], body.get("rules")), (&json!("ann"), &json!(["rules"]), None));
}

fn people<const N: usize>(names: [&str; N]) -> AskedPeople {
    let people = names.into_iter().map(PersonName::new).collect();
    AskedPeople { named: vec![names.into_iter().map(str::to_owned).collect()], people }
}

async fn who_was_to_answer_is_in_the_trail(store: &dyn Store) {
    let route = Route {
        asked: people(["ann", "bob"]),
        votes: NonZeroU32::new(2).unwrap(),
        escalation: Some(Escalation { to: people(["carl"]), at: at(1_500), uptime: None }),
        barred: Some(PersonName::new("bob")),
        told: None,
    };
    store.create_approval(NewApproval { route: Some(route), ..question("ls") }).await.unwrap();
    let body = told(store).await[0].body.to_value();
    let expected = json!({
        "people": ["ann", "bob"], "needed": 2, "later": ["carl"], "laterFrom": at(1_500), "barred": "bob",
    });
    assert_eq!(body["route"], expected);
}

async fn what_makes_the_entry_too_large_is_named_and_left_out(store: &dyn Store) {
    let long = "\u{1}".repeat(5_000);
    let rules: Vec<String> = (0..9_000).map(|number| format!("rule.{number}")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let asked = NewApproval {
        agent: long.as_str().into(),
        session_key: long.as_str().into(),
        session: long.as_str().into(),
        run: Some(long.as_str().into()),
        call: long.as_str().into(),
        tool_name: long.as_str().into(),
        host: Some(long.clone()),
        client: Some(long.clone()),
        workspace: Some(long.clone()),
        reasons: vec![reason("a", &rules)],
        ..question("ls")
    };
    let record = store.create_approval(asked.clone()).await.unwrap();
    store.end_waiting(&record.id, at(2_100)).await.unwrap();
    let entries = told(store).await;
    assert_eq!(entries.len(), 2, "each is in the trail");
    let body = entries[0].body.to_value();
    assert_eq!(body["omitted"], json!(["workspace", "rules"]));
    assert_eq!((&body["hooks"], body.get("workspace"), body.get("rules")), (&json!(["a"]), None, None));
    // A folder that is no longer than folders are is left out only where it has to be.
    let folder = "/".repeat(4_096);
    let asked = NewApproval { workspace: Some(folder.clone()), reasons: Vec::new(), ..asked };
    store.create_approval(asked).await.unwrap();
    let body = told(store).await[2].body.to_value();
    assert_eq!((&body["workspace"], body.get("omitted")), (&json!(folder), None));
}

async fn a_question_that_nobody_answers_says_why(store: &dyn Store) {
    let lax = NewApproval { timeout_behavior: TimeoutBehavior::Allow, ..question("lax") };
    let mut expected = Vec::new();
    let mut file = async |asked: NewApproval, why: &'static str| {
        let record = store.create_approval(asked).await.unwrap();
        expected.push((record.id.clone(), why));
        record
    };
    let expires = file(question("expires"), "deadline").await;
    store.expire_approvals(at(2_001)).await.unwrap();
    let left = file(question("left"), "deadline").await;
    store.end_waiting(&left.id, at(2_000)).await.unwrap();
    let late = file(question("late"), "deadline").await;
    store.resolve_approval(&late.id, Decision::AllowOnce, "ann", at(2_001)).await.unwrap_err();
    let given_up = file(question("given up"), "withdrawn").await;
    store.cancel_approval(&given_up.id, at(1_500)).await.unwrap();
    file(question("aborted"), "run-ended").await;
    store.cancel_run_approvals(&"s1".into(), &"r1".into(), at(1_600)).await.unwrap();
    let later = file(question("later"), "deadline").await;
    store.allow_later(&later.id, &"ann".into(), HOUR, at(2_100)).await.unwrap();
    let passes = file(lax.clone(), "deadline").await;
    store.expire_approvals(at(2_001)).await.unwrap();
    let no_pass = file(lax, "withdrawn").await;
    store.cancel_approval(&no_pass.id, at(1_500)).await.unwrap();
    // Whoever looks again finds nothing that has not been said.
    for id in expected.iter().map(|(id, _)| id) {
        store.expire_approvals(at(3_000)).await.unwrap();
        store.cancel_approval(id, at(3_000)).await.unwrap();
        store.end_waiting(id, at(3_000)).await.unwrap();
    }
    store.cancel_run_approvals(&"s1".into(), &"r1".into(), at(3_000)).await.unwrap();
    let ended: Vec<AuditEntry> =
        told(store).await.into_iter().filter(|entry| entry.kind == APPROVAL_ENDED).collect();
    let whys = ended.iter().map(|entry| {
        let body = entry.body.to_value();
        (body["approval"].as_str().unwrap().to_owned(), body["why"].as_str().unwrap().to_owned())
    });
    let expected = expected.iter().map(|(id, why)| (id.as_str().to_owned(), (*why).to_owned()));
    assert_eq!(whys.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(
        ended[0].body.to_value(),
        json!({
            "approval": expires.id, "digest": digest("expires"), "tool": "exec", "severity": "critical", "agent": "main",
            "until": at(2_000), "why": "deadline",
        })
    );
    assert_eq!(
        (ended[0].at, ended[0].session.as_ref()),
        (at(2_001), Some(&"s1".into())),
        "when it was noticed"
    );
    let silence = |id: &ApprovalId| {
        let of = ended.iter().find(|entry| entry.body.get("approval") == Some(&json!(id))).unwrap();
        of.body.get("silenceAllows").cloned()
    };
    assert_eq!((silence(&passes.id), silence(&no_pass.id)), (Some(json!(true)), None));
    assert_eq!(kinds(store, &later.id).await, [APPROVAL_ASKED, APPROVAL_ENDED, APPROVAL_ANSWERED]);
    store.verify_audit(None).await.unwrap();
}

async fn a_question_that_ended_in_time_or_waits_has_no_other_end(store: &dyn Store) {
    let answered = store.create_approval(question("answered")).await.unwrap();
    store.resolve_approval(&answered.id, Decision::AllowOnce, "ann", at(2_000)).await.unwrap();
    let denied = store.create_approval(question("denied")).await.unwrap();
    store.resolve_approval(&denied.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    let waits = NewApproval { expires_at: at(9_000), run: Some("r2".into()), ..question("waits") };
    let waits = store.create_approval(waits).await.unwrap();
    store.expire_approvals(at(3_000)).await.unwrap();
    for record in [&answered, &denied] {
        store.cancel_approval(&record.id, at(3_000)).await.unwrap();
        store.end_waiting(&record.id, at(3_000)).await.unwrap();
        assert_eq!(kinds(store, &record.id).await, [APPROVAL_ASKED, APPROVAL_ANSWERED]);
    }
    store.consume_approval(&answered.id, &digest("answered"), at(3_000)).await.unwrap();
    assert_eq!(kinds(store, &answered.id).await.len(), 2);
    assert_eq!(kinds(store, &waits.id).await, [APPROVAL_ASKED]);
}

async fn what_nobody_could_be_asked_says_so_and_has_no_end(store: &dyn Store) {
    let lax = NewApproval { timeout_behavior: TimeoutBehavior::Allow, ..question("ls") };
    let record = store.create_unattended_approval(lax.clone()).await.unwrap();
    assert_eq!(store.create_unattended_approval(lax).await.unwrap().id, record.id);
    store.expire_approvals(at(3_000)).await.unwrap();
    store.allow_later(&record.id, &"ann".into(), HOUR, at(3_100)).await.unwrap();
    assert_eq!(kinds(store, &record.id).await, [APPROVAL_ASKED, APPROVAL_ANSWERED], "it is one question");
    let body = told(store).await[0].body.to_value();
    assert_eq!((&body["unattended"], body.get("silenceAllows")), (&json!(true), None));
}

async fn a_question_that_is_refused_is_not_in_the_trail(store: &dyn Store) {
    let limits = AskingLimits { open: NonZeroU32::new(1), per_minute: None };
    let filed = store.file_approval(question("one"), false, &limits).await.unwrap();
    let refused = store.file_approval(question("two"), false, &limits).await;
    assert!(matches!(refused, Err(CreateApprovalError::TooMany { .. })));
    assert_eq!(told(store).await.len(), 1);
    assert_eq!(kinds(store, &filed.id).await.len(), 1);
}

async fn a_deleted_session_ends_what_it_waits_for(store: &dyn Store) {
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let answered = store.create_approval(question("answered")).await.unwrap();
    store.resolve_approval(&answered.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    let waits = store.create_approval(question("waits")).await.unwrap();
    let other = NewApproval { session: "s2".into(), ..question("other") };
    let other = store.create_approval(other).await.unwrap();
    let why = Deletion { cause: DeletionCause::Asked, by: "ann".to_owned(), at: at(1_600) };
    store.delete_session(&"s1".into(), why).await.unwrap();
    assert_eq!(kinds(store, &waits.id).await, [APPROVAL_ASKED, APPROVAL_ENDED]);
    assert_eq!(kinds(store, &answered.id).await, [APPROVAL_ASKED, APPROVAL_ANSWERED]);
    assert_eq!(kinds(store, &other.id).await, [APPROVAL_ASKED]);
    let ended = told(store).await.into_iter().find(|entry| entry.kind == APPROVAL_ENDED).unwrap();
    assert_eq!((ended.at, &ended.body.to_value()["why"]), (at(1_600), &json!("session-deleted")));
}

/// Where the trail can't be written, nobody is asked, and what waits goes on waiting.
async fn nothing_is_asked_off_the_record(broken: &dyn AnswerStore) {
    for unattended in [false, true] {
        let asked = broken.file_approval(question("ls"), unattended, &AskingLimits::default()).await;
        assert!(matches!(asked, Err(CreateApprovalError::Store(_))), "{asked:?}");
    }
    assert!(broken.approvals(ApprovalFilter::All, 9).await.unwrap().is_empty());
    assert_eq!(broken.overview().await.unwrap().waiting, 0);
}

#[tokio::test]
async fn a_question_that_cannot_be_recorded_is_asked_of_nobody() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    std::fs::write(SqliteStore::trail_of(&path), "no folder").unwrap();
    nothing_is_asked_off_the_record(&SqliteStore::new(&path)).await;
    let trail: Arc<dyn Store> = Arc::new(SqliteStore::new(&path));
    nothing_is_asked_off_the_record(&SqliteStore::for_answers(trail)).await;
}

#[tokio::test]
async fn an_end_that_cannot_be_recorded_does_not_count() {
    let folder = TempDir::new().unwrap();
    let (path, aside) = (folder.path().join("state.db"), folder.path().join("aside"));
    let trail = SqliteStore::trail_of(&path);
    let asked = SqliteStore::new(&path).create_approval(question("ls")).await.unwrap();
    std::fs::rename(&trail, &aside).unwrap();
    std::fs::write(&trail, "no folder").unwrap();
    let store = SqliteStore::new(&path);
    store.expire_approvals(at(3_000)).await.unwrap_err();
    store.end_waiting(&asked.id, at(3_000)).await.unwrap_err();
    store.cancel_approval(&asked.id, at(3_000)).await.unwrap_err();
    assert_eq!(store.approval(&asked.id).await.unwrap().unwrap().state, ApprovalState::Pending);
    std::fs::remove_file(&trail).unwrap();
    std::fs::rename(&aside, &trail).unwrap();
    let store = SqliteStore::new(&path);
    assert_eq!(store.expire_approvals(at(3_000)).await.unwrap().len(), 1);
    assert_eq!(kinds(&store, &asked.id).await, [APPROVAL_ASKED, APPROVAL_ENDED]);
}

#[tokio::test]
async fn what_is_kept_in_memory_alone_is_on_record_elsewhere_from_beginning_to_end() {
    let trail: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let store = SqliteStore::for_answers(Arc::clone(&trail));
    let asked = store.create_approval(question("ls")).await.unwrap();
    store.expire_approvals(at(3_000)).await.unwrap();
    assert_eq!(kinds(&*trail, &asked.id).await, [APPROVAL_ASKED, APPROVAL_ENDED]);
}

#[tokio::test]
async fn however_many_are_due_each_ends_and_says_so() {
    let store = SqliteStore::in_memory();
    for number in 0..600 {
        store.create_approval(question(&number.to_string())).await.unwrap();
    }
    let ended = store.expire_approvals(at(3_000)).await.unwrap();
    assert_eq!(ended.len(), 600);
    assert_eq!(store.overview().await.unwrap().waiting, 0);
    let said = told(&store).await.into_iter().filter(|entry| entry.kind == APPROVAL_ENDED);
    let said: BTreeSet<String> = said.map(|entry| entry.body["approval"].to_string()).collect();
    assert_eq!(said.len(), 600, "each once");
}

/// What somebody does with the questions.
#[derive(Clone, Copy, Debug)]
enum Act {
    Answer(Decision),
    AllowLater,
    Expire,
    Leave,
    GiveUp,
    AbortRun,
}

fn acts() -> impl Strategy<Value = Vec<(Act, usize, i64)>> {
    let act = prop_oneof![
        Just(Act::Answer(Decision::AllowOnce)),
        Just(Act::Answer(Decision::Deny)),
        Just(Act::AllowLater),
        Just(Act::Expire),
        Just(Act::Leave),
        Just(Act::GiveUp),
        Just(Act::AbortRun),
    ];
    prop::collection::vec((act, 0..2_usize, 1_000..3_000_i64), 1..10)
}

async fn act(store: &dyn Store, act: Act, id: &ApprovalId, now: i64) {
    let now = at(now);
    match act {
        Act::Answer(decision) => drop(store.resolve_approval(id, decision, "ann", now).await),
        Act::AllowLater => drop(store.allow_later(id, &"ann".into(), HOUR, now).await),
        Act::Expire => drop(store.expire_approvals(now).await.unwrap()),
        Act::Leave => drop(store.end_waiting(id, now).await.unwrap()),
        Act::GiveUp => drop(store.cancel_approval(id, now).await),
        Act::AbortRun => drop(store.cancel_run_approvals(&"s1".into(), &"r1".into(), now).await.unwrap()),
    }
}

/// Several do what they like with the same questions at once, each through a store of their own. The trails of `stores`, which may be one,
/// have each question once, and each end once.
async fn each_end_once(
    stores: &[Arc<dyn Store>],
    trails: usize,
    acts: &[(Act, usize, i64)],
) -> Result<(), TestCaseError> {
    let mut ids = Vec::new();
    for command in ["one", "two"] {
        ids.push(stores[0].create_approval(question(command)).await.unwrap().id);
    }
    let doing: Vec<_> = acts
        .iter()
        .enumerate()
        .map(|(turn, &(what, which, now))| {
            let (store, id) = (Arc::clone(&stores[turn % stores.len()]), ids[which].clone());
            tokio::spawn(async move { act(&*store, what, &id, now).await })
        })
        .collect();
    for done in doing {
        done.await.unwrap();
    }
    for id in &ids {
        let mut said = Vec::new();
        for trail in stores.iter().take(trails) {
            said.extend(kinds(&**trail, id).await);
        }
        let count = |kind: &str| said.iter().filter(|said| *said == kind).count();
        let (asked, ended, answered) =
            (count(APPROVAL_ASKED), count(APPROVAL_ENDED), count(APPROVAL_ANSWERED));
        prop_assert!(asked == 1 && ended <= 1, "{said:?}");
        let state = stores[0].approval(id).await.unwrap().unwrap().state;
        let (least, most) = match state {
            ApprovalState::Pending => (0, 0),
            _ => (1, usize::MAX),
        };
        prop_assert!((least..=most).contains(&(ended + answered)), "{state:?}: {said:?}");
        let is_unanswered = matches!(state, ApprovalState::TimedOut { .. } | ApprovalState::Cancelled { .. });
        prop_assert!(!is_unanswered || ended == 1, "{state:?}: {said:?}");
        if trails == 1 && ended == 1 {
            prop_assert_eq!(said[1].as_str(), APPROVAL_ENDED, "what waited was answered and ended");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_question_is_on_record_once_and_so_is_its_end(acts in acts()) {
        block_on(async {
            let folder = TempDir::new().unwrap();
            let file = || -> Arc<dyn Store> { Arc::new(SqliteStore::new(folder.path().join("state.db"))) };
            each_end_once(&[file(), file(), file()], 1, &acts).await?;
            each_end_once(&[Arc::new(SqliteStore::in_memory())], 1, &acts).await
        })?;
    }
}

#[cfg(feature = "postgres")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(3))]

    #[test]
    fn gateways_have_each_question_on_record_once_and_so_its_end(acts in acts()) {
        block_on(async {
            let (server, folders) = (crate::server::Server::start(), [TempDir::new().unwrap(), TempDir::new().unwrap()]);
            let stores = folders.each_ref().map(|folder| -> Arc<dyn Store> { Arc::new(server.store(folder.path())) });
            each_end_once(&stores, 2, &acts).await
        })?;
    }
}
