//! `approvals`: who may answer the questions that hooks ask, and how many must. Only the operator can set it: a repository that could would
//! name those who let its agent go on.

use serde_json::{Value, json};

use crate::config_value::{ConfigValue, Entries, item, section};
use crate::place::{Place, Setting, Spanned};
use crate::problem::{Problem, ProblemKind, suggestion};
use crate::reader::Reader;
use crate::text::Text;
use crate::values::{AnswerWord, AskedSeverity, Barred, Millis, Name, ToolPattern, Whole, plain_text};
use backstop_yaml::{Kind, Node};

use super::surfaces::Surfaces;

section! {
    /// Who may answer the questions that hooks ask, and how many must.
    pub struct Answering {
        /// The people who answer, by the names that the trail and the console have for them.
        people ("people"): Entries<Name, Person>, OperatorOnly;
        /// Groups of people, by name.
        groups ("groups"): Entries<Name, Vec<Spanned<Name>>>, OperatorOnly;
        /// To whom questions go. The first entry that fits counts; where none does, everybody may answer who may answer at all.
        routes ("routes"): Vec<ApprovalRoute>, OperatorOnly;
        /// How much an agent may ask.
        limits ("limits"): AskingLimits, OperatorOnly;
        /// Where they are told and answer, away from the machine.
        surfaces ("surfaces"): Surfaces, OperatorOnly;
    }
}

item! {
    /// How a person is known who answers. At least one way must be there, and no two people have the same.
    pub struct Person {
        /// The user whom the access tokens of this person name (`backstop token create --user`), and whom a signed token names that an
        /// issuer vouches for.
        user ("user"): Option<Spanned<Name>>, OperatorOnly;
        /// The account of this person on the machine, by name, or by number where it has none. Whoever answers in a terminal of that
        /// account is this person. Leave it out where agents run under the same account and what they do must not count as an answer.
        account ("account"): Option<Spanned<Name>>, OperatorOnly;
        /// The number of this person's account at Telegram. Names there can change hands, and count for nothing.
        telegram ("telegram"): Option<Spanned<Whole<1, 4_503_599_627_370_495>>>, OperatorOnly;
        /// This person at Slack: the ids of workspace and member, as `T0123/U0123`.
        slack ("slack"): Option<Spanned<Name>>, OperatorOnly;
        /// The name by which webhooks that answer vouch for this person.
        webhook ("webhook"): Option<Spanned<Name>>, OperatorOnly;
        /// Who this person is at the identity provider of `gateway.console.oidc`: the address, or what its `user_claim` says. A token whose
        /// user has the same name is not this person by that.
        oidc ("oidc"): Option<Spanned<Name>>, OperatorOnly;
    }
}

item! {
    /// To whom some questions go.
    pub struct ApprovalRoute {
        /// Which questions it is about. Without it, all.
        when ("when"): ApprovalWhen, OperatorOnly;
        /// The people and groups who may answer. Nobody else may, wherever they answer. `anybody`: whoever may answer at all. `none`: nobody may, so that the call is denied.
        ask ("ask"): Spanned<AskWhom>, OperatorOnly;
        /// Who of them may not answer all the same. With `requester`, the call is denied if nobody knows who asked for it.
        barred ("barred"): Setting<Barred> = Barred::Nobody, OperatorOnly;
        /// How many of them must allow the call. One denial ends the question.
        votes ("votes"): Setting<Whole<1, 100>> = Whole::clamped(1), OperatorOnly;
        /// Who may answer as well, once nobody has for some time.
        escalate ("escalate"): Escalate, OperatorOnly;
        /// The surfaces that are told of these questions, by name. Without it, all are; with an empty list, none is, and people find the questions
        /// on the console and the command line. It says nothing of who may answer.
        surfaces ("surfaces"): Option<Spanned<Vec<Spanned<Name>>>>, OperatorOnly;
        /// What may be answered, of what the hooks that ask offer and whoever asks can take. Without it, all of that. Where several must
        /// allow a call, nobody can allow it from now on, change it, or give its result.
        decisions ("decisions"): Vec<Spanned<AnswerWord>>, OperatorOnly;
    }
    check: check;
}

