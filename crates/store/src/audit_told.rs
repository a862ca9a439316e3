//! What a report on the trail says, in words for people.
//!
//! The law: *what can't be told is told*. A trail in which nothing was found to be wrong is not one of which all is proved, so whoever shows a
//! report, on a terminal or on a page, says both, and in these words. Names of processes in them are as they stand in the trail: whoever shows
//! them takes out what drives a terminal.

use std::time::Duration;

use crate::{
    AuditCheckpoints, AuditGap, AuditLate, AuditProcess, AuditReport, AuditStep, AuditUnproved,
    CLOCK_TOLERANCE, Timestamp,
};

/// How old an entry is at which a checkpoint should cover it: six times what it takes at most.
const OVERDUE: Duration = Duration::from_secs(60);

/// What is said where signatures were not checked, and what to do.
const UNCHECKED: &str = "warning: the signatures of its checkpoints were not checked, since the key can't be read here: whoever can write the trail may have made them\n\
                         hint: `--trail-key` takes the public key that `backstop audit verify` prints where the trail is written";

impl AuditReport {
    /// Returns whether the signatures of its checkpoints were left unchecked.
    fn is_unchecked(&self) -> bool {
        let AuditCheckpoints { count, covered, kept, key, .. } = &self.checkpoints;
        // The newest one may be there without the list of all.
        key.is_none() && [count, covered, kept].into_iter().any(|any| *any > 0)
    }

    /// Returns whether there are entries that no checkpoint covers, and that are too old for that at `now`. So are those of a time that is yet to
    /// come, since they would never be.
    fn is_overdue(&self, now: Timestamp) -> bool {
        let is_overdue = |since: Timestamp| since.until(now) > OVERDUE || since > now.after(CLOCK_TOLERANCE);
        self.checkpoints.uncovered_since.is_some_and(is_overdue)
    }

    /// Returns whether nothing that should be proved at `now` is left unproved. Entries that were signed [late](Self::late) count as proved, and so
    /// do those that are too young for a checkpoint. Nothing is said about witnesses.
    pub fn is_proved(&self, now: Timestamp) -> bool {
        !self.is_overdue(now)
            && !self.is_unchecked()
            && self.checkpoints.foreign == 0
            && self.unproved.is_empty()
    }

    /// Returns what can't be told of it at `now`, and what to do: a text for each, in which a new line begins with `hint:`.
    pub fn warnings(&self, now: Timestamp) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_unchecked() {
            warnings.push(UNCHECKED.to_owned());
        }
        if self.checkpoints.foreign > 0 {
            warnings.push(foreign(self.checkpoints.foreign));
        }
        if self.is_overdue(now) {
            warnings.push(uncovered(self));
        }
        warnings.extend(self.unproved.iter().map(unproved));
        warnings.extend(self.late.iter().map(late));
        warnings
    }

    /// Returns what is missing in it, and what happened to it. `is_compared` says whether it was compared with what others kept.
    pub fn notices(&self, is_compared: bool) -> Vec<String> {
        let Self {
            head,
            pruned,
            gaps,
            lost: _,
            missing,
            processes,
            backwards,
            checkpoints,
            recovered,
            unproved: _,
            late: _,
            impaired,
            omitted,
            unnamed,
            torn,
        } = self;
        let mut notices = Vec::new();
        if *pruned > 0 {
            notices.push(format!("{pruned} entries were pruned"));
        }
        let gap = |gap: &AuditGap| format!("{} receipts are missing at entry {}", gap.lost, gap.seq);
        notices.extend(gaps.iter().map(gap));
        if *missing > 0 {
            notices.push(format!("{missing} entries are missing by the numbers of their processes"));
        }
        notices.extend(processes.iter().map(process));
        if *recovered > 0 {
            notices.push(format!(
                "{recovered} times something damaged was put aside, or a checkpoint was missing (`backstop log --kind recovered`)"
            ));
        }
        if *impaired > 0 {
            notices.push(format!(
                "{impaired} times a checkpoint or another file besides the entries could not be written (`backstop log --kind impaired`)"
            ));
        }
        if *omitted > 0 {
            notices
                .push(format!("{omitted} entries were too large, and others that say so are in their place"));
        }
        notices.extend(backwards.iter().map(|AuditStep { seq, at, after }| {
            format!("time runs backwards at entry {seq}: {at}, after {after}")
        }));
        if *unnamed > 0 {
            notices.push(format!("{unnamed} more gaps, processes, crashes or steps back are not named"));
        }
        if *torn {
            let why = "it ends with something that is no entry: a writer is at work, a crash tore the last one, or somebody changed it; what stands behind can't be read";
            notices.push(why.to_owned());
        }
        let uncovered = head.seq.saturating_sub(checkpoints.covered);
        if uncovered > 0 && !is_compared {
            notices.push(format!(
                "no checkpoint covers the last {uncovered} entries: whether they were changed can't be told"
            ));
        }
        if checkpoints.torn > 0 {
            notices.push(format!("{} checkpoints can't be read", checkpoints.torn));
        }
        notices
    }
}

