//! The law of answers, of those that are no answer of a model: every string of a document, and every name of a field, is shown to hooks
//! before it leaves, or the document is refused; and a secret in any of these places does not leave where redactors take secrets out.
//!
//! Both are tried at every place of the answers to every operation that is read or listed. What is shown is what redactors of the text,
//! hooks at `tool.after` and hooks that judge calls read.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header};
use serde_json::{Value, json};

use super::Hooks;
use super::answer_walk_tests::{place, redacting, watching};
use super::walk_tests::{WORD, token, variants};
use crate::endpoint::Endpoint;
use crate::exchange::{
    Answered, Body, Call, Exchange, Interceptor as _, Outgoing, Plan, Requested, Step, Watch,
};
use crate::operations::Permission;
use crate::record::Recorder;

const PARTS: &str = "multipart/form-data; boundary=b";

/// What is asked, and what is answered.
struct Document {
    method: Method,
    path: &'static str,
    kind: &'static str,
    asked: String,
    status: StatusCode,
    answered: Value,
}

fn form(fields: &[(&str, &str)], file: &str) -> String {
    let field = |(name, says): &(&str, &str)| {
        format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{says}\r\n")
    };
    let fields: String = fields.iter().map(field).collect();
    format!(
        "{fields}--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n{file}\r\n--b--\r\n"
    )
}

