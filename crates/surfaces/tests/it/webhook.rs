use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_hooks::Decision;
use backstop_store::{
    ApprovalRecord, ApprovalState, AskedPeople, NewApproval, PersonName, Route, Timestamp, Uptime,
};
use backstop_surfaces::handle::Handle;
use backstop_surfaces::signature::{SigningSecret, verified};
use backstop_surfaces::{
    Answered, Became, Came, Ceiling, Counts, Desk, Egress, Given, Holder, Posted, Refused, Surface,
    SurfaceError, SurfaceName, Webhook, WebhookSettings,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use ring::hmac;
use serde_json::{Value, json};
use url::Url;

use crate::server::{Asked, Server, nothing, ok};
use crate::stage::{Stage, anywhere, name, people, question, until};

fn secret(of: &str) -> String {
    format!("{of}-{}", "0123456789abcdef".repeat(2))
}

fn webhook(url: &Url, egress: Egress) -> Webhook {
    Webhook::new(WebhookSettings {
        name: name("pager"),
        url: url.join("hook").unwrap(),
        secret: SigningSecret::read(&secret("out")).unwrap(),
        answer_secret: SigningSecret::read(&secret("back")),
        ceiling: Ceiling::Once,
        egress,
    })
}

fn headers(asked: &Asked) -> HeaderMap {
    let lines = asked.head.lines().skip(1).filter_map(|line| line.split_once(": "));
    lines.map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

/// Headers by which somebody signs who is not us.
fn signed(by: &str, id: &str, at: Timestamp, body: &[u8]) -> HeaderMap {
    let seconds = (at.as_millis() / 1_000).to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret(by).as_bytes());
    let tag = hmac::sign(&key, &[id.as_bytes(), b".", seconds.as_bytes(), b".", body].concat());
    let signature = format!("v1,{}", BASE64_STANDARD.encode(tag));
    [("webhook-id", id), ("webhook-timestamp", &seconds), ("webhook-signature", &signature)]
        .into_iter()
        .map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap()))
        .collect()
}

fn answer(handle: &str, user: &str) -> Vec<u8> {
    json!({ "type": "approval.answer", "data": { "handle": handle, "user": user } }).to_string().into_bytes()
}

async fn post(desk: &Arc<Desk>, id: &str, body: &[u8]) -> Result<Given, Refused> {
    let now = Timestamp::now();
    desk.posted("pager", &Posted { headers: &signed("back", id, now, body), body, now }).await
}

