//! Metrics, as a real Prometheus sees them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::{Engine, HookMode, HookOptions, OperatorSettings, Snapshot, Verdict};
use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{AuditLag, Gateway, Metrics, Observers, Outcome, Pricing, Settings, Waiting};
use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome};
use backstop_hooks::{AgentId, HookError, HookId, OwnerId, hook_fn};
use backstop_surfaces::{Counts as _, SurfaceName};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::support::*;

/// Every family, as it is called in Prometheus.
const FAMILIES: [&str; 25] = [
    "backstop_requests_total",
    "backstop_first_byte_seconds_bucket",
    "backstop_added_seconds_bucket",
    "backstop_tokens_total",
    "backstop_cost_total",
    "backstop_dispatches_total",
    "backstop_dispatch_seconds_count",
    "backstop_hook_answers_total",
    "backstop_hook_failures_total",
    "backstop_shadow_answers_total",
    "backstop_requests_running",
    "backstop_streams_open",
    "backstop_approvals_waiting",
    "backstop_audit_waiting",
    "backstop_audit_lag_seconds",
    "backstop_audit_lost_total",
    "backstop_audit_signed_late_total",
    "backstop_surface_messages_total",
    "backstop_surface_answers_total",
    "backstop_surface_connections",
    "backstop_surface_received_total",
    "backstop_witness_failures_total",
    "backstop_witness_last_success_timestamp_seconds",
    "backstop_series_dropped_total",
    "backstop_build",
];

fn operators() -> String {
    ["watch", "0123456789abcdef"].join("-")
}

