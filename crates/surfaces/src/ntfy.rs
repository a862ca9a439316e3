//! ntfy: notices on a phone (docs.ntfy.sh/publish).
//!
//! Nobody is authenticated there, and whoever can read the topic reads what is sent. So a notice says that something waits, of which tool and
//! agent, and links to the console; neither arguments nor what hooks wrote about them are in it, and nothing is answered.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{Secret, Severity};
use backstop_store::ApprovalStatus;
use serde_json::{Value, json};
use url::Url;

use crate::asking::{Asker, Egress, bearer};
use crate::shown::{line, more_waits, until};
use crate::surface::{Ceiling, Message, Outcome, Surface, SurfaceError, SurfaceName, TEST};

const PATIENCE: Duration = Duration::from_secs(20);
const MOST_BYTES: usize = 64 << 10;

/// A topic of an ntfy server. Whoever knows the topic reads what is sent there, so it is not shown.
pub struct Ntfy {
    name: SurfaceName,
    server: Url,
    topic: [String; 1],
    token: Option<Secret>,
    asker: Asker,
}

impl fmt::Debug for Ntfy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ntfy").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Ntfy {
    /// Returns a topic of this server; with a token, where it wants one.
    pub fn new(name: SurfaceName, server: Url, topic: String, token: Option<Secret>, egress: Egress) -> Self {
        let asker = Asker::new(egress, PATIENCE, MOST_BYTES);
        Self { name, server, topic: [topic], token, asker }
    }

    async fn publish(&self, mut notice: Value) -> Result<String, SurfaceError> {
        if let Value::Object(notice) = &mut notice {
            let [topic] = &self.topic;
            notice.insert("topic".to_owned(), topic.as_str().into());
        }
        let token = match &self.token {
            Some(token) => Some(
                bearer(token.expose())
                    .ok_or_else(|| SurfaceError::never("the token can't stand in a header"))?,
            ),
            None => None,
        };
        let answer = self.asker.post(&self.server, token, notice.to_string().into_bytes()).await?;
        if !answer.status.is_success() {
            return Err(answer.refusal());
        }
        let said = answer.json();
        let id = said.as_ref().and_then(|said| said.get("id")?.as_str());
        Ok(line(id.unwrap_or_default(), 64))
    }
}

#[async_trait]
impl Surface for Ntfy {
    fn name(&self) -> &SurfaceName {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "ntfy"
    }

    fn ceiling(&self) -> Ceiling {
        Ceiling::Notice
    }

    fn places(&self) -> Cow<'_, [String]> {
        Cow::Borrowed(&self.topic)
    }

    fn room(&self) -> Option<usize> {
        None
    }

    async fn send(&self, message: &Message<'_>) -> Result<String, SurfaceError> {
        let request = &message.record.request;
        let (tool, agent) = (line(&request.tool_name.in_full(), 80), line(request.agent.as_str(), 80));
        let answer = message.answered_on.words();
        let more = more_waits(message.more).map(|more| format!(" {more}")).unwrap_or_default();
        let mut notice = json!({
            "title": format!("Approval wanted: {tool}"),
            "message": format!("{agent} waits until {}. {answer}{more}", until(request.expires_at)),
            "priority": match request.severity {
                Severity::Info => 3,
                Severity::Warning => 4,
                Severity::Critical => 5,
            },
        });
        if let (Value::Object(notice), Some(link)) = (&mut notice, message.link) {
            notice.insert("click".to_owned(), link.as_str().into());
            let view = json!([{ "action": "view", "label": "Open the console", "url": link.as_str() }]);
            notice.insert("actions".to_owned(), view);
        }
        self.publish(notice).await
    }

    async fn withdraw(&self, _place: &str, _reference: &str, outcome: &Outcome) -> Result<(), SurfaceError> {
        let (tool, agent) = (line(&outcome.tool, 80), line(&outcome.agent, 80));
        let ended = match outcome.status {
            ApprovalStatus::Allowed
            | ApprovalStatus::Used
            | ApprovalStatus::Denied
            | ApprovalStatus::Edited
            | ApprovalStatus::Responded => "was answered",
            _ => "is over",
        };
        let notice =
            json!({ "message": format!("The question about {tool} of {agent} {ended}."), "priority": 1 });
        self.publish(notice).await.map(drop)
    }

    async fn test(&self, _place: &str) -> Result<String, SurfaceError> {
        let id = self.publish(json!({ "message": TEST, "priority": 2 })).await?;
        Ok(format!("message {id}"))
    }
}
