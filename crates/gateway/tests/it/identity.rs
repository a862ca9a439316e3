//! Tokens that issuers sign: a real issuer on loopback, with real keys.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_gateway::{Gateway, Settings, StartError, TokenAlgorithm, TokenIssuer, Transparent};
use backstop_hooks::AgentId;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::support::*;

/// A key pair, and what is published of it.
pub(crate) struct Key {
    pub(crate) id: String,
    pair: Pair,
}

pub(crate) enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Key {
    pub(crate) fn rsa(id: &str) -> Self {
        let key = STANDARD.decode(include_str!("credentials/key.txt").replace('\n', "")).unwrap();
        Self { id: id.to_owned(), pair: Pair::Rsa(RsaKeyPair::from_pkcs8(&key).unwrap()) }
    }

    pub(crate) fn ec(id: &str) -> Self {
        let (way, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(way, &random).unwrap();
        Self {
            id: id.to_owned(),
            pair: Pair::Ec(EcdsaKeyPair::from_pkcs8(way, key.as_ref(), &random).unwrap()),
        }
    }

    pub(crate) fn ed(id: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { id: id.to_owned(), pair: Pair::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap()) }
    }

    pub(crate) fn published(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match &self.pair {
            Pair::Rsa(pair) => {
                let public = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "kid": self.id, "n": text(&public.n), "e": text(&public.e)})
            }
            Pair::Ec(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": self.id, "x": text(&point[1..33]), "y": text(&point[33..])})
            }
            Pair::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": text(pair.public_key().as_ref())})
            }
        }
    }

    pub(crate) fn signs(&self, algorithm: &str, signed: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let way: &dyn ring::signature::RsaEncoding =
                    if algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                pair.sign(way, &random, signed, &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, signed).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(signed).as_ref().to_vec(),
        }
    }

    pub(crate) fn token(&self, algorithm: &str, claims: &Value) -> String {
        let head = json!({"alg": algorithm, "kid": self.id, "typ": "JWT"});
        let signed = signed(&head, claims);
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(self.signs(algorithm, signed.as_bytes())))
    }
}

pub(crate) fn signed(head: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(head), part(claims))
}

/// A server of an issuer: its discovery document and its keys.
struct Login {
    server: Upstream,
    keys: Arc<Mutex<Value>>,
}

impl Login {
    async fn with(keys: &[&Key]) -> Self {
        let published: Vec<Value> = keys.iter().map(|key| key.published()).collect();
        let keys = Arc::new(Mutex::new(json!({ "keys": published })));
        let shown = Arc::clone(&keys);
        let server = Upstream::answering(move |request| {
            let host =
                request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().trim().to_owned();
            let keys = shown.lock().unwrap().clone();
            match request.split(' ').nth(1).unwrap() {
                _ if keys.is_null() => Script::json("503 Service Unavailable", "{}"),
                "/.well-known/openid-configuration" => {
                    let issuer =
                        keys["issuer"].as_str().map_or_else(|| format!("http://{host}"), str::to_owned);
                    let said = json!({"issuer": issuer, "jwks_uri": format!("http://{host}/keys")});
                    Script::json("200 OK", &said.to_string())
                }
                "/keys" => Script::json("200 OK", &keys.to_string()),
                _ => Script::json("404 Not Found", "{}"),
            }
        })
        .await;
        Self { server, keys }
    }

    fn publish(&self, keys: Value) {
        *self.keys.lock().unwrap() = keys;
    }

    fn issuer(&self) -> TokenIssuer {
        let mut issuer = TokenIssuer::new(self.server.url(), "backstop");
        issuer.agent_claim = Some("azp".to_owned());
        issuer.agents.insert("client-1".to_owned(), AgentId::new("ci"));
        issuer.user_claim = Some("sub".to_owned());
        issuer.leeway = Duration::ZERO;
        issuer
    }

    fn claims(&self, seconds: i64) -> Value {
        let now = Timestamp::now().as_second();
        json!({
            "iss": self.server.url(), "aud": "backstop", "exp": now + seconds, "iat": now,
            "azp": "client-1", "sub": "alice",
        })
    }

    /// How often its keys were read.
    fn reads(&self) -> usize {
        let requests = self.server.requests.lock().unwrap();
        requests.iter().filter(|request| request.starts_with("GET /keys ")).count()
    }
}

fn settings_with(upstream: &Upstream, issuer: TokenIssuer) -> Settings {
    Settings { issuers: vec![issuer], ..settings(upstream) }
}

