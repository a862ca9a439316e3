//! What the configuration excepts from the guards, each with why, until when, and where it is written.

use backstop_store::Timestamp;
use maud::{Markup, html};

use crate::money::grouped;
use crate::page::Role;
use crate::shown::one_line;

/// The most exceptions that are shown.
const MOST: usize = 200;

/// An exception from a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The guard, as the configuration calls it.
    pub guard: &'static str,
    /// The rule that does not count, if it is about one.
    pub rule: Option<String>,
    /// The command or the path for which it holds, if it is about one.
    pub exempt: Option<String>,
    /// Why it is needed.
    pub reason: String,
    /// The last day on which it holds, as `YYYY-MM-DD`; `None` if it holds for good.
    pub last_day: Option<String>,
    /// The file and the line where it is written.
    pub at: String,
}

/// The exceptions; `None` where nobody knows them. They say which commands and paths pass, and where the operator's file is, so whoever may not
/// administer is told none.
pub(crate) fn section(role: Role, exceptions: Option<&[Exception]>, now: Timestamp) -> Markup {
    let all = exceptions.unwrap_or_default();
    let more = all.len().saturating_sub(MOST);
    html! {
        section aria-labelledby="exceptions-title" {
            h2 #exceptions-title { "Exceptions" }
            @if role != Role::Admin { p.empty { "What the configuration excepts from the guards is shown to those whose token has the scope " code { "admin" } "." } }
            @else if exceptions.is_none() { p.empty { "What the configuration excepts from the guards is not known here." } }
            @else if all.is_empty() { p.empty { "No exception is written in " code { "guards.command_safety.allow" } " or " code { "guards.sensitive_files.allow" } ", and no rule in " code { "guards.command_safety.shadow" } "." } }
            @else {
                ul.rows { @for one in all.iter().take(MOST) { (row(one, now)) } }
                @if more > 0 { p.summary { "and " (grouped(u64::try_from(more).unwrap_or(u64::MAX))) " more, which are in the configuration" } }
            }
        }
    }
}

fn row(one: &Exception, now: Timestamp) -> Markup {
    let exempt = one.exempt.as_deref().map(|exempt| one_line(exempt, 200));
    html! {
        li.row.over[is_over(one, now)] {
            div {
                p.first { (one_line(&one.reason, 300)) }
                p {
                    span.tool { (one.guard) } " "
                    @if let Some(rule) = &one.rule { "rule " code { (one_line(rule, 80)) } " does not count" @if exempt.is_some() { " for " } }
                    @if let Some(exempt) = &exempt { code.exact { (exempt) } @if one.rule.is_none() { " passes" } }
                }
                p.meta {
                    span {
                        @match &one.last_day {
                            Some(day) if is_over(one, now) => { "over since the end of " (one_line(day, 20)) },
                            Some(day) => { "until the end of " (one_line(day, 20)) },
                            None => "for good",
                        }
                    }
                    span { "from " code.exact { (one_line(&one.at, 200)) } }
                }
            }
        }
    }
}

/// Whether its last day has passed, in UTC. Both days are written alike, so that their order is that of the texts.
fn is_over(one: &Exception, now: Timestamp) -> bool {
    let now = now.to_string();
    let today = now.split('T').next().unwrap_or_default();
    one.last_day.as_deref().is_some_and(|day| day < today)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exception() -> Exception {
        Exception {
            guard: "command_safety",
            rule: Some("test.rule".to_owned()),
            exempt: Some("marker <b>\u{202e}".to_owned()),
            reason: "<i>ours".to_owned(),
            last_day: Some("1970-01-02".to_owned()),
            at: "backstop.yaml:7:3".to_owned(),
        }
    }

    #[test]
    fn an_exception_is_shown_with_why_until_when_and_where() {
        let page = |one: Exception, at: i64| {
            section(Role::Admin, Some(&[one]), Timestamp::from_millis(at)).into_string()
        };
        // The second day of 1970, until its last moment and from then on.
        let (holds, over) = (page(exception(), 172_799_999), page(exception(), 172_800_000));
        assert!(holds.contains("until the end of 1970-01-02") && !holds.contains("row over"), "{holds}");
        assert!(over.contains("over since the end of 1970-01-02") && over.contains("row over"), "{over}");
        assert!(holds.contains("&lt;i&gt;ours") && holds.contains("marker &lt;b&gt;\\u{202e}"), "{holds}");
        assert!(holds.contains("backstop.yaml:7:3") && holds.contains("does not count for "), "{holds}");
        let path = Exception { guard: "sensitive_files", rule: None, last_day: None, ..exception() };
        let path = page(path, 0);
        assert!(path.contains("passes") && path.contains("for good") && !path.contains("rule "), "{path}");
    }

    #[test]
    fn that_there_is_none_and_that_nobody_knows_are_told_apart() {
        let now = Timestamp::from_millis(0);
        let section = |exceptions: Option<&[Exception]>| section(Role::Admin, exceptions, now).into_string();
        let none = section(Some(&[]));
        assert!(none.contains("No exception is written in") && !none.contains("nothing"), "{none}");
        assert!(section(None).contains("is not known here"));
        let many = vec![exception(); MOST + 3];
        assert!(section(Some(&many)).contains("and 3 more"));
    }

    #[test]
    fn who_may_not_administer_sees_none() {
        for role in [Role::Viewer, Role::Approver] {
            let page = section(role, Some(&[exception()]), Timestamp::from_millis(0)).into_string();
            assert!(page.contains("the scope <code>admin</code>"), "{page}");
            assert!(!page.contains("marker") && !page.contains("backstop.yaml"), "{page}");
        }
    }
}
