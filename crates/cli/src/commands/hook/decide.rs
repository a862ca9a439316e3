//! The decision: by a daemon where one listens, else here: configuration, engine, answer, and the record of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use backstop::Backstop;
use backstop::clients::{Attended, Client, ClientEvent, Payload, Reason, Reply, points, refuse, respond};
use backstop::config::{DaemonFailure, Loaded};
use backstop::engine::Attendance;
use backstop::hooks::{Trace, TraceParent};
use backstop::store::{SqliteStore, Store};
use backstop::{FoundStore, OpenedStore, Traces, check_store_authorities, daemon_socket};

use super::speak::remark;
use super::{Ending, WITHDRAWAL};
use crate::commands::notify::Notifier;
use crate::daemon::{self, Asked, Kin, Question, Said, Viewpoint};
use crate::error::Error;
use crate::session::{Surroundings, builder, environment, working_directory};

/// What is kept back of the client's patience for saying that a daemon took too long.
pub(super) const MARGIN: Duration = Duration::from_millis(200);

/// How long the end of plugins may hold an answer back that is settled and recorded. What they are by then is killed with this process.
const ENDING: Duration = Duration::from_secs(5);

/// From this length on a hook moves the database's log, since each that opens the database alone reads all of it.
const LONG_LOG_BYTES: u64 = 128 * 1024;

/// Why an event could not be judged, as its client is told.
#[derive(Clone, Debug)]
pub(crate) struct Unjudged(pub(crate) String);

impl From<Error> for Unjudged {
    fn from(error: Error) -> Self {
        Self(error.report())
    }
}

impl From<backstop::NoDataFolder> for Unjudged {
    fn from(error: backstop::NoDataFolder) -> Self {
        Self(error.to_string())
    }
}

/// An event as it came, and as it is understood.
pub(super) struct Heard<'a> {
    pub(super) client: Client,
    /// The event's name from the command line.
    pub(super) name: Option<&'a str>,
    pub(super) bytes: &'a [u8],
    pub(super) event: &'a ClientEvent,
    /// When the hook was started.
    pub(super) started: Instant,
    /// What sends spans, once the answer is out.
    pub(super) traces: &'a OnceLock<Traces>,
    /// Whether the hook was told to end.
    pub(super) ending: &'a Ending,
}

/// What the client says of whether a person attends it, to a hook that it has started.
pub(crate) fn attended(client: Client) -> Attended {
    Attended::by(client, &environment)
}

/// The span below which the event stands, as the hook's environment says, which an agent may have set: it chooses where in a trace the
/// event is shown, and nothing else.
pub(crate) fn trace_parent() -> Option<TraceParent> {
    environment("TRACEPARENT").as_deref().and_then(TraceParent::parse)
}

/// Understands what a client wrote. `here` is the folder in which it started the hook.
pub(crate) fn read_event(
    client: Client,
    bytes: &[u8],
    name: Option<&str>,
    here: Option<&Path>,
) -> Result<ClientEvent, Unjudged> {
    let payload = Payload::parse(bytes).map_err(|error| Unjudged(error.to_string()))?;
    let event = client.read(&payload, name).map_err(|error| Unjudged(error.to_string()))?;
    Ok(match here.and_then(Path::to_str) {
        Some(folder) => event.started_in(folder),
        None => event,
    })
}

/// Has the event judged.
pub(super) fn decide(heard: &Heard<'_>, surroundings: &Surroundings) -> Result<Said, Unjudged> {
    let here = working_directory()?;
    let operator = surroundings.load_operators()?;
    if let Some(said) = ask_daemon(heard, &here, &operator.loaded, surroundings)? {
        return Ok(said);
    }
    let loaded = surroundings.load_over(operator, &folder(heard.event, &here))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Unjudged(format!("no runtime: {error}")))?;
    let decided = runtime.block_on(decide_here(heard, loaded, surroundings));
    // Its end would wait for threads that read files, however long that takes them.
    runtime.shutdown_background();
    decided
}

