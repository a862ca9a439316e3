//! Spans on their way to a collector, to one that hangs, and to one that is not there.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail loudly")]

mod collector;

use std::net::TcpListener;
use std::time::Duration;

use backstop_hooks::{Trace, TraceId};
use backstop_telemetry::{Attribute, Exporter, InvalidSettings, Kind, Settings, Span, keys};
use collector::{Collector, Manner};

const QUEUE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

fn settings(endpoint: &str) -> Settings {
    Settings {
        endpoint: endpoint.to_owned(),
        headers: vec![("authorization".to_owned(), "Bearer of-the-collector".to_owned())],
        sample: 1.0,
        timeout: Duration::from_secs(30),
        queue: QUEUE,
        resource: vec![("service.name".to_owned(), "test".to_owned())],
        version: "1.2.3",
        authorities: None,
        is_direct: false,
    }
}

fn exporter(endpoint: &str) -> Exporter {
    Exporter::start(&settings(endpoint)).unwrap()
}

fn span(name: &'static str) -> Span {
    let mut span = Span::ended(Trace::begin(None), name, Duration::from_millis(3)).kind(Kind::Client);
    span.set(keys::OPERATION, "chat");
    span.set(keys::INPUT_TOKENS, 7_u64);
    span.set(keys::FINISH_REASONS, Attribute::Texts(vec!["end_turn".into(), "other".into()]));
    span
}

#[tokio::test]
async fn a_span_arrives_as_it_was_recorded() {
    let collector = Collector::start(Manner::Takes);
    let exporter = exporter(&collector.endpoint);
    let mut failed = span("failed");
    failed.fail("503");
    let sent = failed.clone();
    exporter.record(failed);
    exporter.record(span("well"));
    assert!(exporter.flush(PATIENCE).await);
    let received = collector.spans();
    let [first, second] = received.as_slice() else { panic!("two spans: {received:?}") };
    assert_eq!((first.trace.clone(), first.id.clone()), (sent.trace.to_string(), sent.id.to_string()));
    assert_eq!((first.name.as_str(), first.kind, first.status, first.flags), ("failed", 3, 2, 0x101));
    assert_eq!((second.name.as_str(), second.status), ("well", 0));
    assert_eq!(first.end - first.start, 3_000_000);
    assert_eq!(first.get("error.type"), "503");
    assert_eq!(first.get("gen_ai.usage.input_tokens"), "7");
    assert_eq!(first.get("gen_ai.response.finish_reasons"), "end_turn,other");
    assert_eq!(first.resource["service.name"], "test");
    let head = collector.heads().concat().to_ascii_lowercase();
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    assert!(head.contains("authorization: bearer of-the-collector"), "{head}");
    let bodies = collector.bodies().concat();
    assert!(!String::from_utf8_lossy(&bodies).contains("of-the-collector"));
    assert_eq!(exporter.dropped(), 0);
}

#[tokio::test]
async fn the_end_sends_what_waits() {
    let collector = Collector::start(Manner::Takes);
    let exporter = exporter(&collector.endpoint);
    exporter.record(span("last"));
    drop(exporter);
    collector.until(|spans| spans.len() == 1);
}

#[tokio::test]
async fn a_collector_that_hangs_costs_spans_and_nothing_else() {
    let collector = Collector::start(Manner::Hangs);
    let exporter = exporter(&collector.endpoint);
    exporter.record(span("first"));
    while collector.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // One is on its way, the queue holds the next ones, and the others are dropped, however many they are.
    for _ in 0..100_000 {
        exporter.record(span("more"));
    }
    let dropped = exporter.dropped();
    assert!((100_000 - 2 * QUEUE as u64..=100_000 - QUEUE as u64).contains(&dropped), "{dropped}");
    assert!(!exporter.flush(Duration::from_millis(50)).await, "nobody waits longer than they want to");
}

/// Each change of the configuration makes another exporter: before a collector that answers nothing they must not pile up.
#[tokio::test]
async fn an_exporter_that_nobody_uses_ends_with_the_first_batch_that_is_lost() {
    const SPANS: usize = 2_000;
    let collector = Collector::start(Manner::Refuses(503));
    let exporter = Exporter::start(&Settings { queue: SPANS, ..settings(&collector.endpoint) }).unwrap();
    let before = Exporter::dropped_by_all();
    for _ in 0..SPANS {
        exporter.record(span("lost"));
    }
    drop(exporter);
    while Exporter::dropped_by_all() < before + SPANS as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The first batch may have been on its way while somebody still recorded, and is tried three times.
    assert!((1..=3).contains(&collector.requests()), "{}", collector.requests());
}

#[tokio::test]
async fn a_collector_that_is_gone_costs_spans_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    drop(listener);
    let exporter = exporter(&endpoint);
    exporter.record(span("lost"));
    assert!(exporter.flush(PATIENCE).await, "lost is settled, too");
    assert_eq!(exporter.dropped(), 1);
}

#[tokio::test]
async fn a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let collector = Collector::start(Manner::Refuses(503));
    let exporter = exporter(&collector.endpoint);
    exporter.record(span("later"));
    while collector.requests() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    collector.change(Manner::Takes);
    collector.until(|spans| spans.len() == 1);
    assert_eq!(exporter.dropped(), 0);
    collector.change(Manner::Refuses(400));
    exporter.record(span("never"));
    exporter.flush(PATIENCE).await;
    assert_eq!((exporter.dropped(), collector.spans().len()), (1, 1));
}

#[tokio::test]
async fn a_part_of_all_traces_is_recorded_and_each_of_them_whole() {
    let collector = Collector::start(Manner::Takes);
    let half = Exporter::start(&Settings { sample: 0.5, ..settings(&collector.endpoint) }).unwrap();
    let none = Exporter::start(&Settings { sample: 0.0, ..settings(&collector.endpoint) }).unwrap();
    // Also ids that somebody chose: neighbours are told apart.
    let chosen = |number: u64| {
        let bytes = [0_u64, number].map(u64::to_be_bytes).concat();
        TraceId::from_bytes(bytes.try_into().unwrap()).unwrap()
    };
    let traces: Vec<TraceId> = (1..=2_000).map(chosen).collect();
    let recorded = traces.iter().filter(|trace| half.samples(**trace)).count();
    assert!((800..1_200).contains(&recorded), "{recorded}");
    assert!(traces.iter().all(|trace| half.samples(*trace) == half.samples(*trace) && !none.samples(*trace)));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let endpoint = "http://127.0.0.1:9/v1/traces";
    let wrong = Settings { headers: vec![("a b".to_owned(), "c".to_owned())], ..settings(endpoint) };
    assert!(matches!(Exporter::start(&wrong), Err(InvalidSettings::Header(name)) if name == "a b"));
    let wrong = Settings { authorities: Some(b"none".to_vec()), ..settings(endpoint) };
    assert!(matches!(Exporter::start(&wrong), Err(InvalidSettings::Authorities(_))));
    assert!(matches!(Exporter::start(&settings("nowhere")), Err(InvalidSettings::Endpoint(_))));
    assert!(!format!("{:?}", settings(endpoint)).contains("of-the-collector"));
}
