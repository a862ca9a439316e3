//! The listener and its connections.
//!
//! HTTP/1.1 and HTTP/2 (with prior knowledge, or by TLS) on one port, told apart by the first bytes, or by the handshake. A connection that does not
//! say within [`Timeouts::head`](crate::Timeouts) what it wants is closed, and so is one that is idle as long, or whose
//! client reads nothing for [`Timeouts::write`](crate::Timeouts) of what is ready for it.
//! Settings can be exchanged while it runs ([`Gateway::reload`]): each request has those of its beginning, each connection
//! the certificates of its own. When there are as many connections as allowed, some more are taken for operators
//! ([`places`]); yet more wait in the system's queue. To stop: no new connections, no new requests on
//! old ones, running answers go on for [`Timeouts::drain`](crate::Timeouts), then streams end with their wire's error event,
//! and a second later everything is dropped, and the providers' connections with it.

mod answer;
mod api;
mod asking;
mod beside;
mod connection;
mod console;
mod current;
mod driver;
mod ending;
mod handle;
mod judging;
mod load;
mod operators;
mod places;
mod request;
mod retries;
mod socket;
mod sockets;
mod surfaces;
mod tls;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backstop_surfaces::Desk;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_rustls::TlsAcceptor;

use self::beside::Beside;
use self::connection::{accept, accept_operators};
use self::current::{Admission, Current};
use crate::access::AccessTokens;
use crate::auth::{Authenticator, Caller};
use crate::chat::Chat;
use crate::configuration::Configuration;
use crate::error::{Failure, StartError};
use crate::exchange::Interceptor;
use crate::headers::KnownHeaders;
use crate::identity::{Issuers, Login};
use crate::metrics::Metrics;
use crate::operations::AllowedOperation;
use crate::quota::{Admitted, Asked, Quotas};
use crate::record::labels::Labels;
use crate::record::{Records, RequestSink};
use crate::route::Routes;
use crate::settings::{Limits, Settings, Timeouts, WebSockets};
use crate::sight::SharedFolders;

pub(crate) use answer::is_event_stream;
use api::Api;
pub use api::openapi;
use console::Console;
use ending::Ending;
use judging::Judging;
use load::Load;
use operators::{Access, Operators};
use surfaces::PostLimit;

/// The shortest token that can't be tried out.
const SHORTEST_TOKEN: usize = 16;

/// The number of the first request.
const FIRST: u64 = 1;

/// A running gateway. It stops at once when it is dropped.
pub struct Gateway {
    address: SocketAddr,
    /// Where it was to listen.
    listen: SocketAddr,
    current: Arc<Current>,
    stop: watch::Sender<()>,
    accepting: JoinHandle<()>,
    /// What accepts at the other address of this machine.
    beside: Option<JoinHandle<()>>,
    /// Where operators are answered, if that is an address of its own.
    for_operators: Option<ForOperators>,
    /// Reads which access tokens count.
    following: Option<AbortHandle>,
}

/// A listener for operators alone.
struct ForOperators {
    address: SocketAddr,
    /// Where it was to listen.
    listen: SocketAddr,
    accepting: JoinHandle<()>,
}

/// Dropped, it stops at once.
impl Drop for ForOperators {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Who is shown what becomes of requests.
#[derive(Clone, Default)]
pub struct Observers {
    /// Counts them, and is what operators are shown at `/-/metrics`. Without it, nobody is.
    pub metrics: Option<Metrics>,
    /// Is shown the record of each: an access log.
    pub sinks: Vec<Arc<dyn RequestSink>>,
    /// Records their traces until other settings are taken ([`Gateway::reload_traced`]). A request has that of its beginning to its end.
    pub traces: Option<Arc<dyn RequestSink>>,
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Observers");
        debug.field("metrics", &self.metrics).field("sinks", &self.sinks.len());
        debug.field("traces", &self.traces.is_some()).finish()
    }
}

