//! Servers that are called when a person has decided.

use std::sync::atomic::{AtomicU32, Ordering};

use backstop_hooks::{Digest, Fact, hook_fn};
use backstop_surfaces::signature::{SigningSecret, verified};
use backstop_surfaces::{Callback, CallbackSettings, Egress};
use http::{HeaderMap, HeaderName};

use super::*;

fn signing() -> String {
    ["what-calls", "are-signed-with"].join("-")
}

fn callback(name: &str, url: &str, agents: Option<&[&str]>) -> (String, Arc<Callback>) {
    let settings = CallbackSettings {
        name: name.to_owned(),
        url: url.parse().unwrap(),
        secret: SigningSecret::read(&signing()).unwrap(),
        agents: agents.map(|agents| agents.iter().map(|agent| (*agent).to_owned()).collect()),
        egress: Egress::Any(backstop_gateway::Proxies::default()),
    };
    (name.to_owned(), Arc::new(Callback::new(settings)))
}

/// A gateway that calls `ci` at this server.
async fn calling(receiver: &Upstream) -> Server {
    Server::calling(house(), [callback("ci", &receiver.url(), None)]).await
}

fn taken() -> Script {
    Script::json("200 OK", "{}")
}

/// Has `exec` judged, and returns the id of the decision.
async fn asked(server: &Server, token: &str, callback: &str) -> String {
    let event = json!({"toolName": "exec", "params": {"command": "marker"}});
    let body = json!({ "event": event, "callback": callback });
    let pending = server.ask("POST", "hooks/before_tool_call", token, Some(&body)).await;
    assert_eq!(pending.status(), 202, "{}", pending.text());
    pending.json()["id"].as_str().unwrap().to_owned()
}

/// Answers the only question that waits.
async fn answer(server: &Server, person: &str, decision: &str) {
    let open = server.ask("GET", "approvals?state=pending", person, None).await.json();
    let question = &open["approvals"][0];
    let path = format!("approvals/{}/answer", question["id"].as_str().unwrap());
    let given = json!({"decision": decision, "digest": question["digest"]});
    assert_eq!(server.ask("POST", &path, person, Some(&given)).await.status(), 200);
}

