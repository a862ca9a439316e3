//! The programs that generated shell code can start: they write down how they were called and do next to nothing.
//!
//! A stub is this very executable under another name, `box/bin/NAME`; it writes to `box/log`, which it finds from its
//! own place, not from its environment. A record is a mark, the number of words, and each word with a NUL behind it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// Every stub; nothing else can be started.
pub(crate) const STUBS: [&str; 9] =
    ["alpha", "beta", "gamma", "delta", "fails", "parity", "lines", "words", "cat"];

/// The beginning of a record.
const MARK: char = '\u{1e}';
/// Most bytes that `cat` copies.
const MOST: u64 = 64 * 1024;

/// Acts as the stub that this process is called, if it is called one.
pub(crate) fn act() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let called = words.next()?;
    let name = Path::new(&called).file_name()?.to_str()?.to_owned();
    if !STUBS.contains(&name.as_str()) {
        return None;
    }
    let args: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    record(&name, &args);
    Some(behave(&name, &args))
}

fn record(name: &str, args: &[String]) {
    let mut text = format!("{MARK}{}\0{name}\0", args.len() + 1);
    for arg in args {
        text.push_str(arg);
        text.push('\0');
    }
    let place = std::env::current_exe().ok();
    let log = place.as_deref().and_then(Path::parent).and_then(Path::parent).map(|folder| folder.join("log"));
    // One write, so that records of processes that run at the same time do not mix.
    if let Some(mut file) = log.and_then(|log| OpenOptions::new().append(true).open(log).ok()) {
        drop(file.write_all(text.as_bytes()));
    }
}

fn behave(name: &str, args: &[String]) -> ExitCode {
    let mut out = std::io::stdout();
    match name {
        "fails" => return ExitCode::FAILURE,
        "parity" if args.len() % 2 == 1 => return ExitCode::FAILURE,
        "lines" => drop(out.write_all(b"l one\nl two\n")),
        "words" => drop(out.write_all(b"word\n")),
        "cat" => {
            let files: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
            let mut copy = |from: &mut dyn Read| drop(std::io::copy(&mut from.take(MOST), &mut out));
            if files.is_empty() {
                copy(&mut std::io::stdin());
            }
            for file in files.into_iter().filter(|file| !file.contains('/')) {
                if let Ok(mut file) = File::open(file) {
                    copy(&mut file);
                }
            }
        }
        _ => {}
    }
    ExitCode::SUCCESS
}

/// The records of a log. What is no record ends the list.
pub(crate) fn records(log: &str) -> Vec<Vec<String>> {
    log.split(MARK)
        .skip(1)
        .map_while(|record| {
            let mut words = record.split('\0');
            let count = words.next()?.parse::<usize>().ok()?;
            let all: Vec<String> = words.map(str::to_owned).collect();
            // Behind the last NUL is nothing.
            (all.len() == count + 1).then(|| all.into_iter().rev().skip(1).rev().collect())
        })
        .collect()
}
