//! The listener: its certificates, and settings that change while it runs.

use std::sync::Arc;

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Pem, Settings, StartError, Tls, Transparent};
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallOutcome};
use rcgen::{Certificate, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::credentials::log;
use crate::inspect::support::House;
use crate::support::*;
use crate::tls::Authority;

const MODEL: &str = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;

/// Certificates for `localhost`, and the authorities of clients.
fn tls(authority: &Authority, clients: Option<&Authority>) -> Tls {
    with(&authority.signed("localhost"), clients)
}

/// That certificate with its key, and the authorities of clients.
fn with((certificate, key): &(Certificate, KeyPair), clients: Option<&Authority>) -> Tls {
    let pem = |text: &str, source: &str| Pem { text: text.as_bytes().to_vec(), source: source.to_owned() };
    Tls {
        certificates: pem(&certificate.pem(), "cert.pem"),
        key: secret(&key.serialize_pem()),
        clients: clients.map(|authority| pem(&authority.pem, "clients.pem")),
    }
}

async fn secured(upstream: &Upstream, tls: Tls) -> backstop_gateway::Gateway {
    gateway(Settings { tls: Some(tls), ..settings(upstream) }).await
}

/// A connection of a client that trusts `authority`, and shows a certificate.
async fn open(
    gateway: &backstop_gateway::Gateway,
    authority: &Authority,
    own: Option<(CertificateDer<'static>, KeyPair)>,
    protocol: &str,
) -> std::io::Result<TlsStream<tokio::net::TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        Some((certificate, key)) => config
            .with_client_auth_cert(vec![certificate], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap(),
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, connect(gateway).await).await
}

/// A request over a connection, and all that comes back; `None` if nothing does.
async fn ask(stream: std::io::Result<TlsStream<tokio::net::TcpStream>>) -> Option<String> {
    let mut stream = stream.ok()?;
    stream.write_all(post("/v1/messages", MODEL).as_bytes()).await.ok()?;
    let mut bytes = Vec::new();
    let _ = within(stream.read_to_end(&mut bytes)).await;
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn a_listener_with_a_certificate_speaks_nothing_in_the_clear() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{\"fine\":true}")).await;
    let authority = Authority::new("ours");
    let gateway = secured(&upstream, tls(&authority, None)).await;
    let answer = ask(open(&gateway, &authority, None, "http/1.1").await).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("fine"), "{answer}");
    let stream = open(&gateway, &authority, None, "h2").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    // Who does not trust its authority does not talk to it, and who does not encrypt is not heard.
    assert!(open(&gateway, &Authority::new("another"), None, "http/1.1").await.is_err());
    let clear = talk(&gateway, post("/v1/messages", MODEL)).await;
    assert!(!clear.text().starts_with("HTTP/"), "{}", clear.text());
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_client_for_whom_nobody_vouches_is_not_heard() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{\"fine\":true}")).await;
    let (ours, clients, strangers) = (Authority::new("ours"), Authority::new("clients"), Authority::new("x"));
    let gateway = secured(&upstream, tls(&ours, Some(&clients))).await;
    let with = |authority: &Authority| {
        let (certificate, key) = authority.signed("client");
        Some((certificate.der().clone(), key))
    };
    for (own, is_heard) in [(None, false), (with(&strangers), false), (with(&clients), true)] {
        let answer = ask(open(&gateway, &ours, own, "http/1.1").await).await;
        assert_eq!(answer.is_some_and(|answer| answer.contains("fine")), is_heard);
    }
    assert_eq!(upstream.count(), 1);
    // A certificate is no token.
    let mut stream = open(&gateway, &ours, with(&clients), "http/1.1").await.unwrap();
    let request = post("/v1/messages", MODEL).replace(&format!("/t/{TOKEN}"), "");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let _ = within(stream.read_to_end(&mut bytes)).await;
    assert!(String::from_utf8_lossy(&bytes).starts_with("HTTP/1.1 401 "));
}

