//! What is held of credentials, and when the next are had.
//!
//! A lease is used until shortly before its end. Some time before that the next one is fetched while requests go on with the
//! old; where there is none to go on with, requests wait. However many ask, one renewal is under way, in a task of its own, so
//! that a client that leaves takes nothing from the others; what it comes to is told to all who waited. After a failure the
//! next one is not tried at once, and whoever asks meanwhile is told the same.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::{Fresh, Source, Unobtained};
use crate::head::Credentials;

/// How long before its end a lease is renewed, at most; of a short one a quarter.
const AHEAD: Duration = Duration::from_secs(300);
/// How long before its end a lease is no longer used, at most; of a short one a tenth.
const LAST: Duration = Duration::from_secs(10);
/// How long after a lease was given up because a provider refused it no other one is.
const REFUSED_AGAIN: Duration = Duration::from_secs(30);
/// The wait after the first failure, which doubles with each, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(32);

/// Credentials to use now.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    /// Which one it is, to say that it was refused.
    pub(crate) number: u64,
    pub(crate) credentials: Credentials,
    renew: Instant,
    end: Instant,
}

/// There are no credentials now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unleased {
    pub(crate) reason: Unobtained,
    /// When it may be worth to ask again.
    pub(crate) retry_after: Duration,
}

type Outcome = Result<Lease, Unleased>;

struct Renewal {
    told: watch::Receiver<Option<Outcome>>,
    task: AbortHandle,
}

struct Failed {
    reason: Unobtained,
    until: Instant,
}

impl Failed {
    fn told(&self, now: Instant) -> Unleased {
        Unleased { reason: self.reason.clone(), retry_after: self.until.saturating_duration_since(now) }
    }
}

#[derive(Default)]
struct State {
    /// The number of the last lease.
    number: u64,
    lease: Option<Lease>,
    renewal: Option<Renewal>,
    /// What came of the last renewal, if that failed, and how many have since one did not.
    failed: Option<Failed>,
    failures: u32,
    /// Which lease was last refused, and when.
    refused: Option<(u64, Instant)>,
}

impl State {
    /// Keeps what a renewal came to.
    fn settle(&mut self, obtained: Result<Fresh, Unobtained>) -> Outcome {
        let now = Instant::now();
        self.renewal = None;
        match obtained {
            Ok(Fresh { credentials, lifetime }) => {
                self.number += 1;
                (self.failed, self.failures) = (None, 0);
                let lease = Lease {
                    number: self.number,
                    credentials,
                    renew: now + lifetime.saturating_sub(AHEAD.min(lifetime / 4)),
                    end: now + lifetime.saturating_sub(LAST.min(lifetime / 10)),
                };
                self.lease = Some(lease.clone());
                Ok(lease)
            }
            Err(reason) => {
                let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(5)).min(LONGEST_WAIT);
                self.failures += 1;
                let failed = self.failed.insert(Failed { reason, until: now + wait });
                Err(failed.told(now))
            }
        }
    }
}

