//! Bodies in parts: pictures that are edited, recordings that are written down.

use std::sync::Arc;

use backstop_gateway::inspect::HookSettings;
use backstop_guards::limits::{ModelAccess, ModelRule, Pattern};
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome, MessageBefore, MessageBeforeOutcome};
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Answer, Script, TOKEN, Upstream, gateway, post, settings, talk};

/// Operations, and the part in which their text stands.
const ASKED: [(&str, &str, &str); 6] = [
    ("/v1/images/edits", "image[]", "prompt"),
    ("/openai/deployments/m/images/edits", "image", "prompt"),
    ("/v1/audio/transcriptions", "file", "prompt"),
    ("/v1/audio/transcriptions", "file", "known_speaker_names[]"),
    ("/v1/audio/translations", "file", "prompt"),
    ("/v1/images/variations", "image", "future"),
];

/// A part of a body: its name, that of its file, and what it holds.
pub(super) type Part<'a> = (&'a str, Option<&'a str>, &'a str);

pub(super) fn body(parts: &[Part<'_>]) -> String {
    let mut body = String::new();
    for (name, file, content) in parts {
        let file =
            file.map(|file| format!("; filename=\"{file}\"\r\nContent-Type: application/octet-stream"));
        let file = file.unwrap_or_default();
        body +=
            &format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{content}\r\n");
    }
    body + "--edge--\r\n"
}

pub(super) fn posted(path: &str, body: &str) -> String {
    let size = body.len();
    format!(
        "POST /t/{TOKEN}{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: multipart/form-data; boundary=edge\r\ncontent-length: {size}\r\n\r\n{body}"
    )
}

fn asked<'a>(file: &'a str, text: &'a str, says: &'a str) -> [Part<'a>; 4] {
    // A file may say whatever it wants: nobody reads it.
    [("model", None, "m"), (file, Some("a.bin"), SECRET), (text, None, says), ("n", None, "1")]
}

fn sent(upstream: &Upstream, number: usize) -> String {
    upstream.request(number).split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn rewriting() -> House {
    let house = House::new();
    house.judge::<MessageBefore>("rewrites", |event| {
        event.message.contains(SECRET).then(|| MessageBeforeOutcome {
            message: Some(event.message.replace(SECRET, "[gone]").into()),
            ..MessageBeforeOutcome::default()
        })
    });
    house
}

fn stopping() -> House {
    let house = House::new();
    house.judge::<BeforeLlmCall>("no", |event| {
        let said: String = event.messages.iter().map(Message::visible_text).collect();
        said.contains(SECRET).then(|| BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some(format!("not of {}", event.model).into()),
            ..BeforeLlmCallOutcome::default()
        })
    });
    house
}

async fn answering(script: Script) -> Upstream {
    Upstream::start(move |_| script.clone()).await
}

#[tokio::test]
async fn words_beside_a_file_are_shown() {
    let upstream = answering(Script::json("200 OK", r#"{"text":"a"}"#)).await;
    let gateway = taking().gateway(&upstream.url(), HookSettings::default()).await;
    let parts = |file, language| {
        body(&[("model", None, "m"), ("file", Some(file), "x"), ("language", None, language)])
    };
    let kind = parts("a.wav", "en").replace("application/octet-stream", &format!("audio/{SECRET}"));
    for (asked, passes) in [
        (parts("a.wav", "en"), true),
        (parts(SECRET, "en"), false),
        (parts("a.wav", SECRET), false),
        (kind, false),
    ] {
        let before = upstream.count();
        let answer = talk(&gateway, posted("/v1/audio/transcriptions", &asked)).await;
        assert_eq!(upstream.count() > before, passes, "{asked}: {}", answer.text());
        if passes {
            assert_eq!(sent(&upstream, before), asked);
        } else {
            assert_eq!(answer.status(), 403, "{}", answer.text());
            assert!(!answer.text().contains(SECRET));
        }
    }
}

/// A file that is stored asks no model: its name is judged, and rules about models have nothing to say about it. Nobody else asks none.
#[tokio::test]
async fn what_is_said_of_a_stored_file_is_judged_whatever_models_are_allowed() {
    let upstream = answering(Script::json("200 OK", r#"{"id":"file_1","object":"file"}"#)).await;
    let house = taking();
    let rule = ModelRule { agent: None, allow: vec![Pattern::new("good-*").unwrap()] };
    house.on::<BeforeLlmCall>("models", Arc::new(ModelAccess::new(vec![rule])));
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let stored = |file, purpose| body(&[("purpose", None, purpose), ("file", Some(file), "x")]);
    let upload = |file: &str| {
        post(
            "/v1/uploads",
            &format!(r#"{{"purpose":"batch","bytes":1,"filename":"{file}","mime_type":"a/b"}}"#),
        )
    };
    let chat = |model: &str| {
        post(
            "/v1/chat/completions",
            &format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"a"}}]}}"#),
        )
    };
    for (request, status) in [
        (posted("/v1/files", &stored("a.txt", "assistants")), 200),
        (posted("/v1/files", &stored(SECRET, "assistants")), 403),
        (posted("/v1/files", &stored("a.txt", SECRET)), 403),
        (posted("/v1/uploads/u/parts", &stored("a.txt", "assistants")), 200),
        (posted("/v1/uploads/u/parts", &stored(SECRET, "assistants")), 403),
        (upload("a.txt"), 200),
        (upload(SECRET), 403),
        (chat("-"), 400),
        (chat("large"), 200),
    ] {
        let before = upstream.count();
        let answer = talk(&gateway, request.clone()).await;
        assert_eq!(answer.status(), status, "{request}: {}", answer.text());
        let passes = status == 200 && !request.contains("chat");
        assert_eq!(upstream.count() > before, passes, "{request}");
        assert!(!answer.text().contains(SECRET));
    }
}

