//! What is wrong with an installation, as `doctor` and the real client see it.
//!
//! `doctor` fails for each of these and names what mends it. The client shows why it must: with some its tool runs unjudged,
//! with the others nothing runs at all.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{Client, NoBuild};
use crate::run::{MARK, Outcome, World};
use crate::scenarios::{assert_refused, leave_mark, policy};

const DENIED: &str = "is denied by `deny_tools` pattern `exec`";

fn no_shell() -> String {
    policy("deny_tools: [exec]")
}

/// What a file with our entry says instead.
type Weakening = (&'static str, fn(&str, Client) -> String);

impl Client {
    /// The event before a tool runs, in the client's file.
    fn before_a_tool(self) -> &'static str {
        match self {
            Self::Gemini => "BeforeTool",
            Self::Copilot => "preToolUse",
            _ => "PreToolUse",
        }
    }

    /// What can be taken from our entry, so that it is still one.
    fn weakenings(self) -> Vec<Weakening> {
        match self {
            Self::Cline => vec![("passed over", |text, _| text.replacen('\n', "\nexit 0\n", 1))],
            Self::OpenCode => {
                vec![("altered", |text, _| text.replace("tool.execute.before", "tool.execute.never"))]
            }
            Self::Copilot => vec![("narrowed", narrowed), ("of another event", elsewhere)],
            Self::Claude => vec![
                ("narrowed", narrowed),
                ("asynchronous", |text, client| entry(text, client, "async", json!(true))),
                ("too short a time", |text, client| entry(text, client, "timeout", json!(0.001))),
                ("open where it fails", |text, client| entry(text, client, "onFailure", Value::Null)),
                ("of another event", elsewhere),
            ],
            Self::Codex | Self::Gemini | Self::Qwen => vec![
                ("narrowed", narrowed),
                ("too short a time", |text, client| entry(text, client, "timeout", json!(1))),
                ("of another event", elsewhere),
            ],
        }
    }
}

/// The settings, with the group of our entry before a tool changed.
fn changed(text: &str, client: Client, change: impl FnOnce(&mut Value)) -> String {
    let mut settings: Value = serde_json::from_str(text).unwrap();
    change(settings.pointer_mut(&format!("/hooks/{}/0", client.before_a_tool())).unwrap());
    settings.to_string()
}

fn narrowed(text: &str, client: Client) -> String {
    changed(text, client, |group| {
        let fields = group.as_object_mut().unwrap();
        fields.insert("matcher".to_owned(), json!("no_tool_is_called_like_this"));
    })
}

/// The same with a field of the entry itself; without it for `null`.
fn entry(text: &str, client: Client, field: &str, value: Value) -> String {
    changed(text, client, |group| {
        let entry = group.pointer_mut("/hooks/0").unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => drop(entry.remove(field)),
            value => drop(entry.insert(field.to_owned(), value)),
        }
    })
}

/// The entry stands at an event that comes later.
fn elsewhere(text: &str, client: Client) -> String {
    let mut settings: Value = serde_json::from_str(text).unwrap();
    let events = settings.get_mut("hooks").unwrap().as_object_mut().unwrap();
    let group = events.remove(client.before_a_tool()).unwrap();
    events.insert("SessionEnd".to_owned(), group);
    settings.to_string()
}

/// A run of one call, and whether it ran. What it left is taken away.
fn tried(world: &World, client: Client) -> Result<(bool, Outcome), NoBuild> {
    let call = [leave_mark(client)];
    let outcome = world.trial(&call).go()?;
    let ran = world.ran();
    let _ = std::fs::remove_file(world.file(MARK));
    Ok((ran, outcome))
}

/// Every weakening of an entry is failed, and mended by what `doctor` names.
pub(crate) fn weakened_entries(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, &no_shell());
    world.install();
    let file = world.path("home").join(client.installed());
    let whole = std::fs::read_to_string(&file).unwrap();
    let mut unjudged = Vec::new();
    for (what, weaken) in client.weakenings() {
        let weak = weaken(&whole, client);
        assert_ne!(weak, whole, "{what}");
        std::fs::write(&file, weak).unwrap();
        let (is_content, said) = world.doctor(&[]);
        assert!(
            !is_content && said.contains(&format!("backstop install {}", client.name())),
            "{what}: {said}"
        );
        if tried(&world, client)?.0 {
            unjudged.push(what);
        }
        world.install();
        let (_, said) = world.doctor(&[]);
        assert!(
            !said.contains("not what `backstop install` writes") && !said.contains("without an entry"),
            "{what}: {said}"
        );
        let outcome = world.trial(&[leave_mark(client)]).go()?;
        assert_refused(client, &world, &outcome, DENIED);
    }
    assert!(!unjudged.is_empty(), "none of these weakens anything");
    println!("{}: nothing judges where the entry is {}", client.name(), unjudged.join(", "));
    Ok(())
}

