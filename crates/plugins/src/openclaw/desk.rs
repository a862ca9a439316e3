//! The desk that a plugin's `api` comes to: each of its methods ends in one call here.
//!
//! While the plugin is loaded for the first time, what it registers is collected. In a runtime that had to be made anew the
//! same calls are made again, and are only checked for their form: who stands was decided by then.
//!
//! Bounds: what is collected has at most [`MOST_HOOKS`] hooks, [`MOST_OFFERS`] other things and [`MOST_BYTES`] in all; one more is an
//! error in `register`. What is left out is counted beyond [`MOST_LEFT_OUT`]. A desk keeps nothing else of what a plugin says.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use backstop_engine::{Budget, ToolMatcher};
use backstop_hooks::{Mode, OwnerId, PointId, Trigger};
use backstop_script::{Bridge, CallScope, FunctionId, HostError, JsonText, LogLevel, Provided, ScriptError};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::answering::{Answering, EventSession};
use super::{Dialect, Facts, Offered, resolved};
use crate::registration::{HookSpec, LeftOut, MOST_HOOKS, MOST_OFFERS, Offer, OfferKind};

/// Points of the other system about which nothing here can tell: skills that propose changes of themselves.
const ELSEWHERE: [&str; 3] = ["skill_proposal_evaluate", "skill_proposal_changed", "skill_changed"];

/// Bytes of the JSON of all that a plugin registers.
const MOST_BYTES: usize = 2 << 20;
/// How many things that were left out are listed one by one.
const MOST_LEFT_OUT: usize = 256;
/// The longest words of one of them, in characters.
const LONGEST_WORDS: usize = 300;

/// The longest budget that an author may set.
const LONGEST_MS: u64 = 600_000;

/// What a plugin's requests need of its host.
#[async_trait]
pub trait Services: Send + Sync + 'static {
    /// Queues a text for the next turn of a conversation that the plugin was asked about.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    async fn inject(
        &self,
        owner: &OwnerId,
        session: &EventSession,
        injection: Value,
    ) -> Result<Value, ServiceError>;

    /// Why texts of this plugin for the next turn are not taken, if they are not. It is said when the plugin is loaded.
    fn no_injections(&self, owner: &OwnerId) -> Option<String> {
        let _ = owner;
        None
    }

    /// The value of a session extension, `null` if there is none.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    async fn extension(&self, owner: &OwnerId, which: Value) -> Result<Value, ServiceError>;

    /// Changes the value of a session extension of a conversation that the plugin was asked about.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    async fn patch(
        &self,
        owner: &OwnerId,
        session: &EventSession,
        patch: Value,
    ) -> Result<Value, ServiceError>;

    /// A text that a command of the plugin prints.
    fn print(&self, owner: &OwnerId, text: Printed<'_>);
}

/// A text that a command prints for whoever started it. Its `Debug` shows its size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Printed<'a>(pub &'a str);

impl fmt::Debug for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Printed({} bytes)", self.0.len())
    }
}

/// Why a service was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServiceError(pub String);

/// A host that does nothing for plugins beyond asking their hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServices;

#[async_trait]
impl Services for NoServices {
    async fn inject(&self, _: &OwnerId, _: &EventSession, _: Value) -> Result<Value, ServiceError> {
        Err(ServiceError("this host keeps no injections for the next turn".to_owned()))
    }

    async fn extension(&self, _: &OwnerId, _: Value) -> Result<Value, ServiceError> {
        Err(ServiceError("this host keeps no session extensions".to_owned()))
    }

    async fn patch(&self, _: &OwnerId, _: &EventSession, _: Value) -> Result<Value, ServiceError> {
        Err(ServiceError("this host keeps no session extensions".to_owned()))
    }

    fn print(&self, _: &OwnerId, _: Printed<'_>) {}
}

/// What a plugin registered.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) hooks: Vec<(HookSpec, FunctionId)>,
    pub(super) offers: Vec<Offered>,
    pub(super) left_out: Vec<LeftOut>,
    bytes: usize,
}

