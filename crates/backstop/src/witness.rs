//! Witnesses of the audit trail, as the configuration names them: who keeps its checkpoints.
//!
//! Whatever runs as the user who writes the trail can read its key, cut the trail off or write it anew. That shows against what others have
//! kept, so each witness is told the newest checkpoint, and is asked what it has when the trail is verified. A folder takes copies
//! ([`Copies`]); a server is asked by [tlog-witness](https://c2sp.org/tlog-witness) and proves what it says with its own signature; a Git
//! repository gets a commit for each; an authority stamps them with its time, which shows when they were there, and keeps nothing itself. Gateways
//! that share a database keep each other's.
//!
//! The law: *a witness that is silent is told, and holds up nothing*. Nobody's request waits for one.

mod gateways;
mod git;
mod stamps;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use backstop_config::{AuditWitness, ConfigError, Loaded, Place, Problem, ProblemKind, WitnessKind};
use backstop_http_client::{Client, Proxies, Request, Route, Settings, tls::Trust};
use backstop_store::{AuditFilter, ProveAuditError, Store, Timestamp};
use backstop_trail::{
    AddCheckpoint, Copies, CosignerKey, GitError, SIZE_TYPE, SignedCheckpoint, StampError, TrailError,
    VerifierKey, merkle,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Serialize;
use url::Url;

use self::gateways::Gateways;
use self::git::Repository;
use self::stamps::Authority;
pub use self::stamps::Stamps;
use crate::locations::from_operator;
use crate::lower::small_file::{self, LARGEST_PEM};

/// How long a server may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const MOST_ANSWER_BYTES: usize = 16 * 1024;
/// How often a server is asked again with what it said that it has.
const TRIES: usize = 3;

/// How long Git may take to read a branch and to add to it.
const TIMEOUT_OF_GIT: Duration = Duration::from_secs(30);
/// How often a process tells a repository or an authority at most: what they keep is kept for ever.
const SELDOM: Duration = Duration::from_mins(10);
/// How often a process tells the gateways that share its database at most: so exactly their entries can be put in one order.
const JOINED: Duration = Duration::from_mins(1);

/// What a witness has of the trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Witnessed {
    /// How many entries the checkpoint covers.
    pub entries: u64,
    /// When the witness signed, by its own clock; a folder signs nothing.
    pub at: Option<Timestamp>,
    /// The checkpoint, with the signature of the witness.
    pub checkpoint: String,
}

/// How far the checkpoints of the trail reach that a witness has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// How many entries the newest one covers; none where there is none.
    pub entries: u64,
    /// When the first entry was written that it does not cover, if there is one.
    pub lacks_since: Option<Timestamp>,
}

