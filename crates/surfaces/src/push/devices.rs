//! The devices that are told: the subscriptions of browsers, each of a person who was signed in at the console.
//!
//! They are in a file beside the key, so that a restart loses none and all processes of this machine see the same.
//!
//! Laws:
//!
//! - *A device is of a person, and of the token by which they signed in.* It is told no longer once that token counts no more, the service says that
//!   it is gone, or the person says so.
//! - *What the file says is judged as what a browser says*: somebody else may have written it.
//! - *Bounded*: [`MOST_OF_USER`] devices of a person, of which the oldest gives way out loud, and [`MOST`] in all.
//!
//! No address of a device is in a log, an error or `Debug` output: whoever has one could have the service refuse us.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::Digest;
use backstop_store::{AccessTokenId, Timestamp};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use thiserror::Error;
use url::Url;
use uuid::Uuid;

use super::seal::{AUTH, PUBLIC, Receiver, seal};
use super::services::{BadEndpoint, Whose, judge};
use super::vapid::{private_file, private_folder, read_private};
use crate::shown::line;

/// How many devices one person has that are told.
const MOST_OF_USER: usize = 8;
/// How many there are in all.
const MOST: usize = 256;
/// The largest file, in bytes.
const MOST_BYTES: u64 = 2 << 20;
/// The role of an address in its digest.
const ROLE: &str = "web_push_device";

/// A device that is to be told, as its browser describes it.
#[derive(Clone)]
pub struct NewDevice {
    /// The person.
    pub user: String,
    /// The token by which they signed in.
    pub token: AccessTokenId,
    /// The address that the browser was given by its push service.
    pub endpoint: String,
    /// Its public key, in base64url.
    pub p256dh: String,
    /// What it shares with us besides, in base64url.
    pub auth: String,
}

impl fmt::Debug for NewDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewDevice")
            .field("user", &self.user)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// What came of a device that was to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is told from now on.
    New,
    /// It is told from now on, and the oldest of the person's devices no longer.
    InPlaceOfOldest,
    /// It was told before.
    Known,
}

/// Why a device is not told.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// Its address is none to push to.
    #[error(transparent)]
    Endpoint(#[from] BadEndpoint),
    /// Its keys are none.
    #[error("the keys of the subscription can't be read")]
    Keys,
    /// It is somebody else's.
    #[error("that device is told as somebody else's")]
    Taken,
    /// There is no room.
    #[error("{MOST} devices are told, as many as may be")]
    Full,
    /// Where they are kept can't be read or written.
    #[error("the list of devices can't be read or written: {0}")]
    File(io::Error),
}

/// A device.
#[derive(Clone)]
pub(super) struct Device {
    /// Whose it is and which, for people and as a place: nothing of its address.
    pub(super) place: String,
    pub(super) user: String,
    pub(super) token: String,
    pub(super) endpoint: Url,
    pub(super) whose: Whose,
    pub(super) receiver: Receiver,
    since: i64,
}

/// The devices that are told.
#[derive(Clone)]
pub(super) struct Devices(Arc<Inner>);

struct Inner {
    /// The file.
    path: PathBuf,
    /// The origins of services that the operator named.
    named: Vec<Url>,
    read: Mutex<Option<(Stamp, Arc<[Device]>)>>,
}

/// By what it is seen that a file is another one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    /// When it or its mode was changed, in seconds and nanoseconds.
    at: (i64, i64),
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Devices").finish_non_exhaustive()
    }
}

impl Devices {
    /// Returns the devices that are kept in this file.
    pub(super) fn kept(path: PathBuf, named: Vec<Url>) -> Self {
        Self(Arc::new(Inner { path, named, read: Mutex::default() }))
    }