section! {
    /// Which questions a route is about: those that fit all of this.
    pub struct ApprovalWhen {
        /// The agents, as patterns.
        agent ("agent"): Vec<Spanned<Text>>, OperatorOnly;
        /// The tools: names and groups, or a regular expression.
        tool ("tool"): Option<Spanned<ToolPattern>>, OperatorOnly;
        /// The rules that ask, as patterns. One of them is enough.
        rule ("rule"): Vec<Spanned<Text>>, OperatorOnly;
        /// How grave the question is, at least.
        severity ("severity"): Option<Spanned<AskedSeverity>>, OperatorOnly;
        /// The folders that agents work in, as patterns. A call without one fits `*` alone.
        workspace ("workspace"): Vec<Spanned<Text>>, OperatorOnly;
    }
}

section! {
    /// Who may answer as well, and which other surfaces are told, once nobody has answered for some time.
    pub struct Escalate {
        /// After so many milliseconds.
        after ("afterMs"): Option<Spanned<Millis>>, OperatorOnly;
        /// The people and groups.
        to ("to"): Vec<Spanned<Name>>, OperatorOnly;
        /// The surfaces that are told then, by name, besides `surfaces` of the route.
        surfaces ("surfaces"): Vec<Spanned<Name>>, OperatorOnly;
    }
}

section! {
    /// How much one agent may ask, so that it can't bury people in questions. A call beyond that is denied, and people see how many there were.
    pub struct AskingLimits {
        /// The most questions that wait at once, and the most that nobody could be asked about and that can still be allowed.
        open ("open"): Setting<Whole<1, 100_000>> = Whole::clamped(100), OperatorOnly;
        /// The most questions within any 60 seconds.
        per_minute ("per_minute"): Setting<Whole<1, 100_000>> = Whole::clamped(60), OperatorOnly;
    }
}

/// Whom a route asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskWhom {
    /// These people and groups.
    These(Vec<Spanned<Name>>),
    /// Whoever may answer at all.
    Anybody,
    /// Nobody.
    None,
}

/// What can be said of whom a route asks.
const ASKED: &str = "a list of people and groups, `anybody` or `none`";

impl ConfigValue for AskWhom {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        match &node.kind {
            Kind::List(items) if !items.is_empty() => Vec::read(node, cx).map(Self::These),
            Kind::List(_) => cx.expected(node, "a list with somebody in it, `anybody` or `none`"),
            _ => match plain_text(node, cx, ASKED)? {
                "anybody" => Some(Self::Anybody),
                "none" => Some(Self::None),
                _ => cx.expected(node, ASKED),
            },
        }
    }

    fn schema() -> Value {
        json!({ "oneOf": [{ "enum": ["anybody", "none"] }, { "type": "array", "minItems": 1, "items": Name::schema() }] })
    }

    fn show(&self) -> Value {
        match self {
            Self::These(names) => names.iter().map(|name| name.value.show()).collect(),
            Self::Anybody => Value::from("anybody"),
            Self::None => Value::from("none"),
        }
    }
}

impl Person {
    /// Returns how the person is known, with the key that says so.
    fn ways(&self) -> impl Iterator<Item = (&'static str, String, &Place)> {
        let names = [
            ("user", &self.user),
            ("account", &self.account),
            ("slack", &self.slack),
            ("webhook", &self.webhook),
            ("oidc", &self.oidc),
        ];
        let names = names.into_iter().filter_map(|(key, way)| {
            let way = way.as_ref()?;
            Some((key, way.value.as_str().to_owned(), &way.at))
        });
        let number = self.telegram.as_ref().map(|way| ("telegram", way.value.get().to_string(), &way.at));
        names.chain(number)
    }
}

impl ApprovalWhen {
    /// Returns whether it says nothing, so that it is about all questions.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.agent.is_empty()
            && self.tool.is_none()
            && self.rule.is_empty()
            && self.severity.is_none()
            && self.workspace.is_empty()
    }
}

