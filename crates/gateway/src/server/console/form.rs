//! Forms that are posted, read whole and within bounds.

use std::pin::Pin;

use bytes::BytesMut;
use http::header;
use http::request::Parts;
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;
use url::form_urlencoded;

use super::{PATIENCE, PageError};

/// The most bytes of a form: arguments that a person changed, in which each byte may take three.
pub(super) const MOST_BYTES: usize = 1 << 20;
/// The most fields of a form.
const MOST_FIELDS: usize = 1_000;

/// A form.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Returns the one value of a field; empty if it is not there. Of two, nobody knows which is meant.
    pub(super) fn one<'a>(&'a self, name: &'a str) -> Result<&'a str, PageError> {
        let mut values = self.all(name);
        let one = values.next().unwrap_or_default();
        if values.next().is_some() { Err(PageError::Form) } else { Ok(one) }
    }

    /// Returns all values of a field.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(one, _)| one == name).map(|(_, value)| value.as_str())
    }
}

/// Reads a form.
pub(super) async fn read(head: &Parts, mut body: Incoming, most: usize) -> Result<Form, PageError> {
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(PageError::Form);
    }
    let mut whole = BytesMut::new();
    let reading = async {
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let Ok(data) = frame.map_err(|_| PageError::Form)?.into_data() else { continue };
            if whole.len().saturating_add(data.len()) > most {
                return Err(PageError::Form);
            }
            whole.extend_from_slice(&data);
        }
        Ok(())
    };
    timeout(PATIENCE, reading).await.map_err(|_| PageError::Form)??;
    let mut fields = form_urlencoded::parse(&whole).into_owned();
    let form: Vec<_> = fields.by_ref().take(MOST_FIELDS).collect();
    if fields.next().is_some() { Err(PageError::Form) } else { Ok(Form(form)) }
}

/// Returns the one value of a name in the query of a request; empty if it is not there, or stands there twice.
pub(super) fn query(head: &Parts, name: &str) -> String {
    let mut values = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes())
        .filter(|(one, _)| one == name)
        .map(|(_, value)| value.into_owned());
    values.next().filter(|_| values.next().is_none()).unwrap_or_default()
}
