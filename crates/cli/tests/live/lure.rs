//! What is laid before a client to lead it to another server than its user's proxy, and where it turns by itself.

use std::path::Path;

use serde_json::Value;

use crate::client::{Client, Place};

/// Files, arguments and variables; none of them leads nowhere.
#[derive(Debug, Default)]
pub(crate) struct Lure {
    /// What it is, for failed tests.
    pub(crate) what: &'static str,
    /// Files, below the folder of the project (`project/`) or of the user (`home/`).
    pub(crate) files: Vec<(&'static str, String)>,
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Variables that the client does not get.
    pub(crate) unset: Vec<&'static str>,
    /// Where the client is started, below the project.
    pub(crate) folder: &'static str,
}

impl Lure {
    /// Writes its files. Settings that are there stay, where it says nothing about them.
    pub(crate) fn lay(&self, place: &Place) {
        for (path, text) in &self.files {
            let path = match path.split_once('/').unwrap() {
                ("home", below) => place.home.join(below),
                (_, below) => place.project.join(below),
            };
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = text.replace("{project}", &place.project.display().to_string());
            std::fs::write(&path, over(&path, &text)).unwrap();
        }
    }
}

/// The text with the fields of the file that it takes the place of.
fn over(path: &Path, text: &str) -> String {
    let object = |text: &str| match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    };
    let there = std::fs::read_to_string(path).ok().and_then(|text| object(&text));
    match (there, object(text)) {
        (Some(mut there), Some(more)) => {
            there.extend(more);
            Value::Object(there).to_string()
        }
        _ => text.to_owned(),
    }
}

impl Client {
    /// Where it turns beside its model, by the first lines of what it sends to a proxy. Whatever else comes there fails a run.
    pub(crate) const fn ways_out(self) -> &'static [&'static str] {
        match self {
            // Its list of plugins, which is fetched without a login.
            Self::Codex => {
                &["CONNECT github.com:443 ", "CONNECT api.github.com:443 ", "CONNECT chatgpt.com:443 "]
            }
            // What it tells its maker of its use, whatever `CLINE_TELEMETRY_DISABLED` says.
            Self::Cline => &["CONNECT data.cline.bot:443 ", "CONNECT otel.cline.bot:443 "],
            _ => &[],
        }
    }
}
