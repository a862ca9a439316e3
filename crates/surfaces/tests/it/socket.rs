//! Socket Mode, against a server on loopback that speaks Slack's wire.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_hooks::{ApprovalId, Decision, Secret};
use backstop_store::{ApprovalState, Timestamp};
use backstop_surfaces::{Ceiling, Pace, Slack, SlackAnswers, SlackSettings};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use url::Url;

use crate::slack::handle;
use crate::stage::{Became, Stage, anywhere, counted, name, token, until};

fn app_token() -> String {
    ["xapp-", "1-A1-", "sesame"].concat()
}

/// What the service answers to the calls of one method: `None` never comes.
type Answer = Arc<dyn Fn(&str, &str) -> Option<Value> + Send + Sync>;

/// Slack: methods, and connections that are opened once by each address.
struct Service {
    url: Url,
    known: Arc<Mutex<Known>>,
    opened: mpsc::UnboundedReceiver<Peer>,
    task: AbortHandle,
}

#[derive(Default)]
struct Known {
    calls: Vec<(String, Value)>,
    tickets: BTreeSet<String>,
    given: usize,
    /// The authorizations with which connections were asked for, and the heads by which they were opened.
    heads: Vec<String>,
}

/// Slack's end of a connection.
struct Peer(WebSocketStream<TcpStream>);

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Service {
    async fn start() -> Self {
        Self::answering(|_, _| Some(json!({ "ok": true, "channel": "C1", "ts": "1700000000.000100" }))).await
    }

    /// One that answers methods so, `apps.connections.open` too where that is not an empty object.
    async fn answering(answer: impl Fn(&str, &str) -> Option<Value> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (known, answer) = (Arc::<Mutex<Known>>::default(), Arc::new(answer) as Answer);
        let (opens, opened) = mpsc::unbounded_channel();
        let (shared, here) = (Arc::clone(&known), address.clone());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (known, answer) = (Arc::clone(&shared), Arc::clone(&answer));
                tokio::spawn(serve(stream, here.clone(), known, answer, opens.clone()));
            }
        });
        let url = format!("http://{address}/").parse().unwrap();
        Self { url, known, opened, task: task.abort_handle() }
    }

    /// The next connection, greeted.
    async fn peer(&mut self) -> Peer {
        let mut peer = self.silent_peer().await;
        peer.say(&json!({ "type": "hello", "num_connections": 1, "connection_info": { "app_id": "A1" } }))
            .await;
        peer
    }

    async fn silent_peer(&mut self) -> Peer {
        tokio::time::timeout(Duration::from_secs(30), self.opened.recv()).await.unwrap().unwrap()
    }

    fn of(&self, method: &str) -> Vec<Value> {
        let calls = &self.known.lock().unwrap().calls;
        calls.iter().filter(|(called, _)| called == method).map(|(_, body)| body.clone()).collect()
    }

    async fn until(&self, method: &str, count: usize) -> Vec<Value> {
        until(|| Some(self.of(method)).filter(|of| of.len() >= count)).await
    }

    /// What people were told, whose text has this in it.
    fn told(&self, text: &str) -> usize {
        let told = self.of("chat.postEphemeral");
        told.iter().filter(|told| told["text"].as_str().unwrap().contains(text)).count()
    }
}