/// What stays the same for as long as a gateway runs.
#[derive(Clone)]
struct Lasting {
    load: Arc<Load>,
    numbers: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
    ending: Ending,
    judging: Judging,
    operators: Arc<Operators>,
    api: Arc<Api>,
    console: Arc<Console>,
    surface_posts: Arc<PostLimit>,
    sinks: Arc<[Arc<dyn RequestSink>]>,
    access_tokens: Arc<AccessTokens>,
    callers: Arc<Asked>,
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) auth: Authenticator,
    pub(crate) routes: Routes,
    pub(crate) interceptor: Arc<dyn Interceptor>,
    pub(crate) allow: Vec<AllowedOperation>,
    pub(crate) headers: KnownHeaders,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_retries: u32,
    pub(crate) websockets: Option<WebSockets>,
    pub(crate) load: Arc<Load>,
    pub(crate) numbers: Arc<AtomicU64>,
    /// The requests that a model is asked by.
    pub(crate) asked: Arc<AtomicU64>,
    pub(crate) ending: Ending,
    pub(crate) records: Records,
    judging: Judging,
    access: Access,
    /// Whether operators are answered at an address of their own, and not at that of the proxy.
    has_operators_listener: bool,
    operators: Arc<Operators>,
    /// What cosigns checkpoints of other trails.
    witness: Option<Arc<backstop_trail::Witness>>,
    api: Arc<Api>,
    console: Arc<Console>,
    /// Where people sign in to the console, besides by tokens.
    login: Option<Arc<Login>>,
    configuration: Option<Arc<dyn Configuration>>,
    chat: Option<Arc<dyn Chat>>,
    /// By what of the disk calls at the API are judged.
    shared_folders: SharedFolders,
    surfaces: Option<Arc<Desk>>,
    surface_posts: Arc<PostLimit>,
    sinks: Arc<[Arc<dyn RequestSink>]>,
    traces: Option<Arc<dyn RequestSink>>,
    access_tokens: Arc<AccessTokens>,
    quotas: Quotas,
    budgets: BTreeMap<(String, String), u64>,
    callers: Arc<Asked>,
    tls: Option<TlsAcceptor>,
    /// The text of what `tls` shows.
    certificates: Option<Vec<u8>>,
    /// Who may connect.
    admission: Arc<Admission>,
}

impl Shared {
    /// Lets a request in, if its caller has room for it.
    fn admit(&self, caller: &Caller) -> Result<Admitted, Failure> {
        Ok(self.callers.admit(&self.quotas, caller)?)
    }

    fn new(
        settings: &Settings,
        (interceptor, traces): (Arc<dyn Interceptor>, Option<Arc<dyn RequestSink>>),
        lasting: Lasting,
        before: Option<&Self>,
    ) -> Result<Self, StartError> {
        check_tokens(settings)?;
        let issuers = Issuers::of(settings, before.map(|before| before.auth.issuers()))?;
        let login = Login::of(settings, before.and_then(|before| before.login.as_ref()))?;
        let Lasting {
            load,
            numbers,
            asked,
            ending,
            judging,
            operators,
            api,
            console,
            surface_posts,
            sinks,
            access_tokens,
            callers,
        } = lasting;
        let told = sinks.iter().chain(&traces).map(Arc::clone).collect();
        let certificates = before.and_then(|before| before.certificates.as_deref());
        let records = Records::new(told, Labels::of(settings), settings.pricing.clone());
        Ok(Self {
            auth: Authenticator::new(settings).knowing(Arc::clone(&access_tokens), issuers),
            access_tokens,
            quotas: settings.quotas.clone(),
            budgets: settings.budgets.clone(),
            callers,
            routes: Routes::new(settings)?,
            interceptor,
            allow: settings.allow.clone(),
            headers: KnownHeaders::with(&settings.headers),
            limits: settings.limits,
            timeouts: settings.timeouts,
            max_retries: settings.max_retries,
            websockets: settings.websockets,
            load,
            numbers,
            asked,
            ending,
            records,
            judging,
            has_operators_listener: settings.operators_listen.is_some(),
            witness: settings.witness.clone(),
            access: Access::new(settings.operator_token.as_ref()),
            operators,
            api,
            console,
            login,
            configuration: settings.configuration.clone(),
            chat: settings.chat.clone(),
            shared_folders: settings.shared_folders.clone(),
            surfaces: settings.surfaces.clone(),
            surface_posts,
            sinks,
            traces,
            tls: settings.tls.as_ref().map(|tls| tls::acceptor(tls, certificates)).transpose()?,
            certificates: settings.tls.as_ref().map(|tls| tls.certificates.text.clone()),
            admission: Arc::new(Admission::of(settings)),
        })
    }
}

