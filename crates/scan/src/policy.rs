//! What happens to a finding.
//!
//! A policy maps each finding to an [`Action`]: a rule for its kind takes precedence over a rule for its class, which
//! takes precedence over the default. Findings below the policy's confidence are ignored. A [`Redactor`] combines a
//! policy, a scanner and, if placeholders are wanted, a [`Vault`]. Hooks hold a redactor.
//!
//! A blocked value is redacted too, so that a host that continues after a block still leaks nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::text::cut;
use super::{Class, Scanner, Span, Stream, Vault, span};

/// What to do with a value that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Leave it and do not report it.
    Ignore,
    /// Leave it and report it.
    Report,
    /// Remove it without a mark. Meant for hidden characters.
    Remove,
    /// Write `[redacted:kind]` in its place.
    Redact,
    /// Write `*` for each letter and digit except the last four; all of them if there are fewer than nine.
    Mask,
    /// Write `[kind#digest]`, the same for the same value under the policy's key.
    Hash,
    /// Write `{{class:kind:number}}`, which the [`Vault`] can resolve. Without a vault, or when it is full,
    /// this is [`Action::Redact`].
    Placeholder,
    /// Redact it and report that the text must not pass.
    Block,
}

impl Action {
    /// Returns whether the text is another one after it.
    fn changes(self) -> bool {
        !matches!(self, Self::Ignore | Self::Report)
    }
}

/// A mapping from findings to actions.
#[derive(Clone)]
pub struct Policy {
    default: Action,
    classes: HashMap<Class, Action>,
    kinds: HashMap<String, Action>,
    confidence: f32,
    key: [u8; 32],
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy")
            .field("default", &self.default)
            .field("classes", &self.classes)
            .field("kinds", &self.kinds)
            .field("confidence", &self.confidence)
            .finish_non_exhaustive()
    }
}

impl Default for Policy {
    /// Secrets are redacted, hidden text is removed, personal data is reported.
    fn default() -> Self {
        Self::new(Action::Report).class(Class::Secret, Action::Redact).class(Class::Hidden, Action::Remove)
    }
}

impl Policy {
    /// Findings below this confidence are only shapes and are ignored by default.
    pub const DEFAULT_CONFIDENCE: f32 = 0.5;

    /// Creates a policy with one action for everything.
    #[must_use]
    pub fn new(default: Action) -> Self {
        Self {
            default,
            classes: HashMap::new(),
            kinds: HashMap::new(),
            confidence: Self::DEFAULT_CONFIDENCE,
            key: random_key(),
        }
    }

    /// Sets the action for a class.
    #[must_use]
    pub fn class(mut self, class: Class, action: Action) -> Self {
        self.classes.insert(class, action);
        self
    }

    /// Returns whether any action writes a placeholder.
    #[must_use]
    pub fn uses_placeholders(&self) -> bool {
        let mut actions = self.classes.values().chain(self.kinds.values()).chain([&self.default]);
        actions.any(|action| *action == Action::Placeholder)
    }

    /// Sets the action for a kind, as in [`Span::kind`].
    #[must_use]
    pub fn kind(mut self, kind: &str, action: Action) -> Self {
        self.kinds.insert(kind.to_owned(), action);
        self
    }

    /// Sets the minimum confidence for the policy to act, from 0 to 1.
    #[must_use]
    pub fn confidence(mut self, least: f32) -> Self {
        self.confidence = least.clamp(0.0, 1.0);
        self
    }

    /// Sets the key of [`Action::Hash`]. Without one, digests differ from process to process.
    #[must_use]
    pub fn hash_key(mut self, key: &[u8]) -> Self {
        self.key = Sha256::digest(key).into();
        self
    }

    /// Returns the classes for which the policy, or an exception for a kind, has an action.
    #[must_use]
    pub fn wanted(&self) -> Vec<Class> {
        let wants = |class: &Class| {
            *self.classes.get(class).unwrap_or(&self.default) != Action::Ignore
                || self.kinds.values().any(|action| *action != Action::Ignore)
        };
        Class::ALL.iter().copied().filter(wants).collect()
    }

    /// Returns the classes of which something is to be changed.
    pub(super) fn changed(&self, scanner: &Scanner) -> Vec<Class> {
        let changes = |class: &Class| {
            // A stream asks when it begins, so the kinds are listed only where there are exceptions.
            let is_of_class = |kind: &String| scanner.knows(*class, kind);
            self.classes.get(class).unwrap_or(&self.default).changes()
                || self.kinds.iter().any(|(kind, action)| action.changes() && is_of_class(kind))
        };
        Class::ALL.iter().copied().filter(changes).collect()
    }

    /// Returns what to do with `span`; `None` if it is below the confidence.
    #[must_use]
    pub fn action(&self, span: &Span) -> Option<Action> {
        let chosen =
            self.kinds.get(span.kind).or_else(|| self.classes.get(&span.class)).unwrap_or(&self.default);
        (span.confidence >= self.confidence && *chosen != Action::Ignore).then_some(*chosen)
    }

