//! `approvals` as the people who answer.

use std::sync::Arc;

use backstop_config::{Loaded, Name, Person, Spanned};
use backstop_store::{KnownBy, People, PersonName};

/// Returns the people whom the configuration names, who are known by name wherever they answer.
pub fn people(loaded: &Loaded) -> Arc<People> {
    let of = |name: &Spanned<Name>, person: &Person| (PersonName::new(name.value.as_str()), ways(person));
    Arc::new(People::new(loaded.config.approvals.people.iter().map(|(name, person)| of(name, person))))
}

fn ways(person: &Person) -> Vec<KnownBy> {
    let text = |name: &Spanned<Name>| name.value.as_str().to_owned();
    let user = person.user.as_ref().map(|user| KnownBy::User(text(user)));
    let account = person.account.as_ref().map(|account| KnownBy::Account(text(account)));
    user.into_iter().chain(account).collect()
}
