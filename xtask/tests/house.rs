//! The rules of the house that a compiler does not know: which crate may know which, how long a file may
//! be, and what no file may hold.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail loudly")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each crate may know, of the crates of the workspace. Arrows point down only; a crate that is not
/// in this table does not belong to the house.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("backstop-hooks", &[]),
    // Numbers, and nothing of who asks.
    ("backstop-address", &[]),
    // It asks servers, and knows nothing of what about.
    ("backstop-http-client", &[]),
    // It starts programs, and knows nothing of why.
    ("backstop-confine", &[]),
    // It ends programs, and knows none of us.
    ("backstop-process", &[]),
    ("backstop-yaml", &[]),
    // A recording, and nothing of what is in it.
    ("backstop-tape", &[]),
    // A log, and nothing of what is in it.
    ("backstop-trail", &[]),
    // A runtime for scripts, which could be used for something else.
    ("backstop-script", &["backstop-address", "backstop-http-client"]),
    ("backstop-scan", &["backstop-yaml"]),
    ("backstop-config", &["backstop-hooks", "backstop-yaml"]),
    ("backstop-llm", &["backstop-hooks", "backstop-http-client"]),
    ("backstop-store", &["backstop-hooks", "backstop-trail"]),
    ("backstop-engine", &["backstop-hooks", "backstop-store"]),
    // It sends spans, and knows nothing of what happened in them.
    ("backstop-telemetry", &["backstop-hooks", "backstop-http-client"]),
    // It asks a server, and knows nothing of what about.
    ("backstop-endpoint", &["backstop-hooks", "backstop-http-client"]),
    // It knows what a command does, and of none of us.
    ("backstop-shell", &["backstop-yaml"]),
    (
        "backstop-guards",
        &[
            "backstop-hooks",
            "backstop-endpoint",
            "backstop-scan",
            "backstop-shell",
            "backstop-yaml",
            "backstop-store",
            "backstop-engine",
        ],
    ),
    // Where hooks of others come from; it knows none of the hosts.
    (
        "backstop-plugins",
        &[
            "backstop-hooks",
            "backstop-confine",
            "backstop-endpoint",
            "backstop-engine",
            "backstop-process",
            "backstop-script",
            "backstop-store",
            "backstop-yaml",
        ],
    ),
    (
        "backstop-agent",
        &[
            "backstop-address",
            "backstop-http-client",
            "backstop-hooks",
            "backstop-process",
            "backstop-shell",
            "backstop-store",
            "backstop-engine",
            "backstop-llm",
        ],
    ),
    // Pages, and nothing of who asks for them or where what is on them comes from.
    ("backstop-console", &["backstop-hooks", "backstop-store", "backstop-engine"]),
    // It tells people and hears them; what is decided is the engine's.
    (
        "backstop-surfaces",
        &[
            "backstop-address",
            "backstop-console",
            "backstop-engine",
            "backstop-hooks",
            "backstop-http-client",
            "backstop-store",
        ],
    ),
    (
        "backstop-gateway",
        &[
            "backstop-console",
            "backstop-hooks",
            "backstop-http-client",
            "backstop-process",
            "backstop-store",
            "backstop-trail",
            "backstop-surfaces",
            "backstop-engine",
            "backstop-llm",
            "backstop-guards",
        ],
    ),
    ("backstop-clients", &["backstop-hooks", "backstop-engine"]),
    (
        "backstop",
        &[
            "backstop-hooks",
            "backstop-scan",
            "backstop-yaml",
            "backstop-config",
            "backstop-http-client",
            "backstop-llm",
            "backstop-store",
            "backstop-engine",
            "backstop-guards",
            "backstop-agent",
            "backstop-gateway",
            "backstop-clients",
            "backstop-confine",
            "backstop-plugins",
            "backstop-process",
            "backstop-surfaces",
            "backstop-tape",
            "backstop-telemetry",
            "backstop-trail",
        ],
    ),
    ("backstop-cli", &["backstop"]),
    // It writes the references of all these.
    ("xtask", &["backstop-hooks", "backstop-config", "backstop-guards", "backstop-llm", "backstop-cli"]),
];

