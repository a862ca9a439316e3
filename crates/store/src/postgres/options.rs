//! Which server, as whom, and how it is reached.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use url::Url;

use super::tls::Encryption;

/// The schema that the tables are in, if nothing else is said.
pub const DEFAULT_SCHEMA: &str = "backstop";
/// How long a statement, or waiting for another writer, may take, if nothing else is said.
const STATEMENT: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(5);
/// How often it is looked for answers though the server told of none, if nothing else is said.
const LOOK: Duration = Duration::from_secs(1);
/// The most characters of a schema's name.
const MOST_NAME: usize = 40;
/// The largest file with a password or certificates that is read, in bytes.
const MOST_FILE: u64 = 1 << 20;

/// A database on a PostgreSQL server.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(super) config: Config,
    pub(super) encryption: Encryption,
    pub(super) schema: String,
    /// How many connections operations share.
    pub(super) connections: usize,
    pub(super) statement: Duration,
    pub(super) look: Duration,
    pub(super) place: String,
}

/// Why options can't be used. No password is in it.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOptionsError {
    /// The address is no URL of a database.
    #[error("not an address of a PostgreSQL database: {0}\nhint: postgres://USER@HOST:PORT/DATABASE")]
    Address(&'static str),
    /// A key after the `?` is not known.
    #[error(
        "`{0}` can't be set in the address of a PostgreSQL database\nhint: sslmode, sslrootcert, passfile, host, port, user"
    )]
    Key(String),
    /// The mode does not prove who answers.
    #[error(
        "sslmode `{0}` does not prove which server answers\nhint: verify-full, with sslrootcert for an authority of your own; disable encrypts nothing"
    )]
    Mode(String),
    /// A file can't be read or used.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The system's certificates can't be used.
    #[error("the system's certificate authorities can't be used: {0}")]
    Authorities(String),
    /// The schema has no plain name.
    #[error(
        "`{0}` can't be the name of a schema\nhint: small letters, digits and _, at most 40, beginning with a letter"
    )]
    Schema(String),
}

