//! Traces of every host, as a collector receives them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use backstop_telemetry::keys;
use serde_json::{Value, json};

use self::collector::{Collector, Manner, Received};
use super::gateway::{look, serve, text};
use super::support::{Done, ModelServer, User, done, interrupt, until};

mod agent;
#[path = "../../../telemetry/tests/it/collector.rs"]
pub(super) mod collector;

/// The trace and the span of a client.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// What people, models and clients wrote. None of it may be in a span.
const SENTINELS: [&str; 5] =
    ["prompt-sentinel", "answer-sentinel", "argument-sentinel", "state-sentinel", "path-sentinel"];

/// The policy that no shell command passes.
const NO_SHELL: &str =
    "hooks: {tool_call: {pre_call: [{type: policy, id: house-rules, config: {deny_tools: [exec]}}]}}\n";

/// The policy that takes out what could be the number of a trace.
const ACME_IDS: &str = "guards: {secrets: {formats: [{kind: acme_id, what: a number, source: a handbook, formats: ['acad<digit:28>'], \
                        matches: ['use acad<digit:28>'], near_misses: ['acad<digit:27>']}], kinds: {acme_id: redact}}}\n";

fn telemetry(collector: &Collector) -> String {
    telemetry_at(&collector.endpoint, "")
}

fn telemetry_at(endpoint: &str, more: &str) -> String {
    format!(
        "telemetry: {{traces: {{endpoint: '{endpoint}', service: tested, headers: {{x-team: of-the-collector}}, \
         resource: {{deployment.environment.name: test}}{more}}}}}\n"
    )
}

/// What a provider answers with a text and a call of a tool.
fn calling(tool: &str, input: &Value) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted-model",
        "content": [
            { "type": "text", "text": "answer-sentinel" },
            { "type": "tool_use", "id": "toolu_01", "name": tool, "input": input },
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": { "input_tokens": 11, "output_tokens": 5, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 3 },
    })
}

/// What one answers that is done.
fn saying() -> Value {
    json!({
        "id": "msg_2", "type": "message", "role": "assistant", "model": "scripted-model",
        "content": [{ "type": "text", "text": "answer-sentinel" }],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": { "input_tokens": 1, "output_tokens": 1 },
    })
}

/// A provider that answers as it is told to, the last answer over and over, and remembers heads.
struct Provider {
    base_url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    /// One that always calls a tool.
    fn start() -> Self {
        Self::answering(vec![(200, calling("read_file", &json!({ "path": "argument-sentinel" })))])
    }

    fn answering(answers: Vec<(u16, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (seen, answers) = (Arc::clone(&heads), Arc::new(answers));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
                std::thread::spawn(move || while Self::answer(&stream, &seen, &answers).is_some() {});
            }
        });
        Self { base_url, heads }
    }

    fn answer(mut stream: &TcpStream, seen: &Mutex<Vec<String>>, answers: &[(u16, Value)]) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            head.push_str(&line.to_ascii_lowercase());
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(head);
            seen.len()
        };
        let (status, answer) = answers.get(number - 1).or(answers.last()).unwrap();
        let answer = answer.to_string();
        let length = answer.len();
        write!(
            stream,
            "HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{answer}"
        )
        .ok()
    }

    fn config(&self, more: &str) -> String {
        format!(
            "providers: {{ upstream: {{ api: anthropic, base_url: '{}', models: [scripted-model] }} }}\n{more}",
            self.base_url
        )
    }

    /// The values of a header, one for each request.
    fn told(&self, name: &str) -> Vec<Option<String>> {
        let prefix = format!("{name}: ");
        let heads = self.heads.lock().unwrap();
        let of = |head: &String| head.lines().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned));
        heads.iter().map(of).collect()
    }
}

