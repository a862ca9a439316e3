//! Questions that are told on some surfaces only.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::Decision;
use backstop_store::{
    ApprovalRecord, ApprovalState, AskedPeople, NewApproval, Route, Timestamp, ToldLater, ToldOn,
};
use backstop_surfaces::handle::Handle;
use backstop_surfaces::{Ceiling, Desk, Holder, Ntfy, Running};
use serde_json::{Value, json};

use crate::server::{Server, ok};
use crate::stage::{Stage, anywhere, name, people, question, until};
use crate::telegram::{Updates, bot, person, service};

/// A desk with a chat (`phone`) and a topic (`topic`).
async fn both(stage: &Stage) -> (Server, Updates, Server, Running) {
    let updates = Updates::default();
    let chat = service(updates.clone()).await;
    let topic = Server::start(|_| ok(json!({ "id": "n1", "time": 1 }))).await;
    let ntfy = Ntfy::new(name("topic"), topic.url.clone(), "ops".to_owned(), None, anywhere());
    let console = Some("https://console.example/".parse().unwrap());
    let surfaces: Vec<Arc<dyn backstop_surfaces::Surface>> =
        vec![Arc::new(bot(&chat.url, Ceiling::Once)), Arc::new(ntfy)];
    let desk = Desk::new(stage.engine(), surfaces, console, None, Holder::default());
    (chat, updates, topic, desk.run())
}

fn on(surfaces: &[&str]) -> ToldOn {
    ToldOn { surfaces: surfaces.iter().map(|name| (*name).to_owned()).collect(), later: Vec::new() }
}

async fn ask(stage: &Stage, agent: &str, told: Option<ToldOn>) -> ApprovalRecord {
    let route = Route {
        asked: AskedPeople::of(["ann", "bob"], &people()),
        votes: NonZeroU32::MIN,
        escalation: None,
        barred: None,
        told,
    };
    let request = question(&json!({ "command": "ls" }));
    let request = NewApproval { agent: agent.into(), route: Some(route), ..request };
    stage.store.create_approval(request).await.unwrap()
}

/// Of which questions the chat was told.
fn told(chat: &Server) -> Vec<String> {
    chat.of("sendMessage").iter().map(|message| message["text"].to_string()).collect()
}

async fn until_told(chat: &Server, record: &ApprovalRecord) {
    until(|| told(chat).iter().any(|text| text.contains(record.id.as_str())).then_some(())).await;
}

#[tokio::test]
async fn a_question_is_told_where_its_route_says_and_nowhere_else() {
    let stage = Stage::new();
    let (chat, _updates, topic, _running) = both(&stage).await;
    let nowhere = ask(&stage, "a", Some(on(&[]))).await;
    let in_chat = ask(&stage, "b", Some(on(&["phone"]))).await;
    let by_topic = ask(&stage, "c", Some(on(&["topic", "elsewhere"]))).await;
    let everywhere = ask(&stage, "d", None).await;
    until_told(&chat, &everywhere).await;
    until_told(&chat, &in_chat).await;
    topic.until("", 2).await;
    let links: Vec<String> = topic.of("").iter().map(|notice| notice["click"].to_string()).collect();
    for record in [&by_topic, &everywhere] {
        assert!(links.iter().any(|link| link.contains(record.id.as_str())), "{links:?}");
    }
    let told = told(&chat);
    for record in [&nowhere, &by_topic] {
        assert!(!told.iter().any(|text| text.contains(record.id.as_str())), "{told:?}");
    }
    assert_eq!((told.len(), links.len()), (2, 2));
    // What is over is told nobody who was not told of it.
    stage.store.resolve_approval(&in_chat.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap_err();
    let by = Arc::new(people()).answerer(&backstop_store::Identity::Telegram(42), "ann");
    let deny = backstop_store::PersonsAnswer::new(Decision::Deny, by, Timestamp::now());
    stage.store.answer_approval(&by_topic.id, deny.clone()).await.unwrap();
    stage.store.answer_approval(&nowhere.id, deny).await.unwrap();
    topic.until("", 3).await;
    assert_eq!(self::told(&chat).len(), 2);
}

#[tokio::test]
async fn what_was_not_told_in_a_chat_is_not_answered_there() {
    let stage = Stage::new();
    let (chat, updates, topic, _running) = both(&stage).await;
    let record = ask(&stage, "a", Some(on(&["topic"]))).await;
    topic.until("", 1).await;
    let text = format!("/approve {} deny", record.id);
    updates.push(json!({ "update_id": 1, "message": {
        "message_id": 91, "chat": { "id": -100 }, "from": person(42), "text": text,
    }}));
    let handle: Value = Handle::make().unwrap().expose().to_owned().into();
    updates.push(json!({ "update_id": 2, "callback_query": {
        "id": "q2", "from": person(42), "data": handle, "chat_instance": "1",
        "message": { "message_id": 7, "date": 0, "chat": { "id": -100 } },
    }}));
    let told = chat.until("sendMessage", 1).await;
    assert_eq!(told[0]["text"], "There is no such question here, or no more.");
    let told = chat.until("answerCallbackQuery", 1).await;
    assert_eq!(told[0]["text"], "There is no such question here, or no more.");
    assert_eq!(stage.state(&record.id).await, ApprovalState::Pending);
    // The same person may answer it, where they are.
    let by = Arc::new(people()).answerer(&backstop_store::Identity::Telegram(42), "ann");
    let deny = backstop_store::PersonsAnswer::new(Decision::Deny, by, Timestamp::now());
    stage.store.answer_approval(&record.id, deny).await.unwrap();
}

#[tokio::test]
async fn others_are_told_later_while_it_still_waits() {
    let stage = Stage::new();
    let (chat, _updates, topic, _running) = both(&stage).await;
    let at = Timestamp::now().after(Duration::from_secs(2));
    let later = |at| ToldLater { surfaces: on(&["phone"]).surfaces, at, uptime: None };
    let record = ask(&stage, "a", Some(ToldOn { later: vec![later(at)], ..on(&["topic"]) })).await;
    let much_later = at.after(Duration::from_secs(3_600));
    let other = ask(&stage, "b", Some(ToldOn { later: vec![later(much_later)], ..on(&["topic"]) })).await;
    topic.until("", 2).await;
    until_told(&chat, &record).await;
    assert!(Timestamp::now() > at, "it was told too early");
    assert!(!told(&chat).iter().any(|text| text.contains(other.id.as_str())));
}

#[tokio::test]
async fn questions_that_others_are_told_of_take_no_place_of_those_that_are_told() {
    let stage = Stage::new();
    // More than are looked at in one round, and all of them end before the one that is told.
    for number in 0..1_010 {
        ask(&stage, &format!("agent-{}", number / 50), Some(on(&["topic"]))).await;
    }
    let mut record = question(&json!({ "command": "ls" }));
    record.expires_at = record.expires_at.after(Duration::from_secs(60));
    let record = stage.store.create_approval(NewApproval { agent: "other".into(), ..record }).await.unwrap();
    let (chat, _updates, _topic, _running) = both(&stage).await;
    until_told(&chat, &record).await;
    assert_eq!(told(&chat).len(), 1);
}