impl ApprovalRoute {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let at = &self.ask.at;
        let is_ones = |decision: &&Spanned<AnswerWord>| match decision.value {
            AnswerWord::AllowAlways | AnswerWord::Edit | AnswerWord::Respond => true,
            AnswerWord::AllowOnce | AnswerWord::Deny => false,
        };
        let ones = self.decisions.iter().find(is_ones);
        let is_substitute = |decision: &&Spanned<AnswerWord>| {
            matches!(decision.value, AnswerWord::Edit | AnswerWord::Respond)
        };
        let allows = self.decisions.iter().any(|decision| decision.value == AnswerWord::AllowOnce);
        let unmet = self.decisions.iter().find(is_substitute).filter(|_| !allows);
        let wrong = if self.ask.value == AskWhom::None {
            let says_more = self.votes.at.is_some()
                || self.barred.at.is_some()
                || self.escalate != Escalate::default()
                || self.surfaces.is_some()
                || !self.decisions.is_empty();
            says_more.then(|| {
                (at, "where nobody may answer, `ask: none` and `when` say all that counts".to_owned())
            })
        } else if let (AskWhom::Anybody, Some(key)) = (&self.ask.value, self.narrows()) {
            Some((
                at,
                format!("where anybody may answer, `{key}` counts for nothing: name those who are asked"),
            ))
        } else if self.escalate.after.is_some() == self.escalate.is_to_nobody() {
            let message = "`escalate` needs `afterMs`, and `to` or `surfaces`: when, and to whom or where";
            Some((at, message.to_owned()))
        } else if let (None, Some(first)) = (&self.surfaces, self.escalate.surfaces.first()) {
            let message = "all surfaces are told from the beginning: `escalate.surfaces` needs `surfaces` beside `ask`, with those that are told first";
            Some((&first.at, message.to_owned()))
        } else if let (2.., Some(ones)) = (self.votes.value.get(), ones) {
            let why = match ones.value {
                AnswerWord::Edit => "what several must allow nobody can change: leave `edit` out",
                AnswerWord::Respond => {
                    "what several must allow nobody can give the result of: leave `respond` out"
                }
                AnswerWord::AllowAlways | AnswerWord::AllowOnce | AnswerWord::Deny => {
                    "what several must allow nobody can allow from now on: leave `allow-always` out"
                }
            };
            Some((&ones.at, why.to_owned()))
        } else if let Some(unmet) = unmet {
            let why =
                "whoever may not allow a call puts nothing in its place: `allow-once` has to be there, too";
            Some((&unmet.at, why.to_owned()))
        } else {
            None
        };
        let Some((at, message)) = wrong else { return Some(()) };
        cx.report(Problem::new(ProblemKind::BadValue, at.clone(), message));
        None
    }

    /// Returns a key that says something about those who are asked, if there is one.
    fn narrows(&self) -> Option<&'static str> {
        let keys = [
            ("votes", self.votes.at.is_some()),
            ("barred", self.barred.at.is_some()),
            ("escalate", self.escalate != Escalate::default()),
            ("surfaces", self.surfaces.is_some()),
        ];
        keys.into_iter().find_map(|(key, is_there)| is_there.then_some(key))
    }

    /// Returns those who are asked, now or later.
    fn names(&self) -> impl Iterator<Item = &Spanned<Name>> {
        let asked = match &self.ask.value {
            AskWhom::These(names) => names.as_slice(),
            AskWhom::Anybody | AskWhom::None => &[],
        };
        asked.iter().chain(&self.escalate.to)
    }

    /// Returns the surfaces that it names, now or later.
    fn told(&self) -> impl Iterator<Item = &Spanned<Name>> {
        let first = self.surfaces.iter().flat_map(|surfaces| &surfaces.value);
        first.chain(&self.escalate.surfaces)
    }
}

impl Escalate {
    const fn is_to_nobody(&self) -> bool {
        self.to.is_empty() && self.surfaces.is_empty()
    }
}

impl Answering {
    /// Checks that each person is known by something, and nobody by what somebody else is known by; that names are those of somebody; and that
    /// each route can be met.
    pub(crate) fn check(&self, has_oidc: bool, cx: &mut Reader<'_>) {
        cx.in_key("people", |cx| self.check_people(cx));
        cx.in_key("people", |cx| self.check_signed_in(has_oidc, cx));
        cx.in_key("surfaces", |cx| self.surfaces.check(cx));
        for (group, members) in self.groups.iter() {
            let name = group.value.as_str();
            if self.people.get(name).is_some() {
                cx.report(problem(&group.at, format!("`{name}` is a person and a group")));
            }
            if members.is_empty() {
                let message = format!("nobody is in the group `{name}`");
                cx.report(Problem::new(ProblemKind::BadValue, group.at.clone(), message));
            }
            let people: Vec<&str> = self.people.iter().map(|(name, _)| name.value.as_str()).collect();
            members.iter().for_each(|member| unknown(member, &people, "people", cx));
        }
        let groups = self.groups.iter().map(|(name, _)| name.value.as_str());
        let known: Vec<&str> =
            self.people.iter().map(|(name, _)| name.value.as_str()).chain(groups).collect();
        let surfaces: Vec<&str> = self.surfaces.told().collect();
        let mut behind: Option<usize> = None;
        for (index, route) in self.routes.iter().enumerate() {
            route.names().for_each(|name| unknown(name, &known, "people and groups", cx));
            route.told().for_each(|name| unknown(name, &surfaces, "surfaces", cx));
            let meant = self.meant_by(route);
            let (needed, at) = (route.votes.value.get(), &route.ask.at);
            if matches!(route.ask.value, AskWhom::These(_)) && meant < needed {
                let message = format!("`votes: {needed}` can't be met: {meant} may answer");
                cx.report(problem(at, message));
            }
            if let Some(before) = behind {
                let message =
                    format!("this route is never reached: `approvals.routes[{before}]` fits all questions");
                cx.report(problem(at, message));
            }
            behind = behind.or_else(|| route.when.is_empty().then_some(index));
        }
    }

