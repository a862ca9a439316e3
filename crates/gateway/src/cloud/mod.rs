//! Clouds: wires that we know, in addresses and envelopes of those who host the models of others.
//!
//! Whatever a client or a provider speaks, what is judged is the maker's wire: what an envelope says beside the body is put
//! where the maker's wire has it, judged there, and taken out again on the way to the provider. So a client of one envelope
//! can be sent to a provider of another.
//!
//! Laws: *what is judged is what is asked*, so a part of a request that is said in two places is taken from the one that the
//! cloud goes by, and the other one is not sent; *what an envelope can't say is refused*, never left out; *what a client
//! brings for one cloud goes to no other*, neither its key nor its signature.

pub(crate) mod azure;
pub(crate) mod bedrock;
mod fields;
pub(crate) mod sigv4;
pub(crate) mod vertex;

use std::collections::HashSet;

use bytes::Bytes;
use http::header::HeaderName;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use thiserror::Error;

use self::fields::Fields;
pub(crate) use self::fields::MOST as MOST_FIELDS;
pub(crate) use self::vertex::{LivePath, live_path};
use crate::endpoint::{Endpoint, Family, Operation, unescaped};
use crate::settings::Cloud;
use crate::upstream::is_version;

/// The version of Anthropic's API, where no client says which.
const MESSAGES_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");
const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");
const MODEL: &str = "model";
const STREAM: &str = "stream";

/// The longest name of a model that an address may have.
const LONGEST_MODEL: usize = 256;

/// Why a provider can't be asked for something in its envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unspoken {
    #[error("the path is malformed")]
    Path,
    #[error("its address has the model, and the request names none, or not in exactly one way")]
    NoModel,
    #[error("the model's name can't be a part of its address")]
    Model,
    #[error("the body is no JSON object, or has a key twice or more than {most} fields", most = MOST_FIELDS)]
    Body,
    #[error("what it says of `anthropic-beta` is no list of names")]
    Betas,
    #[error(
        "a header `x-ms-oai-..` may name another model or answer, and nobody here reads it\nhint: `x-ms-oai-image-generation-deployment` with one name is read, of a response at a provider with `cloud: azure`"
    )]
    Header,
    #[error("its cloud has no such operation, or one that this proxy does not speak")]
    Operation,
    #[error(
        "it has no credentials of its own, and those of this client are for another API\nhint: `api_key`, `api_key_env` or `api_key_file` of the provider, or `aws_credentials`; or its `cloud`, if it is in the one of this client"
    )]
    Credentials,
}

/// An operation of a cloud that nobody here speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotSpoken {
    #[error(
        "this proxy speaks `invoke` and `invoke-with-response-stream` of Bedrock, with bodies of Anthropic's Messages, `converse`, `converse-stream` and `count-tokens`, and nothing else of it"
    )]
    Bedrock,
    #[error(
        "this proxy speaks `rawPredict` and `streamRawPredict` of Anthropic's models in Vertex AI, and `generateContent`, `streamGenerateContent` and `countTokens` of Google's, and nothing else of it"
    )]
    Vertex,
    #[error("the address names a model in a way that can be read as something else")]
    Model,
}

/// Whose envelope it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Envelope {
    Bedrock,
    Vertex,
}

/// What a client says in the address of an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    pub(crate) envelope: Envelope,
    /// The request's address in the wire of the maker.
    pub(crate) target: PathAndQuery,
    /// What is asked, where the maker has no such address.
    pub(crate) endpoint: Option<Endpoint>,
    /// What the body of the maker's wire has, and this one leaves to the address.
    said: Option<Said>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    /// Under which key of the body, and which.
    model: Option<(&'static str, String)>,
    stream: bool,
}

/// A body, and what its address says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// The body says the same.
    Same,
    /// The body said nothing of it, and now does.
    Added(Bytes),
    /// The body said something else, or in no clear way, and now does not.
    Changed(Bytes),
    /// It is no object, or none that is read in one way.
    Unreadable,
}

