//! What a detector returns: where, what, how certain, and why.

use serde::Serialize;

/// The family of a finding; policies are written by class or by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// Something that grants access: a token, a password, a private key.
    Secret,
    /// Something that points to a person: a card, an address, a national number.
    Pii,
    /// Characters that a human reader does not see, or sees as something else.
    Hidden,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 3] = [Self::Secret, Self::Pii, Self::Hidden];

    /// Returns its name, as in placeholders and receipts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Pii => "pii",
            Self::Hidden => "hidden",
        }
    }
}

/// The evidence for a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Evidence {
    /// The value has the published format of its issuer.
    Format,
    /// The format, and its check digits or its inner structure are right.
    Checksum,
    /// The words around the value say what it is.
    Context,
    /// The value looks random, and it is assigned to the name of a secret.
    Assignment,
    /// The text contains nothing else, and the value has this shape.
    Alone,
}

/// One finding.
///
/// A span contains no text, so it can be logged, stored and sent as it is. Offsets are bytes of the judged text
/// and always fall on character boundaries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// The family.
    pub class: Class,
    /// What it is, in snake case: `github_token`, `iban`, `bidi_override`.
    pub kind: &'static str,
    /// The first byte of the value.
    pub start: usize,
    /// The first byte after the value.
    pub end: usize,
    /// How certain the detector is, from 0 to 1. Below [`Policy::DEFAULT_CONFIDENCE`](super::Policy) a value
    /// only has the shape of its kind.
    pub confidence: f32,
    /// The evidence.
    pub evidence: Evidence,
}

impl Span {
    /// Returns the length of the value in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Returns whether the value has no bytes, which detectors never report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    fn is_likely_secret(&self) -> bool {
        self.class == Class::Secret && self.confidence >= 0.5
    }

    /// Returns the order in which overlapping findings are kept: secrets first, then surer, then longer.
    fn outranks(&self, other: &Self) -> std::cmp::Ordering {
        other
            .is_likely_secret()
            .cmp(&self.is_likely_secret())
            .then(other.confidence.total_cmp(&self.confidence))
            .then(other.len().cmp(&self.len()))
            .then(self.start.cmp(&other.start))
            .then(self.class.cmp(&other.class))
            .then(self.kind.cmp(other.kind))
    }
}

/// Findings that do not overlap, in the order of the text.
///
/// Of two findings that overlap, a secret wins, then the surer one. Where the loser is likely too and not
/// covered, the winner is widened to cover both: showing half of a value is worse than hiding a neighbour.
pub(super) fn resolve(mut found: Vec<Span>) -> Vec<Span> {
    if found.len() < 2 {
        return found;
    }
    found.sort_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
    let mut kept: Vec<Span> = Vec::with_capacity(found.len());
    for span in found {
        match kept.last_mut() {
            Some(last) if last.overlaps(&span) => *last = merge(last.clone(), span),
            _ => kept.push(span),
        }
    }
    kept
}

/// `reports` without those that overlap one of `changes`, and `changes`: each disjoint and in the order of the text,
/// and so is the answer.
pub(super) fn woven(changes: Vec<Span>, reports: Vec<Span>) -> Vec<Span> {
    let mut woven = Vec::with_capacity(changes.len() + reports.len());
    let mut reports = reports.into_iter().peekable();
    for change in changes {
        while let Some(report) = reports.next_if(|report| report.end <= change.start) {
            woven.push(report);
        }
        while reports.next_if(|report| report.overlaps(&change)).is_some() {}
        woven.push(change);
    }
    woven.extend(reports);
    woven
}

fn merge(left: Span, right: Span) -> Span {
    let (start, end) = (left.start.min(right.start), left.end.max(right.end));
    let (winner, loser) = if left.outranks(&right).is_le() { (left, right) } else { (right, left) };
    let covered = winner.start <= loser.start && loser.end <= winner.end;
    if covered || loser.confidence < 0.5 { winner } else { Span { start, end, ..winner } }
}
