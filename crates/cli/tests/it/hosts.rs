//! `sandbox.hosts` and `sandbox.sockets`: what a confined program reaches, by real servers on the loopback and real programs that
//! try to get at them.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Stdio};

use super::support::{BACKSTOP, Done, ModelServer, User, done};

/// A server on the loopback that answers every request with its word, for as long as the test runs.
fn server(word: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut head = [0; 4096];
            let _ = connection.read(&mut head);
            let length = word.len();
            let _ = write!(
                connection,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{word}"
            );
        }
    });
    port
}

/// Runs a script under `backstop run`, without a model.
fn run(user: &User, script: &str) -> Done {
    user.run(&["run", "--", "sh", "-c", script])
}

/// Runs a command of the user's behind `unshare` and a shell, which becomes it.
fn elsewhere(user: &User, before: &[&str], command: &Command) -> Done {
    let mut outer = Command::new("unshare");
    outer.args(before).arg(BACKSTOP).args(command.get_args()).current_dir(user.work()).env_clear();
    for (name, value) in command.get_envs() {
        outer.env(name, value.unwrap());
    }
    outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    done(outer.spawn().unwrap())
}

const CURL: &str = "curl -s -m 10";

#[test]
fn only_the_listed_ports_of_this_machine_are_there_inside() {
    let (listed, other) = (server("listed"), server("other"));
    let user = User::with_config(&format!("sandbox: {{hosts: [\"localhost:{listed}\"]}}"));
    let script = format!(
        "{CURL} http://127.0.0.1:{listed}/; {CURL} http://127.0.0.1:{other}/ || echo refused; \
         {CURL} --noproxy '' -p -x $HTTPS_PROXY http://127.0.0.1:{listed}/; \
         {CURL} --noproxy '' -p -x $HTTPS_PROXY http://127.0.0.1:{other}/ || echo no tunnel; \
         {CURL} --noproxy '' -x $HTTP_PROXY http://127.0.0.1:{other}/; \
         {CURL} --noproxy '' -x $HTTP_PROXY http://127.0.0.1:{listed}/"
    );
    let done = run(&user, &script);
    assert!(!done.out.contains("other\n") && !done.out.contains("otherno"), "{}", done.whole());
    let expected = format!(
        "listedrefused\nlistedno tunnel\nbackstop: `127.0.0.1:{other}` is not among the hosts that programs may reach here \
         (`sandbox.hosts`, which is the operator's)\nlisted"
    );
    assert_eq!(done.out, expected, "{}", done.whole());
    assert!(done.err.contains(&format!("does not name: 127.0.0.1:{other} (2)")), "{}", done.whole());
}

/// Ways out that ask no proxy.
const WAYS: [&str; 5] = [
    "import socket; socket.create_connection(('127.0.0.1', PORT), 5); print('reached')",
    "import socket; s = socket.socket(socket.AF_INET6); s.settimeout(5); s.connect(('::ffff:127.0.0.1', PORT)); print('reached')",
    "import socket; socket.create_connection(('192.0.2.1', 80), 5); print('reached')",
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('192.0.2.1', 53)); print('reached')",
    "import os, subprocess; print(subprocess.run(['nsenter', '-t', '1', '-n', 'true']).returncode == 0 and 'reached')",
];

#[test]
fn what_asks_no_proxy_reaches_nothing() {
    let port = server("other");
    let user = User::with_config("sandbox: {hosts: []}");
    for way in WAYS {
        let script = way.replace("PORT", &port.to_string());
        let done = user.run(&["run", "--", "python3", "-c", &script]);
        assert!(!done.out.contains("reached"), "{way}: {}", done.whole());
    }
    // A program's own servers work, and so does the same way without the key.
    let own = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5); print('reached')";
    assert!(user.run(&["run", "--", "python3", "-c", own]).out.contains("reached"));
    let open = User::with_config("{}");
    let way = WAYS[0].replace("PORT", &port.to_string());
    let done = open.run(&["run", "--", "python3", "-c", &way]);
    assert!(done.out.contains("reached"), "{}", done.whole());
}

#[test]
fn the_proxy_of_the_run_is_there_in_a_network_of_its_own() {
    let user = User::with_config("sandbox: {hosts: []}");
    let script = format!("{CURL} -o /dev/null -w '%{{http_code}}' $BACKSTOP_GATEWAY_URL/v1/unheard-of");
    let done = run(&user, &script);
    let code: u16 = done.out.trim().parse().unwrap_or_else(|error| panic!("{error}: {}", done.whole()));
    assert!((400..600).contains(&code), "{}", done.whole());
}

