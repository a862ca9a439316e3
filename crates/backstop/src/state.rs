//! Where state is kept, as the configuration says it: in a file, or on a PostgreSQL server that several machines share.
//!
//! The law: *whoever chooses the database says what was answered*. So the operator alone names it, no variable is part of its address, and a
//! server off this machine proves its name. The audit trail stays in files of this machine, beside where the database file would be.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_config::{ConfigError, Loaded, Place, Problem, ProblemKind, Spanned, StorePostgres, Text};
use backstop_store::{DigestKey, SqliteStore, Store};

use crate::error::NoDataFolder;
use crate::locations::{digest_key, from_operator, store_path};

/// The largest file with a password, in bytes.
#[cfg(feature = "postgres")]
const LARGEST_PASSWORD: u64 = 4096;

/// Where state is kept. Two that are equal are the same database and the same audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePlace {
    path: PathBuf,
    /// The address and the schema.
    server: Option<(String, Option<String>)>,
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
    /// Returns where the configuration keeps state.
    ///
    /// # Errors
    ///
    /// [`NoDataFolder`] when the configuration names no place on this machine and the user has none.
    pub fn of(loaded: &Loaded, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, NoDataFolder> {
        let named = &loaded.config.store.postgres;
        let schema = named.schema.as_ref().map(|schema| schema.value.as_str().to_owned());
        let server = named.url.as_ref().map(|url| (url.value.expose().to_owned(), schema));
        Ok(Self { path: store_path(loaded, environment)?, server })
    }

    /// Returns the database file; `None` where state is on a server.
    pub fn file(&self) -> Option<&Path> {
        self.server.is_none().then_some(self.path.as_path())
    }
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

fn open(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
    key: Keyed,
) -> Result<Arc<dyn Store>, OpenStoreError> {
    let path = store_path(loaded, environment)?;
    let named = &loaded.config.store.postgres;
    let Some(url) = &named.url else { return Ok(Arc::new(in_file(path, key))) };
    on_server(loaded, named, url, &path, key).map_err(|(at, why)| ConfigError::from(problem(at, &why)).into())
}

fn in_file(path: PathBuf, key: Keyed) -> SqliteStore {
    match key {
        Ok(key) => SqliteStore::with_digest_key(path, key),
        Err(why) => SqliteStore::without_its_digest_key(path, &why),
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

    use crate::lower::small_file::LARGEST_PEM;

    let address = url.value.expose();
    let authorities = named.ca_file.as_ref().map(|file| read(loaded, file, LARGEST_PEM)).transpose()?;
    let options = match &authorities {
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
    Ok(Arc::new(match digest_key {
        Ok(digest_key) => PostgresStore::with_digest_key(options, trail, key, digest_key),
        Err(why) => PostgresStore::without_its_digest_key(options, trail, key, &why),
    }))
}

#[cfg(feature = "postgres")]
fn password<'c>(loaded: &Loaded, named: &'c StorePostgres) -> Result<Option<String>, Wrong<'c>> {
    let (at, text) = match (&named.password, &named.password_file) {
        (Some(password), _) => (&password.at, password.value.expose().to_owned()),
        (None, Some(file)) => {
            let bytes = read(loaded, file, LARGEST_PASSWORD)?;
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
fn read<'c>(loaded: &Loaded, file: &'c Spanned<Text>, most: u64) -> Result<Vec<u8>, Wrong<'c>> {
    let path = from_operator(loaded, file.value.expose());
    crate::lower::small_file::read(&path, most)
        .map_err(|error| (&file.at, format!("`{}` can't be read: {error}", path.display())))
}

/// Returns the files on which it depends who the server is and who may be asked there: the password, which whoever reads it can answer with, and the
/// authorities, which whoever writes them can be the server with.
pub fn store_files(loaded: &Loaded) -> StoreFiles {
    let named = &loaded.config.store.postgres;
    let path = |file: &Spanned<Text>| from_operator(loaded, file.value.expose());
    StoreFiles {
        password: named.password_file.as_ref().map(path),
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
