//! Credentials that the gateway gets for itself, from servers that are scripted and programs that are real.

mod aws;
mod commands;
mod google;
pub(crate) mod log;

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop_gateway::{
    Cloud, Credential, CredentialSource, Family, OperatorFiles, Renewed, Settings, TokenCommand,
};
use tempfile::TempDir;

use crate::support::{Answer, Script, Upstream, post, settings};

/// What must never be seen by a client, in no error.
const SESAME: &str = "open-sesame";

/// Takes every file for the operator's but those whose name says otherwise.
#[derive(Debug)]
struct Files;

impl OperatorFiles for Files {
    fn open(&self, path: &Path) -> Result<Option<File>, String> {
        if path.ends_with("of-others.json") {
            return Err("it belongs to another user".to_owned());
        }
        match File::open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn program(&self, name: &OsStr) -> Result<Option<PathBuf>, String> {
        let path = Path::new(name);
        if path.ends_with("of-others") {
            return Err("it belongs to another user".to_owned());
        }
        Ok((path.is_absolute() && path.exists()).then(|| path.to_owned()))
    }
}

fn renewed(source: CredentialSource) -> Renewed {
    log::listen();
    Renewed::new(source, Arc::new(Files))
}

fn vertex() -> Cloud {
    Cloud::Vertex { project: "ours".to_owned(), region: "us-east5".to_owned() }
}

/// Settings whose provider of this family is in a cloud and has these credentials.
fn paid(upstream: &Upstream, family: Family, cloud: Cloud, renewed: Renewed) -> Settings {
    let mut settings = settings(upstream);
    let provider = settings.providers.get_mut(family.as_str()).unwrap();
    provider.cloud = Some(cloud);
    provider.credential = Credential::Renewed(renewed);
    settings
}

/// A request of a client that brings a key of its own.
fn asked() -> String {
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    post("/v1/messages", body).replacen("host: localhost", "host: localhost\r\nx-api-key: client-key", 1)
}

async fn answering() -> Upstream {
    Upstream::start(|_| Script::json("200 OK", r#"{"ok":true}"#)).await
}

/// The bearer token of a request.
fn bearer(request: &str) -> &str {
    let (_, rest) = request.split_once("authorization: Bearer ").unwrap_or_else(|| panic!("{request}"));
    rest.split_once("\r\n").unwrap().0
}

/// The client is told to come again, in the shape of its wire, and nothing that it must not know.
#[track_caller]
fn refused_for_now(answer: &Answer, why: &str) {
    let text = answer.text();
    assert_eq!(answer.status(), 503, "{text}");
    assert!(answer.head().contains("retry-after: "), "{text}");
    let told = answer.json();
    assert_eq!(told["type"], "error", "{text}");
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("its credentials can't be had now; try again later"), "{message}");
    assert!(!message.contains(why) && !message.contains(['/', '\\']), "{why}: {message}");
    assert!(log::said().contains(why), "{why}: {}", log::said());
    assert!(!log::said().contains(SESAME), "{}", log::said());
    assert!(!text.contains(SESAME) && !text.contains("client-key"), "{text}");
}

/// A folder with programs and files.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
    }

    /// A program for `/bin/sh`, and the settings that start it. It runs in its own folder.
    fn program(&self, text: &str) -> TokenCommand {
        let folder = self.0.path().display();
        let path = self.file("program", &format!("#!/bin/sh\ncd '{folder}' || exit 9\n{text}\n"));
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let environment = [("PATH".into(), "/usr/bin:/bin".into())].into();
        TokenCommand { program: path.into(), arguments: Vec::new(), environment }
    }
}

fn soon(mut renewed: Renewed) -> Renewed {
    renewed.patience = Duration::from_millis(500);
    renewed
}
