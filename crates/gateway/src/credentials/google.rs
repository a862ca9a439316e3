//! Access tokens of Google's, for Vertex AI.
//!
//! A *service account* signs an assertion (a JWT by RS256, RFC 7523) with the key in its file, and a *user* has a refresh token
//! in theirs (RFC 6749, 6); either is exchanged for a token at Google's token server. A *machine* in Google's cloud is told a
//! token of its own by the metadata server, at an address that only it reaches. The form of the files is that of Google's
//! application default credentials (AIP-4110 to 4115).
//!
//! Law: the file says where what is made of it goes (`token_uri`), and is believed only where that is an address of Google's token
//! server, as a whole, or one of this machine: an assertion or a refresh token that goes elsewhere is good for whoever gets it, and
//! below Google's names there are addresses that belong to anybody (buckets, functions).
//!
//! Not read: `external_account` and other kinds, which have the gateway ask further addresses and programs that a file names;
//! `quota_project_id`, since the provider's `project` pays.

use std::path::PathBuf;

use backstop_hooks::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};

use super::Unobtained;
use super::files::{Files, file};
use super::token::Token;
use crate::settings::Proxies;
use crate::upstream::ask_for_token;

/// Google's token server, by all the names that files have for it. Without one it is the first.
const TOKEN_SERVERS: [&str; 4] = [
    "https://oauth2.googleapis.com/token",
    "https://www.googleapis.com/oauth2/v4/token",
    "https://www.googleapis.com/oauth2/v3/token",
    "https://accounts.google.com/o/oauth2/token",
];
/// What a token is good for: Google's clouds, as far as the account itself may use them.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// How long an assertion holds, in seconds: the longest that is taken.
const ASSERTED: i64 = 3600;
/// Where a machine's account has its token.
const OF_MACHINE: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
const FLAVOR: HeaderName = HeaderName::from_static("metadata-flavor");
const GOOGLE: HeaderValue = HeaderValue::from_static("Google");
/// What a token server may say is wrong (RFC 6749, 5.2). Other words are not repeated.
const WORDS: [&str; 6] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
];

/// An account with a file.
#[derive(Debug)]
pub(crate) struct Account {
    path: PathBuf,
    files: Files,
    proxies: Proxies,
}

impl Account {
    pub(super) fn new(path: PathBuf, files: Files, proxies: Proxies) -> Self {
        Self { path, files, proxies }
    }

    /// A new token. The file is read each time, so that a new key in it counts.
    pub(super) async fn token(&self) -> Result<Token, Unobtained> {
        let text = self.files.read(&self.path).await?;
        let text = text.ok_or_else(|| file(&self.path, "is not there"))?;
        let exchange = Exchange::of(&text, Timestamp::now()).map_err(|problem| file(&self.path, problem))?;
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        let body = Bytes::from(exchange.form.expose().clone());
        ask(&exchange.server, &self.proxies, (Method::POST, headers, body)).await
    }
}

/// The metadata server of this machine.
#[derive(Debug)]
pub(crate) struct Metadata {
    address: String,
}

impl Metadata {
    pub(super) fn new(address: String) -> Self {
        Self { address }
    }

    pub(super) async fn token(&self) -> Result<Token, Unobtained> {
        let server = format!("{}{OF_MACHINE}", self.address.trim_end_matches('/'));
        let server: Uri = server.parse().map_err(|_| problem(&self.address, "is no address"))?;
        let mut headers = HeaderMap::new();
        headers.insert(FLAVOR, GOOGLE);
        // It is this machine's own, whatever proxies there are.
        ask(&server, &Proxies::default(), (Method::GET, headers, Bytes::new())).await
    }
}

/// What a file has exchanged for a token.
#[derive(Debug)]
struct Exchange {
    server: Uri,
    form: Secret,
}

