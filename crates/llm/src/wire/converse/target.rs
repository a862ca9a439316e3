//! Addresses: the model, and whether the answer streams.

use crate::wire::{RequestTarget, StreamFraming};

const WHOLE: &str = "converse";
const STREAM: &str = "converse-stream";

/// The path of a request. What stands in the name of a model and has a meaning in paths is escaped.
pub(crate) fn request_path(model: &str, stream: bool) -> String {
    let model = model.replace('%', "%25").replace(':', "%3A").replace('/', "%2F");
    format!("/model/{model}/{}", if stream { STREAM } else { WHOLE })
}

/// What an address says; `None` if it is none of this wire.
pub(crate) fn request_target(path_and_query: &str) -> Option<RequestTarget> {
    let path = path_and_query.split('?').next().unwrap_or_default();
    let (model, verb) = path.strip_prefix("/model/")?.split_once('/')?;
    let stream = match verb {
        WHOLE => false,
        STREAM => true,
        _ => return None,
    };
    let model = model.replace("%2F", "/").replace("%3A", ":").replace("%25", "%");
    let framing = StreamFraming::Events;
    (!model.is_empty()).then_some(RequestTarget { model: Some(model), stream, framing, key: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_the_model() {
        for model in
            ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "arn:aws:bedrock:us-east-1:1:x/y", "a%b"]
        {
            for stream in [false, true] {
                let target = request_target(&request_path(model, stream)).unwrap();
                assert_eq!((target.model.as_deref(), target.stream), (Some(model), stream));
            }
        }
        for other in
            ["/model/m/invoke", "/model//converse", "/model/m", "/v1/messages", "/model/a/b/converse"]
        {
            assert!(request_target(other).is_none(), "{other}");
        }
    }
}
