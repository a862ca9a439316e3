//! Questions about calls, left to hooks that a client of the run has installed.
//!
//! A client that can be given hooks for one run is given them, and the proxy leaves its questions to them from the beginning.
//! Others may have hooks by `backstop install`, which the daemon of the run answers: with the first of these the proxy knows
//! that the client asks by itself. What is blocked stays blocked.
//!
//! Clients start a hook before they first ask their model. One that comes only after a call was judged may have been
//! started by what the agent ran, and is no proof that the client starts any: then the proxy goes on asking.

use std::sync::{Arc, OnceLock};

use backstop::engine::Engine;
use backstop::gateway::inspect::{HookSettings, Hooks, ToolCalls, Unasked};
use backstop::gateway::{Call, Interceptor, Plan, Readiness};
use backstop::hooks::AgentId;

use super::watch::Decisions;
use crate::daemon::Heard;
use crate::error::Error;

/// Judges by hooks that ask, until it is known that the client does.
pub(super) struct Leaving {
    asking: Hooks,
    leaving: Hooks,
    heard: Arc<Heard>,
    decisions: Arc<Decisions>,
    /// Whether questions are left, once that is known.
    is_left: OnceLock<bool>,
}

impl Leaving {
    /// For the client whose hooks are noted in `heard`.
    pub(super) fn new(
        asking: &Hooks,
        engine: Engine,
        how: HookSettings,
        heard: Arc<Heard>,
        decisions: Arc<Decisions>,
    ) -> Result<Self, Error> {
        let tool_calls = match how.tool_calls {
            ToolCalls::Judge(_) => ToolCalls::Judge(Unasked::Leave),
            ToolCalls::Leave => ToolCalls::Leave,
        };
        let leaving = asking.renewed(engine, HookSettings { tool_calls, ..how })?;
        Ok(Self { asking: asking.clone(), leaving, heard, decisions, is_left: OnceLock::new() })
    }

    fn hooks(&self) -> &Hooks {
        // A hook is answered before the request that it precedes comes, so it was noted by then.
        let known = match (self.decisions.counted().judged, self.heard.is_noted()) {
            (0, false) => self.is_left.get(),
            (0, true) => Some(self.is_left.get_or_init(|| true)),
            (_, _) => Some(self.is_left.get_or_init(|| false)),
        };
        if known == Some(&true) { &self.leaving } else { &self.asking }
    }
}

impl Interceptor for Leaving {
    fn begin(&self, call: &Call<'_>) -> Plan {
        self.hooks().begin(call)
    }

    fn decides(&self) -> bool {
        self.asking.decides()
    }

    fn withholds(&self, agent: Option<&AgentId>, words: &[&str]) -> Vec<usize> {
        self.hooks().withholds(agent, words)
    }

    fn passes_media(&self) -> bool {
        self.asking.passes_media()
    }

    fn ready(&self) -> Readiness<'_> {
        self.asking.ready()
    }
}
