//! Operations that are no conversation with a model and carry texts all the same: where these stand.
//!
//! Their bodies are documents ([`LiveDocument`](backstop_llm::live::LiveDocument)): every string is a text but those that
//! the tables here list. What is asked is judged as text that leaves, what is answered as text that comes. A table holds for
//! a body in parts, too, whose files stand where the table has what nobody can read.

use backstop_llm::Api;
use backstop_llm::live::TextTable;
use http::Method;
use serde_json::Value;

use crate::cloud::azure::of_deployment;
use crate::operations::{fits, without_prefix};

/// An operation whose texts are judged.
#[derive(Debug)]
pub(crate) struct Readable {
    method: &'static str,
    path: &'static str,
    /// The wire of its errors.
    pub(crate) api: Api,
    /// Where the texts of the request stand; `None` if it has no body.
    pub(crate) asked: Option<&'static TextTable>,
    /// What its answer has.
    pub(crate) answered: Answered,
}

/// What an answer has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answered {
    /// A state, or a list of such: every string is a word, or a text if it is more than that.
    State,
    /// A recording.
    Sound,
    /// Numbers, in this form.
    Numbers(&'static Shape),
    /// Texts, in one piece of JSON.
    Texts(&'static TextTable),
    /// Items of a conversation as OpenAI Responses has them, with the calls among them.
    Items(&'static TextTable),
    /// What went wrong, in the words of a provider.
    Error(&'static TextTable),
    /// What was said in a recording, as JSON of no other fields than these or as a plain text, whichever was asked for.
    Said(&'static TextTable),
}

/// Texts that are turned into vectors, of OpenAI's wire and those like it, and of Gemini.
static EMBEDDED: TextTable = TextTable {
    texts: &["input", "content", "parts", "text", "title", "requests", "embedContentConfig"],
    names: &[
        "model",
        "user",
        "encoding_format",
        "dimensions",
        "input_type",
        "truncation",
        "type",
        "role",
        "taskType",
        "outputDimensionality",
        "autoTruncate",
        "mimeType",
        "fileUri",
    ],
    opaque: &["image_url", "inlineData", "data"],
    own: &[],
    fixed: &[],
};

/// Texts and pictures that are looked at.
static MODERATED: TextTable = TextTable {
    texts: &["input", "text"],
    names: &["model", "type"],
    opaque: &["image_url"],
    own: &[],
    fixed: &[],
};

/// A beginning that a model of the older kind continues.
static BEGUN: TextTable = TextTable {
    texts: &["prompt", "suffix", "stop"],
    names: &[
        "model",
        "user",
        "best_of",
        "echo",
        "frequency_penalty",
        "presence_penalty",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "n",
        "seed",
        "stream",
        "stream_options",
        "include_usage",
        "include_obfuscation",
        "temperature",
        "top_p",
    ],
    opaque: &[],
    own: &[],
    fixed: &[],
};

/// What the model wrote behind it.
static CONTINUED: TextTable = TextTable {
    texts: &["choices", "text"],
    names: &[
        "id",
        "object",
        "created",
        "model",
        "system_fingerprint",
        "index",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "prompt_tokens_details",
        "completion_tokens_details",
        "cached_tokens",
        "audio_tokens",
        "reasoning_tokens",
        "accepted_prediction_tokens",
        "rejected_prediction_tokens",
        "service_tier",
    ],
    opaque: &[],
    own: &["logprobs"],
    fixed: &[],
};

/// What a picture is to show.
static DRAWN: TextTable = TextTable {
    texts: &["prompt"],
    names: &[
        "model",
        "user",
        "n",
        "size",
        "quality",
        "style",
        "background",
        "moderation",
        "output_format",
        "output_compression",
        "partial_images",
        "response_format",
        "stream",
        "input_fidelity",
    ],
    opaque: &[],
    own: &[],
    fixed: &[],
};

/// A picture that is to be changed, and how.
static EDITED: TextTable = TextTable {
    texts: &["prompt", "images"],
    names: &[
        "model",
        "user",
        "n",
        "size",
        "quality",
        "style",
        "background",
        "moderation",
        "output_format",
        "output_compression",
        "partial_images",
        "response_format",
        "stream",
        "input_fidelity",
        "file_id",
    ],
    opaque: &["image", "mask", "image_url"],
    own: &[],
    fixed: &[],
};

/// A recording that is to be written down.
static RECORDED: TextTable = TextTable {
    texts: &["prompt", "known_speaker_names"],
    names: &[
        "model",
        "language",
        "response_format",
        "temperature",
        "stream",
        "timestamp_granularities",
        "include",
        "chunking_strategy",
    ],
    opaque: &["file", "known_speaker_references"],
    own: &[],
    fixed: &[],
};

/// What was said in it.
static WRITTEN_DOWN: TextTable = TextTable {
    texts: &["text"],
    names: &[
        "task",
        "language",
        "duration",
        "usage",
        "type",
        "seconds",
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "input_token_details",
        "input_tokens_details",
        "text_tokens",
        "audio_tokens",
    ],
    opaque: &[],
    own: &[],
    fixed: &[],
};

/// What was made of that.
static PICTURES: TextTable = TextTable {
    texts: &["data", "revised_prompt"],
    names: &[
        "created",
        "background",
        "output_format",
        "quality",
        "size",
        "usage",
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "input_tokens_details",
        "output_tokens_details",
        "image_tokens",
        "text_tokens",
    ],
    opaque: &["b64_json", "url"],
    own: &[],
    fixed: &[],
};

/// What is to be spoken.
static SPOKEN: TextTable = TextTable {
    texts: &["input", "instructions"],
    names: &["model", "voice", "id", "response_format", "speed", "stream_format"],
    opaque: &[],
    own: &[],
    fixed: &[],
};

/// The text of a part once more, token by token.
pub(crate) const LOGPROBS: &str = "logprobs";

/// Items of a conversation, as they are asked with, stored and listed.
static ITEMS: TextTable = TextTable {
    texts: &[
        "input",
        "instructions",
        "items",
        "data",
        "output",
        "content",
        "summary",
        "text",
        "refusal",
        "logs",
        "results",
        "queries",
        "query",
        "tools",
        "annotations",
        "title",
        "error",
        "message",
        "stdout",
        "stderr",
        "outcome",
        "prompt",
    ],
    names: &[
        "id",
        "object",
        "type",
        "role",
        "status",
        "model",
        "call_id",
        "name",
        "phase",
        "created_at",
        "created_by",
        "first_id",
        "last_id",
        "has_more",
        "previous_response_id",
        "conversation",
        "detail",
        "filename",
        "file_id",
        "container_id",
        "server_label",
        "approval_request_id",
        "approve",
        "agent",
        "score",
        "index",
        "start_index",
        "end_index",
        "exit_code",
        "max_output_length",
        "timeout_ms",
        "usage",
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "input_tokens_details",
        "output_tokens_details",
        "cached_tokens",
        "reasoning_tokens",
        "prompt_cache_key",
        "prompt_cache_retention",
        "service_tier",
        "deleted",
        "x",
        "y",
        "button",
    ],
    opaque: &["encrypted_content", "image_url", "file_data", "result"],
    own: &["metadata", LOGPROBS],
    fixed: &["arguments", "action", "operation", "code"],
};

/// The form of an answer that holds numbers.
#[derive(Debug)]
pub(crate) struct Shape {
    /// All fields that it may have.
    pub(crate) fields: &'static [&'static str],
    /// Those with a name.
    pub(crate) words: &'static [&'static str],
    /// Those with a vector that may be written in Base64.
    pub(crate) vectors: &'static [&'static str],
}

/// What texts were turned into, by OpenAI, by servers that speak its wire, and by Gemini.
pub(crate) static VECTORS: Shape = Shape {
    fields: &[
        "object",
        "data",
        "embedding",
        "index",
        "model",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "input_tokens",
        "output_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "audio_tokens",
        "image_tokens",
        "text_tokens",
        "video_tokens",
        "cost",
        "id",
        "created",
        "embeddings",
        "values",
        "shape",
        "statistics",
        "tokenCount",
        "truncated",
        "usageMetadata",
        "promptTokenCount",
        "totalTokenCount",
        "promptTokensDetails",
        "modality",
    ],
    words: &["object", "model", "id", "modality"],
    vectors: &["embedding"],
};

/// How many tokens a request has, on all wires.
pub(crate) static COUNTS: Shape = Shape {
    fields: &[
        "input_tokens",
        "context_management",
        "original_input_tokens",
        "object",
        "totalTokens",
        "cachedContentTokenCount",
        "totalBillableCharacters",
        "promptTokensDetails",
        "cacheTokensDetails",
        "modality",
        "tokenCount",
        "inputTokens",
    ],
    words: &["object", "modality"],
    vectors: &[],
};

/// What was found in texts and pictures. The kinds are those of OpenAI's SDK; another one is a text.
static VERDICTS: TextTable = TextTable {
    texts: &["results"],
    names: &[
        "id",
        "model",
        "flagged",
        "categories",
        "category_scores",
        "category_applied_input_types",
        "harassment",
        "harassment/threatening",
        "hate",
        "hate/threatening",
        "illicit",
        "illicit/violent",
        "self-harm",
        "self-harm/instructions",
        "self-harm/intent",
        "sexual",
        "sexual/minors",
        "violence",
        "violence/graphic",
    ],
    opaque: &[],
    own: &[],
    fixed: &[],
};

/// What went wrong, on all wires. What a provider writes of it may repeat the request, or say what somebody else wrote.
pub(crate) static ERROR: TextTable = TextTable {
    texts: &["error", "message", "details", "description", "errors"],
    names: &["type", "code", "param", "status", "request_id", "requestId", "@type", "reason", "domain"],
    opaque: &[],
    own: &["metadata", "metadatas"],
    fixed: &[],
};

/// A batch that is made of a file.
pub(crate) static BATCH: TextTable = TextTable {
    texts: &["output_expires_after"],
    names: &["input_file_id", "endpoint", "completion_window", "anchor", "seconds"],
    opaque: &[],
    own: &["metadata"],
    fixed: &[],
};

/// The same as an operation, whose answer is a state.
pub(crate) static BATCHED: Readable = posted("batches", Api::OpenAiChat, &BATCH, Answered::State);

/// What is noted of files and their parts, by operations that ask no model.
static NOTES: TextTable = TextTable {
    texts: &[],
    names: &[
        "purpose",
        "filename",
        "mime_type",
        "bytes",
        "expires_after",
        "anchor",
        "seconds",
        "part_ids",
        "ids",
        "md5",
    ],
    opaque: &["file", "data"],
    own: &[],
    fixed: &[],
};

/// The same as an operation, whose answer is a state.
pub(crate) static NOTED: Readable = posted("files", Api::OpenAiChat, &NOTES, Answered::State);

/// Answers to requests that were one of many.
static ANSWERS: [Readable; 5] = [
    Readable {
        method: "POST",
        path: "embeddings",
        api: Api::OpenAiChat,
        asked: None,
        answered: Answered::Numbers(&VECTORS),
    },
    answer("moderations", &VERDICTS),
    answer("completions", &CONTINUED),
    answer("images/generations", &PICTURES),
    answer("images/edits", &PICTURES),
];

const fn answer(path: &'static str, table: &'static TextTable) -> Readable {
    Readable { method: "POST", path, api: Api::OpenAiChat, asked: None, answered: Answered::Texts(table) }
}

/// What an answer to a request for this [normal](crate::endpoint::normal) path has, where that was one of many.
pub(crate) fn answer_to(path: &str) -> Option<&'static Readable> {
    let rest = without_prefix(path.trim_matches('/'));
    ANSWERS.iter().find(|known| fits(known.path, rest))
}

