//! What pages show, and what they leave alone.

use backstop_engine::{Engine, HookMode, HookOptions, OperatorSettings, Snapshot};
use backstop_gateway::{Metrics, Pricing};
use backstop_hooks::conversation::{Message, Part, Role, TokenUsage, ToolCall, ToolResult};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{
    AgentId, CallContext, HookError, Json, OwnerId, Params, Reason, SessionId, ToolName, hook_fn,
};
use backstop_store::{
    AuditBody, Charge, Durability, LeaseHolder, NewAuditEntry, NewEntry, ReservationId, Session, SqliteStore,
};
use futures_util::FutureExt as _;

use super::*;
use crate::inspect::support::Receipts;

impl Server {
    /// What a person sees of a page.
    pub(super) async fn page(&self, person: &Person, path: &str) -> String {
        let page = self.get(path, &format!("cookie: {}\r\n", person.cookie)).await;
        assert_eq!(page.status(), 200, "{path}: {}", page.text());
        page.text()
    }

    /// Tries a call as soon as the person may.
    pub(super) async fn tries(&self, person: &Person, fields: &[(&str, &str)]) -> Answer {
        within(async {
            loop {
                let answer = self.tries_now(person, fields).await;
                if answer.status() != 429 {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await
    }

    async fn tries_now(&self, person: &Person, fields: &[(&str, &str)]) -> Answer {
        let fields = [&[("form", person.form.as_str())], fields].concat();
        self.post("/try", &format!("{SAME}cookie: {}\r\n", person.cookie), &fields).await
    }

    /// The entries of the trail but those about who signs in, and about what is tried.
    async fn entries(&self) -> Vec<backstop_store::AuditEntry> {
        let mut entries = self.house.store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap();
        entries
            .retain(|entry| !entry.kind.starts_with("console.") && !entry.kind.starts_with("access_token."));
        entries
    }
}

#[tokio::test]
async fn a_call_that_is_tried_is_judged_and_nothing_comes_of_it() {
    let server = Server::start().await;
    server.house.judge::<BeforeToolCall>("words", |event| {
        let command = event.params.get("command").and_then(|command| command.as_str());
        command
            .filter(|command| command.contains("forbidden"))
            .map(|_| ToolCallOutcome::block("<b>not that</b>"))
    });
    let before = server.entries().await;
    let person = server.person(&[Scope::Read]).await;
    assert!(server.page(&person, "/try").await.contains("Judge it"));
    // A gate asks about each `exec`, and another one stops some.
    let asked = server.tries(&person, &[("command", "a marker\r\nof two lines"), ("agent", "bot")]).await;
    assert_eq!(asked.status(), 200, "{}", asked.text());
    let text = asked.text();
    assert!(text.contains("A person would be asked") && text.contains("run a marker?"), "{text}");
    assert!(text.contains("a marker\nof two lines</textarea>"), "what was typed stays: {text}");
    let blocked = server.tries(&person, &[("command", "forbidden")]).await.text();
    assert!(blocked.contains("It would be stopped"), "{blocked}");
    assert!(blocked.contains("&lt;b&gt;not that") && !blocked.contains("<b>not"), "{blocked}");
    let passed = server.tries(&person, &[("tool", "other"), ("arguments", r#"{"x": [1, 2]}"#)]).await.text();
    assert!(passed.contains("It would run as it is"), "{passed}");
    // What can't be read is not judged.
    for wrong in [
        &[][..],
        &[("command", "x"), ("arguments", "{}")],
        &[("arguments", "{}")],
        &[("tool", "other"), ("arguments", "[1]")],
        &[("tool", "other"), ("arguments", "{\"x\": ")],
        &[("command", "x"), ("agent", &"a".repeat(2_000))],
    ] {
        let refused = server.tries(&person, wrong).await;
        assert!(refused.status() == 400 && !refused.text().contains("Decision"), "{wrong:?}");
    }
    assert_eq!(server.entries().await, before, "no receipt, and no question");
    let answers = server.house.engine.answer_store();
    assert!(answers.approvals(ApprovalFilter::All, 9).await.unwrap().is_empty());
    let entries = server.house.store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap();
    let tried: Vec<_> = entries.iter().filter(|entry| entry.kind == "console.tried").collect();
    let tools: Vec<_> = tried.iter().map(|entry| entry.body.get("tool").unwrap().clone()).collect();
    assert_eq!(tools, [json!("exec"), json!("exec"), json!("other")], "who tried what is in the trail");
    assert!(!serde_json::to_string(&tried).unwrap().contains("forbidden"), "and not the text");
    // Whoever may not look may not try, and a link tries nothing.
    let approver = server.person(&[Scope::Approve]).await;
    assert_eq!(server.tries(&approver, &[("command", "x")]).await.status(), 403);
    let cookie = format!("{SAME}cookie: {}\r\n", person.cookie);
    assert_eq!(server.post("/try", &cookie, &[("command", "x")]).await.status(), 403);
    assert!(!server.page(&person, "/try?command=forbidden").await.contains("Decision"));
}

#[tokio::test]
async fn a_trial_is_in_the_trail_before_it_is_judged_and_a_token_has_one_a_second() {
    let server = Server::start().await;
    let (store, told) = (Arc::clone(&server.house.store), Arc::new(std::sync::Mutex::new(Vec::new())));
    let seen = Arc::clone(&told);
    server.house.judge::<BeforeToolCall>("looks", move |_| {
        // What is kept in memory is read at once.
        let entries = store.audit(&AuditFilter::default(), 0, 1_000).now_or_never().unwrap().unwrap();
        seen.lock().unwrap().push(entries.iter().filter(|entry| entry.kind == "console.tried").count());
        None
    });
    let person = server.person(&[Scope::Read]).await;
    let many = (0..8).map(|_| server.tries_now(&person, &[("command", "x")]));
    let answers = futures_util::future::join_all(many).await;
    let passed = answers.iter().filter(|answer| answer.status() == 200).count();
    let often = answers.iter().find(|answer| answer.status() == 429).unwrap();
    assert!(
        often.text().contains("one call a second") && often.head().contains("retry-after: 1"),
        "{}",
        often.head()
    );
    assert!(passed >= 1 && answers.iter().all(|answer| matches!(answer.status(), 200 | 429)));
    assert_eq!(*told.lock().unwrap(), (1..=passed).collect::<Vec<_>>(), "what is refused leaves no entry");
}

#[tokio::test]
async fn a_hook_in_shadow_is_shown_as_one_with_what_it_would_do() {
    let server = Server::start().await;
    let blocks = hook_fn::<BeforeToolCall, _>(|_, _| {
        let reason = Reason::new("no").by(["house.rule".into()]);
        Ok(Some(ToolCallOutcome {
            block: Some(true),
            block_reason: Some(reason),
            ..ToolCallOutcome::default()
        }))
    });
    let quiet = hook_fn::<BeforeToolCall, _>(|_, _| Ok(None));
    for (id, hook) in [("blocks", blocks), ("quiet", quiet)] {
        let options = HookOptions::new(OwnerId::operator()).id(id).mode(HookMode::Shadow);
        server.house.engine.registry().on::<BeforeToolCall>(hook, options).unwrap();
    }
    let person = server.person(&[Scope::Read]).await;
    let tried = words(&server.tries(&person, &[("tool", "other"), ("arguments", "{}")]).await.text());
    assert!(tried.contains("It would run as it is"), "{tried}");
    assert!(tried.contains("shadow would block blocks") && tried.contains("by house.rule"), "{tried}");
    assert!(tried.contains("shadow no objection quiet"), "{tried}");
    let policy = words(&server.page(&person, "/policy").await);
    assert!(policy.contains("blocks shadow before_tool_call"), "{policy}");
    assert_eq!(policy.matches(" shadow ").count(), 2, "the gates that count are none: {policy}");
}

#[tokio::test]
async fn a_trial_sees_no_file_and_no_conversation() {
    let server = Server::start().await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let looks = hook_fn::<BeforeToolCall, _>(move |_, cx| {
        let eyes = cx.call.sight.lent().unwrap();
        let looks = (eyes.file("/etc/hostname"), eyes.leads_to("/proc/self/../x/."));
        told.lock().unwrap().push((cx.call.session_id.clone().unwrap(), looks));
        Ok(None)
    });
    server.house.on::<BeforeToolCall>("looks", looks);
    let person = server.person(&[Scope::Admin]).await;
    for _ in 0..2 {
        assert_eq!(server.tries(&person, &[("command", "sh script.sh")]).await.status(), 200);
    }
    let seen = seen.lock().unwrap();
    let [first, second] = seen.as_slice() else { panic!("{}", seen.len()) };
    assert_ne!(first.0, second.0, "each has a conversation of its own");
    assert_eq!(first.1, (backstop_hooks::Seen::Unreadable, Some("/proc/x".to_owned())));
}

/// A cent for each token of the model `m`.
#[derive(Debug)]
struct Penny;

impl Pricing for Penny {
    fn micros(&self, model: &str, usage: TokenUsage) -> Option<u64> {
        (model == "m").then_some(usage.total() * 10_000)
    }
}

const ANSWER: &str = r#"{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"words"}],"stop_reason":"end_turn","usage":{"input_tokens":1200,"output_tokens":34}}"#;

/// A server that counts, in front of a model.
async fn counting(upstream: &Upstream) -> Server {
    let (metrics, store) = (Metrics::new("0"), Arc::new(SqliteStore::in_memory()));
    let engine = Engine::builder()
        .snapshot(Snapshot::empty(OperatorSettings::default()))
        .store(Arc::<SqliteStore>::clone(&store))
        .sink(Arc::new(metrics.clone()))
        .build();
    let house = House { engine, store, receipts: Receipts::default() };
    let mut settings = settings_of(&upstream.url());
    settings.pricing = Some(Arc::new(Penny));
    settings.known_models = vec!["m".to_owned()];
    settings.agents.insert(AgentId::new("coder"), secret("coder-token-0123456789"));
    settings.budgets.insert(("a day".to_owned(), "tokens".to_owned()), 40_000);
    Server::of(house, settings, Observers { metrics: Some(metrics), ..Observers::default() }).await
}

/// The text of a page without its marks.
fn words(page: &str) -> String {
    let parts = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    parts.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn what_agents_use_is_summed_up_beside_their_budgets() {
    let upstream = Upstream::start(|_| Script::json("200 OK", ANSWER)).await;
    let server = counting(&upstream).await;
    let person = server.person(&[Scope::Read]).await;
    let nothing = words(&server.page(&person, "/money").await);
    assert!(nothing.contains("No budget is in use") && !nothing.contains("By agent"), "{nothing}");
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    for _ in 0..2 {
        let asked = post("/v1/messages", body).replace(TOKEN, "coder-token-0123456789");
        assert_eq!(talk(&server.gateway, asked).await.status(), 200);
    }
    let charge = |counter: &str, until: Option<Timestamp>, amount: u64| Charge {
        counter: counter.into(),
        since: Timestamp::now(),
        until,
        amount,
        limit: 99_999,
    };
    let later = Some(Timestamp::now().after(Duration::from_secs(3_600)));
    let charges = vec![
        charge("budget/a day/coder/*/*/tokens", later, 10_000),
        charge("budget/<i>old/*/*/*/requests", None, 7),
        charge("budget/over/*/*/*/requests", Some(Timestamp::now()), 7),
        charge("loop/x", later, 1),
    ];
    server.house.store.reserve(&ReservationId::new("r"), charges).await.unwrap();
    let page = server.page(&person, "/money").await;
    let text = words(&page.replace('\u{a0}', ""));
    assert!(text.contains("2 requests, 2400 tokens read and 68 written, 24.6800 of money"), "{text}");
    assert!(text.contains("By agent") && text.contains("coder 2 2400 68 24.6800 100 %"), "{text}");
    assert!(text.contains("m 2 2400 68 24.6800 100 %") && text.contains("none 2 2400"), "{text}");
    assert!(text.contains("a day agent coder 10000 tokens 10000 tokens 40000 tokens 25 %"), "{text}");
    assert!(
        text.contains("7 requests 7 requests no more in force") && page.contains("&lt;i&gt;old"),
        "{text}"
    );
    assert!(!text.contains("over ") && !text.contains("loop"), "what is over, or no budget: {text}");
    let approver = server.person(&[Scope::Approve]).await;
    assert_eq!(server.get("/money", &format!("cookie: {}\r\n", approver.cookie)).await.status(), 403);
}

#[tokio::test]
async fn hooks_and_rules_are_shown_with_what_became_of_them() {
    let upstream = Upstream::start(|_| Script::json("200 OK", ANSWER)).await;
    let server = counting(&upstream).await;
    let judge = hook_fn::<BeforeToolCall, _>(|event, _| match event.tool_name.canonical() {
        "bad" => Ok(Some(ToolCallOutcome {
            block: Some(true),
            block_reason: Some(Reason::new("no").by(["test.bad".into()])),
            ..ToolCallOutcome::default()
        })),
        "broken" => Err(HookError::failed("no")),
        _ => Ok(None),
    });
    server.house.on::<BeforeToolCall>("judge", judge);
    for tool in ["bad", "bad", "broken", "good"] {
        let event = ToolCallEvent::new(ToolName::new(tool), Params::default());
        drop(server.house.engine.decide::<BeforeToolCall>(event, &CallContext::default()).await);
    }
    let person = server.person(&[Scope::Read]).await;
    let page = server.page(&person, "/policy").await;
    assert!(page.contains("judge, last hour: 1 of 4 answers failed"), "{page}");
    let text = words(&page);
    // Asked, blocked, wants a person, rewrote, failed.
    let row = text.split_once("judge before_tool_call").unwrap().1;
    assert!(row.contains(" ms 4 2 0 0 1 25 % "), "{text}");
    assert!(text.contains("test.bad 2 0 0 0"), "{text}");
    let uncounted = Server::start().await;
    let person = uncounted.person(&[Scope::Read]).await;
    assert!(uncounted.page(&person, "/policy").await.contains("runs without metrics"));
}

#[tokio::test]
async fn a_session_is_shown_with_what_was_judged_and_said_in_it() {
    let server = Server::start().await;
    let (id, now) = ("s 1/<b>&x", Timestamp::now());
    let key = SessionId::from(id.to_owned());
    let session = Session {
        id: key.clone(),
        key: "chat".to_owned().into(),
        agent: AgentId::new("bot"),
        workspace: "/work".to_owned(),
        created_at: now,
        updated_at: now,
        ended: None,
        resumed_from: None,
        meta: Json::default(),
    };
    let (store, holder) = (&server.house.store, LeaseHolder::new("me"));
    store.create_session(session).await.unwrap();
    store.lease_session(&key, &holder, Duration::from_secs(60), now).await.unwrap();
    let call = ToolCall {
        id: "c1".to_owned().into(),
        name: "exec".to_owned(),
        arguments: Params::from_value(json!({"command": "a <marker>"})).unwrap(),
        malformed: None,
        meta: None,
    };
    let result = ToolResult {
        tool_call_id: "c1".to_owned().into(),
        tool_name: None,
        content: vec![Part::Text { text: "r".into(), meta: None }; 1_000],
        is_error: false,
        details: None,
        meta: None,
    };
    let message =
        |role, part| Message { role, content: vec![part].into(), id: None, run_id: None, meta: None };
    let text = |text: &str| Part::Text { text: text.into(), meta: None };
    let messages = [
        message(Role::User, text("please <i>do</i> it")),
        message(Role::Assistant, Part::ToolCall(call)),
        message(Role::User, text(&"x".repeat(100_000))),
        Message { content: vec![text(""); 1_000].into(), ..message(Role::User, text("")) },
        Message {
            content: (0..9).map(|_| text(&"y&".repeat(3_000))).collect::<Vec<_>>().into(),
            ..message(Role::User, text(""))
        },
        message(Role::Tool, Part::ToolResult(result)),
    ];
    let entries = messages
        .into_iter()
        .chain((0..60).map(|number| message(Role::User, text(&format!("line {number}.")))));
    let entries = entries.enumerate().map(|(number, message)| NewEntry {
        id: format!("m{number}").into(),
        run: None,
        message,
        at: now,
        tokens: None,
    });
    store.append(&key, &holder, entries.collect()).await.unwrap();
    let receipt = |number: usize| {
        let body = json!({
            "point": "before_tool_call", "verdict": "block", "tool": format!("tool-{number}."), "sessionId": id,
            "toolCallId": (number.is_multiple_of(50)).then_some("c1"),
            "blocked": {"cause": "decision", "hook": "gate", "reason": {"rules": ["test.rule"]}},
            "steps": [{"hook": "masks", "said": "rewrote", "spans": [{"kind": "e-mail", "replaced": 2, "reported": 0}]}],
        });
        NewAuditEntry {
            at: now,
            kind: "receipt".to_owned(),
            session: Some(key.clone()),
            run: None,
            body: AuditBody::from(body),
        }
    };
    store.append_audit_all((0..120).map(receipt).collect(), Durability::Soon).await.unwrap();
    let person = server.person(&[Scope::Read]).await;
    let list = server.page(&person, "/sessions").await;
    assert!(list.contains("The trail names none here"), "what is kept is no other one: {list}");
    let link = list.split_once("href=\"/-/console/sessions/one?").unwrap().1.split('"').next().unwrap();
    let page = server.page(&person, &format!("/sessions/one?{link}")).await;
    let text = words(&page);
    assert!(
        page.contains("tool-119.") && page.contains("tool-20.") && !page.contains("tool-19."),
        "the latest"
    );
    assert!(
        text.contains("stopped: gate by test.rule") && text.contains("rewritten: masks (2 × e-mail)"),
        "{text}"
    );
    assert!(page.find("tool-20.").unwrap() < page.find("tool-119.").unwrap(), "in order");
    assert!(
        page.contains("line 59.") && page.contains("line 10.") && !page.contains("line 9."),
        "the latest"
    );
    // Both go on backwards.
    let earlier: Vec<_> = page.split("rel=\"prev\" href=\"/-/console").skip(1).collect();
    let [judged, said] = earlier.as_slice() else { panic!("{}", earlier.len()) };
    let path = |link: &str| link.split('"').next().unwrap().replace("&amp;", "&");
    let page = server.page(&person, &path(judged)).await;
    assert!(page.contains("tool-19.") && page.contains("tool-0.") && !page.contains("tool-20."), "{page}");
    let page = server.page(&person, &path(said)).await;
    assert!(page.contains("please &lt;i&gt;do") && page.contains("a &lt;marker&gt;"), "{page}");
    assert!(page.contains("too large to be shown") && !page.contains("xxxxxxxxxx"), "{page}");
    assert!(page.contains("line 9.") && !page.contains("line 10."));
    // The call, and what was judged of it, lead to each other.
    for (link, place) in [("href=\"#entry-", "id=\"entry-"), ("href=\"#message-", "id=\"message-")] {
        let to: Vec<&str> = page.split(link).skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let is_there = |to: &&str| page.contains(&format!("{place}{to}\""));
        assert!(to.len() >= 2 && to.iter().all(is_there), "{to:?}: {page}");
    }
    // Of many parts some are shown, and it is said how many there are besides.
    let text = words(&page);
    assert!(text.contains("and 900 parts more") && text.contains("and 901 parts more"), "{text}");
    assert_eq!(page.matches("y&amp;").count(), 8_000, "four texts of nine");
    assert!(text.contains("and 2000 bytes more") && text.contains("and 6000 bytes more"), "{text}");
    assert!(page.len() < 300_000, "{}", page.len());
    // One of a host that keeps its own.
    let cookie = format!("cookie: {}\r\n", person.cookie);
    for (path, status) in [("?id=nothing", 404), ("", 404), ("?id=x&id=y", 404)] {
        assert_eq!(server.get(&format!("/sessions/one{path}"), &cookie).await.status(), status, "{path}");
    }
    let approver = server.person(&[Scope::Approve]).await;
    let cookie = format!("cookie: {}\r\n", approver.cookie);
    assert_eq!(server.get(&format!("/sessions/one?{link}"), &cookie).await.status(), 403);
}

#[tokio::test]
async fn a_trail_without_checkpoints_is_not_said_to_be_what_was_written() {
    // One in memory has none.
    let server = Server::start().await;
    let person = server.person(&[Scope::Read]).await;
    let headers = format!("{SAME}cookie: {}\r\n", person.cookie);
    let looked = server.post("/audit/verify", &headers, &[("form", person.form.as_str())]).await;
    assert_eq!(looked.status(), 303);
    let text = words(&server.page(&person, "/audit").await);
    assert!(text.contains("was found to be wrong, and not all of it can be proved"), "{text}");
    assert!(text.contains("No witness was compared here") && !text.contains("what was written"), "{text}");
}

#[tokio::test]
async fn the_trail_is_looked_through_and_what_is_found_is_exported() {
    let server = Server::start().await;
    let receipt = |verdict: &str, rule: &str, days: i64| {
        let body = json!({
            "point": "before_tool_call", "verdict": verdict, "tool": format!("tool-{rule}"),
            "agentId": format!("bot-{days}"), "workspace": format!("/work/{days}/app"),
            "requester": {"senderId": format!("ann-{days}")},
            "blocked": {"cause": "decision", "hook": "gate", "reason": {"rules": [rule]}},
        });
        let at = Timestamp::from_millis(days * 86_400_000);
        let (kind, body) = ("receipt".to_owned(), AuditBody::from(body));
        NewAuditEntry { at, kind, session: None, run: None, body }
    };
    let receipts = [("block", "test.one", 0), ("block", "test.two", 1), ("pass", "test.one", 1)];
    let receipts = receipts.map(|(verdict, rule, days)| receipt(verdict, rule, days));
    server.house.store.append_audit_all(receipts.into(), Durability::Soon).await.unwrap();
    let person = server.person(&[Scope::Read]).await;
    let cookie = format!("cookie: {}\r\n", person.cookie);
    for (query, found) in [
        ("verdict=block", 2),
        ("rule=test.one", 2),
        ("verdict=pass&rule=test.two", 0),
        ("tool=tool-test.one", 2),
        ("agent=bot-1", 2),
        ("workspace=/work/0", 1),
        ("who=ann-1&tool=tool-test.two", 1),
        ("who=bot-1", 0),
        ("kind=receipt&since=1970-01-02", 2),
        ("kind=receipt&through=1970-01-01", 1),
        ("since=1970-01-01&through=1970-01-02&text=TOOL-test.two", 1),
    ] {
        let page = server.page(&person, &format!("/audit?{query}")).await;
        assert_eq!(page.matches("class=\"number\"").count(), found, "{query}: {page}");
        let export = server.get(&format!("/audit.jsonl?{query}"), &cookie).await;
        assert_eq!(export.status(), 200);
        assert_eq!(export.text().matches("\"kind\":\"receipt\"").count(), found, "{query}");
    }
    for path in ["/audit?since=yesterday", "/audit.jsonl?through=2026-02-30", "/audit?verdict=blocked"] {
        assert_eq!(server.get(path, &cookie).await.status(), 400, "{path}");
    }
    // A trail in memory has nothing that could be kept elsewhere.
    assert!(server.page(&person, "/audit").await.contains("has no signed checkpoints"));
    assert_eq!(server.get("/audit/checkpoint", &cookie).await.status(), 404);
}

#[tokio::test]
async fn sessions_of_other_hosts_are_listed_by_what_was_judged_in_them() {
    let server = Server::start().await;
    let receipt = |session: Option<&str>, host: &str| {
        let body = json!({"point": "before_tool_call", "verdict": "pass", "agentId": "<b>bot", "host": host, "client": "claude"});
        let session = session.map(|id| SessionId::from(id.to_owned()));
        let (at, kind) = (Timestamp::now(), "receipt".to_owned());
        NewAuditEntry { at, kind, session, run: None, body: AuditBody::from(body) }
    };
    let long = "l".repeat(400);
    let receipts =
        [(Some("a b"), "hook"), (Some("a b"), "hook"), (Some(long.as_str()), "proxy"), (None, "proxy")];
    let receipts = receipts.map(|(session, host)| receipt(session, host));
    server.house.store.append_audit_all(receipts.into(), Durability::Soon).await.unwrap();
    let person = server.person(&[Scope::Read]).await;
    let page = server.page(&person, "/sessions").await;
    let text = words(&page);
    assert!(text.contains("&lt;b&gt;bot a b hook, claude 2 "), "{text}");
    assert!(text.contains("proxy, claude 1 ") && !text.contains("was read back"), "{text}");
    let links: Vec<&str> = page.split("href=\"/-/console/sessions/one?").skip(1).collect();
    assert_eq!(links.len(), 2, "{page}");
    for link in links {
        let link = link.split('"').next().unwrap();
        let page = server.page(&person, &format!("/sessions/one?{link}")).await;
        assert!(page.contains("no conversation is kept") && page.contains("id=\"entry-"), "{page}");
    }
}

#[tokio::test]
async fn what_is_kept_is_no_other_session_however_many_are_kept() {
    let server = Server::start().await;
    let store = &server.house.store;
    for number in 0..201 {
        let at = Timestamp::from_millis(number);
        let session = Session {
            id: format!("kept-{number}.").into(),
            key: format!("chat-{number}").into(),
            agent: AgentId::new("bot"),
            workspace: "/work".to_owned(),
            created_at: at,
            updated_at: at,
            ended: None,
            resumed_from: None,
            meta: Json::default(),
        };
        store.create_session(session).await.unwrap();
    }
    let receipt = |session: &str| {
        let body = AuditBody::from(json!({"point": "before_tool_call", "verdict": "pass"}));
        let (kind, session) = ("receipt".to_owned(), Some(SessionId::from(session.to_owned())));
        NewAuditEntry { at: Timestamp::now(), kind, session, run: None, body }
    };
    let receipts = vec![receipt("kept-0."), receipt("kept-200."), receipt("other.")];
    store.append_audit_all(receipts, Durability::Soon).await.unwrap();
    let person = server.person(&[Scope::Read]).await;
    let page = server.page(&person, "/sessions").await;
    let (kept, others) = page.split_once("id=\"others\"").unwrap();
    assert!(kept.contains("kept-200.") && !kept.contains("kept-0."), "the latest: {kept}");
    assert!(others.contains("other.") && !others.contains("kept-"), "{others}");
}