/// Asks with these headers and gives the status line.
fn ask(url: &str, headers: &[(&str, &str)]) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let body = json!({
        "model": "scripted-model", "max_tokens": 9,
        "messages": [{ "role": "user", "content": "prompt-sentinel" }],
    })
    .to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "POST /{path}/v1/messages?beta=true HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n")
        .unwrap();
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n").unwrap();
    }
    write!(stream, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

/// What holds for whatever is sent: names of a closed list, ids that are each one's own, parents that are there, and no text.
#[track_caller]
fn conform(collector: &Collector, remote: &[&str]) -> Vec<Received> {
    let spans = collector.spans();
    let known: BTreeSet<&str> = keys::ALL.iter().map(|key| key.as_str()).collect();
    let ids: BTreeMap<&str, &Received> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    assert_eq!(ids.len(), spans.len(), "each span has an id of its own");
    for span in &spans {
        for key in span.attributes.keys() {
            assert!(known.contains(key.as_str()), "`{key}` is no attribute of ours");
        }
        assert_ne!(span.attributes.get("gen_ai.system"), Some(&String::new()));
        assert_eq!(span.resource["service.name"], "tested");
        assert_eq!(span.resource["deployment.environment.name"], "test");
        assert_eq!(span.flags & 1, 1, "it is sampled");
        match ids.get(span.parent.as_str()) {
            Some(parent) => {
                assert_eq!(parent.trace, span.trace);
                assert_eq!(span.flags & 0x300, 0x100, "its parent is of this process: {span:?}");
            }
            None if span.parent.is_empty() => assert_eq!(span.flags & 0x200, 0),
            None => {
                assert!(remote.contains(&span.parent.as_str()), "nobody has the parent of {span:?}");
                assert_eq!(span.flags & 0x300, 0x300, "its parent is somebody else's: {span:?}");
            }
        }
    }
    for body in collector.bodies() {
        let text = String::from_utf8_lossy(&body).into_owned();
        for sentinel in SENTINELS.into_iter().chain(["of-the-collector"]) {
            assert!(!text.contains(sentinel), "`{sentinel}` is sent");
        }
    }
    let heads = collector.heads();
    assert!(heads.iter().all(|head| head.to_ascii_lowercase().contains("x-team: of-the-collector")));
    spans
}

#[track_caller]
fn named<'a>(spans: &'a [Received], name: &str) -> Vec<&'a Received> {
    let found: Vec<&Received> = spans.iter().filter(|span| span.name == name).collect();
    assert!(!found.is_empty(), "no span is called `{name}`: {spans:#?}");
    found
}

#[track_caller]
fn one<'a>(spans: &'a [Received], name: &str) -> &'a Received {
    let found = named(spans, name);
    assert_eq!(found.len(), 1, "{found:#?}");
    found[0]
}

fn has(name: &'static str) -> impl Fn(&[Received]) -> bool {
    move |spans| spans.iter().any(|span| span.name == name)
}

#[test]
fn a_request_is_one_trace_from_the_client_to_the_provider() {
    let (collector, provider) = (Collector::start(Manner::Takes), Provider::start());
    let user = User::with_config(&provider.config(&telemetry(&collector)));
    let args = ["--log-format", "json", "--log-level", "info"];
    let mut child = user
        .command(&[&["serve", "--json", "--port", "0"], &args[..]].concat())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    // Not sampled, says the client, which is not for it to say.
    let parent = format!("00-{TRACE}-{SPAN}-00");
    let status = ask(
        text(&line, "url"),
        &[("traceparent", &parent), ("tracestate", "vendor=state-sentinel"), ("x-session-id", "conv-1")],
    );
    assert_eq!(status, "HTTP/1.1 200 OK");
    collector.until(|spans| has("POST messages")(spans) && has("chat scripted-model")(spans));
    interrupt(&child);
    let ended = done(child);
    assert_eq!(ended.code, Some(0), "{}", ended.whole());

    let spans = conform(&collector, &[SPAN]);
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    let request = one(&spans, "POST messages");
    assert_eq!((request.parent.as_str(), request.kind, request.status), (SPAN, 2, 0));
    assert_eq!(request.get("http.request.method"), "POST");
    assert_eq!(request.get("http.response.status_code"), "200");
    assert_eq!(request.get("backstop.outcome"), "answered");
    let call = one(&spans, "chat scripted-model");
    assert_eq!((call.parent.as_str(), call.kind, call.status), (request.id.as_str(), 3, 0));
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.request.model", "scripted-model"),
        ("gen_ai.response.model", "scripted-model"),
        ("gen_ai.response.finish_reasons", "tool_use"),
        ("gen_ai.usage.input_tokens", "16"),
        ("gen_ai.usage.output_tokens", "5"),
        ("gen_ai.usage.cache_read.input_tokens", "2"),
        ("gen_ai.usage.cache_write.input_tokens", "3"),
        ("backstop.provider", "upstream"),
    ] {
        assert_eq!(call.get(key), value, "{key}");
    }
    assert_eq!(call.get("gen_ai.conversation.id"), request.get("gen_ai.conversation.id"));
    let dispatches: Vec<&Received> =
        spans.iter().filter(|span| span.attributes.contains_key("backstop.point")).collect();
    assert!(!dispatches.is_empty());
    for dispatch in &dispatches {
        assert_eq!((dispatch.parent.as_str(), dispatch.kind), (request.id.as_str(), 1), "{dispatch:?}");
        assert_eq!(dispatch.name, dispatch.get("backstop.point"));
    }
    let tool = dispatches.iter().find(|span| span.attributes.contains_key("gen_ai.tool.name"));
    assert_eq!(tool.map(|span| span.get("gen_ai.tool.call.id")), Some("toolu_01"), "{dispatches:#?}");

    // The provider is told of its own span, and of nothing that the client said beside.
    assert_eq!(provider.told("traceparent"), [Some(format!("00-{TRACE}-{}-01", call.id))]);
    assert_eq!(provider.told("tracestate"), [None]);
    // From a line of the log to the trace, and from there to the audit trail.
    let logged = ended.err.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_request = logged.into_iter().find(|line| line["kind"] == "request");
    assert_eq!(of_request.unwrap()["traceId"], TRACE);
    let trail = user.run(&["log", "--oldest-first", "--json"]).succeeded().out;
    let receipts: BTreeSet<&str> = dispatches.iter().map(|span| span.get("backstop.receipt.id")).collect();
    assert!(receipts.iter().all(|receipt| trail.contains(receipt)), "each span is a view of a receipt");
    assert!(trail.contains(&format!("\"traceId\":\"{TRACE}\"")), "{trail}");
}

