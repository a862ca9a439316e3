//! `approvals` as the people who answer, and as the routes of questions to them.

use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_config::{
    AnswerWord, ApprovalRoute, ApprovalWhen, AskWhom, AskedSeverity, Barred, ConfigError, Loaded, Name,
    Person, Problem, Spanned, Text,
};
use backstop_engine::{ApprovalSettings, Routes, ToldSurfaces, ToolMatcher};
use backstop_guards::limits::Pattern;
use backstop_hooks::{Decision, Severity, Substitute};
use backstop_store::{AskingLimits, KnownBy, NewApproval, People, PersonName};

use super::{problem, tool_matcher};

/// Returns the people whom the configuration names, who are known by name wherever they answer.
pub fn people(loaded: &Loaded) -> Arc<People> {
    let config = &loaded.config.approvals;
    let issuer = loaded.config.gateway.console.oidc.issuer.as_ref().map(|issuer| issuer.value.expose());
    let of = |name: &Spanned<Name>, person: &Person| (person_of(name), ways(person, issuer));
    let people = People::new(config.people.iter().map(|(name, person)| of(name, person)));
    let groups = config
        .groups
        .iter()
        .map(|(name, members)| (name.value.as_str().to_owned(), members.iter().map(person_of).collect()));
    Arc::new(people.with_groups(groups))
}

fn person_of(name: &Spanned<Name>) -> PersonName {
    PersonName::new(name.value.as_str())
}

/// `issuer` is the one identity provider at which people sign in.
fn ways(person: &Person, issuer: Option<&str>) -> Vec<KnownBy> {
    let text = |name: &Spanned<Name>| name.value.as_str().to_owned();
    let user = person.user.as_ref().map(|user| KnownBy::User(text(user)));
    let account = person.account.as_ref().map(|account| KnownBy::Account(text(account)));
    let telegram = person.telegram.as_ref().and_then(|number| i64::try_from(number.value.get()).ok());
    let telegram = telegram.map(KnownBy::Telegram);
    let slack = person.slack.as_ref().map(|member| KnownBy::Slack(text(member)));
    let webhook = person.webhook.as_ref().map(|name| KnownBy::Webhook(text(name)));
    let signed_in = person.oidc.as_ref().zip(issuer);
    let signed_in =
        signed_in.map(|(name, issuer)| KnownBy::SignedIn { issuer: issuer.to_owned(), name: text(name) });
    [user, account, telegram, slack, webhook, signed_in].into_iter().flatten().collect()
}

/// How approvals are kept, as the configuration has it.
pub(crate) fn settings(loaded: &Loaded) -> Result<ApprovalSettings, ConfigError> {
    let config = &loaded.config;
    let routes = config.approvals.routes.iter().map(route).collect::<Result<Routes, _>>()?;
    let limits = &config.approvals.limits;
    Ok(ApprovalSettings {
        timeout: config.agent.approvals.timeout.value.duration(),
        people: people(loaded),
        routes,
        limits: AskingLimits {
            open: number(limits.open.value.get()),
            per_minute: number(limits.per_minute.value.get()),
        },
        ..ApprovalSettings::default()
    })
}

fn number(number: u64) -> Option<NonZeroU32> {
    u32::try_from(number).ok().and_then(NonZeroU32::new)
}

fn route(route: &ApprovalRoute) -> Result<backstop_engine::ApprovalRoute, Problem> {
    let names = |names: &[Spanned<Name>]| names.iter().map(|name| name.value.as_str().to_owned()).collect();
    let decision = |word: &Spanned<AnswerWord>| match word.value {
        AnswerWord::AllowOnce => Some(Decision::AllowOnce),
        AnswerWord::AllowAlways => Some(Decision::AllowAlways),
        AnswerWord::Deny => Some(Decision::Deny),
        AnswerWord::Edit | AnswerWord::Respond => None,
    };
    let substitute = |word: &Spanned<AnswerWord>| match word.value {
        AnswerWord::Edit => Some(Substitute::Edit),
        AnswerWord::Respond => Some(Substitute::Respond),
        AnswerWord::AllowOnce | AnswerWord::AllowAlways | AnswerWord::Deny => None,
    };
    let later = |all: &[Spanned<Name>]| {
        let after = route.escalate.after.as_ref().filter(|_| !all.is_empty())?;
        Some((after.value.duration(), names(all)))
    };
    let says = !route.decisions.is_empty();
    let when = When::of(&route.when)?;
    Ok(backstop_engine::ApprovalRoute {
        fits: Arc::new(move |question| when.fits(question)),
        ask: match &route.ask.value {
            AskWhom::These(asked) => Some(names(asked)),
            AskWhom::Anybody => None,
            AskWhom::None => Some(Vec::new()),
        },
        bars_requester: route.barred.value == Barred::Requester,
        votes: number(route.votes.value.get()).unwrap_or(NonZeroU32::MAX),
        escalate: later(&route.escalate.to),
        told: route.surfaces.as_ref().map(|surfaces| ToldSurfaces {
            first: names(&surfaces.value),
            later: later(&route.escalate.surfaces),
        }),
        decisions: says.then(|| route.decisions.iter().filter_map(decision).collect()),
        substitutes: says.then(|| route.decisions.iter().filter_map(substitute).collect()),
    })
}

/// Which questions a route is about.
struct When {
    agents: Vec<Pattern>,
    tools: Option<ToolMatcher>,
    rules: Vec<Pattern>,
    severity: Option<Severity>,
    workspaces: Vec<Pattern>,
}