#[tokio::test]
async fn connections_end_that_others_were_let_in_by() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{\"fine\":true}")).await;
    let (ours, clients, others) =
        (Authority::new("ours"), Authority::new("clients"), Authority::new("others"));
    let gateway = gateway(settings(&upstream)).await;
    let exchange = |tls: Option<Tls>| {
        let next = Settings { tls, ..settings(&upstream) };
        gateway.reload(&next, Arc::new(Transparent)).unwrap();
    };
    let own = || {
        let (certificate, key) = clients.signed("client");
        Some((certificate.der().clone(), key))
    };
    // In the clear, until it is spoken encrypted only: a connection ends that asked nothing, and one that did.
    let (mut silent, mut kept) = (connect(&gateway).await, connect(&gateway).await);
    kept.write_all(post("/v1/messages", MODEL).replace("connection: close\r\n", "").as_bytes())
        .await
        .unwrap();
    until(&mut kept, "fine").await;
    exchange(Some(tls(&ours, None)));
    within(rest(&mut silent)).await;
    within(rest(&mut kept)).await;
    // Encrypted, until somebody has to vouch for clients, and then until it is somebody else.
    for (before, after) in [(None, Some(&clients)), (Some(&clients), Some(&others)), (Some(&clients), None)] {
        exchange(Some(tls(&ours, before)));
        let mut open = open(&gateway, &ours, own(), "http/1.1").await.unwrap();
        let request = post("/v1/messages", MODEL).replace("connection: close\r\n", "");
        open.write_all(request.as_bytes()).await.unwrap();
        let mut begun = [0; 12];
        within(open.read_exact(&mut begun)).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        // A certificate of its own that is another ends nothing.
        exchange(Some(tls(&ours, before)));
        open.write_all(request.as_bytes()).await.unwrap();
        eventually("the second is asked", || upstream.count() % 2 == 1).await;
        exchange(Some(tls(&ours, after)));
        let _ = within(open.read_to_end(&mut Vec::new())).await;
    }
}

#[tokio::test]
async fn certificates_are_exchanged_for_new_connections() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{\"fine\":true}")).await;
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let gateway = secured(&upstream, tls(&old, None)).await;
    let before = open(&gateway, &old, None, "http/1.1").await;
    let next = Settings { tls: Some(tls(&new, None)), ..settings(&upstream) };
    gateway.reload(&next, Arc::new(Transparent)).unwrap();
    assert!(open(&gateway, &old, None, "http/1.1").await.is_err());
    assert!(ask(open(&gateway, &new, None, "http/1.1").await).await.unwrap().contains("fine"));
    assert!(ask(before).await.unwrap().contains("fine"), "a connection stays what it is");
    // Certificates that are none change nothing, and are named.
    let broken = |change: &dyn Fn(&mut Tls)| {
        let mut tls = tls(&new, Some(&new));
        change(&mut tls);
        let next = Settings { tls: Some(tls), ..settings(&upstream) };
        gateway.reload(&next, Arc::new(Transparent)).unwrap_err().to_string()
    };
    let other_key = broken(&|tls| tls.key = secret(&KeyPair::generate().unwrap().serialize_pem()));
    assert!(other_key.contains("`cert.pem`") && other_key.contains("do not fit"), "{other_key}");
    let no_key = broken(&|tls| tls.key = secret("nothing"));
    assert!(no_key.contains("private key can't be read"), "{no_key}");
    let nobody =
        broken(&|tls| tls.clients = Some(Pem { text: Vec::new(), source: "clients.pem".to_owned() }));
    assert!(nobody.contains("`clients.pem`") && nobody.contains("BEGIN CERTIFICATE"), "{nobody}");
    assert!(ask(open(&gateway, &new, None, "http/1.1").await).await.unwrap().contains("fine"));
}

