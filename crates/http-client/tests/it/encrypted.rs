//! Connections with TLS: who is trusted, what is spoken, and tunnels.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backstop_http_client::tls::Trust;
use backstop_http_client::{ConnectError, Error, Proxies, Route, SetupError};
use http_body_util::Full;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use url::Url;

use crate::support::*;

#[tokio::test]
async fn http2_is_spoken_where_the_server_wants_it_and_shares_a_connection() {
    let authority = Authority::new("one");
    let acceptor = authority.server("127.0.0.1", &["h2", "http/1.1"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let stream = acceptor.accept(socket).await.unwrap();
            let answer = service_fn(async |request: http::Request<_>| {
                let said = format!("{:?} {}", request.version(), request.uri());
                let _: &hyper::body::Incoming = request.body();
                Ok::<_, Infallible>(http::Response::new(Full::new(bytes::Bytes::from(said))))
            });
            let builder = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(async move { drop(builder.serve_connection(TokioIo::new(stream), answer).await) });
        }
    });
    let client = client(authority.trusted(), Route::Direct);
    let url = Url::parse(&format!("https://{address}/x?y")).unwrap();
    for _ in 0..2 {
        assert_eq!(text(&client, &url).await.unwrap(), format!("HTTP/2.0 {url}"));
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn who_is_not_trusted_or_called_otherwise_learns_nothing() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let server = Server::behind(Some((authority.server("127.0.0.1", &[]), None)), [ok("text")]).await;
    let url = Url::parse(&format!("https://{}/", server.address)).unwrap();
    for trust in [other.trusted(), Trust::System] {
        let error = text(&client(trust, Route::Direct), &url).await.unwrap_err();
        assert!(matches!(error, Error::Connect(ConnectError::UnknownAuthority)), "{error:?}");
    }
    let named = Url::parse(&format!("https://localhost:{}/", server.address.port())).unwrap();
    let error = text(&client(authority.trusted(), Route::Direct), &named).await.unwrap_err();
    assert!(matches!(error, Error::Connect(ConnectError::Tls(_))), "{error:?}");
    assert!(server.heads().is_empty());
    assert_eq!(text(&client(authority.trusted(), Route::Direct), &url).await.unwrap(), "text");
}

#[tokio::test]
async fn an_encrypted_proxy_relays_what_is_plain_and_tunnels_what_is_not() {
    let authority = Authority::new("one");
    let outer = authority.server("127.0.0.1", &[]);
    let inner = authority.server("elsewhere.invalid", &[]);
    let through = |proxy: &Server| {
        let all = Some(format!("https://{}", proxy.address));
        client(authority.trusted(), Route::Proxied(Proxies { all, ..Proxies::default() }))
    };
    let relay = Server::behind(Some((outer.clone(), None)), [ok("plain")]).await;
    let url = Url::parse("http://elsewhere.invalid/x").unwrap();
    assert_eq!(text(&through(&relay), &url).await.unwrap(), "plain");
    assert!(relay.heads()[0].starts_with("GET http://elsewhere.invalid/x HTTP/1.1\r\n"));
    let tunnel = Server::behind(Some((outer, Some(inner))), [ok("encrypted")]).await;
    let url = Url::parse("https://elsewhere.invalid/secret").unwrap();
    assert_eq!(text(&through(&tunnel), &url).await.unwrap(), "encrypted");
    let heads = tunnel.heads();
    assert!(heads[0].starts_with("CONNECT elsewhere.invalid:443 HTTP/1.1\r\n"), "{heads:?}");
    assert!(!heads[0].contains("secret") && heads[1].starts_with("GET /secret HTTP/1.1\r\n"), "{heads:?}");
}

#[tokio::test]
async fn a_proxy_of_another_kind_is_an_error_and_no_way_around_it() {
    let all = Some("socks5://127.0.0.1:1".to_owned());
    let client = client(Trust::System, Route::Proxied(Proxies { all, ..Proxies::default() }));
    for at in ["http://elsewhere.invalid/", "https://elsewhere.invalid/"] {
        let error = text(&client, &Url::parse(at).unwrap()).await.unwrap_err();
        assert!(matches!(error, Error::Setup(SetupError::Proxy)), "{error:?}");
    }
}
