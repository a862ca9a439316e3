//! The configuration of `backstop serve`, as its API shows it and has it read anew.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use backstop::config::{ConfigError, LayerKind, Loaded, Problem, Source};
use backstop::gateway::{
    CheckedConfiguration, Configuration, ConfigurationProblem, Exception, ReloadedConfiguration,
    ServedPlugin, ShownConfiguration, TriedCall,
};
use backstop::hooks::CallContext;
use backstop::hooks::points::ToolCallEvent;
use backstop::{Backstop, BuildError, HookTypes, Proposed, ProposedError, load_sources};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

/// What a checked text is called in its problems.
const TEXT: &str = "backstop.yaml";
/// What a variable may hold that can be used: a token, an address, a number, a host of this machine. Each is told its number, from 1 on,
/// so that no two of them hold the same.
const STAND_INS: [fn(u32) -> String; 4] = [
    |number| format!("stand-in-0123456789abcdef0123456789abcdef-{number}"),
    |number| format!("https://stand-in-{number}.example.com"),
    |number| number.to_string(),
    |number| {
        Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST).saturating_add(number).saturating_sub(1)).to_string()
    },
];

/// The configuration that a server has, for its API.
#[derive(Debug)]
pub(super) struct Served {
    state: Mutex<State>,
    /// Where plugins are installed.
    plugins: Option<PathBuf>,
    ask: mpsc::Sender<Reload>,
}

