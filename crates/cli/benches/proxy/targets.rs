//! What is measured: the upstream itself, nginx, and the gateway in several configurations.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::{Running, cpu, family, memory, on_core};

const BACKSTOP: &str = env!("CARGO_BIN_EXE_backstop");

/// The core of the proxy under test; everything else is on core 0.
const PROXY_CORE: usize = 1;

/// Where a load goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) port: u16,
    /// What stands before `/v1/`.
    prefix: &'static str,
}

/// The conversation that a request repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing but the question.
    Nothing,
    /// So many turns of 2 KB each, which are those of the request before, and another question.
    Known(usize),
    /// So many turns that nobody has seen before.
    New(usize),
}

impl Address {
    /// The request of this `number` for an answer.
    pub(crate) fn request(self, streamed: bool, before: Said, number: usize) -> Vec<u8> {
        let (turns, first) = match before {
            Said::Nothing => (0, 0),
            Said::Known(turns) => (turns, 0),
            Said::New(turns) => (turns, number + 1),
        };
        let said = "The quick brown fox (see src/fox.rs:42) jumps over \\\"the lazy dog\\\".\\n".repeat(30);
        let mut messages = r#"{"role":"system","content":"You are brief."}"#.to_owned();
        for turn in 0..turns {
            let role = if turn % 2 == 0 { "user" } else { "assistant" };
            messages += &format!(",{{\"role\":\"{role}\",\"content\":\"{first} {turn}: {said}\"}}");
        }
        messages += &format!(",{{\"role\":\"user\",\"content\":\"What does fox {number} do?\"}}");
        let body = format!("{{\"model\":\"bench-model\",\"messages\":[{messages}],\"stream\":{streamed}}}");
        format!(
            "POST {}/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer bench\r\n\
             content-type: application/json\r\naccept: */*\r\ncontent-length: {}\r\n\r\n{body}",
            self.prefix,
            self.port,
            body.len()
        )
        .into_bytes()
    }
}

/// A program that stands between load and upstream.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) burst: Address,
    pub(crate) paced: Address,
    /// From its start to its first answer.
    pub(crate) start: Duration,
    proxy: Option<Running>,
    _folder: Option<TempDir>,
}

impl Target {
    fn pids(&self) -> Vec<u32> {
        self.proxy.as_ref().map(|proxy| family(proxy.0.id())).unwrap_or_default()
    }

    pub(crate) fn cpu(&self) -> Duration {
        cpu(&self.pids())
    }

    pub(crate) fn memory(&self) -> u64 {
        memory(&self.pids(), "VmRSS:")
    }

    pub(crate) fn peak_memory(&self) -> u64 {
        memory(&self.pids(), "VmHWM:")
    }
}

/// An upstream at a pace.
pub(crate) struct Upstream {
    port: u16,
    _process: Running,
}

pub(crate) fn upstream(pace: Duration) -> Upstream {
    let mut command = on_core(0, std::env::current_exe().unwrap());
    let mut child =
        command.args(["upstream", &pace.as_millis().to_string()]).stdout(Stdio::piped()).spawn().unwrap();
    let port = first_line(&mut child).trim().parse().unwrap();
    Upstream { port, _process: Running(child) }
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line
}

/// All targets, each started when it is its turn.
pub(crate) fn all<'a>(burst: &'a Upstream, paced: &'a Upstream) -> impl Iterator<Item = Target> + 'a {
    let starts: [fn(&Upstream, &Upstream) -> Option<Target>; 4] = [
        |burst, paced| Some(direct(burst, paced)),
        nginx,
        |burst, paced| Some(gateway("backstop, no hooks", NO_HOOKS, burst, paced)),
        |burst, paced| Some(gateway("backstop, hooks", HOOKS, burst, paced)),
    ];
    starts.into_iter().filter_map(move |start| start(burst, paced))
}

