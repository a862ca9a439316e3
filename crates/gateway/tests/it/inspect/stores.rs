//! A store that fails while a person is to be asked: nobody judged, so nothing passes, and no model hears of it.

use std::sync::Arc;
use std::time::Duration;

use backstop_gateway::inspect::{HookSettings, ToolCalls, Unasked};
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{ApprovalRequest, TimeoutBehavior};
use backstop_llm::Api;
use backstop_store::{ApprovalFilter, SqliteStore, Store};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use super::support::*;
use crate::support::Answer;

/// What is wrong with the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Questions can't be filed.
    NoQuestions,
    /// What was granted can't be read.
    NoGrants,
    /// Somebody writes, and does not come to an end.
    Locked,
    /// There is a folder where the file should be.
    NoFile,
}

impl Fault {
    pub(crate) const ALL: [Self; 4] = [Self::NoQuestions, Self::NoGrants, Self::Locked, Self::NoFile];
}

/// What no client may be told of a store.
pub(crate) const UNTOLD: [&str; 6] = ["backstop.db", "/tmp", "database", "marker", "approvals", "exec"];

/// A house over a file, in which `exec` is asked about, and who holds what is wrong with the file.
pub(crate) async fn house(folder: &TempDir, fault: Fault) -> (House, Option<Connection>) {
    let path = folder.path().join("backstop.db");
    let store = Arc::new(SqliteStore::with_busy_timeout(&path, Duration::from_millis(20)));
    let held = match fault {
        Fault::NoFile => {
            std::fs::create_dir(&path).unwrap();
            None
        }
        fault => {
            let store: &dyn Store = store.as_ref();
            store.approvals(ApprovalFilter::All, 1).await.unwrap();
            let other = Connection::open(&path).unwrap();
            match fault {
                Fault::NoQuestions => other.execute_batch("DROP TABLE approvals").unwrap(),
                Fault::NoGrants => other.execute_batch("DROP TABLE grants").unwrap(),
                Fault::Locked | Fault::NoFile => other.execute_batch("BEGIN IMMEDIATE").unwrap(),
            }
            Some(other)
        }
    };
    let house = House::over(store);
    house.judge::<BeforeToolCall>("asks", |event| {
        let request = ApprovalRequest::cut("run a marker?", "it says so");
        let request = request.timeout(Duration::from_secs(60), TimeoutBehavior::Deny).unwrap();
        (event.tool_name.canonical() == "exec").then(|| ToolCallOutcome::ask(request))
    });
    (house, held)
}

/// An answer that nobody could judge: an error of the wire that says when to come back, and no word of the model's.
fn is_unjudged(api: Api, stream: bool, answer: &Answer, context: &str) {
    let text = answer.text();
    assert!(text.contains("can't be reached"), "{context}: {text}");
    assert!(!text.contains("[backstop]"), "no words of the model: {context}: {text}");
    for gone in UNTOLD {
        assert!(!text.contains(gone), "{gone}: {context}: {text}");
    }
    if !stream {
        assert_eq!(answer.status(), 503, "{context}: {text}");
        assert!(answer.head().to_lowercase().contains("retry-after: 1"), "{context}: {text}");
        assert!(error_message(answer).is_string(), "{context}: {text}");
        return;
    }
    let (body, whole) = answer.body();
    assert!(whole, "{context}: {text}");
    let error = match api {
        Api::AnthropicMessages => "event: error",
        Api::OpenAiResponses => "event: error",
        Api::BedrockConverse => "erviceUnavailableException",
        Api::OpenAiChat | Api::Gemini => "\"error\"",
    };
    assert!(body.contains(error) || answer.status() == 503, "{context}: {text}");
}

#[tokio::test]
async fn a_store_that_fails_is_no_decision_about_a_call() {
    for fault in Fault::ALL {
        for unasked in [Unasked::Deny, Unasked::Wait] {
            for (api, stream) in forms() {
                let folder = TempDir::new().unwrap();
                let (house, held) = house(&folder, fault).await;
                let calls = json!([{"name": "exec", "arguments": {"command": "marker"}}]);
                let model = model(json!([{"repeat": true, "text": "I do it.", "tool_calls": calls}])).await;
                let settings = HookSettings {
                    tool_calls: ToolCalls::Judge(unasked),
                    refusals: 2,
                    ..HookSettings::default()
                };
                let gateway = house.gateway(&model.base_url(), settings).await;
                let answer = send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
                let context = format!("{fault:?} {unasked:?} {api} stream={stream}");
                is_unjudged(api, stream, &answer, &context);
                assert_eq!(model.requests().len(), 1, "the model is told nothing: {context}");
                assert!(!house.receipts.all().contains("backstop.db"), "{context}");
                drop(held);
            }
        }
    }
}
