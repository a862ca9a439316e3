use std::path::Path;
use std::time::Duration;

use backstop_hooks::Digest;
use backstop_store::{
    AUDIT_GAP, AUDIT_HOOKS, AUDIT_OMITTED, AUDIT_PRUNED, AuditBound, AuditEntry, AuditFilter, AuditGap,
    AuditHead, AuditPlace, AuditStore as _, Durability, MAX_AUDIT_BYTES, MOST_PAGE_READ, NewAuditEntry,
    ProveAuditError, SqliteStore, Store, Timestamp, VerifyAuditError,
};
use backstop_trail::{Proof, merkle};
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{at, block_on, over_all_forms};

over_all_forms!(
    entries_form_a_tree,
    many_at_once_are_all_or_none,
    lists_are_filtered_and_paged,
    what_is_too_large_is_told_of_and_takes_nothing_else_along,
    pages_from_either_end_are_the_whole_trail,
    gaps_and_times_that_run_backwards_are_reported,
    a_cut_off_end_and_a_rewritten_trail_show_against_a_kept_head,
    a_pruned_trail_says_so_and_verifies,
    what_was_missing_in_a_pruned_part_is_not_forgotten,
    lists_of_hooks_outlive_a_pruning_while_receipts_name_them,
);

fn event(kind: &str, run: Option<&str>, n: i64) -> NewAuditEntry {
    NewAuditEntry {
        at: at(n),
        kind: kind.to_owned(),
        session: Some("s1".into()),
        run: run.map(Into::into),
        body: json!({"n": n, "text": "ü\u{1f}\"", "digest": Digest::of_text("t", "x")}).into(),
    }
}

async fn entries_form_a_tree(store: &dyn Store) {
    assert_eq!(store.audit_head().await.unwrap(), AuditHead::default());
    let report = store.verify_audit(None).await.unwrap();
    assert_eq!((report.head, report.lost, report.missing, report.pruned), (AuditHead::default(), 0, 0, 0));
    let one = store.append_audit(event("a", Some("r1"), 1)).await.unwrap();
    // The tree over one entry is that entry.
    assert_eq!(store.audit_head().await.unwrap(), AuditHead { seq: 1, digest: one.digest });
    let two = store.append_audit(event("b", None, 2)).await.unwrap();
    assert_eq!((one.seq, one.n, two.seq, two.n), (1, 1, 2, 2));
    assert_eq!(one.process, two.process);
    assert_ne!(one.digest, two.digest);
    let head = store.verify_audit(None).await.unwrap().head;
    let root = merkle::node_hash(one.digest.as_bytes(), two.digest.as_bytes());
    assert_eq!(head, AuditHead { seq: 2, digest: Digest::from_bytes(root) });
    assert_eq!(store.audit(&AuditFilter::default(), 0, 9).await.unwrap(), [one, two]);
    assert_eq!(store.audit_head().await.unwrap(), head);
}

async fn lists_are_filtered_and_paged(store: &dyn Store) {
    for n in 1..=9 {
        let run = if n % 3 == 0 { None } else { Some("r1") };
        store.append_audit(event(if n % 2 == 0 { "even" } else { "odd" }, run, n)).await.unwrap();
    }
    let list = async |filter: AuditFilter, after, limit| {
        let entries = store.audit(&filter, after, limit).await.unwrap();
        entries.iter().map(|entry| entry.seq).collect::<Vec<_>>()
    };
    let even = AuditFilter { kind: Some("even".to_owned()), ..AuditFilter::default() };
    let run = AuditFilter { run: Some("r1".into()), ..even.clone() };
    let nowhere = AuditFilter { session: Some("s2".into()), ..AuditFilter::default() };
    assert_eq!(list(AuditFilter::default(), 6, 2).await, [7, 8]);
    assert_eq!(list(even, 2, 9).await, [4, 6, 8]);
    assert_eq!(list(run, 2, 9).await, [4, 8]);
    assert!(list(nowhere, 0, 9).await.is_empty());
}

