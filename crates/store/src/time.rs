//! Points in time.

use std::fmt;
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
}