impl Exchange {
    /// Reads a file. What is wrong with it is the end of a sentence about it.
    fn of(text: &str, now: Timestamp) -> Result<Self, String> {
        let file: Value = serde_json::from_str(text).map_err(|_| "is no JSON")?;
        let file = file.as_object().ok_or("holds no JSON object")?;
        if file.get("universe_domain").is_some_and(|domain| domain != "googleapis.com") {
            return Err("is for another cloud than Google's (`universe_domain`)".to_owned());
        }
        let server = server(file)?;
        let form = match field(file, "type")? {
            "service_account" => {
                let assertion = assertion(file, &server, now)?;
                let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
                form(&[("grant_type", grant), ("assertion", assertion.expose())])
            }
            "authorized_user" => form(&[
                ("grant_type", "refresh_token"),
                ("client_id", field(file, "client_id")?),
                ("client_secret", field(file, "client_secret")?),
                ("refresh_token", field(file, "refresh_token")?),
            ]),
            "external_account" | "external_account_authorized_user" | "impersonated_service_account" => {
                return Err("holds credentials of another identity provider or account (`external_account`, `impersonated_service_account`), which are not read here\nhint: `token_command: [gcloud, auth, application-default, print-access-token]` has gcloud read them".to_owned());
            }
            _ => {
                return Err(
                    "is of a `type` that is not read here\nhint: `service_account` and `authorized_user` are"
                        .to_owned(),
                );
            }
        };
        Ok(Self { server, form })
    }
}

/// Where a file's secret is exchanged.
fn server(file: &Map<String, Value>) -> Result<Uri, String> {
    let [usual, ..] = TOKEN_SERVERS;
    let named = match file.get("token_uri") {
        None => usual,
        Some(named) => named.as_str().ok_or("has a `token_uri` that is no text")?,
    };
    let server: Uri = named.parse().map_err(|_| "has a `token_uri` that is no address")?;
    if TOKEN_SERVERS.contains(&named) || is_here(&server) {
        return Ok(server);
    }
    Err("has a `token_uri` that is neither Google's token server nor on this machine, so that its secret would go to somebody else".to_owned())
}

/// Whether an address is one of this machine.
fn is_here(address: &Uri) -> bool {
    let Some(authority) = address.authority().filter(|authority| !authority.as_str().contains('@')) else {
        return false;
    };
    let host = authority.host().trim_matches(['[', ']']);
    matches!(address.scheme_str(), Some("http" | "https"))
        && (host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

fn field<'a>(file: &'a Map<String, Value>, key: &str) -> Result<&'a str, String> {
    let value = file.get(key).and_then(Value::as_str).filter(|value| !value.is_empty());
    value.ok_or_else(|| format!("has no `{key}`"))
}

/// What a service account says of itself, signed.
fn assertion(file: &Map<String, Value>, server: &Uri, now: Timestamp) -> Result<Secret, String> {
    const NO_KEY: &str = "has a `private_key` that is no RSA key as PEM";
    let key = PrivateKeyDer::from_pem_slice(field(file, "private_key")?.as_bytes()).map_err(|_| NO_KEY)?;
    let key = match &key {
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        _ => return Err(NO_KEY.to_owned()),
    };
    let key = key.map_err(|_| NO_KEY)?;
    let mut head = json!({ "alg": "RS256", "typ": "JWT" });
    if let (Some(id), Some(head)) = (file.get("private_key_id"), head.as_object_mut()) {
        head.insert("kid".to_owned(), id.clone());
    }
    let account = field(file, "client_email")?;
    let second = now.as_second();
    let claims = json!({
        "iss": account, "scope": SCOPE, "aud": server.to_string(), "iat": second, "exp": second + ASSERTED,
    });
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let said = format!("{}.{}", encoded(&head), encoded(&claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), said.as_bytes(), &mut signature)
        .map_err(|_| "has a `private_key` that signs nothing")?;
    Ok(Secret::new(format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature))))
}

/// Fields as `application/x-www-form-urlencoded`.
fn form(fields: &[(&str, &str)]) -> Secret {
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    Secret::new(pairs.join("&"))
}