impl Spoken {
    /// What a client that speaks an envelope asks for; `None` if it speaks a maker's wire. What else has the
    /// addresses of a cloud brings credentials for that, and is refused.
    pub(crate) fn of(method: &Method, target: &PathAndQuery) -> Result<Option<Self>, NotSpoken> {
        let path = target.path();
        // What nearly all requests are for, without a look at each of their segments.
        if matches!(path, "/v1/messages" | "/v1/chat/completions" | "/v1/responses") {
            return Ok(None);
        }
        let segments: Vec<&str> = path.trim_end_matches('/').split('/').skip(1).collect();
        let mut endpoint = None;
        let (envelope, plain, said) = match segments.as_slice() {
            [first, model, verb] if names(first, "model") => {
                let verb = bedrock::Verb::of(verb).ok_or(NotSpoken::Bedrock)?;
                let model = bedrock::model(model).ok_or(NotSpoken::Model)?;
                endpoint = verb.endpoint();
                let model = Some((verb.model_key(), model));
                let said = Some(Said { model, stream: verb.streams() });
                (Envelope::Bedrock, verb.plain().to_owned(), said)
            }
            [first, _, _, ..] if names(first, "model") => return Err(NotSpoken::Bedrock),
            segments => {
                let rest = match segments.split_first() {
                    Some((version, rest)) if is_version(&version.to_ascii_lowercase()) => rest,
                    _ => segments,
                };
                let Some(vertex) = vertex::spoken(rest)? else { return Ok(None) };
                let said = vertex
                    .said
                    .map(|(model, stream)| Said { model: model.map(|model| (MODEL, model)), stream });
                (Envelope::Vertex, vertex.target, said)
            }
        };
        if *method != Method::POST {
            return Err(if envelope == Envelope::Bedrock { NotSpoken::Bedrock } else { NotSpoken::Vertex });
        }
        let query = target.query().map(|query| format!("?{query}")).unwrap_or_default();
        let target = format!("{plain}{query}").parse().map_err(|_| NotSpoken::Model)?;
        Ok(Some(Self { envelope, target, endpoint, said }))
    }

    /// What a client asks for in this envelope, and says in the words of the maker.
    pub(crate) fn at(envelope: Envelope, target: PathAndQuery) -> Self {
        Self { envelope, target, endpoint: None, said: None }
    }

    /// The body as the maker's wire has it.
    pub(crate) fn whole(&self, body: &[u8]) -> Named {
        let Some(said) = &self.said else { return Named::Same };
        let Some(fields) = Fields::of(body) else { return Named::Unreadable };
        let mut all = Vec::new();
        // A stream that nobody asks for needs no word.
        if said.stream || fields.get(STREAM).is_some() {
            all.push((STREAM, Value::from(said.stream)));
        }
        all.extend(said.model.as_ref().map(|(key, model)| (*key, Value::from(model.as_str()))));
        with(fields, &all)
    }
}

/// A body of these fields that says all of this.
fn with(mut fields: Fields<'_>, said: &[(&str, Value)]) -> Named {
    let (mut is_same, mut is_changed) = (true, false);
    for (key, value) in said {
        if fields.value(key).as_ref() != Some(value) {
            is_same = false;
            is_changed |= fields.get(key).is_some();
            fields.set(key, value);
        }
    }
    match (is_same, is_changed) {
        (true, _) => Named::Same,
        (false, true) => Named::Changed(fields.write()),
        (false, false) => Named::Added(fields.write()),
    }
}

/// Whether a segment is this word, however it is written.
fn names(segment: &str, word: &str) -> bool {
    unescaped(segment).is_ok_and(|segment| segment.eq_ignore_ascii_case(word))
}

/// Of a query, what says how an answer of Google's is written. The rest of it names other keys, tokens and payers.
fn query_of_google(target: &PathAndQuery) -> String {
    let is_alt = |pair: &&str| {
        let name = unescaped(pair.split('=').next().unwrap_or_default());
        name.is_ok_and(|name| name.trim_start_matches('$') == "alt")
    };
    let kept: Vec<&str> = target.query().unwrap_or_default().split('&').filter(is_alt).collect();
    if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) }
}

