//! What is read, and what sessions belong to.

use backstop_engine::HookOptions;
use backstop_hooks::points::SessionEndReason;
use backstop_hooks::{OwnerId, RunId, SessionId, hook_fn};
use backstop_store::{AuditBody, Durability, MOST_PAGE_READ, NewAuditEntry, Session};

use super::*;
use crate::inspect::support::grant;

#[tokio::test]
async fn sessions_of_one_agent_are_none_of_anothers() {
    let server = Server::start(House::new()).await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let hook = hook_fn::<BeforeToolCall, _>(move |_, cx| {
        let call = cx.call;
        told.lock().unwrap().push((call.agent_id.clone().unwrap(), call.session_id.clone().unwrap()));
        Ok(None)
    });
    let options = HookOptions::new(OwnerId::operator()).id("sees");
    server.house.engine.registry().on::<BeforeToolCall>(hook, options).unwrap();
    let body = json!({"event": {"toolName": "read", "params": {}}, "context": {"sessionId": "sw0rdfish"}});
    for agent in ["one", "two", "one"] {
        let token = server.judge(agent).await;
        assert_eq!(server.ask("POST", "hooks/before_tool_call", &token, Some(&body)).await.status(), 200);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], seen[2]);
    assert_ne!(seen[0].1, seen[1].1);
    assert!(!format!("{seen:?} {}", server.house.receipts.all()).contains("sw0rdfish"));
}