#[test]
fn a_parent_that_is_none_begins_a_trace_and_so_does_a_secret() {
    let (collector, provider) = (Collector::start(Manner::Takes), Provider::start());
    let user = User::with_config(&provider.config(&format!("{ACME_IDS}{}", telemetry(&collector))));
    let (child, line) = serve(&user);
    let url = text(&line, "url");
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let secret = format!("acad{}", "0123456789".repeat(3).split_at(28).0);
    for headers in [
        vec![("traceparent", "00-state-sentinel-01")],
        vec![("traceparent", &*format!("00-{secret}-{SPAN}-01"))],
        vec![("traceparent", &*format!("00-{}-{SPAN}-01", "0".repeat(32)))],
        vec![("traceparent", &*format!("00-{}-{SPAN}-01", TRACE.to_uppercase()))],
        vec![("traceparent", &parent), ("traceparent", &parent)],
        vec![],
    ] {
        assert_eq!(ask(url, &headers), "HTTP/1.1 200 OK");
    }
    collector.until(|spans| spans.iter().filter(|span| span.name == "POST messages").count() == 6);
    interrupt(&child);
    done(child).succeeded();
    let spans = conform(&collector, &[]);
    let requests = named(&spans, "POST messages");
    let traces: BTreeSet<&str> = requests.iter().map(|span| span.trace.as_str()).collect();
    assert_eq!(traces.len(), 6, "each has a trace of its own");
    assert!(
        requests.iter().all(|span| span.parent.is_empty() && span.trace != TRACE && span.trace != secret)
    );
    let told = provider.told("traceparent");
    assert!(told.iter().flatten().all(|told| traces.iter().any(|trace| told.contains(trace))), "{told:?}");
}

#[test]
fn without_a_collector_a_client_s_trace_passes_as_it_came() {
    let provider = Provider::start();
    let user = User::with_config(&provider.config(""));
    let (child, line) = serve(&user);
    let parent = format!("00-{TRACE}-{SPAN}-00");
    ask(text(&line, "url"), &[("traceparent", &parent), ("tracestate", "vendor=state-sentinel")]);
    ask(text(&line, "url"), &[]);
    interrupt(&child);
    done(child).succeeded();
    assert_eq!(provider.told("traceparent"), [Some(parent), None]);
    assert_eq!(provider.told("tracestate"), [None, None]);
}

