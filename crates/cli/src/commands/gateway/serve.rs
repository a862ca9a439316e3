//! `backstop serve`: a gateway until it is told to end.

use std::net::SocketAddr;

use backstop::{daemon_socket, gateway_settings};
use serde_json::{Map, Value, json};

use super::environment::variables;
use super::{Listen, Running};
use crate::commands::model::EndAsked;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::{Surroundings, environment};

/// Where to listen, instead of where the configuration says.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) port: Option<u16>,
}

pub(in crate::commands) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let mut end = EndAsked::listen()?;
    let loaded = surroundings.load()?;
    let mut gateway = gateway_settings(&loaded, &environment)?;
    if let Some(listen) = settings.listen {
        gateway.listen = listen;
    }
    if let Some(port) = settings.port {
        gateway.listen.set_port(port);
    }
    // A token that the operator chose is known to whoever needs it.
    let has_own_token = loaded.config.gateway.token.is_some();
    let listen = match loaded.config.daemon.enabled.value {
        true => Listen::Unless(daemon_socket(&loaded, &environment)?),
        false => Listen::Nowhere,
    };
    let running = Running::start(gateway.clone(), loaded, listen, surroundings).await?;
    let socket = running.daemon.as_ref().map(|daemon| daemon.socket().display().to_string());
    let address = format!("http://{}", running.gateway.address());
    let token = if has_own_token { "<gateway.token>" } else { gateway.token.expose() };
    let url = format!("{address}/t/{token}");
    let variables = variables(&url, &gateway.token, &gateway, &|_| None);
    let pointing = variables.iter().filter(|(name, _)| name.ends_with("_BASE_URL"));
    let output = &surroundings.output;
    if output.is_json() {
        let environment: Map<String, Value> =
            pointing.map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
        let token = (!has_own_token).then_some(token);
        let line = json!({
            "address": address, "url": url, "token": token, "environment": environment, "hooks": socket,
        });
        output.json_line(&line)?;
    } else {
        output.text(&url)?;
        output.say("point programs at it; each of them reads one of these:");
        for (name, value) in pointing {
            output.say(&format!("  export {name}={value}"));
        }
        if let Some(socket) = socket {
            output.say(&format!("hooks of coding agents are answered at {socket}"));
        }
        output.say("Ctrl-C ends it, once answers under way have ended; a second one does not wait for them");
    }
    end.wait().await;
    running.stop(surroundings, end.wait()).await;
    Ok(Exit::Success)
}
