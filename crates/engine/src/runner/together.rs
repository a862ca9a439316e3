//! Several hooks in one request: what a [batch](backstop_hooks::Batch) answered, as if each hook had been asked alone.
//!
//! The laws are those of a [single call](super::call): exceeded budgets, panics and malformed answers become failures. If a batch
//! does not answer within the time of all its members, panics, or answers for none or for more hooks than were asked,
//! its first hook fails and the others are asked again.

use std::time::Duration;

use backstop_hooks::{
    Batch, BatchAnswer, BatchContext, CallContext, Member, Membership, Point, contained, drop_contained,
};
use tokio::time::{Instant, timeout_at};

use super::call::{Asked, Beside, UnderWay, checked, late};
use crate::foreign::Foreign;
use crate::receipt::Failure;
use crate::registry::Entry;

/// Which batch a hook is in: hooks with equal keys can be asked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchKey(usize);

impl BatchKey {
    pub(crate) fn of<P: Point>(entry: &Entry<P>) -> Option<Self> {
        let batch: *const dyn Batch<P> = std::sync::Arc::as_ptr(&entry.membership.as_ref()?.batch);
        Some(Self(batch.cast::<()>().addr()))
    }
}

/// What each of those said who were asked, one at least, and when.
type Heard<P> = Vec<(Asked<<P as Point>::Outcome>, Instant)>;

/// Asks hooks of one batch in their order, until one says something or fails.
pub(crate) async fn ask_together<P: Point>(
    entries: &[&Entry<P>],
    event: &P::Event,
    call: &CallContext,
    beside: Beside<'_>,
    start: Instant,
) -> Heard<P> {
    let Some((first, membership)) =
        entries.first().and_then(|first| Some((*first, first.membership.as_ref()?)))
    else {
        return Vec::new();
    };
    match answer(entries, first, membership, event, call, beside, start).await {
        Ok(answer) => heard(entries, answer, event, start).unwrap_or_else(|| {
            let failure = Failure::malformed_batch();
            vec![(Err(Box::new(failure)), Instant::now())]
        }),
        Err(failure) => vec![(Err(failure), Instant::now())],
    }
}

async fn answer<P: Point>(
    entries: &[&Entry<P>],
    first: &Entry<P>,
    membership: &Membership<P>,
    event: &P::Event,
    call: &CallContext,
    beside: Beside<'_>,
    start: Instant,
) -> Result<BatchAnswer<P>, Box<Failure>> {
    let members = entries.iter().filter_map(|entry| {
        let number = entry.membership.as_ref()?.number;
        Some(Member { number, budget: entry.meta.budget, plugin_config: &entry.meta.config })
    });
    let members: Vec<_> = members.collect();
    let budgets = members.iter().map(|member| member.budget);
    let deadline = start + budgets.fold(Duration::ZERO, Duration::saturating_add);
    let begin = || {
        membership.batch.ask(
            members,
            event,
            BatchContext { call, evidence: beside.evidence, forms: beside.forms },
        )
    };
    let future = contained(|| call.nesting.descend(begin)).map_err(|_| Box::new(Failure::panicked()))?;
    let _counted =
        entries.iter().map(|entry| UnderWay::begin(&entry.under_way)).collect::<Result<Vec<_>, _>>()?;
    match timeout_at(deadline, Foreign::new(&call.nesting, future)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(Box::new(Failure::panicked())),
        Err(_) => Err(late(first, first.meta.budget)),
    }
}

/// Returns the answer hook by hook; `None` if it can't be about these hooks.
fn heard<P: Point>(
    entries: &[&Entry<P>],
    answer: BatchAnswer<P>,
    event: &P::Event,
    start: Instant,
) -> Option<Heard<P>> {
    let BatchAnswer { silent, said } = answer;
    let asked = silent.len() + usize::from(said.is_some());
    // Whoever says nothing while others are left was to go on.
    let is_whole = said.is_some() || asked == entries.len();
    if asked == 0 || asked > entries.len() || !is_whole {
        drop_contained(said);
        return None;
    }
    let now = Instant::now();
    let mut heard = Vec::with_capacity(asked);
    let mut end = start;
    let said = said.map(|(said, took)| (Some(said), took));
    let all = silent.into_iter().map(|took| (None, took)).chain(said);
    for (entry, (said, took)) in entries.iter().zip(all) {
        // What a batch says of time can't make a hook end later than now.
        end = end.checked_add(took).map_or(now, |end| end.min(now));
        if took > entry.meta.budget {
            drop_contained(said);
            heard.push((Err(late(entry, entry.meta.budget)), end));
            break;
        }
        let asked = match said {
            None => Ok(None),
            Some(said) => checked(entry, said, event),
        };
        heard.push((asked, end));
    }
    Some(heard)
}
