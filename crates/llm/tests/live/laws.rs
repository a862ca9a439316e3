//! Laws over generated answers, streamed and whole.

use backstop_hooks::Params;
use backstop_hooks::conversation::{Part, TokenUsage, ToolCall};
use backstop_llm::live::{AnswerEditor, PartKey};
use backstop_llm::{Api, ModelRequest, ModelResponse, StopReason};
use proptest::prelude::*;
use serde_json::json;

use super::support::*;

fn word() -> impl Strategy<Value = String> {
    "[a-zxé漢🙂\"\\\\\n ]{0,12}[a-z]"
}

fn call() -> impl Strategy<Value = Part> {
    ("[a-z0-9_]{0,8}", "[a-z_]{1,8}", prop::collection::btree_map("[a-z]{1,6}", word(), 0..3)).prop_map(
        |(id, name, arguments)| {
            let arguments = arguments.into_iter().map(|(key, value)| (key, value.into())).collect();
            Part::ToolCall(ToolCall {
                id: id.into(),
                name,
                arguments: Params::new(arguments),
                malformed: None,
                meta: None,
            })
        },
    )
}

fn thinking(api: Api) -> impl Strategy<Value = Part> {
    let fields = match api {
        Api::AnthropicMessages | Api::BedrockConverse => Some(json!({"signature": "c2ln"})),
        // Its streams say which item it is before they can know.
        Api::OpenAiResponses => None,
        _ => Some(json!({"field": "reasoning_content"})),
    };
    word().prop_map(move |text| Part::Thinking {
        text: text.into(),
        meta: fields.clone().map(|fields| json!({api.as_str(): fields}).into()),
    })
}

/// An answer of a wire: one text per answer on the Chat wire, any order on the others.
fn answer(api: Api) -> impl Strategy<Value = ModelResponse> {
    let text = || word().prop_map(Part::text);
    let rest = match api {
        Api::AnthropicMessages | Api::OpenAiResponses | Api::BedrockConverse => {
            prop::collection::vec(prop_oneof![text(), call()], 1..6).boxed()
        }
        _ => (prop::option::of(text()), prop::collection::vec(call(), 0..4))
            .prop_filter("something is said", |(text, calls)| text.is_some() || !calls.is_empty())
            .prop_map(|(text, calls)| text.into_iter().chain(calls).collect())
            .boxed(),
    };
    (prop::option::of(thinking(api)), rest).prop_map(move |(thinking, rest): (_, Vec<Part>)| {
        let parts: Vec<Part> = thinking.into_iter().chain(rest).collect();
        let stop = if parts.iter().any(|part| matches!(part, Part::ToolCall(_))) {
            StopReason::ToolUse
        } else {
            StopReason::EndTurn
        };
        let usage = TokenUsage { input: 3, output: 4, cache_read: 0, cache_write: 0 };
        // An answer of Bedrock has neither.
        let (id, model) = if api == Api::BedrockConverse { ("", "") } else { ("id_1", "model-1") };
        ModelResponse { usage, ..ModelResponse::new(id, model, parts, stop) }
    })
}

fn streamed(api: Api, answer: &ModelResponse, chunk: usize) -> Vec<u8> {
    let mut request = ModelRequest::new("m", Vec::new());
    request.extra = json!({"stream_options": {"include_usage": true}}).into();
    let mut encoder = api.stream_encoder(&request);
    answer
        .to_events(chunk)
        .iter()
        .flat_map(|event| encoder.push(event))
        .flat_map(|event| event.encode().to_vec())
        .collect()
}

