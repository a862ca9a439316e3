//! Who answers, for the record: the user of the operating system, the terminal, and by what.
//!
//! The user is the one whose process answers, whatever the environment calls them.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use backstop::config::account::by_uid;
use backstop::store::Identity;
use rustix::process::getuid;

/// Who answers by `means`, such as `the command line`.
pub(crate) fn who(means: &str) -> String {
    let uid = getuid().as_raw();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = user_of(&passwd, uid).unwrap_or("user");
    match terminal() {
        Some(terminal) => format!("{user} (uid {uid}) at {}, by {means}", terminal.display()),
        None => format!("{user} (uid {uid}) without a terminal, by {means}"),
    }
}

/// The account of that number, by which a person may be known.
pub(crate) fn account(uid: u32) -> Identity {
    Identity::Account { uid, name: by_uid(uid).map(|account| account.name) }
}

/// The name of a user in the list of them.
fn user_of(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid) && !name.is_empty()).then_some(name)
    })
}

/// The terminal that stdin is, or else stderr.
fn terminal() -> Option<PathBuf> {
    let of = |number: u8| std::fs::read_link(format!("/proc/self/fd/{number}")).ok();
    if std::io::stdin().is_terminal() {
        return of(0);
    }
    std::io::stderr().is_terminal().then(|| of(2)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_as_the_system_names_them() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbroken\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(user_of(passwd, 1000), Some("ann"));
        assert_eq!(user_of(passwd, 7), None);
        let said = who("a test");
        assert!(
            said.contains(&format!("(uid {})", getuid().as_raw())) && said.ends_with(", by a test"),
            "{said}"
        );
    }
}
