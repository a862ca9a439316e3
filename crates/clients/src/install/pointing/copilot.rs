//! Copilot CLI: a provider of one's own, by variables.
//!
//! Seen with Copilot CLI 1.0.102: no file of a repository undoes them. With a login at GitHub its requests go to a
//! service that only knows tokens that it gives out itself, and are not pointed.

use super::{Gateway, Pointed, PointingError, Surroundings};
use crate::install::once::Once;

const ADDRESS: &str = "COPILOT_PROVIDER_BASE_URL";
const KIND: &str = "COPILOT_PROVIDER_TYPE";
const KEY: &str = "COPILOT_PROVIDER_API_KEY";

pub(super) fn point(
    once: &mut Once,
    gateway: &Gateway,
    given: Surroundings<'_>,
) -> Result<Pointed, PointingError> {
    let has_own = given.variable(ADDRESS).is_some();
    if !has_own && !gateway.has_openai_key {
        return Ok(Pointed::Not("with a login at GitHub its models are reached through GitHub's service"));
    }
    let kind = given.variable(KIND).map(|kind| kind.to_string_lossy().into_owned());
    let url = match kind.as_deref() {
        None | Some("openai") => gateway.versioned(),
        Some("anthropic") => gateway.url.clone(),
        Some(other) => return Err(PointingError::elsewhere(format!("`{KIND}={other}`"))),
    };
    once.variables.push((ADDRESS, url.into()));
    if !has_own {
        // The gateway has the key; it drops what the client sends for one.
        once.variables.extend([(KIND, "openai".into()), (KEY, "none".into())]);
    }
    Ok(Pointed::Yes)
}
