//! The side of people: the questions of the database, or of all desks that are open.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::hooks::{ApprovalId, Decision};
use backstop::store::{
    Always, ApprovalRecord, ApprovalState, FindApprovalError, Given, Grant, GrantId, People,
    RefusedQuestions, Store, Timestamp, VoidGrant,
};
use rustix::process::getuid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::answers::answer;
use super::{MOST_REPLY_BYTES, PATIENCE, Reply, Request, Signed, folder};
use crate::commands::answerer;
use crate::daemon::Key;
use crate::error::Error;
use crate::session::Surroundings;

/// Everything that can be answered.
#[derive(Debug)]
pub(crate) struct Answers {
    places: Vec<Place>,
    people: Arc<People>,
    is_strict: bool,
}

/// Where questions are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Database(Arc<dyn Store>, Arc<People>),
    Desk(PathBuf),
}

impl Answers {
    /// Those of the database, or those of open desks, as the configuration says.
    pub(crate) fn of(surroundings: &Surroundings) -> Result<Self, Error> {
        let loaded = surroundings.load()?;
        let people = backstop::people(&loaded);
        if !loaded.config.agent.approvals.strict.value {
            let places = vec![Place::Database(surroundings.store(&loaded)?, Arc::clone(&people))];
            return Ok(Self { places, people, is_strict: false });
        }
        Ok(Self { places: open_desks(&folder(surroundings.data_folder()?))?, people, is_strict: true })
    }

    /// What is to be said where answers are kept in memory, and nobody keeps any.
    pub(crate) fn note(&self) -> Option<&'static str> {
        (self.is_strict && self.places.is_empty()).then_some(
            "note: answers are kept in memory (`agent.approvals.strict`), and no process is running that asks: `backstop serve`, `run` or `agent`",
        )
    }

    /// The newest `limit` questions of each place, the newest first.
    pub(crate) async fn list(&self, limit: usize) -> Result<Vec<ApprovalRecord>, Error> {
        let mut all = Vec::new();
        for place in &self.places {
            match place.ask(Request::List { limit }).await? {
                Some(Reply::Questions(records)) => all.extend(records),
                Some(other) => return Err(other.unexpected()),
                None => {}
            }
        }
        all.sort_by_key(|record| Reverse(record.request.created_at));
        Ok(all)
    }

    /// At most `limit` questions that can be answered, those that wait first, and how many there are.
    pub(crate) async fn open(&self, limit: usize) -> Result<(Vec<ApprovalRecord>, usize), Error> {
        let (mut open, mut count) = (Vec::new(), 0);
        for place in &self.places {
            match place.ask(Request::Open { limit }).await? {
                Some(Reply::Open(records, all)) => {
                    open.extend(records);
                    count += all;
                }
                Some(other) => return Err(other.unexpected()),
                None => {}
            }
        }
        // Each place has them in this order.
        open.sort_by_key(|record| match record.state {
            ApprovalState::Pending => (false, record.request.expires_at, Reverse(Timestamp::default())),
            _ => (true, Timestamp::default(), Reverse(record.request.created_at)),
        });
        open.truncate(limit);
        Ok((open, count))
    }

    /// How many questions were refused because their agents ask too much.
    pub(crate) async fn refused(&self) -> Result<Vec<RefusedQuestions>, Error> {
        let mut all = Vec::new();
        for place in &self.places {
            match place.ask(Request::Refused).await? {
                Some(Reply::Refusals(refused)) => all.extend(refused),
                Some(other) => return Err(other.unexpected()),
                None => {}
            }
        }
        Ok(all)
    }

    /// Those who are known by name when they answer.
    pub(crate) fn people(&self) -> &People {
        &self.people
    }

    /// The question that is meant, and where it is.
    pub(crate) async fn find(&self, name: &str) -> Result<(&Place, ApprovalRecord), Error> {
        let mut found = Vec::new();
        for place in &self.places {
            match place.ask(Request::Find { name: name.to_owned() }).await? {
                Some(Reply::Question(record)) => found.push((place, *record)),
                Some(Reply::Unknown) | None => {}
                Some(other) => return Err(other.unexpected()),
            }
        }
        match (found.pop(), found.is_empty(), self.note()) {
            (Some(found), true, _) => Ok(found),
            // Two that say so: one of them stands in for the other.
            (Some(_), false, _) => Err(FindApprovalError::Ambiguous(name.to_owned()).into()),
            (None, _, Some(note)) => Err(Error::Failed(format!("there is no approval `{name}`\n{note}"))),
            (None, _, None) => Err(FindApprovalError::Unknown(name.to_owned()).into()),
        }
    }

    /// Grants with where they are, and those of earlier versions that count no longer.
    pub(crate) async fn grants(&self) -> Result<(Vec<(&Place, Grant)>, Vec<VoidGrant>), Error> {
        let (mut all, mut gone) = (Vec::new(), Vec::new());
        for place in &self.places {
            match place.ask(Request::Grants).await? {
                Some(Reply::Grants(grants, void)) => {
                    all.extend(grants.into_iter().map(|grant| (place, grant)));
                    gone.extend(void);
                }
                Some(other) => return Err(other.unexpected()),
                None => {}
            }
        }
        Ok((all, gone))
    }
}

