//! Devices of people that are told of questions ([web push](backstop_surfaces::WebPush)).
//!
//! A person turns the notices of a browser on and off on the page of the approvals, by forms as all others. Whoever is signed in may: the notice says
//! less than that page. Only under TLS: browsers let no other page of this console have notices.

use std::sync::Arc;

use backstop_engine::Engine;
use backstop_surfaces::{Added, Desk, DeviceError, NewDevice, WebPush};
use bytes::Bytes;
use http::{Response, StatusCode};

use super::form::Form;
use super::guard::Transport;
use super::signing::tell;
use super::{Answer, PageError, PageRequest, whole};
use crate::access::Holder;
use crate::server::answer::AnswerBody;

/// The kinds of entries about it in the trail.
const ADDED: &str = "console.device_added";
const REMOVED: &str = "console.device_removed";

fn push<'a>(request: &PageRequest<'a>) -> Option<&'a WebPush> {
    request.shared.surfaces.as_ref().filter(|_| request.transport == Transport::Secure)?.web_push()
}

/// Returns the desk that tells devices, where people can have theirs told.
fn desk(request: &PageRequest<'_>) -> Result<Arc<Desk>, PageError> {
    push(request).and(request.shared.surfaces.clone()).ok_or(PageError::Nothing)
}

/// Has a device told, and says so in the trail. INVARIANT (no silent gap): it goes to its end though whoever asked is gone.
async fn added(
    desk: Arc<Desk>,
    engine: Engine,
    holder: Holder,
    new: NewDevice,
) -> Result<Result<Added, DeviceError>, PageError> {
    let push = desk.web_push().ok_or(PageError::Nothing)?;
    let (user, endpoint) = (new.user.clone(), new.endpoint.clone());
    let added = push.add(new).await;
    // What is not in the trail is not told.
    if !matches!(added, Ok(Added::New | Added::InPlaceOfOldest)) || tell(&engine, ADDED, &holder).await {
        return Ok(added);
    }
    match push.remove(&user, &endpoint).await {
        Ok(_) => Err(PageError::Store),
        Err(error) => Ok(Err(error)),
    }
}

/// Has a device told no longer, and says so in the trail, which goes to its end just so. Returns whether it was told.
async fn removed(
    desk: Arc<Desk>,
    engine: Engine,
    holder: Holder,
    user: String,
    endpoint: String,
) -> Result<bool, DeviceError> {
    let Some(push) = desk.web_push() else { return Ok(false) };
    let was_told = push.remove(&user, &endpoint).await?;
    if was_told {
        // It is over, whether or not that can be written down.
        tell(&engine, REMOVED, &holder).await;
    }
    Ok(was_told)
}

/// Returns the key that devices subscribe to, if people can have theirs told.
pub(super) fn key<'a>(request: &PageRequest<'a>) -> Option<&'a str> {
    may(request).ok()?;
    let key = push(request)?.public_key();
    key.inspect_err(|error| tracing::warn!(%error, "no device can be told: there is no key for web push"))
        .ok()
}

/// A device is told for as long as a token counts: of whoever has none, nobody would know when to stop.
fn may(request: &PageRequest<'_>) -> Result<(), PageError> {
    if request.seat.holder().vouched.is_none() { Ok(()) } else { Err(PageError::Scope) }
}

/// Has a device told.
pub(super) async fn add(request: &PageRequest<'_>, form: &Form) -> Answer {
    may(request)?;
    let holder = request.seat.holder();
    let user = holder.user.as_deref().ok_or(PageError::Scope)?;
    let new = NewDevice {
        user: user.to_owned(),
        token: holder.id.clone(),
        endpoint: form.one("endpoint")?.to_owned(),
        p256dh: form.one("p256dh")?.to_owned(),
        auth: form.one("auth")?.to_owned(),
    };
    let adding = tokio::spawn(added(desk(request)?, request.engine.clone(), holder.clone(), new));
    let added = match adding.await.map_err(|_| PageError::Store)?? {
        Ok(added) => added,
        Err(error) => return Ok(refused(&error)),
    };
    let text = match added {
        Added::New | Added::Known => "This device is told.",
        Added::InPlaceOfOldest => "This device is told, and the oldest of your devices no longer.",
    };
    Ok(plain(StatusCode::OK, text))
}

/// Has a device told no longer.
pub(super) async fn remove(request: &PageRequest<'_>, form: &Form) -> Answer {
    may(request)?;
    let holder = request.seat.holder();
    let user = holder.user.as_deref().ok_or(PageError::Scope)?.to_owned();
    let endpoint = form.one("endpoint")?.to_owned();
    let removing = removed(desk(request)?, request.engine.clone(), holder.clone(), user, endpoint);
    match tokio::spawn(removing).await.map_err(|_| PageError::Store)? {
        Ok(true) => Ok(plain(StatusCode::OK, "This device is told no longer.")),
        Ok(false) => Ok(plain(StatusCode::OK, "This device was not told.")),
        Err(error) => Ok(refused(&error)),
    }
}

fn refused(error: &DeviceError) -> Response<AnswerBody> {
    let status = match error {
        DeviceError::Endpoint(_) | DeviceError::Keys => StatusCode::BAD_REQUEST,
        DeviceError::Taken => StatusCode::CONFLICT,
        DeviceError::Full => StatusCode::SERVICE_UNAVAILABLE,
        DeviceError::File(_) => {
            // Where the file lies is nothing for whoever asks.
            tracing::warn!(%error, "a device could not be told");
            return plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "The list of devices can't be read or written now.",
            );
        }
    };
    plain(status, &error.to_string())
}

fn plain(status: StatusCode, text: &str) -> Response<AnswerBody> {
    whole(status, "text/plain; charset=utf-8", Bytes::copy_from_slice(text.as_bytes()))
}
