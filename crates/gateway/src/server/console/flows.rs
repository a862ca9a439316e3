//! Sign-ins at an identity provider that are under way.
//!
//! Laws:
//!
//! - *Nothing is kept of what was begun.* All of it is in a cookie of the browser that began, which only this process can write: nobody fills a house by beginning. What
//!   the browser takes to the provider (`state`, `nonce`) and what it never sees (the verifier of PKCE) follow from a random part of that cookie by a key of this
//!   process, and from the settings in force.
//! - *It ends in the browser in which it began, once*, and within [`LONGEST`]. What was used is remembered as long as it would count. A clock that is set prolongs
//!   nothing: the longer of two clocks counts.
//! - *What comes back in another browser is used up by that.* Whoever has a person's browser open the provider for a sign-in of theirs finds the code in the
//!   history of that browser, and must not end with it what they began.
//!
//! Limits: in one browser the sign-in counts that was begun last. What was begun before a restart ends nowhere.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop_hooks::Secret;
use backstop_store::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, Tag, sign, verify};
use ring::rand::SystemRandom;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::guard::random;

/// How long a person may take.
const LONGEST: Duration = Duration::from_secs(600);
/// How many are remembered that were used. More are not finished; so many can't be in [`LONGEST`] by the pace of [`login`](super::login).
const MOST_USED: usize = 16_384;
/// The random bytes of one.
const BYTES: usize = 32;
/// The longest cookie that is read.
const LONGEST_COOKIE: usize = 2 << 10;

/// All sign-ins that are under way.
pub(super) struct Flows {
    /// `None` where there is nothing random, so that nobody signs in so.
    key: Option<Key>,
    since: Instant,
    used: Mutex<HashMap<String, Instant>>,
}

/// One that begins.
pub(super) struct Begun {
    pub(super) cookie: String,
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) challenge: String,
}

/// One that is to end.
pub(super) struct Back {
    pub(super) nonce: String,
    pub(super) verifier: Secret,
    /// Where the person wanted to go.
    pub(super) to: String,
}

/// What a cookie holds.
struct Sealed {
    /// The seconds of this process at which it began.
    up: u64,
    /// The millisecond of the Unix epoch.
    began: i64,
    to: String,
}

/// Why one ends nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// It was not begun since the start, or under these settings.
    Unknown,
    /// This browser did not begin it, or not last.
    Elsewhere,
    /// It took too long.
    Over,
    /// It was used.
    Used,
    /// Too many were used.
    Full,
}

impl Default for Flows {
    fn default() -> Self {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new()).ok();
        Self { key, since: Instant::now(), used: Mutex::default() }
    }
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flows").finish_non_exhaustive()
    }
}

impl Flows {
    /// Begins one under settings that `bound_to` says. `None` where there is nothing random.
    pub(super) fn begin(&self, bound_to: &str, to: &str) -> Option<Begun> {
        let key = self.key.as_ref()?;
        let random = random::<BYTES>()?;
        let (up, now) = (self.since.elapsed().as_secs(), Timestamp::now().as_millis());
        let sealed = format!("{random}.{up}.{now}.{}", URL_SAFE_NO_PAD.encode(to));
        let seal = URL_SAFE_NO_PAD.encode(of(key, "cookie", bound_to, &sealed));
        let verifier = of(key, "verifier", bound_to, &random);
        let challenge = digest(&SHA256, URL_SAFE_NO_PAD.encode(verifier).as_bytes());
        Some(Begun {
            cookie: format!("{sealed}.{seal}"),
            state: format!("{random}.{}", URL_SAFE_NO_PAD.encode(of(key, "state", bound_to, &random))),
            nonce: URL_SAFE_NO_PAD.encode(of(key, "nonce", bound_to, &random)),
            challenge: URL_SAFE_NO_PAD.encode(challenge),
        })
    }

