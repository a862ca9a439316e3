//! Where state is kept, as the configuration says it: in a file, or on a PostgreSQL server that several machines share.
//!
//! The law: *whoever chooses the database says what was answered*. So the operator alone names it, no variable is part of its address, of the file
//! with the authorities or of that with the password, and a server that is reached by an address proves its name, unless the operator wrote that it need not. The
//! system's authorities are where the environment says (`SSL_CERT_FILE`), so a hook that judges alone, whose environment an agent may have set, believes none but those of
//! the operator's file. The audit trail stays in files of this machine, beside where the database file would be.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_config::{ConfigError, Loaded, Place, Problem, ProblemKind, Spanned, StorePostgres, Text};
use backstop_hooks::Digest;
use backstop_store::{DigestKey, PolicyVersion, SqliteStore, Store};

use crate::configured::policy_of;
use crate::error::NoDataFolder;
use crate::locations::{digest_key, from_operator, kept_key_file, store_path};

/// The largest file with a password, in bytes.
#[cfg(feature = "postgres")]
const LARGEST_PASSWORD: u64 = 4096;

/// Where state is kept. Two that are equal are the same database, reached in the same way, and the same audit trail.
#[derive(Clone, PartialEq, Eq)]
pub struct StorePlace {
    path: PathBuf,
    /// The file with the key that signs the trail, if it is not beside it.
    kept_key: Option<PathBuf>,
    server: Option<ServerPlace>,
}

/// A database on a server, and all else on which it depends whether it can be used.
#[derive(Clone, PartialEq, Eq)]
struct ServerPlace {
    address: String,
    schema: Option<String>,
    connections: u64,
    /// The digests of the password and of the authorities; none where there are none, and where they can't be read.
    password: Option<Digest>,
    authorities: Option<Digest>,
}

/// Nothing is shown by which a password could be guessed.
impl fmt::Debug for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.server.as_ref();
        f.debug_struct("StorePlace")
            .field("path", &self.path)
            .field("address", &server.map(|server| &server.address))
            .field("schema", &server.map(|server| &server.schema))
            .finish_non_exhaustive()
    }
}

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    /// There is no place for it.
    #[error(transparent)]
    Place(#[from] NoDataFolder),
    /// What the configuration says of the server can't be.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl StorePlace {
    /// Returns the database file; `None` where state is on a server.
    pub fn file(&self) -> Option<&Path> {
        self.server.is_none().then_some(self.path.as_path())
    }
}

/// The state as one look found it: where it is kept, and what it is opened with. The files that the configuration names were read in that look and are not
/// read again, so that what is opened is what the [`place`](Self::place) says, whatever became of the files since.
pub struct FoundStore {
    place: StorePlace,
    /// How the server is reached, or why it can't be; nothing where state is in a file.
    server: Option<Result<Way, ConfigError>>,
    key: Result<Option<Arc<DigestKey>>, ConfigError>,
    /// What entries name that are written before hooks are built: whoever opens it judges by this configuration, and by more where they are.
    policy: PolicyVersion,
}

/// How a server is reached.
#[cfg(feature = "postgres")]
type Way = backstop_store::PostgresOptions;
/// No server is reached by this build.
#[cfg(not(feature = "postgres"))]
type Way = std::convert::Infallible;

/// A store that was opened.
#[derive(Clone, Debug)]
pub enum OpenedStore {
    /// In a file.
    InFile(Arc<SqliteStore>),
    /// On a server.
    OnServer(Arc<dyn Store>),
}

impl OpenedStore {
    /// Returns the store, wherever it is.
    pub fn shared(self) -> Arc<dyn Store> {
        match self {
            Self::InFile(store) => store,
            Self::OnServer(store) => store,
        }
    }
}

/// As much as the place shows.
impl fmt::Debug for FoundStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoundStore").field("place", &self.place).finish_non_exhaustive()
    }
}

