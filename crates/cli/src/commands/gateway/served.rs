//! The configuration of `backstop serve`, as its API shows it and has it read anew.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use backstop::config::{ConfigError, LayerKind, Loaded, Problem, Source};
use backstop::gateway::{
    CheckedConfiguration, Configuration, ConfigurationProblem, ReloadedConfiguration, ServedPlugin,
};
use backstop::{Backstop, HookTypes, load_sources};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// What a checked text is called in its problems.
const TEXT: &str = "backstop.yaml";
/// What a variable may hold that can be used: a token, an address, a number.
const STAND_INS: [&str; 3] =
    ["stand-in-0123456789abcdef0123456789abcdef", "https://stand-in.example.com", "1"];

/// The configuration that a server has, for its API.
#[derive(Debug)]
pub(super) struct Served {
    state: Mutex<State>,
    ask: mpsc::Sender<Reload>,
}

#[derive(Debug)]
struct State {
    shown: Value,
    digest: String,
    plugins: Vec<ServedPlugin>,
    types: HookTypes,
}

/// Somebody wants the configuration to be read anew.
#[derive(Debug)]
pub(super) struct Reload {
    /// Who wants it.
    pub(super) by: String,
    /// Hears what came of it, or why the configuration before stays.
    pub(super) told: oneshot::Sender<Result<ReloadedConfiguration, String>>,
}

impl Served {
    /// Makes it of the configuration that is about to come into force. The other end hears who wants it read anew.
    pub(super) fn new(loaded: &Loaded, types: HookTypes) -> (Arc<Self>, mpsc::Receiver<Reload>) {
        // One at a time: whoever asks meanwhile waits for their turn.
        let (ask, asked) = mpsc::channel(1);
        let (shown, digest) = (loaded.show(), loaded.digest().to_string());
        let state = Mutex::new(State { shown, digest, plugins: Vec::new(), types });
        (Arc::new(Self { state, ask }), asked)
    }

    /// Shows from now on what holds now.
    pub(super) fn holds(&self, backstop: &Backstop, types: HookTypes) {
        let loaded = backstop.config();
        let plugins = backstop.plugins().iter().map(|(id, seated)| ServedPlugin {
            id: id.to_string(),
            hooks: seated.hooks.iter().map(ToString::to_string).collect(),
            waiting: seated.waiting.iter().map(|waiting| waiting.point.name().to_owned()).collect(),
            left_out: seated.left_out.iter().map(|left| format!("{}: {}", left.what, left.why)).collect(),
        });
        let (shown, digest, plugins) = (loaded.show(), loaded.digest().to_string(), plugins.collect());
        *self.state() = State { shown, digest, plugins, types };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Configuration for Served {
    fn shown(&self) -> Value {
        self.state().shown.clone()
    }

    fn digest(&self) -> String {
        self.state().digest.clone()
    }

    fn check(&self, text: &str) -> CheckedConfiguration {
        let types = self.state().types.clone();
        checked(text, &types)
    }

    async fn reload(&self, by: &str) -> Result<ReloadedConfiguration, String> {
        let (told, hears) = oneshot::channel();
        let ending = || "the server is about to end".to_owned();
        self.ask.send(Reload { by: by.to_owned(), told }).await.map_err(|_| ending())?;
        hears.await.map_err(|_| ending())?
    }

    fn plugins(&self) -> Vec<ServedPlugin> {
        self.state().plugins.clone()
    }
}

/// What is wrong with a text, whatever its variables hold. INVARIANT (nobody reads the environment from afar): it is not looked at. Each
/// variable stands for several values, and what is wrong with all of them is told.
fn checked(text: &str, types: &HookTypes) -> CheckedConfiguration {
    let source = [Source::new(LayerKind::Operator, TEXT, text)];
    let variables = RefCell::new(BTreeSet::new());
    let mut all = STAND_INS.iter().map(|value| {
        let environment = |name: &str| {
            variables.borrow_mut().insert(name.to_owned());
            Some((*value).to_owned())
        };
        load_sources(&source, types, &environment).as_ref().err().map(told).unwrap_or_default()
    });
    let first = all.next().unwrap_or_default();
    let problems = all.fold(first, |problems, others| {
        problems.into_iter().filter(|problem| others.contains(problem)).collect()
    });
    CheckedConfiguration { problems, variables: variables.into_inner().into_iter().collect() }
}

fn told(error: &ConfigError) -> Vec<ConfigurationProblem> {
    let problem = |problem: &Problem| ConfigurationProblem {
        kind: problem.kind().name(),
        message: problem.message().to_owned(),
        line: problem.at().line(),
        column: problem.at().column(),
        hint: problem.hint().map(str::to_owned),
    };
    error.problems().iter().map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_whatever_variables_hold() {
        let types = HookTypes::built_in(&[]);
        let checked = |text: &str| checked(text, &types);
        assert_eq!(checked("{}"), CheckedConfiguration::default());
        let unknown = checked("gatewai: {}").problems;
        assert_eq!((unknown[0].line, unknown[0].column), (Some(1), Some(1)));
        assert!(unknown[0].message.contains("gatewai"), "{unknown:?}");
        // A variable may hold what can be used: a token, an address.
        let url = checked("providers: {a: {api: anthropic, base_url: '${URL}', api_key: '${KEY}'}}");
        assert_eq!((url.problems, url.variables), (Vec::new(), vec!["KEY".to_owned(), "URL".to_owned()]));
        // Whatever it holds, this is no provider; and nothing tells what it holds, or that it is set.
        let wrong = checked("providers: {a: {api: none, base_url: '${HOME}'}}");
        assert_eq!(wrong.problems.len(), 1, "{wrong:?}");
        let same = |guess: &str| {
            let issuer =
                |name: &str| format!("{{issuer: 'https://x/{name}', audience: [a], user_claim: sub}}");
            checked(&format!(
                "gateway: {{identity: {{issuers: [{}, {}]}}}}",
                issuer("${HOME}"),
                issuer(guess)
            ))
        };
        let home = std::env::var("HOME").unwrap();
        assert_eq!(same(&home), same(&"x".repeat(home.len())));
        let twice = same("${HOME}").problems;
        assert!(twice.iter().any(|problem| problem.message.contains("stands twice")), "{twice:?}");
    }
}
