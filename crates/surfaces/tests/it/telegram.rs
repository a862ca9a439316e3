use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_hooks::{Decision, Json, Secret};
use backstop_store::{ApprovalState, LeaseHolder, NewApproval, Timestamp};
use backstop_surfaces::{Ceiling, Surface as _, SurfaceError, Telegram};
use serde_json::{Value, json};
use url::Url;

use crate::server::{Asked, Reply, Server, ok};
use crate::stage::{Stage, anywhere, desk, name, question, token, until};

pub(crate) fn bot(url: &Url, ceiling: Ceiling) -> Telegram {
    let token = Secret::new(token());
    Telegram::new(name("phone"), url.clone(), token, vec!["-100".to_owned()], ceiling, anywhere())
}

/// Updates that the service has, which it gives as long as they are not confirmed.
#[derive(Clone, Default)]
pub(crate) struct Updates(Arc<Mutex<Vec<Value>>>);

impl Updates {
    pub(crate) fn push(&self, update: Value) {
        self.0.lock().unwrap().push(update);
    }

    pub(crate) fn answer(&self, asked: &Asked) -> Reply {
        let from = asked.json()["offset"].as_i64().unwrap();
        let all = self.0.lock().unwrap();
        let due: Vec<&Value> =
            all.iter().filter(|update| update["update_id"].as_i64().unwrap_or(from) >= from).collect();
        // A long poll that ends at once would ask all the time.
        if due.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
        ok(json!({ "ok": true, "result": due }))
    }
}

pub(crate) async fn service(updates: Updates) -> Server {
    let messages = AtomicUsize::new(7);
    Server::start(move |asked| match asked.method() {
        "getUpdates" => updates.answer(asked),
        "sendMessage" => {
            let id = messages.fetch_add(1, Ordering::SeqCst);
            ok(json!({ "ok": true, "result": { "message_id": id, "chat": { "id": -100 } } }))
        }
        _ => ok(json!({ "ok": true, "result": true })),
    })
    .await
}

fn press(update: i64, from: &Value, chat: i64, data: &str) -> Value {
    json!({ "update_id": update, "callback_query": {
        "id": format!("q{update}"), "from": from, "data": data, "chat_instance": "1",
        "message": { "message_id": 7, "date": 0, "chat": { "id": chat } },
    }})
}

pub(crate) fn person(id: i64) -> Value {
    json!({ "id": id, "is_bot": false, "username": "ann" })
}

fn buttons(message: &Value) -> Vec<(String, String)> {
    let row = message["reply_markup"]["inline_keyboard"][0].as_array().unwrap();
    let text = |button: &Value, of: &str| button[of].as_str().unwrap_or_default().to_owned();
    row.iter().map(|button| (text(button, "text"), text(button, "callback_data"))).collect()
}

