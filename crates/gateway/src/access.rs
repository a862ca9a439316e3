//! Access tokens: tokens of agents and people that are kept in the store, with an end.
//!
//! Laws:
//!
//! - *A token is known by its digest.* Its id is looked up, and the SHA-256 of what was presented is compared in constant time.
//! - *What ends, ends what it opened.* The list is read anew every [`REFRESH`]. A token that is no longer in it, because it was
//!   revoked or has expired, opens nothing from then on, and streams, sockets and questions of requests that it opened end.
//! - *What can't be read opens nothing.* One row of it is that token alone, and its agent's name is nobody's (nobody may take a
//!   name at all, if it can't be read whose the token is). Once the list is [`STALE`], no token of it counts until it can be read again.
//!
//! Limits: who can write the database can add a token to it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use backstop_hooks::{AgentId, Digest};
use backstop_store::{
    AccessToken, AccessTokenId, AccessTokenList, Answerer, Identity, People, Scope, Store, Timestamp,
    UnreadableAccessToken, access_token_digest,
};
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// How often the list is read.
const REFRESH: Duration = Duration::from_millis(500);
/// How long a reading may take, and the storing of uses.
const PATIENCE: Duration = Duration::from_secs(1);
/// How old the list may be.
const STALE: Duration = Duration::from_secs(3);
/// How often the clock is looked at for the end of a token.
const CLOCK: Duration = Duration::from_secs(2);
/// How many ids are told of tokens that can't be read.
const MOST_TOLD: usize = 10;
/// How often it is stored when tokens were used.
const USES: Duration = Duration::from_secs(10);

/// The tokens that count, as they were read last.
#[derive(Default)]
pub(crate) struct AccessTokens {
    known: RwLock<HashMap<AccessTokenId, Known>>,
    /// The agents that have had a token since the gateway was started.
    agents: RwLock<HashSet<AgentId>>,
    /// Whether there is a list, and when the reading of it began that was the last to end well.
    read_at: RwLock<ReadAt>,
    /// Tokens of which the store holds something else.
    unreadable: RwLock<Vec<UnreadableAccessToken>>,
    used: Mutex<HashMap<AccessTokenId, Timestamp>>,
}

/// How old the list is.
#[derive(Clone, Copy, Debug, Default)]
enum ReadAt {
    /// There is none, and nobody reads one.
    #[default]
    Nobody,
    /// It was not read yet.
    Never,
    At(Instant),
}

impl ReadAt {
    /// Whether the list can be gone by.
    fn is_fresh(self) -> bool {
        matches!(self, Self::At(at) if at.elapsed() < STALE)
    }
}

struct Known {
    digest: Digest,
    agent: Option<AgentId>,
    user: Option<Arc<str>>,
    scopes: Arc<[Scope]>,
    ends_at: Timestamp,
    ended: watch::Sender<bool>,
}

/// Whose a token for the API is, and what it allows there.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) id: AccessTokenId,
    pub(crate) agent: Option<AgentId>,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) scopes: Arc<[Scope]>,
    pub(crate) life: TokenLife,
    /// Who vouches for the person, where there is no token: `id` is then no token's, and says the same person by the same word.
    pub(crate) vouched: Option<Arc<Vouched>>,
}

/// A person for whom an issuer vouches.
#[derive(Debug)]
pub(crate) struct Vouched {
    /// Its name.
    pub(crate) issuer: String,
    /// Who that is there, and nobody else ever.
    pub(crate) subject: String,
}

impl Holder {
    /// Returns who this is, for whoever asks what a person may do or asked for: `None`, if it is no person.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let user = self.user.as_ref().filter(|_| self.agent.is_none())?.as_ref().to_owned();
        // INVARIANT (a name is one issuer's): whoever has the name of a token's user elsewhere is not that user.
        Some(match &self.vouched {
            None => Identity::User(user),
            Some(vouched) => Identity::SignedIn { issuer: vouched.issuer.clone(), name: user },
        })
    }

    /// Returns who answers with this token: the person of its user. `by` is what the record says of it.
    pub(crate) fn answerer(&self, people: &Arc<People>, by: String) -> Answerer {
        // INVARIANT (nobody who is judged answers): a token of an agent is no person's.
        let Some(identity) = self.identity() else { return by.into() };
        let answerer = people.answerer(&identity, by);
        if self.vouched.is_some() { answerer } else { answerer.with_token(self.id.clone()) }
    }
}

/// Whose a token for the proxy is.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) agent: AgentId,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) life: TokenLife,
}

/// Hears when a token ends.
#[derive(Clone, Debug)]
pub(crate) struct TokenLife(Life);

#[derive(Clone, Debug)]
enum Life {
    /// Somebody says when.
    Told(watch::Receiver<bool>),
    /// The token says when.
    Until(jiff::Timestamp),
    /// Somebody says when, and at the latest when one of two clocks says so.
    ToldUntil(watch::Receiver<bool>, jiff::Timestamp, Instant),
}