async fn serve(
    mut stream: TcpStream,
    here: String,
    known: Arc<Mutex<Known>>,
    answer: Answer,
    opens: mpsc::UnboundedSender<Peer>,
) {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let header = |name: &str| {
        head.lines()
            .find_map(|line| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)))
            .map(|(_, v)| v)
    };
    let path = head.split(' ').nth(1).unwrap().to_owned();
    if let Some(ticket) = path.strip_prefix("/link/?ticket=") {
        known.lock().unwrap().heads.push(head.clone());
        // An address opens one connection.
        if !known.lock().unwrap().tickets.remove(ticket) {
            let _ = stream.write_all(b"HTTP/1.1 403 x\r\ncontent-length: 0\r\n\r\n").await;
            return;
        }
        let key = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", header("sec-websocket-key").unwrap());
        let accept = BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()));
        let head = format!(
            "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let _ = opens.send(Peer(WebSocketStream::from_raw_socket(stream, Role::Server, None).await));
        return;
    }
    let length: usize = header("content-length").unwrap().parse().unwrap();
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let method = path.rsplit('/').next().unwrap().to_owned();
    let body = serde_json::from_slice(&bytes[end..]).unwrap();
    let said = {
        let mut known = known.lock().unwrap();
        known.calls.push((method.clone(), body));
        let said = answer(&method, &here);
        match said {
            Some(said)
                if method == "apps.connections.open" && said.get("url").is_none() && said["ok"] == true =>
            {
                known.heads.push(header("authorization").unwrap().to_owned());
                known.given += 1;
                let ticket = format!("t{}-sesame", known.given);
                known.tickets.insert(ticket.clone());
                Some(json!({ "ok": true, "url": format!("ws://{here}/link/?ticket={ticket}") }))
            }
            said => said,
        }
    };
    let Some(said) = said else { return std::future::pending().await };
    let said = said.to_string();
    let answer =
        format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{said}", said.len());
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

impl Peer {
    async fn say(&mut self, said: &Value) {
        self.0.send(Message::text(said.to_string())).await.unwrap();
    }

    async fn deliver(&mut self, id: &str, kind: &str, payload: &Value) {
        self.say(&json!({ "type": kind, "envelope_id": id, "payload": payload, "accepts_response_payload": false })).await;
    }

    /// Delivers something, and waits until it is acknowledged.
    async fn delivered(&mut self, id: &str, kind: &str, payload: &Value) {
        self.deliver(id, kind, payload).await;
        assert_eq!(self.heard().await, Some(json!({ "envelope_id": id })));
    }

    async fn write(&mut self, bytes: &[u8]) {
        // Whoever has hung up takes nothing more.
        let _ = self.0.get_mut().write_all(bytes).await;
    }

    /// What is said next; `None` at the end.
    async fn heard(&mut self) -> Option<Value> {
        let next = async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                    Some(Ok(other)) => panic!("{other:?}"),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), next).await.unwrap()
    }
}

/// One whose times are short, so that tests are.
fn pace() -> Pace {
    Pace { settled: Duration::ZERO, ..Pace::default() }
}

fn app(url: &Url, pace: Pace) -> Slack {
    Slack::new(SlackSettings {
        name: name("ops"),
        api: url.join("/api/").unwrap(),
        app: "A1".to_owned(),
        token: Secret::new(token()),
        answers: SlackAnswers::Connected(Secret::new(app_token()), pace),
        channels: vec!["C1".to_owned()],
        ceiling: Ceiling::Once,
        egress: anywhere(),
    })
}

fn now() -> String {
    format!("{}.000100", Timestamp::now().as_millis() / 1_000)
}

fn press(value: &str, trigger: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut payload = json!({
        "type": "block_actions", "api_app_id": "A1", "team": { "id": "T1" },
        "user": { "id": "U1", "username": "ann", "team_id": "T1" }, "channel": { "id": "C1" },
        "container": { "message_ts": "1700000000.000100" }, "trigger_id": trigger, "response_url": "https://elsewhere.example/",
        "actions": [{ "action_id": "backstop_deny", "value": value, "action_ts": now() }],
    });
    change(&mut payload);
    payload
}

/// A question that was told, and its handles: to allow, and to deny.
async fn told(stage: &Stage, service: &Service, count: usize) -> (ApprovalId, String, String) {
    let record = stage.ask("rm -r build").await;
    let message = service.until("chat.postMessage", count).await.pop().unwrap();
    assert!(message.to_string().contains(record.id.as_str()), "{message}");
    (record.id, handle(&message, "backstop_allow_once"), handle(&message, "backstop_deny"))
}

const ANN: &str = "ann: member T1/U1 of Slack, by surface ops";

