//! Copilot CLI: a provider of one's own, or the address of GitHub's service, by variables.
//!
//! Seen with Copilot CLI 1.0.102: no file of a repository undoes the variables of a provider. With a login at GitHub it asks
//! GitHub's service, at `COPILOT_API_URL` before anything else (read in its program; a login can't be tried here).

use super::{Gateway, LoginProvider, Pointed, PointingError, Surroundings};
use crate::install::once::Once;

/// The service behind a login at GitHub.
pub(super) const LOGIN: LoginProvider =
    LoginProvider { name: "copilot", base_url: "https://api.githubcopilot.com" };

const ADDRESS: &str = "COPILOT_PROVIDER_BASE_URL";
const KIND: &str = "COPILOT_PROVIDER_TYPE";
const KEY: &str = "COPILOT_PROVIDER_API_KEY";
const TRANSPORT: &str = "COPILOT_PROVIDER_TRANSPORT";
const SERVICE: &str = "COPILOT_API_URL";

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    let has_own = given.variable(ADDRESS).is_some();
    if !has_own && !gateway.has_openai_key {
        if let Some(other) = given.variable(SERVICE) {
            return Err(PointingError::elsewhere(format!("`{SERVICE}={}`", other.to_string_lossy())));
        }
        once.variables.push((SERVICE, gateway.of_provider(LOGIN.name).into()));
        return Ok(Pointed::Yes);
    }
    let kind = given.variable(KIND).map(|kind| kind.to_string_lossy().into_owned());
    let url = match kind.as_deref() {
        None | Some("openai") => gateway.versioned(),
        Some("anthropic") => gateway.url.clone(),
        Some(other) => return Err(PointingError::elsewhere(format!("`{KIND}={other}`"))),
    };
    // A WebSocket is judged as well, but not by a provider that speaks Chat Completions.
    once.variables.extend([(ADDRESS, url.into()), (TRANSPORT, "http".into())]);
    if !has_own {
        // The gateway has the key; it drops what the client sends for one.
        once.variables.extend([(KIND, "openai".into()), (KEY, "none".into())]);
    }
    Ok(Pointed::Yes)
}