/// Crates from outside that a crate must not know: the contract runs nothing, the engine speaks to nobody.
const MUST_NOT_USE: &[(&str, &[&str])] = &[
    ("backstop-yaml", &["tokio", "hyper", "rusqlite", "clap"]),
    ("backstop-tape", &["tokio", "hyper", "http", "rusqlite", "clap", "tracing", "serde"]),
    ("backstop-confine", &["tokio", "hyper", "http", "rusqlite", "clap", "tracing"]),
    ("backstop-address", &["tokio", "hyper", "http", "rusqlite", "clap", "tracing", "serde"]),
    ("backstop-http-client", &["rusqlite", "clap", "tracing", "serde"]),
    ("backstop-process", &["hyper", "http", "rusqlite", "clap", "tracing"]),
    ("backstop-hooks", &["tokio", "hyper", "rusqlite", "http"]),
    ("backstop-config", &["tokio", "hyper", "rusqlite", "clap"]),
    ("backstop-engine", &["hyper", "rusqlite", "clap"]),
    ("backstop-store", &["hyper", "clap"]),
    ("backstop-llm", &["rusqlite", "clap"]),
    ("backstop-yaml", &["tokio", "hyper", "rusqlite", "clap"]),
    ("backstop-script", &["hyper", "rusqlite", "clap", "tracing"]),
    ("backstop-scan", &["tokio", "hyper", "http", "rusqlite", "clap", "async-trait"]),
    ("backstop-shell", &["tokio", "hyper", "http", "rusqlite", "clap", "tracing"]),
    ("backstop-telemetry", &["hyper", "rusqlite", "clap", "serde"]),
    ("backstop-endpoint", &["tokio", "rusqlite", "clap", "tracing"]),
    ("backstop-guards", &["hyper", "rusqlite", "clap"]),
    ("backstop-plugins", &["hyper", "rusqlite", "clap"]),
    ("backstop-agent", &["rusqlite", "clap"]),
    ("backstop-gateway", &["rusqlite", "clap"]),
    ("backstop-console", &["tokio", "hyper", "http", "rusqlite", "clap", "tracing"]),
    ("backstop-surfaces", &["hyper", "rusqlite", "clap"]),
    ("backstop-clients", &["tokio", "hyper", "http", "rusqlite", "clap"]),
    ("backstop", &["clap"]),
];

const MOST_LINES: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Name of each package and the names of what its code depends on, tests and benches aside.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata.get("packages").and_then(Value::as_array).unwrap();
    packages
        .iter()
        .map(|package| {
            let dependencies = package.get("dependencies").and_then(Value::as_array).unwrap();
            let names = dependencies
                .iter()
                .filter(|dependency| text(dependency, "kind") != "dev")
                .map(|dependency| text(dependency, "name").to_owned())
                .collect();
            (text(package, "name").to_owned(), names)
        })
        .collect()
}

#[test]
fn dependencies_point_down_only() {
    let packages = dependencies();
    let known: BTreeMap<_, _> = MAY_KNOW.iter().copied().collect();
    let there: BTreeSet<_> = packages.keys().map(String::as_str).collect();
    assert_eq!(there, known.keys().copied().collect(), "the crates of the workspace and those of the table");
    for (package, dependencies) in &packages {
        let may = known.get(package.as_str()).unwrap();
        for dependency in dependencies.iter().filter(|name| packages.contains_key(*name)) {
            assert!(may.contains(&dependency.as_str()), "`{package}` must not know `{dependency}`");
        }
    }
}

#[test]
fn the_table_of_crates_has_no_arrow_up() {
    let mut below = BTreeSet::new();
    for (package, may) in MAY_KNOW {
        assert!(may.iter().all(|name| below.contains(name)), "`{package}` may know a crate above it");
        below.insert(*package);
    }
}

#[test]
fn crates_keep_out_what_is_not_their_business() {
    let packages = dependencies();
    for (package, forbidden) in MUST_NOT_USE {
        for dependency in packages.get(*package).unwrap() {
            assert!(!forbidden.contains(&dependency.as_str()), "`{package}` must not use `{dependency}`");
        }
    }
}

#[test]
fn servers_are_asked_by_one_client() {
    for (package, dependencies) in dependencies() {
        let of_clients =
            ["reqwest", "ureq", "rustls-platform-verifier", "rustls-native-certs", "webpki-roots"];
        for dependency in of_clients.iter().filter(|name| dependencies.contains(**name)) {
            // The store asks a server by a protocol of its own, and trusts whom the client trusts.
            let verifies = ["backstop-http-client", "backstop-store"].contains(&package.as_str());
            let is_its = verifies && *dependency == "rustls-platform-verifier";
            assert!(is_its, "`{package}` must ask servers by `backstop-http-client`, not by `{dependency}`");
        }
    }
}