/// Why a witness does not vouch for the trail.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// The trail has no checkpoint to show, or can't be read.
    #[error(transparent)]
    Trail(#[from] ProveAuditError),
    /// A folder or what it holds can't be read or written.
    #[error(transparent)]
    Folder(#[from] TrailError),
    /// A folder has no copy of this trail, and others.
    #[error(
        "it has no checkpoint of this trail, and {0} of others\nhint: was the trail moved away, or deleted, so that another one began? A trail that nobody was told of yet is told by `backstop audit witness`"
    )]
    OtherTrail(usize),
    /// A folder has none at all.
    #[error("it has no checkpoint yet\nhint: `backstop audit witness` and `backstop serve` hand them over")]
    Empty,
    /// Files in a folder are none of the copies that were made.
    #[error("{0} of its copies can't be read: somebody changed them, or one is being made at this moment")]
    Unreadable(u64),
    /// The witness has more entries than the trail.
    #[error(
        "the trail was cut off: its newest checkpoint has {found} entries, and the witness has signed one of {known}"
    )]
    CutOff {
        /// How many entries the witness knows.
        known: u64,
        /// How many the newest checkpoint has.
        found: u64,
    },
    /// The trail is not the one that the witness knows.
    #[error(
        "the trail was rewritten: what the witness has signed is no beginning of its checkpoint of {found} entries"
    )]
    Rewritten {
        /// How many entries the newest checkpoint has.
        found: u64,
    },
    /// The newest checkpoint is not signed by the trail's own key: nothing is handed over.
    #[error(
        "the newest checkpoint of the trail is not signed by its key\nhint: `backstop audit verify` says more; the next process that writes puts it aside"
    )]
    NotOurs,
    /// The server does not watch this trail.
    #[error(
        "it does not watch this trail\nhint: whoever runs it needs the key of the trail, which `backstop audit verify` prints"
    )]
    Unwatched,
    /// The server knows another key.
    #[error(
        "it knows another key of this trail\nhint: after `backstop audit rotate`, whoever runs it needs the new one"
    )]
    OtherKey,
    /// The server could not be reached.
    #[error("it could not be asked: {0}")]
    Silent(#[from] backstop_http_client::Error),
    /// The server answered something else.
    #[error("it answered with the status {0}")]
    Status(u16),
    /// The answer is no cosignature of this checkpoint by the configured key.
    #[error("what it answered is not signed by the configured `key`")]
    Unsigned,
    /// The repository could not be read, or not be added to.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The branch of the repository has more commits than are compared.
    #[error("its branch has more commits than the newest {0}, and older ones were not compared")]
    TooLong(usize),
    /// The database, where gateways leave checkpoints for each other, can't be used.
    #[error(transparent)]
    Store(backstop_store::StoreError),
    /// What is in the database as checkpoints of this trail is not all signed by one of its keys.
    #[error(
        "{0} of what is there as checkpoints of this trail can't be read, or are signed by none of its keys\nhint: somebody who writes the database put them there, unless the key was rotated twice a short time ago"
    )]
    Planted(u64),
    /// The database has not kept the checkpoint that was left there.
    #[error("the checkpoint that was left there is gone again\nhint: who else writes the database?")]
    NotKept,
    /// Checkpoints of other gateways' trails say that they are signed by different keys.
    #[error(
        "{0} of the trails of other gateways have checkpoints by different keys, and all were taken in\nhint: was a key rotated a short time ago? If not, somebody put them there; `backstop audit witness` at that gateway knows its own"
    )]
    Foreign(usize),
    /// There are more trails of other gateways than are taken in.
    #[error(
        "{0} of the trails of other gateways were not taken in: at most 1,000 are, and 100 new ones at once\nhint: if there are not so many gateways, somebody put them there"
    )]
    TooManyPeers(usize),
    /// More checkpoints of other gateways came at once than are looked at.
    #[error(
        "of {0} of the trails of other gateways more checkpoints came at once than are looked at\nhint: no gateway leaves so many; somebody who writes the database put them there"
    )]
    Crowded(usize),
    /// What is in the database as checkpoints of other gateways are none.
    #[error(
        "{0} of what is there as checkpoints of other gateways are none\nhint: somebody who writes the database put them there"
    )]
    UnreadablePeers(u64),
    /// What other gateways left can't be written into the trail.
    #[error("the checkpoints of other gateways can't be written into the trail: {0}")]
    Written(backstop_store::AppendAuditError),
    /// The trail of another gateway has no checkpoint of this one.
    #[error(
        "it says nothing of this trail\nhint: gateways on one PostgreSQL database take each other's checkpoints in once a minute while both serve"
    )]
    NoWord,
    /// The authority has not stamped what it was asked.
    #[error(transparent)]
    Stamp(#[from] StampError),
    /// The clocks of the authority and of this machine differ.
    #[error(
        "its time is {0}, more than ten minutes from the clock of this machine\nhint: one of the two clocks is wrong"
    )]
    Clock(Timestamp),
}

impl WitnessError {
    /// Returns whether the trail is not what it was, as the witness says.
    pub fn is_tampering(&self) -> bool {
        matches!(self, Self::CutOff { .. } | Self::Rewritten { .. } | Self::Git(GitError::Rewound(_)))
    }

