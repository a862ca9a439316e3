//! Documents with a request or an answer on each line, and one of these judged as if it had come alone.

use backstop_llm::{ProviderError, ProviderErrorKind};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value};

use super::exchange::InspectedExchange;
use super::reply;
use crate::endpoint::Family;
use crate::exchange::{Answered, Body, Exchange as _, Outgoing, Reply, Step, Watch};

/// More lines than any document has, blank ones included.
const MOST_LINES: usize = 200_000;

/// One line of a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Its number, from 1.
    pub(super) number: usize,
    /// With its end.
    raw: &'a str,
    /// What stands in it.
    pub(super) said: &'a str,
}

/// The lines of a document.
///
/// # Errors
/// If readers would find other lines in it, or it has too many.
pub(super) fn lines(document: &[u8]) -> Result<impl Iterator<Item = Line<'_>>, String> {
    let text = str::from_utf8(document).map_err(|_| "it is not UTF-8".to_owned())?;
    // They are not collected: a line may be a byte.
    for line in numbered(text) {
        if line.number > MOST_LINES {
            return Err(format!("it has more than {MOST_LINES} lines"));
        }
        // For some readers a line ends there.
        if line.said.contains('\r') {
            return Err(format!("line {} has a carriage return in it", line.number));
        }
    }
    Ok(numbered(text))
}

fn numbered(text: &str) -> impl Iterator<Item = Line<'_>> {
    (1..).zip(text.split_inclusive('\n')).map(|(number, raw)| {
        let said = raw.strip_suffix('\n').map_or(raw, |line| line.strip_suffix('\r').unwrap_or(line));
        Line { number, raw, said: said.trim_matches([' ', '\t']) }
    })
}

/// A document that is written anew, line by line.
#[derive(Debug, Default)]
pub(super) struct Written(BytesMut);

impl Written {
    /// Adds a line as it came, or what stands in its place.
    pub(super) fn push(&mut self, line: Line<'_>, new: Option<&Value>) {
        match new {
            None => self.0.extend_from_slice(line.raw.as_bytes()),
            Some(new) => {
                self.0.extend_from_slice(new.to_string().as_bytes());
                self.0.extend_from_slice(b"\n");
            }
        }
    }

    /// The document.
    pub(super) fn finish(self) -> Bytes {
        self.0.freeze()
    }
}

/// Judges an answer as if it had come alone; answers the status and the body that leave.
pub(super) async fn alone(mut one: InspectedExchange, provider: &str, answer: Bytes) -> (StatusCode, Bytes) {
    let nothing = Bytes::new();
    // Nothing is asked, so nothing is refused.
    let _ = one.request(&Body { bytes: &nothing, provider }).await;
    let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let headers = HeaderMap::from_iter([json]);
    match one.response(&Answered { provider, status: StatusCode::OK, headers: &headers }) {
        Watch::Opaque => return (StatusCode::OK, answer),
        Watch::Refuse(reply) => return (reply.status, reply.body),
        Watch::Look { .. } => {}
    }
    let mut out = Outgoing::new(Response::new(()).into_parts().0);
    let mut step = one.chunk(answer, &mut out);
    while step == Step::Decide {
        step = one.decide(&mut out).await;
    }
    if step == Step::Continue {
        step = one.finish(&mut out);
    }
    while step == Step::Decide {
        step = one.decide(&mut out).await;
    }
    let status = out.head_mut().map_or(StatusCode::OK, |head| head.status);
    (status, out.take_data().freeze())
}

/// What is told in place of an answer of which nothing may leave.
pub(super) fn unusable(family: Family, why: &str) -> Reply {
    let status = StatusCode::BAD_GATEWAY.as_u16();
    let message = format!("backstop: the provider's answer can't be used: {why}");
    reply::error(family, &ProviderError::new(ProviderErrorKind::Server, status, None, &message))
}

/// Whether an object has these fields alone.
pub(super) fn has_only(fields: &Map<String, Value>, known: &[&str]) -> bool {
    fields.keys().all(|key| known.contains(&key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_blank_ones_count() {
        let blank = |count: usize| "\n".repeat(count);
        assert_eq!(lines(blank(MOST_LINES).as_bytes()).unwrap().count(), MOST_LINES);
        for document in [blank(MOST_LINES + 1), " \r\n".repeat(MOST_LINES + 1), blank(MOST_LINES) + "x"] {
            let why = lines(document.as_bytes()).err().unwrap();
            assert!(why.contains("more than 200000 lines"), "{why}");
        }
        let said: Vec<(usize, &str)> =
            lines(b" a\t\r\n\nb").unwrap().map(|line| (line.number, line.said)).collect();
        assert_eq!(said, [(1, "a"), (2, ""), (3, "b")]);
        assert!(lines(b"a\rb\n").is_err() && lines(b"\xff").is_err());
    }
}
