//! `providers.<name>` as the settings of a client.

use backstop_config::{Api as ConfigApi, Loaded, Provider};
use backstop_llm::{Api, ApiKey, Authorities, InvalidProvider, ProviderSettings, RetryPolicy, Timeouts};

use super::small_file::{self, LARGEST_PEM};
use crate::locations::from_operator;

/// Keys are shorter than that; whatever is longer is another file.
const LONGEST_KEY: u64 = 64 << 10;

/// Why a provider can't be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// No provider was chosen, and there is not just one.
    #[error(
        "no model provider is chosen{}\nhint: set `agent.provider`, or give `--provider`; `docs/configuration.md` shows an example",
        known(.0)
    )]
    NotChosen(Vec<String>),
    /// The name belongs to no provider.
    #[error("no provider is called `{name}`{}", known(.providers))]
    Unknown {
        /// What was given.
        name: String,
        /// The providers that exist.
        providers: Vec<String>,
    },
    /// The variable that holds the key is not set.
    #[error(
        "the key of provider `{provider}` is missing: the environment variable `{variable}` is not set\nhint: export {variable}=..."
    )]
    MissingKey {
        /// The provider.
        provider: String,
        /// The variable.
        variable: String,
    },
    /// The file that holds the key can't be read.
    #[error("the key of provider `{provider}` can't be read from `{file}`: {reason}")]
    KeyFile {
        /// The provider.
        provider: String,
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// The file with the authorities that vouch for the provider can't be read.
    #[error("`providers.{provider}.ca_file`: `{file}` can't be read: {reason}")]
    CaFile {
        /// The provider.
        provider: String,
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// Its cloud has an envelope that only the gateway speaks.
    #[error("provider `{provider}` is in a cloud (`{cloud}`), where only the LLM proxy asks for models")]
    Cloud {
        /// The provider.
        provider: String,
        /// The cloud.
        cloud: &'static str,
    },
    /// No model is named.
    #[error("no model of provider `{provider}` is chosen\nhint: set `agent.model`, or give `--model`")]
    NoModel {
        /// The provider.
        provider: String,
    },
    /// The provider's `models` do not list the model.
    #[error("provider `{provider}` may not be asked for the model `{model}`; its `models` are `{known}`")]
    ModelNotListed {
        /// The provider.
        provider: String,
        /// What was asked for.
        model: String,
        /// What may be used.
        known: String,
    },
    /// Its address or key can't be used.
    #[error(transparent)]
    Invalid(#[from] InvalidProvider),
}

fn known(names: &[String]) -> String {
    match names {
        [] => "; the configuration has no `providers`".to_owned(),
        names => format!("; there are `{}`", names.join("`, `")),
    }
}

/// The client settings of a provider: the one called `name`, else `agent.provider`, else the only one. The
/// key is read now, so that a machine without it can use everything else.
///
/// # Errors
///
/// [`ProviderError`] when there is no such provider or its key is missing.
pub(crate) fn provider_settings(
    loaded: &Loaded,
    name: Option<&str>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<ProviderSettings, ProviderError> {
    let providers = &loaded.config.providers;
    let names = || providers.iter().map(|(name, _)| name.value.as_str().to_owned()).collect::<Vec<_>>();
    let chosen = name.or_else(|| loaded.config.agent.provider.as_ref().map(|name| name.value.as_str()));
    let (name, provider) = match chosen {
        Some(name) => providers
            .get(name)
            .map(|provider| (name, provider))
            .ok_or_else(|| ProviderError::Unknown { name: name.to_owned(), providers: names() })?,
        None => only(providers.iter().map(|(name, provider)| (name.value.as_str(), provider)))
            .ok_or_else(|| ProviderError::NotChosen(names()))?,
    };
    settings(loaded, name, provider, environment)
}

fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

fn settings(
    loaded: &Loaded,
    name: &str,
    provider: &Provider,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<ProviderSettings, ProviderError> {
    if let Some(cloud) = &provider.cloud {
        return Err(ProviderError::Cloud { provider: name.to_owned(), cloud: cloud.value.name() });
    }
    let (api, maker) = match provider.api.value {
        ConfigApi::Anthropic => (Api::AnthropicMessages, "https://api.anthropic.com"),
        ConfigApi::OpenaiChat => (Api::OpenAiChat, "https://api.openai.com/v1"),
        ConfigApi::OpenaiResponses => (Api::OpenAiResponses, "https://api.openai.com/v1"),
        ConfigApi::Gemini => (Api::Gemini, "https://generativelanguage.googleapis.com"),
    };
    let base_url = provider.base_url.as_ref().map_or(maker, |url| url.value.expose());
    Ok(ProviderSettings {
        api_key: key(loaded, name, provider, environment)?,
        authorities: authorities(loaded, name, provider)?,
        timeouts: Timeouts {
            connect: provider.connect_timeout.value.duration(),
            idle: provider.idle_timeout.value.duration(),
            ..Timeouts::default()
        },
        retry: RetryPolicy {
            max_retries: u32::try_from(provider.max_retries.value.get()).unwrap_or(u32::MAX),
            ..RetryPolicy::default()
        },
        ..ProviderSettings::new(name, api, base_url)
    })
}

/// The provider's key, read now; `None` for a provider without one.
pub(super) fn key(
    loaded: &Loaded,
    name: &str,
    provider: &Provider,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ApiKey>, ProviderError> {
    if let Some(key) = &provider.api_key {
        return Ok(Some(ApiKey::new(key.value.expose(), format!("providers.{name}.api_key"))));
    }
    if let Some(file) = &provider.api_key_file {
        let path = from_operator(loaded, file.value.expose());
        let shown = path.display().to_string();
        let unreadable = |reason: String| ProviderError::KeyFile {
            provider: name.to_owned(),
            file: shown.clone(),
            reason,
        };
        let key = small_file::read(&path, LONGEST_KEY).map_err(|error| unreadable(error.to_string()))?;
        let key = String::from_utf8(key).map_err(|_| unreadable("it is no text".to_owned()))?;
        let key = Some(key.trim()).filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| unreadable("it is empty".to_owned()))?;
        return Ok(Some(ApiKey::new(key, shown)));
    }
    let Some(variable) = &provider.api_key_env else { return Ok(None) };
    let variable = variable.value.as_str();
    match environment(variable).filter(|key| !key.is_empty()) {
        Some(key) => Ok(Some(ApiKey::new(key, variable))),
        None => Err(ProviderError::MissingKey { provider: name.to_owned(), variable: variable.to_owned() }),
    }
}

/// The authorities that vouch for the provider, read now; `None` where those of the system do.
pub(super) fn authorities(
    loaded: &Loaded,
    name: &str,
    provider: &Provider,
) -> Result<Option<Authorities>, ProviderError> {
    let Some(file) = &provider.ca_file else { return Ok(None) };
    let path = from_operator(loaded, file.value.expose());
    let source = path.display().to_string();
    let pem = small_file::read(&path, LARGEST_PEM).map_err(|error| ProviderError::CaFile {
        provider: name.to_owned(),
        file: source.clone(),
        reason: error.to_string(),
    })?;
    Ok(Some(Authorities { pem, source }))
}
