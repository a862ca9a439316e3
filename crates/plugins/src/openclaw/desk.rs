//! The desk that a plugin's `api` comes to: each of its methods ends in one call here.
//!
//! While the plugin is loaded for the first time, what it registers is collected. In a runtime that had to be made anew the
//! same calls are made again, and are only checked for their form: who stands was decided by then.
//!
//! Bounds: what is collected has at most [`MOST_HOOKS`] hooks, [`MOST_OFFERS`] other things and [`MOST_BYTES`] in all; one more is an
//! error in `register`. What is left out is counted beyond [`MOST_LEFT_OUT`]. A desk keeps nothing else of what a plugin says.

mod options;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use backstop_hooks::{Mode, OwnerId, PointId, SessionKey};
use backstop_script::{
    Bridge, CallScope, FunctionId, HostError, JsonText, LogLevel, ProgramOutput, ProgramRequest, Provided,
    ScriptError,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

pub use self::services::{Extensions, NoServices, Printed, ServiceError, Services};
use super::answering::{Answering, EventSession, Handed};
use super::programs::Programs;
use super::{Dialect, Facts, Offered, resolved};
use crate::registration::{HookSpec, LeftOut, MOST_HOOKS, MOST_OFFERS, Offer, OfferKind};

/// Points of the other system about which nothing here can tell: skills that propose changes of themselves.
const ELSEWHERE: [&str; 3] = ["skill_proposal_evaluate", "skill_proposal_changed", "skill_changed"];

/// Bytes of the JSON of all that a plugin registers.
const MOST_BYTES: usize = 2 << 20;
/// How many things that were denied are counted one by one.
const MOST_DENIED: usize = 128;
/// How many things that were left out are listed one by one.
const MOST_LEFT_OUT: usize = 256;
/// The longest words of one of them, in characters.
const LONGEST_WORDS: usize = 300;

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
    /// The namespaces of its session extensions.
    namespaces: Mutex<BTreeSet<String>>,
    programs: Programs,
    /// What it imports while it is loaded and that is not provided; one more than are listed.
    absent: Mutex<BTreeSet<String>>,
    /// What it asked for that no grant names, and how often.
    denied: Mutex<BTreeMap<String, u64>>,
    /// Parts of its answers that nothing here reads, as far as that was logged.
    unread: Mutex<BTreeSet<String>>,
    /// The last runtime whose `register` has returned. From then on nothing can be registered in it.
    registered: AtomicU32,
    /// Whether it tried to register something after that.
    late: AtomicBool,
    /// The names that its `api` has, where `register` threw a `TypeError`.
    names: Mutex<Vec<String>>,
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

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("owner", &self.owner).finish_non_exhaustive()
    }
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
    /// A middleware of results of tools.
    Middleware,
    Trusted,
}

#[derive(Deserialize)]
struct OfferCall {
    kind: String,
    name: String,
    description: String,
    functions: BTreeMap<String, u32>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Deserialize)]
struct SessionCall {
    /// The number that `session` answered.
    asked: u64,
    what: Value,
}

#[derive(Deserialize)]
struct ExtensionCall {
    /// The number of the question that reads it.
    question: u64,
    namespace: String,
}

/// What is said of a conversation that the plugin is not asked about.
const NOT_ITS_OWN: &str = "`sessionKey` is not that of an event, a tool call or a command that the plugin is answering\nhint: use `ctx.sessionKey`, and ask before the handler has answered";

fn refused(message: impl Into<String>) -> HostError {
    HostError::new("ERR_INVALID_ARG_VALUE", message)
}

/// Kinds of which no two may have one name. Tools and commands are looked at where those of all plugins are known.
const ONCE: [OfferKind; 4] =
    [OfferKind::Service, OfferKind::Lifecycle, OfferKind::Cli, OfferKind::SessionExtension];

impl Offered {
    /// What these two can't both have.
    fn clashes(&self, other: &Self) -> Option<String> {
        let (kind, name) = (self.offer.kind, &self.offer.name);
        let is_one = kind == other.offer.kind && ONCE.contains(&kind);
        let slot = self.more.get("slot").filter(|slot| slot.is_string());
        if is_one && *name == other.offer.name {
            return Some(format!("there are two {kind}s `{name}`"));
        }
        let is_slot = is_one && slot.is_some() && slot == other.more.get("slot");
        is_slot.then(|| {
            format!("session extensions `{}` and `{name}` have one `sessionEntrySlotKey`", other.offer.name)
        })
    }
}

