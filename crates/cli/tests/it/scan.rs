//! `backstop scan`.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use super::support::{Done, User, snapshot};

/// A token that nobody issued, put together here so that no file holds one.
fn token() -> String {
    ["gh", "p_", "x7Kq2Lm9Rt4Vw8Zp3Nc6Bd1Fg5Hj0Qs7Yt2W"].concat()
}

fn scan(args: &[&str], input: impl Into<Vec<u8>>) -> Done {
    User::new().feed(&[&["scan"], args].concat(), input)
}

fn answers(done: &Done) -> Vec<Value> {
    done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Class and text of each span of an answer.
fn found<'t>(answer: &Value, text: &'t str) -> Vec<(String, &'t str)> {
    let place = |span: &Value, key: &str| usize::try_from(span[key].as_u64().unwrap()).unwrap();
    let spans = answer["spans"].as_array().unwrap();
    spans
        .iter()
        .map(|span| {
            let value = text.get(place(span, "start")..place(span, "end")).unwrap();
            (span["kind"].as_str().unwrap().to_owned(), value)
        })
        .collect()
}

#[test]
fn a_text_gets_one_answer_with_places_in_bytes() {
    let text = format!("µ pay\nuse {} or write to ann@example.org", token());
    for args in [&[][..], &["--json"]] {
        let done = scan(args, text.clone()).succeeded();
        assert_eq!(done.out.lines().count(), 1);
        assert_eq!(
            found(&done.json(), &text),
            [("github_token".to_owned(), token().as_str()), ("email".to_owned(), "ann@example.org")]
        );
        let span = &done.json()["spans"][0];
        assert_eq!(span["class"], "secret");
        assert_eq!(span.as_object().unwrap().len(), 5, "{span}");
        assert!(!done.out.contains(&token()), "a value is in the answer");
    }
}

#[test]
fn nothing_has_no_spans() {
    assert_eq!(scan(&[], "").succeeded().json(), json!({"spans": []}));
    assert_eq!(scan(&["--redact"], "").succeeded().out, "");
    assert_eq!(scan(&["--jsonl"], "").succeeded().out, "");
}

#[test]
fn redacted_text_is_the_rest_byte_for_byte() {
    let text = format!("a\t{}\r\nwrite to ann@example.org\u{200b} now", token());
    let done = scan(&["--redact"], text.clone()).succeeded();
    assert_eq!(done.out, "a\t[redacted:github_token]\r\nwrite to [redacted:email] now");
    assert_eq!(
        scan(&["--redact", "--json"], text).succeeded().json(),
        json!({"text": "a\t[redacted:github_token]\r\nwrite to [redacted:email] now"})
    );
}

#[test]
fn only_the_classes_that_were_asked_for_are_found() {
    let text = format!("{} ann@example.org", token());
    let kinds = |args: &[&str]| {
        let answer = scan(args, text.clone()).succeeded().json();
        found(&answer, &text).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&["--class", "pii"]), ["email"]);
    assert_eq!(kinds(&["--class", "secret"]), ["github_token"]);
    assert_eq!(kinds(&["--class", "secret", "--class", "pii"]), ["github_token", "email"]);
    assert!(kinds(&["--class", "hidden"]).is_empty());
    assert_eq!(
        scan(&["--redact", "--class", "pii"], text.clone()).succeeded().out,
        format!("{} [redacted:email]", token())
    );
}

#[test]
fn what_only_has_the_shape_is_shown_but_not_taken_out() {
    let text = "127.0.0.1";
    let confidence = scan(&[], text).succeeded().json()["spans"][0]["confidence"].as_f64().unwrap();
    assert!(confidence < 0.5, "{confidence}");
    assert_eq!(scan(&["--min-confidence", "0.5"], text).succeeded().json(), json!({"spans": []}));
    assert_eq!(scan(&["--redact"], text).succeeded().out, text);
    assert_eq!(scan(&["--redact", "--min-confidence", "0"], text).succeeded().out, "[redacted:ip_address]");
}

