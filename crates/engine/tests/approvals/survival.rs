//! What a killed process leaves behind never allows anything by itself.

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::Attendance;
use backstop_hooks::{Decision, TimeoutBehavior};
use backstop_store::{ApprovalStatus, SqliteStore, Store, Timestamp};

use crate::support::*;

/// A row that was left pending as by `kill -9` (its process is gone and nothing cleaned up), past its
/// deadline.
async fn abandoned(behavior: TimeoutBehavior) -> (tempfile::TempDir, Arc<dyn Store>) {
    let form = sqlite();
    let store = Arc::clone(&form.store);
    let process = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (engine, _) = asking(Arc::clone(&store), waiting(400, behavior));
            let call = permit(&engine, "ls", &Attendance::Queue);
            tokio::select! {
                _ = call => panic!("it should still wait"),
                row = pending(&store) => row.id,
            }
        });
        // Dropped with its runtime gone: nobody cancels.
        runtime.shutdown_background();
    });
    process.join().unwrap();
    let folder = form.folder.unwrap();
    let again: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path().join("state.db")));
    let deadline = rows(&again).await[0].request.expires_at;
    tokio::time::sleep(Timestamp::now().until(deadline) + Duration::from_millis(2)).await;
    (folder, again)
}

#[tokio::test]
async fn a_row_left_pending_never_allows_after_its_deadline() {
    for behavior in [TimeoutBehavior::Deny, TimeoutBehavior::Allow] {
        let (_folder, store) = abandoned(behavior).await;
        let row = rows(&store).await.remove(0);
        assert_eq!(row.state.status(), ApprovalStatus::Pending);
        let late = store.resolve_approval(&row.id, Decision::AllowOnce, "me", Timestamp::now()).await;
        assert!(late.is_err());
        // The next call of the same kind is asked about anew.
        let (engine, _) = asking(Arc::clone(&store), request());
        permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
        assert_eq!(rows(&store).await.len(), 2);
    }
}

#[tokio::test]
async fn a_row_left_pending_can_still_become_a_code() {
    let (_folder, store) = abandoned(TimeoutBehavior::Deny).await;
    let row = rows(&store).await.remove(0);
    store.allow_later(&row.id, &"me".into(), Duration::from_secs(60), Timestamp::now()).await.unwrap();
    let (engine, _) = asking(Arc::clone(&store), request());
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
    let row = store.approval(&row.id).await.unwrap().unwrap();
    assert_eq!(row.state.status(), ApprovalStatus::Used);
}