/// What a judge does to an answer.
#[derive(Clone, Debug)]
struct Judgement {
    masked: Option<(char, &'static str)>,
    masks_thinking: bool,
    /// For each call whether it is removed.
    removed: Vec<bool>,
    note: Option<&'static str>,
}

fn judgement() -> impl Strategy<Value = Judgement> {
    let masked =
        prop::sample::select(vec![None, Some(('x', "[gone]")), Some(('e', "")), Some(('漢', "z\"\n"))]);
    (masked, any::<bool>(), prop::collection::vec(any::<bool>(), 6), prop::option::of(Just("Withheld.")))
        .prop_map(|(masked, masks_thinking, removed, note)| Judgement {
            masked,
            masks_thinking,
            removed,
            note,
        })
}

impl Judgement {
    /// The answer that should arrive.
    fn expected(&self, api: Api, answer: &ModelResponse) -> ModelResponse {
        let mask = |text: &str| match self.masked {
            Some((letter, mask)) => text.replace(letter, mask),
            None => text.to_owned(),
        };
        let (mut call, mut lost, mut left) = (0, false, false);
        let mut parts = Vec::new();
        for part in &answer.message.content {
            match part {
                Part::Text { text, meta } => {
                    parts.push(Part::Text { text: mask(text).into(), meta: meta.clone() });
                }
                Part::Thinking { text, meta } => {
                    let masked = if self.masks_thinking { mask(text) } else { text.to_string() };
                    let is_edited =
                        self.masks_thinking && self.masked.is_some_and(|(letter, _)| text.contains(letter));
                    let withheld = matches!(api, Api::AnthropicMessages | Api::BedrockConverse);
                    let text = if is_edited && withheld { String::new() } else { masked };
                    parts.push(Part::Thinking { text: text.into(), meta: meta.clone() });
                }
                Part::ToolCall(_) => {
                    let is_removed = self.removed[call];
                    call += 1;
                    lost |= is_removed;
                    left |= !is_removed;
                    if !is_removed {
                        parts.push(part.clone());
                    }
                }
                other => parts.push(other.clone()),
            }
        }
        let note = self.note.filter(|_| lost);
        if api == Api::OpenAiChat {
            let says = |part: &Part| !matches!(part, Part::Text { text, .. } | Part::Thinking { text, .. } if text.is_empty());
            parts.retain(says);
            let text = parts.iter_mut().find_map(|part| match part {
                Part::Text { text, .. } => Some(text),
                _ => None,
            });
            match (note, text) {
                (Some(note), Some(text)) => *text = format!("{text}\n\n{note}").into(),
                (Some(note), None) => parts.push(Part::text(note)),
                (None, _) => {}
            }
        } else {
            parts.extend(note.map(Part::text));
        }
        let mut expected = answer.clone();
        expected.message.content = parts.into();
        if lost && !left {
            expected.stop = StopReason::EndTurn;
        }
        expected
    }

    fn host(&self, lag: usize) -> Host {
        Host { masked: self.masked, masks_thinking: self.masks_thinking, lag, ..Host::default() }
    }

