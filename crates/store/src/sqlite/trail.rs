//! The audit trail beside the database: a folder with a log, and the key that signs its checkpoints.
//!
//! `backstop.db` has its trail in `backstop.trail`, and the key in `audit.key` beside them. The log is written by a thread of its own, so that
//! entries never wait for the database, nor a process that only writes entries for opening it. It is read on threads that end with the reading.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use backstop_hooks::Digest;
use backstop_trail::{
    AddCheckpoint, Appended, Body, Envelope, Extent, Late, Log, Options, Reader, SignedCheckpoint,
    SigningKey, TrailError, Trust, Unproved, VerifierKey, VerifyError, Writer, verify_each,
};
use memchr::memmem;
use serde_json::json;
use tokio::sync::oneshot;

use crate::answered::who;
use crate::audit::{AuditLate, AuditProcess};
use crate::keyed::{KeyedEntry, Keying};
use crate::policy::POLICY;
use crate::{
    AUDIT_GAP, AUDIT_IMPAIRED, AUDIT_OMITTED, AppendAuditError, AuditCheckpoints, AuditEntry, AuditFilter,
    AuditHead, AuditReport, AuditStep, AuditUnproved, CLOCK_TOLERANCE, Durability, NewAuditEntry,
    PolicyInForce, ProveAuditError, RotatedAuditKey, StoreError, StoreErrorKind, Timestamp, VerifyAuditError,
};

/// How a key is replaced that is kept elsewhere.
const REPLACES: &str = "stop what writes the trail, leave `audit.key_file` out, put the key beside the database as `audit.key`, rotate, and take \
                        `audit.key` and `audit.key.old` back to where it is kept";

/// The trail of a database.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    pub(super) options: Options,
    writer: Writer,
    /// By what the digests of all that is written here are keyed.
    keying: Keying,
    /// Under which policy this one is written.
    policy: Option<PolicyInForce>,
}

impl Trail {
    /// Returns the trail of the database at `path`. Nothing is opened or created yet.
    pub(super) fn beside(path: &Path, keying: Keying) -> Self {
        Self::new(Options::new(folder_of(path), path.with_file_name("audit.key")), keying)
    }

    /// Returns the trail with these options. Nothing is opened or created yet.
    pub(crate) fn new(options: Options, keying: Keying) -> Self {
        let options = Options { remembers: Some(POLICY), ..options };
        Self { writer: Writer::new(options.clone()), options, keying, policy: None }
    }

    /// Returns the same one, written under a policy.
    pub(crate) fn under(&self, policy: Option<PolicyInForce>) -> Self {
        Self { policy, ..self.clone() }
    }

    pub(crate) fn keying(&self) -> &Keying {
        &self.keying
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.options.folder
    }

    /// Adds entries; waits until they are written.
    pub(super) async fn append(
        &self,
        entries: Vec<NewAuditEntry>,
        durability: Durability,
    ) -> Result<Appended, AppendAuditError> {
        let entries = self.keying.apply(&self.place(), self.policy.as_ref(), entries)?;
        let drafts = entries.into_iter().map(KeyedEntry::draft).collect();
        let waiting =
            self.writer.append(drafts, durability == Durability::Now).map_err(|error| self.failed(&error))?;
        Ok(waiting.written().await.map_err(|error| self.failed(&error))?)
    }

    /// Adds entries, and keeps the thread waiting until the disk has them.
    pub(crate) fn append_and_wait(&self, entries: Vec<NewAuditEntry>) -> Result<(), StoreError> {
        let entries = self.keying.apply(&self.place(), self.policy.as_ref(), entries)?;
        // What is too large would count without being in the trail.
        if entries.iter().any(KeyedEntry::is_too_large) {
            let why = "an audit entry is too large";
            return Err(StoreError::because(&self.place(), StoreErrorKind::Internal, why));
        }
        let drafts = entries.into_iter().map(KeyedEntry::draft).collect();
        let waiting = self.writer.append(drafts, true).map_err(|error| self.failed(&error))?;
        waiting.wait().map(drop).map_err(|error| self.failed(&error))
    }

    pub(super) fn announce(&self, program: &str) -> Result<(), AppendAuditError> {
        let body = Body::of(&json!({ "program": program, "pid": std::process::id() }))?;
        Ok(self.writer.announce(body).map_err(|error| self.failed(&error))?)
    }

    pub(super) async fn conclude(&self) -> Result<(), StoreError> {
        self.writer.conclude().await.map(drop).map_err(|error| self.failed(&error))
    }

