//! Signing in at an identity provider: a scripted one on this machine, which keeps to the protocol and signs with real keys, unless a test has it do otherwise.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Mutex;

use backstop_engine::{ApprovalRoute, ApprovalSettings, Routes};
use backstop_gateway::{PersonClaim, PersonIssuer, StartError, Trust};
use backstop_store::{KnownBy, People, PersonName};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use url::Url;

use super::*;
use crate::identity::{Key, signed};

/// A name that TLS in front of the gateway has.
const HOST: &str = "console.example";
const CLIENT: &str = "client-1";
/// What a browser says that a provider sends back.
const BACK: &str = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document\r\n";
const AUDIT: &str = "/-/console/audit?text=a;b";

/// Made of parts, so that no scanner takes it for one.
fn client_secret() -> String {
    ["s3:cr+", "t&of=the", "client"].concat()
}

/// What a provider does about one code.
#[derive(Clone)]
struct Grant {
    challenge: String,
    redirect: String,
    nonce: String,
    /// Claims in the place of the usual ones; `null` leaves one out.
    claims: Value,
    how: How,
}

#[derive(Clone)]
enum How {
    Signed,
    /// By a key of the same id that is not published.
    ByStranger,
    /// With this algorithm in the head, and this signature.
    Unsigned(&'static str),
    /// This instead of an answer.
    Says(&'static str, String),
}

/// What the provider knows.
struct Desk {
    key: Key,
    published: Value,
    grants: HashMap<String, Grant>,
    discovery: Value,
    is_down: bool,
}

pub(super) struct Idp {
    server: Upstream,
    desk: Arc<Mutex<Desk>>,
}

impl Idp {
    pub(super) async fn start() -> Self {
        let key = Key::ec("k1");
        let published = json!({ "keys": [key.published()] });
        let desk = Desk { key, published, grants: HashMap::new(), discovery: json!({}), is_down: false };
        let desk = Arc::new(Mutex::new(desk));
        let shown = Arc::clone(&desk);
        let server = Upstream::answering(move |request| shown.lock().unwrap().answer(request)).await;
        Self { server, desk }
    }

    pub(super) fn settings(&self) -> PersonIssuer {
        PersonIssuer {
            issuer: self.server.url(),
            client_id: CLIENT.to_owned(),
            client_secret: Some(secret(&client_secret())),
            trust: Trust::System,
            origin: format!("https://{HOST}"),
            scopes: vec!["email".to_owned(), "groups".to_owned()],
            user_claim: PersonClaim::Email,
            role_claim: "groups".to_owned(),
            roles: [
                ("approvers".to_owned(), vec![Scope::Read, Scope::Approve]),
                ("The viewers".to_owned(), vec![Scope::Read]),
            ]
            .into(),
            longest: Duration::from_secs(3_600),
            sign_in_anew: false,
        }
    }

    /// What a person does there who comes with that address: signs in. Returns the code.
    fn grant(&self, address: &Url, claims: Value, how: How) -> String {
        let said = said(address);
        assert_eq!((said["response_type"].as_str(), said["client_id"].as_str()), ("code", CLIENT));
        assert_eq!(said["code_challenge_method"], "S256");
        let mut desk = self.desk.lock().unwrap();
        let code = format!("code-{}", desk.grants.len());
        let grant = Grant {
            challenge: said["code_challenge"].clone(),
            redirect: said["redirect_uri"].clone(),
            nonce: said["nonce"].clone(),
            claims,
            how,
        };
        desk.grants.insert(code.clone(), grant);
        code
    }

    fn reads_of_keys(&self) -> usize {
        let requests = self.server.requests.lock().unwrap();
        requests.iter().filter(|request| request.starts_with("GET /keys ")).count()
    }

    fn exchanges(&self) -> usize {
        let requests = self.server.requests.lock().unwrap();
        requests.iter().filter(|request| request.starts_with("POST /token ")).count()
    }
}

fn said(address: &Url) -> HashMap<String, String> {
    address.query_pairs().into_owned().collect()
}

impl Desk {
    fn answer(&mut self, request: &str) -> Script {
        let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().trim();
        let here = |path: &str| format!("http://{host}{path}");
        match request.split(' ').nth(1).unwrap() {
            _ if self.is_down => Script::json("503 Service Unavailable", "{}"),
            "/.well-known/openid-configuration" => {
                let mut said = json!({
                    "issuer": here(""), "jwks_uri": here("/keys"), "token_endpoint": here("/token"),
                    "authorization_endpoint": here("/authorize?tenant=t&state=theirs"),
                });
                said.as_object_mut().unwrap().extend(self.discovery.as_object().unwrap().clone());
                Script::json("200 OK", &said.to_string())
            }
            "/keys" => Script::json("200 OK", &self.published.to_string()),
            "/token" => self.exchange(request, &here("")),
            _ => Script::json("404 Not Found", "{}"),
        }
    }

    /// RFC 6749, 4.1.3, and RFC 7636, 4.6.
    fn exchange(&mut self, request: &str, issuer: &str) -> Script {
        let body = request.split_once("\r\n\r\n").unwrap().1;
        let form: HashMap<String, String> =
            url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let part = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let basic = STANDARD.encode(format!("{}:{}", part(CLIENT), part(&client_secret())));
        let by_header = request.contains(&format!("authorization: Basic {basic}\r\n"));
        let by_form = form.get("client_secret") == Some(&client_secret()) && form["client_id"] == CLIENT;
        let only_form = self.discovery.get("token_endpoint_auth_methods_supported").is_some();
        let error = |word: &str| {
            Script::json("400 Bad Request", &json!({"error": word, "error_description": "no"}).to_string())
        };
        if by_header == by_form || by_form != only_form || form["grant_type"] != "authorization_code" {
            return error("invalid_client");
        }
        // A code counts once.
        let Some(grant) = self.grants.remove(&form["code"]) else { return error("invalid_grant") };
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, form["code_verifier"].as_bytes()));
        if challenge != grant.challenge || form["redirect_uri"] != grant.redirect {
            return error("invalid_grant");
        }
        let now = jiff::Timestamp::now().as_second();
        let mut claims = json!({
            "iss": issuer, "aud": CLIENT, "sub": "subject-1", "exp": now + 300, "iat": now, "nonce": grant.nonce,
            "email": "ann@example.com", "email_verified": true, "groups": ["others", "approvers"],
        });
        let all = claims.as_object_mut().unwrap();
        all.extend(grant.claims.as_object().unwrap().clone());
        all.retain(|_, value| !value.is_null());
        let token = match &grant.how {
            How::Signed => self.key.token("ES256", &claims),
            How::ByStranger => Key::ec(&self.key.id).token("ES256", &claims),
            How::Unsigned(algorithm) => {
                let head = json!({"alg": algorithm, "kid": self.key.id});
                let signed = signed(&head, &claims);
                let of = self.published["keys"][0]["x"].as_str().unwrap().as_bytes();
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, of);
                let tag = ring::hmac::sign(&key, signed.as_bytes());
                let tag = if *algorithm == "none" { &[][..] } else { tag.as_ref() };
                format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
            }
            How::Says(status, body) => return Script::json(status, body),
        };
        let access = ["access", "-token-of-the-provider"].concat();
        Script::json(
            "200 OK",
            &json!({"id_token": token, "access_token": access, "refresh_token": access, "token_type": "Bearer"})
                .to_string(),
        )
    }
}

