//! Anthropic's Messages in the envelopes of clouds, as their SDKs ask for them.
//!
//! In Amazon Bedrock, `/model/<id>/invoke` answers as Messages do, and `/invoke-with-response-stream` in frames, each a chunk
//! with one event. In Vertex AI, `<model>:rawPredict` and `:streamRawPredict` of Anthropic's models answer as Messages do, the second
//! in server-sent events, and `count-tokens:rawPredict` counts. What the address says the body does not: the model, but for a count,
//! and whether a stream is wanted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::frames::Frame;
use crate::sse::SseEvent;

/// What counts tokens in Vertex AI, in place of a model.
const COUNT: &str = "count-tokens";

/// What an address says of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Enveloped {
    /// The model; `None` where the body names it.
    model: Option<String>,
    stream: bool,
    /// Whether it is one of Bedrock's.
    pub(super) is_framed: bool,
    /// Whether only tokens are counted.
    pub(super) is_count: bool,
}

impl Enveloped {
    /// What a path says; `None` if it is none of a cloud's.
    pub(super) fn of(path: &str) -> Option<Self> {
        if let Some(rest) = path.strip_prefix("/model/") {
            let (model, verb) = rest.split_once('/')?;
            let stream = match verb {
                "invoke" => false,
                "invoke-with-response-stream" => true,
                _ => return None,
            };
            let model = model.replace("%2F", "/").replace("%3A", ":").replace("%25", "%");
            return Some(Self { model: Some(model), stream, is_framed: true, is_count: false });
        }
        let (_, rest) = path.split_once("/publishers/anthropic/models/")?;
        let (model, verb) = rest.split_once(':')?;
        let stream = match verb {
            "rawPredict" => false,
            "streamRawPredict" => true,
            _ => return None,
        };
        let is_count = model == COUNT;
        let model = (!is_count).then(|| model.to_owned());
        Some(Self { model, stream, is_framed: false, is_count })
    }

    /// Says in a body what the address says.
    pub(super) fn complete(&self, body: &mut Value) {
        let Some(body) = body.as_object_mut() else { return };
        if let Some(model) = &self.model {
            body.insert("model".to_owned(), model.as_str().into());
            body.insert("stream".to_owned(), self.stream.into());
        }
    }
}

/// An event in a frame of Bedrock's. Real ones have padding beside it, so that their size tells nothing.
pub(super) fn framed(event: &SseEvent) -> Bytes {
    let kind = [(":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event")];
    let chunk = json!({ "bytes": STANDARD.encode(&event.data), "p": "abcdefghijk" });
    let mut bytes = BytesMut::new();
    Frame::new(&kind, chunk.to_string()).encode(&mut bytes);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_the_model_and_whether_it_streams() {
        let of = |path: &str| Enveloped::of(path).map(|said| (said.model, said.stream, said.is_framed));
        let model = || Some("a:0".to_owned());
        assert_eq!(of("/model/a%3A0/invoke"), Some((model(), false, true)));
        assert_eq!(of("/model/a%3A0/invoke-with-response-stream"), Some((model(), true, true)));
        let base = "/v1/projects/p/locations/l/publishers/anthropic/models";
        let claude = || Some("claude@1".to_owned());
        assert_eq!(of(&format!("{base}/claude@1:rawPredict")), Some((claude(), false, false)));
        assert_eq!(of(&format!("{base}/claude@1:streamRawPredict")), Some((claude(), true, false)));
        assert_eq!(of(&format!("{base}/count-tokens:rawPredict")), Some((None, false, false)));
        for other in
            ["/v1/messages", "/model/a/converse", "/model/a", "/publishers/google/models/g:rawPredict"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn an_event_stands_in_a_chunk() {
        let event = SseEvent {
            event: Some("ping".to_owned()),
            data: r#"{"type":"ping"}"#.to_owned(),
            ..SseEvent::default()
        };
        let mut reader = crate::frames::FrameReader::default();
        reader.push(&framed(&event));
        let frame = reader.next_frame().unwrap().unwrap();
        assert_eq!(frame.header(":event-type"), Some("chunk"));
        assert_eq!(frame.header(":message-type"), Some("event"));
        let chunk: Value = serde_json::from_slice(&frame.payload).unwrap();
        let said = STANDARD.decode(chunk["bytes"].as_str().unwrap()).unwrap();
        assert_eq!(said, event.data.as_bytes());
        reader.finish().unwrap();
    }

    #[test]
    fn a_body_says_what_its_address_says() {
        let complete = |path: &str| {
            let mut body = json!({"messages": [], "model": "other"});
            Enveloped::of(path).unwrap().complete(&mut body);
            body
        };
        let invoked = complete("/model/m/invoke-with-response-stream");
        assert_eq!(invoked, json!({"messages": [], "model": "m", "stream": true}));
        let counted =
            complete("/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict");
        assert_eq!(counted["model"], "other");
    }
}