impl Desk {
    pub(super) fn new(
        facts: Facts,
        services: Arc<dyn Services>,
        answering: Answering,
        programs: Programs,
    ) -> Self {
        let owner = OwnerId::new(facts.id.as_str());
        Self {
            facts,
            owner,
            services,
            answering,
            collected: Mutex::default(),
            namespaces: Mutex::default(),
            programs,
            absent: Mutex::default(),
            denied: Mutex::default(),
            unread: Mutex::default(),
            registered: AtomicU32::new(0),
            late: AtomicBool::new(false),
            names: Mutex::default(),
            lost: watch::Sender::new(Lost::default()),
        }
    }

    /// Refuses whatever the plugin asks to be stored from now on; see [`Services::close`].
    pub(super) async fn close(&self) {
        self.services.close(&self.owner).await;
    }

    /// Tells when the plugin's runtime is lost from now on.
    pub(super) fn lost(&self) -> watch::Receiver<Lost> {
        self.lost.subscribe()
    }

    /// What was registered so far.
    pub(super) fn collected(&self) -> Collected {
        std::mem::take(&mut *self.collected.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What it asked for that no grant names, in words of a manifest, and how often.
    pub(super) fn denials(&self) -> Vec<(String, u64)> {
        let denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        denied.iter().map(|(grant, times)| (grant.clone(), *times)).collect()
    }

    fn is_over(&self, scope: &CallScope) -> bool {
        self.registered.load(Ordering::Acquire) >= scope.generation
    }

    fn open(&self, scope: &CallScope) -> Result<(), HostError> {
        if self.is_over(scope) {
            self.note_late();
            return Err(refused("`register` has returned\nhint: register while it runs"));
        }
        Ok(())
    }

    /// Says that something came too late to be registered. The plugin's code is told as well, and may keep that to itself.
    fn note_late(&self) {
        if !self.late.swap(true, Ordering::AcqRel) {
            let (what, why) = ("what it registers late", "`register` had returned; it is refused");
            tracing::warn!(plugin = %self.facts.id, "{what} is left out: {why}");
            self.keep_left_out(LeftOut { what: what.to_owned(), why: why.to_owned() });
        }
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
        let left_out = LeftOut { what: what.into(), why: why.into() };
        if scope.generation == 1 && !self.is_over(scope) {
            self.keep_left_out(left_out);
        }
    }

    /// Lists something, while the plugin is loaded for the first time.
    fn keep_left_out(&self, LeftOut { what, why }: LeftOut) {
        let cut = |text: String| text.chars().take(LONGEST_WORDS).collect();
        let left_out = LeftOut { what: cut(what), why: cut(why) };
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        let list = &mut collected.left_out;
        if list.len() < MOST_LEFT_OUT {
            list.push(left_out);
        } else if list.len() == MOST_LEFT_OUT {
            let why = format!("more than {MOST_LEFT_OUT} things were left out");
            list.push(LeftOut { what: "and others".to_owned(), why });
        }
    }

    /// Lists what is imported and not provided. Whoever imports may name any number of things, at any length, also later.
    fn note_absent(&self, what: String, why: &str) {
        let what: String = what.chars().take(LONGEST_WORDS).collect();
        let is_new = {
            let mut absent = self.absent.lock().unwrap_or_else(PoisonError::into_inner);
            absent.len() <= MOST_LEFT_OUT && absent.insert(what.clone())
        };
        if is_new {
            self.keep_left_out(LeftOut { what, why: why.to_owned() });
        }
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
        spec.priority = self.priority(scope, &call)?;
        spec.timeout = self.timeout(scope, &call)?;
        spec.tools = self.matcher(scope, &call, spec.point)?;
        spec.triggers = self.triggers(scope, &call, spec.point)?;
        spec.dispatch_kinds = self.dispatch_kinds(scope, &call, spec.point)?;
        let function = FunctionId::new(call.function);
        self.collect(scope, |collected| collected.hooks.push((spec, function)));
        Ok(Value::Null)
    }

    /// Logs once that nothing here reads a part of its answers. What it is called comes from a list of ours.
    pub(super) fn not_read(&self, what: &str) {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        if unread.insert(what.to_owned()) {
            tracing::warn!(plugin = %self.owner, "{what} is not read here: nothing comes of it");
        }
    }

    /// What was noted so far as not read.
    pub(super) fn all_not_read(&self) -> Vec<String> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The conversations that the plugin is being asked about.
    pub(super) fn answering(&self) -> &Answering {
        &self.answering
    }

    /// Reads what the plugin keeps with the conversation, so that what is asked by this number has it at once.
    pub(super) async fn hand_over(&self, question: u64, session: Option<&SessionKey>) -> Handed {
        let Some(session) = session else {
            return self.answering.hand_over(question, None, Ok(Extensions::new()));
        };
        let values = self.services.extensions(&self.owner, session).await;
        self.answering.hand_over(question, Some(session), values.map_err(|error| error.0))
    }

    /// Changes the value of a session extension. What is being asked about that conversation sees it.
    async fn patch(&self, session: &EventSession, patch: Value) -> Result<Value, ServiceError> {
        let done = self.services.patch(&self.owner, session, patch).await?;
        if self.answering.has_handed(session.key()) {
            let values = self.services.extensions(&self.owner, session.key()).await;
            self.answering.refresh(session.key(), &values.map_err(|error| error.0));
        }
        Ok(done)
    }

    /// A patch is of a session extension that the plugin has registered.
    fn registered_namespace(&self, patch: &Value) -> Result<(), HostError> {
        let namespace = patch.get("namespace").and_then(Value::as_str).unwrap_or_default();
        let namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if namespaces.contains(namespace) {
            return Ok(());
        }
        let near = backstop_yaml::nearest(namespace, namespaces.iter().map(String::as_str));
        let hint = near.map_or_else(
            || "register it with `registerSessionExtension` while `register` runs".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        Err(refused(format!("there is no session extension `{namespace}`\nhint: {hint}")))
    }

    fn offer(&self, scope: &CallScope, call: OfferCall) -> Result<Value, HostError> {
        let Some(kind) = OfferKind::of(&call.kind) else {
            return Err(refused(format!("a plugin can't offer `{}`", call.kind)));
        };
        let OfferCall { name, description, functions, mut more, .. } = call;
        let schema = more.remove("schema").filter(Value::is_object).map(backstop_hooks::Json::new);
        let functions = functions.into_iter().map(|(at, number)| (at, FunctionId::new(number))).collect();
        let offered = Offered { offer: Offer { kind, name, description, schema }, more, functions };
        // Those of the first load stand, and only these are counted.
        if kind == OfferKind::SessionExtension && scope.generation == 1 {
            let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
            namespaces.insert(offered.offer.name.clone());
        }
        let twice = self.collect(scope, |collected| {
            let twice = collected.offers.iter().find_map(|other| offered.clashes(other));
            if twice.is_none() {
                collected.offers.push(offered);
            }
            twice
        });
        match twice {
            Some(twice) if self.facts.dialect == Dialect::Backstop => {
                Err(refused(format!("{twice}\nhint: give each a name of its own")))
            }
            Some(twice) => {
                self.leave_out(scope, twice, "the first of them holds, as in the other system");
                Ok(Value::Null)
            }
            None => Ok(Value::Null),
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(arguments: &JsonText) -> Result<T, HostError> {
    arguments.read().map_err(|_| refused("the api was called with other data than it has"))
}

fn text(value: &Value) -> Result<JsonText, HostError> {
    JsonText::of(value).map_err(|_| refused("the host's answer has no JSON form"))
}

/// The modules that `api` makes of itself when they are first used.
pub(super) const PARTS: [(&str, &str); 3] = [
    ("backstop:commander", include_str!("js/commander.js")),
    ("backstop:run-context", include_str!("js/run_context.js")),
    ("backstop:runtime", include_str!("js/runtime.js")),
];

/// The parts of the SDK: what follows `plugin-sdk` in their names, and their text. None imports anything.
pub(super) const SDK: [(&[&str], &str); 7] = [
    (&["", "/core", "/plugin-entry", "/error-runtime"], include_str!("js/sdk.js")),
    (&["/string-coerce-runtime"], include_str!("js/sdk/string_coerce.js")),
    (&["/account-id"], include_str!("js/sdk/account_id.js")),
    (&["/number-runtime"], include_str!("js/sdk/number.js")),
    (&["/retry-runtime"], include_str!("js/sdk/retry.js")),
    (&["/keyed-async-queue"], include_str!("js/sdk/keyed_async_queue.js")),
    (&["/text-chunking"], include_str!("js/sdk/text_chunking.js")),
];

#[async_trait]
impl Bridge for Desk {
    fn module(&self, specifier: &str) -> Option<Provided> {
        let source = |text: &'static str| Some(Provided::Source(text.into()));
        let part_of_sdk = |part: &str| SDK.iter().find(|(names, _)| names.contains(&part));
        match specifier {
            "backstop:api" => return source(include_str!("js/api.js")),
            specifier => {
                if let Some((_, text)) = PARTS.iter().find(|(name, _)| *name == specifier) {
                    return source(text);
                }
            }
        }
        let (system, part) = specifier.split_once("/plugin-sdk")?;
        if !matches!(system, "openclaw" | "backstop") || !(part.is_empty() || part.starts_with('/')) {
            return None;
        }
        match part_of_sdk(part) {
            Some((_, text)) => source(text),
            None => Some(Provided::Absent("this part of the SDK has no counterpart here".to_owned())),
        }
    }

    fn absent(&self, module: &str, names: &BTreeSet<String>) {
        if self.registered.load(Ordering::Acquire) != 0 {
            return;
        }
        let why = match module.starts_with("node:") {
            true => {
                "scripts are not provided with it here: it throws when it is used; a plugin that needs it can run under the machine's Node (`runtime: node`)"
            }
            false => "this part of the SDK is not provided: what is imported from it throws when it is used",
        };
        if names.is_empty() {
            self.note_absent(format!("`{module}`"), why);
        }
        for name in names {
            self.note_absent(format!("`{name}` of `{module}`"), why);
        }
    }

    fn call(&self, scope: &CallScope, name: &str, arguments: JsonText) -> Result<JsonText, HostError> {
        let answer = match name {
            "describe" => self.describe(),
            "hook" => self.registers(scope, &arguments).and_then(|()| self.hook(scope, read(&arguments)?))?,
            "offer" => {
                self.registers(scope, &arguments).and_then(|()| self.offer(scope, read(&arguments)?))?
            }
            "option" => self.option(scope, &read(&arguments)?)?,
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
            "names" => self.note_names(read(&arguments)?),
            "registered" => {
                self.registered.fetch_max(scope.generation, Ordering::AcqRel);
                Value::Null
            }
            "session" => {
                let which: Value = read(&arguments)?;
                let key = which.get("sessionKey").and_then(Value::as_str).unwrap_or_default();
                json!(self.answering.ask(key).ok_or_else(|| refused(NOT_ITS_OWN))?)
            }
            "extension" => {
                let ExtensionCall { question, namespace } = read(&arguments)?;
                let value = self.answering.extension(question, &namespace).map_err(refused)?;
                value.map_or_else(|| json!({}), |value| json!({ "value": value }))
            }
            "interceptor" => Value::Null,
            _ => return Err(HostError::new("ERR_METHOD_NOT_IMPLEMENTED", format!("there is no `{name}`"))),
        };
        text(&answer)
    }

    async fn request(&self, _: CallScope, name: String, arguments: JsonText) -> Result<JsonText, HostError> {
        let done = match name.as_str() {
            "inject" | "patch" => {
                let SessionCall { asked, what } = read(&arguments)?;
                let session = self.answering.redeem(asked).ok_or_else(|| refused(NOT_ITS_OWN))?;
                if name == "patch" {
                    self.registered_namespace(&what)?;
                }
                match name.as_str() {
                    "inject" => self.services.inject(&self.owner, &session, what).await,
                    _ => self.patch(&session, what).await,
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

    async fn run_program(&self, _: CallScope, request: ProgramRequest) -> Result<ProgramOutput, HostError> {
        self.programs.run(request).await
    }

    fn denied(&self, scope: &CallScope, grant: &str) {
        self.denied_often(scope, grant, 1);
    }

    fn denied_often(&self, scope: &CallScope, grant: &str, more: u64) {
        let grant: String = grant.chars().take(LONGEST_WORDS).collect();
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = denied.contains_key(&grant);
        if !is_known && denied.len() < MOST_DENIED {
            tracing::warn!(plugin = %scope.script, "denied: {grant}");
        }
        let grant = if is_known || denied.len() < MOST_DENIED { grant } else { "others".to_owned() };
        let times = denied.entry(grant).or_default();
        *times = times.saturating_add(more);
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
