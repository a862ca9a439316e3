//! `backstop daemon`: the service that answers the hooks of all users of a machine.
//!
//! It never runs as root. Where root starts it, it binds the socket, which no one else may, and becomes the service's
//! user with the socket as its standard input; where a service manager starts it, the manager has done both.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use backstop::config::account;
use backstop::engine::ReceiptSink;
use serde_json::json;

use super::{CONFIGURATION, DATA, SOCKET, USER};
use crate::commands::clients::this_program;
use crate::commands::model::EndAsked;
use crate::daemon::{Policies, Service};
use crate::error::Error;
use crate::exit::Exit;
use crate::session::{OperatorFolders, Surroundings};

/// Where the service's things are, where that is not where an installation has them.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) socket: Option<PathBuf>,
    /// The folder of the operator's file, named `backstop`.
    pub(crate) operator: Option<PathBuf>,
    /// The service's own folder, named `backstop`.
    pub(crate) data: Option<PathBuf>,
    pub(crate) user: Option<String>,
}

/// Everybody may ask.
const SOCKET_MODE: u32 = 0o666;
/// Everybody may go to it, and only its owner may change it.
const FOLDER_MODE: u32 = 0o755;
/// The service's alone.
const DATA_MODE: u32 = 0o700;
/// The first descriptor that a service manager hands over.
const FIRST_FD: i32 = 3;

struct Places {
    socket: PathBuf,
    operator: PathBuf,
    data: PathBuf,
    user: String,
}

impl Places {
    fn of(settings: Settings) -> Result<Self, Error> {
        let Settings { socket, operator, data, user } = settings;
        let places = Self {
            socket: socket.unwrap_or_else(|| SOCKET.into()),
            operator: operator.unwrap_or_else(|| CONFIGURATION.into()),
            data: data.unwrap_or_else(|| DATA.into()),
            user: user.unwrap_or_else(|| USER.to_owned()),
        };
        let is_ours = |folder: &Path| folder.is_absolute() && folder.ends_with("backstop");
        if places.socket.is_absolute() && is_ours(&places.operator) && is_ours(&places.data) {
            return Ok(places);
        }
        Err(Error::Usage(
            "`--socket` is an absolute path, `--operator` and `--data` are absolute paths of folders named `backstop`"
                .to_owned(),
        ))
    }

    /// The command line that means these.
    fn words(&self, is_json: bool) -> Vec<std::ffi::OsString> {
        let named = [("--socket", &self.socket), ("--operator", &self.operator), ("--data", &self.data)];
        let mut words = vec!["daemon".into()];
        words.extend(is_json.then(|| "--json".into()));
        words.extend(
            named.into_iter().flat_map(|(option, path)| [option.into(), path.clone().into_os_string()]),
        );
        words.extend(["--user".into(), self.user.clone().into()]);
        words
    }
}

pub(crate) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    if surroundings.explicit_config().is_some() {
        return Err(Error::Usage(
            "the service reads the operator's file in its own folder, so `--config` has no effect on it\nhint: `--operator` names the folder".to_owned(),
        ));
    }
    let places = Places::of(settings)?;
    let inherited = inherited();
    if rustix::process::geteuid().is_root() {
        let listener = match inherited {
            Some(listener) => listener,
            None => bind(&places.socket)?,
        };
        return Err(become_user(&places, listener, surroundings.output.is_json()));
    }
    let listener = match inherited {
        Some(listener) => listener,
        None => bind(&places.socket)?,
    };
    serve(&places, listener, surroundings).await
}

async fn serve(places: &Places, listener: UnixListener, surroundings: &Surroundings) -> Result<Exit, Error> {
    let mut end = EndAsked::listen()?;
    private(&places.data)?;
    let folders = OperatorFolders {
        home: places.data.clone(),
        operator: places.operator.clone(),
        data: places.data.clone(),
        pinned: false,
    };
    let surroundings = surroundings.fixed(folders);
    // What is wrong with it is better said now than at every call.
    let operators = surroundings.load_operators()?;
    if super::names_database(&operators.loaded) {
        return Err(super::one_database_for_all());
    }
    let policies = Policies::new(&surroundings, Arc::new(Unwatched), None, false);
    let socket = places.socket.display().to_string();
    let failed =
        |source: io::Error| Error::Failed(format!("the service can't listen at `{socket}`: {source}"));
    let service = Service::start(listener, policies).map_err(failed)?;
    let output = &surroundings.output;
    if output.is_json() {
        output.json_line(&json!({ "hooks": socket, "data": places.data }))?;
    } else {
        output.say(&format!("hooks of all users are answered at {socket}"));
    }
    end.wait().await;
    match service.stop().await {
        true => Ok(Exit::Success),
        false => Err(Error::Failed("the audit trail of some user is not complete".to_owned())),
    }
}

/// Nobody looks at a service; what it decided is in the audit trails.
struct Unwatched;

