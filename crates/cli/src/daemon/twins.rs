//! Two Backstops installed at once: the same event comes twice, and is judged once.
//!
//! The one that comes first decides; the other waits for it and says the same. A human is asked once, an allowance is
//! used up once, a call is counted once. Saying the same is never weaker than judging again.
//!
//! Only events that name their call have a twin: without a name, two events may be two calls.

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
        payload: &[u8],
        judge: impl Future<Output = Outcome>,
    ) -> Outcome {
        match self.cell(event, payload) {
            Some(outcome) => outcome.get_or_init(|| judge).await.clone(),
            None => judge.await,
        }
    }

    fn cell(&self, event: &ClientEvent, payload: &[u8]) -> Option<Arc<OnceCell<Outcome>>> {
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
        let key = Digest::of_text(&kind, &String::from_utf8_lossy(payload));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, seen| seen.at.elapsed() < APART);
        if seen.len() >= MOST {
            return None;
        }
        let new = || Seen { at: Instant::now(), outcome: Arc::default() };
        Some(Arc::clone(&seen.entry(key).or_insert_with(new).outcome))
    }
}
