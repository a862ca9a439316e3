//! `telemetry.traces` as the settings of an exporter.

use std::fs::File;
use std::io::Read as _;

use backstop_config::{ConfigError, Loaded, Problem, ProblemKind, Traces};
use backstop_telemetry::Settings;

use crate::locations::from_operator;

/// All authorities that a system trusts take a quarter of that.
const LARGEST_CA_FILE: u64 = 1 << 20;

/// The settings of the exporter; `None` where there are no traces.
pub(crate) fn traces(loaded: &Loaded) -> Result<Option<Settings>, ConfigError> {
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
    let mut pem = Vec::new();
    match File::open(&path).and_then(|file| file.take(LARGEST_CA_FILE).read_to_end(&mut pem)) {
        Ok(_) => Ok(Some(pem)),
        Err(error) => {
            let message = format!("`{}` can't be read: {error}", path.display());
            Err(Problem::new(ProblemKind::BadValue, file.at.clone(), message).into())
        }
    }
}