impl TokenLife {
    /// The life of a token that ends by itself, and never before.
    pub(crate) const fn until(end: jiff::Timestamp) -> Self {
        Self(Life::Until(end))
    }

    /// The life of what ends when it is told so, and by then at the latest: by the clock that goes on while the machine sleeps, or by the one that
    /// nobody sets, whichever is there first.
    pub(crate) const fn told_until(told: watch::Receiver<bool>, end: jiff::Timestamp, last: Instant) -> Self {
        Self(Life::ToldUntil(told, end, last))
    }

    /// Returns whether the token has ended.
    pub(crate) fn is_over(&self) -> bool {
        // Whoever is gone can't say that it still counts.
        let is_told = |told: &watch::Receiver<bool>| *told.borrow() || told.has_changed().is_err();
        match &self.0 {
            Life::Told(told) => is_told(told),
            Life::Until(end) => jiff::Timestamp::now() >= *end,
            Life::ToldUntil(told, end, last) => {
                is_told(told) || jiff::Timestamp::now() >= *end || Instant::now() >= *last
            }
        }
    }

    /// Waits for the end of the token.
    pub(crate) async fn over(self) {
        match self.0 {
            // Whoever is gone can't say that it still counts.
            Life::Told(mut told) => drop(told.wait_for(|ended| *ended).await),
            Life::Until(end) => past(end).await,
            Life::ToldUntil(mut told, end, last) => tokio::select! {
                _ = told.wait_for(|ended| *ended) => {}
                () = past(end) => {}
                () = sleep_until(last) => {}
            },
        }
    }
}

/// Waits for a moment. The clock may be set, and a machine may sleep: it is looked at again and again.
async fn past(end: jiff::Timestamp) {
    while let Ok(left) = Duration::try_from(end.duration_since(jiff::Timestamp::now()))
        && !left.is_zero()
    {
        sleep(left.min(CLOCK)).await;
    }
}

impl AccessTokens {
    /// Returns whose token was presented, if it counts now and is one for the proxy.
    pub(crate) fn holder(&self, given: &[u8]) -> Option<Held> {
        let Holder { agent, user, scopes, life, .. } = self.counting(given)?;
        Some(Held { agent: agent.filter(|_| scopes.is_empty())?, user, life })
    }

    /// Returns whose token was presented, if it counts now and is one for the API.
    pub(crate) fn api_holder(&self, given: &[u8]) -> Option<Holder> {
        self.counting(given).filter(|holder| !holder.scopes.is_empty())
    }

    fn counting(&self, given: &[u8]) -> Option<Holder> {
        let id = AccessTokenId::in_token(given)?;
        let given = access_token_digest(str::from_utf8(given).ok()?);
        let now = Timestamp::now();
        if !self.read_at().is_fresh() {
            return None;
        }
        let held = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            let token = known.get(&id)?;
            let is_it = bool::from(token.digest.as_bytes().ct_eq(given.as_bytes()));
            if !is_it || now >= token.ends_at {
                return None;
            }
            let life = TokenLife(Life::Told(token.ended.subscribe()));
            let (agent, user, scopes) = (token.agent.clone(), token.user.clone(), Arc::clone(&token.scopes));
            Holder { id: id.clone(), agent, user, scopes, life, vouched: None }
        };
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(id, now);
        Some(held)
    }

    /// Returns whether this may be a token that counts, and whether it does can't be known now.
    pub(crate) fn may_be_one(&self, given: &[u8]) -> bool {
        let read_at = self.read_at();
        AccessTokenId::in_token(given).is_some() && !matches!(read_at, ReadAt::Nobody) && !read_at.is_fresh()
    }

    /// Returns whether an agent of this name has a token, or has had one, or whether that can't be known: whose token is
    /// revoked is not free for others.
    pub(crate) fn may_know(&self, agent: &str) -> bool {
        let read_at = self.read_at();
        let agents = self.agents.read().unwrap_or_else(PoisonError::into_inner);
        let unreadable = self.unreadable.read().unwrap_or_else(PoisonError::into_inner);
        let is_of =
            |token: &UnreadableAccessToken| token.agent.as_ref().is_none_or(|known| known.as_str() == agent);
        agents.iter().any(|known| known.as_str() == agent)
            || unreadable.iter().any(is_of)
            || !(matches!(read_at, ReadAt::Nobody) || read_at.is_fresh())
    }

    /// How many tokens can't be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes those that can't be read. Says so, if they are others than before.
    fn set_unreadable(&self, mut unreadable: Vec<UnreadableAccessToken>) {
        unreadable.sort();
        let mut known = self.unreadable.write().unwrap_or_else(PoisonError::into_inner);
        if *known == unreadable {
            return;
        }
        let ids = unreadable.iter().take(MOST_TOLD);
        let ids: Vec<&str> = ids.map(|token| token.id.as_ref().map_or("?", AccessTokenId::as_str)).collect();
        let count = unreadable.len();
        let rest = count.saturating_sub(ids.len());
        let more = if rest > 0 { format!(", and {rest} more") } else { String::new() };
        let ids = format!("{}{more}", ids.join(", "));
        tracing::warn!(count, ids, "access tokens that can't be read open nothing");
        *known = unreadable;
    }

    fn read_at(&self) -> ReadAt {
        *self.read_at.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_reading(&self, at: ReadAt) {
        *self.read_at.write().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Takes the tokens that count now. What is not among them has ended.
    fn set(&self, counting: Vec<AccessToken>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let agents = counting.iter().filter_map(|token| token.made.agent.clone());
        self.agents.write().unwrap_or_else(PoisonError::into_inner).extend(agents);
        let ids: HashSet<&AccessTokenId> = counting.iter().map(|token| &token.made.id).collect();
        known.retain(|id, token| {
            let counts = ids.contains(id);
            if !counts {
                token.ended.send_replace(true);
            }
            counts
        });
        for token in counting {
            let AccessToken { made, ends_at, .. } = token;
            let known = known.entry(made.id).or_insert_with(|| Known {
                digest: made.digest,
                agent: made.agent,
                user: made.user.map(Arc::from),
                scopes: made.scopes.into(),
                ends_at,
                ended: watch::Sender::new(false),
            });
            known.ends_at = ends_at;
        }
    }

    fn take_uses(&self) -> Vec<(AccessTokenId, Timestamp)> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).drain().collect()
    }

    /// Reads the list for as long as the gateway runs. The first reading is done when this returns.
    pub(crate) async fn follow(self: &Arc<Self>, store: Arc<dyn Store>) -> tokio::task::AbortHandle {
        self.note_reading(ReadAt::Never);
        let mut reader = Reader { tokens: Arc::clone(self), store, is_stale: false };
        reader.read().await;
        tokio::spawn(async move {
            let mut stored_at = Instant::now();
            loop {
                sleep(REFRESH).await;
                reader.read().await;
                if stored_at.elapsed() >= USES {
                    stored_at = Instant::now();
                    reader.store_uses().await;
                }
            }
        })
        .abort_handle()
    }
}