impl Collected {
    /// Counts one more thing of this size.
    fn count(&mut self, bytes: usize) -> Result<(), HostError> {
        self.bytes = self.bytes.saturating_add(bytes);
        let is_full = self.hooks.len() + self.offers.len() >= MOST_HOOKS + MOST_OFFERS;
        if is_full || self.bytes > MOST_BYTES {
            let most = format!("{MOST_HOOKS} hooks, {MOST_OFFERS} other things, {MOST_BYTES} bytes in all");
            return Err(refused(format!("it registers more than is taken of one plugin ({most})")));
        }
        Ok(())
    }
}

/// The host's side of one plugin.
pub(super) struct Desk {
    facts: Facts,
    owner: OwnerId,
    services: Arc<dyn Services>,
    answering: Answering,
    collected: Mutex<Collected>,
    /// The last runtime whose `register` has returned. From then on nothing can be registered in it.
    registered: AtomicU32,
    /// How often its runtime was lost, and how the last time.
    lost: watch::Sender<Lost>,
}

/// That a plugin's runtime is gone with all that ran in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// How often that was so.
    times: u64,
    /// Why.
    pub(crate) why: String,
    /// Whether there is none again before the plugin is loaded anew.
    pub(crate) for_good: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HookCall {
    style: HookStyle,
    point: String,
    registration: String,
    #[serde(default)]
    priority: Value,
    #[serde(default)]
    timeout_ms: Value,
    #[serde(default)]
    matcher: Value,
    #[serde(default)]
    eligible_triggers: Value,
    #[serde(default)]
    eligible_dispatch_kinds: Value,
    function: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HookStyle {
    Typed,
    Internal,
    Interceptor,
    Trusted,
}

#[derive(Deserialize)]
struct OfferCall {
    kind: String,
    name: String,
    description: String,
    functions: std::collections::BTreeMap<String, u32>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Deserialize)]
struct SessionCall {
    /// The number that `session` answered.
    asked: u64,
    what: Value,
}

/// What is said of a conversation that the plugin is not asked about.
const NOT_ITS_OWN: &str = "`sessionKey` is not that of an event, a tool call or a command that the plugin is answering\nhint: use `ctx.sessionKey`, and ask before the handler has answered";

fn refused(message: impl Into<String>) -> HostError {
    HostError::new("ERR_INVALID_ARG_VALUE", message)
}

impl Desk {
    pub(super) fn new(facts: Facts, services: Arc<dyn Services>, answering: Answering) -> Self {
        let owner = OwnerId::new(facts.id.as_str());
        let (collected, registered) = (Mutex::default(), AtomicU32::new(0));
        let lost = watch::Sender::new(Lost::default());
        Self { facts, owner, services, answering, collected, registered, lost }
    }

    /// Tells when the plugin's runtime is lost from now on.
    pub(super) fn lost(&self) -> watch::Receiver<Lost> {
        self.lost.subscribe()
    }