impl FoundStore {
    /// Looks where the configuration keeps state, and reads what it is opened with: the key of the digests, and the password and the authorities of a
    /// server. What can't be read is said by whoever opens the store.
    ///
    /// # Errors
    ///
    /// [`NoDataFolder`] when the configuration names no place on this machine and the user has none.
    pub fn of(loaded: &Loaded, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, NoDataFolder> {
        let path = store_path(loaded, environment)?;
        let named = &loaded.config.store.postgres;
        let (server, way) = match &named.url {
            Some(url) => {
                let (server, way) = server(loaded, named, url);
                (Some(server), Some(way))
            }
            None => (None, None),
        };
        let place = StorePlace { path, kept_key: kept_key_file(loaded), server };
        let key = digest_key(loaded);
        let policy = policy_of(loaded, key.as_ref().ok().and_then(Option::as_ref));
        Ok(Self { place, server: way, key, policy })
    }

    /// Returns where state is kept.
    pub fn place(&self) -> &StorePlace {
        &self.place
    }

    /// Returns the store, and the place that it is. Nothing is opened, connected or created before the first operation.
    ///
    /// # Errors
    ///
    /// [`OpenStoreError`], which shows no password; also where the digests in the audit trail are to be keyed and there is no key.
    pub fn open(self) -> Result<(StorePlace, OpenedStore), OpenStoreError> {
        let key = self.key?;
        opened(self.place, self.server, Ok(key), self.policy)
    }

    /// As [`open`](Self::open), for whoever reads, or writes what people say: where there is no key for the digests in the audit trail, what is there
    /// can be read, and whatever would leave an entry in the trail fails, and says why. Nothing is judged over it.
    ///
    /// # Errors
    ///
    /// [`OpenStoreError`], which shows no password.
    pub fn open_to_read(self) -> Result<(StorePlace, OpenedStore), OpenStoreError> {
        let key = self.key.map_err(|error| error.to_string());
        opened(self.place, self.server, key, self.policy)
    }
}

/// The key of digests in the trail, or why there is none.
type Keyed = Result<Option<Arc<DigestKey>>, String>;

fn opened(
    place: StorePlace,
    server: Option<Result<Way, ConfigError>>,
    key: Keyed,
    policy: PolicyVersion,
) -> Result<(StorePlace, OpenedStore), OpenStoreError> {
    // INVARIANT (named): whatever is written names a version of the policy.
    let store = match server {
        Some(way) => on_server(way?, &place.path, place.kept_key.clone(), key, policy),
        None => {
            let store = in_file(place.path.clone(), place.kept_key.clone(), key);
            OpenedStore::InFile(Arc::new(store.bound(policy.into())))
        }
    };
    Ok((place, store))
}

/// Returns the store that the configuration names; see [`FoundStore::open`].
///
/// # Errors
///
/// [`OpenStoreError`], which shows no password; also where the digests in the audit trail are to be keyed and there is no key.
pub fn open_store(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Store>, OpenStoreError> {
    FoundStore::of(loaded, environment)?.open().map(|(_, store)| store.shared())
}

/// Checks, for a process whose environment others may have set, that no variable has a say in which server is believed: one that proves its name has to prove
/// it to authorities that the operator names.
///
/// # Errors
///
/// [`ConfigError`], if it would prove it to those of the system, which variables choose.
pub fn check_store_authorities(loaded: &Loaded) -> Result<(), ConfigError> {
    let named = &loaded.config.store.postgres;
    match &named.url {
        Some(url) if named.ca_file.is_none() && proves_its_name(url.value.expose()) => {
            let message = "a hook that judges alone needs `store.postgres.ca_file`: the system's authorities are chosen by variables that an agent can set";
            let hint = "name a file with the server's authorities, or have hooks answered by a daemon (`daemon.enabled`)";
            Err(Problem::new(ProblemKind::BadValue, url.at.clone(), message).with_hint(hint).into())
        }
        _ => Ok(()),
    }
}

/// Whether a server at this address would have to. What is wrong with the address, whoever opens the store says.
#[cfg(feature = "postgres")]
fn proves_its_name(address: &str) -> bool {
    use backstop_store::{PostgresOptions, PostgresOptionsError};

    match PostgresOptions::from_url(address) {
        Ok(options) => options.is_encrypted(),
        Err(error) => matches!(error, PostgresOptionsError::Authorities(_)),
    }
}

/// No address is used in this build.
#[cfg(not(feature = "postgres"))]
fn proves_its_name(_address: &str) -> bool {
    false
}

fn in_file(path: PathBuf, kept_key: Option<PathBuf>, key: Keyed) -> SqliteStore {
    match (kept_key, key) {
        (Some(kept), key) => SqliteStore::with_kept_key(path, kept, key),
        (None, Ok(key)) => SqliteStore::with_digest_key(path, key),
        (None, Err(why)) => SqliteStore::without_its_digest_key(path, &why),
    }
}

fn problem(at: &Place, why: &str) -> Problem {
    let of = |message: &str| Problem::new(ProblemKind::BadValue, at.clone(), message.to_owned());
    match why.split_once("\nhint: ") {
        Some((message, hint)) => of(message).with_hint(hint),
        None => of(why),
    }
}

/// What is wrong, and where.
#[cfg(feature = "postgres")]
type Wrong<'c> = (&'c Place, String);

/// A server, and how it is reached. Each file is read once, for both.
#[cfg(feature = "postgres")]
fn server(
    loaded: &Loaded,
    named: &StorePostgres,
    url: &Spanned<Text>,
) -> (ServerPlace, Result<Way, ConfigError>) {
    let (password, authorities) = (password(loaded, named), authorities(loaded, named));
    let read = password.as_ref().ok().and_then(Option::as_ref);
    let of_password = read.map(|password| Digest::of_text("password", password));
    let read = authorities.as_ref().ok().and_then(Option::as_ref);
    let of_authorities = read.map(|pem| Digest::of_text("authorities", &String::from_utf8_lossy(pem)));
    let way = way(named, url, authorities, password);
    let way = way.map_err(|(at, why)| ConfigError::from(problem(at, &why)));
    (ServerPlace::of(named, url, of_password, of_authorities), way)
}

#[cfg(not(feature = "postgres"))]
fn server(
    _loaded: &Loaded,
    named: &StorePostgres,
    url: &Spanned<Text>,
) -> (ServerPlace, Result<Way, ConfigError>) {
    let why = problem(&url.at, "this build has no store on a PostgreSQL server");
    (ServerPlace::of(named, url, None, None), Err(why.into()))
}

impl ServerPlace {
    fn of(
        named: &StorePostgres,
        url: &Spanned<Text>,
        password: Option<Digest>,
        authorities: Option<Digest>,
    ) -> Self {
        Self {
            address: url.value.expose().to_owned(),
            schema: named.schema.as_ref().map(|schema| schema.value.as_str().to_owned()),
            connections: named.connections.value.get(),
            password,
            authorities,
        }
    }
}

#[cfg(feature = "postgres")]
fn way<'c>(
    named: &'c StorePostgres,
    url: &'c Spanned<Text>,
    authorities: Result<Option<Vec<u8>>, Wrong<'c>>,
    password: Result<Option<String>, Wrong<'c>>,
) -> Result<Way, Wrong<'c>> {
    let address = url.value.expose();
    let options = match &authorities? {
        Some(pem) => Way::from_url_trusting(address, pem),
        None => Way::from_url(address),
    };
    let mut options = options.map_err(|error| (&url.at, error.to_string()))?;
    if let Some(schema) = &named.schema {
        options = options.schema(schema.value.as_str()).map_err(|error| (&schema.at, error.to_string()))?;
    }
    if let Some(password) = password? {
        options = options.password(&password);
    }
    Ok(options.connections(usize::try_from(named.connections.value.get()).unwrap_or(1)))
}

