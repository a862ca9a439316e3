//! A host of a program's own: a chat room whose answers come from a model.
//!
//! A host turns what happens into events, hands each to the engine at its point, and obeys what comes back.
//! This one fires the points around a model call, keeps every receipt, and ends its runs.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::{Arc, Mutex, PoisonError};

use backstop::Engine;
use backstop::engine::{HookOptions, Receipt, ReceiptSink};
use backstop::hooks::points::{
    BeforeResponseEmit, MessageBefore, MessageBeforeEvent, MessageBeforeOutcome, ResponseEmitEvent,
    ResponseEmitOutcome,
};
use backstop::hooks::{AgentId, CallContext, OwnerId, Params, RunId, SessionKey, Text, hook_fn};

/// Writes down, point by point, what was decided.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl ReceiptSink for Log {
    fn record(&self, receipt: &Receipt) {
        let line = format!("{} {:?}", receipt.point, receipt.verdict);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// The host.
struct Room {
    engine: Engine,
    log: Arc<Log>,
}

impl Room {
    fn open() -> Self {
        let log = Arc::new(Log::default());
        let sink: Arc<dyn ReceiptSink> = Arc::clone(&log) as _;
        Self { engine: Engine::builder().sink(sink).build(), log }
    }

    /// One message of a user; what the room gets to read.
    async fn say(&self, run: &str, message: &str) -> Result<String, Box<dyn std::error::Error>> {
        // Who acts, in which conversation, in which turn: the same for every hook that is asked.
        let call = CallContext {
            agent_id: Some(AgentId::new("room")),
            session_key: Some(SessionKey::new("room:42")),
            run_id: Some(RunId::new(run)),
            ..CallContext::default()
        };
        let event = MessageBeforeEvent {
            agent_id: AgentId::new("room"),
            session_key: call.session_key.clone(),
            provider: "example".to_owned(),
            model: "parrot".to_owned(),
            message: Text::from(message),
            metadata: Params::default(),
        };
        let message = match self.engine.decide::<MessageBefore>(event, &call).await.permit() {
            Ok(event) => event.message.clone(),
            Err(blocked) => return Ok(format!("(not sent: {})", blocked.reason_or_default())),
        };
        let answer = Text::from(parrot(&message));
        let event = ResponseEmitEvent {
            run_id: Some(RunId::new(run)),
            content: answer.clone(),
            all_content: vec![answer],
            channel: Some("room".to_owned()),
            message_count: 2,
        };
        let shown = match self.engine.decide::<BeforeResponseEmit>(event, &call).await.permit() {
            Ok(event) => event.content.to_string(),
            Err(blocked) => format!("(not shown: {})", blocked.reason_or_default()),
        };
        self.engine.end_run(call.session_id.as_ref(), &RunId::new(run)).await?;
        Ok(shown)
    }
}

/// The model.
fn parrot(message: &str) -> String {
    format!("you said: {message}")
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let room = Room::open();
    // These points read the conversation. The program itself may, as the operator; whoever else has hooks here
    // is to be allowed to, by name (`OwnerSettings::allow_conversation_access`).
    let options = |id: &str| HookOptions::new(OwnerId::operator()).id(id);
    let shorten = hook_fn::<MessageBefore, _>(|event, _| {
        let short: String = event.message.chars().take(20).collect();
        let outcome = MessageBeforeOutcome { message: Some(short.into()), metadata: None };
        Ok((event.message.chars().count() > 20).then_some(outcome))
    });
    room.engine.registry().on(shorten, options("shorten"))?;
    let no_shouting = hook_fn::<BeforeResponseEmit, _>(|event, _| {
        let shouts = event.content.contains('!');
        Ok(shouts.then(|| ResponseEmitOutcome {
            block: Some(true),
            block_reason: Some("no shouting".into()),
            ..ResponseEmitOutcome::default()
        }))
    });
    room.engine.registry().on(no_shouting, options("no-shouting"))?;

    for (run, message, expected) in [
        ("run-1", "hello", "you said: hello"),
        ("run-2", "this is much too long for a room like ours", "you said: this is much too lon"),
        ("run-3", "hey!", "(not shown: no shouting)"),
    ] {
        let shown = room.say(run, message).await?;
        println!("{message} -> {shown}");
        assert_eq!(shown, expected);
    }
    let log = room.log.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    println!("{log:#?}");
    assert_eq!(log.len(), 6, "each dispatch leaves a receipt");
    Ok(())
}
