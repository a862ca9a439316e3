//! What the gateway costs beside nginx, in one run on one machine: `cargo bench -p backstop-cli --bench proxy`.
//!
//! A scripted upstream and a load generator share one core, the proxy under test has the other. Each target (the
//! upstream itself, nginx, the gateway without hooks, the gateway with hooks) is given the same load: whole
//! answers and streamed answers of 200 deltas, one at a time and 16 at a time, answers to requests that repeat
//! 200 KB of conversation, as those of coding agents do, then 1000 streams at the pace of a model. The cost of a
//! proxy is the CPU time that its process used, divided by the answers.
//!
//! Debian's `nginx` and `taskset` are used when they are there; without nginx there are no ratios. Everything is on
//! loopback and ends with this process.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a measuring program for people: it may fail loudly, and reads what it wrote itself"
)]

mod load;
mod process;
mod report;
mod targets;
mod upstream;

use std::time::Duration;

use load::Load;
use report::Table;
use targets::Target;

/// Answers that are measured, by how many are asked for at a time.
const WHOLE: [(usize, usize); 2] = [(1, 6_000), (16, 30_000)];
const STREAMED: [(usize, usize); 2] = [(1, 600), (16, 2_400)];
/// Whole answers to requests of a long conversation, 200 KB each.
const LONG: (usize, usize) = (100, 500);
const PACED_STREAMS: usize = 1_000;
const PACED_TOKENS: usize = 200;
/// 50 tokens a second.
const PACE: Duration = Duration::from_millis(20);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["upstream", pace] => upstream::serve(pace.parse().unwrap()),
        // Test runners list and run everything that they find; only `cargo bench` says this.
        args if args.contains(&"--bench") => measure(),
        _ => {}
    }
}

fn measure() {
    process::pin_to(0);
    let burst = targets::upstream(Duration::ZERO);
    let paced = targets::upstream(PACE);
    let mut table = Table::default();
    for target in targets::all(&burst, &paced) {
        println!("measuring {}", target.name);
        table.add(run(&target));
    }
    table.print();
}

/// All loads on one target.
fn run(target: &Target) -> report::Row {
    let measure = |load: &Load| {
        load.run(target.burst, load.answers / 10);
        let before = target.cpu();
        let measured = load.run(target.burst, load.answers);
        measured.with_cpu(target.cpu() - before)
    };
    let start = target.memory();
    let loads = |streamed: bool, loads: [(usize, usize); 2]| {
        loads.map(|(at_once, answers)| measure(&Load { streamed, turns: 0, at_once, answers }))
    };
    let (whole, streamed) = (loads(false, WHOLE), loads(true, STREAMED));
    let long = measure(&Load { streamed: false, turns: LONG.0, at_once: 1, answers: LONG.1 });
    let after = target.memory();
    let many = Load { streamed: true, turns: 0, at_once: 64, answers: 640 };
    many.run(target.burst, many.answers);
    let busy = target.peak_memory();
    let paced = load::paced(target.paced, PACED_STREAMS, PACED_TOKENS);
    report::Row {
        name: target.name,
        start: target.start,
        whole,
        streamed,
        long,
        memory_start: start,
        memory_after: after,
        memory_64: busy,
        paced,
        memory_1000: target.memory(),
    }
}
