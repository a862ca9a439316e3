//! The modules of a script that runs elsewhere, under Node.
//!
//! The law is that of the modules here: a module is a file inside of the script's folder, or one of the bridge; files are what was looked
//! at, and TypeScript is blanked by the same code. What Node brings itself is Node's, and whoever asks knows it. Packages are found as Node
//! finds them: with its conditions, without what is meant for browsers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::absent::{self, Absent, Lacking};
use super::package::{Asked, Platform};
use super::resolve::{Files, Found};
use super::source::{self, Kind};
use super::{EMPTY, ENTRY, MOST_SPECIFIER, Modules, OURS};
use crate::bridge::{Bridge, Provided};
use crate::error::ScriptError;
use crate::limits::Limits;
use crate::source::ScriptSource;
use crate::typescript;

/// What a module is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleKind {
    /// An ES module of ours.
    Ours,
    /// An ES module.
    Module,
    /// CommonJS.
    Script,
    /// Data.
    Json,
}

/// A module as it is run: JavaScript, or JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleText {
    /// What it is.
    pub kind: ModuleKind,
    /// Its text.
    pub text: String,
    /// Its file, if it has one.
    pub file: Option<PathBuf>,
}

/// The modules of one script; clones are the same.
#[derive(Clone)]
pub struct Sources(Arc<Mutex<Inner>>);

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

struct Inner {
    files: Files,
    entry: String,
    limits: Limits,
    bridge: Arc<dyn Bridge>,
    loaded: usize,
    absent: Absent,
    failure: Option<ScriptError>,
    /// The latest import whose file was found: its name, who imports it and as what.
    latest: (String, String, String),
}

impl Sources {
    /// The modules of a script.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Module`], where its folder can't be read.
    pub fn new(source: &ScriptSource, limits: Limits, bridge: Arc<dyn Bridge>) -> Result<Self, ScriptError> {
        let files = Files::new(&source.root, limits.modules, source.seen.clone(), Platform::Node);
        let files = files.map_err(|error| ScriptError::Module {
            specifier: source.entry.clone(),
            importer: format!("the host, for `{}`", source.name),
            reason: format!("its folder cannot be read ({error})"),
        })?;
        let entry = source.entry.clone();
        let (absent, failure, latest) = (Absent::default(), None, Default::default());
        let inner = Inner { files, entry, limits, bridge, loaded: 0, absent, failure, latest };
        Ok(Self(Arc::new(Mutex::new(inner))))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the module that `importer` means by `specifier`, which is none that Node brings. `Err(Ok(other))` is another
    /// name, to be looked for anew, because a package says so.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Module`], and another name.
    pub fn resolve(
        &self,
        importer: &str,
        specifier: &str,
        is_required: bool,
    ) -> Result<String, Result<String, ScriptError>> {
        let mut inner = self.inner();
        let found = inner.resolve(importer, specifier, is_required);
        found.map_err(|other| other.map_err(|error| inner.note(error)))
    }

    /// The module of a name that [`Self::resolve`] gave.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Module`] and [`ScriptError::Syntax`].
    pub fn load(&self, name: &str) -> Result<ModuleText, ScriptError> {
        let mut inner = self.inner();
        let loaded = inner.load(name);
        loaded.map_err(|error| inner.note(error))
    }

    /// Where an ES module of the script is none, if the parser here sees it, too: line and column, from 1. Not every engine tells.
    #[must_use]
    pub fn syntax_error(&self, name: &str) -> Option<(u32, u32)> {
        let text = self.inner().text(name).ok()?;
        let text = source::javascript(name, &text).ok()?;
        Some(typescript::wrong(&text)?.place(&text))
    }

    /// The name of a file, as that of whoever imports from it.
    #[must_use]
    pub fn importer(&self, file: &str) -> String {
        if file.len() > MOST_SPECIFIER {
            return String::new();
        }
        let inner = self.inner();
        let inside = std::path::Path::new(file).strip_prefix(inner.files.root()).ok();
        inside.and_then(super::resolve::name_of).unwrap_or_default()
    }

    /// The failure that `message` says, if it was one of a module.
    #[must_use]
    pub fn take_failure(&self, message: &str) -> Option<ScriptError> {
        let noted = self.inner().failure.take()?;
        message.ends_with(&noted.to_string()).then_some(noted)
    }
}

impl Inner {
    fn note(&mut self, error: ScriptError) -> ScriptError {
        self.failure = Some(error.clone());
        error
    }

