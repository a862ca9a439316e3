//! Devices of people that are told of questions ([web push](backstop_surfaces::WebPush)).
//!
//! A person turns the notices of a browser on and off on the page of the approvals, by forms as all others. Whoever is signed in may: the notice says
//! less than that page. Only under TLS: browsers let no other page of this console have notices.

use backstop_surfaces::{Added, DeviceError, NewDevice, WebPush};
use bytes::Bytes;
use http::{Response, StatusCode};

use super::form::Form;
use super::guard::Transport;
use super::signing::tell;
use super::{Answer, PageError, PageRequest, whole};
use crate::server::answer::AnswerBody;

/// The kinds of entries about it in the trail.
const ADDED: &str = "console.device_added";
const REMOVED: &str = "console.device_removed";

fn push<'a>(request: &PageRequest<'a>) -> Option<&'a WebPush> {
    request.shared.surfaces.as_ref().filter(|_| request.transport == Transport::Secure)?.web_push()
}

/// Returns the key that devices subscribe to, if people can have theirs told.
pub(super) fn key<'a>(request: &PageRequest<'a>) -> Option<&'a str> {
    let key = push(request)?.public_key();
    key.inspect_err(|error| tracing::warn!(%error, "no device can be told: there is no key for web push"))
        .ok()
}

/// Has a device told.
pub(super) async fn add(request: &PageRequest<'_>, form: &Form) -> Answer {
    let push = push(request).ok_or(PageError::Nothing)?;
    let holder = request.seat.holder();
    let user = holder.user.as_deref().ok_or(PageError::Scope)?;
    let endpoint = form.one("endpoint")?;
    let new = NewDevice {
        user: user.to_owned(),
        token: holder.id.clone(),
        endpoint: endpoint.to_owned(),
        p256dh: form.one("p256dh")?.to_owned(),
        auth: form.one("auth")?.to_owned(),
    };
    let added = match push.add(new).await {
        Ok(added) => added,
        Err(error) => return Ok(refused(&error)),
    };
    // What is not in the trail is not told.
    if added != Added::Known && !tell(request.engine, ADDED, holder).await {
        return match push.remove(user, endpoint).await {
            Ok(_) => Err(PageError::Store),
            Err(error) => Ok(refused(&error)),
        };
    }
    let text = match added {
        Added::New | Added::Known => "This device is told.",
        Added::InPlaceOfOldest => "This device is told, and the oldest of your devices no longer.",
    };
    Ok(plain(StatusCode::OK, text))
}

/// Has a device told no longer.
pub(super) async fn remove(request: &PageRequest<'_>, form: &Form) -> Answer {
    let push = push(request).ok_or(PageError::Nothing)?;
    let holder = request.seat.holder();
    let user = holder.user.as_deref().ok_or(PageError::Scope)?;
    match push.remove(user, form.one("endpoint")?).await {
        Ok(true) => {
            // It is over, whether or not that can be written down.
            tell(request.engine, REMOVED, holder).await;
            Ok(plain(StatusCode::OK, "This device is told no longer."))
        }
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