async fn many_at_once_are_all_or_none(store: &dyn Store) {
    store.append_audit(event("a", None, 1)).await.unwrap();
    let head = store
        .append_audit_all((2..6).map(|n| event("b", Some("r1"), n)).collect(), Durability::Soon)
        .await
        .unwrap();
    assert_eq!((head.seq, store.audit_head().await.unwrap()), (5, head));
    assert_eq!(store.append_audit_all(Vec::new(), Durability::Now).await.unwrap(), head);
    assert_eq!(store.verify_audit(None).await.unwrap().head, head);
    let entries = store.audit(&AuditFilter::default(), 0, 9).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.at).collect::<Vec<_>>(), (1..6).map(at).collect::<Vec<_>>());
}

async fn gaps_and_times_that_run_backwards_are_reported(store: &dyn Store) {
    let gap =
        |n: u64, time| NewAuditEntry { body: json!({ "lost": n }).into(), ..event(AUDIT_GAP, None, time) };
    let (noon, second) = (1_000_000, 1_000);
    for entry in [
        event("a", None, noon),
        gap(3, noon + second),
        // As far as processes may be apart.
        event("a", None, noon - 9 * second),
        event("a", None, noon - 10 * second),
        gap(4, noon + 2 * second),
    ] {
        store.append_audit(entry).await.unwrap();
    }
    let report = store.verify_audit(None).await.unwrap();
    assert_eq!((report.lost, report.head.seq), (7, 5));
    assert_eq!(report.gaps, [AuditGap { seq: 2, lost: 3 }, AuditGap { seq: 5, lost: 4 }]);
    let [step] = report.backwards.as_slice() else { panic!("{:?}", report.backwards) };
    assert_eq!((step.seq, step.at, step.after), (4, at(noon - 10 * second), at(noon + second)));
}

async fn what_was_missing_in_a_pruned_part_is_not_forgotten(store: &dyn Store) {
    let gap = |n: u64| NewAuditEntry { body: json!({ "lost": n }).into(), ..event(AUDIT_GAP, None, 1) };
    for entry in [gap(3), event("a", None, 1), gap(4), gap(5), event("a", None, 1)] {
        store.append_audit(entry).await.unwrap();
    }
    assert_eq!(store.prune_audit(AuditBound::through(3), usize::MAX, at(2), "ann").await.unwrap(), 1);
    let report = store.verify_audit(None).await.unwrap();
    assert_eq!((report.pruned, report.lost, report.gaps.len()), (1, 12, 3));
    store.append_audit(event("a", None, 3)).await.unwrap();
    assert_eq!(store.prune_audit(AuditBound::through(6), usize::MAX, at(3), "ann").await.unwrap(), 1);
    let report = store.verify_audit(None).await.unwrap();
    assert_eq!((report.pruned, report.lost, report.missing), (2, 12, 0));
    assert_eq!(
        store.prune_audit(AuditBound::through(6), usize::MAX, at(3), "ann").await.unwrap(),
        0,
        "nothing is left to go"
    );
    assert_eq!(store.audit_head().await.unwrap(), report.head);
}

