//! `backstop serve` and `backstop run`: the LLM proxy.

mod child;
mod environment;
mod lifeline;
pub(crate) mod run;
pub(crate) mod serve;
mod watch;

use std::sync::Arc;

use backstop::Backstop;
use backstop::gateway::hooked::Hooks;
use backstop::gateway::{Gateway, Settings};

use self::watch::Decisions;
use crate::error::Error;
use crate::session::{Surroundings, builder};

/// A gateway and the hooks behind it.
struct Running {
    gateway: Gateway,
    backstop: Backstop,
}

impl Running {
    /// Starts a gateway whose decisions are told on stderr.
    async fn start(
        settings: Settings,
        loaded: backstop::config::Loaded,
        surroundings: &Surroundings,
    ) -> Result<Self, Error> {
        let store = surroundings.store(&loaded)?;
        let decisions = Decisions::new(surroundings.output.talk_paint());
        let how = backstop::gateway_hooks(&loaded);
        let backstop = builder(loaded)
            .store(store)
            .shared_decisions(true)
            .judges_answers(true)
            .sink(Arc::new(decisions))
            .build()
            .await?;
        let hooks = Hooks::new(backstop.engine().clone(), how)?;
        match Gateway::start(settings, Arc::new(hooks)).await {
            Ok(gateway) => Ok(Self { gateway, backstop }),
            Err(error) => {
                backstop.shut_down().await;
                Err(error.into())
            }
        }
    }

    /// Lets running answers end, and writes what is left of the audit trail.
    async fn stop(self, surroundings: &Surroundings) {
        self.gateway.shut_down().await;
        if !self.backstop.shut_down().await {
            surroundings.output.say("warning: the audit trail could not be written to its end");
        }
    }
}
