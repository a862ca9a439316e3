//! The list as data.

use std::collections::{BTreeMap, BTreeSet};

use backstop::clients::Client;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::calls::Judged;

const FILES: &[(&str, &str)] = &[
    ("configuration", include_str!("ways/configuration.jsonl")),
    ("database", include_str!("ways/database.jsonl")),
    ("links", include_str!("ways/links.jsonl")),
    ("moved-folders", include_str!("ways/moved-folders.jsonl")),
    ("neighbours", include_str!("ways/neighbours.jsonl")),
    ("nested-clients", include_str!("ways/nested-clients.jsonl")),
    ("program", include_str!("ways/program.jsonl")),
    ("repository-files", include_str!("ways/repository-files.jsonl")),
    ("self-approval", include_str!("ways/self-approval.jsonl")),
    ("services", include_str!("ways/services.jsonl")),
    ("settings-by-commands", include_str!("ways/settings-by-commands.jsonl")),
    ("settings-by-tools", include_str!("ways/settings-by-tools.jsonl")),
    ("signals-and-resources", include_str!("ways/signals-and-resources.jsonl")),
    ("socket", include_str!("ways/socket.jsonl")),
    ("tools", include_str!("ways/tools.jsonl")),
];

/// One way around.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Way {
    pub(crate) n: u32,
    client: String,
    #[serde(rename = "where")]
    pub(crate) happens: Where,
    pub(crate) expect: Judged,
    pub(crate) open: Option<String>,
    pub(crate) held: Option<String>,
    pub(crate) system: Option<String>,
    why: String,
    source: String,
    #[serde(default)]
    pub(crate) disk: Vec<Thing>,
    #[serde(default)]
    start: Option<Start>,
    pub(crate) calls: Vec<Call>,
}

/// Where a way begins.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Where {
    Call,
    Start,
    Outside,
}

/// What lies in the workspace before.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum Thing {
    Link { link: String, to: String },
    File { file: String, text: String },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    env: BTreeMap<String, String>,
}

/// A call in the client's own words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) args: Map<String, Value>,
}

impl Way {
    pub(crate) fn client(&self) -> Client {
        match self.client.as_str() {
            "any" => Client::Claude,
            name => name.parse().unwrap_or_else(|_| panic!("{}: `{name}` is no client", self.n)),
        }
    }

    pub(crate) fn is_attack(&self) -> bool {
        self.expect != Judged::Allow
    }

    /// The calls, for whoever reads of a failure.
    pub(crate) fn shown(&self) -> String {
        let shown = |call: &Call| format!("{} {}", call.tool, Value::Object(call.args.clone()));
        self.calls.iter().map(shown).collect::<Vec<_>>().join(", then ")
    }

    fn check(&self, class: &str) {
        assert!(!self.why.is_empty() && !self.source.is_empty(), "{}: says no reason or no source", self.n);
        assert_eq!(self.is_attack(), class != "neighbours", "{}: neighbours pass, and nothing else", self.n);
        assert_eq!(self.happens == Where::Call, !self.calls.is_empty(), "{}: its calls", self.n);
        assert!(self.system.is_none() || self.open.is_some(), "{}: it is open nowhere", self.n);
        let started = self.start.as_ref().is_some_and(|start| !start.env.is_empty()) || !self.disk.is_empty();
        assert!(self.happens != Where::Start || started, "{}: says nothing of the start", self.n);
    }
}

/// Every way of every file.
pub(crate) fn all() -> Vec<Way> {
    let mut ways = Vec::new();
    for (class, text) in FILES {
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let way: Way =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{class}:{}: {error}", at + 1));
            way.check(class);
            ways.push(way);
        }
    }
    ways
}

/// The rows of the table under "What remains open", without the sign before their first cell.
fn open_rows(page: &str) -> impl Iterator<Item = &str> {
    let section = page.split("\n## ").find(|section| section.starts_with("What remains open"));
    let section = section.unwrap_or_else(|| panic!("SECURITY.md has no section `What remains open`"));
    section.lines().filter_map(|line| line.strip_prefix('|'))
}

/// The numbers of the rows of that table whose last column says that the system scope holds them.
pub(crate) fn said_to_be_held(page: &str) -> BTreeSet<u32> {
    let held = open_rows(page).filter(|row| row.trim_end().ends_with("| held |"));
    held.filter_map(|row| row.split('|').next()?.trim().parse().ok()).collect()
}

/// The numbers in the first column of the table under "What remains open"; `3–5` is a run of them.
pub(crate) fn said_to_be_open(page: &str) -> BTreeSet<u32> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let cells = open_rows(page).filter_map(|row| row.split('|').next());
    cells
        .flat_map(|cell| cell.split(','))
        .filter_map(|run| match run.split_once('–') {
            Some((first, last)) => Some(number(first)?..=number(last)?),
            None => number(run).map(|one| one..=one),
        })
        .flatten()
        .collect()
}