fn documents() -> Vec<Document> {
    let seal = "gAAAAABo".repeat(60);
    let list = json!({"object": "list", "first_id": "m_1", "last_id": "m_2", "has_more": false, "data": [
        {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "said", "annotations": [{"type": "url_citation", "url": "https://x.example/", "title": "t", "start_index": 0, "end_index": 1}]}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "why"}], "encrypted_content": seal},
        {"type": "function_call", "id": "fc_1", "call_id": "c_1", "name": "ls", "arguments": "{\"a\":1}", "status": "completed"},
        {"type": "function_call_output", "id": "fo_1", "call_id": "c_1", "output": "out"},
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}, {"type": "input_file", "file_id": "f", "filename": "n"}]}]});
    let conversation =
        json!({"id": "conv_1", "object": "conversation", "created_at": 1, "metadata": {"topic": "t"}});
    let batch = json!({"id": "batch_1", "object": "batch", "endpoint": "/v1/responses", "input_file_id": "f_1", "status": "completed",
        "output_file_id": "f_2", "errors": {"object": "list", "data": [{"code": "c", "message": "why", "line": 1}]},
        "request_counts": {"total": 1}, "metadata": {"a": "b"}});
    let file = json!({"id": "file_1", "object": "file", "bytes": 1, "filename": "a b.jsonl", "purpose": "assistants", "status": "processed"});
    let upload = json!({"id": "upload_1", "object": "upload", "status": "completed", "filename": "a b", "file": {"id": "f", "filename": "n"}});
    let error = json!({"error": {"type": "invalid_request_error", "code": "c", "param": "p", "message": "why", "details": [{"@type": "t", "reason": "r", "metadata": {"a": "b"}}]}, "request_id": "req_1"});
    let ok = StatusCode::OK;
    let text = |method: Method, path, asked: Value, answered: Value| Document {
        method,
        path,
        kind: "application/json",
        asked: if asked.is_null() { String::new() } else { asked.to_string() },
        status: ok,
        answered,
    };
    let get = |path, answered: &Value| text(Method::GET, path, Value::Null, answered.clone());
    let post = |path, asked, answered: &Value| text(Method::POST, path, asked, answered.clone());
    let in_parts = |path, fields: &[(&str, &str)], answered: Value| Document {
        kind: PARTS,
        asked: form(fields, "x"),
        ..post(path, Value::Null, &answered)
    };
    let pictures = json!({"created": 1, "data": [{"b64_json": "A-_9".repeat(100), "revised_prompt": "a cat"}, {"url": "https://x.example/cat.png"}],
        "output_format": "png", "usage": {"total_tokens": 1}});
    let mut all = vec![
        post(
            "/v1/moderations",
            json!({"model": "m", "input": "a"}),
            &json!({"id": "modr-1", "model": "m", "results": [
            {"flagged": false, "categories": {"hate": false}, "category_scores": {"hate": 0.1}, "category_applied_input_types": {"hate": ["text"]}}]}),
        ),
        post(
            "/v1/completions",
            json!({"model": "m", "prompt": "a"}),
            &json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m",
            "choices": [{"text": "b", "index": 0, "finish_reason": "stop", "logprobs": null}], "usage": {"total_tokens": 1}}),
        ),
        post("/v1/images/generations", json!({"model": "m", "prompt": "a"}), &pictures),
        in_parts(
            "/v1/audio/transcriptions",
            &[("model", "m")],
            json!({"text": "said", "task": "transcribe", "language": "en",
            "usage": {"type": "tokens", "input_tokens": 1}}),
        ),
        post(
            "/v1/responses/compact",
            json!({"model": "m", "input": "a"}),
            &json!({"id": "resp_1", "object": "response.compaction", "created_at": 1,
            "output": [{"type": "message", "role": "user", "content": "said"}, {"type": "compaction", "id": "cmp_1", "encrypted_content": seal}],
            "usage": {"input_tokens": 1}}),
        ),
        get("/v1/responses/resp_1/input_items", &list),
        get("/v1/conversations/conv_1/items", &list),
        post("/v1/conversations", json!({"metadata": {"a": "b"}}), &conversation),
        get("/v1/conversations/conv_1", &conversation),
        text(
            Method::DELETE,
            "/v1/conversations/conv_1",
            Value::Null,
            json!({"id": "conv_1", "object": "conversation.deleted", "deleted": true}),
        ),
        get("/v1/batches/batch_1", &batch),
        get("/v1/batches", &json!({"object": "list", "data": [batch], "first_id": "b", "has_more": false})),
        in_parts("/v1/files", &[("purpose", "assistants")], file.clone()),
        get("/v1/files", &json!({"object": "list", "data": [file]})),
        text(
            Method::DELETE,
            "/v1/files/file_1",
            Value::Null,
            json!({"id": "file_1", "object": "file", "deleted": true}),
        ),
        post(
            "/v1/uploads",
            json!({"purpose": "assistants", "filename": "a b", "bytes": 1, "mime_type": "text/plain"}),
            &upload,
        ),
        in_parts(
            "/v1/uploads/upload_1/parts",
            &[],
            json!({"id": "part_1", "object": "upload.part", "upload_id": "upload_1"}),
        ),
        post("/v1/uploads/upload_1/complete", json!({"part_ids": ["part_1"]}), &upload),
        get(
            "/v1/models",
            &json!({"object": "list", "data": [{"id": "maker/model", "object": "model", "owned_by": "maker", "description": "a large one"}]}),
        ),
        get("/v1/models/m", &json!([{"id": "m", "pricing": {"prompt": "0.1"}}])),
        text(
            Method::DELETE,
            "/v1/responses/resp_1",
            Value::Null,
            json!({"id": "resp_1", "object": "response", "deleted": true}),
        ),
        get(
            "/v1/messages/batches/b_1",
            &json!({"id": "b_1", "type": "message_batch", "processing_status": "ended", "results_url": "https://x.example/results"}),
        ),
        post(
            "/v1/messages/batches",
            json!({"requests": [{"custom_id": "a", "params": {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]}}]}),
            &json!({"id": "b_1", "type": "message_batch", "processing_status": "in_progress"}),
        ),
        get("/v1beta/files/f", &json!({"name": "files/f", "displayName": "a b"})),
        // A file of answers, of which no state told: known by its line.
        get(
            "/v1/files/file_2/content",
            &json!({"id": "l_1", "custom_id": "a", "response": null, "error": {"code": "c", "message": "why it failed"}}),
        ),
        get(
            "/v1/messages/batches/b_1/results",
            &json!({"custom_id": "a", "result": {"type": "errored", "error":
            {"type": "error", "error": {"type": "overloaded_error", "message": "why"}, "request_id": "req_1"}}}),
        ),
    ];
    let failed: Vec<Document> = all
        .iter()
        .map(|document| Document {
            method: document.method.clone(),
            asked: document.asked.clone(),
            status: StatusCode::BAD_REQUEST,
            answered: error.clone(),
            ..*document
        })
        .collect();
    all.extend(failed);
    all
}

/// What leaves of a document.
struct Left {
    status: StatusCode,
    body: Vec<u8>,
}

