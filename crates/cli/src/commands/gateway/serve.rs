//! `backstop serve`: a gateway until it is told to end. SIGHUP reads the configuration anew.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use backstop::config::{LayerKind, Loaded};
use backstop::gateway::{Configuration, ReloadedConfiguration};
use backstop::hooks::Secret;
use backstop::{Cause, ChatSeats, Chats, StorePlace, daemon_socket, digest_key_file, gateway_settings};
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::chat::Seats;
use super::environment::variables;
use super::served::{Reload, Served};
use super::{Listen, Running};
use crate::commands::model::EndAsked;
use crate::commands::plugin_use::{PluginList, has_terminal};
use crate::error::Error;
use crate::exit::Exit;
use crate::log::{self, Log};
use crate::session::{Surroundings, environment};

/// How many configurations from before may judge what is under way where another one is wanted from afar. On the machine there is no bound:
/// a stricter one must not wait.
const MOST_RETIRING: usize = 4;

/// What holds from the start, with which another configuration is compared. What would be judged less strictly, or in two places, is
/// refused; of the rest its user is told that it counts once the server is started anew.
#[derive(Debug)]
struct FromStart {
    connections: u64,
    has_daemon: bool,
    socket: Option<PathBuf>,
    keeps_answers: bool,
    has_trail: bool,
    /// The database and how it is reached, where access tokens are looked up as long as the server runs.
    store: StorePlace,
    /// The file with the key of the digests in the trail.
    digest_key: Option<PathBuf>,
    /// Whether a configuration of the operator's was ever in force: without one, built-in defaults would be.
    has_operator: bool,
    /// The token that was made at the start, which programs know; none once the operator has chosen one.
    made: Option<Secret>,
}

impl FromStart {
    fn of(loaded: &Loaded, token: &Secret, store: &StorePlace) -> Self {
        let config = &loaded.config;
        Self {
            connections: config.gateway.limits.connections.value.get(),
            has_daemon: config.daemon.enabled.value,
            socket: daemon_socket(loaded, &environment).ok(),
            keeps_answers: config.agent.approvals.strict.value,
            has_trail: config.audit.enabled.value,
            store: store.clone(),
            digest_key: digest_key_file(loaded),
            has_operator: loaded.layers.iter().any(|(kind, _)| *kind == LayerKind::Operator),
            made: (!config.gateway.has_token()).then(|| token.clone()),
        }
    }

    /// Why another configuration can't come into force while the server runs.
    fn refuses(&self, now: &Self) -> Option<&'static str> {
        let differs = [
            (
                self.has_operator && !now.has_operator,
                "the operator's configuration is gone, and the defaults may be looser\nhint: put it back, or start the server anew",
            ),
            (
                self.store != now.store,
                "`store` and `audit.key_file` can't change while the server runs, nor can the password and the authorities of a database's server, which have to be readable: access tokens are looked up there\nhint: start it anew",
            ),
            (
                self.digest_key != now.digest_key,
                "`audit.digest_key` can't change while the server runs: its store is open with the key\nhint: start it anew",
            ),
            (
                self.keeps_answers != now.keeps_answers,
                "`agent.approvals.strict` can't change while the server runs: answers are kept in one place\nhint: start it anew",
            ),
            (
                self.has_trail != now.has_trail,
                "`audit.enabled` can't change while the server runs: the trail says where it ends\nhint: start it anew",
            ),
            (
                self.made.is_none() && now.made.is_some(),
                "`gateway.token` is gone, and the one before may have been taken out because others know it\nhint: set another, or start the server anew, which makes one",
            ),
        ];
        differs.into_iter().find_map(|(differs, why)| differs.then_some(why))
    }

    /// The keys of which another configuration says something that does not count.
    fn ignored(&self, now: &Self) -> Vec<&'static str> {
        let differs = [
            ("gateway.limits.max_connections", self.connections != now.connections),
            ("daemon.enabled", self.has_daemon != now.has_daemon),
            ("daemon.socket", self.socket != now.socket),
        ];
        differs.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }
}