/// Returns what is missing of a process.
fn process(AuditProcess { process, missing, last, unended }: &AuditProcess) -> String {
    let ended = if *unended { "runs, or was killed" } else { "is missing entries" };
    format!("process {process} {ended}: its last entry is number {last}, {missing} are missing")
}

/// Returns what is said of checkpoints of witnesses that no key of the trail has signed.
fn foreign(count: u64) -> String {
    format!(
        "warning: {count} of the checkpoints that witnesses keep are signed by no key of this trail, and say nothing: somebody put them there, or changed them, or the key was replaced without `backstop audit rotate`"
    )
}

/// Returns what can't be told of entries that were damaged or without a checkpoint, and what to do.
fn unproved(AuditUnproved { told, from, through }: &AuditUnproved) -> String {
    format!(
        "warning: when entry {told} was written, no checkpoint covered the entries {from} to {through}, or one of them was damaged: whether they were changed before can't be told\n\
         hint: `backstop log --kind recovered` says what was found; compare with a head or a backup from before"
    )
}

/// Returns what can't be told of entries that were signed late, and what to do.
fn late(AuditLate { told, from, through, processes, others }: &AuditLate) -> String {
    let others = if *others > 0 { format!(" and {others} others") } else { String::new() };
    format!(
        "note: the entries {from} to {through}, of process {}{others}, were found without a checkpoint when entry {told} was written, as a killed process leaves them, and are signed since: nothing proves that they were not changed before, nor that others did not stand there\n\
         hint: where no process was killed then, somebody may have cut the end off; only a witness (`audit.witness`), or a head from before, shows that",
        processes.join(", ")
    )
}

/// Returns what can't be told of entries that should be signed by now, and what to do.
fn uncovered(report: &AuditReport) -> String {
    let AuditReport { head, checkpoints, impaired, .. } = report;
    let since = checkpoints.uncovered_since.map(|since| since.to_string()).unwrap_or_default();
    let what = match checkpoints.covered {
        0 => format!(
            "warning: the audit trail has no signed checkpoint: whether its {} entries were changed, moved or removed can't be told",
            head.seq
        ),
        covered => format!(
            "warning: no checkpoint covers the entries behind {covered}, the oldest of which is of {since}: whether they were changed can't be told"
        ),
    };
    let hint = match impaired {
        0 => {
            "hint: a checkpoint is written within ten seconds of an entry, unless its process is killed. Then the next process that writes signs them and says so, as `backstop audit witness` does; otherwise somebody may have removed checkpoints: compare with a head or a backup"
        }
        _ => "hint: `backstop log --kind impaired` shows what could not be written",
    };
    format!("{what}\n{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_proved_is_told_with_why() {
        let now = Timestamp::from_millis(1_000_000);
        let (key, old) = (Some("a key".to_owned()), Some(Timestamp::from_millis(0)));
        let yet_to_come = Some(now.after(CLOCK_TOLERANCE + Duration::from_millis(1)));
        let signed = AuditCheckpoints { count: 1, covered: 9, key, ..AuditCheckpoints::default() };
        let sound = AuditReport { checkpoints: signed.clone(), ..AuditReport::default() };
        assert!(sound.is_proved(now) && sound.warnings(now).is_empty());
        for young in [now.before(OVERDUE), now.after(CLOCK_TOLERANCE)] {
            let young = AuditCheckpoints { uncovered_since: Some(young), ..signed.clone() };
            assert!(AuditReport { checkpoints: young, ..AuditReport::default() }.is_proved(now));
        }
        for (checkpoints, why) in [
            (AuditCheckpoints { key: None, ..signed.clone() }, "were not checked"),
            (AuditCheckpoints { covered: 9, ..AuditCheckpoints::default() }, "were not checked"),
            (AuditCheckpoints { kept: 1, ..AuditCheckpoints::default() }, "were not checked"),
            (AuditCheckpoints { foreign: 1, ..signed.clone() }, "signed by no key of this trail"),
            (AuditCheckpoints { uncovered_since: old, ..signed.clone() }, "entries behind 9"),
            (AuditCheckpoints { uncovered_since: yet_to_come, ..signed.clone() }, "entries behind 9"),
        ] {
            let report = AuditReport { checkpoints, ..AuditReport::default() };
            let warnings = report.warnings(now);
            assert!(!report.is_proved(now), "{why}");
            assert!(matches!(warnings.as_slice(), [one] if one.contains(why)), "{warnings:?}");
        }
        let unproved = vec![AuditUnproved { told: 9, from: 1, through: 8 }];
        let report = AuditReport { unproved, ..sound };
        assert!(!report.is_proved(now) && report.warnings(now).len() == 1);
    }
}
