//! What loading plugins costs: time, and memory that the process holds afterwards.
//!
//! `cargo bench -p backstop-plugins --bench loading` loads a hundred small plugins, and then twenty that bring a schema library (typebox),
//! each with a copy of its own. The library comes from the packages that other tests install (`cargo xtask sdks`). Each series runs in a
//! process of its own, so that what it holds is its own.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench fails loudly, and prints")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_plugins::openclaw::{Batches, Dialect, Facts, NoServices, Runtime, Scripted, load};
use backstop_script::{FileAccess, FileGrant, Permissions, WorkerSettings, Workers};
use serde_json::json;

const SMALL: usize = 100;
const WITH_LIBRARY: usize = 20;
const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/packages/node_modules/@sinclair/typebox");

const HOOK: &str =
    "api.on(\"before_tool_call\", (event) => { if (event.toolName === 'nothing') return { block: true }; });";
const TOOL: &str = "api.registerTool({ name: \"ID_tool\", parameters: Type.Object({ word: Type.String() }), execute: () => \"x\" });";

fn main() {
    let words: Vec<String> = std::env::args().collect();
    // Test runners list and run everything that they find; only `cargo bench` says this.
    if !words.iter().any(|word| word == "--bench") {
        return;
    }
    match words.iter().find_map(|word| word.strip_prefix("series=")) {
        Some("small") => series("small plugins", SMALL, None),
        Some(_) => series("plugins with typebox", WITH_LIBRARY, Some(Path::new(LIBRARY))),
        None => {
            for name in ["small", "library"] {
                let program = std::env::current_exe().unwrap();
                let ended =
                    Command::new(program).args(["--bench", &format!("series={name}")]).status().unwrap();
                assert!(ended.success(), "the series `{name}` failed");
            }
        }
    }
}

fn series(what: &str, number: usize, library: Option<&Path>) {
    assert!(
        library.is_none_or(Path::exists),
        "typebox is not installed\nhint: `cargo xtask sdks` installs it"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let roots: Vec<PathBuf> =
        (0..number).map(|at| write(folder.path(), &format!("p{at}"), library)).collect();
    let workers =
        Workers::start(WorkerSettings { fill: 128, ..WorkerSettings::default() }, runtime.handle().clone());
    let batches: Arc<Batches> = Arc::default();
    let before = resident();
    let mut times = Vec::with_capacity(number);
    let mut plugins = Vec::with_capacity(number);
    for root in &roots {
        let begun = Instant::now();
        plugins.push(runtime.block_on(loaded(root, &workers, &batches)));
        times.push(begun.elapsed());
    }
    let after = resident();
    let heaps: Vec<u64> = plugins.iter().filter_map(|plugin| runtime.block_on(plugin.heap())).collect();
    let whole: Duration = times.iter().sum();
    let first = times.first().copied().unwrap_or_default();
    times.sort();
    let median = times.get(number / 2).copied().unwrap_or_default();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let each = (after - before) / u64::try_from(number).unwrap();
    println!(
        "{number} {what}: {:.0} ms in all, the first {:.1} ms, the median {:.1} ms",
        ms(whole),
        ms(first),
        ms(median)
    );
    println!(
        "  memory: {} KB more, {} KB for each; heap of one {} KB",
        (after - before) >> 10,
        each >> 10,
        heaps.first().copied().unwrap_or_default() >> 10
    );
}

fn write(folder: &Path, id: &str, library: Option<&Path>) -> PathBuf {
    let root = folder.join(id);
    std::fs::create_dir(&root).unwrap();
    let mut code = "import { definePluginEntry } from \"backstop/plugin-sdk\";\n".to_owned();
    if let Some(library) = library {
        copy(library, &root.join("node_modules/@sinclair/typebox"));
        code.push_str("import { Type } from \"@sinclair/typebox\";\n");
    }
    let body = if library.is_some() { TOOL.replace("ID", id) } else { HOOK.to_owned() };
    code += &format!("export default definePluginEntry({{ id: \"{id}\", register(api) {{ {body} }} }});\n");
    std::fs::write(root.join("index.js"), code).unwrap();
    root
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn loaded(root: &Path, workers: &Workers, batches: &Arc<Batches>) -> Scripted {
    let id = root.file_name().unwrap().to_str().unwrap().to_owned();
    let facts = Facts {
        name: id.clone(),
        id,
        version: None,
        description: None,
        root: root.to_owned(),
        entry: "index.js".to_owned(),
        dialect: Dialect::Backstop,
        config: json!({}),
        workspace: None,
        state: None,
        tools: vec!["exec".to_owned()],
        seal: None,
    };
    let mut permissions = Permissions::default();
    permissions.files.push(FileGrant { root: root.to_owned(), access: FileAccess::Read });
    load(facts, permissions, Runtime::Here(workers), batches, Arc::new(NoServices)).await.unwrap()
}

/// The bytes that this process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