/// A request with nothing but this header.
fn bearing(header: &str, token: &str) -> String {
    let request = post("/v1/messages", "{}").replacen(&format!("/t/{TOKEN}"), "", 1);
    request.replacen("connection:", &format!("{header}{token}\r\nconnection:"), 1)
}

async fn status(gateway: &Gateway, token: &str) -> u16 {
    talk(gateway, bearing("authorization: Bearer ", token)).await.status()
}

async fn answering() -> Upstream {
    Upstream::start(|_| Script::json("200 OK", "{}")).await
}

#[tokio::test]
async fn a_signed_token_opens_at_every_place_and_is_never_passed_on() {
    let keys = [
        (Key::rsa("r"), "RS256"),
        (Key::rsa("p"), "PS256"),
        (Key::ec("e"), "ES256"),
        (Key::ed("d"), "EdDSA"),
    ];
    let (upstream, login) =
        (answering().await, Login::with(&[&keys[0].0, &keys[1].0, &keys[2].0, &keys[3].0]).await);
    let gateway = gateway(settings_with(&upstream, login.issuer())).await;
    for (key, algorithm) in &keys {
        let token = key.token(algorithm, &login.claims(300));
        for header in
            ["authorization: Bearer ", "x-api-key: ", "x-goog-api-key: ", "api-key: ", "x-backstop-token: "]
        {
            let answer = talk(&gateway, bearing(header, &token)).await;
            assert_eq!(answer.status(), 200, "{algorithm} {header} {}", answer.text());
        }
        let whole = post("/v1/messages", "{}");
        assert_eq!(talk(&gateway, whole.replacen(TOKEN, &token, 1)).await.status(), 200);
        let in_query =
            whole.replacen(&format!("/t/{TOKEN}/v1/messages"), &format!("/v1/messages?key={token}"), 1);
        assert_eq!(talk(&gateway, in_query).await.status(), 200);
        // Beside a token that decides, in any header or pair, also once it has expired.
        let expired = key.token(algorithm, &login.claims(-300));
        for beside in [&token, &expired] {
            let beside = whole.replacen("/v1/messages", &format!("/v1/messages?a={beside}"), 1).replacen(
                "connection:",
                &format!("referer: x/{beside}/y\r\nauthorization: Bearer {beside}\r\nconnection:"),
                1,
            );
            assert_eq!(talk(&gateway, beside).await.status(), 200);
        }
        let sent = upstream.requests.lock().unwrap().concat();
        assert!(!sent.contains(token.split('.').nth(1).unwrap()), "{sent}");
        assert!(!sent.contains(expired.split('.').nth(1).unwrap()), "{sent}");
    }
    assert_eq!(login.reads(), 1);
}

#[tokio::test]
async fn whoever_has_one_is_nobody_else_and_nobody_else_is_they() {
    let key = Key::ec("e");
    let (upstream, login) = (answering().await, Login::with(&[&key]).await);
    let gateway = gateway(settings_with(&upstream, login.issuer())).await;
    let token = key.token("ES256", &login.claims(300));
    let request = bearing("authorization: Bearer ", &token);
    for (agent, expected) in [("ci", 200), ("other", 403)] {
        let claimed = request.replacen("/v1/", &format!("/a/{agent}/v1/"), 1);
        assert_eq!(talk(&gateway, claimed).await.status(), expected);
        let claimed =
            request.replacen("connection:", &format!("x-backstop-agent: {agent}\r\nconnection:"), 1);
        assert_eq!(talk(&gateway, claimed).await.status(), expected);
    }
    let claimed = post("/a/ci/v1/messages", "{}");
    assert_eq!(
        talk(&gateway, claimed).await.status(),
        403,
        "the process's token is nobody whom an issuer knows"
    );
}

