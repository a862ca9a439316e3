//! Tools that a provider would run itself; they are judged when they are offered.

use backstop_hooks::points::{PROVIDER_TOOL, ToolCallEvent};
use backstop_hooks::{CallContext, Params, Resolution, RunId, ToolName};
use tokio::task::consume_budget;

use super::passage::{Concluded, Foreseen, Question};
use super::{Engine, Unasked};
use crate::approvals::Attendance;
use crate::receipt::Blocked;

/// What happens to a question about a tool that a provider would run itself. It can't be left to the client: the provider
/// runs the tool, so no hook of the client would ever ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferQuestion {
    /// A person has already answered it and allowed the offer.
    Answered,
    /// The question is filed, and the tool is not offered.
    File,
    /// The host waits for the human.
    Wait,
}

impl From<Unasked> for OfferQuestion {
    fn from(unasked: Unasked) -> Self {
        match unasked {
            Unasked::Leave | Unasked::Deny => Self::File,
            Unasked::Wait => Self::Wait,
        }
    }
}

/// What happens to a tool that a provider would run itself, when it is offered.
#[derive(Clone, Debug)]
pub enum OfferRuling {
    /// Nobody objects, or a grant allows it for now.
    Passes,
    /// A person allowed this very offer.
    Allowed,
    /// It may not be offered.
    Refused(Blocked),
}

impl Engine {
    /// Returns whether a tool that a provider would run itself may be offered to a model, according to what the gates of tool
    /// calls say about calls of it under each of its `names`. They are asked about a call of the kind [`PROVIDER_TOOL`] without
    /// an id, with `said`, the description of the tool, as arguments; nobody sees its calls before they are made. Their
    /// questions to a human become one question about the offer, which counts for the same offer with the same arguments, as
    /// `question` says. Leaves receipts.
    pub async fn rule_offer(
        &self,
        names: &[String],
        said: &Params,
        run: &RunId,
        call: &CallContext,
        question: OfferQuestion,
    ) -> OfferRuling {
        let snapshot = self.0.registry.snapshot();
        let mut asking: Option<Foreseen<'_>> = None;
        for name in names {
            consume_budget().await;
            let offered = ToolCallEvent::new(ToolName::new(name), said.clone()).run_id(run.clone());
            let offered = offered.tool_kind(PROVIDER_TOOL.to_owned());
            let mut foreseen = self.foresee(&snapshot, offered, call).await;
            foreseen.is_no_call();
            match &mut asking {
                None if foreseen.asks() => {
                    asking = Some(foreseen);
                    continue;
                }
                Some(first) if foreseen.asks() => first.take_questions(&mut foreseen),
                _ => {}
            }
            if let Some(blocked) = self.conclude(foreseen, Question::Left).await.blocked {
                if let Some(first) = asking {
                    self.conclude(first, Question::Left).await;
                }
                return OfferRuling::Refused(blocked);
            }
        }
        let Some(first) = asking else { return OfferRuling::Passes };
        let question = match question {
            OfferQuestion::Answered => Question::Left,
            OfferQuestion::File => Question::Put(&Attendance::Nobody),
            OfferQuestion::Wait => Question::Put(&Attendance::Queue),
        };
        match self.conclude(first, question).await {
            Concluded { blocked: Some(blocked), .. } => OfferRuling::Refused(blocked),
            // A grant ends or is revoked, so it is looked up again for the next offer.
            Concluded { resolution: Some(Resolution::AllowOnce), .. } => OfferRuling::Allowed,
            Concluded { .. } => OfferRuling::Passes,
        }
    }
}
