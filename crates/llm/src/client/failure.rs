//! From transport errors and error answers to typed errors.

use std::io;

use backstop_http_client::{ConnectError, Error, cause, root};
use url::Url;

use super::settings::ProviderSettings;
use crate::error::{ModelError, ProviderError, ProviderErrorKind, TimeoutPhase, one_line};

fn is_reset(error: &Error) -> bool {
    cause::<io::Error>(error).is_some_and(|error| {
        matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    })
}

pub(super) fn transport_error(error: &Error, endpoint: &Url) -> ModelError {
    let host = host(endpoint);
    let reason = one_line(&root(error), 200);
    match error {
        Error::Address(_) | Error::Setup(_) => ModelError::Setup { reason },
        Error::Connect(ConnectError::Timeout(after)) => {
            ModelError::Timeout { phase: TimeoutPhase::Connect, after: *after }
        }
        Error::Connect(_) => ModelError::Connect { host, reason },
        Error::Broken(_) | Error::Cut(_) | Error::Timeout(_) | Error::TooLarge(_) => {
            ModelError::Interrupted { host, reset: is_reset(error), reason }
        }
    }
}

fn host(endpoint: &Url) -> String {
    let name = endpoint.host_str().unwrap_or_default();
    match endpoint.port() {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    }
}

/// Adds what the reader can do, and takes out what must not be shown.
pub(super) fn explain(mut error: ProviderError, settings: &ProviderSettings, model: &str) -> ModelError {
    let base_url = &settings.base_url;
    match error.kind {
        ProviderErrorKind::Auth => {
            // Providers quote keys in this answer.
            error.message = "it refuses the key, or the key may not do this".to_owned();
            error.hint = Some(match &settings.api_key {
                Some(key) => format!("check the key in `{}` and that it is one for `{base_url}`", key.source),
                None => format!("provider `{}` has no key configured", settings.name),
            });
        }
        ProviderErrorKind::NotFound => {
            error.hint = Some(format!("check the model `{model}` and the base URL `{base_url}`"));
        }
        ProviderErrorKind::Unexpected if (300..400).contains(&error.status) => {
            error.message = "a redirect, which is not followed".to_owned();
            error.hint = Some(format!("set the base URL to where `{base_url}` has moved"));
        }
        ProviderErrorKind::InvalidRequest => {
            error.hint = Some(format!("the request went to `{base_url}` for the model `{model}`"));
        }
        ProviderErrorKind::RateLimit
        | ProviderErrorKind::Quota
        | ProviderErrorKind::Overloaded
        | ProviderErrorKind::ContextLength
        | ProviderErrorKind::RequestTooLarge
        | ProviderErrorKind::ContentFilter
        | ProviderErrorKind::Server
        | ProviderErrorKind::Unexpected => {}
    }
    for secret in
        settings.api_key.iter().map(|key| &key.value).chain(settings.headers.iter().map(|(_, value)| value))
    {
        if !secret.expose().is_empty() {
            error.message = error.message.replace(secret.expose(), "***");
            error.code = error.code.map(|code| code.replace(secret.expose(), "***"));
        }
    }
    ModelError::Provider(error)
}
