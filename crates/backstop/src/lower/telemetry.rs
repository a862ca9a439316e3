//! `telemetry.traces` as the settings of an exporter.

use backstop_config::{ConfigError, Loaded, Problem, ProblemKind, Text, Traces};
use backstop_telemetry::Settings;

use super::small_file::{self, LARGEST_PEM};
use crate::locations::from_operator;

/// Whether no variable of the environment has a say in where spans go, and in who is believed to be there: `SSL_CERT_FILE` names other
/// authorities than the system's, and `HTTPS_PROXY` a proxy, which is not used then.
pub(crate) fn is_fixed(traces: &Traces) -> bool {
    let is_written = |text: &Text| !text.is_from_environment();
    let endpoint = traces.endpoint.as_ref().map(|endpoint| &endpoint.value);
    let is_here = endpoint.is_some_and(|endpoint| endpoint.expose().starts_with("http://"));
    let file = traces.ca_file.as_ref().map(|file| &file.value);
    endpoint.is_some_and(is_written) && (is_here || file.is_some_and(is_written))
}

/// The settings of the exporter; `None` where there are no traces. `is_direct`: whatever proxies the environment names.
pub(crate) fn traces(loaded: &Loaded, is_direct: bool) -> Result<Option<Settings>, ConfigError> {
    let traces = &loaded.config.telemetry.traces;
    let Some(endpoint) = &traces.endpoint else { return Ok(None) };
    let headers = traces.headers.iter();
    Ok(Some(Settings {
        endpoint: endpoint.value.expose().to_owned(),
        headers: headers
            .map(|(name, value)| (name.value.as_str().to_owned(), value.value.expose().to_owned()))
            .collect(),
        sample: traces.sample.value.get(),
        timeout: traces.timeout.value.duration(),
        queue: usize::try_from(traces.queue.value.get()).unwrap_or(usize::MAX),
        resource: resource(traces),
        version: env!("CARGO_PKG_VERSION"),
        authorities: authorities(loaded, traces)?,
        is_direct,
    }))
}

fn resource(traces: &Traces) -> Vec<(String, String)> {
    let service = traces.service.as_ref().map_or("backstop", |service| service.value.as_str());
    let own = [
        ("service.name", service),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("telemetry.sdk.name", "backstop"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ];
    let others = traces.resource.iter().map(|(name, value)| (name.value.as_str(), value.value.expose()));
    own.into_iter().chain(others).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn authorities(loaded: &Loaded, traces: &Traces) -> Result<Option<Vec<u8>>, ConfigError> {
    let Some(file) = &traces.ca_file else { return Ok(None) };
    let path = from_operator(loaded, file.value.expose());
    match small_file::read(&path, LARGEST_PEM) {
        Ok(pem) => Ok(Some(pem)),
        Err(error) => {
            let message = format!("`{}` can't be read: {error}", path.display());
            Err(Problem::new(ProblemKind::BadValue, file.at.clone(), message).into())
        }
    }
}