#[tokio::test]
async fn a_certificate_out_of_its_time_is_told_where_it_stays_and_takes_no_others_place() {
    log::listen();
    let told = || log::said().matches("no client takes the certificate").count();
    let upstream = Upstream::start(|_| Script::json("200 OK", "{\"fine\":true}")).await;
    let ours = Authority::new("ours");
    let ended = || with(&ours.ended("localhost"), None);
    let first = ended();
    let gateway = secured(&upstream, first.clone()).await;
    assert_eq!(told(), 1, "{}", log::said());
    assert!(log::said().contains("ended at 2001-01-01"), "{}", log::said());
    let refused = open(&gateway, &ours, None, "http/1.1").await.err().unwrap().to_string();
    assert!(refused.contains("expired"), "{refused}");
    let reload = |tls: &Tls| {
        let next = Settings { tls: Some(tls.clone()), ..settings(&upstream) };
        gateway.reload(&next, Arc::new(Transparent)).map_err(|error| error.to_string())
    };
    reload(&first).unwrap();
    assert_eq!(told(), 2, "{}", log::said());
    let error = reload(&ended()).unwrap_err();
    assert!(error.contains("`cert.pem`") && error.contains("ended at 2001-01-01"), "{error}");
    reload(&tls(&ours, None)).unwrap();
    assert!(reload(&first).is_err());
    assert!(ask(open(&gateway, &ours, None, "http/1.1").await).await.unwrap().contains("fine"));
}

/// Hooks that stop every request, or none.
fn hooks(stops: bool) -> Hooks {
    let house = House::new();
    house.judge::<BeforeLlmCall>("gate", move |_| {
        stops.then(|| BeforeLlmCallOutcome { block: Some(true), ..BeforeLlmCallOutcome::default() })
    });
    Hooks::new(house.engine, HookSettings::default()).unwrap()
}

#[tokio::test]
async fn what_is_under_way_ends_by_the_settings_that_it_began_with() {
    let events = ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"];
    let upstream =
        Upstream::start(move |_| Script::events(&events).paced(std::time::Duration::from_millis(100))).await;
    let gateway = start(settings(&upstream), Transparent).await.unwrap();
    let (mut passing, mut kept) = (connect(&gateway).await, connect(&gateway).await);
    passing.write_all(post("/v1/messages", MODEL).as_bytes()).await.unwrap();
    let begun = until(&mut passing, "data: 1").await;
    gateway.reload(&settings(&upstream), Arc::new(hooks(true))).unwrap();
    let ended = within(rest(&mut passing)).await;
    assert!(begun.starts_with("HTTP/1.1 200 OK") && ended.text().contains("data: 3"), "{}", ended.text());
    // A connection that was there before is asked by the new hooks.
    kept.write_all(post("/v1/messages", MODEL).as_bytes()).await.unwrap();
    let stopped = within(rest(&mut kept)).await;
    assert!(stopped.text().contains("[backstop] blocked"), "{}", stopped.text());
    assert_eq!((upstream.count(), gateway.requests()), (1, 2), "requests are counted on");
    assert_eq!(gateway.model_requests(), 2);
    // Tokens, too.
    let mut next = settings(&upstream);
    next.token = secret("another-token-of-ours");
    gateway.reload(&next, Arc::new(hooks(false))).unwrap();
    assert_eq!(talk(&gateway, post("/v1/messages", MODEL)).await.status(), 401);
}

#[tokio::test]
async fn settings_that_make_no_sense_change_nothing() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = start(settings(&upstream), hooks(true)).await.unwrap();
    let mut elsewhere = settings(&upstream);
    elsewhere.listen = upstream.address;
    let mut guessable = settings(&upstream);
    guessable.token = secret("short");
    let mut nowhere = settings(&upstream);
    nowhere.defaults.insert(backstop_gateway::Family::Anthropic, vec!["nobody".to_owned()]);
    for (next, is_moved) in [(elsewhere, true), (guessable, false), (nowhere, false)] {
        let error = gateway.reload(&next, Arc::new(Transparent)).unwrap_err();
        assert_eq!(matches!(error, StartError::Moved { .. }), is_moved, "{error}");
        let answer = talk(&gateway, post("/v1/messages", MODEL)).await;
        assert!(answer.text().contains("[backstop] blocked"), "{error}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn hooks_that_were_replaced_are_idle_once_nothing_passes_them() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let old = hooks(false);
    let gateway = start(settings(&upstream), old.clone()).await.unwrap();
    assert!(!old.are_idle());
    let engine = House::new().engine;
    let new = old.renewed(engine, HookSettings::default()).unwrap();
    gateway.reload(&settings(&upstream), Arc::new(new)).unwrap();
    eventually("nothing passes the old ones", || old.are_idle()).await;
}