#[cfg(feature = "postgres")]
fn on_server(
    way: Way,
    path: &Path,
    kept_key: Option<PathBuf>,
    key: Keyed,
    policy: PolicyVersion,
) -> OpenedStore {
    use backstop_store::PostgresStore;

    let (trail, signing) = (SqliteStore::trail_of(path), path.with_file_name("audit.key"));
    let store = match (kept_key, key) {
        (Some(kept), key) => PostgresStore::with_kept_key(way, trail, kept, key),
        (None, Ok(key)) => PostgresStore::with_digest_key(way, trail, signing, key),
        (None, Err(why)) => PostgresStore::without_its_digest_key(way, trail, signing, &why),
    };
    OpenedStore::OnServer(Arc::new(store.bound(policy.into())))
}

#[cfg(not(feature = "postgres"))]
fn on_server(
    way: Way,
    _path: &Path,
    _kept_key: Option<PathBuf>,
    _key: Keyed,
    _policy: PolicyVersion,
) -> OpenedStore {
    match way {}
}

#[cfg(feature = "postgres")]
fn authorities<'c>(loaded: &Loaded, named: &'c StorePostgres) -> Result<Option<Vec<u8>>, Wrong<'c>> {
    use crate::lower::small_file::{self, LARGEST_PEM};

    let Some(file) = &named.ca_file else { return Ok(None) };
    let path = from_operator(loaded, file.value.expose());
    let pem = small_file::read(&path, LARGEST_PEM).map_err(|error| unreadable(file, &path, &error))?;
    // What is no text has no digest: `None` stands for it in a policy.
    if let Ok(text) = str::from_utf8(&pem) {
        loaded.readings.note_file(&path, text);
    }
    Ok(Some(pem))
}

