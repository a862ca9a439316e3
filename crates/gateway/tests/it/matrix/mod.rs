//! The corpus of adversarial answers on every wire and every transport, at every cut.
//!
//! [`LANES`] is the one list of what is tried. A wire, a cloud or a transport that is in no lane, and of which [`absent`]
//! does not say why, does not compile or fails [`every_wire_is_on_every_transport_or_said_to_be_absent`].
//!
//! At every cut means, for the bytes as a transport carries them (events, JSON, frames, messages):
//!
//! - the plain answers of a wire byte by byte, in pieces of [`PHASE`] bytes from each of as many beginnings, and cut in two, and
//!   ended, at each byte up to [`SMALL`] of them; those with more at all their structural boundaries (ends of lines, parts of
//!   frames), and at each [`STRIDE`]th byte besides;
//! - every answer in one piece, in pieces of [`PHASE`] bytes from a beginning that goes round with the answers, and ended at
//!   [`ENDINGS`] of its structural boundaries. What transports do at a cut does not depend on what an answer says; the editors,
//!   which do, read each of these answers byte by byte in the tests of the codecs, where no socket is between.

pub(crate) mod cuts;
mod http;
mod lanes;

use backstop_gateway::Cloud;
use backstop_llm::Api;

pub(crate) use self::http::unframed;
pub(crate) use self::lanes::Transport;
use crate::inspect::adversarial::corpus::Written;

/// Of how many bytes pieces are, that begin at each of so many bytes.
pub(crate) const PHASE: usize = 8;
/// At how many boundaries any answer is ended.
pub(crate) const ENDINGS: usize = 3;
/// Up to how many bytes a plain answer is cut at each.
pub(crate) const SMALL: usize = 512;
/// At each how manieth byte a larger one is.
pub(crate) const STRIDE: usize = 29;

/// Makes the list, and a test for each lane in it.
macro_rules! lanes {
    ($($transport:ident: $($name:ident = $api:ident),+;)+) => {
        const LANES: &[(Transport, Api)] = &[$($((Transport::$transport, Api::$api)),+),+];

        $($(
            #[tokio::test]
            async fn $name() {
                lanes::check(Transport::$transport, Api::$api).await;
            }
        )+)+
    };
}

lanes! {
    Http1:
        anthropic_on_http1 = AnthropicMessages,
        chat_on_http1 = OpenAiChat,
        responses_on_http1 = OpenAiResponses,
        gemini_on_http1 = Gemini;
    Http2:
        anthropic_on_http2 = AnthropicMessages,
        chat_on_http2 = OpenAiChat,
        responses_on_http2 = OpenAiResponses,
        gemini_on_http2 = Gemini,
        converse_on_http2 = BedrockConverse;
    Azure:
        chat_at_azure = OpenAiChat,
        responses_at_azure = OpenAiResponses;
    Bedrock:
        anthropic_at_bedrock = AnthropicMessages,
        converse_at_bedrock = BedrockConverse;
    Unframed: anthropic_at_bedrock_for_a_client_of_the_maker = AnthropicMessages;
    Framed: anthropic_at_its_maker_for_a_client_of_bedrock = AnthropicMessages;
    Vertex:
        anthropic_at_vertex = AnthropicMessages,
        gemini_at_vertex = Gemini;
    WebSocket: responses_on_a_websocket = OpenAiResponses;
    Realtime: realtime = OpenAiResponses;
    Live: gemini_live = Gemini;
}

/// Why no answer of a wire comes on a transport. Who adds one of either says it here, or in the list above.
fn absent(transport: Transport, api: Api) -> Option<&'static str> {
    use Transport as On;
    match (api, transport) {
        (Api::BedrockConverse, On::Http1) => Some("it comes in Bedrock's frames, also on HTTP/1"),
        (Api::BedrockConverse, On::Unframed | On::Framed) => Some("no maker speaks it"),
        (Api::BedrockConverse, On::Azure | On::Vertex) => Some("only Bedrock speaks it"),
        (Api::OpenAiChat | Api::OpenAiResponses | Api::Gemini, On::Bedrock | On::Unframed | On::Framed) => {
            Some("Bedrock hosts other wires")
        }
        (Api::AnthropicMessages | Api::Gemini, On::Azure) => Some("Azure is asked by OpenAI's wires"),
        (Api::OpenAiChat | Api::OpenAiResponses, On::Vertex) => {
            Some("Vertex AI is asked by Anthropic's and Google's")
        }
        (
            Api::AnthropicMessages | Api::OpenAiChat | Api::Gemini | Api::BedrockConverse,
            On::WebSocket | On::Realtime,
        ) => Some("OpenAI's WebSockets carry Responses"),
        (
            Api::AnthropicMessages | Api::OpenAiChat | Api::OpenAiResponses | Api::BedrockConverse,
            On::Live,
        ) => Some("Live carries contents of Gemini"),
        (
            Api::AnthropicMessages,
            On::Http1 | On::Http2 | On::Bedrock | On::Unframed | On::Framed | On::Vertex,
        )
        | (Api::OpenAiChat, On::Http1 | On::Http2 | On::Azure)
        | (Api::OpenAiResponses, On::Http1 | On::Http2 | On::Azure | On::WebSocket | On::Realtime)
        | (Api::Gemini, On::Http1 | On::Http2 | On::Vertex | On::Live)
        | (Api::BedrockConverse, On::Http2 | On::Bedrock) => None,
    }
}

/// The transport on which answers of a cloud come.
fn of_cloud(cloud: &Cloud) -> Transport {
    match cloud {
        Cloud::Azure { .. } => Transport::Azure,
        Cloud::Bedrock { .. } => Transport::Bedrock,
        Cloud::Vertex { .. } => Transport::Vertex,
    }
}

#[test]
fn every_wire_is_on_every_transport_or_said_to_be_absent() {
    for transport in Transport::ALL {
        for api in Api::ALL {
            let lanes = LANES.iter().filter(|lane| **lane == (transport, api)).count();
            let expected = usize::from(absent(transport, api).is_none());
            assert_eq!(lanes, expected, "{transport:?} and {api}");
        }
        if let Some(cloud) = transport.cloud(Api::AnthropicMessages) {
            assert!(of_cloud(&cloud) == transport || transport == Transport::Unframed, "{transport:?}");
        }
    }
}

/// A list of all that leaves one out is none.
#[test]
fn lists_of_all_have_all() {
    let mut next = Some(Api::AnthropicMessages);
    let apis = std::iter::from_fn(|| {
        let api = next?;
        next = match api {
            Api::AnthropicMessages => Some(Api::OpenAiChat),
            Api::OpenAiChat => Some(Api::OpenAiResponses),
            Api::OpenAiResponses => Some(Api::Gemini),
            Api::Gemini => Some(Api::BedrockConverse),
            Api::BedrockConverse => None,
        };
        Some(api)
    });
    assert_eq!(apis.collect::<Vec<_>>(), Api::ALL);
    for (transport, api) in LANES {
        let forms = transport.forms(*api);
        assert!(forms.contains(&Written::Events), "{transport:?} and {api}");
        let is_gemini = *api == Api::Gemini && *transport != Transport::Live;
        assert_eq!(forms.contains(&Written::Array), is_gemini, "{transport:?} and {api}");
    }
}
