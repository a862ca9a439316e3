//! Which provider a request goes to: the one its path names, else the first route whose patterns fit its model,
//! else the providers of its family. A client that speaks the envelope of a cloud is sent to a provider in that, if there is
//! one and those of the family have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_http_client::tls::{Tls, Trust};
use globset::GlobSet;

use crate::cloud::{self, Envelope};
use crate::endpoint::{Endpoint, Family};
use crate::error::{Failure, StartError};
use crate::settings::Settings;
use crate::upstream::{Provider, globs};

/// The ways of requests.
#[derive(Debug)]
pub(crate) struct Routes {
    providers: BTreeMap<String, Arc<Provider>>,
    by_model: Vec<ByModel>,
    by_family: BTreeMap<Family, Vec<Arc<Provider>>>,
    /// Those that speak an envelope, by name.
    enveloped: Vec<(Envelope, Family, Arc<Provider>)>,
    /// Who is asked for what only Bedrock has.
    in_bedrock: Vec<Arc<Provider>>,
    reads_models: bool,
}

/// Where requests for some models go.
#[derive(Debug)]
struct ByModel {
    models: GlobSet,
    providers: Vec<Arc<Provider>>,
    /// Those of them that are in Bedrock.
    in_bedrock: Vec<Arc<Provider>>,
}

fn those_in_bedrock(providers: &[Arc<Provider>]) -> Vec<Arc<Provider>> {
    let is_there =
        |provider: &&Arc<Provider>| cloud::envelope(provider.cloud.as_ref()) == Some(Envelope::Bedrock);
    providers.iter().filter(is_there).cloned().collect()
}

impl Routes {
    pub(crate) fn new(settings: &Settings) -> Result<Self, StartError> {
        // The system's certificates are read once, and only if a provider needs them.
        let system = Tls::new(Trust::System);
        let mut providers = BTreeMap::new();
        for (name, provider) in &settings.providers {
            let provider = Provider::new(name, provider, &settings.timeouts, &settings.proxies, &system)?;
            providers.insert(name.clone(), Arc::new(provider));
        }
        let found = |names: &[String], place: &str| -> Result<Vec<_>, StartError> {
            let missing =
                |name: &String| StartError::NoProvider { name: name.clone(), place: place.to_owned() };
            names.iter().map(|name| providers.get(name).cloned().ok_or_else(|| missing(name))).collect()
        };
        let mut by_model = Vec::new();
        for route in &settings.routes {
            let place = "`gateway.routes`";
            let models = globs(&route.models)
                .map_err(|pattern| StartError::Pattern { pattern, place: place.to_owned() })?;
            let providers = found(&route.providers, place)?;
            let in_bedrock = those_in_bedrock(&providers);
            by_model.push(ByModel { models, providers, in_bedrock });
        }
        let mut by_family = BTreeMap::new();
        for (family, names) in &settings.defaults {
            by_family.insert(*family, found(names, &format!("`gateway.providers.{}`", family.as_str()))?);
        }
        let envelope = |provider: &Arc<Provider>| {
            let envelope = cloud::envelope(provider.cloud.as_ref())?;
            Some((envelope, provider.family, Arc::clone(provider)))
        };
        let enveloped = providers.values().filter_map(envelope).collect();
        let chosen = by_family.get(&Family::Anthropic).map_or(&[][..], Vec::as_slice);
        let in_bedrock = match those_in_bedrock(chosen) {
            chosen if !chosen.is_empty() => chosen,
            _ => {
                let all: Vec<_> = providers.values().cloned().collect();
                those_in_bedrock(&all).into_iter().take(1).collect()
            }
        };
        let reads_models = !by_model.is_empty() || providers.values().any(|provider| provider.lists_models());
        Ok(Self { providers, by_model, by_family, enveloped, in_bedrock, reads_models })
    }

    /// Whether the way of a request depends on its model.
    pub(crate) fn reads_models(&self) -> bool {
        self.reads_models
    }

    /// The providers to ask, in order; never none.
    pub(crate) fn find(
        &self,
        named: Option<&str>,
        endpoint: Endpoint,
        spoken: Option<Envelope>,
        model: Option<&str>,
    ) -> Result<&[Arc<Provider>], Failure> {
        if let Some(name) = named {
            let provider = self.providers.get(name);
            let provider = provider.ok_or_else(|| Failure::UnknownProvider(name.to_owned()))?;
            return Ok(std::slice::from_ref(provider));
        }
        let by_model =
            model.and_then(|model| self.by_model.iter().find(|route| route.models.is_match(model)));
        if endpoint.is_of_bedrock() {
            let found = by_model.map_or(&self.in_bedrock, |route| &route.in_bedrock);
            return if found.is_empty() { Err(Failure::NoBedrock) } else { Ok(found) };
        }
        if let Some(route) = by_model {
            return Ok(&route.providers);
        }
        let providers = self.by_family.get(&endpoint.family).map_or(&[][..], Vec::as_slice);
        let speaks = |provider: &Arc<Provider>| cloud::envelope(provider.cloud.as_ref()) == spoken;
        let of_cloud = self.enveloped.iter().find(|(envelope, family, _)| {
            Some(*envelope) == spoken && *family == endpoint.family && !providers.iter().any(speaks)
        });
        if let Some((_, _, provider)) = of_cloud {
            return Ok(std::slice::from_ref(provider));
        }
        if providers.is_empty() { Err(Failure::NoProvider(endpoint.family)) } else { Ok(providers) }
    }
}
