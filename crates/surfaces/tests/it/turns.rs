//! Agents that ask a lot, and those beside them.

use std::time::Duration;

use backstop_surfaces::Ntfy;
use serde_json::{Value, json};

use crate::server::{Server, ok};
use crate::stage::{Stage, anywhere, desk, name};

fn agents(notices: &[Value]) -> Vec<String> {
    let text = |notice: &Value| notice["message"].as_str().unwrap().to_owned();
    notices.iter().map(|notice| text(notice).split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_agent_that_floods_leaves_the_next_message_to_another_and_what_waits_is_told() {
    let stage = Stage::new();
    let server = Server::start(|_| ok(json!({ "id": "n1", "time": 1 }))).await;
    // All of them end before the question of the other one.
    for _ in 0..30 {
        stage.ask_of("flood", 300).await;
    }
    let topic = Ntfy::new(name("topic"), server.url.clone(), "ops".to_owned(), None, anywhere());
    let _running = desk(stage.engine(), topic).run();
    let told = server.until("", 4).await;
    assert_eq!(agents(&told), ["flood"; 4]);
    let more = |notice: &Value| notice["message"].as_str().unwrap().contains("more questions");
    assert_eq!(told.iter().map(more).collect::<Vec<_>>(), [false, false, false, true]);
    assert!(
        told[3]["message"].as_str().unwrap().ends_with("26 more questions of this agent wait."),
        "{told:?}"
    );
    stage.ask_of("quiet", 600).await;
    let told = server.until("", 5).await;
    assert_eq!(agents(&told)[4], "quiet");
    // The others are told nevertheless, each when its turn comes.
    stage.ask_of("quiet", 600).await;
    let told = server.until("", 7).await;
    let mut last = agents(&told)[5..].to_vec();
    last.sort();
    assert_eq!(last, ["flood", "quiet"]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(server.of("").len() <= 8, "and no faster than the place takes");
}
