//! `backstop run`: a program whose model calls pass the hooks, and whose own hooks are ours if it is a coding agent.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::sync::Arc;

use backstop::clients::Client;
use backstop::config::Loaded;
use backstop::gateway_settings;
use backstop::hooks::AgentId;

use super::environment::variables;
use super::once::{Launch, RunFolder};
use super::{Listen, Running, banner, child};
use crate::confine::{Confined, confine};
use crate::error::Error;
use crate::exit::Exit;
use crate::session::{Surroundings, environment, working_directory};

/// What is run, and as whom.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// Which agent it is.
    pub(crate) agent: Option<String>,
    /// The coding agent that the program is, if its name does not say it.
    pub(crate) client: Option<Client>,
    /// Whether a coding agent is given our hooks.
    pub(crate) hooks: bool,
    /// Whether it is confined as the configuration says.
    pub(crate) sandbox: bool,
}

pub(in crate::commands) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let loaded = surroundings.load()?;
    let mut gateway = gateway_settings(&loaded, &environment)?;
    // For this program alone: its own port and its own token.
    gateway.listen = (Ipv4Addr::LOCALHOST, 0).into();
    gateway.token = backstop::new_token();
    let token = match &settings.agent {
        // A token of the agent, not of the process: with that it could call itself anything.
        Some(agent) => {
            let token = backstop::new_token();
            gateway.agents.insert(AgentId::new(agent.as_str()), token.clone());
            token
        }
        None => gateway.token.clone(),
    };
    let folder = RunFolder::create()?;
    let launch = match settings.hooks {
        true => Launch::hooked(settings.command, settings.client, &folder, surroundings)?,
        false => Launch::plain(settings.command, &folder),
    };
    let listen = Listen::ForRun { socket: folder.socket(), client: launch.client };
    let running = Running::start(gateway.clone(), loaded.clone(), listen, surroundings).await?;
    // Now that the database is there, and can be hidden.
    let confined = match confined(settings.sandbox, &loaded, &folder, launch.client, surroundings) {
        Ok(confined) => confined,
        Err(error) => {
            running.stop(surroundings, std::future::pending()).await;
            return Err(error);
        }
    };
    let url = format!("http://{}/t/{}", running.gateway.address(), token.expose());
    let pointing =
        variables(&url, &token, &gateway, &environment).into_iter().map(|(name, value)| (name, value.into()));
    let variables: Vec<(&str, OsString)> = pointing.chain(launch.variables).collect();
    let command: Vec<OsString> = confined.words.iter().chain(&launch.command).cloned().collect();
    let was_judged = || running.decisions.counted().judged > 0;
    let unheard =
        launch.client.zip(running.hold.as_ref()).map(|(client, hold)| (client, hold.unheard(was_judged)));
    let profile = loaded.config.guards.command_safety.profile.value.name();
    let answers = Arc::clone(running.backstop.engine().answer_store());
    let line = banner::keep(folder.path(), profile, || running.counted(), answers.as_ref());
    let ended = tokio::select! {
        ended = child::run(&command, &variables, folder.path(), unheard) => ended,
        never = line => match never {},
    };
    let heard = running.heard.is_noted();
    let counted = running.counted();
    running.stop(surroundings, std::future::pending()).await;
    for path in confined.appeared() {
        surroundings
            .output
            .say(&format!("warning: `{}` was made in this run, or leads elsewhere now", path.display()));
    }
    if let (Some(client), false, Ok(_)) = (launch.client, heard, &ended) {
        surroundings.output.say(&format!(
            "note: no hook of {} was heard of in this run; `backstop doctor {client}` says what may keep it from starting them",
            client.title()
        ));
    }
    if counted.judged > 0 {
        surroundings.output.say(&format!("backstop: {counted}"));
    }
    ended
}

fn confined(
    sandbox: bool,
    loaded: &Loaded,
    folder: &RunFolder,
    client: Option<Client>,
    surroundings: &Surroundings,
) -> Result<Confined, Error> {
    match sandbox {
        true => confine(surroundings, loaded, &working_directory()?, &[folder.path()], client),
        false => Ok(Confined::default()),
    }
}
