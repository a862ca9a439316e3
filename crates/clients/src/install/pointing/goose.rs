//! goose: addresses of three of its providers in variables, and a choice among just these.
//!
//! Read in its documentation, not tried: variables beat `config.yaml`; `--provider` beats variables and what a recipe names;
//! providers for planning and for the lead of two models have variables of their own. Every other provider of its many has
//! an address that nobody points, so choosing one is an error. The choice is pinned by a variable, whatever the file was
//! read as.
//!
//! Limits: a session that is resumed, and a part of a recipe, may bring a provider of their own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Gateway, Pointed, PointingError, Surroundings, has, read, values_of};
use crate::install::once::Once;

const OPTION: &str = "--provider";
const CHOICE: &str = "GOOSE_PROVIDER";
/// Those that it asks now and then, and which are the chosen one unless something else is said.
const OTHERS: [&str; 2] = ["GOOSE_LEAD_PROVIDER", "GOOSE_PLANNER_PROVIDER"];
/// The providers whose addresses are said here.
const SPOKEN: &[&str] = &["anthropic", "openai", "google"];

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    let file = users_file(given);
    let text = read(&file)?;
    let option = values_of(&once.arguments, OPTION, OPTION).last().map(|name| (*name).to_owned());
    let by_option = option.map(|name| (format!("`{OPTION} {name}`"), name));
    let chosen = by_option.or_else(|| said(CHOICE, &text, &file, given)).ok_or_else(|| {
        let nowhere = format!("its provider, which neither `{CHOICE}` nor `{}` names,", file.display());
        PointingError::elsewhere(nowhere)
    })?;
    let others = OTHERS.map(|name| said(name, &text, &file, given).unwrap_or_else(|| chosen.clone()));
    for (what, name) in std::iter::once(&chosen).chain(&others) {
        if !SPOKEN.contains(&name.as_str()) {
            return Err(PointingError::elsewhere(what.clone()));
        }
    }
    let (_, chosen) = chosen;
    if once.arguments.first().is_some_and(|first| first == "run") && !has(&once.arguments, OPTION) {
        once.arguments.splice(1..1, [OPTION.into(), OsString::from(&chosen)]);
    }
    once.variables.push((CHOICE, chosen.into()));
    once.variables.extend(OTHERS.into_iter().zip(others).map(|(name, (_, other))| (name, other.into())));
    // It joins its paths to these, and without a slash the last segment would give way.
    let url = format!("{}/", gateway.url);
    let variables = ["ANTHROPIC_HOST", "OPENAI_HOST", "GOOGLE_HOST"];
    once.variables.extend(variables.map(|name| (name, url.clone().into())));
    once.variables.push(("OPENAI_BASE_PATH", "v1/chat/completions".into()));
    Ok(Pointed::Yes)
}

/// What a variable says, or its like in the user's file, and where that stands.
fn said(name: &str, text: &str, file: &Path, given: Surroundings<'_>) -> Option<(String, String)> {
    if let Some(value) = given.variable(name) {
        let value = value.to_string_lossy().into_owned();
        return Some((format!("`{name}={value}`"), value));
    }
    let value = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':')).next_back()?;
    let value = value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| (format!("`{name}: {value}` in `{}`", file.display()), value.to_owned()))
}

fn users_file(given: Surroundings<'_>) -> PathBuf {
    let base = given.variable("XDG_CONFIG_HOME");
    base.map_or_else(|| given.folders.home.join(".config"), PathBuf::from).join("goose/config.yaml")
}