#[derive(Debug)]
struct State {
    shown: ShownConfiguration,
    plugins: Vec<ServedPlugin>,
    exceptions: Vec<Exception>,
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
    pub(super) fn new(
        loaded: &Loaded,
        types: HookTypes,
        plugins: Option<PathBuf>,
    ) -> (Arc<Self>, mpsc::Receiver<Reload>) {
        // One at a time: whoever asks meanwhile waits for their turn.
        let (ask, asked) = mpsc::channel(1);
        let (shown, exceptions) = (shown(loaded), exceptions(loaded));
        let state = Mutex::new(State { shown, plugins: Vec::new(), exceptions, types });
        (Arc::new(Self { state, plugins, ask }), asked)
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
        let (shown, plugins, exceptions) = (shown(loaded), plugins.collect(), exceptions(loaded));
        *self.state() = State { shown, plugins, exceptions, types };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Configuration for Served {
    fn shown(&self) -> ShownConfiguration {
        self.state().shown.clone()
    }

    fn check(&self, text: &str) -> CheckedConfiguration {
        let types = self.state().types.clone();
        checked(text, &types)
    }

    async fn try_call(
        &self,
        text: String,
        event: ToolCallEvent,
        call: CallContext,
    ) -> Result<TriedCall, Vec<ConfigurationProblem>> {
        let (types, plugins) = (self.state().types.clone(), self.plugins.clone());
        // Reading a long text, and making its rules, keeps a thread busy.
        let trying = spawn_blocking(move || {
            Handle::current().block_on(tried(&text, types, plugins.as_deref(), event, call))
        });
        trying.await.unwrap_or_else(|_| Err(vec![failed("the call could not be judged by it")]))
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

    fn exceptions(&self) -> Vec<Exception> {
        self.state().exceptions.clone()
    }
}

fn shown(loaded: &Loaded) -> ShownConfiguration {
    ShownConfiguration { values: loaded.show(), digest: loaded.digest().to_string() }
}

/// What is excepted from the guards, single rules in shadow among it, in the words of its author: what variables hold is told to nobody.
fn exceptions(loaded: &Loaded) -> Vec<Exception> {
    let guards = &loaded.config.guards;
    let commands = guards.command_safety.allow.iter().map(|one| Exception {
        guard: "command_safety",
        rule: one.rule.as_ref().map(|rule| rule.value.as_str().to_owned()),
        exempt: one.command.as_ref().map(|command| command.value.as_written().to_owned()),
        reason: one.reason.value.as_written().to_owned(),
        last_day: one.expires.as_ref().map(|day| day.value.0.to_string()),
        at: one.reason.at.to_string(),
    });
    let paths = guards.sensitive_files.allow.iter().map(|one| Exception {
        guard: "sensitive_files",
        rule: None,
        exempt: Some(one.path.value.as_written().to_owned()),
        reason: one.reason.value.as_written().to_owned(),
        last_day: one.expires.as_ref().map(|day| day.value.0.to_string()),
        at: one.reason.at.to_string(),
    });
    let in_shadow = guards.command_safety.shadow.iter().map(|rule| Exception {
        guard: "command_safety",
        rule: Some(rule.value.as_str().to_owned()),
        exempt: None,
        reason: "in shadow: what it says is written down, and changes nothing".to_owned(),
        last_day: None,
        at: rule.at.to_string(),
    });
    commands.chain(in_shadow).chain(paths).collect()
}

/// What is wrong with a text, whatever its variables hold. INVARIANT (nobody reads the environment from afar): it is not looked at. Each
/// variable stands for several values, and what is wrong with all of them is told.
fn checked(text: &str, types: &HookTypes) -> CheckedConfiguration {
    let source = [Source::new(LayerKind::Operator, TEXT, text)];
    // Numbered in the order in which they are met.
    let variables: RefCell<BTreeMap<String, u32>> = RefCell::default();
    let mut all = STAND_INS.iter().map(|value| {
        let environment = |name: &str| {
            let mut variables = variables.borrow_mut();
            let next = u32::try_from(variables.len()).ok()?.saturating_add(1);
            Some(value(*variables.entry(name.to_owned()).or_insert(next)))
        };
        load_sources(&source, types, &environment).as_ref().err().map(told).unwrap_or_default()
    });
    let first = all.next().unwrap_or_default();
    let problems = all.fold(first, |problems, others| {
        problems.into_iter().filter(|problem| others.contains(problem)).collect()
    });
    CheckedConfiguration { problems, variables: variables.into_inner().into_keys().collect() }
}

/// A text, read with values in the place of its variables.
struct ReadText {
    one: Loaded,
    /// The same, with other values.
    other: Loaded,
    variables: Vec<String>,
}

/// Reads a text for trying it. Of each variable it is not known what it holds, so what depends on one is what differs between the two.
fn read(text: &str, types: &HookTypes) -> Result<ReadText, Vec<ConfigurationProblem>> {
    let CheckedConfiguration { problems, variables } = checked(text, types);
    if !problems.is_empty() {
        return Err(problems);
    }
    let source = [Source::new(LayerKind::Operator, TEXT, text)];
    let numbers: BTreeMap<String, u32> = variables.iter().cloned().zip(1..).collect();
    let beyond = u32::try_from(variables.len()).unwrap_or(u32::MAX);
    for value in STAND_INS {
        let load = |more: u32| {
            let environment = |name: &str| numbers.get(name).map(|number| value(number.saturating_add(more)));
            load_sources(&source, types, &environment)
        };
        if let (Ok(one), Ok(other)) = (load(0), load(beyond)) {
            return Ok(ReadText { one, other, variables });
        }
    }
    Err(vec![failed(
        "its variables would have to hold different kinds of values, at which nobody looks\nhint: write into the text what they hold",
    )])
}

/// A problem with the whole of a text; a `hint:` in its words becomes one.
fn failed(message: &str) -> ConfigurationProblem {
    let (message, hint) = match message.split_once("\nhint: ") {
        Some((message, hint)) => (message, Some(hint.to_owned())),
        None => (message, None),
    };
    ConfigurationProblem { kind: "not_tried", message: message.to_owned(), line: None, column: None, hint }
}

/// What a text makes of a call. INVARIANT (as [`checked`]): nothing that it names is touched.
async fn tried(
    text: &str,
    types: HookTypes,
    plugins: Option<&Path>,
    event: ToolCallEvent,
    call: CallContext,
) -> Result<TriedCall, Vec<ConfigurationProblem>> {
    let ReadText { one, other, variables } = read(text, &types)?;
    let proposed = Proposed::build(&one, &other, types, plugins).await.map_err(|error| match error {
        ProposedError::Build(BuildError::Config(error)) => told(&error),
        error => vec![failed(&error.to_string())],
    })?;
    let (reviewed, starts) = proposed.judge(event, &call).await;
    let hooks = proposed.hooks();
    let unasked = proposed.unasked().map(|(id, why)| (id.to_owned(), why.why())).collect();
    proposed.shut_down().await;
    Ok(TriedCall { reviewed, starts, hooks, unasked, variables })
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
        // Two variables may hold two things.
        let two = same("${OTHER}").problems;
        assert!(!two.iter().any(|problem| problem.message.contains("stands twice")), "{two:?}");
    }

    #[test]
    fn a_variable_may_hold_a_host_of_this_machine() {
        let types = HookTypes::built_in(&[]);
        let plain = |host: &str| {
            let provider = format!("{{api: anthropic, base_url: 'http://{host}:11434', api_key: '${{K}}'}}");
            checked(&format!("providers: {{a: {provider}}}"), &types).problems
        };
        assert_eq!(plain("${HOST}"), Vec::new());
        assert!(plain("api.example.com")[0].message.contains("unencrypted"));
    }

    #[test]
    fn what_is_shown_has_its_own_digest() {
        let types = HookTypes::built_in(&[]);
        let load = |text: &str| {
            load_sources(&[Source::new(LayerKind::Operator, TEXT, text)], &types, &|_: &str| None).unwrap()
        };
        let (one, other) = (load("{}"), load("gateway: {max_retries: 1}"));
        assert_ne!(shown(&one).digest, shown(&other).digest);
        let (served, _) = Served::new(&other, types.clone(), None);
        let holds = ShownConfiguration { values: other.show(), digest: other.digest().to_string() };
        assert_eq!(served.shown(), holds);
    }

    #[test]
    fn exceptions_are_shown_as_they_are_written() {
        let types = HookTypes::built_in(&[]);
        let text = "guards:\n  command_safety:\n    allow:\n      - {command: 'marker ${WORD}', reason: ours, expires: 2026-12-31}\n    shadow: [git.force-push]\n  sensitive_files:\n    allow: [{path: '/srv/**', reason: theirs}]\n";
        let source = [Source::new(LayerKind::Operator, TEXT, text)];
        let loaded = load_sources(&source, &types, &|_: &str| Some("hidden".to_owned())).unwrap();
        let (served, _) = Served::new(&loaded, types, None);
        let [command, in_shadow, path] = served.exceptions().try_into().unwrap();
        let Exception { guard, rule, exempt, reason, last_day, at } = command;
        assert_eq!((guard, rule, reason.as_str()), ("command_safety", None, "ours"));
        assert_eq!(exempt.as_deref(), Some("marker ${WORD}"));
        assert_eq!(last_day.as_deref(), Some("2026-12-31"));
        assert!(at.starts_with("backstop.yaml:4:"), "{at}");
        assert_eq!((in_shadow.rule.as_deref(), in_shadow.exempt), (Some("git.force-push"), None));
        assert!(in_shadow.at.starts_with("backstop.yaml:5:"), "{}", in_shadow.at);
        assert!(in_shadow.reason.starts_with("in shadow"), "{}", in_shadow.reason);
        assert_eq!((path.guard, path.exempt.as_deref()), ("sensitive_files", Some("/srv/**")));
        assert_eq!(path.last_day, None);
    }
}