/// Has credentials for one provider.
pub(crate) struct Lessor {
    source: Arc<Source>,
    patience: Duration,
    state: Arc<Mutex<State>>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lessor {
    pub(crate) fn new(source: Source, patience: Duration) -> Self {
        Self { source: Arc::new(source), patience, state: Arc::default() }
    }

    /// Credentials to use now. Whoever was refused those of lease `refused` waits for the next, and gets the same again only
    /// where the next can't be had.
    pub(crate) async fn lease(&self, refused: Option<u64>) -> Outcome {
        let (mut told, valid) = {
            let mut state = lock(&self.state);
            let now = Instant::now();
            let valid = state.lease.clone().filter(|lease| now < lease.end);
            if let Some(lease) = valid.as_ref().filter(|lease| now < lease.renew) {
                return Ok(lease.clone());
            }
            if let Some(failed) = state.failed.as_ref().filter(|failed| now < failed.until) {
                return valid.ok_or_else(|| failed.told(now));
            }
            // One that ended without a word is none.
            let under_way = state.renewal.as_ref().filter(|renewal| renewal.told.has_changed().is_ok());
            let told = match under_way {
                Some(renewal) => renewal.told.clone(),
                None => self.begin(&mut state),
            };
            if let Some(lease) = valid.as_ref().filter(|lease| Some(lease.number) != refused) {
                return Ok(lease.clone());
            }
            (told, valid)
        };
        let told = timeout(self.patience, told.wait_for(Option::is_some)).await;
        let outcome = told.ok().and_then(|told| told.ok()?.clone());
        let outcome = outcome.unwrap_or_else(|| {
            let reason = Unobtained::Slow(self.patience);
            Err(Unleased { reason, retry_after: FIRST_WAIT })
        });
        outcome.or_else(|unleased| valid.ok_or(unleased))
    }

    /// Begins a renewal.
    fn begin(&self, state: &mut State) -> watch::Receiver<Option<Outcome>> {
        let (say, told) = watch::channel(None);
        let (source, shared, patience) = (Arc::clone(&self.source), Arc::clone(&self.state), self.patience);
        let task = tokio::spawn(async move {
            let obtained = timeout(patience, source.obtain()).await;
            let obtained = obtained.unwrap_or(Err(Unobtained::Slow(patience)));
            let outcome = lock(&shared).settle(obtained);
            say.send_replace(Some(outcome));
        });
        state.renewal = Some(Renewal { told: told.clone(), task: task.abort_handle() });
        told
    }

    /// Takes note that the provider refused lease `number`, which is used on until the next is there: a client may be the
    /// reason. Whether there may be another one.
    pub(crate) fn refused(&self, number: u64) -> bool {
        let mut state = lock(&self.state);
        let now = Instant::now();
        let (last, has_failed) = (state.refused, state.failed.is_some());
        if let Some(lease) = state.lease.as_mut().filter(|lease| lease.number == number) {
            if let Some((before, at)) = last
                && now < at + REFUSED_AGAIN
            {
                // The others who were refused the same wait with the first.
                return before == number && !has_failed;
            }
            lease.renew = now;
            state.refused = Some((number, now));
        }
        true
    }
}

impl Drop for Lessor {
    fn drop(&mut self) {
        if let Some(renewal) = lock(&self.state).renewal.take() {
            renewal.task.abort();
        }
    }
}

impl fmt::Debug for Lessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lessor").field("source", &self.source).finish_non_exhaustive()
    }
}

/// A source that does what it is told.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Scripted {
    /// How often it was asked.
    pub(crate) asked: Arc<std::sync::atomic::AtomicUsize>,
    /// What it gives, and how long that takes.
    pub(crate) gives: fn(usize) -> (Duration, Result<Duration, Unobtained>),
}