impl ReceiptSink for Unwatched {
    fn record(&self, _: &backstop::engine::Receipt) {}
}

/// The socket that was handed over: as standard input, or as a service manager does it.
fn inherited() -> Option<UnixListener> {
    let stdin = rustix::stdio::stdin();
    let taken = match is_listening(stdin) {
        true => stdin.try_clone_to_owned().ok(),
        false => handed_over(),
    };
    taken.map(UnixListener::from)
}

fn is_listening(file: impl std::os::fd::AsFd) -> bool {
    let is_unix = rustix::net::sockopt::socket_domain(&file)
        .is_ok_and(|domain| domain == rustix::net::AddressFamily::UNIX);
    is_unix && rustix::net::sockopt::socket_acceptconn(&file).is_ok_and(|listens| listens)
}

/// The one socket of `LISTEN_FDS`, where `LISTEN_PID` says that it is meant for this process.
#[cfg(target_os = "linux")]
fn handed_over() -> Option<OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let number = |name: &str| std::env::var(name).ok()?.parse::<i32>().ok();
    if number("LISTEN_PID")? != getpid().as_raw_nonzero().get() || number("LISTEN_FDS")? != 1 {
        return None;
    }
    // A number is no descriptor that could be owned; a copy of what it stands for is.
    let us = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
    let copy = pidfd_getfd(us, FIRST_FD, PidfdGetfdFlags::empty()).ok()?;
    is_listening(copy.as_fd()).then_some(copy)
}

#[cfg(not(target_os = "linux"))]
fn handed_over() -> Option<OwnedFd> {
    None
}

/// Listens at `socket`, in a folder that only this user writes.
fn bind(socket: &Path) -> Result<UnixListener, Error> {
    let file = |path: &Path, what| {
        let path = path.to_path_buf();
        move |source| Error::File { path, what, source }
    };
    let folder = socket.parent().unwrap_or(socket);
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(file(folder, "made"))?;
        fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE)).map_err(file(folder, "opened"))?;
    }
    let found = fs::symlink_metadata(folder).map_err(file(folder, "looked at"))?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(Error::Failed(format!(
            "`{}` is not a folder that only this user writes, so hooks would not believe who listens there",
            folder.display()
        )));
    }
    match fs::symlink_metadata(socket) {
        Ok(there) if there.file_type().is_socket() => {
            if UnixStream::connect(socket).is_ok() {
                return Err(Error::Failed(format!("another service listens at `{}`", socket.display())));
            }
            fs::remove_file(socket).map_err(file(socket, "replaced"))?;
        }
        Ok(_) => {
            return Err(Error::Failed(format!("`{}` is there and is no socket", socket.display())));
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(socket).map_err(file(socket, "listened at"))?;
    fs::set_permissions(socket, Permissions::from_mode(SOCKET_MODE)).map_err(file(socket, "opened"))?;
    Ok(listener)
}

/// Starts this program again as the service's user, in the place of this process. Returns why it could not.
fn become_user(places: &Places, listener: UnixListener, is_json: bool) -> Error {
    let Some(account) = account::by_name(&places.user).filter(|account| account.uid != 0) else {
        return Error::Usage(format!(
            "the service does not run as root, and there is no user `{0}` for it\nhint: `useradd --system --home-dir {1} --shell /usr/sbin/nologin {0}`",
            places.user,
            places.data.display()
        ));
    };
    if let Err(error) = owned(&places.data, &account) {
        return error;
    }
    let program = match this_program() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let source = Command::new(&program)
        .args(places.words(is_json))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .uid(account.uid)
        .gid(account.gid)
        .exec();
    Error::Program { program: program.display().to_string(), source, code: 126 }
}

/// The service's folder, made for its user where it is not there.
fn owned(data: &Path, account: &account::Account) -> Result<(), Error> {
    if data.exists() {
        return Ok(());
    }
    make(data)?;
    let failed = |source| Error::File { path: data.to_path_buf(), what: "given to its user", source };
    std::os::unix::fs::chown(data, Some(account.uid), Some(account.gid)).map_err(failed)
}

/// Makes the service's folder, below folders that everybody may go through.
fn make(data: &Path) -> Result<(), Error> {
    let failed = |source| Error::File { path: data.to_path_buf(), what: "made", source };
    if let Some(above) = data.parent() {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(above).map_err(failed)?;
    }
    DirBuilder::new().mode(DATA_MODE).create(data).map_err(failed)
}

/// The service's folder, which nobody else may even read: databases lie in it.
fn private(data: &Path) -> Result<(), Error> {
    if !data.exists() {
        make(data)?;
    }
    let found = fs::symlink_metadata(data).map_err(|source| Error::File {
        path: data.to_path_buf(),
        what: "looked at",
        source,
    })?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if is_ours && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "`{0}` is not the service's alone\nhint: chown {1} {0}; chmod 700 {0}",
        data.display(),
        USER
    )))
}