impl Place {
    /// Says that all arguments of a question were shown. Returns whether they count as seen, so that the call can be allowed.
    pub(crate) async fn seen(&self, id: &ApprovalId) -> Result<bool, Error> {
        Ok(!self.question(Request::Seen { id: id.clone() }).await?.request.unseen)
    }

    /// Answers the call that waits.
    pub(crate) async fn answer(
        &self,
        id: &ApprovalId,
        decision: Decision,
        word: Option<String>,
        by: String,
    ) -> Result<ApprovalRecord, Error> {
        self.question(Request::Answer { id: id.clone(), decision, word, by }).await
    }

    /// Puts something in the place of the call that waits.
    pub(crate) async fn substitute(
        &self,
        id: &ApprovalId,
        given: Given,
        by: String,
    ) -> Result<ApprovalRecord, Error> {
        self.question(Request::Substitute { id: id.clone(), given, by }).await
    }

    /// Allows one later call.
    pub(crate) async fn allow_later(
        &self,
        id: &ApprovalId,
        ttl: Duration,
        by: String,
    ) -> Result<ApprovalRecord, Error> {
        self.question(Request::Later { id: id.clone(), ttl, by }).await
    }

    /// Answers the call that waits, and from now on. Returns what that grants, too.
    pub(crate) async fn always(
        &self,
        id: &ApprovalId,
        always: Always,
        by: String,
    ) -> Result<(ApprovalRecord, Vec<Grant>), Error> {
        match self.ask(Request::Always { id: id.clone(), always, by }).await? {
            Some(Reply::Granted(record, grants)) => Ok((*record, grants)),
            other => Err(unexpected(other)),
        }
    }

    /// Takes a grant back.
    pub(crate) async fn revoke(&self, id: &GrantId, by: String) -> Result<Option<Grant>, Error> {
        match self.ask(Request::Revoke { id: id.clone(), by }).await? {
            Some(Reply::Revoked(grant)) => Ok(grant.map(|grant| *grant)),
            other => Err(unexpected(other)),
        }
    }

    async fn question(&self, request: Request) -> Result<ApprovalRecord, Error> {
        match self.ask(request).await? {
            Some(Reply::Question(record)) => Ok(*record),
            other => Err(unexpected(other)),
        }
    }

    /// What it says; `None` where nobody is there any more.
    async fn ask(&self, request: Request) -> Result<Option<Reply>, Error> {
        match self {
            Self::Database(store, people) => {
                let own = answerer::account(getuid().as_raw());
                answer(store.as_ref(), people, &own, request).await.map(Some)
            }
            Self::Desk(socket) => {
                let asked = timeout(PATIENCE, converse(socket, request)).await;
                match asked.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut))) {
                    Ok(Reply::Refused(why)) => Err(Error::Failed(why)),
                    Ok(reply) => Ok(Some(reply)),
                    Err(error) if is_nobody(&error) => {
                        // Of a process that was killed.
                        let _ = std::fs::remove_file(socket);
                        Key::remove(socket);
                        Ok(None)
                    }
                    Err(source) => {
                        Err(Error::File { path: socket.clone(), what: "asked for answers", source })
                    }
                }
            }
        }
    }
}

impl Reply {
    fn unexpected(self) -> Error {
        unexpected(Some(self))
    }
}

fn unexpected(reply: Option<Reply>) -> Error {
    Error::Failed(
        match reply {
            Some(Reply::Unknown) => "the question is gone",
            Some(_) => "a process that asks talks nonsense",
            None => "the process that asked has ended",
        }
        .to_owned(),
    )
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn open_desks(folder: &Path) -> Result<Vec<Place>, Error> {
    let failed = |source| Error::File { path: folder.to_path_buf(), what: "read", source };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut desks = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "sock") {
            desks.push(Place::Desk(path));
        }
    }
    Ok(desks)
}

async fn converse(socket: &Path, request: Request) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket).await?;
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("another user listens there"));
    }
    let unknown = |error: io::Error| io::Error::other(format!("its key can't be read: {error}"));
    let key = Key::read(socket).map_err(unknown)?.expose().to_owned();
    let bytes = serde_json::to_vec(&Signed { key, request })?;
    stream.write_u32(u32::try_from(bytes.len()).map_err(io::Error::other)?).await?;
    stream.write_all(&bytes).await?;
    let length = usize::try_from(stream.read_u32().await?).unwrap_or(usize::MAX);
    if length > MOST_REPLY_BYTES {
        return Err(io::Error::other("its reply is too long"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes)?)
}