impl PostgresOptions {
    /// Reads `postgres://user:password@host:port/database?key=value`. Keys: `sslmode` (`verify-full`, `disable`), `sslrootcert` (a PEM file with the
    /// only authorities that are trusted), `passfile` (a file whose first line is the password), and `host` (the folder of a Unix socket, as in
    /// `postgres:///database?host=/run/postgresql&user=name`) with `user` and `port`. Unless a mode
    /// is said, connections are encrypted and the server proves its name, but to addresses of this machine.
    ///
    /// # Errors
    ///
    /// [`PostgresOptionsError`], which names the part and never the password.
    pub fn from_url(address: &str) -> Result<Self, PostgresOptionsError> {
        let url = Url::parse(address).map_err(|_| PostgresOptionsError::Address("it is no URL"))?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(PostgresOptionsError::Address("its scheme is not postgres"));
        }
        let told = Told::of(&url)?;
        let mut config = Config::new();
        let (host, is_here) = reached(&url, told.socket.as_deref(), &mut config)?;
        let port = told.port.or(url.port()).unwrap_or(5432);
        config.port(port);
        let user = told.user.map_or_else(|| decoded(url.username()), Ok)?;
        if user.is_empty() {
            return Err(PostgresOptionsError::Address("it names no user"));
        }
        config.user(user);
        match (told.passfile, url.password()) {
            (Some(path), _) => config.password(first_line(&path)?),
            (None, Some(password)) => config.password(decoded(password)?),
            (None, None) => &mut config,
        };
        let name = decoded(url.path().trim_start_matches('/'))?;
        if name.is_empty() {
            return Err(PostgresOptionsError::Address("it names no database"));
        }
        config.dbname(name.as_str());
        let is_encrypted = match told.mode.as_deref() {
            Some("verify-full") => true,
            Some("disable") => false,
            Some(other) => return Err(PostgresOptionsError::Mode(other.to_owned())),
            None => !is_here || told.authorities.is_some(),
        };
        let encryption =
            if is_encrypted { encryption(told.authorities.as_deref())? } else { Encryption::none() };
        config
            .ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable })
            .application_name("backstop")
            .connect_timeout(CONNECT)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(10));
        let place = format!("{name} at {host}:{port}");
        Ok(Self {
            config,
            encryption,
            schema: DEFAULT_SCHEMA.to_owned(),
            connections: 4,
            statement: STATEMENT,
            look: LOOK,
            place,
        })
    }

    /// Keeps the tables in this schema, which is created if there is none.
    ///
    /// # Errors
    ///
    /// [`PostgresOptionsError::Schema`] if it is not a plain name.
    pub fn schema(self, name: &str) -> Result<Self, PostgresOptionsError> {
        let begins = name.starts_with(|first: char| first.is_ascii_lowercase());
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !begins || name.len() > MOST_NAME || !name.chars().all(is_plain) || name.starts_with("pg_") {
            return Err(PostgresOptionsError::Schema(name.to_owned()));
        }
        Ok(Self { schema: name.to_owned(), ..self })
    }

    /// Shares this many connections between operations, 1 to 64. One more listens for answers that other machines write, as long as somebody waits.
    #[must_use]
    pub fn connections(self, most: usize) -> Self {
        Self { connections: most.clamp(1, 64), ..self }
    }

    /// Gives up on a statement, and on waiting for another writer, after this long.
    #[must_use]
    pub fn statement_timeout(self, most: Duration) -> Self {
        Self { statement: most.clamp(Duration::from_millis(10), Duration::from_mins(10)), ..self }
    }

    /// Looks this often for answers of other machines though the server told of none, as long as somebody waits: its message may get lost
    /// with the network. A second unless it is said, ten milliseconds to an hour.
    #[must_use]
    pub fn look_every(self, pace: Duration) -> Self {
        Self { look: pace.clamp(Duration::from_millis(10), Duration::from_hours(1)), ..self }
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("place", &self.place)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// What is said after the `?`.
#[derive(Default)]
struct Told {
    mode: Option<String>,
    authorities: Option<PathBuf>,
    passfile: Option<PathBuf>,
    socket: Option<String>,
    user: Option<String>,
    port: Option<u16>,
}

impl Told {
    fn of(url: &Url) -> Result<Self, PostgresOptionsError> {
        let mut told = Self::default();
        for (key, value) in url.query_pairs() {
            match &*key {
                "sslmode" => told.mode = Some(value.into_owned()),
                "sslrootcert" => told.authorities = Some(PathBuf::from(&*value)),
                "passfile" => told.passfile = Some(PathBuf::from(&*value)),
                "port" => {
                    let no_port = PostgresOptionsError::Address("its port is no number");
                    told.port = Some(value.parse().map_err(|_| no_port)?);
                }
                "user" => told.user = Some(value.into_owned()),
                "host" => told.socket = Some(value.into_owned()),
                _ => return Err(PostgresOptionsError::Key(key.into_owned())),
            }
        }
        Ok(told)
    }
}

/// Sets where the server is. Returns that for people, and whether it is this machine.
fn reached(
    url: &Url,
    socket: Option<&str>,
    config: &mut Config,
) -> Result<(String, bool), PostgresOptionsError> {
    let host = decoded(url.host_str().unwrap_or_default())?;
    match (socket, host.as_str()) {
        (Some(folder), "") if Path::new(folder).is_absolute() => {
            config.host_path(folder);
            Ok((folder.to_owned(), true))
        }
        (Some(_), _) => {
            Err(PostgresOptionsError::Address("`host` is the folder of a socket, and stands alone"))
        }
        (None, "") => Err(PostgresOptionsError::Address("it names no host")),
        (None, host) => {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            config.host(bare);
            // A name may be any address: it is of this machine only if it says so itself.
            let is_here = bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
            Ok((host.to_owned(), is_here))
        }
    }
}

fn decoded(text: &str) -> Result<String, PostgresOptionsError> {
    let bytes = percent_encoding::percent_decode_str(text);
    let text = bytes.decode_utf8().map_err(|_| PostgresOptionsError::Address("it is not UTF-8"))?;
    Ok(text.into_owned())
}

fn encryption(authorities: Option<&Path>) -> Result<Encryption, PostgresOptionsError> {
    let Some(path) = authorities else {
        return Encryption::verified(None).map_err(PostgresOptionsError::Authorities);
    };
    let pem = read(path)?;
    let unfit = |cause| PostgresOptionsError::File { path: path.to_owned(), cause };
    Encryption::verified(Some(&pem)).map_err(unfit)
}

fn first_line(path: &Path) -> Result<String, PostgresOptionsError> {
    let unfit = |cause: &str| PostgresOptionsError::File { path: path.to_owned(), cause: cause.to_owned() };
    let text = String::from_utf8(read(path)?).map_err(|_| unfit("it is not UTF-8"))?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() { Err(unfit("its first line is empty")) } else { Ok(line.to_owned()) }
}

fn read(path: &Path) -> Result<Vec<u8>, PostgresOptionsError> {
    let failed = |error: std::io::Error| PostgresOptionsError::File {
        path: path.to_owned(),
        cause: error.to_string(),
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MOST_FILE {
        let cause = "it is larger than 1 MiB".to_owned();
        return Err(PostgresOptionsError::File { path: path.to_owned(), cause });
    }
    std::fs::read(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypted(address: &str) -> bool {
        PostgresOptions::from_url(address).unwrap().config.get_ssl_mode() == SslMode::Require
    }

    #[test]
    fn only_addresses_of_this_machine_are_reached_unencrypted_unless_it_is_said() {
        for address in [
            "postgres://ann@127.0.0.1/db",
            "postgres://ann@[::1]/db",
            "postgres:///db?host=/run/postgresql&user=ann",
        ] {
            assert!(!encrypted(address), "{address}");
        }
        for address in
            ["postgres://ann@db.example/db", "postgres://ann@10.0.0.1/db", "postgres://ann@localhost/db"]
        {
            assert!(encrypted(address), "{address}");
        }
        assert!(encrypted("postgres://ann@127.0.0.1/db?sslmode=verify-full"));
        assert!(!encrypted("postgres://ann@db.example/db?sslmode=disable"));
        for mode in ["prefer", "require", "allow", "verify-ca", ""] {
            let address = format!("postgres://ann@db.example/db?sslmode={mode}");
            assert!(
                matches!(PostgresOptions::from_url(&address), Err(PostgresOptionsError::Mode(_))),
                "{mode}"
            );
        }
    }

    #[test]
    fn an_address_is_read_or_named_as_wrong_and_its_password_is_shown_nowhere() {
        let word = ["hun", "ter2"].concat();
        let options =
            PostgresOptions::from_url(&format!("postgres://an%40n:{word}@127.0.0.1:6000/d%20b")).unwrap();
        assert_eq!(options.config.get_user(), Some("an@n"));
        assert_eq!(options.config.get_password(), Some(word.as_bytes()));
        assert_eq!(
            (options.config.get_dbname(), options.place.as_str()),
            (Some("d b"), "d b at 127.0.0.1:6000")
        );
        assert!(!format!("{options:?}").contains(&word));
        for wrong in [
            format!("mysql://a:{word}@h/d"),
            format!("postgres://a:{word}@h/"),
            format!("postgres://:{word}@h/d"),
            format!("postgres://a:{word}@/d"),
            format!("postgres:///d?user=a&password={word}"),
            format!("postgres://a:{word}@h/d?options=-c"),
            format!("a:{word}@h/d"),
        ] {
            let error = PostgresOptions::from_url(&wrong).unwrap_err();
            assert!(!format!("{error} {error:?}").contains(&word), "{error}");
        }
        assert!(options.clone().schema("team_1").is_ok());
        for wrong in ["", "Team", "1team", "a b", "a\"b", "pg_x", &"a".repeat(41)] {
            assert!(options.clone().schema(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_the_first_line_of_its_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("password");
        let options =
            || PostgresOptions::from_url(&format!("postgres://a@127.0.0.1/d?passfile={}", path.display()));
        assert!(matches!(options(), Err(PostgresOptionsError::File { .. })));
        std::fs::write(&path, "secret word\nmore\n").unwrap();
        assert_eq!(options().unwrap().config.get_password(), Some("secret word".as_bytes()));
        std::fs::write(&path, "\n").unwrap();
        assert!(options().is_err());
    }
}
