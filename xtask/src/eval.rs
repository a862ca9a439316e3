//! `cargo xtask eval`: how much the guards stop, how much they stop wrongly, and how long they take.
//!
//! The guards' own cases are judged by the example `report` of their crate, optimised, because its times would
//! mean little otherwise; its table goes into `docs/guards.md`, between two marks. Files given as arguments
//! are judged after that: they are somebody else's cases and not part of the project, but what they say about it
//! has a place on the page too.

use std::ffi::OsString;
use std::process::Stdio;

use crate::error::Error;
use crate::generate::between;
use crate::workspace::{cargo, read, root};

const PAGE: &str = "docs/guards.md";
const BEGIN: &str = "<!-- measured: cargo xtask eval -->\n\n";
const BEGIN_FILES: &str = "<!-- measured: cargo xtask eval FILE... -->\n\n";
const END: &str = "\n<!-- end of measured -->";

/// Judges the project's own cases, writes the page, and judges `files`.
pub(crate) fn run(files: &[&str]) -> Result<(), Error> {
    let table = report(&[])?;
    println!("the project's own cases\n\n{table}");
    write(BEGIN, &table)?;
    if files.is_empty() {
        return Ok(());
    }
    // Cargo runs it in the root of the workspace, which need not be where the caller is.
    let absolute = files.iter().map(|file| {
        std::path::absolute(file)
            .map(OsString::from)
            .map_err(|source| Error::File { path: file.into(), source })
    });
    let table = report(&absolute.collect::<Result<Vec<_>, _>>()?)?;
    println!("{}\n\n{table}", files.join(", "));
    write(BEGIN_FILES, &table)
}

/// Puts a table behind its mark.
fn write(begin: &'static str, table: &str) -> Result<(), Error> {
    let page = between(&read(PAGE)?, begin, END, table).ok_or(Error::Marks {
        path: PAGE,
        begin: begin.trim(),
        end: END.trim(),
    })?;
    std::fs::write(root().join(PAGE), page).map_err(|source| Error::File { path: PAGE.into(), source })
}

/// The table for these files, or for the project's own cases.
fn report(files: &[OsString]) -> Result<String, Error> {
    const SHOWN: &str = "cargo run --release --package backstop-guards --example report";
    let mut command = cargo(SHOWN.split(' ').skip(1));
    command.arg("--").args(files).stderr(Stdio::inherit());
    let output = command.output().map_err(|source| Error::Start { command: SHOWN.to_owned(), source })?;
    if !output.status.success() {
        return Err(Error::Failed { command: SHOWN.to_owned(), status: output.status });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
