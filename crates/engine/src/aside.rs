//! Runs long work without blocking the other tasks of a runtime thread.
//!
//! A large text would occupy a thread for so long that its other tasks starve, so these are moved to
//! another thread first. The law: *that is bounded*. Each move may take one more thread, so only a limited number happen at
//! once; work beyond that runs where it is.
//!
//! Limits: a runtime with one thread has no other thread, so its tasks wait.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};

/// Work on this many bytes and more is done aside.
const LARGE: usize = 256 << 10;

/// What is worked on aside, on all runtimes of the process.
static ASIDE: Places = Places::new();

/// Does work on so many bytes: aside where it is much, so that what else the thread has to do goes on meanwhile. At most as many
/// such works as the machine has processors are aside at once.
pub fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    if bytes < LARGE || !matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
        return work();
    }
    match ASIDE.take(most()) {
        Some(_place) => tokio::task::block_in_place(work),
        None => work(),
    }
}

/// Returns how many works may be aside at once.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| available_parallelism().map_or(1, NonZeroUsize::get))
}

/// Places that are taken.
#[derive(Debug)]
struct Places(AtomicUsize);

/// One of them, until it is dropped.
#[derive(Debug)]
struct Place<'a>(&'a Places);

impl Places {
    const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// One more, unless `most` are taken.
    fn take(&self, most: usize) -> Option<Place<'_>> {
        let one_more = |taken: usize| (taken < most).then_some(taken + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok().map(|_| Place(self))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_only_so_many_places_and_each_is_given_back() {
        let places = Places::new();
        let first = places.take(2);
        let second = places.take(2);
        assert!(first.is_some() && second.is_some() && places.take(2).is_none());
        drop(first);
        let third = places.take(2);
        assert!(third.is_some() && places.take(2).is_none());
        let panicked = std::panic::catch_unwind(move || {
            let _place = third;
            panic!("the work failed");
        });
        assert!(panicked.is_err() && places.take(2).is_some());
    }

    /// Whatever is under way, all of it is done.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_beyond_the_bound_is_done_where_it_is() {
        let held: Vec<_> = std::iter::from_fn(|| ASIDE.take(most())).collect();
        assert!(held.len() <= most());
        assert_eq!(aside(LARGE, || 7), 7);
        drop(held);
        let works = (0..most() * 4).map(|number| tokio::spawn(async move { aside(LARGE, move || number) }));
        for (number, work) in works.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(work.await.unwrap(), number);
        }
        assert_eq!(ASIDE.0.load(Ordering::Acquire), 0);
    }
}