impl Gateway {
    /// Listens, and passes requests on. `interceptor` says who looks at them.
    ///
    /// # Errors
    /// If the address can't be listened on, or the settings make no sense.
    pub async fn start(settings: Settings, interceptor: Arc<dyn Interceptor>) -> Result<Self, StartError> {
        Self::observed(settings, interceptor, Observers::default()).await
    }

    /// As [`start`](Self::start), with `observers` of all requests, for as long as it runs.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn observed(
        settings: Settings,
        interceptor: Arc<dyn Interceptor>,
        observers: Observers,
    ) -> Result<Self, StartError> {
        if let Some(listen) =
            settings.operators_listen.filter(|listen| *listen == settings.listen && listen.port() != 0)
        {
            return Err(StartError::OperatorsHere(listen));
        }
        let (end, ending) = Ending::new();
        let load = Arc::new(Load::new(&settings.limits));
        let (numbers, asked) = (Arc::new(AtomicU64::new(FIRST)), Arc::default());
        let Observers { metrics, mut sinks, traces } = observers;
        sinks.extend(metrics.clone().map(|metrics| Arc::new(metrics) as Arc<dyn RequestSink>));
        let operators = Arc::new(Operators::showing(metrics));
        let lasting = Lasting {
            load,
            numbers,
            asked,
            ending,
            judging: Judging::default(),
            operators,
            api: Arc::default(),
            console: Arc::default(),
            surface_posts: Arc::default(),
            sinks: sinks.into(),
            access_tokens: Arc::default(),
            callers: Arc::default(),
        };
        let shared = Shared::new(&settings, (interceptor, traces), lasting, None)?;
        shared.api.calls(&settings.callbacks);
        let failed = |source| StartError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let of_operators = match settings.operators_listen {
            Some(listen) => {
                let failed = |source| StartError::ListenForOperators { address: listen, source };
                let listener = TcpListener::bind(listen).await.map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?;
                Some((listener, address, listen))
            }
            None => None,
        };
        let following = match &settings.store {
            Some(store) => Some(shared.access_tokens.follow(Arc::clone(store)).await),
            None => None,
        };
        let current = Arc::new(Current(watch::Sender::new(Arc::new(shared))));
        let (stop, stopped) = watch::channel(());
        let for_operators = of_operators.map(|(listener, address, listen)| {
            let accepting = tokio::spawn(accept_operators(listener, Arc::clone(&current)));
            ForOperators { address, listen, accepting }
        });
        let of_console = for_operators.as_ref().map_or(address, |operators| operators.address);
        let beside = beside::hold(of_console).await;
        current.get().console.holds_names(!matches!(beside, Beside::Taken));
        let beside = match beside {
            Beside::Held(listener) if for_operators.is_some() => {
                Some(tokio::spawn(accept_operators(listener, Arc::clone(&current))))
            }
            Beside::Held(listener) => {
                Some(tokio::spawn(accept(listener, Arc::clone(&current), stopped.clone(), end.clone())))
            }
            Beside::Absent | Beside::Taken => None,
        };
        let accepting = tokio::spawn(accept(listener, Arc::clone(&current), stopped, end));
        let listen = settings.listen;
        Ok(Self { address, listen, current, stop, accepting, beside, for_operators, following })
    }

    /// Takes other settings and another interceptor for requests that come from now on, and other certificates for new
    /// connections. [`Settings::store`] stays that of the start. What is under way ends by those that it began with. How many connections there may be at once is not
    /// changed.
    ///
    /// # Errors
    /// If the settings make no sense, or name another address: then nothing changes.
    pub fn reload(&self, settings: &Settings, interceptor: Arc<dyn Interceptor>) -> Result<(), StartError> {
        let traces = self.current.get().traces.clone();
        self.reload_traced(settings, interceptor, traces)
    }

    /// As [`reload`](Self::reload), with somebody else who records traces, or nobody.
    ///
    /// # Errors
    /// As [`reload`](Self::reload).
    pub fn reload_traced(
        &self,
        settings: &Settings,
        interceptor: Arc<dyn Interceptor>,
        traces: Option<Arc<dyn RequestSink>>,
    ) -> Result<(), StartError> {
        if settings.listen != self.listen {
            return Err(StartError::Moved { from: self.listen, to: settings.listen });
        }
        if settings.operators_listen != self.for_operators.as_ref().map(|operators| operators.listen) {
            return Err(StartError::OperatorsMoved);
        }
        let old = self.current.get();
        let lasting = Lasting {
            load: Arc::clone(&old.load),
            numbers: Arc::clone(&old.numbers),
            asked: Arc::clone(&old.asked),
            ending: old.ending.clone(),
            judging: old.judging.clone(),
            operators: Arc::clone(&old.operators),
            api: Arc::clone(&old.api),
            console: Arc::clone(&old.console),
            surface_posts: Arc::clone(&old.surface_posts),
            sinks: Arc::clone(&old.sinks),
            access_tokens: Arc::clone(&old.access_tokens),
            callers: Arc::clone(&old.callers),
        };
        let next = Shared::new(settings, (interceptor, traces), lasting, Some(&old))?;
        old.load.limit(&settings.limits);
        // Whoever begins to listen from here on has the new hooks already.
        let (api, engine) = (Arc::clone(&next.api), next.interceptor.engine().cloned());
        let (login, console) = (next.login.clone(), Arc::clone(&next.console));
        self.current.set(next);
        // What another provider, or other roles, let in does not go on.
        if let Some(before) = old.login.as_ref().filter(|before| !before.is_same(login.as_ref())) {
            before.end();
        }
        api.go_on_with(engine.as_ref());
        console.go_on_with(engine.as_ref());
        api.calls(&settings.callbacks);
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where operators are answered, if that is an address of its own.
    pub fn operators_address(&self) -> Option<SocketAddr> {
        self.for_operators.as_ref().map(|operators| operators.address)
    }

    /// How many requests were let in so far, whatever became of them.
    pub fn requests(&self) -> u64 {
        self.current.get().numbers.load(Ordering::Relaxed).saturating_sub(FIRST)
    }

    /// How many of them asked a model: not those for a list of models, a count of tokens, or a file.
    pub fn model_requests(&self) -> u64 {
        self.current.get().asked.load(Ordering::Relaxed)
    }

    /// Takes no more requests, lets running answers end within the drain time, then drops what is left.
    pub async fn shut_down(mut self) {
        self.current.get().operators.stop();
        let _ = self.stop.send(());
        // The task ends by itself; it can't panic, and nobody else aborts it.
        let _ = (&mut self.accepting).await;
        if let Some(beside) = self.beside.as_mut().filter(|_| self.for_operators.is_none()) {
            let _ = beside.await;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.accepting.abort();
        if let Some(beside) = &self.beside {
            beside.abort();
        }
        if let Some(following) = &self.following {
            following.abort();
        }
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("address", &self.address).finish_non_exhaustive()
    }
}

fn check_tokens(settings: &Settings) -> Result<(), StartError> {
    let mut seen = vec![settings.token.expose()];
    if settings.token.expose().len() < SHORTEST_TOKEN {
        return Err(StartError::ShortToken);
    }
    if let Some(token) = &settings.operator_token {
        // Whoever knows one of the others is an agent, and none of them is an operator.
        let is_anothers = seen.contains(&token.expose());
        let problem = match token.expose().len() {
            ..SHORTEST_TOKEN => "is too short: it has fewer than 16 bytes",
            _ if is_anothers => "is that of clients too",
            _ => "",
        };
        if !problem.is_empty() {
            return Err(StartError::OperatorToken { problem });
        }
        seen.push(token.expose());
    }
    for (agent, token) in &settings.agents {
        let problem = if token.expose().len() < SHORTEST_TOKEN {
            "is too short: it has fewer than 16 bytes"
        } else if seen.contains(&token.expose()) {
            "is that of somebody else too"
        } else {
            seen.push(token.expose());
            continue;
        };
        return Err(StartError::Token { agent: agent.as_str().to_owned(), problem });
    }
    Ok(())
}
