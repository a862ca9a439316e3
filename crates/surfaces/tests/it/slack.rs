use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{Decision, Secret};
use backstop_store::{ApprovalState, Timestamp};
use backstop_surfaces::{
    Ceiling, Desk, Given, Posted, Refused, Slack, SlackAnswers, SlackSettings, Surface as _, SurfaceError,
};
use http::HeaderMap;
use ring::hmac;
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use crate::server::{Server, ok};
use crate::stage::{Stage, anywhere, desk, name, question, token};

const SIGNING: &str = "8f742231b10e8888";

fn app(url: &Url) -> Slack {
    Slack::new(SlackSettings {
        name: name("ops"),
        api: url.join("/api/").unwrap(),
        app: "A1".to_owned(),
        token: Secret::new(token()),
        answers: SlackAnswers::Posted(Secret::new(SIGNING.to_owned())),
        channels: vec!["C1".to_owned()],
        ceiling: Ceiling::Once,
        egress: anywhere(),
    })
}

async fn service() -> Server {
    Server::start(|_| ok(json!({ "ok": true, "channel": "C1", "ts": "1700000000.000100" }))).await
}

fn signed(secret: &str, at: Timestamp, body: &[u8]) -> HeaderMap {
    let seconds = (at.as_millis() / 1_000).to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, &[b"v0:", seconds.as_bytes(), b":", body].concat());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut headers = HeaderMap::new();
    headers.insert("x-slack-request-timestamp", seconds.parse().unwrap());
    headers.insert("x-slack-signature", format!("v0={hex}").parse().unwrap());
    headers
}

fn press(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut payload = json!({
        "type": "block_actions", "api_app_id": "A1", "team": { "id": "T1" },
        "user": { "id": "U1", "username": "ann", "team_id": "T1" }, "channel": { "id": "C1" },
        "container": { "message_ts": "1700000000.000100" }, "trigger_id": "t1", "response_url": "https://elsewhere.example/",
        "actions": [{ "action_id": "backstop_deny", "value": "", "action_ts": "1" }],
    });
    change(&mut payload);
    form_urlencoded::Serializer::new(String::new())
        .append_pair("payload", &payload.to_string())
        .finish()
        .into_bytes()
}

async fn post(desk: &Arc<Desk>, body: &[u8]) -> Result<Given, Refused> {
    let now = Timestamp::now();
    desk.posted("ops", &Posted { headers: &signed(SIGNING, now, body), body, now }).await
}

pub(crate) fn handle(message: &Value, action: &str) -> String {
    let blocks = message["blocks"].as_array().unwrap();
    let elements = blocks.iter().filter_map(|block| block["elements"].as_array()).flatten();
    let mut found = elements
        .filter(|element| element["action_id"] == action)
        .map(|element| element["value"].as_str().unwrap());
    found.next_back().unwrap().to_owned()
}

#[tokio::test]
async fn a_question_is_told_and_answered_by_who_slack_says_pressed() {
    let (stage, server) = (Stage::new(), service().await);
    let desk = stage.desk(app(&server.url));
    let _running = desk.run();
    let record = stage.ask("rm -r build && <!channel>").await;
    let message = server.until("chat.postMessage", 1).await.remove(0);
    assert!(
        server.asked()[0].head.contains(&format!("authorization: Bearer {}", token())),
        "{:?}",
        server.asked()[0]
    );
    assert_eq!(message["channel"], "C1");
    assert!(message["text"].as_str().unwrap().contains("&lt;!channel&gt;"), "{message}");
    for block in message["blocks"].as_array().unwrap() {
        let text = &block["text"];
        assert!(text.is_null() || text["type"] == "plain_text", "{block}");
    }
    assert!(message["blocks"].to_string().contains("rm -r build"), "{message}");
    let (allow, deny) = (handle(&message, "backstop_allow_once"), handle(&message, "backstop_deny"));
    let pressed = |value: &str, trigger: &str| {
        let (value, trigger) = (value.to_owned(), trigger.to_owned());
        press(|payload| {
            payload["actions"][0]["value"] = value.into();
            payload["trigger_id"] = trigger.into();
        })
    };
    let (body, now) = (pressed(&deny, "t1"), Timestamp::now());
    let away = Duration::from_secs(301);
    for (headers, body) in [
        (signed("another secret", now, &body), body.clone()),
        (signed(SIGNING, now.before(away), &body), body.clone()),
        (signed(SIGNING, now.after(away), &body), body.clone()),
        (signed(SIGNING, now, &body), pressed(&allow, "t1")),
        (HeaderMap::new(), body.clone()),
    ] {
        let posted = Posted { headers: &headers, body: &body, now };
        assert_eq!(desk.posted("ops", &posted).await, Err(Refused::Unsigned));
    }
    for (body, told) in [
        (press(|payload| payload["api_app_id"] = "A2".into()), "another app"),
        (press(|payload| payload["user"] = json!({ "name": "ann" })), "does not say who"),
        (press(|payload| payload["channel"]["id"] = "x".repeat(1_000).into()), "too long"),
        (b"payload=%7B".to_vec(), "not JSON"),
        (b"".to_vec(), "neither"),
    ] {
        let refused = post(&desk, &body).await.unwrap_err();
        assert!(refused.to_string().contains(told), "{refused}");
    }
    // A member of another workspace in a shared channel, somebody else, another channel, and a button of nobody's.
    let others: [fn(&mut Value); 3] = [
        |payload| payload["user"]["team_id"] = "T2".into(),
        |payload| payload["user"]["id"] = "U2".into(),
        |payload| payload["channel"]["id"] = "C2".into(),
    ];
    for (number, other) in others.into_iter().enumerate() {
        let body = press(|payload| {
            payload["actions"][0]["value"] = deny.as_str().into();
            payload["trigger_id"] = format!("o{number}").into();
            other(payload);
        });
        assert_eq!(post(&desk, &body).await, Ok(Given::Later));
    }
    assert_eq!(
        post(&desk, &press(|payload| payload["actions"][0]["value"] = record.id.as_str().into())).await,
        Ok(Given::Later)
    );
    server.until("chat.postEphemeral", 4).await;
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
    // The press that counts, and the same delivery twice more.
    for _ in 0..3 {
        assert_eq!(post(&desk, &pressed(&deny, "t2")).await, Ok(Given::Later));
    }
    assert_eq!(
        stage.answered(&record.id).await,
        (Decision::Deny, "ann: member T1/U1 of Slack, by surface ops".to_owned())
    );
    assert_eq!(post(&desk, &pressed(&allow, "t3")).await, Ok(Given::Later));
    let told = server.until("chat.postEphemeral", 8).await;
    let count = |text: &str| told.iter().filter(|told| told["text"].as_str().unwrap().contains(text)).count();
    assert_eq!((count("Denied."), count("came before"), count("was first")), (1, 2, 1), "{told:?}");
    assert!(told.iter().all(|told| told["channel"] == "C1" || told["channel"] == "C2"));
    let update = server.until("chat.update", 1).await.remove(0);
    assert_eq!((&update["channel"], &update["ts"]), (&json!("C1"), &json!("1700000000.000100")));
    assert!(!update.to_string().contains(&deny) && update.to_string().contains("Denied by ann"), "{update}");
}

