//! What a repository file may do to each key.
//!
//! Every key of every section names one of these rules. They implement the law: **adding a repository file never makes the
//! result more permissive.** If it is not clear which direction is stricter, the rule is [`OperatorOnly`]. For example, a
//! shorter time budget looks stricter, and yet it makes a hook whose failures pass miss its answer, or
//! makes a question that defaults to "allow" time out.

use backstop_hooks::ToolName;

use crate::config_value::{Entries, Key};
use crate::place::{Setting, Spanned};
use crate::problem::quoted_list;
use crate::reader::Reader;
use crate::values::{OnFailure, ToolSet};

/// What of a repository's value is read at all.
pub(crate) trait Admit<T> {
    /// The value is not even read from a repository file.
    const OPERATOR_ONLY: bool = false;
    /// The rule in a few words, for the reference.
    const DOC: &'static str;

    /// Removes from a repository's value what may never come from there, whatever the operator says.
    fn restrict(value: T, _: &mut Reader<'_>) -> T {
        value
    }
}

/// What a repository's value does to the value in force.
pub(crate) trait Rule<T>: Admit<T> {
    /// Takes from the repository's value what tightens, and records the rest as dropped.
    fn tighten(into: &mut T, repository: T, cx: &mut Reader<'_>);
}

/// A section that takes the stricter parts of a repository's value.
pub(crate) trait Tighten {
    fn tighten(&mut self, repository: Self, cx: &mut Reader<'_>);
}

/// A repository file cannot set the key at all; its value is not even read.
pub(crate) struct OperatorOnly;
/// A repository's value says what may not come from there; whoever reads it drops it, with the reason.
pub(crate) struct Refused;
/// A section of its own: each of its keys has a rule.
pub(crate) struct Nested;
/// The greater value is the stricter one.
pub(crate) struct Raise;
/// The smaller value is the stricter one.
pub(crate) struct Lower;
/// The repository's items are added after the operator's.
pub(crate) struct Append;
/// The result is what both allow.
pub(crate) struct Narrow;
/// The key of an entry that the repository itself added; it has no operator's value beside it.
pub(crate) struct Own;
/// The repository may say `block`, never `allow`.
pub(crate) struct BlockOnly;

impl<T> Admit<T> for OperatorOnly {
    const OPERATOR_ONLY: bool = true;
    const DOC: &'static str = "ignored";
}

impl<T> Rule<T> for OperatorOnly {
    fn tighten(_: &mut T, _: T, _: &mut Reader<'_>) {}
}

impl<T> Admit<T> for Refused {
    const DOC: &'static str = "refused";
}

impl<T> Rule<T> for Refused {
    fn tighten(_: &mut T, _: T, _: &mut Reader<'_>) {}
}

impl<T: Tighten> Admit<T> for Nested {
    const DOC: &'static str = "key by key";
}

impl<T: Tighten> Rule<T> for Nested {
    fn tighten(into: &mut T, repository: T, cx: &mut Reader<'_>) {
        into.tighten(repository, cx);
    }
}

fn replace_if<T>(
    into: &mut Setting<T>,
    repository: Setting<T>,
    cx: &mut Reader<'_>,
    stricter: impl Fn(&T, &T) -> bool,
) where
    T: PartialEq,
{
    let Some(at) = &repository.at else { return };
    if stricter(&repository.value, &into.value) {
        *into = repository;
    } else if repository.value != into.value {
        cx.drop_value(at, "it would be less strict than the value in force");
    }
}

impl<T: Ord> Admit<Setting<T>> for Raise {
    const DOC: &'static str = "only stricter";
}

impl<T: Ord> Rule<Setting<T>> for Raise {
    fn tighten(into: &mut Setting<T>, repository: Setting<T>, cx: &mut Reader<'_>) {
        replace_if(into, repository, cx, |repository, current| repository > current);
    }
}

impl<T: Ord> Admit<Setting<T>> for Lower {
    const DOC: &'static str = "only lower";
}

impl<T: Ord> Rule<Setting<T>> for Lower {
    fn tighten(into: &mut Setting<T>, repository: Setting<T>, cx: &mut Reader<'_>) {
        replace_if(into, repository, cx, |repository, current| repository < current);
    }
}

impl<T> Admit<Vec<T>> for Append {
    const DOC: &'static str = "added to the operator's";
}

impl<T> Rule<Vec<T>> for Append {
    fn tighten(into: &mut Vec<T>, repository: Vec<T>, _: &mut Reader<'_>) {
        into.extend(repository);
    }
}

impl<T> Admit<T> for Own {
    const DOC: &'static str = "in its own entries";
}

impl Admit<Option<Spanned<ToolSet>>> for Narrow {
    const DOC: &'static str = "only fewer";
}

impl Rule<Option<Spanned<ToolSet>>> for Narrow {
    fn tighten(
        into: &mut Option<Spanned<ToolSet>>,
        repository: Option<Spanned<ToolSet>>,
        cx: &mut Reader<'_>,
    ) {
        let Some(repository) = repository else { return };
        let Some(current) = into else {
            *into = Some(repository);
            return;
        };
        let (kept, refused) = repository.value.split_by(&current.value);
        if !refused.is_empty() {
            let refused = quoted_list(refused.iter().map(ToolName::canonical));
            let reason = format!("not among the tools in force: {refused}");
            cx.drop_value(&repository.at, reason);
        }
        if kept != current.value {
            *into = Some(Spanned { value: kept, at: repository.at });
        }
    }
}

const FAILURES_PASS: &str = "a repository file may not let failures pass";

impl<K: Key> Admit<Entries<K, Setting<OnFailure>>> for BlockOnly {
    const DOC: &'static str = "only `block`";

    fn restrict(
        value: Entries<K, Setting<OnFailure>>,
        cx: &mut Reader<'_>,
    ) -> Entries<K, Setting<OnFailure>> {
        let mut kept = Entries::default();
        for (key, value) in value.into_vec() {
            match value.value {
                OnFailure::Block => kept.push(key, value),
                OnFailure::Allow => cx.in_key(key.value.as_str(), |cx| cx.drop_value(&key.at, FAILURES_PASS)),
            }
        }
        kept
    }
}

impl<K: Key> Rule<Entries<K, Setting<OnFailure>>> for BlockOnly {
    fn tighten(
        into: &mut Entries<K, Setting<OnFailure>>,
        repository: Entries<K, Setting<OnFailure>>,
        _: &mut Reader<'_>,
    ) {
        for (key, value) in repository.into_vec() {
            match into.get_mut(key.value.as_str()) {
                Some(current) => *current = value,
                None => into.push(key, value),
            }
        }
    }
}

impl Admit<Option<Spanned<OnFailure>>> for BlockOnly {
    const DOC: &'static str = "only `block`";

    fn restrict(value: Option<Spanned<OnFailure>>, cx: &mut Reader<'_>) -> Option<Spanned<OnFailure>> {
        let value = value?;
        if value.value == OnFailure::Allow {
            cx.drop_value(&value.at, FAILURES_PASS);
            return None;
        }
        Some(value)
    }
}

impl Rule<Option<Spanned<OnFailure>>> for BlockOnly {
    fn tighten(
        into: &mut Option<Spanned<OnFailure>>,
        repository: Option<Spanned<OnFailure>>,
        _: &mut Reader<'_>,
    ) {
        if repository.is_some() {
            *into = repository;
        }
    }
}