    /// What was registered so far.
    pub(super) fn collected(&self) -> Collected {
        std::mem::take(&mut *self.collected.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_over(&self, scope: &CallScope) -> bool {
        self.registered.load(Ordering::Acquire) >= scope.generation
    }

    fn open(&self, scope: &CallScope) -> Result<(), HostError> {
        if self.is_over(scope) {
            return Err(refused("`register` has returned\nhint: register while it runs"));
        }
        Ok(())
    }

    fn collect<T: Default>(&self, scope: &CallScope, take: impl FnOnce(&mut Collected) -> T) -> T {
        match scope.generation == 1 && !self.is_over(scope) {
            true => take(&mut self.collected.lock().unwrap_or_else(PoisonError::into_inner)),
            false => T::default(),
        }
    }

    /// Whether one more thing may be registered now.
    ///
    /// INVARIANT (what guards is known when it is loaded): whatever the plugin's own code believes of it.
    fn registers(&self, scope: &CallScope, arguments: &JsonText) -> Result<(), HostError> {
        self.open(scope)?;
        self.collect(scope, |collected| collected.count(arguments.as_str().len()).err()).map_or(Ok(()), Err)
    }

    fn leave_out(&self, scope: &CallScope, what: impl Into<String>, why: impl Into<String>) {
        let cut = |text: String| text.chars().take(LONGEST_WORDS).collect();
        let left_out = LeftOut { what: cut(what.into()), why: cut(why.into()) };
        self.collect(scope, |collected| {
            if collected.left_out.len() < MOST_LEFT_OUT {
                collected.left_out.push(left_out);
            } else if collected.left_out.len() == MOST_LEFT_OUT {
                let why = format!("more than {MOST_LEFT_OUT} things were left out");
                collected.left_out.push(LeftOut { what: "and others".to_owned(), why });
            }
        });
    }

    /// What the `api` says of the plugin and its host.
    fn describe(&self) -> Value {
        let Facts { id, name, version, description, root, entry, config, workspace, state, tools, .. } =
            &self.facts;
        json!({
            "id": id,
            "name": name,
            "version": version,
            "description": description,
            "source": root.join(entry),
            "rootDir": root,
            "pluginConfig": config,
            "config": { "plugins": { "entries": { id.as_str(): { "config": config } } } },
            "workspaceDir": workspace,
            "stateDir": state,
            "hostVersion": env!("CARGO_PKG_VERSION"),
            "tools": tools,
            "watched": self.watched(),
        })
    }

    /// Points at which the answer of a handler is nobody's to read: in the other system, all that are only watched.
    fn watched(&self) -> Vec<&'static str> {
        let watched = |point: &&PointId| point.info().mode == Mode::Observe;
        match self.facts.dialect {
            Dialect::OpenClaw => PointId::ALL.iter().filter(watched).map(|point| point.name()).collect(),
            Dialect::Backstop => Vec::new(),
        }
    }

    fn hook(&self, scope: &CallScope, call: HookCall) -> Result<Value, HostError> {
        if self.facts.dialect == Dialect::OpenClaw && ELSEWHERE.contains(&call.point.as_str()) {
            let what = format!("{} (`{}`)", call.registration, call.point);
            self.leave_out(scope, what, "nothing here has skills that change themselves");
            return Ok(Value::Null);
        }
        let mut spec = HookSpec::at(&call.point, call.registration.clone())
            .map_err(|error| refused(error.to_string()))?;
        if spec.point == PointId::TrustedToolPolicy && call.style != HookStyle::Trusted {
            return Err(refused("trusted tool policies are registered by `api.registerTrustedToolPolicy`"));
        }
        spec.priority = priority(&call)?;
        spec.timeout = self.timeout(scope, &call)?;
        spec.tools = self.matcher(scope, &call, spec.point)?;
        spec.triggers = self.triggers(scope, &call)?;
        spec.dispatch_kinds = texts(&call.eligible_dispatch_kinds);
        let function = FunctionId::new(call.function);
        self.collect(scope, |collected| collected.hooks.push((spec, function)));
        Ok(Value::Null)
    }

    /// The author's budget. Authors of the other system may set any; what is too long here is cut, and said.
    fn timeout(&self, scope: &CallScope, call: &HookCall) -> Result<Option<Budget>, HostError> {
        if call.timeout_ms.is_null() {
            return Ok(None);
        }
        let given = call.timeout_ms.as_f64().filter(|ms| ms.is_finite() && *ms > 0.0);
        let Some(given) = given else {
            return Err(refused(format!(
                "`timeoutMs` at `{}` is a positive number of milliseconds",
                call.point
            )));
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "the bound is far below where numbers lose their last digit"
        )]
        let longest = LONGEST_MS as f64;
        if given > longest {
            if self.facts.dialect == Dialect::Backstop {
                return Err(refused(format!("`timeoutMs` at `{}` is at most {LONGEST_MS}", call.point)));
            }
            let what = format!("`timeoutMs` of {} (`{}`)", call.registration, call.point);
            self.leave_out(scope, what, format!("a budget is at most {LONGEST_MS} ms; that holds instead"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 1 and the longest"
        )]
        let ms = given.clamp(1.0, longest) as u64;
        Budget::from_millis(ms).map(Some).map_err(|error| refused(error.to_string()))
    }

    fn matcher(
        &self,
        scope: &CallScope,
        call: &HookCall,
        point: PointId,
    ) -> Result<Option<ToolMatcher>, HostError> {
        if call.matcher.is_null() {
            return Ok(None);
        }
        let about_tools =
            matches!(point, PointId::BeforeToolCall | PointId::AfterToolCall | PointId::TrustedToolPolicy);
        if !about_tools {
            if self.facts.dialect == Dialect::Backstop {
                return Err(refused(format!(
                    "`matcher` means nothing at `{}`, which is about no tool",
                    call.point
                )));
            }
            let what = format!("`matcher` of {} (`{}`)", call.registration, call.point);
            self.leave_out(scope, what, "the point is about no tool; the hook is asked each time");
            return Ok(None);
        }
        let Some(names) = texts(&call.matcher) else {
            return Err(refused(format!("`matcher` at `{}` is a list of names of tools", call.point)));
        };
        ToolMatcher::names(names.iter().map(String::as_str))
            .map(Some)
            .map_err(|error| refused(error.to_string()))
    }

    /// A list with a word that nobody knows restricts nothing, as in the other system; that is said.
    fn triggers(&self, scope: &CallScope, call: &HookCall) -> Result<Option<Vec<Trigger>>, HostError> {
        if call.eligible_triggers.is_null() {
            return Ok(None);
        }
        let read = serde_json::from_value::<Vec<Trigger>>(call.eligible_triggers.clone()).ok();
        match read.filter(|triggers| !triggers.is_empty()) {
            Some(triggers) => Ok(Some(triggers)),
            None if self.facts.dialect == Dialect::Backstop => Err(refused(format!(
                "`eligibleTriggers` at `{}` is a list of user, cron, heartbeat, agent",
                call.point
            ))),
            None => {
                let what = format!("`eligibleTriggers` of {} (`{}`)", call.registration, call.point);
                self.leave_out(scope, what, "it names what is no trigger; the hook is asked each time");
                Ok(None)
            }
        }
    }

    fn offer(&self, scope: &CallScope, call: OfferCall) -> Result<Value, HostError> {
        let Some(kind) = OfferKind::of(&call.kind) else {
            return Err(refused(format!("a plugin can't offer `{}`", call.kind)));
        };
        let OfferCall { name, description, functions, mut more, .. } = call;
        let schema = more.remove("schema").filter(Value::is_object).map(backstop_hooks::Json::new);
        let functions = functions.into_iter().map(|(at, number)| (at, FunctionId::new(number))).collect();
        let offered = Offered { offer: Offer { kind, name, description, schema }, more, functions };
        self.collect(scope, |collected| collected.offers.push(offered));
        Ok(Value::Null)
    }
}

/// An author's priority: a whole number.
fn priority(call: &HookCall) -> Result<i32, HostError> {
    if call.priority.is_null() {
        return Ok(0);
    }
    let given = call.priority.as_i64().and_then(|given| i32::try_from(given).ok());
    given.ok_or_else(|| refused(format!("`priority` at `{}` is a whole number", call.point)))
}

fn texts(value: &Value) -> Option<Vec<String>> {
    serde_json::from_value(value.clone()).ok()
}

fn read<T: for<'de> Deserialize<'de>>(arguments: &JsonText) -> Result<T, HostError> {
    arguments.read().map_err(|_| refused("the api was called with other data than it has"))
}

fn text(value: &Value) -> Result<JsonText, HostError> {
    JsonText::of(value).map_err(|_| refused("the host's answer has no JSON form"))
}

#[async_trait]
impl Bridge for Desk {
    fn module(&self, specifier: &str) -> Option<Provided> {
        let source = |text: &'static str| Some(Provided::Source(text.into()));
        match specifier {
            "backstop:api" => return source(include_str!("js/api.js")),
            "backstop:commander" => return source(include_str!("js/commander.js")),
            _ => {}
        }
        let (system, part) = specifier.split_once("/plugin-sdk")?;
        if !matches!(system, "openclaw" | "backstop") || !(part.is_empty() || part.starts_with('/')) {
            return None;
        }
        match part {
            "" | "/core" | "/plugin-entry" | "/error-runtime" => source(include_str!("js/sdk.js")),
            _ => Some(Provided::Absent(format!("of `{specifier}` is not provided"))),
        }
    }

