//! The Node surface: modules named `node:*` (and their names without the prefix) and the globals of Node and
//! browsers, written in JavaScript over a few host functions.
//!
//! A module is the body of a function of `host` (the functions of Rust) and `require` (the other modules of the
//! table), which returns the exports. It runs once in a runtime, when it is first asked for; `import` and `require`
//! give the same object, so a script that replaces a function of a module sees it replaced everywhere.
//!
//! **To add a module**: a file in `js` and its line in [`MODULES`]. **To add a host function**: a function on
//! `host` in the Rust module of its kind. One that can reach anything outside of the runtime asks the
//! [`Permits`](permits::Permits) of the script at each call.
//!
//! **Law.** JavaScript holds no authority. What is decided about a path, a host or a program is decided in Rust, from
//! what the script wrote, at the moment of the call; so a script that replaces built-ins before our code uses
//! them, or lays hands on a function of `host`, has won nothing: each does what the permissions say and no more. The
//! functions of the [bridge](crate::Bridge) are not on `host`.
//!
//! **Limits.** What of Node is missing says so when it is used, and not when it is imported: code for a command
//! line imports at the top what it never uses here. The host is told of it when it is imported by name
//! ([`Bridge::absent`](crate::Bridge::absent)): also of functions here that only say that they are missing, which `absent` makes.

mod address;
mod bytes;
mod digests;
mod fault;
mod files;
mod net;
mod permits;
mod programs;
mod system;
mod underway;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use rquickjs::object::Filter;
use rquickjs::{Ctx, Exception, Function, Object, Value};

use self::permits::Permits;
use crate::realm::HostScope;

const MODULE: &str = include_str!("js/module.js");
const GLOBALS: &str = include_str!("js/globals.js");

macro_rules! modules {
    ($($name:literal => $file:literal,)*) => {
        &[$(Builtin { name: $name, source: include_str!(concat!("js/", $file, ".js")) }),*]
    };
}

/// A module of the surface.
struct Builtin {
    /// Its name, without `node:`.
    name: &'static str,
    /// Its source, the body of a function.
    source: &'static str,
}

/// What scripts can import.
const MODULES: &[Builtin] = modules! {
    "assert" => "assert",
    "assert/strict" => "assert_strict",
    "async_hooks" => "async_hooks",
    "buffer" => "buffer",
    "child_process" => "child_process",
    "cluster" => "cluster",
    "console" => "console",
    "constants" => "constants",
    "crypto" => "crypto",
    "diagnostics_channel" => "diagnostics_channel",
    "dns" => "dns",
    "dns/promises" => "dns_promises",
    "events" => "events",
    "fs" => "fs",
    "fs/promises" => "fs_promises",
    "http" => "http",
    "net" => "net",
    "os" => "os",
    "path" => "path",
    "path/posix" => "path",
    "path/win32" => "path_win32",
    "perf_hooks" => "perf_hooks",
    "process" => "process",
    "punycode" => "punycode",
    "querystring" => "querystring",
    "readline" => "readline",
    "readline/promises" => "readline_promises",
    "stream" => "stream",
    "stream/consumers" => "stream_consumers",
    "stream/promises" => "stream_promises",
    "stream/web" => "webstreams",
    "string_decoder" => "string_decoder",
    "sys" => "sys",
    "timers" => "timers",
    "timers/promises" => "timers_promises",
    "tty" => "tty",
    "url" => "url",
    "util" => "util",
    "util/types" => "util_types",
    "worker_threads" => "worker_threads",
    "zlib" => "zlib",
};

/// What modules of ours share and nobody can import.
const INNER: &[Builtin] = modules! {
    "absent" => "absent",
    "blob" => "blob",
    "encoding" => "encoding",
    "fetch" => "fetch",
    "inspect" => "inspect",
    "webstreams" => "webstreams",
};

/// Modules that can be imported, and functions of them that say when they are called that they are not there.
const ABSENT: &[(&str, &[&str])] = &[
    ("dgram", &["createSocket", "Socket"]),
    ("domain", &["create", "createDomain", "Domain"]),
    ("http2", &["connect", "createServer", "createSecureServer"]),
    ("https", &["createServer", "request", "get", "Agent", "Server"]),
    ("inspector", &["open", "close", "url", "Session"]),
    ("inspector/promises", &["open", "close", "url", "Session"]),
    ("repl", &["start", "REPLServer"]),
    ("sqlite", &["DatabaseSync", "StatementSync", "backup"]),
    ("tls", &["connect", "createServer", "createSecureContext", "TLSSocket", "Server"]),
    ("trace_events", &["createTracing", "getEnabledCategories"]),
    ("v8", &["serialize", "deserialize", "getHeapStatistics", "setFlagsFromString"]),
    ("vm", &["runInContext", "runInNewContext", "runInThisContext", "createContext", "Script", "isContext"]),
    ("wasi", &["WASI"]),
];

/// The source of the module `name`, if there is one.
fn source(name: &str) -> Option<String> {
    if let Some(module) = MODULES.iter().chain(INNER).find(|module| module.name == name) {
        return Some(module.source.to_owned());
    }
    let (name, functions) = ABSENT.iter().find(|(absent, _)| *absent == name)?;
    let list = serde_json::to_string(functions).ok()?;
    Some(format!("return require(\"absent\")(\"{name}\", {list});"))
}