#[test]
fn what_the_agent_starts_reaches_listed_hosts_only() {
    let (listed, other) = (server("listed"), server("other"));
    let user = User::new();
    let command =
        format!("{CURL} http://127.0.0.1:{listed}/ > a; {CURL} http://127.0.0.1:{other}/ > b; true");
    let call = serde_json::json!({"text": "I look.", "tool_calls": [{"name": "exec", "arguments": {"command": command}}]});
    let model = ModelServer::start(&user, &format!("{call}\n{{\"text\": \"I looked.\"}}"));
    let more = format!(
        "guards: {{command_safety: {{enabled: false}}, sensitive_files: {{enabled: false}}}}\nsandbox: {{hosts: [\"127.0.0.1:{listed}\"]}}\n"
    );
    user.configure(&model.config(&more));
    let done = user.run(&["agent", "-m", "go"]).succeeded();
    let read = |name: &str| {
        std::fs::read_to_string(user.work().join(name))
            .unwrap_or_else(|error| panic!("{error}: {}", done.whole()))
    };
    assert_eq!((read("a").as_str(), read("b").as_str()), ("listed", ""), "{}", done.whole());
}

const CONNECT: &str = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1].replace('@', '\\0')); print('connected')";

#[test]
fn only_named_sockets_of_other_programs_can_be_connected_to() {
    let user = User::new();
    let folder = user.path().join("services");
    std::fs::create_dir(&folder).unwrap();
    let [bus, wanted] = ["bus", "wanted"].map(|name| folder.join(name));
    let name = format!("backstop-test-{}", std::process::id());
    let _listening = (
        UnixListener::bind(&bus).unwrap(),
        UnixListener::bind(&wanted).unwrap(),
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
    );
    let reaches = |socket: &str| {
        let done = user.run(&["run", "--hooks-only", "--", "python3", "-c", CONNECT, socket]);
        done.out.contains("connected")
    };
    let (bus, wanted, abstract_one) = (bus.to_str().unwrap(), wanted.to_str().unwrap(), format!("@{name}"));
    user.configure("{}");
    assert!(reaches(bus) && reaches(wanted) && reaches(&abstract_one), "they are there");
    let list = format!("sockets: [\"{wanted}\"]");
    for sandbox in [list.clone(), format!("{list}, hosts: []")] {
        user.configure(&format!("sandbox: {{{sandbox}}}"));
        assert!(!reaches(bus) && !reaches(&abstract_one), "{sandbox}");
        assert!(reaches(wanted), "{sandbox}");
    }
    // What a program makes itself it may use.
    let own = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('own'); s.listen(); socket.socket(socket.AF_UNIX).connect('own'); print('connected')";
    let done = user.run(&["run", "--hooks-only", "--", "python3", "-c", own]);
    assert!(done.out.contains("connected"), "{}", done.whole());
}

/// A name server that says what it likes, as the system asks it.
#[test]
fn a_listed_name_does_not_lead_to_this_machine_unless_that_is_listed_too() {
    let port = server("mine");
    let user = User::new();
    let names = user.path().join("names");
    std::fs::write(&names, "127.0.0.1 rebound.example.com\n").unwrap();
    let named = format!("rebound.example.com:{port}");
    let script =
        format!("{CURL} -p -x $HTTPS_PROXY http://{named}/ || echo no tunnel; {CURL} http://{named}/");
    for (list, expected) in [
        (format!("\"{named}\""), format!("no tunnel\nbackstop: `{named}` is not among")),
        (format!("\"{named}\", \"127.0.0.1:{port}\""), "minemine".to_owned()),
    ] {
        user.configure(&format!("sandbox: {{hosts: [{list}]}}"));
        let run = user.command(&["run", "--", "sh", "-c", &script]);
        let with_names = format!("mount --bind '{}' /etc/hosts && exec \"$0\" \"$@\"", names.display());
        let done = elsewhere(&user, &["--user", "--map-root-user", "--mount", "sh", "-c", &with_names], &run);
        assert!(done.out.starts_with(&expected), "{list}: {}", done.whole());
    }
}

/// As on a machine that has no user namespaces, for somebody who has no rights.
const WITHOUT_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_user_namespaces && \
                                  exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \"$0\" \"$@\"";

#[test]
fn a_list_that_can_not_be_held_starts_nothing() {
    for (sandbox, key) in [("hosts: []", "sandbox.hosts"), ("sockets: []", "sandbox.sockets"), ("", "")] {
        let user = User::with_config(&format!("sandbox: {{{sandbox}}}"));
        let plain = user.command(&["run", "--", "echo", "started"]);
        let done = elsewhere(&user, &["--user", "--map-root-user", "sh", "-c", WITHOUT_NAMESPACES], &plain);
        assert_eq!(done.out.contains("started"), key.is_empty(), "{sandbox}: {}", done.whole());
        if !key.is_empty() {
            assert!(done.err.contains(key), "{}", done.whole());
            assert_eq!(done.code, Some(1), "{}", done.whole());
        }
        let doctor = user.command(&["doctor", "claude"]);
        let said =
            elsewhere(&user, &["--user", "--map-root-user", "sh", "-c", WITHOUT_NAMESPACES], &doctor).whole();
        assert_eq!(said.contains("would start nothing here"), !key.is_empty(), "{sandbox}: {said}");
    }
}
