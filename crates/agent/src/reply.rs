//! What is said in a session without a model: the answer to a command.
//!
//! It goes out by the same door as everything else: hooks at `before_response_emit` judge it, `message_received` is told of the message.
//! Neither the message nor the answer is in the transcript; no model reads them.

use backstop_hooks::points::MessageReceived;
use backstop_hooks::{CallContext, PointId, Text};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::report::{TurnInput, TurnOutcome, new_run_id};
use crate::session::AgentSession;
use crate::turn;

impl Agent {
    /// Lets `answer` answer a message. It is given whose message it is.
    ///
    /// # Errors
    ///
    /// [`AgentError`], where the storage failed.
    pub async fn reply<F: Future<Output = Text>>(
        &self,
        session: &AgentSession,
        input: &TurnInput,
        answer: impl FnOnce(CallContext) -> F,
    ) -> Result<TurnOutcome, AgentError> {
        let run = new_run_id();
        let call = turn::context(self, session, &run, input);
        let received = turn::received_event(&call, input);
        self.engine.observe::<MessageReceived>(&received, &call).await;
        let text = answer(call.clone()).await;
        let emitted = turn::emit_alone(self, &call, &run, text).await;
        self.engine.end_run(Some(session.id()), &run).await?;
        Ok(match emitted {
            Ok(Some(text)) => TurnOutcome::Answered { text },
            Ok(None) => TurnOutcome::Silent,
            Err(blocked) => {
                let point = PointId::BeforeResponseEmit;
                let by = turn::blocker(&blocked, point);
                TurnOutcome::Blocked { by, point, message: blocked.reason_or_default() }
            }
        })
    }
}
