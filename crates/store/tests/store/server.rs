//! A PostgreSQL server for one test: one of its own, started from Debian's package in a folder of its own, or a schema of its own on the server that
//! `BACKSTOP_TEST_POSTGRES` names, which may want a password and encryption as the store's own addresses do. It is administered with Debian's `psql`.
//!
//! The server refuses to run as root, so as root it is started as `nobody`. What it starts from is made once and copied.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use backstop_store::{PostgresOptions, PostgresStore};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

const NOBODY: u32 = 65_534;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    own: Option<Own>,
    pub(crate) url: String,
    pub(crate) schema: String,
}

/// A server that this test started.
struct Own {
    folder: TempDir,
    child: Option<Child>,
    more: Vec<String>,
}

impl Server {
    /// A server that takes connections.
    pub(crate) fn start() -> Self {
        match std::env::var("BACKSTOP_TEST_POSTGRES") {
            Ok(url) => {
                let random = uuid::Uuid::new_v4().simple().to_string();
                Self { own: None, url, schema: format!("test_{random}") }
            }
            Err(_) => Self::own(&[]),
        }
    }

    /// A server of this test's own, which it may stop.
    pub(crate) fn own(more: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        give(folder.path());
        copy(&template(), &folder.path().join("data"));
        let url = format!("postgres:///postgres?host={}&user=backstop", folder.path().display());
        let more = more.iter().map(|word| (*word).to_owned()).collect();
        let mut own = Own { folder, child: None, more };
        own.run(&url);
        Self { own: Some(own), url, schema: "backstop".to_owned() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.own.as_ref().unwrap().folder.path().join("data")
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.own.as_ref().unwrap().folder.path().join(".s.PGSQL.5432")
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        let options = match authorities().filter(|_| self.own.is_none()) {
            Some(file) => PostgresOptions::from_url_trusting(&self.url, &fs::read(file).unwrap()),
            None => PostgresOptions::from_url(&self.url),
        };
        options.unwrap().schema(&self.schema).unwrap()
    }

    /// A gateway's store: its own connections, its own trail in `folder`.
    pub(crate) fn store(&self, folder: &Path) -> PostgresStore {
        self.store_with(self.options(), folder)
    }

    pub(crate) fn store_with(&self, options: PostgresOptions, folder: &Path) -> PostgresStore {
        PostgresStore::new(options, folder.join("state.trail"), folder.join("audit.key"))
    }

    /// Runs statements as an administrator would, with the schema of the store. Returns the first column of the first row.
    pub(crate) async fn run(&self, sql: &str) -> Option<String> {
        admin(&self.url, &format!("SET search_path TO {}; {sql}", self.schema)).await.unwrap()
    }

    /// Ends the server at once, as a crash does.
    pub(crate) fn stop(&mut self) {
        self.own.as_mut().unwrap().stop();
    }

    /// Starts it again, with what it has on disk.
    pub(crate) fn start_again(&mut self) {
        let url = self.url.clone();
        self.own.as_mut().unwrap().run(&url);
    }

    /// As [`start_again`](Self::start_again), with more settings. Administrators use the socket that this makes.
    pub(crate) fn start_again_with(&mut self, more: &[&str]) {
        let own = self.own.as_mut().unwrap();
        own.more = more.iter().map(|word| (*word).to_owned()).collect();
        let port = more.iter().find_map(|word| word.strip_prefix("port=")).unwrap_or("5432");
        self.url =
            format!("postgres:///postgres?host={}&port={port}&user=backstop", own.folder.path().display());
        let url = self.url.clone();
        own.run(&url);
    }

    /// A standby of this server, which is sent what is written here and takes no writes itself until it is [promoted](Self::promote).
    pub(crate) fn standby(&self) -> Self {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        give(folder.path());
        let mut copy = as_nobody(&bin().join("pg_basebackup"), folder.path());
        copy.arg("-D").arg(folder.path().join("data")).arg("-h").arg(self.socket().parent().unwrap());
        copy.args(["-U", "backstop", "-R", "-C", "-S", "standby", "--checkpoint=fast", "--no-sync"]);
        let output = copy.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let url = format!("postgres:///postgres?host={}&user=backstop", folder.path().display());
        let mut own = Own { folder, child: None, more: Vec::new() };
        own.run(&url);
        Self { own: Some(own), url, schema: self.schema.clone() }
    }

    /// Has this server report no commit before its standby has it.
    pub(crate) async fn wait_for_standby(&self) {
        let mut settings = File::options().append(true).open(self.data().join("postgresql.conf")).unwrap();
        settings.write_all(b"synchronous_standby_names = '*'\n").unwrap();
        admin(&self.url, "SELECT pg_reload_conf()").await.unwrap();
        let waits = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
        while admin(&self.url, waits).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Has a standby take the place of its server.
    pub(crate) async fn promote(&self) {
        assert_eq!(admin(&self.url, "SELECT pg_promote()").await.unwrap().as_deref(), Some("t"));
    }

    /// Sends the standby nothing any more. Returns once the standby has all that was written before.
    pub(crate) async fn send_nothing_more(&self) {
        let has_all = "SELECT pid FROM pg_stat_replication WHERE flush_lsn = pg_current_wal_lsn()";
        let sender = loop {
            if let Some(sender) = admin(&self.url, has_all).await.unwrap() {
                break sender.parse().unwrap();
            }
        };
        let own = self.own.as_ref().unwrap();
        assert!(children(own.child.as_ref().unwrap().id()).contains(&sender));
        signal(sender, Signal::STOP);
    }

    /// Ends the server's processes where they are, as a machine does that loses its power.
    pub(crate) fn kill(&mut self) {
        let mut child = self.own.as_mut().unwrap().child.take().unwrap();
        let helpers = children(child.id());
        for pid in std::iter::once(child.id()).chain(helpers) {
            signal(pid, Signal::KILL);
        }
        child.wait().unwrap();
    }

    /// Lets the server's process run no further, or on again. Its machine still answers for it.
    pub(crate) fn hold(&self, held: bool) {
        let own = self.own.as_ref().unwrap();
        let pid = own.child.as_ref().unwrap().id();
        for pid in std::iter::once(pid).chain(children(pid)) {
            signal(pid, if held { Signal::STOP } else { Signal::CONT });
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.own.is_none() {
            let (url, sql) = (self.url.clone(), format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema));
            let dropping = move || crate::support::block_on(admin(&url, &sql)).is_ok();
            let _ = std::thread::spawn(dropping).join();
        }
    }
}

/// The file with the authorities of the server that `BACKSTOP_TEST_POSTGRES` names, if they are its own.
fn authorities() -> Option<PathBuf> {
    std::env::var_os("BACKSTOP_TEST_POSTGRES_CA").map(PathBuf::from)
}

async fn admin(url: &str, sql: &str) -> Result<Option<String>, String> {
    let mut psql = tokio::process::Command::new(bin().join("psql"));
    psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]).env_clear().env("LC_ALL", "C");
    if let Some(authorities) = authorities().filter(|_| !url.contains("?host=")) {
        psql.env("PGSSLROOTCERT", authorities).env("PGSSLMODE", "verify-full");
    }
    let output = psql.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).unwrap();
    Ok(text
        .lines()
        .map(|line| line.split('|').next().unwrap_or(line))
        .find(|first| !first.is_empty())
        .map(str::to_owned))
}