async fn lists_of_hooks_outlive_a_pruning_while_receipts_name_them(store: &dyn Store) {
    let set = |n: u8| Digest::of("hook_set", &[n]);
    let list = |n: u8, from: u64| NewAuditEntry {
        body: json!({ "hookSet": set(n), "from": from, "hooks": [] }).into(),
        ..event(AUDIT_HOOKS, None, 1)
    };
    let names =
        |n: u8| NewAuditEntry { body: json!({ "hookSet": set(n) }).into(), ..event("receipt", None, 1) };
    for entry in [list(1, 0), names(1), list(2, 0), list(2, 9), names(2), list(3, 0), names(3), names(2)] {
        store.append_audit(entry).await.unwrap();
    }
    let lists = async || {
        let filter = AuditFilter { kind: Some(AUDIT_HOOKS.to_owned()), ..AuditFilter::default() };
        let entries = store.audit(&filter, 0, 99).await.unwrap();
        entries
            .iter()
            .map(|entry| (entry.body["hookSet"].clone(), entry.body["from"].clone()))
            .collect::<Vec<_>>()
    };
    // What no receipt names that remains goes.
    store.prune_audit(AuditBound::through(5), usize::MAX, at(2), "ann").await.unwrap();
    assert_eq!(
        lists().await,
        [(json!(set(2)), json!(0)), (json!(set(2)), json!(9)), (json!(set(3)), json!(0))]
    );
    store.prune_audit(AuditBound::through(7), usize::MAX, at(2), "ann").await.unwrap();
    assert_eq!(lists().await, [(json!(set(2)), json!(0)), (json!(set(2)), json!(9))]);
    store
        .prune_audit(AuditBound::through(store.audit_head().await.unwrap().seq - 1), usize::MAX, at(2), "ann")
        .await
        .unwrap();
    assert_eq!(lists().await, []);
    // Of a list in two parts, one of which remains, the other is needed all the same.
    let first = store.append_audit(list(4, 0)).await.unwrap().seq;
    for entry in [list(4, 9), names(4)] {
        store.append_audit(entry).await.unwrap();
    }
    store.prune_audit(AuditBound::through(first), usize::MAX, at(2), "ann").await.unwrap();
    assert_eq!(lists().await, [(json!(set(4)), json!(0)), (json!(set(4)), json!(9))]);
    store.verify_audit(None).await.unwrap();
}

async fn a_cut_off_end_and_a_rewritten_trail_show_against_a_kept_head(store: &dyn Store) {
    let mut heads = vec![store.audit_head().await.unwrap()];
    for n in 1..=3 {
        store.append_audit(event("a", None, n)).await.unwrap();
        heads.push(store.audit_head().await.unwrap());
    }
    for head in &heads {
        assert_eq!(store.verify_audit(Some(*head)).await.unwrap().head, heads[3], "{head:?}");
    }
    let longer = AuditHead { seq: 4, ..heads[3] };
    let cut_off = store.verify_audit(Some(longer)).await;
    assert!(matches!(cut_off, Err(VerifyAuditError::Truncated { known: 4, found: 3 })), "{cut_off:?}");
    let other = AuditHead { digest: heads[1].digest, ..heads[2] };
    let rewritten = store.verify_audit(Some(other)).await;
    assert!(matches!(rewritten, Err(VerifyAuditError::Rewritten { seq: 2 })), "{rewritten:?}");
}

async fn a_pruned_trail_says_so_and_verifies(store: &dyn Store) {
    let mut heads = Vec::new();
    for n in 1..=4 {
        store.append_audit(event("a", None, n)).await.unwrap();
        heads.push(store.audit_head().await.unwrap());
    }
    assert_eq!(store.prune_audit(AuditBound::through(0), usize::MAX, at(5), "ann").await.unwrap(), 0);
    assert_eq!(store.prune_audit(AuditBound::through(9), 0, at(5), "ann").await.unwrap(), 0, "bounded");
    assert_eq!(store.prune_audit(AuditBound::through(2), usize::MAX, at(5), "ann").await.unwrap(), 2);
    let left = store.audit(&AuditFilter::default(), 0, 9).await.unwrap();
    assert_eq!(left.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!((left[2].kind.as_str(), left[2].at), (AUDIT_PRUNED, at(5)));
    for head in heads {
        // Heads of what is gone hold as well.
        let report = store.verify_audit(Some(head)).await.unwrap();
        assert_eq!((report.pruned, report.head.seq), (2, 5));
    }
    store.prune_audit(AuditBound::through(4), usize::MAX, at(6), "ann").await.unwrap();
    store.append_audit(event("a", None, 7)).await.unwrap();
    let report = store.verify_audit(None).await.unwrap();
    assert_eq!((report.pruned, report.missing, report.head.seq), (4, 0, 7));
}

async fn what_is_too_large_is_told_of_and_takes_nothing_else_along(store: &dyn Store) {
    let huge =
        NewAuditEntry { body: json!("x".repeat(MAX_AUDIT_BYTES)).into(), ..event("huge", Some("r1"), 1) };
    let labels =
        NewAuditEntry { session: Some("s".repeat(MAX_AUDIT_BYTES * 2).into()), ..event("labels", None, 1) };
    let group = vec![event("a", None, 1), huge, labels, event("b", None, 1)];
    store.append_audit_all(group, Durability::Now).await.unwrap();
    let entries = store.audit(&AuditFilter::default(), 0, 9).await.unwrap();
    let kinds: Vec<&str> = entries.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["a", AUDIT_OMITTED, "labels", "b"]);
    assert_eq!(entries[1].body.to_value(), json!({ "bytes": MAX_AUDIT_BYTES + 2, "kind": "huge" }));
    assert_eq!(entries[1].run, Some("r1".into()), "it is still found by its run");
    let session = entries[2].session.as_ref().unwrap().as_str();
    assert!(session.len() < 256 && session.starts_with("sss"), "a long id fills no entry: {session}");
    let report = store.verify_audit(None).await.unwrap();
    assert_eq!((report.omitted, report.missing, report.lost), (1, 0, 0));
}