#[tokio::test]
async fn a_question_is_told_and_answered_by_who_the_service_says_pressed() {
    let (stage, updates) = (Stage::new(), Updates::default());
    let server = service(updates.clone()).await;
    let _running = stage.desk(bot(&server.url, Ceiling::Once)).run();
    let record = stage.ask("rm -r build").await;
    let message = server.until("sendMessage", 1).await.remove(0);
    assert_eq!((&message["chat_id"], message.get("parse_mode")), (&json!("-100"), None));
    let text = message["text"].as_str().unwrap();
    for part in [
        "CRITICAL: Run this <!channel> *now*?",
        "rm -r build",
        "exec",
        "main",
        "1 secret is masked",
        "command-safety",
        "delete.recursive",
        "answer until: ",
        record.id.as_str(),
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    assert!(!text.contains(&record.code), "the code answers elsewhere");
    let offered = buttons(&message);
    assert_eq!(offered.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(), ["Allow once", "Deny"]);
    for (_, data) in &offered {
        assert_eq!(data.len(), 22, "a handle and nothing else: {data}");
    }
    // Strangers, whatever they call themselves, bots, and presses elsewhere count for nothing and use nothing up.
    let bot = json!({ "id": 42, "is_bot": true, "username": "ann" });
    updates.push(press(1, &person(43), -100, &offered[0].1));
    updates.push(press(2, &bot, -100, &offered[0].1));
    updates.push(press(3, &person(42), -200, &offered[0].1));
    updates.push(press(4, &person(42), -100, "AAAAAAAAAAAAAAAAAAAAAA"));
    updates.push(press(5, &person(42), -100, record.id.as_str()));
    let told = server.until("answerCallbackQuery", 4).await;
    let told: Vec<&str> = told.iter().map(|told| told["text"].as_str().unwrap()).collect();
    assert!(told[0].contains("not known here") && told[1].contains("no such question"), "{told:?}");
    assert!(told[2].contains("no such question") && told[3].contains("none of ours"), "{told:?}");
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
    // The same update again, an older one, and then the press that counts.
    updates.push(press(1, &person(42), -100, &offered[1].1));
    updates.push(press(6, &person(42), -100, &offered[0].1));
    assert_eq!(
        stage.answered(&record.id).await,
        (Decision::AllowOnce, "ann: account 42 of Telegram, by surface phone".to_owned())
    );
    // A replay with another number, and the other button of the old message.
    updates.push(press(7, &person(42), -100, &offered[0].1));
    updates.push(press(8, &person(42), -100, &offered[1].1));
    let told = server.until("answerCallbackQuery", 7).await;
    assert_eq!(told[4]["text"], "Allowed once.");
    assert!(
        told[5]["text"].as_str().unwrap().contains("ann: account 42 of Telegram, by surface phone was first"),
        "{told:?}"
    );
    assert!(
        told[6]["text"].as_str().unwrap().contains("ann: account 42 of Telegram, by surface phone was first"),
        "{told:?}"
    );
    assert!(matches!(stage.state(&record.id).await, ApprovalState::Allowed(_)));
    let taken = server.until("editMessageReplyMarkup", 1).await.remove(0);
    assert_eq!((&taken["message_id"], &taken["reply_markup"]["inline_keyboard"]), (&json!(7), &json!([])));
    let outcome = server.until("sendMessage", 2).await.remove(1);
    assert!(
        outcome["text"]
            .as_str()
            .unwrap()
            .starts_with("Allowed by ann: account 42 of Telegram, by surface phone."),
        "{outcome}"
    );
    assert_eq!(outcome["reply_parameters"]["message_id"], 7);
}

#[tokio::test]
async fn an_answer_is_typed_about_what_was_told_in_that_chat() {
    let (stage, updates) = (Stage::new(), Updates::default());
    let server = service(updates.clone()).await;
    let _running = stage.desk(bot(&server.url, Ceiling::Once)).run();
    let record = stage.ask("rm -r build").await;
    server.until("sendMessage", 1).await;
    let write = |update: i64, chat: i64, from: Value, more: Value| {
        let mut message = json!({ "message_id": 90 + update, "chat": { "id": chat }, "from": from, "text": format!("/approve {} deny", record.id.as_str().split_at(12).0) });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        updates.push(json!({ "update_id": update, "message": message }));
    };
    write(1, -200, person(42), json!({}));
    write(2, -100, person(42), json!({ "forward_origin": { "type": "user" } }));
    write(3, -100, person(42), json!({ "sender_chat": { "id": -100 } }));
    write(4, -100, person(43), json!({}));
    write(5, -100, person(42), json!({ "text": "/approve" }));
    let short = format!("/approve {} allow-once", record.id.as_str().split_at(11).0);
    write(7, -100, person(42), json!({ "text": short }));
    let told = server.until("sendMessage", 4).await;
    assert!(told[1]["text"].as_str().unwrap().contains("not known here"), "{told:?}");
    assert!(told[2]["text"].as_str().unwrap().contains("Write /approve"), "{told:?}");
    assert!(told[3]["text"].as_str().unwrap().contains("at least 12 characters"), "{told:?}");
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
    write(8, -100, person(42), json!({}));
    assert_eq!(
        stage.answered(&record.id).await,
        (Decision::Deny, "ann: account 42 of Telegram, by surface phone".to_owned())
    );
}

#[tokio::test]
async fn several_processes_tell_a_question_once_and_withdraw_it_once() {
    let stage = Stage::new();
    let server = service(Updates::default()).await;
    let desks: Vec<_> = (0..4).map(|_| stage.desk(bot(&server.url, Ceiling::Once)).run()).collect();
    for number in 0..3 {
        stage.ask(&format!("ls {number}")).await;
    }
    let told = server.until("sendMessage", 3).await;
    let other = stage.ask("ls 3").await;
    server.until("sendMessage", 4).await;
    stage.store.resolve_approval(&other.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    let all = server.until("sendMessage", 5).await;
    assert!(all[4]["text"].as_str().unwrap().starts_with("Denied by joe."), "{all:?}");
    // Whoever would have sent it twice did so before a question that came later was told.
    assert_eq!((told.len(), all.len()), (3, 5));
    assert_eq!(server.of("editMessageReplyMarkup").len(), 1);
    drop(desks);
}

#[tokio::test]
async fn what_does_not_fit_is_named_and_can_only_be_denied() {
    let (stage, updates) = (Stage::new(), Updates::default());
    let server = service(updates.clone()).await;
    let _running = stage.desk(bot(&server.url, Ceiling::Once)).run();
    let record = stage.store.create_approval(question(&json!({ "text": "🙂".repeat(3_000) }))).await.unwrap();
    let message = server.until("sendMessage", 1).await.remove(0);
    let text = message["text"].as_str().unwrap();
    assert!(text.encode_utf16().count() <= 4_096, "{}", text.encode_utf16().count());
    assert!(text.contains("NOT ALL OF THIS CALL IS SHOWN HERE"), "{text}");
    assert!(text.contains(record.id.as_str()), "what stands below the arguments is there");
    assert_eq!(buttons(&message).iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(), ["Deny"]);
    // Typing it instead allows nothing either.
    let text = format!("/approve {} allow-once", record.id);
    updates.push(json!({ "update_id": 1, "message": { "message_id": 9, "chat": { "id": -100 }, "from": person(42), "text": text } }));
    let told = server.until("sendMessage", 2).await.remove(1);
    assert!(told["text"].as_str().unwrap().contains("can't be answered here"), "{told}");
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
}

#[tokio::test]
async fn what_was_shown_elsewhere_since_can_not_be_allowed_by_a_command() {
    let (stage, updates) = (Stage::new(), Updates::default());
    let server = service(updates.clone()).await;
    let _running = stage.desk(bot(&server.url, Ceiling::Once)).run();
    // All of it would have room in a message.
    let arguments = json!({ "numbers": (0..70).collect::<Vec<_>>() });
    let asked = question(&arguments);
    assert!(asked.unseen);
    let asked = NewApproval { whole: Some(Json::new(arguments)), ..asked };
    let record = stage.store.create_approval(asked).await.unwrap();
    let message = server.until("sendMessage", 1).await.remove(0);
    assert_eq!(buttons(&message).iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(), ["Deny"]);
    stage.store.mark_seen(&record.id).await.unwrap();
    let write = |update: i64, answer: &str| {
        let text = format!("/approve {} {answer}", record.id);
        updates.push(json!({ "update_id": update, "message": { "message_id": 90 + update, "chat": { "id": -100 }, "from": person(42), "text": text } }));
    };
    write(1, "allow-once");
    let told = server.until("sendMessage", 2).await.remove(1);
    assert!(told["text"].as_str().unwrap().contains("by a button of the message"), "{told}");
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
    write(2, "deny");
    assert_eq!(stage.answered(&record.id).await.0, Decision::Deny);
}

#[tokio::test]
async fn a_ceiling_bounds_what_is_offered() {
    for (ceiling, offered) in [(Ceiling::Deny, vec!["Deny"]), (Ceiling::Notice, vec![])] {
        let stage = Stage::new();
        let server = service(Updates::default()).await;
        let _running = stage.desk(bot(&server.url, ceiling)).run();
        stage.ask("ls").await;
        let message = server.until("sendMessage", 1).await.remove(0);
        let row = message["reply_markup"]["inline_keyboard"][0].as_array().unwrap();
        let labels: Vec<&str> = row
            .iter()
            .filter(|button| button.get("callback_data").is_some())
            .map(|button| button["text"].as_str().unwrap())
            .collect();
        assert_eq!(labels, offered);
        assert_eq!(message["text"].as_str().unwrap().contains("can't be answered here"), offered.is_empty());
    }
}

#[tokio::test]
async fn where_answers_are_kept_apart_nothing_is_answered() {
    let (stage, updates) = (Stage::new(), Updates::default());
    let server = service(updates.clone()).await;
    let engine = stage.strict();
    let answers = Arc::clone(engine.answer_store());
    let _running = desk(engine, bot(&server.url, Ceiling::Once)).run();
    answers.create_approval(question(&json!({ "command": "ls" }))).await.unwrap();
    let message = server.until("sendMessage", 1).await.remove(0);
    assert!(!message["reply_markup"].to_string().contains("callback_data"), "{message}");
    assert!(message["text"].as_str().unwrap().contains("on the machine alone"), "{message}");
    assert!(server.of("getUpdates").is_empty());
}

#[tokio::test]
async fn a_service_that_wants_to_be_left_alone_is_and_the_token_is_in_no_error() {
    type Case = (u16, Value, fn(&SurfaceError) -> bool);
    let later = |error: &SurfaceError| matches!(error, SurfaceError::Later { .. });
    let seven = |error: &SurfaceError| *error.after_for_tests() == Some(Duration::from_secs(7));
    let never = |error: &SurfaceError| matches!(error, SurfaceError::Never { .. });
    let content = |error: &SurfaceError| matches!(error, SurfaceError::Content { .. });
    let cases: [Case; 6] = [
        (
            429,
            json!({ "ok": false, "error_code": 429, "description": "Too Many Requests", "parameters": { "retry_after": 7 } }),
            seven,
        ),
        (
            400,
            json!({ "ok": false, "error_code": 400, "description": "Bad Request: message is too long" }),
            content,
        ),
        (409, json!({ "ok": false, "error_code": 409, "description": "Conflict" }), later),
        (500, json!("nothing"), later),
        (200, json!({ "ok": true, "result": {} }), later),
        (302, json!({}), never),
    ];
    for (status, body, is_right) in cases {
        let bytes = body.to_string().into_bytes();
        let server =
            Server::start(move |_| Some((status, "location: http://127.0.0.1:1/\r\n", bytes.clone()))).await;
        let bot = bot(&server.url, Ceiling::Once);
        let error = bot.test("-100").await.unwrap_err();
        assert!(is_right(&error), "{body}: {error:?}");
        assert!(!format!("{error} {error:?} {bot:?}").contains("sesame"), "{error:?}");
        assert!(server.asked()[0].path.contains("sesame"), "the service is told");
        assert_eq!(server.asked().len(), 1);
    }
    let nowhere = bot(&"http://127.0.0.1:1/".parse().unwrap(), Ceiling::Once);
    let error = nowhere.test("-100").await.unwrap_err();
    assert!(later(&error) && !format!("{error} {error:?}").contains("sesame"), "{error:?}");
}

/// Another process of this machine, as one that waits for an answer.
fn waiter(child: &std::process::Child) -> Option<LeaseHolder> {
    let (own, pid) = (LeaseHolder::unique(), child.id());
    let (_, rest) = own.as_str().split_once(" (")?;
    let (here, _began) = rest.rsplit_once(' ')?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let began = stat.rsplit_once(") ")?.1.split(' ').nth(19)?;
    Some(LeaseHolder::new(format!("pid {pid} ({here} {began})")))
}

#[tokio::test]
async fn a_press_for_which_nobody_waits_any_more_counts_for_nothing() {
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let waiter = waiter(&child);
    let (stage, updates) = (Stage::new(), Updates::default());
    let server = service(updates.clone()).await;
    let _running = stage.desk(bot(&server.url, Ceiling::Once)).run();
    let request = NewApproval { waiter, ..question(&json!({ "command": "./deploy.sh" })) };
    let record = stage.store.create_approval(request).await.unwrap();
    assert!(!record.is_abandoned());
    let message = server.until("sendMessage", 1).await.remove(0);
    let (text, allow) = buttons(&message).remove(0);
    assert_eq!(text, "Allow once");
    child.kill().unwrap();
    child.wait().unwrap();
    if !record.is_abandoned() {
        return;
    }
    updates.push(press(1, &person(42), -100, &allow));
    let told = server.until("answerCallbackQuery", 1).await;
    assert!(told[0]["text"].as_str().unwrap().contains("nobody waits for it any more"), "{told:?}");
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
}

trait After {
    fn after_for_tests(&self) -> &Option<Duration>;
}

impl After for SurfaceError {
    fn after_for_tests(&self) -> &Option<Duration> {
        match self {
            Self::Later { after, .. } => after,
            Self::Content { .. } | Self::Never { .. } => &None,
        }
    }
}

#[tokio::test]
async fn updates_that_nobody_sent_are_no_answers() {
    let large = "x".repeat(5 << 20);
    for body in [
        b"".to_vec(),
        b"{".to_vec(),
        br#"{"ok":true}"#.to_vec(),
        br#"{"ok":true,"result":{"update_id":1}}"#.to_vec(),
        large.into_bytes(),
    ] {
        let server = Server::start(move |_| Some((200, "", body.clone()))).await;
        assert!(bot(&server.url, Ceiling::Once).fetch().await.is_err());
    }
    let odd = json!({ "ok": true, "result": [
        null, 7, {}, { "update_id": "1" }, { "update_id": 1 }, { "update_id": 2, "callback_query": {} },
        { "update_id": 3, "callback_query": { "id": "q", "from": { "id": "42", "is_bot": false }, "data": "x" } },
        { "update_id": 4, "message": { "chat": { "id": -100 }, "from": { "id": 42 }, "message_id": 1, "text": "/approve a deny" } },
        { "update_id": i64::MAX, "message": { "text": ["/approve"] } },
    ]});
    let server = Server::start(move |_| ok(odd.clone())).await;
    assert!(bot(&server.url, Ceiling::Once).fetch().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_service_that_hangs_delays_no_other_and_no_question() {
    let stage = Stage::new();
    let server = Server::start(|_| None).await;
    let running = stage.desk(bot(&server.url, Ceiling::Once)).run();
    let record = stage.ask("ls").await;
    until(|| (!server.of("sendMessage").is_empty()).then_some(())).await;
    let answer = stage.store.resolve_approval(&record.id, Decision::Deny, "joe", Timestamp::now()).await;
    assert!(answer.unwrap().first);
    drop(running);
}
