//! `docs/tour.md` does what it says.

use std::path::Path;
use std::process::Stdio;

use super::support::{BACKSTOP, done, in_a_session};

#[test]
fn every_block_of_the_tour_runs() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("tour.md")).unwrap();
    let script: String = page
        .split("\n```sh\n")
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap())
        .map(|block| format!("{block}\n"))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let binaries = Path::new(BACKSTOP).parent().unwrap();
    let child = in_a_session("sh")
        .arg("-c")
        .arg(script)
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", binaries.display()))
        .env("HOME", folder.path())
        .env("TMPDIR", folder.path())
        .env("TOUR", docs.join("tour"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let done = done(child).succeeded();
    for line in [
        "ok: its-5-oclock",
        "slug 1.0",
        "Version 1.0 is released.",
        "the audit trail is whole",
        "13 requests, 13 of 13 turns used",
    ] {
        assert!(done.whole().contains(line), "no `{line}` in {}", done.whole());
    }
}
