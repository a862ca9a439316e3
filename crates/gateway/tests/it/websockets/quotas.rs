//! How much one caller may ask, on one connection.

use backstop_gateway::{Quota, Transparent};
use tokio_tungstenite::tungstenite::Message;

use super::support::*;
use crate::support::start;

#[tokio::test]
async fn turns_on_a_websocket_are_requests() {
    let events = answer("Hello.", None);
    let played = events.clone();
    let provider = Provider::start(move |_| Play::cut(&played, usize::MAX)).await;
    let mut settings = open_settings(&provider.url());
    // One to open it, and two turns.
    settings.quotas.shared_token = Quota { requests_per_minute: Some(3), concurrent_requests: Some(1) };
    let gateway = start(settings, Transparent).await.unwrap();
    let mut client = Client::open(&gateway).await;
    for turn in ["one", "two"] {
        client.send(Message::text(asked(turn))).await;
        assert_eq!(client.answer().await, events);
    }
    client.send(Message::text(asked("three"))).await;
    let told = client.answer().await.concat();
    assert!(told.contains("may have 3 requests a minute"), "{told}");
    assert_eq!(provider.heard().len(), 2);
}
