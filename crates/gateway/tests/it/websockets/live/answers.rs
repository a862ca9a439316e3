//! What passes, what is judged, and what is told of it.

use std::sync::{Arc, Mutex};

use backstop_gateway::Credential;
use backstop_gateway::inspect::{BlockedForm, HookSettings};
use backstop_hooks::PointId;
use backstop_hooks::conversation::Message as Said;
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome};
use serde_json::{Value, json};

use super::super::{CUTS, gateway, hooked};
use super::*;
use crate::inspect::support::{House, SECRET};
use crate::support::secret;

#[tokio::test]
async fn what_is_allowed_passes_at_every_fragmentation() {
    for (size, is_binary) in CUTS.iter().flat_map(|size| [(*size, true), (*size, false)]) {
        let read = calls(&[("c1", "read", json!({"path": "a b"}))]);
        let turns = [[said("Hello th\u{e9}re."), vec![read.clone()]].concat(), answer("Done.")];
        let (played, house) = (turns.clone(), house());
        let provider = provider((size, is_binary), move |n| played[n].clone()).await;
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        let mut client = open(&gateway).await;
        assert_eq!(client.talk(user("hi")).await, turns[0], "{size}");
        client.send(binary_message(&results(&["c1"]))).await;
        let second = client.turn().await;
        assert_eq!(text_of(&second), "Done.", "{size}");
        let end = json!({"generationComplete": true, "turnComplete": true});
        let last = second.last().unwrap();
        assert_eq!(last["serverContent"], end);
        assert_eq!(last["usageMetadata"], over()[1]["usageMetadata"]);
        let expected = [setup(json!({})), user("hi"), results(&["c1"])];
        assert_eq!(heard(&provider), expected, "{size}");
        assert_eq!(house.receipts.of(PointId::BeforeLlmCall).len(), 2);
    }
}

#[tokio::test]
async fn what_nobody_looks_at_passes_as_well() {
    let call = calls(&[("c1", "shell", json!({"command": SECRET}))]);
    let played = [said("Hi."), vec![call]].concat();
    let turn = played.clone();
    let provider = provider((5, true), move |_| turn.clone()).await;
    let gateway =
        crate::support::start(open_settings(&provider.url()), backstop_gateway::Transparent).await.unwrap();
    let mut client = open(&gateway).await;
    for _ in 0..2 {
        assert_eq!(client.talk(user("hi")).await, played);
    }
}

#[tokio::test]
async fn a_provider_hears_nothing_before_it_was_judged_and_of_a_session_once() {
    let provider = provider((usize::MAX, true), |_| answer("Done.")).await;
    let house = house();
    house.judge::<BeforeLlmCall>("tools", |event| {
        let kept = event.tools.iter().map(|tool| tool.name.clone()).filter(|name| name != "exec");
        let tools = backstop_hooks::points::ToolNames::new(kept);
        Some(BeforeLlmCallOutcome { tools: Some(tools), ..BeforeLlmCallOutcome::default() })
    });
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let tool = |name: &str| json!({"name": name, "description": "x", "parameters": {"type": "OBJECT"}});
    let more = json!({
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "tools": [{"functionDeclarations": [tool("read"), tool("exec")]}],
        "realtimeInputConfig": {"automaticActivityDetection": {"disabled": true}},
        "sessionResumption": {"handle": "abc-123"},
        "contextWindowCompression": {"slidingWindow": {}},
    });
    let mut client = open_with(&gateway, more.clone()).await;
    client.tell(json!({"clientContent": {"turns": [{"role": "user", "parts": [{"text": "first"}]}]}})).await;
    client.tell(json!({"realtimeInput": {"activityStart": {}}})).await;
    client.tell(json!({"realtimeInput": {"text": "second"}})).await;
    assert_eq!(provider.heard(), [""; 0]);
    assert_eq!(text_of(&client.talk(json!({"realtimeInput": {"activityEnd": {}}})).await), "Done.");
    let said = client.talk(user("hi")).await;
    assert_eq!(text_of(&said), "Done.");
    let heard = heard(&provider);
    let mut expected = setup(more);
    expected["setup"]["tools"][0]["functionDeclarations"].as_array_mut().unwrap().truncate(1);
    assert_eq!(heard[0], expected);
    let first = json!({"clientContent": {"turns": [{"role": "user", "parts": [{"text": "first"}]}], "turnComplete": false}});
    let rest = [
        json!({"realtimeInput": {"activityStart": {}}}),
        first,
        json!({"realtimeInput": {"text": "second"}}),
        json!({"realtimeInput": {"activityEnd": {}}}),
        user("hi"),
    ];
    assert_eq!(heard[1..], rest);
}

