//! Surfaces that name nobody.

use std::sync::Arc;

use backstop_hooks::{Decision, Secret};
use backstop_store::Timestamp;
use backstop_surfaces::{Ceiling, Ntfy, Posted, Refused, Surface as _};
use http::HeaderMap;
use serde_json::json;

use crate::server::{Server, ok};
use crate::stage::{Stage, anywhere, desk, name, question, token};

#[tokio::test]
async fn a_topic_is_told_that_something_waits_and_nothing_of_what() {
    let stage = Stage::new();
    let server = Server::start(|_| ok(json!({ "id": "n1", "time": 1 }))).await;
    let topic = Ntfy::new(
        name("topic"),
        server.url.clone(),
        "ops".to_owned(),
        Some(Secret::new(token())),
        anywhere(),
    );
    assert_eq!(topic.ceiling(), Ceiling::Notice);
    assert!(!format!("{topic:?}").contains("sesame") && !format!("{topic:?}").contains("ops"));
    let desk = stage.desk(topic);
    let _running = desk.run();
    let record = stage.ask("rm -r build").await;
    let notice = server.until("", 1).await.remove(0);
    assert!(server.asked()[0].head.contains(&format!("authorization: Bearer {}", token())));
    assert_eq!((&notice["topic"], &notice["priority"]), (&json!("ops"), &json!(5)));
    let link = format!("https://console.example/-/console/approvals/{}", record.id);
    assert_eq!(notice["actions"], json!([{ "action": "view", "label": "Open the console", "url": link }]));
    let text = notice.to_string();
    for secret in ["rm -r build", "Run this", "deletes", record.code.as_str()] {
        assert!(!text.contains(secret), "`{secret}` is in {text}");
    }
    assert!(text.contains("exec") && text.contains("main"), "{text}");
    let posted = Posted { headers: &HeaderMap::new(), body: b"{}", now: Timestamp::now() };
    assert_eq!(desk.posted("topic", &posted).await, Err(Refused::NotHere));
    stage.store.resolve_approval(&record.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    let over = server.until("", 2).await.remove(1);
    assert!(
        over["message"].as_str().unwrap().contains("was answered") && !over.to_string().contains("joe"),
        "{over}"
    );
}

#[tokio::test]
async fn a_notice_says_where_an_answer_really_counts() {
    let stage = Stage::new();
    for (engine, here, elsewhere) in [
        (stage.engine(), "Answer on the console.", "on the machine"),
        (stage.strict(), "Answer on the machine itself: `backstop approvals`.", "on the console"),
    ] {
        let server = Server::start(|_| ok(json!({ "id": "n1", "time": 1 }))).await;
        let topic = Ntfy::new(name("topic"), server.url.clone(), "ops".to_owned(), None, anywhere());
        let answers = Arc::clone(engine.answer_store());
        let _running = desk(engine, topic).run();
        answers.create_approval(question(&json!({ "command": "ls" }))).await.unwrap();
        let notice = server.until("", 1).await.remove(0);
        let text = notice["message"].as_str().unwrap();
        assert!(text.contains(here) && !text.contains(elsewhere), "{text}");
    }
}
