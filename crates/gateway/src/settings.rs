//! What a gateway is started with. Lowered from the configuration once; nothing reads that later.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::{AgentId, Secret};
use backstop_store::Store;
use backstop_surfaces::{Callback, Desk};

pub use backstop_http_client::Proxies;

use crate::chat::Chat;
use crate::configuration::Configuration;
use crate::credentials::Renewed;
use crate::endpoint::Family;
use crate::identity::{PersonIssuer, TokenIssuer};
use crate::operations::AllowedOperation;
use crate::quota::Quotas;
use crate::sight::SharedFolders;

/// What a gateway is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// By whose certificate it is known; without one, it speaks in the clear.
    pub tls: Option<Tls>,
    /// The token that opens the gateway without saying whose request it is. Made anew for each process.
    pub token: Secret,
    /// Agents that have a token of their own.
    pub agents: BTreeMap<AgentId, Secret>,
    /// Who vouches for callers by signed tokens.
    pub issuers: Vec<TokenIssuer>,
    /// At whom people sign in to the console, besides by tokens.
    pub sign_in: Option<PersonIssuer>,
    /// Agents and users that are known by name, and how much callers may ask.
    pub quotas: Quotas,
    /// Where access tokens of agents are kept, each of which ends some day. It is read twice a second.
    pub store: Option<Arc<dyn Store>>,
    /// The token of operators, by which they are shown metrics. Without one, nobody is.
    pub operator_token: Option<Secret>,
    /// Where operators are answered: there alone, and nobody else. Without it, at [`listen`](Self::listen). Port 0 takes a free one.
    pub operators_listen: Option<SocketAddr>,
    /// What cosigns checkpoints of other trails; without it, nobody is answered at `/-/witness`.
    pub witness: Option<Arc<backstop_trail::Witness>>,
    /// Names of models, and patterns of them, that records and metrics tell apart besides those of routes and providers.
    pub known_models: Vec<String>,
    /// What models cost, for records and metrics.
    pub pricing: Option<Arc<dyn Pricing>>,
    /// The most that may be used of budgets, by their name and what is counted (`requests`, `tokens`, `cost`), for the console.
    pub budgets: BTreeMap<(String, String), u64>,
    /// Names by which the gateway may be called besides those of this machine (`Host` headers).
    pub hosts: Vec<String>,
    /// The providers, by name.
    pub providers: BTreeMap<String, Provider>,
    /// Operations that pass although nobody here reads them, besides those that are known to be harmless.
    pub allow: Vec<AllowedOperation>,
    /// Headers of requests and answers that pass on where hooks decide or the operator pays, besides those that are known to be
    /// harmless.
    pub headers: Vec<String>,
    /// Which models go where; the first that matches.
    pub routes: Vec<ModelRoute>,
    /// Where everything else goes: the providers of each family, in the order in which they are asked.
    pub defaults: BTreeMap<Family, Vec<String>>,
    /// How often one provider is asked again before the next one, or before its failure is passed on.
    pub max_retries: u32,
    /// What is the most.
    pub limits: Limits,
    /// What is the longest.
    pub timeouts: Timeouts,
    /// Whether WebSockets are opened; without it, whoever asks for one is told to send requests.
    pub websockets: Option<WebSockets>,
    /// How providers are reached through the proxies of the environment.
    pub proxies: Proxies,
    /// Who decides about what services post to surfaces. Without it, nothing is posted here.
    pub surfaces: Option<Arc<Desk>>,
    /// Servers that programs at the API can have called when a person has decided, by the names that their requests give.
    pub callbacks: BTreeMap<String, Arc<Callback>>,
    /// Folders of this machine by which calls at the API are judged, where whoever asks works in them.
    pub shared_folders: SharedFolders,
    /// What the API says of the configuration. Without it, it says nothing.
    pub configuration: Option<Arc<dyn Configuration>>,
    /// Who runs the own agent for people of the console. Without it, nobody talks with it there.
    pub chat: Option<Arc<dyn Chat>>,
}

impl Settings {
    /// A gateway on a free port of this machine without any provider, which `token` opens.
    pub fn new(token: Secret) -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            tls: None,
            token,
            agents: BTreeMap::new(),
            issuers: Vec::new(),
            sign_in: None,
            quotas: Quotas::default(),
            store: None,
            operator_token: None,
            operators_listen: None,
            witness: None,
            known_models: Vec::new(),
            pricing: None,
            budgets: BTreeMap::new(),
            hosts: Vec::new(),
            providers: BTreeMap::new(),
            allow: Vec::new(),
            headers: Vec::new(),
            routes: Vec::new(),
            defaults: BTreeMap::new(),
            max_retries: 0,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            websockets: None,
            proxies: Proxies::default(),
            surfaces: None,
            callbacks: BTreeMap::new(),
            shared_folders: SharedFolders::default(),
            configuration: None,
            chat: None,
        }
    }
}

/// What models cost.
pub trait Pricing: fmt::Debug + Send + Sync + 'static {
    /// What tokens of a model cost, in millionths of the operator's currency; `None` if nobody gave its price.
    fn micros(&self, model: &str, usage: TokenUsage) -> Option<u64>;
}

/// The certificates of a gateway.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Its own, and those of the authorities between it and one that clients trust, as PEM.
    pub certificates: Pem,
    /// The private key of the first of them, as PEM.
    pub key: Secret,
    /// The authorities of which one has to vouch for each client; without them, any client may connect.
    pub clients: Option<Pem>,
}

