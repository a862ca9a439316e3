//! What the suites share.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::conversation::Message;
use backstop_hooks::{Decision, Digest, SessionId, Severity, TimeoutBehavior};
use backstop_store::{
    GrantPlace, LeaseHolder, NewApproval, NewEntry, Session, SqliteStore, Store, Timestamp, preview,
};
use serde_json::json;
use tempfile::TempDir;

#[cfg(feature = "postgres")]
use crate::server::Server;

/// A new store of one form, and what must live as long as it.
pub(crate) struct Form {
    pub(crate) store: Arc<dyn Store>,
    _folder: Option<TempDir>,
    #[cfg(feature = "postgres")]
    _server: Option<Server>,
}

pub(crate) fn memory() -> Form {
    Form {
        store: Arc::new(SqliteStore::in_memory()),
        _folder: None,
        #[cfg(feature = "postgres")]
        _server: None,
    }
}

pub(crate) fn sqlite() -> Form {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::new(folder.path().join("state.db"));
    Form {
        store: Arc::new(store),
        _folder: Some(folder),
        #[cfg(feature = "postgres")]
        _server: None,
    }
}

#[cfg(feature = "postgres")]
pub(crate) fn postgres() -> Form {
    let server = Server::start();
    let folder = TempDir::new().unwrap();
    let store = server.store(folder.path());
    Form { store: Arc::new(store), _folder: Some(folder), _server: Some(server) }
}

/// One test per suite and form.
macro_rules! over_all_forms {
    ($($suite:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $suite() {
                super::$suite(&*crate::support::memory().store).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $suite() {
                super::$suite(&*crate::support::sqlite().store).await;
            })*
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            $(#[tokio::test]
            async fn $suite() {
                super::$suite(&*crate::support::postgres().store).await;
            })*
        }
    };
}
pub(crate) use over_all_forms;

/// Runs async code in a test that is not async, such as a property test.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn session(id: &str, key: &str, created: i64) -> Session {
    Session {
        id: id.into(),
        key: key.into(),
        agent: "main".into(),
        workspace: "/work".to_owned(),
        created_at: at(created),
        updated_at: at(created),
        ended: None,
        resumed_from: None,
        meta: json!({"theme": "dark"}).into(),
    }
}

/// Who writes in the tests.
pub(crate) fn me() -> LeaseHolder {
    LeaseHolder::new("me")
}

/// The session `s1`, leased to [`me`].
pub(crate) async fn begun(store: &dyn Store) -> SessionId {
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let lease = store.lease_session(&"s1".into(), &me(), Duration::from_secs(60), at(1)).await.unwrap();
    lease.session
}

pub(crate) fn entry(id: &str, text: &str) -> NewEntry {
    NewEntry {
        id: id.into(),
        run: Some("r1".into()),
        message: Message::user(text),
        at: at(5),
        tokens: Some(3),
    }
}

pub(crate) fn digest(of: &str) -> Digest {
    Digest::of_text("tool_call", of)
}

/// A question about `command`, asked at 1,000 and open until 2,000.
pub(crate) fn question(command: &str) -> NewApproval {
    NewApproval {
        agent: "main".into(),
        session_key: "chat".into(),
        workspace: None,
        session: "s1".into(),
        run: Some("r1".into()),
        host: None,
        client: None,
        call: "c1".into(),
        tool_name: "exec".into(),
        digest: digest(command),
        facts: None,
        title: "Run this?".into(),
        description: "It deletes things.".into(),
        severity: Severity::Critical,
        reasons: Vec::new(),
        place: GrantPlace::default(),
        preview: preview(&json!({"command": command})).shown,
        whole: None,
        unseen: false,
        masked: 0,
        masked_at: Vec::new(),
        starts: None,
        amounts: Vec::new(),
        allowed_decisions: vec![Decision::AllowOnce, Decision::AllowAlways, Decision::Deny],
        substitutes: Vec::new(),
        edited_from: None,
        given: None,
        created_at: at(1_000),
        expires_at: at(2_000),
        deadline: None,
        timeout_behavior: TimeoutBehavior::Deny,
        route: None,
        waiter: None,
    }
}
