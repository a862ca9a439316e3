//! One wire on one transport: what of the corpus comes on it, and what is wrong with what its client got.

use backstop_gateway::Cloud;
use backstop_llm::Api;

use super::http;
use crate::inspect::adversarial::corpus::{Adverse, FILES, Written, corpus};
use crate::websockets::lanes as sockets;

/// What an answer comes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// HTTP/1.1, as its maker sends it.
    Http1,
    /// HTTP/2 and TLS, as its maker or Bedrock sends it.
    Http2,
    /// Azure OpenAI.
    Azure,
    /// Bedrock's frames, to a client that wants them.
    Bedrock,
    /// Bedrock's frames, to a client that wants the maker's events.
    Unframed,
    /// The maker's events, to a client that wants Bedrock's frames.
    Framed,
    /// Addresses of Vertex AI.
    Vertex,
    /// A WebSocket of Responses.
    WebSocket,
    /// A session of Realtime.
    Realtime,
    /// A session of Gemini Live.
    Live,
}

impl Transport {
    pub(crate) const ALL: [Self; 10] = [
        Self::Http1,
        Self::Http2,
        Self::Azure,
        Self::Bedrock,
        Self::Unframed,
        Self::Framed,
        Self::Vertex,
        Self::WebSocket,
        Self::Realtime,
        Self::Live,
    ];

    /// The cloud in which the provider of a wire is.
    pub(crate) fn cloud(self, api: Api) -> Option<Cloud> {
        let bedrock = || Cloud::Bedrock { region: "us-east-1".to_owned() };
        match self {
            Self::Azure => Some(Cloud::Azure { api_version: None }),
            Self::Bedrock | Self::Unframed => Some(bedrock()),
            Self::Vertex => Some(Cloud::Vertex { project: "p".to_owned(), region: "r".to_owned() }),
            Self::Http2 if api == Api::BedrockConverse => Some(bedrock()),
            Self::Http1 | Self::Http2 | Self::Framed | Self::WebSocket | Self::Realtime | Self::Live => None,
        }
    }

    /// The forms in which answers of a wire come on it.
    pub(crate) fn forms(self, api: Api) -> &'static [Written] {
        match self {
            Self::WebSocket | Self::Realtime | Self::Live => &[Written::Events],
            _ if api == Api::Gemini => &[Written::Events, Written::Whole, Written::Array],
            _ => &[Written::Events, Written::Whole],
        }
    }
}

/// The answers of the corpus that come on a lane, and whether each is a plain one.
pub(crate) fn answers(transport: Transport, api: Api) -> Vec<(Adverse, bool)> {
    let all = FILES.into_iter().flat_map(corpus);
    let all = all.filter(|answer| answer.api == api && transport.forms(api).contains(&answer.form));
    all.map(|answer| {
        let is_plain = answer.truncated;
        (answer, is_plain)
    })
    .collect()
}

/// Fails if any answer of the corpus tells what it hides, or leaves as something that no client can read.
pub(crate) async fn check(transport: Transport, api: Api) {
    let answers = answers(transport, api);
    assert!(answers.len() > 150, "{}", answers.len());
    // A call and a text in events, and what there is besides.
    let plain = answers.iter().filter(|(_, is_plain)| *is_plain).count();
    assert_eq!(plain, transport.forms(api).len() + 1);
    let faults = match transport {
        Transport::WebSocket | Transport::Realtime | Transport::Live => {
            sockets::faults(transport, &answers).await
        }
        Transport::Http1
        | Transport::Http2
        | Transport::Azure
        | Transport::Bedrock
        | Transport::Unframed
        | Transport::Framed
        | Transport::Vertex => http::faults(transport, api, &answers).await,
    };
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}
