//! Web push, to a push service on loopback that reads what browsers read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_hooks::Decision;
use backstop_http_client::tls::Trust;
use backstop_store::{AccessToken, AccessTokenId, NewAccessToken, NewApproval, Scope, Timestamp};
use backstop_surfaces::{
    Added, Ceiling, Desk, DeviceError, NewDevice, Surface as _, SurfaceError, WebPush, WebPushSettings,
};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

use crate::browser::Browser;
use crate::server::{Asked, Reply, Server};
use crate::stage::{Stage, anywhere, counted, desk, name, question, until};

const TAKEN: Reply = Some((201, "", Vec::new()));

fn push(folder: &Path, service: &Url, trust: &Trust) -> WebPush {
    WebPush::new(WebPushSettings {
        name: name("web-push"),
        key: None,
        folder: folder.join("web-push"),
        console: "https://console.example/".parse().unwrap(),
        services: vec![service.clone()],
        egress: anywhere(),
        trust: trust.clone(),
    })
    .unwrap()
}

async fn token(stage: &Stage, user: &str) -> AccessToken {
    let made = NewAccessToken::make_for_person(
        user.to_owned(),
        vec![Scope::Approve],
        "joe".to_owned(),
        Timestamp::now(),
        Duration::from_secs(3_600),
    );
    stage.store.add_access_token(made.1).await.unwrap()
}

fn device(user: &str, token: &AccessTokenId, endpoint: &str, browser: &Browser) -> NewDevice {
    NewDevice {
        user: user.to_owned(),
        token: token.clone(),
        endpoint: endpoint.to_owned(),
        p256dh: browser.p256dh(),
        auth: browser.auth(),
    }
}

/// A desk of people, one of whom has a device.
async fn told(
    stage: &Stage,
    folder: &Path,
    server: &Server,
    trust: &Trust,
) -> (Arc<Desk>, Browser, AccessToken) {
    let (desk, browser) = (desk(stage.engine(), push(folder, &server.url, trust)), Browser::new());
    let token = token(stage, "ann").await;
    let endpoint = server.url.join("push/ann").unwrap();
    let added =
        desk.web_push().unwrap().add(device("ann", &token.made.id, endpoint.as_str(), &browser)).await;
    assert_eq!(added.unwrap(), Added::New);
    (desk, browser, token)
}

fn header<'a>(asked: &'a Asked, name: &str) -> Vec<&'a str> {
    let lines = asked.head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

async fn asked(server: &Server, count: usize) -> Vec<Asked> {
    until(|| Some(server.asked()).filter(|asked| asked.len() >= count)).await
}

fn read(browser: &Browser, asked: &Asked) -> Value {
    serde_json::from_slice(&browser.read(&asked.body).unwrap()).unwrap()
}

#[tokio::test]
async fn a_device_is_told_that_something_waits_and_nothing_of_what_and_that_it_is_over() {
    let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
    let (server, trust) = Server::start_tls(|_| TAKEN).await;
    let (desk, browser, _) = told(&stage, folder.path(), &server, &trust).await;
    let _running = desk.run();
    let record = stage.ask("rm -r build").await;
    let first = asked(&server, 1).await.remove(0);
    // RFC 8030 and 8291.
    assert!(first.head.starts_with("POST /push/ann HTTP/1.1"), "{}", first.head);
    for (name, value) in
        [("content-encoding", "aes128gcm"), ("urgency", "high"), ("content-type", "application/octet-stream")]
    {
        assert_eq!(header(&first, name), [value]);
    }
    let ttl: u64 = header(&first, "ttl")[0].parse().unwrap();
    assert!((500..=600).contains(&ttl), "{ttl}");
    let text = read(&browser, &first);
    assert_eq!(
        (&text["kind"], &text["link"]),
        (&json!("question"), &json!(format!("/-/console/approvals/{}", record.id)))
    );
    let shown = text.to_string();
    assert!(shown.contains("exec") && shown.contains("main") && shown.contains("CRITICAL"), "{shown}");
    for part in ["rm -r", "Run this", "deletes", "guards", record.code.as_str(), "handle"] {
        assert!(!shown.contains(part), "`{part}` is in {shown}");
    }
    assert!(Browser::new().read(&first.body).is_none(), "nobody else reads it");
    // RFC 8292.
    let authorization = header(&first, "authorization")[0];
    let (token, key) = authorization.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
    assert_eq!(key, desk.web_push().unwrap().public_key().unwrap());
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, decode(key))
        .verify(signed.as_bytes(), &decode(signature))
        .unwrap();
    let claims: Value = serde_json::from_slice(&decode(signed.split('.').nth(1).unwrap())).unwrap();
    assert_eq!(
        (&claims["aud"], &claims["sub"]),
        (&json!(server.url.origin().ascii_serialization()), &json!("https://console.example/"))
    );
    let left = claims["exp"].as_i64().unwrap() - Timestamp::now().as_millis() / 1_000;
    assert!((1..=24 * 3_600).contains(&left), "{left}");
    // What is told of the end takes the place of what was not delivered yet.
    stage.store.resolve_approval(&record.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    let over = asked(&server, 2).await.remove(1);
    assert_eq!(header(&over, "topic"), header(&first, "topic"));
    assert_eq!(header(&over, "topic")[0].len(), 32);
    let text = read(&browser, &over);
    assert_eq!((&text["kind"], &text["tag"]), (&json!("over"), &json!(header(&over, "topic")[0])));
    assert!(
        text["body"].as_str().unwrap().contains("was answered") && !text.to_string().contains("joe"),
        "{text}"
    );
}