#[tokio::test]
async fn forged_tokens_open_nothing() {
    let (rsa, ec, stranger) = (Key::rsa("r"), Key::ec("e"), Key::ec("e"));
    let (upstream, login) = (answering().await, Login::with(&[&rsa, &ec]).await);
    let mut issuer = login.issuer();
    issuer.algorithms = vec![TokenAlgorithm::Rs256, TokenAlgorithm::Es256];
    let gateway = gateway(settings_with(&upstream, issuer)).await;
    let claims = login.claims(300);
    let with = |name: &str, value: Value| {
        let mut claims = claims.clone();
        claims[name] = value;
        ec.token("ES256", &claims)
    };
    assert_eq!(status(&gateway, &ec.token("ES256", &claims)).await, 200);
    // The public key of the issuer as the secret of a symmetric algorithm (RFC 8725, 2.1).
    let head = signed(&json!({"alg": "HS256", "kid": "r"}), &claims);
    let secret = rsa.published()["n"].as_str().unwrap().to_owned();
    let hmac =
        ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes()), head.as_bytes());
    let confused = format!("{head}.{}", URL_SAFE_NO_PAD.encode(hmac));
    let unsigned = |alg: &str| format!("{}.", signed(&json!({"alg": alg, "kid": "e"}), &claims));
    let own_key = {
        let head =
            json!({"alg": "ES256", "kid": "e", "jwk": stranger.published(), "jku": "http://127.0.0.1:9/"});
        let signed = signed(&head, &claims);
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(stranger.signs("ES256", signed.as_bytes())))
    };
    let mut of_other_key = ec.token("ES256", &claims);
    of_other_key = of_other_key.replacen(
        &of_other_key.split('.').next().unwrap().to_owned(),
        &URL_SAFE_NO_PAD.encode(json!({"alg": "ES256", "kid": "r"}).to_string()),
        1,
    );
    let forged = [
        confused,
        unsigned("none"),
        unsigned("ES256"),
        stranger.token("ES256", &claims),
        own_key,
        of_other_key,
        rsa.token("PS256", &claims),
        with("aud", json!("others")),
        with("iss", json!("https://login.example")),
        with("exp", json!(Timestamp::now().as_second())),
        with("exp", json!("9999999999")),
        with("nbf", json!(Timestamp::now().as_second() + 100)),
        with("azp", json!("client-2")),
        with("sub", json!(["alice"])),
        with("more", json!("x".repeat(17 << 10))),
    ];
    for token in forged {
        let answer = talk(&gateway, bearing("authorization: Bearer ", &token)).await;
        assert_eq!(answer.status(), 401, "{token}: {}", answer.text());
        assert!(!answer.text().contains(&token), "{}", answer.text());
    }
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn keys_rotate_and_unknown_ones_are_asked_for_once_a_minute() {
    let (old, new) = (Key::ec("old"), Key::ec("new"));
    let (upstream, login) = (answering().await, Login::with(&[&old]).await);
    let gateway = gateway(settings_with(&upstream, login.issuer())).await;
    let token = old.token("ES256", &login.claims(300));
    assert_eq!(status(&gateway, &token).await, 200);
    login.publish(json!({"keys": [new.published()]}));
    assert_eq!(status(&gateway, &new.token("ES256", &login.claims(300))).await, 200);
    assert_eq!(status(&gateway, &token).await, 401, "a key that is no longer published counts no more");
    for number in 0..40 {
        let stranger = Key::ec(&format!("unknown-{number}"));
        assert_eq!(status(&gateway, &stranger.token("ES256", &login.claims(300))).await, 401);
    }
    assert_eq!(login.reads(), 2);
    assert_eq!(status(&gateway, &new.token("ES256", &login.claims(300))).await, 200);
}

#[tokio::test]
async fn an_issuer_that_withdraws_all_its_keys_vouches_for_nobody() {
    let (key, other) = (Key::ec("one"), Key::ec("other"));
    let upstream = answering().await;
    let unusable = json!({"kty": "oct", "kid": "one", "k": "AAAA"});
    for left in [json!([]), json!([unusable])] {
        let login = Login::with(&[&key]).await;
        let gateway = gateway(settings_with(&upstream, login.issuer())).await;
        let token = key.token("ES256", &login.claims(300));
        assert_eq!(status(&gateway, &token).await, 200);
        login.publish(json!({"keys": left}));
        // A key that nobody knows has the set read again.
        assert_eq!(status(&gateway, &other.token("ES256", &login.claims(300))).await, 401);
        assert_eq!(status(&gateway, &token).await, 401, "{left}");
    }
}

#[tokio::test]
async fn an_address_holds_only_so_many_keys_that_are_looked_at() {
    let key = Key::ec("one");
    let (upstream, login) = (answering().await, Login::with(&[&key]).await);
    let gateway = gateway(settings_with(&upstream, login.issuer())).await;
    let token = key.token("ES256", &login.claims(300));
    for (others, opens) in [(0, true), (3, true), (4, false), (60, false)] {
        let keys = format!("{}key={token}", "key=x&".repeat(others));
        let asked = post(&format!("/v1/messages?{keys}"), "{}").replacen(&format!("/t/{TOKEN}"), "", 1);
        assert_eq!(talk(&gateway, asked).await.status() == 200, opens, "{others}");
        // Whoever has come in otherwise has none of them passed on.
        let asked = post(&format!("/v1/messages?{keys}"), "{}");
        assert_eq!(talk(&gateway, asked).await.status(), 200, "{others}");
    }
    let sent = upstream.requests.lock().unwrap().join("\n");
    assert!(!sent.contains(&token) && !sent.contains("key="), "{sent}");
}

