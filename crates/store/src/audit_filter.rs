//! Which entries of the trail are read, and how far at a time.
//!
//! A trail has millions of entries, so it is read in pages, from the end backwards or from a place onwards. A page is bounded by the entries
//! that it has, by their size, and by the entries that were read for it, so whoever looks for something rare is told again and again how far
//! it went.

use backstop_hooks::{RunId, SessionId};
use backstop_trail::Canonical;
use serde_json::Value;

use crate::audit::{RUN, SESSION};
use crate::policy::POLICY;
use crate::{AuditEntry, Timestamp, audit_id};

/// The most entries that are read for one page.
pub const MOST_PAGE_READ: u64 = 1 << 16;
/// The most bytes of entries in one page; the last one may go beyond.
pub(crate) const MOST_PAGE_BYTES: usize = 4 << 20;
/// Reading backwards ends where so many entries one after the other are older than what is looked for. Times along a trail run forwards,
/// but for clocks that are set and processes that write at the same moment.
pub(crate) const MOST_OLDER: u64 = 4096;

/// Which entries to list. A field that is `None` lets all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of this run.
    pub run: Option<RunId>,
    /// Only from this time on.
    pub since: Option<Timestamp>,
    /// Only before this time.
    pub until: Option<Timestamp>,
    /// Only receipts with this verdict; `ask` are those for which somebody was asked, whatever came of it.
    pub verdict: Option<String>,
    /// Only about this tool, as it was called or as it is known.
    pub tool: Option<String>,
    /// Only those in which this rule spoke, or would have.
    pub rule: Option<String>,
    /// Only receipts in which a hook in shadow would have done this; `any`: whatever it would have done.
    pub would: Option<String>,
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only about work in this folder, or in one below it.
    pub workspace: Option<String>,
    /// Only what this person asked for, answered, gave or revoked: by the name alone, whatever the trail says of where and by what means.
    pub who: Option<String>,
    /// Only what was written under a version of the policy that begins like this: its hex digits, with or without `sha256:` before them.
    pub policy: Option<String>,
}

impl AuditFilter {
    /// Returns what is in the bytes of each entry that passes, which are canonical.
    pub(crate) fn needles(&self) -> Vec<Vec<u8>> {
        let text = |value: &str| Canonical::of(value).unwrap_or_default().as_str().as_bytes().to_vec();
        let member = |name: &str, value: &str| [b"\"", name.as_bytes(), b"\":", &text(value)].concat();
        let of = |value: &Option<String>| value.as_deref().map(text);
        let kind = self.kind.as_deref().map(|kind| member("kind", kind));
        let session = self.session.as_ref().map(|session| member(SESSION, &audit_id(session.as_str())));
        let run = self.run.as_ref().map(|run| member(RUN, &audit_id(run.as_str())));
        let verdict = self.verdict.as_deref().map(|verdict| match verdict {
            ASK => b"\"approval\":".to_vec(),
            verdict => member("verdict", verdict),
        });
        let would = self.would.as_deref().map(|would| match would {
            ANY => b"\"would\":".to_vec(),
            would => member("would", would),
        });
        // What begins with the folder, or with the name, need not end there.
        let begun = |value: &str| {
            let mut begun = text(value);
            begun.pop();
            begun
        };
        let workspace = self.workspace.as_deref().map(|folder| begun(folder.trim_end_matches('/')));
        let who = self.who.as_deref().map(begun);
        let named = [of(&self.tool), of(&self.rule), of(&self.agent), workspace, who];
        // What begins like this need not end there.
        let policy = self.policy.as_deref().map(|begin| {
            let mut member = member(POLICY, &version(begin));
            member.pop();
            member
        });
        [kind, session, run, verdict, would, policy].into_iter().chain(named).flatten().collect()
    }

    /// Returns whether an entry of this time may pass.
    pub(crate) fn covers(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }

    pub(crate) fn passes(&self, entry: &AuditEntry) -> bool {
        let body = &entry.body;
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let is = |wanted: &Option<String>, pointers: &[&str]| {
            wanted
                .as_deref()
                .is_none_or(|wanted| pointers.iter().any(|pointer| text(pointer) == Some(wanted)))
        };
        let verdict = match self.verdict.as_deref() {
            Some(ASK) => entry.kind == "receipt" && body.get("approval").is_some(),
            _ => is(&self.verdict, &["/verdict"]),
        };
        self.covers(entry.at)
            && self.kind.as_deref().is_none_or(|kind| kind == entry.kind)
            && is_id(self.session.as_ref().map(AsRef::as_ref), entry.session.as_ref().map(AsRef::as_ref))
            && is_id(self.run.as_ref().map(AsRef::as_ref), entry.run.as_ref().map(AsRef::as_ref))
            && verdict
            && self.policy.as_deref().is_none_or(|begin| {
                entry.policy.as_deref().is_some_and(|policy| policy.starts_with(&version(begin)))
            })
            && is(&self.tool, &["/tool", "/calledAs"])
            && is(&self.agent, &["/agentId", "/agent"])
            && self.who.as_deref().is_none_or(|who| {
                WHO.iter().any(|pointer| text(pointer).is_some_and(|found| is_who(found, who)))
            })
            && self.rule.as_deref().is_none_or(|rule| names_rule(body, rule))
            && self.would.as_deref().is_none_or(|would| {
                steps(body)
                    .filter_map(|step| step.get("would")?.as_str())
                    .any(|is| would == ANY || would == is)
            })
            && self
                .workspace
                .as_deref()
                .is_none_or(|folder| text("/workspace").is_some_and(|found| is_in(found, folder)))
    }
}

