//! What a script may know of where it runs: names of the platform, its environment, and who runs it if it may know.

use rquickjs::{Ctx, Function, Object};

use super::permits::Permits;

/// Puts `system` on `host`.
pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>, permits: &Permits) -> rquickjs::Result<()> {
    let system = Object::new(ctx.clone())?;
    system.set_prototype(None)?;
    let platform = match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        "x86" => "ia32",
        other => other,
    };
    system.set("platform", platform)?;
    system.set("arch", arch)?;
    system.set("version", env!("CARGO_PKG_VERSION"))?;
    system.set("cwd", permits.cwd().to_string_lossy().as_ref())?;
    let environment = Object::new(ctx.clone())?;
    environment.set_prototype(None)?;
    for (name, value) in &permits.all().env {
        environment.set(name.as_str(), value.as_str())?;
    }
    system.set("environment", environment)?;
    let of = permits.clone();
    let user = move |ctx: Ctx<'js>| -> rquickjs::Result<Object<'js>> {
        let told = Object::new(ctx)?;
        if let Some(user) = &of.all().user {
            told.set("home", user.home.to_string_lossy().as_ref())?;
            told.set("name", user.name.as_str())?;
        } else {
            // Programs ask for it when they are loaded and only to put a path together, so it is no error; what
            // they get is a folder that is nowhere.
            of.withheld("user");
            told.set("home", "/nonexistent")?;
            told.set("name", "nobody")?;
        }
        Ok(told)
    };
    system.set("user", Function::new(ctx.clone(), user)?)?;
    host.set("system", system)
}
