//! What a client or a provider says that is in no list, or in no order.

use backstop_gateway::inspect::HookSettings;
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome};
use serde_json::{Value, json};

use super::super::gateway;
use super::*;
use crate::inspect::adversarial::denying;
use crate::inspect::support::{House, SECRET};

#[tokio::test]
async fn a_field_that_nobody_knows_is_a_call_of_that_name() {
    for frame in [
        json!({"futureCall": {"command": SECRET}}),
        json!({"serverContent": {"futureCall": {"command": SECRET}}}),
        json!({"serverContent": {"modelTurn": {"parts": [{"futureCall": {"command": SECRET}}]}}}),
        json!({"serverContent": {"modelTurn": {"parts": [], "futureCall": SECRET}}}),
    ] {
        for (denied, size) in [("futureCall", 5), ("futureCall", usize::MAX), ("other", 5)] {
            let played = [said("Hi."), vec![frame.clone()], over()].concat();
            let provider = provider((size, true), move |_| played.clone()).await;
            let house = House::new();
            house.withhold(denied);
            let gateway = gateway(&house, &provider, HookSettings::default()).await;
            let mut client = open(&gateway).await;
            let said = client.talk(user("hi")).await;
            assert_eq!(all(&said).contains(SECRET), denied == "other", "{frame}: {said:?}");
            assert_eq!(all(&said).contains("withheld `futureCall`"), denied != "other", "{frame}: {said:?}");
        }
    }
}

