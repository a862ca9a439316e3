//! A server that is asked for a token: one request, one small answer.

use std::time::Duration;

use backstop_http_client::tls::Trust;
use backstop_http_client::{Client, Proxies, Request, Route, Settings};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use url::Url;

/// The longest time to a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// The largest answer, in bytes.
const LARGEST: usize = 64 << 10;

/// The whole answer of the server at this address, which is known by an authority that the system trusts. Redirects are never
/// followed: they would carry a secret elsewhere. Whoever asks says how long it may take.
pub(crate) async fn ask_for_token(
    address: &Uri,
    proxies: &Proxies,
    (method, mut headers, body): (Method, HeaderMap, Bytes),
) -> Result<(StatusCode, HeaderMap, Vec<u8>), String> {
    let url = Url::parse(&address.to_string()).map_err(|error| error.to_string())?;
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let client = Client::new(Settings {
        trust: Trust::System,
        route: Route::Proxied(proxies.clone()),
        connect_timeout: CONNECT,
        timeout: None,
    });
    let request = Request { method, url: &url, headers, body };
    let answer = client.send(request).await.map_err(|error| error.to_string())?;
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = answer.whole(LARGEST).await.map_err(|error| error.to_string())?;
    Ok((status, headers, body))
}
