//! Connections without TLS: what is kept, what is judged, what is bounded, and what errors say.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_http_client::tls::Trust;
use backstop_http_client::{
    BoxError, Client, ConnectError, Egress, Error, Proxies, Request, Route, Settings, cause,
};
use http::{HeaderMap, HeaderValue, Method, header};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use url::Url;

use crate::support::*;

fn direct() -> Client {
    client(Trust::System, Route::Direct)
}

#[tokio::test]
async fn connections_are_used_again_and_replaced_when_they_are_dead() {
    let last = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nthree".to_owned();
    let server = Server::start([ok("one"), ok("two"), Answer::Close(last), ok("four")]).await;
    let client = direct();
    for expected in ["one", "two", "three", "four"] {
        assert_eq!(text(&client, &server.url("/")).await.unwrap(), expected);
    }
    assert_eq!((server.heads().len(), server.connections()), (4, 2));
}

#[tokio::test]
async fn a_request_that_was_sent_is_not_sent_again() {
    let server = Server::start([ok("one"), Answer::Close(String::new()), ok("never")]).await;
    let client = direct();
    assert_eq!(text(&client, &server.url("/")).await.unwrap(), "one");
    let error = text(&client, &server.url("/")).await.unwrap_err();
    assert!(matches!(error, Error::Broken(_)) && !error.is_connect() && !error.is_no_http(), "{error:?}");
    assert_eq!(server.heads().len(), 2);
}