    fn resolve(
        &mut self,
        importer: &str,
        specifier: &str,
        is_required: bool,
    ) -> Result<String, Result<String, ScriptError>> {
        let asked = if is_required { Asked::Require } else { Asked::Import };
        if specifier.len() > MOST_SPECIFIER {
            let reason = format!("its name has {} bytes; the most is {MOST_SPECIFIER}", specifier.len());
            return Err(Err(Modules::refused(importer, specifier, reason)));
        }
        let (from, wanted) = match specifier {
            ENTRY => ("", format!("./{}", self.entry)),
            other => (importer, other.to_owned()),
        };
        if !specifier.starts_with(OURS) || importer.starts_with(OURS) {
            match self.bridge.module(specifier) {
                Some(Provided::Source(_)) if is_required => return Ok(specifier.to_owned()),
                Some(Provided::Absent(reason)) if is_required => {
                    return self
                        .lacking(importer, specifier, &Lacking::Required(&reason), BTreeSet::new())
                        .map_err(Err);
                }
                Some(provided) => return self.provided(importer, specifier, &provided).map_err(Err),
                None => {}
            }
        }
        match self.files.resolve(from, &wanted, asked) {
            Ok(Found::File(name)) => {
                self.latest = (name.clone(), importer.to_owned(), specifier.to_owned());
                Ok(name)
            }
            Ok(Found::Empty) => Ok(EMPTY.to_owned()),
            Ok(Found::Other(other)) => Err(Ok(other)),
            Err(reason) => Err(Err(self.refused_at(importer, specifier, reason))),
        }
    }

    /// The error about an import, with its place where it is a statement.
    fn refused_at(&self, importer: &str, specifier: &str, reason: String) -> ScriptError {
        let text = self.text(importer).and_then(|text| source::javascript(importer, &text));
        let place = text.ok().and_then(|text| typescript::import_at(&text, specifier));
        let importer = match place {
            Some((line, column)) => format!("{importer}:{line}:{column}"),
            None => importer.to_owned(),
        };
        Modules::refused(&importer, specifier, reason)
    }

    /// The error about a file that can't be loaded, as it was asked for.
    fn unreadable(&self, name: &str, reason: String) -> ScriptError {
        let (latest, importer, specifier) = &self.latest;
        match latest == name && importer != name {
            true => self.refused_at(importer, specifier, reason),
            false => Modules::refused(name, name, reason),
        }
    }

    /// A module of the bridge, for whoever takes these names of it.
    fn provided(
        &mut self,
        importer: &str,
        specifier: &str,
        provided: &Provided,
    ) -> Result<String, ScriptError> {
        let text = self.text(importer).and_then(|text| source::javascript(importer, &text));
        let text = text.unwrap_or_default();
        let taken = || typescript::imports(&text).remove(specifier).unwrap_or_default();
        let (lacking, names) = match provided {
            Provided::Absent(reason) => (Lacking::Whole(reason), taken()),
            Provided::Source(source) => {
                let exports = absent::exports_of(self.bridge.as_ref(), source);
                let seen = absent::named(&text, specifier);
                if seen.is_some_and(|seen| seen.iter().all(|name| exports.contains(*name))) {
                    return Ok(specifier.to_owned());
                }
                let missing: BTreeSet<_> = taken().difference(&exports).cloned().collect();
                if missing.is_empty() {
                    return Ok(specifier.to_owned());
                }
                (Lacking::Names { has_default: exports.contains("default") }, missing)
            }
        };
        self.lacking(importer, specifier, &lacking, names)
    }

    /// A module for what `importer` takes of `specifier` and can't have.
    fn lacking(
        &mut self,
        importer: &str,
        specifier: &str,
        lacking: &Lacking<'_>,
        names: BTreeSet<String>,
    ) -> Result<String, ScriptError> {
        self.bridge.absent(specifier, &names);
        let added = self.absent.add(importer, specifier, lacking, &names, self.limits.modules);
        added.map_err(|reason| Modules::refused(importer, specifier, reason))
    }

    fn text(&self, name: &str) -> Result<String, ScriptError> {
        source::may_be_code(name).map_err(|reason| self.unreadable(name, reason))?;
        let most = u64::try_from(self.limits.source_bytes).unwrap_or(u64::MAX);
        let bytes = self.files.read(&self.files.path(name), most);
        source::text(name, bytes.map_err(|reason| self.unreadable(name, reason))?)
    }

    fn load(&mut self, name: &str) -> Result<ModuleText, ScriptError> {
        if self.loaded >= self.limits.modules {
            let reason = format!("{} modules are loaded already, which is the most", self.limits.modules);
            return Err(Modules::refused(name, name, reason));
        }
        self.loaded += 1;
        let of_ours = |text: String| Ok(ModuleText { kind: ModuleKind::Ours, text, file: None });
        if name == EMPTY {
            return of_ours("export default {};".to_owned());
        }
        if let Some(text) = self.absent.text(name) {
            let kind = if name.starts_with(absent::REQUIRED) { ModuleKind::Script } else { ModuleKind::Ours };
            return Ok(ModuleText { kind, text: text.clone(), file: None });
        }
        if let Some(Provided::Source(text)) = self.bridge.module(name) {
            return of_ours(text.to_string());
        }
        let text = self.text(name)?;
        let file = Some(self.files.path(name));
        let (kind, text) = match Kind::of(name, &text, self.files.is_module(name)) {
            Kind::Module => (ModuleKind::Module, source::javascript(name, &text)?),
            Kind::Script => (ModuleKind::Script, source::javascript(name, &text)?),
            Kind::Json => {
                source::json(name, &text)?;
                (ModuleKind::Json, text)
            }
        };
        Ok(ModuleText { kind, text, file })
    }
}
