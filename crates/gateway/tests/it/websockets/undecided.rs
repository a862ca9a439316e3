//! Calls that nobody has decided about, in all that is spoken on WebSockets: a person is waited for, or can't be asked.

use std::time::Duration;

use backstop_gateway::Gateway;
use backstop_gateway::inspect::{HookSettings, ToolCalls, Unasked};
use backstop_hooks::Decision;
use backstop_store::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::*;
use super::{gateway, live, realtime};
use crate::inspect::approvals;
use crate::inspect::stores::{self, Fault, UNTOLD};

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    Responses,
    Realtime,
    Live,
}

impl Spoken {
    const ALL: [Self; 3] = [Self::Responses, Self::Realtime, Self::Live];

    /// A provider that calls `exec` in its first answer, and calls nothing in the others.
    async fn provider(self) -> Provider {
        let call = |number: usize| (number == 0).then(|| ("exec", json!({"command": "marker"})));
        match self {
            Self::Responses => {
                Provider::start(move |number| Play::events(&answer("I clean up.", call(number)))).await
            }
            Self::Realtime => {
                realtime::provider(usize::MAX, move |number| {
                    realtime::spoken(&format!("resp_{number}"), "I clean up.", call(number))
                })
                .await
            }
            Self::Live => {
                live::provider((usize::MAX, true), move |number| {
                    let calls = call(number).map(|(name, args)| live::calls(&[("c1", name, args)]));
                    [live::said("I clean up."), calls.map_or_else(live::over, |calls| vec![calls])].concat()
                })
                .await
            }
        }
    }

    async fn open(self, gateway: &Gateway) -> Client {
        match self {
            Self::Responses => Client::open(gateway).await,
            Self::Realtime => realtime::open(gateway).await,
            Self::Live => live::open(gateway).await,
        }
    }

    async fn ask(self, client: &mut Client, text: &str) {
        match self {
            Self::Responses => client.ask(text).await,
            Self::Realtime => {
                client.tell(realtime::user(text)).await;
                client.tell(json!({"type": "response.create"})).await;
            }
            Self::Live => client.tell(live::user(text)).await,
        }
    }

    /// What comes until an answer is over, or the connection is; and how that ended.
    async fn answer(self, client: &mut Client) -> (String, Option<Goodbye>) {
        let mut said = String::new();
        loop {
            match client.next().await {
                Ok(message) => {
                    said.push_str(&message);
                    if self.is_last(&message) {
                        return (said, None);
                    }
                }
                Err(goodbye) => return (said, Some(goodbye)),
            }
        }
    }

    fn is_last(self, message: &str) -> bool {
        let told: Value = serde_json::from_str(message).unwrap();
        match self {
            Self::Responses | Self::Realtime => {
                ["response.completed", "response.failed", "response.done", "error"].contains(&&*kind(message))
            }
            Self::Live => told["serverContent"]["turnComplete"] == true || told.get("toolCall").is_some(),
        }
    }

    fn has_call(self, said: &str) -> bool {
        said.contains(if self == Self::Live { "\"functionCalls\"" } else { "\"function_call\"" })
    }
}

#[tokio::test]
async fn a_turn_waits_for_a_person_and_the_connection_goes_on() {
    for spoken in Spoken::ALL {
        for (decision, passes) in [(Decision::AllowOnce, true), (Decision::Deny, false)] {
            let provider = spoken.provider().await;
            let house = approvals::asking(Duration::from_secs(60));
            let gateway = gateway(&house, &provider, approvals::settings(Unasked::Wait)).await;
            let mut client = spoken.open(&gateway).await;
            spoken.ask(&mut client, "one").await;
            let record = approvals::question(&house).await;
            let store = house.engine.answer_store();
            store.resolve_approval(&record.id, decision, "a person", Timestamp::now()).await.unwrap();
            let (said, goodbye) = spoken.answer(&mut client).await;
            assert_eq!(goodbye, None, "{spoken:?} {passes}: {said}");
            assert_eq!(spoken.has_call(&said), passes, "{spoken:?}: {said}");
            assert_eq!(said.contains("denied by a human"), !passes, "{spoken:?}: {said}");
            spoken.ask(&mut client, "two").await;
            let (said, goodbye) = spoken.answer(&mut client).await;
            assert_eq!((spoken.has_call(&said), goodbye), (false, None), "{spoken:?} {passes}: {said}");
            assert!(said.contains("I cle"), "{spoken:?} {passes}: {said}");
        }
    }
}

#[tokio::test]
async fn a_store_that_fails_is_no_decision_about_a_call() {
    for spoken in Spoken::ALL {
        for fault in Fault::ALL {
            for unasked in [Unasked::Deny, Unasked::Wait] {
                let context = format!("{spoken:?} {fault:?} {unasked:?}");
                let folder = TempDir::new().unwrap();
                let (house, held) = stores::house(&folder, fault).await;
                let provider = spoken.provider().await;
                let settings = HookSettings {
                    tool_calls: ToolCalls::Judge(unasked),
                    refusals: 2,
                    ..HookSettings::default()
                };
                let gateway = gateway(&house, &provider, settings).await;
                let mut client = spoken.open(&gateway).await;
                spoken.ask(&mut client, "one").await;
                let (said, goodbye) = spoken.answer(&mut client).await;
                let told = format!("{said}{goodbye:?}");
                assert!(told.contains("can't be reached"), "{context}: {told}");
                assert!(!spoken.has_call(&said), "{context}: {said}");
                assert!(!told.contains("[backstop]"), "no words of the model: {context}: {told}");
                for gone in UNTOLD {
                    assert!(!told.contains(gone), "{gone}: {context}: {told}");
                }
                let asked = provider.heard().iter().filter(|said| asks(said)).count();
                assert_eq!(asked, 1, "the model is told nothing: {context}: {:?}", provider.heard());
                drop(held);
            }
        }
    }
}

/// Whether a provider is asked for an answer by this.
fn asks(said: &str) -> bool {
    let said: Value = serde_json::from_str(said).unwrap();
    said["type"] == "response.create"
        || said["clientContent"]["turnComplete"] == true
        || said.get("toolResponse").is_some()
}