    fn decide(&self, editor: &mut dyn AnswerEditor) {
        let calls = editor.responses()[0].message.tool_calls().count();
        let removed: Vec<PartKey> = (0..calls)
            .filter(|call| self.removed[*call])
            .map(|call| editor.call_part(0, call).unwrap())
            .collect();
        assert_eq!(editor.call_part(0, calls), None);
        editor.keep_calls(&removed, self.note);
    }
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// The parts with their order as the codec of the wire gives them. Items of the Responses wire keep the id that
/// they had at another place.
fn in_order(api: Api, mut response: ModelResponse) -> ModelResponse {
    if api == Api::OpenAiResponses {
        for part in &mut response.message.content {
            match part {
                Part::Text { meta, .. } | Part::Thinking { meta, .. } => *meta = None,
                Part::ToolCall(call) => call.meta = None,
                _ => {}
            }
        }
    }
    if api == Api::BedrockConverse {
        // A text of which nothing is left has no event.
        response.message.content.retain(|part| !matches!(part, Part::Text { text, .. } if text.is_empty()));
    }
    if api == Api::OpenAiChat {
        response.message.content.sort_by_key(|part| match part {
            Part::Thinking { .. } => 0,
            Part::Text { .. } => 1,
            _ => 2,
        });
    }
    response
}

fn check_stream(
    api: Api,
    answer: &ModelResponse,
    judgement: &Judgement,
    chunk: usize,
    lag: usize,
    cuts: &[prop::sample::Index],
) -> Result<(), TestCaseError> {
    let bytes = streamed(api, answer, chunk);
    let (mut editor, mut host) = (stream(api), judgement.host(lag));
    for piece in pieces(&bytes, cuts) {
        editor.push(piece).unwrap();
        host.round(&mut *editor);
    }
    editor.finish().unwrap();
    host.round(&mut *editor);
    prop_assert_eq!(&editor.responses()[0], answer);
    judgement.decide(&mut *editor);
    host.take(&mut *editor);
    prop_assert_eq!(editor.held_bytes(), 0);
    let expected = judgement.expected(api, answer);
    let got = read_stream(api, &host.sent).unwrap();
    prop_assert_eq!(in_order(api, got), in_order(api, expected.clone()));
    if expected == *answer {
        prop_assert_eq!(host.sent, bytes);
    }
    Ok(())
}

fn check_whole(api: Api, answer: &ModelResponse, judgement: &Judgement) -> Result<(), TestCaseError> {
    let body = api.encode_response(answer).to_string();
    let (mut editor, mut host) = (whole(api), judgement.host(0));
    editor.push(body.as_bytes()).unwrap();
    host.round(&mut *editor);
    prop_assert_eq!(editor.held_bytes(), body.len());
    editor.finish().unwrap();
    host.round(&mut *editor);
    judgement.decide(&mut *editor);
    host.take(&mut *editor);
    let mut expected = judgement.expected(api, answer);
    // A whole answer has no texts that say nothing, unless they came so.
    if api != Api::OpenAiResponses {
        expected.message.content.retain(|part| !matches!(part, Part::Text { text, .. } if text.is_empty()));
    }
    let got = read_whole(api, &host.sent);
    prop_assert_eq!(in_order(api, got), in_order(api, expected.clone()));
    if expected == *answer {
        prop_assert_eq!(host.sent, body.into_bytes());
    }
    Ok(())
}

/// Ends an answer in the middle.
fn check_end(
    api: Api,
    answer: &ModelResponse,
    judgement: &Judgement,
    chunk: usize,
    lag: usize,
    cut: prop::sample::Index,
) -> Result<(), TestCaseError> {
    let bytes = streamed(api, answer, chunk);
    let (mut editor, mut host) = (stream(api), judgement.host(lag));
    let (before, after) = bytes.split_at(cut.index(bytes.len()));
    editor.push(before).unwrap();
    host.round(&mut *editor);
    editor.end_with("Stopped.");
    prop_assert!(editor.is_whole());
    host.take(&mut *editor);
    editor.push(after).unwrap();
    editor.finish().unwrap();
    host.take(&mut *editor);
    prop_assert_eq!(editor.held_bytes(), 0);
    let got = read_stream(api, &host.sent).unwrap();
    prop_assert_eq!(&got.stop, &StopReason::EndTurn);
    prop_assert_eq!(got.message.tool_calls().count(), 0);
    let (text, said) = (got.message.visible_text(), judgement.expected(api, answer).message.visible_text());
    match text.strip_suffix("Stopped.") {
        Some(before) => {
            let before =
                if api == Api::OpenAiChat { before.strip_suffix("\n\n").unwrap_or(before) } else { before };
            prop_assert!(said.starts_with(before), "{} {}", said, text);
        }
        // The answer had ended before.
        None => prop_assert_eq!(text, said),
    }
    Ok(())
}

macro_rules! laws {
    ($($wire:ident: $api:expr),*) => { $(mod $wire {
        use super::*;

        proptest! {
            #[test]
            fn edited_streams_say_what_was_edited(
                answer in answer($api), judgement in judgement(), chunk in 1usize..9, lag in 0usize..20,
                cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
            ) {
                check_stream($api, &answer, &judgement, chunk, lag, &cuts)?;
            }

            #[test]
            fn edited_answers_say_what_was_edited(answer in answer($api), judgement in judgement()) {
                check_whole($api, &answer, &judgement)?;
            }

            #[test]
            fn answers_end_anywhere(
                answer in answer($api), judgement in judgement(), chunk in 1usize..9, lag in 0usize..20,
                cut in any::<prop::sample::Index>(),
            ) {
                check_end($api, &answer, &judgement, chunk, lag, cut)?;
            }
        }
    })* };
}

laws!(
    anthropic: Api::AnthropicMessages,
    openai_chat: Api::OpenAiChat,
    openai_responses: Api::OpenAiResponses,
    bedrock_converse: Api::BedrockConverse
);