    fn call(&self, scope: &CallScope, name: &str, arguments: JsonText) -> Result<JsonText, HostError> {
        let answer = match name {
            "describe" => self.describe(),
            "hook" => self.registers(scope, &arguments).and_then(|()| self.hook(scope, read(&arguments)?))?,
            "offer" => {
                self.registers(scope, &arguments).and_then(|()| self.offer(scope, read(&arguments)?))?
            }
            "leftOut" => {
                let LeftOut { what, why } = read(&arguments)?;
                self.leave_out(scope, what, why);
                Value::Null
            }
            "print" => {
                let printed: Value = read(&arguments)?;
                let text = printed.get("text").and_then(Value::as_str).unwrap_or_default();
                self.services.print(&self.owner, Printed(text));
                Value::Null
            }
            "resolvePath" => {
                let path: Value = read(&arguments)?;
                let path = path.get("path").and_then(Value::as_str).unwrap_or_default();
                json!(resolved(&self.facts.root, path))
            }
            "registered" => {
                self.registered.fetch_max(scope.generation, Ordering::AcqRel);
                Value::Null
            }
            "session" => {
                let which: Value = read(&arguments)?;
                let key = which.get("sessionKey").and_then(Value::as_str).unwrap_or_default();
                json!(self.answering.ask(key).ok_or_else(|| refused(NOT_ITS_OWN))?)
            }
            "interceptor" => Value::Null,
            _ => return Err(HostError::new("ERR_METHOD_NOT_IMPLEMENTED", format!("there is no `{name}`"))),
        };
        text(&answer)
    }