#[tokio::test]
async fn a_denied_call_never_leaves_and_the_session_goes_on() {
    for (size, is_binary) in [(1, true), (7, false), (usize::MAX, true)] {
        let shell = calls(&[("c1", "shell", json!({"command": SECRET}))]);
        let turns = [[said("I clean up."), vec![shell]].concat(), answer("Done.")];
        let provider = provider((size, is_binary), move |n| turns[n].clone()).await;
        let hooks = HookSettings { refusals: 0, ..HookSettings::default() };
        let gateway = gateway(&house(), &provider, hooks).await;
        let mut client = open(&gateway).await;
        let said = client.talk(user("hi")).await;
        assert!(!all(&said).contains(SECRET) && !all(&said).contains("toolCall"), "{size}: {said:?}");
        assert!(text_of(&said).contains("[backstop] withheld `shell`"), "{size}: {said:?}");
        assert_eq!(said.last().unwrap()["serverContent"]["turnComplete"], true, "it is over for the client");
        assert_eq!(text_of(&client.talk(user("more")).await), "Done.");
        assert_eq!(heard(&provider)[1..], [user("hi"), user("more")]);
    }
}

#[tokio::test]
async fn a_provider_that_waits_is_told_that_a_call_was_refused() {
    let both = calls(&[
        ("c1", "shell", json!({"command": SECRET})),
        ("c2", "read", json!({})),
        ("c3", "read", json!({})),
    ]);
    let turns = [vec![both], answer("Done.")];
    let provider = provider((9, true), move |n| turns[n].clone()).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    let said = client.talk(user("hi")).await;
    let told = &said.last().unwrap()["toolCall"]["functionCalls"];
    let kept = json!([{"id": "c2", "name": "read", "args": {}}, {"id": "c3", "name": "read", "args": {}}]);
    assert_eq!(*told, kept, "{said:?}");
    client.tell(results(&["c3"])).await;
    assert_eq!(text_of(&client.talk(results(&["c2"])).await), "Done.");
    assert!(text_of(&said).contains("withheld `shell`"), "{said:?}");
    let heard = heard(&provider);
    let [refused, rest @ ..] = heard[2]["toolResponse"]["functionResponses"].as_array().unwrap().as_slice()
    else {
        panic!("{heard:?}");
    };
    assert_eq!((&refused["id"], &refused["name"]), (&json!("c1"), &json!("shell")));
    assert!(refused["response"]["error"].as_str().unwrap().contains("refused"), "{refused}");
    assert_eq!(rest, results(&["c3", "c2"])["toolResponse"]["functionResponses"].as_array().unwrap());
}

#[tokio::test]
async fn a_model_goes_on_after_its_calls_were_refused() {
    let shell = calls(&[("c1", "shell", json!({"command": SECRET}))]);
    let turns = [vec![shell], answer("I stop.")];
    let provider = provider((11, true), move |n| turns[n].clone()).await;
    let hooks = HookSettings { refusals: 1, ..HookSettings::default() };
    let house = house();
    let gateway = gateway(&house, &provider, hooks).await;
    let mut client = open(&gateway).await;
    let said = client.talk(user("hi")).await;
    assert!(text_of(&said).contains("I stop.") && !all(&said).contains(SECRET), "{said:?}");
    let heard = heard(&provider);
    assert_eq!(heard[2]["toolResponse"]["functionResponses"][0]["id"], "c1", "{heard:?}");
    assert_eq!(heard.len(), 3);
    assert_eq!(house.receipts.of(PointId::BeforeLlmCall).len(), 2);
}