async fn pages_from_either_end_are_the_whole_trail(store: &dyn Store) {
    for n in 1..=20 {
        let kind = if n % 3 == 0 { "third" } else { "other" };
        store.append_audit(event(kind, None, n)).await.unwrap();
    }
    store.prune_audit(AuditBound::through(4), usize::MAX, at(30), "ann").await.unwrap();
    for filter in [
        AuditFilter::default(),
        AuditFilter { kind: Some("third".to_owned()), ..AuditFilter::default() },
        AuditFilter { since: Some(at(7)), until: Some(at(12)), ..AuditFilter::default() },
        AuditFilter { kind: Some("none".to_owned()), ..AuditFilter::default() },
    ] {
        let all = store.audit(&filter, 0, 99).await.unwrap();
        for limit in [1, 2, 7, 99] {
            let mut reversed = all.clone();
            reversed.reverse();
            assert_eq!(paged(store, &filter, AuditPlace::END, limit).await, reversed, "{filter:?} {limit}");
            assert_eq!(paged(store, &filter, AuditPlace::After(0), limit).await, all, "{filter:?} {limit}");
        }
        let before = paged(store, &filter, AuditPlace::Before(10), 3).await;
        assert!(before.iter().all(|entry| entry.seq < 10), "{before:?}");
        let after = paged(store, &filter, AuditPlace::After(10), 3).await;
        assert!(after.iter().all(|entry| entry.seq > 10), "{after:?}");
        assert_eq!(before.len() + after.len(), all.iter().filter(|entry| entry.seq != 10).count());
    }
    // What comes later is found where the last page ended.
    let page = store.audit_page(&AuditFilter::default(), AuditPlace::After(0), 99).await.unwrap();
    assert!(page.ended);
    let next = store.append_audit(event("late", None, 40)).await.unwrap();
    assert_eq!(store.audit_page(&AuditFilter::default(), page.next, 9).await.unwrap().entries, [next]);
}

async fn paged(store: &dyn Store, filter: &AuditFilter, from: AuditPlace, limit: usize) -> Vec<AuditEntry> {
    let (mut place, mut all) = (from, Vec::new());
    loop {
        let page = store.audit_page(filter, place, limit).await.unwrap();
        assert!(page.entries.len() <= limit);
        all.extend(page.entries);
        if page.ended {
            return all;
        }
        assert_ne!(page.next, place, "it goes on");
        place = page.next;
    }
}