#[tokio::test]
async fn a_question_is_delivered_signed_and_answered_by_a_user_for_whom_the_webhook_vouches() {
    let stage = Stage::new();
    let server = Server::start(|_| ok(nothing())).await;
    let desk = stage.desk(webhook(&server.url, anywhere()));
    let _running = desk.run();
    let record = stage.ask("rm -r build").await;
    server.until("hook", 1).await;
    let asked = server.asked().remove(0);
    let ours = SigningSecret::read(&secret("out")).unwrap();
    let id = verified(&ours, &headers(&asked), &asked.body, Timestamp::now()).unwrap().to_owned();
    assert!(id.starts_with("msg_"), "{id}");
    let event = asked.json();
    assert_eq!(event["type"], "approval.requested");
    let data = &event["data"];
    assert_eq!(data["approval"]["arguments"], json!({ "command": "rm -r build" }));
    assert_eq!(data["approval"]["digest"], record.request.digest.to_string());
    assert_eq!(data["link"], format!("https://console.example/-/console/approvals/{}", record.id));
    assert!(!event.to_string().contains(&record.code));
    let handle = |decision: &str| {
        let answers = data["answers"].as_array().unwrap();
        let found = answers.iter().find(|answer| answer["decision"] == decision).unwrap();
        found["handle"].as_str().unwrap().to_owned()
    };
    let (allow, deny) = (handle("allow-once"), handle("deny"));
    // Not signed by the other secret, too old, changed, or about nobody.
    let (body, now) = (answer(&deny, "ann"), Timestamp::now());
    let old = now.before(Duration::from_secs(301));
    for (headers, body) in [
        (signed("out", "a1", now, &body), body.clone()),
        (signed("back", "a1", old, &body), body.clone()),
        (signed("back", "a1", now, &body), answer(&allow, "ann")),
        (HeaderMap::new(), body.clone()),
    ] {
        let posted = Posted { headers: &headers, body: &body, now };
        assert_eq!(desk.posted("pager", &posted).await, Err(Refused::Unsigned));
    }
    let posted = Posted { headers: &signed("back", "a1", now, &body), body: &body, now };
    assert_eq!(desk.posted("other", &posted).await, Err(Refused::NotHere));
    assert_eq!(post(&desk, "a2", &answer(&deny, "eve")).await, Ok(Given::Now(vec![Answered::Stranger])));
    let unknown = answer("AAAAAAAAAAAAAAAAAAAAAA", "ann");
    assert_eq!(post(&desk, "a3", &unknown).await, Ok(Given::Now(vec![Answered::Nothing])));
    for body in [
        b"{".to_vec(),
        b"{}".to_vec(),
        answer("short", "ann"),
        answer(&deny, ""),
        answer(&deny, &"x".repeat(20_000)),
    ] {
        assert!(matches!(post(&desk, "a4", &body).await, Err(Refused::Malformed(_))), "{body:?}");
    }
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
    let counted = Answered::Counts { approval: record.id.clone(), decision: Decision::Deny };
    assert_eq!(post(&desk, "a5", &body).await, Ok(Given::Now(vec![counted])));
    assert_eq!(stage.answered(&record.id).await, (Decision::Deny, "ann: webhook pager says: ann".to_owned()));
    // Replayed, and with a new id.
    assert_eq!(post(&desk, "a5", &body).await, Ok(Given::Now(vec![Answered::Again])));
    let late = post(&desk, "a6", &answer(&allow, "ann")).await.unwrap();
    let Given::Now(late) = late else { panic!("{late:?}") };
    assert!(
        matches!(&late[..], [Answered::Spent { by: Some(by), .. }] if by == "ann: webhook pager says: ann"),
        "{late:?}"
    );
    let resolved = server.until("hook", 2).await.remove(1);
    assert_eq!(
        (&resolved["type"], &resolved["data"]["status"]),
        (&json!("approval.resolved"), &json!("denied"))
    );
    assert!(!resolved.to_string().contains("rm -r build"));
}

#[tokio::test]
async fn a_delivery_is_tried_again_with_its_id() {
    let (stage, tries) = (Stage::new(), AtomicUsize::new(0));
    let server = Server::start(move |_| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => Some((503, "", Vec::new())),
        1 => Some((429, "retry-after: 0\r\n", Vec::new())),
        _ => ok(nothing()),
    })
    .await;
    let _running = stage.desk(webhook(&server.url, anywhere())).run();
    let record = stage.ask("ls").await;
    server.until("hook", 3).await;
    let ids: Vec<_> = server.asked().iter().map(|asked| headers(asked)["webhook-id"].clone()).collect();
    assert!(ids.windows(2).all(|two| two[0] == two[1]), "{ids:?}");
    stage.store.resolve_approval(&record.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    let kinds: Vec<Value> = server.until("hook", 4).await.iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds[3], "approval.resolved");
}

#[derive(Debug, Default)]
struct Tally(Mutex<Vec<String>>);

impl Tally {
    fn add(&self, surface: &SurfaceName, what: &str) {
        self.0.lock().unwrap().push(format!("{surface} {what}"));
    }
}

impl Counts for Tally {
    fn stands(&self, surface: &SurfaceName) {
        self.add(surface, "stands");
    }

    fn message(&self, surface: &SurfaceName, became: Became) {
        self.add(surface, became.as_str());
    }

    fn answer(&self, surface: &SurfaceName, does_count: bool) {
        self.add(surface, if does_count { "counted" } else { "refused" });
    }

    fn listens(&self, surface: &SurfaceName) {
        self.add(surface, "listens");
    }

    fn connected(&self, surface: &SurfaceName, _stands: bool) {
        self.add(surface, "connected");
    }

