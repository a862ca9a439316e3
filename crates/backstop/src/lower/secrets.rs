//! Variables with secrets that nobody who is judged may have.

use std::collections::BTreeSet;
use std::path::PathBuf;

use backstop_config::{Loaded, Secret, Spanned};

use super::surfaces::{secrets_of_surfaces, surface_variables};
use crate::locations::{daemon_socket, data_folder, from_operator};

/// Returns the variables of the environment that hold secrets by which whoever has them could answer in the name of people, or sign somebody in: those
/// of surfaces and callbacks, the password of the database, and the secret by which the console is known at the identity provider.
pub fn secret_variables(loaded: &Loaded) -> BTreeSet<String> {
    let config = &loaded.config;
    let more = [&config.store.postgres.password, &config.gateway.console.oidc.client_secret];
    let more = more.into_iter().flatten().flat_map(|secret| secret.value.variables()).cloned();
    surface_variables(loaded).into_iter().chain(more).collect()
}

/// All secrets that stand in the configuration, or in variables that it names.
fn secrets(loaded: &Loaded) -> Vec<&Spanned<Secret>> {
    let config = &loaded.config;
    let gateway = &config.gateway;
    let own = [
        &config.store.postgres.password,
        &gateway.console.oidc.client_secret,
        &gateway.token,
        &gateway.operators.token,
    ];
    let own = own.into_iter().flatten();
    let agents = gateway.agents.iter().filter_map(|(_, agent)| agent.token.as_ref());
    let providers = config.providers.iter().filter_map(|(_, provider)| provider.api_key.as_ref());
    let headers = config.telemetry.traces.headers.iter().map(|(_, header)| header);
    own.chain(agents).chain(providers).chain(headers).chain(secrets_of_surfaces(loaded)).collect()
}

/// Returns the variables of the environment that hold secrets of the configuration: no command that the own agent runs inherits them.
pub fn withheld_variables(loaded: &Loaded) -> BTreeSet<String> {
    let keys = loaded.config.providers.iter().filter_map(|(_, provider)| provider.api_key_env.as_ref());
    let named = secrets(loaded).into_iter().flat_map(|secret| secret.value.variables()).cloned();
    named.chain(keys.map(|name| name.value.as_str().to_owned())).collect()
}

/// Returns where secrets stand in files of the configuration, and not in variables or files of their own: whoever can read the configuration has them.
pub fn written_secrets(loaded: &Loaded) -> Vec<String> {
    let written = secrets(loaded).into_iter().filter(|secret| secret.value.variables().is_empty());
    written.map(|secret| secret.at.to_string()).collect()
}

/// Returns the files and folders that hold what a server alone knows, besides [those of surfaces](crate::surface_secrets) and its store: the key of its
/// certificate, those of its providers and as a witness, and the socket of its daemon with its key. There or not.
pub fn server_secrets(loaded: &Loaded, environment: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let config = &loaded.config;
    let providers = config
        .providers
        .iter()
        .flat_map(|(_, provider)| [&provider.api_key_file, &provider.google_credentials_file]);
    let named = providers.chain([&config.gateway.tls.key_file]).flatten();
    let mut all: Vec<PathBuf> = named.map(|file| from_operator(loaded, file.value.expose())).collect();
    if let Some(folder) = data_folder(environment) {
        all.extend([folder.join("witness.key"), folder.join("witness")]);
    }
    if let Ok(socket) = daemon_socket(loaded, environment) {
        all.extend([socket.with_extension("key"), socket]);
    }
    all
}

#[cfg(test)]
mod tests {
    use backstop_config::{LayerKind, Source};

    use super::*;
    use crate::{HookTypes, load_sources};

    #[test]
    fn whoever_runs_has_no_variable_with_a_secret_by_which_people_are_known() {
        let environment =
            |name: &str| (name.len() == 1).then(|| format!("{name}-0123456789abcdef0123456789"));
        let text = "
store: { postgres: { url: 'postgres://backstop@db.example/backstop', password: '${A}' } }
gateway:
  hosts: [backstop.example]
  console:
    origin: https://backstop.example
    oidc: { issuer: 'https://id.example', client_id: console, client_secret: 'x${B}', roles: { approvers: [read] } }
  api: { callbacks: { ci: { url: 'https://ci.example.com', secret: '${C}' } } }
approvals:
  surfaces:
    webhook:
      bell: { url: 'https://bell.example.com', secret: '${D}' }
";
        let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
        let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap();
        let variables = secret_variables(&loaded);
        assert_eq!(variables.iter().map(String::as_str).collect::<Vec<_>>(), ["A", "B", "C", "D"]);
    }

    #[test]
    fn commands_of_the_agent_inherit_no_secret_of_the_configuration() {
        let environment =
            |name: &str| (name.len() == 1).then(|| format!("{name}-0123456789abcdef0123456789"));
        let text = "
providers:
  p: { api: anthropic, api_key: '${A}' }
  q: { api: anthropic, api_key_env: MY_OWN_NAME }
  r: { api: anthropic, api_key_file: r.key }
gateway:
  token: '${B}'
  operators: { token: '${C}' }
  agents: { bot: { token: '${D}' } }
  tls: { cert_file: tls.pem, key_file: tls.key }
telemetry: { traces: { endpoint: 'https://otel.example/v1/traces', headers: { authorization: '${E}' } } }
approvals: { surfaces: { webhook: { bell: { url: 'https://bell.example.com', secret: '${F}' } } } }
daemon: { socket: /run/own/hooks.sock }
";
        let load = |text: &str| {
            let source = Source::new(LayerKind::Operator, "/etc/own/backstop.yaml", text);
            load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap()
        };
        let loaded = load(text);
        let variables = withheld_variables(&loaded);
        let named: Vec<_> = variables.iter().map(String::as_str).collect();
        assert_eq!(named, ["A", "B", "C", "D", "E", "F", "MY_OWN_NAME"]);
        assert_eq!(written_secrets(&loaded), Vec::<String>::new());
        let written = written_secrets(&load(&text.replace("'${C}'", "0123456789abcdef")));
        assert_eq!(written, ["/etc/own/backstop.yaml:8:23"]);
        let data = |name: &str| (name == "XDG_DATA_HOME").then(|| "/data".to_owned());
        let files = server_secrets(&loaded, &data);
        for file in [
            "/etc/own/r.key",
            "/etc/own/tls.key",
            "/data/backstop/witness.key",
            "/data/backstop/witness",
            "/run/own/hooks.sock",
            "/run/own/hooks.key",
        ] {
            assert!(files.contains(&PathBuf::from(file)), "{file}: {files:?}");
        }
    }
}