#[test]
fn lines_are_answered_in_order_and_errors_take_their_place() {
    let lines = [
        json!({"text": "nothing here"}).to_string(),
        json!({"text": format!("token {}", token())}).to_string(),
        "nonsense".to_owned(),
        String::new(),
        r#"{"text": 1}"#.to_owned(),
        r#"{"text": "a", "more": "b"}"#.to_owned(),
        r#"["a list"]"#.to_owned(),
        r#"{"text": "write to \u0061nn@example.org"}"#.to_owned(),
    ];
    for (args, key) in [(&["--jsonl"][..], "spans"), (&["--jsonl", "--redact"], "text")] {
        let done = scan(args, lines.join("\n"));
        assert_eq!(done.code, Some(3), "{}", done.whole());
        let answers = answers(&done);
        let errors: Vec<_> = answers.iter().map(|answer| answer["line"].as_u64()).collect();
        assert_eq!(errors, [None, None, Some(3), Some(5), Some(6), Some(7), None]);
        for answer in answers.iter().filter(|answer| answer["line"].is_null()) {
            assert!(answer[key].is_array() || answer[key].is_string(), "{answer}");
        }
        if key == "spans" {
            assert_eq!(answers[0], json!({"spans": []}));
            assert_eq!(found(&answers[6], "write to ann@example.org")[0].1, "ann@example.org");
        } else {
            assert_eq!(answers[1], json!({"text": "token [redacted:github_token]"}));
        }
    }
}

#[test]
fn a_line_that_is_too_long_or_no_text_does_not_end_the_others() {
    let mut input = br#"{"text": ""#.to_vec();
    input.resize(9 * 1024 * 1024, b'x');
    input.extend(b"\n{\"text\": \"\xff\"}\n{\"text\": \"ok\"}\n");
    let done = scan(&["--jsonl"], input);
    assert_eq!(done.code, Some(3));
    let answers = answers(&done);
    assert_eq!(answers.len(), 3);
    assert!(answers[0]["error"].as_str().unwrap().contains("longer than"), "{}", answers[0]);
    assert!(answers[1]["error"].is_string(), "{}", answers[1]);
    assert_eq!(answers[2], json!({"spans": []}));
}

#[test]
fn bytes_that_are_no_text_hide_nothing_and_move_nothing() {
    let mut input = b"\xff\xfe ".to_vec();
    input.extend(token().bytes());
    let done = scan(&[], input.clone()).succeeded();
    assert_eq!(done.json()["spans"][0]["start"], 3);
    assert_eq!(done.err, "note: 2 bytes are not UTF-8, and are read as `?`\n");
    assert_eq!(scan(&["--redact"], input).succeeded().out, "?? [redacted:github_token]");
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let done = scan(&["--redact"], vec![b' '; 65 * 1024 * 1024]);
    assert_eq!((done.code, done.out.as_str()), (Some(2), ""));
    assert!(done.err.contains("longer than"), "{}", done.err);
}

#[test]
fn a_program_that_waits_for_each_answer_gets_it() {
    let user = User::new();
    let mut child = user.command(&["scan", "--jsonl"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        writeln!(input, r#"{{"text": "ann@example.org"}}"#).unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        assert!(answer.contains("email"));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn scanning_needs_no_configuration_and_keeps_nothing() {
    let user = User::with_config("nonsense: [");
    user.feed(&["scan"], "ann@example.org").succeeded();
    assert!(!user.path().join("data").exists());
}

#[test]
fn a_confidence_that_is_none_is_refused() {
    snapshot!(scan(&["--min-confidence", "2"], "").whole(), @r"
    exit: 2
    --- stdout
    --- stderr
    error: `--min-confidence` is a number from 0 to 1
    ");
    assert_eq!(scan(&["--min-confidence", "NaN"], "").code, Some(2));
}
