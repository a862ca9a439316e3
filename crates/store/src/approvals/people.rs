//! The people who answer, and how they are known.
//!
//! A surface on which somebody answers knows a token, an account, or an account of a service. The operator's configuration says which person
//! that is. The law: *who is meant is certain, or nobody is*: what two people are known by makes out neither.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

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
}

/// One way in which a person is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// As this user of tokens.
    User(String),
    /// As this account, by its name or its number in digits.
    Account(String),
}

impl KnownBy {
    fn is(&self, identity: &Identity) -> bool {
        match (self, identity) {
            (Self::User(known), Identity::User(user)) => known == user,
            (Self::Account(known), Identity::Account { uid, name }) => {
                name.as_ref() == Some(known) || *known == uid.to_string()
            }
            (Self::User(_), Identity::Account { .. }) | (Self::Account(_), Identity::User(_)) => false,
        }
    }
}

/// The people whom the operator's configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct People {
    people: Vec<(PersonName, Vec<KnownBy>)>,
}

impl People {
    /// Creates a list of people, each with the ways in which they are known.
    pub fn new(people: impl IntoIterator<Item = (PersonName, Vec<KnownBy>)>) -> Self {
        Self { people: people.into_iter().collect() }
    }

    /// Returns who that is; `None` for a stranger, and where it could be more than one of them.
    pub fn known(&self, identity: &Identity) -> Option<&PersonName> {
        let mut found = self
            .people
            .iter()
            .filter(|(_, ways)| ways.iter().any(|way| way.is(identity)))
            .map(|(name, _)| name);
        found.next().filter(|_| found.next().is_none())
    }

    /// Returns somebody who answers; `by` says for the record who that is and by what means, as the surface has it.
    pub fn answerer(self: &Arc<Self>, identity: &Identity, by: impl Into<String>) -> Answerer {
        let (person, by) = (self.known(identity).cloned(), by.into());
        let by = match &person {
            Some(person) => format!("{person}: {by}"),
            None => by,
        };
        Answerer { by, person }
    }
}

/// Somebody who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answerer {
    pub(crate) by: String,
    pub(crate) person: Option<PersonName>,
}

impl Answerer {
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
        Self { by: by.into(), person: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people() -> Arc<People> {
        let user = |user: &str| KnownBy::User(user.to_owned());
        let account = |account: &str| KnownBy::Account(account.to_owned());
        Arc::new(People::new([
            (PersonName::new("ann"), vec![user("ann@example.com"), account("ann")]),
            (PersonName::new("bob"), vec![user("bob@example.com"), account("1001")]),
            (PersonName::new("one"), vec![user("shared")]),
            (PersonName::new("two"), vec![user("shared"), account("1000")]),
        ]))
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