#[tokio::test]
async fn a_press_that_comes_over_a_connection_decides_and_the_same_envelope_again_does_not() {
    let (stage, mut service) = (Stage::new(), Service::start().await);
    let (desk, became) = counted(stage.engine(), app(&service.url, pace()));
    let running = desk.run();
    let mut peer = service.peer().await;
    until(|| (became.connections() == Some(1)).then_some(())).await;
    let (id, allow, deny) = told(&stage, &service, 1).await;
    for envelope in ["e1", "e1", "e2"] {
        peer.delivered(envelope, "interactive", &press(&deny, "t1", |_| ())).await;
    }
    assert_eq!(stage.answered(&id).await, (Decision::Deny, ANN.to_owned()));
    peer.delivered("e3", "interactive", &press(&allow, "t2", |_| ())).await;
    service.until("chat.postEphemeral", 4).await;
    assert_eq!(
        (service.told("Denied."), service.told("came before"), service.told("was first")),
        (1, 2, 1),
        "{:?}",
        service.of("chat.postEphemeral")
    );
    assert_eq!((became.came("heard"), became.came("other")), (4, 0));
    let heads = service.known.lock().unwrap().heads.clone();
    assert_eq!(heads[0], format!("Bearer {}", app_token()));
    // Whoever opens a connection shows neither token.
    assert!(!heads[1].contains(&token()) && !heads[1].contains(&app_token()), "{}", heads[1]);
    assert!(!format!("{running:?}").contains("sesame"));
    // At the end the connection is closed, and not only broken.
    let closed = tokio::spawn(async move {
        loop {
            match peer.0.next().await {
                Some(Ok(Message::Close(_))) => return true,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return false,
            }
        }
    });
    running.stop().await;
    assert!(closed.await.unwrap());
    assert_eq!(became.connections(), Some(0));
}

#[tokio::test]
async fn what_is_of_somebody_else_or_late_or_of_another_kind_is_acknowledged_and_changes_nothing() {
    let (stage, mut service) = (Stage::new(), Service::start().await);
    let (desk, became) = counted(stage.engine(), app(&service.url, pace()));
    let _running = desk.run();
    let mut peer = service.peer().await;
    let (id, allow, _) = told(&stage, &service, 1).await;
    let away = |seconds: i64| format!("{}.5", Timestamp::now().as_millis() / 1_000 + seconds);
    let (early, late) = (away(330), away(-330));
    type Change<'a> = Box<dyn Fn(&mut Value) + 'a>;
    let set = |path: &'static str, value: Value| -> Change<'_> {
        Box::new(move |payload: &mut Value| *payload.pointer_mut(path).unwrap() = value.clone())
    };
    // A member of another workspace, somebody who calls themselves ann, another channel, other times: those people are told.
    let heard = [
        set("/user/team_id", json!("T2")),
        set("/user", json!({ "id": "U2", "username": "ann", "name": "ann", "team_id": "T1" })),
        set("/user", json!({ "id": "U1", "username": "ann", "team_id": "T2" })),
        set("/channel/id", json!("C2")),
        set("/actions/0/action_ts", json!(late)),
        set("/actions/0/action_ts", json!(early)),
        set("/actions/0/value", json!(id.as_str())),
    ];
    let refused = [
        set("/api_app_id", json!("A2")),
        set("/user", json!({ "username": "ann" })),
        set("/user", json!("U1")),
        set("/trigger_id", json!(null)),
        set("/channel", json!({ "id": "x".repeat(1_000) })),
        set("/actions/0/action_ts", json!("now")),
        set("/actions/0/action_ts", json!(7)),
    ];
    let other =
        [set("/type", json!("view_submission")), set("/actions", json!([])), set("/type", json!(null))];
    for (number, change) in heard.iter().chain(&refused).chain(&other).enumerate() {
        let payload = press(&allow, &format!("o{number}"), |payload| change(payload));
        peer.delivered(&format!("e{number}"), "interactive", &payload).await;
    }
    // A press in an envelope of another kind is none.
    for (number, kind) in ["events_api", "slash_commands", "news"].into_iter().enumerate() {
        let payload = press(&allow, &format!("k{number}"), |_| ());
        peer.delivered(&format!("k{number}"), kind, &payload).await;
    }
    peer.delivered("none", "interactive", &Value::Null).await;
    let told = service.until("chat.postEphemeral", heard.len()).await;
    assert_eq!((service.told("more than five minutes"), service.told("not known here")), (2, 3), "{told:?}");
    assert_eq!(
        (became.came("heard"), became.came("refused"), became.came("other")),
        (heard.len(), refused.len() + 1, other.len() + 3)
    );
    assert_eq!(stage.state(&id).await, ApprovalState::Pending);
    peer.delivered("last", "interactive", &press(&allow, "t1", |_| ())).await;
    assert_eq!(stage.answered(&id).await, (Decision::AllowOnce, ANN.to_owned()));
}

