//! Providers behind the proxies of the environment. The scripted provider plays the proxy.

use backstop_gateway::{Credential, Family, Proxies};

use crate::support::*;

async fn behind(proxies: impl Fn(&str) -> Proxies, base_url: &str, script: Script) -> (Upstream, Answer) {
    let proxy = Upstream::start(move |_| script.clone()).await;
    let mut settings = settings(&proxy);
    settings.proxies = proxies(&proxy.address.to_string());
    settings
        .providers
        .insert("openai".to_owned(), provider(Family::OpenAi, base_url, Credential::Key(secret("sk-ours"))));
    let gateway = gateway(settings).await;
    let answer = talk(&gateway, post("/v1/chat/completions", "{}")).await;
    (proxy, answer)
}

#[tokio::test]
async fn plain_addresses_are_asked_through_the_proxy() {
    let proxies = |address: &str| Proxies {
        http: Some(format!("http://me:{}@{address}", ["pass", "word"].concat())),
        ..Proxies::default()
    };
    let (proxy, answer) = behind(proxies, "http://provider.invalid/v1", Script::json("200 OK", "{}")).await;
    assert_eq!(answer.status(), 200);
    let seen = proxy.request(0);
    assert!(seen.starts_with("POST http://provider.invalid/v1/chat/completions HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("host: provider.invalid\r\n"), "{seen}");
    assert!(seen.contains("proxy-authorization: Basic bWU6cGFzc3dvcmQ=\r\n"), "{seen}");
}

#[tokio::test]
async fn encrypted_addresses_get_a_tunnel_and_the_proxy_sees_no_key() {
    let proxies = |address: &str| Proxies { all: Some(format!("http://{address}")), ..Proxies::default() };
    let refused = Script::whole("HTTP/1.1 403 Forbidden\r\n\r\n").ending(End::Close);
    let (proxy, answer) = behind(proxies, "https://provider.invalid", refused).await;
    assert_eq!(answer.status(), 502);
    let seen = proxy.request(0);
    assert!(
        seen.starts_with("CONNECT provider.invalid:443 HTTP/1.1\r\n") && !seen.contains("sk-ours"),
        "{seen}"
    );
}

#[tokio::test]
async fn what_no_proxy_names_is_reached_directly_and_so_is_this_machine() {
    let proxy = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let target = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut settings = settings(&target);
    let address = proxy.address.to_string();
    settings.proxies = Proxies { http: Some(format!("http://{address}")), ..Proxies::default() };
    let gateway = gateway(settings).await;
    assert_eq!(talk(&gateway, post("/v1/messages", "{}")).await.status(), 200);
    assert_eq!((proxy.count(), target.count()), (0, 1));
    let proxies = |address: &str| Proxies {
        http: Some(format!("http://{address}")),
        no: Some("provider.invalid".to_owned()),
        ..Proxies::default()
    };
    let (proxy, answer) = behind(proxies, "http://provider.invalid", Script::json("200 OK", "{}")).await;
    // There is no such host, and nobody else was asked for it.
    assert_eq!((answer.status(), proxy.count()), (502, 0));
}
