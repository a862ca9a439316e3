use std::net::SocketAddr;
use std::time::{Duration, Instant};

use backstop_agent::tools::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Bench;

fn local() -> Bench {
    Bench::with(Limits { allow_private_hosts: true, ..Limits::default() })
}

/// Serves what `answer` makes of the request's path.
async fn serve(answer: fn(&str, SocketAddr) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(respond(stream, address, answer));
        }
    });
    format!("http://{address}")
}

async fn respond(mut stream: TcpStream, address: SocketAddr, answer: fn(&str, SocketAddr) -> String) {
    let mut request = vec![0; 4096];
    let read = stream.read(&mut request).await.unwrap();
    let request = String::from_utf8_lossy(request.get(..read).unwrap()).into_owned();
    let target = request.split(' ').nth(1).unwrap();
    let answer = answer(target.split('?').next().unwrap(), address);
    if answer == "endless" {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await;
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
        return;
    }
    if answer == "silent" {
        let _ = stream.read(&mut [0; 16]).await;
        return;
    }
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn page(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn site(path: &str, address: SocketAddr) -> String {
    let port = address.port();
    match path {
        "/html" => page("200 OK", "content-type: text/html; charset=utf-8\r\n", "<h1>Hi</h1><p>a &amp; b"),
        "/json" => page("200 OK", "content-type: application/json\r\n", "{\"a\":1}"),
        "/image" => page("200 OK", "content-type: image/png\r\n", "png"),
        "/old" => page("302 Found", "location: /json\r\n", ""),
        "/loop" => page("302 Found", "location: /loop\r\n", ""),
        "/file" => page("302 Found", "location: file:///etc/hostname\r\n", ""),
        "/login" => page("302 Found", &format!("location: http://u:p@127.0.0.1:{port}/json\r\n"), ""),
        "/endless" => "endless".to_owned(),
        "/silent" => "silent".to_owned(),
        _ => page("404 Not Found", "content-type: text/plain\r\n", "no such page"),
    }
}

#[tokio::test]
async fn pages_are_shown_as_text() {
    let bench = local();
    let url = serve(site).await;
    assert_eq!(bench.ok("web_fetch", json!({"url": format!("{url}/html")})).await, "Hi\n\na & b");
    let raw = bench.ok("web_fetch", json!({"url": format!("{url}/html"), "raw": true})).await;
    assert_eq!(raw, "<h1>Hi</h1><p>a &amp; b");
    let json = bench.run("web_fetch", json!({"url": format!("{url}/old?token=x")})).await;
    assert_eq!(json.content, "{\"a\":1}");
    assert_eq!(json.details["finalUrl"], json!(format!("{url}/json")));
    let missing = bench.fails("web_fetch", json!({"url": format!("{url}/none")})).await;
    assert_eq!(missing, "[the server answered 404]\nno such page");
    let image = bench.fails("web_fetch", json!({"url": format!("{url}/image")})).await;
    assert!(image.contains("`image/png`, which is not text"), "{image}");
}

#[tokio::test]
async fn redirects_are_limited_and_checked() {
    let bench = local();
    let url = serve(site).await;
    for (path, word) in
        [("/loop", "more than 5 redirects"), ("/file", "only `http`"), ("/login", "holds credentials")]
    {
        let error = bench.fails("web_fetch", json!({"url": format!("{url}{path}")})).await;
        assert!(error.contains(word), "{path}: {error}");
        assert!(!error.contains("u:p"), "{error}");
    }
}

#[tokio::test]
async fn inner_hosts_are_refused_by_address_and_by_name() {
    let bench = Bench::new();
    let url = serve(site).await;
    let port = url.rsplit(':').next().unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "0x7f.1",
        "2130706433",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "10.0.0.1",
    ] {
        let error = bench.fails("web_fetch", json!({"url": format!("http://{host}:{port}/json")})).await;
        assert!(error.contains("not a public address"), "{host}: {error}");
    }
}

#[tokio::test]
async fn urls_that_are_none_are_refused() {
    let bench = local();
    for (url, word) in [
        ("file:///etc/hostname", "only `http`"),
        ("gopher://x/", "only `http`"),
        ("no url", "cannot be fetched"),
        ("http://user:pass@127.0.0.1/", "holds credentials"),
    ] {
        let error = bench.fails("web_fetch", json!({"url": url})).await;
        assert!(error.contains(word) && !error.contains("pass"), "{url}: {error}");
    }
}

#[tokio::test]
async fn endless_and_silent_servers_are_cut_off() {
    let limits = Limits {
        allow_private_hosts: true,
        file_bytes: 1_000_000,
        time: Duration::from_secs(2),
        ..Limits::default()
    };
    let bench = Bench::with(limits);
    let url = serve(site).await;
    let endless = bench.run("web_fetch", json!({"url": format!("{url}/endless")})).await;
    assert!(
        !endless.is_error && endless.content.len() <= bench.cx.limits.output_bytes,
        "{}",
        endless.content.len()
    );
    assert_eq!((&endless.details["bytes"], &endless.details["truncated"]), (&json!(1_000_000), &json!(true)));
    let started = Instant::now();
    let silent = bench.fails("web_fetch", json!({"url": format!("{url}/silent")})).await;
    assert!(silent.contains("no complete answer within 2 s"), "{silent}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn cancel_ends_a_fetch() {
    let bench = local();
    let url = serve(site).await;
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bench.cx.cancel.cancel();
    };
    let (output, ()) = tokio::join!(bench.run("web_fetch", json!({"url": format!("{url}/silent")})), cancel);
    assert!(output.is_error && output.content.contains("cancelled"), "{}", output.content);
}