/// Reads the list again and again.
struct Reader {
    tokens: Arc<AccessTokens>,
    store: Arc<dyn Store>,
    is_stale: bool,
}

/// However the reading ends, what nobody reads any more counts no more.
impl Drop for Reader {
    fn drop(&mut self) {
        self.tokens.note_reading(ReadAt::Never);
        self.tokens.set(Vec::new());
    }
}

impl Reader {
    async fn read(&mut self) {
        let begun = Instant::now();
        let reading = timeout(PATIENCE, self.store.counting_access_tokens(Timestamp::now()));
        let problem = match reading.await {
            Ok(Ok(AccessTokenList { tokens, unreadable, .. })) => {
                self.tokens.set(tokens);
                self.tokens.set_unreadable(unreadable);
                self.tokens.note_reading(ReadAt::At(begun));
                self.is_stale = false;
                return;
            }
            Ok(Err(error)) => error.kind().to_string(),
            Err(_) => "does not answer".to_owned(),
        };
        if !self.tokens.read_at().is_fresh() && !std::mem::replace(&mut self.is_stale, true) {
            self.tokens.set(Vec::new());
            tracing::warn!(problem, "the access tokens can't be read: none counts until they can");
        }
    }

    async fn store_uses(&self) {
        let used = self.tokens.take_uses();
        if !used.is_empty() {
            // When a token was used last is for people to see; nothing depends on it.
            let _ = timeout(PATIENCE, self.store.note_access_tokens(used)).await;
        }
    }
}

impl fmt::Debug for AccessTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("AccessTokens").field("known", &known.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_prolongs_no_session() {
        let (minute, ended) = (Duration::from_secs(60), watch::Sender::new(false));
        let (now, tomorrow) = (jiff::Timestamp::now(), jiff::Timestamp::now() + Duration::from_hours(24));
        // The clock of the day was set back: by it, a day is left.
        let set_back = TokenLife::told_until(ended.subscribe(), tomorrow, Instant::now() + minute);
        assert!(!set_back.is_over());
        tokio::time::advance(minute).await;
        assert!(set_back.is_over());
        timeout(minute, set_back.over()).await.unwrap();
        // The machine slept, and the other clock stood still.
        let slept = TokenLife::told_until(ended.subscribe(), now, Instant::now() + minute);
        assert!(slept.is_over());
        timeout(minute, slept.over()).await.unwrap();
        let told = TokenLife::told_until(ended.subscribe(), tomorrow, Instant::now() + minute);
        ended.send_replace(true);
        assert!(told.is_over());
        timeout(minute, told.over()).await.unwrap();
    }
}