#[tokio::test]
async fn texts_beside_a_file_are_rewritten_in_their_place() {
    let upstream = answering(Script::json("200 OK", "{}")).await;
    let gateway = rewriting().gateway(&upstream.url(), HookSettings::default()).await;
    let mut number = 0;
    for (path, file, text) in ASKED.into_iter().filter(|(_, _, text)| *text != "future") {
        let said = format!("the word is {SECRET}\r\nor so");
        let mut parts = asked(file, text, &said);
        for _ in 0..parts.len() {
            parts.rotate_left(1);
            let answer = talk(&gateway, posted(path, &body(&parts))).await;
            assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
            let new = body(&parts).replace(&said, "the word is [gone]\r\nor so");
            assert_eq!(sent(&upstream, number), new, "{path}: in any order");
            number += 1;
        }
        let plain = body(&asked(file, text, "a cat"));
        talk(&gateway, posted(path, &plain)).await;
        assert_eq!(sent(&upstream, number), plain, "what nobody changed leaves as it came");
        number += 1;
    }
}

#[tokio::test]
async fn a_blocked_body_in_parts_reaches_no_model() {
    let upstream = answering(Script::json("200 OK", "{}")).await;
    let gateway = stopping().gateway(&upstream.url(), HookSettings::default()).await;
    let secret = format!("It is {SECRET}.");
    for (path, file, text) in ASKED {
        let named = format!("{secret}.png");
        let more = format!("{SECRET}[]");
        for parts in [
            asked(file, text, &secret).to_vec(),
            asked(file, "future_field", &secret).to_vec(),
            asked(file, &more, "x").to_vec(),
            asked(file, "response_format", &secret).to_vec(),
            vec![(file, Some(named.as_str()), ""), ("model", None, "m")],
            vec![(file, None, secret.as_str()), ("model", None, "m")],
        ] {
            let answer = talk(&gateway, posted(path, &body(&parts))).await;
            assert_eq!(answer.status(), 403, "{path} {parts:?}: {}", answer.text());
            assert!(answer.text().contains("not of m"), "{}", answer.text());
        }
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_body_whose_parts_have_two_readings_is_refused() {
    let upstream = answering(Script::json("200 OK", "{}")).await;
    let gateway = stopping().gateway(&upstream.url(), HookSettings::default()).await;
    let fine = body(&asked("image", "prompt", "a cat"));
    for (path, file, _) in ASKED {
        let twice = [asked(file, "prompt", "a cat").as_slice(), &[("prompt", None, SECRET)]].concat();
        let as_file = asked(file, "prompt", "a")
            .map(|part| if part.0 == "prompt" { (part.0, Some("p"), part.2) } else { part });
        for refused in [
            body(&twice),
            body(&as_file),
            fine.replace("\r\n", "\n"),
            format!("{SECRET}\r\n{fine}"),
            format!("{fine}{SECRET}"),
            fine.replace("name=\"prompt\"", "name=\"prompt\"; filename*=utf-8''x"),
            fine.replace(
                "name=\"prompt\"\r\n",
                "name=\"prompt\"\r\nContent-Type: text/plain; charset=utf-7\r\n",
            ),
            json!({"prompt": "x"}).to_string(),
            String::from("--edge"),
        ] {
            let answer = talk(&gateway, posted(path, &refused)).await;
            assert_eq!(answer.status(), 400, "{path}: {refused}: {}", answer.text());
        }
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_model_in_a_part_is_a_model() {
    let upstream = answering(Script::json("200 OK", "{}")).await;
    let mut limited = settings(&upstream);
    for provider in limited.providers.values_mut() {
        provider.models = vec!["small-*".to_owned()];
    }
    let gateway = gateway(limited).await;
    for (path, file, _) in ASKED.into_iter().filter(|(path, ..)| path.starts_with("/v1/")) {
        for (model, status) in [("small-1", 200), ("large-1", 404)] {
            let parts = [(file, Some("a"), "x"), ("model", None, model)];
            assert_eq!(talk(&gateway, posted(path, &body(&parts))).await.status(), status, "{path} {model}");
            let other = [("model", None, "small-1"), ("fallback_model", None, model), (file, Some("a"), "x")];
            assert_eq!(talk(&gateway, posted(path, &body(&other))).await.status(), status, "{path} {model}");
        }
        for unclear in
            [body(&[(file, Some("a"), "x")]), body(&[("model", None, "small-1"), ("Model", None, "large-1")])]
        {
            assert!(talk(&gateway, posted(path, &unclear)).await.status() >= 400, "{path}");
        }
    }
}

async fn transcript(house: &House, format: Option<&str>, script: Script) -> (Answer, usize) {
    let upstream = answering(script).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let mut parts = vec![("file", Some("a.wav"), "x"), ("model", None, "m")];
    parts.extend(format.map(|format| ("response_format", None, format)));
    (talk(&gateway, posted("/v1/audio/transcriptions", &body(&parts))).await, upstream.count())
}

fn plain(text: &str) -> Script {
    let size = text.len();
    Script::whole(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {size}\r\n\r\n{text}"
    ))
}

#[tokio::test]
async fn a_transcript_is_a_text_like_any_other() {
    let house = House::new();
    house.redact();
    let said = |text: &str| json!({"text": text, "usage": {"type": "tokens", "input_tokens": 1}}).to_string();
    for format in [None, Some("json")] {
        let (answer, _) =
            transcript(&house, format, Script::json("200 OK", &said(&format!("It is {SECRET}.")))).await;
        assert_eq!(
            answer.json(),
            serde_json::from_str::<Value>(&said("It is [gone].")).unwrap(),
            "{format:?}"
        );
    }
    let (answer, _) = transcript(&house, Some("text"), plain(&format!("It is {SECRET}.\n"))).await;
    assert_eq!(answer.body().0, "It is [gone].\n");
    let (answer, _) = transcript(&house, Some("text"), plain("Fine.\n")).await;
    assert_eq!(answer.body().0, "Fine.\n");
}

#[tokio::test]
async fn a_transcript_in_pieces_is_refused_while_answers_are_judged() {
    let house = House::new();
    house.redact();
    for format in ["srt", "vtt", "verbose_json", "diarized_json", "", "JSON"] {
        let (answer, asked) = transcript(&house, Some(format), plain(SECRET)).await;
        assert_eq!((answer.status(), asked), (400, 0), "{format}: {}", answer.text());
        assert!(answer.text().contains("ask for `json` or `text`"), "{}", answer.text());
    }
    for answered in [
        json!({"text": "Fine.", "segments": [{"text": "sw0rd"}, {"text": "fish-9151"}]}),
        json!({"text": "Fine.", "words": [{"word": SECRET}]}),
        json!({"text": "Fine.", "tokens": [1, 2]}),
        json!([SECRET]),
    ] {
        let (answer, _) = transcript(&house, None, Script::json("200 OK", &answered.to_string())).await;
        assert!(answer.status() >= 400 && !answer.text().contains("fish"), "{}", answer.text());
    }
    let upstream = answering(plain(SECRET)).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    for part in [("stream", None, "true"), ("include[]", None, "logprobs")] {
        let parts = [("file", Some("a.wav"), "x"), ("model", None, "m"), part];
        let answer = talk(&gateway, posted("/v1/audio/transcriptions", &body(&parts))).await;
        assert_eq!(answer.status(), 400, "{part:?}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
    let upstream = answering(Script::json("200 OK", r#"{"text":"Fine."}"#)).await;
    let gateway = house.gateway(&upstream.url(), HookSettings::default()).await;
    let parts = [("file", Some("a.wav"), "x"), ("stream", None, "false")];
    assert_eq!(talk(&gateway, posted("/v1/audio/transcriptions", &body(&parts))).await.status(), 200);
}