/// The operations, as paths without their version.
static READABLE: [Readable; 21] = [
    posted("embeddings", Api::OpenAiChat, &EMBEDDED, Answered::Numbers(&VECTORS)),
    posted("models/{model}:embedcontent", Api::Gemini, &EMBEDDED, Answered::Numbers(&VECTORS)),
    posted("models/{model}:batchembedcontents", Api::Gemini, &EMBEDDED, Answered::Numbers(&VECTORS)),
    posted("moderations", Api::OpenAiChat, &MODERATED, Answered::Texts(&VERDICTS)),
    posted("completions", Api::OpenAiChat, &BEGUN, Answered::Texts(&CONTINUED)),
    posted("images/generations", Api::OpenAiChat, &DRAWN, Answered::Texts(&PICTURES)),
    posted("images/edits", Api::OpenAiChat, &EDITED, Answered::Texts(&PICTURES)),
    posted("images/variations", Api::OpenAiChat, &EDITED, Answered::Texts(&PICTURES)),
    posted("audio/speech", Api::OpenAiChat, &SPOKEN, Answered::Sound),
    posted("audio/transcriptions", Api::OpenAiChat, &RECORDED, Answered::Said(&WRITTEN_DOWN)),
    posted("audio/translations", Api::OpenAiChat, &RECORDED, Answered::Said(&WRITTEN_DOWN)),
    posted("responses/compact", Api::OpenAiResponses, &ITEMS, Answered::Items(&ITEMS)),
    fetched("GET", "responses/{id}/input_items"),
    posted("conversations", Api::OpenAiResponses, &ITEMS, Answered::Items(&ITEMS)),
    fetched("GET", "conversations/{id}"),
    posted("conversations/{id}", Api::OpenAiResponses, &ITEMS, Answered::Items(&ITEMS)),
    fetched("DELETE", "conversations/{id}"),
    fetched("GET", "conversations/{id}/items"),
    posted("conversations/{id}/items", Api::OpenAiResponses, &ITEMS, Answered::Items(&ITEMS)),
    fetched("GET", "conversations/{id}/items/{item}"),
    fetched("DELETE", "conversations/{id}/items/{item}"),
];

