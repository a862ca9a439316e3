//! Points in time: by the clock of the machine, which people and servers set, and since its start.

use std::fmt;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since 1970-01-01 UTC. Shown as RFC 3339.
///
/// ```
/// use backstop_store::Timestamp;
/// assert_eq!(Timestamp::from_millis(1_500).to_string(), "1970-01-01T00:00:01.5Z");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Returns the current time of the machine's clock.
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_millisecond())
    }

    /// Creates a point given in milliseconds since 1970-01-01 UTC.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the point `span` later; stops at the end of the range.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the point `span` earlier; stops at the beginning of the range.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns how long it is from `self` to `later`; zero if `later` is not later.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// A moment since the machine was started, on the clock that counts on while it sleeps and that nobody sets. All processes of a
/// machine read the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uptime {
    /// Which start of the machine it counts from.
    boot: String,
    /// Milliseconds.
    at: u64,
}

impl Uptime {
    /// Returns the current moment; `None` where the system does not say which start it counts from.
    pub fn now() -> Option<Self> {
        Some(Self { boot: boot()?.to_owned(), at: since_boot()? })
    }

    /// Returns the moment `span` later; stops at the end of the range.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self { at: self.at.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)), ..self }
    }

    /// Returns whether it has passed; `None` if it counts from another start of the machine, or of another machine.
    pub fn has_passed(&self) -> Option<bool> {
        let now = Self::now()?;
        (now.boot == self.boot).then_some(now.at > self.at)
    }

    pub(crate) fn parts(&self) -> (&str, u64) {
        (&self.boot, self.at)
    }
}

/// The id that the kernel makes up at its start (`random(4)`).
#[cfg(target_os = "linux")]
fn boot() -> Option<&'static str> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    BOOT.get_or_init(|| read().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())).as_deref()
}

#[cfg(target_os = "linux")]
fn since_boot() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, millis) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()? / 1_000_000);
    seconds.checked_mul(1_000)?.checked_add(millis)
}

#[cfg(not(target_os = "linux"))]
fn boot() -> Option<&'static str> {
    None
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stays_in_range() {
        assert_eq!(Timestamp::from_millis(i64::MAX).after(Duration::MAX).as_millis(), i64::MAX);
        assert_eq!(Timestamp::from_millis(i64::MIN).before(Duration::MAX).as_millis(), i64::MIN);
        assert_eq!(Timestamp::from_millis(10).before(Duration::from_millis(4)), Timestamp::from_millis(6));
        assert_eq!(Timestamp::from_millis(10).until(Timestamp::from_millis(4)), Duration::ZERO);
        assert_eq!(Timestamp::from_millis(4).until(Timestamp::from_millis(10)), Duration::from_millis(6));
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), format!("{} ms", i64::MAX));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_moment_since_the_start_passes_and_says_nothing_of_other_starts() {
        let now = Uptime::now().unwrap();
        assert_eq!(now.clone().after(Duration::from_secs(3_600)).has_passed(), Some(false));
        assert_eq!(Uptime { at: 0, ..now.clone() }.has_passed(), Some(true));
        assert_eq!(Uptime { boot: "another".to_owned(), ..now.clone() }.has_passed(), None);
        assert_eq!(now.after(Duration::MAX).at, u64::MAX);
    }
}
