//! `backstop plugins`: installing, looking, trusting.
//!
//! What a plugin is and asks for, and what was found in it, is shown before anybody consents; consent is to a content hash, given at a
//! terminal by a person, or by `--yes --trust HASH` by a program that a person wrote. What changes anything is refused below an agent.

use std::io::IsTerminal as _;

use std::path::PathBuf;

use backstop::config::{Loaded, PluginRuntime};
use backstop::plugins::{
    ContentHash, Effective, Home, Installed, Kind, Manifest, NoSource, Package, PluginId, Replaced, Staged,
    State, granted, held_apart, runtime, unheld,
};
use rustix::termios::{QueueSelector, tcflush};
use serde_json::{Value, json};

use crate::consent::is_yes;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, one_line, plain, table};
use crate::session::Surroundings;

pub(crate) mod author;
mod inspect;
mod install;
mod recorded;

use self::recorded::{Deed, Records};

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Settings {
    /// Copy and trust.
    /// The source as it was written.
    Install { source: String, consent: Consent },
    /// Show all.
    List,
    /// Show one, or a folder.
    Inspect { plugin: String, run: bool },
    /// Write a new one.
    New { name: String, language: author::Language },
    /// Run the tests of its author.
    Test { folder: PathBuf },
    /// Write or print types for authors.
    Types { folder: Option<PathBuf> },
    /// On or off.
    Switch { id: String, on: bool },
    /// Trust what is there now.
    Trust { id: String, consent: Consent },
    /// Have it all loaded anew.
    Reload,
    /// Have one do something.
    Run { id: String, words: Vec<String> },
    /// Take it away.
    Remove { id: String },
}

/// Who consents.
#[derive(Debug)]
pub(crate) enum Consent {
    /// Whoever is at the terminal.
    Asked,
    /// Whoever wrote this digest down.
    Given(ContentHash),
}

impl Settings {
    /// Whether it changes nothing, and reaches nothing beyond this machine's files.
    pub(crate) fn only_looks(&self) -> bool {
        match self {
            Self::List => true,
            Self::New { .. } | Self::Types { .. } => true,
            Self::Inspect { plugin, run } => {
                let place = install::place(plugin).ok().flatten();
                !run && !place.is_some_and(|source| source.is_fetched())
            }
            _ => false,
        }
    }
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let home = Home::new(surroundings.plugins_folder()?);
    let output = &surroundings.output;
    match settings {
        Settings::Install { source, consent } => {
            let source = source.parse().map_err(no_place)?;
            Box::pin(install::run(&home, &source, &consent, surroundings)).await?;
        }
        Settings::List => list(&home, surroundings)?,
        Settings::Inspect { plugin, run } => {
            return Box::pin(inspect::run(&home, &plugin, run, surroundings)).await;
        }
        Settings::New { name, language } => return author::new(&name, language, surroundings),
        Settings::Test { folder } => return Box::pin(author::test(&folder, surroundings)).await,
        Settings::Types { folder } => return author::types(folder.as_deref(), surroundings),
        Settings::Switch { id, on } => {
            let installed = home.find(&id)?;
            let deed = if on { Deed::SwitchedOn } else { Deed::SwitchedOff };
            let records = Records::open(deed, surroundings).await?;
            home.enable(&installed.id, on)?;
            if !on {
                super::plugin_use::forget(&installed.id, surroundings).await;
            }
            records.tell(&installed, output).await?;
            done(output, &installed.id, deed)?;
        }
        Settings::Reload => Box::pin(super::plugin_use::reload(&home, surroundings)).await?,
        Settings::Run { id, words } => {
            return Box::pin(super::plugin_use::run(&home, &id, &words, surroundings)).await;
        }
        Settings::Trust { id, consent } => trust(&home, &id, &consent, surroundings).await?,
        Settings::Remove { id } => {
            let installed = home.find(&id)?;
            let records = Records::open(Deed::Removed, surroundings).await?;
            home.remove(&installed.id)?;
            super::plugin_use::forget(&installed.id, surroundings).await;
            records.tell(&installed, output).await?;
            done(output, &installed.id, Deed::Removed)?;
        }
    }
    Ok(Exit::Success)
}

/// What is said of a place that is none. The command line's own words would quote it, with whatever password stands in it.
#[expect(clippy::needless_pass_by_value, reason = "it is the function of a `map_err`")]
fn no_place(error: NoSource) -> Error {
    Error::Usage(error.to_string())
}

fn done(output: &Output, id: &PluginId, deed: Deed) -> Result<(), Error> {
    let what = deed.words();
    match output.is_json() {
        true => Ok(output.json(&json!({ "id": id, "done": what }))?),
        false => Ok(output.text(&format!("{what}: {id}"))?),
    }
}

fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map(|since| since.as_secs()).unwrap_or_default()
}

/// Most characters of where a plugin came from that are shown.
const MOST_SOURCE: usize = 4_000;

