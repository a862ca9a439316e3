//! The configured providers as models, made when they are first asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use backstop_agent::{Models, UnknownModel};
use backstop_config::Loaded;
use backstop_llm::{Model, ProviderClient};

use crate::lower::provider::{ProviderError, provider_settings};

type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Finds models among the providers of a configuration. One client per provider, made at its first use.
pub struct Providers {
    loaded: Loaded,
    environment: Environment,
    clients: Mutex<BTreeMap<String, Arc<dyn Model>>>,
}

impl Providers {
    /// The providers of `loaded`; keys named by `api_key_env` are looked up with `environment`.
    pub fn new(loaded: Loaded, environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { loaded, environment: Arc::new(environment), clients: Mutex::default() }
    }

    /// The provider and the model to ask: what was chosen, else what the configuration says.
    ///
    /// # Errors
    ///
    /// [`ProviderError`] when there is no such provider, its key is missing, its address is none, or no model
    /// is named.
    pub fn choose(
        &self,
        provider: Option<&str>,
        model: Option<&str>,
    ) -> Result<(String, String), ProviderError> {
        let settings = provider_settings(&self.loaded, provider, self.environment.as_ref())?;
        let name = settings.name.clone();
        let models: Vec<&str> = self.models(&name).collect();
        let configured = self.loaded.config.agent.model.as_ref().map(|model| model.value.expose());
        let model = match (model.or(configured), models.as_slice()) {
            (Some(model), _) => model,
            (None, [only]) => only,
            (None, _) => return Err(ProviderError::NoModel { provider: name }),
        };
        let model = model.to_owned();
        if !self.offers(&name, &model) {
            let known = models.join("`, `");
            return Err(ProviderError::ModelNotListed { provider: name, model, known });
        }
        self.client(&name)?;
        Ok((name, model))
    }

    fn models(&self, provider: &str) -> impl Iterator<Item = &str> {
        let section = self.loaded.config.providers.get(provider);
        section.into_iter().flat_map(|section| section.models.iter().map(|model| model.value.expose()))
    }

    fn offers(&self, provider: &str, model: &str) -> bool {
        self.models(provider).next().is_none() || self.models(provider).any(|listed| listed == model)
    }

    fn client(&self, provider: &str) -> Result<Arc<dyn Model>, ProviderError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(provider) {
            return Ok(Arc::clone(client));
        }
        let settings = provider_settings(&self.loaded, Some(provider), self.environment.as_ref())?;
        let client: Arc<dyn Model> = Arc::new(ProviderClient::new(settings)?);
        clients.insert(provider.to_owned(), Arc::clone(&client));
        Ok(client)
    }
}

impl Models for Providers {
    fn resolve(&self, provider: &str, model: &str) -> Result<Arc<dyn Model>, UnknownModel> {
        let unknown = || {
            let known = self.loaded.config.providers.iter().map(|(name, _)| name.value.as_str().to_owned());
            UnknownModel::new(provider, model, known.collect())
        };
        if !self.offers(provider, model) {
            return Err(unknown());
        }
        self.client(provider).map_err(|_| unknown())
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").finish_non_exhaustive()
    }
}
