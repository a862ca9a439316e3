//! Who is signed in.
//!
//! Laws:
//!
//! - *A session is known by the digest of what a browser shows of it*: a cookie of 32 random bytes and, in the clear, a key of as many. Nothing here
//!   holds them, and one without the other is nothing.
//! - *A session ends* with its token, when nobody did anything for [`IDLE`], after [`LONGEST`], and when the person signs out. What a page asks by itself, or
//!   a page of others has the browser ask, is nothing that anybody did. A clock that is set prolongs nothing: the longer of two clocks counts.
//! - *Nobody fills the house*: one token has [`MOST_OF_TOKEN`] sessions, and another one ends the oldest. One session has [`MOST_STREAMS`] streams.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_console::{Role, Viewer};
use backstop_hooks::Digest;
use backstop_store::{Answerer, People, Scope, Timestamp};
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::guard::{Transport, random, together};
use crate::access::Holder;

/// How long a session lasts in which nobody does anything.
pub(super) const IDLE: Duration = Duration::from_secs(15 * 60);
/// How long a session lasts at most.
pub(super) const LONGEST: Duration = Duration::from_secs(8 * 3600);
/// How many sessions there are at once, and how many of one token.
const MOST: usize = 1_024;
const MOST_OF_TOKEN: usize = 16;
/// How many streams one session has at once. Browsers open six connections to a place.
const MOST_STREAMS: usize = 8;
/// The bytes of a cookie, of a key, and of the token in forms.
const BYTES: usize = 32;
/// The role of what is shown in its digest.
const ROLE: &str = "console_session";

/// All sessions.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<Digest, Session>>);

struct Session {
    seat: Seat,
    began: Moment,
    used: Moment,
}

/// Whose a session is.
#[derive(Clone)]
pub(super) struct Seat {
    holder: Arc<Holder>,
    form_token: Arc<str>,
    streams: Arc<Semaphore>,
    key: Digest,
}

/// What a browser is given of a new session.
pub(super) struct Entered {
    pub(super) cookie: String,
    /// The key, where it needs one.
    pub(super) key: Option<String>,
}

impl Entered {
    /// What the browser shows from then on.
    fn shown(&self) -> String {
        self.key.as_ref().map_or_else(|| self.cookie.clone(), |key| together(&self.cookie, key))
    }
}

/// A moment by two clocks: one that nobody sets, and one that goes on while the machine sleeps.
#[derive(Clone, Copy)]
struct Moment(Instant, Timestamp);

impl Moment {
    fn now() -> Self {
        Self(Instant::now(), Timestamp::now())
    }

    fn is_past(self, span: Duration) -> bool {
        self.0.elapsed().max(self.1.until(Timestamp::now())) >= span
    }
}

impl Session {
    fn is_over(&self) -> bool {
        self.used.is_past(IDLE) || self.began.is_past(LONGEST) || self.seat.holder.life.is_over()
    }
}

impl Sessions {
    /// Signs somebody in who came by that transport. `None` if there is no room.
    pub(super) fn enter(&self, holder: Holder, transport: Transport) -> Option<Entered> {
        let (cookie, form_token) = (random::<BYTES>()?, random::<BYTES>()?);
        let key = match transport {
            Transport::Secure => None,
            Transport::Own => Some(random::<BYTES>()?),
        };
        let entered = Entered { cookie, key };
        let (key, now) = (Digest::of_text(ROLE, &entered.shown()), Moment::now());
        let mut all = self.all();
        all.retain(|_, session| !session.is_over());
        let of_token: Vec<_> = all.iter().filter(|(_, one)| one.seat.holder.id == holder.id).collect();
        if of_token.len() >= MOST_OF_TOKEN {
            let oldest = of_token.into_iter().min_by_key(|(_, one)| one.began.0).map(|(key, _)| *key);
            oldest.map(|oldest| all.remove(&oldest));
        }
        if all.len() >= MOST {
            return None;
        }
        let streams = Arc::new(Semaphore::new(MOST_STREAMS));
        let seat = Seat { holder: Arc::new(holder), form_token: form_token.into(), streams, key };
        all.insert(key, Session { seat, began: now, used: now });
        Some(entered)
    }

    /// Returns whose session a browser [shows](super::guard::shown). Unless the page asks by itself, the person is there.
    pub(super) fn find(&self, shown: &str, is_aside: bool) -> Option<Seat> {
        let key = Digest::of_text(ROLE, shown);
        let mut all = self.all();
        let session = all.get_mut(&key)?;
        if session.is_over() {
            all.remove(&key);
            return None;
        }
        if !is_aside {
            session.used = Moment::now();
        }
        Some(session.seat.clone())
    }

    /// Returns whether a session goes on.
    pub(super) fn goes_on(&self, seat: &Seat) -> bool {
        self.all().get(&seat.key).is_some_and(|session| !session.is_over())
    }

    /// Ends a session.
    pub(super) fn leave(&self, seat: &Seat) {
        self.all().remove(&seat.key);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Digest, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sessions").field(&self.all().len()).finish()
    }
}

impl Seat {
    pub(super) fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The room for streams of this session.
    pub(super) const fn streams(&self) -> &Arc<Semaphore> {
        &self.streams
    }