/// Everything that a person should know of a plugin.
struct About {
    facts: Value,
    lines: Vec<String>,
    /// What stands directly above the question, and is said also where nobody is asked.
    last: Vec<String>,
}

impl About {
    fn new(manifest: &Manifest, package: &Package, loaded: &Loaded) -> Result<Self, Error> {
        let granted = granted(loaded, &manifest.id)?;
        let got = match &manifest.asked {
            Some(asked) => asked.granted(&granted),
            // What says nothing of its needs gets what was granted.
            None => Effective { given: granted, ..Effective::default() },
        };
        let points: Option<Vec<String>> = manifest.points.as_ref().map(|points| {
            points.iter().map(|spec| format!("{} ({})", spec.point, spec.registration)).collect()
        });
        let version = manifest.version.as_deref().unwrap_or("no version");
        let mut lines =
            vec![format!("{} {} ({version}), {}", manifest.id, manifest.name, manifest.kind.as_str())];
        lines.extend(manifest.description.iter().map(|text| one_line(text, LONGEST_DESCRIPTION)));
        let mut part = |title: &str, words: Vec<String>| {
            if !words.is_empty() {
                lines.push(format!("{title}:"));
                lines.extend(words.iter().map(|word| format!("  {word}")));
            }
        };
        part("what it is", manifest.sentences());
        part("tools that it brings", manifest.contracts.tools.clone());
        part("trusted tool policies that it brings", manifest.contracts.trusted_tool_policies.clone());
        part("what it gets", got.given.sentences());
        let is_script = matches!(manifest.kind, Kind::Script { .. });
        let runs_in = is_script.then(|| runtime(loaded, &manifest.id));
        let words = |wanted, words: fn(&backstop::plugins::Permissions) -> Vec<String>| match runs_in {
            Some(runs_in) if runs_in == wanted => words(&got.given),
            _ => Vec::new(),
        };
        let (under_node, apart) =
            (words(PluginRuntime::Node, unheld), words(PluginRuntime::Process, held_apart));
        part("what holds it less (`plugins.entries.<id>.runtime: node`)", under_node.clone());
        part("what else holds it (`plugins.entries.<id>.runtime: process`)", apart.clone());
        part("what it asks for and is not granted (`plugins.entries.<id>.grants`)", got.missing.sentences());
        part("what is granted and it does not ask for, so that it does not get it", got.unasked.sentences());
        part("hooks", points.clone().unwrap_or_else(|| vec!["only its code says".to_owned()]));
        part("found in its files", package.findings.iter().map(ToString::to_string).collect());
        part("left out", manifest.notes.clone());
        lines.push(format!("{} files, {} bytes, {}", package.entries, package.bytes, package.hash));
        let facts = json!({
            "id": manifest.id, "name": manifest.name, "version": manifest.version, "description": manifest.description,
            "api": manifest.api, "kind": manifest.kind.as_str(), "hash": package.hash, "files": package.entries, "bytes": package.bytes,
            "asks": manifest.asked.as_ref().map(backstop::plugins::Permissions::sentences),
            "gets": got.given.sentences(), "missing": got.missing.sentences(), "unasked": got.unasked.sentences(),
            "unheld": under_node, "runtime": runs_in.map(PluginRuntime::name), "held": apart,
            "hooks": points, "tools": manifest.contracts.tools, "trustedToolPolicies": manifest.contracts.trusted_tool_policies,
            "findings": package.findings, "leftOut": manifest.notes,
        });
        Ok(Self { facts, lines: lines.iter().map(|line| on_one_line(line)).collect(), last: Vec::new() })
    }

    /// What is known of a plugin that is not installed yet.
    fn of_staged(staged: &Staged, loaded: &Loaded) -> Result<Self, Error> {
        let mut about = Self::new(&staged.manifest, &staged.package, loaded)?;
        about.add("from", &json!(staged.origin.words), [format!("from {}", staged.origin.words)]);
        if let Some(before) = &staged.replaces {
            let fact = json!({ "version": before.version, "source": before.source, "anotherSource": before.is_elsewhere });
            about.add("replaces", &fact, []);
            about.last = replacing(&staged.manifest.id, before);
        }
        Ok(about)
    }

    /// All of it, for whoever only looks.
    fn text(&self) -> String {
        [self.lines.as_slice(), &self.last].concat().join("\n")
    }

    fn add(&mut self, key: &str, fact: &Value, lines: impl IntoIterator<Item = String>) {
        if let Some(facts) = self.facts.as_object_mut() {
            facts.insert(key.to_owned(), fact.clone());
        }
        self.lines.extend(lines.into_iter().map(|line| on_one_line(&line)));
    }
}

/// The most characters of a description that are shown.
const LONGEST_DESCRIPTION: usize = 500;

