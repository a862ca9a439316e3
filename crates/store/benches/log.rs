//! What reading a trail of a million entries costs, as `backstop log` reads it: pages from the end.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails and tells loudly")]

use std::time::Instant;

use backstop_store::{
    AuditBody, AuditFilter, AuditPlace, AuditStore as _, Durability, NewAuditEntry, SqliteStore, Timestamp,
};
use serde_json::json;

/// The entries of the trail.
const MILLION: u64 = 1_000_000;
/// How many are written at once.
const GROUP: u64 = 2000;

/// An entry of about 600 bytes, as receipts are; one in a hundred thousand is a block.
fn entry(n: u64) -> NewAuditEntry {
    let verdict = if n % 100_000 == 50_000 { "block" } else { "pass" };
    let body = json!({
        "id": format!("0199c0de000070008000000000000000-{n}"), "point": "before_tool_call", "verdict": verdict, "tool": "exec",
        "calledAs": "Bash", "agentId": "main", "host": "agent", "workspace": "/home/ann/shop", "hookSet": "x".repeat(64),
        "judged": "b".repeat(71), "original": "a".repeat(71), "silent": "0-7,9", "steps": [], "elapsedUs": 412,
    });
    NewAuditEntry {
        at: Timestamp::from_millis(1_764_331_200_000 + i64::try_from(n).unwrap()),
        kind: "receipt".to_owned(),
        session: Some("s-1".into()),
        run: None,
        body: AuditBody::of(&body),
    }
}

fn main() {
    // Test runners list what they find; only `cargo bench` measures.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = SqliteStore::new(folder.path().join("backstop.db"));
    runtime.block_on(async {
        for first in (0..MILLION).step_by(usize::try_from(GROUP).unwrap()) {
            let entries = (first..first + GROUP).map(entry).collect();
            store.append_audit_all(entries, Durability::Soon).await.unwrap();
        }
        store.conclude_audit().await.unwrap();
        let newest = AuditFilter::default();
        let block = AuditFilter { verdict: Some("block".to_owned()), ..AuditFilter::default() };
        let recent = AuditFilter {
            since: Some(Timestamp::from_millis(1_764_331_200_000 + 999_990)),
            ..AuditFilter::default()
        };
        let none = AuditFilter { tool: Some("nothing".to_owned()), ..AuditFilter::default() };
        for (what, filter, limit) in [
            ("newest 50", newest, 50),
            ("all 10 blocks", block, 1000),
            ("since a moment ago", recent, 1000),
            ("none", none, 1000),
        ] {
            for _ in 0..3 {
                let begun = Instant::now();
                let (mut place, mut found) = (AuditPlace::END, 0);
                loop {
                    let page = store.audit_page(&filter, place, limit).await.unwrap();
                    found += page.entries.len();
                    place = page.next;
                    if page.ended || page.is_older || found >= limit {
                        break;
                    }
                }
                println!("{what}: {found} entries in {:?}", begun.elapsed());
            }
        }
    });
    println!("memory at most: {} KB", peak());
}

/// The most memory that this process had, in KB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or_default()
}
