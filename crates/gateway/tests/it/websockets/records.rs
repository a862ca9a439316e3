//! The records that turns leave.

use std::sync::{Arc, Mutex};

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Gateway, Observers, Outcome, RequestRecord, RequestSink};
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome};

use super::support::*;
use crate::inspect::support::House;
use crate::support::eventually;

#[derive(Default)]
struct Kept(Mutex<Vec<RequestRecord>>);

impl RequestSink for Kept {
    fn ended(&self, record: &RequestRecord) {
        self.0.lock().unwrap().push(record.clone());
    }
}

#[tokio::test]
async fn each_turn_leaves_a_record_besides_that_of_the_handshake() {
    let play = |number| match number {
        0 | 1 => Play::events(&answer("Done.", None)),
        _ => Play::default().then_breaks(),
    };
    let provider = Provider::start(play).await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("looks", |event| {
        let stops = serde_json::to_string(&event.messages).unwrap().contains("stop");
        stops.then(|| BeforeLlmCallOutcome { block: Some(true), ..BeforeLlmCallOutcome::default() })
    });
    let kept = Arc::new(Kept::default());
    let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
    let observers =
        Observers { sinks: vec![Arc::clone(&kept) as Arc<dyn RequestSink>], ..Observers::default() };
    let settings = open_settings(&provider.url());
    let gateway = Gateway::observed(settings, Arc::new(hooks), observers).await.unwrap();
    let mut client = Client::open(&gateway).await;
    for text in ["hi", "stop", "hi"] {
        client.ask(text).await;
        client.answer_or_rest().await;
    }
    client.ask("breaks").await;
    client.rest().await;
    let count = || kept.0.lock().unwrap().len();
    eventually("all records are there", || count() == 5).await;
    let records = kept.0.lock().unwrap();
    let outcomes: Vec<Outcome> = records.iter().map(|record| record.outcome).collect();
    let (answered, blocked) = (Outcome::Answered, Outcome::Blocked);
    assert_eq!(outcomes, [answered, answered, blocked, answered, Outcome::Failed]);
    assert_eq!(records[0].status, 101);
    for record in &records[1..] {
        assert_eq!((record.operation.as_str(), record.wire.as_str()), ("responses", "openai-responses"));
        let was_asked = record.outcome != blocked;
        assert_eq!((record.provider.as_str() != "none", record.added.is_some()), (was_asked, was_asked));
    }
    assert!(records[1].answer_bytes > 0 && records[1].first_byte.is_some(), "{:?}", records[1]);
}