    /// Ends the one of this state, if the cookie of the browser is of it. It ends nowhere again.
    pub(super) fn end(&self, bound_to: &str, cookie: &str, state: &str) -> Result<Back, Lost> {
        let key = self.key.as_ref().ok_or(Lost::Unknown)?;
        let (random, tag) = state.split_once('.').ok_or(Lost::Unknown)?;
        is_tag(key, &message("state", bound_to, random), tag).ok_or(Lost::Unknown)?;
        self.use_up(random)?;
        let Sealed { up, began, to } = opened(key, bound_to, cookie, random).ok_or(Lost::Elsewhere)?;
        let by_uptime = self.since.elapsed().saturating_sub(Duration::from_secs(up));
        if by_uptime.max(Timestamp::from_millis(began).until(Timestamp::now())) >= LONGEST {
            return Err(Lost::Over);
        }
        Ok(Back {
            nonce: URL_SAFE_NO_PAD.encode(of(key, "nonce", bound_to, random)),
            verifier: Secret::new(URL_SAFE_NO_PAD.encode(of(key, "verifier", bound_to, random))),
            to,
        })
    }

    fn use_up(&self, random: &str) -> Result<(), Lost> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // A second is what the uptime in a cookie may be cut by.
        used.retain(|_, at| at.elapsed() < LONGEST + Duration::from_secs(1));
        if used.contains_key(random) {
            return Err(Lost::Used);
        }
        if used.len() >= MOST_USED {
            return Err(Lost::Full);
        }
        used.insert(random.to_owned(), Instant::now());
        Ok(())
    }
}

/// What the cookie of that sign-in holds; `None` for what is no cookie of it.
fn opened(key: &Key, bound_to: &str, cookie: &str, of: &str) -> Option<Sealed> {
    if cookie.len() > LONGEST_COOKIE {
        return None;
    }
    let (sealed, tag) = cookie.rsplit_once('.')?;
    is_tag(key, &message("cookie", bound_to, sealed), tag)?;
    let mut parts = sealed.split('.');
    let (random, up, began, to) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_of_it = bool::from(random.as_bytes().ct_eq(of.as_bytes())) && parts.next().is_none();
    let to = String::from_utf8(URL_SAFE_NO_PAD.decode(to).ok()?).ok()?;
    let sealed = Sealed { up: up.parse().ok()?, began: began.parse().ok()?, to };
    is_of_it.then_some(sealed)
}

/// Checks a tag, in constant time.
fn is_tag(key: &Key, message: &[u8], tag: &str) -> Option<()> {
    verify(key, message, &URL_SAFE_NO_PAD.decode(tag).ok()?).ok()
}

/// What follows from something by a key, for one use, under these settings.
fn of(key: &Key, what: &str, bound_to: &str, from: &str) -> Tag {
    sign(key, &message(what, bound_to, from))
}

