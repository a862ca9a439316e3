//! `gateway`: the LLM proxy that `backstop serve` and `backstop run` start. Only the operator can set it: a repository
//! that could set any of it could send conversations elsewhere, or let others in.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::config_value::{ConfigValue, Entries, item, section};
use crate::place::{Setting, Spanned};
use crate::problem::{Problem, ProblemKind, suggestion};
use crate::reader::Reader;
use crate::text::{Secret, SecretFile, Text};
use crate::values::{Millis, Name, Whole, plain_text};
use backstop_yaml::{Kind, Node};

use super::api::GatewayApi;
use super::callers::{GatewayAgent, GatewayQuotas, GatewayUser};
use super::console::GatewayConsole;
use super::identity::GatewayIdentity;
use super::surfaces::{not_once, report};
use super::{GatewayHooks, Provider, callers};

section! {
    /// The LLM proxy that `backstop serve` and `backstop run` start.
    pub struct Gateway {
        /// Where `backstop serve` listens, as address and port. Port 0 takes a free one.
        listen ("listen"): Setting<Listen> = Listen::default(), OperatorOnly;
        /// By whose certificate it is known. Without one, it speaks in the clear.
        tls ("tls"): GatewayTls, OperatorOnly;
        /// Host names by which clients may call it, besides those of this machine.
        hosts ("hosts"): Vec<Spanned<Name>>, OperatorOnly;
        /// The token that clients must bring, usually `${VAR}`. Without it, each start makes a new one.
        token ("token"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `token`.
        token_file ("token_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// Agents that are known by a token of their own: one that stands here, that was made by `backstop token create`, or that an
        /// issuer made. Nobody is one of them without.
        agents ("agents"): Entries<Name, GatewayAgent>, OperatorOnly;
        /// Who vouches for callers besides.
        identity ("identity"): GatewayIdentity, OperatorOnly;
        /// Users that a token names (`user_claim` of an issuer, or `backstop token create --user`).
        users ("users"): Entries<Name, GatewayUser>, OperatorOnly;
        /// How much callers may ask at once and in a minute, unless their own entry says otherwise.
        quotas ("quotas"): GatewayQuotas, OperatorOnly;
        /// What those may see who run it.
        operators ("operators"): GatewayOperators, OperatorOnly;
        /// Where people open the console, and how they sign in there besides by tokens.
        console ("console"): GatewayConsole, OperatorOnly;
        /// The decision API.
        api ("api"): GatewayApi, OperatorOnly;
        /// Whose audit trails it is a witness for, so that cutting one off or writing it anew shows.
        witness ("witness"): GatewayWitness, OperatorOnly;
        /// Which providers are asked, in this order, unless a route says otherwise.
        providers ("providers"): GatewayProviders, OperatorOnly;
        /// Which models go to which providers. The first route that fits counts.
        routes ("routes"): Vec<GatewayRoute>, OperatorOnly;
        /// Operations that pass although nobody here can read them, besides lists of models and files: single ones, as
        /// method and path. A segment in braces stands for any one, but not for the first behind a version or a prefix.
        allow ("allow"): Vec<Spanned<GatewayOperation>>, OperatorOnly;
        /// Headers that pass on although no table of the proxy has them, of requests and of answers. Where hooks decide, or the
        /// operator's key pays, others are left out: some servers take another method or path from a header, and a text in one
        /// passes those who judge.
        headers ("headers"): Vec<Spanned<Name>>, OperatorOnly;
        /// Whether requests of an API for which no provider is configured go to its maker, with the client's own key.
        passthrough ("passthrough"): Setting<bool> = true, OperatorOnly;
        /// How often a provider that cannot be reached or answers 429 or 5xx is asked again, before the next one is.
        max_retries ("max_retries"): Setting<Whole<0, 10>> = Whole::clamped(0), OperatorOnly;
        /// How traffic is judged.
        hooks ("hooks"): GatewayHooks, Nested;
        /// What is the most.
        limits ("limits"): GatewayLimits, OperatorOnly;
        /// What is the longest.
        timeouts ("timeouts"): GatewayTimeouts, OperatorOnly;
        /// Whether clients may open WebSockets.
        websockets ("websockets"): GatewayWebSockets, OperatorOnly;
    }
}

section! {
    /// Other trails for which it is a witness: it cosigns their checkpoints at `/-/witness/add-checkpoint` (C2SP's tlog-witness) once it is
    /// proved that a trail only grew since, and keeps the last one of each.
    pub struct GatewayWitness {
        /// Under which name it signs, such as `witness.example/w1`. It must not change.
        name ("name"): Option<Spanned<Text>>, OperatorOnly;
        /// The keys of the trails, as `backstop audit verify` prints them there. Two of one trail count both, as while a key is replaced.
        logs ("logs"): Vec<Spanned<Text>>, OperatorOnly;
    }
}

section! {
    /// The certificate of the listener of `backstop serve`. SIGHUP reads the files anew.
    pub struct GatewayTls {
        /// A PEM file with its certificate, and those of the authorities between it and one that clients trust.
        cert_file ("cert_file"): Option<Spanned<Text>>, OperatorOnly;
        /// A PEM file with the private key of the certificate.
        key_file ("key_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// A PEM file with the authorities of which one has to vouch for each client. Without it, a token is enough.
        client_ca_file ("client_ca_file"): Option<Spanned<Text>>, OperatorOnly;
    }
}

section! {
    /// Who may see more of the proxy below `/-/` than that it runs.
    pub struct GatewayOperators {
        /// The token of operators, usually `${VAR}`, of at least 16 characters. No agent may be able to read it. Without it,
        /// nobody is an operator.
        token ("token"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `token`.
        token_file ("token_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// Where they are answered: an address and a port, or a port of this machine. Then what is below `/-/` is found there alone,
        /// and nothing else is. Without it, at `gateway.listen`.
        listen ("listen"): Option<Spanned<ListenHere>>, OperatorOnly;
    }
}

section! {
    /// Which providers are asked, for each API. Each is a name under `providers`.
    pub struct GatewayProviders {
        /// For requests of Anthropic's API. Without it, the configured provider that speaks it.
        anthropic ("anthropic"): Vec<Spanned<Name>>, OperatorOnly;
        /// For requests of OpenAI's API. Without it, the configured provider that speaks one of its wire formats.
        openai ("openai"): Vec<Spanned<Name>>, OperatorOnly;
        /// For requests of the Gemini API. Without it, the configured provider that speaks it.
        gemini ("gemini"): Vec<Spanned<Name>>, OperatorOnly;
    }
}

item! {
    /// Models that go to certain providers.
    pub struct GatewayRoute {
        /// Names of models, as glob patterns such as `claude-*`.
        models ("models"): Spanned<Vec<Spanned<Text>>>, OperatorOnly;
        /// The providers, in the order in which they are asked. The next one is asked when one cannot be reached or
        /// answers 429 or 5xx.
        providers ("providers"): Spanned<Vec<Spanned<Name>>>, OperatorOnly;
    }
    check: check;
}

section! {
    /// What is the most.
    pub struct GatewayLimits {
        /// Bytes of a request's body, compressed or not.
        body_bytes ("max_body_bytes"): Setting<Whole<1_024, 1_073_741_824>> = Whole::clamped(33_554_432), OperatorOnly;
        /// Bytes a second with which a request's body has to come, once it takes more than 10 times `gateway.timeouts.bodyMs`. Only
        /// the time counts in which the client is waited for.
        body_rate ("min_body_rate"): Setting<Whole<1, 1_073_741_824>> = Whole::clamped(16_384), OperatorOnly;
        /// Bytes of a request's head.
        head_bytes ("max_head_bytes"): Setting<Whole<8_192, 1_048_576>> = Whole::clamped(65_536), OperatorOnly;
        /// Connections at once. On a few more only what is below `/-/` is answered, and everything else is refused as overload; yet
        /// more have to wait.
        connections ("max_connections"): Setting<Whole<1, 1_000_000>> = Whole::clamped(4_096), OperatorOnly;
        /// Requests at once. More are refused as overload.
        requests ("max_requests"): Setting<Whole<1, 1_000_000>> = Whole::clamped(2_048), OperatorOnly;
        /// Bytes of requests in memory at once. Requests beyond that are refused as overload.
        buffered_bytes ("max_buffered_bytes"): Setting<Whole<1_048_576, 1_099_511_627_776>> = Whole::clamped(536_870_912), OperatorOnly;
    }
}

section! {
    /// What is the longest, in milliseconds.
    pub struct GatewayTimeouts {
        /// Until the head of a request is there, and between two requests of a connection.
        head ("headMs"): Setting<Millis> = Millis::clamped(30_000), OperatorOnly;
        /// Between two pieces of a request's body.
        body ("bodyMs"): Setting<Millis> = Millis::clamped(30_000), OperatorOnly;
        /// From a request to the beginning of the provider's answer. An answer in one piece begins when it is ready.
        first_byte ("firstByteMs"): Setting<Millis> = Millis::clamped(600_000), OperatorOnly;
        /// Until a client reads more of an answer that is ready for it. Then its connection is closed.
        write ("writeMs"): Setting<Millis> = Millis::clamped(60_000), OperatorOnly;
        /// How long running answers may go on when the gateway is to stop.
        drain ("drainMs"): Setting<Millis> = Millis::clamped(10_000), OperatorOnly;
    }
}

section! {
    /// WebSockets of OpenAI Responses (`/v1/responses`) and Realtime (`/v1/realtime`, in text), whose turns are judged as requests are.
    pub struct GatewayWebSockets {
        /// Whether they are opened. Otherwise a client that asks for one is answered 426, and sends its requests.
        enabled ("enabled"): Setting<bool> = false, OperatorOnly;
        /// How long a connection may stay without a request, in milliseconds.
        idle ("idleMs"): Setting<Millis> = Millis::clamped(600_000), OperatorOnly;
        /// How long a connection may stay in all, in milliseconds. An answer that is under way then is not cut off.
        total ("totalMs"): Setting<Whole<1_000, 86_400_000>> = Whole::clamped(3_600_000), OperatorOnly;
    }
}

/// An address and a port to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl Default for Listen {
    /// 127.0.0.1:8484.
    fn default() -> Self {
        Self((std::net::Ipv4Addr::LOCALHOST, 8484).into())
    }
}

impl ConfigValue for Listen {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        const WHAT: &str = "an address and a port such as `127.0.0.1:8484`";
        let text = plain_text(node, cx, WHAT)?;
        text.parse().ok().map(Self).or_else(|| cx.expected(node, WHAT))
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1 })
    }

    fn show(&self) -> Value {
        Value::from(self.0.to_string())
    }
}

/// An address and a port to listen on, or a port of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenHere(pub SocketAddr);

impl ConfigValue for ListenHere {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        const WHAT: &str = "a port, or an address and a port such as `127.0.0.1:9484`";
        let here = |port: u16| Self((std::net::Ipv4Addr::LOCALHOST, port).into());
        let read = match &node.kind {
            Kind::Integer(port) => u16::try_from(*port).ok().map(here),
            _ => {
                let text = plain_text(node, cx, WHAT)?;
                let port = text.strip_prefix(':').unwrap_or(text);
                port.parse().ok().map(here).or_else(|| text.parse().ok().map(Self))
            }
        };
        read.or_else(|| cx.expected(node, WHAT))
    }

    fn schema() -> Value {
        json!({ "type": ["string", "integer"], "minimum": 0, "maximum": 65535, "minLength": 1 })
    }

    fn show(&self) -> Value {
        Value::from(self.0.to_string())
    }
}

