//! Which server, as whom, and how it is reached.

use std::fmt;
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
/// How often it is looked for answers of other machines, besides being told of them.
const LOOK: Duration = Duration::from_secs(1);
/// How many times as long as a statement a server is waited for that is away, and the least and the most of that.
const OUTAGE: u32 = 6;
const LEAST_OUTAGE: Duration = Duration::from_secs(1);
const MOST_OUTAGE: Duration = Duration::from_secs(30);
/// What is said of authorities where nothing is encrypted.
const UNASKED: &str =
    "`sslmode=disable` encrypts nothing, so that nobody would ask them\nhint: leave one of them out";
/// The most characters of a schema's name.
const MOST_NAME: usize = 40;

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
    socket: Option<PathBuf>,
}

/// Why options can't be used. No password is in it.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOptionsError {
    /// The address is no URL of a database.
    #[error("not an address of a PostgreSQL database: {0}\nhint: postgres://USER@HOST:PORT/DATABASE")]
    Address(&'static str),
    /// A key after the `?` is not known.
    #[error("`{0}` can't be set in the address of a PostgreSQL database\nhint: sslmode, host, port, user")]
    Key(String),
    /// The mode does not prove who answers.
    #[error("sslmode `{0}` does not prove which server answers\nhint: verify-full; disable encrypts nothing")]
    Mode(String),
    /// The system's certificates, or those of the caller, can't be used.
    #[error("the certificate authorities can't be used: {0}")]
    Authorities(String),
    /// The schema has no plain name.
    #[error(
        "`{0}` can't be the name of a schema\nhint: small letters, digits and _, at most 40, beginning with a letter"
    )]
    Schema(String),
}

impl PostgresOptions {
    /// Reads `postgres://user:password@host:port/database?key=value`. Keys: `sslmode` (`verify-full`, `disable`), and `host` (the folder of a Unix
    /// socket, as in `postgres:///database?host=/run/postgresql&user=name`) with `user` and `port`. Unless a mode is said, connections are encrypted
    /// and the server proves its name to the system's authorities, but at sockets. Nothing of the address is taken from files or the environment, but where the
    /// system's authorities are: `SSL_CERT_FILE` and `SSL_CERT_DIR` say that, if they are set. Whose environment others choose uses
    /// [`from_url_trusting`](Self::from_url_trusting).
    ///
    /// # Errors
    ///
    /// [`PostgresOptionsError`], which names the part and never the password.
    pub fn from_url(address: &str) -> Result<Self, PostgresOptionsError> {
        Self::of(address, None)
    }

    /// As [`from_url`](Self::from_url), with the certificates in this PEM text as the only authorities that are trusted. Connections are encrypted, to
    /// wherever; an address that says `sslmode=disable` is refused.
    ///
    /// # Errors
    ///
    /// [`PostgresOptionsError`], which names the part and never the password.
    pub fn from_url_trusting(address: &str, authorities: &[u8]) -> Result<Self, PostgresOptionsError> {
        Self::of(address, Some(authorities))
    }

    fn of(address: &str, authorities: Option<&[u8]>) -> Result<Self, PostgresOptionsError> {
        let url = Url::parse(address).map_err(|_| PostgresOptionsError::Address("it is no URL"))?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(PostgresOptionsError::Address("its scheme is not postgres"));
        }
        let told = Told::of(&url)?;
        let mut config = Config::new();
        let (host, is_socket) = reached(&url, told.socket.as_deref(), &mut config)?;
        let port = told.port.or(url.port()).unwrap_or(5432);
        config.port(port);
        let user = told.user.map_or_else(|| decoded(url.username()), Ok)?;
        if user.is_empty() {
            return Err(PostgresOptionsError::Address("it names no user"));
        }
        config.user(user);
        if let Some(password) = url.password() {
            config.password(decoded(password)?);
        }
        let name = decoded(url.path().trim_start_matches('/'))?;
        if name.is_empty() {
            return Err(PostgresOptionsError::Address("it names no database"));
        }
        config.dbname(name.as_str());
        let is_encrypted = match told.mode.as_deref() {
            Some("verify-full") => true,
            Some("disable") => false,
            Some(other) => return Err(PostgresOptionsError::Mode(other.to_owned())),
            None => !is_socket || authorities.is_some(),
        };
        if authorities.is_some() && !is_encrypted {
            return Err(PostgresOptionsError::Authorities(UNASKED.to_owned()));
        }
        let encryption = if is_encrypted {
            Encryption::verified(authorities).map_err(PostgresOptionsError::Authorities)?
        } else {
            Encryption::none()
        };
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
            socket: told.socket.map(PathBuf::from),
        })
    }

    /// Returns the folder of the server's socket, where it is reached by one.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Returns whether connections are encrypted, and the server proves its name.
    pub fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }

    /// Gives the server this password, whatever the address has.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
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

    /// Looks this often for answers that other machines write, besides being told of each by the server: a message may get lost with its network.
    #[must_use]
    pub fn look_every(self, interval: Duration) -> Self {
        Self { look: interval.clamp(Duration::from_millis(10), Duration::from_hours(1)), ..self }
    }

    /// How long who waits for an answer waits on while the server is away, and how long the server waits for the next statement of a
    /// transaction, which holds its locks. The trail is written in this time.
    pub(super) fn outage(&self) -> Duration {
        self.statement.saturating_mul(OUTAGE).clamp(LEAST_OUTAGE, MOST_OUTAGE)
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

/// Sets where the server is. Returns that for people, and whether it is a socket.
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
            // It would be one all the same, and who hides sockets would not know.
            if bare.starts_with(['/', '@']) {
                return Err(PostgresOptionsError::Address("a socket is named by `?host=`"));
            }
            config.host(bare);
            // Whoever binds a port of this machine is there, too, so it proves its name like any other.
            Ok((host.to_owned(), false))
        }
    }
}

