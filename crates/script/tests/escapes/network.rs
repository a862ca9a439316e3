//! Hosts: by name, by address, by redirect.

use std::sync::{Arc, Mutex};

use backstop_script::{HostGrant, Permissions};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::tried;

/// A server on loopback that answers each request with what `answer` makes of its head; and the heads it was sent.
async fn server(
    answer: impl Fn(&str, u16) -> String + Send + Sync + 'static,
) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            while let Ok(1..) = stream.read_buf(&mut bytes).await {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let wanted = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() < wanted.map_or(0, |wanted| wanted.parse().unwrap()) {
                    continue;
                }
                seen.lock().unwrap().push(text.clone());
                stream.write_all(answer(head, port).as_bytes()).await.unwrap();
                break;
            }
        }
    });
    (port, heads)
}

fn host(host: &str, port: u16) -> Permissions {
    Permissions {
        hosts: vec![HostGrant { host: host.to_owned(), port: Some(port) }],
        ..Permissions::default()
    }
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn without_a_grant_no_host_is_asked_and_the_address_is_not_told() {
    let (port, heads) = server(|_, _| ok("{}")).await;
    let secret = ["to", "ken"].concat();
    let body = "
        const port = given.port, all = [];
        for (const url of [`http://127.0.0.1:${port}/?k=${given.secret}`, `http://localhost:${port}/`, `http://[::ffff:127.0.0.1]:${port}/`, `http://2130706433:${port}/`, `http://0x7f.1:${port}/`,
            `http://127.0.0.1.:${port}/`, 'http://169.254.169.254/latest/', 'https://example.org/', 'file:///etc/hostname', 'data:text/plain,x', 'ftp://example.org/', `HTTP://LOCALHOST:${port}`])
            all.push(await refused(() => fetch(url)));
        all.push(await refused(() => fetch(new Request(`http://127.0.0.1:${port}/`, { method: 'POST', body: given.secret }))));
        all.push(await refused(() => fetch({ toString: () => `http://127.0.0.1:${port}/` })));
        return all;";
    let (answer, denied) =
        tried(Permissions::default(), body, &json!({"port": port, "secret": secret})).await;
    assert!(heads.lock().unwrap().is_empty(), "nothing was asked");
    for one in answer.as_array().unwrap() {
        assert!(one.get("got").is_none(), "{one}");
        assert!(!one.to_string().contains(&secret), "{one}");
    }
    assert_eq!(answer[0]["permission"], json!(format!("hosts: 127.0.0.1:{port}")), "{answer}");
    assert!(denied.contains(&"hosts: example.org:443".to_owned()), "{denied:?}");
}

#[tokio::test]
async fn a_granted_host_is_asked_and_answers() {
    let (port, heads) =
        server(|head, _| if head.starts_with("POST") { ok("{\"a\":[1]}") } else { ok("text") }).await;
    let body = "
        const url = `http://127.0.0.1:${given}/x?y#z`;
        const posted = await fetch(url, { method: 'POST', headers: { 'X-A': 'b', Host: 'evil.example', 'Content-Length': '1' }, body: JSON.stringify({ q: 1 }) });
        const read = await fetch(url); const pieces = []; for await (const piece of read.body) pieces.push(Buffer.from(piece).toString());
        return [posted.status, posted.ok, posted.headers.get('content-type'), await posted.json(), pieces.join(''), read.bodyUsed, await (await fetch(url)).text(), (await (await fetch(url)).arrayBuffer()).byteLength];";
    let (answer, _) = tried(host("127.0.0.1", port), body, &json!(port)).await;
    assert_eq!(answer, json!([200, true, "application/json", {"a": [1]}, "text", true, "text", 4]));
    let heads = heads.lock().unwrap();
    let first = heads[0].to_lowercase();
    assert!(
        first.contains("x-a: b")
            && first.contains("{\"q\":1}")
            && !first.contains("evil")
            && !first.contains("y#z"),
        "{first}"
    );
}

#[tokio::test]
async fn a_redirect_is_asked_about_like_the_first_request() {
    let (inner, inner_heads) = server(|_, _| ok("inner")).await;
    let (port, _) = server(move |head, port| {
        let to = if head.contains("/out") {
            format!("http://127.0.0.1:{inner}/secret")
        } else if head.contains("/meta") {
            "http://169.254.169.254/".to_owned()
        } else if head.contains("/loop") {
            format!("http://127.0.0.1:{port}/loop")
        } else if head.contains("/file") {
            "file:///etc/hostname".to_owned()
        } else {
            return ok("end");
        };
        format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    })
    .await;
    let body = "const at = `http://127.0.0.1:${given}`, all = []; for (const path of ['/out', '/meta', '/loop', '/file']) all.push(await refused(() => fetch(at + path)));
        const manual = await fetch(at + '/out', { redirect: 'manual' }); all.push(manual.status, await refused(() => fetch(at + '/out', { redirect: 'error' }))); return all;";
    let (answer, _) = tried(host("127.0.0.1", port), body, &json!(port)).await;
    assert_eq!(answer[0]["permission"], json!(format!("hosts: 127.0.0.1:{inner}")), "{answer}");
    assert_eq!(answer[1]["permission"], json!("hosts: 169.254.169.254:80"), "{answer}");
    for at in [2, 3, 5] {
        assert!(answer[at].get("code").is_some(), "{answer}");
    }
    assert_eq!(answer[4], json!(302));
    assert!(inner_heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_grant_of_localhost_is_loopback_and_a_request_can_be_aborted() {
    let (port, _) = server(|_, _| ok("here")).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let quiet = silent.local_addr().unwrap().port();
    let mut permissions = host("localhost", port);
    permissions.hosts.push(HostGrant { host: "127.0.0.1".to_owned(), port: Some(quiet) });
    let body = "
        const stop = new AbortController(); const waiting = refused(() => fetch(`http://127.0.0.1:${given.quiet}/`, { signal: stop.signal })); setTimeout(() => stop.abort(), 5);
        return [await (await fetch(`http://localhost:${given.port}/`)).text(), await waiting, await refused(() => fetch(`http://127.0.0.1:${given.quiet}/`, { signal: AbortSignal.timeout(5) })), await refused(() => fetch(`http://127.0.0.1:${given.quiet}/`, { signal: AbortSignal.abort() }))];";
    let (answer, _) = tried(permissions, body, &json!({"port": port, "quiet": quiet})).await;
    assert_eq!(answer[0], json!("here"));
    assert_eq!(
        (&answer[1]["code"], &answer[2]["code"], &answer[3]["code"]),
        (&json!(20), &json!(23), &json!(20)),
        "{answer}"
    );
}
