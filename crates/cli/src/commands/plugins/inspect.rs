//! Looking at a plugin: what it says of itself, what was found in it, and what its hooks say to an event that did not happen.
//!
//! The law: *looking runs nothing*. Agents may look, and a hook that is fired acts with all that it is granted. So hooks are fired
//! only where a person says `--run`; below an agent that is refused, as consent is. What is switched off is not run at all. Samples never
//! touch what a plugin keeps: its folder for data is one of its own, which is gone afterwards.

use std::path::{Path, PathBuf};

use backstop::config::Loaded;
use backstop::plugins::{
    Bounds, Fired, Home, Installed, Manifest, Package, Purpose, Source, State, Trial, TriedFor, TrustError,
};
use serde_json::{Value, json};

use super::install::{place, tools};
use super::{About, facts, is_on, no_place, standing};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{elapsed, one_line, plain};
use crate::session::{Surroundings, environment};

/// Most characters of an answer that are shown in a line.
const MOST_ANSWER: usize = 200;
/// What is said of a plugin that was only looked at.
const NOT_RUN: &str = "its code was not run; `--run` runs it and fires each of its hooks once";
/// What is said of one that nobody wants to run.
const OFF: &str = "its code was not run: it is switched off";
/// What is said where what the configuration has for an id is not for this.
pub(super) const WITHHELD: &str =
    "without what the configuration says of its id: this is not what is installed under it";

pub(super) async fn run(
    home: &Home,
    name: &str,
    may_run: bool,
    surroundings: &Surroundings,
) -> Result<Exit, Error> {
    let hint = || format!("to install it as it is: `backstop plugins install {}`", plain(name));
    let data = Data::new();
    let mut not_run = NOT_RUN;
    let (mut about, state, tried) = match place(name).map_err(no_place)? {
        Some(Source::Folder(root)) => {
            // The folder that is meant, also where a person names a link to it.
            let root = root.canonicalize().unwrap_or(root);
            let tools = Manifest::read(&root).map(|manifest| tools(&manifest)).unwrap_or_default();
            let loaded = surroundings.load_quietly_with(&tools)?;
            let about = about_folder(&root, &loaded)?;
            let tried = tried(home, &root, &data, &loaded, may_run).await?;
            (about, ("not installed", hint()), tried)
        }
        Some(source) => {
            let staged = home.fetch(&source, Purpose::Look, &environment).await?;
            let loaded = surroundings.load_quietly_with(&tools(&staged.manifest))?;
            let about = About::of_staged(&staged, &loaded)?;
            let tried = tried(home, staged.folder(), &data, &loaded, may_run).await?;
            (about, ("not installed", hint()), tried)
        }
        None => {
            let loaded = surroundings.load_quietly()?;
            let installed = home.find(name)?;
            let mut about = about_folder(&installed.root, &loaded)?;
            about.add("installed", &facts(&installed, &loaded), []);
            let state = standing(&installed, &loaded);
            let tried = match installed.state() {
                _ if !is_on(&installed, &loaded) => {
                    not_run = OFF;
                    None
                }
                State::Trusted if may_run => {
                    let installed = Installed { data: data.path().to_owned(), ..installed };
                    Some(Tried::of(installed, &loaded).await)
                }
                _ => tried(home, &installed.root, &data, &loaded, may_run).await?,
            };
            (about, state, tried)
        }
    };
    let exit = match &tried {
        Some(tried) if !tried.is_well => Exit::Failed,
        // What was asked for was not done.
        None if may_run => Exit::Failed,
        _ => Exit::Success,
    };
    match tried {
        Some(tried) => about.add("run", &tried.facts, tried.lines),
        None => about.add("run", &Value::Null, [not_run.to_owned()]),
    }
    let output = &surroundings.output;
    if output.is_json() {
        output.json(&about.facts)?;
        return Ok(exit);
    }
    about.lines.push(format!("{}: {}", state.0, plain(&state.1)));
    output.text(&about.text())?;
    Ok(exit)
}

/// A folder for the data of a plugin that is tried; it is gone afterwards.
pub(super) struct Data(PathBuf);

impl Data {
    pub(super) fn new() -> Self {
        let name = format!("backstop-trial-{}", backstop::new_token().expose());
        Self(std::env::temp_dir().join(name))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        // It is there only if the plugin, or what loads it, has made it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn about_folder(root: &Path, loaded: &Loaded) -> Result<About, Error> {
    let package = Package::read(root, &Bounds::default()).map_err(TrustError::from)?;
    let manifest = Manifest::read(root).map_err(TrustError::from)?;
    About::new(&manifest, &package, loaded)
}

async fn tried(
    home: &Home,
    root: &Path,
    data: &Data,
    loaded: &Loaded,
    may_run: bool,
) -> Result<Option<Tried>, Error> {
    if !may_run {
        return Ok(None);
    }
    let installed = Installed::of_folder(home, root, data.path().to_owned())?;
    Ok(Some(Tried::of(installed, loaded).await))
}

/// What came of running it.
struct Tried {
    is_well: bool,
    facts: Value,
    lines: Vec<String>,
}

impl Tried {
    async fn of(installed: Installed, loaded: &Loaded) -> Self {
        let is_withheld = Trial::is_withheld(loaded, &installed);
        let mut tried = Self::by_itself(installed, loaded).await;
        if let (true, Value::Object(facts)) = (is_withheld, &mut tried.facts) {
            facts.insert("withheld".to_owned(), WITHHELD.into());
            tried.lines.insert(0, WITHHELD.to_owned());
        }
        tried
    }

