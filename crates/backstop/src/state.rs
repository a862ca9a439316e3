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
use backstop_store::{DigestKey, SqliteStore, Store};

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
    /// Returns where the configuration keeps state. The files with a server's password and authorities are read, since another content of them is another place.
    ///
    /// # Errors
    ///
    /// [`NoDataFolder`] when the configuration names no place on this machine and the user has none.
    pub fn of(loaded: &Loaded, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, NoDataFolder> {
        let named = &loaded.config.store.postgres;
        let server = named.url.as_ref().map(|url| {
            let (password, authorities) = proofs(loaded, named);
            ServerPlace {
                address: url.value.expose().to_owned(),
                schema: named.schema.as_ref().map(|schema| schema.value.as_str().to_owned()),
                connections: named.connections.value.get(),
                password,
                authorities,
            }
        });
        let kept_key = kept_key_file(loaded);
        Ok(Self { path: store_path(loaded, environment)?, kept_key, server })
    }

    /// Returns the database file; `None` where state is on a server.
    pub fn file(&self) -> Option<&Path> {
        self.server.is_none().then_some(self.path.as_path())
    }
}

/// The digests of what proves who asks a server, and of what proves who the server is.
#[cfg(feature = "postgres")]
fn proofs(loaded: &Loaded, named: &StorePostgres) -> (Option<Digest>, Option<Digest>) {
    let password = password(loaded, named).ok().flatten();
    let authorities = authorities(loaded, named).ok().flatten();
    (
        password.map(|password| Digest::of_text("password", &password)),
        authorities.map(|pem| Digest::of_text("authorities", &String::from_utf8_lossy(&pem))),
    )
}

/// No server is used in this build.
#[cfg(not(feature = "postgres"))]
fn proofs(_loaded: &Loaded, _named: &StorePostgres) -> (Option<Digest>, Option<Digest>) {
    (None, None)
}

/// The key of digests in the trail, or why there is none.
type Keyed = Result<Option<Arc<DigestKey>>, String>;

/// Returns the store that the configuration names. Nothing is opened, connected or created before the first operation.
///
/// # Errors
///
/// [`OpenStoreError`], which shows no password; also where the digests in the audit trail are to be keyed and there is no key.
pub fn open_store(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Store>, OpenStoreError> {
    open(loaded, environment, Ok(digest_key(loaded)?))
}

/// As [`open_store`], for whoever reads, or writes what people say: where there is no key for the digests in the audit trail, what is there can be read,
/// and whatever would leave an entry in the trail fails, and says why. Nothing is judged over it.
///
/// # Errors
///
/// [`OpenStoreError`], which shows no password.
pub fn open_store_to_read(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Store>, OpenStoreError> {
    open(loaded, environment, digest_key(loaded).map_err(|error| error.to_string()))
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

fn open(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
    key: Keyed,
) -> Result<Arc<dyn Store>, OpenStoreError> {
    let path = store_path(loaded, environment)?;
    let named = &loaded.config.store.postgres;
    let Some(url) = &named.url else { return Ok(Arc::new(in_file(path, kept_key_file(loaded), key))) };
    on_server(loaded, named, url, &path, key).map_err(|(at, why)| ConfigError::from(problem(at, &why)).into())
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
type Wrong<'c> = (&'c Place, String);

#[cfg(not(feature = "postgres"))]
fn on_server<'c>(
    _loaded: &Loaded,
    _named: &'c StorePostgres,
    url: &'c Spanned<Text>,
    _path: &Path,
    _key: Keyed,
) -> Result<Arc<dyn Store>, Wrong<'c>> {
    Err((&url.at, "this build has no store on a PostgreSQL server".to_owned()))
}

#[cfg(feature = "postgres")]
fn on_server<'c>(
    loaded: &Loaded,
    named: &'c StorePostgres,
    url: &'c Spanned<Text>,
    path: &Path,
    digest_key: Keyed,
) -> Result<Arc<dyn Store>, Wrong<'c>> {
    use backstop_store::{PostgresOptions, PostgresStore};

    let address = url.value.expose();
    let options = match &authorities(loaded, named)? {
        Some(pem) => PostgresOptions::from_url_trusting(address, pem),
        None => PostgresOptions::from_url(address),
    };
    let mut options = options.map_err(|error| (&url.at, error.to_string()))?;
    if let Some(schema) = &named.schema {
        options = options.schema(schema.value.as_str()).map_err(|error| (&schema.at, error.to_string()))?;
    }
    if let Some(password) = password(loaded, named)? {
        options = options.password(&password);
    }
    let connections = usize::try_from(named.connections.value.get()).unwrap_or(1);
    let options = options.connections(connections);
    let (trail, key) = (SqliteStore::trail_of(path), path.with_file_name("audit.key"));
    Ok(Arc::new(match (kept_key_file(loaded), digest_key) {
        (Some(kept), digest_key) => PostgresStore::with_kept_key(options, trail, kept, digest_key),
        (None, Ok(digest_key)) => PostgresStore::with_digest_key(options, trail, key, digest_key),
        (None, Err(why)) => PostgresStore::without_its_digest_key(options, trail, key, &why),
    }))
}

#[cfg(feature = "postgres")]
fn authorities<'c>(loaded: &Loaded, named: &'c StorePostgres) -> Result<Option<Vec<u8>>, Wrong<'c>> {
    use crate::lower::small_file::{self, LARGEST_PEM};

    let Some(file) = &named.ca_file else { return Ok(None) };
    let path = from_operator(loaded, file.value.expose());
    small_file::read(&path, LARGEST_PEM).map(Some).map_err(|error| unreadable(file, &path, &error))
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
            StorePlace::of(&loaded, &|_| None).unwrap()
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
    fn another_key_of_the_trail_is_another_place() {
        let place = |audit: &str| {
            let text = format!("store: {{path: /srv/state.db}}\naudit: {audit}");
            let sources = [Source::new(LayerKind::Operator, "/o.yaml", text.as_str())];
            let loaded = load_sources(&sources, &HookTypes::built_in(&[]), &|_| None).unwrap();
            StorePlace::of(&loaded, &|_| None).unwrap()
        };
        assert_eq!(place("{}"), place("{}"));
        assert_ne!(place("{}"), place("{key_file: /srv/kept.key}"));
        assert_ne!(place("{key_file: /srv/other.key}"), place("{key_file: /srv/kept.key}"));
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