#[cfg(test)]
impl Scripted {
    pub(crate) async fn obtain(&self) -> Result<Fresh, Unobtained> {
        let number = self.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let (wait, lifetime) = (self.gives)(number);
        tokio::time::sleep(wait).await;
        Ok(Fresh { credentials: Credentials::Client, lifetime: lifetime? })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn no() -> Unobtained {
        Unobtained::Program { program: "x".to_owned(), problem: "said no".to_owned() }
    }

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    fn lessor(
        gives: fn(usize) -> (Duration, Result<Duration, Unobtained>),
    ) -> (Arc<Lessor>, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let source = Source::Scripted(Scripted { asked: Arc::clone(&asked), gives });
        (Arc::new(Lessor::new(source, 30 * SECOND)), asked)
    }

    async fn number(lessor: &Lessor) -> u64 {
        lessor.lease(None).await.unwrap().number
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_at_once_ask_once() {
        let (lessor, asked) = lessor(|_| (SECOND, Ok(HOUR)));
        let all: Vec<_> = (0..100)
            .map(|_| {
                let lessor = Arc::clone(&lessor);
                tokio::spawn(async move { number(&lessor).await })
            })
            .collect();
        for one in all {
            assert_eq!(one.await.unwrap(), 1);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_leaves_takes_nothing_from_the_others() {
        let (lessor, asked) = lessor(|_| (SECOND, Ok(HOUR)));
        assert!(timeout(SECOND / 2, lessor.lease(None)).await.is_err());
        assert_eq!(number(&lessor).await, 1);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_before_it_ends_and_nobody_waits() {
        let (lessor, asked) = lessor(|_| (5 * SECOND, Ok(HOUR)));
        assert_eq!(number(&lessor).await, 1);
        tokio::time::sleep(HOUR - AHEAD + SECOND).await;
        for _ in 0..10 {
            let begun = Instant::now();
            assert_eq!(number(&lessor).await, 1);
            assert_eq!(begun.elapsed(), Duration::ZERO);
        }
        tokio::time::sleep(6 * SECOND).await;
        assert_eq!(number(&lessor).await, 2);
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_ended_is_never_used() {
        let (lessor, _) = lessor(|number| match number {
            0 => (Duration::ZERO, Ok(HOUR)),
            _ => (Duration::ZERO, Err(no())),
        });
        assert_eq!(number(&lessor).await, 1);
        tokio::time::sleep(HOUR - AHEAD + SECOND).await;
        // It can't be renewed, and is good for a while.
        for _ in 0..3 {
            assert_eq!(number(&lessor).await, 1);
            tokio::time::sleep(SECOND).await;
        }
        tokio::time::sleep(AHEAD - LAST).await;
        let unleased = lessor.lease(None).await.unwrap_err();
        assert_eq!(unleased.reason, no());
        assert!(unleased.retry_after <= LONGEST_WAIT && unleased.retry_after > Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_to_all_and_not_repeated_at_once() {
        let (lessor, asked) = lessor(|number| match number {
            0..3 => (SECOND, Err(no())),
            _ => (SECOND, Ok(HOUR)),
        });
        let mut waits = Vec::new();
        for _ in 0..3 {
            let first = lessor.lease(None).await.unwrap_err();
            for _ in 0..50 {
                assert_eq!(lessor.lease(None).await.unwrap_err(), first);
            }
            waits.push(first.retry_after);
            tokio::time::sleep(first.retry_after).await;
        }
        assert_eq!(waits, [SECOND, 2 * SECOND, 4 * SECOND]);
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        assert_eq!(number(&lessor).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_the_patience() {
        let (lessor, _) = lessor(|_| (HOUR, Ok(HOUR)));
        let begun = Instant::now();
        assert_eq!(lessor.lease(None).await.unwrap_err().reason, Unobtained::Slow(30 * SECOND));
        assert_eq!(begun.elapsed(), 30 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_refused_is_had_anew_and_not_again_and_again() {
        let (lessor, asked) = lessor(|_| (SECOND, Ok(HOUR)));
        assert_eq!(number(&lessor).await, 1);
        assert!(lessor.refused(1));
        // It is used on by all but those who were refused it.
        assert_eq!(number(&lessor).await, 1);
        assert!(lessor.refused(1), "a renewal is under way");
        assert_eq!(lessor.lease(Some(1)).await.unwrap().number, 2);
        assert_eq!(number(&lessor).await, 2);
        // Somebody who was refused the one before has another to try.
        assert!(lessor.refused(1));
        for _ in 0..10 {
            assert!(!lessor.refused(2));
            assert_eq!(number(&lessor).await, 2);
        }
        tokio::time::sleep(REFUSED_AGAIN).await;
        assert!(lessor.refused(2));
        assert_eq!(lessor.lease(Some(2)).await.unwrap().number, 3);
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_was_refused_is_kept_where_there_is_no_other() {
        let (lessor, _) = lessor(|number| match number {
            0 => (Duration::ZERO, Ok(HOUR)),
            _ => (SECOND, Err(no())),
        });
        assert_eq!(number(&lessor).await, 1);
        assert!(lessor.refused(1));
        assert_eq!(lessor.lease(Some(1)).await.unwrap().number, 1);
        for _ in 0..100 {
            assert_eq!(number(&lessor).await, 1);
            tokio::time::sleep(SECOND).await;
        }
    }
}