/// Returns how the version of a policy begins that begins with these digits.
fn version(begin: &str) -> String {
    let digits = begin.strip_prefix(PLAIN).unwrap_or(begin);
    format!("{PLAIN}{}", digits.to_ascii_lowercase())
}

/// Returns whether an entry has the id that is wanted, if one is.
fn is_id(wanted: Option<&str>, found: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| found.is_some_and(|found| audit_id(found) == audit_id(wanted)))
}

/// What the version of a policy begins with.
const PLAIN: &str = "sha256:";

/// The word for receipts of calls about which somebody was asked.
const ASK: &str = "ask";

/// The word for receipts in which a hook in shadow would have done something.
const ANY: &str = "any";

/// Where an entry names people.
const WHO: [&str; 5] = ["/by", "/person", "/user", "/requester/senderId", "/requester/accountId"];

/// Returns whether somebody is who is wanted: what follows the name is where they were, or by what means they said it.
fn is_who(found: &str, who: &str) -> bool {
    found.strip_prefix(who).is_some_and(|rest| {
        rest.is_empty() || [", by ", " (uid ", ": "].iter().any(|means| rest.starts_with(means))
    })
}

/// Returns whether an entry names a rule: of a block, of a question, of a grant, or of what a hook in shadow would have done.
fn names_rule(body: &Value, rule: &str) -> bool {
    let has = |rules: Option<&Value>| {
        let rules = rules.and_then(Value::as_array);
        rules.is_some_and(|rules| rules.iter().any(|named| named.as_str() == Some(rule)))
    };
    ["/blocked/reason/rules", "/approval/rules", "/rules"].iter().any(|pointer| has(body.pointer(pointer)))
        || steps(body).any(|step| has(step.get("wouldBy")))
}

/// Returns the steps that a receipt names.
fn steps(body: &Value) -> impl Iterator<Item = &Value> {
    body.get("steps").and_then(Value::as_array).into_iter().flatten()
}

fn is_in(found: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    found.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditPlace {
    /// Before this entry, and backwards: the newest first.
    Before(u64),
    /// Behind this entry, and onwards.
    After(u64),
}

impl AuditPlace {
    /// The end of the trail, whatever it is.
    pub const END: Self = Self::Before(u64::MAX);
}

/// A page of the trail.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditPage {
    /// The entries that pass, in the order in which they were read.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins.
    pub next: AuditPlace,
    /// Whether nothing is left there, for now: all was read.
    pub ended: bool,
    /// Whether it ended early, since so many entries one after the other are older than what is looked for. Times run forwards along a
    /// trail, so more is hardly found there; but for a clock that was set back for long, it is.
    pub is_older: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_holds_what_is_below_it_and_no_namesake() {
        assert!(
            is_in("/w/a", "/w/a") && is_in("/w/a/b", "/w/a") && is_in("/w/a", "/w/a/") && is_in("/w", "/")
        );
        assert!(!is_in("/w/ab", "/w/a") && !is_in("/w", "/w/a"));
    }

    #[test]
    fn somebody_is_found_by_the_name_alone_and_no_namesake_is() {
        for found in [
            "ann",
            "ann, by the API (token t-1)",
            "ann, by the console (t-1)",
            "ann (uid 1000) at /dev/pts/0, by the command line",
            "ann: account 7 of Telegram, by surface s",
        ] {
            assert!(is_who(found, "ann"), "{found}");
        }
        for found in ["anna", "anna, by the API (token t-1)", "joann", "ann.b", "ann-b, by the API", ""] {
            assert!(!is_who(found, "ann"), "{found}");
        }
    }

    #[test]
    fn a_folder_that_ends_with_a_slash_is_looked_for_as_one_without() {
        let needles = |folder: &str| {
            AuditFilter { workspace: Some(folder.to_owned()), ..AuditFilter::default() }.needles()
        };
        assert_eq!(needles("/w/a/"), needles("/w/a"));
        assert_eq!(needles("/w/a"), [b"\"/w/a".to_vec()]);
    }
}