    fn digest(&self, value: &str) -> String {
        let digest = Sha256::new().chain_update(self.key).chain_update(value.as_bytes()).finalize();
        cut(&digest, 0, 8).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Thirty-two bytes that differ from process to process, from the seed of the standard hash maps.
fn random_key() -> [u8; 32] {
    let seed = RandomState::new();
    let words: Vec<u8> = (0_u64..4).flat_map(|i| seed.hash_one(i).to_le_bytes()).collect();
    Sha256::digest(&words).into()
}

/// A finding and the action taken. Offsets are those of the text before it was cleaned.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was found, and where.
    pub span: Span,
    /// What was done.
    pub action: Action,
}

impl Finding {
    /// Returns whether it changed the text.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.action.changes()
    }
}

/// A finding and its replacement.
#[derive(Clone, PartialEq)]
pub struct Edit {
    /// What was found, and what was done.
    pub finding: Finding,
    /// The replacement; `None` if the text was left as it is.
    pub replacement: Option<String>,
}

impl std::fmt::Debug for Edit {
    // What is masked still shows a part of the value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edit").field("finding", &self.finding).finish_non_exhaustive()
    }
}

impl Edit {
    /// Returns the same with a window's offsets made those of the whole text.
    pub(super) fn shifted(mut self, by: usize) -> Self {
        self.finding.span.start += by;
        self.finding.span.end += by;
        self
    }
}

/// `text`, which begins at `offset`, with `edits` made.
pub(super) fn written(text: &str, offset: usize, edits: &[Edit]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut done = 0;
    for Edit { finding, replacement } in edits {
        let Some(replacement) = replacement else { continue };
        let (start, end) = (finding.span.start - offset, finding.span.end - offset);
        clean.push_str(text.get(done..start).unwrap_or_default());
        clean.push_str(replacement);
        done = end;
    }
    clean.push_str(text.get(done..).unwrap_or_default());
    clean
}

/// Findings, which may overlap, by what becomes of the text. What is only reported has no say in what is changed.
pub(super) struct Chosen {
    pub(super) changes: Vec<Span>,
    pub(super) reports: Vec<Span>,
}

/// A cleaned text.
#[derive(Clone, Debug, PartialEq)]
pub struct Redacted {
    /// The clean text.
    pub text: String,
    /// The findings at or above the policy's confidence, in the order of the text.
    pub findings: Vec<Finding>,
}

impl Redacted {
    /// Returns whether the policy blocks the text.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.findings.iter().any(|finding| finding.action == Action::Block)
    }

    /// Returns whether the text was changed.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.findings.iter().any(Finding::is_change)
    }
}

/// A scanner, a policy and a vault: everything needed to clean text.
#[derive(Clone, Debug)]
pub struct Redactor {
    pub(super) scanner: Arc<Scanner>,
    pub(super) policy: Arc<Policy>,
    vault: Option<Arc<Vault>>,
}

impl Redactor {
    /// Creates a redactor without a vault.
    #[must_use]
    pub fn new(scanner: Arc<Scanner>, policy: Policy) -> Self {
        Self { scanner, policy: Arc::new(policy), vault: None }
    }

    /// Sets the vault for [`Action::Placeholder`].
    #[must_use]
    pub fn with_vault(mut self, vault: Arc<Vault>) -> Self {
        self.vault = Some(vault);
        self
    }

    /// Cleans `text` according to the policy.
    #[must_use]
    pub fn apply(&self, text: &str) -> Redacted {
        self.rewrite(text, self.scanner.whole(text))
    }

    /// Creates a stream that cleans text arriving in pieces; see [`Stream`].
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone(), Stream::DEFAULT_HOLD_BACK)
    }

    /// `text` with each of `found` treated as the policy says.
    pub(super) fn rewrite(&self, text: &str, found: Vec<Span>) -> Redacted {
        let Chosen { changes, reports } = self.chosen(found);
        let edits = self.edits(text, span::woven(span::resolve(changes), span::resolve(reports)));
        let text = written(text, 0, &edits);
        Redacted { text, findings: edits.into_iter().map(|edit| edit.finding).collect() }
    }

    /// Returns what the policy acts upon, by whether the text changes.
    pub(super) fn chosen(&self, found: Vec<Span>) -> Chosen {
        let acted =
            found.into_iter().filter_map(|span| self.policy.action(&span).map(|action| (span, action)));
        let (changes, reports): (Vec<_>, Vec<_>) = acted.partition(|(_, action)| action.changes());
        let spans = |chosen: Vec<(Span, Action)>| chosen.into_iter().map(|(span, _)| span).collect();
        Chosen { changes: spans(changes), reports: spans(reports) }
    }

    /// Returns what becomes of each of `spans`, which do not overlap.
    pub(super) fn edits(&self, text: &str, spans: Vec<Span>) -> Vec<Edit> {
        let edit = |span: Span| {
            let action = self.policy.action(&span).filter(|_| !is_own_mark(&self.scanner, text, &span))?;
            let replacement = self.replacement(&span, action, text.get(span.start..span.end)?);
            Some(Edit { finding: Finding { span, action }, replacement })
        };
        spans.into_iter().filter_map(edit).collect()
    }

    fn replacement(&self, span: &Span, action: Action, value: &str) -> Option<String> {
        let redacted = || format!("[redacted:{}]", span.kind);
        Some(match action {
            Action::Ignore | Action::Report => return None,
            Action::Remove if span.kind != "homoglyph_host" => String::new(),
            Action::Remove | Action::Redact | Action::Block => redacted(),
            Action::Mask => mask(value),
            Action::Hash => format!("[{}#{}]", span.kind, self.policy.digest(value)),
            Action::Placeholder => {
                let kept = self.vault.as_ref().and_then(|vault| vault.keep(span.class, span.kind, value));
                kept.unwrap_or_else(redacted)
            }
        })
    }
}