#[tokio::test]
async fn a_command_that_comes_over_a_connection_is_of_who_slack_says_wrote_it() {
    let (stage, mut service) = (Stage::new(), Service::start().await);
    let _running = stage.desk(app(&service.url, pace())).run();
    let mut peer = service.peer().await;
    let (id, ..) = told(&stage, &service, 1).await;
    let typed = |what: &str, app: &str, user: &str, trigger: &str| {
        json!({
            "command": "/approve", "text": format!("{what} {id}"), "api_app_id": app, "team_id": "T1", "user_id": user, "user_name": "ann",
            "channel_id": "C1", "trigger_id": trigger,
        })
    };
    peer.delivered("e1", "slash_commands", &typed("allow", "A1", "U2", "c1")).await;
    peer.delivered("e2", "slash_commands", &typed("allow", "A2", "U1", "c2")).await;
    service.until("chat.postEphemeral", 1).await;
    // Nothing says how old it is that Slack delivers again.
    let again = typed("allow", "A1", "U1", "c3");
    peer.say(&json!({ "type": "slash_commands", "envelope_id": "e3", "payload": again, "retry_attempt": 1, "retry_reason": "timeout" })).await;
    assert_eq!(peer.heard().await, Some(json!({ "envelope_id": "e3" })));
    service.until("chat.postEphemeral", 2).await;
    assert_eq!(service.told("delivered this again"), 1);
    assert_eq!(stage.state(&id).await, ApprovalState::Pending);
    peer.delivered("e4", "slash_commands", &typed("deny", "A1", "U1", "c4")).await;
    assert_eq!(stage.answered(&id).await, (Decision::Deny, ANN.to_owned()));
}