fn direct(burst: &Upstream, paced: &Upstream) -> Target {
    Target {
        name: "direct",
        burst: Address { port: burst.port, prefix: "" },
        paced: Address { port: paced.port, prefix: "" },
        start: Duration::ZERO,
        proxy: None,
        _folder: None,
    }
}

/// A port that is free now.
fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn nginx(burst: &Upstream, paced: &Upstream) -> Option<Target> {
    let folder = tempfile::tempdir().unwrap();
    let (port, second) = (free_port(), free_port());
    let server = |name: &str, upstream: u16, port: u16| {
        format!(
            "upstream {name} {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000; }}\n\
             server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{name}; proxy_http_version 1.1; \
             proxy_set_header Connection \"\"; proxy_buffering off; }} }}\n"
        )
    };
    let at = folder.path().display();
    let config = format!(
        "worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log;\n\
         events {{ worker_connections 8192; }}\n\
         http {{ access_log off; keepalive_requests 1000000; client_max_body_size 8m; client_body_buffer_size 8m; client_body_temp_path {at}; proxy_temp_path {at};\n\
         fastcgi_temp_path {at}; uwsgi_temp_path {at}; scgi_temp_path {at};\n{}{} }}\n",
        server("burst", burst.port, port),
        server("paced", paced.port, second)
    );
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, config).unwrap();
    let begin = Instant::now();
    let started = on_core(PROXY_CORE, "nginx").arg("-c").arg(&file).stderr(Stdio::null()).spawn();
    let Ok(child) = started else {
        println!("nginx is not there, so there are no ratios");
        return None;
    };
    let address = Address { port, prefix: "" };
    let proxy = Running(child);
    wait_for(port, begin).map(|start| Target {
        name: "nginx",
        burst: address,
        paced: Address { port: second, prefix: "" },
        start,
        proxy: Some(proxy),
        _folder: Some(folder),
    })
}

/// How long after `begin` the port takes connections; `None` if it does not for ten seconds.
fn wait_for(port: u16, begin: Instant) -> Option<Duration> {
    while begin.elapsed() < Duration::from_secs(10) {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Some(begin.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

const NO_HOOKS: &str = "\
guards:
  command_safety: { enabled: false }
  sensitive_files: { enabled: false }
  secrets: { enabled: false }
  personal_data: { enabled: false }
  hidden_text: { enabled: false }
audit: { enabled: false }
gateway: { token: proxy-bench-token, providers: { openai: [burst] }, hooks: { tool_calls: off } }
";

/// A gate before the model, one behind it, secrets redacted as text streams, receipts kept.
const HOOKS: &str = "\
gateway: { token: proxy-bench-token, providers: { openai: [burst] } }
hooks: { llm_call: { pre_call: [{ type: passthrough, config: {} }] }, tool_call: { pre_call: [{ type: passthrough, config: {} }] } }
";

fn gateway(name: &'static str, config: &str, burst: &Upstream, paced: &Upstream) -> Target {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let providers = format!(
        "providers:\n\
         \x20 burst: {{ api: openai-chat, base_url: 'http://127.0.0.1:{}' }}\n\
         \x20 paced: {{ api: openai-chat, base_url: 'http://127.0.0.1:{}' }}\n",
        burst.port, paced.port
    );
    write_config(home, &(providers + config));
    let port = free_port();
    let begin = Instant::now();
    let child = on_core(PROXY_CORE, BACKSTOP)
        .args(["serve", "--port", &port.to_string()])
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let proxy = Running(child);
    let start = wait_for(port, begin).expect("the gateway did not start");
    Target {
        name,
        burst: Address { port, prefix: "/t/proxy-bench-token" },
        paced: Address { port, prefix: "/t/proxy-bench-token/p/paced" },
        start,
        proxy: Some(proxy),
        _folder: Some(folder),
    }
}

fn write_config(home: &Path, text: &str) {
    let folder = home.join("config/backstop");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("backstop.yaml"), text).unwrap();
}
