//! `backstop run`: a program whose model calls pass the hooks, and whose own hooks are ours if it is a coding agent.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::sync::Arc;

use backstop::clients::Client;
use backstop::clients::install::pointing::{Gateway, LoginProvider, login_provider};
use backstop::config::Loaded;
use backstop::confine::Outlet;
use backstop::gateway::{Family, Provider};
use backstop::hooks::AgentId;
use backstop::store::ApprovalRecord;
use backstop::{gateway_settings, secret_variables};

use super::environment::{clouds, has_key, variables as variables_of, with_loopback};
use super::once::{Launch, RunFolder, Variables};
use super::{Listen, Running, banner, child};
use crate::commands::ancestry::only_people;
use crate::commands::clients::has_hooks_of_its_user;
use crate::commands::notify::ring;
use crate::confine::{Confined, Confining, confine};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::one_line;
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
    /// Whether model calls go through the proxy.
    pub(crate) proxy: bool,
    /// Whether it is confined as the configuration says.
    pub(crate) sandbox: bool,
}

pub(in crate::commands) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let mut loaded = surroundings.load()?;
    // Nobody but the program comes here, so that nobody's keys are read.
    loaded.config.gateway.identity.issuers.clear();
    let mut gateway = gateway_settings(&loaded, &environment)?;
    // For this program alone: its own port and its own token.
    gateway.listen = (Ipv4Addr::LOCALHOST, 0).into();
    gateway.tls = None;
    gateway.token = backstop::new_token();
    // The program has the environment that the operator's token may be from.
    gateway.operator_token = None;
    // People sign in where `serve` is.
    gateway.sign_in = None;
    gateway.operators_listen = None;
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
    let mut launch = Launch::plain(settings.command, settings.client, &folder)?;
    if settings.hooks {
        launch = launch.hook(&folder, surroundings)?;
        launch.warn_of_loaders(settings.proxy, surroundings)?;
    }
    if let (true, Some(client)) = (loaded.config.gateway.passthrough.value, launch.client()) {
        add_login(client, &mut gateway);
    }
    let hooked = launch.hooked();
    let asks_for_a_model = launch.asks_for_a_model();
    let listen = Listen::ForRun {
        socket: folder.socket(),
        client: launch.client(),
        is_hooked: hooked.is_some(),
        is_installed: settings.hooks && launch.client().is_some_and(has_hooks_of_its_user),
    };
    let store = surroundings.store(&loaded)?;
    let running = Running::start(gateway.clone(), loaded.clone(), store, listen, surroundings).await?;
    let url = format!("http://{}/t/{}", running.gateway.address(), token.expose());
    let begin = || -> Result<_, Error> {
        // Now that the database is there, and can be hidden.
        let port = running.gateway.address().port();
        let confined = confined(settings.sandbox, &loaded, &folder, port, hooked, surroundings)?;
        let way_out = confined.outlet().map(Outlet::variables);
        launch.tell(way_out.iter().flatten());
        let mut variables = Variables::new();
        if settings.proxy {
            let of_programs = variables_of(&url, &token, &gateway, &environment);
            variables.extend(of_programs.into_iter().map(|(name, value)| (name, value.into())));
            launch.point(&as_seen(&url, &gateway, way_out.is_some()), &folder, surroundings)?;
        }
        let (command, of_client) = launch.ready(&folder)?;
        variables.extend(of_client);
        let command: Vec<OsString> = confined.words.iter().cloned().chain(command).collect();
        Ok((confined, command, variables))
    };
    let (confined, command, variables) = match begin() {
        Ok(begun) => begun,
        Err(error) => {
            running.stop(surroundings, std::future::pending()).await;
            return Err(error);
        }
    };
    let was_judged = || running.decisions.counted().judged > 0;
    let unheard = hooked.zip(running.hold.as_ref()).map(|(client, hold)| (client, hold.unheard(was_judged)));
    let profile = loaded.config.guards.command_safety.profile.value.name();
    let answers = Arc::clone(running.backstop.engine().answer_store());
    let line = banner::keep(folder.path(), profile, || running.counted(), answers.as_ref());
    let bell = ring(loaded.config.agent.approvals.notify.value, || running.questions(), answers.as_ref());
    // Whoever has them answers in the name of people.
    let withheld = secret_variables(&loaded);
    let ended = tokio::select! {
        ended = child::run(&command, &variables, &withheld, folder.path(), unheard) => ended,
        never = line => match never {},
        never = bell => match never {},
    };
    confined.end();
    let heard = running.heard.is_noted();
    let (counted, requests) = (running.counted(), running.gateway.requests());
    let is_unasked = running.gateway.model_requests() == 0;
    let left = running.left_to_answer().await;
    running.stop(surroundings, std::future::pending()).await;
    for path in confined.appeared() {
        surroundings
            .output
            .say(&format!("warning: `{}` was made in this run, or leads elsewhere now", path.display()));
    }
    for path in confined.replaced() {
        let path = path.display();
        surroundings.output.say(&format!(
            "warning: another program replaced `{path}` in this run, and what stands there now was not protected\nhint: look at it; a new run protects it"
        ));
    }
    confined.tell_refused(&surroundings.output);
    if let (Some(client), false, Ok(_)) = (hooked, heard, &ended) {
        surroundings.output.say(&format!(
            "note: no hook of {} was heard of in this run; `backstop doctor {client}` says what may keep it from starting them",
            client.title()
        ));
    }
    if counted.judged > 0 {
        let came = if settings.proxy { came(requests) } else { String::new() };
        surroundings.output.say(&format!("backstop: {counted}{came}"));
    }
    tell_of(&left, surroundings);
    match ended {
        Ok(ended) if settings.proxy && asks_for_a_model && is_unasked => {
            surroundings.output.say(UNASKED);
            Ok(if ended == Exit::Program(0) { Exit::Unasked } else { ended })
        }
        ended => ended,
    }
}

