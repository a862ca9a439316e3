//! Access tokens for Vertex AI: accounts with files, machines with a metadata server.

use std::sync::Arc;
use std::time::Duration;

use backstop_gateway::{Credential, CredentialSource, Family, Renewed, Settings};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};

use super::{Place, SESAME, answering, asked, bearer, log, paid, refused_for_now, renewed, soon, vertex};
use crate::support::{End, Script, Upstream, eventually, gateway, post, talk};

/// A key that was made for these tests and is nobody's, without its armour.
fn key() -> Vec<u8> {
    STANDARD.decode(include_str!("key.txt").replace('\n', "")).unwrap()
}

fn armoured() -> String {
    let word = ["PRIVATE", "KEY"].join(" ");
    format!("-----BEGIN {word}-----\n{}-----END {word}-----\n", include_str!("key.txt"))
}

fn account(token_uri: &str) -> Value {
    json!({
        "type": "service_account", "client_email": "robot@ours.iam.gserviceaccount.com",
        "private_key_id": "key-1", "private_key": armoured(), "token_uri": token_uri,
    })
}

fn user(token_uri: &str) -> Value {
    json!({
        "type": "authorized_user", "client_id": "id", "client_secret": SESAME,
        "refresh_token": format!("1//{SESAME}"), "token_uri": token_uri,
    })
}

fn token(name: &str) -> Script {
    let said = json!({"access_token": name, "expires_in": 3599, "token_type": "Bearer"});
    Script::json("200 OK", &said.to_string())
}

/// A token server that numbers its tokens.
async fn token_server() -> Upstream {
    Upstream::start(|number| token(&format!("token-{number}"))).await
}

fn of_file(place: &Place, account: &Value) -> Renewed {
    renewed(CredentialSource::GoogleFile(place.file("account.json", &account.to_string())))
}

fn settings_with(upstream: &Upstream, renewed: Renewed) -> Settings {
    paid(upstream, Family::Anthropic, vertex(), renewed)
}

/// The fields of a form.
fn form(request: &str) -> Vec<(String, String)> {
    let body = request.split_once("\r\n\r\n").unwrap().1;
    let pairs = body.split('&').map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.replace("%3A", ":").replace("%2F", "/"))).collect()
}