/// An operation of a provider: `GET /v1/batches/{id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayOperation {
    method: String,
    path: String,
}

impl GatewayOperation {
    /// Returns its method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns its path, in which a segment in braces stands for any one.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `None` if it is none, or not a single one: something in the path has to say which.
    fn parse(text: &str) -> Option<Self> {
        let (method, path) = text.split_once(' ')?;
        let is_known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].contains(&method);
        let segments = || path.trim_end_matches('/').split('/').skip(1);
        let is_path = path.starts_with('/') && segments().all(|segment| !matches!(segment, "" | "." | ".."));
        let is_plain = !path.contains(|c: char| c.is_whitespace() || "*?#%;\\".contains(c));
        (is_known && is_path && is_plain && names_an_operation(segments()))
            .then(|| Self { method: method.to_owned(), path: path.to_owned() })
    }
}

/// Returns whether something says which operation a path is about: behind everything that is only a way to one (versions,
/// the names that servers put in front of them, the model that is asked) a word has to stand. The gateway opens nothing
/// else.
fn names_an_operation<'a>(segments: impl Iterator<Item = &'a str>) -> bool {
    let is_front = |segment: &str| {
        let segment = segment.to_ascii_lowercase();
        let version = segment.strip_prefix('v');
        version.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            || ["openai", "api", "compatible-mode"].contains(&segment.as_str())
    };
    let is_of_model =
        |segment: &str| ["deployments", "engines"].iter().any(|name| segment.eq_ignore_ascii_case(name));
    let mut rest = segments.skip_while(|segment| is_front(segment));
    let mut first = rest.next();
    while first.is_some_and(is_of_model) {
        first = rest.by_ref().skip(1).find(|segment| !is_front(segment));
    }
    first.is_some_and(|segment| !segment.starts_with('{'))
}

