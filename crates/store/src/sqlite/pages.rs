//! The trail in pages, backwards and onwards.

use std::ops::ControlFlow;

use backstop_trail::Frame;
use memchr::memmem;

use super::trail::Trail;
use crate::audit_filter::{MOST_OLDER, MOST_PAGE_BYTES, MOST_PAGE_READ};
use crate::{AuditEntry, AuditFilter, AuditPage, AuditPlace, CLOCK_TOLERANCE, StoreError, Timestamp};

/// What an entry begins with, before its time: its members are in order.
const BEGINS: &[u8] = br#"{"at":"#;

impl Trail {
    pub(super) async fn page(
        &self,
        filter: AuditFilter,
        from: AuditPlace,
        limit: usize,
    ) -> Result<AuditPage, StoreError> {
        self.aside(move |trail| {
            let wanted = filter.needles();
            let mut sifting = Sifting {
                filter: &filter,
                wanted: wanted.iter().map(memmem::Finder::new).collect(),
                limit,
                entries: Vec::new(),
                bytes: 0,
                read: 0,
                older: 0,
                is_full: limit == 0,
                unreadable: false,
            };
            let reader = trail.reader();
            let read = match from {
                _ if limit == 0 => Ok(from),
                AuditPlace::Before(before) => reader
                    .scan_back(before.saturating_sub(1), |index, frame| sifting.see(index, &frame))
                    .map(|reached| AuditPlace::Before(reached + 1)),
                AuditPlace::After(after) => {
                    reader.scan(after, |index, frame| sifting.see(index, &frame)).map(AuditPlace::After)
                }
            };
            let next = read.map_err(|error| trail.failed(&error))?;
            if sifting.unreadable {
                return Err(trail.unreadable());
            }
            let backwards = matches!(from, AuditPlace::Before(_));
            let is_older = backwards && sifting.is_older();
            Ok(AuditPage { ended: !sifting.is_full, is_older, entries: sifting.entries, next })
        })
        .await
    }
}

/// What passes of the entries that are read, and whether more are to be.
struct Sifting<'f> {
    filter: &'f AuditFilter,
    /// What must be in an entry that passes; most are told apart by it, unread.
    wanted: Vec<memmem::Finder<'f>>,
    limit: usize,
    entries: Vec<AuditEntry>,
    bytes: usize,
    read: u64,
    /// How many of the last ones are older than what is looked for.
    older: u64,
    is_full: bool,
    unreadable: bool,
}

impl Sifting<'_> {
    fn see(&mut self, index: u64, frame: &Frame<'_>) -> ControlFlow<()> {
        self.read += 1;
        if let Some(bytes) = frame.entry() {
            self.sift(index, bytes);
        }
        self.is_full = self.entries.len() >= self.limit
            || self.bytes >= MOST_PAGE_BYTES
            || self.read >= MOST_PAGE_READ
            || self.is_older();
        if self.is_full || self.unreadable { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn sift(&mut self, index: u64, bytes: &[u8]) {
        // What has no time where times are is read, and is no entry.
        if let Some(at) = time(bytes) {
            let is_older = self.filter.since.is_some_and(|since| at.after(CLOCK_TOLERANCE) < since);
            self.older = if is_older { self.older + 1 } else { 0 };
            if !self.filter.covers(at) {
                return;
            }
        }
        if !self.wanted.iter().all(|needle| needle.find(bytes).is_some()) {
            return;
        }
        match AuditEntry::read(index + 1, bytes) {
            Some(entry) if self.filter.passes(&entry) => {
                self.bytes += bytes.len();
                self.entries.push(entry);
            }
            Some(_) => {}
            None => self.unreadable = true,
        }
    }

    fn is_older(&self) -> bool {
        self.older >= MOST_OLDER
    }
}

/// Returns the time of an entry, unread.
fn time(bytes: &[u8]) -> Option<Timestamp> {
    let rest = bytes.strip_prefix(BEGINS)?;
    let end = rest.iter().position(|byte| *byte == b',')?;
    let millis = str::from_utf8(rest.get(..end)?).ok()?.parse().ok()?;
    Some(Timestamp::from_millis(millis))
}
