//! Plugins in JavaScript and TypeScript, as the system of OpenClaw has them.
//!
//! A plugin is a folder with an entry that registers through `api`. The `api` is JavaScript of ours over a few functions
//! of the host (`desk`), runs in the plugin's own runtime ([`backstop_script`]), and has no authority: what is registered becomes
//! a [`Registration`] like that of any other plugin.
//!
//! The laws: what a plugin registers is known when it is loaded, and the same each time its runtime has to be made anew;
//! a hook that is asked after a later load that registered others has failed. An event has the shape that the plugin's
//! import promises ([`Dialect`]), and an answer is read back from it: what is not an outcome of the point is malformed.
//!
//! Limits: what nothing here has a use for (channels, providers, harnesses) can be registered and is listed as left out.

mod answering;
mod answers;
mod desk;
mod elsewhere;
mod hook;
mod programs;
mod sessions;
mod shape;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_script::{
    Bridge, FilesSeen, Limits, Loaded, Permissions, Placement, ScriptError, ScriptSource, Workers,
};
use serde_json::Value;
use tokio::sync::watch;

pub use self::answering::{Answering, EventSession, Open};
use self::desk::Desk;
pub(crate) use self::desk::Lost;
pub use self::desk::{Extensions, NoServices, Printed, ServiceError, Services};
pub(crate) use self::elsewhere::told::Wrong;
pub use self::elsewhere::{Apart, NoHost, Node, NodeError, UnderNode, held_apart, load_apart, unheld};
pub use self::hook::Batches;
use self::hook::ScriptHook;
use self::programs::Programs;
pub(crate) use self::programs::looked_up;
pub use self::sessions::StoreServices;
pub(crate) use self::sessions::{there, within_limits};
use crate::external::process::ProcessPlugin;
use crate::package::Seal;
use crate::registration::{Offer, Registration, RegistrationError};

/// Which import a plugin is written against: the shape of its events and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `openclaw/plugin-sdk`: messages and results as that system has them.
    OpenClaw,
    /// `backstop/plugin-sdk`: the contract of this one.
    Backstop,
}

/// What is known of a plugin before its code runs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its id, as its manifest has it.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Its folder.
    pub root: PathBuf,
    /// The module to begin with, relative to the folder.
    pub entry: String,
    /// Which import it is written against.
    pub dialect: Dialect,
    /// Its options.
    pub config: Value,
    /// The folder that the agent works in, if there is one.
    pub workspace: Option<PathBuf>,
    /// Where it may keep files, if that is granted.
    pub state: Option<PathBuf>,
    /// The tools that exist, for its matchers.
    pub tools: Vec<String>,
    /// What was seen of its files when it was trusted. No other code of it is run.
    pub seal: Option<Arc<Seal>>,
}

impl FilesSeen for Seal {
    fn holds(&self, name: &str, bytes: &[u8]) -> bool {
        Self::holds(self, name, bytes)
    }

    fn digest(&self, name: &str) -> Option<[u8; 32]> {
        Self::digest(self, name)
    }
}

/// Why a plugin was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Its code.
    #[error("plugin `{plugin}`: {error}")]
    Script {
        /// The plugin.
        plugin: String,
        /// What is wrong.
        error: ScriptError,
    },
    /// What it registers.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
}

/// A plugin whose code is loaded.
#[derive(Debug)]
pub struct Scripted {
    /// What it registered.
    pub registration: Registration,
    /// The functions behind what it registered besides hooks, and what it calls itself.
    pub offers: Vec<Offered>,
    /// The conversations that it is being asked about. Whoever calls something of it for a conversation holds it open meanwhile.
    pub answering: Answering,
    /// The program that it runs in, if that is not this one.
    pub(crate) process: Option<ProcessPlugin>,
    script: Loaded,
    desk: Arc<Desk>,
}

/// Something besides hooks that a plugin registered, with what is called for it.
#[derive(Clone, Debug)]
pub struct Offered {
    /// What it is.
    pub offer: Offer,
    /// What else the plugin said of it.
    pub more: serde_json::Map<String, Value>,
    functions: Vec<(String, backstop_script::FunctionId)>,
}

impl Offered {
    /// Whether the plugin gave it a function of this name.
    pub(crate) fn has(&self, function: &str) -> bool {
        self.functions.iter().any(|(name, _)| name == function)
    }

    /// Whether both are the same thing of one plugin.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.offer.kind == other.offer.kind && self.functions == other.functions
    }
}