/// What a program compiles that embeds the facade with these features.
fn embedded(features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "backstop", "--no-default-features", "--features"])
        .arg(features.join(","))
        .args(["-e", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn a_program_that_embeds_the_engine_compiles_no_gateway_and_no_http() {
    let engine = embedded(&[]);
    let ours: Vec<_> = engine.iter().filter(|name| name.starts_with("backstop")).collect();
    assert_eq!(ours, ["backstop", "backstop-engine", "backstop-hooks", "backstop-store", "backstop-trail"]);
    for package in ["hyper", "backstop-http-client", "rustls", "http"] {
        assert!(!engine.contains(package), "`{package}`");
    }
    let configured = embedded(&["config"]);
    assert!(configured.contains("backstop-guards") && !configured.contains("backstop-gateway"));
}

#[test]
fn the_facade_exports_items_and_no_crates() {
    let folder = root().join("crates").join("backstop").join("src");
    let contract = ["backstop_hooks::points::*", "backstop_hooks::conversation::*"];
    let mut found = 0;
    for path in files(&folder, "rs") {
        let source = std::fs::read_to_string(&path).unwrap();
        for exported in source.lines().filter_map(|line| line.trim().strip_prefix("pub use backstop_")) {
            found += 1;
            let exported = format!("backstop_{}", exported.trim_end_matches(';'));
            let whole = !exported.contains("::") || exported.contains(" as ") || exported.ends_with('*');
            assert!(!whole || contract.contains(&exported.as_str()), "{}: {exported}", path.display());
        }
    }
    assert!(found > 20, "the exports were not found");
}

/// Every file of ours under `folder` with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

fn sources() -> Vec<(PathBuf, String)> {
    let folders = [root().join("crates"), root().join("xtask")];
    let paths: Vec<_> = folders.iter().flat_map(|folder| files(folder, "rs")).collect();
    assert!(paths.len() > 40, "the sources were not found");
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The cells of a row of a Markdown table.
fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn the_compatibility_page_names_tests_that_exist() {
    let page = std::fs::read_to_string(root().join("docs/reference/compatibility.md")).unwrap();
    let sources = sources();
    let functions: BTreeSet<&str> = sources
        .iter()
        .flat_map(|(_, source)| source.split("fn ").skip(1))
        .filter_map(|rest| rest.split('(').next())
        .collect();
    let (mut in_table, mut named) = (false, 0);
    for (number, line) in page.lines().enumerate() {
        let row = cells(line);
        if !line.starts_with('|') {
            in_table = false;
        } else if row.last() == Some(&"test") {
            in_table = true;
        } else if in_table && !line.starts_with("| ---") {
            let names: Vec<_> = row.last().unwrap().split('`').skip(1).step_by(2).collect();
            let absent = row[1].starts_with("not there");
            assert_eq!(
                names.is_empty(),
                absent,
                "line {}: a claim has a test, and what is absent none",
                number + 1
            );
            for name in names {
                assert!(functions.contains(name), "line {}: no test is called `{name}`", number + 1);
                named += 1;
            }
        }
    }
    assert!(named > 200, "only {named} names were read");
}

#[test]
fn sdks_ask_where_a_server_listens() {
    let listen = backstop_config::Listen::default().0;
    let says = |file: &str, address: &str| {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(address), "{file} does not say {address}");
    };
    for file in [
        "sdk/python/src/backstop/client.py",
        "sdk/python/README.md",
        "sdk/typescript/src/client.js",
        "sdk/typescript/src/client.d.ts",
        "sdk/typescript/README.md",
    ] {
        says(file, &format!("http://{listen}"));
    }
    says("docs/api.md", &format!("localhost:{}/", listen.port()));
}

#[test]
fn no_file_is_too_long() {
    for (path, source) in sources() {
        let lines = source.lines().count();
        assert!(lines <= MOST_LINES, "{}: {lines} lines", path.display());
    }
}

/// Functions of the guards' wing that are longer than a screen and wait to be cut.
const LONG: &[(&str, &str)] = &[("shell/src/builtin.rs", "builtin"), ("shell/src/param.rs", "parameter")];

#[test]
fn no_function_of_the_guards_is_longer_than_a_screen() {
    const SCREEN: usize = 80;
    let folders = ["shell/src", "scan/src", "guards/src"].map(|folder| root().join("crates").join(folder));
    let mut seen = 0;
    for path in folders.iter().flat_map(|folder| files(folder, "rs")) {
        let source = std::fs::read_to_string(&path).unwrap();
        // Tests may list what they try.
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines: Vec<&str> = source.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let Some((before, rest)) = line.trim_start().split_once("fn ") else { continue };
            if !before
                .split_whitespace()
                .all(|word| word.starts_with("pub") || ["async", "const"].contains(&word))
            {
                continue;
            }
            seen += 1;
            let end = format!("{}}}", " ".repeat(indent));
            let length = lines.iter().skip(at).position(|line| **line == end).map_or(0, |end| end + 1);
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            let known = path.ends_with("tests.rs")
                || LONG.iter().any(|(file, function)| path.ends_with(file) && *function == name);
            assert!(known || length <= SCREEN, "{}:{}: `{name}` has {length} lines", path.display(), at + 1);
        }
    }
    assert!(seen > 1000, "only {seen} functions were found");
}

#[test]
fn nothing_is_switched_off() {
    // Put together here, so that this file is no exception.
    let forbidden = [["#[", "ignore"], ["#[", "allow("], ["#![", "allow("]].map(|parts| parts.concat());
    for (path, source) in sources() {
        for (number, line) in source.lines().enumerate() {
            for word in &forbidden {
                let at = format!("{}:{}", path.display(), number + 1);
                assert!(
                    !line.contains(word.as_str()),
                    "{at}: `{word}`; use `#[expect(..., reason = \"...\")]`"
                );
            }
        }
    }
}

/// Where the guards take a part of something and drop nothing that matters by it.
const PARTS: &[(&str, &str)] = &[
    ("shell/src/limits.rs", "the one place that may leave out, since it says so"),
    ("shell/src/waits.rs", "the beginning of a command that is shown"),
    ("guards/src/paths/guard.rs", "a list of findings whose verdict has been taken"),
    ("guards/src/guard.rs", "the words of a finding that are shown"),
    ("guards/src/given.rs", "the beginning of a text that is shown; and texts that are counted"),
    ("guards/src/hooks/command.rs", "reasons that are shown; and a file that is known to be longer"),
    ("guards/src/hooks/exhibit.rs", "what people are shown, who are told how much more there is"),
    ("guards/src/hooks/shapes.rs", "the name of a language that is shown"),
    ("guards/src/verdicts/webhook/wire.rs", "a field that is taken out of an answer"),
    ("guards/src/rules/remote.rs", "words that excuse, of which all others are judged"),
    ("shell/src/expand.rs", "one separator; and alternatives that are counted"),
    ("shell/src/code/calls.rs", "arguments by their place in a call"),
    ("shell/src/code/reader.rs", "values that are counted"),
];

#[test]
fn guards_leave_nothing_out_in_silence() {
    let crates = root().join("crates");
    let folders = ["shell/src", "guards/src", "scan/src"].map(|folder| crates.join(folder));
    for path in folders.iter().flat_map(|folder| files(folder, "rs")) {
        let source = std::fs::read_to_string(&path).unwrap();
        for (number, line) in source.lines().enumerate() {
            let takes = line.split(".take(").skip(1).any(|rest| {
                rest.starts_with(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase())
                    || rest.starts_with("limits")
            });
            let known = PARTS.iter().any(|(file, _)| path.ends_with(file));
            assert!(
                known || !(takes || line.contains(".truncate(")),
                "{}:{}: use `Bounded` of `crates/shell/src/limits.rs`, which says what it leaves out",
                path.display(),
                number + 1
            );
        }
    }
}

#[test]
fn every_crate_says_what_it_is() {
    for (path, source) in sources() {
        let is_root = ["src/lib.rs", "src/main.rs"].iter().any(|name| path.ends_with(name));
        let says = ["//! ", "#![doc = include_str!("].iter().any(|docs| source.starts_with(docs));
        assert!(!is_root || says, "{}: no module docs", path.display());
    }
}

#[test]
fn lints_of_the_workspace_hold_in_every_crate() {
    let manifests =
        [root().join("crates"), root().join("xtask")].map(|folder| files(&folder, "toml")).concat();
    for path in manifests.iter().filter(|path| path.ends_with("Cargo.toml")) {
        let manifest = std::fs::read_to_string(path).unwrap();
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{}: `lints.workspace = true`",
            path.display()
        );
        // Tests may need more of a crate than what ships.
        let ships = manifest.split("[dev-dependencies]").next().unwrap();
        assert!(
            !ships.contains("features = ["),
            "{}: features belong to the table of the workspace",
            path.display()
        );
    }
}

/// The names in the workspace's table of dependencies, those from outside only.
fn declared() -> Vec<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, table) = manifest.split_once("[workspace.dependencies]\n").unwrap();
    let (table, _) = table.split_once("\n[").unwrap();
    let names = table.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let outside: Vec<_> = names.filter(|name| !name.starts_with("backstop")).map(str::to_owned).collect();
    assert!(outside.len() > 20, "the table was not found");
    outside
}

#[test]
fn every_dependency_is_explained() {
    let explained = std::fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    for name in declared() {
        assert!(explained.contains(&format!("`{name}`")), "`{name}` has no line in docs/dependencies.md");
    }
}

#[test]
fn every_dependency_is_used() {
    let manifests =
        [root().join("crates"), root().join("xtask")].map(|folder| files(&folder, "toml")).concat();
    let manifests: String = manifests.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for name in declared() {
        let used = manifests.lines().any(|line| {
            line.starts_with(&format!("{name}.workspace"))
                || line.starts_with(&format!("{name} = {{ workspace"))
        });
        assert!(used, "no crate uses `{name}`: take it out of the root Cargo.toml and docs/dependencies.md");
    }
}
