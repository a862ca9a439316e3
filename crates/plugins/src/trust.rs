//! What is installed, and which content of it is trusted.
//!
//! Everything of it lies in one folder of Backstop's own data, which no agent can write: the code of each plugin in a folder
//! named by its digest, the plugins' own data, and one list, `trust.json`, that says which digest is trusted. The laws: *nothing runs that
//! is not on the list*, *what has changed is off until it is trusted again*, and *a list that can't be read trusts nobody and is an
//! error*, so that no guarding plugin is lost in silence.
//!
//! Changes are whole or not at all: code is staged beside its place and renamed into it, and the list is written anew and
//! renamed last. Whoever is killed on the way leaves the old list, and at most a folder that nothing names; the next change removes it. One
//! installs at a time: a second one is an error, and no queue, since a person may be thinking over the first.

mod rooms;
mod standing;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use backstop_hooks::PointId;
use serde::{Deserialize, Serialize};

pub use self::rooms::Purpose;
pub(crate) use self::rooms::Room;
pub(crate) use self::standing::LoadKey;
use crate::install::{FetchError, Origin, Replaced};
use crate::manifest::{Manifest, ManifestError, PluginId};
use crate::package::{self, Bounds, ContentHash, Finding, Package, PackageError, Seal};

/// Most bytes of the list.
const MOST_LIST_BYTES: u64 = 4 << 20;
/// The version of the list's form.
const FORM: u32 = 1;
/// The name of the list. Whatever is done with plugins writes it anew.
pub const LIST: &str = "trust.json";
const CODE: &str = "code";
/// What looks at plugins saw, for the next ones.
const LOOKS: &str = "looks";

/// One plugin of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// The digest that is trusted, and the name of its folder.
    pub hash: ContentHash,
    /// Where it came from, in words.
    pub source: String,
    /// Its version, as its manifest had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When it was installed or trusted last, in seconds since 1970.
    pub trusted_at: u64,
    /// Whether it is on, unless the configuration says otherwise.
    pub enabled: bool,
    /// The points at which its hooks are, as its manifest had them; `None` where only its code says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<Vec<PointId>>,
    /// The folder with its code, below the code of this plugin. It is the first digest that it had.
    folder: ContentHash,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    form: u32,
    /// How often it was written. Whoever watches the list sees by that what changes nothing else, such as a reload.
    #[serde(default)]
    edition: u64,
    plugins: BTreeMap<PluginId, Record>,
}

/// Why something about installed plugins could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A file or folder of ours.
    #[error("can't use `{}`: {error}{}", .path.display(), way_out(.error))]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The list.
    #[error("the list of trusted plugins `{}` can't be read: {why}\nhint: no plugin is loaded from it; restore the file, or remove it and install the plugins again", .path.display())]
    List {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Somebody else installs.
    #[error(
        "another installation of a plugin is under way\nhint: wait for it, or end it; `backstop plugins list` shows what is installed"
    )]
    Busy,
    /// Where it was to come from.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The plugin's files.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The plugin's manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// No such plugin.
    #[error("there is no plugin `{id}`{}", hint(.near.as_deref()))]
    Unknown {
        /// The name.
        id: String,
        /// What was probably meant.
        near: Option<String>,
    },
    /// On some systems both would have the same folders.
    #[error(
        "there is a plugin `{other}` already, which is the same name as `{id}` for some systems\nhint: remove it first with `backstop plugins remove {other}`"
    )]
    SameName {
        /// The plugin.
        id: PluginId,
        /// The one that is there.
        other: PluginId,
    },
    /// What is there is not what was consented to.
    #[error(
        "plugin `{id}` is now `{now}`, and not `{consented}`\nhint: look at it with `backstop plugins inspect {id}` before you trust it"
    )]
    NotThis {
        /// The plugin.
        id: PluginId,
        /// What it is.
        now: ContentHash,
        /// What was said.
        consented: ContentHash,
    },
}

/// What can be done where the disk is what is wrong.
pub(crate) fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "\nhint: make room on that disk and try again; what was installed is untouched"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "\nhint: Backstop's data must be writable for you; `XDG_DATA_HOME` says where it is"
        }
        _ => "",
    }
}

fn hint(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("\nhint: did you mean `{name}`?"),
        None => "\nhint: `backstop plugins list` shows those that are installed".to_owned(),
    }
}

/// Whether what is on the disk is what is trusted.
#[derive(Debug)]
pub enum State {
    /// It is.
    Trusted,
    /// It has changed; what it is now.
    Changed(ContentHash),
    /// It can't be read.
    Broken(PackageError),
}

