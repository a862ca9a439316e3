//! The system scope: program, configuration, database and answers that belong to root and to a user of the service's own,
//! out of reach of agents and of the users who start them.
//!
//! Here is where everything lies. How hooks and service talk is in [`crate::daemon`].

pub(crate) mod doctor;
pub(crate) mod install;
mod places;
mod record;
pub(crate) mod service;
mod units;

use std::path::{Path, PathBuf};

use backstop::clients::install::Machine;
use backstop::config::Loaded;
use backstop::config::account::{Account, by_name, by_uid};

use crate::error::Error;
use crate::session::{OperatorFolders, Surroundings};

/// The folder of the operator's file, which only root writes.
pub(crate) const CONFIGURATION: &str = "/etc/backstop";
/// The service's own folder: a folder per user with the database in it.
pub(crate) const DATA: &str = "/var/lib/backstop";
/// The user that the service runs as.
pub(crate) const USER: &str = "backstop";
/// The program, in a folder of our own: `/opt` is root's everywhere, while `/usr/local` belongs to a group of its own or to a
/// package manager on some systems.
pub(crate) const PROGRAM: &str = "/opt/backstop/bin/backstop";
/// What clients are pointed to.
pub(crate) const SHARE: &str = "/opt/backstop";
/// What an installation wrote, and what was there before.
pub(crate) const RECORD: &str = "/opt/backstop/installed.json";
/// Where hooks of this machine ask.
pub(crate) const SOCKET: &str = places::socket(Machine::this());

/// Where everything of a user's is, in the service whose surroundings these are.
pub(crate) fn folders_of(account: &Account, service: &Surroundings) -> Result<OperatorFolders, Error> {
    let operator = service.operator_folder().ok_or(backstop::NoDataFolder)?;
    Ok(folders_in(account, operator, &service.data_folder()?))
}

fn folders_in(account: &Account, operator: PathBuf, data: &Path) -> OperatorFolders {
    let data = data.join("users").join(account.uid.to_string()).join("backstop");
    OperatorFolders { home: account.home.clone(), operator, data, pinned: false }
}

/// The folders of a user in the system scope of this machine, by the name or number that a person has given.
pub(crate) fn folders_of_named(user: &str) -> Result<OperatorFolders, Error> {
    let account = user.parse().ok().and_then(by_uid).or_else(|| by_name(user));
    let account = account.ok_or_else(|| {
        Error::Usage(format!("`{user}` is no user of this machine\nhint: `--of` takes a name or a number"))
    })?;
    Ok(folders_in(&account, PathBuf::from(CONFIGURATION), Path::new(DATA)))
}

/// Whether a configuration names a database.
pub(crate) fn names_database(loaded: &Loaded) -> bool {
    let store = &loaded.config.store;
    store.path.is_some() || store.postgres.url.is_some()
}

/// Why a service does not judge by a file that names a database.
pub(crate) fn one_database_for_all() -> Error {
    Error::Usage(
        "`store` would be one database for all users, so that one user's grants would count for the others\nhint: take it out of the operator's file; each user has a database below the service's own folder".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_folders_of_their_own_and_one_configuration() {
        let account =
            |uid| Account { uid, gid: uid, name: format!("u{uid}"), home: format!("/home/u{uid}").into() };
        let [ann, bob] = [7, 8].map(|uid| folders_in(&account(uid), CONFIGURATION.into(), Path::new(DATA)));
        assert_eq!(ann.data, Path::new("/var/lib/backstop/users/7/backstop"));
        assert_ne!(ann.data, bob.data);
        assert_eq!(ann.operator, bob.operator);
        assert!(folders_of_named("no-such-user-here").is_err());
        assert_eq!(folders_of_named("0").unwrap().home, folders_of_named("root").unwrap().home);
    }
}
