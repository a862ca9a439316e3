//! Profiles of Amazon's files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backstop_gateway::{AwsProfile, Cloud, CredentialSource, Family, Settings};

use super::{Place, SESAME, answering, asked, paid, refused_for_now, renewed};
use crate::support::{Script, Upstream, gateway, talk};

/// A key's id that is put together here.
fn id(name: &str) -> String {
    ["AKID", name].concat()
}

fn keys(section: &str, name: &str, token: &str) -> String {
    let id = id(name);
    format!("[{section}]\naws_access_key_id = {id}\naws_secret_access_key = {SESAME}\n{token}\n")
}

fn profile(place: &Place) -> AwsProfile {
    AwsProfile {
        name: "work".to_owned(),
        credentials: place.0.path().join("credentials"),
        config: place.0.path().join("config"),
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
    }
}

fn bedrock(upstream: &Upstream, place: &Place) -> Settings {
    let cloud = Cloud::Bedrock { region: "eu-west-1".to_owned() };
    paid(upstream, Family::Anthropic, cloud, renewed(CredentialSource::AwsProfile(profile(place))))
}

/// Whose key signed a request, and the token beside it.
fn signed_by(request: &str) -> (String, Option<String>) {
    let value = |name: &str| {
        let rest = request.split_once(&format!("\r\n{name}: "))?.1;
        Some(rest.split_once("\r\n")?.0.to_owned())
    };
    let signature = value("authorization").unwrap();
    let id = signature.split_once("Credential=").unwrap().1.split_once('/').unwrap().0;
    assert!(signature.contains("/eu-west-1/bedrock/aws4_request"), "{signature}");
    (id.to_owned(), value("x-amz-security-token"))
}

#[tokio::test]
async fn requests_are_signed_by_the_keys_of_a_profile() {
    let text = keys("default", "OTHER", "") + &keys("work", "FIRST", "aws_session_token = lent");
    let config =
        "[profile work]\nregion = us-west-2\naws_access_key_id = unused\naws_secret_access_key = unused\n";
    for (credentials, config, expected) in [
        (Some(text), Some(config.to_owned()), ("FIRST", Some("lent"))),
        (None, Some(keys("profile work", "SECOND", "")), ("SECOND", None)),
    ] {
        let (place, upstream) = (Place::new(), answering().await);
        for (name, text) in [("credentials", credentials), ("config", config)] {
            text.map(|text| place.file(name, &text));
        }
        let gateway = gateway(bedrock(&upstream, &place)).await;
        assert_eq!(talk(&gateway, asked()).await.status(), 200);
        let sent = upstream.request(0);
        let (name, token) = expected;
        assert_eq!(signed_by(&sent), (id(name), token.map(str::to_owned)));
        assert!(!sent.contains(SESAME) && !sent.contains("client-key"), "{sent}");
    }
}

#[tokio::test]
async fn keys_that_are_refused_are_read_anew() {
    let place = Place::new();
    place.file("credentials", &keys("work", "FIRST", ""));
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let upstream = Upstream::answering(move |request| {
        let is_over = over.load(Ordering::SeqCst);
        match is_over && request.contains("FIRST") {
            true => Script::json("403 Forbidden\r\nx-amzn-errortype: ExpiredTokenException:http://a/", "{}"),
            false => Script::json("200 OK", "{}"),
        }
    })
    .await;
    let gateway = gateway(bedrock(&upstream, &place)).await;
    assert_eq!(talk(&gateway, asked()).await.status(), 200);
    place.file("credentials", &keys("work", "SECOND", "aws_session_token = lent"));
    // Nobody reads what is good.
    assert_eq!(talk(&gateway, asked()).await.status(), 200);
    assert_eq!(signed_by(&upstream.request(1)).0, id("FIRST"));
    is_over.store(true, Ordering::SeqCst);
    assert_eq!(talk(&gateway, asked()).await.status(), 200);
    assert_eq!(signed_by(&upstream.request(3)), (id("SECOND"), Some("lent".to_owned())));
    assert_eq!(upstream.count(), 4);
}