/// An installed plugin.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The plugin.
    pub id: PluginId,
    /// What the list says.
    pub record: Record,
    /// Where its code is.
    pub root: PathBuf,
    /// Where it may keep files.
    pub data: PathBuf,
    /// The folder of all plugins, in which both lie.
    pub store: PathBuf,
}

impl Installed {
    /// The plugin in a folder as if it were installed beside those in `home` and trusted as it is, for trying it. It is on no list.
    ///
    /// # Errors
    ///
    /// [`TrustError`], for what is no plugin.
    pub fn of_folder(home: &Home, root: &Path, data: PathBuf) -> Result<Self, TrustError> {
        let failed = io_error(root);
        let root = root.canonicalize().map_err(failed)?;
        let manifest = Manifest::read(&root)?;
        let hash = Package::hash(&root, &Bounds::default())?;
        let record = Record {
            hash,
            source: root.display().to_string(),
            version: manifest.version,
            trusted_at: 0,
            enabled: true,
            points: None,
            folder: hash,
        };
        Ok(Self { id: manifest.id, record, root, data, store: home.0.clone() })
    }

    /// Whether it is one of the list, and not somebody's folder.
    fn is_of_list(&self) -> bool {
        self.root.starts_with(self.store.join(CODE))
    }

    /// Compares its files with what is trusted.
    pub fn state(&self) -> State {
        match self.seal() {
            Ok(_) => State::Trusted,
            Err(state) => state,
        }
    }

    /// Looks at its files, once, for whatever of them is read later.
    ///
    /// # Errors
    ///
    /// How it stands, where that is not as it is trusted.
    pub fn seal(&self) -> Result<Seal, State> {
        // What is no plugin of the list, but somebody's folder, is read whole.
        let looked = match self.is_of_list() {
            true => Seal::of_kept(&self.root, self.record.hash, &looks(&self.store, &self.id)),
            false => Seal::of(&self.root),
        };
        match looked {
            Ok(seal) if seal.hash() == self.record.hash => Ok(seal),
            Ok(seal) => Err(State::Changed(seal.hash())),
            Err(error) => Err(State::Broken(error)),
        }
    }
}

/// A plugin that was copied into our folder and is not on the list.
#[derive(Debug)]
pub struct Staged {
    /// Its manifest.
    pub manifest: Manifest,
    /// What is in it, with findings.
    pub package: Package,
    /// Where it came from.
    pub origin: Origin,
    /// What is installed under its id.
    pub replaces: Option<Replaced>,
    room: Room,
}

impl Staged {
    /// Where its files are until it is installed.
    pub fn folder(&self) -> &Path {
        self.room.plugin()
    }
}

/// The folder with all plugins.
#[derive(Clone, Debug)]
pub struct Home(PathBuf);

