//! `approvals`: who may answer the questions that hooks ask. Only the operator can set it: a repository that could would name those who
//! let its agent go on.

use crate::config_value::{Entries, item, section};
use crate::place::{Place, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::values::Name;

section! {
    /// Who may answer the questions that hooks ask.
    pub struct Answering {
        /// The people who answer, by the names that the trail and the console have for them.
        people ("people"): Entries<Name, Person>, OperatorOnly;
    }
}

item! {
    /// How a person is known who answers. At least one way must be there, and no two people have the same.
    pub struct Person {
        /// The user whom the access tokens of this person name (`backstop tokens create --user`), and whom a signed token names that an
        /// issuer vouches for.
        user ("user"): Option<Spanned<Name>>, OperatorOnly;
        /// The account of this person on the machine, by name, or by number where it has none. Whoever answers in a terminal of that
        /// account is this person. Leave it out where agents run under the same account and what they do must not count as an answer.
        account ("account"): Option<Spanned<Name>>, OperatorOnly;
    }
}

impl Person {
    /// Returns how the person is known, with the key that says so.
    fn ways(&self) -> impl Iterator<Item = (&'static str, &Spanned<Name>)> {
        let ways = [("user", &self.user), ("account", &self.account)];
        ways.into_iter().filter_map(|(key, way)| Some((key, way.as_ref()?)))
    }
}

impl Answering {
    /// Checks that each person is known by something, and nobody by what somebody else is known by.
    pub(crate) fn check(&self, cx: &mut Reader<'_>) {
        cx.in_key("people", |cx| {
            let mut known: Vec<(&'static str, &str, &str)> = Vec::new();
            for (name, person) in self.people.iter() {
                let name_of = name.value.as_str();
                if person.ways().next().is_none() {
                    let message = format!("nothing says how `{name_of}` is known");
                    let hint = "add `user`, the user of their access tokens, or `account`, their account on this machine";
                    cx.report(problem(&name.at, message).with_hint(hint));
                }
                for (key, way) in person.ways() {
                    let value = way.value.as_str();
                    match known.iter().find(|(other_key, other, _)| (*other_key, *other) == (key, value)) {
                        Some((_, _, other)) => {
                            let message = format!("`{other}` and `{name_of}` have the same `{key}`: whoever answers could be either");
                            cx.report(problem(&way.at, message));
                        }
                        None => known.push((key, value, name_of)),
                    }
                }
            }
        });
    }
}

fn problem(at: &Place, message: String) -> Problem {
    Problem::new(ProblemKind::Conflict, at.clone(), message)
}