    /// Has a device told. `key` is the public key that it subscribed to.
    pub(super) async fn add(&self, new: NewDevice, key: String) -> Result<Added, DeviceError> {
        let (endpoint, whose) = judge(&new.endpoint, &self.0.named)?;
        let receiver = receiver(&new.p256dh, &new.auth).ok_or(DeviceError::Keys)?;
        // A key that is no point of the curve gets nothing.
        seal(b"", &receiver).ok_or(DeviceError::Keys)?;
        let device = Device {
            place: place(&new.user, endpoint.as_str()),
            user: new.user,
            token: new.token.as_str().to_owned(),
            endpoint,
            whose,
            receiver,
            since: Timestamp::now().as_millis(),
        };
        self.change(key, move |all| put(all, device)).await
    }

    /// Tells a device of a person no longer. Returns whether it was told.
    pub(super) async fn remove(&self, user: &str, endpoint: &str, key: String) -> Result<bool, DeviceError> {
        let Ok(endpoint) = Url::parse(endpoint) else { return Ok(false) };
        let user = user.to_owned();
        self.change(key, move |all| Ok(without(all, |one| one.user == user && one.endpoint == endpoint)))
            .await
    }

    /// Tells a device no longer that its service says is gone.
    pub(super) async fn gone(&self, place: &str, key: String) -> Result<bool, DeviceError> {
        let place = place.to_owned();
        self.change(key, move |all| Ok(without(all, |one| one.place == place))).await
    }

    /// Tells devices no longer whose tokens are not among these. Returns how many there were.
    pub(super) async fn keep(&self, tokens: BTreeSet<String>, key: String) -> Result<usize, DeviceError> {
        if self.all(&key).iter().all(|one| tokens.contains(&one.token)) {
            return Ok(0);
        }
        self.change(key, move |all| {
            let before = all.len();
            all.retain(|one| tokens.contains(&one.token));
            Ok(before.saturating_sub(all.len()))
        })
        .await
    }

    /// Returns the devices that subscribed to this key. If the file can't be read, there are none, which the log says.
    pub(super) fn all(&self, key: &str) -> Arc<[Device]> {
        let stamp = match fs::symlink_metadata(&self.0.path) {
            Ok(file) => Stamp { inode: file.ino(), size: file.len(), at: (file.ctime(), file.ctime_nsec()) },
            Err(_) => return Arc::default(),
        };
        let mut read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, all)) = read.as_ref()
            && *known == stamp
        {
            return Arc::clone(all);
        }
        let all: Arc<[Device]> = match self.read(key) {
            Ok(all) => all.into(),
            Err(error) => {
                tracing::warn!(%error, "no device is told: the list of them can't be read");
                Arc::default()
            }
        };
        *read = Some((stamp, Arc::clone(&all)));
        all
    }

    /// Changes the file: one at a time on this machine, and as a whole or not at all.
    async fn change<T: Send + 'static>(
        &self,
        key: String,
        change: impl FnOnce(&mut Vec<Device>) -> Result<T, DeviceError> + Send + 'static,
    ) -> Result<T, DeviceError> {
        let this = self.clone();
        let changing = tokio::task::spawn_blocking(move || {
            let folder = this.0.path.parent().unwrap_or(Path::new("."));
            private_folder(folder).map_err(DeviceError::File)?;
            let lock = File::options().create(true).truncate(false).write(true).open(folder.join("lock"));
            let lock = lock.map_err(DeviceError::File)?;
            lock.lock().map_err(DeviceError::File)?;
            let mut all = match this.read(&key) {
                Ok(all) => all,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(DeviceError::File(error)),
            };
            let before = written(&all, &key);
            let came = change(&mut all)?;
            let after = written(&all, &key);
            if after != before {
                this.write(folder, &after).map_err(DeviceError::File)?;
            }
            Ok(came)
        });
        changing.await.unwrap_or_else(|_| Err(DeviceError::File(io::Error::other("it broke off"))))
    }

    fn write(&self, folder: &Path, text: &str) -> io::Result<()> {
        let new = folder.join(format!(".devices.{}", Uuid::new_v4().simple()));
        let put = private_file(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.0.path)
        });
        if put.is_err() {
            let _ = fs::remove_file(&new);
        }
        put
    }

    fn read(&self, key: &str) -> io::Result<Vec<Device>> {
        let bytes = read_private(&self.0.path, MOST_BYTES)?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it is no list of devices");
        let list: Value = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
        // What subscribed to another key takes nothing that this one signs.
        if list.get("key").and_then(Value::as_str) != Some(key) {
            return Ok(Vec::new());
        }
        let list = list.get("devices").and_then(Value::as_array).ok_or_else(wrong)?;
        let known: Vec<Device> = list.iter().take(MOST).filter_map(|one| self.device(one)).collect();
        if known.len() < list.len() {
            let count = list.len().saturating_sub(known.len());
            tracing::warn!(
                count,
                "some devices are not told: they can't be read, or nobody knows their push service"
            );
        }
        Ok(known)
    }

    fn device(&self, one: &Value) -> Option<Device> {
        let text = |name: &str| one.get(name).and_then(Value::as_str);
        let (endpoint, whose) = judge(text("endpoint")?, &self.0.named).ok()?;
        let user = text("user")?.to_owned();
        Some(Device {
            place: place(&user, endpoint.as_str()),
            user,
            token: text("token")?.to_owned(),
            endpoint,
            whose,
            receiver: receiver(text("p256dh")?, text("auth")?)?,
            since: one.get("since").and_then(Value::as_i64)?,
        })
    }
}

