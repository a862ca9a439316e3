//! What `backstop plugins types` writes is true: the compiler takes what runs, and refuses what does not.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::User;

/// Plugins that are compiled.
const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/author");
/// The compiler, as `cargo xtask test` installs it.
const COMPILER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../script/tests/typescript/node_modules/typescript/bin/tsc");

/// Compiles the plugin in a folder by its own `tsconfig.json`, and answers what the compiler says.
fn compiled(folder: &Path) -> Result<(), String> {
    assert!(
        Path::new(COMPILER).exists(),
        "the compiler is not installed\nhint: `cargo xtask sdks` installs it"
    );
    let done = Command::new("node").arg(COMPILER).arg("-p").arg(folder).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(said) }
}

/// A new plugin in TypeScript, whose code is then this file's.
fn plugin(user: &User, id: &str, code: &str) -> PathBuf {
    user.run(&["plugins", "new", id, "--ts"]).succeeded();
    let folder = user.work().join(id);
    std::fs::copy(Path::new(PLUGINS).join(code), folder.join("index.ts")).unwrap();
    folder
}

#[test]
fn a_new_plugin_compiles_as_it_is() {
    let user = User::new();
    user.run(&["plugins", "new", "mine", "--ts"]).succeeded();
    let folder = user.work().join("mine");
    compiled(&folder).unwrap();
    let entry = folder.join("index.ts");
    let code = std::fs::read_to_string(&entry).unwrap();
    std::fs::write(&entry, code.replace("api.on", "api.onn")).unwrap();
    let said = compiled(&folder).unwrap_err();
    assert!(said.contains("index.ts") && said.contains("'onn'"), "{said}");
}

#[test]
fn what_the_types_declare_compiles_and_is_there_when_the_plugin_runs() {
    let user = User::new();
    let folder = plugin(&user, "good", "good.ts");
    compiled(&folder).unwrap();
    let manifest = r#"{"id": "good", "version": "1.0.0", "kind": "script", "entry": "index.ts",
        "contracts": {"trustedToolPolicies": ["policy"]}}"#;
    std::fs::write(folder.join("backstop.plugin.json"), manifest).unwrap();
    super::plugin_tools::install(&user, &folder);
    user.configure("plugins: {entries: {good: {hooks: {allowConversationAccess: true, allowTrustedToolPolicy: true}}}}\n");
    let told = user.run(&["plugins", "inspect", "good", "--run", "--json"]).succeeded().json();
    let left_out = told["run"]["leftOut"].to_string();
    assert!(!left_out.contains("api."), "{left_out}");
    let hooks = told["run"]["hooks"].as_array().unwrap();
    assert!(hooks.iter().all(|hook| hook["failure"].is_null()), "{told}");
    for kind in ["tool", "command", "service", "cli", "lifecycle", "session-extension"] {
        let offers = told["run"]["offers"].as_array().unwrap();
        assert!(offers.iter().any(|offer| offer["kind"] == kind), "{kind}: {told}");
    }
}

#[test]
fn the_example_that_plugins_are_written_from_compiles() {
    let user = User::new();
    let folder = plugin(&user, "tool-preflight", "quick-start.ts");
    // It is written against the other system's package, which has types of its own.
    let map = r#"declare module "openclaw/plugin-sdk/plugin-entry" { export * from "backstop/plugin-sdk"; }"#;
    std::fs::write(folder.join("openclaw.d.ts"), map).unwrap();
    compiled(&folder).unwrap();
}

#[test]
fn the_compiler_refuses_what_would_not_run() {
    let user = User::new();
    let folder = plugin(&user, "bad", "bad.ts");
    compiled(&folder).unwrap();
    // Each mistake is an error of its own, and none of them is one because nothing is found.
    let entry = folder.join("index.ts");
    let code = std::fs::read_to_string(&entry).unwrap();
    let mistakes = code.matches("// @ts-expect-error").count();
    std::fs::write(&entry, code.replace("// @ts-expect-error", "//")).unwrap();
    let said = compiled(&folder).unwrap_err();
    let reported = said.lines().filter(|line| line.contains(": error TS")).count();
    assert!(mistakes > 30 && reported >= mistakes, "{mistakes} mistakes: {said}");
    assert!(!said.contains("Cannot find module 'backstop/plugin-sdk'"), "{said}");
}