#[tokio::test]
async fn reading_backwards_ends_where_all_is_older_and_a_clock_that_was_set_hides_nothing_near() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::new(folder.path().join("state.db"));
    let hour = 3_600_000;
    let old: Vec<_> = (0..5000).map(|n| event("old", None, n)).collect();
    store.append_audit_all(vec![event("new", None, 10 * hour)], Durability::Soon).await.unwrap();
    store.append_audit_all(old, Durability::Soon).await.unwrap();
    store.append_audit_all(vec![event("new", None, 11 * hour)], Durability::Soon).await.unwrap();
    // The clock was set back for a while.
    store
        .append_audit_all((0..1000).map(|n| event("old", None, n)).collect(), Durability::Soon)
        .await
        .unwrap();
    let since = AuditFilter { since: Some(at(9 * hour)), ..AuditFilter::default() };
    let page = store.audit_page(&since, AuditPlace::END, 99).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [5002]);
    assert!(page.is_older && !page.ended, "what is left was not read");
    assert!(matches!(page.next, AuditPlace::Before(before) if before > 100), "{:?}", page.next);
    // Whoever goes on finds what was written before the clock was set back.
    let page = store.audit_page(&since, page.next, 99).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1]);
    assert!(page.ended && !page.is_older);
}

#[tokio::test]
async fn a_page_reads_no_more_than_it_says() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::new(folder.path().join("state.db"));
    let many = usize::try_from(MOST_PAGE_READ).unwrap() + 10;
    let mut entries: Vec<_> = (0..many).map(|_| event("common", None, 1)).collect();
    entries[0] = event("rare", None, 1);
    for entries in entries.chunks(4000) {
        store.append_audit_all(entries.to_vec(), Durability::Soon).await.unwrap();
    }
    let rare = AuditFilter { kind: Some("rare".to_owned()), ..AuditFilter::default() };
    let page = store.audit_page(&rare, AuditPlace::END, 9).await.unwrap();
    assert_eq!((page.entries.len(), page.next, page.ended), (0, AuditPlace::Before(11), false));
    let page = store.audit_page(&rare, page.next, 9).await.unwrap();
    assert_eq!((page.entries.len(), page.ended), (1, true));
}