/// A line, whole. What a plugin wrote can't begin another one, which would look like one of ours.
fn on_one_line(line: &str) -> String {
    plain(line).replace('\n', "\\n").replace('\t', "\\t")
}

/// What it means that a plugin has the id of one that is installed. A source may be any path, and is one line whatever is in it.
fn replacing(id: &PluginId, before: &Replaced) -> Vec<String> {
    let source = one_line(&before.source, MOST_SOURCE);
    let version = one_line(before.version.as_deref().unwrap_or("(no version)"), 130);
    let mut said =
        vec![format!("replaces {id} {version} from {source}, and takes over its grants, settings and data")];
    if before.is_elsewhere {
        said.push("it comes from another source than what it replaces: it may be somebody else's".to_owned());
    }
    said
}

/// Has a person agree to this digest. What was typed before the question is no answer to it.
fn agree(consent: &Consent, about: &About, hash: ContentHash, output: &Output) -> Result<(), Error> {
    match consent {
        Consent::Given(given) if *given == hash => {
            about.last.iter().for_each(|line| output.say(line));
            return Ok(());
        }
        Consent::Given(given) => {
            return Err(Error::Failed(format!(
                "this is `{hash}`, and not `{given}`\nhint: `backstop plugins inspect` shows what it is now"
            )));
        }
        Consent::Asked => {}
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Error::Usage(
            "a plugin is trusted by a person at a terminal\nhint: look at it with `backstop plugins inspect`, then say `--yes --trust HASH`".to_owned(),
        ));
    }
    output.say(&about.text());
    tcflush(std::io::stdin(), QueueSelector::IFlush).map_err(std::io::Error::from)?;
    output.say("trust it as it is? type `yes`:");
    match is_yes(&mut std::io::stdin().lock())? {
        true => Ok(()),
        false => Err(Error::Failed("nothing was changed".to_owned())),
    }
}

async fn trust(home: &Home, id: &str, consent: &Consent, surroundings: &Surroundings) -> Result<(), Error> {
    let installed = home.find(id)?;
    let records = Records::open(Deed::Trusted, surroundings).await?;
    let loaded = surroundings.load()?;
    let package = Package::read(&installed.root, &backstop::plugins::Bounds::default())
        .map_err(backstop::plugins::TrustError::from)?;
    let manifest = Manifest::read(&installed.root).map_err(backstop::plugins::TrustError::from)?;
    agree(consent, &About::new(&manifest, &package, &loaded)?, package.hash, &surroundings.output)?;
    home.trust(&installed.id, package.hash, now())?;
    let trusted = home.find(installed.id.as_str())?;
    records.tell(&trusted, &surroundings.output).await?;
    done(&surroundings.output, &installed.id, Deed::Trusted)
}

/// Whether an installed plugin is on. The configuration has the last word.
fn is_on(installed: &Installed, loaded: &Loaded) -> bool {
    let configured = loaded.config.plugins.entries.get(installed.id.as_str());
    let said = configured.and_then(|entry| entry.enabled.as_ref()).map(|enabled| enabled.value);
    said.unwrap_or(installed.record.enabled)
}

/// How an installed plugin stands, in a word and in a sentence.
fn standing(installed: &Installed, loaded: &Loaded) -> (&'static str, String) {
    match (installed.state(), is_on(installed, loaded)) {
        (State::Changed(now), _) => {
            ("changed", format!("its files are now `{now}`; it is off until it is trusted again"))
        }
        (State::Broken(error), _) => ("broken", error.to_string()),
        (State::Trusted, false) => ("off", "switched off".to_owned()),
        (State::Trusted, true) => ("on", "trusted as it is".to_owned()),
    }
}

fn list(home: &Home, surroundings: &Surroundings) -> Result<(), Error> {
    let output = &surroundings.output;
    let loaded = surroundings.load_quietly()?;
    let installed = home.installed()?;
    if output.is_json() {
        let all: Vec<Value> = installed.iter().map(|plugin| facts(plugin, &loaded)).collect();
        return Ok(output.json(&all)?);
    }
    if installed.is_empty() {
        output.say("no plugins are installed");
        return Ok(());
    }
    let mut rows = vec![["plugin", "version", "state", "from"].map(str::to_owned).to_vec()];
    rows.extend(installed.iter().map(|plugin| {
        let version = plugin.record.version.as_deref().unwrap_or("-");
        let state = standing(plugin, &loaded).0.to_owned();
        vec![plugin.id.to_string(), one_line(version, 20), state, one_line(&plugin.record.source, 60)]
    }));
    Ok(output.text(&table(&rows))?)
}

fn facts(plugin: &Installed, loaded: &Loaded) -> Value {
    let (state, why) = standing(plugin, loaded);
    let record = &plugin.record;
    json!({
        "id": plugin.id, "version": record.version, "state": state, "why": why, "source": record.source, "trusted": record.hash,
        "trustedAt": record.trusted_at, "enabled": record.enabled, "folder": plugin.root,
    })
}
