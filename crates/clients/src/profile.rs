//! A client as a host: the points that its events fire, and what it makes of the answers there.
//!
//! Both are read off the adapter: the moments that its installed events report, and the encoders that it has or lacks.

use backstop_hooks::{Honour, HostProfile, PointId};

use crate::adapter::{AskGate, ResultGate};
use crate::client::Client;
use crate::decision::Shortfall;
use crate::event::{Moment, MomentKind};

impl Moment {
    /// Which kind of moment it is; `None` for what no hook point is about.
    pub fn kind(&self) -> Option<MomentKind> {
        Some(match self {
            Self::ToolCall(_) | Self::Permission(_) => MomentKind::ToolCall,
            Self::ToolResult(_) => MomentKind::ToolResult,
            Self::Prompt(_) => MomentKind::Prompt,
            Self::Stop(_) => MomentKind::Stop,
            Self::SessionStart { .. } => MomentKind::SessionStart,
            Self::SessionEnd { .. } => MomentKind::SessionEnd,
            Self::BeforeCompaction => MomentKind::BeforeCompaction,
            Self::AfterCompaction => MomentKind::AfterCompaction,
            Self::SubAgentStart => MomentKind::SubAgentStart,
            Self::SubAgentStop(_) => MomentKind::SubAgentStop,
            Self::Other => return None,
        })
    }
}

impl MomentKind {
    /// The points that [`respond`](crate::respond) fires at such a moment.
    pub const fn points(self) -> &'static [PointId] {
        use PointId as P;
        match self {
            Self::ToolCall => &[P::TrustedToolPolicy, P::ToolBefore, P::BeforeToolCall],
            Self::ToolResult => &[P::ToolAfter, P::AfterToolCall],
            Self::Prompt => &[P::MessageReceived, P::BeforeAgentRun],
            Self::Stop => &[P::BeforeAgentFinalize],
            Self::SessionStart => &[P::SessionStart],
            Self::SessionEnd => &[P::SessionEnd],
            Self::BeforeCompaction => &[P::BeforeCompaction],
            Self::AfterCompaction => &[P::AfterCompaction],
            Self::SubAgentStart => &[P::SubagentSpawned],
            Self::SubAgentStop => &[P::BeforeAgentFinalize, P::SubagentEnded],
        }
    }
}

impl Client {
    /// What the client's adapter fires and honours as a host, in the dialect that an installation uses.
    pub fn host_profile(self) -> HostProfile {
        let adapter = self.adapter();
        let points = adapter.reports.iter().flat_map(|kind| kind.points()).copied();
        let mut host = HostProfile::new(self.name(), self.title()).fires(points);
        for (point, field, honour) in self.shortfalls() {
            if host.does_fire(point) {
                host = host.except(point, field, honour);
            }
        }
        host
    }

    fn shortfalls(self) -> Vec<(PointId, &'static str, Honour)> {
        use PointId as P;
        let gates = &self.adapter().gates;
        let mut short = Vec::new();
        if matches!(gates.ask, AskGate::Never) {
            let honour = honour(Shortfall::AskDenied);
            let points = [P::TrustedToolPolicy, P::ToolBefore, P::BeforeToolCall];
            short.extend(points.map(|at| (at, "requireApproval", honour)));
        }
        if gates.rewrite.is_none() {
            let honour = honour(Shortfall::RewriteDenied);
            short.extend([
                (P::TrustedToolPolicy, "params", honour),
                (P::ToolBefore, "args", honour),
                (P::BeforeToolCall, "params", honour),
            ]);
        }
        match gates.result {
            ResultGate::Rewrite(_) => {}
            ResultGate::Replace(_) => {
                short.push((P::ToolAfter, "result", honour(Shortfall::ResultFlattened)));
            }
            ResultGate::EndRun(_) => short.push((P::ToolAfter, "result", honour(Shortfall::RunEnded))),
            ResultGate::Unreachable => {
                short.push((P::ToolAfter, "result", honour(Shortfall::ResultWasRead)));
            }
        }
        if gates.block_prompt.is_none() {
            short.push((P::BeforeAgentRun, "outcome", honour(Shortfall::PromptWasRead)));
        }
        if gates.revise.is_none() {
            let honour = honour(Shortfall::TurnEnded);
            short.extend(["action", "reason", "retry"].map(|field| (P::BeforeAgentFinalize, field, honour)));
        }
        short
    }
}

fn honour(shortfall: Shortfall) -> Honour {
    let why = shortfall.as_str();
    if shortfall.lets_through() { Honour::Ignored(why) } else { Honour::Stricter(why) }
}
