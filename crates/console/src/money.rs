//! What agents use: tokens, money and budgets.

use std::collections::BTreeMap;

use backstop_store::Timestamp;
use maud::{Markup, html};

use crate::page::{Place, Viewer, page};
use crate::shown::{ago, left, one_line};

/// What one agent used of one model on behalf of one user, since the process began.
#[derive(Clone, Debug, Default)]
pub struct Spender {
    /// The agent.
    pub agent: String,
    /// The user.
    pub user: String,
    /// The model.
    pub model: String,
    /// What was used.
    pub used: Used,
}

/// What was used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Requests.
    pub requests: u64,
    /// Tokens that were read, from caches and into them too.
    pub read: u64,
    /// Tokens that were written.
    pub written: u64,
    /// Money, in millionths of the operator's currency.
    pub cost_micros: u64,
}

impl Used {
    fn add(&mut self, other: Self) {
        for (sum, one) in [
            (&mut self.requests, other.requests),
            (&mut self.read, other.read),
            (&mut self.written, other.written),
            (&mut self.cost_micros, other.cost_micros),
        ] {
            *sum = sum.saturating_add(one);
        }
    }

    /// By what shares are measured: money where there is any, and tokens otherwise.
    const fn weight(self, by_cost: bool) -> u64 {
        if by_cost { self.cost_micros } else { self.read.saturating_add(self.written) }
    }
}

/// How much of a budget is used in its window.
#[derive(Clone, Debug)]
pub struct BudgetLine {
    /// Its name.
    pub name: String,
    /// Whose it is, where it is counted separately.
    pub whose: String,
    /// What is counted.
    pub unit: Unit,
    /// What is spent, reservations included.
    pub spent: u64,
    /// What of that is reserved.
    pub reserved: u64,
    /// The most; `None` where the configuration in force does not name it.
    pub limit: Option<u64>,
    /// When it begins anew.
    pub until: Option<Timestamp>,
}

/// What a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Requests.
    Requests,
    /// Tokens.
    Tokens,
    /// Millionths of the operator's currency.
    Cost,
}

/// What agents use.
#[derive(Debug)]
pub struct Money<'a> {
    /// Since when it is counted; `None` where nobody counts.
    pub since: Option<Timestamp>,
    /// Who used what.
    pub spenders: &'a [Spender],
    /// How often there was no line for something.
    pub left_out: u64,
    /// The budgets that are in use.
    pub budgets: &'a [BudgetLine],
    /// Whether there are more.
    pub is_cut: bool,
}

/// The page of what agents use.
pub fn money(viewer: &Viewer, money: &Money<'_>, now: Timestamp) -> String {
    let mut sum = Used::default();
    money.spenders.iter().for_each(|spender| sum.add(spender.used));
    let by_cost = sum.cost_micros > 0;
    let content = html! {
        h1 { "Money" }
        @match money.since {
            None => p.note { "This process counts nothing: it runs without metrics." },
            Some(since) => p.summary {
                "Since this process began, " (ago(since, now)) ": " strong { (grouped(sum.requests)) } " requests, "
                strong { (grouped(sum.read)) } " tokens read and " strong { (grouped(sum.written)) } " written"
                @if by_cost { ", " strong { (amount(sum.cost_micros)) } " of money" } "."
                @if !by_cost && sum.requests > 0 { " No model of these has a price (" code { "budgets.prices" } ")." }
                (no_room(money.left_out))
            }
        }
        (budgets(money, now))
        @if !money.spenders.is_empty() {
            (table("By agent", "Agent", &by(money.spenders, |one| &one.agent), sum, by_cost))
            (table("By user", "User", &by(money.spenders, |one| &one.user), sum, by_cost))
            (table("By model", "Model", &by(money.spenders, |one| &one.model), sum, by_cost))
        }
    };
    page(viewer, Place::Money, "Money", None, content)
}

/// Tells how often there was no line for something.
pub(crate) fn no_room(left_out: u64) -> Markup {
    html! { @if left_out > 0 { " " (grouped(left_out)) " counts had no room here." } }
}

/// Sums by a name, the largest first.
fn by(spenders: &[Spender], name: impl Fn(&Spender) -> &str) -> Vec<(&str, Used)> {
    let mut sums: BTreeMap<&str, Used> = BTreeMap::new();
    for spender in spenders {
        sums.entry(name(spender)).or_default().add(spender.used);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, used)| {
        std::cmp::Reverse((used.cost_micros, used.read.saturating_add(used.written), used.requests))
    });
    sums
}

