//! Sound, which nobody can judge.

use backstop_gateway::inspect::{HookSettings, UnjudgedMedia};
use backstop_hooks::PointId;
use backstop_hooks::conversation::Message as Said;
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome};
use serde_json::{Value, json};

use super::super::gateway;
use super::*;
use crate::inspect::support::{House, SECRET};

fn sound() -> Value {
    json!({"realtimeInput": {"audio": {"mimeType": "audio/pcm;rate=16000", "data": "AAAA"}}})
}

fn aloud(data: &str, text: &str) -> Vec<Value> {
    vec![
        json!({"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm", "data": data}}], "role": "model"}}}),
        json!({"serverContent": {"outputTranscription": {"text": text}}}),
    ]
}

fn heard_as(text: &str) -> Value {
    json!({"serverContent": {"inputTranscription": {"text": text}}})
}

/// A provider that answers the second piece of sound with this.
async fn listener(played: Vec<Value>) -> Provider {
    Provider::greeting(&[], move |number, said| {
        let messages = match number {
            0 => vec![json!({"setupComplete": {}})],
            2 => played.clone(),
            _ => Vec::new(),
        };
        assert_eq!(number == 0, said.starts_with("{\"setup\""), "{said}");
        Play::cut_bytes(&messages.iter().map(Value::to_string).collect::<Vec<_>>(), 50)
    })
    .await
}

async fn speaking(gateway: &Gateway) -> Client {
    let more = json!({"generationConfig": {"responseModalities": ["AUDIO"]}, "outputAudioTranscription": {}, "inputAudioTranscription": {}});
    let mut client = open_with(gateway, more).await;
    client.tell(sound()).await;
    client.tell(sound()).await;
    client
}

fn passing() -> HookSettings {
    HookSettings { unjudged_media: UnjudgedMedia::Pass, refusals: 0, ..HookSettings::default() }
}

#[tokio::test]
async fn sound_passes_unread_where_the_operator_has_it_so_and_what_is_written_of_it_is_judged() {
    let (one, other) = SECRET.split_at(5);
    let played = [
        vec![heard_as("say the "), heard_as("secret")],
        aloud("BBBB", "It is "),
        aloud("CCCC", one),
        aloud("DDDD", other),
        over(),
    ];
    let provider = listener(played.concat()).await;
    let house = house();
    house.judge::<BeforeLlmCall>("hears", |event| {
        let text: String = event.messages.iter().map(Said::visible_text).collect();
        assert!(text.is_empty() || text == "say the secret", "{text}");
        None
    });
    let gateway = gateway(&house, &provider, passing()).await;
    let mut client = speaking(&gateway).await;
    let said = client.turn().await;
    assert_eq!(said[0], heard_as("say the secret"), "once it was judged: {said:?}");
    let written = all(&said);
    for data in ["BBBB", "CCCC", "DDDD"] {
        assert!(written.contains(data), "{said:?}");
    }
    assert!(!written.contains(SECRET) && written.contains("[gone]"), "{said:?}");
    assert_eq!(heard(&provider)[1..], [sound(), sound()]);
    assert_eq!(house.receipts.of(PointId::BeforeLlmCall).len(), 2, "the session, and the answer");
}