const fn posted(path: &'static str, api: Api, asked: &'static TextTable, answered: Answered) -> Readable {
    Readable { method: "POST", path, api, asked: Some(asked), answered }
}

const fn fetched(method: &'static str, path: &'static str) -> Readable {
    let api = Api::OpenAiResponses;
    Readable { method, path, api, asked: None, answered: Answered::Items(&ITEMS) }
}

/// Where a request stores items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredIn<'p> {
    /// The conversation that the address names, if there is one yet.
    pub(crate) conversation: Option<&'p str>,
}

impl Readable {
    /// Where the request stores items of a conversation; `None` if it brings none. `path` is the request's.
    pub(crate) fn stored_in<'p>(&self, path: &'p str) -> Option<StoredIn<'p>> {
        if !matches!(self.answered, Answered::Items(_)) || self.asked.is_none() {
            return None;
        }
        let mut segments =
            path.split('/').skip_while(|segment| !segment.eq_ignore_ascii_case("conversations"));
        Some(StoredIn { conversation: segments.nth(1).filter(|id| !id.is_empty()) })
    }

    /// Why an answer to this request can't be judged: it would come in pieces, or say the text a second time.
    pub(crate) fn unjudged_answer(&self, asked: &Value) -> Option<&'static str> {
        if !matches!(self.answered, Answered::Texts(_) | Answered::Said(_)) {
            return None;
        }
        // Of a body in parts everything is a text.
        let is_off = |value: &Value| value.is_null() || *value == Value::Bool(false) || *value == "false";
        let is_set = |field: &str| asked.get(field).is_some_and(|value| !is_off(value));
        if is_set("stream") {
            return Some("a stream of this operation can't be judged; ask without `stream`");
        }
        if matches!(self.answered, Answered::Said(_)) {
            let is_known =
                matches!(asked.get("response_format"), None | Some(Value::Null)) || format(asked).is_some();
            return if !is_known || is_set("include") {
                Some("this form of a transcript cuts the text into pieces; ask for `json` or `text`")
            } else {
                None
            };
        }
        is_set("logprobs")
            .then_some("probabilities of tokens repeat the text in pieces; ask without `logprobs`")
    }
}