    /// Returns whether a form holds the token of this session.
    pub(super) fn is_its_form(&self, given: &str) -> bool {
        self.form_token.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// Whether its token has a scope.
    fn has(&self, scope: Scope) -> bool {
        self.holder.scopes.contains(&scope)
    }

    pub(super) fn may_answer(&self) -> bool {
        self.has(Scope::Approve)
    }

    pub(super) fn may_read(&self) -> bool {
        self.has(Scope::Read) || self.has(Scope::Admin)
    }

    pub(super) fn may_administer(&self) -> bool {
        self.has(Scope::Admin)
    }

    pub(super) fn viewer(&self) -> Viewer {
        let role = match (self.has(Scope::Admin), self.may_answer()) {
            (true, _) => Role::Admin,
            (false, true) => Role::Approver,
            (false, false) => Role::Viewer,
        };
        Viewer {
            name: self.holder.user.as_deref().unwrap_or("somebody").to_owned(),
            role,
            may_answer: self.may_answer(),
            may_read: self.may_read(),
            form_token: self.form_token.to_string(),
        }
    }

    /// Returns who answers, as a person of the configuration where it is one.
    pub(super) fn answerer(&self, people: &Arc<People>) -> Answerer {
        let user = self.holder.user.as_deref().unwrap_or("somebody");
        let by = match &self.holder.vouched {
            None => format!("token {}", self.holder.id),
            Some(vouched) => format!("signed in at {}", vouched.issuer),
        };
        self.holder.answerer(people, format!("{user}, by the console ({by})"))
    }
}

#[cfg(test)]
mod tests {
    use std::iter::repeat_with;

    use crate::access::TokenLife;

    use super::*;

    fn holder(token: &str, until: jiff::Timestamp) -> Holder {
        Holder {
            id: token.to_owned().into(),
            agent: None,
            user: Some("ann".into()),
            scopes: [Scope::Read].into(),
            life: TokenLife::until(until),
            vouched: None,
        }
    }

    fn enter(sessions: &Sessions, token: &str, until: jiff::Timestamp) -> String {
        sessions.enter(holder(token, until), Transport::Secure).unwrap().cookie
    }

    fn later() -> jiff::Timestamp {
        jiff::Timestamp::now() + Duration::from_hours(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_nobody_does_anything_and_some_day() {
        let sessions = Sessions::default();
        let cookie = enter(&sessions, "a", later());
        assert_eq!(cookie.len(), 2 * BYTES);
        assert!(sessions.find("", false).is_none() && sessions.find(&format!("{cookie}0"), false).is_none());
        // A page that asks by itself keeps nobody in.
        let minute = Duration::from_secs(60);
        for _ in 0..14 {
            tokio::time::advance(minute).await;
            assert!(sessions.find(&cookie, true).is_some());
        }
        tokio::time::advance(minute).await;
        assert!(sessions.find(&cookie, true).is_none());
        // Whoever does something stays, and not for ever.
        let cookie = enter(&sessions, "a", later());
        for _ in 0..(8 * 60 / 10 - 1) {
            tokio::time::advance(10 * minute).await;
            assert!(sessions.find(&cookie, false).is_some());
        }
        tokio::time::advance(10 * minute).await;
        assert!(sessions.find(&cookie, false).is_none());
    }

    #[tokio::test]
    async fn a_session_ends_with_its_token_and_when_the_person_leaves() {
        let sessions = Sessions::default();
        let over = enter(&sessions, "a", jiff::Timestamp::now());
        assert!(sessions.find(&over, false).is_none());
        let cookie = enter(&sessions, "a", later());
        let seat = sessions.find(&cookie, false).unwrap();
        assert!(
            seat.is_its_form(&seat.viewer().form_token)
                && !seat.is_its_form("")
                && !seat.is_its_form(&cookie)
        );
        sessions.leave(&seat);
        assert!(sessions.find(&cookie, false).is_none() && !sessions.goes_on(&seat));
    }

    #[tokio::test]
    async fn in_the_clear_one_half_of_a_session_is_nothing() {
        let sessions = Sessions::default();
        let Entered { cookie, key } = sessions.enter(holder("a", later()), Transport::Own).unwrap();
        let key = key.unwrap();
        let other = sessions.enter(holder("a", later()), Transport::Own).unwrap().key.unwrap();
        assert!(sessions.find(&together(&cookie, &key), false).is_some());
        for shown in [cookie.clone(), key, together(&cookie, ""), together(&cookie, &other)] {
            assert!(sessions.find(&shown, false).is_none());
        }
    }

    #[tokio::test]
    async fn one_token_does_not_fill_the_house() {
        let sessions = Sessions::default();
        let other = enter(&sessions, "b", later());
        let mine: Vec<_> = repeat_with(|| enter(&sessions, "a", later())).take(MOST_OF_TOKEN + 3).collect();
        let on = mine.iter().filter(|cookie| sessions.find(cookie, false).is_some()).count();
        assert_eq!(on, MOST_OF_TOKEN);
        assert!(
            sessions.find(mine.last().unwrap(), false).is_some() && sessions.find(&other, false).is_some()
        );
    }
}