#[cfg(feature = "postgres")]
fn password<'c>(loaded: &Loaded, named: &'c StorePostgres) -> Result<Option<String>, Wrong<'c>> {
    let (at, text) = match (&named.password, &named.password_file) {
        (Some(password), _) => (&password.at, password.value.expose().to_owned()),
        (None, Some(file)) => {
            let path = from_operator(loaded, file.value.expose());
            let bytes = crate::lower::small_file::read_private(&path, LARGEST_PASSWORD)
                .map_err(|error| unreadable(file, &path, &error))?;
            let no_text = |_| (&file.at, "what is in the file is no text".to_owned());
            (&file.at, String::from_utf8(bytes).map_err(no_text)?)
        }
        (None, None) => return Ok(None),
    };
    match text.trim() {
        "" => Err((at, "the password is empty".to_owned())),
        text => Ok(Some(text.to_owned())),
    }
}

#[cfg(feature = "postgres")]
fn unreadable<'c, T>(file: &'c Spanned<T>, path: &Path, error: &std::io::Error) -> Wrong<'c> {
    (&file.at, format!("`{}` can't be read: {error}", path.display()))
}

/// Returns the files on which it depends who the server is and who may be asked there: the password, which whoever reads it can answer with, and the
/// authorities, which whoever writes them can be the server with.
pub fn store_files(loaded: &Loaded) -> StoreFiles {
    let named = &loaded.config.store.postgres;
    let path = |file: &Spanned<Text>| from_operator(loaded, file.value.expose());
    StoreFiles {
        password: named.password_file.as_ref().map(|file| from_operator(loaded, file.value.expose())),
        authorities: named.ca_file.as_ref().map(path),
        socket: named.url.as_ref().and_then(|url| socket_folder(url.value.expose())),
    }
}

/// See [`store_files`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFiles {
    /// The file with the password.
    pub password: Option<PathBuf>,
    /// The file with the authorities that are trusted.
    pub authorities: Option<PathBuf>,
    /// The folder of the server's socket, at which it may know accounts without a password.
    pub socket: Option<PathBuf>,
}

/// The folder of a socket that an address names.
#[cfg(feature = "postgres")]
fn socket_folder(address: &str) -> Option<PathBuf> {
    let options = backstop_store::PostgresOptions::from_url(address).ok()?;
    options.socket().map(Path::to_path_buf)
}

/// No address is used in this build.
#[cfg(not(feature = "postgres"))]
fn socket_folder(_address: &str) -> Option<PathBuf> {
    None
}