/// A trail of four in files.
async fn trail(path: &Path) -> SqliteStore {
    let store = SqliteStore::new(path);
    for n in 1..=4 {
        store.append_audit(event("a", (n % 2 == 0).then_some("r1"), n)).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_process_that_only_writes_entries_opens_no_database() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = trail(&path).await;
    assert_eq!(store.audit_head().await.unwrap().seq, 4);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_trail_never_lies_where_its_database_does() {
    for (database, trail) in
        [("a/state.db", "a/state.trail"), ("a/x", "a/x.trail"), ("a/b.trail", "a/b.trail.trail")]
    {
        assert_eq!(SqliteStore::new(database).trail(), Some(Path::new(trail)));
        assert_eq!(SqliteStore::trail_of(Path::new(database)), Path::new(trail));
    }
}

/// What filters look for in the bytes of entries leaves none out.
#[tokio::test]
async fn names_with_quotes_and_controls_are_found() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::new(folder.path().join("state.db"));
    for name in ["a\"b", "\u{1}\n", "\\", "ü\u{1f600}", "\",\"kind\":\"x"] {
        let entry = NewAuditEntry {
            kind: name.to_owned(),
            session: Some(name.into()),
            run: Some(name.into()),
            body: json!({
                "tool": name, "rules": [name], "agentId": name, "by": name, "workspace": name, "verdict": name,
            })
            .into(),
            ..event("a", None, 1)
        };
        let written = store.append_audit(entry).await.unwrap();
        let by = |kind: Option<&str>, session: Option<&str>, run: Option<&str>| AuditFilter {
            kind: kind.map(str::to_owned),
            session: session.map(Into::into),
            run: run.map(Into::into),
            ..AuditFilter::default()
        };
        let named = || Some(name.to_owned());
        for filter in [
            by(Some(name), None, None),
            by(None, Some(name), None),
            by(None, None, Some(name)),
            AuditFilter { tool: named(), ..AuditFilter::default() },
            AuditFilter { rule: named(), ..AuditFilter::default() },
            AuditFilter { agent: named(), ..AuditFilter::default() },
            AuditFilter { who: named(), ..AuditFilter::default() },
            AuditFilter { workspace: named(), ..AuditFilter::default() },
            AuditFilter { verdict: named(), ..AuditFilter::default() },
        ] {
            assert_eq!(
                store.audit(&filter, 0, 9).await.unwrap(),
                std::slice::from_ref(&written),
                "{filter:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_entry_is_proved_to_whoever_has_the_public_key() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = trail(&path).await;
    // A process that ends writes a checkpoint.
    drop(store);
    let store = SqliteStore::new(&path);
    let key = loop {
        let report = store.verify_audit(None).await.unwrap();
        if report.checkpoints.covered == 4 {
            break report.checkpoints.key.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    // The checkpoint is in the list of all before it is the newest.
    let proof: Proof = loop {
        match store.prove_audit(3).await {
            Err(ProveAuditError::NotProvable(why)) if why.contains("no checkpoint covers") => {}
            proof => break proof.unwrap().parse().unwrap(),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let entry = proof.entry.clone().unwrap();
    assert!(proof.proves(&entry, &key.parse().unwrap()));
    assert!(String::from_utf8(entry).unwrap().contains("\"n\":3"));
    for none in [0, 5] {
        assert!(matches!(store.prove_audit(none).await, Err(ProveAuditError::NotProvable(_))));
    }
}

#[tokio::test]
async fn what_is_unsigned_or_unchecked_is_told_whatever_time_the_first_entry_has() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = SqliteStore::new(&path);
    let yet_to_come = Timestamp::now().after(Duration::from_secs(3600));
    store.append_audit(NewAuditEntry { at: yet_to_come, ..event("a", None, 1) }).await.unwrap();
    let alone = store.verify_audit(None).await.unwrap();
    assert_eq!(alone.checkpoints.uncovered_since, Some(yet_to_come));
    assert!(!alone.is_proved(Timestamp::now()), "{alone:?}");
    store.append_audit(event("a", None, 2)).await.unwrap();
    let report = store.verify_audit(None).await.unwrap();
    assert_eq!(report.checkpoints.uncovered_since, Some(at(2)));
    assert!(!report.is_proved(Timestamp::now()), "{report:?}");
    // The newest checkpoint is compared with, also where the list of all is gone.
    drop(store);
    let store = SqliteStore::new(&path);
    while !folder.path().join("state.trail/checkpoint").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::fs::remove_file(folder.path().join("state.trail/checkpoints")).unwrap();
    std::fs::remove_file(folder.path().join("audit.key")).unwrap();
    let report = store.verify_audit(None).await.unwrap();
    assert_eq!((report.checkpoints.count, report.checkpoints.covered), (0, 2));
    assert!(!report.is_proved(Timestamp::now()), "{report:?}");
}

#[tokio::test]
async fn a_process_that_was_announced_says_that_it_stopped() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = SqliteStore::new(&path);
    store.announce_audit("test").await.unwrap();
    store.append_audit(event("a", None, 1)).await.unwrap();
    let reader = SqliteStore::new(&path);
    let running = reader.verify_audit(None).await.unwrap();
    assert!(running.processes.len() == 1 && running.processes[0].unended, "{running:?}");
    drop(store);
    while !reader.verify_audit(None).await.unwrap().processes.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let kinds = reader.audit(&AuditFilter::default(), 0, 9).await.unwrap();
    assert_eq!(kinds.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(), ["start", "a", "stop"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_changed_byte_is_found(place in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("state.db");
        block_on(async {
            let store = trail(&path).await;
            let head = store.audit_head().await.unwrap();
            let segment = store.trail().unwrap().join("entries/0000000000000000.log");
            let mut bytes = std::fs::read(&segment).unwrap();
            let at = place.index(bytes.len());
            bytes[at] ^= flip;
            std::fs::write(&segment, bytes).unwrap();
            let found = store.verify_audit(Some(head)).await;
            prop_assert!(matches!(found, Err(VerifyAuditError::BrokenAt { .. })), "{:?}", found);
            Ok(())
        })?;
    }
}
