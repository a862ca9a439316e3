//! Tools that a provider would run by itself, judged where they are offered.

use backstop_hooks::points::{PROVIDER_TOOL, ToolCallEvent};
use backstop_hooks::{CallContext, Params, RunId, ToolName};
use tokio::task::consume_budget;

use super::passage::{Foreseen, Question};
use super::{Engine, Unasked};
use crate::approvals::Attendance;
use crate::receipt::Blocked;

/// What becomes of a tool that a provider would run by itself, where it is offered.
#[derive(Clone, Debug)]
pub enum OfferRuling {
    /// Nobody objects.
    Passes,
    /// A human was asked and allows it.
    Allowed,
    /// It may not be offered.
    Refused(Blocked),
}

impl Engine {
    /// Whether a tool that a provider would run by itself may be offered to a model, by what the gates of tool calls say of calls of
    /// it under each of its `names`. They are asked about a call of the kind [`PROVIDER_TOOL`] that has no id, with what is `said`
    /// of the tool as arguments; nobody sees its calls before they are made. What they ask a human is put as one question about
    /// the offer, which counts for the same offer with the same arguments, or left to others, as `unasked` says. Leaves receipts.
    pub async fn rule_offer(
        &self,
        names: &[String],
        said: &Params,
        run: &RunId,
        call: &CallContext,
        unasked: Unasked,
    ) -> OfferRuling {
        let snapshot = self.0.registry.snapshot();
        let mut asking: Option<Foreseen<'_>> = None;
        for name in names {
            consume_budget().await;
            let offered = ToolCallEvent::new(ToolName::new(name), said.clone()).run_id(run.clone());
            let offered = offered.tool_kind(PROVIDER_TOOL.to_owned());
            let mut foreseen = self.foresee(&snapshot, offered, call).await;
            match &mut asking {
                None if foreseen.asks() => {
                    asking = Some(foreseen);
                    continue;
                }
                Some(first) if foreseen.asks() => first.take_questions(&mut foreseen),
                _ => {}
            }
            if let Some(blocked) = self.conclude(foreseen, Question::Left).await {
                if let Some(first) = asking {
                    self.conclude(first, Question::Left).await;
                }
                return OfferRuling::Refused(blocked);
            }
        }
        let Some(first) = asking else { return OfferRuling::Passes };
        let (question, passes) = match unasked {
            Unasked::Leave => (Question::Left, OfferRuling::Passes),
            Unasked::Deny => (Question::Put(&Attendance::Nobody), OfferRuling::Allowed),
            Unasked::Wait => (Question::Put(&Attendance::Queue), OfferRuling::Allowed),
        };
        self.conclude(first, question).await.map_or(passes, OfferRuling::Refused)
    }
}