    async fn by_itself(installed: Installed, loaded: &Loaded) -> Self {
        let trial = match Box::pin(Trial::load(loaded, installed, TriedFor::People)).await {
            Ok(trial) => trial,
            Err(error) => {
                let said = Error::from(error).report();
                return Self {
                    is_well: false,
                    facts: json!({ "error": said }),
                    lines: std::iter::once("it can't be loaded:".to_owned())
                        .chain(said.lines().map(|line| format!("  {line}")))
                        .collect(),
                };
            }
        };
        let (took, first) = (trial.took(), trial.heap().await);
        let fired = Box::pin(trial.fire()).await;
        let last = trial.heap().await;
        let told = Self::told(&trial, &fired, (first, last), took);
        trial.shut_down().await;
        told
    }

    fn told(
        trial: &Trial,
        fired: &[Fired],
        heap: (Option<u64>, Option<u64>),
        took: std::time::Duration,
    ) -> Self {
        let shape = trial.shape();
        let seated = &shape.seated;
        let memory = match heap {
            (Some(first), Some(last)) => {
                format!("{} KiB of memory, {} KiB when its hooks were fired", first / 1024, last / 1024)
            }
            _ => "its memory is that of a program of its own, and not measured".to_owned(),
        };
        let mut lines = vec![format!("loaded in {}; {memory}", elapsed(took))];
        let mut part = |title: &str, words: Vec<String>| {
            if !words.is_empty() {
                lines.push(format!("{title}:"));
                lines.extend(words.iter().map(|word| format!("  {}", plain(word))));
            }
        };
        part("fired once each, with a sample", fired.iter().map(line).collect());
        part(
            "waits for a host that fires its point",
            seated.waiting.iter().map(|waiting| format!("{} ({})", waiting.point, waiting.id)).collect(),
        );
        part(
            "is left out",
            seated
                .left_out
                .iter()
                .map(|left| format!("{}: {}", left.what, left.why.replace('\n', " ")))
                .collect(),
        );
        let denied = trial.denials();
        part(
            "asked for what is not granted",
            denied
                .iter()
                .map(|(grant, times)| format!("{} ({times} times)", one_line(grant, MOST_ANSWER)))
                .collect(),
        );
        let not_read = trial.not_read();
        part(
            "answers what is not read",
            not_read.iter().map(|what| format!("{what}: nothing comes of it")).collect(),
        );
        part(
            "registers besides",
            shape.offers.iter().map(|(kind, name)| format!("{kind} `{name}`")).collect(),
        );
        let facts = json!({
            "loadMs": millis(took), "heapBytes": heap.0, "heapBytesAfter": heap.1,
            "hooks": fired.iter().map(fact).collect::<Vec<_>>(),
            "waiting": seated.waiting.iter().map(|waiting| json!({ "hook": waiting.id, "point": waiting.point })).collect::<Vec<_>>(),
            "leftOut": seated.left_out.iter().map(|left| json!({ "what": left.what, "why": left.why })).collect::<Vec<_>>(),
            "denied": denied.iter().map(|(grant, times)| json!({ "grant": grant, "times": times })).collect::<Vec<_>>(),
            "notRead": not_read,
            "offers": shape.offers.iter().map(|(kind, name)| json!({ "kind": kind.as_str(), "name": name })).collect::<Vec<_>>(),
        });
        Self { is_well: fired.iter().all(|fired| fired.failure.is_none()), facts, lines }
    }
}

fn millis(took: std::time::Duration) -> f64 {
    took.as_secs_f64() * 1_000.0
}

fn line(fired: &Fired) -> String {
    let said = match (&fired.failure, &fired.answer) {
        (Some(failure), _) => format!("FAILED: {}", one_line(failure, MOST_ANSWER)),
        (None, Some(answer)) => one_line(&answer.to_string(), MOST_ANSWER),
        (None, None) => "no answer".to_owned(),
    };
    let memory = fired.heap.map(|heap| format!(", {} KiB", heap / 1024)).unwrap_or_default();
    format!("{} ({}), {}{memory}: {said}", fired.point, fired.hook, elapsed(fired.took))
}

fn fact(fired: &Fired) -> Value {
    json!({
        "hook": fired.hook, "point": fired.point, "ms": millis(fired.took), "heapBytes": fired.heap, "answer": fired.answer,
        "failure": fired.failure,
    })
}
