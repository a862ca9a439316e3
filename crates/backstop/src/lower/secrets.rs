//! Secrets of the operator's: how they are read, and what nobody who is judged may have.
//!
//! The law: *kept back is everything but what is listed as harmless*. The configuration itself says where its secrets come from
//! ([`Loaded::secrets`]), and all of them are kept from agents but the keys of providers: whoever runs without the proxy asks models with
//! those, and what they cost is all that they are good for.

use std::collections::BTreeSet;
use std::path::PathBuf;

use backstop_config::{Loaded, SecretOrigin};
#[cfg(feature = "gateway")]
use backstop_config::{Secret as ConfigSecret, SecretFile, Spanned};
#[cfg(feature = "gateway")]
use backstop_hooks::Secret;

#[cfg(feature = "gateway")]
use super::small_file;
use crate::locations::{daemon_socket, from_operator};

/// The longest secret, in bytes.
#[cfg(feature = "gateway")]
const LONGEST: u64 = 4_096;
/// The section whose secrets agents may have.
const HARMLESS: &str = "providers.";

/// Returns the variables of the environment that hold secrets which no agent may have: by one, whoever has it could answer in the name of
/// people, sign somebody in, log in to the database, see what operators see, or be another agent.
pub fn secret_variables(loaded: &Loaded) -> BTreeSet<String> {
    let names = kept_back(loaded).filter_map(|origin| match origin {
        SecretOrigin::Variable(name) => Some(name.clone()),
        SecretOrigin::File(_) | SecretOrigin::Written => None,
    });
    names.collect()
}

/// Returns the files that hold such secrets.
pub fn secret_files(loaded: &Loaded) -> Vec<PathBuf> {
    let files = kept_back(loaded).filter_map(|origin| match origin {
        SecretOrigin::File(path) => Some(from_operator(loaded, path)),
        SecretOrigin::Variable(_) | SecretOrigin::Written => None,
    });
    files.collect()
}

fn kept_back(loaded: &Loaded) -> impl Iterator<Item = &SecretOrigin> {
    let kept = loaded.secrets.iter().filter(|source| !source.key.starts_with(HARMLESS));
    kept.map(|source| &source.origin)
}

/// Returns a secret that stands in a variable or in a file, or why it can't be read.
#[cfg(feature = "gateway")]
pub(super) fn secret(
    loaded: &Loaded,
    secret: Option<&Spanned<ConfigSecret>>,
    file: Option<&Spanned<SecretFile>>,
) -> Result<Option<Secret>, String> {
    let (text, whence) = match (secret, file) {
        (Some(secret), _) => (secret.value.expose().to_owned(), "a secret".to_owned()),
        (None, Some(file)) => {
            let path = from_operator(loaded, file.value.expose());
            let shown = format!("`{}`", path.display());
            let unreadable = |why: String| format!("{shown} can't be read: {why}");
            let bytes = small_file::read(&path, LONGEST).map_err(|error| unreadable(error.to_string()))?;
            (String::from_utf8(bytes).map_err(|_| unreadable("it is no text".to_owned()))?, shown)
        }
        (None, None) => return Ok(None),
    };
    match text.trim() {
        "" => Err(format!("{whence} is empty")),
        text => Ok(Some(Secret::new(text.to_owned()))),
    }
}

/// Variables that hold no secret, and that commands need, though a configuration be made of them as well.
const NEEDED: [&str; 12] = [
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "PWD",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];

/// Returns the variables of the environment that no command which the own agent runs inherits: those of secrets, also of providers, and all others that the
/// operator's file is made of, as options of hooks and plugins have no type that says what is a secret.
pub fn withheld_variables(loaded: &Loaded) -> BTreeSet<String> {
    let providers = || loaded.config.providers.iter().map(|(_, provider)| provider);
    let keys = providers().filter_map(|provider| provider.api_key_env.as_ref());
    let of_programs = providers().flat_map(|provider| &provider.token_environment);
    let used = loaded.variables.iter().filter(|name| !NEEDED.contains(&name.as_str())).cloned();
    let named = loaded.secrets.iter().filter_map(|source| match &source.origin {
        SecretOrigin::Variable(name) => Some(name.clone()),
        SecretOrigin::File(_) | SecretOrigin::Written => None,
    });
    let keys = keys.chain(of_programs).map(|name| name.value.as_str().to_owned());
    named.chain(keys).chain(used).collect()
}

/// Returns where secrets stand in files of the configuration, and not in variables or files of their own: whoever can read the configuration has them.
pub fn written_secrets(loaded: &Loaded) -> Vec<String> {
    let written = loaded.secrets.iter().filter(|source| source.origin == SecretOrigin::Written);
    written.map(|source| source.at.to_string()).collect()
}

