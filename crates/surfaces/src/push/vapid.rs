//! Who pushes (VAPID, RFC 8292): a key pair of P-256 whose private half never leaves this process and its file, and a token per push service.
//!
//! A browser's subscription is for one public key. Whoever has the private one can send notices to the devices that are told, and nothing else.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use backstop_hooks::Secret;
use backstop_store::Timestamp;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use url::{Origin, Url};
use uuid::Uuid;

/// How long a token counts; a day is the most (RFC 8292, section 2).
const SPAN: Duration = Duration::from_secs(12 * 3_600);
/// The largest file with a key, in bytes.
const MOST_BYTES: u64 = 4_096;
/// What a key stands between in its file.
const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// Our key pair for pushes.
pub(super) struct VapidKey {
    pair: EcdsaKeyPair,
    public: String,
}

impl fmt::Debug for VapidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VapidKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl VapidKey {
    /// Returns the key of this text: PKCS #8 in PEM, or its base64 alone. `None` if it is none of P-256.
    pub(super) fn read(text: &Secret) -> Option<Self> {
        let text = text.expose().trim();
        let inner = text.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END)).unwrap_or(text);
        let bare: String = inner.split_ascii_whitespace().collect();
        let bytes = BASE64_STANDARD.decode(bare).ok()?;
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes, &SystemRandom::new()).ok()?;
        let public = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key());
        Some(Self { pair, public })
    }

    /// Returns the key in a file, which is made if it is not there: readable for its owner alone, and whole or not at all.
    pub(super) fn kept(path: &Path) -> io::Result<Self> {
        match Self::in_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        private_folder(folder)?;
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| io::Error::other("the system has no randomness to give"))?;
        let text = format!("{BEGIN}\n{}\n{END}\n", BASE64_STANDARD.encode(made.as_ref()));
        let new = folder.join(format!(".key.{}", Uuid::new_v4().simple()));
        let written = private_file(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        // Of two that make one at the same time, one is kept.
        let kept = written.and_then(|()| match fs::hard_link(&new, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        });
        fs::remove_file(&new)?;
        kept?;
        Self::in_file(path)
    }

    fn in_file(path: &Path) -> io::Result<Self> {
        let text = read_private(path, MOST_BYTES)?;
        let wrong =
            || io::Error::new(io::ErrorKind::InvalidData, "it holds no private key of P-256 (PKCS #8)");
        Self::read(&Secret::new(String::from_utf8(text).map_err(|_| wrong())?)).ok_or_else(wrong)
    }

    /// Returns the public half, as browsers want it (`applicationServerKey`): the uncompressed point in base64url.
    pub(super) fn public(&self) -> &str {
        &self.public
    }

    /// Returns the value of `Authorization` for a push to this endpoint. `about` is where the service finds whoever runs this.
    pub(super) fn authorization(&self, endpoint: &Url, about: &str, now: Timestamp) -> Option<String> {
        let Origin::Tuple(..) = endpoint.origin() else { return None };
        let audience = endpoint.origin().ascii_serialization();
        let encode = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({ "aud": audience, "exp": now.after(SPAN).as_millis() / 1_000, "sub": about });
        let signed = format!("{}.{}", encode(json!({ "typ": "JWT", "alg": "ES256" })), encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
        Some(format!("vapid t={signed}.{signature}, k={}", self.public))
    }
}

/// Makes a folder that is its owner's alone, where there is none.
pub(super) fn private_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Makes a file that is its owner's alone.
pub(super) fn private_file(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Reads a file that nobody but its owner can read or write.
pub(super) fn read_private(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let looked = fs::symlink_metadata(path)?;
    let denied = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned());
    if !looked.is_file() {
        return Err(denied("it is no file"));
    }
    let file = fs::File::open(path)?;
    let opened = file.metadata()?;
    if (opened.dev(), opened.ino()) != (looked.dev(), looked.ino()) {
        return Err(denied("it was exchanged while it was opened"));
    }
    if opened.mode() & 0o077 != 0 {
        return Err(denied("others than its owner can read or write it\nhint: chmod 600"));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web-push/key");
        let made = VapidKey::kept(&path).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(VapidKey::kept(&path).unwrap().public(), made.public());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
        let text = fs::read_to_string(&path).unwrap();
        assert!(!format!("{made:?}").contains(text.lines().nth(1).unwrap()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(VapidKey::kept(&path).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "no key").unwrap();
        assert!(VapidKey::kept(&path).unwrap_err().to_string().contains("P-256"), "it is never replaced");
        assert_eq!(fs::read_to_string(&path).unwrap(), "no key");
    }

    #[test]
    fn a_token_is_for_one_service_and_for_half_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let key = VapidKey::kept(&folder.path().join("key")).unwrap();
        let now = Timestamp::from_millis(1_700_000_000_000);
        let endpoint = "https://push.example:8443/secret/path?x=1".parse().unwrap();
        let header = key.authorization(&endpoint, "https://backstop.example/", now).unwrap();
        let (token, public) = header.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        assert_eq!(public, key.public());
        let parts: Vec<&str> = token.split('.').collect();
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&decode(parts[1])).unwrap();
        let expected = json!({ "aud": "https://push.example:8443", "exp": 1_700_043_200, "sub": "https://backstop.example/" });
        assert_eq!(claims, expected);
        let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, decode(public));
        let signed = format!("{}.{}", parts[0], parts[1]);
        verifier.verify(signed.as_bytes(), &decode(parts[2])).unwrap();
        assert!(verifier.verify(b"else", &decode(parts[2])).is_err());
    }
}
