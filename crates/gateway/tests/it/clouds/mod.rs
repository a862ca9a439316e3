//! Providers and clients that speak the wires in the envelopes of clouds.

mod azure;
mod bedrock;
mod converse;
mod edges;
pub(crate) mod frames;
mod vertex;

use backstop_gateway::{Cloud, Credential, Family, Settings};

use crate::support::{Upstream, secret, settings};

/// Settings in which the providers of these families are in a cloud, and have a key.
fn in_cloud(upstream: &Upstream, cloud: &Cloud, families: &[Family]) -> Settings {
    let mut settings = settings(upstream);
    for family in families {
        let provider = settings.providers.get_mut(family.as_str()).unwrap();
        provider.credential = Credential::Key(secret("cloud-key"));
        provider.cloud = Some(cloud.clone());
    }
    settings
}

/// The first line of a request.
fn line(request: &str) -> &str {
    request.lines().next().unwrap()
}

/// The body of a request.
fn body(request: &str) -> serde_json::Value {
    serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}