/// Where the code of plugins runs.
#[derive(Debug)]
pub enum Runtime<'a> {
    /// In this process, by QuickJS.
    Here(&'a Workers),
    /// Under Node. What else of scripts runs here is on these workers.
    Node(UnderNode, &'a Workers),
    /// As in this process, in one of its own that can be killed. What else of scripts runs here is on these workers.
    Apart(Apart, &'a Workers),
}

/// Loads a plugin: its modules, and what its `register` registers.
///
/// # Errors
///
/// [`LoadError`]: a module that can't be read, an error that it throws, a hook that can't be.
pub async fn load(
    facts: Facts,
    permissions: Permissions,
    runtime: Runtime<'_>,
    batches: &Arc<Batches>,
    services: Arc<dyn Services>,
) -> Result<Scripted, LoadError> {
    let mut registration = Registration::new(&facts.id)?;
    let plugin = facts.id.clone();
    let dialect = facts.dialect;
    let mut source = ScriptSource::new(plugin.as_str(), &facts.root, facts.entry.clone())
        .boot(include_str!("js/boot.js"))
        .placed(Placement::Shared);
    if let Some(seal) = &facts.seal {
        source = source.seen(Arc::<Seal>::clone(seal));
    }
    let seal = facts.seal.clone();
    let no_injections = services.no_injections(registration.owner());
    let answering = Answering::default();
    let programs = Programs::new(&permissions.programs);
    let desk = Arc::new(Desk::new(facts, services, answering.clone(), programs));
    let asked = Arc::clone(&desk);
    let failed = |error| LoadError::Script { plugin: plugin.clone(), error: asked.hinted(error) };
    let mut gaps = Vec::new();
    let (script, process, workers) = match runtime {
        Runtime::Here(workers) => {
            let script =
                workers.load(source, permissions, Limits::default(), Arc::<Desk>::clone(&desk)).await;
            (script.map_err(failed)?, None, workers)
        }
        Runtime::Node(under, workers) => {
            let bridge: Arc<dyn Bridge> = Arc::<Desk>::clone(&desk);
            let started = elsewhere::start(source, &permissions, bridge, seal, under).await;
            let (script, process) = started.map_err(failed)?;
            (script, Some(process), workers)
        }
        Runtime::Apart(apart, workers) => {
            let bridge: Arc<dyn Bridge> = Arc::<Desk>::clone(&desk);
            let started = elsewhere::start_apart(source, &permissions, bridge, apart).await;
            let (script, process, open) = started.map_err(failed)?;
            gaps = open;
            (script, Some(process), workers)
        }
    };
    let collected = desk.collected();
    for (spec, function) in collected.hooks {
        let hook = ScriptHook::new(
            script.clone(),
            function,
            dialect,
            workers.clone(),
            Arc::clone(batches),
            Arc::clone(&desk),
        );
        registration.hook_at(spec, Arc::new(hook))?;
    }
    for offered in &collected.offers {
        registration.offer(offered.offer.clone())?;
    }
    for left_out in collected.left_out {
        registration.leave_out(left_out.what, left_out.why);
    }
    for gap in gaps {
        let why = "this system can't keep its process from it; the engine that runs it does";
        registration.leave_out(format!("the wall before {gap}"), why);
    }
    if let Some(why) = no_injections {
        registration.leave_out("texts for the next turn (`enqueueNextTurnInjection`)", why);
    }
    Ok(Scripted { registration, offers: collected.offers, answering, process, script, desk })
}

impl Scripted {
    /// What it asked for that no grant names, in words of a manifest, and how often it did.
    pub fn denials(&self) -> Vec<(String, u64)> {
        self.desk.denials()
    }

    /// What of its answers only informs somebody, and was left out.
    pub fn not_read(&self) -> Vec<String> {
        self.desk.all_not_read()
    }

    /// The bytes of memory that its runtime uses now, if it says so at once.
    pub async fn heap(&self) -> Option<u64> {
        self.script.heap(std::time::Duration::from_secs(1)).await
    }

    /// Refuses whatever it asks to be stored from now on. Returns once what was under way has ended.
    pub(crate) async fn close_services(&self) {
        self.desk.close().await;
    }

    /// Tells when its runtime is lost from now on, with all that the plugin had running in it.
    pub(crate) fn lost(&self) -> watch::Receiver<Lost> {
        self.desk.lost()
    }

    /// Calls a function of something that the plugin offers: `execute` of a tool, `start` of a service.
    ///
    /// # Errors
    ///
    /// What the script threw, that it did not answer in time, or that there is no such function.
    pub async fn call(
        &self,
        offered: &Offered,
        function: &str,
        arguments: &backstop_script::Arguments,
        budget: std::time::Duration,
    ) -> Result<Option<backstop_script::Answer>, ScriptError> {
        let found = offered.functions.iter().find(|(name, _)| name == function);
        let Some((_, id)) = found else {
            return Err(ScriptError::NoFunction { name: function.to_owned() });
        };
        self.script.call(*id, arguments, budget).await
    }

    /// As [`Self::call`], and nothing where the plugin gave no such function.
    ///
    /// # Errors
    ///
    /// What the script threw, or that it did not answer in time.
    pub async fn call_if_there(
        &self,
        offered: &Offered,
        function: &str,
        arguments: &backstop_script::Arguments,
        budget: std::time::Duration,
    ) -> Result<Option<backstop_script::Answer>, ScriptError> {
        match offered.has(function) {
            true => self.call(offered, function, arguments, budget).await,
            false => Ok(None),
        }
    }
}

/// A path of a plugin's own: relative ones are below its folder.
fn resolved(root: &Path, path: &str) -> PathBuf {
    root.join(path)
}