impl ConfigValue for GatewayOperation {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        const WHAT: &str = "a method and the path of a single operation such as `GET /v1/batches/{id}`";
        let text = plain_text(node, cx, WHAT)?;
        Self::parse(text).or_else(|| cx.expected(node, WHAT))
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^(GET|HEAD|POST|PUT|PATCH|DELETE) /[^*?#%;\\\\\\s]+$" })
    }

    fn show(&self) -> Value {
        Value::from(format!("{} {}", self.method, self.path))
    }
}

impl GatewayRoute {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let lists = [
            ("`models`", &self.models.at, self.models.value.is_empty()),
            ("`providers`", &self.providers.at, self.providers.value.is_empty()),
        ];
        let mut complete = true;
        for (name, at, _) in lists.into_iter().filter(|(_, _, is_empty)| *is_empty) {
            let message = format!("{name} of {} must not be empty", cx.subject());
            cx.report(Problem::new(ProblemKind::BadValue, at.clone(), message));
            complete = false;
        }
        complete.then_some(())
    }
}

impl Gateway {
    /// Returns whether the operator chose the token that clients must bring.
    #[must_use]
    pub const fn has_token(&self) -> bool {
        self.token.is_some() || self.token_file.is_some()
    }

    /// Checks that each token stands in one place.
    fn check_tokens(&self, cx: &mut Reader<'_>) {
        let own = (&self.token, &self.token_file);
        let operators = (&self.operators.token, &self.operators.token_file);
        for (token, file) in [own, operators] {
            // Where neither is there, there is none: that is no problem, and has no place.
            let Some(at) = file.as_ref().map(|file| &file.at) else { continue };
            report(not_once([("token", token, "token_file", file)], at, false), cx);
        }
    }

