//! The Node surface: modules named `node:*` (and their names without the prefix), written in JavaScript over a few
//! host functions.
//!
//! **To add a module**: a file in `js`, and its line in [`MODULES`]. It is an ES module of ours: it may import other
//! modules of this table, and its `import.meta.host` holds the host functions, which no module of a script sees.
//! `path` is the example: it needs none.
//!
//! **To add a host function**: a Rust function set on the object that [`install`] is given, which asks
//! `scope.permissions` at each call and refuses with [`HostError::denied`](crate::HostError::denied). In JavaScript
//! it is `import.meta.host.NAME`. One that answers later is begun from `import.meta.host.later(id => NAME(id, ...))`
//! and given to [`HostScope::answer_later`], which settles the promise that `later` returned. Errors get their
//! `code` through `import.meta.host.makeError`, as in `call` of the prelude. The object also has `call`, `request`
//! (the bridge), `keep`, `release`, `show` (a value as text) and `log`.
//!
//! **Law.** Nothing here holds authority by itself: what a host function can reach is what the permissions of the
//! script name, looked up when it is called.

use std::sync::Arc;

use rquickjs::{Ctx, Object};

use crate::realm::HostScope;

/// A module of the surface.
struct Builtin {
    /// Its name, without `node:`.
    name: &'static str,
    /// Its source.
    source: &'static str,
}

/// All modules of the surface.
const MODULES: &[Builtin] = &[
    Builtin { name: "module", source: include_str!("js/module.js") },
    Builtin { name: "path", source: include_str!("js/path.js") },
];

/// The canonical name (`node:path`) and the source of the module that `specifier` means, with `node:` or without.
pub(crate) fn module(specifier: &str) -> Option<(String, &'static str)> {
    let name = specifier.strip_prefix("node:").unwrap_or(specifier);
    MODULES.iter().find(|module| module.name == name).map(|module| (format!("node:{name}"), module.source))
}

/// Puts the host functions of the surface on `host`, which modules of ours see as `import.meta.host`.
pub(crate) fn install<'js>(
    ctx: &Ctx<'js>,
    host: &Object<'js>,
    scope: &Arc<HostScope>,
) -> rquickjs::Result<()> {
    // Host functions of the surface go here, each family in a module of its own.
    let _ = (ctx, scope);
    host.set("builtinModules", MODULES.iter().map(|module| module.name).collect::<Vec<_>>())
}