/// Where to listen, instead of where the configuration says.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) port: Option<u16>,
    /// How and what is told on stderr.
    pub(crate) log: Log,
}

impl Settings {
    /// The gateway's settings by the configuration, but for what was asked for here.
    fn of_gateway(
        &self,
        loaded: &Loaded,
        served: &Arc<Served>,
        chats: &Arc<Chats>,
    ) -> Result<backstop::gateway::Settings, Error> {
        let mut gateway = gateway_settings(loaded, &environment)?;
        let is_on = loaded.config.gateway.console.chat.value;
        gateway.chat = is_on.then(|| Arc::clone(chats) as Arc<dyn backstop::gateway::Chat>);
        gateway.configuration = Some(Arc::clone(served) as Arc<dyn Configuration>);
        if let Some(listen) = self.listen {
            gateway.listen = listen;
        }
        if let Some(port) = self.port {
            gateway.listen.set_port(port);
        }
        Ok(gateway)
    }

    /// Reads the configuration anew, and returns the keys that hold from the start although it says something else. One that can't
    /// be used changes nothing.
    async fn reload(
        &self,
        running: &mut Running,
        (from_start, served, talks): (&mut FromStart, &Arc<Served>, &Talks),
        why: &Again,
        surroundings: &Surroundings,
    ) -> Result<Vec<&'static str>, Error> {
        let is_from_afar = matches!(why, Again::Asked(_));
        if is_from_afar && running.retiring() >= MOST_RETIRING {
            return Err(Error::Failed(format!(
                "{MOST_RETIRING} configurations from before still judge what is under way\nhint: try again once that has ended, or send SIGHUP on the machine"
            )));
        }
        let loaded = surroundings.load()?;
        let mut gateway = self.of_gateway(&loaded, served, &talks.chats)?;
        // What is compared is what is opened.
        let store = surroundings.found_store(&loaded)?;
        let now = FromStart::of(&loaded, &gateway.token, store.place());
        if let Some(why) = from_start.refuses(&now) {
            return Err(Error::Failed(why.to_owned()));
        }
        if let (Some(made), true) = (&from_start.made, now.made.is_some()) {
            gateway.token = made.clone();
        }
        let (_, store) = store.open_to_read()?;
        let before = running.reload(&gateway, loaded, store.shared(), why.cause(), surroundings).await?;
        served.holds(&running.backstop, surroundings.types_with(&[]));
        talks.seats.hold(running);
        talks.chats.renew(gateway.chat.is_some()).await;
        // Conversations have nothing more to say by the one before.
        drop(before);
        from_start.has_operator |= now.has_operator;
        if now.made.is_none() {
            from_start.made = None;
        }
        Ok(from_start.ignored(&now))
    }
}

/// The conversations that people have with the own agent, and what they run on.
struct Talks {
    seats: Arc<Seats>,
    chats: Arc<Chats>,
}

impl Talks {
    fn new(surroundings: &Surroundings) -> Self {
        let seats = Seats::new(surroundings);
        Self { chats: Chats::new(Arc::clone(&seats) as Arc<dyn ChatSeats>), seats }
    }
}

/// Why the configuration is read anew.
#[derive(Debug)]
enum Again {
    Plugins,
    Signal,
    Asked(Reload),
}