    /// Returns how many people may answer, now or later.
    fn meant_by(&self, route: &ApprovalRoute) -> u64 {
        let mut people = std::collections::BTreeSet::new();
        for name in route.names() {
            match self.groups.get(name.value.as_str()) {
                Some(members) => people.extend(members.iter().map(|member| member.value.as_str())),
                None => drop(people.insert(name.value.as_str())),
            }
        }
        u64::try_from(people.len()).unwrap_or(u64::MAX)
    }

    fn check_people(&self, cx: &mut Reader<'_>) {
        let mut known: Vec<(&'static str, String, &str)> = Vec::new();
        for (name, person) in self.people.iter() {
            let name_of = name.value.as_str();
            if person.ways().next().is_none() {
                let message = format!("nothing says how `{name_of}` is known");
                let hint = "add `user`, the user of their access tokens, `account`, their account on this machine, or `telegram`, `slack` or `webhook`";
                cx.report(problem(&name.at, message).with_hint(hint));
            }
            if let Some(slack) = person.slack.as_ref().filter(|slack| !is_member(slack.value.as_str())) {
                let message = "`slack` is the ids of a workspace and a member, as `T0123/U0123`".to_owned();
                cx.report(Problem::new(ProblemKind::BadValue, slack.at.clone(), message));
            }
            for (key, value, at) in person.ways() {
                match known.iter().find(|(other_key, other, _)| (*other_key, other) == (key, &value)) {
                    Some((_, _, other)) => {
                        let message = format!(
                            "`{other}` and `{name_of}` have the same `{key}`: whoever answers could be either"
                        );
                        cx.report(problem(at, message));
                    }
                    None => known.push((key, value, name_of)),
                }
            }
        }
    }
}

impl Answering {
    /// Checks that people who are known to an identity provider can sign in there, and that nobody is two of them: as the user of a token,
    /// and by the same name at the provider. INVARIANT (one human is one vote).
    fn check_signed_in(&self, has_oidc: bool, cx: &mut Reader<'_>) {
        for (name, person) in self.people.iter() {
            let Some(oidc) = &person.oidc else { continue };
            if !has_oidc {
                let message = "`oidc` counts for nothing without `gateway.console.oidc`".to_owned();
                cx.report(problem(&oidc.at, message));
            }
            let is_same =
                |user: &Spanned<Name>| user.value.as_str().eq_ignore_ascii_case(oidc.value.as_str());
            let other = self
                .people
                .iter()
                .find(|(other, one)| other.value != name.value && one.user.as_ref().is_some_and(is_same));
            if let Some((other, _)) = other {
                let (other, name) = (other.value.as_str(), name.value.as_str());
                let message = format!(
                    "what `{name}` is to the identity provider, `{other}` is by token: one human would be two people"
                );
                let hint = "a person has both, `user` and `oidc`";
                cx.report(problem(&oidc.at, message).with_hint(hint));
            }
        }
    }
}

/// Reports a name that is nobody's.
fn unknown(name: &Spanned<Name>, known: &[&str], what: &str, cx: &mut Reader<'_>) {
    let written = name.value.as_str();
    if !known.contains(&written) {
        let message = format!("none of the {what} is called `{written}`");
        let hint = suggestion(written, known, what);
        cx.report(Problem::new(ProblemKind::UnknownName, name.at.clone(), message).with_hint(hint));
    }
}

/// Whether that is a workspace and a member.
fn is_member(text: &str) -> bool {
    let is_id = |id: &str| {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    text.split_once('/').is_some_and(|(team, user)| is_id(team) && is_id(user))
}

fn problem(at: &Place, message: String) -> Problem {
    Problem::new(ProblemKind::Conflict, at.clone(), message)
}