#[test]
fn a_trace_that_is_not_recorded_is_told_of_as_such() {
    let (collector, provider) = (Collector::start(Manner::Takes), Provider::start());
    let config = provider.config(&telemetry_at(&collector.endpoint, ", sample: 0"));
    let user = User::with_config(&config);
    let (child, line) = serve(&user);
    ask(text(&line, "url"), &[("traceparent", &format!("00-{TRACE}-{SPAN}-01"))]);
    interrupt(&child);
    done(child).succeeded();
    let told = provider.told("traceparent");
    let [Some(told)] = told.as_slice() else { panic!("one that is told of: {told:?}") };
    assert!(told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"), "{told}");
    assert_eq!(collector.requests(), 0);
}

#[test]
fn a_collector_that_hangs_or_is_gone_costs_no_request_anything() {
    let hangs = Collector::start(Manner::Hangs);
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/v1/traces", listener.local_addr().unwrap())
    };
    let operators = ["watch", "0123456789abcdef"].join("-");
    let refuses = Collector::start(Manner::Refuses(400));
    for endpoint in [hangs.endpoint.as_str(), &gone, &refuses.endpoint] {
        let provider = Provider::start();
        let traces = telemetry_at(endpoint, ", queue: 8, timeoutMs: 600000");
        let more = format!("gateway: {{operators: {{token: {operators}}}}}\n{traces}");
        let user = User::with_config(&provider.config(&more));
        let (child, line) = serve(&user);
        for _ in 0..50 {
            assert_eq!(ask(text(&line, "url"), &[]), "HTTP/1.1 200 OK");
        }
        let address = text(&line, "address");
        until("dropped spans are counted", || {
            let metrics = look(address, "/-/metrics", &operators);
            let dropped = metrics.lines().find_map(|line| line.strip_prefix("backstop_spans_dropped_total "));
            dropped
                .unwrap_or_else(|| panic!("no counter: {metrics}"))
                .parse::<u64>()
                .ok()
                .filter(|count| *count > 0)
        });
        interrupt(&child);
        let ended: Done = done(child);
        assert_eq!(ended.code, Some(0), "{}", ended.whole());
        assert_eq!(ended.err.matches("spans of traces are dropped").count(), 1, "{}", ended.whole());
    }
}

#[test]
fn a_turn_of_the_agent_is_one_trace() {
    let collector = Collector::start(Manner::Takes);
    let user = User::new();
    let model = ModelServer::start(
        &user,
        r#"{"text": "answer-sentinel", "tool_calls": [{"name": "write", "arguments": {"path": "a.txt", "content": "argument-sentinel"}}]}
           {"text": "answer-sentinel"}"#,
    );
    user.configure(&model.config(&telemetry(&collector)));
    let parent = format!("00-{TRACE}-{SPAN}-00");
    let child =
        user.command(&["agent", "-m", "prompt-sentinel"]).env("TRACEPARENT", &parent).spawn().unwrap();
    done(child).succeeded();
    // What is recorded is sent before the process ends.
    let spans = conform(&collector, &[SPAN]);
    assert!(spans.iter().all(|span| span.trace == TRACE));
    let turn = one(&spans, "invoke_agent main");
    assert_eq!((turn.parent.as_str(), turn.kind), (SPAN, 1));
    assert_eq!((turn.get("gen_ai.agent.id"), turn.get("backstop.outcome")), ("main", "answered"));
    let calls = named(&spans, "chat scripted-model");
    assert_eq!(calls.len(), 2);
    let tool = one(&spans, "execute_tool write");
    assert_eq!((tool.kind, tool.get("gen_ai.operation.name")), (1, "execute_tool"));
    assert_eq!(
        calls.iter().map(|call| call.get("gen_ai.provider.name")).collect::<BTreeSet<_>>(),
        ["anthropic"].into()
    );
    for span in spans.iter().filter(|span| span.id != turn.id) {
        assert_eq!(span.parent, turn.id, "{span:?}");
        assert!(span.start >= turn.start, "{span:?}");
    }
    assert!(
        spans.iter().any(|span| span
            .attributes
            .get("backstop.point")
            .is_some_and(|point| point == "before_tool_call"))
    );
}

fn event(user: &User) -> String {
    json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "tool_use_id": "toolu_0123456789abcdef", "tool_input": { "command": "echo argument-sentinel path-sentinel" },
    })
    .to_string()
}

fn hook(user: &User, parent: Option<&str>) -> Done {
    hook_with(user, parent.map(|parent| ("TRACEPARENT", parent)).as_slice())
}

fn hook_with(user: &User, environment: &[(&str, &str)]) -> Done {
    let mut command = user.command(&["hook", "claude"]);
    command.envs(environment.iter().copied());
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(event(user).as_bytes()).unwrap();
    done(child)
}

