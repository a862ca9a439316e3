//! Two Backstops installed at once: the same event comes twice, and is judged once.
//!
//! The one that comes first decides; the other waits for it and says the same. A human is asked once, an allowance is
//! used up once, a call is counted once. Saying the same is never weaker than judging again.
//!
//! Only events that name their call have a twin: without a name, two events may be two calls. An event has one twin and
//! no more, in the same folder: what comes again after that is judged. The limit: a provider that gives two calls
//! the same name and the same arguments within moments has them taken for twins, so that what a human allowed once
//! may run twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use backstop::clients::{ClientEvent, Moment};
use backstop::hooks::Digest;
use tokio::sync::OnceCell;

use super::Said;
use crate::commands::hook::Unjudged;

/// Twins are started together. What comes later is another event.
const APART: Duration = Duration::from_secs(2);
/// The most events that are remembered; more are judged each.
const MOST: usize = 1024;

type Outcome = Result<Said, Unjudged>;

#[derive(Debug)]
struct Seen {
    at: Instant,
    /// Its twin has come.
    is_whole: bool,
    outcome: Arc<OnceCell<Outcome>>,
}

/// What came in the last moments.
#[derive(Debug, Default)]
pub(super) struct Twins {
    seen: Mutex<HashMap<Digest, Seen>>,
}

impl Twins {
    /// What came of the event: by `judge`, or by the one that was judging its twin already. One that is given up is
    /// judged by the other.
    pub(super) async fn once(
        &self,
        event: &ClientEvent,
        folder: &str,
        payload: &[u8],
        judge: impl Future<Output = Outcome>,
    ) -> Outcome {
        match self.cell(event, folder, payload) {
            Some(outcome) => outcome.get_or_init(|| judge).await.clone(),
            None => judge.await,
        }
    }

    fn cell(&self, event: &ClientEvent, folder: &str, payload: &[u8]) -> Option<Arc<OnceCell<Outcome>>> {
        let named = match &event.moment {
            Moment::ToolCall(used) | Moment::Permission(used) => used.id().is_some(),
            Moment::ToolResult(output) => output.call.id().is_some(),
            _ => false,
        };
        if !named {
            return None;
        }
        let frame = &event.frame;
        let kind = format!("{} {}", frame.client(), frame.event());
        let key = Digest::of_text(&kind, &format!("{folder}\0{}", String::from_utf8_lossy(payload)));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, seen| seen.at.elapsed() < APART);
        let is_full = seen.len() >= MOST;
        match seen.get_mut(&key) {
            Some(first) if first.is_whole => None,
            Some(first) => {
                first.is_whole = true;
                Some(Arc::clone(&first.outcome))
            }
            None if is_full => None,
            None => {
                let outcome = Arc::default();
                let first = Seen { at: Instant::now(), is_whole: false, outcome: Arc::clone(&outcome) };
                seen.insert(key, first);
                Some(outcome)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use backstop::clients::{Client, Reason, universal_deny};

    use super::*;
    use crate::commands::hook::read_event;

    #[tokio::test]
    async fn an_event_has_one_twin_in_its_folder() {
        let payload = br#"{"hook_event_name": "PreToolUse", "cwd": "/w", "tool_name": "Bash", "tool_use_id": "a", "tool_input": {"command": "ls"}}"#;
        let event = read_event(Client::Claude, payload, None, None).unwrap();
        let (twins, judged) = (Twins::default(), AtomicUsize::new(0));
        for (folder, so_often) in [("/w", 1), ("/w", 1), ("/w", 2), ("/elsewhere", 3)] {
            let judge = async {
                judged.fetch_add(1, Ordering::Relaxed);
                Ok(Said { answer: universal_deny(&Reason::new("no")), remark: None })
            };
            twins.once(&event, folder, payload, judge).await.map_err(|_| "unjudged").unwrap();
            assert_eq!(judged.load(Ordering::Relaxed), so_often, "{folder}");
        }
    }
}
