//! Devices that a person has told, under TLS: who may turn that on and off, and by what.

use backstop_surfaces::{Desk, Egress, Holder, Surface as _, SurfaceName, Trust, WebPush, WebPushSettings};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::agreement::{ECDH_P256, EphemeralPrivateKey};
use ring::rand::SystemRandom;

use super::*;

/// A name that TLS in front of the gateway has.
const HOST: &str = "console.example";

struct Secure {
    server: Server,
    desk: Arc<Desk>,
    _folder: tempfile::TempDir,
}

impl Secure {
    async fn start() -> Self {
        let (house, folder) = (House::new(), tempfile::tempdir().unwrap());
        let push = WebPush::new(WebPushSettings {
            name: SurfaceName::new("web-push").unwrap(),
            key: None,
            folder: folder.path().join("web-push"),
            console: "https://console.example/".parse().unwrap(),
            services: vec!["https://push.example".parse().unwrap()],
            egress: Egress::Public,
            trust: Trust::System,
        });
        let surfaces = vec![Arc::new(push.unwrap()) as Arc<dyn backstop_surfaces::Surface>];
        let desk = Desk::new(house.engine.clone(), surfaces, None, None, Holder::default());
        let mut settings = settings_of("http://127.0.0.1:9");
        settings.hosts = vec![HOST.to_owned()];
        settings.surfaces = Some(Arc::clone(&desk));
        let server = Server::of(house, settings, Observers::default()).await;
        Self { server, desk, _folder: folder }
    }

    async fn ask(&self, asked: String) -> Answer {
        talk(&self.server.gateway, asked.replace(&format!("host: {OWN}"), &format!("host: {HOST}"))).await
    }

    async fn post(&self, path: &str, headers: &str, fields: &[(&str, &str)]) -> Answer {
        self.ask(posting(path, headers, fields)).await
    }

    async fn queue(&self, cookie: &str) -> String {
        let asked = format!(
            "GET /-/console/approvals HTTP/1.1\r\nhost: {OWN}\r\nconnection: close\r\n{SAME}cookie: {cookie}\r\n\r\n"
        );
        self.ask(asked).await.text()
    }

    async fn person(&self, user: &str) -> Person {
        let (token, _) = self.server.token_of(user, &[Scope::Read]).await;
        let signed_in = self.post("/sign-in", SAME, &[("token", &token), ("to", "/-/console/live")]).await;
        assert_eq!(signed_in.status(), 303, "{}", signed_in.text());
        let head = signed_in.head();
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("set-cookie: ")).unwrap();
        let cookie = line.split_once(": ").unwrap().1.split(';').next().unwrap().to_owned();
        assert!(cookie.starts_with("__Host-"), "{cookie}");
        let page = self.queue(&cookie).await;
        let form = page.split_once("name=\"form\" value=\"").unwrap().1.chars().take(64).collect();
        Person { cookie, form }
    }

    fn places(&self) -> Vec<String> {
        self.desk.web_push().unwrap().places().into_owned()
    }
}

/// The fields of a subscription.
fn fields<'a>(form: &'a str, endpoint: &'a str, p256dh: &'a str) -> [(&'a str, &'a str); 4] {
    [("form", form), ("endpoint", endpoint), ("p256dh", p256dh), ("auth", "AAAAAAAAAAAAAAAAAAAAAA")]
}

#[tokio::test]
async fn a_person_turns_notices_of_a_device_on_and_off_by_forms_of_the_session_alone() {
    let secure = Secure::start().await;
    let (ann, bob) = (secure.person("ann").await, secure.person("bob").await);
    let key = secure.desk.web_push().unwrap().public_key().unwrap().to_owned();
    assert!(secure.queue(&ann.cookie).await.contains(&format!("data-key=\"{key}\"")));
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).unwrap();
    let p256dh = URL_SAFE_NO_PAD.encode(own.compute_public_key().unwrap());
    let endpoint = "https://push.example/ann";
    let headers = |person: &Person| format!("{SAME}cookie: {}\r\n", person.cookie);
    // Neither without the session, nor with another's form, nor from a page of others.
    let right = fields(&ann.form, endpoint, &p256dh);
    for (headers, fields, status) in [
        (SAME.to_owned(), right, 401),
        (headers(&ann), fields(&bob.form, endpoint, &p256dh), 403),
        (headers(&ann), fields("", endpoint, &p256dh), 403),
        (headers(&ann).replace("same-origin", "cross-site"), right, 403),
        (headers(&ann).replace("same-origin", "same-site"), right, 403),
        (headers(&ann), fields(&ann.form, "https://evil.example/", &p256dh), 400),
        (headers(&ann), fields(&ann.form, "https://169.254.169.254/", &p256dh), 400),
        (headers(&ann), fields(&ann.form, endpoint, "AAAA"), 400),
    ] {
        assert_eq!(secure.post("/devices", &headers, &fields).await.status(), status, "{headers}{fields:?}");
    }
    let looked = format!(
        "GET /-/console/devices HTTP/1.1\r\nhost: {OWN}\r\nconnection: close\r\n{}\r\n",
        headers(&ann)
    );
    assert_eq!(secure.ask(looked).await.status(), 405, "a link has nothing told");
    assert!(secure.places().is_empty());
    let added = secure.post("/devices", &headers(&ann), &right).await;
    assert_eq!((added.status(), added.text().as_str()), (200, "This device is told."));
    assert_eq!(secure.post("/devices", &headers(&ann), &right).await.status(), 200);
    assert!(secure.places().len() == 1 && secure.places()[0].starts_with("ann "), "{:?}", secure.places());
    // Nobody turns off a device of somebody else.
    let others = fields(&bob.form, endpoint, &p256dh);
    assert_eq!(secure.post("/devices/remove", &headers(&bob), &others).await.status(), 200);
    assert_eq!(secure.places().len(), 1);
    let removed = secure.post("/devices/remove", &headers(&ann), &right).await;
    assert_eq!(removed.text(), "This device is told no longer.");
    assert!(secure.places().is_empty());
    let trail = secure.server.house.store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap();
    let of = |kind: &str| trail.iter().filter(|entry| entry.kind == kind).count();
    assert_eq!((of("console.device_added"), of("console.device_removed")), (1, 1));
    assert!(!format!("{trail:?}").contains("push.example"), "the trail has no address of a device");
}

#[tokio::test]
async fn in_the_clear_no_device_is_told() {
    let secure = Secure::start().await;
    let person = secure.server.person(&[Scope::Read]).await;
    let headers = format!("cookie: {}\r\n", person.cookie);
    assert!(!secure.server.get("/approvals", &headers).await.text().contains("Notify this device"));
    let fields = fields(&person.form, "https://push.example/ann", "AAAA");
    let posted = secure.server.post("/devices", &format!("{SAME}{headers}"), &fields).await;
    assert_eq!(posted.status(), 404);
    assert!(secure.places().is_empty());
}

#[tokio::test]
async fn what_devices_need_is_served_to_whoever_asks() {
    let secure = Secure::start().await;
    for (name, kind) in
        [("worker.js", "text/javascript"), ("console.webmanifest", "application/manifest+json")]
    {
        let asked =
            format!("GET /-/console/{name} HTTP/1.1\r\nhost: {OWN}\r\nconnection: close\r\n{SAME}\r\n");
        let answer = secure.ask(asked).await;
        assert_eq!(answer.status(), 200, "{name}");
        assert!(
            answer.head().contains(kind) && answer.head().contains("worker-src 'self'"),
            "{}",
            answer.head()
        );
    }
}