/// Returns how a device is called: whose it is, and the beginning of the digest of its address.
fn place(user: &str, endpoint: &str) -> String {
    format!("{} {}", line(user, 80), Digest::of_text(ROLE, endpoint).prefix(12))
}

fn receiver(p256dh: &str, auth: &str) -> Option<Receiver> {
    // Some browsers pad.
    let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
    let public: [u8; PUBLIC] = decode(p256dh)?.try_into().ok()?;
    let auth: [u8; AUTH] = decode(auth)?.try_into().ok()?;
    public.starts_with(&[4]).then_some(Receiver { public, auth })
}

fn written(all: &[Device], key: &str) -> String {
    let device = |one: &Device| {
        json!({
            "user": one.user, "token": one.token, "endpoint": one.endpoint.as_str(), "since": one.since,
            "p256dh": BASE64_URL_SAFE_NO_PAD.encode(one.receiver.public),
            "auth": BASE64_URL_SAFE_NO_PAD.encode(one.receiver.auth),
        })
    };
    json!({ "key": key, "devices": all.iter().map(device).collect::<Vec<_>>() }).to_string()
}

fn without(all: &mut Vec<Device>, is_gone: impl Fn(&Device) -> bool) -> bool {
    let before = all.len();
    all.retain(|one| !is_gone(one));
    all.len() < before
}

fn put(all: &mut Vec<Device>, device: Device) -> Result<Added, DeviceError> {
    if let Some(known) = all.iter_mut().find(|one| one.endpoint == device.endpoint) {
        // INVARIANT (a device is of one person): an address alone is nobody's proof. Who has its keys, too, sits before the device.
        if known.receiver != device.receiver && known.user != device.user {
            return Err(DeviceError::Taken);
        }
        let is_same =
            known.user == device.user && known.token == device.token && known.receiver == device.receiver;
        if !is_same {
            *known = device;
        }
        return Ok(if is_same { Added::Known } else { Added::New });
    }
    let mut added = Added::New;
    let own = all.iter().enumerate().filter(|(_, one)| one.user == device.user);
    if own.clone().count() >= MOST_OF_USER
        && let Some((oldest, _)) = own.min_by_key(|(_, one)| one.since)
    {
        all.remove(oldest);
        added = Added::InPlaceOfOldest;
    }
    if all.len() >= MOST {
        return Err(DeviceError::Full);
    }
    all.push(device);
    Ok(added)
}
