//! `backstop model serve`: the scripted model on a port of this machine.

use std::path::{Path, PathBuf};

use backstop::hooks::Secret;
use backstop::llm::{Script, ScriptReport, ScriptedServer, ServerOptions};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Error;
use crate::exit::Exit;
use crate::output::Style;
use crate::session::{Surroundings, environment};

/// The largest script.
const MAX_SCRIPT_BYTES: u64 = 64 * 1024 * 1024;

/// What is served, and where.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) script: PathBuf,
    /// 0 for a free one.
    pub(crate) port: u16,
    /// The variable that holds the key which callers must bring.
    pub(crate) api_key_env: Option<String>,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let output = &surroundings.output;
    let mut end = EndAsked::listen()?;
    let script = read(&settings.script)?;
    let required_key = settings.api_key_env.map(|variable| key(&variable)).transpose()?;
    let options = ServerOptions { port: settings.port, required_key, ..ServerOptions::default() };
    let server = ScriptedServer::start(script, options)
        .await
        .map_err(|error| Error::Failed(format!("port {} can't be opened: {error}", settings.port)))?;
    if output.is_json() {
        output.json_line(&json!({ "baseUrl": server.base_url(), "port": server.address().port() }))?;
    } else {
        output.text(&server.base_url())?;
    }
    output.say(
        "serving Anthropic Messages, OpenAI Chat Completions, OpenAI Responses and Gemini; Ctrl-C ends it",
    );
    end.wait().await;
    let report = server.shut_down().await;
    if output.is_json() {
        output.json_line(&told(&report))?;
    } else {
        let style = if report.mismatches.is_empty() { Style::Good } else { Style::Bad };
        output.say(&output.talk_paint().with(style, &report));
    }
    Ok(if report.mismatches.is_empty() { Exit::Success } else { Exit::Failed })
}

fn read(path: &Path) -> Result<Script, Error> {
    use std::io::Read as _;
    let failed = |source| Error::File { path: path.to_path_buf(), what: "read", source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_SCRIPT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_SCRIPT_BYTES {
        return Err(Error::Failed(format!("`{}` is larger than {MAX_SCRIPT_BYTES} bytes", path.display())));
    }
    Script::parse(&text).map_err(|error| Error::Failed(format!("`{}`: {error}", path.display())))
}

fn key(variable: &str) -> Result<Secret, Error> {
    environment(variable).filter(|key| !key.is_empty()).map(Secret::new).ok_or_else(|| {
        Error::Usage(format!("the environment variable `{variable}` is not set\nhint: export {variable}=..."))
    })
}

fn told(report: &ScriptReport) -> serde_json::Value {
    let mismatches: Vec<String> = report.mismatches.iter().map(ToString::to_string).collect();
    json!({
        "requests": report.requests,
        "turns": report.turns,
        "unused": report.unused,
        "mismatches": mismatches,
    })
}

/// Ctrl-C, or the signal by which services are ended. Listened for before anybody can know that there is something to
/// end.
#[derive(Debug)]
pub(crate) struct EndAsked {
    signals: [Signal; 2],
}

impl EndAsked {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self { signals: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?] })
    }

    /// Until somebody asks, once more if somebody has.
    pub(crate) async fn wait(&mut self) {
        let [interrupted, terminated] = &mut self.signals;
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    }
}