fn escaped(value: &str) -> String {
    value.bytes().fold(String::with_capacity(value.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}

fn problem(server: &str, problem: impl Into<String>) -> Unobtained {
    Unobtained::Server { server: server.to_owned(), problem: problem.into() }
}

/// Asks a server for a token.
async fn ask(
    server: &Uri,
    proxies: &Proxies,
    asked: (Method, HeaderMap, Bytes),
) -> Result<Token, Unobtained> {
    let is_metadata = asked.1.contains_key(FLAVOR);
    let shown = server.to_string();
    let failed = |why: String| problem(&shown, format!("gave no answer: {why}"));
    let (status, headers, body) = ask_for_token(server, proxies, asked).await.map_err(failed)?;
    if status != StatusCode::OK {
        let word = serde_json::from_slice(&body).ok().and_then(|body: Value| {
            let said = body.get("error")?.as_str()?;
            WORDS.into_iter().find(|word| *word == said)
        });
        let word = word.map(|word| format!(" (`{word}`)")).unwrap_or_default();
        return Err(problem(&shown, format!("answered {}{word}", status.as_u16())));
    }
    if is_metadata && headers.get(FLAVOR) != Some(&GOOGLE) {
        return Err(problem(&shown, "is no metadata server of Google's"));
    }
    Token::read(&body, Timestamp::now()).map_err(|said| problem(&shown, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_of(token_uri: &str) -> Result<Uri, String> {
        let mut file = Map::new();
        file.insert("token_uri".to_owned(), token_uri.into());
        server(&file)
    }

    #[test]
    fn a_secret_goes_to_google_or_stays_on_this_machine() {
        for good in TOKEN_SERVERS.into_iter().chain([
            "http://127.0.0.1:8080/token",
            "http://localhost/token",
            "https://[::1]:1/x",
        ]) {
            assert_eq!(server_of(good).unwrap().to_string(), good);
        }
        assert_eq!(server(&Map::new()).unwrap().to_string(), TOKEN_SERVERS[0]);
        for bad in [
            "http://oauth2.googleapis.com/token",
            "https://oauth2.googleapis.com/token/",
            "https://oauth2.googleapis.com/token?to=x",
            "https://oauth2.googleapis.com:8443/token",
            "https://oauth2.googleapis.com.example.com/token",
            "https://oauth2.googleapis.com@example.com/token",
            "https://storage.googleapis.com/bucket/token",
            "https://region-project.cloudfunctions.net/token",
            "https://127.0.0.1.example.com/token",
            "http://localhost@example.com/token",
            "http://localhost.example.com/token",
            "http://user@127.0.0.1/token",
            "http://169.254.169.254/token",
            "http://10.0.0.1/token",
            "ftp://127.0.0.1/token",
            "/token",
            "",
            "nowhere at all",
        ] {
            let why = server_of(bad).expect_err(bad);
            assert!(bad.is_empty() || !why.contains(bad), "{why}");
        }
    }

    #[test]
    fn files_of_other_kinds_are_refused_by_name() {
        let read = |text: &str| Exchange::of(text, Timestamp::UNIX_EPOCH).expect_err(text);
        for (text, expected) in [
            ("", "is no JSON"),
            ("[]", "holds no JSON object"),
            ("{}", "has no `type`"),
            (r#"{"type":"external_account"}"#, "another identity provider"),
            (r#"{"type":"impersonated_service_account"}"#, "another identity provider"),
            (r#"{"type":"gdch_service_account"}"#, "is of a `type`"),
            (r#"{"type":"authorized_user"}"#, "has no `client_id`"),
            (r#"{"type":"authorized_user","client_id":"i","client_secret":"s"}"#, "has no `refresh_token`"),
            (r#"{"type":"authorized_user","universe_domain":"example.com"}"#, "another cloud"),
            (r#"{"type":"service_account"}"#, "has no `private_key`"),
            (r#"{"type":"service_account","private_key":"sesame"}"#, "no RSA key"),
        ] {
            let why = read(text);
            assert!(why.contains(expected) && !why.contains("sesame"), "{text}: {why}");
        }
    }

    #[test]
    fn a_form_says_each_value_whole() {
        let fields = form(&[("a", "x&b=y"), ("c", "1//0+ \u{e9}")]);
        assert_eq!(fields.expose(), "a=x%26b%3Dy&c=1%2F%2F0%2B%20%C3%A9");
    }
}