#[test]
fn a_hook_is_traced_whether_it_judges_alone_or_not() {
    let plain = hook(&User::with_config(NO_SHELL), None);
    let collector = Collector::start(Manner::Takes);
    let user = User::with_config(&format!("{NO_SHELL}{}", telemetry(&collector)));
    let parent = format!("00-{TRACE}-{SPAN}-00");
    assert_eq!(hook(&user, Some(&parent)).whole(), plain.whole());
    assert_eq!(hook(&user, Some("00-state-sentinel-01")).whole(), plain.whole());
    let count = |spans: &[Received]| spans.iter().filter(|span| span.name == "hook claude").count();
    assert_eq!(count(&collector.spans()), 2, "sent before the hook ends: {:#?}", collector.spans());
    let (child, _) = serve(&user);
    assert_eq!(hook(&user, Some(&parent)).whole(), plain.whole());
    let spans = collector.until(|spans| count(spans) == 3);
    interrupt(&child);
    done(child).succeeded();
    conform(&collector, &[SPAN]);
    let hooks = named(&spans, "hook claude");
    assert_eq!(hooks.iter().filter(|span| span.trace == TRACE && span.parent == SPAN).count(), 2);
    assert_eq!(hooks.iter().filter(|span| span.parent.is_empty()).count(), 1);
    for hook in hooks {
        assert_eq!(
            (hook.get("backstop.client"), hook.get("backstop.client.event")),
            ("claude", "PreToolUse")
        );
        let below: Vec<&Received> = spans.iter().filter(|span| span.parent == hook.id).collect();
        let gate = below.iter().find(|span| span.name == "before_tool_call");
        let gate = gate.unwrap_or_else(|| panic!("no dispatch: {below:#?}"));
        assert_eq!(
            (gate.get("backstop.verdict"), gate.get("backstop.blocked.hook")),
            ("block", "house-rules")
        );
        assert_eq!(gate.get("gen_ai.tool.name"), "exec");
    }
}

#[test]
fn an_agent_s_environment_leads_the_spans_of_a_hook_nowhere_else() {
    let plain = hook(&User::with_config(NO_SHELL), None);
    let agents = Collector::start(Manner::Takes);
    let led = [("WHERE", agents.endpoint.as_str())];
    for endpoint in ["${WHERE}", "${WHERE}/more"] {
        let user = User::with_config(&format!("{NO_SHELL}{}", telemetry_at(endpoint, "")));
        assert_eq!(hook_with(&user, &led).out, plain.out, "{endpoint}");
    }
    // A name whose certificate is vouched for by whom a variable names.
    let away = telemetry_at("https://collector.example/v1/traces", "");
    let user = User::with_config(&format!("{NO_SHELL}{away}"));
    let proxies = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"].map(|name| (name, agents.endpoint.as_str()));
    assert_eq!(hook_with(&user, &proxies).out, plain.out);
    assert_eq!(agents.requests(), 0);
}

#[test]
fn a_hook_gives_its_answer_though_the_collector_hangs() {
    let plain = hook(&User::with_config(NO_SHELL), None);
    let collector = Collector::start(Manner::Hangs);
    let user = User::with_config(&format!("{NO_SHELL}{}", telemetry(&collector)));
    assert_eq!(hook(&user, None).whole(), plain.whole());
    assert_eq!(collector.requests(), 1, "it was asked, and not waited for");
    collector.change(Manner::Takes);
    assert_eq!(hook(&user, None).whole(), plain.whole());
    assert!(has("hook claude")(&conform(&collector, &[])));
}

#[test]
fn a_collector_is_checked_with_its_place() {
    for (endpoint, why) in [
        ("http://collector.example/v1/traces", "would travel unencrypted"),
        ("https://user@collector.example/v1/traces", "must not hold a user"),
        ("https://collector.example", "has no path"),
        ("nowhere", "must be an address"),
    ] {
        let user = User::with_config(&telemetry_at(endpoint, ""));
        let told = user.run(&["config", "show"]);
        assert!(
            told.err.contains(why) && told.err.contains("backstop.yaml:1:"),
            "{endpoint}: {}",
            told.whole()
        );
    }
    let user = User::with_config(&telemetry_at("https://collector.example/v1/traces", ", sample: 2"));
    let told = user.run(&["config", "show"]);
    assert!(told.err.contains("a number from 0 to 1"), "{}", told.whole());
    let user = User::with_config(&telemetry_at("https://collector.example/v1/traces", ""));
    let shown = user.run(&["config", "show"]).succeeded();
    assert!(!shown.whole().contains("of-the-collector"), "{}", shown.whole());
    // A repository has no say.
    let user = User::new();
    std::fs::write(user.work().join("backstop.yaml"), telemetry_at("https://evil.example/v1/traces", ""))
        .unwrap();
    let told = user.run(&["config", "show"]);
    assert!(told.out.contains("telemetry at ") && !told.whole().contains("evil.example"), "{}", told.whole());
}
