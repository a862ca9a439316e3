//! What the gateway costs beside nginx, in one run on one machine: `cargo bench -p backstop-cli --bench proxy`.
//!
//! A scripted upstream and a load generator share one core, the proxy under test has the other. Each target (the
//! upstream itself, nginx, the gateway without hooks, the gateway with hooks) is given the same loads: whole
//! answers and streamed answers of 200 deltas, one at a time and 16 at a time, and answers to requests with 200 KB
//! and 2 MB of conversation, one that goes on, as those of coding agents do, and one that is new each time; then 1000
//! streams at the pace of a model. The cost of a proxy is the CPU time that its process used, divided by the answers.
//! All targets run side by side and take turns, in [`ROUNDS`] rounds, and the medians are printed: what the machine's
//! other guests take, they take from all. `cargo bench -p backstop-cli --bench proxy -- short` leaves out the streams at
//! a pace and the wait for the idle memory.
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
use report::{Row, Table};
use targets::{Said, Target};

/// The loads, by the name of their column.
const LOADS: [(&str, Load); 8] = [
    ("whole, 1", Load { streamed: false, before: Said::Nothing, at_once: 1, answers: 1_200 }),
    ("whole, 16", Load { streamed: false, before: Said::Nothing, at_once: 16, answers: 6_000 }),
    ("streamed, 1", Load { streamed: true, before: Said::Nothing, at_once: 1, answers: 150 }),
    ("streamed, 16", Load { streamed: true, before: Said::Nothing, at_once: 16, answers: 480 }),
    ("200 KB known", Load { streamed: false, before: Said::Known(100), at_once: 1, answers: 200 }),
    ("200 KB new", Load { streamed: false, before: Said::New(100), at_once: 1, answers: 100 }),
    ("2 MB known", Load { streamed: false, before: Said::Known(1_000), at_once: 1, answers: 30 }),
    ("2 MB new", Load { streamed: false, before: Said::New(1_000), at_once: 1, answers: 20 }),
];
/// How often each load is measured at each target.
const ROUNDS: usize = 5;
/// After how long a proxy is idle.
const REST: Duration = Duration::from_mins(1);
const PACED_STREAMS: usize = 1_000;
const PACED_TOKENS: usize = 200;
/// 50 tokens a second.
const PACE: Duration = Duration::from_millis(20);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["upstream", pace] => upstream::serve(pace.parse().unwrap()),
        // Test runners list and run everything that they find; only `cargo bench` says this.
        args if args.contains(&"--bench") => measure(args.contains(&"short")),
        _ => {}
    }
}

fn measure(is_short: bool) {
    process::pin_to(0);
    let burst = targets::upstream(Duration::ZERO);
    let paced = targets::upstream(PACE);
    let targets: Vec<Target> = targets::all(&burst, &paced).collect();
    let mut rows: Vec<Row> =
        targets.iter().map(|target| Row::new(target.name, target.start, target.memory())).collect();
    for round in 1..=ROUNDS {
        println!("round {round} of {ROUNDS}");
        for (name, load) in &LOADS {
            for (target, row) in targets.iter().zip(&mut rows) {
                row.add(name, measured(target, load));
            }
        }
    }
    let many = Load { streamed: true, before: Said::Nothing, at_once: 64, answers: 640 };
    for (target, row) in targets.iter().zip(&mut rows) {
        many.run(target.burst, many.answers);
        row.memory_64 = target.peak_memory();
        if !is_short {
            row.paced = Some(load::paced(target.paced, PACED_STREAMS, PACED_TOKENS));
        }
        row.memory_busy = target.memory();
    }
    if !is_short {
        println!("resting for {} s", REST.as_secs());
        std::thread::sleep(REST);
    }
    for (target, row) in targets.iter().zip(&mut rows) {
        row.memory_idle = target.memory();
    }
    Table(rows).print();
}

/// One load on one target, once it is warm.
fn measured(target: &Target, load: &Load) -> load::Measured {
    load.run(target.burst, load.answers.div_ceil(10));
    let before = target.cpu();
    let measured = load.run(target.burst, load.answers);
    measured.with_cpu(target.cpu() - before)
}