#[tokio::test]
async fn a_secret_is_taken_out_of_what_is_written_and_of_what_is_said_aloud() {
    for size in [1, 3, usize::MAX] {
        let aloud = |text: &str| -> Vec<Value> {
            let pieces: Vec<char> = text.chars().collect();
            let piece = |piece: &[char]| {
                let text: String = piece.iter().collect();
                json!({"serverContent": {"outputTranscription": {"text": text}}})
            };
            pieces.chunks(2).map(piece).collect()
        };
        let told = format!("It is {SECRET}.");
        let turns = [answer(&told), [aloud(&told), over()].concat()];
        let provider = provider((size, true), move |n| turns[n].clone()).await;
        let gateway = gateway(&house(), &provider, HookSettings::default()).await;
        let mut client = open(&gateway).await;
        let written = client.talk(user("hi")).await;
        assert_eq!(text_of(&written), "It is [gone].", "{size}");
        let said = client.talk(user("again")).await;
        let transcripts =
            said.iter().filter_map(|said| said["serverContent"]["outputTranscription"]["text"].as_str());
        assert_eq!(transcripts.collect::<String>() + &text_of(&said), "It is [gone].", "{size}: {said:?}");
        assert!(!all(&[written, said].concat()).contains(SECRET));
    }
}

#[tokio::test]
async fn a_refused_request_reaches_nobody() {
    for blocked in [BlockedForm::Error, BlockedForm::Answer] {
        let provider = provider((usize::MAX, true), |_| answer("Done.")).await;
        let house = House::new();
        house.judge::<BeforeLlmCall>("no", |event| {
            let text: String = event.messages.iter().map(Said::visible_text).collect();
            text.contains(SECRET).then(|| BeforeLlmCallOutcome {
                block: Some(true),
                block_reason: Some("not that".into()),
                ..BeforeLlmCallOutcome::default()
            })
        });
        let gateway = gateway(&house, &provider, HookSettings { blocked, ..HookSettings::default() }).await;
        let mut client = open(&gateway).await;
        client.tell(user(SECRET)).await;
        match blocked {
            BlockedForm::Error => {
                let (said, goodbye) = client.rest().await;
                assert_eq!((said.len(), goodbye.0), (0, 1008), "{said:?}");
                assert!(goodbye.1.contains("not that"), "{goodbye:?}");
            }
            BlockedForm::Answer => {
                assert_eq!(text_of(&client.turn().await), "[backstop] blocked: not that");
                assert_eq!(text_of(&client.talk(user("fine")).await), "Done.");
                assert_eq!(heard(&provider), [setup(json!({})), user("fine")]);
            }
        }
        assert!(!provider.heard().concat().contains(SECRET));
    }
}

#[tokio::test]
async fn a_rewritten_request_and_rewritten_results_stay_messages() {
    let turns = [vec![calls(&[("c1", "read", json!({}))])], answer("Done."), answer("Done.")];
    let provider = provider((usize::MAX, true), move |n| turns[n].clone()).await;
    let house = House::new();
    house.judge::<BeforeLlmCall>("rewrites", |event| {
        let text = serde_json::to_string(&event.messages).unwrap().replace(SECRET, "[gone]");
        let messages = Some(serde_json::from_str(&text).unwrap());
        Some(BeforeLlmCallOutcome { messages, ..BeforeLlmCallOutcome::default() })
    });
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    client.talk(user(SECRET)).await;
    client.talk(json!({"toolResponse": {"functionResponses": [{"id": "c1", "name": "read", "response": {"output": SECRET}}]}})).await;
    client.talk(json!({"realtimeInput": {"text": SECRET}})).await;
    let heard = heard(&provider);
    assert_eq!(heard[1], user("[gone]"));
    let response = json!({"id": "c1", "name": "read", "response": {"output": "[gone]"}});
    assert_eq!(heard[2], json!({"toolResponse": {"functionResponses": [response]}}));
    assert_eq!(heard[3], json!({"realtimeInput": {"text": "[gone]"}}));
}

