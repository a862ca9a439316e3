//! `backstop config`.

use std::path::Path;

use backstop::config::{ConfigError, LayerKind, Loaded, Problem, schema};
use backstop::{CredentialProblem, Pin, credential_problems};
use serde_json::{Value, json};

use super::answerer;
use super::clients::recorded::Trail;
use super::outages::{outages, outages_at};
use crate::error::{Error, different};
use crate::exit::Exit;
use crate::output::{Output, Style, one_line, plain};
use crate::session::{Surroundings, builder, environment};

/// The kind of the entry for a configuration that somebody pinned, by which hooks judge from then on.
pub(crate) const CONFIGURATION_PINNED: &str = "configuration.pinned";

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settings {
    /// What is wrong.
    Check,
    /// What is in force.
    Show,
    /// That what is there is as it should be.
    Pin,
    /// The JSON Schema.
    Schema,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let output = &surroundings.output;
    match settings {
        Settings::Schema => output.json(&schema())?,
        Settings::Show => show(&surroundings.load_quietly()?, output)?,
        Settings::Check => return check(surroundings).await,
        Settings::Pin => {
            if let Some(untold) = pin(surroundings).await? {
                return Err(untold);
            }
        }
    }
    Ok(Exit::Success)
}

/// Loads the configuration and puts the hooks in place, which finds what reading alone can't.
async fn check(surroundings: &Surroundings) -> Result<Exit, Error> {
    let output = &surroundings.output;
    let built = async {
        let loaded = if output.is_json() { surroundings.load_quietly()? } else { surroundings.load()? };
        let backstop = builder(loaded.clone(), surroundings)
            .hosts(backstop::all_hosts())
            .without_audit()
            .build()
            .await?;
        let outages = (outages(&backstop), outages_at(&backstop));
        let hooks = backstop.engine().registry().list();
        backstop.shut_down().await;
        Ok((loaded, outages, hooks))
    };
    match (built.await, output.is_json()) {
        (Ok((loaded, (webhooks, programs), hooks)), true) => {
            let hints: Vec<&String> = hooks.iter().flat_map(|meta| &meta.hints).collect();
            let files = files(&loaded);
            let warnings: Vec<Value> = credential_problems(&loaded, &environment)
                .into_iter()
                .map(|problem| json!({ "provider": problem.provider, "at": problem.at.to_string(), "message": problem.says }))
                .collect();
            output.json(
                &json!({ "ok": true, "files": files, "problems": [], "warnings": warnings, "webhooks": webhooks, "programs": programs, "hints": hints }),
            )?;
        }
        (Ok((loaded, (webhooks, programs), hooks)), false) => {
            let files: Vec<String> =
                loaded.layers.iter().map(|(_, file)| format!("`{}`", plain(file))).collect();
            let what = if files.is_empty() { "the built-in defaults".to_owned() } else { files.join(", ") };
            let webhooks = webhooks.iter().chain(&programs);
            let webhooks: String = webhooks.map(|outage| format!("\n{}", outage.line().trim_end())).collect();
            let hints: String = hooks
                .iter()
                .flat_map(|meta| super::hooks::hints(meta))
                .map(|hint| format!("\n{}", hint.trim_end()))
                .collect();
            output.text(&format!(
                "{}: {what}{webhooks}{hints}",
                output.paint().with(Style::Good, "no problems")
            ))?;
            if let Some(warning) = surroundings.pin_warning()? {
                output.say(&warning);
            }
            for CredentialProblem { provider, at, says } in credential_problems(&loaded, &environment) {
                output.say(&format!("warning: provider `{provider}` at {at} has no credentials: {says}"));
            }
        }
        (Err(Error::Config(error)), true) => {
            output.json(&json!({ "ok": false, "files": [], "problems": problems(&error) }))?;
            return Ok(Exit::Refused);
        }
        (Err(error), _) => return Err(error),
    }
    Ok(Exit::Success)
}