#[tokio::test]
async fn a_frame_that_readers_take_differently_ends_the_session() {
    let call = json!({"functionCalls": [{"id": "c1", "name": "shell", "args": {"command": SECRET}}]});
    let turn = json!({"parts": [{"text": SECRET}]});
    for frame in [
        json!({"ToolCall": call}),
        json!({"tool_call": call}),
        json!({"toolCall": {"function_calls": call["functionCalls"]}}),
        json!({"toolCall": {"functionCalls": SECRET}}),
        json!({"server_content": {"modelTurn": turn}}),
        json!({"serverContent": {"model_turn": turn}}),
        json!({"serverContent": {"finishMessage": SECRET}}),
        json!({"serverContent": {"safetyRatings": SECRET}}),
        json!({"serverContent": {"turnComplete": SECRET}}),
        json!({"serverContent": {"turnCompleteReason": format!("a text {SECRET}")}}),
        json!({"serverContent": {"interactionStatus": {"x": SECRET}}}),
        json!({"serverContent": {"modelTurn": {"parts": [], "finishMessage": SECRET}}}),
        json!({"serverContent": {"modelTurn": SECRET}}),
        json!({"serverContent": {"outputTranscription": SECRET}}),
        json!({"serverContent": {"inputTranscription": {"text": SECRET}}}),
        json!({"serverContent": {"modelTurn": {"parts": [{"text": "x", "audioTranscription": {"text": SECRET}}]}}}),
        json!({"modelStatus": SECRET}),
        json!({"promptFeedback": {"blockReasonMessage": SECRET}}),
        json!({"error": {"message": SECRET}}),
        json!({"goAway": {"timeLeft": format!("says {SECRET}")}}),
        json!({"sessionResumptionUpdate": {"newHandle": format!("says {SECRET}")}}),
        json!({"usageMetadata": {"promptTokenCount": format!("says {SECRET}")}}),
        json!({"usageMetadata": {"candidatesTokenCount": 1, "says": SECRET}}),
        json!({"voiceActivity": {"says": format!("a text {SECRET}")}}),
        json!({"toolCallCancellation": {"ids": [], "says": SECRET}}),
        json!(SECRET),
    ] {
        for played in [vec![frame.clone()], [answer("Hi."), vec![frame.clone()]].concat()] {
            let provider = provider((usize::MAX, true), move |_| played.clone()).await;
            let gateway = gateway(&denying(), &provider, HookSettings::default()).await;
            let mut client = open(&gateway).await;
            client.tell(user("hi")).await;
            let (said, goodbye) = client.rest().await;
            assert!(!said.concat().contains(SECRET) && !goodbye.1.contains(SECRET), "{frame}: {said:?}");
            assert_eq!(goodbye.0, 1011, "{frame}: {said:?} {goodbye:?}");
        }
    }
    let twice = format!("{{\"toolCall\":{{}},\"toolCall\":{call}}}");
    let setup = json!({"setupComplete": {}}).to_string();
    let provider = Provider::greeting(&[], move |n, _| {
        Play::events(if n == 0 { std::slice::from_ref(&setup) } else { std::slice::from_ref(&twice) })
    })
    .await;
    let gateway = gateway(&denying(), &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    client.tell(user("hi")).await;
    let (said, goodbye) = client.rest().await;
    assert_eq!((said.len(), goodbye.0), (0, 1011));
}

#[tokio::test]
async fn what_a_client_says_that_is_in_no_list_ends_the_session() {
    let provider = provider((usize::MAX, true), |_| answer("Done.")).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let text = json!([{"role": "user", "parts": [{"text": SECRET}]}]);
    for (message, is_first) in [
        (user(SECRET), true),
        (setup(json!({})), false),
        (setup(json!({"model": "tunedModels/x"})), true),
        (setup(json!({"model": "models/a:b"})), true),
        (setup(json!({"model": "projects/p/locations/l/publishers/other/models/x"})), true),
        (setup(json!({"generationConfig": {"responseModalities": ["AUDIO"]}})), true),
        (setup(json!({"generationConfig": {}})), true),
        (setup(json!({"system_instruction": {"parts": [{"text": SECRET}]}})), true),
        (setup(json!({"contents": text})), true),
        (json!({"contextUpdate": {"systemInstruction": {"parts": [{"text": SECRET}]}}}), false),
        (json!({"clientContent": {"turns": text, "turnComplete": true, "other": SECRET}}), false),
        (json!({"clientContent": {"turns": SECRET, "turnComplete": true}}), false),
        (json!({"client_content": {"turns": text, "turnComplete": true, "turn_complete": true}}), false),
        (json!({"clientContent": {"turns": text, "turnComplete": true, "turn_complete": false}}), false),
        (json!({"ClientContent": {"turns": text, "turnComplete": true}}), false),
        (json!({"tool_response": {"functionResponses": [], "function_responses": []}}), false),
        (json!({"clientContent": {"turns": text}, "toolResponse": {"functionResponses": []}}), false),
        (json!({"realtimeInput": {"text": SECRET, "other": SECRET}}), false),
        (json!({"realtimeInput": {"audio": {"mimeType": "audio/pcm", "data": "AAAA"}}}), false),
        (json!({"realtimeInput": {"mediaChunks": [{"mimeType": "image/png", "data": "AAAA"}]}}), false),
        (json!({"realtimeInput": {"activityStart": {"says": SECRET}}}), false),
        (json!({"realtimeInput": {"activityEnd": {}}}), false),
        (json!({"toolResponse": {"functionResponses": [{"id": "c"}], "other": SECRET}}), false),
        (json!({}), false),
        (json!([]), false),
    ] {
        let mut client = if is_first {
            Client::try_open(&gateway, PATH, "").await.unwrap_or_else(|e| panic!("{e}"))
        } else {
            open(&gateway).await
        };
        client.tell(message.clone()).await;
        let (said, goodbye) = client.rest().await;
        assert_eq!((said.len(), goodbye.0), (0, 1007), "{message}: {said:?} {goodbye:?}");
        assert!(goodbye.1.starts_with("backstop: "), "{message}: {goodbye:?}");
    }
    assert_eq!(provider.heard(), [""; 0]);
}

#[tokio::test]
async fn a_setup_that_nobody_knows_is_judged_as_a_tool() {
    let provider = provider((usize::MAX, true), |_| answer("Done.")).await;
    for (more, passes) in [
        (json!({"futureTools": {"x": 1}}), false),
        (json!({"avatarConfig": {"says": "a text of words"}}), false),
        (json!({"avatarConfig": {"avatarName": "Kore"}}), true),
    ] {
        let house = House::new();
        house.judge::<BeforeLlmCall>("tools", |event| {
            let has_some =
                event.tools.iter().any(|tool| ["futureTools", "avatarConfig"].contains(&&*tool.name));
            has_some.then(|| BeforeLlmCallOutcome { block: Some(true), ..Default::default() })
        });
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        let mut client = open_with(&gateway, more.clone()).await;
        let said = client.talk(user("hi")).await;
        assert_eq!(text_of(&said) == "Done.", passes, "{more}: {said:?}");
    }
}

/// An event of a stream of Gemini as messages of Live: its contents as a turn, its calls in the frame of their own.
pub(in super::super) fn frames(event: &[u8]) -> Vec<Vec<u8>> {
    let Ok(Value::Object(mut root)) = serde_json::from_slice(event) else {
        return vec![[&b"{\"serverContent\":{\"modelTurn\":"[..], event, b"}}"].concat(), event.to_vec()];
    };
    let mut messages = Vec::new();
    let candidates = root.remove("candidates").unwrap_or_default();
    for candidate in candidates.as_array().cloned().unwrap_or_default() {
        let Value::Object(mut candidate) = candidate else {
            messages.push(json!({"serverContent": candidate}));
            continue;
        };
        let content = candidate.remove("content").unwrap_or_default();
        let parts = content["parts"].as_array().cloned().unwrap_or_default();
        let calls: Vec<Value> = parts.iter().filter_map(|part| part.get("functionCall").cloned()).collect();
        let is_over = candidate.remove("finishReason").is_some();
        candidate.retain(|key, _| !["index", "safetyRatings", "avgLogprobs"].contains(&key.as_str()));
        candidate.insert("modelTurn".to_owned(), content);
        messages.push(json!({"serverContent": candidate}));
        if !calls.is_empty() {
            messages.push(json!({"toolCall": {"functionCalls": calls}}));
        }
        if is_over {
            messages.push(json!({"serverContent": {"turnComplete": true}}));
        }
    }
    root.retain(|key, _| !["usageMetadata", "modelVersion", "responseId"].contains(&key.as_str()));
    messages.extend(root.into_iter().map(|(key, value)| json!({key: value})));
    messages.iter().map(|message| message.to_string().into_bytes()).collect()
}

/// The part of the corpus that is of this wire alone.
pub(in super::super) fn own_corpus() -> Vec<(String, Vec<Vec<u8>>)> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../llm/tests/adversarial/live.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let case = |case: &Value| {
        let frames = case["frames"].as_array().unwrap().iter();
        let frames = frames.map(|frame| match frame.as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => frame.to_string().into_bytes(),
        });
        (format!("live: {}", case["name"].as_str().unwrap()), frames.collect())
    };
    cases.iter().map(case).collect()
}