/// The head of an answer names the error, or the answer itself does.
#[tokio::test]
async fn only_refusals_of_the_keys_have_them_read_anew() {
    let named = |name: &str| {
        let of_body = |field: &str, name: &str| {
            Script::json("403 Forbidden", &serde_json::json!({field: name, "message": "no"}).to_string())
        };
        [
            Script::json(&format!("403 Forbidden\r\nx-amzn-errortype: {name}"), "{}"),
            Script::json(&format!("403 Forbidden\r\nx-amzn-errortype: {name}:http://a/b"), "{}"),
            of_body("__type", name),
            of_body("__type", &format!("com.amazon.coral.service#{name}")),
            of_body("code", name),
        ]
    };
    for (name, is_about_keys) in [
        ("ExpiredTokenException", true),
        ("ExpiredToken", true),
        ("UnrecognizedClientException", true),
        ("InvalidSignatureException", true),
        ("AccessDeniedException", false),
        ("ThrottlingException", false),
        ("ValidationException", false),
        ("NotExpiredToken", false),
        ("", false),
    ] {
        for refusal in named(name) {
            let place = Place::new();
            place.file("credentials", &keys("work", "FIRST", ""));
            let is_over = Arc::new(AtomicBool::new(false));
            let over = Arc::clone(&is_over);
            let upstream = Upstream::answering(move |request| {
                match over.load(Ordering::SeqCst) && request.contains("FIRST") {
                    true => refusal.clone(),
                    false => Script::json("200 OK", "{}"),
                }
            })
            .await;
            let gateway = gateway(bedrock(&upstream, &place)).await;
            assert_eq!(talk(&gateway, asked()).await.status(), 200, "{name}");
            place.file("credentials", &keys("work", "SECOND", ""));
            is_over.store(true, Ordering::SeqCst);
            let expected = if is_about_keys { (200, 3) } else { (403, 2) };
            let status = talk(&gateway, asked()).await.status();
            assert_eq!((status, upstream.count()), expected, "{name}");
        }
    }
}

#[tokio::test]
async fn what_a_client_may_not_have_takes_no_keys_from_the_others() {
    let place = Place::new();
    place.file("credentials", &keys("work", "FIRST", ""));
    let upstream = Upstream::answering(|_| {
        Script::json("403 Forbidden\r\nx-amzn-errortype: AccessDeniedException", "{}")
    })
    .await;
    let gateway = gateway(bedrock(&upstream, &place)).await;
    assert_eq!(talk(&gateway, asked()).await.status(), 403);
    place.file("credentials", &keys("work", "SECOND", ""));
    for number in 1..4 {
        assert_eq!(talk(&gateway, asked()).await.status(), 403);
        assert_eq!(signed_by(&upstream.request(number)).0, id("FIRST"));
    }
    assert_eq!(upstream.count(), 4, "none was sent twice");
}

#[tokio::test]
async fn a_process_of_the_profile_prints_keys() {
    let (place, upstream) = (Place::new(), answering().await);
    let key = id("MADE");
    let program = place.program(&format!(
        r#"echo "$1" > argument; echo '{{"Version":1,"AccessKeyId":"{key}","SecretAccessKey":"{SESAME}","SessionToken":"lent","Expiration":"2100-01-01T00:00:00Z"}}'"#
    ));
    let path = program.program.to_string_lossy().into_owned();
    place.file("config", &format!("[profile work]\ncredential_process = '{path}' \"two words\"\n"));
    let gateway = gateway(bedrock(&upstream, &place)).await;
    for _ in 0..2 {
        assert_eq!(talk(&gateway, asked()).await.status(), 200);
    }
    assert_eq!(signed_by(&upstream.request(1)), (key, Some("lent".to_owned())));
    assert_eq!(place.read("argument"), "two words\n");
}

#[tokio::test]
async fn a_profile_that_is_of_no_use_is_named() {
    let beside = keys("profile work", "BESIDE", "role_arn = arn:aws:iam::1:role/x\nsource_profile = default");
    for (file, text, why) in [
        ("credentials", keys("other", "X", ""), "have no profile `work`"),
        ("config", beside, "has `role_arn`"),
        ("config", keys("profile work", "X", "sso_session = s"), "has `sso_session`"),
        ("config", "[profile work]\nregion = x\n".to_owned(), "has no keys"),
        ("credentials", format!("[work]\naws_secret_access_key = {SESAME}\n"), "no `aws_access_key_id`"),
        ("credentials", keys("work", "X", "aws_access_key_id = Y"), "line 4"),
        ("config", "[profile work]\ncredential_process = nowhere-to-be-found x\n".to_owned(), "is not there"),
        ("config", "[profile work]\ncredential_process = ./x\n".to_owned(), "relative path"),
        ("config", "[profile work]\ncredential_process = \"x\n".to_owned(), "quotes or escapes"),
    ] {
        let (place, upstream) = (Place::new(), answering().await);
        place.file(file, &text);
        let gateway = gateway(bedrock(&upstream, &place)).await;
        refused_for_now(&talk(&gateway, asked()).await, why);
        assert_eq!(upstream.count(), 0, "{text}");
    }
}