    fn came(&self, surface: &SurfaceName, came: Came) {
        self.add(surface, came.as_str());
    }
}

#[tokio::test]
async fn what_is_told_withdrawn_and_answered_is_counted() {
    let (stage, tries) = (Stage::new(), AtomicUsize::new(0));
    let server = Server::start(move |_| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => Some((503, "", Vec::new())),
        _ => ok(nothing()),
    })
    .await;
    let tally = Arc::<Tally>::default();
    let holder = Holder::default().counted_by(Arc::<Tally>::clone(&tally));
    let surfaces: Vec<Arc<dyn Surface>> = vec![Arc::new(webhook(&server.url, anywhere()))];
    let desk = Desk::new(stage.engine(), surfaces, None, None, holder);
    let _running = desk.run();
    stage.ask("ls").await;
    let event = server.until("hook", 2).await.remove(1);
    let answers = event["data"]["answers"].as_array().unwrap();
    let deny = answers.iter().find(|answer| answer["decision"] == "deny").unwrap();
    let deny = deny["handle"].as_str().unwrap();
    for (id, user) in [("a1", "eve"), ("a2", "ann"), ("a2", "ann")] {
        post(&desk, id, &answer(deny, user)).await.unwrap();
    }
    let mut counted = until(|| {
        let counted = tally.0.lock().unwrap().clone();
        counted.contains(&"pager withdrawn".to_owned()).then_some(counted)
    })
    .await;
    counted.sort();
    // The delivery that came twice was counted once.
    let expected = ["counted", "failed", "refused", "stands", "told", "withdrawn"];
    assert_eq!(counted, expected.map(|what| format!("pager {what}")));
}

/// Waits until the server was told of a question, and returns the handle of this answer to it.
async fn handle(server: &Server, record: &ApprovalRecord, decision: Decision) -> String {
    until(|| {
        let asked = server.asked();
        let event = asked
            .iter()
            .map(Asked::json)
            .find(|event| event["data"]["approval"]["id"] == record.id.as_str())?;
        let answers = event["data"]["answers"].as_array()?.clone();
        let answer = answers.iter().find(|answer| answer["decision"] == json!(decision))?;
        Some(answer["handle"].as_str()?.to_owned())
    })
    .await
}

#[tokio::test]
async fn an_answer_that_a_failure_kept_from_counting_counts_when_it_comes_again() {
    let stage = Stage::new();
    let server = Server::start(|_| ok(nothing())).await;
    let desk = stage.desk(webhook(&server.url, anywhere()));
    let _running = desk.run();
    let record = stage.ask("ls").await;
    let deny = handle(&server, &record, Decision::Deny).await;
    // As a process leaves it that is killed in between.
    let hash = Handle::read(&deny).unwrap().hash();
    assert!(stage.store.use_handle(&hash, "ann", Timestamp::now()).await.unwrap());
    let counted = Answered::Counts { approval: record.id.clone(), decision: Decision::Deny };
    assert_eq!(post(&desk, "a1", &answer(&deny, "ann")).await, Ok(Given::Now(vec![counted])));
}

#[tokio::test]
async fn a_button_counts_by_the_clock_that_nobody_sets() {
    let Some(now) = Uptime::now() else { return };
    let stage = Stage::new();
    let server = Server::start(|_| ok(nothing())).await;
    let desk = stage.desk(webhook(&server.url, anywhere()));
    let _running = desk.run();
    let asked = NewApproval {
        // The clock was set forward since.
        expires_at: Timestamp::now().before(Duration::from_hours(1)),
        deadline: Some(now.after(Duration::from_hours(1))),
        ..question(&json!({ "command": "ls" }))
    };
    let record = stage.store.create_approval(asked).await.unwrap();
    let allow = handle(&server, &record, Decision::AllowOnce).await;
    let counted = Answered::Counts { approval: record.id.clone(), decision: Decision::AllowOnce };
    assert_eq!(post(&desk, "a1", &answer(&allow, "ann")).await, Ok(Given::Now(vec![counted])));
    assert_eq!(stage.answered(&record.id).await.0, Decision::AllowOnce);
}

