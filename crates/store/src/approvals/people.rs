//! The people who answer, and how they are known.
//!
//! A surface on which somebody answers knows a token, an account, or an account of a service. The operator's configuration says which person
//! that is. The law: *who is meant is certain, or nobody is*: what two people are known by makes out neither.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{AccessTokenId, Timestamp};

/// The name of a person in the operator's configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersonName(String);

impl PersonName {
    /// Creates a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PersonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a surface knows of whoever answers there, as far as it is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The user whom an access token names, or a signed token of a trusted issuer.
    User(String),
    /// An account on this machine: whose process it is.
    Account {
        /// Its number.
        uid: u32,
        /// Its name, if the system lists it.
        name: Option<String>,
    },
    /// An account at Telegram, which says who sent what.
    Telegram(i64),
    /// A member of a workspace at Slack, which says who sent what.
    Slack {
        /// The id of the workspace.
        team: String,
        /// The id of the member.
        user: String,
    },
    /// Somebody for whom a webhook of the operator's vouches, by this name.
    Vouched(String),
    /// Somebody who signed in at an identity provider.
    SignedIn {
        /// Its name, as `iss` has it.
        issuer: String,
        /// Who that is there.
        name: String,
    },
}

/// One way in which a person is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// As this user of tokens.
    User(String),
    /// As this account, by its name or its number in digits.
    Account(String),
    /// As this account at Telegram, by number.
    Telegram(i64),
    /// As this member at Slack, as `<workspace>/<member>`.
    Slack(String),
    /// By this name, for which webhooks vouch.
    Webhook(String),
    /// By this name at this identity provider. Of tokens and of other providers, the same name is somebody else.
    SignedIn {
        /// Its name, as `iss` has it.
        issuer: String,
        /// Who that is there.
        name: String,
    },
}

impl KnownBy {
    fn is(&self, identity: &Identity) -> bool {
        match (self, identity) {
            (Self::User(known), Identity::User(user)) => known == user,
            (Self::Account(known), Identity::Account { uid, name }) => {
                name.as_ref() == Some(known) || *known == uid.to_string()
            }
            (Self::Telegram(known), Identity::Telegram(account)) => known == account,
            (Self::Slack(known), Identity::Slack { team, user }) => {
                known.split_once('/') == Some((team.as_str(), user.as_str()))
            }
            (Self::Webhook(known), Identity::Vouched(name)) => known == name,
            (Self::SignedIn { issuer: known_issuer, name: known }, Identity::SignedIn { issuer, name }) => {
                known_issuer == issuer && known == name
            }
            (
                Self::User(_)
                | Self::Account(_)
                | Self::Telegram(_)
                | Self::Slack(_)
                | Self::Webhook(_)
                | Self::SignedIn { .. },
                _,
            ) => false,
        }
    }
}

/// The people whom the operator's configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct People {
    people: Vec<(PersonName, Vec<KnownBy>)>,
    groups: Vec<(String, Vec<PersonName>)>,
}

impl People {
    /// Creates a list of people, each with the ways in which they are known.
    pub fn new(people: impl IntoIterator<Item = (PersonName, Vec<KnownBy>)>) -> Self {
        Self { people: people.into_iter().collect(), groups: Vec::new() }
    }

    /// Adds groups, each with the people in it.
    #[must_use]
    pub fn with_groups(mut self, groups: impl IntoIterator<Item = (String, Vec<PersonName>)>) -> Self {
        self.groups.extend(groups);
        self
    }

    /// Returns the people whom names of people and groups mean. A name that means nobody adds nobody.
    pub fn meant_by(&self, names: &[String]) -> BTreeSet<PersonName> {
        let is_known = |name: &PersonName| self.people.iter().any(|(known, _)| known == name);
        let of_groups =
            self.groups.iter().filter(|(group, _)| names.contains(group)).flat_map(|(_, people)| people);
        let by_name = self
            .people
            .iter()
            .map(|(name, _)| name)
            .filter(|name| names.iter().any(|one| one == name.as_str()));
        of_groups.chain(by_name).filter(|name| is_known(name)).cloned().collect()
    }

    /// Returns who that is; `None` for a stranger, and where it could be more than one of them.
    pub fn known(&self, identity: &Identity) -> Option<&PersonName> {
        let mut found = self.could_be(identity);
        found.next().filter(|_| found.next().is_none())
    }

    /// Returns everybody who that could be.
    pub fn could_be(&self, identity: &Identity) -> impl Iterator<Item = &PersonName> {
        let is_known = |ways: &[KnownBy]| ways.iter().any(|way| way.is(identity));
        self.people.iter().filter(move |(_, ways)| is_known(ways)).map(|(name, _)| name)
    }

    /// Returns somebody who answers; `by` says for the record who that is and by what means, as the surface has it.
    pub fn answerer(self: &Arc<Self>, identity: &Identity, by: impl Into<String>) -> Answerer {
        let (person, by) = (self.known(identity).cloned(), by.into());
        let by = match &person {
            Some(person) => format!("{person}: {by}"),
            None => by,
        };
        Answerer { by, person, people: Some(Arc::clone(self)), token: None, ends_at: None, voucher: None }
    }
}

