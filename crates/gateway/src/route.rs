//! Which provider a request goes to: the one its path names, else the first route whose patterns fit its model,
//! else the providers of its family. A client that speaks the envelope of a cloud is sent to a provider in that, if there is
//! one and those of the family have none.

use std::collections::BTreeMap;
use std::sync::Arc;

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
    by_model: Vec<(GlobSet, Vec<Arc<Provider>>)>,
    by_family: BTreeMap<Family, Vec<Arc<Provider>>>,
    /// Those that speak an envelope, by name.
    enveloped: Vec<(Envelope, Family, Arc<Provider>)>,
    reads_models: bool,
}

impl Routes {
    pub(crate) fn new(settings: &Settings) -> Result<Self, StartError> {
        let mut providers = BTreeMap::new();
        for (name, provider) in &settings.providers {
            let provider = Provider::new(name, provider, &settings.timeouts, &settings.proxies)?;
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
            by_model.push((models, found(&route.providers, place)?));
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
        let reads_models = !by_model.is_empty() || providers.values().any(|provider| provider.lists_models());
        Ok(Self { providers, by_model, by_family, enveloped, reads_models })
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
            model.and_then(|model| self.by_model.iter().find(|(models, _)| models.is_match(model)));
        if let Some((_, providers)) = by_model {
            return Ok(providers);
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