fn table(title: &str, head: &str, lines: &[(&str, Used)], sum: Used, by_cost: bool) -> Markup {
    let id = format!("{}-title", head.to_ascii_lowercase());
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (title) }
            div.scroll tabindex="0" role="region" aria-label={ "Table " (title.to_lowercase()) } {
                table {
                    thead { tr {
                        th scope="col" { (head) } th scope="col" { "Requests" } th scope="col" { "Tokens read" } th scope="col" { "Tokens written" }
                        th scope="col" { "Money" } th scope="col" { "Share of " @if by_cost { "money" } @else { "tokens" } }
                    } }
                    tbody {
                        @for (name, used) in lines {
                            tr.row {
                                th scope="row" { (one_line(name, 80)) }
                                td.number { (grouped(used.requests)) } td.number { (grouped(used.read)) } td.number { (grouped(used.written)) }
                                td.number { (amount(used.cost_micros)) }
                                td.number { (share(used.weight(by_cost), sum.weight(by_cost), &one_line(name, 80))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn budgets(money: &Money<'_>, now: Timestamp) -> Markup {
    html! {
        section aria-labelledby="budgets-title" {
            h2 #budgets-title { "Budgets" }
            @if money.budgets.is_empty() { p.empty { "No budget is in use." } }
            @else {
                div.scroll tabindex="0" role="region" aria-label="Table of budgets" {
                    table {
                        thead { tr { th scope="col" { "Budget" } th scope="col" { "Whose" } th scope="col" { "Spent" } th scope="col" { "Reserved of that" } th scope="col" { "Limit" } th scope="col" { "Used" } th scope="col" { "Begins anew" } } }
                        tbody { @for line in money.budgets { (budget(line, now)) } }
                    }
                }
                @if money.is_cut { p.summary { "There are more; those with the latest windows are shown." } }
            }
        }
    }
}

fn budget(line: &BudgetLine, now: Timestamp) -> Markup {
    let shown = |count: u64| match line.unit {
        Unit::Requests => format!("{} requests", grouped(count)),
        Unit::Tokens => format!("{} tokens", grouped(count)),
        Unit::Cost => amount(count),
    };
    html! {
        tr.row {
            th scope="row" { (one_line(&line.name, 80)) }
            td { (one_line(&line.whose, 120)) }
            td.number { (shown(line.spent)) }
            td.number { (shown(line.reserved)) }
            td.number { @match line.limit { Some(limit) => (shown(limit)), None => "no more in force" } }
            td.number { @if let Some(limit) = line.limit { (share(line.spent, limit, &one_line(&line.name, 80))) } }
            td { @match line.until { Some(until) => (left(until, now)), None => "never" } }
        }
    }
}

/// A part of a whole, as a number and as a bar.
pub(crate) fn share(part: u64, whole: u64, of: &str) -> Markup {
    let percent = u128::from(part).saturating_mul(100).checked_div(u128::from(whole)).unwrap_or(0);
    html! {
        meter min="0" max="100" value=(percent.min(100)) aria-label={ (of) ": " (percent) " %" } {}
        " " (percent) " %"
    }
}

/// A number with a space between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len().saturating_mul(2));
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && digits.len().saturating_sub(index).is_multiple_of(3) {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

/// Millionths as an amount.
fn amount(micros: u64) -> String {
    format!("{}.{:04}", grouped(micros / 1_000_000), micros % 1_000_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    #[test]
    fn names_are_shown_as_text_and_not_without_end() {
        let hostile = format!("\"><img src=x onerror=hit()>\u{202e}{}", "y".repeat(2_000));
        let name = || hostile.clone();
        let used = Used { requests: 1, read: 2, written: 3, cost_micros: 4 };
        let spenders = [Spender { agent: name(), user: name(), model: name(), used }];
        let (unit, limit) = (Unit::Tokens, Some(9));
        let budgets =
            [BudgetLine { name: name(), whose: name(), unit, spent: 1, reserved: 1, limit, until: None }];
        let shown = Money { since: None, spenders: &spenders, left_out: 1, budgets: &budgets, is_cut: true };
        let viewer = Viewer {
            name: "ann".to_owned(),
            role: Role::Admin,
            may_answer: true,
            may_read: true,
            form_token: String::new(),
        };
        let page = money(&viewer, &shown, Timestamp::now());
        assert!(
            !page.contains("<img") && !page.contains('\u{202e}') && !page.contains(&"y".repeat(200)),
            "{page}"
        );
        // In the tables of agents, users and models twice each, of budgets three times.
        assert_eq!(page.matches("&quot;&gt;&lt;img").count(), 9, "{page}");
    }

    #[test]
    fn numbers_are_grouped_and_amounts_have_four_places() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1 000"), (12_345_678, "12 345 678")] {
            assert_eq!(grouped(number).replace('\u{a0}', " "), text);
        }
        for (micros, text) in
            [(0, "0.0000"), (99, "0.0000"), (1_234_567, "1.2345"), (1_500_000_000, "1500.0000")]
        {
            assert_eq!(amount(micros).replace('\u{a0}', ""), text);
        }
    }

    #[test]
    fn shares_are_parts_of_a_whole() {
        for (part, whole, percent) in
            [(0, 0, "0 %"), (1, 3, "33 %"), (5, 2, "250 %"), (u64::MAX, u64::MAX, "100 %")]
        {
            assert!(
                share(part, whole, "x").into_string().ends_with(&format!("</meter> {percent}")),
                "{part}"
            );
        }
    }
}
