//! Modules: where they may come from, what they are called, and how their source becomes JavaScript.
//!
//! **Law.** A module is a file inside of the script's folder, a module of the bridge, or one of the Node surface;
//! there is no other. The folder is made canonical once and every file is looked at where it really is, so that no
//! link leads out. A module has one name, however it was imported: the path of its file, relative to the folder.
//! Stacks and errors show that name.
//!
//! Modules of ours (boot, bridge, `node:`) have `import.meta.host`; a script's own have `import.meta.url`.
//!
//! Names that a module of ours does not have link as well (see `absent`).
//!
//! ES modules, CommonJS and JSON may import each other. A CommonJS module is run when it is linked into an ES module,
//! so that the names it exports are known; what it exports as a whole is the default export, as in Node.
//!
//! **Limits.** An ES module that awaits at its top level can't be required. Number and size of modules are bounded
//! ([`Limits`]), and so is how deep loads stand inside of loads, how long a name may be that is imported, and what is
//! remembered of names and packages.

mod absent;
mod blame;
mod elsewhere;
mod native;
mod package;
mod resolve;
mod source;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Exception, Function, Module, Object, Persistent, Value};

use self::absent::{Absent, Lacking};
use self::package::{Asked, Platform};
use self::resolve::{Files, Found};
use self::source::Kind;
use crate::bridge::Provided;
use crate::error::{ScriptError, bounded};
use crate::limits::Limits;
use crate::node::{self, Exported};
use crate::realm::HostScope;
use crate::source::ScriptSource;
use crate::typescript::{self, Imports};
use crate::workers::stack_is_short;

pub use self::elsewhere::{ModuleKind, ModuleText, Sources};
pub use self::source::CODE_ENDINGS;

/// The specifier by which a boot module imports the script.
const ENTRY: &str = "script:entry";
/// How modules of the host that only its own modules may import are named.
const OURS: &str = "backstop:";
/// The name of an empty module.
const EMPTY: &str = "backstop:empty";
/// Modules that `require` evaluates; they import by names that are resolved already.
const REQUIRED: &str = "backstop:require/";
/// Modules that evaluate one of ours when it is asked for.
const PART: &str = "backstop:part/";
/// Between the name of a module that is not provided and the module that imports it.
const FOR: &str = " for ";

/// Bytes of a name that is imported, or of a path that something is required for.
const MOST_SPECIFIER: usize = 4096;

/// The functions of `commonjs.js`.
#[derive(Clone)]
struct CommonJs {
    create_require: Persistent<Function<'static>>,
    load: Persistent<Function<'static>>,
    names: Persistent<Function<'static>>,
}

/// What is known of the modules of one realm.
pub(crate) struct Modules {
    files: Files,
    entry: String,
    limits: Limits,
    scope: Arc<HostScope>,
    loaded: Cell<usize>,
    host: RefCell<Option<Persistent<Object<'static>>>>,
    /// Compiled when something is required for the first time: most scripts require nothing.
    commonjs: RefCell<Option<CommonJs>>,
    this: RefCell<Weak<Modules>>,
    failure: RefCell<Option<ScriptError>>,
    absent: RefCell<Absent>,
    /// By name.
    linking: RefCell<HashMap<String, Linking>>,
    /// What modules of ours have.
    exports: RefCell<HashMap<String, Rc<Exported>>>,
    /// Files that were loaded as modules.
    names: RefCell<BTreeSet<String>>,
    latest: RefCell<Option<blame::Latest>>,
}

/// A module whose imports are being linked.
struct Linking {
    text: Arc<str>,
    /// What it takes of other modules, once that was asked.
    takes: Option<Rc<Imports>>,
}

impl Modules {
    pub(crate) fn new(
        source: &ScriptSource,
        limits: Limits,
        scope: Arc<HostScope>,
    ) -> Result<Self, ScriptError> {
        let files = Files::new(&source.root, limits.modules, source.seen.clone(), Platform::Ours).map_err(
            |error| ScriptError::Module {
                specifier: source.entry.clone(),
                importer: format!("the host, for `{}`", source.name),
                reason: format!("its folder cannot be read ({error})"),
            },
        )?;
        Ok(Self {
            files,
            entry: source.entry.clone(),
            limits,
            scope,
            loaded: Cell::new(0),
            host: RefCell::default(),
            commonjs: RefCell::default(),
            this: RefCell::default(),
            failure: RefCell::default(),
            absent: RefCell::default(),
            linking: RefCell::default(),
            exports: RefCell::default(),
            names: RefCell::default(),
            latest: RefCell::default(),
        })
    }

