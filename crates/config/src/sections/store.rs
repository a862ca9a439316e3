//! `store`: where state is kept. Only the operator can set it: whoever could would say whose answers and grants count.

use super::surfaces::not_once;
use crate::config_value::section;
use crate::place::{Place, Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::{Secret, SecretFile, Text};
use crate::values::{Name, Whole};

section! {
    /// Where sessions, approvals and receipts are kept.
    pub struct Store {
        /// The database file. Without it, a file in the user's data folder. The audit trail and its key lie beside it, also where the state is on a server.
        path ("path"): Option<Spanned<Text>>, OperatorOnly;
        /// A PostgreSQL server that keeps the state in place of the file.
        postgres ("postgres"): StorePostgres, OperatorOnly;
    }
}

section! {
    /// A PostgreSQL server that several machines share. Without a `url`, there is none.
    pub struct StorePostgres {
        /// Where it is and as whom: `postgres://user@host:port/database`, without a password and without variables. Connections are encrypted and the server
        /// proves its name, but at a Unix socket (`postgres:///database?host=FOLDER&user=NAME`).
        url ("url"): Option<Spanned<Text>>, OperatorOnly;
        /// The password, usually `${VAR}`.
        password ("password"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `password`. Nobody but its owner may read it. Its path takes no variables.
        password_file ("password_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// A PEM file with the only authorities that are trusted to say which server it is. Its path takes no variables. Without it, the system's, and
        /// hooks that judge alone judge nothing: variables of their environment would choose them.
        ca_file ("ca_file"): Option<Spanned<Text>>, OperatorOnly;
        /// The schema that the tables are in. Without it, `backstop`.
        schema ("schema"): Option<Spanned<Name>>, OperatorOnly;
        /// How many connections each process has, besides one that listens for answers.
        connections ("connections"): Setting<Whole<1, 64>> = Whole::clamped(4), OperatorOnly;
    }
}

impl Store {
    /// Checks what looks at several keys together.
    pub(super) fn check(&self, cx: &mut Reader<'_>) {
        let server = &self.postgres;
        let problem = match &server.url {
            Some(url) => server.unfit(url),
            None => server.first_key().map(|at| {
                let message = "`store.postgres` has no `url`, so nothing would be kept there".to_owned();
                bad(at, message)
                    .with_hint("add `url: postgres://user@host/database`, or leave `postgres` out")
            }),
        };
        if let Some(problem) = problem {
            cx.report(problem);
        }
    }
}

impl StorePostgres {
    /// Where one of its keys stands.
    fn first_key(&self) -> Option<&Place> {
        let keys = [
            self.password.as_ref().map(|key| &key.at),
            self.password_file.as_ref().map(|key| &key.at),
            self.ca_file.as_ref().map(|key| &key.at),
            self.schema.as_ref().map(|key| &key.at),
            self.connections.at.as_ref(),
        ];
        keys.into_iter().flatten().next()
    }

    /// What can't be so, as far as the text says it. The store reads the address.
    fn unfit(&self, url: &Spanned<Text>) -> Option<Problem> {
        let at = &url.at;
        let authorities = self.ca_file.as_ref().map(|file| (&file.at, file.value.variables()));
        let password = self.password_file.as_ref().map(|file| (&file.at, file.value.variables()));
        let texts = [
            ("url", "address", Some((at, url.value.variables()))),
            ("ca_file", "path", authorities),
            ("password_file", "path", password),
        ];
        for (key, what, text) in texts {
            let Some((at, name)) = text.and_then(|(at, names)| Some((at, names.first()?))) else { continue };
            // The environment of a hook is an agent's, which would choose who says what was answered.
            let message = format!("`{key}` takes no variables, and names `{name}`");
            let hint = format!("write the {what} out; `password` takes a variable");
            return Some(bad(at, message).with_hint(hint));
        }
        let written = url.value.expose();
        let Some(rest) =
            ["postgres://", "postgresql://"].iter().find_map(|scheme| written.strip_prefix(scheme))
        else {
            let message = "`url` is no address of a PostgreSQL database".to_owned();
            return Some(bad(at, message).with_hint("for example `postgres://backstop@db.example/backstop`"));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
            let message = "`url` must not hold a password: it is shown".to_owned();
            return Some(bad(at, message).with_hint("put it into `password_file`, or into `password`"));
        }
        not_once([("password", &self.password, "password_file", &self.password_file)], at, false)
    }
}

fn bad(at: &Place, message: String) -> Problem {
    Problem::new(ProblemKind::BadValue, at.clone(), message)
}