/// Pins the operator's configuration, and says what is different from the pin before. Returns why the audit trail does not tell of it, if it does not:
/// it is pinned nevertheless.
pub(super) async fn pin(surroundings: &Surroundings) -> Result<Option<Error>, Error> {
    let output = &surroundings.output;
    if surroundings.explicit_config().is_some() {
        return Err(Error::Usage(
            "hooks read the operator's file in the user's configuration folder, so `--config` can't be pinned"
                .to_owned(),
        ));
    }
    let operators = surroundings.load_operators()?;
    let now = operators.pin();
    let data = surroundings.data_folder()?;
    let path = Pin::path(&data);
    // One that is damaged is replaced, and what it said is not known.
    let before = Pin::read(&path).ok().flatten();
    if before.as_ref() == Some(&now) {
        return Ok(None);
    }
    let what = match &before {
        Some(before) => different(&before.differences(&now)),
        None => "hooks judge by what it is now".to_owned(),
    };
    let files = before.unwrap_or_default().differences(&now);
    let files: Vec<Value> =
        files.iter().map(|file| json!({ "path": file.path, "change": file.change.name() })).collect();
    // Of the files there are no digests: secrets may stand in them. That of the configuration has none.
    let body = json!({
        "digest": operators.loaded.digest(), "files": files, "by": answerer::who("the command line"),
    });
    let done = "the operator's configuration is pinned";
    let told = Trail::of(surroundings).write(CONFIGURATION_PINNED, body, done, output).await;
    write_private(&path, &now.text()).map_err(|source| Error::File {
        path: path.clone(),
        what: "written",
        source,
    })?;
    output.say(&format!("the operator's configuration is pinned: {what}"));
    output
        .say("hint: `backstop config pin` pins it again after a change; until then hooks refuse every call");
    Ok(told.err())
}

/// Writes a file for the user alone, whole or not at all.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    let folder = path.parent().ok_or_else(|| std::io::Error::other("it has no folder"))?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let moved = written.and_then(|()| std::fs::rename(&new, path));
    if moved.is_err() {
        // What is half written is of no use to anybody.
        let _ = std::fs::remove_file(&new);
    }
    moved
}

fn files(loaded: &Loaded) -> Vec<Value> {
    loaded.layers.iter().map(|(kind, file)| json!({ "file": file, "layer": kind.name() })).collect()
}

fn problems(error: &ConfigError) -> Vec<Value> {
    let problem = |problem: &Problem| {
        json!({
            "kind": problem.kind().name(),
            "message": problem.message(),
            "file": problem.at().file(),
            "line": problem.at().line(),
            "column": problem.at().column(),
            "hint": problem.hint(),
        })
    };
    error.problems().iter().map(problem).collect()
}

fn show(loaded: &Loaded, output: &Output) -> Result<(), Error> {
    let shown = loaded.show();
    if output.is_json() {
        return Ok(output.json(&shown)?);
    }
    let mut text = String::new();
    if loaded.layers.is_empty() {
        text.push_str("no configuration file; the built-in defaults hold\n");
    }
    for (kind, file) in &loaded.layers {
        let whose = match kind {
            LayerKind::Operator => "operator's file",
            LayerKind::Repository => "repository file",
        };
        text.push_str(&format!("{whose}: {}\n", plain(file)));
    }
    text.push('\n');
    leaves("", shown.get("config").unwrap_or(&Value::Null), &mut text);
    if !loaded.dropped.is_empty() {
        text.push_str("\nwithout effect:\n");
    }
    for dropped in &loaded.dropped {
        let line = format!("  {} at {}: {}", dropped.key, dropped.at, dropped.reason);
        text.push_str(&format!("{}\n", plain(&line)));
    }
    Ok(output.text(&text)?)
}

/// One line for each leaf: key, value, and where the value comes from.
fn leaves(path: &str, value: &Value, text: &mut String) {
    let leaf = value.as_object().filter(|fields| fields.contains_key("value") && fields.contains_key("from"));
    if let Some(fields) = leaf {
        let shown = one_line(&fields.get("value").map(Value::to_string).unwrap_or_default(), 120);
        let from = fields.get("from").and_then(Value::as_str).unwrap_or("built-in");
        text.push_str(&format!("{} = {shown}  # {}\n", plain(path), plain(from)));
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(&path, value, text);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                leaves(&format!("{path}[{index}]"), value, text);
            }
        }
        // A key without a value in force.
        Value::Null => {}
        other => text.push_str(&format!("{} = {}\n", plain(path), one_line(&other.to_string(), 120))),
    }
}
