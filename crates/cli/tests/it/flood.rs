//! `backstop serve` under a flood of conversations, agents, models and users of which none comes again: what it keeps is bounded, nobody
//! makes a label, and a collector that never answers costs no request its answer.

use std::collections::BTreeMap;
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::gateway::{look, post, serve, text};
use super::support::{ModelServer, User, done, interrupt};
use super::traces::collector::{Collector, Manner};

/// How many requests come at once.
const CLIENTS: usize = 6;
/// How many come in one wave. The gateway keeps 64 MiB of what was said: each needs about 256 KiB there, so that one wave is more.
const WAVE: usize = 400;
/// Each request is another agent's but for so many in a row, which are those of a few.
const ROW: usize = 4;
/// How many these are.
const FEW: usize = 20;
/// How much is said in each, in bytes.
const SAID: usize = 64 * 1024;
/// By how much the process may grow after the first wave, in KiB. What another wave said is more than twice as much.
const GROWTH: usize = 20 * 1024;
/// The most series of one family, as the documentation has it.
const MOST_SERIES: usize = 2_000;

/// How much of its memory a process has in the machine's, in KiB.
fn resident(child: &Child) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Text that no other request has, in words.
fn said(number: usize) -> String {
    let mut text = String::with_capacity(SAID + 64);
    let mut state = number as u64 + 1;
    while text.len() < SAID {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let letters = (0..6).map(|at| char::from(b'a' + u8::try_from((state >> (at * 8 + 8)) % 26).unwrap()));
        text.extend(letters);
        text.push(' ');
    }
    text
}

/// As many requests as one wave has, each for another model, in another conversation.
fn wave(url: &str, wave: usize) {
    let next = AtomicUsize::new(wave * WAVE);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= (wave + 1) * WAVE {
                        return;
                    }
                    let body = json!({
                        "model": format!("invented-model-{number}"), "max_tokens": 9,
                        "metadata": { "user_id": format!("invented-user-{number}") },
                        "messages": [{ "role": "user", "content": said(number) }],
                    });
                    let agent = if number.is_multiple_of(ROW) { number } else { number % FEW };
                    let answer =
                        post(&format!("{url}/a/invented-agent-{agent}/v1/messages"), &body.to_string());
                    assert!(
                        answer.starts_with("HTTP/1.1 200 ") && answer.contains("from the model"),
                        "{answer}"
                    );
                }
            });
        }
    });
}

/// The number of series of each family.
fn series(metrics: &str) -> BTreeMap<&str, usize> {
    let mut families = BTreeMap::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        *families.entry(line.split(['{', ' ']).next().unwrap_or_default()).or_insert(0) += 1;
    }
    families
}

#[test]
fn a_flood_of_conversations_and_names_leaves_bounded_memory_and_no_label() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"repeat": true, "text": "from the model"}"#);
    let collector = Collector::start(Manner::Hangs);
    let operators = ["watch", "0123456789abcdef"].join("-");
    user.configure(&model.config(&format!(
        "gateway: {{operators: {{token: {operators}}}}}\n\
         telemetry: {{traces: {{endpoint: '{}', queue: 64, timeoutMs: 600000}}}}\n",
        collector.endpoint
    )));
    let (child, line) = serve(&user);
    let (url, address) = (text(&line, "url"), text(&line, "address"));
    wave(url, 0);
    let (first, before) = (resident(&child), look(address, "/-/metrics", &operators));
    wave(url, 1);
    let (last, after) = (resident(&child), look(address, "/-/metrics", &operators));
    assert!(last < first + GROWTH, "from {first} KiB to {last} KiB");

    assert!(!after.contains("invented"), "{after}");
    assert_eq!(series(&before), series(&after), "no request made a series");
    assert!(series(&after).values().all(|count| *count <= MOST_SERIES), "{after}");
    let total = |metrics: &str, name: &str| -> usize {
        let of = |line: &str| {
            line.starts_with(name).then(|| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
        };
        metrics.lines().filter_map(of).sum()
    };
    assert_eq!(total(&after, "backstop_requests_total{"), 2 * WAVE);
    assert_eq!(total(&after, "backstop_series_dropped_total"), 0);
    // The collector was asked, never answered, and nobody waited for it.
    assert!(collector.requests() > 0 && total(&after, "backstop_spans_dropped_total") > 0, "{after}");
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
}