/// Returns the files and folders that hold what a server alone knows, besides [those that no agent may read](secret_files) and its store: the keys of its
/// providers, and the socket of its daemon with its key. There or not.
pub fn server_secrets(loaded: &Loaded, environment: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let named = loaded.secrets.iter().filter_map(|source| match &source.origin {
        SecretOrigin::File(path) => Some(path.as_str()),
        SecretOrigin::Variable(_) | SecretOrigin::Written => None,
    });
    let accounts = loaded.config.providers.iter().filter_map(|(_, provider)| {
        provider.google_credentials_file.as_ref().map(|file| file.value.expose())
    });
    let mut all: Vec<PathBuf> = named.chain(accounts).map(|file| from_operator(loaded, file)).collect();
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

    fn loaded(text: &str) -> Loaded {
        let environment =
            |name: &str| (name.len() == 1).then(|| format!("{name}-0123456789abcdef0123456789"));
        let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
        load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap()
    }

    fn variables(text: &str) -> Vec<String> {
        secret_variables(&loaded(text)).into_iter().collect()
    }

    #[test]
    fn no_agent_has_a_variable_with_a_secret_but_the_keys_of_providers() {
        let text = "
store: { postgres: { url: 'postgres://backstop@db.example/backstop', password: '${A}' } }
gateway:
  hosts: [backstop.example]
  token: '${E}'
  operators: { token: '${F}' }
  agents: { helper: { token: '${G}' } }
  console:
    origin: https://backstop.example
    oidc: { issuer: 'https://id.example', client_id: console, client_secret: 'x${B}', roles: { approvers: [read] } }
  api: { callbacks: { ci: { url: 'https://ci.example.com', secret: '${C}' } } }
approvals:
  surfaces:
    webhook:
      bell: { url: 'https://bell.example.com', secret: '${D}' }
providers:
  maker: { api: anthropic, base_url: 'https://api.example', api_key: '${K}' }
";
        assert_eq!(variables(text), ["A", "B", "C", "D", "E", "F", "G"]);
    }

    #[test]
    fn a_variable_that_two_keys_name_is_kept_back_for_one_of_them() {
        let text = "
gateway: { operators: { token: '${A}' } }
providers: { maker: { api: anthropic, base_url: 'https://api.example', api_key: '${A}' } }
";
        assert_eq!(variables(text), ["A"]);
    }

    #[test]
    fn files_with_secrets_are_known_by_the_type_of_their_keys() {
        let text = "
store: { postgres: { url: 'postgres://backstop@db.example/backstop', password_file: /keys/database } }
audit:
  digest_key: /keys/digests
  key_file: /keys/trail
  witness: [{ to: 'git+ssh://git@witness.example/trail.git', ssh_key: /keys/push, known_hosts: /public/hosts }]
gateway:
  hosts: [backstop.example]
  token_file: /keys/gateway
  operators: { token_file: /keys/operators }
  tls: { cert_file: /keys/public.pem, key_file: /keys/tls.pem }
  console:
    origin: https://backstop.example
    oidc: { issuer: 'https://id.example', client_id: console, client_secret_file: /keys/oidc, roles: { approvers: [read] } }
approvals:
  surfaces:
    webhook:
      bell: { url: 'https://bell.example.com', secret_file: /keys/bell }
";
        let loaded = loaded(text);
        let mut files = secret_files(&loaded);
        files.sort();
        let expected =
            ["bell", "database", "digests", "gateway", "oidc", "operators", "push", "tls.pem", "trail"]
                .map(|name| PathBuf::from("/keys").join(name));
        assert_eq!(files, expected);
    }

    #[test]
    fn commands_of_the_agent_inherit_no_secret_of_the_configuration() {
        let environment = |name: &str| {
            (name.len() == 1 || name == "HOME").then(|| format!("{name}-0123456789abcdef0123456789"))
        };
        let text = "
providers:
  p: { api: anthropic, api_key: '${A}' }
  q: { api: anthropic, api_key_env: MY_OWN_NAME }
  r: { api: anthropic, api_key_file: r.key }
  s: { cloud: vertex, api: anthropic, project: p, region: r, token_command: [./print], token_environment: [GIVEN_TO_IT] }
agent: { system_prompt: 'Say ${P}, but not in ${HOME}' }
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
        assert_eq!(named, ["A", "B", "C", "D", "E", "F", "GIVEN_TO_IT", "MY_OWN_NAME", "P"]);
        assert_eq!(written_secrets(&loaded), Vec::<String>::new());
        let written = written_secrets(&load(&text.replace("'${C}'", "0123456789abcdef")));
        assert_eq!(written, ["/etc/own/backstop.yaml:10:23"]);
        let data = |name: &str| (name == "XDG_DATA_HOME").then(|| "/data".to_owned());
        let files = server_secrets(&loaded, &data);
        for file in ["r.key", "tls.key", "/run/own/hooks.sock", "/run/own/hooks.key"] {
            assert!(files.contains(&PathBuf::from(file)), "{file}: {files:?}");
        }
    }
}