/// Whether a transcript is asked for as a plain text, in a form that can be judged.
fn format(asked: &Value) -> Option<bool> {
    match asked.get("response_format")?.as_str()? {
        "json" => Some(false),
        "text" => Some(true),
        _ => None,
    }
}

/// Whether an answer is asked for as a plain text.
pub(crate) fn is_plain(asked: &Value) -> bool {
    format(asked) == Some(true)
}

/// The operation of a request, if its texts can be read. `path` is a [normal](crate::endpoint::normal) one.
pub(crate) fn readable(method: &Method, path: &str) -> Option<&'static Readable> {
    let rest = without_prefix(path.trim_matches('/'));
    let rest = of_deployment(rest).unwrap_or(rest);
    READABLE.iter().find(|known| known.method == method.as_str() && fits(known.path, rest))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_field_stands_in_one_list() {
        for table in [
            &EMBEDDED,
            &MODERATED,
            &BEGUN,
            &CONTINUED,
            &DRAWN,
            &EDITED,
            &RECORDED,
            &WRITTEN_DOWN,
            &PICTURES,
            &SPOKEN,
            &ITEMS,
            &VERDICTS,
            &ERROR,
            &BATCH,
            &NOTES,
        ] {
            let all = [table.texts, table.names, table.opaque, table.own, table.fixed].concat();
            let distinct: BTreeSet<&str> = all.iter().copied().collect();
            assert_eq!(all.len(), distinct.len(), "{all:?}");
        }
    }

    #[test]
    fn operations_are_told_by_method_and_path() {
        for (method, path, is_known) in [
            (Method::POST, "/v1/embeddings", true),
            (Method::POST, "/openai/deployments/small/embeddings", true),
            (Method::POST, "/openai/deployments/small/moderations", false),
            (Method::POST, "/openai/deployments/small/conversations", false),
            (Method::POST, "/openai/deployments/a/b/embeddings", false),
            (Method::POST, "/v1beta/models/m:embedcontent", true),
            (Method::POST, "/v1/completions/", true),
            (Method::GET, "/v1/responses/resp_1/input_items", true),
            (Method::GET, "/v1/completions", false),
            (Method::POST, "/v1/chat/completions", false),
            (Method::POST, "/v1/x/completions", false),
            (Method::PATCH, "/v1/conversations/c", false),
        ] {
            assert_eq!(readable(&method, path).is_some(), is_known, "{method} {path}");
        }
    }

    /// What the same request asks of the service may be asked of a deployment.
    #[test]
    fn what_a_deployment_is_asked_is_read_as_what_the_service_is() {
        for asked in crate::cloud::azure::OF_DEPLOYMENTS {
            let of_service = readable(&Method::POST, &format!("/openai/v1{asked}"));
            let of_deployment = readable(&Method::POST, &format!("/openai/deployments/small{asked}"));
            let path = |found: Option<&'static Readable>| found.map(|found| found.path);
            assert_eq!(path(of_deployment), path(of_service), "{asked}");
            assert!(of_service.is_some() || asked == "/chat/completions", "{asked}");
        }
    }
}