impl Own {
    fn run(&mut self, url: &str) {
        let folder = self.folder.path();
        let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let mut server = as_nobody(&bin().join("postgres"), folder);
        server.arg("-D").arg(folder.join("data")).arg("-k").arg(folder).args(["-c", "listen_addresses="]);
        for setting in
            ["fsync=off", "shared_buffers=2MB", "max_connections=60", "max_wal_size=4MB", "min_wal_size=2MB"]
        {
            server.args(["-c", setting]);
        }
        server.args(&self.more);
        self.child =
            Some(server.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        let start = Instant::now();
        let asked = url.to_owned();
        let answers = move || {
            std::thread::scope(|scope| {
                scope.spawn(|| crate::support::block_on(admin(&asked, "SELECT 1")).is_ok()).join().unwrap()
            })
        };
        while !answers() {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && start.elapsed() < PATIENCE,
                "{}",
                fs::read_to_string(folder.join("log")).unwrap()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let helpers = children(child.id());
            signal(child.id(), Signal::QUIT);
            for pid in std::iter::once(child.id()).chain(helpers) {
                signal(pid, Signal::CONT);
            }
            child.wait().unwrap();
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.stop();
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = kill_process(pid, signal);
}

/// The processes that a process started.
fn children(pid: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// A port on loopback that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Gives a file to the user that the server runs as.
pub(crate) fn give(path: &Path) {
    if geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// The folder with the programs of the newest version.
fn bin() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|version| Some((version.file_name().to_str()?.parse::<u32>().ok()?, version.path())))
        .max();
    let missing =
        || panic!("the store on a server is tried with PostgreSQL: `cargo xtask setup` installs it");
    newest.unwrap_or_else(missing).1.join("bin")
}

fn as_nobody(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear().env("LC_ALL", "C").env("HOME", folder);
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// The folder of a database that nothing has been done with, made by the first test that wants it.
fn template() -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lock = File::create(kept.join("postgres.lock")).unwrap();
    lock.lock().unwrap();
    let version = bin().parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let template = kept.join(format!("postgres-{version}"));
    if !template.exists() {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let made = folder.path().join("data");
        fs::create_dir(&made).unwrap();
        give(&made);
        let mut command = as_nobody(&bin().join("initdb"), folder.path());
        command.arg("-D").arg(&made).args(["-U", "backstop", "-A", "trust", "-E", "UTF8", "--locale=C"]);
        let output = command.args(["--no-sync", "--wal-segsize=1"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let half = kept.join(format!("postgres-{version}.half"));
        let _ = fs::remove_dir_all(&half);
        copy(&made, &half);
        fs::rename(&half, &template).unwrap();
    }
    template
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    give(to);
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
            give(&target);
        }
    }
}