#[tokio::test]
async fn a_service_account_signs_for_its_token_and_asks_once() {
    let (place, upstream, tokens) = (Place::new(), answering().await, token_server().await);
    let address = format!("{}/token", tokens.url());
    let gateway = gateway(settings_with(&upstream, of_file(&place, &account(&address)))).await;
    for number in 0..3 {
        assert_eq!(talk(&gateway, asked()).await.status(), 200);
        let sent = upstream.request(number);
        assert_eq!(bearer(&sent), "token-0");
        assert!(!sent.contains("client-key"), "{sent}");
    }
    assert_eq!(tokens.count(), 1);
    let sent = tokens.request(0);
    assert!(sent.starts_with("POST /token HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("content-type: application/x-www-form-urlencoded"), "{sent}");
    let form = form(&sent);
    let [(first, grant), (second, assertion)] = form.as_slice() else { panic!("{form:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("grant_type", "assertion"));
    assert_eq!(grant, "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let (said, signature) = assertion.rsplit_once('.').unwrap();
    let public = RsaKeyPair::from_pkcs8(&key()).unwrap().public().as_ref().to_vec();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)
        .verify(said.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
        .unwrap();
    let read =
        |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
    let (head, claims) = said.split_once('.').unwrap();
    assert_eq!(read(head), json!({"alg": "RS256", "typ": "JWT", "kid": "key-1"}));
    let claims = read(claims);
    assert_eq!(claims["iss"], "robot@ours.iam.gserviceaccount.com");
    assert_eq!(claims["aud"], address);
    assert_eq!(claims["scope"], "https://www.googleapis.com/auth/cloud-platform");
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);
}

#[tokio::test]
async fn a_user_refreshes_theirs() {
    let (place, upstream, tokens) = (Place::new(), answering().await, token_server().await);
    let gateway = gateway(settings_with(&upstream, of_file(&place, &user(&tokens.url())))).await;
    assert_eq!(talk(&gateway, asked()).await.status(), 200);
    assert_eq!(bearer(&upstream.request(0)), "token-0");
    let fields = [
        ("grant_type", "refresh_token".to_owned()),
        ("client_id", "id".to_owned()),
        ("client_secret", SESAME.to_owned()),
        ("refresh_token", format!("1//{SESAME}")),
    ];
    assert_eq!(form(&tokens.request(0)), fields.map(|(name, value)| (name.to_owned(), value)));
}

#[tokio::test]
async fn a_machine_asks_its_metadata_server_and_no_other() {
    let upstream = answering().await;
    let path = "GET /computeMetadata/v1/instance/service-accounts/default/token HTTP/1.1";
    for is_googles in [true, false] {
        let metadata = Upstream::start(move |_| {
            let said = r#"{"access_token":"machine-token","expires_in":3000,"token_type":"Bearer"}"#;
            let flavor = if is_googles { "metadata-flavor: Google\r\n" } else { "" };
            let size = said.len();
            Script::whole(format!("HTTP/1.1 200 OK\r\n{flavor}content-length: {size}\r\n\r\n{said}"))
        })
        .await;
        let source = renewed(CredentialSource::GoogleMetadata { address: metadata.url() });
        let settings = settings_with(&upstream, source);
        let gateway = gateway(settings).await;
        let answer = talk(&gateway, asked()).await;
        let sent = metadata.request(0);
        assert!(sent.starts_with(path) && sent.contains("metadata-flavor: Google"), "{sent}");
        if is_googles {
            assert_eq!(answer.status(), 200);
            assert_eq!(bearer(&upstream.request(0)), "machine-token");
        } else {
            refused_for_now(&answer, "is no metadata server of Google's");
        }
    }
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn many_who_ask_at_once_ask_for_one_token() {
    let (place, upstream) = (Place::new(), answering().await);
    let tokens = Upstream::start(|number| {
        let mut script = token(&format!("token-{number}"));
        script.pieces.insert(0, Vec::new());
        script.paced(Duration::from_millis(100))
    })
    .await;
    let gateway = Arc::new(gateway(settings_with(&upstream, of_file(&place, &account(&tokens.url())))).await);
    let all: Vec<_> = (0..30)
        .map(|_| {
            let gateway = Arc::clone(&gateway);
            tokio::spawn(async move { talk(&gateway, asked()).await.status() })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap(), 200);
    }
    assert_eq!((tokens.count(), upstream.count()), (1, 30));
    assert!((0..30).all(|number| bearer(&upstream.request(number)) == "token-0"));
}

#[tokio::test]
async fn without_a_token_nobody_is_asked_and_nobody_told_a_secret() {
    let elsewhere = token_server().await;
    let moved = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.url());
    let json = |status: &str, said: Value| Script::json(status, &said.to_string());
    let invalid = json!({"error": "invalid_grant", "error_description": SESAME});
    let cases: [(&str, Script); 12] = [
        ("did not come within", Script::whole("").ending(End::Hang)),
        (
            "did not come within",
            Script::whole("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{").ending(End::Hang),
        ),
        ("gave no answer", Script::whole("").ending(End::Close)),
        (
            "broke in the middle",
            Script::whole("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{").ending(End::Close),
        ),
        ("answered 302", Script::whole(moved)),
        ("answered 400 (`invalid_grant`)", json("400 Bad Request", invalid)),
        ("answered 401", json("401 Unauthorized", json!({"error": SESAME}))),
        ("more than 65536 bytes", Script::json("200 OK", &SESAME.repeat(10_000))),
        ("said no `access_token`", json("200 OK", json!({"id_token": SESAME}))),
        ("has expired already", json("200 OK", json!({"access_token": SESAME, "expires_in": 0}))),
        ("another type", json("200 OK", json!({"access_token": SESAME, "token_type": "MAC"}))),
        ("more than a token", Script::json("200 OK", &format!("<html>{SESAME} is it</html>"))),
    ];
    for (why, script) in cases {
        let (place, upstream) = (Place::new(), answering().await);
        let tokens = Upstream::start(move |_| script.clone()).await;
        let source = soon(of_file(&place, &user(&tokens.url())));
        let gateway = gateway(settings_with(&upstream, source)).await;
        let answer = talk(&gateway, asked()).await;
        refused_for_now(&answer, why);
        assert!(why.contains("within") || log::said().contains(&tokens.url()), "{}", log::said());
        assert!(!answer.text().contains(&tokens.url()), "{}", answer.text());
        assert_eq!(upstream.count(), 0);
    }
    assert_eq!(elsewhere.count(), 0);
}

#[tokio::test]
async fn a_file_that_is_of_no_use_is_named() {
    let elsewhere = token_server().await;
    let mut key = account(&elsewhere.url());
    key["private_key"] = SESAME.into();
    let outside = account("https://storage.googleapis.com/bucket/token");
    let external = json!({"type": "external_account", "credential_source": {"url": elsewhere.url()}});
    for (name, text, why) in [
        ("missing.json", None, "is not there"),
        ("of-others.json", Some(account(&elsewhere.url())), "belongs to another user"),
        ("key.json", Some(key), "no RSA key"),
        ("outside.json", Some(outside), "neither Google's token server nor on this machine"),
        ("external.json", Some(external), "another identity provider"),
        ("text.json", Some(SESAME.into()), "holds no JSON object"),
    ] {
        let (place, upstream) = (Place::new(), answering().await);
        let path = match text {
            Some(text) => place.file(name, &text.to_string()),
            None => place.0.path().join(name),
        };
        let gateway =
            gateway(settings_with(&upstream, renewed(CredentialSource::GoogleFile(path.clone())))).await;
        let answer = talk(&gateway, asked()).await;
        refused_for_now(&answer, why);
        let path = path.display().to_string();
        assert!(log::said().contains(&path) && !answer.text().contains(&path), "{}", answer.text());
        assert_eq!(upstream.count(), 0);
    }
    assert_eq!(elsewhere.count(), 0);
}

#[tokio::test]
async fn a_provider_answers_again_when_its_token_can_be_had_again() {
    let (place, upstream) = (Place::new(), answering().await);
    let tokens = Upstream::start(|number| match number {
        0 => Script::json("503 Service Unavailable", "{}"),
        _ => token("token"),
    })
    .await;
    let gateway = gateway(settings_with(&upstream, of_file(&place, &account(&tokens.url())))).await;
    let answer = talk(&gateway, asked()).await;
    refused_for_now(&answer, "answered 503");
    assert!(answer.head().contains("retry-after: 1"), "{}", answer.head());
    // Who comes again at once asks no server.
    refused_for_now(&talk(&gateway, asked()).await, "answered 503");
    assert_eq!(tokens.count(), 1);
    let mut status = 503;
    for _ in 0..500 {
        status = talk(&gateway, asked()).await.status();
        if status == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((status, tokens.count()), (200, 2));
    assert_eq!(bearer(&upstream.request(0)), "token");
}

#[tokio::test]
async fn a_token_that_is_refused_is_had_anew_once() {
    let place = Place::new();
    let tokens = token_server().await;
    // The second token is good, until it is not either.
    let upstream = Upstream::start(|number| match number {
        0 | 2.. => Script::json("401 Unauthorized", r#"{"error":"stale"}"#),
        _ => Script::json("200 OK", "{}"),
    })
    .await;
    let gateway = gateway(settings_with(&upstream, of_file(&place, &account(&tokens.url())))).await;
    assert_eq!(talk(&gateway, asked()).await.status(), 200);
    assert_eq!((tokens.count(), upstream.count()), (2, 2));
    assert_eq!((bearer(&upstream.request(0)), bearer(&upstream.request(1))), ("token-0", "token-1"));
    for _ in 0..3 {
        let answer = talk(&gateway, asked()).await;
        assert_eq!((answer.status(), answer.json()["error"].as_str()), (401, Some("stale")));
    }
    assert_eq!((tokens.count(), upstream.count()), (2, 5));
}

#[tokio::test]
async fn the_next_provider_of_the_operator_steps_in_and_never_the_client_pays() {
    let (place, upstream) = (Place::new(), answering().await);
    let broken = Upstream::start(|_| Script::json("500 Internal Server Error", "{}")).await;
    for (backup, is_asked) in
        [(Credential::Client, false), (Credential::Key(crate::support::secret("backup-key")), true)]
    {
        let before = upstream.count();
        let mut settings = settings_with(&upstream, of_file(&place, &account(&broken.url())));
        let maker = crate::support::provider(Family::Anthropic, &upstream.url(), backup);
        settings.providers.insert("backup".to_owned(), maker);
        settings.defaults.insert(Family::Anthropic, vec!["anthropic".to_owned(), "backup".to_owned()]);
        let gateway = gateway(settings).await;
        let answer = talk(&gateway, asked()).await;
        if is_asked {
            assert_eq!(answer.status(), 200, "{}", answer.text());
            let sent = upstream.request(before);
            assert!(sent.contains("x-api-key: backup-key") && !sent.contains("client-key"), "{sent}");
        } else {
            refused_for_now(&answer, "answered 500");
            assert_eq!(upstream.count(), before);
        }
    }
}

/// What is closed where the operator pays is closed before a token is asked for.
#[tokio::test]
async fn what_the_operators_key_does_not_open_no_token_opens() {
    let (place, upstream, tokens) = (Place::new(), answering().await, token_server().await);
    let source = of_file(&place, &account(&tokens.url()));
    let mut settings = settings_with(&upstream, source.clone());
    let gemini = settings.providers.get_mut("gemini").unwrap();
    (gemini.cloud, gemini.credential) = (Some(vertex()), Credential::Renewed(source));
    let gateway = gateway(settings).await;
    let base = "/v1/projects/p/locations/l/publishers";
    for path in [
        "/p/anthropic/v1/organizations/api_keys".to_owned(),
        "/p/anthropic/v1/skills".to_owned(),
        "/p/gemini/v1beta/corpora".to_owned(),
        format!("{base}/anthropic/models/m:predict"),
        format!("{base}/other/models/m:rawPredict"),
        "/v1/projects/p/locations/l/endpoints/e:predict".to_owned(),
        "/p/gemini/v1beta/tunedModels/m:transferOwnership".to_owned(),
    ] {
        let answer = talk(&gateway, post(&path, "{}")).await;
        assert_eq!(answer.status(), 403, "{path}: {}", answer.text());
    }
    assert_eq!((tokens.count(), upstream.count()), (0, 0));
    let gemini =
        |query: &str| post(&format!("/v1beta/models/g:generateContent?{query}"), r#"{"contents":[]}"#);
    for query in ["access_token=x", "userProject=x", "prettyPrint=true"] {
        let answer = talk(&gateway, gemini(query)).await;
        // Of a query, nothing but the form of an answer goes to a cloud.
        assert!(matches!(answer.status(), 200 | 400), "{query}: {}", answer.text());
    }
    for number in 0..upstream.count() {
        let sent = upstream.request(number);
        assert!(
            sent.starts_with(
                "POST /v1/projects/ours/locations/us-east5/publishers/google/models/g:generateContent HTTP"
            ),
            "{sent}"
        );
    }
    let mut paying = gemini("alt=json");
    paying = paying.replacen(
        "host: localhost",
        "host: localhost\r\nx-goog-user-project: theirs\r\nauthorization: Bearer client-key\r\nx-vertex-ai-x: y",
        1,
    );
    let before = upstream.count();
    assert_eq!(talk(&gateway, paying).await.status(), 200);
    let sent = upstream.request(before);
    assert!(!sent.contains("theirs") && !sent.contains("client-key") && !sent.contains("x-vertex"), "{sent}");
    assert!(bearer(&sent).starts_with("token-"));
    eventually("one token for each provider at most", || tokens.count() <= 2).await;
}
