//! `backstop run`: a program whose model calls pass the hooks.

use std::ffi::OsString;
use std::net::Ipv4Addr;

use backstop::gateway_settings;

use super::environment::variables;
use super::{Running, child};
use crate::error::Error;
use crate::exit::Exit;
use crate::session::{Surroundings, environment};

/// What is run, and as whom.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// Which agent it is.
    pub(crate) agent: Option<String>,
}

pub(in crate::commands) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let loaded = surroundings.load()?;
    let mut gateway = gateway_settings(&loaded, &environment)?;
    // For this program alone: its own port and its own token.
    gateway.listen = (Ipv4Addr::LOCALHOST, 0).into();
    gateway.token = backstop::new_token();
    let running = Running::start(gateway.clone(), loaded, surroundings).await?;
    let agent = settings.agent.map(|agent| format!("/a/{agent}")).unwrap_or_default();
    let url = format!("http://{}/t/{}{agent}", running.gateway.address(), gateway.token.expose());
    let variables = variables(&url, &gateway, &environment);
    let ended = child::run(&settings.command, &variables).await;
    running.stop(surroundings).await;
    ended
}