#[tokio::test]
async fn the_next_connection_is_opened_while_the_old_one_is_still_heard() {
    for reason in ["warning", "refresh_requested", "what is not known yet"] {
        let (stage, mut service) = (Stage::new(), Service::start().await);
        let (desk, became) = counted(stage.engine(), app(&service.url, pace()));
        let _running = desk.run();
        let mut old = service.peer().await;
        old.say(&json!({ "type": "disconnect", "reason": reason, "debug_info": { "host": "wss-111" } }))
            .await;
        let mut new = service.peer().await;
        until(|| (became.connections() == Some(2)).then_some(())).await;
        let (one, _, deny) = told(&stage, &service, 1).await;
        old.delivered("e1", "interactive", &press(&deny, "t1", |_| ())).await;
        assert_eq!(stage.answered(&one).await, (Decision::Deny, ANN.to_owned()));
        drop(old);
        let (two, allow, _) = told(&stage, &service, 2).await;
        new.delivered("e2", "interactive", &press(&allow, "t2", |_| ())).await;
        assert_eq!(stage.answered(&two).await, (Decision::AllowOnce, ANN.to_owned()));
        until(|| (became.connections() == Some(1)).then_some(())).await;
        // Each was opened by an address of its own.
        assert_eq!(service.of("apps.connections.open").len(), 2);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_or_falls_silent_or_says_nothing_is_replaced() {
    let (stage, mut service) = (Stage::new(), Service::start().await);
    let short = Pace { ping: Duration::from_millis(100), silence: Duration::from_secs(2), ..pace() };
    let (desk, _) = counted(stage.engine(), app(&service.url, short));
    let _running = desk.run();
    // One that breaks, one that greets and is silent then, and one that gives signs of life and never greets.
    drop(service.peer().await);
    let silent = service.peer().await;
    let mut rude = service.silent_peer().await;
    assert_eq!(rude.heard().await, None);
    drop(silent);
    let mut peer = service.peer().await;
    // This one is kept by the signs of life that it gives, for longer than one may be silent.
    let patient = tokio::time::timeout(Duration::from_secs(3), peer.heard()).await;
    assert!(patient.is_err(), "{patient:?}");
    let (id, _, deny) = tokio::select! {
        told = told(&stage, &service, 1) => told,
        heard = peer.heard() => panic!("{heard:?}"),
    };
    peer.delivered("e1", "interactive", &press(&deny, "t1", |_| ())).await;
    assert_eq!(stage.answered(&id).await, (Decision::Deny, ANN.to_owned()));
}

/// What nobody can read, as frames of a server.
fn garbage() -> [Vec<u8>; 6] {
    let frame = |opcode: u8, payload: &[u8]| {
        [&[0x80 | opcode, u8::try_from(payload.len()).unwrap()], payload].concat()
    };
    [
        frame(1, b"{"),
        frame(1, b"[1]"),
        frame(1, b""),
        frame(1, br#"{"type":"interactive"}"#),
        frame(1, br#"{"type":"interactive","envelope_id":7,"payload":{}}"#),
        frame(2, b"\x00\xff"),
    ]
}

#[tokio::test]
async fn garbage_is_counted_and_passed_over_and_too_much_of_it_ends_the_connection() {
    let (stage, mut service) = (Stage::new(), Service::start().await);
    let (desk, became) = counted(stage.engine(), app(&service.url, pace()));
    let _running = desk.run();
    let mut peer = service.peer().await;
    let (id, _, deny) = told(&stage, &service, 1).await;
    for garbage in garbage() {
        peer.write(&garbage).await;
    }
    peer.delivered("e1", "interactive", &press(&deny, "t1", |_| ())).await;
    assert_eq!(stage.answered(&id).await, (Decision::Deny, ANN.to_owned()));
    assert_eq!(became.came("unread"), garbage().len());
    for _ in 0..32 {
        peer.write(&garbage()[0]).await;
    }
    assert_eq!(peer.heard().await, None);
    let mut peer = service.peer().await;
    peer.delivered("e2", "events_api", &json!({})).await;
}

#[tokio::test]
async fn frames_that_are_huge_or_none_end_the_connection_and_the_next_one_hears() {
    let (stage, mut service) = (Stage::new(), Service::start().await);
    let _running = stage.desk(app(&service.url, pace())).run();
    let huge = [&[0x81, 127][..], &(64_u64 << 20).to_be_bytes(), b"{"].concat();
    let parts = (0..40).flat_map(|part| {
        let head = [if part == 0 { 0x01 } else { 0x00 }, 127];
        [&head[..], &(64_u64 << 10).to_be_bytes(), &[b' '; 64 << 10]].concat()
    });
    let fragmented: Vec<u8> = parts.collect();
    let no_text = vec![0x81, 2, 0xc3, 0x28];
    let reserved = vec![0xf1, 1, b'x'];
    let masked = vec![0x81, 0x81, 1, 2, 3, 4, b'x' ^ 1];
    for (number, wrong) in [huge, fragmented, no_text, reserved, masked].into_iter().enumerate() {
        let mut peer = service.peer().await;
        peer.write(&wrong).await;
        assert_eq!(peer.heard().await, None, "{number}");
    }
    let mut peer = service.peer().await;
    let (id, allow, _) = told(&stage, &service, 1).await;
    peer.delivered("e1", "interactive", &press(&allow, "t1", |_| ())).await;
    assert_eq!(stage.answered(&id).await, (Decision::AllowOnce, ANN.to_owned()));
}

#[tokio::test]
async fn what_is_too_much_at_once_is_not_acknowledged() {
    // People are never told what came of it, so what is under way stays so.
    let mut service = Service::answering(|method, _| {
        (method != "chat.postEphemeral").then(|| json!({ "ok": true, "channel": "C1", "ts": "1.1" }))
    })
    .await;
    let stage = Stage::new();
    let (desk, became) = counted(stage.engine(), app(&service.url, pace()));
    let _running = desk.run();
    let mut peer = service.peer().await;
    let (id, allow, _) = told(&stage, &service, 1).await;
    let stranger = |trigger: &str| press(&allow, trigger, |payload| payload["user"]["id"] = "U9".into());
    for number in 0..32 {
        peer.delivered(&format!("e{number}"), "interactive", &stranger(&format!("s{number}"))).await;
    }
    peer.deliver("one more", "interactive", &press(&allow, "t1", |_| ())).await;
    peer.delivered("event", "events_api", &json!({})).await;
    assert_eq!((became.came("heard"), became.came("busy")), (32, 1));
    assert_eq!(stage.state(&id).await, ApprovalState::Pending);
}

#[tokio::test]
async fn an_address_that_is_none_of_slacks_is_not_opened() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let there = elsewhere.local_addr().unwrap();
    let service = Service::answering(move |method, _| {
        let url = format!("ws://{there}/link/?ticket=sesame");
        Some(if method == "apps.connections.open" {
            json!({ "ok": true, "url": url })
        } else {
            json!({ "ok": true, "ts": "1.1" })
        })
    })
    .await;
    let stage = Stage::new();
    let (desk, became) = counted(stage.engine(), app(&service.url, pace()));
    let _running = desk.run();
    service.until("apps.connections.open", 1).await;
    told(&stage, &service, 1).await;
    let asked = tokio::time::timeout(Duration::from_millis(300), elsewhere.accept()).await;
    assert!(asked.is_err(), "a connection was made elsewhere");
    assert_eq!(became.connections(), Some(0));
}

#[tokio::test]
async fn a_token_of_another_app_hears_nobody() {
    let (stage, mut service) = (Stage::new(), Service::start().await);
    let (desk, became) = counted(stage.engine(), app(&service.url, pace()));
    let _running = desk.run();
    let mut peer = service.silent_peer().await;
    peer.say(&json!({ "type": "hello", "connection_info": { "app_id": "A2" } })).await;
    assert_eq!(peer.heard().await, None);
    assert_eq!(became.connections(), Some(0));
}

#[tokio::test]
async fn two_processes_hear_at_once_and_one_answer_counts() {
    let (stage, mut service) = (Stage::new(), Service::start().await);
    let _one = stage.desk(app(&service.url, pace())).run();
    let mut first = service.peer().await;
    let _two = stage.desk(app(&service.url, pace())).run();
    let mut second = service.peer().await;
    let (id, allow, deny) = told(&stage, &service, 1).await;
    for (peer, value) in [(&mut first, &allow), (&mut second, &allow)] {
        peer.delivered("e1", "interactive", &press(value, "t1", |_| ())).await;
    }
    assert_eq!(stage.answered(&id).await, (Decision::AllowOnce, ANN.to_owned()));
    second.delivered("e2", "interactive", &press(&deny, "t2", |_| ())).await;
    service.until("chat.postEphemeral", 3).await;
    assert_eq!((service.told("Allowed once."), service.told("Denied.")), (1, 0));
    assert_eq!(stage.answered(&id).await.0, Decision::AllowOnce);
}

#[tokio::test]
async fn where_answers_are_kept_apart_or_none_is_taken_no_connection_is_made() {
    let (stage, service) = (Stage::new(), Service::start().await);
    let (desk, strict): (_, Became) = counted(stage.strict(), app(&service.url, pace()));
    let _running = desk.run();
    let only_told = Slack::new(SlackSettings {
        name: name("ops"),
        api: service.url.join("/api/").unwrap(),
        app: "A1".to_owned(),
        token: Secret::new(token()),
        answers: SlackAnswers::Connected(Secret::new(app_token()), pace()),
        channels: vec!["C1".to_owned()],
        ceiling: Ceiling::Notice,
        egress: anywhere(),
    });
    let (desk, notice) = counted(stage.engine(), only_told);
    let _running = desk.run();
    stage.ask("ls").await;
    service.until("chat.postMessage", 1).await;
    assert_eq!((strict.connections(), notice.connections()), (None, None));
    assert!(service.of("apps.connections.open").is_empty());
}