fn decoded(text: &str) -> Result<String, PostgresOptionsError> {
    let bytes = percent_encoding::percent_decode_str(text);
    let text = bytes.decode_utf8().map_err(|_| PostgresOptionsError::Address("it is not UTF-8"))?;
    Ok(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypted(address: &str) -> bool {
        PostgresOptions::from_url(address).unwrap().is_encrypted()
    }

    #[test]
    fn only_sockets_are_reached_unencrypted_unless_it_is_said() {
        assert!(!encrypted("postgres:///db?host=/run/postgresql&user=ann"));
        for address in [
            "postgres://ann@db.example/db",
            "postgres://ann@10.0.0.1/db",
            "postgres://ann@localhost/db",
            "postgres://ann@127.0.0.1/db",
            "postgres://ann@127.0.0.2/db",
            "postgres://ann@[::1]/db",
        ] {
            assert!(encrypted(address), "{address}");
        }
        assert!(!encrypted("postgres://ann@127.0.0.1/db?sslmode=disable"));
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
    fn a_password_that_is_given_counts_and_a_file_named_in_an_address_is_not_read() {
        let word = ["hun", "ter2"].concat();
        let options = PostgresOptions::from_url("postgres://a:other@127.0.0.1/d").unwrap().password(&word);
        assert_eq!(options.config.get_password(), Some(word.as_bytes()));
        assert!(!format!("{options:?}").contains(&word));
        for key in ["passfile", "sslrootcert", "options", "sslkey"] {
            let refused = PostgresOptions::from_url(&format!("postgres://a@127.0.0.1/d?{key}=/etc/passwd"));
            assert!(matches!(refused, Err(PostgresOptionsError::Key(named)) if named == key), "{key}");
        }
    }

    #[test]
    fn a_socket_is_told_or_refused() {
        let folder = "/run/postgresql";
        let options = PostgresOptions::from_url(&format!("postgres:///db?host={folder}&user=ann")).unwrap();
        assert_eq!(options.socket(), Some(Path::new(folder)));
        for host in ["%2Frun%2Fpostgresql", "%5B%2Frun%2Fpostgresql", "%40run"] {
            let refused = PostgresOptions::from_url(&format!("postgres://ann@{host}/db?sslmode=disable"));
            assert!(matches!(refused, Err(PostgresOptionsError::Address(_))), "{host}");
        }
    }

    #[test]
    fn authorities_of_ones_own_are_some_or_an_error_and_encrypt_at_home_too() {
        let none = PostgresOptions::from_url_trusting("postgres://a@127.0.0.1/d", b"no certificate");
        assert!(matches!(none, Err(PostgresOptionsError::Authorities(_))));
        let pem = rcgen::generate_simple_self_signed(["db.example".to_owned()]).unwrap().cert.pem();
        let options = PostgresOptions::from_url_trusting("postgres://a@127.0.0.1/d", pem.as_bytes()).unwrap();
        assert!(options.is_encrypted());
        let unasked = "postgres://a@127.0.0.1/d?sslmode=disable";
        let refused = PostgresOptions::from_url_trusting(unasked, pem.as_bytes());
        assert!(matches!(refused, Err(PostgresOptionsError::Authorities(_))));
    }
}
