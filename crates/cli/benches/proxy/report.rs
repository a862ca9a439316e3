//! The table.

use std::time::Duration;

use crate::load::{Measured, Paced};

/// What one target cost.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) start: Duration,
    pub(crate) whole: [Measured; 2],
    pub(crate) streamed: [Measured; 2],
    /// Whole answers to requests with a long conversation.
    pub(crate) long: Measured,
    pub(crate) memory_start: u64,
    pub(crate) memory_after: u64,
    pub(crate) memory_64: u64,
    pub(crate) paced: Paced,
    pub(crate) memory_1000: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Row>);

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl Table {
    pub(crate) fn add(&mut self, row: Row) {
        self.0.push(row);
    }

    pub(crate) fn print(&self) {
        let nginx = self.0.iter().find(|row| row.name == "nginx");
        println!("\nCPU of the proxy per answer, in µs (and beside nginx)\n");
        println!(
            "| target | whole, 1 | whole, 16 | streamed, 1 | streamed, 16 | 200 KB asked, 1 |\n\
             | --- | --- | --- | --- | --- | --- |"
        );
        for row in &self.0 {
            let cell = |measured: &Measured, other: Option<&Measured>| {
                let ratio = other.map(|other| measured.cpu.as_secs_f64() / other.cpu.as_secs_f64());
                let ratio = ratio.filter(|ratio| ratio.is_finite()).map(|ratio| format!(" ({ratio:.2} x)"));
                format!("{:.0}{}", micros(measured.cpu), ratio.unwrap_or_default())
            };
            let cells = [
                cell(&row.whole[0], nginx.map(|row| &row.whole[0])),
                cell(&row.whole[1], nginx.map(|row| &row.whole[1])),
                cell(&row.streamed[0], nginx.map(|row| &row.streamed[0])),
                cell(&row.streamed[1], nginx.map(|row| &row.streamed[1])),
                cell(&row.long, nginx.map(|row| &row.long)),
            ];
            println!("| {} | {} |", row.name, cells.join(" | "));
        }
        println!("\nTime to the first byte (median, µs), answers a second, memory, start\n");
        println!(
            "| target | first byte, 1 | first byte of a stream, 1 | whole/s, 16 | streamed/s, 16 | idle MB | idle after all that MB | 64 streams MB | start ms |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
        );
        for row in &self.0 {
            println!(
                "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} | {:.0} |",
                row.name,
                micros(row.whole[0].first_byte),
                micros(row.streamed[0].first_byte),
                row.whole[1].per_second,
                row.streamed[1].per_second,
                megabytes(row.memory_start),
                megabytes(row.memory_after),
                megabytes(row.memory_64),
                row.start.as_secs_f64() * 1e3,
            );
        }
        println!("\n1000 streams at 50 tokens a second: how long a token was under way (µs)\n");
        println!(
            "| target | median | p99 | p99 while none begins or ends | memory MB |\n| --- | --- | --- | --- | --- |"
        );
        for row in &self.0 {
            println!(
                "| {} | {:.0} | {:.0} | {:.0} | {:.1} |",
                row.name,
                micros(row.paced.median),
                micros(row.paced.p99),
                micros(row.paced.steady_p99),
                megabytes(row.memory_1000)
            );
        }
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