/// Certificates as PEM. Anything else in it is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pem {
    /// The text.
    pub text: Vec<u8>,
    /// Where it is from, for people.
    pub source: String,
}

/// A provider to which requests are passed on.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Whose paths, credentials and errors it has.
    pub family: Family,
    /// Its address, such as `https://api.example.com` or `https://example.com/v1`.
    pub base_url: String,
    /// How it knows who pays.
    pub credential: Credential,
    /// The cloud that it is in, if that has addresses and envelopes of its own.
    pub cloud: Option<Cloud>,
    /// By whose certificates it is known, where the address is encrypted.
    pub trust: Trust,
    /// The models that may be asked for; any, if empty.
    pub models: Vec<String>,
    /// The longest time to a connection.
    pub connect_timeout: Duration,
    /// The longest silence within an answer.
    pub idle_timeout: Duration,
}

impl Provider {
    /// A provider of any model that the client's own credentials pay for: 10 s to connect, 120 s of silence.
    pub fn passing(family: Family, base_url: &str) -> Self {
        Self {
            family,
            base_url: base_url.to_owned(),
            credential: Credential::Client,
            cloud: None,
            trust: Trust::System,
            models: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
        }
    }
}

/// A cloud that hosts models of others, and has their wires in addresses and envelopes of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cloud {
    /// Azure OpenAI, where a model is asked for by the name of its deployment.
    Azure {
        /// The version of its API, for addresses by deployment. Without one, the addresses are those of `/openai/v1`.
        api_version: Option<String>,
    },
    /// Amazon Bedrock.
    Bedrock {
        /// The region, by which requests are signed.
        region: String,
    },
    /// Vertex AI.
    Vertex {
        /// The project that pays.
        project: String,
        /// The location below which models are asked for.
        region: String,
    },
}

/// The operator's credentials at Amazon.
#[derive(Clone, Debug)]
pub struct AwsCredentials {
    /// The id of the key.
    pub key_id: String,
    /// The key.
    pub key: Secret,
    /// What stands beside a key that is only lent.
    pub token: Option<Secret>,
}

/// How a provider knows who pays.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The client's own key is passed on.
    Client,
    /// This key is sent, and the client's never leaves.
    Key(Secret),
    /// Requests are signed by this key, and the client's never leaves. Only Bedrock knows signatures.
    Aws(AwsCredentials),
    /// Credentials that are had when they are needed, and the client's never leave. Only clouds know them.
    Renewed(Renewed),
    /// There should be a key, and there is none: every request is refused for this reason.
    Missing(String),
}

/// Whose certificates make a provider trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The authorities that the system trusts.
    #[default]
    System,
    /// These authorities and no others.
    Only {
        /// Their certificates, as PEM. Anything else in it is skipped.
        pem: Vec<u8>,
        /// Where they are from, for people.
        source: String,
    },
}

/// Models that go to certain providers.
#[derive(Clone, Debug)]
pub struct ModelRoute {
    /// Patterns of model names, such as `claude-*`.
    pub models: Vec<String>,
    /// The providers, in the order in which they are asked.
    pub providers: Vec<String>,
}

/// What is the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body, as sent and also decoded.
    pub body_bytes: usize,
    /// Bytes a second with which a request's body comes at least, once it takes more than 10 times
    /// [`Timeouts::body`]. Only the time in which the client is waited for counts.
    pub body_rate: u64,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Bytes of a decoded answer that was sent compressed although nobody asked for it.
    pub decoded_answer_bytes: u64,
    /// Connections at once. The requests of some more are refused as overload, but for those of operators; yet more wait. What
    /// holds at the start holds to the end.
    pub connections: usize,
    /// Requests at once; more are refused as overload.
    pub requests: usize,
    /// Bytes of request bodies in memory at once; beyond, requests are refused as overload.
    pub buffered_bytes: usize,
}

impl Default for Limits {
    /// 32 MiB, 16 KiB/s, 64 KiB, 256 MiB, 4 096, 2 048, 512 MiB.
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            body_rate: 16 << 10,
            head_bytes: 64 << 10,
            decoded_answer_bytes: 256 << 20,
            connections: 4_096,
            requests: 2_048,
            buffered_bytes: 512 << 20,
        }
    }
}

/// What is the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a request's head is there, and between two requests of a connection.
    pub head: Duration,
    /// Between two pieces of a request's body.
    pub body: Duration,
    /// From the request to the head of the provider's answer.
    pub first_byte: Duration,
    /// Until a client reads more of an answer that is ready for it.
    pub write: Duration,
    /// How long running answers may go on once the gateway is to stop.
    pub drain: Duration,
}

impl Default for Timeouts {
    /// 30 s, 30 s, 10 min, 1 min, 10 s.
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            body: Duration::from_secs(30),
            first_byte: Duration::from_secs(600),
            write: Duration::from_secs(60),
            drain: Duration::from_secs(10),
        }
    }
}

/// How long a WebSocket may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebSockets {
    /// Without a request, between two answers.
    pub idle: Duration,
    /// In all, between two answers.
    pub total: Duration,
}

impl Default for WebSockets {
    /// 10 min, 1 h.
    fn default() -> Self {
        Self { idle: Duration::from_secs(600), total: Duration::from_secs(3_600) }
    }
}
