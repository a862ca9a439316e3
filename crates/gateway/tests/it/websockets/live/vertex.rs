//! Sessions of Gemini Live at Vertex AI, and by its SDKs.

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Cloud, Credential, Settings};
use backstop_hooks::PointId;
use serde_json::{Value, json};

use super::*;
use crate::inspect::support::SECRET;
use crate::support::{secret, start};

const AT_VERTEX: &str = "/ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent";
const MODELS: &str = "projects/ours/locations/europe-west1/publishers/google/models";

/// Settings in which Gemini is asked at Vertex AI.
fn at_vertex(url: &str) -> Settings {
    let mut settings = open_settings(url);
    let provider = settings.providers.get_mut("gemini").unwrap();
    provider.credential = Credential::Key(secret("cloud-key"));
    provider.cloud = Some(Cloud::Vertex { project: "ours".to_owned(), region: "europe-west1".to_owned() });
    settings
}

/// What a client says first that names its model like this.
fn setup_of(model: &str) -> Value {
    json!({"setup": {"model": model, "generationConfig": {"responseModalities": ["TEXT"]}}})
}

#[tokio::test]
async fn a_session_goes_to_the_operators_project() {
    let theirs = "projects/theirs/locations/us-east5/publishers/google/models/gemini-live";
    for (path, model, version) in [
        // Who speaks as the maker has it is sent on in the words of the cloud.
        (PATH, "models/gemini-live", "v1beta1"),
        (AT_VERTEX, theirs, "v1"),
        (&*AT_VERTEX.replace(".v1.", ".v1beta1."), "publishers/google/models/gemini-live", "v1beta1"),
    ] {
        let withheld = calls(&[("c1", "shell", json!({"command": SECRET}))]);
        let turns = [[said(&format!("It is {SECRET}.")), over()].concat(), vec![withheld], answer("Done.")];
        let provider = provider((7, true), move |n| turns[n].clone()).await;
        let house = house();
        let settings = HookSettings { refusals: 0, ..HookSettings::default() };
        let hooks = Hooks::new(house.engine.clone(), settings).unwrap();
        let gateway = start(at_vertex(&provider.url()), hooks).await.unwrap();
        let mut client = open_at(&gateway, path, setup_of(model)).await;

        assert_eq!(text_of(&client.talk(user("tell it")).await), "It is [gone].", "{path}");
        let second = client.talk(user("clean up")).await;
        assert!(text_of(&second).contains("[backstop] withheld `shell`"), "{path}: {second:?}");
        assert!(!all(&second).contains(SECRET) && !all(&second).contains("toolCall"), "{path}: {second:?}");
        assert_eq!(text_of(&client.talk(user("and now")).await), "Done.", "{path}");

        let head = provider.heads.lock().unwrap().concat();
        let address = format!("/ws/google.cloud.aiplatform.{version}.LlmBidiService/BidiGenerateContent");
        assert!(head.starts_with(&format!("GET {address} HTTP/1.1\r\n")), "{path}: {head}");
        assert!(head.contains("\r\nauthorization: Bearer cloud-key\r\n"), "{path}: {head}");
        let heard = heard(&provider);
        assert_eq!(heard[0]["setup"]["model"], format!("{MODELS}/gemini-live"), "{path}");
        assert_eq!(heard[1], user("tell it"), "{path}");
        assert_eq!(house.receipts.of(PointId::BeforeLlmCall).len(), 3, "{path}");
    }
}

#[tokio::test]
async fn a_client_of_vertex_is_answered_by_the_maker() {
    let provider = provider((usize::MAX, true), |_| answer("Done.")).await;
    let house = house();
    let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
    let mut settings = open_settings(&provider.url());
    settings.providers.get_mut("gemini").unwrap().credential = Credential::Key(secret("makers-key"));
    let gateway = start(settings, hooks).await.unwrap();
    let mut client = open_at(&gateway, AT_VERTEX, setup_of("publishers/google/models/gemini-live")).await;
    assert_eq!(text_of(&client.talk(user("hi")).await), "Done.");
    let head = provider.heads.lock().unwrap().concat();
    assert!(head.starts_with(&format!("GET {PATH}")), "{head}");
    assert_eq!(heard(&provider)[0]["setup"]["model"], "models/gemini-live");
}
