//! From transport errors and error answers to typed errors.

use std::error::Error;
use std::io;
use std::time::Duration;

use reqwest::Url;

use super::settings::ProviderSettings;
use crate::error::{ModelError, ProviderError, ProviderErrorKind, TimeoutPhase, one_line};

/// What the innermost error says. The outer ones repeat the address.
pub(super) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    one_line(&cause.to_string(), 200)
}

fn is_reset(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

pub(super) fn transport_error(
    error: &reqwest::Error,
    endpoint: &Url,
    connect_timeout: Duration,
) -> ModelError {
    let host = host(endpoint);
    if error.is_connect() && error.is_timeout() {
        return ModelError::Timeout { phase: TimeoutPhase::Connect, after: connect_timeout };
    }
    let reason = root_cause(error);
    if error.is_connect() {
        ModelError::Connect { host, reason }
    } else {
        ModelError::Interrupted { host, reset: is_reset(error), reason }
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