    /// Returns whether a witness that was told has the checkpoint all the same, and something else there is wrong.
    pub fn is_beside(&self) -> bool {
        matches!(
            self,
            Self::Planted(_)
                | Self::Foreign(_)
                | Self::TooManyPeers(_)
                | Self::Crowded(_)
                | Self::UnreadablePeers(_)
        )
    }
}

/// Who keeps checkpoints of the trail.
#[derive(Debug, Default)]
pub struct Witnesses(Vec<Witness>);

#[derive(Debug)]
enum Witness {
    Folder(PathBuf),
    Server(Box<Server>),
    Git(Repository),
    Stamps(Box<Authority>),
    /// The database that gateways share.
    Gateways(Gateways),
    /// The folder of another gateway's trail, which is read and told nothing.
    Peer(PathBuf),
}

#[derive(Debug)]
struct Server {
    url: Url,
    key: CosignerKey,
    client: Client,
    /// How many entries its last checkpoint had.
    last: AtomicU64,
}

impl Witnesses {
    /// Returns the witnesses that `audit.witness` names.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] where a key is none, or a file of authorities can't be read.
    pub fn of(loaded: &Loaded, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let witnesses = loaded.config.audit.witness.iter().map(|witness| {
            Ok(match witness.kind() {
                WitnessKind::Folder(folder) => Witness::Folder(from_operator(loaded, folder)),
                WitnessKind::Server(_) => Witness::Server(Box::new(server(loaded, witness)?)),
                WitnessKind::Git(url) => Witness::Git(Repository::of(loaded, witness, url, environment)?),
                WitnessKind::Stamps(url) => Witness::Stamps(Box::new(Authority::of(loaded, witness, url)?)),
            })
        });
        // Gateways that share a database are witnesses of each other, without being asked for it.
        let shared =
            loaded.config.store.postgres.url.as_ref().map(|_| Ok(Witness::Gateways(Gateways::default())));
        witnesses.chain(shared).collect::<Result<_, ConfigError>>().map(Self)
    }

    /// Adds what the trail of another gateway, in this folder, says of this one.
    #[must_use]
    pub fn and_peer(mut self, folder: PathBuf) -> Self {
        self.0.push(Witness::Peer(folder));
        self
    }

    /// Returns a witness that is a folder.
    pub fn folder(folder: &Path) -> Self {
        Self(vec![Witness::Folder(folder.to_path_buf())])
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name of each.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(Witness::name).collect()
    }

    /// Returns how far each reaches, by name, without asking anybody over the network: `None` for all but folders.
    pub async fn reached(&self, store: &dyn Store) -> Vec<(String, Option<Result<Reached, WitnessError>>)> {
        let mut all = Vec::with_capacity(self.0.len());
        for witness in &self.0 {
            let found = match witness {
                Witness::Folder(folder) => Some(reached(store, folder).await),
                Witness::Server(_)
                | Witness::Git(_)
                | Witness::Stamps(_)
                | Witness::Gateways(_)
                | Witness::Peer(_) => None,
            };
            all.push((witness.name(), found));
        }
        all
    }

    /// Tells each the newest checkpoint, but for those that are told seldom and were told a short time ago, and returns what each has then, by
    /// name.
    pub async fn tell(&self, store: &dyn Store) -> Vec<(String, Result<Witnessed, WitnessError>)> {
        let mut told = Vec::with_capacity(self.0.len());
        for witness in &self.0 {
            let found = match witness {
                Witness::Git(repository) if !repository.is_due() => continue,
                Witness::Stamps(authority) if !authority.is_due() => continue,
                Witness::Gateways(gateways) if !gateways.is_due() => continue,
                Witness::Peer(_) => continue,
                Witness::Folder(folder) => copy(store, folder).await,
                Witness::Server(server) => server.ask(store).await,
                Witness::Git(repository) => repository.tell(store).await,
                Witness::Stamps(authority) => authority.tell(store).await,
                Witness::Gateways(gateways) => gateways.tell(store).await,
            };
            told.push((witness.name(), found));
        }
        told
    }

