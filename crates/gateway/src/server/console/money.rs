//! What agents use: what this process counted since it began, and the budgets that are in use, which processes share.

use backstop_console::{BudgetLine, Money, Spender, Unit, Used, money};
use backstop_store::{BudgetUse, Timestamp};
use http::StatusCode;

use super::{Answer, PageError, PageRequest, html};
use crate::metrics::Sums;

/// The most counters that are read, and the most budgets that are shown.
const MOST_READ: usize = 2_000;
const MOST_SHOWN: usize = 200;
/// How the names of counters of budgets begin.
const BUDGET: &str = "budget/";

pub(super) async fn page(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    let now = Timestamp::now();
    let read = request.engine.store().budgets(MOST_READ).await.map_err(|_| PageError::Store)?;
    let in_use = read.iter().filter(|one| one.until.is_none_or(|until| until > now));
    let limit =
        |name: &str, unit: &str| request.shared.budgets.get(&(name.to_owned(), unit.to_owned())).copied();
    let (budgets, more) = latest(in_use.filter_map(|one| line(one, limit)).collect());
    let is_cut = more || read.len() == MOST_READ;
    let metrics = request.shared.operators.metrics();
    let Sums { spent, spent_left_out: left_out, .. } =
        metrics.map(crate::metrics::Metrics::sums).unwrap_or_default();
    let spenders: Vec<Spender> = spent
        .into_iter()
        .map(|((agent, user, model), spent)| {
            let tokens = spent.tokens;
            let read = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
            let used = Used {
                requests: spent.requests,
                read,
                written: tokens.output,
                cost_micros: spent.cost_micros,
            };
            Spender { agent: agent.to_string(), user: user.to_string(), model: model.to_string(), used }
        })
        .collect();
    let since = metrics.map(crate::metrics::Metrics::began);
    let shown = Money { since, spenders: &spenders, left_out, budgets: &budgets, is_cut };
    Ok(html(StatusCode::OK, money(&request.viewer(), &shown, now)))
}

/// Those with the latest windows, which come first, by name, and whether there are more.
fn latest(mut budgets: Vec<BudgetLine>) -> (Vec<BudgetLine>, bool) {
    let is_cut = budgets.len() > MOST_SHOWN;
    budgets.truncate(MOST_SHOWN);
    budgets.sort_by(|one, other| (&one.name, &one.whose).cmp(&(&other.name, &other.whose)));
    (budgets, is_cut)
}

/// A counter as a line, if it is one of a budget: `budget/NAME/AGENT/MODEL/USER/UNIT`, where `*` is whoever it is, and `-` nobody who is known.
fn line(one: &BudgetUse, limit: impl Fn(&str, &str) -> Option<u64>) -> Option<BudgetLine> {
    let parts = one.counter.strip_prefix(BUDGET)?;
    // Its name may hold a slash; the parts behind it do not.
    let mut parts = parts.rsplitn(5, '/');
    let (unit, user, model) = (parts.next()?, parts.next()?, parts.next()?);
    let (agent, name) = (parts.next()?, parts.next()?);
    let whose = [("agent", agent), ("model", model), ("user", user)];
    let whose = whose.iter().filter(|(_, name)| *name != "*").map(|(what, name)| {
        let name = if *name == "-" { "nobody who is known".to_owned() } else { decoded(name) };
        format!("{what} {name}")
    });
    Some(BudgetLine {
        name: name.to_owned(),
        whose: whose.collect::<Vec<_>>().join(", "),
        unit: match unit {
            "requests" => Unit::Requests,
            "tokens" => Unit::Tokens,
            "cost" => Unit::Cost,
            _ => return None,
        },
        spent: one.spent,
        reserved: one.reserved,
        limit: limit(name, unit),
        until: one.until,
    })
}

fn decoded(name: &str) -> String {
    name.replace("%2f", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(counter: &str) -> Option<BudgetLine> {
        let one = BudgetUse {
            counter: counter.into(),
            since: Timestamp::default(),
            until: None,
            spent: 5,
            reserved: 1,
        };
        line(&one, |name, unit| (name == "a/b" && unit == "tokens").then_some(10))
    }

    #[test]
    fn counters_of_budgets_are_told_in_words() {
        let line = used("budget/a/b/x%2fy%25/*/-/tokens").unwrap();
        assert_eq!((line.name.as_str(), line.limit, line.unit), ("a/b", Some(10), Unit::Tokens));
        assert_eq!(line.whose, "agent x/y%, user nobody who is known");
        let line = used("budget/day/*/*/*/cost").unwrap();
        assert_eq!((line.whose.as_str(), line.limit, line.unit), ("", None, Unit::Cost));
        // Those with the latest windows come first, and stay.
        let all = (0..=MOST_SHOWN).rev().map(|n| used(&format!("budget/b{n:03}/*/*/*/cost")).unwrap());
        let (shown, is_cut) = latest(all.collect());
        let name = |line: Option<&BudgetLine>| line.unwrap().name.clone();
        assert_eq!((name(shown.first()), name(shown.last())), ("b001".to_owned(), format!("b{MOST_SHOWN}")));
        assert!(is_cut && shown.len() == MOST_SHOWN);
        for other in ["loop/x/*/*/*/tokens", "budget/x/tokens", "budget/day/*/*/*/hours"] {
            assert!(used(other).is_none(), "{other}");
        }
    }
}