impl When {
    fn of(when: &ApprovalWhen) -> Result<Self, Problem> {
        let patterns = |texts: &[Spanned<Text>]| texts.iter().map(pattern).collect::<Result<Vec<_>, _>>();
        let tools = when.tool.as_ref().map(tool_matcher);
        Ok(Self {
            agents: patterns(&when.agent)?,
            tools: tools.transpose()?,
            rules: patterns(&when.rule)?,
            severity: when.severity.as_ref().map(|severity| match severity.value {
                AskedSeverity::Info => Severity::Info,
                AskedSeverity::Warning => Severity::Warning,
                AskedSeverity::Critical => Severity::Critical,
            }),
            workspaces: patterns(&when.workspace)?,
        })
    }

    fn fits(&self, question: &NewApproval) -> bool {
        let any = |patterns: &[Pattern], name: Option<&str>| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches_any(name))
        };
        let mut rules = question.reasons.iter().flat_map(|reason| &reason.rules);
        let workspace = question.place.workspace.as_deref();
        any(&self.agents, Some(question.agent.as_str()))
            && self.tools.as_ref().is_none_or(|tools| tools.matches(&question.tool_name))
            && (self.rules.is_empty() || rules.any(|rule| any(&self.rules, Some(rule.as_str()))))
            && self.severity.is_none_or(|least| question.severity >= least)
            && any(&self.workspaces, workspace)
    }
}

fn pattern(text: &Spanned<Text>) -> Result<Pattern, Problem> {
    Pattern::new(text.value.expose()).map_err(|error| problem(&text.at, &error))
}

#[cfg(test)]
mod tests {
    use backstop_config::{LayerKind, Source};
    use backstop_hooks::{Digest, TimeoutBehavior, ToolName};
    use backstop_store::{ApprovalReason, GrantPlace, Timestamp};

    use super::*;
    use crate::{HookTypes, load_sources};

    fn reason(rules: &[&str]) -> ApprovalReason {
        ApprovalReason {
            owner: "built-in".into(),
            hook: "command-safety".into(),
            title: "Run it?".into(),
            description: "".into(),
            severity: Severity::Warning,
            rules: rules.iter().map(|rule| (*rule).into()).collect(),
            program: None,
        }
    }

    fn question() -> NewApproval {
        let place = GrantPlace { workspace: Some("/work/shop".to_owned()), ..GrantPlace::default() };
        let now = Timestamp::from_millis(0);
        NewApproval {
            agent: "coder-1".into(),
            session_key: "chat".into(),
            workspace: None,
            session: "s1".into(),
            run: None,
            host: None,
            client: None,
            call: "c1".into(),
            tool_name: ToolName::new("Bash"),
            digest: Digest::of_text("test", "call"),
            facts: None,
            title: "Run it?".into(),
            description: "".into(),
            severity: Severity::Warning,
            reasons: vec![reason(&["git.force-push", "network.sends"])],
            place,
            preview: backstop_hooks::Json::default(),
            whole: None,
            unseen: false,
            masked: 0,
            masked_at: Vec::new(),
            starts: None,
            amounts: Vec::new(),
            allowed_decisions: vec![Decision::Deny],
            substitutes: Vec::new(),
            edited_from: None,
            given: None,
            created_at: now,
            expires_at: now,
            deadline: None,
            timeout_behavior: TimeoutBehavior::Deny,
            waiter: None,
            route: None,
        }
    }

    fn fits(when: &str, question: &NewApproval) -> bool {
        let text = format!(
            "approvals: {{ people: {{ ann: {{ user: ann }} }}, routes: [{{ when: {{ {when} }}, ask: [ann] }}] }}"
        );
        let source = Source::new(LayerKind::Operator, "backstop.yaml", &text);
        let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &|_| None).unwrap();
        let [route] = loaded.config.approvals.routes.as_slice() else { panic!("one route") };
        When::of(&route.when).unwrap().fits(question)
    }

    #[test]
    fn a_route_is_about_what_all_of_its_keys_fit() {
        let question = question();
        for (when, expected) in [
            ("", true),
            ("agent: [coder-1]", true),
            ("agent: ['coder-*', other]", true),
            ("agent: [other]", false),
            ("agent: [coder]", false),
            ("tool: [exec]", true),
            ("tool: [Bash]", true),
            ("tool: [read]", false),
            ("rule: ['git.*']", true),
            ("rule: [network.sends]", true),
            ("rule: ['cluster.*', 'git.*']", true),
            ("rule: ['cluster.*']", false),
            ("severity: info", true),
            ("severity: warning", true),
            ("severity: critical", false),
            ("workspace: ['/work/*']", true),
            ("workspace: ['/home/*']", false),
            (
                "agent: ['coder-*'], tool: [exec], rule: ['git.*'], severity: warning, workspace: ['/work/*']",
                true,
            ),
            (
                "agent: ['coder-*'], tool: [exec], rule: ['git.*'], severity: warning, workspace: ['/home/*']",
                false,
            ),
            ("agent: ['coder-*'], tool: [read], rule: ['git.*']", false),
        ] {
            assert_eq!(fits(when, &question), expected, "{when}");
        }
    }

    #[test]
    fn what_is_not_known_fits_no_pattern_but_the_one_for_all() {
        let nowhere = NewApproval { place: GrantPlace::default(), reasons: vec![reason(&[])], ..question() };
        for (when, expected) in [
            ("workspace: ['/work/*']", false),
            ("workspace: ['*']", true),
            ("rule: ['git.*']", false),
            ("rule: ['*']", false),
        ] {
            assert_eq!(fits(when, &nowhere), expected, "{when}");
        }
    }

    #[test]
    fn a_graver_question_is_one_of_those_of_at_least_a_severity() {
        let grave = NewApproval { severity: Severity::Critical, ..question() };
        assert!(fits("severity: warning", &grave) && fits("severity: critical", &grave));
    }
}