#[tokio::test]
async fn a_push_is_a_notice_and_fits_however_long_the_names_are() {
    let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
    let (server, trust) = Server::start_tls(|_| TAKEN).await;
    let (desk, browser, _) = told(&stage, folder.path(), &server, &trust).await;
    assert_eq!(desk.web_push().unwrap().ceiling(), Ceiling::Notice);
    let _running = desk.run();
    let long = "\u{1F600}".repeat(2_000);
    let request = question(&json!({ "command": "ls" }));
    let request = NewApproval { agent: long.as_str().into(), tool_name: long.as_str().into(), ..request };
    stage.store.create_approval(request).await.unwrap();
    let first = asked(&server, 1).await.remove(0);
    let text = browser.read(&first.body).unwrap();
    assert!(text.len() <= 3_900 && first.body.len() <= 4_096, "{} {}", text.len(), first.body.len());
}

#[tokio::test]
async fn a_device_that_is_gone_is_told_no_longer() {
    for status in [404, 410] {
        let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
        let (server, trust) = Server::start_tls(move |_| Some((status, "", Vec::new()))).await;
        let (desk, _, _) = told(&stage, folder.path(), &server, &trust).await;
        let _running = desk.run();
        stage.ask("ls").await;
        until(|| desk.web_push().unwrap().places().is_empty().then_some(())).await;
        // Another process sees the same.
        assert!(push(folder.path(), &server.url, &trust).places().is_empty());
        stage.ask("ls").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_device_is_told_as_long_as_the_token_counts_by_which_its_person_signed_in() {
    let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
    let (server, trust) = Server::start_tls(|_| TAKEN).await;
    let (desk, _, ann) = told(&stage, folder.path(), &server, &trust).await;
    let (bob, browser) = (token(&stage, "bob").await, Browser::new());
    let endpoint = server.url.join("push/bob").unwrap();
    desk.web_push().unwrap().add(device("bob", &bob.made.id, endpoint.as_str(), &browser)).await.unwrap();
    stage.store.revoke_access_token(&ann.made.id, "joe", Timestamp::now()).await.unwrap();
    let _running = desk.run();
    stage.ask("ls").await;
    let first = asked(&server, 1).await.remove(0);
    assert_eq!(first.path, "/push/bob");
    let places = desk.web_push().unwrap().places().into_owned();
    assert!(places.len() == 1 && places[0].starts_with("bob "), "{places:?}");
    let kept = fs::read_to_string(folder.path().join("web-push/devices.json")).unwrap();
    assert!(!kept.contains("push/ann"), "it is deleted, and not only left alone");
}

#[tokio::test]
async fn a_device_that_can_not_be_deleted_is_told_nothing_and_keeps_no_other_from_being_told() {
    let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
    let (server, trust) = Server::start_tls(|_| TAKEN).await;
    let (desk, _, ann) = told(&stage, folder.path(), &server, &trust).await;
    let (bob, browser) = (token(&stage, "bob").await, Browser::new());
    let endpoint = server.url.join("push/bob").unwrap();
    desk.web_push().unwrap().add(device("bob", &bob.made.id, endpoint.as_str(), &browser)).await.unwrap();
    // No change of the list can be made.
    let lock = folder.path().join("web-push/lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    stage.store.revoke_access_token(&ann.made.id, "joe", Timestamp::now()).await.unwrap();
    let _running = desk.run();
    let record = stage.ask("ls").await;
    asked(&server, 1).await;
    stage.store.resolve_approval(&record.id, Decision::Deny, "joe", Timestamp::now()).await.unwrap();
    asked(&server, 2).await;
    let kept = || fs::read_to_string(folder.path().join("web-push/devices.json")).unwrap();
    assert!(kept().contains("push/ann"));
    fs::remove_dir(&lock).unwrap();
    until(|| (!kept().contains("push/ann")).then_some(())).await;
    stage.ask("ls").await;
    let paths: Vec<String> = asked(&server, 3).await.into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/push/bob"; 3]);
}

#[tokio::test]
async fn a_service_that_is_slow_or_dead_holds_up_no_question_and_is_tried_again() {
    let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
    let is_dead = Arc::new(AtomicBool::new(true));
    let dead = Arc::clone(&is_dead);
    let (server, trust) =
        Server::start_tls(move |asked| match (asked.path.as_str(), dead.load(Ordering::SeqCst)) {
            ("/push/ann", true) => Some((503, "retry-after: 1\r\n", Vec::new())),
            ("/push/hangs", _) => None,
            _ => TAKEN,
        })
        .await;
    let (desk, _, token) = told(&stage, folder.path(), &server, &trust).await;
    let _running = desk.run();
    let record = stage.ask("ls").await;
    asked(&server, 1).await;
    // It is answered while the notice is under way.
    let hangs = server.url.join("push/hangs").unwrap();
    desk.web_push()
        .unwrap()
        .add(device("ann", &token.made.id, hangs.as_str(), &Browser::new()))
        .await
        .unwrap();
    let other = stage.ask("ls").await;
    until(|| server.asked().iter().any(|asked| asked.path == "/push/hangs").then_some(())).await;
    let answer = stage.store.resolve_approval(&other.id, Decision::Deny, "joe", Timestamp::now()).await;
    assert!(answer.unwrap().first);
    desk.web_push().unwrap().remove("ann", hangs.as_str()).await.unwrap();
    is_dead.store(false, Ordering::SeqCst);
    let tag = |asked: &Asked| header(asked, "topic")[0].to_owned();
    let first = tag(&server.asked()[0]);
    until(|| (server.asked().iter().filter(|asked| tag(asked) == first).count() >= 2).then_some(())).await;
    assert!(stage.store.approval(&record.id).await.unwrap().is_some());
}

#[tokio::test]
async fn hostile_addresses_and_keys_are_refused_and_nothing_is_asked_there() {
    let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
    let (server, trust) = Server::start_tls(|_| TAKEN).await;
    let (desk, browser, token) = told(&stage, folder.path(), &server, &trust).await;
    let push = desk.web_push().unwrap();
    let port = server.url.port().unwrap();
    for endpoint in [
        format!("http://localhost:{port}/push"),
        format!("https://127.0.0.1:{port}/push"),
        format!("https://localhost.:{port}/push"),
        format!("https://user@localhost:{port}/push"),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://evil.example/push".to_owned(),
        "https://fcm.googleapis.com.evil.example/push".to_owned(),
        "file:///etc/passwd".to_owned(),
        String::new(),
    ] {
        let added = push.add(device("ann", &token.made.id, &endpoint, &browser)).await;
        assert!(matches!(added, Err(DeviceError::Endpoint(_))), "{endpoint}");
    }
    let endpoint = server.url.join("push/other").unwrap();
    let new = || device("ann", &token.made.id, endpoint.as_str(), &browser);
    let short = BASE64_URL_SAFE_NO_PAD.encode([4; 64]);
    let off = BASE64_URL_SAFE_NO_PAD.encode([4; 65]);
    for (p256dh, auth) in [
        (short, browser.auth()),
        (off, browser.auth()),
        ("!".to_owned(), browser.auth()),
        (String::new(), String::new()),
        (browser.p256dh(), "AAAA".to_owned()),
    ] {
        let added = push.add(NewDevice { p256dh, auth, ..new() }).await;
        assert!(matches!(added, Err(DeviceError::Keys)), "{added:?}");
    }
    // Somebody else's device is neither taken over nor turned off.
    let taken = server.url.join("push/ann").unwrap();
    let added = push.add(device("bob", &token.made.id, taken.as_str(), &Browser::new())).await;
    assert!(matches!(added, Err(DeviceError::Taken)), "{added:?}");
    assert!(!push.remove("bob", taken.as_str()).await.unwrap());
    assert_eq!(push.places().len(), 1);
    assert!(server.asked().is_empty());
    // Nothing of an address is shown.
    let debug = format!("{:?} {desk:?}", new());
    assert!(!debug.contains("push/") && !debug.contains(&browser.auth()), "{debug}");
}

#[tokio::test]
async fn what_the_file_says_is_judged_as_what_a_browser_says() {
    let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
    let (server, trust) = Server::start_tls(|_| TAKEN).await;
    let (desk, _, _) = told(&stage, folder.path(), &server, &trust).await;
    let web_push = desk.web_push().unwrap();
    let path = folder.path().join("web-push/devices.json");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let kept: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let put = |change: &dyn Fn(&mut Value)| {
        let mut other = kept.clone();
        change(&mut other);
        fs::write(&path, other.to_string()).unwrap();
        web_push.places().len()
    };
    assert_eq!(put(&|_| {}), 1);
    assert_eq!(put(&|all| all["devices"][0]["endpoint"] = json!("https://169.254.169.254/x")), 0);
    assert_eq!(put(&|all| all["devices"][0]["p256dh"] = json!("AAAA")), 0);
    // What subscribed to another key would be refused by the service.
    assert_eq!(put(&|all| all["key"] = json!("other")), 0);
    assert_eq!(put(&|all| all["devices"] = json!({})), 0);
    // The same address is told once, and too long a list is none, whoever is at its end.
    let many = |all: &mut Value, count: usize| {
        let one = all["devices"][0].clone();
        all["devices"] = vec![one; count].into();
    };
    assert_eq!(put(&|all| many(all, 200)), 1);
    assert_eq!(put(&|all| many(all, 257)), 0);
    assert_eq!(put(&|_| {}), 1);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    assert!(web_push.places().is_empty(), "others could have written it");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(web_push.places().len(), 1);
}

#[tokio::test]
async fn a_person_has_so_many_devices_and_the_oldest_gives_way() {
    let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
    let (server, trust) = Server::start_tls(|_| TAKEN).await;
    let (desk, browser, token) = told(&stage, folder.path(), &server, &trust).await;
    let push = desk.web_push().unwrap();
    let endpoint = |number: usize| server.url.join(&format!("push/{number}")).unwrap().to_string();
    let new = |number: usize| device("ann", &token.made.id, &endpoint(number), &browser);
    for number in 1..8 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(push.add(new(number)).await.unwrap(), Added::New);
    }
    assert_eq!(push.add(new(1)).await.unwrap(), Added::Known);
    let before = push.places().into_owned();
    assert_eq!(push.add(new(8)).await.unwrap(), Added::InPlaceOfOldest);
    let after = push.places().into_owned();
    assert_eq!((before.len(), after.len()), (8, 8));
    assert!(!after.contains(&before[0]) && before[1..].iter().all(|place| after.contains(place)));
    assert!(push.remove("ann", &endpoint(8)).await.unwrap());
    assert!(!push.remove("ann", &endpoint(8)).await.unwrap());
    // Many at once lose none.
    let all: Vec<_> = (0..30)
        .map(|number| {
            let (desk, user) = (Arc::clone(&desk), format!("user-{number}"));
            let new = device(&user, &token.made.id, &endpoint(100 + number), &browser);
            tokio::spawn(async move { desk.web_push().unwrap().add(new).await })
        })
        .collect();
    for one in all {
        assert_eq!(one.await.unwrap().unwrap(), Added::New);
    }
    assert_eq!(push.places().len(), 7 + 30);
}

#[tokio::test]
async fn a_service_that_takes_nothing_is_not_sent_the_same_in_short() {
    let (stage, folder) = (Stage::new(), TempDir::new().unwrap());
    let (server, trust) = Server::start_tls(|_| Some((413, "", Vec::new()))).await;
    let (desk, _, _) = told(&stage, folder.path(), &server, &trust).await;
    let place = desk.web_push().unwrap().places()[0].clone();
    let error = desk.web_push().unwrap().test(&place).await.unwrap_err();
    assert!(matches!(error, SurfaceError::Content { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("push/ann"));
    let (counted, became) = counted(stage.engine(), push(folder.path(), &server.url, &trust));
    let _running = counted.run();
    stage.ask("ls").await;
    assert_eq!(until(|| Some(became.all()).filter(|all| !all.is_empty())).await, ["failed"]);
    assert_eq!(server.asked().len(), 2);
}