#[tokio::test]
async fn an_answer_that_nobody_reads_costs_no_connection_where_it_is_there() {
    let whole = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n".to_owned();
    let server = Server::start([ok("text"), Answer::Keep(whole), ok("last")]).await;
    let client = direct();
    for _ in 0..2 {
        drop(client.send(get(&server.url("/"))).await.unwrap());
    }
    assert_eq!(text(&client, &server.url("/")).await.unwrap(), "last");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_answer_that_was_left_is_not_read_by_the_next_request() {
    let rest = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome".to_owned();
    let server = Server::start([Answer::Stall(rest), ok("other")]).await;
    let client = direct();
    let mut left = client.send(get(&server.url("/"))).await.unwrap();
    assert_eq!(left.chunk().await.unwrap().unwrap(), "some");
    drop(left);
    assert_eq!(text(&client, &server.url("/")).await.unwrap(), "other");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_request_has_the_host_of_its_address_and_the_headers_it_was_given() {
    let server = Server::start([ok(""), ok("")]).await;
    let url = server.url("/a%20b?c=d#fragment");
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, HeaderValue::from_static("elsewhere.example"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/plain"));
    let request = Request { method: Method::POST, url: &url, headers, body: "body".into() };
    direct().send(request).await.unwrap();
    text(&direct(), &url).await.unwrap();
    let heads = server.heads();
    assert!(heads[0].starts_with("POST /a%20b?c=d HTTP/1.1\r\n"), "{}", heads[0]);
    for line in
        [format!("host: {}\r\n", server.address).as_str(), "accept: text/plain\r\n", "content-length: 4"]
    {
        assert!(heads[0].contains(line), "{line}: {}", heads[0]);
    }
    assert!(!heads[0].contains("elsewhere") && heads[1].contains("accept: */*\r\n"), "{heads:?}");
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let target = Server::start([]).await;
    let to = |status: u16, location: &str| {
        Answer::Keep(format!("HTTP/1.1 {status} x\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"))
    };
    let away = target.url("/there").to_string();
    let server =
        Server::start([to(302, &away), to(308, "/below"), to(307, "http://["), to(201, &away)]).await;
    let (client, url) = (direct(), server.url("/a/b"));
    for expected in [Some(Some(target.url("/there"))), Some(Some(server.url("/below"))), Some(None), None] {
        let answer = client.send(get(&url)).await.unwrap();
        assert_eq!(answer.redirect(&url).map(Result::ok), expected);
    }
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn a_body_has_a_limit_however_it_is_cut() {
    let chunked = |size: usize| {
        let pieces = format!("{size:x}\r\n{}\r\n", "x".repeat(size)).repeat(12 / size);
        Answer::Keep(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{pieces}0\r\n\r\n"))
    };
    for answer in [ok(&"x".repeat(12)), chunked(1), chunked(4), chunked(12)] {
        let server = Server::start([answer.clone(), answer]).await;
        let client = direct();
        let url = server.url("/");
        assert_eq!(client.send(get(&url)).await.unwrap().whole(12).await.unwrap().len(), 12);
        let error = client.send(get(&url)).await.unwrap().whole(11).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge(11)), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_that_ends_too_early_is_none() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome".to_owned();
    let nonsense = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnonsense".to_owned();
    for answer in [cut, nonsense] {
        let server = Server::start([Answer::Close(answer)]).await;
        let error = text(&direct(), &server.url("/")).await.unwrap_err();
        assert!(matches!(error, Error::Cut(_)) && !error.is_no_http(), "{error:?}");
    }
}

#[tokio::test]
async fn the_time_for_an_answer_holds_for_its_head_and_for_its_body() {
    let begun = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome".to_owned();
    let server = Server::start([Answer::Stall(String::new()), Answer::Stall(begun)]).await;
    let timeout = Some(Duration::from_millis(300));
    let (trust, route) = (Trust::System, Route::Direct);
    let client = Client::new(Settings { trust, route, connect_timeout: Duration::from_secs(20), timeout });
    for _ in 0..2 {
        let error = text(&client, &server.url("/")).await.unwrap_err();
        assert!(matches!(error, Error::Timeout(_)) && error.is_timeout(), "{error:?}");
    }
}

/// Refuses the addresses of hosts, and notes what it was asked.
#[derive(Debug)]
struct Judge {
    lets_through: bool,
    asked: Mutex<Vec<(String, Vec<IpAddr>)>>,
}

#[derive(Debug, thiserror::Error)]
#[error("not there")]
struct NotThere;

impl Egress for Judge {
    fn judge(&self, host: &str, addresses: &[IpAddr]) -> Result<(), BoxError> {
        self.asked.lock().unwrap().push((host.to_owned(), addresses.to_vec()));
        if self.lets_through { Ok(()) } else { Err(NotThere.into()) }
    }
}

#[tokio::test]
async fn addresses_are_judged_before_the_connection_names_and_literals_alike() {
    for (host, looked_up) in [
        ("127.0.0.1", &["127.0.0.1"][..]),
        ("localhost", &["127.0.0.1", "::1"]),
        ("2130706433", &["127.0.0.1"]),
    ] {
        for lets_through in [true, false] {
            let server = Server::start([ok("text"), ok("text")]).await;
            let judge = Arc::new(Judge { lets_through, asked: Mutex::default() });
            let client = client(Trust::System, Route::Judged(judge.clone()));
            let url = Url::parse(&format!("http://{host}:{}/", server.address.port())).unwrap();
            for _ in 0..2 {
                match text(&client, &url).await {
                    Ok(text) => assert!(lets_through && text == "text"),
                    Err(error) => {
                        assert!(matches!(error, Error::Connect(ConnectError::Refused(_))), "{error:?}");
                        assert!(!lets_through && cause::<NotThere>(&error).is_some(), "{error:?}");
                    }
                }
            }
            // Once for each connection, and no connection where it said no.
            let asked = judge.asked.lock().unwrap().clone();
            let looked_up: Vec<IpAddr> = looked_up.iter().map(|at| at.parse().unwrap()).collect();
            let once = (url.host_str().unwrap().to_owned(), looked_up);
            assert_eq!(asked, vec![once; if lets_through { 1 } else { 2 }]);
            assert_eq!(server.connections(), usize::from(lets_through));
        }
    }
}

#[tokio::test]
async fn a_proxy_is_asked_for_what_is_elsewhere_and_never_for_this_machine() {
    let proxy = Server::start([ok("from the proxy")]).await;
    let server = Server::start([ok("from here")]).await;
    let word = ["pass", "word"].concat();
    let all = Some(format!("http://me:{word}@{}", proxy.address));
    let client = client(Trust::System, Route::Proxied(Proxies { all, ..Proxies::default() }));
    let here = Url::parse(&format!("http://localhost:{}/", server.address.port())).unwrap();
    assert_eq!(text(&client, &here).await.unwrap(), "from here");
    assert_eq!(proxy.connections(), 0);
    let away = Url::parse("http://elsewhere.invalid/x").unwrap();
    assert_eq!(text(&client, &away).await.unwrap(), "from the proxy");
    let heads = proxy.heads();
    assert!(heads[0].starts_with("GET http://elsewhere.invalid/x HTTP/1.1\r\n"), "{heads:?}");
    assert!(heads[0].contains("proxy-authorization: Basic "), "{heads:?}");
    assert!(!format!("{client:?}").contains(&word));
}

#[tokio::test]
async fn errors_and_debug_show_no_address_and_no_credentials() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other_address = other.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = other.accept().await.unwrap();
        socket.write_all(b"SSH-2.0-x\r\n").await.unwrap();
    });
    let silent = Server::start([Answer::Close(String::new())]).await;
    let word = ["hunt", "er2"].concat();
    let mut errors = Vec::new();
    let client = direct();
    for at in [
        format!("http://{closed}/{word}?{word}"),
        format!("https://{other_address}/{word}?{word}"),
        format!("http://{}/{word}?{word}", silent.address),
        format!("http://me:{word}@127.0.0.1/"),
        format!("ftp://127.0.0.1/{word}"),
        format!("data:{word}"),
    ] {
        let url = Url::parse(&at).unwrap();
        assert!(!format!("{:?}", get(&url)).contains(&word));
        errors.push(text(&client, &url).await.unwrap_err());
    }
    let kinds: Vec<bool> = errors.iter().map(Error::is_connect).collect();
    assert_eq!(kinds, [true, true, false, false, false, false], "{errors:?}");
    for error in errors {
        assert!(!format!("{error} {error:?} {client:?}").contains(&word), "{error:?}");
    }
    let nonsense = Server::start([Answer::Close("SSH-2.0-x\r\n".to_owned())]).await;
    let error = text(&client, &nonsense.url("/")).await.unwrap_err();
    assert!(error.is_no_http() && !error.is_connect() && !error.is_timeout(), "{error:?}");
}