#[cfg(feature = "postgres")]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use backstop_config::{LayerKind, Source};

    use super::*;
    use crate::hook_types::HookTypes;
    use crate::locations::load_sources;

    fn loaded(postgres: &str) -> Loaded {
        let text = format!("store: {{path: /srv/state.db, postgres: {postgres}}}");
        let sources = [Source::new(LayerKind::Operator, "/o.yaml", text.as_str())];
        load_sources(&sources, &HookTypes::built_in(&[]), &|_| None).unwrap()
    }

    #[test]
    fn another_password_or_authority_is_another_place_and_neither_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (password, authorities) = (folder.path().join("password"), folder.path().join("ca.pem"));
        let write = |path: &Path, text: &str| {
            std::fs::write(path, text).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        let place = |more: &str| {
            let (password, authorities) = (password.display(), authorities.display());
            let loaded = loaded(&format!(
                "{{url: 'postgres://ann@db.example/db', password_file: '{password}', ca_file: '{authorities}'{more}}}"
            ));
            FoundStore::of(&loaded, &|_| None).unwrap().place().clone()
        };
        write(&password, "one");
        write(&authorities, "one");
        let before = place("");
        assert_eq!(place(""), before);
        for path in [&password, &authorities] {
            write(path, "two");
            assert_ne!(place(""), before);
            write(path, "one");
            assert_eq!(place(""), before);
        }
        assert_ne!(place(", connections: 9"), before);
        assert_ne!(place(", schema: other"), before);
        let shown = format!("{before:?}");
        assert!(shown.contains("db.example") && !shown.contains("Digest"), "{shown}");
    }

    #[test]
    fn authorities_count_in_the_policy_as_they_were_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "one").unwrap();
        let loaded =
            loaded(&format!("{{url: 'postgres://ann@db.example/db', ca_file: '{}'}}", file.display()));
        let _found = FoundStore::of(&loaded, &|_| None).unwrap();
        std::fs::write(&file, "two").unwrap();
        let named: Vec<_> = crate::configured::named_files(&loaded).into_values().collect();
        assert_eq!(named, [Some(Digest::of_text("file", "one"))]);
    }

    #[test]
    fn no_file_of_a_secret_counts_in_the_policy() {
        let folder = tempfile::tempdir().unwrap();
        let password = folder.path().join("password");
        std::fs::write(&password, "short").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&password, &link).unwrap();
        let around = folder.path().join("../").join(folder.path().file_name().unwrap()).join("password");
        for script in [&password, &link, &around] {
            let text = format!(
                "store: {{postgres: {{url: 'postgres://ann@db.example/db', password_file: '{}'}}}}\n\
                 hooks: {{at: {{before_tool_call: [{{type: command, command: [python3, '{}']}}]}}}}",
                password.display(),
                script.display()
            );
            let sources = [Source::new(LayerKind::Operator, "/o.yaml", text.as_str())];
            let loaded = load_sources(&sources, &HookTypes::built_in(&[]), &|_| None).unwrap();
            assert_eq!(crate::locations::policy_files(&loaded).len(), 1);
            assert!(crate::configured::named_files(&loaded).is_empty(), "{}", script.display());
        }
    }

    #[test]
    fn another_key_of_the_trail_is_another_place() {
        let place = |audit: &str| {
            let text = format!("store: {{path: /srv/state.db}}\naudit: {audit}");
            let sources = [Source::new(LayerKind::Operator, "/o.yaml", text.as_str())];
            let loaded = load_sources(&sources, &HookTypes::built_in(&[]), &|_| None).unwrap();
            FoundStore::of(&loaded, &|_| None).unwrap().place().clone()
        };
        assert_eq!(place("{}"), place("{}"));
        assert_ne!(place("{}"), place("{key_file: /srv/kept.key}"));
        assert_ne!(place("{key_file: /srv/other.key}"), place("{key_file: /srv/kept.key}"));
    }

    #[test]
    fn what_was_read_is_what_is_opened_whatever_becomes_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let password = folder.path().join("password");
        let address = "postgres://ann@db.example/db?sslmode=disable";
        let loaded = loaded(&format!("{{url: '{address}', password_file: '{}'}}", password.display()));
        let found = || FoundStore::of(&loaded, &|_| None).unwrap();
        let without = found();
        std::fs::write(&password, "one").unwrap();
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
        let with = found();
        assert_ne!(with.place(), without.place());
        // Without a password when it was looked, it stays without one; with one, it needs the file no more.
        let error = without.open().unwrap_err().to_string();
        assert!(error.contains("can't be read"), "{error}");
        std::fs::remove_file(&password).unwrap();
        let before = with.place().clone();
        let (place, opened) = with.open().unwrap();
        assert!(place == before && matches!(opened, OpenedStore::OnServer(_)));
    }

    #[test]
    fn where_others_set_the_environment_the_operator_names_the_authorities() {
        for address in [
            "postgres://ann@db.example/db",
            "postgres://ann@127.0.0.1/db",
            "postgres://ann@db.example/db?sslmode=verify-full",
        ] {
            let error = check_store_authorities(&loaded(&format!("{{url: '{address}'}}"))).unwrap_err();
            assert!(error.to_string().contains("`store.postgres.ca_file`"), "{error}");
            let named = loaded(&format!("{{url: '{address}', ca_file: /etc/backstop/ca.pem}}"));
            assert!(check_store_authorities(&named).is_ok(), "{address}");
        }
        for address in
            ["postgres://ann@127.0.0.1/db?sslmode=disable", "postgres:///db?host=/run/postgresql&user=ann"]
        {
            assert!(check_store_authorities(&loaded(&format!("{{url: '{address}'}}"))).is_ok(), "{address}");
        }
    }
}