#[tokio::test]
async fn a_command_is_read_of_who_slack_says_wrote_it() {
    let (stage, server) = (Stage::new(), service().await);
    let desk = stage.desk(app(&server.url));
    let _running = desk.run();
    let record = stage.store.create_approval(question(&json!({ "command": "ls" }))).await.unwrap();
    server.until("chat.postMessage", 1).await;
    let written = |text: &str, user: &str, trigger: &str| {
        form_urlencoded::Serializer::new(String::new())
            .append_pair("command", "/approve")
            .append_pair("text", text)
            .extend_pairs([
                ("api_app_id", "A1"),
                ("team_id", "T1"),
                ("user_id", user),
                ("channel_id", "C1"),
                ("trigger_id", trigger),
            ])
            .finish()
            .into_bytes()
    };
    let text = format!("allow {}", record.id);
    let typed = |user: &str, trigger: &str| written(&text, user, trigger);
    assert_eq!(post(&desk, &typed("U2", "c1")).await, Ok(Given::Later));
    server.until("chat.postEphemeral", 1).await;
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
    // Nothing of a command is left out, however late it comes.
    let late = format!("{text}{}not", " ".repeat(300));
    assert_eq!(post(&desk, &written(&late, "U1", "c0")).await, Ok(Given::Later));
    let told = server.until("chat.postEphemeral", 2).await.remove(1);
    assert!(told["text"].as_str().unwrap().contains("Write /approve"), "{told}");
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
    assert_eq!(post(&desk, &typed("U1", "c2")).await, Ok(Given::Later));
    assert_eq!(
        stage.answered(&record.id).await,
        (Decision::AllowOnce, "ann: member T1/U1 of Slack, by surface ops".to_owned())
    );
}

#[tokio::test]
async fn whoever_presses_where_answers_are_kept_apart_is_told_where_to_answer() {
    let (stage, server) = (Stage::new(), service().await);
    let desk = desk(stage.strict(), app(&server.url));
    assert_eq!(post(&desk, &press(|_| ())).await, Ok(Given::Later));
    let told = server.until("chat.postEphemeral", 1).await.remove(0);
    assert!(told["text"].as_str().unwrap().contains("on the machine itself"), "{told}");
}

#[tokio::test]
async fn a_success_of_http_is_none_of_slacks() {
    for (status, headers, body, is_never) in [
        (200, "", json!({ "ok": false, "error": "channel_not_found" }), true),
        (200, "", json!({ "ok": false, "error": "invalid_auth" }), false),
        (200, "retry-after: 5\r\n", json!({ "ok": false, "error": "ratelimited" }), false),
        (429, "retry-after: 5\r\n", json!({}), false),
        (200, "", json!([1]), true),
    ] {
        let bytes = body.to_string().into_bytes();
        let server = Server::start(move |_| Some((status, headers, bytes.clone()))).await;
        let app = app(&server.url);
        let error = app.test("C1").await.unwrap_err();
        assert_eq!(matches!(error, SurfaceError::Never { .. }), is_never, "{error:?}");
        if !headers.is_empty() {
            let SurfaceError::Later { after, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*after, Some(Duration::from_secs(5)));
        }
        assert!(!format!("{error:?} {app:?}").contains("sesame"));
    }
}
