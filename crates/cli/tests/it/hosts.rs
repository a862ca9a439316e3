//! `sandbox.hosts` and `sandbox.sockets`: what a confined program reaches, by real servers on the loopback and real programs that
//! try to get at them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
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
    // Its own socket goes with its one program.
    assert!(!done.err.contains("replaced"), "{}", done.whole());
}

/// Ways out that ask no proxy, to the servers of the test and into its network.
const WAYS: [&str; 5] = [
    "import socket; socket.create_connection(('127.0.0.1', PORT), 5); print('reached')",
    "import socket; s = socket.socket(socket.AF_INET6); s.settimeout(5); s.connect(('::ffff:127.0.0.1', PORT)); print('reached')",
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.sendto(b'x', ('127.0.0.1', DATAGRAMS)); print(s.recv(9) and 'reached')",
    "print(':%04X ' % PORT in open('/proc/self/net/tcp').read() and 'reached')",
    NSENTER,
];

/// Root's alone.
const NSENTER: &str = "import subprocess; print(subprocess.run(['nsenter', '-t', 'PROCESS', '-n', 'true']).returncode == 0 and 'reached')";

/// A server on the loopback that answers every datagram, for as long as the test runs.
fn datagram_server() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut datagram = [0; 64];
        while let Ok((_, sender)) = socket.recv_from(&mut datagram) {
            let _ = socket.send_to(b"heard", sender);
        }
    });
    port
}

#[test]
fn what_asks_no_proxy_reaches_nothing() {
    let (port, datagrams) = (server("other").to_string(), datagram_server().to_string());
    let process = std::process::id().to_string();
    let user = User::with_config("sandbox: {hosts: []}");
    for way in WAYS {
        let script = way.replace("PORT", &port).replace("DATAGRAMS", &datagrams).replace("PROCESS", &process);
        let done = user.run(&["run", "--", "python3", "-c", &script]);
        assert!(!done.out.contains("reached"), "{way}: {}", done.whole());
        // Each is a way where nothing is limited.
        let done = user.run(&["run", "--no-sandbox", "--", "python3", "-c", &script]);
        let is_way = way != NSENTER || rustix::process::geteuid().is_root();
        assert_eq!(done.out.contains("reached"), is_way, "{way}: {}", done.whole());
    }
    // A program's own servers work.
    let own = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5); print('reached')";
    assert!(user.run(&["run", "--", "python3", "-c", own]).out.contains("reached"));
}

/// More connections than the process outside can have files open, and then one more.
const TOO_MANY: &str = "
import os, resource, socket, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
proxy = ('127.0.0.1', int(os.environ['HTTPS_PROXY'].rsplit(':', 1)[1]))
many = [socket.create_connection(proxy, 10) for _ in range(200)]
time.sleep(0.5)
for one in many: one.close()
one = socket.create_connection(proxy, 20)
one.sendall(b'nonsense\\r\\n\\r\\n')
print(one.recv(12).decode())
";

#[test]
fn what_can_not_be_accepted_for_a_while_does_not_end_the_way_out() {
    let user = User::with_config("sandbox: {hosts: []}");
    let run = user.command(&["run", "--", "python3", "-c", TOO_MANY]);
    let done = elsewhere(&user, &["sh", "-c", "ulimit -Sn 128 && exec \"$0\" \"$@\""], &run);
    assert_eq!(done.out, "HTTP/1.1 400\n", "{}", done.whole());
}

/// Tries to hand over listeners in place of the tree's, at each socket that takes such.
fn stranger(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "python3 -c \"
import glob, socket
for path in glob.glob('{folder}/backstop-run-*/outlet.sock'):
    try: socket.socket(socket.AF_UNIX).connect(path)
    except OSError: continue
    print('reached')
print('looked')
\""
    )
}

