//! `cargo xtask soak`: mixed load on `backstop serve` for a while, and whether its memory stays where it was.
//!
//! Clients speak all four wires, whole and streamed: plain text, answers with tool calls, answers with a secret that
//! must not come through, requests that are blocked. About a third of them go away: before the answer, in the middle
//! of it, or in the middle of their own request. Every request is of a conversation of its own, so that whatever is
//! remembered of conversations fills up to its bound.
//!
//! It fails when an answer is not what it should be, and when the memory of the last third of the time is larger
//! than that of the second third by more than [`ALLOWED_SHARE`] and [`ALLOWED_BYTES`] together. The first third is for
//! caches to fill. Everything is on loopback, in a folder of its own, and ends with this process.

mod load;
mod upstream;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::step::execute;
use crate::workspace::{cargo, root};

use load::{Counts, Load};

const TOKEN: &str = "a-token-for-soaking";
/// Clients at once.
const CLIENTS: u64 = 16;
const SAMPLES: u32 = 30;
/// How much memory may grow: a twentieth, and 4 MiB.
const ALLOWED_SHARE: u64 = 20;
const ALLOWED_BYTES: u64 = 4 << 20;

/// Soaks `program`, or else a release build, for so many minutes.
pub(crate) fn run(minutes: &str, program: Option<&str>) -> Result<(), Error> {
    let minutes: u32 =
        minutes.parse().ok().filter(|minutes| (1..=600).contains(minutes)).ok_or(Error::Usage)?;
    let program = match program {
        Some(program) => PathBuf::from(program),
        None => built()?,
    };
    let home = tempfile::tempdir().map_err(|source| failed("a folder", &source))?;
    let upstream = upstream::start().map_err(|source| failed("the upstream", &source))?;
    configure(home.path(), upstream)?;
    let gateway = Gateway::start(&program, home.path())?;
    let counts = Arc::new(Counts::default());
    let load = Load { port: gateway.port, token: TOKEN, counts: Arc::clone(&counts) };
    for client in 0..CLIENTS {
        let load = load.clone();
        std::thread::spawn(move || load.run(client + 1));
    }
    let samples = gateway.watch(Duration::from_secs(u64::from(minutes) * 60), &counts)?;
    judge(&samples, &counts)
}

fn built() -> Result<PathBuf, Error> {
    execute(cargo(["build", "--release", "--package", "backstop-cli", "--bin", "backstop"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/backstop"))
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Soak(format!("{what}: {error}"))
}

fn configure(home: &Path, upstream: u16) -> Result<(), Error> {
    let apis = ["anthropic", "openai-chat", "gemini"];
    let providers: String = apis
        .iter()
        .map(|api| format!("  {api}: {{ api: {api}, base_url: 'http://127.0.0.1:{upstream}' }}\n"))
        .collect();
    let text = format!(
        "providers:\n{providers}gateway: {{ token: {TOKEN} }}\nmodels:\n  - {{ agent: blocked, allow: [none] }}\n"
    );
    let path = home.join("config/backstop/backstop.yaml");
    let written =
        std::fs::create_dir_all(home.join("config/backstop")).and_then(|()| std::fs::write(&path, text));
    written.map_err(|source| Error::File { path, source })
}

/// The process under load. Ends with this value.
struct Gateway {
    process: Child,
    port: u16,
}

impl Gateway {
    fn start(program: &Path, home: &Path) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command
            .args(["serve", "--port", "0"])
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let shown = || program.display().to_string();
        let mut process = command.spawn().map_err(|source| Error::Start { command: shown(), source })?;
        let mut line = String::new();
        let read = process.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
        let mut gateway = Self { process, port: 0 };
        read.transpose().map_err(|error| failed("its address", &error))?;
        let authority = line.trim().strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let port = authority.and_then(|authority| authority.rsplit(':').next()?.parse().ok());
        gateway.port = port.ok_or_else(|| failed(&shown(), &"it prints no address"))?;
        Ok(gateway)
    }

    /// Bytes of memory at equal distances of time.
    fn watch(&self, duration: Duration, counts: &Counts) -> Result<Vec<u64>, Error> {
        let (begin, mut samples) = (Instant::now(), Vec::new());
        println!("    time    memory   answers   blocked      gone     wrong");
        for sample in 1..=SAMPLES {
            let due = duration * sample / SAMPLES;
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            let bytes = memory(self.process.id()).ok_or_else(|| failed("the gateway", &"it has ended"))?;
            samples.push(bytes);
            println!("{:6} s {:6.1} MB {}", due.as_secs(), megabytes(bytes), counts.line());
        }
        Ok(samples)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn judge(samples: &[u64], counts: &Counts) -> Result<(), Error> {
    if let Some(wrong) = counts.first_wrong() {
        return Err(failed("an answer was not what it should be", &wrong));
    }
    if counts.answers() == 0 {
        return Err(failed("the load", &"nothing was answered"));
    }
    let third = samples.len() / 3;
    let median = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part.get(part.len() / 2).copied().unwrap_or_default()
    };
    let before = median(samples.get(third..2 * third).unwrap_or_default());
    let after = median(samples.get(2 * third..).unwrap_or_default());
    println!("second third {:.1} MB, last third {:.1} MB", megabytes(before), megabytes(after));
    if after > before + before / ALLOWED_SHARE + ALLOWED_BYTES {
        return Err(failed("memory", &"it grows"));
    }
    println!("memory is flat");
    Ok(())
}