/// What a daemon says about it; `None` where none listens, or the one that does leaves it to us.
fn ask_daemon(
    heard: &Heard<'_>,
    here: &Path,
    operator: &Loaded,
    surroundings: &Surroundings,
) -> Result<Option<Said>, Unjudged> {
    let settings = &operator.config.daemon;
    let configured = settings
        .enabled
        .value
        .then(|| daemon_socket(operator, &|name| surroundings.variable(name)))
        .transpose();
    let of_run = daemon::socket_of_run().map(|socket| (socket, Kin::Ancestor));
    let sockets = of_run.into_iter().chain(configured?.map(|socket| (socket, Kin::SameUser)));
    let left = patience(heard.event).saturating_sub(heard.started.elapsed());
    let question = Question {
        viewpoint: Viewpoint::of(surroundings),
        nonce: backstop::new_token().expose().clone(),
        pinned: surroundings.is_pinned(),
        client: heard.client.name().to_owned(),
        event: heard.name.map(str::to_owned),
        folder: here.to_string_lossy().into_owned(),
        attended: attended(heard.client).into(),
        patience_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        trace_parent: trace_parent().map(|parent| parent.to_string()),
        claims: None,
    };
    for (socket, kin) in sockets {
        match daemon::ask(&socket, kin, &question, heard.bytes, Instant::now() + left + MARGIN) {
            Ok(Asked::Nobody | Asked::Declined) => {}
            Ok(Asked::Answered(said)) => return Ok(Some(said)),
            Ok(Asked::Failed(why)) => return Err(Unjudged(why)),
            Err(error) => match settings.on_failure.value {
                DaemonFailure::Block => return Err(Unjudged(error.to_string())),
                DaemonFailure::Judge => remark(&format!("warning: {error}")),
            },
        }
    }
    Ok(None)
}

/// Takes the event through the hooks in force in the client's folder.
async fn decide_here(
    heard: &Heard<'_>,
    loaded: Loaded,
    surroundings: &Surroundings,
) -> Result<Said, Unjudged> {
    let Opened { store, file, is_there: shared } = open(&loaded, surroundings)?;
    let is_strict = loaded.config.agent.approvals.strict.value;
    // The policy is the one by which a server would judge, so that it makes no difference which of them does.
    let hosts = backstop::server_hosts(&backstop::gateway_hooks(&loaded), true);
    let home = surroundings.variable("HOME").unwrap_or_default();
    // Plugins that were trusted with hooks at other points are not loaded for this one event.
    let mut policy =
        builder(loaded, surroundings).agents_environment().only_points(points(heard.event).iter().copied());
    if is_strict {
        // Nothing that lies somewhere is an answer, and nobody could give one before this process ends.
        policy = policy.answer_store(Arc::new(SqliteStore::for_answers(Arc::clone(&store))));
    }
    let built = policy.home(home).hosts(hosts).store(store).shared_decisions(shared).build().await;
    let mut backstop = built.map_err(Error::from)?;
    if let Some(traces) = backstop.take_over_traces() {
        // There is one judge in this process.
        let _ = heard.traces.set(traces);
    }
    let left = patience(heard.event).saturating_sub(heard.started.elapsed());
    let mut ending = heard.ending.subscribe();
    let reply = tokio::select! {
        // What is judged is judged: a yes that was used up is not lost to a signal of the same moment.
        biased;
        reply = judged(&backstop, heard.event, left, !is_strict, trace_parent()) => reply,
        // What asks is dropped, which withdraws its question.
        _ = ending.wait_for(|is_told| *is_told) => refuse(heard.event, &told_to_end()),
    };
    // A question that was given up is withdrawn before this process ends.
    let _ = tokio::time::timeout(WITHDRAWAL, backstop.engine().withdrawn()).await;
    // What was decided is on disk before anything is waited for that plugins could draw out.
    let complete = match backstop.audit() {
        Some(audit) => audit.flush().await,
        None => true,
    };
    let complete = tokio::time::timeout(ENDING, backstop.shut_down()).await.unwrap_or(complete) && complete;
    if let Some(file) = file {
        // Where this fails, the next one tries; what is in the log counts wherever it is.
        let _ = file.shorten_log().await;
    }
    recorded(heard.client, reply, complete)
}

/// The state that an event is judged with.
struct Opened {
    store: Arc<dyn Store>,
    /// The same where it is a file whose log has become long.
    file: Option<Arc<SqliteStore>>,
    /// Whether there may be what others decided.
    is_there: bool,
}