    async fn request(&self, _: CallScope, name: String, arguments: JsonText) -> Result<JsonText, HostError> {
        let done = match name.as_str() {
            "extension" => self.services.extension(&self.owner, read(&arguments)?).await,
            "inject" | "patch" => {
                let SessionCall { asked, what } = read(&arguments)?;
                let session = self.answering.redeem(asked).ok_or_else(|| refused(NOT_ITS_OWN))?;
                match name.as_str() {
                    "inject" => self.services.inject(&self.owner, &session, what).await,
                    _ => self.services.patch(&self.owner, &session, what).await,
                }
            }
            _ => return Err(HostError::new("ERR_METHOD_NOT_IMPLEMENTED", format!("there is no `{name}`"))),
        };
        text(&done.map_err(|error| refused(error.0))?)
    }

    fn ended(&self, _: &CallScope, why: &ScriptError) {
        self.lost.send_modify(|lost| {
            lost.times += 1;
            lost.why = why.to_string();
            lost.for_good = *why == ScriptError::Stuck;
        });
    }

    fn log(&self, scope: &CallScope, level: LogLevel, line: &str) {
        let plugin = &scope.script;
        match level {
            LogLevel::Debug => tracing::debug!(%plugin, "{line}"),
            LogLevel::Info => tracing::info!(%plugin, "{line}"),
            LogLevel::Warn => tracing::warn!(%plugin, "{line}"),
            LogLevel::Error => tracing::error!(%plugin, "{line}"),
        }
    }
}