    pub(super) fn late(&self) -> u64 {
        self.writer.late()
    }

    pub(super) fn kept(&self) -> u64 {
        self.writer.kept()
    }

    pub(super) async fn entry(&self, index: u64) -> Result<AuditEntry, StoreError> {
        self.aside(move |trail| {
            let bytes = trail.reader().entry(index).map_err(|error| trail.failed(&error))?;
            AuditEntry::read(index + 1, &bytes).ok_or_else(|| trail.unreadable())
        })
        .await
    }

    pub(super) async fn head(&self) -> Result<AuditHead, StoreError> {
        self.aside(|trail| {
            let extent = trail.reader().extent().map_err(|error| trail.failed(&error))?;
            Ok(head(extent))
        })
        .await
    }

    pub(super) async fn list(
        &self,
        filter: AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.aside(move |trail| {
            let (mut found, mut unreadable) = (Vec::new(), false);
            if limit == 0 {
                return Ok(found);
            }
            // What must be in an entry that passes; most are told apart by it, unread.
            let wanted = filter.needles();
            let wanted: Vec<_> = wanted.iter().map(memmem::Finder::new).collect();
            let scanned = trail.reader().scan(after, |index, frame| {
                let Some(bytes) = frame.entry() else { return ControlFlow::Continue(()) };
                if wanted.iter().all(|needle| needle.find(bytes).is_some()) {
                    match AuditEntry::read(index + 1, bytes) {
                        Some(entry) if filter.passes(&entry) => found.push(entry),
                        Some(_) => {}
                        None => unreadable = true,
                    }
                }
                if unreadable || found.len() == limit {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            scanned.map_err(|error| trail.failed(&error))?;
            if unreadable { Err(trail.unreadable()) } else { Ok(found) }
        })
        .await
    }

    pub(super) async fn verify(
        &self,
        known: Option<AuditHead>,
        kept: &[String],
        key: Option<&str>,
    ) -> Result<AuditReport, VerifyAuditError> {
        let untrusted = |error: TrailError| VerifyAuditError::Untrusted(error.to_string());
        let kept = kept.iter().map(|kept| kept.parse()).collect::<Result<Vec<_>, TrailError>>();
        let (kept, key) = (kept.map_err(untrusted)?, key.map(str::parse).transpose().map_err(untrusted)?);
        self.aside(move |trail| trail.verified(known, kept, key)).await
    }

    pub(super) async fn origin(&self) -> Result<String, ProveAuditError> {
        self.aside(|trail| {
            let origin = trail.reader().origin().map_err(|error| trail.failed(&error))?;
            origin.ok_or_else(|| ProveAuditError::NotProvable("there is no audit trail yet".to_owned()))
        })
        .await
    }

    pub(super) async fn keys(&self) -> Result<Vec<String>, ProveAuditError> {
        let origin = self.origin().await?;
        self.aside(move |trail| {
            let keys = SigningKey::own_verifiers(&trail.options.key, &origin);
            Ok(keys.map_err(|error| trail.failed(&error))?.iter().map(VerifierKey::to_string).collect())
        })
        .await
    }

    fn verified(
        &self,
        known: Option<AuditHead>,
        kept: Vec<SignedCheckpoint>,
        key: Option<VerifierKey>,
    ) -> Result<AuditReport, VerifyAuditError> {
        let others = kept.len() as u64;
        let witnessed = kept.iter().map(|kept| kept.checkpoint().size).max().unwrap_or_default();
        let reader = self.reader();
        let origin = reader.origin().map_err(|error| self.failed(&error))?;
        // Whoever may not read the key checks all but the signatures, and the report says so.
        let own = || SigningKey::read(&self.options.key).ok()?.verifier(&origin?);
        let key = key.or_else(own);
        let heads = known.map(|head| Extent { size: head.seq, root: *head.digest.as_bytes() });
        let tolerance = i64::try_from(CLOCK_TOLERANCE.as_millis()).unwrap_or(i64::MAX);
        let trust = Trust { key, kept, heads: heads.into_iter().collect(), clock_tolerance: tolerance };
        let mut report = AuditReport::default();
        let proved = verify_each(&reader, &trust, |index, envelope, bytes| {
            if [AUDIT_GAP, AUDIT_OMITTED, AUDIT_IMPAIRED].contains(&&*envelope.kind)
                && let Some(entry) = AuditEntry::read(index + 1, bytes)
            {
                report.note_gap(&entry);
            }
        });
        let proved = proved.map_err(|error| self.wrong(error))?;
        if proved.wrong_tiles > 0 {
            // Either was written once and never changes.
            let tiles = proved.wrong_tiles;
            return Err(VerifyAuditError::Untrusted(format!(
                "{tiles} tiles of its tree are not what its entries make: entries or tiles were changed"
            )));
        }
        let backwards = proved.backwards.iter().map(|step| AuditStep {
            seq: step.index + 1,
            at: Timestamp::from_millis(step.at),
            after: Timestamp::from_millis(step.after),
        });
        let processes = proved.processes.iter().map(|process| AuditProcess {
            process: process.process.clone(),
            missing: process.lost,
            last: process.last,
            unended: process.started && !process.stopped,
        });
        Ok(AuditReport {
            head: AuditHead { seq: proved.size, digest: Digest::from_bytes(proved.root) },
            pruned: proved.pruned,
            missing: proved.missing,
            processes: processes.collect(),
            backwards: backwards.collect(),
            checkpoints: AuditCheckpoints {
                count: proved.checkpoints,
                torn: proved.torn_checkpoints,
                covered: proved.covered,
                foreign: proved.foreign,
                kept: others,
                uncovered_since: {
                    let known = known.map_or(0, |known| known.seq);
                    self.earliest(proved.covered.max(known).max(witnessed))?
                },
                key: proved.key.map(|key| key.to_string()),
            },
            recovered: proved.recovered.len() as u64,
            unproved: proved.unproved.into_iter().map(unproved).collect(),
            late: proved.late.into_iter().map(late).collect(),
            unnamed: report.unnamed.saturating_add(proved.unnamed),
            torn: proved.torn,
            ..report
        })
    }

    /// Returns the earliest time of the entries from a place on that are not pruned: whoever writes the first of them can give it any time.
    fn earliest(&self, from: u64) -> Result<Option<Timestamp>, StoreError> {
        let mut earliest: Option<i64> = None;
        let scanned = self.reader().scan(from, |_, frame| {
            if let Some(envelope) = frame.entry().and_then(Envelope::read) {
                earliest = Some(earliest.map_or(envelope.at, |at| at.min(envelope.at)));
            }
            ControlFlow::Continue(())
        });
        scanned.map_err(|error| self.failed(&error))?;
        Ok(earliest.map(Timestamp::from_millis))
    }

    fn wrong(&self, error: VerifyError) -> VerifyAuditError {
        match error {
            VerifyError::Entry { index, why } => {
                VerifyAuditError::BrokenAt { seq: index.saturating_add(1), why: why.to_string() }
            }
            VerifyError::Between { from, through } => VerifyAuditError::BrokenBetween {
                from: from.saturating_add(1),
                through: through.saturating_add(1),
            },
            VerifyError::CutOff { size, known } => VerifyAuditError::Truncated { known, found: size },
            VerifyError::Rewritten { size } => VerifyAuditError::Rewritten { seq: size },
            VerifyError::Trail(error) => VerifyAuditError::Store(self.failed(&error)),
            other
            @ (VerifyError::Signature { .. } | VerifyError::OtherLog { .. } | VerifyError::OtherKey) => {
                VerifyAuditError::Untrusted(other.to_string())
            }
        }
    }

    pub(super) async fn prove(&self, seq: u64) -> Result<String, ProveAuditError> {
        self.aside(move |trail| {
            let index = seq.checked_sub(1).ok_or_else(|| {
                ProveAuditError::NotProvable("entries are numbered from 1".to_owned())
            })?;
            match trail.reader().prove(index) {
                Ok(proof) => Ok(proof.to_string()),
                Err(TrailError::NoSuchEntry(_)) => {
                    Err(ProveAuditError::NotProvable(format!("the audit trail has no entry {seq}")))
                }
                Err(TrailError::NotYet(_)) => Err(ProveAuditError::NotProvable(format!(
                    "no checkpoint covers entry {seq} yet\nhint: there is one at the latest ten seconds after an entry"
                ))),
                Err(error) => Err(ProveAuditError::Store(trail.failed(&error))),
            }
        })
        .await
    }

    pub(super) async fn offer(&self, old: u64) -> Result<String, ProveAuditError> {
        self.aside(move |trail| {
            let reader = trail.reader();
            let offered = || {
                let Some(checkpoint) = reader.checkpoint()? else { return Ok(None) };
                let path = reader.consistency(old, checkpoint.checkpoint().size)?;
                Ok(Some(AddCheckpoint { old, path, checkpoint }.to_string()))
            };
            let offered = offered().map_err(|error| trail.failed(&error))?;
            offered.ok_or_else(|| {
                let why = "the audit trail has no checkpoint yet\nhint: there is one at the latest ten seconds after an entry";
                ProveAuditError::NotProvable(why.to_owned())
            })
        })
        .await
    }

    /// Signs what this process has written. Whoever opens the log next takes entries that are old, and unsigned, for such as others left.
    pub(super) async fn sign_own(&self) -> Result<(), StoreError> {
        self.writer.checkpoint().await.map(drop).map_err(|error| self.failed(&error))
    }

    pub(super) async fn rotate(&self, now: Timestamp, by: &str) -> Result<RotatedAuditKey, ProveAuditError> {
        self.sign_own().await?;
        let by = who(by);
        self.aside(move |trail| {
            let log = Log::open(trail.options.clone());
            let rotated = match log.and_then(|mut log| log.rotate(now.as_millis(), &by)) {
                Err(error @ TrailError::KeyKept(_)) => {
                    return Err(ProveAuditError::NotProvable(format!("{error}\nhint: {REPLACES}")));
                }
                rotated => rotated.map_err(|error| trail.failed(&error))?,
            };
            Ok(RotatedAuditKey { key: rotated.to.to_string(), was: rotated.from.to_string() })
        })
        .await
    }

    pub(super) async fn probe(&self) -> Result<(), StoreError> {
        // Without its key, it takes no entry.
        self.keying.apply(&self.place(), None, Vec::new())?;
        self.aside(|trail| {
            let probed = Log::open(trail.options.clone()).and_then(|mut log| log.probe());
            probed.map_err(|error| trail.failed(&error))
        })
        .await
    }

    pub(super) fn reader(&self) -> Reader {
        Reader::new(&self.options.folder)
    }

    /// Does something that reads files on a thread of its own.
    pub(super) async fn aside<T, E>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        let trail = self.clone();
        let thread = std::thread::Builder::new().name("backstop-trail-reader".to_owned());
        let stopped = || StoreError::new(&self.place(), StoreErrorKind::Stopped);
        let started = thread.spawn(move || {
            // Nobody waits for the answer any more if the caller's future was dropped.
            let _ = done.send(work(&trail));
        });
        started.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    fn place(&self) -> String {
        self.options.folder.display().to_string()
    }

    pub(super) fn unreadable(&self) -> StoreError {
        StoreError::because(&self.place(), StoreErrorKind::Corrupt, "an audit entry can't be read")
    }

    pub(super) fn failed(&self, error: &TrailError) -> StoreError {
        let kind = match error {
            _ if error.is_full_disk() => StoreErrorKind::Full,
            TrailError::File { source, .. } => match source.kind() {
                io::ErrorKind::TimedOut => StoreErrorKind::Locked,
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    StoreErrorKind::ReadOnly
                }
                _ => StoreErrorKind::Io,
            },
            TrailError::Damaged { .. } => StoreErrorKind::Corrupt,
            TrailError::Full(_) => StoreErrorKind::Locked,
            TrailError::Closed => StoreErrorKind::Stopped,
            _ => StoreErrorKind::Internal,
        };
        StoreError::because(&self.place(), kind, error)
    }
}

/// Returns entries with the numbers that people see: the first of the trail is 1.
fn unproved(Unproved { index, entries }: Unproved) -> AuditUnproved {
    AuditUnproved { told: index + 1, from: entries.start + 1, through: entries.end }
}

fn late(Late { index, entries, processes, others }: Late) -> AuditLate {
    AuditLate { told: index + 1, from: entries.start + 1, through: entries.end, processes, others }
}

/// Returns the folder of the trail of the database at `path`.
/// Returns at most `limit` entries after number `after` of the audit trail in a folder, without a database: for the trail of another machine. Nothing
/// is checked; that is what verifying it there is for.
///
/// # Errors
///
/// If the trail can't be read.
pub async fn audit_in(
    folder: &Path,
    filter: &AuditFilter,
    after: u64,
    limit: usize,
) -> Result<Vec<AuditEntry>, StoreError> {
    // Only its writer needs the key.
    let options = Options::new(folder.to_path_buf(), folder.with_file_name("audit.key"));
    let trail = Trail::new(options, Keying::default());
    trail.list(filter.clone(), after, limit).await
}

pub(super) fn folder_of(path: &Path) -> PathBuf {
    let folder = path.with_extension("trail");
    // The database itself may be named so.
    if folder == path { path.with_extension("trail.trail") } else { folder }
}

pub(super) fn head(extent: Extent) -> AuditHead {
    AuditHead { seq: extent.size, digest: Digest::from_bytes(extent.root) }
}