    /// Returns the checkpoints that each has of the trail, by name. A server is told the newest one for that, since it answers nothing else. A
    /// repository may have several rows. Those that only [stamp](Self::stamps) have none: nobody else keeps what they stamped.
    pub async fn kept(&self, store: &dyn Store) -> Vec<(String, Result<Vec<String>, WitnessError>)> {
        let mut kept = Vec::with_capacity(self.0.len());
        for witness in &self.0 {
            let found = match witness {
                Witness::Folder(folder) => copies(store, folder).await,
                Witness::Server(server) => {
                    server.ask(store).await.map(|witnessed| vec![witnessed.checkpoint])
                }
                Witness::Git(repository) => match repository.kept(store).await {
                    Ok((notes, untold)) => {
                        kept.extend(untold.into_iter().map(|why| (witness.name(), Err(why))));
                        Ok(notes)
                    }
                    Err(why) => Err(why),
                },
                Witness::Gateways(gateways) => match gateways.kept(store).await {
                    Ok((notes, untold)) => {
                        kept.extend(untold.map(|why| (witness.name(), Err(why))));
                        Ok(notes)
                    }
                    Err(why) => Err(why),
                },
                Witness::Peer(folder) => gateways::read(store, folder).await,
                Witness::Stamps(_) => continue,
            };
            kept.push((witness.name(), found));
        }
        kept
    }

    /// Returns the stamps that are kept of the trail, by the name of the authority. Whether it has signed them is not checked.
    pub async fn stamps(&self, store: &dyn Store) -> Vec<(String, Result<Stamps, WitnessError>)> {
        let mut kept = Vec::new();
        for witness in &self.0 {
            if let Witness::Stamps(authority) = witness {
                kept.push((witness.name(), authority.kept(store).await));
            }
        }
        kept
    }
}

impl Witness {
    fn name(&self) -> String {
        match self {
            Self::Folder(folder) => folder.display().to_string(),
            Self::Server(server) => server.key.name().to_owned(),
            Self::Git(repository) => repository.name(),
            Self::Stamps(authority) => authority.name(),
            Self::Gateways(_) => "the shared database".to_owned(),
            Self::Peer(folder) => folder.display().to_string(),
        }
    }
}

/// When a witness took something last that is told no oftener than so.
#[derive(Debug)]
struct Lately {
    span: Duration,
    told: Mutex<Option<Instant>>,
}

impl Lately {
    const fn every(span: Duration) -> Self {
        Self { span, told: Mutex::new(None) }
    }

    /// Returns whether it is to be told again.
    fn is_due(&self) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.is_none_or(|since| since.elapsed() >= self.span)
    }

    fn keep(&self) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// Returns whether one of these keys signed a checkpoint.
fn is_signed(note: &SignedCheckpoint, keys: &[VerifierKey]) -> bool {
    keys.iter().any(|key| note.is_signed_by(key))
}

fn wrong(at: &Place, message: String, hint: &str) -> ConfigError {
    Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint).into()
}

fn server(loaded: &Loaded, witness: &AuditWitness) -> Result<Server, ConfigError> {
    let at = &witness.to.at;
    let prefix = witness.to.value.expose().trim_end_matches('/');
    let url = Url::parse(&format!("{prefix}/add-checkpoint"));
    let url = url.map_err(|error| {
        wrong(at, format!("`to` is no address: {error}"), "leave out what is behind the path")
    })?;
    let key = witness.key.as_ref();
    let parsed = key.and_then(|key| key.value.expose().parse().ok());
    let key = parsed.ok_or_else(|| {
        let at = key.map_or(at, |key| &key.at);
        wrong(
            at,
            "`key` is no key of a witness".to_owned(),
            "it looks like `name+hash+base64`; whoever runs the witness has it",
        )
    })?;
    Ok(Server { url, key, client: client(loaded, witness)?, last: AtomicU64::new(0) })
}

