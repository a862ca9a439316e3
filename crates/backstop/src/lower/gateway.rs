//! `gateway` and `providers` as the settings of a gateway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_config::{
    Api as ConfigApi, CloudName, GatewayOperation as ConfigOperation, GatewayProviders, LiveApprovals,
    LiveBlock, LiveCalls, LiveText, Loaded, Name, Provider as ConfigProvider, Spanned, UnjudgedMedia,
};
use backstop_gateway::inspect::{
    BlockedForm, HookSettings, TextMode, ToolCalls, Unasked, UnjudgedMedia as Media,
};
use backstop_gateway::{
    AllowedOperation, AwsCredentials, Cloud, Credential, Family, Limits, ModelRoute, Pem, Pricing, Provider,
    Proxies, Settings, SharedFolders, Timeouts, Tls, Trust, WebSockets,
};
use backstop_guards::hooks::seen;
use backstop_guards::limits::{Micros, Prices};
use backstop_guards::real_path;
use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::{AgentId, Eyes, Secret, Seen};
use backstop_trail::{VerifierKey, Witness};
use uuid::Uuid;

use super::callers::quotas;
use super::credentials::renewed;
use super::identity::issuers;
use super::limits::prices;
use super::provider::{ProviderError, authorities, key};
use super::small_file::{self, LARGEST_PEM};
use crate::locations::{data_folder, from_operator};

/// Why a configuration can't be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayConfigError {
    /// Nothing says which of them is to be asked.
    #[error(
        "the providers `{}` speak the {family} API, and nothing says which of them is to be asked\nhint: set `gateway.providers.{family}`, in the order in which they are to be tried",
        .providers.join("`, `")
    )]
    Ambiguous {
        /// The API.
        family: &'static str,
        /// The providers.
        providers: Vec<String>,
    },
    /// A provider is to be asked what it does not speak.
    #[error(
        "provider `{provider}` does not speak the {family} API, but `gateway.providers.{family}` names it"
    )]
    WrongFamily {
        /// The API.
        family: &'static str,
        /// The provider.
        provider: String,
    },
    /// A file with certificates can't be read.
    #[error("`{file}`, which `gateway.tls.{key}` names, can't be read: {reason}")]
    Tls {
        /// The key.
        key: &'static str,
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// A secret can't be read.
    #[error("`gateway.{key}` can't be used: {why}")]
    Secret {
        /// The key below `gateway`, without `_file`.
        key: &'static str,
        /// Why not.
        why: String,
    },
    /// A file with authorities of an issuer can't be read.
    #[error(
        "`{file}`, the `ca_file` of the issuer `{issuer}` in `gateway.identity`, can't be read: {reason}\nhint: it is a PEM file with the authorities that vouch for the issuer; paths are relative to the configuration's folder"
    )]
    IssuerAuthorities {
        /// The issuer.
        issuer: String,
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// A file with authorities of the identity provider can't be read.
    #[error(
        "`{file}`, the `ca_file` of `gateway.console.oidc`, can't be read: {reason}\nhint: it is a PEM file with the authorities that vouch for the identity provider; paths are relative to the configuration's folder"
    )]
    SignInAuthorities {
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// It can't be a witness.
    #[error("`gateway.witness` can't be used: {0}")]
    Witness(String),
    /// It can't be known whom to trust.
    #[error(transparent)]
    Authorities(ProviderError),
}