    /// Takes what modules of ours see as `import.meta.host`, and adds what the loader does for them.
    pub(crate) fn begin<'js>(self: &Rc<Self>, ctx: &Ctx<'js>, host: Object<'js>) -> rquickjs::Result<()> {
        self.this.replace(Rc::downgrade(self));
        let of = Rc::clone(self);
        let create = move |ctx: Ctx<'js>, from: Value<'js>| -> rquickjs::Result<Value<'js>> {
            of.commonjs(&ctx)?.create_require.restore(&ctx)?.call((from,))
        };
        host.set("createRequire", Function::new(ctx.clone(), create)?)?;
        let of = Rc::clone(self);
        let part = move |ctx: Ctx<'js>, name: String| of.part(&ctx, &name);
        host.set("part", Function::new(ctx.clone(), part)?)?;
        self.host.replace(Some(Persistent::save(ctx, host)));
        Ok(())
    }

    /// The functions of `commonjs.js`.
    fn commonjs(&self, ctx: &Ctx<'_>) -> rquickjs::Result<CommonJs> {
        if let Some(known) = self.commonjs.borrow().clone() {
            return Ok(known);
        }
        let this = self.this.borrow().upgrade().ok_or(rquickjs::Error::Unknown)?;
        let made = native::commonjs(ctx, &this)?;
        let function =
            |name: &str| made.get::<_, Function<'_>>(name).map(|function| Persistent::save(ctx, function));
        let made = CommonJs {
            create_require: function("createRequire")?,
            load: function("load")?,
            names: function("names")?,
        };
        self.commonjs.replace(Some(made.clone()));
        Ok(made)
    }

    /// The namespace of a module of ours that waits for nothing, evaluated when it is first asked for.
    fn part<'js>(&self, ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Object<'js>> {
        if !name.starts_with(OURS) || !self.is_ours(name) {
            return Err(Exception::throw_reference(ctx, &format!("there is no module `{name}`")));
        }
        let quoted = serde_json::to_string(name).unwrap_or_default();
        let module =
            Module::declare(ctx.clone(), format!("{PART}{name}"), format!("export * from {quoted};"))?;
        let (module, promise) = module.eval()?;
        if promise.state() == PromiseState::Rejected {
            promise.result::<Value<'js>>().transpose()?;
        }
        module.namespace()
    }

    /// Lets go of the runtime's values, which have to be gone before it is.
    pub(crate) fn forget_host(&self) {
        self.host.replace(None);
        self.commonjs.replace(None);
    }

    /// Makes a module one of ours.
    pub(crate) fn mark_ours<'js, T>(&self, module: &Module<'js, T>) -> rquickjs::Result<()> {
        let host = self.host.borrow().clone();
        let Some(host) = host else { return Ok(()) };
        module.meta()?.set("host", host.restore(module.ctx())?)
    }

    /// The noted reason for the failure that `error` says, if it is that one.
    pub(crate) fn take_failure(&self, error: &ScriptError) -> Option<ScriptError> {
        let noted = self.failure.take()?;
        let ScriptError::Thrown { message, .. } = error else { return None };
        message.ends_with(&noted.to_string()).then_some(noted)
    }

    /// Throws `error` into the script, which may catch it, and notes it for the load that may fail by it.
    fn fail(&self, ctx: &Ctx<'_>, error: ScriptError) -> rquickjs::Error {
        let (message, code) = (error.to_string(), matches!(error, ScriptError::Module { .. }));
        self.failure.replace(Some(error));
        let thrown = Exception::throw_message(ctx, &message);
        let value = ctx.catch();
        if let Some(object) = value.as_object().filter(|_| code)
            && let Err(error) = object.set("code", "MODULE_NOT_FOUND")
        {
            return error;
        }
        if value.is_null() { thrown } else { ctx.throw(value) }
    }

    fn refused(importer: &str, specifier: &str, reason: impl Into<String>) -> ScriptError {
        ScriptError::Module {
            specifier: bounded(specifier, MOST_SPECIFIER),
            importer: importer.split(FOR).last().unwrap_or(importer).to_owned(),
            reason: reason.into(),
        }
    }

    fn resolve(&self, importer: &str, specifier: &str, asked: Asked) -> Result<String, ScriptError> {
        let name = self.found(importer, specifier, asked)?;
        self.note_asked(importer, specifier, &name);
        Ok(name)
    }

    fn found(&self, importer: &str, specifier: &str, asked: Asked) -> Result<String, ScriptError> {
        if importer.starts_with(REQUIRED) {
            return Ok(specifier.to_owned());
        }
        if specifier.len() > MOST_SPECIFIER {
            let reason = format!("its name has {} bytes; the most is {MOST_SPECIFIER}", specifier.len());
            return Err(Self::refused(importer, specifier, reason));
        }
        if specifier == ENTRY {
            let found = self.files.resolve("", &format!("./{}", self.entry), asked);
            return match found.map_err(|reason| Self::refused("the host", &self.entry, reason))? {
                Found::File(name) => Ok(name),
                _ => Err(Self::refused("the host", &self.entry, "the package maps it to nothing")),
            };
        }
        if node::module(specifier).is_some() && !specifier.starts_with("node:") {
            match self.files.replaced(importer, specifier) {
                Some(Ok(Found::File(name))) => return Ok(name),
                Some(Ok(Found::Empty)) => return Ok(EMPTY.to_owned()),
                Some(Err(reason)) => return Err(self.refused_at(importer, specifier, reason)),
                // To another name, which is looked for below, or not at all.
                Some(Ok(Found::Other(other))) if node::module(&other).is_none() => {
                    return self.found(importer, &other, asked);
                }
                Some(Ok(Found::Other(_))) | None => {}
            }
        }
        if let Some(name) = self.ours(importer, specifier)? {
            return Ok(name);
        }
        if let Some(name) = specifier.strip_prefix("node:") {
            let reason = format!(
                "Node's module `{name}` is not provided here\n  hint: a plugin that needs it can run under the machine's Node"
            );
            return Err(self.refused_at(importer, specifier, reason));
        }
        match self.files.resolve(importer, specifier, asked) {
            Ok(Found::File(name)) => Ok(name),
            Ok(Found::Empty) => Ok(EMPTY.to_owned()),
            Ok(Found::Other(other)) => match self.ours(importer, &other)? {
                Some(name) => Ok(name),
                None => match self.files.resolve(importer, &other, asked) {
                    Ok(Found::File(name)) => Ok(name),
                    Ok(Found::Empty) => Ok(EMPTY.to_owned()),
                    Ok(Found::Other(_)) => {
                        Err(self.refused_at(importer, specifier, "maps lead from name to name"))
                    }
                    Err(reason) => Err(self.refused_at(importer, specifier, reason)),
                },
            },
            Err(reason) => Err(self.refused_at(importer, specifier, reason)),
        }
    }

    /// The name of a module of ours.
    fn ours(&self, importer: &str, specifier: &str) -> Result<Option<String>, ScriptError> {
        if let Some(name) = node::module(specifier) {
            return Ok(Some(name));
        }
        // What is named after us is for us.
        if specifier.starts_with(OURS) && !importer.starts_with(OURS) {
            return Ok(None);
        }
        match self.scope.bridge.module(specifier) {
            None => Ok(None),
            Some(Provided::Source(_)) => Ok(Some(specifier.to_owned())),
            Some(Provided::Absent(reason)) => self.absent(importer, specifier, &reason).map(Some),
        }
    }

    /// The name of a module that is not provided.
    fn absent(&self, importer: &str, specifier: &str, reason: &str) -> Result<String, ScriptError> {
        let names = self.taken(importer, specifier);
        self.lacking(importer, specifier, &Lacking::Whole(reason), &names)
    }

    /// The names that `importer`, which is being linked, takes of what it calls `specifier`.
    fn taken(&self, importer: &str, specifier: &str) -> BTreeSet<String> {
        let mut linking = self.linking.borrow_mut();
        let Some(module) = linking.get_mut(importer) else { return BTreeSet::new() };
        let takes = module.takes.get_or_insert_with(|| Rc::new(typescript::imports(&module.text)));
        takes.get(specifier).cloned().unwrap_or_default()
    }

    fn lacking(
        &self,
        importer: &str,
        module: &str,
        lacking: &Lacking<'_>,
        names: &BTreeSet<String>,
    ) -> Result<String, ScriptError> {
        self.scope.bridge.absent(module, names);
        let added = self.absent.borrow_mut().add(importer, module, lacking, names, self.limits.modules);
        added.map_err(|reason| Self::refused(importer, module, reason))
    }

    /// The module that `importer` gets for `specifier`, which is the module `name`: another one, if that is ours and lacks
    /// something that is taken of it.
    fn complete(
        &self,
        ctx: &Ctx<'_>,
        importer: &str,
        specifier: &str,
        name: String,
    ) -> rquickjs::Result<String> {
        if importer.starts_with(OURS) || !self.is_ours(&name) {
            return Ok(name);
        }
        let Some(text) = self.linking.borrow().get(importer).map(|module| Arc::clone(&module.text)) else {
            return Ok(name);
        };
        let seen = absent::named(&text, specifier);
        if seen.as_ref().is_some_and(Vec::is_empty) {
            return Ok(name);
        }
        let known = self.exports.borrow().get(&name).cloned();
        let exports = match known {
            Some(exports) => exports,
            None => {
                let exports = Rc::new(self.exported(ctx, &name)?);
                self.exports.borrow_mut().insert(name.clone(), Rc::clone(&exports));
                exports
            }
        };
        let is_there = |name: &&str| exports.names.contains(*name) && !exports.refusing.contains(*name);
        if seen.is_some_and(|seen| seen.iter().all(is_there)) {
            return Ok(name);
        }
        let (missing, refusing): (BTreeSet<_>, BTreeSet<_>) = self
            .taken(importer, specifier)
            .into_iter()
            .filter(|taken| !exports.names.contains(taken) || exports.refusing.contains(taken))
            .partition(|taken| !exports.names.contains(taken));
        if !refusing.is_empty() {
            self.scope.bridge.absent(&name, &refusing);
        }
        if missing.is_empty() {
            return Ok(name);
        }
        let lacking = Lacking::Names { has_default: exports.names.contains("default") };
        self.lacking(importer, &name, &lacking, &missing).map_err(|error| self.fail(ctx, error))
    }

    /// What a module of ours has.
    fn exported(&self, ctx: &Ctx<'_>, name: &str) -> rquickjs::Result<Exported> {
        let host = self.host.borrow().clone();
        if let Some(host) = host
            && let Some(exported) = node::exports(ctx, &host.restore(ctx)?, name)?
        {
            return Ok(exported);
        }
        let source = self.our_source(ctx, name)?.unwrap_or_default();
        Ok(Exported { names: absent::exports_of(&*self.scope.bridge, &source), refusing: BTreeSet::new() })
    }

    fn load<'js>(&self, ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Module<'js, Declared>> {
        self.count(ctx, name)?;
        if name == EMPTY {
            return Module::declare(ctx.clone(), name, "export default {};");
        }
        let absent = self.absent.borrow().text(name).cloned();
        if let Some(text) = absent {
            return Module::declare(ctx.clone(), name, text);
        }
        if let Some(source) = self.our_source(ctx, name)? {
            let module = Module::declare(ctx.clone(), name, &*source)?;
            self.mark_ours(&module)?;
            return Ok(module);
        }
        let path = self.files.path(name);
        let text = self.read(name, &path).map_err(|error| self.fail(ctx, error))?;
        match self.kind(name, &text) {
            Kind::Module => {
                let text = source::javascript(name, &text).map_err(|error| self.fail(ctx, error))?;
                let module = self.declare(ctx, name, text)?;
                module.meta()?.set("url", resolve::url(&path))?;
                module.meta()?.set("filename", path.display().to_string())?;
                module.meta()?.set("dirname", path.parent().unwrap_or(&path).display().to_string())?;
                Ok(module)
            }
            Kind::Script | Kind::Json => self.wrap(ctx, name),
        }
    }

    /// Counts modules, and looks at the stack that is left for loads inside of loads.
    fn count(&self, ctx: &Ctx<'_>, name: &str) -> rquickjs::Result<()> {
        if self.loaded.get() >= self.limits.modules {
            let reason = format!("{} modules are loaded already, which is the most", self.limits.modules);
            return Err(self.fail(ctx, self.unreadable(name, reason)));
        }
        self.loaded.set(self.loaded.get() + 1);
        if stack_is_short() {
            return Err(self.fail(ctx, self.unreadable(name, "too many modules import each other in a row")));
        }
        Ok(())
    }

    fn is_ours(&self, name: &str) -> bool {
        node::module(name).is_some_and(|canonical| canonical == name)
            || matches!(self.scope.bridge.module(name), Some(Provided::Source(_)))
    }

    fn our_source(&self, ctx: &Ctx<'_>, name: &str) -> rquickjs::Result<Option<Arc<str>>> {
        if node::module(name).is_some_and(|canonical| canonical == name) {
            let host = self.host.borrow().clone();
            let Some(host) = host else { return Ok(None) };
            return node::facade(ctx, &host.restore(ctx)?, name).map(|source| Some(source.into()));
        }
        Ok(match self.scope.bridge.module(name) {
            Some(Provided::Source(source)) => Some(source),
            _ => None,
        })
    }

    fn read(&self, name: &str, path: &std::path::Path) -> Result<String, ScriptError> {
        source::may_be_code(name).map_err(|reason| self.unreadable(name, reason))?;
        let most = u64::try_from(self.limits.source_bytes).unwrap_or(u64::MAX);
        let bytes = self.files.read(path, most).map_err(|reason| self.unreadable(name, reason))?;
        source::text(name, bytes)
    }

    fn kind(&self, name: &str, text: &str) -> Kind {
        Kind::of(name, text, self.files.is_module(name))
    }

    /// Declares a module of the script; what is wrong with its source is said with its place.
    fn declare<'js>(
        &self,
        ctx: &Ctx<'js>,
        name: &str,
        text: String,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        self.failure.replace(None);
        let text: Arc<str> = text.into();
        self.names.borrow_mut().insert(name.to_owned());
        let linking = Linking { text: Arc::clone(&text), takes: None };
        self.linking.borrow_mut().insert(name.to_owned(), linking);
        let declared = Module::declare(ctx.clone(), name, &*text);
        self.linking.borrow_mut().remove(name);
        declared.map_err(|error| self.explain(ctx, error))
    }

    /// Says a syntax error with its place. An error of a module inside of this one has been said already.
    fn explain(&self, ctx: &Ctx<'_>, error: rquickjs::Error) -> rquickjs::Error {
        if !matches!(error, rquickjs::Error::Exception) {
            return error;
        }
        let value = ctx.catch();
        if self.failure.borrow().is_none()
            && let Some(exception) = value.as_exception()
            && let Some(message) = exception.message()
            && let Some(place) =
                exception.stack().and_then(|stack| stack.lines().find_map(crate::realm::place_in))
        {
            return self.fail(ctx, ScriptError::Syntax { place, message });
        }
        ctx.throw(value)
    }

    /// A module around what a CommonJS module or a JSON file exports.
    fn wrap<'js>(&self, ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Module<'js, Declared>> {
        let commonjs = self.commonjs(ctx)?;
        let value: Value<'js> = commonjs.load.restore(ctx)?.call((name,))?;
        let names: Vec<String> = if name.ends_with(".json") {
            Vec::new()
        } else {
            commonjs.names.restore(ctx)?.call((value.clone(),))?
        };
        let module = Module::declare(ctx.clone(), name, source::wrapper(&names))?;
        module.meta()?.set("value", value)?;
        Ok(module)
    }
}

/// The resolver of a runtime.
pub(crate) struct Resolve(pub(crate) Rc<Modules>);

impl Resolver for Resolve {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        let found = self.0.resolve(base, name, Asked::Import).map_err(|error| self.0.fail(ctx, error))?;
        self.0.complete(ctx, base, name, found)
    }
}

/// The loader of a runtime.
pub(crate) struct Load(pub(crate) Rc<Modules>);

impl Loader for Load {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        self.0.load(ctx, name)
    }
}