#[tokio::test]
async fn keys_that_were_read_outlive_a_dead_endpoint_and_a_reload() {
    let (key, other) = (Key::ed("d"), Key::ed("other"));
    let (upstream, login) = (answering().await, Login::with(&[&key]).await);
    let settings = settings_with(&upstream, login.issuer());
    let gateway = gateway(settings.clone()).await;
    let token = key.token("EdDSA", &login.claims(300));
    assert_eq!(status(&gateway, &token).await, 200);
    login.publish(Value::Null);
    assert_eq!(status(&gateway, &other.token("EdDSA", &login.claims(300))).await, 401);
    assert_eq!(status(&gateway, &token).await, 200);
    gateway.reload(&settings, Arc::new(Transparent)).unwrap();
    assert_eq!(status(&gateway, &token).await, 200, "the same issuer keeps its keys");
    let mut changed = settings.clone();
    changed.issuers[0].audiences = vec!["somebody".to_owned()];
    gateway.reload(&changed, Arc::new(Transparent)).unwrap();
    assert_eq!(status(&gateway, &token).await, 401);
    changed.issuers.clear();
    gateway.reload(&changed, Arc::new(Transparent)).unwrap();
    assert_eq!(status(&gateway, &token).await, 401);
}

#[tokio::test]
async fn a_discovery_document_of_somebody_else_gives_no_keys() {
    let key = Key::ec("e");
    for keys in [
        json!({"issuer": "https://login.example", "keys": [key.published()]}),
        json!({"keys": []}),
        Value::Null,
    ] {
        let (upstream, login) = (answering().await, Login::with(&[]).await);
        login.publish(keys);
        let gateway = gateway(settings_with(&upstream, login.issuer())).await;
        assert_eq!(status(&gateway, &key.token("ES256", &login.claims(300))).await, 401);
        assert_eq!(upstream.count(), 0);
    }
}

#[tokio::test]
async fn what_a_token_has_opened_ends_when_it_expires() {
    let events = ["event: ping\ndata: {}\n\n"; 200];
    let upstream = Upstream::start(move |_| Script::events(&events).paced(Duration::from_millis(100))).await;
    let key = Key::ec("e");
    let login = Login::with(&[&key]).await;
    let gateway = gateway(settings_with(&upstream, login.issuer())).await;
    let token = key.token("ES256", &login.claims(8));
    let mut socket = connect(&gateway).await;
    socket.write_all(bearing("authorization: Bearer ", &token).as_bytes()).await.unwrap();
    let answer = within(rest(&mut socket)).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.text().contains("this token has ended"), "{}", answer.text());
    eventually("the provider's connection ends", || upstream.cut() == 1).await;
    assert_eq!(status(&gateway, &token).await, 401);
}

#[tokio::test]
async fn issuers_that_anybody_could_be_start_no_gateway() {
    let upstream = answering().await;
    let good = || {
        let mut issuer = TokenIssuer::new("https://login.example", "backstop");
        issuer.user_claim = Some("sub".to_owned());
        issuer
    };
    let edit = |edit: fn(&mut TokenIssuer)| {
        let mut issuer = good();
        edit(&mut issuer);
        issuer
    };
    let bad = [
        edit(|issuer| issuer.issuer = "http://login.example".to_owned()),
        edit(|issuer| issuer.issuer = "https://login.example?x".to_owned()),
        edit(|issuer| issuer.issuer = "login.example".to_owned()),
        edit(|issuer| issuer.jwks = Some("http://192.0.2.1/keys".to_owned())),
        edit(|issuer| issuer.jwks = Some("file:///keys".to_owned())),
        edit(|issuer| issuer.jwks = Some("https://me:word@login.example/keys".to_owned())),
        edit(|issuer| issuer.audiences.clear()),
        edit(|issuer| issuer.audiences = vec![String::new()]),
        edit(|issuer| issuer.algorithms.clear()),
        edit(|issuer| issuer.user_claim = None),
        edit(|issuer| issuer.agent_claim = Some("azp".to_owned())),
    ];
    for issuer in bad {
        let started = start(settings_with(&upstream, issuer.clone()), Transparent).await;
        assert!(matches!(started, Err(StartError::Issuer { .. })), "{issuer:?}");
    }
    let twice = Settings { issuers: vec![good(), good()], ..settings(&upstream) };
    assert!(matches!(start(twice, Transparent).await, Err(StartError::Issuer { .. })));
    assert!(start(settings_with(&upstream, good()), Transparent).await.is_ok());
}
