//! The service's side: connections of all users, each answered for the user that the system says it is.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use backstop::config::account::{Account, by_uid};
use backstop::hooks::Sight;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::eyes::LentEyes;
use crate::commands::hook::Unjudged;
use crate::daemon::connections::{self, LONGEST_PATIENCE, MOST_CONNECTIONS, TRAVEL_PATIENCE, arrival};
use crate::daemon::key::Key;
use crate::daemon::policies::Policies;
use crate::daemon::protocol::{
    Question, Sighting, Unreadable, Word, read_question, read_sighting, write_word,
};

/// The most hooks of one user that are answered at once, so that no user can keep the others out.
const MOST_OF_ONE_USER: usize = MOST_CONNECTIONS / 4;

/// The service, until it is told to stop.
pub(crate) struct Service {
    policies: Arc<Policies>,
    serving: JoinHandle<()>,
    stop: Arc<Semaphore>,
}

impl Service {
    /// Answers whoever connects to the socket.
    pub(crate) fn start(listener: StdListener, policies: Policies) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let (policies, stop) = (Arc::new(policies), Arc::new(Semaphore::new(0)));
        let (judges, guests) = (Arc::clone(&policies), Arc::<Guests>::default());
        let serving = tokio::spawn(connections::serve(listener, Arc::clone(&stop), move |stream, room| {
            let (judges, guests) = (Arc::clone(&judges), Arc::clone(&guests));
            async move { answer(stream, &judges, &room, &guests).await }
        }));
        Ok(Self { policies, serving, stop })
    }

    /// Takes no more questions and lets those end that are being answered. Answers whether the audit trail is complete.
    pub(crate) async fn stop(self) -> bool {
        self.stop.close();
        // A bug in there was reported where it happened.
        let _ = self.serving.await;
        self.policies.shut_down().await
    }
}

/// How many hooks of each user are being answered.
#[derive(Debug, Default)]
struct Guests(StdMutex<HashMap<u32, usize>>);

impl Guests {
    /// Lets one more in; `None` where there are too many of that user.
    fn admit(self: &Arc<Self>, uid: u32) -> Option<Guest> {
        let mut guests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = guests.entry(uid).or_default();
        if *count >= MOST_OF_ONE_USER {
            return None;
        }
        *count += 1;
        Some(Guest { uid, guests: Arc::clone(self) })
    }
}

/// One hook that is being answered.
#[derive(Debug)]
struct Guest {
    uid: u32,
    guests: Arc<Guests>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut guests = self.guests.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = guests.get_mut(&self.uid) {
            *count = count.saturating_sub(1);
        }
        guests.retain(|_, count| *count > 0);
    }
}

/// Answers one connection.
async fn answer(
    stream: UnixStream,
    policies: &Policies,
    room: &Semaphore,
    guests: &Arc<Guests>,
) -> Result<(), Unreadable> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let uid = stream.peer_cred()?.uid();
    let guest = guests.admit(uid);
    let (mut from, out) = stream.into_split();
    let out = Arc::new(Mutex::new(out));
    let question = match timeout(TRAVEL_PATIENCE, read_question(&mut from)).await.map_err(late)? {
        Err(Unreadable::OtherVersion(_)) => {
            let why = "another version of the protocol is spoken here".to_owned();
            return say(&out, &Word::Declined { why }, "").await;
        }
        question => question?,
    };
    let account = by_uid(uid);
    let (account, _guest) = match (account, guest, policies.turns_away(&question)) {
        (_, _, Some(why)) => {
            return say(&out, &Word::Declined { why: why.to_owned() }, &question.nonce).await;
        }
        (Some(account), Some(guest), None) => (account, guest),
        (None, _, None) => {
            let why = format!("the system's list of users has no home for the user with the number {uid}");
            return say(&out, &Word::Failed { why }, &question.nonce).await;
        }
        (Some(_), None, None) => {
            let why = "too many hooks of this user are being answered".to_owned();
            return say(&out, &Word::Failed { why }, &question.nonce).await;
        }
    };
    let coming = arrival(&mut from, room);
    let (payload, _room) = timeout(TRAVEL_PATIENCE, coming).await.map_err(late)??;
    say(&out, &Word::Accepted, &question.nonce).await?;
    match judged(from, &out, policies, &account, &question, &payload).await {
        Some(word) => say(&out, &word, &question.nonce).await,
        // Its client has gone: what is being asked on its behalf is withdrawn.
        None => Ok(()),
    }
}

/// The answer, with the disk seen through the hook's eyes; `None` when the hook has gone.
async fn judged(
    from: OwnedReadHalf,
    out: &Arc<Mutex<OwnedWriteHalf>>,
    policies: &Policies,
    account: &Account,
    question: &Question,
    payload: &[u8],
) -> Option<Word> {
    let (tell, sightings) = mpsc::channel(1);
    let eyes = Arc::new(LentEyes::new(Arc::clone(out), sightings, &question.nonce));
    // A task of its own: a judge that waits for what it wants to see holds this one up.
    let mut reports = tokio::spawn(pass_on(from, tell));
    let patience = Duration::from_millis(question.patience_ms).min(LONGEST_PATIENCE);
    let sight = Sight::through(Arc::<LentEyes>::clone(&eyes));
    let word = tokio::select! {
        judged = timeout(patience, policies.judge_for(account, question, payload, sight)) => match judged {
            _ if eyes.are_blind() => {
                Some(Word::Failed { why: "the hook could not look at what the call is about".to_owned() })
            }
            Ok(Ok(said)) => Some(Word::answered(&said)),
            Ok(Err(Unjudged(why))) => Some(Word::Failed { why }),
            Err(_) => Some(Word::Failed { why: "judging took too long".to_owned() }),
        },
        _ = &mut reports => None,
    };
    reports.abort();
    word
}

/// Passes on what the hook has seen, until it has gone.
async fn pass_on(mut from: OwnedReadHalf, tell: mpsc::Sender<Sighting>) {
    while let Ok(sighting) = read_sighting(&mut from).await {
        if tell.send(sighting).await.is_err() {
            break;
        }
    }
}

async fn say(out: &Mutex<OwnedWriteHalf>, word: &Word, nonce: &str) -> Result<(), Unreadable> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let key = Key::of_service();
    let said = async { write_word(&mut *out.lock().await, word, &key, nonce).await };
    timeout(TRAVEL_PATIENCE, said).await.map_err(late)?
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_takes_all_turns() {
        let guests = Arc::<Guests>::default();
        let all: Vec<_> = (0..MOST_OF_ONE_USER).map_while(|_| guests.admit(1)).collect();
        assert_eq!(all.len(), MOST_OF_ONE_USER);
        assert!(guests.admit(1).is_none());
        assert!(guests.admit(2).is_some(), "another user has turns of their own");
        drop(all);
        assert!(guests.admit(1).is_some(), "a turn that ended is free again");
    }
}
