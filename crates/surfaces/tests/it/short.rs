//! Services that do not take a message for what is in it.

use backstop_hooks::Decision;
use backstop_store::{ApprovalState, Timestamp};
use backstop_surfaces::{Ceiling, Webhook, WebhookSettings, signature::SigningSecret};
use serde_json::{Value, json};

use crate::server::{Asked, Reply, Server, ok};
use crate::stage::{Stage, anywhere, counted, name, until};
use crate::telegram::{Updates, bot, person};

/// A service that takes nothing of a call: neither its arguments nor buttons.
fn picky(asked: &Asked, updates: &Updates) -> Reply {
    let body = String::from_utf8_lossy(&asked.body).into_owned();
    match asked.method() {
        "getUpdates" => updates.answer(asked),
        "sendMessage" if body.contains("rm -r") || body.contains("callback_data") => {
            let refused =
                json!({ "ok": false, "error_code": 400, "description": "Bad Request: message is too long" });
            Some((400, "", refused.to_string().into_bytes()))
        }
        "sendMessage" => ok(json!({ "ok": true, "result": { "message_id": 7, "chat": { "id": -100 } } })),
        _ => ok(json!({ "ok": true, "result": true })),
    }
}

#[tokio::test]
async fn what_a_service_does_not_take_is_told_in_short_once_and_is_not_allowed_there() {
    let (stage, updates) = (Stage::new(), Updates::default());
    let of_server = updates.clone();
    let server = Server::start(move |asked| picky(asked, &of_server)).await;
    let (desk, became) = counted(stage.engine(), bot(&server.url, Ceiling::Once));
    let _running = desk.run();
    let record = stage.ask("rm -r build").await;
    let told = server.until("sendMessage", 2).await;
    assert!(told[0].to_string().contains("rm -r build") && told[0].to_string().contains("callback_data"));
    let short = told[1]["text"].as_str().unwrap();
    for part in [
        "CRITICAL",
        "exec",
        "main",
        "NOTHING OF THIS CALL IS SHOWN HERE",
        "on the console",
        record.id.as_str(),
    ] {
        assert!(short.contains(part), "`{part}` is not in {short}");
    }
    for part in ["rm -r", "Run this", "deletes", "guards", &record.code] {
        assert!(!short.contains(part), "`{part}` is in {short}");
    }
    assert!(told[1].to_string().contains("https://console.example/-/console/approvals/"), "{}", told[1]);
    assert_eq!(until(|| Some(became.all()).filter(|all| !all.is_empty())).await, ["shortened"]);
    // INVARIANT (what the human saw): a command allows nothing that was not shown.
    let write = |update: i64, answer: &str| {
        let text = format!("/approve {} {answer}", record.id);
        updates.push(json!({ "update_id": update, "message": { "message_id": 90 + update, "chat": { "id": -100 }, "from": person(42), "text": text } }));
    };
    write(1, "allow-once");
    let back = server.until("sendMessage", 3).await.remove(2);
    assert!(back["text"].as_str().unwrap().contains("shows nothing of the call"), "{back}");
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
    write(2, "deny");
    assert_eq!(stage.answered(&record.id).await.0, Decision::Deny);
    // The message that was taken is the one that is withdrawn.
    let edited = server.until("editMessageReplyMarkup", 1).await.remove(0);
    assert_eq!(edited["message_id"], json!(7));
}

#[tokio::test]
async fn a_short_notice_that_is_not_taken_either_is_the_last_one_for_a_while() {
    let stage = Stage::new();
    let server = Server::start(|_| Some((413, "", Vec::new()))).await;
    let url = server.url.join("hook").unwrap();
    let (desk, became) = counted(
        stage.engine(),
        Webhook::new(WebhookSettings {
            name: name("pager"),
            url,
            secret: SigningSecret::read(&"0123456789abcdef".repeat(2)).unwrap(),
            answer_secret: None,
            ceiling: Ceiling::Once,
            egress: anywhere(),
        }),
    );
    let _running = desk.run();
    let record = stage.ask("rm -r build").await;
    let told = server.until("hook", 2).await;
    let data = |told: &Value| told["data"].clone();
    assert_eq!((&data(&told[0])["short"], &data(&told[1])["short"]), (&json!(false), &json!(true)));
    let short = data(&told[1]).to_string();
    assert!(!short.contains("rm -r") && !short.contains("Run this") && !short.contains("handle"), "{short}");
    assert!(short.contains("exec") && short.contains("main") && short.contains("critical"), "{short}");
    let ids: Vec<_> = server
        .asked()
        .iter()
        .map(|asked| asked.head.lines().find(|line| line.starts_with("webhook-id")).unwrap().to_owned())
        .collect();
    assert_ne!(ids[0], ids[1], "something else is another delivery");
    // Another question is told, and the first one not again.
    let other = stage.ask("ls").await;
    let told = server.until("hook", 4).await;
    assert_eq!(data(&told[3])["approval"]["id"], json!(other.id));
    assert_eq!(until(|| Some(became.all()).filter(|all| all.len() == 2)).await, ["failed"; 2]);
    stage.store.resolve_approval(&record.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    stage.store.resolve_approval(&other.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    assert_eq!(server.of("hook").len(), 4);
}