    /// Checks that every provider that is named exists, and that a certificate has its key.
    pub(super) fn check(&self, providers: &Entries<Name, Provider>, cx: &mut Reader<'_>) {
        self.tls.check(cx);
        self.api.check(cx);
        self.identity.check(&self.agents, cx);
        self.console.check(&self.hosts, cx);
        self.check_tokens(cx);
        callers::check(&self.agents, &self.users, cx);
        let defaults = [&self.providers.anthropic, &self.providers.openai, &self.providers.gemini];
        let routed = self.routes.iter().map(|route| &route.providers.value);
        for name in defaults.into_iter().chain(routed).flatten() {
            if providers.get(name.value.as_str()).is_none() {
                let known: Vec<&str> = providers.iter().map(|(name, _)| name.value.as_str()).collect();
                let message = format!("no provider is called `{}`", name.value.as_str());
                let hint = suggestion(name.value.as_str(), &known, "providers");
                cx.report(Problem::new(ProblemKind::UnknownName, name.at.clone(), message).with_hint(hint));
            }
        }
    }
}

impl GatewayTls {
    fn check(&self, cx: &mut Reader<'_>) {
        let GatewayTls { cert_file, key_file, client_ca_file } = self;
        let missing = match (cert_file, key_file, client_ca_file) {
            (None, Some(key), _) => Some((&key.at, "cert_file")),
            (Some(certificate), None, _) => Some((&certificate.at, "key_file")),
            (None, None, Some(authorities)) => Some((&authorities.at, "cert_file")),
            (Some(_), Some(_), _) | (None, None, None) => None,
        };
        if let Some((at, key)) = missing {
            let message = format!("`gateway.tls` has no `{key}`");
            cx.report(Problem::new(ProblemKind::BadValue, at.clone(), message));
        }
    }
}
