//! `backstop hook`: the program that coding agents start at each of their hooks.
//!
//! One event on stdin, one answer on stdout, an exit code, the end. Nearly every client lets a tool run when
//! its hook fails, comes late, or prints anything beside its answer. So
//!
//! - whatever can't be judged is refused, in the client's own words where the event is known, and in the
//!   words that all clients obey where it is not: input that is no event, a configuration that does not
//!   load, a database that can't be written, a bug, a signal;
//! - the answer is put together in memory and written at once, and stdout gets nothing else;
//! - judging happens on a thread of its own, and this one watches the clock: it refuses before the client
//!   stops waiting;
//! - a refusal that nobody can read on stdout is still said by the exit code and on stderr.
//!
//! With `--service` it is a pipe to the service of the machine and judges nothing (the module `pipe`).
//!
//! Where a [daemon](crate::daemon) listens, it judges, and nothing is read or built here but the event.
//!
//! Where there are traces, a hook that judged alone sends its spans once the answer is out, and waits half a second for that at most;
//! a daemon sends them without anybody waiting.
//!
//! What was decided is in the audit trail before the answer leaves. Where the trail can't be written, calls
//! are refused: an agent that works unseen is what the trail is there to prevent, and whoever does not want
//! that says so with `audit.enabled`. Questions, answers and grants are recorded even then, or count for nothing.

mod decide;
mod pipe;
mod speak;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use backstop::Traces;
use backstop::clients::{Client, ClientEvent, MAX_PAYLOAD_BYTES, Reason, Reply, refuse, universal_deny};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::daemon::Said;
use crate::error::Error;
use crate::exit::Exit;
use crate::session::{OperatorFolders, Surroundings};

use self::decide::{Heard, attended, decide, said};
pub(crate) use self::decide::{Unjudged, folder, judged, read_event, recorded, trace_parent};
use self::pipe::hand_over;
pub(crate) use self::speak::refuse_blindly;
use self::speak::{remark, speak};

/// The longest that a client takes to write its event. All write it at once.
const READ_PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of a hook that judged alone waits until spans are sent. Clients wait for it.
const LAST_SPANS: Duration = Duration::from_millis(500);

/// How long a hook that was told to end waits until the question that it asks is withdrawn and on record, or its answer is out.
const WITHDRAWAL: Duration = Duration::from_secs(1);

/// Whether the hook was told to end. Who has something to give up then listens to it.
type Ending = watch::Sender<bool>;

/// Who asks, about what.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The client's name, as it was written: a name that is none is refused like any other bad input.
    pub(crate) client: String,
    /// The event's name, for clients whose payload does not say it.
    pub(crate) event: Option<String>,
    /// The operator's folders; those of the account where none are named.
    pub(crate) folders: Option<OperatorFolders>,
    /// The socket of the service that judges for this machine. With one, nothing is judged here.
    pub(crate) service: Option<PathBuf>,
}

/// The event, as soon as it is read.
type Known = OnceLock<ClientEvent>;

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Exit {
    let client = match settings.client.parse::<Client>() {
        Ok(client) => client,
        Err(error) => return refuse_blindly(&error.to_string()),
    };
    let surroundings = match folders_of(settings.folders) {
        Ok(folders) => surroundings.fixed(folders),
        Err(error) => return refuse_blindly(&error.report()),
    };
    let started = Instant::now();
    let patience = client.facts().patience(settings.event.as_deref().unwrap_or_default());
    let (known, traces) = (Arc::new(Known::new()), Arc::new(OnceLock::new()));
    let ending = Arc::new(Ending::new(false));
    let (answer, answered) = oneshot::channel();
    let worker = {
        let (known, traces, ending) = (Arc::clone(&known), Arc::clone(&traces), Arc::clone(&ending));
        std::thread::Builder::new().name("backstop-hook".to_owned()).spawn(move || {
            // Nobody listens when the answer comes too late.
            let asked = Asked { client, name: settings.event, service: settings.service };
            drop(answer.send(judge(&asked, &known, &traces, &ending, started, &surroundings)));
        })
    };
    let ended = match worker {
        Ok(_) => wait(answered, &known, &ending, patience).await,
        Err(error) => Err(format!("backstop can't start a thread: {error}")),
    };
    let exit = match ended {
        Ok(said) => tell(&said),
        Err(why) => tell(&said(client, refused(known.get(), &why))),
    };
    if let Some(traces) = traces.get() {
        // The answer is out. What is not sent by then goes with this process.
        traces.flush_within(LAST_SPANS).await;
    }
    exit
}

/// The operator's folders, which no variable of the environment chooses.
pub(in crate::commands) fn folders_of(said: Option<OperatorFolders>) -> Result<OperatorFolders, Error> {
    let Some(folders) = said else { return OperatorFolders::of_account() };
    let is_ours = |folder: &Path| folder.is_absolute() && folder.ends_with("backstop");
    if folders.home.is_absolute() && is_ours(&folders.operator) && is_ours(&folders.data) {
        return Ok(folders);
    }
    Err(Error::Usage(
        "`--operator` and `--data` are absolute paths of folders named `backstop`, `--home` is an absolute path\nhint: `backstop install` writes them".to_owned(),
    ))
}

