//! Judging a call by a configuration that is only proposed: a text that is in force nowhere.
//!
//! Laws:
//!
//! - *What the text names is not touched.* No variable of the environment is looked at, no file that it names is opened, no program, server or
//!   plugin of it is started or asked. Of the text, only what judges tool calls is lowered at all.
//! - *What was not asked is told.* Each hook that would need one of these is left out, and [listed](Unasked) with the reason, so that nobody takes
//!   the judgement of the others for that of all.
//!
//! - *Trying is bounded*: a text with more than [`MOST_TEXTS`] texts in what would be made into patterns is refused, since each may need as much memory as a
//!   pattern may have.
//!
//! Limits: the home folder for `~`, and the list of the plugins that are installed, are those of this process. State is in memory, so what counts over time
//! starts from nothing.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use backstop_config::{Config, Entries, Guards, HookSlot, HooksAt, Loaded, Pack, Readings};
use backstop_engine::{HookMeta, Reviewed};
use backstop_guards::hooks::{COMMAND_SAFETY_ID, REDACTOR_ID, SECURITY_AUDIT_ID};
use backstop_guards::limits::LOOP_ID;
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, PointId};
use backstop_store::Starts;
use serde_json::Value;

use crate::builder::Backstop;
use crate::error::BuildError;
use crate::hook_types::HookTypes;
use crate::not_asked::is_harmless;

/// The most texts in the options of hooks and guards, each of which may be a pattern.
const MOST_TEXTS: usize = 300;

/// Why a call can't be judged by a proposed configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProposedError {
    /// It has too many patterns.
    #[error(
        "the hooks about tool calls and the guards have more than {MOST_TEXTS} texts, too many for a trial\nhint: `backstop replay --config` judges by it on the machine"
    )]
    Large,
    /// Hooks can't be made of it.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Why a hook of a proposed configuration is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unasked {
    /// It starts a program, or asks a server.
    Elsewhere,
    /// It is a plugin's.
    Plugin,
    /// It names a variable of the environment.
    Variable,
    /// It names a file.
    File,
}

impl Unasked {
    /// Returns why, for people, as it goes on after "because".
    pub const fn why(self) -> &'static str {
        match self {
            Self::Elsewhere => "it starts a program or asks a server, which is not done for a trial",
            Self::Plugin => "it is a plugin's, and plugins are not started for a trial",
            Self::Variable => "it names a variable of the environment, at which nobody looks",
            Self::File => "it names a file, which nobody opens",
        }
    }
}

/// A configuration by which calls are judged, and which is in force nowhere.
pub struct Proposed {
    backstop: Backstop,
    unasked: BTreeMap<String, Unasked>,
}

impl Proposed {
    /// Builds what judges tool calls by a text. It was loaded twice, with different values in the place of each variable, so that whatever depends on one
    /// shows. `plugins` is the folder in which plugins are installed.
    ///
    /// # Errors
    ///
    /// [`ProposedError`], if hooks can't be made of it.
    pub async fn build(
        one: &Loaded,
        other: &Loaded,
        types: HookTypes,
        plugins: Option<&Path>,
    ) -> Result<Self, ProposedError> {
        let mut unasked = unasked_of(one, other, plugins);
        let config = Box::new(judging(one, other, &mut unasked));
        if texts_of(&config) > MOST_TEXTS {
            return Err(ProposedError::Large);
        }
        let loaded = Loaded {
            config,
            layers: one.layers.clone(),
            operator_folder: None,
            dropped: Vec::new(),
            secrets: one.secrets.clone(),
            variables: one.variables.clone(),
            readings: Readings::default(),
        };
        let builder = Backstop::builder().config(loaded).hook_types(types.harmless()).judges_answers(true);
        let backstop = builder.hosts(crate::hosts::all_hosts()).without_audit().build().await?;
        let is_out = |meta: &HookMeta| {
            unasked.keys().any(|id| meta.id.is_of(id))
                || (is_off(one, REDACTOR_ID) && meta.id.is_of(REDACTOR_ID))
        };
        let left = backstop.engine().registry().update(|snapshot| {
            snapshot.retain(|meta| !is_out(meta));
            Ok::<_, Infallible>(())
        });
        let Ok(()) = left;
        Ok(Self { backstop, unasked })
    }