fn open(loaded: &Loaded, surroundings: &Surroundings) -> Result<Opened, Error> {
    // The environment of this process is the client's, and an agent may have set it.
    check_store_authorities(loaded)?;
    let (place, opened) = FoundStore::of(loaded, &|name| surroundings.variable(name))?.open()?;
    let (file, path) = match (opened, place.file()) {
        (OpenedStore::InFile(file), Some(path)) => (file, path),
        (opened, _) => return Ok(Opened { store: opened.shared(), file: None, is_there: true }),
    };
    // What is not there can't hold what a proxy decided about the call; what can't be looked at may.
    let is_there = path.try_exists().unwrap_or(true);
    let log = std::fs::metadata(log_of(path)).map_or(0, |log| log.len());
    // The last one to close the database moves its log, and its process can't end before the disk has that. One that
    // ends without closing leaves the log to the next one; nothing in it is lost.
    std::mem::forget(Arc::clone(&file));
    let store: Arc<dyn Store> = Arc::<SqliteStore>::clone(&file);
    Ok(Opened { store, file: Some(file).filter(|_| log > LONG_LOG_BYTES), is_there })
}

/// The log that SQLite keeps beside a database.
fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// What the client is told by these hooks, in the time that is left. `has_desk`: people can answer while it waits.
pub(crate) async fn judged(
    backstop: &Backstop,
    event: &ClientEvent,
    left: Duration,
    has_desk: bool,
    parent: Option<TraceParent>,
) -> Reply {
    let Some(traces) = backstop.traces() else { return answered(backstop, event, left, has_desk).await };
    let (began, trace) = (Instant::now(), Trace::begin(parent));
    let event = event.clone().in_trace(trace);
    let reply = answered(backstop, &event, left, has_desk).await;
    traces.judged(&event, trace, began.elapsed());
    reply
}

async fn answered(backstop: &Backstop, event: &ClientEvent, left: Duration, has_desk: bool) -> Reply {
    let event = event.clone().answer_by(Instant::now() + left);
    let event = match backstop.config().config.agent.approvals.attended.value {
        true => event.attended_unless_said(),
        false => event,
    };
    let attendance = attendance(&event, backstop.config(), has_desk);
    match tokio::time::timeout(left, respond(backstop.engine(), &event, &attendance)).await {
        Ok(reply) => reply,
        Err(_) => refuse(&event, &late(&event)),
    }
}

/// The reply, unless it would let something happen that is not in the audit trail.
pub(crate) fn recorded(client: Client, reply: Reply, complete: bool) -> Result<Said, Unjudged> {
    if complete || reply.answer.exit_code() != 0 {
        return Ok(said(client, reply));
    }
    Err(Unjudged(
        "error: the audit trail can't be written\nhint: `backstop audit verify` says why; with `audit.enabled: false` only questions, answers and grants need it"
            .to_owned(),
    ))
}

/// The reply, and what its user should know about it.
pub(super) fn said(client: Client, reply: Reply) -> Said {
    let shortfall = reply.shortfall.filter(|shortfall| shortfall.lets_through());
    let remark = shortfall.map(|shortfall| format!("warning: {}: {shortfall}", client.title()));
    Said { answer: reply.answer, remark }
}

/// The folder in which the client works; repository files are looked for from there upward.
pub(crate) fn folder(event: &ClientEvent, here: &Path) -> PathBuf {
    let said = event.frame.folder().map(Path::new);
    said.filter(|folder| folder.is_absolute() && folder.is_dir()).unwrap_or(here).to_path_buf()
}

/// A client that asks its own user, where one attends, is let to, as far as that user may answer. Elsewhere the operator says whether to wait
/// for an answer from `backstop approvals`; without that the call is refused, and a person finds it there.
fn attendance(event: &ClientEvent, loaded: &Loaded, has_desk: bool) -> Attendance {
    let settings = &loaded.config.agent.approvals;
    if !has_desk || !settings.wait.value {
        return Attendance::Nobody;
    }
    let notifier = Arc::new(Notifier(settings.notify.value));
    match event.frame.can_ask() {
        true => Attendance::HostOr(notifier),
        false => Attendance::Present(notifier),
    }
}

/// What the client waits, less what is needed to withdraw a question and to write the record.
pub(super) fn patience(event: &ClientEvent) -> Duration {
    let whole = event.frame.client().facts().patience(event.frame.event());
    whole.saturating_sub((whole / 10).min(Duration::from_secs(2)))
}

fn told_to_end() -> Reason {
    Reason::new("backstop was told to end before it had judged this")
}

fn late(event: &ClientEvent) -> Reason {
    Reason::new(&format!(
        "nobody answered in the time that {} waits for a hook. a person can allow this exact call once, in Backstop's list of approvals; after that you may call it again",
        event.frame.client().title()
    ))
}