/// How far apart the ends of a mark may be, in bytes: what is looked at does not grow with the text.
const LONGEST_MARK: usize = 256;

/// Returns whether the span lies in a mark that stands in the place of something: `[redacted:ip_address]`, or the kind
/// and sixteen digits of [`Action::Hash`]. Nothing else fits into a mark, so none can be used to hide a value.
fn is_own_mark(scanner: &Scanner, text: &str, span: &Span) -> bool {
    let known = |kind: &str| Class::ALL.iter().any(|class| scanner.knows(*class, kind));
    let digest =
        |text: &str| text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let bytes = text.as_bytes();
    let from = span.end.saturating_sub(LONGEST_MARK);
    let open = cut(bytes, from, span.end).iter().rposition(|&b| b == b'[').map(|open| from + open);
    let mark = open.filter(|open| *open <= span.start).and_then(|open| {
        let length =
            cut(bytes, open + 1, bytes.len().min(open + LONGEST_MARK)).iter().position(|&b| b == b']')?;
        text.get(open + 1..open + 1 + length)
    });
    let Some(mark) = mark else { return false };
    let inside = open.is_some_and(|open| span.end <= open + mark.len() + 2);
    let ours = match (mark.strip_prefix("redacted:"), mark.split_once('#')) {
        (Some(kind), _) => known(kind),
        (None, Some((kind, digits))) => digest(digits) && known(kind),
        (None, None) => false,
    };
    inside && ours
}

/// `value` with `*` for its letters and digits, the last four excepted if there are enough of them.
fn mask(value: &str) -> String {
    const SHOWN: usize = 4;
    let letters = value.chars().filter(|c| c.is_alphanumeric()).count();
    let hidden = if letters > 2 * SHOWN { letters - SHOWN } else { letters };
    let mut seen = 0;
    let masked = value.chars().map(|c| {
        if !c.is_alphanumeric() {
            return c;
        }
        seen += 1;
        if seen <= hidden { '*' } else { c }
    });
    masked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_all_but_the_last_four() {
        assert_eq!(mask("4111 1111 1111 1234"), "**** **** **** 1234");
        assert_eq!(mask("hunter2"), "*******");
    }

    #[test]
    fn kind_beats_class_beats_default() {
        let policy =
            Policy::new(Action::Report).class(Class::Pii, Action::Redact).kind("email", Action::Mask);
        let span = |class, kind| Span {
            class,
            kind,
            start: 0,
            end: 1,
            confidence: 1.0,
            evidence: super::super::Evidence::Format,
        };
        assert_eq!(policy.action(&span(Class::Pii, "email")), Some(Action::Mask));
        assert_eq!(policy.action(&span(Class::Pii, "iban")), Some(Action::Redact));
        assert_eq!(policy.action(&span(Class::Secret, "password")), Some(Action::Report));
    }

    #[test]
    fn a_mark_is_left_alone_and_nothing_is_looked_for_beyond_the_longest() {
        let scanner = Scanner::new();
        let own = |text: &str, value: &str| {
            let start = text.find(value).unwrap_or_default();
            let end = start + value.len();
            let evidence = super::super::Evidence::Context;
            is_own_mark(
                &scanner,
                text,
                &Span { class: Class::Pii, kind: "email", start, end, confidence: 1.0, evidence },
            )
        };
        assert!(own("x [redacted:email]", "redacted"));
        assert!(own("[email#0123456789abcdef] y", "0123456789abcdef"));
        assert!(!own("[redacted:email", "redacted"));
        assert!(!own("[nobody#0123456789abcdef]", "0123456789abcdef"));
        assert!(!own(&format!("[redacted:email{} x]", " ".repeat(LONGEST_MARK)), "x"));
    }

    #[test]
    fn debug_hides_the_key() {
        let policy = Policy::default().hash_key(b"pepper");
        let key: String = policy.key.iter().map(|byte| format!("{byte}, ")).collect();
        assert!(!format!("{policy:?}").contains(key.trim_end_matches(", ")));
    }
}