/// Somebody who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answerer {
    pub(crate) by: String,
    pub(crate) person: Option<PersonName>,
    /// Everybody, as whoever lets them answer knows them.
    pub(crate) people: Option<Arc<People>>,
    /// The access token by which they are known.
    pub(crate) token: Option<AccessTokenId>,
    /// The first moment at which that no longer counts, once the store has looked.
    pub(crate) ends_at: Option<Timestamp>,
    /// The service that says who they are, where nothing else proves it.
    pub(crate) voucher: Option<String>,
}

impl Answerer {
    /// Says that this service vouches for who they are and nothing else proves it. It could say so of anybody, so that it gives one vote about a
    /// question, and none where the person who asked for the call may not answer.
    #[must_use]
    pub fn vouched_for_by(self, service: impl Into<String>) -> Self {
        Self { voucher: Some(service.into()), ..self }
    }

    /// Says that they are known by this access token: what they answer where it is said who may answer counts as long as it does.
    #[must_use]
    pub fn with_token(self, token: AccessTokenId) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Returns whether what they are known by counts at `now`.
    pub(crate) fn is_vouched_for(&self, now: Timestamp) -> bool {
        self.token.is_none() || self.ends_at.is_some_and(|ends_at| now < ends_at)
    }

    /// Returns which person of the configuration that is, if it is one.
    pub fn person(&self) -> Option<&PersonName> {
        self.person.as_ref()
    }

    /// Returns who it is and by what means, for the record.
    pub fn by(&self) -> &str {
        &self.by
    }
}

/// Somebody of whom nothing is known but what the record says of them.
impl<T: Into<String>> From<T> for Answerer {
    fn from(by: T) -> Self {
        Self { by: by.into(), person: None, people: None, token: None, ends_at: None, voucher: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people() -> Arc<People> {
        let user = |user: &str| KnownBy::User(user.to_owned());
        let account = |account: &str| KnownBy::Account(account.to_owned());
        Arc::new(People::new([
            (PersonName::new("ann"), vec![user("ann@example.com"), account("ann"), KnownBy::Telegram(42)]),
            (
                PersonName::new("bob"),
                vec![
                    user("bob@example.com"),
                    account("1001"),
                    KnownBy::Slack("T1/U1".to_owned()),
                    KnownBy::Webhook("robert".to_owned()),
                    KnownBy::SignedIn { issuer: "https://login".to_owned(), name: "rob".to_owned() },
                ],
            ),
            (PersonName::new("one"), vec![user("shared")]),
            (PersonName::new("two"), vec![user("shared"), account("1000")]),
        ]))
    }

    fn slack(team: &str, user: &str) -> Identity {
        Identity::Slack { team: team.to_owned(), user: user.to_owned() }
    }

    fn signed_in(issuer: &str, name: &str) -> Identity {
        Identity::SignedIn { issuer: issuer.to_owned(), name: name.to_owned() }
    }

    fn account(uid: u32, name: Option<&str>) -> Identity {
        Identity::Account { uid, name: name.map(str::to_owned) }
    }

    #[test]
    fn a_person_is_known_by_what_is_theirs_alone() {
        let people = people();
        let user = |user: &str| Identity::User(user.to_owned());
        for (identity, person) in [
            (user("ann@example.com"), Some("ann")),
            (user("ANN@example.com"), None),
            (user("ann"), None),
            (user("shared"), None),
            (user(""), None),
            (account(7, Some("ann")), Some("ann")),
            (account(1001, None), Some("bob")),
            (account(1001, Some("bob")), Some("bob")),
            (account(1000, Some("ann")), None),
            (account(7, None), None),
            (Identity::Telegram(42), Some("ann")),
            (Identity::Telegram(43), None),
            (slack("T1", "U1"), Some("bob")),
            (slack("T2", "U1"), None),
            (slack("T1/U1", ""), None),
            (slack("", "T1/U1"), None),
            (Identity::Vouched("bob".to_owned()), None),
            (Identity::Vouched("robert".to_owned()), Some("bob")),
            (user("robert"), None),
            (signed_in("https://login", "rob"), Some("bob")),
            (signed_in("https://login/", "rob"), None),
            (signed_in("https://other", "rob"), None),
            (signed_in("https://login", "ann@example.com"), None),
            (signed_in("https://login", "bob@example.com"), None),
            (user("rob"), None),
            (Identity::Vouched("rob".to_owned()), None),
        ] {
            assert_eq!(people.known(&identity).map(PersonName::as_str), person, "{identity:?}");
        }
    }

    #[test]
    fn the_record_names_the_person_and_the_means() {
        let people = people();
        let ann =
            people.answerer(&Identity::User("ann@example.com".to_owned()), "ann@example.com, by the API");
        assert_eq!(
            (ann.by(), ann.person().map(PersonName::as_str)),
            ("ann: ann@example.com, by the API", Some("ann"))
        );
        let stranger = people.answerer(&Identity::User("eve".to_owned()), "eve, by the API");
        assert_eq!((stranger.by(), stranger.person()), ("eve, by the API", None));
    }
}