    /// Judges a call, and says what it would start.
    pub async fn judge(&self, event: ToolCallEvent, call: &CallContext) -> (Reviewed, Option<Starts>) {
        let engine = self.backstop.engine();
        let reviewed = engine.review_tool_call(event, call, true).await;
        let starts = engine.would_start(&reviewed.event, call);
        (reviewed, starts)
    }

    /// Returns the hooks that are asked.
    pub fn hooks(&self) -> Vec<Arc<HookMeta>> {
        self.backstop.engine().registry().list()
    }

    /// Returns the hooks that are not asked, by the id of the hook, of its entry or of its plugin.
    pub fn unasked(&self) -> impl Iterator<Item = (&str, Unasked)> {
        self.unasked.iter().map(|(id, why)| (id.as_str(), *why))
    }

    /// Ends it.
    pub async fn shut_down(self) {
        self.backstop.shut_down().await;
    }
}

impl std::fmt::Debug for Proposed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proposed").field("unasked", &self.unasked).finish_non_exhaustive()
    }
}

/// The points at which a call of a tool is judged.
const GATES: [PointId; 3] = [PointId::TrustedToolPolicy, PointId::ToolBefore, PointId::BeforeToolCall];

/// The hooks about tool calls that would reach somebody, or depend on a variable.
fn unasked_of(one: &Loaded, other: &Loaded, plugins: Option<&Path>) -> BTreeMap<String, Unasked> {
    let (hooks, others) = (&one.config.hooks, &other.config.hooks);
    let gates = |hook: &backstop_config::ChainedHook<'_>| hook.slot == HookSlot::ToolPreCall;
    let chained = hooks.chained().filter(gates).zip(others.chained().filter(gates));
    let chained = chained.filter_map(|(hook, again)| {
        let why = match is_harmless(hook.entry.hook_type.value.as_str()) {
            false => Unasked::Elsewhere,
            true if hook.entry != again.entry => Unasked::Variable,
            true => return None,
        };
        Some((hook.id, why))
    });
    let placed = hooks.placed().filter(|hook| GATES.contains(&hook.point));
    let placed = placed.map(|hook| (hook.id, Unasked::Elsewhere));
    let plugins = plugins.map(|folder| installed_and_on(one, folder)).unwrap_or_default();
    chained.chain(placed).chain(plugins.into_iter().map(|id| (id, Unasked::Plugin))).collect()
}

#[cfg(feature = "plugins")]
fn installed_and_on(loaded: &Loaded, folder: &Path) -> Vec<String> {
    crate::lower::plugins::installed_and_on(loaded, folder)
}

#[cfg(not(feature = "plugins"))]
fn installed_and_on(_: &Loaded, _: &Path) -> Vec<String> {
    Vec::new()
}

