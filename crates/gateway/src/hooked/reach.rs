//! Requests that reach a model by a way that has no codec here.
//!
//! Such a request can't be judged. Each provider has ways of its own, and most servers that speak one of the wires
//! have another beside it; they are told by the segments of their paths. What else there is (files, lists of models,
//! embeddings) passes.

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, header};

use crate::endpoint::{Operation, normal};
use crate::exchange::{Answered, Body, Call, Exchange, Outgoing, Reply, Requested, Step, Watch};
use crate::upstream::is_version;

/// Segments of paths by which models are asked, their answers fetched, or texts left for them to read.
const MODEL_PATHS: [&str; 50] = [
    "agents",
    "assistants",
    "audio",
    "batch",
    "batches",
    "batchgeneratecontent",
    "bidigeneratecontent",
    "cachedcontents",
    "chat",
    "chatkit",
    "complete",
    "completion",
    "completions",
    "conversations",
    "converse",
    "converse-stream",
    "create",
    "edits",
    "evals",
    "generate",
    "generate_stream",
    "generateanswer",
    "generatecontent",
    "generatemessage",
    "generatetext",
    "images",
    "infer",
    "infill",
    "interactions",
    "invocations",
    "invoke",
    "invoke-with-response-stream",
    "messages",
    "ocr",
    "predict",
    "predictions",
    "predictlongrunning",
    "rawpredict",
    "realtime",
    "responses",
    "run",
    "runs",
    "serverstreamingpredict",
    "sessions",
    "streamgeneratecontent",
    "streamgenerateanswer",
    "streamrawpredict",
    "threads",
    "videos",
    "workflows",
];

/// Headers by which some servers take another method than the request's.
const OTHER_METHODS: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Whether a request may have a model read it, or tell what a model said.
pub(super) fn reaches_a_model(call: &Call<'_>) -> bool {
    // A path that can be read in two ways is refused before anybody asks.
    let Ok(path) = normal(call.path) else { return true };
    if OTHER_METHODS.iter().any(|name| call.headers.contains_key(*name)) || is_grpc(call.headers) {
        return true;
    }
    match call.endpoint.operation {
        Operation::Messages
        | Operation::CountTokens
        | Operation::ChatCompletions
        | Operation::Responses
        | Operation::GenerateContent
        | Operation::StreamGenerateContent => true,
        Operation::StoredResponse => call.method != Method::DELETE,
        Operation::Embeddings => false,
        // Some servers ask a model at its own address: `/models/<name>:<verb>`, `/models/<name>/<verb>`.
        Operation::Models => {
            let only_lists = reads_only(call.method) || call.method == Method::DELETE;
            !only_lists && !path.ends_with("embedcontent") && !path.ends_with("embedcontents")
        }
        // Some servers have one model, and ask it at their root.
        Operation::Other if path.split('/').all(|segment| segment.is_empty() || is_version(segment)) => {
            !reads_only(call.method)
        }
        // Dots stand between the names of a gRPC service, and before what some servers take for a format.
        Operation::Other => path.split(['/', ':', '.']).any(|segment| MODEL_PATHS.contains(&segment.trim())),
    }
}

fn reads_only(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

/// Whether a request is a call of gRPC, whose paths are its maker's and whose body is no JSON.
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes().trim_ascii_start());
    let begins = |kind: &[u8]| kind.get(.."application/grpc".len()).map(<[u8]>::to_ascii_lowercase);
    kind.and_then(begins).as_deref() == Some(b"application/grpc")
}

/// A request that is refused whatever it says.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) Reply);

#[async_trait]
impl Exchange for Refusal {
    async fn request(&mut self, _: &Body<'_>) -> Requested {
        Requested::Reply(self.0.clone())
    }

    fn response(&mut self, _: &Answered<'_>) -> Watch {
        Watch::Opaque
    }

    fn chunk(&mut self, _: Bytes, _: &mut Outgoing) -> Step {
        Step::End
    }

    fn finish(&mut self, _: &mut Outgoing) -> Step {
        Step::End
    }

    async fn decide(&mut self, _: &mut Outgoing) -> Step {
        Step::End
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_in_small_letters_and_stand_once() {
        let mut sorted = MODEL_PATHS.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), MODEL_PATHS.len());
        assert!(sorted.iter().all(|segment| segment.to_ascii_lowercase() == **segment));
    }
}