/// A console at which people sign in at a provider.
pub(super) struct Place {
    pub(super) server: Server,
    pub(super) idp: Idp,
}

/// A sign-in that has begun.
struct Begun {
    /// The cookie, as a browser shows it.
    cookie: String,
    address: Url,
}

impl Place {
    async fn start() -> Self {
        Self::over(House::new(), |_| {}).await
    }

    async fn over(house: House, change: impl FnOnce(&mut PersonIssuer)) -> Self {
        let idp = Idp::start().await;
        let mut sign_in = idp.settings();
        change(&mut sign_in);
        let server = Server::of(house, settings_with(sign_in), Observers::default()).await;
        Self { server, idp }
    }

    async fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let asked = format!("{method} {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n{headers}\r\n");
        talk(&self.server.gateway, asked).await
    }

    pub(super) async fn post(&self, path: &str, headers: &str, fields: &[(&str, &str)]) -> Answer {
        let asked = posting(path, headers, fields).replace(&format!("host: {OWN}"), &format!("host: {HOST}"));
        talk(&self.server.gateway, asked).await
    }

    async fn begin(&self) -> Begun {
        let answer = self.post("/oidc/begin", SAME, &[("to", AUDIT)]).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let refresh = header_of(&answer, "refresh").unwrap();
        let address = refresh.strip_prefix("0; url=").unwrap().parse().unwrap();
        Begun { cookie: cookie_named(&answer, "__Host-backstop-sign-in").unwrap(), address }
    }

    /// Comes back with a code, in a browser that shows this cookie.
    async fn back(&self, cookie: &str, query: &[(&str, &str)]) -> Answer {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        self.ask("GET", &format!("/-/console/oidc/done?{query}"), &format!("{BACK}cookie: {cookie}\r\n"))
            .await
    }

    /// Signs in at the provider, which says that of the person.
    async fn tries(&self, claims: Value, how: How) -> Answer {
        let begun = self.begin().await;
        let code = self.idp.grant(&begun.address, claims, how);
        self.back(&begun.cookie, &[("code", &code), ("state", &said(&begun.address)["state"])]).await
    }

    /// The cookie of the session of somebody who signs in.
    pub(super) async fn enters(&self, claims: Value) -> String {
        let answer = self.tries(claims, How::Signed).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        cookie_named(&answer, "__Host-backstop").unwrap()
    }

    pub(super) async fn looks(&self, cookie: &str, path: &str) -> Answer {
        self.ask("GET", &format!("/-/console{path}"), &format!("{SAME}cookie: {cookie}\r\n")).await
    }

    async fn entries(&self, kind: &str) -> Vec<Value> {
        let entries = self.server.house.store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap();
        let of = entries.into_iter().filter(|entry| entry.kind == kind);
        of.map(|entry| serde_json::to_value(entry.body).unwrap()).collect()
    }
}

