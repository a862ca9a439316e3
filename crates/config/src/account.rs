//! The account that this process runs as, according to the system's user database and not the environment.
//!
//! Whoever started a program can set `HOME`, and some coding agents let a repository's `.env` file
//! set it. The user database belongs to root. For accounts that only a directory service knows, `getent` is asked, by its
//! absolute path and with an empty environment.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
const GETENT: &str = "/usr/bin/getent";

/// Returns the home directory of the account that this process runs as. `None` for an account that the system does not
/// list, or that has none.
#[must_use]
pub fn home() -> Option<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    by_uid(uid).map(|account| account.home)
}

/// An account in the system's user database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub uid: u32,
    /// The number of its own group.
    pub gid: u32,
    /// Its name.
    pub name: String,
    /// Its home directory.
    pub home: PathBuf,
}

/// Returns the account with that number. `None` for one that the system does not list, or that has no home.
#[must_use]
pub fn by_uid(uid: u32) -> Option<Account> {
    let listed = fs::read_to_string(USERS).unwrap_or_default();
    let is_it = |account: &Account| account.uid == uid;
    find_in(&listed, is_it).or_else(|| find_in(&asked(&uid.to_string())?, is_it))
}

/// Returns the account with that name, like [`by_uid`].
#[must_use]
pub fn by_name(name: &str) -> Option<Account> {
    let listed = fs::read_to_string(USERS).unwrap_or_default();
    let is_it = |account: &Account| account.name == name;
    // A name that begins like an option would be one for the program that is asked.
    let ask = || asked(Some(name).filter(|name| !name.starts_with('-'))?);
    find_in(&listed, is_it).or_else(|| find_in(&ask()?, is_it))
}

fn find_in(users: &str, is_it: impl Fn(&Account) -> bool) -> Option<Account> {
    let read = |entry: &str| {
        let home = field(entry, 5).map(PathBuf::from).filter(|home| home.is_absolute())?;
        let number = |place| field(entry, place)?.parse().ok();
        Some(Account { uid: number(2)?, gid: number(3)?, name: field(entry, 0)?.to_owned(), home })
    };
    users.lines().filter_map(read).find(|account| is_it(account))
}

fn asked(user: &str) -> Option<String> {
    let asked = Command::new(GETENT)
        .args(["passwd", user])
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    String::from_utf8(asked.stdout).ok()
}

fn field(entry: &str, place: usize) -> Option<&str> {
    entry.split(':').nth(place)
}

/// Returns whether nobody but this account is in the group, as where each user has a group of the same name.
pub(crate) fn is_own_group(gid: u32) -> bool {
    let users = fs::read_to_string(USERS).unwrap_or_default();
    let groups = fs::read_to_string(GROUPS).unwrap_or_default();
    is_alone_in(&users, &groups, rustix::process::geteuid().as_raw(), gid)
}

fn is_alone_in(users: &str, groups: &str, uid: u32, gid: u32) -> bool {
    let (uid, gid) = (uid.to_string(), gid.to_string());
    let mut primary = users.lines().filter(|line| field(line, 3) == Some(&gid));
    let Some(name) =
        primary.next().filter(|line| field(line, 2) == Some(&uid)).and_then(|line| field(line, 0))
    else {
        return false;
    };
    let members = groups.lines().find(|line| field(line, 2) == Some(&gid)).and_then(|line| field(line, 3));
    primary.next().is_none()
        && members.is_some_and(|members| members.split(',').all(|member| member.is_empty() || member == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000:Ann,,,:/home/ann:/bin/zsh\n\
                        bob:x:1001:100::/home/bob:/bin/sh\ncarl:x:1002:100::relative:/bin/sh\n";

    #[test]
    fn a_home_is_what_the_list_of_users_says() {
        let home_in = |uid| find_in(LIST, |account| account.uid == uid).map(|account| account.home);
        assert_eq!(home_in(1000), Some(PathBuf::from("/home/ann")));
        assert_eq!(home_in(0), Some(PathBuf::from("/root")));
        assert_eq!(home_in(100), None, "a group is no user");
        assert_eq!(home_in(1002), None, "a home has one place");
        let bob = find_in(LIST, |account| account.name == "bob");
        assert_eq!(bob.map(|bob| (bob.uid, bob.gid)), Some((1001, 100)));
    }

    #[test]
    fn a_group_is_ones_own_when_nobody_else_is_in_it() {
        let groups = "root:x:0:\nann:x:1000:\nusers:x:100:\nwheel:x:10:ann\n";
        assert!(is_alone_in(LIST, groups, 1000, 1000));
        assert!(!is_alone_in(LIST, groups, 1001, 100), "carl is in it, too");
        assert!(!is_alone_in(LIST, groups, 1000, 10), "it is not the account's own");
        assert!(!is_alone_in(LIST, "ann:x:1000:bob\n", 1000, 1000), "bob is a member");
        assert!(!is_alone_in(LIST, "", 1000, 1000), "a group that is not listed may hold anybody");
    }
}