/// Waits for the answer, but no longer than the client does, nor than a signal allows.
async fn wait(
    mut answered: oneshot::Receiver<Result<Said, String>>,
    known: &Known,
    ending: &Ending,
    patience: Duration,
) -> Result<Said, String> {
    let terminated = async {
        let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        match signals {
            [Ok(mut term), Ok(mut int), Ok(mut hup)] => tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
                _ = hup.recv() => {}
            },
            _ => std::future::pending().await,
        }
    };
    let in_time = async {
        let bug = |_| "there is a bug in backstop; please report it".to_owned();
        let late = |_| format!("judging took longer than the {} that the client waits", shown(patience));
        match timeout(READ_PATIENCE.min(patience), &mut answered).await {
            Ok(answer) => answer.map_err(bug)?,
            Err(_) if known.get().is_none() => {
                Err(format!("the client's event did not come within {}", shown(READ_PATIENCE.min(patience))))
            }
            Err(_) => {
                let left = patience.saturating_sub(READ_PATIENCE);
                timeout(left, &mut answered).await.map_err(late)?.map_err(bug)?
            }
        }
    };
    let answer = tokio::select! {
        biased;
        answer = in_time => Some(answer),
        () = terminated => None,
    };
    if let Some(answer) = answer {
        return answer;
    }
    ending.send_replace(true);
    // Who judges here may have come to an answer at the same moment, and refuses by itself otherwise.
    let left = if ending.receiver_count() > 0 { WITHDRAWAL } else { Duration::ZERO };
    if let Ok(Ok(answer)) = timeout(left, &mut answered).await {
        return answer;
    }
    Err("backstop was told to end before it had judged this".to_owned())
}

fn shown(time: Duration) -> String {
    format!("{} s", time.as_secs_f32())
}

/// What the command line says about an event.
struct Asked {
    client: Client,
    name: Option<String>,
    service: Option<PathBuf>,
}

/// Reads the event and decides about it.
fn judge(
    asked: &Asked,
    known: &Known,
    traces: &OnceLock<Traces>,
    ending: &Ending,
    started: Instant,
    surroundings: &Surroundings,
) -> Result<Said, String> {
    let bytes = read().map_err(|error| format!("stdin can't be read: {error}"))?;
    let (client, name) = (asked.client, asked.name.as_deref());
    let here = std::env::current_dir().ok();
    let event = read_event(client, &bytes, name, here.as_deref()).map_err(|Unjudged(why)| why)?;
    let event = known.get_or_init(|| event.attended(attended(client)));
    let heard = Heard { client, name, bytes: &bytes, event, started, traces, ending };
    let decided = match &asked.service {
        Some(socket) => hand_over(&heard, socket, surroundings),
        None => decide(&heard, surroundings),
    };
    decided.map_err(|Unjudged(why)| why)
}

/// At most one byte more than a payload may have, which is enough to refuse it.
fn read() -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let most = u64::try_from(MAX_PAYLOAD_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The refusal of an event that could not be judged.
fn refused(event: Option<&ClientEvent>, why: &str) -> Reply {
    let reason = Reason::new(&format!("backstop could not judge this: {why}"));
    match event {
        Some(event) => {
            let reply = refuse(event, &reason);
            if reply.answer.exit_code() == 0 && reply.answer.stdout().is_empty() {
                remark(reason.as_str());
            }
            reply
        }
        None => Reply { answer: universal_deny(&reason), shortfall: None },
    }
}

fn tell(said: &Said) -> Exit {
    if let Some(text) = &said.remark {
        remark(text);
    }
    speak(&said.answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let sample = Client::Claude.sample();
        Known::from(read_event(Client::Claude, sample.payload.as_bytes(), None, None).unwrap())
    }

    #[tokio::test]
    async fn a_judge_that_dies_is_a_bug_and_a_refusal() {
        let (answer, answered) = oneshot::channel();
        drop(std::thread::spawn(move || {
            let _answer = answer;
            std::panic::panic_any("the judge dies");
        }));
        let known = known();
        let why = wait(answered, &known, &Ending::new(false), Duration::from_secs(60)).await.unwrap_err();
        assert!(why.contains("bug"), "{why}");
        let reply = refused(known.get(), &why);
        assert_eq!(reply.answer.exit_code(), 2);
        assert!(!reply.answer.stdout().is_empty());
    }

    #[tokio::test]
    async fn a_judge_that_hangs_is_too_late_before_the_client_is() {
        let patience = Duration::from_millis(200);
        for (known, said) in
            [(known(), "judging took longer than the 0.2 s"), (Known::new(), "did not come within 0.2 s")]
        {
            let (_answer, answered) = oneshot::channel();
            let why = wait(answered, &known, &Ending::new(false), patience).await.unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }
}
