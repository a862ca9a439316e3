//! Modules: where they may come from, what they are called, and how their source becomes JavaScript.
//!
//! **Law.** A module is a file inside of the script's folder, a module of the bridge, or one of the Node surface;
//! there is no other. Folders are made canonical once and every file is looked at where it really is, so that no
//! link leads out. A module has one name, however it was imported: the path of its file, relative to the folder.
//! Stacks and errors show that name.
//!
//! Modules of ours (boot, bridge, `node:`) have `import.meta.host`; a script's own have `import.meta.url`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Exception, Module, Object, Persistent};

use crate::bridge::Provided;
use crate::error::{Place, ScriptError};
use crate::limits::Limits;
use crate::node;
use crate::realm::HostScope;
use crate::source::ScriptSource;
use crate::typescript;

/// The specifier by which a boot module imports the script.
pub(crate) const ENTRY: &str = "script:entry";

/// What is known of the modules of one realm.
pub(crate) struct Modules {
    root: PathBuf,
    entry: String,
    #[expect(dead_code, reason = "bounds of the loader, which come with it")]
    limits: Limits,
    scope: Arc<HostScope>,
    host: RefCell<Option<Persistent<Object<'static>>>>,
    failure: RefCell<Option<ScriptError>>,
}

impl Modules {
    pub(crate) fn new(
        source: &ScriptSource,
        limits: Limits,
        scope: Arc<HostScope>,
    ) -> Result<Self, ScriptError> {
        let root = source.root.canonicalize().map_err(|error| ScriptError::Module {
            specifier: source.entry.clone(),
            importer: format!("the host, for `{}`", source.name),
            reason: format!("its folder cannot be read ({error})"),
        })?;
        Ok(Self {
            root,
            entry: source.entry.clone(),
            limits,
            scope,
            host: RefCell::default(),
            failure: RefCell::default(),
        })
    }

    pub(crate) fn set_host(&self, host: Persistent<Object<'static>>) {
        self.host.replace(Some(host));
    }

    /// Lets go of the runtime's values, which have to be gone before it is.
    pub(crate) fn forget_host(&self) {
        self.host.replace(None);
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

    fn fail(&self, ctx: &Ctx<'_>, error: ScriptError) -> rquickjs::Error {
        let message = error.to_string();
        self.failure.replace(Some(error));
        Exception::throw_reference(ctx, &message)
    }

    fn resolve(&self, importer: &str, specifier: &str) -> Result<String, ScriptError> {
        let refused = |reason: String| ScriptError::Module {
            specifier: specifier.to_owned(),
            importer: importer.to_owned(),
            reason,
        };
        if specifier == ENTRY {
            return self.file(&self.root.join(&self.entry)).map_err(refused);
        }
        if let Some((name, _)) = node::module(specifier) {
            return Ok(name);
        }
        if specifier.starts_with("./") || specifier.starts_with("../") {
            let folder = self.root.join(importer);
            let folder = folder.parent().unwrap_or(&self.root);
            return self.file(&folder.join(specifier)).map_err(refused);
        }
        if self.scope.bridge.module(specifier).is_some() {
            return Ok(specifier.to_owned());
        }
        Err(refused("no such module".to_owned()))
    }

    fn file(&self, path: &Path) -> Result<String, String> {
        let found = path.canonicalize().map_err(|error| format!("its file cannot be read ({error})"))?;
        let inside =
            found.strip_prefix(&self.root).map_err(|_| "it is outside of the script's folder".to_owned())?;
        inside.to_str().map(str::to_owned).ok_or_else(|| "its path is no Unicode".to_owned())
    }

    /// The JavaScript of a file.
    fn javascript(&self, name: &str, source: Vec<u8>) -> Result<String, ScriptError> {
        let place = |line, column| Place { file: name.to_owned(), line, column };
        let source = String::from_utf8(source).map_err(|error| {
            let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            ScriptError::Syntax { place: place(line, 1), message: "a source has to be UTF-8".to_owned() }
        })?;
        if !name.ends_with(".ts") && !name.ends_with(".mts") && !name.ends_with(".cts") {
            return Ok(source);
        }
        typescript::strip(&source).map_err(|problem| {
            let (line, column) = problem.place(&source);
            ScriptError::Syntax { place: place(line, column), message: problem.message }
        })
    }

    fn load<'js>(&self, ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Module<'js, Declared>> {
        if let Some((name, source)) = node::module(name) {
            let module = Module::declare(ctx.clone(), name, source)?;
            self.mark_ours(&module)?;
            return Ok(module);
        }
        if let Some(Provided::Source(source)) = self.scope.bridge.module(name) {
            let module = Module::declare(ctx.clone(), name, &*source)?;
            self.mark_ours(&module)?;
            return Ok(module);
        }
        let path = self.root.join(name);
        let source = std::fs::read(&path).map_err(|error| {
            let reason = format!("its file cannot be read ({error})");
            self.fail(
                ctx,
                ScriptError::Module { specifier: name.to_owned(), importer: name.to_owned(), reason },
            )
        })?;
        let source = self.javascript(name, source).map_err(|error| self.fail(ctx, error))?;
        let module = Module::declare(ctx.clone(), name, source)?;
        module.meta()?.set("url", format!("file://{}", path.display()))?;
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
        self.0.resolve(base, name).map_err(|error| self.0.fail(ctx, error))
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