fn came(requests: u64) -> String {
    let what = if requests == 1 { "request" } else { "requests" };
    format!("; {requests} {what} came to the proxy")
}

/// The most questions that are told of at the end of a run.
const MOST_TOLD: usize = 8;

/// Tells a person by which codes calls can be allowed that were denied for want of an answer. Whoever started the run is
/// shown none of them if that may be an agent.
fn tell_of(left: &[ApprovalRecord], surroundings: &Surroundings) {
    if left.is_empty() || only_people("shown codes").is_err() {
        return;
    }
    let output = &surroundings.output;
    output.say("questions of this run that nobody answered, and how each call can be allowed once:");
    for record in left.iter().take(MOST_TOLD) {
        let title = one_line(record.request.title.as_str(), MOST_TITLE_CHARS);
        output.say(&format!("  backstop allow-once {}  ({title})", record.code));
    }
    if let more @ 1.. = left.len().saturating_sub(MOST_TOLD) {
        output.say(&format!("  and {more} more: backstop approvals list"));
    }
}

/// The longest question that is told, in characters.
const MOST_TITLE_CHARS: usize = 100;

/// Said at the end of a run in which no model was asked by way of the proxy, whatever else was.
const UNASKED: &str = "warning: not one request that asks a model came to the proxy in this run, so no model call of the program was judged\nhint: does it ask a model at all, and does it read its address from the environment? `--hooks-only` runs it without the proxy";

/// The provider behind the client's own login, unless the configuration has one of that name.
fn add_login(client: Client, gateway: &mut backstop::gateway::Settings) {
    if let Some(LoginProvider { name, base_url }) = login_provider(client)
        && !gateway.providers.contains_key(name)
    {
        gateway.providers.insert(name.to_owned(), Provider::passing(Family::OpenAi, base_url));
    }
}

/// The gateway, as a client is told of it.
fn as_seen(url: &str, gateway: &backstop::gateway::Settings, has_way_out: bool) -> Gateway {
    // In a network of its own nothing but the loopback can be reached without the proxy.
    let inherited = if has_way_out { None } else { environment("NO_PROXY") };
    Gateway {
        url: url.to_owned(),
        no_proxy: with_loopback(inherited),
        has_openai_key: has_key(gateway, Family::OpenAi),
        clouds: clouds(gateway),
    }
}

fn confined(
    sandbox: bool,
    loaded: &Loaded,
    folder: &RunFolder,
    port: u16,
    client: Option<Client>,
    surroundings: &Surroundings,
) -> Result<Confined, Error> {
    let workspace = working_directory()?;
    let confining = Confining {
        workspace: &workspace,
        folder: Some(folder.path()),
        ports: &[port],
        client,
        is_run: true,
        is_served: false,
    };
    if sandbox { confine(surroundings, loaded, &confining) } else { Ok(Confined::default()) }
}