#[tokio::test]
async fn a_webhook_has_one_vote_and_takes_no_button_from_those_who_may_answer() {
    let stage = Stage::new();
    let server = Server::start(|_| ok(nothing())).await;
    let desk = stage.desk(webhook(&server.url, anywhere()));
    let _running = desk.run();
    let asked = |barred: Option<&str>| Route {
        asked: AskedPeople::of(["ann", "bob"], &people()),
        votes: NonZeroU32::new(2).unwrap(),
        escalation: None,
        barred: barred.map(PersonName::new),
        told: None,
    };
    let routed =
        |command: &str, route| NewApproval { route: Some(route), ..question(&json!({ "command": command })) };
    let record = stage.store.create_approval(routed("one", asked(None))).await.unwrap();
    let allow = handle(&server, &record, Decision::AllowOnce).await;
    let waits = Answered::Waits { approval: record.id.clone() };
    assert_eq!(post(&desk, "a1", &answer(&allow, "ann")).await, Ok(Given::Now(vec![waits.clone()])));
    assert!(!waits.told().contains("Allowed once"));
    let refused = post(&desk, "a2", &answer(&allow, "bob")).await.unwrap();
    assert!(matches!(&refused, Given::Now(all) if matches!(&all[..], [Answered::Refused(_)])), "{refused:?}");
    // It is not used up by that.
    let hash = Handle::read(&allow).unwrap().hash();
    assert!(stage.store.use_handle(&hash, "bob", Timestamp::now()).await.unwrap());
    let record = stage.store.create_approval(routed("two", asked(Some("carl")))).await.unwrap();
    let allow = handle(&server, &record, Decision::AllowOnce).await;
    let refused = post(&desk, "a3", &answer(&allow, "ann")).await.unwrap();
    assert!(matches!(&refused, Given::Now(all) if matches!(&all[..], [Answered::Refused(_)])), "{refused:?}");
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
}

#[tokio::test]
async fn what_fails_each_time_keeps_nothing_else_back() {
    let stage = Stage::new();
    let server = Server::start(|asked| {
        let text = String::from_utf8_lossy(&asked.body);
        let is_broken = text.contains("poison") || text.contains("approval.resolved");
        if is_broken { Some((503, "", Vec::new())) } else { ok(nothing()) }
    })
    .await;
    let _running = stage.desk(webhook(&server.url, anywhere())).run();
    stage.ask("poison").await;
    server.until("hook", 1).await;
    let told = async |command: &str| {
        let record = stage.ask(command).await;
        until(|| {
            let text = |asked: &Asked| String::from_utf8_lossy(&asked.body).contains(command);
            server.asked().iter().any(text).then_some(())
        })
        .await;
        record
    };
    // A question that can't be told comes before it.
    let second = told("second").await;
    stage.store.resolve_approval(&second.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    // A message that can't be withdrawn comes before it.
    until(|| server.asked().iter().any(|asked| asked.json()["type"] == "approval.resolved").then_some(()))
        .await;
    told("third").await;
}

#[test]
fn an_address_is_shown_to_nobody() {
    let url = "https://pager.example/sesame/".parse().unwrap();
    let shown = format!("{:?}", webhook(&url, anywhere()));
    assert!(shown.contains("pager") && !shown.contains("sesame") && !shown.contains("0123456789"), "{shown}");
}

#[tokio::test]
async fn a_delivery_goes_nowhere_but_where_the_operator_says() {
    let server = Server::start(|_| Some((307, "location: /elsewhere\r\n", Vec::new()))).await;
    let error = webhook(&server.url, anywhere()).test("").await.unwrap_err();
    assert!(matches!(&error, SurfaceError::Never { why } if why.contains("redirect")), "{error}");
    assert_eq!(server.asked().len(), 1, "it is not followed");
    let error = webhook(&server.url, Egress::Public).test("").await.unwrap_err();
    assert!(error.to_string().contains("not on the public internet"), "{error}");
    assert_eq!(server.asked().len(), 1, "nothing is sent to a private address");
}