#[tokio::test]
async fn who_may_read_reads_what_there_is() {
    let server = Server::start(house()).await;
    let (token, read) = (server.judge("bot").await, server.person(&[Scope::Read]).await);
    server.call(&token, "", "exec").await;
    let get = async |path: &str| server.ask("GET", path, &read, None).await;
    let hooks = get("hooks").await.json();
    let ids: Vec<_> =
        hooks["hooks"].as_array().unwrap().iter().map(|hook| hook["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["stop", "gate", "after"]);
    assert_eq!(get("grants").await.json(), json!({"grants": [], "more": false, "unreadable": 0}));
    assert_eq!(get("sessions").await.json(), json!({"sessions": [], "more": false}));
    let trail = get("audit?limit=1").await.json();
    assert_eq!(
        (trail["entries"].as_array().unwrap().len(), &trail["entries"][0]["kind"]),
        (1, &"access_token.created".into())
    );
    let next = get(&format!("audit?after={}", trail["next"])).await.json();
    assert_eq!(next["entries"][0]["seq"], 2, "{next}");
    for path in [
        "audit?limit=0",
        "audit?limit=1001",
        "audit?limit=x",
        "audit?before=-1",
        "audit?since=x",
        "approvals?state=some",
        "grants?state=some",
        "audit?verdict=blocked",
        "audit/events?verdict=blocked",
    ] {
        assert_eq!(get(path).await.status(), 400, "{path}");
    }
    assert_eq!(get("approvals/nothing").await.status(), 404);
}

fn entry(kind: &str, at: i64, session: Option<&str>, body: Value) -> NewAuditEntry {
    let run = session.map(|_| RunId::new("r-1"));
    let (at, session) = (Timestamp::from_millis(at), session.map(SessionId::from));
    NewAuditEntry { at, kind: kind.to_owned(), session, run, body: AuditBody::from(body) }
}

fn seqs(page: &Value) -> Vec<u64> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn the_trail_is_read_by_what_is_looked_for_in_both_directions() {
    let server = Server::start(house()).await;
    let read = server.person(&[Scope::Read]).await;
    let get = async |path: &str| {
        let answer = server.ask("GET", path, &read, None).await;
        assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
        answer.json()
    };
    // Far from what the house itself writes.
    let (first, later) = (4_000_000_000_000, 4_000_000_060_000);
    let body = json!({"verdict": "block", "tool": "exec", "agentId": "bot", "workspace": "/w/a",
        "blocked": {"reason": {"rules": ["exec.any"]}}});
    let entries = vec![
        entry("receipt", first, Some("s-1"), body),
        entry("receipt", first, Some("s-2"), json!({"verdict": "pass", "tool": "read", "agentId": "other"})),
        entry("grant.given", later, None, json!({"by": "ann", "tool": "exec"})),
    ];
    let head = server.house.store.append_audit_all(entries, Durability::Soon).await.unwrap();
    let (one, two, three) = (head.seq - 2, head.seq - 1, head.seq);
    for (query, found) in [
        (format!("since={first}"), vec![one, two, three]),
        (format!("since={first}&until={later}"), vec![one, two]),
        (format!("since={first}&kind=receipt"), vec![one, two]),
        (format!("since={first}&session=s-2"), vec![two]),
        (format!("since={first}&run=r-1"), vec![one, two]),
        (format!("since={first}&verdict=block"), vec![one]),
        (format!("since={first}&tool=exec"), vec![one, three]),
        (format!("since={first}&rule=exec.any"), vec![one]),
        (format!("since={first}&agent=other"), vec![two]),
        (format!("since={first}&workspace=/w"), vec![one]),
        (format!("since={first}&workspace=/w/a/"), vec![one]),
        (format!("since={first}&who=ann"), vec![three]),
        (format!("since={first}&kind=nothing"), vec![]),
        (format!("since={first}&before={}", u64::MAX), vec![three, two, one]),
        (format!("before={three}&limit=1"), vec![two]),
        (format!("after={one}&before={three}"), vec![two]),
        (format!("after={one}&before={}", three + 9), vec![three, two]),
    ] {
        assert_eq!(seqs(&get(&format!("audit?{query}")).await), found, "{query}");
    }
    // A page goes on where the one before ended, also backwards, and the last one says so.
    let (mut seen, mut next) = (Vec::new(), Some(head.seq + 1));
    while let Some(before) = next {
        let page = get(&format!("audit?before={before}&limit=2")).await;
        seen.extend(seqs(&page));
        next = page["next"].as_u64();
    }
    assert_eq!(seen, (1..=head.seq).rev().collect::<Vec<_>>());
    assert_eq!(get(&format!("audit?after={one}&before={}&limit=2", three + 1)).await.get("next"), None);
}

#[tokio::test]
async fn a_page_that_ends_among_older_entries_says_where_to_go_on() {
    let folder = tempfile::TempDir::new().unwrap();
    let server = Server::start(House::over(Arc::new(SqliteStore::new(folder.path().join("state.db"))))).await;
    let read = server.person(&[Scope::Read]).await;
    let since = 4_000_000_000_000;
    let store = &server.house.store;
    let late = vec![entry("late", since, None, json!({}))];
    let seq = store.append_audit_all(late, Durability::Soon).await.unwrap().seq;
    // The clock was set back.
    let older = vec![entry("older", 1, None, json!({})); 5_000];
    store.append_audit_all(older, Durability::Soon).await.unwrap();
    let get = async |before: u64| {
        let path = format!("audit?since={since}&before={before}");
        server.ask("GET", &path, &read, None).await.json()
    };
    let page = get(u64::MAX).await;
    assert_eq!(seqs(&page), Vec::<u64>::new());
    let page = get(page["next"].as_u64().unwrap()).await;
    assert_eq!((seqs(&page), page.get("next")), (vec![seq], None));
}

#[tokio::test]
async fn a_page_of_the_trail_reads_no_more_than_it_says() {
    let folder = tempfile::TempDir::new().unwrap();
    let server = Server::start(House::over(Arc::new(SqliteStore::new(folder.path().join("state.db"))))).await;
    let read = server.person(&[Scope::Read]).await;
    let mut entries = vec![entry("common", 1, None, json!({})); usize::try_from(MOST_PAGE_READ).unwrap()];
    entries.push(entry("rare", 1, None, json!({})));
    for entries in entries.chunks(4_000) {
        server.house.store.append_audit_all(entries.to_vec(), Durability::Soon).await.unwrap();
    }
    let get = async |path: &str| server.ask("GET", path, &read, None).await.json();
    let page = get("audit?kind=rare").await;
    assert_eq!((seqs(&page), &page["next"]), (vec![], &json!(MOST_PAGE_READ)));
    let page = get(&format!("audit?kind=rare&after={MOST_PAGE_READ}")).await;
    assert_eq!((seqs(&page).len(), page.get("next")), (1, None));
}

#[tokio::test]
async fn questions_are_listed_page_by_page_whatever_is_answered_meanwhile() {
    let server = Server::start(house()).await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Read, Scope::Approve]).await);
    for _ in 0..5 {
        assert_eq!(server.call(&token, "", "exec").await.status(), 202);
    }
    let get = async |path: &str| server.ask("GET", path, &person, None).await.json();
    let ids = |page: &Value| {
        let all = page["approvals"].as_array().unwrap().iter();
        all.map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = get("approvals").await;
    assert_eq!((ids(&all).len(), &all["more"], &all["waiting"]), (5, &json!(false), &json!(5)));
    assert_eq!(all.get("next"), None);
    let first = get("approvals?limit=2").await;
    assert_eq!((ids(&first), &first["more"]), (ids(&all)[..2].to_vec(), &json!(true)));
    // One of the first page ends: none is skipped by it.
    let given = json!({"decision": "deny", "digest": first["approvals"][0]["digest"]});
    let path = format!("approvals/{}/answer", ids(&first)[0]);
    assert_eq!(server.ask("POST", &path, &person, Some(&given)).await.status(), 200);
    let next = first["next"].as_str().unwrap();
    let second = get(&format!("approvals?limit=2&after={next}")).await;
    assert_eq!((ids(&second), &second["waiting"]), (ids(&all)[2..4].to_vec(), &json!(4)));
    let last = get(&format!("approvals?limit=2&after={}", second["next"].as_str().unwrap())).await;
    assert_eq!((ids(&last), &last["more"]), (ids(&all)[4..].to_vec(), &json!(false)));
    let answered = get(&format!("approvals?state=all&limit=1&after={}", ids(&all)[1])).await;
    assert_eq!(ids(&answered), ids(&all)[2..3].to_vec());
    assert_eq!(server.ask("GET", "approvals?after=nobody", &person, None).await.status(), 404);
}