/// A configuration or a database that can't be used: no call runs, and `doctor` says why. Guards that are off: it runs, and `doctor` fails.
pub(crate) fn unusable_footing(client: Client) -> Result<(), NoBuild> {
    let configuration = "home/.config/backstop/backstop.yaml";
    let database = "home/.local/share/backstop/backstop.db";
    let off = "guards: {command_safety: {enabled: false}}\n";
    for (file, text, said, runs) in [
        (configuration, "guards: {no_such_guard: {}}\n", "no_such_guard", false),
        (database, "no database at all, but some text", "the database can't be read", false),
        (configuration, off, "a call that nothing should let pass was not refused", true),
    ] {
        let world = World::new(client, "{}");
        world.install();
        std::fs::write(world.path(file), text).unwrap();
        for end in ["-wal", "-shm"] {
            // What was not written into it yet would stand in for it.
            let _ = std::fs::remove_file(world.path(&format!("{file}{end}")));
        }
        if runs {
            world.backstop(&["config", "pin"]);
        }
        let (is_content, told) = world.doctor(&[]);
        assert!(!is_content && told.contains(said), "{said}: {told}");
        let (ran, outcome) = tried(&world, client)?;
        assert_eq!(ran, runs, "{said}\n{outcome:?}");
    }
    Ok(())
}

/// How a client is started, by the adversary's list: what it says to be open is, and `doctor` fails there; nothing else is.
pub(crate) fn starts_of_the_list(client: Client) -> Result<(), NoBuild> {
    let mut tried_ways = 0;
    for way in starts(client) {
        let world = World::new(client, &no_shell());
        let work = world.file("");
        let placed = |text: &str| text.replace("@work@", work.to_str().unwrap().trim_end_matches('/'));
        for thing in at(&way, "/disk").as_array().into_iter().flatten() {
            let file = world.file(at(thing, "/file").as_str().unwrap());
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, placed(at(thing, "/text").as_str().unwrap())).unwrap();
        }
        let set = at(&way, "/start/env").as_object().into_iter().flatten();
        let variables: Vec<(&str, String)> =
            set.map(|(name, value)| (name.as_str(), placed(value.as_str().unwrap()))).collect();
        for (name, folder) in &variables {
            furnish(&world, client, name, Path::new(folder));
        }
        world.install();
        let number = at(&way, "/n");
        let is_open = at(&way, "/open").is_string();
        let told: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (is_content, said) = world.doctor(&told);
        assert!(!(is_open && is_content), "{number}: {said}");
        let call = [leave_mark(client)];
        let mut trial = world.trial(&call);
        for (name, value) in &variables {
            trial = trial.variable(name, value.as_str());
        }
        let outcome = trial.go()?;
        assert!(outcome.heard.requests() > 0, "{number}: the model was never asked\n{outcome:?}");
        assert_eq!(world.ran(), is_open, "{number}\n{outcome:?}");
        tried_ways += 1;
    }
    assert!(tried_ways > 0, "the list has no way to start it");
    Ok(())
}

/// What stands there; nothing at all is `null`.
fn at<'v>(value: &'v Value, place: &str) -> &'v Value {
    value.pointer(place).unwrap_or(&Value::Null)
}

/// The ways of the list by which this client is started, with what of them a test can lay out.
fn starts(client: Client) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backstop/tests/adversary/ways");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let lines = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect::<String>();
    let ways = lines.lines().filter(|line| line.starts_with('{'));
    let ways = ways.map(|line| serde_json::from_str::<Value>(line).unwrap());
    // Of these the list says that it depends on what a folder or a file holds, which is not in the list.
    let beyond = |way: &Value| {
        let names = ["PATH", "LD_PRELOAD", "BASH_ENV", "HOME"];
        names.iter().any(|name| {
            at(way, &format!("/start/env/{name}")).is_string()
                || at(way, "/disk").to_string().contains(&format!("\\\"{name}\\\""))
        })
    };
    ways.filter(|way| at(way, "/where") == "start" && !beyond(way))
        .filter(|way| [client.name(), "any"].iter().any(|name| at(way, "/client") == *name))
        .collect()
}

/// What the client can't do without in a folder that a variable moves it to.
pub(crate) fn furnish(world: &World, client: Client, name: &str, away: &Path) {
    let (variable, instead_of, needed) = client.moved_by();
    if name != variable {
        return;
    }
    let home = world.path("home").join(instead_of);
    std::fs::create_dir_all(away).unwrap();
    for name in needed {
        let (from, to) = (home.join(name), away.join(name));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        match from.exists() {
            true => std::fs::copy(from, to).map(|_| ()).unwrap(),
            // It names the model, so it is written anew for each run.
            false => std::os::unix::fs::symlink(from, to).unwrap(),
        }
    }
}
