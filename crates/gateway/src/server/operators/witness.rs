//! A witness for other trails: `POST /-/witness/add-checkpoint`, as [tlog-witness](https://c2sp.org/tlog-witness) has it.
//!
//! Whoever asks proves who they are by the signature on the checkpoint, by a key that the configuration names, and brings no token. Whoever has
//! no such signature is told no more than that. What is answered under which status is the protocol's; what the witness keeps, and when it signs,
//! is [`backstop_trail::Witness`]'s.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstop_trail::{AddCheckpoint, MAX_ADD_CHECKPOINT_BYTES, NotCosigned, SIZE_TYPE, Witness};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::told;
use crate::server::answer::AnswerBody;
use crate::server::api::read_within;

/// Where checkpoints are posted.
pub(super) const PATH: &str = "/-/witness/add-checkpoint";
/// How many are judged at once: each holds a thread that waits for the disk.
pub(super) const MOST_AT_ONCE: usize = 4;
/// How long a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a request that was signed waits for others.
const WAIT: Duration = Duration::from_secs(2);
const TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request to cosign a checkpoint.
pub(super) async fn add_checkpoint(
    witness: &Arc<Witness>,
    room: &Arc<Semaphore>,
    body: Incoming,
) -> Response<AnswerBody> {
    let Some(asked) = read(body).await else {
        return refused(StatusCode::BAD_REQUEST, "this is no request to add a checkpoint");
    };
    // Whoever is slow, or has signed nothing, takes no room.
    if let Err(why) = witness.admits(&asked) {
        return refused(status(&why), &why.to_string());
    }
    let Ok(Ok(permit)) = timeout(WAIT, Arc::clone(room).acquire_owned()).await else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "others are being answered; ask again");
    };
    let witness = Arc::clone(witness);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let added = tokio::task::spawn_blocking(move || {
        // As long as the thread is at work, whether or not anybody still waits for the answer.
        let _permit = permit;
        witness.add(&asked, now)
    })
    .await;
    match added {
        Ok(Ok(line)) => told(StatusCode::OK, TEXT, line),
        Ok(Err(NotCosigned::Conflict(size))) => told(StatusCode::CONFLICT, SIZE_TYPE, format!("{size}\n")),
        Ok(Err(NotCosigned::Trail(error))) => {
            tracing::error!(%error, "this witness can't read or write what it keeps, and signs nothing");
            refused(StatusCode::INTERNAL_SERVER_ERROR, "this witness can't sign now")
        }
        Ok(Err(why)) => refused(status(&why), &why.to_string()),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "this witness can't sign now"),
    }
}

fn status(why: &NotCosigned) -> StatusCode {
    match why {
        NotCosigned::UnknownLog => StatusCode::NOT_FOUND,
        NotCosigned::Signature => StatusCode::FORBIDDEN,
        NotCosigned::Backwards | NotCosigned::TooLong(_) => StatusCode::BAD_REQUEST,
        NotCosigned::Conflict(_) | NotCosigned::OtherRoot => StatusCode::CONFLICT,
        NotCosigned::Proof => StatusCode::UNPROCESSABLE_ENTITY,
        NotCosigned::Trail(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn refused(status: StatusCode, why: &str) -> Response<AnswerBody> {
    told(status, TEXT, format!("{why}\n"))
}

/// Reads a request; `None` for anything else, and for what is too large or takes too long.
async fn read(body: Incoming) -> Option<AddCheckpoint> {
    let whole = read_within(body, MAX_ADD_CHECKPOINT_BYTES, MAX_ADD_CHECKPOINT_BYTES, PATIENCE).await.ok()?;
    std::str::from_utf8(&whole).ok()?.parse().ok()
}