/// A request on its way to a provider, in the words of the maker's wire.
#[derive(Debug)]
pub(crate) struct Plain<'a> {
    pub(crate) endpoint: Endpoint,
    pub(crate) target: &'a PathAndQuery,
    /// The body, decoded.
    pub(crate) body: &'a [u8],
    pub(crate) headers: &'a HeaderMap,
    /// The model that it is for.
    pub(crate) model: Option<&'a str>,
    /// The envelope in which the client sent it.
    pub(crate) spoken: Option<Envelope>,
}

/// The same in the envelope of a provider.
#[derive(Debug)]
pub(crate) struct Wrapped {
    pub(crate) target: PathAndQuery,
    /// The body, if it differs from that of the maker's wire.
    pub(crate) body: Option<Bytes>,
    /// Headers in place of those of these names.
    pub(crate) headers: Vec<(HeaderName, Option<HeaderValue>)>,
}

/// The envelope of a cloud, if it has one.
pub(crate) fn envelope(cloud: Option<&Cloud>) -> Option<Envelope> {
    match cloud {
        None | Some(Cloud::Azure { .. }) => None,
        Some(Cloud::Bedrock { .. }) => Some(Envelope::Bedrock),
        Some(Cloud::Vertex { .. }) => Some(Envelope::Vertex),
    }
}

/// Whether a provider in this cloud may see the credentials of a client that asks for `target` in this envelope. Azure has no
/// envelope, and is another company than the makers all the same.
pub(crate) fn may_see_credentials(
    cloud: Option<&Cloud>,
    spoken: Option<Envelope>,
    target: &PathAndQuery,
    brings_any: bool,
) -> bool {
    let is_for_it = match cloud {
        Some(Cloud::Azure { .. }) => azure::is_its(target.path()) || azure::is_asked(target),
        Some(Cloud::Bedrock { .. } | Cloud::Vertex { .. }) => true,
        None => !azure::is_asked(target),
    };
    envelope(cloud) == spoken && (is_for_it || !brings_any)
}

