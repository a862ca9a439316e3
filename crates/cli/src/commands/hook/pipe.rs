//! A hook that judges nothing: the event goes to the service of the machine, and its answer back.
//!
//! What the service can't read itself, the texts of its user's and the workspace's configuration, goes with the event.

use std::path::Path;
use std::time::Instant;

use super::decide::{Heard, MARGIN, Unjudged, attended, folder, patience, trace_parent};
use crate::daemon::{Claims, Question, Said, Viewpoint, ask_service};
use crate::session::{Surroundings, working_directory};

/// Has the service at `socket` judge.
pub(super) fn hand_over(
    heard: &Heard<'_>,
    socket: &Path,
    surroundings: &Surroundings,
) -> Result<Said, Unjudged> {
    let folder = folder(heard.event, &working_directory()?);
    let sources = surroundings.sources_in(&folder)?;
    let layers = sources.into_iter().map(|source| (source.name.to_string(), source.text)).collect();
    let left = patience(heard.event).saturating_sub(heard.started.elapsed());
    let question = Question {
        viewpoint: Viewpoint::of_version(),
        nonce: backstop::new_token().expose().clone(),
        pinned: false,
        client: heard.client.name().to_owned(),
        event: heard.name.map(str::to_owned),
        folder: folder.to_string_lossy().into_owned(),
        patience_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        attended: attended(heard.client).into(),
        trace_parent: trace_parent().map(|parent| parent.to_string()),
        claims: Some(Claims { layers }),
    };
    ask_service(socket, &question, heard.bytes, Instant::now() + left + MARGIN)
        .map_err(|error| Unjudged(error.to_string()))
}