pub(super) fn settings_with(sign_in: PersonIssuer) -> Settings {
    let mut settings = settings_of("http://127.0.0.1:9");
    settings.hosts = vec![HOST.to_owned()];
    settings.sign_in = Some(sign_in);
    settings
}

fn header_of(answer: &Answer, name: &str) -> Option<String> {
    let head = answer.head();
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
}

/// A cookie that an answer gives, as a browser shows it.
pub(super) fn cookie_named(answer: &Answer, name: &str) -> Option<String> {
    let head = answer.head();
    let cookies = head.lines().filter_map(|line| line.strip_prefix("set-cookie: "));
    let mut pairs = cookies.filter_map(|cookie| cookie.split(';').next());
    pairs.find(|pair| pair.split('=').next() == Some(name)).map(str::to_owned)
}

/// Nobody was let in.
fn is_shut(answer: &Answer) -> bool {
    cookie_named(answer, "__Host-backstop").is_none()
}

#[tokio::test]
async fn a_person_signs_in_at_the_provider_and_may_do_what_the_role_says() {
    let place = Place::start().await;
    let page = place.ask("GET", "/-/console/approvals", SAME).await.text();
    assert!(page.contains("Sign in at 127.0.0.1") && page.contains("Access token"), "{page}");
    let begun = place.post("/oidc/begin", SAME, &[("to", AUDIT)]).await;
    let head = begun.head();
    let line = head.lines().find(|line| line.contains("__Host-backstop-sign-in=")).unwrap();
    for attribute in ["; Path=/;", "HttpOnly", "SameSite=Lax", "Secure"] {
        assert!(line.contains(attribute), "{line}");
    }
    assert!(!line.contains("Max-Age") && !line.contains("Expires"), "no file of the browser has it: {line}");
    assert!(head.contains("form-action 'self'") && head.contains("no-referrer"), "{head}");
    let begun = place.begin().await;
    assert!(begun.address.as_str().starts_with(&format!("{}/authorize?", place.idp.server.url())));
    assert_eq!(begun.address.query_pairs().filter(|(name, _)| name == "state").count(), 1);
    let asked = said(&begun.address);
    assert_eq!(asked["tenant"], "t", "what is in the address of the provider stays");
    assert_eq!(asked["scope"], "openid email groups");
    assert_eq!(asked["redirect_uri"], format!("https://{HOST}/-/console/oidc/done"));
    let code = place.idp.grant(&begun.address, json!({}), How::Signed);
    let issuer = place.idp.server.url();
    let query = [("code", code.as_str()), ("state", &asked["state"]), ("iss", &issuer)];
    let done = place.back(&begun.cookie, &query).await;
    assert_eq!(done.status(), 200, "{}", done.text());
    assert_eq!(header_of(&done, "refresh").unwrap(), format!("0; url={AUDIT}"));
    let gone = done.head();
    let gone = gone.lines().find(|line| line.contains("__Host-backstop-sign-in=;")).unwrap();
    assert!(gone.contains("Max-Age=0"), "{gone}");
    let session = done.head();
    let session = session.lines().find(|line| line.contains("__Host-backstop=")).unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Secure"] {
        assert!(session.contains(attribute), "{session}");
    }
    let cookie = cookie_named(&done, "__Host-backstop").unwrap();
    let page = place.looks(&cookie, "/approvals").await.text();
    assert!(page.contains("ann@example.com") && page.contains("approver"), "{page}");
    assert!(!page.contains("Notify this device"), "no device is told for somebody without a token");
    assert_eq!(place.looks(&cookie, "/audit").await.status(), 200);
    let form: String = page.split_once("name=\"form\" value=\"").unwrap().1.chars().take(64).collect();
    let headers = format!("{SAME}cookie: {cookie}\r\n");
    assert_eq!(place.post("/try", &headers, &[("form", &form), ("command", "x")]).await.status(), 200);
    assert_eq!(place.post("/sign-out", &headers, &[("form", &form)]).await.status(), 303);
    assert_eq!(place.looks(&cookie, "/approvals").await.status(), 401);
    // The trail says who it was, for whom the provider vouches, and holds nothing of it.
    for kind in ["console.signed_in", "console.tried", "console.signed_out"] {
        let [entry] = place.entries(kind).await.try_into().unwrap();
        assert_eq!(
            (&entry["user"], &entry["issuer"], &entry["subject"]),
            (&json!("ann@example.com"), &json!(issuer), &json!("subject-1"))
        );
        let entry = entry.to_string();
        assert!(!entry.contains(&code) && !entry.contains("eyJ") && !entry.contains("access"), "{entry}");
    }
    assert_eq!(place.idp.exchanges(), 1);
    let viewer = place.enters(json!({"groups": "The viewers", "sub": "subject-2"})).await;
    let page = place.looks(&viewer, "/approvals").await.text();
    assert!(page.contains("viewer") && !page.contains("approver"), "{page}");
}