/// Returns what a server is asked with.
fn client(loaded: &Loaded, witness: &AuditWitness) -> Result<Client, ConfigError> {
    let trust = match &witness.ca_file {
        None => Trust::System,
        Some(file) => {
            let path = from_operator(loaded, file.value.expose());
            let unusable = |why: String| {
                let message = format!("`{}` can't be used: {why}", path.display());
                wrong(&file.at, message, "it has to hold certificates as PEM")
            };
            let pem = small_file::read(&path, LARGEST_PEM).map_err(|error| unusable(error.to_string()))?;
            Trust::only(&pem).map_err(|error| unusable(error.to_string()))?
        }
    };
    let settings = Settings {
        trust,
        route: Route::Proxied(Proxies::of_process()),
        connect_timeout: TIMEOUT,
        timeout: Some(TIMEOUT),
    };
    Ok(Client::new(settings))
}

/// Returns what the trail shows a witness that has `old` of its entries.
async fn offered(store: &dyn Store, old: u64) -> Result<AddCheckpoint, WitnessError> {
    Ok(store.offer_audit(old).await?.parse()?)
}

/// Returns the newest checkpoint of the trail. No hashes are needed.
async fn newest(store: &dyn Store) -> Result<SignedCheckpoint, WitnessError> {
    Ok(offered(store, u64::MAX).await?.checkpoint)
}

/// Returns the newest checkpoint of the trail, which only grew since the one that is known.
async fn fitting(store: &dyn Store, known: &SignedCheckpoint) -> Result<SignedCheckpoint, WitnessError> {
    let known = known.checkpoint();
    let AddCheckpoint { path, checkpoint, .. } = offered(store, known.size).await?;
    let newest = checkpoint.checkpoint();
    let found = newest.size;
    if known.size > found {
        return Err(WitnessError::CutOff { known: known.size, found });
    }
    if merkle::is_consistent(known.size, &known.root, found, &newest.root, &path) {
        Ok(checkpoint)
    } else {
        Err(WitnessError::Rewritten { found })
    }
}

/// Does something with a folder on a thread that may wait.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WitnessError> + Send + 'static,
) -> Result<T, WitnessError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(WitnessError::Folder(TrailError::Closed)))
}

/// Returns the keys by which checkpoints of the trail count.
async fn own_keys(store: &dyn Store) -> Result<Vec<VerifierKey>, WitnessError> {
    let keys = store.audit_keys().await?;
    Ok(keys.iter().map(|key| key.parse()).collect::<Result<Vec<VerifierKey>, _>>()?)
}

/// Returns how far the copies in a folder reach.
async fn reached(store: &dyn Store, folder: &Path) -> Result<Reached, WitnessError> {
    let keys = own_keys(store).await?;
    let kept = match copies(store, folder).await {
        Err(WitnessError::Empty) => Vec::new(),
        kept => kept?,
    };
    let notes = kept.iter().filter_map(|note| note.parse::<SignedCheckpoint>().ok());
    let own = notes.filter(|note| is_signed(note, &keys));
    let entries = own.map(|note| note.checkpoint().size).max().unwrap_or_default();
    let found = store.audit_head().await.map_err(ProveAuditError::from)?.seq;
    if entries > found {
        return Err(WitnessError::CutOff { known: entries, found });
    }
    let lacking = store.audit(&AuditFilter::default(), entries, 1).await.map_err(ProveAuditError::from)?;
    Ok(Reached { entries, lacks_since: lacking.first().map(|entry| entry.at) })
}

/// Adds a copy of the newest checkpoint to a folder, and compares it with the copies that are there.
async fn copy(store: &dyn Store, folder: &Path) -> Result<Witnessed, WitnessError> {
    let checkpoint = newest(store).await?;
    let keys = own_keys(store).await?;
    let copies = Copies::new(folder);
    aside(move || {
        let is_own = |note: &SignedCheckpoint| is_signed(note, &keys);
        // What is added once stays: whoever can write the trail's files must not have anything added.
        if !is_own(&checkpoint) {
            return Err(WitnessError::NotOurs);
        }
        copies.add(&checkpoint)?;
        let newest = checkpoint.checkpoint();
        let found = newest.size;
        // Smaller ones are compared where the trail is verified.
        let (others, _) = copies.of_at_least(&newest.origin, found)?;
        for copy in others.iter().filter(|copy| is_own(copy)) {
            let copy = copy.checkpoint();
            if copy.size > found {
                return Err(WitnessError::CutOff { known: copy.size, found });
            }
            if copy.size == found && copy.root != newest.root {
                return Err(WitnessError::Rewritten { found });
            }
        }
        Ok(Witnessed { entries: found, at: None, checkpoint: checkpoint.to_string() })
    })
    .await
}

