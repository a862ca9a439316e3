//! Who watches an answer that is no answer of a model.

use backstop_engine::ResponseGate;
use backstop_llm::{ErrorCategory, ProviderError, ProviderErrorKind, estimate_tokens};
use http::StatusCode;

use super::{Answer, InspectedExchange};
use crate::exchange::{Answered, Watch};
use crate::inspect::document::DocumentJudge;
use crate::inspect::heads::{is_event_stream, is_sound};
use crate::inspect::judge::Gates;
use crate::inspect::names::Names;
use crate::inspect::numbers::Numbers;
use crate::inspect::reply;
use crate::inspect::usage::UsageReader;
use crate::readable::{self, Shape};

impl InspectedExchange {
    /// What watches an error of the provider's: where hooks judge texts its own are judged, too.
    pub(super) fn error(&mut self, answered: &Answered<'_>) -> Watch {
        let gates = self.active_hooks.gates(&self.shared.settings);
        // An error in the place of an answer that goes on after a refusal is not shown.
        let is_shown = self.joint().is_none();
        let Some(gates) = gates.filter(|gates| is_shown && gates.emit != ResponseGate::Open) else {
            return Watch::Opaque;
        };
        let document = readable::Answered::Error(&readable::ERROR);
        let (engine, is_plain) = (self.shared.engine.clone(), false);
        self.error_status = answered.status;
        self.answer = Answer::Document(Box::new(DocumentJudge::new(document, is_plain, engine, gates)));
        Watch::Look { keep_alive: None }
    }

    /// What watches an answer that is a document.
    pub(super) fn document(&mut self, answered: &Answered<'_>, document: readable::Answered) -> Watch {
        let gates = self.active_hooks.gates(&self.shared.settings);
        let Some(gates) = gates else {
            self.answer = Answer::Counted(self.usage_reader());
            return Watch::Look { keep_alive: None };
        };
        match document {
            readable::Answered::Sound if is_sound(answered.headers) => {
                self.answer = Answer::Counted(self.usage_reader());
                return Watch::Look { keep_alive: None };
            }
            readable::Answered::Sound => {
                return self.refuse("it is no recording, and nothing else can be judged here");
            }
            readable::Answered::Numbers(shape) => return self.numbers(shape, gates),
            _ => {}
        }
        if is_event_stream(answered.headers) {
            return self.refuse("a stream of this operation can't be judged");
        }
        self.answer = Answer::Document(Box::new(DocumentJudge::new(
            document,
            self.is_plain,
            self.shared.engine.clone(),
            gates,
        )));
        Watch::Look { keep_alive: None }
    }

    /// What watches an answer of numbers.
    pub(super) fn numbers(&mut self, shape: &'static Shape, gates: Gates) -> Watch {
        let Some(model_call) = &self.model_call else { return Watch::Opaque };
        let names = Names::new(&self.shared.engine, &model_call.call, &gates);
        self.answer = Answer::Numbers(Box::new(Numbers::new(shape, names)), self.usage_reader());
        Watch::Look { keep_alive: None }
    }

    /// What reads the cost of an answer that passes.
    pub(super) fn usage_reader(&self) -> UsageReader {
        let asked = self.model_call.as_ref().map(|model_call| estimate_tokens(&model_call.request));
        UsageReader::new(self.shared.settings.answer_bytes, asked.unwrap_or_default())
    }

    /// An answer of which nothing may leave.
    pub(super) fn refuse(&mut self, why: &str) -> Watch {
        self.end(Some((ErrorCategory::Protocol.as_str(), None)));
        let message = format!("backstop: the provider's answer can't be used: {why}");
        let status = StatusCode::BAD_GATEWAY.as_u16();
        let error = ProviderError::new(ProviderErrorKind::Server, status, None, &message);
        Watch::Refuse(reply::error(self.endpoint.family, &error))
    }
}