/// Returns what cosigns checkpoints of other trails; `None` where there is none that it watches.
fn witness(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Arc<Witness>>, GatewayConfigError> {
    let section = &loaded.config.gateway.witness;
    let wrong = |why: String| GatewayConfigError::Witness(why);
    if section.logs.is_empty() {
        let why = "`name` counts for nothing without `logs`\nhint: `logs` has the keys of the trails, as `backstop audit verify` prints them";
        return if section.name.is_none() { Ok(None) } else { Err(wrong(why.to_owned())) };
    }
    let logs = section.logs.iter().map(|log| {
        log.value.expose().parse::<VerifierKey>().map_err(|error| wrong(format!("{}: {error}", log.at)))
    });
    let logs = logs.collect::<Result<_, _>>()?;
    let name = section.name.as_ref().ok_or_else(|| {
        wrong(
            "`name` is missing\nhint: under which name does it sign? For example `witness.example/w1`"
                .to_owned(),
        )
    })?;
    let folder = data_folder(environment).ok_or_else(|| wrong(crate::NoDataFolder.to_string()))?;
    let (name, key) = (name.value.expose().to_owned(), folder.join("witness.key"));
    let witness = Witness { name, folder: folder.join("witness"), key, logs };
    // It is made now, so that whoever configures it is told what is wrong with its name.
    witness.cosigner().map_err(|error| wrong(error.to_string()))?;
    Ok(Some(Arc::new(witness)))
}

/// Why a secret can't be used.
pub(super) const fn unreadable(key: &'static str, why: String) -> GatewayConfigError {
    GatewayConfigError::Secret { key, why }
}

/// The settings of a gateway. Keys are read now; a provider whose key is missing refuses requests and says why,
/// so that the others can be used. Where the configuration has no token, a new one is made.
///
/// # Errors
///
/// [`GatewayConfigError`] when it is not clear where requests go, or by whose certificates the gateway or a provider is
/// known.
pub fn gateway_settings(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, GatewayConfigError> {
    let config = &loaded.config.gateway;
    let token = super::secrets::secret(loaded, config.token.as_ref(), config.token_file.as_ref())
        .map_err(|why| unreadable("token", why))?;
    let operators = &config.operators;
    let operator_token =
        super::secrets::secret(loaded, operators.token.as_ref(), operators.token_file.as_ref())
            .map_err(|why| unreadable("operators.token", why))?;
    let agents = config
        .agents
        .iter()
        .filter_map(|(name, agent)| Some((agent_id(name), secret(agent.token.as_ref()?.value.expose()))));
    let mut settings = Settings {
        listen: config.listen.value.0,
        tls: tls(loaded)?,
        agents: agents.collect(),
        issuers: issuers(loaded)?,
        sign_in: super::console::sign_in(loaded)?,
        quotas: quotas(loaded),
        known_models: known_models(loaded),
        pricing: pricing(loaded),
        budgets: super::limits::most_of_budgets(loaded),
        operator_token,
        operators_listen: config.operators.listen.as_ref().map(|listen| listen.value.0),
        witness: witness(loaded, environment)?,
        hosts: config.hosts.iter().map(|host| host.value.as_str().to_owned()).collect(),
        providers: providers(loaded, environment)?,
        allow: config.allow.iter().filter_map(|operation| allowed(&operation.value)).collect(),
        headers: config.headers.iter().map(|name| name.value.as_str().to_owned()).collect(),
        routes: routes(loaded),
        max_retries: u32::try_from(config.max_retries.value.get()).unwrap_or(u32::MAX),
        limits: limits(loaded),
        timeouts: timeouts(loaded),
        websockets: websockets(loaded),
        proxies: Proxies::of(environment),
        shared_folders: shared_folders(loaded),
        ..Settings::new(token.unwrap_or_else(new_token))
    };
    for family in Family::ALL {
        let asked = asked(loaded, family)?;
        let asked = match asked.is_empty() {
            true if config.passthrough.value => vec![add_maker(family, &mut settings.providers)],
            true => continue,
            false => asked,
        };
        settings.defaults.insert(family, asked);
    }
    Ok(settings)
}

/// The folders by which calls at the API are judged.
fn shared_folders(loaded: &Loaded) -> SharedFolders {
    let folders = loaded.config.gateway.api.shared_folders.iter();
    SharedFolders::new(folders.map(|folder| folder.value.expose().to_owned()), Arc::new(OwnDisk))
}

/// The disk as this process sees it.
struct OwnDisk;

impl Eyes for OwnDisk {
    fn file(&self, path: &str) -> Seen {
        seen(path)
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        real_path(path)
    }
}

/// The certificates of the listener.
fn tls(loaded: &Loaded) -> Result<Option<Tls>, GatewayConfigError> {
    let config = &loaded.config.gateway.tls;
    let (Some(certificates), Some(key)) = (&config.cert_file, &config.key_file) else { return Ok(None) };
    let read = |key: &'static str, file: &str| {
        let path = from_operator(loaded, file);
        let source = path.display().to_string();
        match small_file::read(&path, LARGEST_PEM) {
            Ok(text) => Ok(Pem { text, source }),
            Err(error) => Err(GatewayConfigError::Tls { key, file: source, reason: error.to_string() }),
        }
    };
    let Pem { text, source } = read("key_file", key.value.expose())?;
    let text = String::from_utf8(text).map_err(|_| GatewayConfigError::Tls {
        key: "key_file",
        file: source,
        reason: "it is no text".to_owned(),
    })?;
    let clients = config.client_ca_file.as_ref();
    let clients = clients.map(|file| read("client_ca_file", file.value.expose())).transpose()?;
    Ok(Some(Tls {
        certificates: read("cert_file", certificates.value.expose())?,
        key: Secret::new(text),
        clients,
    }))
}

fn allowed(operation: &ConfigOperation) -> Option<AllowedOperation> {
    AllowedOperation::new(operation.method(), operation.path())
}

fn agent_id(name: &Spanned<Name>) -> AgentId {
    AgentId::new(name.value.as_str())
}

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

/// A new token for a gateway: 244 random bits, with a name in front by which a leaked one can be told.
pub fn new_token() -> Secret {
    Secret::new(format!("backstop-{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
}

const fn family(api: ConfigApi) -> Family {
    match api {
        ConfigApi::Anthropic => Family::Anthropic,
        ConfigApi::OpenaiChat | ConfigApi::OpenaiResponses => Family::OpenAi,
        ConfigApi::Gemini => Family::Gemini,
    }
}

const fn maker(family: Family) -> &'static str {
    match family {
        Family::Anthropic => "https://api.anthropic.com",
        Family::OpenAi => "https://api.openai.com",
        Family::Gemini => "https://generativelanguage.googleapis.com",
    }
}

fn providers(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, Provider>, GatewayConfigError> {
    let providers = loaded.config.providers.iter();
    providers
        .map(|(name, provider)| {
            let name = name.value.as_str();
            Ok((name.to_owned(), lowered(loaded, name, provider, environment)?))
        })
        .collect()
}

fn lowered(
    loaded: &Loaded,
    name: &str,
    provider: &ConfigProvider,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Provider, GatewayConfigError> {
    let family = family(provider.api.value);
    let credential = match key(loaded, name, provider, environment) {
        Ok(Some(key)) => Credential::Key(key.value),
        Ok(None) if provider.aws_credentials.is_some() => aws_credentials(name, environment),
        Ok(None) => renewed(loaded, name, provider, environment).unwrap_or(Credential::Client),
        Err(error) => Credential::Missing(error.to_string()),
    };
    let authorities = authorities(loaded, name, provider).map_err(GatewayConfigError::Authorities)?;
    let trust = authorities.map_or(Trust::System, |file| Trust::Only { pem: file.pem, source: file.source });
    let text = |name: &Option<Spanned<Name>>| name.as_ref().map(|name| name.value.as_str().to_owned());
    let (region, project) = (text(&provider.region), text(&provider.project));
    let cloud = provider.cloud.as_ref().map(|cloud| match cloud.value {
        CloudName::Azure => Cloud::Azure { api_version: text(&provider.api_version) },
        CloudName::Bedrock => Cloud::Bedrock { region: region.unwrap_or_default() },
        CloudName::Vertex => {
            Cloud::Vertex { project: project.unwrap_or_default(), region: region.unwrap_or_default() }
        }
    });
    let address = provider.base_url.as_ref().map(|url| url.value.expose().to_owned());
    let base_url = address.unwrap_or_else(|| match &cloud {
        Some(Cloud::Bedrock { region }) => format!("https://bedrock-runtime.{region}.amazonaws.com"),
        Some(Cloud::Vertex { region, .. }) if region == "global" => {
            "https://aiplatform.googleapis.com".to_owned()
        }
        Some(Cloud::Vertex { region, .. }) => format!("https://{region}-aiplatform.googleapis.com"),
        Some(Cloud::Azure { .. }) | None => maker(family).to_owned(),
    });
    Ok(Provider {
        family,
        cloud,
        base_url,
        credential,
        trust,
        models: provider.models.iter().map(|model| model.value.expose().to_owned()).collect(),
        connect_timeout: provider.connect_timeout.value.duration(),
        idle_timeout: provider.idle_timeout.value.duration(),
    })
}

/// The credentials of the environment by which requests to Amazon are signed.
fn aws_credentials(name: &str, environment: &dyn Fn(&str) -> Option<String>) -> Credential {
    let variable = |variable: &str| environment(variable).filter(|value| !value.is_empty());
    let found = |name: &'static str| variable(name).ok_or(name);
    match (found("AWS_ACCESS_KEY_ID"), found("AWS_SECRET_ACCESS_KEY")) {
        (Ok(key_id), Ok(key)) => Credential::Aws(AwsCredentials {
            key_id,
            key: Secret::new(key),
            token: variable("AWS_SESSION_TOKEN").map(Secret::new),
        }),
        (Err(missing), _) | (_, Err(missing)) => {
            let variable = missing.to_owned();
            Credential::Missing(ProviderError::MissingKey { provider: name.to_owned(), variable }.to_string())
        }
    }
}

/// The models that the configuration names besides those of providers and routes, which metrics tell apart.
fn known_models(loaded: &Loaded) -> Vec<String> {
    let priced = loaded.config.budgets.prices.iter().map(|price| price.model.value.expose());
    let allowed = loaded.config.models.iter().flat_map(|access| &access.allow);
    let all = priced.chain(allowed.map(|model| model.value.expose()));
    all.chain(loaded.config.agent.model.iter().map(|model| model.value.expose())).map(str::to_owned).collect()
}

/// The operator's prices.
#[derive(Debug)]
struct OperatorPrices(Prices);

impl Pricing for OperatorPrices {
    fn micros(&self, model: &str, usage: TokenUsage) -> Option<u64> {
        self.0.cost(model, usage).map(|Micros(cost)| cost)
    }
}

/// What models cost; `None` where the configuration does not say. A pattern that is none is told by whoever makes budgets of it.
fn pricing(loaded: &Loaded) -> Option<Arc<dyn Pricing>> {
    let section = &loaded.config.budgets;
    let prices = prices(section).ok().filter(|_| !section.prices.is_empty());
    prices.map(|prices| Arc::new(OperatorPrices(prices)) as Arc<dyn Pricing>)
}

fn names(names: &[Spanned<Name>]) -> Vec<String> {
    names.iter().map(|name| name.value.as_str().to_owned()).collect()
}

fn routes(loaded: &Loaded) -> Vec<ModelRoute> {
    let routes = loaded.config.gateway.routes.iter();
    routes
        .map(|route| ModelRoute {
            models: route.models.value.iter().map(|model| model.value.expose().to_owned()).collect(),
            providers: names(&route.providers.value),
        })
        .collect()
}

/// The providers to ask for a family: those that are written down, else the agent's, else the only one.
fn asked(loaded: &Loaded, wanted: Family) -> Result<Vec<String>, GatewayConfigError> {
    let config = &loaded.config;
    let speaks =
        |name: &str| config.providers.get(name).is_some_and(|provider| family(provider.api.value) == wanted);
    let GatewayProviders { anthropic, openai, gemini } = &config.gateway.providers;
    let written = names(match wanted {
        Family::Anthropic => anthropic,
        Family::OpenAi => openai,
        Family::Gemini => gemini,
    });
    if let Some(other) = written.iter().find(|name| !speaks(name)) {
        let family = wanted.as_str();
        return Err(GatewayConfigError::WrongFamily { family, provider: other.clone() });
    }
    if !written.is_empty() {
        return Ok(written);
    }
    let agents = config.agent.provider.as_ref().map(|name| name.value.as_str());
    if let Some(name) = agents.filter(|name| speaks(name)) {
        return Ok(vec![name.to_owned()]);
    }
    let all = config.providers.iter().map(|(name, _)| name.value.as_str());
    let speaking: Vec<_> = all.filter(|name| speaks(name)).map(str::to_owned).collect();
    if speaking.len() > 1 {
        return Err(GatewayConfigError::Ambiguous { family: wanted.as_str(), providers: speaking });
    }
    Ok(speaking)
}

/// Adds the maker of an API as a provider that gets the client's own key, and says how it is called.
fn add_maker(family: Family, providers: &mut BTreeMap<String, Provider>) -> String {
    let plain = family.as_str().to_owned();
    let name = if providers.contains_key(&plain) { format!("{plain}-maker") } else { plain };
    providers.insert(name.clone(), Provider::passing(family, maker(family)));
    name
}

fn limits(loaded: &Loaded) -> Limits {
    let limits = &loaded.config.gateway.limits;
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Limits {
        body_bytes: size(limits.body_bytes.value.get()),
        body_rate: limits.body_rate.value.get(),
        head_bytes: size(limits.head_bytes.value.get()),
        connections: size(limits.connections.value.get()),
        requests: size(limits.requests.value.get()),
        buffered_bytes: size(limits.buffered_bytes.value.get()),
        ..Limits::default()
    }
}

fn timeouts(loaded: &Loaded) -> Timeouts {
    let timeouts = &loaded.config.gateway.timeouts;
    Timeouts {
        head: timeouts.head.value.duration(),
        body: timeouts.body.value.duration(),
        first_byte: timeouts.first_byte.value.duration(),
        write: timeouts.write.value.duration(),
        drain: timeouts.drain.value.duration(),
    }
}

fn websockets(loaded: &Loaded) -> Option<WebSockets> {
    let websockets = &loaded.config.gateway.websockets;
    websockets.enabled.value.then(|| WebSockets {
        idle: websockets.idle.value.duration(),
        total: Duration::from_millis(websockets.total.value.get()),
    })
}

/// How a gateway judges its traffic.
pub fn gateway_hooks(loaded: &Loaded) -> HookSettings {
    let hooks = &loaded.config.gateway.hooks;
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    HookSettings {
        text: hooks.text.as_ref().map(|text| match text.value {
            LiveText::Pass => TextMode::Pass,
            LiveText::Window => TextMode::Window,
            LiveText::Hold => TextMode::Hold,
        }),
        blocked: match hooks.blocked.value {
            LiveBlock::Answer => BlockedForm::Answer,
            LiveBlock::Error => BlockedForm::Error,
        },
        tool_calls: match hooks.tool_calls.value {
            LiveCalls::Off => ToolCalls::Leave,
            LiveCalls::JudgeBlocks => ToolCalls::Judge(Unasked::Leave),
            LiveCalls::Judge => ToolCalls::Judge(match hooks.approvals.value {
                LiveApprovals::File => Unasked::Deny,
                LiveApprovals::Wait => Unasked::Wait,
            }),
        },
        refusals: u32::try_from(hooks.refusals.value.get()).unwrap_or(0),
        keep_alive: hooks.keep_alive.value.duration(),
        call_bytes: bytes(hooks.call_bytes.value.get()),
        answer_bytes: bytes(hooks.answer_bytes.value.get()),
        answer_tokens: loaded.config.budgets.answer_tokens.value.get(),
        trust_user: loaded.config.budgets.trust_user.value,
        unjudged_media: match hooks.unjudged_media.value {
            UnjudgedMedia::Pass => Media::Pass,
            UnjudgedMedia::Refuse => Media::Refuse,
        },
        client: None,
        sight: shared_folders(loaded).proxied(),
    }
}
