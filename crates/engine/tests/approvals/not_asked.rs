//! What a call costs in the store about which nobody is asked: nothing.

use std::sync::Arc;

use backstop_engine::{Attendance, Engine, HookOptions};
use backstop_hooks::points::BeforeToolCall;
use backstop_hooks::{OwnerId, hook_fn};
use backstop_store::SqliteStore;
use tempfile::TempDir;

use crate::support::*;

/// A store makes its database with the first operation, so its file tells whether there was one.
#[tokio::test]
async fn a_call_about_which_nobody_is_asked_never_reaches_the_store() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let engine = Engine::builder().store(Arc::new(SqliteStore::new(&path))).build();
    let passes = hook_fn::<BeforeToolCall, _>(|_, _| Ok(None));
    engine.registry().on(passes, HookOptions::new(OwnerId::new("plugin")).id("passes")).unwrap();
    let verdict = permit(&engine, "ls", &Attendance::Nobody).await;
    assert!(verdict.permit.is_ok());
    assert!(!path.exists());
    ask_exactly(&engine, "asks", request());
    let verdict = permit(&engine, "ls", &Attendance::Nobody).await;
    assert!(verdict.permit.is_err());
    assert!(path.exists(), "a question is kept");
}
