//! Text that was taken out is gone from the files, byte by byte.

use std::fs;
use std::path::{Path, PathBuf};

use backstop_hooks::Substitute;
use backstop_hooks::conversation::Message;
use backstop_store::{
    ApprovalStore as _, AuditStore as _, Change, Deletion, DeletionCause, Erasure, NewApproval,
    PersonsAnswer, RetentionStore as _, SessionStore as _, SqliteStore, TranscriptStore as _,
};
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{at, begun, block_on, entry, me, question};

const MARK: &str = "hush-hush-5c1e77";

fn files(folder: &Path) -> Vec<PathBuf> {
    let inside = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    inside.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

pub(crate) fn found_in_files(folder: &Path, needle: &str) -> bool {
    files(folder).iter().any(|file| {
        let bytes = fs::read(file).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
    })
}

async fn opened(folder: &Path) -> SqliteStore {
    let store = SqliteStore::new(folder.join("state.db"));
    begun(&store).await;
    store
}

#[tokio::test]
async fn replaced_removed_and_compacted_text_is_gone() {
    let folder = TempDir::new().unwrap();
    let store = opened(folder.path()).await;
    let s1 = "s1".into();
    let marked: Vec<_> =
        (0..3).map(|n| entry(&format!("m{n}"), &format!("{MARK} {}", "x".repeat(n * 9_000)))).collect();
    store.append(&s1, &me(), marked).await.unwrap();
    assert!(found_in_files(folder.path(), MARK), "or the search proves nothing");
    let changes = vec![
        Change::Replace { id: "m2".into(), message: Message::user("redacted") },
        Change::Remove { id: "m1".into() },
        Change::Compact { through: 1, summary: entry("sum", "shorter") },
    ];
    assert_eq!(store.apply(&s1, &me(), changes).await.unwrap(), Erasure::Complete);
    assert!(!found_in_files(folder.path(), MARK));
    assert_eq!(store.transcript(&s1).await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_erased_preview_is_gone() {
    let folder = TempDir::new().unwrap();
    let store = opened(folder.path()).await;
    let asked = store.create_approval(question(MARK)).await.unwrap();
    assert!(found_in_files(folder.path(), MARK));
    store.erase_preview(&asked.id).await.unwrap();
    assert!(!found_in_files(folder.path(), MARK));
}

#[tokio::test]
async fn what_a_person_put_in_the_place_of_a_call_is_gone_once_it_was_taken() {
    let folder = TempDir::new().unwrap();
    let store = opened(folder.path()).await;
    let asked = NewApproval { substitutes: vec![Substitute::Respond], ..question("ls") };
    let asked = store.create_approval(asked).await.unwrap();
    let answer = PersonsAnswer::respond(MARK, "me", at(1_500)).unwrap();
    store.answer_approval(&asked.id, answer).await.unwrap();
    assert!(found_in_files(folder.path(), MARK));
    store.take_given(&asked.id, &asked.request.digest, at(1_600)).await.unwrap();
    assert!(!found_in_files(folder.path(), MARK));
}

#[tokio::test]
async fn a_deleted_session_is_gone() {
    let folder = TempDir::new().unwrap();
    let store = opened(folder.path()).await;
    store.append(&"s1".into(), &me(), vec![entry("m1", MARK)]).await.unwrap();
    store.create_approval(question(MARK)).await.unwrap();
    assert!(found_in_files(folder.path(), MARK));
    let why = Deletion { cause: DeletionCause::Asked, by: "me".to_owned(), at: at(90_000) };
    let deleted = store.delete_session(&"s1".into(), why).await.unwrap();
    assert_eq!(deleted.erasure, Erasure::Complete);
    assert!(!found_in_files(folder.path(), MARK));
}

#[tokio::test]
async fn a_reader_delays_erasure_and_cannot_prevent_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    opened(folder.path()).await.append(&"s1".into(), &me(), vec![entry("m1", MARK)]).await.unwrap();
    let store = SqliteStore::with_busy_timeout(&path, std::time::Duration::from_millis(20));
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM entries;").unwrap();
    let gone = store.apply(&"s1".into(), &me(), vec![Change::Remove { id: "m1".into() }]).await.unwrap();
    assert_eq!(gone, Erasure::Pending);
    assert!(store.transcript(&"s1".into()).await.unwrap().is_empty(), "out of the transcript at once");
    drop(reader);
    // The next operation of any process makes up for it.
    SqliteStore::new(&path).session(&"s1".into()).await.unwrap();
    assert!(!found_in_files(folder.path(), MARK));
}

#[tokio::test]
async fn the_space_of_what_was_taken_out_comes_back() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = opened(folder.path()).await;
    let s1 = "s1".into();
    for n in 0..40 {
        store
            .append(&s1, &me(), vec![entry(&format!("m{n}"), &format!("{MARK}{}", "x".repeat(20_000)))])
            .await
            .unwrap();
    }
    let compact = Change::Compact { through: 39, summary: entry("sum", "short") };
    store.apply(&s1, &me(), vec![compact]).await.unwrap();
    let before = fs::metadata(&path).unwrap().len();
    store.reclaim().await.unwrap();
    let after = fs::metadata(&path).unwrap().len();
    assert!(after + 39 * 20_000 < before, "{before} {after}");
    assert_eq!(store.transcript(&s1).await.unwrap().len(), 2);
    store.apply(&s1, &me(), vec![Change::Remove { id: "m39".into() }]).await.unwrap();
    assert!(!found_in_files(folder.path(), MARK));
    store.reclaim().await.unwrap();
    assert!(store.verify_audit(None).await.is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Pages split, overflow, merge and move; nothing may be left in the gaps.
    #[test]
    fn no_layout_of_pages_keeps_what_was_taken_out(
        sizes in prop::collection::vec((0..2_u8, prop_oneof![0..300_usize, 300..5_000_usize]), 1..80),
        grow in prop::collection::vec((any::<prop::sample::Index>(), 0..6_000_usize), 0..12),
        reclaimed in any::<bool>(),
    ) {
        let folder = TempDir::new().unwrap();
        block_on(async {
            let store = opened(folder.path()).await;
            let s1 = "s1".into();
            let id = |n: usize| format!("m{n}");
            for (n, (marked, size)) in sizes.iter().enumerate() {
                let text = if *marked == 1 { format!("{MARK}{}", "y".repeat(*size)) } else { "z".repeat(*size) };
                store.append(&s1, &me(), vec![entry(&id(n), &text)]).await.unwrap();
            }
            let regrown = grow.iter().map(|(index, size)| {
                let n = index.index(sizes.len());
                Change::Replace { id: id(n).into(), message: Message::user(format!("{MARK}{}", "w".repeat(*size))) }
            });
            store.apply(&s1, &me(), regrown.collect()).await.unwrap();
            if reclaimed {
                store.reclaim().await.unwrap();
            }
            for (n, entry) in store.transcript(&s1).await.unwrap().into_iter().enumerate() {
                if entry.message.visible_text().contains(MARK) {
                    let change = match n % 2 {
                        0 => Change::Remove { id: entry.id },
                        _ => Change::Replace { id: entry.id, message: Message::user("-") },
                    };
                    store.apply(&s1, &me(), vec![change]).await.unwrap();
                }
            }
            prop_assert!(!found_in_files(folder.path(), MARK));
            Ok(())
        })?;
    }
}