/// Holds off other processes that change the same plugins.
#[derive(Debug)]
struct Lock(#[expect(dead_code, reason = "the lock is held as long as the file is open")] File);

impl Home {
    /// The plugins in `folder`. Nothing is made before something is installed.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// What is installed, by id.
    ///
    /// # Errors
    ///
    /// [`TrustError::List`], where the list is there and can't be read.
    pub fn installed(&self) -> Result<Vec<Installed>, TrustError> {
        let list = self.list()?;
        Ok(list.plugins.into_iter().map(|(id, record)| self.place(id, record)).collect())
    }

    /// The plugin of this id.
    ///
    /// # Errors
    ///
    /// [`TrustError::Unknown`], with the nearest name.
    pub fn find(&self, id: &str) -> Result<Installed, TrustError> {
        let list = self.list()?;
        match list.plugins.into_iter().partition::<Vec<_>, _>(|(known, _)| known.as_str() == id) {
            (mut found, _) if !found.is_empty() => {
                let (id, record) = found.swap_remove(0);
                Ok(self.place(id, record))
            }
            (_, others) => Err(unknown(id, others.iter().map(|(id, _)| id.as_str()))),
        }
    }

    fn place(&self, id: PluginId, record: Record) -> Installed {
        let root = self.code(&id, record.folder);
        let data = self.0.join("data").join(id.as_str());
        Installed { id, record, root, data, store: self.0.clone() }
    }

    fn code(&self, id: &PluginId, hash: ContentHash) -> PathBuf {
        let name: String = hash.to_string().chars().skip("sha256:".len()).take(32).collect();
        self.0.join(CODE).join(id.as_str()).join(name)
    }

    fn list(&self) -> Result<List, TrustError> {
        let path = self.0.join(LIST);
        let wrong = |why: String| TrustError::List { path: path.clone(), why };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(List::default()),
            Err(error) => return Err(wrong(error.to_string())),
        };
        let mut text = String::new();
        let read = file.take(MOST_LIST_BYTES + 1).read_to_string(&mut text);
        let length = read.map_err(|error| wrong(error.to_string()))?;
        if u64::try_from(length).is_ok_and(|length| length > MOST_LIST_BYTES) {
            return Err(wrong(format!("it has more than {MOST_LIST_BYTES} bytes")));
        }
        let list: List = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if let Err((one, other)) = apart(list.plugins.keys()) {
            return Err(wrong(format!("`{one}` and `{other}` are one name for some systems")));
        }
        match list.form {
            FORM => Ok(list),
            other => Err(wrong(format!("it has form {other}, and this version reads {FORM}"))),
        }
    }

    /// Copies the plugin in the folder `source` beside those that are installed, and looks at the copy.
    ///
    /// # Errors
    ///
    /// [`TrustError`]; nothing of it is left then.
    pub fn stage(&self, source: &Path) -> Result<Staged, TrustError> {
        let room = self.staging()?;
        package::copy(&really(source)?, room.plugin(), &Bounds::default())?;
        self.staged(room, Origin::default())
    }

    /// Looks at what was put into its place.
    pub(crate) fn staged(&self, room: Room, origin: Origin) -> Result<Staged, TrustError> {
        let mut package = Package::read(room.plugin(), &Bounds::default())?;
        let mut manifest = Manifest::read_from(room.plugin(), Path::new(&origin.words))?;
        manifest.notes.extend(origin.notes.iter().cloned());
        let others = self.list()?;
        for other in others.plugins.keys().filter(|other| manifest.id.looks_like(other.as_str())) {
            package.findings.push(Finding::look_alike(other.as_str()));
        }
        let replaces = others.plugins.get(&manifest.id);
        let replaces =
            replaces.map(|before| Replaced::new(before.version.clone(), before.source.clone(), &origin));
        Ok(Staged { manifest, package, origin, replaces, room })
    }

    /// Installs what was staged, in place of what has its id, and trusts it. `consented` is the digest that a person was shown.
    ///
    /// # Errors
    ///
    /// [`TrustError`]; what was installed before is untouched then.
    pub fn install(
        &self,
        staged: Staged,
        consented: ContentHash,
        source: &str,
        now: u64,
    ) -> Result<Installed, TrustError> {
        let lock = self.lock()?;
        let id = staged.manifest.id.clone();
        // It lies where no agent writes; and yet what is trusted is what is there now.
        let hash = Package::hash(staged.folder(), &Bounds::default())?;
        if hash != consented {
            return Err(TrustError::NotThis { id, now: hash, consented });
        }
        let mut list = self.list()?;
        if let Err((other, _)) = apart(list.plugins.keys().chain([&id])) {
            return Err(TrustError::SameName { other: other.clone(), id });
        }
        let root = self.code(&id, hash);
        let failed = io_error(&root);
        if let Some(above) = root.parent() {
            fs::create_dir_all(above).map_err(&failed)?;
        }
        // What is there under the same digest and is not that any more is replaced.
        if Package::hash(&root, &Bounds::default()).ok() != Some(hash) {
            match fs::remove_dir_all(&root) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => fs::rename(staged.folder(), &root).map_err(&failed)?,
            }
        }
        let enabled = list.plugins.get(&id).is_none_or(|before| before.enabled);
        let version = staged.manifest.version.clone();
        let points = points(&staged.manifest);
        let source = source.to_owned();
        let record = Record { hash, source, version, trusted_at: now, enabled, points, folder: hash };
        list.plugins.insert(id.clone(), record.clone());
        self.write(list)?;
        self.sweep();
        drop(lock);
        Ok(self.place(id, record))
    }

    /// Trusts what an installed plugin is now.
    ///
    /// # Errors
    ///
    /// [`TrustError::NotThis`], where that is not what was consented to.
    pub fn trust(&self, id: &PluginId, consented: ContentHash, now: u64) -> Result<(), TrustError> {
        let _lock = self.lock()?;
        let installed = self.find(id.as_str())?;
        let hash = Package::hash(&installed.root, &Bounds::default())?;
        if hash != consented {
            return Err(TrustError::NotThis { id: id.clone(), now: hash, consented });
        }
        let manifest = Manifest::read(&installed.root)?;
        if manifest.id != *id {
            let place = installed.root.display().to_string();
            return Err(TrustError::List {
                path: self.0.join(LIST),
                why: format!("`{place}` is `{}` now", manifest.id),
            });
        }
        let _ = fs::remove_file(standing::path(&self.0, id));
        self.change(id, |record| {
            (record.hash, record.trusted_at) = (hash, now);
            record.points = points(&manifest);
            record.version = manifest.version;
        })
    }

    /// Switches a plugin on or off.
    ///
    /// # Errors
    ///
    /// [`TrustError`].
    pub fn enable(&self, id: &PluginId, enabled: bool) -> Result<(), TrustError> {
        let _lock = self.lock()?;
        self.change(id, |record| record.enabled = enabled)
    }

    /// Writes the list as it is, so that whatever watches it loads the plugins anew.
    ///
    /// # Errors
    ///
    /// [`TrustError`].
    pub fn touch(&self) -> Result<(), TrustError> {
        let _lock = self.lock()?;
        let list = self.list()?;
        self.write(list)
    }

    fn change(&self, id: &PluginId, change: impl FnOnce(&mut Record)) -> Result<(), TrustError> {
        let mut list = self.list()?;
        match list.plugins.get_mut(id) {
            Some(record) => change(record),
            None => return Err(unknown(id.as_str(), list.plugins.keys().map(PluginId::as_str))),
        }
        self.write(list)
    }

    /// Takes a plugin off the list, and then its code and its data away.
    ///
    /// # Errors
    ///
    /// [`TrustError`].
    pub fn remove(&self, id: &PluginId) -> Result<(), TrustError> {
        let _lock = self.lock()?;
        let installed = self.find(id.as_str())?;
        let mut list = self.list()?;
        list.plugins.remove(id);
        self.write(list)?;
        let _ = fs::remove_dir_all(&installed.data);
        let _ = fs::remove_file(looks(&self.0, &installed.id));
        let _ = fs::remove_file(standing::path(&self.0, &installed.id));
        self.sweep();
        Ok(())
    }

    /// Writes the list whole, or leaves the old one.
    fn write(&self, mut list: List) -> Result<(), TrustError> {
        (list.form, list.edition) = (FORM, list.edition.wrapping_add(1));
        let path = self.0.join(LIST);
        let next = self.0.join("trust.json.next");
        let failed = io_error(&path);
        let text = serde_json::to_vec_pretty(&list).map_err(|error| failed(error.into()))?;
        let mut file = File::create(&next).map_err(&failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(&failed)?;
        fs::rename(&next, &path).map_err(&failed)?;
        // The rename itself is on the disk when the folder is.
        File::open(&self.0).and_then(|folder| folder.sync_all()).map_err(&failed)
    }

    /// Removes code that the list does not name. Failing is harmless: what is not named is not run.
    fn sweep(&self) {
        let Ok(installed) = self.installed() else { return };
        let named: Vec<PathBuf> = installed.into_iter().map(|plugin| plugin.root).collect();
        for plugin in folders(&self.0.join(CODE)) {
            for code in folders(&plugin).filter(|code| !named.contains(code)) {
                let _ = fs::remove_dir_all(code);
            }
            // Only an empty one goes.
            let _ = fs::remove_dir(plugin);
        }
    }

    fn lock(&self) -> Result<Lock, TrustError> {
        let path = self.0.join("lock");
        let failed = io_error(&path);
        make_private(&self.0).map_err(&failed)?;
        let file = File::options().create(true).append(true).open(&path).map_err(&failed)?;
        file.lock().map_err(&failed)?;
        Ok(Lock(file))
    }
}