#[tokio::test]
async fn nobody_is_let_in_of_whom_the_provider_does_not_say_all_that_it_has_to() {
    let place = Place::start().await;
    let now = jiff::Timestamp::now().as_second();
    let said = |claims: Value, text: &'static str| (claims, How::Signed, 403, text);
    let how = |how: How, status: u16, text: &'static str| (json!({}), how, status, text);
    let says = |status: &'static str, body: Value| How::Says(status, body.to_string());
    let cases = [
        said(json!({"groups": []}), "You are ann@example.com, and you have no role here"),
        said(json!({"groups": ["Approvers", "approvers "]}), "no role here"),
        said(json!({"groups": null}), "no role here"),
        said(json!({"groups": {"approvers": true}}), "malformed"),
        said(json!({"groups": ["approvers", 1]}), "malformed"),
        said(json!({"email_verified": false}), "not say that your address is verified"),
        said(json!({"email_verified": "true"}), "not say that your address is verified"),
        said(json!({"email_verified": null}), "not say that your address is verified"),
        said(json!({"email": null}), "does not say who its caller is"),
        said(json!({"email": "ann@example.com, by the console"}), "does not say who its caller is"),
        said(json!({"email": "a\u{202e}nn@example.com"}), "does not say who its caller is"),
        said(json!({"nonce": "another"}), "not about this sign-in"),
        said(json!({"nonce": null}), "not about this sign-in"),
        said(json!({"nonce": ""}), "not about this sign-in"),
        said(json!({"aud": "others"}), "is for others"),
        said(json!({"aud": [CLIENT, "others"]}), "asked for by somebody else"),
        said(json!({"azp": "others"}), "asked for by somebody else"),
        said(json!({"iss": "https://login.example"}), "of another issuer"),
        said(json!({"exp": now - 3_600}), "has expired"),
        said(json!({"exp": null}), "has no end"),
        said(json!({"iat": null}), "lacks a claim"),
        said(json!({"iat": now + 3_600}), "does not count yet"),
        said(json!({"sub": null}), "does not say who its caller is"),
        how(How::ByStranger, 403, "is not signed by the key"),
        how(How::Unsigned("none"), 403, "an algorithm that is not allowed"),
        how(How::Unsigned("HS256"), 403, "an algorithm that is not allowed"),
        how(says("400 Bad Request", json!({"error": "invalid_grant"})), 403, "invalid_grant"),
        how(says("400 Bad Request", json!({"error": "<b>x</b>"})), 403, "does not take what you came back"),
        how(says("200 OK", json!({"access_token": "x"})), 503, "does not answer as it should"),
        how(says("200 OK", json!({"id_token": 1})), 503, "does not answer as it should"),
        how(How::Says("200 OK", "words".to_owned()), 503, "does not answer as it should"),
        how(How::Says("200 OK", r#"{"id_token":"a","id_token":"b"}"#.to_owned()), 503, "as it should"),
        how(says("200 OK", json!({"id_token": "a.b.c"})), 403, "malformed"),
        how(says("200 OK", json!({"x": "y".repeat(300 << 10)})), 503, "can't be asked"),
        how(How::Says("302 Found", String::new()), 403, "does not take what you came back"),
    ];
    let tried = cases.iter().map(async |(claims, how, status, text)| {
        let answer = place.tries(claims.clone(), how.clone()).await;
        assert_eq!(
            (answer.status(), answer.text().contains(text)),
            (*status, true),
            "{claims} {text}: {}",
            answer.text()
        );
        assert!(is_shut(&answer), "{claims}: {}", answer.head());
        assert!(!answer.text().contains("eyJ") && !answer.text().contains("<b>x"), "{}", answer.text());
    });
    // A few at a time, so that none waits too long for its turn.
    let mut tried: Vec<_> = tried.collect();
    while !tried.is_empty() {
        let rest = tried.split_off(tried.len().min(12));
        join_all(std::mem::replace(&mut tried, rest)).await;
    }
    assert!(place.entries("console.signed_in").await.is_empty());
    place.enters(json!({"aud": [CLIENT, "others"], "azp": CLIENT})).await;
}

#[tokio::test]
async fn what_comes_back_counts_once_and_in_the_browser_that_began() {
    let place = Place::start().await;
    let (begun, other) = (place.begin().await, place.begin().await);
    let code = place.idp.grant(&begun.address, json!({}), How::Signed);
    let (state, of_other) = (&said(&begun.address)["state"], &said(&other.address)["state"]);
    for query in [
        &[("code", code.as_str()), ("state", state), ("state", state)][..],
        &[("code", &code), ("state", "x.y")],
        &[("code", &code)],
        &[("error", "<b>words of a link</b>")],
    ] {
        let lost = place.back(&begun.cookie, query).await;
        assert!(
            lost.status() == 403 && lost.text().contains("did not begin this sign-in"),
            "{}",
            lost.text()
        );
        assert!(is_shut(&lost) && !lost.text().contains("words of a link"), "{}", lost.text());
        // A link of somebody else ends nothing that is under way.
        assert!(header_of(&lost, "set-cookie").is_none(), "{}", lost.head());
    }
    // Whoever began has the browser of another come back, and finds the code in its history.
    let both = format!("{}; {}", begun.cookie, other.cookie);
    for cookie in ["", other.cookie.as_str(), both.as_str()] {
        let theirs = place.begin().await;
        let code = place.idp.grant(&theirs.address, json!({}), How::Signed);
        let query = [("code", code.as_str()), ("state", &said(&theirs.address)["state"])];
        let lost = place.back(cookie, &query).await;
        assert!(
            lost.status() == 403 && lost.text().contains("did not begin this sign-in"),
            "{}",
            lost.text()
        );
        assert!(is_shut(&lost) && header_of(&lost, "set-cookie").is_none(), "{}", lost.head());
        let late = place.back(&theirs.cookie, &query).await;
        assert!(late.text().contains("finished already") && is_shut(&late), "{}", late.text());
    }
    let done = format!("/-/console/oidc/done?code={code}&state={state}");
    let headers = format!("{BACK}cookie: {}\r\n", begun.cookie);
    assert_eq!(place.ask("HEAD", &done, &headers).await.status(), 405);
    assert_eq!(place.ask("POST", &done, &format!("{headers}content-length: 0\r\n")).await.status(), 403);
    assert_eq!(place.idp.exchanges(), 0);
    let query = [("code", code.as_str()), ("state", state.as_str())];
    assert!(!is_shut(&place.back(&begun.cookie, &query).await));
    let again = place.back(&begun.cookie, &query).await;
    assert!(again.text().contains("finished already") && is_shut(&again), "{}", again.text());
    assert_eq!(place.idp.exchanges(), 1);
    // A code of somebody else's sign-in is none of this one (PKCE).
    let stolen = place.idp.grant(&begun.address, json!({}), How::Signed);
    let injected = place.back(&other.cookie, &[("code", &stolen), ("state", of_other)]).await;
    assert!(injected.text().contains("invalid_grant") && is_shut(&injected), "{}", injected.text());
    assert_eq!(place.entries("console.signed_in").await.len(), 1);
}

#[tokio::test]
async fn a_sign_in_begins_on_a_page_of_this_origin_alone() {
    let place = Place::start().await;
    for headers in
        ["sec-fetch-site: cross-site\r\n", "sec-fetch-site: none\r\n", "sec-fetch-site: same-site\r\n"]
    {
        let refused = place.post("/oidc/begin", headers, &[("to", "/-/console/live")]).await;
        assert!(refused.status() == 403 && header_of(&refused, "set-cookie").is_none(), "{headers}");
    }
    let looked = place.ask("GET", "/-/console/oidc/begin", SAME).await;
    assert!(looked.status() == 405 && header_of(&looked, "refresh").is_none());
    for to in ["https://evil.example/", "//evil.example", "/-/console/../v1", "/t/x"] {
        let begun = place.post("/oidc/begin", SAME, &[("to", to)]).await;
        let cookie = cookie_named(&begun, "__Host-backstop-sign-in").unwrap();
        let address: Url =
            header_of(&begun, "refresh").unwrap().strip_prefix("0; url=").unwrap().parse().unwrap();
        let code = place.idp.grant(&address, json!({}), How::Signed);
        let done = place.back(&cookie, &[("code", &code), ("state", &said(&address)["state"])]).await;
        assert_eq!(header_of(&done, "refresh").unwrap(), "0; url=/-/console/approvals", "{to}");
    }
    // In the clear, and by other names, the page says where it is done.
    let clear = place.server.get("/approvals", "").await.text();
    assert!(clear.contains(&format!("href=\"https://{HOST}/-/console\"")), "{clear}");
    assert!(!clear.contains("/oidc/begin") && clear.contains("Access token"), "{clear}");
    for path in ["/oidc/begin", "/oidc/done"] {
        assert_eq!(place.server.post(path, SAME, &[("to", "x")]).await.status(), 404, "{path}");
    }
    assert_eq!(place.server.get("/oidc/done?code=x&state=y", "").await.status(), 404);
    // Where nobody signs in so, there is nothing.
    let other = Server::start().await;
    assert!(!other.get("/approvals", "").await.text().contains("Sign in at"));
    assert_eq!(other.get("/oidc/done", "").await.status(), 401);
}

#[tokio::test]
async fn what_the_provider_says_went_wrong_is_shown_as_text() {
    let place = Place::start().await;
    let long = format!("<script>alert(1)</script>{}", "y".repeat(5_000));
    for (error, more) in [("access_denied", "you <i>cancelled</i>"), ("x", long.as_str())] {
        let begun = place.begin().await;
        let state = &said(&begun.address)["state"];
        let query = [("error", error), ("error_description", more), ("state", state)];
        let told = place.back(&begun.cookie, &query).await;
        let text = told.text();
        assert!(told.status() == 403 && text.contains(error) && is_shut(&told), "{text}");
        assert!(!text.contains("<i>") && !text.contains("<script>alert") && text.len() < 4_000, "{text}");
    }
    assert_eq!(place.idp.exchanges(), 0);
}

#[tokio::test]
async fn what_another_provider_sends_back_is_nothing() {
    let place = Place::start().await;
    for issuers in [&["https://evil.example"][..], &[""], &["", ""]] {
        let begun = place.begin().await;
        let code = place.idp.grant(&begun.address, json!({}), How::Signed);
        let state = &said(&begun.address)["state"];
        let mut query = vec![("code", code.as_str()), ("state", state.as_str())];
        query.extend(issuers.iter().map(|issuer| ("iss", *issuer)));
        let mixed = place.back(&begun.cookie, &query).await;
        assert!(
            mixed.text().contains("not from the identity provider") && is_shut(&mixed),
            "{}",
            mixed.text()
        );
    }
    assert_eq!(place.idp.exchanges(), 0, "no code goes anywhere");
    // A provider that says it always names itself has to.
    let idp = Idp::start().await;
    idp.desk.lock().unwrap().discovery = json!({"authorization_response_iss_parameter_supported": true});
    let server = Server::of(House::new(), settings_with(idp.settings()), Observers::default()).await;
    let place = Place { server, idp };
    let mixed = place.tries(json!({}), How::Signed).await;
    assert!(mixed.text().contains("not from the identity provider") && is_shut(&mixed), "{}", mixed.text());
}

#[tokio::test]
async fn a_client_is_known_as_the_provider_takes_it() {
    let idp = Idp::start().await;
    idp.desk.lock().unwrap().discovery =
        json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    let server = Server::of(House::new(), settings_with(idp.settings()), Observers::default()).await;
    Place { server, idp }.enters(json!({})).await;
}

#[tokio::test]
async fn while_the_provider_is_down_nothing_opens_and_a_token_still_does() {
    let idp = Idp::start().await;
    idp.desk.lock().unwrap().is_down = true;
    let server = Server::of(House::new(), settings_with(idp.settings()), Observers::default()).await;
    let place = Place { server, idp };
    let down = place.post("/oidc/begin", SAME, &[("to", "/-/console/live")]).await;
    assert!(down.status() == 503 && down.text().contains("Nothing was opened"), "{}", down.text());
    assert!(header_of(&down, "set-cookie").is_none() && header_of(&down, "refresh").is_none());
    let (token, _) = place.server.token(&[Scope::Read]).await;
    let signed_in = place.post("/sign-in", SAME, &[("token", &token), ("to", "/-/console/live")]).await;
    assert_eq!(signed_in.status(), 303, "{}", signed_in.text());
    // It goes down between the way there and back.
    let place = Place::start().await;
    let begun = place.begin().await;
    let code = place.idp.grant(&begun.address, json!({}), How::Signed);
    place.idp.desk.lock().unwrap().is_down = true;
    let query = [("code", code.as_str()), ("state", &said(&begun.address)["state"])];
    let down = place.back(&begun.cookie, &query).await;
    assert!(is_shut(&down) && matches!(down.status(), 403 | 503), "{}", down.text());
    place.idp.server.requests.lock().unwrap().clear();
}

#[tokio::test]
async fn keys_rotate_and_an_unknown_one_is_sought_once() {
    let place = Place::start().await;
    place.enters(json!({})).await;
    assert_eq!(place.idp.reads_of_keys(), 1);
    {
        let mut desk = place.idp.desk.lock().unwrap();
        desk.key = Key::ec("k2");
        desk.published = json!({ "keys": [desk.key.published()] });
    }
    place.enters(json!({})).await;
    assert_eq!(place.idp.reads_of_keys(), 2);
    // A key that is not published is not sought again and again.
    place.idp.desk.lock().unwrap().key = Key::ec("k3");
    for _ in 0..2 {
        let refused = place.tries(json!({}), How::Signed).await;
        assert!(refused.text().contains("a key that its issuer does not have"), "{}", refused.text());
        assert!(is_shut(&refused));
    }
    assert_eq!(place.idp.reads_of_keys(), 2);
}

#[tokio::test]
async fn by_configuration_a_person_is_known_by_what_never_changes() {
    let place = Place::over(House::new(), |sign_in| sign_in.user_claim = PersonClaim::Subject).await;
    let cookie = place.enters(json!({"email": null, "email_verified": null})).await;
    assert!(place.looks(&cookie, "/approvals").await.text().contains("subject-1"));
    // A role by an address is one by an address that is verified.
    let place = Place::over(House::new(), |sign_in| {
        sign_in.user_claim = PersonClaim::Subject;
        sign_in.role_claim = "email".to_owned();
        sign_in.roles = [("ann@example.com".to_owned(), vec![Scope::Read])].into();
    })
    .await;
    place.enters(json!({})).await;
    let refused = place.tries(json!({"email_verified": false}), How::Signed).await;
    assert!(refused.text().contains("not say that your address is verified") && is_shut(&refused));
}

#[tokio::test]
async fn a_session_lasts_as_long_as_is_configured_and_ends_with_another_provider() {
    let place = Place::over(House::new(), |sign_in| sign_in.longest = Duration::from_secs(2)).await;
    let cookie = place.enters(json!({})).await;
    within(async {
        while place.looks(&cookie, "/session").await.status() != 401 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let place = Place::start().await;
    let cookie = place.enters(json!({})).await;
    let reload = |sign_in: Option<PersonIssuer>| {
        let mut settings = settings_with(place.idp.settings());
        settings.store = Some(Arc::clone(&place.server.house.store));
        settings.sign_in = sign_in;
        let hooks = Hooks::new(place.server.house.engine.clone(), HookSettings::default()).unwrap();
        place.server.gateway.reload(&settings, Arc::new(hooks)).unwrap();
    };
    let begun = place.begin().await;
    reload(Some(place.idp.settings()));
    assert_eq!(place.looks(&cookie, "/session").await.status(), 204, "the same settings end nothing");
    let mut less = place.idp.settings();
    less.roles.remove("approvers");
    reload(Some(less));
    assert_eq!(place.looks(&cookie, "/session").await.status(), 401, "what a role was is looked at anew");
    let mut other = place.idp.settings();
    other.client_id = "client-2".to_owned();
    reload(Some(other));
    let code = place.idp.grant(&begun.address, json!({}), How::Signed);
    let late = place.back(&begun.cookie, &[("code", &code), ("state", &said(&begun.address)["state"])]).await;
    assert!(late.text().contains("did not begin this sign-in") && is_shut(&late), "{}", late.text());
}

/// Ann, Bob and Carl, of whom one has to allow what is asked about, and nobody what they asked for.
fn not_oneself(issuer: &str) -> ApprovalSettings {
    let signed_in = |name: &str| KnownBy::SignedIn { issuer: issuer.to_owned(), name: name.to_owned() };
    let user = |name: &str| KnownBy::User(name.to_owned());
    let people = People::new([
        (PersonName::new("ann"), vec![user("ann-by-token"), signed_in("ann@example.com")]),
        (PersonName::new("bob"), vec![user("bob@example.com"), signed_in("bob@corp.example")]),
    ]);
    let route = ApprovalRoute {
        fits: Arc::new(|_| true),
        ask: Some(vec!["ann".to_owned(), "bob".to_owned()]),
        bars_requester: true,
        votes: NonZeroU32::new(1).unwrap(),
        escalate: None,
        decisions: None,
        substitutes: None,
        told: None,
    };
    ApprovalSettings {
        people: Arc::new(people),
        routes: Routes::from_iter([route]),
        ..ApprovalSettings::default()
    }
}

#[tokio::test]
async fn where_it_is_demanded_a_person_signs_in_at_the_provider_anew() {
    let place = Place::over(House::new(), |sign_in| sign_in.sign_in_anew = true).await;
    let asked = said(&place.begin().await.address);
    assert_eq!((asked["prompt"].as_str(), asked["max_age"].as_str()), ("login", "0"));
    let now = jiff::Timestamp::now().as_second();
    for at in [json!(null), json!(now - 600), json!(now + 600), json!("now")] {
        assert!(is_shut(&place.tries(json!({"auth_time": at}), How::Signed).await), "{at}");
    }
    place.enters(json!({"auth_time": now - 30})).await;
}

#[tokio::test]
async fn whoever_asked_does_not_answer_by_signing_in_otherwise() {
    let idp = Idp::start().await;
    let house = House::asking(Arc::new(SqliteStore::in_memory()), not_oneself(&idp.server.url()));
    let server = Server::of(house, settings_with(idp.settings()), Observers::default()).await;
    let place = Place { server, idp };
    let (token, made) = NewAccessToken::make("bot".into(), "a test".to_owned(), Timestamp::now(), DAY);
    let made = NewAccessToken { scopes: vec![Scope::Judge], user: Some("ann-by-token".to_owned()), ..made };
    place.server.house.store.add_access_token(made).await.unwrap();
    let body = json!({"event": {"toolName": "exec", "params": {"command": "marker"}}}).to_string();
    let judge = format!(
        "POST /-/v1/hooks/before_tool_call HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        token.expose(),
        body.len()
    );
    within(async {
        while talk(&place.server.gateway, &judge).await.status() != 202 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let answers = place.server.house.engine.answer_store();
    let record = answers.approvals(ApprovalFilter::Pending, 1).await.unwrap().remove(0);
    let answers = async |claims: Value| {
        let cookie = place.enters(claims).await;
        let page = place.looks(&cookie, "/approvals").await.text();
        let form: String = page.split_once("name=\"form\" value=\"").unwrap().1.chars().take(64).collect();
        let digest = record.request.digest.to_string();
        let fields = [("form", form.as_str()), ("digest", &digest), ("decision", "allow-once")];
        let headers = format!("{SAME}cookie: {cookie}\r\n");
        place.post(&format!("/approvals/{}/answer", record.id), &headers, &fields).await
    };
    // Ann asked. The user of Bob's token is nobody at the provider, and a stranger is nobody at all.
    for (email, why) in [
        ("ann@example.com", "bob may answer"),
        ("bob@example.com", "not known here which person you are"),
        ("eve@example.com", "not known here which person you are"),
    ] {
        let refused = answers(json!({"email": email, "sub": email})).await;
        assert_eq!(refused.status(), 409, "{email}: {}", refused.text());
        assert!(refused.text().contains(why), "{email}: {}", refused.text());
        assert_eq!(place.server.state(&record).await, ApprovalState::Pending, "{email}");
    }
    let allowed = answers(json!({"email": "bob@corp.example", "sub": "subject-bob"})).await;
    assert_eq!(allowed.status(), 303, "{}", allowed.text());
    let state = place.server.state(&record).await;
    let by = state.by().unwrap();
    let expected = format!("bob: bob@corp.example, by the console (signed in at {})", place.idp.server.url());
    assert_eq!(by, expected);
}

#[tokio::test]
async fn what_can_not_be_come_back_to_is_an_error_at_the_start() {
    let idp = Idp::start().await;
    let starts = async |change: &dyn Fn(&mut Settings, &mut PersonIssuer)| {
        let (mut settings, mut sign_in) = (settings_with(idp.settings()), idp.settings());
        change(&mut settings, &mut sign_in);
        settings.sign_in = Some(sign_in);
        let house = House::new();
        let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
        let started = Gateway::start(settings, Arc::new(hooks)).await;
        match started {
            Err(error @ StartError::SignIn { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    for origin in [
        "http://console.example",
        "https://console.example/path",
        "https://console.example/?x",
        "https://u@console.example",
        "console.example",
        "https://localhost",
        "https://x.localhost",
        "https://127.0.0.1",
        "https://[::1]",
        "https://other.example",
    ] {
        let told = starts(&|settings, sign_in| {
            settings.hosts.extend(["localhost", "x.localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
            sign_in.origin = origin.to_owned();
        })
        .await;
        assert!(told.contains("gateway.console.oidc") && told.contains("origin"), "{origin}: {told}");
    }
    assert!(starts(&|_, sign_in| sign_in.roles.clear()).await.contains("roles"));
    assert!(starts(&|_, sign_in| sign_in.issuer = "http://login.example".to_owned()).await.contains("https"));
    let judge = |_: &mut Settings, sign_in: &mut PersonIssuer| {
        sign_in.roles.insert("x".to_owned(), vec![Scope::Judge]);
    };
    assert!(starts(&judge).await.contains("no person's"));
}