fn scrape(headers: &str) -> String {
    format!("GET /-/metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
}

fn as_operator() -> String {
    scrape(&format!("authorization: Bearer {}\r\n", operators()))
}

#[derive(Debug)]
struct Penny;

impl Pricing for Penny {
    fn micros(&self, model: &str, usage: TokenUsage) -> Option<u64> {
        (model == "m").then_some(usage.total() * 10_000)
    }
}

struct Quiet;

#[async_trait]
impl Waiting for Quiet {
    async fn approvals(&self) -> Option<u64> {
        Some(1)
    }

    fn audit(&self) -> Option<AuditLag> {
        Some(AuditLag::default())
    }
}

const ANSWER: &str = r#"{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"secret words"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}"#;

fn asked(model: &str, text: &str) -> String {
    format!(r#"{{"model":"{model}","max_tokens":9,"messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

/// A gateway whose hooks block what says `stop`, fail where something says `fail`, and would block the rest.
async fn watched(upstream: &Upstream) -> Gateway {
    let metrics = Metrics::new("0.0.0");
    let engine = Engine::builder()
        .snapshot(Snapshot::empty(OperatorSettings::default()))
        .sink(Arc::new(metrics.clone()))
        .build();
    let hook = hook_fn::<BeforeLlmCall, _>(|event, _| {
        let said = serde_json::to_string(&event.messages).unwrap_or_default();
        if said.contains("fail") {
            return Err(HookError::failed("no"));
        }
        Ok(said
            .contains("stop")
            .then(|| BeforeLlmCallOutcome { block: Some(true), ..BeforeLlmCallOutcome::default() }))
    });
    let options = HookOptions::new(OwnerId::operator()).id(HookId::new("judge"));
    engine.registry().on::<BeforeLlmCall>(hook, options).unwrap();
    let would_block = hook_fn::<BeforeLlmCall, _>(|_, _| {
        Ok(Some(BeforeLlmCallOutcome { block: Some(true), ..BeforeLlmCallOutcome::default() }))
    });
    let options = HookOptions::new(OwnerId::operator()).id(HookId::new("shade")).mode(HookMode::Shadow);
    engine.registry().on::<BeforeLlmCall>(would_block, options).unwrap();
    let mut settings = settings(upstream);
    settings.operator_token = Some(secret(&operators()));
    settings.agents.insert(AgentId::new("coder"), secret("coder-token-0123456789"));
    settings.known_models = vec!["m".to_owned()];
    settings.pricing = Some(Arc::new(Penny));
    metrics.ask(Arc::new(Quiet));
    metrics.stands(&SurfaceName::new("chat").unwrap());
    metrics.listens(&SurfaceName::new("chat").unwrap());
    metrics.witnesses(["far".to_owned()]);
    let hooks = Hooks::new(engine, HookSettings::default()).unwrap();
    let observers = Observers { metrics: Some(metrics), ..Observers::default() };
    Gateway::observed(settings, Arc::new(hooks), observers).await.unwrap()
}

/// Traffic with every outcome.
async fn traffic(gateway: &Gateway) {
    for (model, text, status) in
        [("m", "hi", 200), ("made-up-model", "hi", 200), ("m", "stop", 200), ("m", "fail", 200)]
    {
        let answer = talk(gateway, post("/v1/messages", &asked(model, text))).await;
        assert_eq!(answer.status(), status, "{}", answer.text());
    }
    let coder = post("/v1/messages", &asked("m", "hi")).replace(TOKEN, "coder-token-0123456789");
    assert_eq!(talk(gateway, coder).await.status(), 200);
    let claimed = post("/a/made-up-agent/v1/messages", &asked("m", "hi"));
    assert_eq!(talk(gateway, claimed).await.status(), 200);
    assert_eq!(
        talk(gateway, post("/v1/messages", &asked("m", "hi")).replace(TOKEN, "wrong")).await.status(),
        401
    );
    assert_eq!(talk(gateway, post("/v1/unheard/of", "{}")).await.status(), 403);
}

#[tokio::test]
async fn only_operators_are_shown_metrics() {
    let upstream = Upstream::start(|_| Script::json("200 OK", ANSWER)).await;
    let gateway = watched(&upstream).await;
    for headers in [
        String::new(),
        format!("authorization: Bearer {TOKEN}\r\n"),
        format!("x-backstop-token: {}\r\n", operators()),
        "authorization: Bearer coder-token-0123456789\r\n".to_owned(),
        format!("authorization: Bearer {}\r\nauthorization: Bearer x\r\n", operators()),
    ] {
        let refused = talk(&gateway, scrape(&headers)).await;
        assert_eq!(refused.status(), 401, "{headers}");
        assert!(refused.head().contains("www-authenticate: Bearer"), "{}", refused.head());
        assert!(!refused.text().contains("backstop_requests"), "{}", refused.text());
    }
    let shown = talk(&gateway, as_operator()).await;
    assert!(shown.status() == 200 && shown.text().contains("backstop_build"), "{}", shown.text());
    for path in [format!("/-/metrics?token={}", operators()), format!("/t/{}/-/metrics", operators())] {
        let refused = talk(&gateway, scrape("").replace("/-/metrics", &path)).await;
        assert!([400, 401].contains(&refused.status()), "{path}: {}", refused.text());
    }
    // Where nobody is an operator, nobody is shown anything, at the machine's own address neither.
    let observers = Observers { metrics: Some(Metrics::new("0")), ..Observers::default() };
    let closed =
        Gateway::observed(settings(&upstream), Arc::new(backstop_gateway::Transparent), observers).await;
    assert_eq!(
        talk(&closed.unwrap(), scrape(&format!("authorization: Bearer {TOKEN}\r\n"))).await.status(),
        403
    );
    let plain = crate::support::gateway(Settings {
        operator_token: Some(secret(&operators())),
        ..settings(&upstream)
    });
    assert_eq!(talk(&plain.await, as_operator()).await.status(), 404);
}

#[tokio::test]
async fn each_request_is_counted_once_by_what_became_of_it() {
    let upstream = Upstream::start(|_| Script::json("200 OK", ANSWER)).await;
    let gateway = watched(&upstream).await;
    traffic(&gateway).await;
    let text = talk(&gateway, as_operator()).await.body().0;
    let of = |provider, model, agent, outcome, count| {
        format!(
            "backstop_requests_total{{wire=\"anthropic-messages\",provider=\"{provider}\",model=\"{model}\",agent=\"{agent}\",outcome=\"{outcome}\"}} {count}\n"
        )
    };
    for line in [
        of("anthropic", "m", "none", "answered", 1),
        of("anthropic", "other", "none", "answered", 1),
        of("anthropic", "m", "coder", "answered", 1),
        of("anthropic", "m", "other", "answered", 1),
        of("none", "m", "none", "blocked", 2),
        "wire=\"none\",provider=\"none\",model=\"unread\",agent=\"none\",outcome=\"denied\"} 1\n".to_owned(),
        "model=\"none\",agent=\"none\",outcome=\"refused\"} 1\n".to_owned(),
        "backstop_tokens_total{provider=\"anthropic\",model=\"m\",agent=\"coder\",kind=\"input\"} 5\n"
            .to_owned(),
        "backstop_cost_total{provider=\"anthropic\",model=\"m\",agent=\"coder\"} 0.07\n".to_owned(),
        "backstop_first_byte_seconds_count{wire=\"anthropic-messages\",provider=\"anthropic\"} 4\n"
            .to_owned(),
        "backstop_hook_answers_total{point=\"before_llm_call\",hook=\"judge\",said=\"blocked\"} 1\n"
            .to_owned(),
        "backstop_hook_failures_total{point=\"before_llm_call\",hook=\"judge\",kind=\"failed\"} 1\n"
            .to_owned(),
        "backstop_shadow_answers_total{point=\"before_llm_call\",hook=\"shade\",would=\"block\"} 4\n"
            .to_owned(),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
    for chosen in ["made-up", "secret words", "wrong", TOKEN] {
        assert!(!text.contains(chosen), "{chosen} is in\n{text}");
    }
}

#[tokio::test]
async fn a_client_that_goes_and_a_provider_that_fails_are_told_apart() {
    let upstream = Upstream::answering(|request| match request {
        hangs if hangs.contains("hangs") => {
            Script::whole([EVENTS_HEAD.as_bytes(), &chunk(b"data: x\n\n")].concat()).ending(End::Hang)
        }
        denies if denies.contains("denies") => Script::json("429 Too Many Requests", "{}"),
        _ => Script::whole("nonsense").ending(End::Close),
    })
    .await;
    let mut settings = settings(&upstream);
    settings.operator_token = Some(secret(&operators()));
    let observers = Observers { metrics: Some(Metrics::new("0")), ..Observers::default() };
    let gateway =
        Gateway::observed(settings, Arc::new(backstop_gateway::Transparent), observers).await.unwrap();
    assert_eq!(talk(&gateway, post("/v1/messages", &asked("m", "denies"))).await.status(), 429);
    assert_eq!(talk(&gateway, post("/v1/messages", &asked("m", "nonsense"))).await.status(), 502);
    let mut gone = connect(&gateway).await;
    gone.write_all(post("/v1/messages", &asked("m", "hangs")).as_bytes()).await.unwrap();
    until(&mut gone, "data: x").await;
    let now = talk(&gateway, as_operator()).await.body().0;
    assert!(
        now.contains("backstop_streams_open 1\n") && now.contains("backstop_requests_running 1\n"),
        "{now}"
    );
    drop(gone);
    for _ in 0..500 {
        let text = talk(&gateway, as_operator()).await.body().0;
        if text.contains("outcome=\"aborted\"} 1\n") {
            assert!(text.contains("backstop_streams_open 0\n"), "{text}");
            assert!(text.contains("outcome=\"provider_error\"} 1\n"), "{text}");
            assert!(text.contains("outcome=\"failed\"} 1\n"), "{text}");
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("a client that went was never counted");
}

/// A program of Prometheus, from where `cargo xtask test` has unpacked it.
fn program(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/prometheus/usr/bin").join(name);
    assert!(target.is_file(), "{} is not there: `cargo xtask test` unpacks it", target.display());
    target
}

#[tokio::test]
async fn promtool_has_nothing_to_say_against_the_metrics() {
    let upstream = Upstream::start(|_| Script::json("200 OK", ANSWER)).await;
    let gateway = watched(&upstream).await;
    traffic(&gateway).await;
    let text = talk(&gateway, as_operator()).await.body().0;
    let mut command = Command::new(program("promtool"));
    let command = command.args(["check", "metrics"]).kill_on_drop(true);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

/// A file for those who run it.
fn deployed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

#[tokio::test]
async fn promtool_has_nothing_to_say_against_the_alerts() {
    let mut command = Command::new(program("promtool"));
    let output = command.args(["check", "rules"]).arg(deployed("alerts.yml")).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
}

/// The queries of the dashboard, and of the alerts, as Prometheus is asked them.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_slice(&std::fs::read(deployed("grafana.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let shown = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let alerts = std::fs::read_to_string(deployed("alerts.yml")).unwrap().replace(">-\n          ", "");
    let alerts = alerts.replace("\n          /", " /").replace("\n          unless", " unless");
    let watched = alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: ").map(str::to_owned));
    let queries = shown.chain(watched);
    queries.map(|query| query.replace("$__rate_interval", "1m").replace("$instance", ".*")).collect()
}

/// The families that a query reads.
fn families(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("backstop_"))
}

/// The values with which a query compares a label.
fn literals<'a>(query: &'a str, label: &str) -> Vec<&'a str> {
    let compared = query.split([',', '{']).filter_map(|matcher| matcher.strip_prefix(label));
    let quoted = compared.filter_map(|rest| rest.trim_start_matches(['=', '!', '~']).strip_prefix('"'));
    quoted.filter_map(|rest| rest.split('"').next()).flat_map(|values| values.split('|')).collect()
}

#[test]
fn dashboard_and_alerts_compare_with_words_that_are_counted() {
    let verdicts = [
        Verdict::Pass,
        Verdict::Modify,
        Verdict::Block,
        Verdict::Handled,
        Verdict::Observed,
        Verdict::Dropped,
    ];
    let outcomes = [
        Outcome::Answered,
        Outcome::Blocked,
        Outcome::Refused,
        Outcome::Denied,
        Outcome::OverQuota,
        Outcome::Overloaded,
        Outcome::ProviderError,
        Outcome::Failed,
        Outcome::Aborted,
    ];
    let words = [
        ("verdict", verdicts.map(Verdict::as_str).to_vec()),
        ("outcome", outcomes.map(Outcome::as_str).to_vec()),
    ];
    let mut compared = 0;
    for query in queries() {
        for (label, words) in &words {
            for value in literals(&query, label) {
                assert!(words.contains(&value), "{query} compares with {value}, which nobody counts");
                compared += 1;
            }
        }
    }
    assert!(compared >= 9, "{compared}");
}

/// Families of which the traffic of these tests has none: what redactors find, and what the store can't read.
const OF_OTHERS: [&str; 2] = ["backstop_redactions_total", "backstop_access_tokens_unreadable"];

#[tokio::test]
async fn a_real_prometheus_answers_what_dashboard_and_alerts_ask() {
    let upstream = Upstream::start(|_| Script::json("200 OK", ANSWER)).await;
    let gateway = watched(&upstream).await;
    traffic(&gateway).await;
    let folder = tempfile::TempDir::new().unwrap();
    let (mut child, address) = prometheus(&gateway, folder.path()).await;
    for _ in 0..600 {
        let up = query(&address, "/api/v1/query?query=backstop_build").await.unwrap_or_default();
        if up["data"]["result"].as_array().is_some_and(|found| !found.is_empty()) {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let queries = queries();
    assert!(queries.len() > 20, "{queries:?}");
    let mut answered = 0;
    for asked in &queries {
        let escaped: String = asked.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = query(&address, &format!("/api/v1/query?query={escaped}")).await;
        let answer = answer.unwrap_or_else(|| panic!("Prometheus does not take {asked}"));
        assert_eq!(answer["status"], "success", "{asked}: {answer}");
        answered += usize::from(!answer["data"]["result"].as_array().unwrap().is_empty());
        for family in families(asked) {
            let is_known = FAMILIES.contains(&family) || OF_OTHERS.contains(&family);
            assert!(is_known, "{asked} reads {family}, which nobody writes");
        }
    }
    assert!(answered >= 4, "{answered} of {} found anything", queries.len());
    child.kill().await.unwrap();
}

/// Starts Prometheus on a free port, with one target.
async fn prometheus(gateway: &Gateway, folder: &Path) -> (Child, String) {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let config = serde_json::json!({
        "global": { "scrape_interval": "200ms", "scrape_timeout": "200ms" },
        "scrape_configs": [{
            "job_name": "backstop",
            "metrics_path": "/-/metrics",
            "authorization": { "credentials": operators() },
            "static_configs": [{ "targets": [gateway.address().to_string()] }],
        }],
    });
    let file = folder.join("prometheus.yml");
    std::fs::write(&file, config.to_string()).unwrap();
    let address = format!("127.0.0.1:{port}");
    let child = Command::new(program("prometheus"))
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    (child, address)
}

/// What Prometheus answers; `None` while it does not.
async fn query(address: &str, path: &str) -> Option<Value> {
    let mut socket = tokio::net::TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.ok()?;
    let answer = within(rest(&mut socket)).await;
    (answer.status() == 200).then(|| answer.json())
}

#[tokio::test]
async fn a_real_prometheus_reads_every_family() {
    let upstream = Upstream::start(|_| Script::json("200 OK", ANSWER)).await;
    let gateway = watched(&upstream).await;
    traffic(&gateway).await;
    let folder = tempfile::TempDir::new().unwrap();
    let (mut child, address) = prometheus(&gateway, folder.path()).await;
    let mut missing = FAMILIES.to_vec();
    // It starts within seconds on a machine that is free; this one may not be.
    for _ in 0..600 {
        let names = query(&address, "/api/v1/label/__name__/values").await;
        let names = names.and_then(|names| names["data"].as_array().cloned()).unwrap_or_default();
        missing.retain(|family| !names.iter().any(|name| name == family));
        if missing.is_empty() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let targets = query(&address, "/api/v1/targets").await.unwrap_or_default();
    assert!(missing.is_empty(), "{missing:?} never came: {targets}");
    let types = query(&address, "/api/v1/metadata?metric=backstop_added_seconds").await.unwrap();
    assert_eq!(types["data"]["backstop_added_seconds"][0]["type"], "histogram", "{types}");
    child.kill().await.unwrap();
}
