//! The corpus of adversarial answers on a WebSocket: each event as one message.

use backstop_gateway::hooked::HookSettings;
use backstop_llm::Api;

use super::gateway;
use super::support::*;
use crate::hooked::adversarial::corpus::{Written, corpus, tells};
use crate::hooked::adversarial::{as_messages, denying};

#[tokio::test]
async fn adversarial_answers_tell_nothing_on_a_websocket() {
    let mut faults = Vec::new();
    let mut count = 0;
    for answer in ["encodings", "types", "truncation", "grammar"].into_iter().flat_map(corpus) {
        if answer.api != Api::OpenAiResponses || answer.form != Written::Events {
            continue;
        }
        count += 1;
        let messages = as_messages(&answer);
        let provider = Provider::start(move |number| {
            let size = if number == 0 { usize::MAX } else { 3 };
            Play::bytes(&messages, size).then_breaks()
        })
        .await;
        let gateway = gateway(&denying(), &provider, HookSettings::default()).await;
        for _ in 0..2 {
            let mut client = Client::open(&gateway).await;
            client.ask("hi").await;
            let got = client.answer_or_rest().await.join("\n");
            if tells(got.as_bytes()) {
                faults.push(format!("{}: {got}", answer.name));
            }
        }
    }
    assert!(count > 150, "{count}");
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}