impl Again {
    /// What came before it, for the trail.
    fn cause(&self) -> Cause<'_> {
        match self {
            Self::Plugins => Cause { what: "a change of the plugins", by: None },
            Self::Signal => Cause { what: "SIGHUP", by: None },
            Self::Asked(Reload { by, .. }) => Cause { what: "a request", by: Some(by) },
        }
    }

    /// Tells whoever asked what came of it, and returns what its user is told.
    fn said(self, reloaded: Result<Vec<&'static str>, Error>, served: &Served) -> String {
        let is_of_plugins = matches!(self, Self::Plugins);
        if let Self::Asked(Reload { told, .. }) = self {
            let answer = match &reloaded {
                Ok(ignored) => Ok(ReloadedConfiguration {
                    digest: served.shown().digest,
                    ignored: ignored.iter().map(|key| (*key).to_owned()).collect(),
                }),
                Err(error) => Err(error.to_string()),
            };
            // Who asked may have left.
            let _ = told.send(answer);
        }
        match (is_of_plugins, reloaded) {
            (true, Ok(ignored)) => {
                format!("the plugins were loaded anew, and the configuration with them{}", held(&ignored))
            }
            (true, Err(error)) => {
                format!("{error}\nnote: the plugins were not loaded anew, and those before stay")
            }
            (false, Ok(ignored)) => format!(
                "the configuration was read anew; what is asked from now on is judged by it{}",
                held(&ignored)
            ),
            (false, Err(error)) => {
                format!("{error}\nnote: the configuration was not read anew, and the one before stays")
            }
        }
    }
}

/// Tells of keys that hold from the start.
fn held(ignored: &[&str]) -> String {
    if ignored.is_empty() {
        return String::new();
    }
    let keys: Vec<String> = ignored.iter().map(|key| format!("`{key}`")).collect();
    format!("\nnote: what it says of {} counts once the server is started anew", keys.join(", "))
}

/// The key by which it signs as a witness of other trails, if it is one.
fn witness_key(gateway: &backstop::gateway::Settings) -> Result<Option<String>, Error> {
    let key = gateway.witness.as_ref().map(|witness| witness.cosigner()).transpose();
    let key = key.map_err(|error| Error::Failed(format!("`gateway.witness` can't be used: {error}")))?;
    Ok(key.map(|key| key.to_string()))
}

/// What is to be said of an address that other machines reach in the clear.
fn warned_of(address: SocketAddr, has_tls: bool) -> Option<String> {
    let ip = address.ip().to_canonical();
    let how = if ip.is_unspecified() { "listens on all addresses" } else { "can be reached from elsewhere" };
    (!has_tls && !ip.is_loopback()).then(|| {
        format!(
            "warning: {address} {how} without TLS, so that tokens and questions can be read on the way\nhint: `gateway.tls`"
        )
    })
}