#[test]
fn who_is_inside_hands_over_no_listeners() {
    let user = User::new();
    let folder = user.path().join("temporary");
    std::fs::create_dir(&folder).unwrap();
    let script = stranger(&folder);
    user.configure("sandbox: {hosts: []}");
    let mut run = user.command(&["run", "--", "sh", "-c", &script]);
    let done = done(
        run.env("TMPDIR", &folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    assert_eq!(done.out, "looked\n", "{}", done.whole());
    let done = exec(
        &user,
        &format!("{script} > said; ls {}/backstop-run-*/ > there", folder.display()),
        "hosts: []",
        |command| {
            command.env("TMPDIR", &folder);
        },
    );
    let read = |name: &str| std::fs::read_to_string(user.work().join(name)).unwrap_or_default();
    assert!(read("there").contains("outlet.sock"), "{}", done.whole());
    assert_eq!(read("said"), "looked\n", "{}", done.whole());
}

/// Has the agent run a command.
fn exec(user: &User, command: &str, sandbox: &str, change: impl FnOnce(&mut Command)) -> Done {
    let call = serde_json::json!({"text": "I look.", "tool_calls": [{"name": "exec", "arguments": {"command": command}}]});
    let model = ModelServer::start(user, &format!("{call}\n{{\"text\": \"I looked.\"}}"));
    let more = format!(
        "guards: {{command_safety: {{enabled: false}}, sensitive_files: {{enabled: false}}}}\nsandbox: {{{sandbox}}}\n"
    );
    user.configure(&model.config(&more));
    let mut agent = user.command(&["agent", "-m", "go"]);
    change(&mut agent);
    agent.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    done(agent.spawn().unwrap()).succeeded()
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
    let command = format!(
        "{CURL} http://127.0.0.1:{listed}/ > a; {CURL} http://127.0.0.1:{other}/ > b; \
         {CURL} --noproxy '' -x $HTTP_PROXY http://127.0.0.1:{other}/ > c; true"
    );
    let done = exec(&user, &command, &format!("hosts: [\"127.0.0.1:{listed}\"]"), |_| ());
    let read = |name: &str| {
        std::fs::read_to_string(user.work().join(name))
            .unwrap_or_else(|error| panic!("{error}: {}", done.whole()))
    };
    assert_eq!((read("a").as_str(), read("b").as_str()), ("listed", ""), "{}", done.whole());
    assert!(read("c").contains("is not among the hosts"), "{}", done.whole());
    assert!(done.err.contains(&format!("does not name: 127.0.0.1:{other} (1)")), "{}", done.whole());
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

/// Binds under a relative name, and under one that it then takes away.
const BIND: &str = "
import os, socket, sys
socket.socket(socket.AF_UNIX).close()
own, master = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
own.bind('own')
master.bind(os.path.join(sys.argv[1], 'master.x7'))
os.link(os.path.join(sys.argv[1], 'master.x7'), os.path.join(sys.argv[1], 'master'))
os.unlink(os.path.join(sys.argv[1], 'master.x7'))
own.listen(); master.listen()
print('ready', flush=True)
sys.stdin.read()
";

#[test]
fn sockets_of_other_names_than_they_were_bound_by_are_closed_and_their_folders_stay() {
    let user = User::new();
    let folder = user.path().join("services");
    let elsewhere = user.path().join("elsewhere");
    for folder in [&folder, &elsewhere] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
    }
    let mut service = Command::new("python3");
    service.args(["-c", BIND]).arg(&folder).current_dir(&elsewhere);
    let mut service = service.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It ends where it can't say the whole line.
    let mut said = BufReader::new(service.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let sockets = [folder.join("master"), elsewhere.join("own")];
    for (sandbox, expected) in [("{}", true), ("{sockets: []}", false)] {
        user.configure(&format!("sandbox: {sandbox}"));
        for socket in &sockets {
            let socket = socket.to_str().unwrap();
            let done = user.run(&["run", "--hooks-only", "--", "python3", "-c", CONNECT, socket]);
            let is_reached = done.out.contains("connected");
            assert_eq!(is_reached, expected, "{sandbox}, {socket}: {}", done.whole());
        }
    }
    // The next run would look for them where they are no longer.
    let moved = format!("mv '{}' '{}' && echo moved", folder.display(), user.path().join("moved").display());
    let done = user.run(&["run", "--hooks-only", "--", "sh", "-c", &moved]);
    assert!(!done.out.contains("moved\n") && folder.is_dir(), "{}", done.whole());
    drop(service.stdin.take());
    service.wait().unwrap();
}

#[test]
fn a_hidden_socket_in_a_folder_that_is_closed_whole_is_no_obstacle() {
    let user = User::new();
    let folder = user.path().join("services");
    std::fs::create_dir(&folder).unwrap();
    let bus = folder.join("bus");
    let _listening = UnixListener::bind(&bus).unwrap();
    user.configure(&format!("sandbox: {{hidden: [\"{}\"], sockets: []}}", bus.display()));
    let script = format!("echo started; ls -A '{}'", folder.display());
    let done = user.run(&["run", "--hooks-only", "--", "sh", "-c", &script]);
    assert_eq!(done.out, "started\n", "{}", done.whole());
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

#[test]
fn a_list_beside_walls_that_are_switched_off_starts_nothing() {
    for (sandbox, key) in [("hosts: []", "sandbox.hosts"), ("sockets: []", "sandbox.sockets"), ("", "")] {
        let user = User::with_config(&format!("sandbox: {{mode: off, {sandbox}}}"));
        let done = user.run(&["run", "--hooks-only", "--", "echo", "started"]);
        assert_eq!(done.out.contains("started"), key.is_empty(), "{sandbox}: {}", done.whole());
        let doctor = user.run(&["doctor", "claude"]).whole();
        assert_eq!(doctor.contains("would start nothing here"), !key.is_empty(), "{sandbox}: {doctor}");
        if !key.is_empty() {
            assert!(done.err.contains(key) && done.err.contains("`off`"), "{}", done.whole());
            let done = user.run(&["run", "--no-sandbox", "--hooks-only", "--", "echo", "started"]);
            assert!(done.out.contains("started"), "{}", done.whole());
        }
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