/// Returns the copies that a folder has of this trail. Which of them are signed is asked by whoever compares.
async fn copies(store: &dyn Store, folder: &Path) -> Result<Vec<String>, WitnessError> {
    let origin = store.audit_origin().await?;
    let copies = Copies::new(folder);
    aside(move || {
        let (own, unreadable) = copies.of(&origin)?;
        if unreadable > 0 {
            return Err(WitnessError::Unreadable(unreadable));
        }
        if own.is_empty() {
            let others = copies.count()?;
            return Err(if others > 0 { WitnessError::OtherTrail(others) } else { WitnessError::Empty });
        }
        Ok(own.iter().map(SignedCheckpoint::to_string).collect())
    })
    .await
}

impl Server {
    /// Has the newest checkpoint cosigned.
    async fn ask(&self, store: &dyn Store) -> Result<Witnessed, WitnessError> {
        let mut old = self.last.load(Ordering::Acquire);
        for _ in 0..TRIES {
            let asked = offered(store, old).await?;
            let found = asked.checkpoint.checkpoint().size;
            // What it said before may be what it does not know any more.
            if old > found {
                self.last.store(0, Ordering::Release);
                return Err(WitnessError::CutOff { known: old, found });
            }
            let (status, is_size, answer) = self.post(&asked).await?;
            match status {
                StatusCode::OK => return self.cosigned(&asked, &answer),
                StatusCode::CONFLICT if is_size => {
                    let known = answer.strip_suffix('\n').and_then(|size| size.parse().ok());
                    old = known.ok_or(WitnessError::Status(status.as_u16()))?;
                }
                StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => {
                    return Err(WitnessError::Rewritten { found });
                }
                StatusCode::NOT_FOUND => return Err(WitnessError::Unwatched),
                StatusCode::FORBIDDEN => return Err(WitnessError::OtherKey),
                other => return Err(WitnessError::Status(other.as_u16())),
            }
        }
        Err(WitnessError::Status(StatusCode::CONFLICT.as_u16()))
    }

    /// Returns the status, whether the answer is a size, and the answer.
    async fn post(&self, asked: &AddCheckpoint) -> Result<(StatusCode, bool, String), WitnessError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        let body = asked.to_string().into();
        let request = Request { method: Method::POST, url: &self.url, headers, body };
        let answer = self.client.send(request).await?;
        let (status, kind) = (answer.status(), answer.headers().get(header::CONTENT_TYPE).cloned());
        let is_size = kind.is_some_and(|kind| kind.as_bytes() == SIZE_TYPE.as_bytes());
        let answer = answer.whole(MOST_ANSWER_BYTES).await?;
        // What is no text is no signature either.
        Ok((status, is_size, String::from_utf8(answer).unwrap_or_default()))
    }

    fn cosigned(&self, asked: &AddCheckpoint, lines: &str) -> Result<Witnessed, WitnessError> {
        let checkpoint = asked.checkpoint.with_signatures(lines).ok_or(WitnessError::Unsigned)?;
        let at = self.key.cosigned_at(&checkpoint).ok_or(WitnessError::Unsigned)?;
        let entries = checkpoint.checkpoint().size;
        self.last.store(entries, Ordering::Release);
        let at = i64::try_from(at.saturating_mul(1000)).unwrap_or(i64::MAX);
        Ok(Witnessed { entries, at: Some(Timestamp::from_millis(at)), checkpoint: checkpoint.to_string() })
    }
}