impl Left {
    fn has(&self, said: &str) -> bool {
        let escaped = json!(said).to_string();
        let has = |said: &str| self.body.windows(said.len()).any(|bytes| bytes == said.as_bytes());
        has(said) || has(escaped.trim_matches('"'))
    }
}

async fn pass(hooks: &Hooks, document: &Document, answered: &Value) -> Left {
    let mut headers = HeaderMap::new();
    if !document.asked.is_empty() {
        headers.insert(header::CONTENT_TYPE, document.kind.parse().unwrap());
    }
    let endpoint = Endpoint::of(document.path, &headers).unwrap();
    let permission = Permission::of(endpoint, &document.method, document.path, None, &headers, &[]);
    let call = Call {
        number: 1,
        endpoint: &endpoint,
        method: &document.method,
        path: document.path,
        query: None,
        headers: &headers,
        permission,
        agent: None,
        session: None,
        user: None,
        recorder: &Recorder::default(),
    };
    let Plan::Inspect(mut exchange) = hooks.begin(&call) else { panic!("nobody looks at {}", document.path) };
    let bytes = Bytes::from(document.asked.clone());
    let requested = exchange.request(&Body { bytes: &bytes, provider: "p" }).await;
    assert!(matches!(requested, Requested::Unchanged), "{}: {requested:?}", document.path);
    answer(&mut *exchange, document, answered).await
}

async fn answer(exchange: &mut dyn Exchange, document: &Document, answered: &Value) -> Left {
    let mut head = Response::new(());
    *head.status_mut() = document.status;
    head.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    let (parts, ()) = head.into_parts();
    match exchange.response(&Answered { provider: "p", status: parts.status, headers: &parts.headers }) {
        Watch::Look { .. } => {}
        Watch::Refuse(reply) => return Left { status: reply.status, body: reply.body.to_vec() },
        Watch::Opaque => return Left { status: parts.status, body: answered.to_string().into_bytes() },
    }
    let mut out = Outgoing::new(parts);
    let mut step = exchange.chunk(Bytes::from(answered.to_string()), &mut out);
    if step == Step::Continue {
        step = exchange.finish(&mut out);
    }
    while step == Step::Decide {
        step = exchange.decide(&mut out).await;
    }
    let body = out.take_data().to_vec();
    Left { status: out.head_mut().unwrap().status, body }
}

fn told(document: &Document, what: &str) -> String {
    format!("{} {} {}: {}", document.status.as_u16(), document.method, document.path, place(what))
}

#[tokio::test]
async fn every_word_of_a_document_is_shown_or_refused() {
    let shown = Arc::new(Mutex::new(String::new()));
    let hooks = watching(&shown);
    let (mut tried, mut refused, mut unseen) = (0, 0, BTreeSet::new());
    for document in documents() {
        let left = pass(&hooks, &document, &document.answered).await;
        assert_eq!(left.status, document.status, "{} {:?}", document.path, String::from_utf8(left.body));
        assert_eq!(String::from_utf8(left.body).unwrap(), document.answered.to_string(), "{}", document.path);
        for (what, answered) in variants(&document.answered, WORD, &[]) {
            shown.lock().unwrap().clear();
            let left = pass(&hooks, &document, &answered).await;
            tried += 1;
            refused += usize::from(left.status != document.status);
            if left.has(WORD) && !shown.lock().unwrap().contains(WORD) {
                unseen.insert(told(&document, &what));
            }
        }
    }
    assert!(unseen.is_empty(), "{} of {tried} places are not shown:\n{}", unseen.len(), lines(&unseen));
    assert!(tried > 1_000 && refused < tried / 3, "{tried} tried, {refused} refused");
}

#[tokio::test]
async fn a_secret_in_a_document_is_taken_out_or_stops_it() {
    let (hooks, token) = (redacting(), token());
    let mut leaked = BTreeSet::new();
    for document in documents() {
        for said in [token.clone(), format!("say {token}")] {
            for (what, answered) in variants(&document.answered, &said, &[]) {
                if pass(&hooks, &document, &answered).await.has(&token) {
                    leaked.insert(told(&document, &what));
                }
            }
        }
    }
    assert!(leaked.is_empty(), "{} places leave:\n{}", leaked.len(), lines(&leaked));
}

fn lines(all: &BTreeSet<String>) -> String {
    all.iter().cloned().collect::<Vec<_>>().join("\n")
}
