//! What passing answers and requests on costs when nothing is edited: one streamed answer of 200 deltas that
//! arrives in a few reads, and one request of a long conversation. The numbers are in docs/performance.md.

use backstop_hooks::conversation::Part;
use backstop_llm::live::{self, LiveRequest};
use backstop_llm::{Api, ModelRequest, ModelResponse, StopReason};
use bytes::Bytes;
use divan::{Bencher, black_box};
use serde_json::json;

fn main() {
    divan::main();
}

const DELTAS: usize = 200;

/// An answer of 200 deltas of about five characters. With `padded`, as OpenAI pads its chunks.
fn answer(api: Api, padded: bool) -> Vec<u8> {
    let text = "word ".repeat(DELTAS);
    let answer = ModelResponse::new("id_1", "model-1", vec![Part::text(text)], StopReason::EndTurn);
    let mut encoder = api.stream_encoder(&ModelRequest::new("m", Vec::new()));
    let events = answer.to_events(5);
    let frames = events.iter().flat_map(|event| encoder.push(event)).enumerate().map(|(at, mut event)| {
        if padded && event.data.ends_with('}') {
            event.data.truncate(event.data.len() - 1);
            event.data.push_str(&format!(",\"obfuscation\":\"{}\"}}", "x".repeat(at % 8)));
        }
        event.encode().to_vec()
    });
    frames.flatten().collect()
}

fn pass(bencher: Bencher<'_, '_>, api: Api, bytes: &[u8], reads: usize) {
    let request = ModelRequest::new("m", Vec::new());
    let pieces: Vec<&[u8]> = bytes.chunks(bytes.len().div_ceil(reads)).collect();
    bencher.counter(divan::counter::ItemsCount::new(DELTAS)).bench_local(|| {
        let mut editor = live::stream_editor(api, &request);
        let mut sent = 0;
        for piece in &pieces {
            let _ = black_box(editor.push(piece));
            for fresh in editor.fresh() {
                editor.settle(fresh.part, usize::MAX, Vec::new());
            }
            sent += editor.take().len();
        }
        let _ = black_box(editor.finish());
        sent + editor.take().len()
    });
}

#[divan::bench(args = [5, 200])]
fn anthropic_stream(bencher: Bencher<'_, '_>, reads: usize) {
    pass(bencher, Api::AnthropicMessages, &answer(Api::AnthropicMessages, false), reads);
}

#[divan::bench(args = [5, 200])]
fn chat_stream(bencher: Bencher<'_, '_>, reads: usize) {
    pass(bencher, Api::OpenAiChat, &answer(Api::OpenAiChat, false), reads);
}

#[divan::bench(args = [5, 200])]
fn chat_stream_padded(bencher: Bencher<'_, '_>, reads: usize) {
    pass(bencher, Api::OpenAiChat, &answer(Api::OpenAiChat, true), reads);
}

/// A conversation of 40 messages of 800 bytes: about 32 KB.
fn conversation() -> Bytes {
    let message = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": [{"type": "text", "text": "word ".repeat(150)}]})
    };
    let messages: Vec<_> = (0..40).map(message).collect();
    json!({"model": "m", "max_tokens": 100, "system": "Be kind.", "messages": messages}).to_string().into()
}

#[divan::bench]
fn request_read(bencher: Bencher<'_, '_>) {
    let body = conversation();
    bencher.bench_local(|| LiveRequest::read(Api::AnthropicMessages, black_box(body.clone())));
}

#[divan::bench]
fn request_one_text_rewritten(bencher: Bencher<'_, '_>) {
    let Ok(request) = LiveRequest::read(Api::AnthropicMessages, conversation()) else { return };
    let mut edited = request.request().clone();
    if let Some(Part::Text { text, .. }) =
        edited.messages.last_mut().and_then(|last| last.content.first_mut())
    {
        *text = "other".into();
    }
    bencher.bench_local(|| request.write(black_box(&edited)));
}