/// Waits until no question waits.
async fn nothing_waits(server: &Server) {
    let waiting = async || server.house.store.approvals(ApprovalFilter::Pending, 9).await.unwrap().len();
    within(async {
        while waiting().await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

async fn both(server: &Server) -> (String, String) {
    (server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await)
}

/// What a server was called with, if it is signed, and the id of the delivery.
fn told(receiver: &Upstream, number: usize) -> (String, Value) {
    let request = receiver.request(number);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers: HeaderMap =
        lines.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect();
    let secret = SigningSecret::read(&signing()).unwrap();
    let id = verified(&secret, &headers, body.as_bytes(), Timestamp::now()).unwrap().to_owned();
    (id, serde_json::from_str(body).unwrap())
}

async fn decision(server: &Server, token: &str, id: &str) -> Answer {
    server.ask("GET", &format!("decisions/{id}"), token, None).await
}

#[tokio::test]
async fn who_is_called_is_told_what_whoever_asks_would_be() {
    let receiver = Upstream::start(|_| taken()).await;
    let server = calling(&receiver).await;
    let (token, person) = both(&server).await;
    let id = asked(&server, &token, "ci").await;
    assert_eq!(receiver.count(), 0, "nobody is called before it is decided");
    answer(&server, &person, "allow-once").await;
    eventually("a call", || receiver.count() == 1).await;
    let (delivery, event) = told(&receiver, 0);
    assert!(delivery.starts_with("msg_"), "{delivery}");
    assert_eq!((&event["type"], &event["agent"]), (&json!("decision.made"), &json!("bot")));
    let ruling = &event["data"];
    assert_eq!((&ruling["id"], &ruling["status"]), (&json!(id), &json!("decided")));
    assert_eq!((&ruling["verdict"], &ruling["params"]), (&json!("allow"), &json!({"command": "marker"})));
    // That it may run is told to one.
    let late = decision(&server, &token, &id).await;
    assert_eq!(late.status(), 409, "{}", late.text());
    // What may not run may be asked for again and again, and is the same.
    let id = asked(&server, &token, "ci").await;
    answer(&server, &person, "deny").await;
    eventually("another call", || receiver.count() == 2).await;
    let (other, event) = told(&receiver, 1);
    assert_ne!(other, delivery);
    assert_eq!(event["data"]["verdict"], "block");
    assert_eq!(decision(&server, &token, &id).await.json(), event["data"]);
}

#[tokio::test]
async fn what_is_decided_at_once_is_answered_and_nobody_is_called() {
    let receiver = Upstream::start(|_| taken()).await;
    let server = calling(&receiver).await;
    let (token, _) = both(&server).await;
    for (tool, verdict) in [("rm", "block"), ("read", "allow")] {
        let body = json!({"event": {"toolName": tool, "params": {}}, "callback": "ci"});
        let decided = server.ask("POST", "hooks/before_tool_call", &token, Some(&body)).await;
        assert_eq!((decided.status(), &decided.json()["verdict"]), (200, &json!(verdict)));
    }
    // Nor where it is given up, or the token has ended.
    let id = asked(&server, &token, "ci").await;
    assert_eq!(server.ask("DELETE", &format!("decisions/{id}"), &token, None).await.status(), 204);
    nothing_waits(&server).await;
    asked(&server, &token, "ci").await;
    let all = server.house.store.access_tokens(9).await.unwrap();
    let id = all.tokens.iter().find(|known| known.made.agent.is_some()).unwrap().made.id.clone();
    server.house.store.revoke_access_token(&id, "a test", Timestamp::now()).await.unwrap();
    nothing_waits(&server).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn what_is_given_up_between_two_tries_is_told_to_nobody() {
    // The next try would be in two seconds.
    let busy = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n";
    let receiver = Upstream::start(move |_| Script::whole(busy)).await;
    let server = calling(&receiver).await;
    let (token, person) = both(&server).await;
    let id = asked(&server, &token, "ci").await;
    answer(&server, &person, "allow-once").await;
    eventually("a call", || receiver.count() == 1).await;
    assert_eq!(server.ask("DELETE", &format!("decisions/{id}"), &token, None).await.status(), 204);
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    assert_eq!(receiver.count(), 1);
    assert_eq!(decision(&server, &token, &id).await.status(), 404);
}

#[tokio::test]
async fn what_changed_after_a_call_that_failed_is_told_to_nobody_as_allowed() {
    for (status, tries) in [("404 Not Found", 1), ("503 Service Unavailable", 2)] {
        // What the file holds by which the call is judged.
        let (file, house) = (Arc::new(AtomicU32::new(1)), house());
        let read = Arc::clone(&file);
        let reads = hook_fn::<BeforeToolCall, _>(move |_, cx| {
            let read = Arc::clone(&read);
            let look = move || Digest::of("file", &read.load(Ordering::Relaxed));
            cx.rests_on(Fact::new(look(), look));
            Ok(None)
        });
        house.on::<BeforeToolCall>("reads", reads);
        let refusal = move |number: usize| match number {
            0 => Script::json(status, "{}"),
            _ => taken(),
        };
        let receiver = Upstream::start(refusal).await;
        let server = Server::calling(house, [callback("ci", &receiver.url(), None)]).await;
        let (token, person) = both(&server).await;
        let id = asked(&server, &token, "ci").await;
        answer(&server, &person, "allow-once").await;
        eventually("a call", || receiver.count() == 1).await;
        file.store(2, Ordering::Relaxed);
        let late = decision(&server, &token, &id).await.json();
        assert_eq!(
            (&late["verdict"], &late["blocked"]["rules"], &late["params"]),
            (&json!("block"), &json!(["evidence.changed"]), &Value::Null),
            "{late}"
        );
        eventually("all tries", || receiver.count() == tries).await;
        assert_eq!(told(&receiver, 0).1["data"]["verdict"], "allow");
        if tries == 2 {
            assert_eq!(told(&receiver, 1).1["data"], late);
        }
    }
}

#[tokio::test]
async fn a_call_that_fails_is_tried_again_as_the_same_delivery() {
    let receiver = Upstream::start(|number| match number {
        0 => Script::json("500 Internal Server Error", "{}"),
        _ => taken(),
    })
    .await;
    let server = calling(&receiver).await;
    let (token, person) = both(&server).await;
    let id = asked(&server, &token, "ci").await;
    answer(&server, &person, "allow-once").await;
    eventually("another try", || receiver.count() == 2).await;
    let ((first, one), (second, other)) = (told(&receiver, 0), told(&receiver, 1));
    assert_eq!((first, &one["data"]), (second, &other["data"]));
    // The answer is on its way.
    within(async {
        while decision(&server, &token, &id).await.status() != 409 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_nobody_could_be_told_can_be_asked_for() {
    let elsewhere = Upstream::start(|_| taken()).await;
    let to = elsewhere.url();
    let refusals = move |number: usize| match number {
        0 => Script::whole(format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}/\r\ncontent-length: 0\r\n\r\n"
        )),
        1 => Script::json("404 Not Found", "{}"),
        _ => Script::json("413 Content Too Large", "{}"),
    };
    let receiver = Upstream::start(refusals).await;
    let server = calling(&receiver).await;
    let (token, person) = both(&server).await;
    for number in 0..3 {
        let id = asked(&server, &token, "ci").await;
        answer(&server, &person, "allow-once").await;
        eventually("a call", || receiver.count() == number + 1).await;
        let left = decision(&server, &token, &id).await.json();
        assert_eq!((&left["verdict"], &left["params"]["command"]), (&json!("allow"), &json!("marker")));
        assert_eq!(decision(&server, &token, &id).await.status(), 409);
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!((receiver.count(), elsewhere.count()), (3, 0), "none of these is tried again");
}

#[tokio::test]
async fn a_server_that_is_slow_holds_up_no_other_and_who_asks_is_told_once_it_was_not() {
    let slowly = |_| {
        let Script { mut pieces, .. } = Script::json("503 Service Unavailable", "{}");
        pieces.insert(0, Vec::new());
        Script { pieces, gap: Duration::from_secs(1), end: End::Close }
    };
    let (slow, quick) = (Upstream::start(slowly).await, Upstream::start(|_| taken()).await);
    let callbacks = [callback("slow", &slow.url(), None), callback("quick", &quick.url(), None)];
    let server = Server::calling(house(), callbacks).await;
    let (token, person) = both(&server).await;
    let waits = asked(&server, &token, "slow").await;
    answer(&server, &person, "allow-once").await;
    eventually("a slow call", || slow.count() == 1).await;
    asked(&server, &token, "quick").await;
    answer(&server, &person, "allow-once").await;
    eventually("a quick call", || quick.count() == 1).await;
    // Who asks meanwhile waits for the end of the call, and is the one who is told then.
    let ruling = decision(&server, &token, &waits).await;
    assert_eq!((ruling.status(), &ruling.json()["verdict"]), (200, &json!("allow")));
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(slow.count(), 1, "nobody else is told that it may run");
}

#[tokio::test]
async fn what_is_given_up_while_somebody_is_called_is_told_to_nobody_else() {
    let slowly = |_| {
        let Script { mut pieces, .. } = Script::json("404 Not Found", "{}");
        pieces.insert(0, Vec::new());
        Script { pieces, gap: Duration::from_secs(1), end: End::Close }
    };
    let slow = Upstream::start(slowly).await;
    let server = calling(&slow).await;
    let (token, person) = both(&server).await;
    let id = asked(&server, &token, "ci").await;
    answer(&server, &person, "allow-once").await;
    eventually("a slow call", || slow.count() == 1).await;
    // Its stream waits for the end of the call.
    let path = format!("decisions/{id}");
    let mut stream = connect(&server.gateway).await;
    let follows = request("GET", &format!("{path}/events"), &token, "", None);
    stream.write_all(follows.as_bytes()).await.unwrap();
    until(&mut stream, "retry: ").await;
    assert_eq!(server.ask("DELETE", &path, &token, None).await.status(), 204);
    let ended = within(rest(&mut stream)).await;
    assert!(!ended.text().contains("event: "), "{}", ended.text());
}

#[tokio::test]
async fn only_names_of_the_operator_are_called_and_only_by_those_who_may() {
    let receiver = Upstream::start(|_| taken()).await;
    let url = receiver.url();
    let callbacks = [callback("ci", &url, None), callback("others", &url, Some(&["other"]))];
    let server = Server::calling(house(), callbacks).await;
    let (token, _) = both(&server).await;
    let ask = async |token: &str, point: &str, callback: Value| {
        let event = json!({"toolName": "exec", "params": {"command": "marker"}});
        let body = json!({ "event": event, "callback": callback });
        server.ask("POST", &format!("hooks/{point}"), token, Some(&body)).await
    };
    let mut refusals = Vec::new();
    for name in ["nobody", "others", "", "CI", &url] {
        let refused = ask(&token, "before_tool_call", json!(name)).await;
        assert_eq!(refused.status(), 422, "{name}: {}", refused.text());
        refusals.push(refused.json());
    }
    // Whose name it is, or whether there is one, can't be told from it.
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:?}");
    for wrong in [json!({"url": url}), json!(["ci"]), json!(1)] {
        assert_eq!(ask(&token, "before_tool_call", wrong).await.status(), 422);
    }
    let other = server.judge("other").await;
    assert_eq!(ask(&other, "before_tool_call", json!("others")).await.status(), 202);
    let event = json!({"event": {"toolName": "exec", "params": {}, "isError": false}, "callback": "ci"});
    let refused = server.ask("POST", "hooks/after_tool_call", &token, Some(&event)).await;
    assert_eq!(refused.status(), 422);
    assert_eq!(receiver.count(), 0);
}