/// The canonical name (`node:path`) of the module that `specifier` means, with `node:` or without.
pub(crate) fn module(specifier: &str) -> Option<String> {
    let name = specifier.strip_prefix("node:").unwrap_or(specifier);
    let known = name == "module"
        || MODULES.iter().any(|module| module.name == name)
        || ABSENT.iter().any(|(absent, _)| *absent == name);
    known.then(|| format!("node:{name}"))
}

/// The source of the ES module of the canonical name `name`: it exports what the module exports now.
pub(crate) fn facade<'js>(ctx: &Ctx<'js>, internals: &Object<'js>, name: &str) -> rquickjs::Result<String> {
    let name = name.strip_prefix("node:").unwrap_or(name);
    if name == "module" {
        // It is made of functions of the loader, which are no host functions of the surface.
        return Ok(MODULE.to_owned());
    }
    let mut source = format!("const it = import.meta.host.builtin({name:?}); export default it;");
    for key in names(&made(ctx, internals, name)?)? {
        source.push_str(&format!("const {key}_ = it.{key}; export {{ {key}_ as {key} }};"));
    }
    Ok(source)
}

/// What a module of the surface has.
#[derive(Debug, Default)]
pub(crate) struct Exported {
    /// The names that can be imported.
    pub(crate) names: BTreeSet<String>,
    /// Those of them that only say that they are not provided.
    pub(crate) refusing: BTreeSet<String>,
}

/// What the module of the canonical name `name` exports now, if it is one of the table.
pub(crate) fn exports<'js>(
    ctx: &Ctx<'js>,
    internals: &Object<'js>,
    name: &str,
) -> rquickjs::Result<Option<Exported>> {
    let Some(name) = name.strip_prefix("node:").filter(|name| *name != "module") else { return Ok(None) };
    let builtin: Function<'js> = internals.get("builtin")?;
    let refuses: Function<'js> = builtin.call::<_, Object<'js>>(("absent",))?.get("is")?;
    let made = made(ctx, internals, name)?;
    let mut all = Exported::default();
    for key in names(&made)? {
        if refuses.call((made.get::<_, Value<'js>>(key.as_str())?,))? {
            all.refusing.insert(key.clone());
        }
        all.names.insert(key);
    }
    all.names.insert("default".to_owned());
    Ok(Some(all))
}

/// The exports of a module of the table.
fn made<'js>(ctx: &Ctx<'js>, internals: &Object<'js>, name: &str) -> rquickjs::Result<Object<'js>> {
    let builtin: Function<'js> = internals.get("builtin")?;
    let exports: Value<'js> = builtin.call((name,))?;
    exports.into_object().ok_or_else(|| Exception::throw_internal(ctx, "a module exports nothing"))
}

/// The names that can be imported of these exports. They are ours: none is a keyword but `default`, and one that is no identifier
/// is left out.
fn names(exports: &Object<'_>) -> rquickjs::Result<Vec<String>> {
    let is_name = |key: &String| {
        key != "default" && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let keys = exports.own_keys::<String>(Filter::new().string().enum_only());
    keys.filter(|key| key.as_ref().map_or(true, is_name)).collect()
}

/// Puts the globals into the realm, and `builtin`, which gives the module of a name, on `internals`.
pub(crate) fn install<'js>(
    ctx: &Ctx<'js>,
    internals: &Object<'js>,
    scope: &Arc<HostScope>,
) -> rquickjs::Result<()> {
    let host = Object::new(ctx.clone())?;
    host.set_prototype(None)?;
    for name in ["later", "show", "log"] {
        host.set(name, internals.get::<_, Function<'js>>(name)?)?;
    }
    host.set("isProxy", Function::new(ctx.clone(), |value: Value<'js>| value.is_proxy())?)?;
    host.set("isPromise", Function::new(ctx.clone(), |value: Value<'js>| value.is_promise())?)?;
    let since = Instant::now();
    host.set("now", Function::new(ctx.clone(), move || since.elapsed().as_secs_f64() * 1000.0)?)?;
    bytes::install(ctx, &host)?;
    address::install(ctx, &host)?;
    digests::install(ctx, &host)?;
    let permits = Permits::new(Arc::clone(scope));
    let underway = Arc::default();
    system::install(ctx, &host, &permits)?;
    files::install(ctx, &host, &permits)?;
    underway::install(ctx, &host, &underway)?;
    programs::install(ctx, &host, &permits, &underway)?;
    net::install(ctx, &host, &permits, &underway)?;
    let compile = |ctx: Ctx<'js>, name: String| -> rquickjs::Result<Function<'js>> {
        match source(&name) {
            Some(source) => wrapped(&ctx, &format!("node:{name}"), &source),
            None => Err(Exception::throw_reference(&ctx, &format!("there is no module `{name}`"))),
        }
    };
    let globals = evaluate(ctx, "node:globals", GLOBALS)?;
    let builtin: Function<'js> = globals.call((host, Function::new(ctx.clone(), compile)?))?;
    internals.set("builtin", builtin)?;
    let names = MODULES.iter().map(|module| module.name).chain(ABSENT.iter().map(|(name, _)| *name));
    internals.set("builtinModules", names.chain(["module"]).collect::<Vec<_>>())
}

fn wrapped<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> rquickjs::Result<Function<'js>> {
    evaluate(ctx, name, &format!("(function (host, require) {{ \"use strict\"; {source}\n}})"))
}

fn evaluate<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> rquickjs::Result<Function<'js>> {
    let mut options = rquickjs::context::EvalOptions::default();
    options.filename = Some(name.to_owned());
    ctx.eval_with_options(source, options)
}
