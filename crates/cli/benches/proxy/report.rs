//! The tables.

use std::time::Duration;

use crate::load::{Measured, Paced, median};

/// What one target cost.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    start: Duration,
    memory_start: u64,
    /// What each load cost, round by round.
    loads: Vec<(&'static str, Vec<Measured>)>,
    pub(crate) memory_64: u64,
    /// `None` where no streams were sent at a pace.
    pub(crate) paced: Option<Paced>,
    pub(crate) memory_busy: u64,
    pub(crate) memory_idle: u64,
}

impl Row {
    pub(crate) fn new(name: &'static str, start: Duration, memory_start: u64) -> Self {
        Self {
            name,
            start,
            memory_start,
            loads: Vec::new(),
            memory_64: 0,
            paced: None,
            memory_busy: 0,
            memory_idle: 0,
        }
    }

    pub(crate) fn add(&mut self, load: &'static str, measured: Measured) {
        match self.loads.iter_mut().find(|(name, _)| *name == load) {
            Some((_, rounds)) => rounds.push(measured),
            None => self.loads.push((load, vec![measured])),
        }
    }

    fn rounds(&self, load: &str) -> &[Measured] {
        &self.loads.iter().find(|(name, _)| *name == load).unwrap().1
    }

    /// The median of what `of` finds in the rounds of a load.
    fn median(&self, load: &str, of: impl Fn(&Measured) -> f64) -> f64 {
        median(self.rounds(load).iter().map(of).collect())
    }
}

#[derive(Debug)]
pub(crate) struct Table(pub(crate) Vec<Row>);

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

impl Table {
    pub(crate) fn print(&self) {
        self.print_cpu();
        self.print_memory();
        self.print_paced();
    }

    /// The cost of each load, and beside it how many times as much as nginx needs: the median of the rounds' ratios.
    fn print_cpu(&self) {
        let nginx = self.0.iter().find(|row| row.name == "nginx");
        let Some(first) = self.0.first() else { return };
        let names: Vec<&str> = first.loads.iter().map(|(name, _)| *name).collect();
        println!("\nCPU of the proxy per answer, in µs (and beside nginx)\n");
        println!("| target | {} |", names.join(" | "));
        println!("| --- |{}", " --- |".repeat(names.len()));
        for row in &self.0 {
            let cell = |name: &&str| {
                let cost = row.median(name, |measured| micros(measured.cpu));
                let ratio = nginx.map(|nginx| {
                    let both = row.rounds(name).iter().zip(nginx.rounds(name));
                    median(both.map(|(one, other)| micros(one.cpu) / micros(other.cpu)).collect())
                });
                let ratio = ratio.filter(|ratio| ratio.is_finite()).map(|ratio| format!(" ({ratio:.2} x)"));
                format!("{cost:.0}{}", ratio.unwrap_or_default())
            };
            println!("| {} | {} |", row.name, names.iter().map(cell).collect::<Vec<_>>().join(" | "));
        }
    }

    fn print_memory(&self) {
        println!("\nTime to the first byte (median, µs), answers a second, memory, start\n");
        println!(
            "| target | first byte, 1 | first byte of a stream, 1 | whole/s, 16 | streamed/s, 16 | start MB | 64 streams MB | after all MB | at rest MB | start ms |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
        );
        for row in &self.0 {
            println!(
                "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} |",
                row.name,
                row.median("whole, 1", |measured| micros(measured.first_byte)),
                row.median("streamed, 1", |measured| micros(measured.first_byte)),
                row.median("whole, 16", |measured| measured.per_second),
                row.median("streamed, 16", |measured| measured.per_second),
                megabytes(row.memory_start),
                megabytes(row.memory_64),
                megabytes(row.memory_busy),
                megabytes(row.memory_idle),
                row.start.as_secs_f64() * 1e3,
            );
        }
    }

    fn print_paced(&self) {
        let rows: Vec<(&Row, Paced)> = self.0.iter().filter_map(|row| Some((row, row.paced?))).collect();
        if rows.is_empty() {
            return;
        }
        println!("\n1000 streams at 50 tokens a second: how long a token was under way (µs)\n");
        println!("| target | median | p99 | p99 while none begins or ends |\n| --- | --- | --- | --- |");
        for (row, paced) in rows {
            println!(
                "| {} | {:.0} | {:.0} | {:.0} |",
                row.name,
                micros(paced.median),
                micros(paced.p99),
                micros(paced.steady_p99),
            );
        }
    }
}