impl Plain<'_> {
    /// The request at Bedrock.
    pub(crate) fn at_bedrock(&self, base: &str) -> Result<Wrapped, Unspoken> {
        if self.endpoint.operation != Operation::Messages && !self.endpoint.is_of_bedrock() {
            return Err(Unspoken::Operation);
        }
        let mut fields = Fields::of(self.body).ok_or(Unspoken::Body)?;
        let model = bedrock::segment(self.model.ok_or(Unspoken::NoModel)?)?;
        let is_stream = fields.value(STREAM) == Some(true.into());
        if self.endpoint.is_of_bedrock() {
            // What its address says, and nothing that Messages have.
            fields.remove(bedrock::MODEL_ID);
            fields.remove(STREAM);
            let verb = bedrock::Verb::for_operation(self.endpoint.operation, is_stream);
            let target = format!("{base}/model/{model}/{}", verb.as_str()).parse();
            let target = target.map_err(|_| Unspoken::Path)?;
            return Ok(Wrapped { target, body: Some(fields.write()), headers: Vec::new() });
        }
        let verb = if is_stream { "invoke-with-response-stream" } else { "invoke" };
        let betas = self.betas(&fields)?;
        bedrock::wrap(&mut fields, betas);
        let target = format!("{base}/model/{model}/{verb}").parse().map_err(|_| Unspoken::Path)?;
        Ok(Wrapped { target, body: Some(fields.write()), headers: vec![(VERSION, None), (BETA, None)] })
    }

    /// The request in Vertex AI.
    pub(crate) fn at_vertex(&self, base: &str, project: &str, region: &str) -> Result<Wrapped, Unspoken> {
        if self.endpoint.operation == Operation::Live {
            return self.live(base, LivePath::Vertex);
        }
        let base = format!("{base}/v1/projects/{project}/locations/{region}/publishers");
        if self.endpoint.family == Family::Gemini {
            let target = vertex::google(&base, self)?;
            return Ok(Wrapped { target, body: None, headers: Vec::new() });
        }
        if !matches!(self.endpoint.operation, Operation::Messages | Operation::CountTokens) {
            return Err(Unspoken::Operation);
        }
        let mut fields = Fields::of(self.body).ok_or(Unspoken::Body)?;
        let is_stream = fields.value(STREAM) == Some(true.into());
        let name = match self.endpoint.operation {
            Operation::Messages => {
                fields.remove(MODEL);
                vertex::segment(self.model.ok_or(Unspoken::NoModel)?)?
            }
            // There the body names the model.
            Operation::CountTokens => vertex::COUNT,
            _ => return Err(Unspoken::Operation),
        };
        let verb = if is_stream { "streamRawPredict" } else { "rawPredict" };
        let betas = self.betas(&fields)?;
        vertex::wrap(&mut fields);
        let target = format!("{base}/anthropic/models/{name}:{verb}").parse().map_err(|_| Unspoken::Path)?;
        Ok(Wrapped {
            target,
            body: Some(fields.write()),
            headers: vec![(VERSION, None), (BETA, header(&betas))],
        })
    }

    /// The opening of a session of Gemini Live, below `base`.
    pub(crate) fn live(&self, base: &str, at: LivePath) -> Result<Wrapped, Unspoken> {
        Ok(Wrapped { target: vertex::live(base, self.target, at)?, body: None, headers: Vec::new() })
    }

    /// The request, which came in an envelope, in the maker's own wire at `target`. What its query says is for the cloud.
    pub(crate) fn at_maker(&self, target: &PathAndQuery) -> Result<Wrapped, Unspoken> {
        if self.endpoint.is_of_bedrock() {
            return Err(Unspoken::Operation);
        }
        let is_google = self.endpoint.family != Family::Anthropic;
        let query = if is_google { query_of_google(target) } else { String::new() };
        let target = format!("{}{query}", target.path()).parse().map_err(|_| Unspoken::Path)?;
        if is_google {
            return Ok(Wrapped { target, body: None, headers: Vec::new() });
        }
        let mut fields = Fields::of(self.body).ok_or(Unspoken::Body)?;
        let betas = self.betas(&fields)?;
        fields.remove("anthropic_version");
        fields.remove("anthropic_beta");
        let headers = vec![(VERSION, Some(MESSAGES_VERSION)), (BETA, header(&betas))];
        Ok(Wrapped { target, body: Some(fields.write()), headers })
    }

    /// What a request asks for that is not for everybody yet, wherever it says so.
    fn betas(&self, fields: &Fields<'_>) -> Result<Vec<String>, Unspoken> {
        let mut betas: Vec<String> = Vec::new();
        for value in self.headers.get_all(BETA) {
            let value = value.to_str().map_err(|_| Unspoken::Betas)?;
            let names = value.split(',').map(str::trim).filter(|beta| !beta.is_empty());
            betas.extend(names.map(str::to_owned));
        }
        if let Some(in_body) = fields.get("anthropic_beta") {
            let in_body: Vec<String> = serde_json::from_str(in_body).map_err(|_| Unspoken::Betas)?;
            betas.extend(in_body);
        }
        // One that is several, or none, in a header would not be what the body said.
        let is_name = |beta: &String| {
            !beta.is_empty() && beta.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
        };
        if !betas.iter().all(is_name) {
            return Err(Unspoken::Betas);
        }
        let mut seen = HashSet::new();
        betas.retain(|beta| seen.insert(beta.clone()));
        Ok(betas)
    }
}

fn header(betas: &[String]) -> Option<HeaderValue> {
    (!betas.is_empty()).then(|| HeaderValue::from_str(&betas.join(",")).ok()).flatten()
}