/// `what` has no line break, and neither has `from`, which is last: no two of these are the same text.
fn message(what: &str, bound_to: &str, from: &str) -> Vec<u8> {
    format!("{what}\n{bound_to}\n{from}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: &str = "https://login\nclient\nhttps://console";
    const TO: &str = "/-/console/audit?text=a;b,c";

    fn lost(flows: &Flows, bound_to: &str, cookie: &str, state: &str) -> Option<Lost> {
        flows.end(bound_to, cookie, state).err()
    }

    #[tokio::test]
    async fn one_ends_where_it_began_and_once() {
        let flows = Flows::default();
        let (one, other) = (flows.begin(BOUND, TO).unwrap(), flows.begin(BOUND, TO).unwrap());
        assert!(one.cookie != other.cookie && one.state != other.state && one.nonce != other.nonce);
        let printable = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        assert!(one.cookie.bytes().all(printable), "{}", one.cookie);
        for state in [
            "",
            &one.nonce,
            &one.cookie,
            &format!("{}A", one.state),
            &format!("0{}", one.state),
            one.state.split_once('.').unwrap().0,
            &format!("{}.{}", one.state.split_once('.').unwrap().0, other.state.split_once('.').unwrap().1),
        ] {
            assert_eq!(lost(&flows, BOUND, &one.cookie, state), Some(Lost::Unknown), "{state}");
        }
        assert_eq!(lost(&flows, "https://other\nclient\nx", &one.cookie, &one.state), Some(Lost::Unknown));
        assert_eq!(lost(&Flows::default(), BOUND, &one.cookie, &one.state), Some(Lost::Unknown));
        let back = flows.end(BOUND, &one.cookie, &one.state).unwrap();
        assert_eq!((back.to.as_str(), &back.nonce), (TO, &one.nonce));
        // RFC 7636, 4.1 and 4.2.
        let verifier = back.verifier.expose();
        assert_eq!(verifier.len(), 43);
        assert_eq!(URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes())), one.challenge);
        assert!(
            ![&one.cookie, &one.state, &one.nonce, &one.challenge].iter().any(|it| it.contains(verifier))
        );
        assert_eq!(lost(&flows, BOUND, &one.cookie, &one.state), Some(Lost::Used));
        assert_eq!(lost(&flows, BOUND, &other.cookie, &other.state), None);
    }

    #[tokio::test]
    async fn what_comes_back_in_another_browser_is_used_up() {
        let flows = Flows::default();
        let other = flows.begin(BOUND, TO).unwrap();
        let foreign = Flows::default().begin(BOUND, TO).unwrap();
        let shown = |one: &Begun| {
            [
                String::new(),
                other.cookie.clone(),
                foreign.cookie.clone(),
                format!("{}A", one.cookie),
                one.cookie.replacen('.', ".0", 1),
                one.cookie.rsplit_once('.').unwrap().0.to_owned(),
                "x".repeat(3_000),
            ]
        };
        for case in 0..7 {
            let one = flows.begin(BOUND, TO).unwrap();
            let cookie = &shown(&one)[case];
            assert_eq!(lost(&flows, BOUND, cookie, &one.state), Some(Lost::Elsewhere), "{cookie}");
            assert_eq!(lost(&flows, BOUND, &one.cookie, &one.state), Some(Lost::Used), "{cookie}");
        }
        assert_eq!(lost(&flows, BOUND, &other.cookie, &other.state), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_ends_within_ten_minutes_and_is_remembered_as_long() {
        let flows = Flows::default();
        let (late, used) = (flows.begin(BOUND, TO).unwrap(), flows.begin(BOUND, TO).unwrap());
        tokio::time::advance(LONGEST - Duration::from_secs(2)).await;
        assert_eq!(lost(&flows, BOUND, &used.cookie, &used.state), None);
        assert_eq!(lost(&flows, BOUND, &used.cookie, &used.state), Some(Lost::Used));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(lost(&flows, BOUND, &late.cookie, &late.state), Some(Lost::Over));
        assert_eq!(lost(&flows, BOUND, &used.cookie, &used.state), Some(Lost::Used));
        tokio::time::advance(LONGEST * 2).await;
        let next = flows.begin(BOUND, TO).unwrap();
        assert_eq!(lost(&flows, BOUND, &next.cookie, &next.state), None);
        assert_eq!(flows.used.lock().unwrap().len(), 1, "what would not count is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_can_be_remembered_are_not_finished() {
        let flows = Flows::default();
        flows.used.lock().unwrap().extend((0..MOST_USED).map(|number| (number.to_string(), Instant::now())));
        let one = flows.begin(BOUND, TO).unwrap();
        assert_eq!(lost(&flows, BOUND, &one.cookie, &one.state), Some(Lost::Full));
        tokio::time::advance(LONGEST * 2).await;
        let one = flows.begin(BOUND, TO).unwrap();
        assert_eq!(lost(&flows, BOUND, &one.cookie, &one.state), None);
    }
}