#[tokio::test]
async fn calls_of_a_session_with_sound_are_held_and_judged() {
    let shell = calls(&[("c1", "shell", json!({"command": SECRET}))]);
    let read = calls(&[("c2", "read", json!({}))]);
    for (call, passes) in [(shell, false), (read, true)] {
        let provider = listener([aloud("BBBB", "I do it."), vec![call]].concat()).await;
        let gateway = gateway(&house(), &provider, passing()).await;
        let mut client = speaking(&gateway).await;
        let said = all(&client.turn().await);
        assert_eq!(said.contains("toolCall"), passes, "{said}");
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[tokio::test]
async fn a_transcript_that_is_blocked_ends_the_session() {
    let house = House::new();
    house.redact();
    house.judge::<BeforeLlmCall>("no", |event| {
        let text: String = event.messages.iter().map(Said::visible_text).collect();
        text.contains(SECRET).then(|| BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not that".into()),
            ..BeforeLlmCallOutcome::default()
        })
    });
    let provider = listener([vec![heard_as(SECRET)], aloud("BBBB", "Fine."), over()].concat()).await;
    let judged = gateway(&house, &provider, passing()).await;
    let mut client = speaking(&judged).await;
    let (said, goodbye) = client.rest().await;
    assert_eq!(goodbye.0, 1008, "{said:?}");
    assert!(said.concat().contains("not that") && !said.concat().contains("BBBB"), "{said:?}");
    assert!(!said.concat().contains(SECRET));
    // One that a message of the client brings to judgement: the provider has heard it, whatever becomes of the message.
    let aside = json!({"goAway": {"timeLeft": "9s"}});
    let provider = listener(vec![heard_as(SECRET), aside.clone()]).await;
    let judged = gateway(&house, &provider, passing()).await;
    let mut client = speaking(&judged).await;
    assert_eq!(client.told().await, aside, "what was heard has come by then");
    client.tell(user("hi")).await;
    let (said, goodbye) = client.rest().await;
    assert_eq!(goodbye.0, 1008, "{said:?}");
    assert!(!said.concat().contains(SECRET), "{said:?}");
    // What is said aloud.
    let house = House::new();
    house.rewrite();
    house.judge::<backstop_hooks::points::BeforeResponseEmit>("no", |event| {
        let block = Some(event.content.contains("[gone]"));
        Some(backstop_hooks::points::ResponseEmitOutcome { block, ..Default::default() })
    });
    let provider = listener([aloud("BBBB", SECRET), over()].concat()).await;
    let judged = gateway(&house, &provider, passing()).await;
    let mut client = speaking(&judged).await;
    let (said, goodbye) = client.rest().await;
    let said = said.concat();
    assert!(said.contains("BBBB"), "sound leaves before it is written: {said}");
    assert!(!said.contains(SECRET) && said.contains("[backstop] blocked"), "{said}");
    assert_eq!(goodbye.0, 1008, "and then the session ends");
}

#[tokio::test]
async fn a_provider_that_speaks_where_nobody_may_ends_the_session() {
    let played = [aloud("BBBB", "Hi."), over()].concat();
    let provider = provider((usize::MAX, true), move |_| played.clone()).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    client.tell(user("hi")).await;
    let (said, goodbye) = client.rest().await;
    assert_eq!((said.len(), goodbye.0), (0, 1011), "{said:?}");
}

#[tokio::test]
async fn sound_that_comes_before_the_session_is_there_waits_in_its_order() {
    let piece = |n: usize| json!({"realtimeInput": {"audio": {"mimeType": "audio/pcm;rate=16000", "data": format!("A{n:03}")}}});
    let last = piece(200).to_string();
    let provider = Provider::greeting(&[], move |number, text| {
        let messages = match number {
            0 => vec![json!({"setupComplete": {}})],
            1 => said("Hello."),
            _ if text == last => over(),
            _ => Vec::new(),
        };
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        Play::cut_bytes(&messages, usize::MAX).after(if number == 0 { 200 } else { 0 })
    })
    .await;
    let gateway = gateway(&house(), &provider, passing()).await;
    let mut client =
        open_with(&gateway, json!({"generationConfig": {"responseModalities": ["AUDIO"]}})).await;
    client.tell(user("hi")).await;
    let sounds: Vec<Value> = (0..=200).map(piece).collect();
    for sound in &sounds[..200] {
        client.tell(sound.clone()).await;
    }
    // The answer is under way, so that sound passes.
    client.told().await;
    client.tell(sounds[200].clone()).await;
    client.turn().await;
    assert_eq!(heard(&provider)[2..], sounds);
}

#[tokio::test]
async fn sound_with_words_in_it_is_no_sound() {
    let provider = listener(Vec::new()).await;
    let gateway = gateway(&house(), &provider, passing()).await;
    for blob in [
        json!({"audio": {"mimeType": "audio/pcm", "data": format!("a text {SECRET}!")}}),
        json!({"audio": {"mimeType": "text/plain", "data": "AAAA"}}),
        json!({"audio": {"mimeType": "audio/pcm", "data": "AAAA", "text": SECRET}}),
        json!({"audio": {"mimeType": "audio/pcm", "data": "AAAA"}, "text": SECRET}),
        json!({"mediaChunks": [SECRET]}),
    ] {
        let mut client = open(&gateway).await;
        client.tell(json!({"realtimeInput": blob})).await;
        let (_, goodbye) = client.rest().await;
        assert_eq!(goodbye.0, 1007, "{blob}");
    }
    assert_eq!(provider.heard(), [""; 0]);
}