/// What of a text judges tool calls and needs nothing but the text. What else judges them is added to what is not asked.
fn judging(one: &Loaded, other: &Loaded, unasked: &mut BTreeMap<String, Unasked>) -> Config {
    let mut config = Config::default();
    config.hooks.tool_call.pre_call = one.config.hooks.tool_call.pre_call.clone();
    config.hooks.set_aside(|id| unasked.contains_key(id));
    config.hooks.at = HooksAt::default();
    config.guards = one.config.guards.clone();
    config.loops = one.config.loops.clone();
    if one.config.loops != other.config.loops {
        if config.loops.repeats.is_some() && !is_off(one, LOOP_ID) {
            unasked.insert(LOOP_ID.to_owned(), Unasked::Variable);
        }
        config.loops.repeats = None;
    }
    if is_off(one, LOOP_ID) {
        config.loops.repeats = None;
    }
    let (guards, others) = (&mut config.guards, &other.config.guards);
    if let Some(why) = command_safety(&one.config.guards, others).filter(|_| !is_off(one, COMMAND_SAFETY_ID))
    {
        if guards.command_safety.enabled.value {
            unasked.insert(COMMAND_SAFETY_ID.to_owned(), why);
        }
        guards.command_safety.enabled.value = false;
    }
    guards.command_safety.enabled.value &= !is_off(one, COMMAND_SAFETY_ID);
    if one.config.guards.sensitive_files != others.sensitive_files {
        if guards.sensitive_files.enabled.value && !is_off(one, SECURITY_AUDIT_ID) {
            unasked.insert(SECURITY_AUDIT_ID.to_owned(), Unasked::Variable);
        }
        guards.sensitive_files.enabled.value = false;
    }
    guards.sensitive_files.enabled.value &= !is_off(one, SECURITY_AUDIT_ID);
    if let Some(why) = redaction(&one.config.guards, others) {
        if !is_off(one, REDACTOR_ID) {
            unasked.insert(REDACTOR_ID.to_owned(), why);
        }
        // Without what they would be about, nothing may be said of kinds either.
        (guards.secrets.formats, guards.secrets.kinds) = (Vec::new(), Entries::default());
        (guards.personal_data.formats, guards.personal_data.kinds) = (Vec::new(), Entries::default());
    }
    config
}

/// Whether a built-in hook is switched off by its id.
fn is_off(loaded: &Loaded, id: &str) -> bool {
    let entry = loaded.config.plugins.entries.get(id);
    entry.and_then(|entry| entry.enabled.as_ref()).is_some_and(|enabled| !enabled.value)
}

fn has_file(packs: &[Pack]) -> bool {
    packs.iter().any(|pack| matches!(pack, Pack::File(_)))
}

/// Why the guard for commands can't be made of the text alone.
fn command_safety(one: &Guards, other: &Guards) -> Option<Unasked> {
    let section = &one.command_safety;
    if has_file(&section.packs) || has_file(&section.programs) {
        return Some(Unasked::File);
    }
    (*section != other.command_safety).then_some(Unasked::Variable)
}

/// Why the redactor can't be.
fn redaction(one: &Guards, other: &Guards) -> Option<Unasked> {
    if has_file(&one.secrets.formats) || has_file(&one.personal_data.formats) {
        return Some(Unasked::File);
    }
    let is_other = one.secrets != other.secrets
        || one.personal_data != other.personal_data
        || one.hidden_text != other.hidden_text;
    is_other.then_some(Unasked::Variable)
}

/// How many texts there are in what may be made into patterns.
fn texts_of(config: &Config) -> usize {
    let guards = &config.guards;
    let packs = [
        &guards.command_safety.packs,
        &guards.command_safety.programs,
        &guards.secrets.formats,
        &guards.personal_data.formats,
    ];
    let packs = packs.into_iter().flatten().map(|pack| match pack {
        Pack::Inline(options) => texts_in(&options.masked()),
        Pack::File(_) => 1,
    });
    let hooks = config.hooks.tool_call.pre_call.entries().iter().map(|entry| {
        let options = entry.config.as_ref().map(|options| texts_in(&options.value.masked()));
        options.unwrap_or_default().saturating_add(1)
    });
    let exceptions = [
        guards.command_safety.allow.len(),
        guards.sensitive_files.allow.len(),
        guards.sensitive_files.deny.len(),
    ];
    hooks.chain(packs).chain(exceptions).fold(0, usize::saturating_add)
}

fn texts_in(value: &Value) -> usize {
    match value {
        Value::String(_) => 1,
        Value::Array(items) => items.iter().map(texts_in).sum(),
        Value::Object(fields) => fields.values().map(texts_in).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