#[tokio::test]
async fn what_was_allowed_for_good_is_listed_and_revoked() {
    let server = Server::start(house()).await;
    let (read, approve) = (server.person(&[Scope::Read]).await, server.person(&[Scope::Approve]).await);
    let answers = server.house.engine.answer_store();
    let first = answers.add_grant(grant("run a marker?")).await.unwrap();
    let second = answers.add_grant(grant("run another?")).await.unwrap();
    let get = async |path: &str| server.ask("GET", path, &read, None).await.json();
    let ids = |page: &Value| {
        let all = page["grants"].as_array().unwrap().iter();
        all.map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (one, two) = (first.id.to_string(), second.id.to_string());
    let all = get("grants").await;
    assert_eq!((ids(&all), &all["more"]), (vec![two.clone(), one.clone()], &json!(false)));
    let shown = &all["grants"][1];
    for (field, is) in [
        ("agent", json!("bot")),
        ("tool", json!("exec")),
        ("workspace", json!("/w")),
        ("hook", json!("gate")),
        ("rules", json!(["exec.any"])),
        ("covers", json!("rule")),
        ("title", json!("run a marker?")),
        ("by", json!("ann")),
        ("uses", json!(0)),
    ] {
        assert_eq!(shown[field], is, "{field}: {shown}");
    }
    assert!(shown.get("revokedAt").is_none(), "{shown}");
    let some = get("grants?limit=1").await;
    assert_eq!((ids(&some), &some["more"]), (vec![two.clone()], &json!(true)));

    let path = format!("grants/{two}");
    assert_eq!(server.ask("DELETE", &path, &read, None).await.status(), 403);
    let revoked = server.ask("DELETE", &path, &approve, None).await;
    assert_eq!((revoked.status(), revoked.json()["revokedAt"].is_i64()), (200, true), "{}", revoked.text());
    // The first revocation stays.
    assert_eq!(server.ask("DELETE", &path, &approve, None).await.json(), revoked.json());
    assert_eq!(ids(&get("grants").await), [two, one.clone()]);
    assert_eq!(get("grants").await["grants"][0], revoked.json());
    let held = get("grants?state=in-force&limit=1").await;
    assert_eq!((ids(&held), &held["more"]), (vec![one], &json!(false)));
    assert_eq!(server.ask("DELETE", "grants/nothing", &approve, None).await.status(), 404);
    let told = get("audit?kind=grant.revoked").await;
    assert!(told["entries"][0]["body"]["by"].as_str().unwrap().contains("ann"), "{told}");
    // Whoever looks for somebody finds what they did, by whatever means.
    assert_eq!(get("audit?kind=grant.revoked&who=ann").await["entries"], told["entries"]);
    assert_eq!(get("audit?kind=grant.revoked&who=an").await["entries"], json!([]));
}

#[tokio::test]
async fn sessions_are_listed_as_they_are() {
    let server = Server::start(house()).await;
    let read = server.person(&[Scope::Read]).await;
    let session = |id: &str, at: i64| Session {
        id: id.into(),
        key: "chat".into(),
        agent: "bot".into(),
        workspace: "/w".to_owned(),
        created_at: Timestamp::from_millis(at),
        updated_at: Timestamp::from_millis(at),
        ended: None,
        resumed_from: None,
        meta: json!({"note": "of its host"}).into(),
    };
    let store = &server.house.store;
    store.create_session(session("s-1", 1_000)).await.unwrap();
    store.create_session(session("s-2", 2_000)).await.unwrap();
    let ended = Timestamp::from_millis(3_000);
    store.end_session(&"s-1".into(), SessionEndReason::Idle, ended).await.unwrap();
    let all = server.ask("GET", "sessions", &read, None).await.json();
    let one = json!({"id": "s-1", "key": "chat", "agent": "bot", "workspace": "/w", "createdAt": 1_000,
        "updatedAt": 3_000, "endedAt": 3_000});
    let two = json!({"id": "s-2", "key": "chat", "agent": "bot", "workspace": "/w", "createdAt": 2_000,
        "updatedAt": 2_000});
    assert_eq!(all, json!({"sessions": [one, two], "more": false}));
    let some = server.ask("GET", "sessions?limit=1", &read, None).await.json();
    assert_eq!(some, json!({"sessions": [one], "more": true}));
}

#[tokio::test]
async fn who_only_has_decisions_is_listed_and_so_is_who_may_have_them() {
    let server = Server::start(house()).await;
    let read = server.person(&[Scope::Read]).await;
    let bot = server.judge("bot").await;
    server.judge("idle").await;
    let (token, made) = NewAccessToken::make("bot".into(), "a test".to_owned(), Timestamp::now(), DAY);
    let made = NewAccessToken { user: Some("carl".to_owned()), scopes: vec![Scope::Judge], ..made };
    let for_carl = server.add(token.expose(), made).await;
    for token in [&bot, &for_carl, &bot] {
        assert_eq!(server.call(token, "", "read").await.status(), 200);
    }
    let listed = async |what: &str| {
        let all = server.ask("GET", what, &read, None).await.json();
        let each = all[what].as_array().unwrap().iter().map(|one| {
            let (decisions, requests) = (one["decisions"].as_u64(), one["requests"].as_u64());
            (one["name"].as_str().unwrap().to_owned(), decisions, requests)
        });
        each.collect::<Vec<_>>()
    };
    let of = |name: &str, decisions: u64| (name.to_owned(), Some(decisions), Some(0_u64));
    assert_eq!(listed("agents").await, [of("bot", 3), of("idle", 0)]);
    // A person who reads is no user on whose behalf an agent asks.
    assert_eq!(listed("users").await, [of("carl", 1)]);
}