pub(in crate::commands) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    log::configure(settings.log);
    let mut end = EndAsked::listen()?;
    let mut again = signal(SignalKind::hangup())?;
    let had_terminal = has_terminal();
    let mut plugins = PluginList::of(surroundings);
    let loaded = surroundings.load()?;
    let (served, mut asked) =
        Served::new(&loaded, surroundings.types_with(&[]), surroundings.plugins_folder().ok());
    let talks = Talks::new(surroundings);
    let gateway = settings.of_gateway(&loaded, &served, &talks.chats)?;
    let witness = witness_key(&gateway)?;
    let (place, store) = surroundings.found_store(&loaded)?.open_to_read()?;
    let mut from_start = FromStart::of(&loaded, &gateway.token, &place);
    // A token that the operator chose is known to whoever needs it.
    let has_own_token = loaded.config.gateway.has_token();
    let listen = match loaded.config.daemon.enabled.value {
        true => Listen::Unless(daemon_socket(&loaded, &environment)?),
        false => Listen::Nowhere,
    };
    let mut running = Running::start(gateway.clone(), loaded, store.shared(), listen, surroundings).await?;
    served.holds(&running.backstop, surroundings.types_with(&[]));
    talks.seats.hold(&running);
    let socket = running.daemon.as_ref().map(|daemon| daemon.socket().display().to_string());
    let scheme = if gateway.tls.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{}", running.gateway.address());
    let operators = running.gateway.operators_address().map(|operators| format!("{scheme}://{operators}/-/"));
    let console = format!(
        "{}/-/console",
        operators.as_deref().map_or(address.as_str(), |operators| operators.trim_end_matches("/-/"))
    );
    let token = if has_own_token { "<gateway.token>" } else { gateway.token.expose() };
    let url = format!("{address}/t/{token}");
    let variables = variables(&url, &gateway.token, &gateway, &|_| None);
    let pointing = variables.iter().filter(|(name, _)| name.ends_with("_BASE_URL"));
    let output = &surroundings.output;
    let addresses = [Some(running.gateway.address()), running.gateway.operators_address()];
    for warning in addresses.into_iter().flatten().filter_map(|at| warned_of(at, gateway.tls.is_some())) {
        output.say(&warning);
    }
    if output.is_json() {
        let environment: Map<String, Value> =
            pointing.map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
        let token = (!has_own_token).then_some(token);
        let line = json!({
            "address": address, "url": url, "token": token, "environment": environment, "hooks": socket,
            "operators": operators, "console": console, "witness": witness,
        });
        output.json_line(&line)?;
    } else {
        output.text(&url)?;
        // A log for programs goes where more people read it than may know the token.
        if settings.log.format == log::Format::Text {
            output.say("point programs at it; each of them reads one of these:");
            for (name, value) in pointing {
                output.say(&format!("  export {name}={value}"));
            }
        }
        if let Some(operators) = operators {
            output.say(&format!("operators are answered at {operators}"));
        }
        output.say(&format!(
            "people see and answer at {console}, with a token that `backstop token create --user YOU --scope read --scope approve` makes"
        ));
        if let Some(sign_in) = &gateway.sign_in {
            let origin = sign_in.origin.trim_end_matches('/');
            output.say(&format!("they sign in at {} as well, by {origin}/-/console", sign_in.issuer));
        }
        if let Some(witness) = witness {
            output.say(&format!("as a witness of other trails it signs by the key {witness}"));
        }
        if let Some(socket) = socket {
            output.say(&format!("hooks of coding agents are answered at {socket}"));
        }
        output.say("Ctrl-C ends it, once answers under way have ended; a second one does not wait for them");
    }
    loop {
        let why = tokio::select! {
            () = end.wait() => break,
            () = plugins.changed() => Again::Plugins,
            _ = again.recv() => {
                // Whose terminal was closed is to end, and not to begin anew.
                if had_terminal && !has_terminal() {
                    break;
                }
                Again::Signal
            }
            // The other end is in the settings, which hold as long as this.
            Some(reload) = asked.recv() => Again::Asked(reload),
        };
        // Plugins may take their time to load, and whoever ends the server does not wait for that.
        tokio::select! {
            () = end.wait() => break,
            reloaded = settings.reload(&mut running, (&mut from_start, &served, &talks), &why, surroundings) => {
                output.say(&why.said(reloaded, &served));
            }
        }
    }
    // Whoever still waits for a reload is told that there is none.
    drop(asked);
    let is_in_a_hurry = tokio::select! {
        () = talks.chats.shut_down() => false,
        () = end.wait() => true,
    };
    let hurry = async {
        if !is_in_a_hurry {
            end.wait().await;
        }
    };
    running.stop(surroundings, hurry).await;
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_reached_from_elsewhere_in_the_clear_is_warned() {
        let warned = |address: &str, has_tls| warned_of(address.parse().unwrap(), has_tls);
        for all in ["0.0.0.0:8484", "[::]:8484"] {
            let warning = warned(all, false).unwrap();
            assert!(warning.starts_with(&format!("warning: {all} listens on all addresses without TLS")));
            assert_eq!(warned(all, true), None);
        }
        assert!(warned("10.0.0.11:8484", false).unwrap().contains("`gateway.tls`"));
        for here in ["127.0.0.1:8484", "[::1]:8484", "[::ffff:127.0.0.1]:8484"] {
            assert_eq!(warned(here, false), None, "{here}");
        }
    }
}