/// Whether no two of these ids can be the same name for a system.
fn apart<'a>(ids: impl Iterator<Item = &'a PluginId>) -> Result<(), (&'a PluginId, &'a PluginId)> {
    let mut folded = BTreeMap::new();
    for id in ids {
        if let Some(other) = folded.insert(id.folded(), id).filter(|other| *other != id) {
            return Err((other, id));
        }
    }
    Ok(())
}

/// Where a plugin says that its hooks are. Nothing else of it stands: that is checked when it is loaded.
fn points(manifest: &Manifest) -> Option<Vec<PointId>> {
    let mut points: Vec<PointId> = manifest.points.as_ref()?.iter().map(|spec| spec.point).collect();
    points.sort_unstable();
    points.dedup();
    Some(points)
}

/// Where it is kept what was seen of a plugin's files.
fn looks(store: &Path, id: &PluginId) -> PathBuf {
    store.join(LOOKS).join(format!("{id}.json"))
}

fn unknown<'a>(id: &str, others: impl Iterator<Item = &'a str>) -> TrustError {
    let near = backstop_yaml::nearest(id, others).map(str::to_owned);
    TrustError::Unknown { id: backstop_yaml::quote(id), near }
}

pub(crate) fn io_error(path: &Path) -> impl Fn(io::Error) -> TrustError {
    let path = path.to_owned();
    move |error| TrustError::Io { path: path.clone(), error }
}

/// The folder that somebody named, also where they named a link to it.
pub(crate) fn really(folder: &Path) -> Result<PathBuf, PackageError> {
    folder.canonicalize().map_err(|error| PackageError::Unreadable { path: folder.to_owned(), error })
}

fn folders(path: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Makes a folder that nobody else can look into.
fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}

#[cfg(test)]
mod tests;