#[tokio::test]
async fn what_a_provider_says_unasked_is_judged_as_an_answer() {
    let shell = calls(&[("c1", "shell", json!({"command": SECRET}))]);
    let played = [answer("Done."), said(&format!("And {SECRET}.")), over(), vec![shell]].concat();
    let provider = provider((13, true), move |_| played.clone()).await;
    let house = house();
    let hooks = HookSettings { refusals: 0, ..HookSettings::default() };
    let gateway = gateway(&house, &provider, hooks).await;
    let mut client = open(&gateway).await;
    assert_eq!(text_of(&client.talk(user("hi")).await), "Done.");
    let second = client.turn().await;
    assert_eq!(text_of(&second), "And [gone].", "{second:?}");
    let last = client.turn().await;
    assert!(text_of(&last).contains("withheld `shell`") && !all(&last).contains(SECRET), "{last:?}");
    assert_eq!(house.receipts.of(PointId::BeforeLlmCall).len(), 3);
}

#[tokio::test]
async fn what_is_about_the_session_passes_and_nothing_is_said_in_it() {
    let asides = [
        json!({"goAway": {"timeLeft": "9.5s"}}),
        json!({"sessionResumptionUpdate": {"newHandle": "Cig-x_1=", "resumable": true}}),
        json!({"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}}),
    ];
    let grounded = json!({"serverContent": {"groundingMetadata": {"webSearchQueries": ["tea"]}}});
    let cancelled = json!({"toolCallCancellation": {"ids": ["c1", "c9"]}});
    let (told, ground) = (asides.clone(), grounded.clone());
    let turns = [
        [&told[..], &said("Hi."), &[ground], &over()].concat(),
        vec![calls(&[("c1", "read", json!({}))]), cancelled],
    ];
    let provider = provider((usize::MAX, true), move |n| turns[n].clone()).await;
    let gateway = gateway(&house(), &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    let said = client.talk(user("hi")).await;
    for aside in asides.iter().chain([&grounded]) {
        assert!(said.contains(aside), "{aside}: {said:?}");
    }
    client.talk(user("more")).await;
    assert_eq!(client.told().await, json!({"toolCallCancellation": {"ids": ["c1"]}}), "and of no other call");
}

#[tokio::test]
async fn a_session_goes_where_its_model_is_and_with_the_operators_key() {
    let provider = provider((usize::MAX, true), |_| answer("Done.")).await;
    let mut settings = open_settings(&provider.url());
    let gemini = settings.providers.get_mut("gemini").unwrap();
    gemini.credential = Credential::Key(secret("operators-key"));
    gemini.models = vec!["gemini-live".to_owned()];
    let gateway = hooked(&house(), settings, HookSettings::default()).await;
    let path = format!("{PATH}?key=clients-key");
    let mut client = Client::try_open(&gateway, &path, "").await.unwrap_or_else(|e| panic!("{e}"));
    client.tell(setup(json!({"model": "projects/p/locations/l/publishers/google/models/gemini-live"}))).await;
    client.told().await;
    assert_eq!(text_of(&client.talk(user("hi")).await), "Done.");
    assert_eq!(heard(&provider)[0]["setup"]["model"], "models/gemini-live");
    let head = provider.heads.lock().unwrap()[0].clone();
    assert!(head.starts_with(&format!("GET {PATH} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains("x-goog-api-key: operators-key\r\n") && !head.contains("clients-key"), "{head}");
    let mut other = Client::try_open(&gateway, PATH, "").await.unwrap_or_else(|e| panic!("{e}"));
    other.tell(setup(json!({"model": "models/another"}))).await;
    other.told().await;
    other.tell(user("hi")).await;
    let (said, goodbye) = other.rest().await;
    assert!(said.is_empty() && goodbye.1.contains("no configured provider"), "{goodbye:?}");
}

#[tokio::test]
async fn the_answers_of_a_session_are_counted() {
    for headers in ["", "x-backstop-session: mine\r\n"] {
        let provider = provider((usize::MAX, true), |_| answer("Done.")).await;
        let (house, iterations) = (house(), Arc::new(Mutex::new(Vec::new())));
        let seen = Arc::clone(&iterations);
        house.judge::<BeforeLlmCall>("counts", move |event| {
            seen.lock().unwrap().push(event.iteration);
            None
        });
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        for _ in 0..2 {
            let mut client = Client::try_open(&gateway, PATH, headers).await.unwrap();
            client.tell(setup(json!({}))).await;
            client.told().await;
            for turn in ["one", "two", "three"] {
                assert_eq!(text_of(&client.talk(user(turn)).await), "Done.");
            }
        }
        assert_eq!(*iterations.lock().unwrap(), [0, 1, 2, 0, 1, 2], "each session by itself");
    }
}

#[tokio::test]
async fn turns_that_say_the_same_are_runs_of_their_own() {
    let provider = provider((usize::MAX, true), |_| answer("Done.")).await;
    let (house, runs) = runs();
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    for _ in 0..2 {
        let headers = "x-backstop-session: mine\r\n";
        let mut client = Client::try_open(&gateway, PATH, headers).await.unwrap();
        client.tell(setup(json!({}))).await;
        client.told().await;
        for _ in 0..3 {
            assert_eq!(text_of(&client.talk(user("go on")).await), "Done.");
        }
    }
    assert_eq!(runs.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn answers_that_a_client_brings_are_counted_once() {
    let provider = provider((usize::MAX, true), |_| answer("Done.")).await;
    let (house, iterations) = (house(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&iterations);
    house.judge::<BeforeLlmCall>("counts", move |event| {
        seen.lock().unwrap().push(event.iteration);
        None
    });
    let gateway = gateway(&house, &provider, HookSettings::default()).await;
    let mut client = open(&gateway).await;
    let before = |role: &str, text: &str| json!({"role": role, "parts": [{"text": text}]});
    let turns = json!([before("user", "hi"), before("model", "ho"), before("user", "more")]);
    client.talk(json!({"clientContent": {"turns": turns, "turnComplete": true}})).await;
    client.talk(user("and more")).await;
    assert_eq!(*iterations.lock().unwrap(), [1, 2]);
}

/// The provider says in a close why it opens no session, and a close is read by people and agents.
#[tokio::test]
async fn why_a_provider_opens_no_session_is_told_without_what_redactors_take_out() {
    for (reason, is_told) in [("no model of that name".to_owned(), true), (format!("try {SECRET}"), false)] {
        let mut close = vec![0x88, u8::try_from(reason.len() + 2).unwrap(), 0x03, 0xf0];
        close.extend_from_slice(reason.as_bytes());
        let provider =
            Provider::greeting(&[], move |_, _| Play { bytes: close.clone(), ..Play::default() }).await;
        let house = House::new();
        house.redact();
        house.judge::<BeforeLlmCall>("looks", |_| None);
        let gateway = gateway(&house, &provider, HookSettings::default()).await;
        let mut client = Client::try_open(&gateway, PATH, "").await.unwrap_or_else(|e| panic!("{e}"));
        client.tell(setup(json!({}))).await;
        client.tell(user("hi")).await;
        let (said, goodbye) = client.rest().await;
        assert!(goodbye.0 == 1008 && !said.concat().contains(SECRET), "{said:?} {goodbye:?}");
        assert_eq!(goodbye.1 == reason, is_told, "{goodbye:?}");
        assert!(!goodbye.1.contains(SECRET), "{goodbye:?}");
    }
}
