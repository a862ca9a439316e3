//! The functions under `commonjs.js`.

use std::path::Path;
use std::rc::Rc;

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Function, Module, Object, Value};

use super::package::Asked;
use super::source::{self, Kind};
use super::{Modules, REQUIRED};

const SOURCE: &str = include_str!("commonjs.js");

/// Evaluates `commonjs.js`.
pub(super) fn commonjs<'js>(ctx: &Ctx<'js>, modules: &Rc<Modules>) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let of = Rc::clone(modules);
    let find = move |ctx: Ctx<'js>, importer: String, specifier: String| {
        of.resolve(&importer, &specifier, Asked::Require).map_err(|error| of.fail(&ctx, error))
    };
    native.set("resolve", Function::new(ctx.clone(), find)?)?;
    let of = Rc::clone(modules);
    native.set(
        "kind",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, name: String| of.kind_of(&ctx, &name))?,
    )?;
    let of = Rc::clone(modules);
    native.set("filename", Function::new(ctx.clone(), move |name: String| of.filename(&name))?)?;
    let of = Rc::clone(modules);
    let dirname = move |name: String| {
        let file = of.filename(&name);
        Path::new(&file).parent().map(|folder| folder.display().to_string()).unwrap_or(file.clone())
    };
    native.set("dirname", Function::new(ctx.clone(), dirname)?)?;
    let of = Rc::clone(modules);
    native
        .set("json", Function::new(ctx.clone(), move |ctx: Ctx<'js>, name: String| of.json(&ctx, &name))?)?;
    let of = Rc::clone(modules);
    native.set(
        "compile",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, name: String| of.compile(&ctx, &name))?,
    )?;
    let of = Rc::clone(modules);
    let evaluate =
        move |ctx: Ctx<'js>, name: String, keep: Function<'js>| of.evaluate_required(&ctx, &name, keep);
    native.set("evaluate", Function::new(ctx.clone(), evaluate)?)?;
    let of = Rc::clone(modules);
    native.set("importer", Function::new(ctx.clone(), move |from: String| of.importer(&from))?)?;
    native.set("isName", Function::new(ctx.clone(), |name: String| source::is_name(&name))?)?;
    let mut options = EvalOptions::default();
    options.filename = Some("backstop:commonjs".to_owned());
    let make: Function<'js> = ctx.eval_with_options(SOURCE, options)?;
    make.call((native,))
}

impl Modules {
    fn kind_of(&self, ctx: &Ctx<'_>, name: &str) -> rquickjs::Result<&'static str> {
        if self.is_ours(name) || self.absent.borrow().text(name).is_some() || name == super::EMPTY {
            return Ok("ours");
        }
        let text = self.read(name, &self.files.path(name)).map_err(|error| self.fail(ctx, error))?;
        Ok(match self.kind(name, &text) {
            Kind::Json => "json",
            Kind::Script => "script",
            Kind::Module => "module",
        })
    }

    fn filename(&self, name: &str) -> String {
        if self.is_ours(name) { name.to_owned() } else { self.files.path(name).display().to_string() }
    }

    /// The name of the module that `createRequire` is to require for: a URL or a path, which need not exist.
    fn importer(&self, from: &str) -> String {
        if from.len() > super::MOST_SPECIFIER {
            return String::new();
        }
        let path = from.strip_prefix("file://").unwrap_or(from);
        let inside = Path::new(path).strip_prefix(self.files.root()).ok();
        // INVARIANT (nobody writes a name of ours): what a script says it requires for is named as its files are.
        inside.and_then(super::resolve::name_of).unwrap_or_default()
    }

    fn json<'js>(&self, ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Value<'js>> {
        self.count(ctx, name)?;
        let text = self.read(name, &self.files.path(name)).map_err(|error| self.fail(ctx, error))?;
        source::json(name, &text).map_err(|error| self.fail(ctx, error))?;
        ctx.json_parse(text)
    }

    /// The function of a CommonJS module.
    fn compile<'js>(&self, ctx: &Ctx<'js>, name: &str) -> rquickjs::Result<Function<'js>> {
        self.count(ctx, name)?;
        let text = self.read(name, &self.files.path(name)).map_err(|error| self.fail(ctx, error))?;
        self.names.borrow_mut().insert(name.to_owned());
        let text = source::javascript(name, &text).map_err(|error| self.fail(ctx, error))?;
        let mut options = EvalOptions::default();
        options.strict = false;
        options.filename = Some(name.to_owned());
        self.failure.replace(None);
        // On one line with the source's first, so that lines are its own.
        let wrapped = format!("(function (exports, require, module, __filename, __dirname) {{ {text}\n}})");
        ctx.eval_with_options(wrapped, options).map_err(|error| self.explain(ctx, error))
    }

    /// Evaluates an ES module for `require` and hands its namespace to `keep`, unless it has to wait.
    fn evaluate_required<'js>(
        &self,
        ctx: &Ctx<'js>,
        name: &str,
        keep: Function<'js>,
    ) -> rquickjs::Result<()> {
        self.count(ctx, name)?;
        let quoted = serde_json::to_string(name).unwrap_or_default();
        let text = format!("import * as namespace from {quoted}; import.meta.keep(namespace);");
        let module = Module::declare(ctx.clone(), format!("{REQUIRED}{name}"), text)?;
        module.meta()?.set("keep", keep)?;
        let (_, promise) = module.eval()?;
        match promise.state() {
            PromiseState::Rejected => {
                promise.result::<Value<'js>>().map_or(Ok(()), |result| result.map(|_| ()))
            }
            PromiseState::Pending | PromiseState::Resolved => Ok(()),
        }
    }
}
