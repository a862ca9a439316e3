//! The desk of a process that asks.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop::config::Loaded;
use backstop::store::{
    AnswerStore, People, PolicyInForce, PolicyStore as _, PolicyVersion, SqliteStore, Store,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::answers::answer;
use super::{MOST_REPLY_BYTES, MOST_REQUEST_BYTES, PATIENCE, Reply, Signed, folder};
use crate::commands::ancestry::{Asker, only_people_at};
use crate::commands::answerer::account;
use crate::daemon::{Key, private_folder};
use crate::error::Error;
use crate::session::Surroundings;

/// The most people who are answered at once. More wait for their turn.
const MOST_AT_ONCE: usize = 8;

/// Questions and answers in the memory of this process, and the socket at which people answer them.
#[derive(Debug)]
pub(crate) struct Desk {
    answers: Arc<dyn AnswerStore>,
    /// The policy that what is answered here names.
    policy: PolicyInForce,
    /// In whose trail it is said what is answered.
    trail: Arc<dyn Store>,
    socket: PathBuf,
    serving: JoinHandle<()>,
}

impl Desk {
    /// Opens a desk, where the configuration keeps answers in memory. From then on this process can't be traced or
    /// dumped by others of its user. What is answered is said in the audit trail of `store`.
    pub(crate) fn open(
        loaded: &Loaded,
        store: &Arc<dyn Store>,
        surroundings: &Surroundings,
    ) -> Result<Option<Self>, Error> {
        if !loaded.config.agent.approvals.strict.value {
            return Ok(None);
        }
        close_memory()?;
        let folder = folder(surroundings.data_folder()?);
        private_folder(&folder)?;
        let socket = folder.join(format!("{}.sock", std::process::id()));
        let failed = |source| Error::File { path: socket.clone(), what: "listened at", source };
        let (listener, key) = listen(&socket).map_err(failed)?;
        let policy = PolicyInForce::from(backstop::policy_of(loaded, store.digest_key()));
        let answers = SqliteStore::for_answers(Arc::clone(store)).answers_under(policy.clone());
        let serving = tokio::spawn(serve(listener, key, Arc::clone(&answers), backstop::people(loaded)));
        let trail = Arc::clone(store);
        Ok(Some(Self { answers, policy, trail, socket, serving }))
    }

    /// Has what is answered from here on name the policy by which is judged.
    pub(crate) fn put_in_force(&self, version: PolicyVersion) {
        self.policy.change(version);
    }

    /// Where the questions are.
    pub(crate) fn answers(&self) -> Arc<dyn AnswerStore> {
        Arc::clone(&self.answers)
    }

    /// In whose trail it is said what is answered, also once another configuration has another store.
    pub(crate) fn trail(&self) -> Arc<dyn Store> {
        Arc::clone(&self.trail)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.serving.abort();
        // One that stays is refused by the system, and cleared away by whoever looks next.
        let _ = fs::remove_file(&self.socket);
        Key::remove(&self.socket);
    }
}

/// Listens at a socket that appears once it is listened at and its key is there: whoever looks for desks takes one that answers nobody for one
/// that is gone, and clears it away.
fn listen(socket: &Path) -> io::Result<(UnixListener, Key)> {
    let unready = socket.with_extension("new");
    // One that is there is that of a process that is gone, whose number this one has now.
    let _ = fs::remove_file(socket);
    let _ = fs::remove_file(&unready);
    let listener = UnixListener::bind(&unready)?;
    fs::set_permissions(&unready, fs::Permissions::from_mode(0o600))?;
    let key = Key::create(socket)?;
    fs::rename(&unready, socket)?;
    Ok((listener, key))
}

/// Keeps other processes of the user from reading and writing the memory of this one.
pub(crate) fn close_memory() -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| {
            Error::Failed(format!("the memory of this process can't be closed to others: {error}"))
        })?;
    }
    Ok(())
}

async fn serve(listener: UnixListener, key: Key, answers: Arc<dyn AnswerStore>, people: Arc<People>) {
    let turns = Arc::new(Semaphore::new(MOST_AT_ONCE));
    loop {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (answers, key, people) = (Arc::clone(&answers), key.clone(), Arc::clone(&people));
                tokio::spawn(async move {
                    // Who went away needs no reply.
                    let _ = timeout(PATIENCE, attend(stream, &key, answers.as_ref(), &people)).await;
                    drop(turn);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "somebody who answers can't be heard");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn attend(
    mut stream: UnixStream,
    key: &Key,
    answers: &dyn AnswerStore,
    people: &Arc<People>,
) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let asker = Asker::now(peer.pid());
    let length = usize::try_from(stream.read_u32().await?).unwrap_or(usize::MAX);
    let reply = if length > MOST_REQUEST_BYTES {
        Reply::Refused("the request is too long".to_owned())
    } else {
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).await?;
        let refused = |error: Error| Reply::Refused(error.to_string());
        match (serde_json::from_slice::<Signed>(&bytes), only_people_at(asker)) {
            (Err(_), _) => Reply::Refused("the request is of another version of Backstop".to_owned()),
            (Ok(Signed { key: said, .. }), _) if !key.is(&said) => {
                Reply::Refused("who asks does not know the key that lies beside the socket".to_owned())
            }
            (Ok(_), Err(error)) => refused(error),
            (Ok(Signed { request, .. }), Ok(())) => {
                let account = account(peer.uid());
                answer(answers, people, &account, request).await.unwrap_or_else(refused)
            }
        }
    };
    let bytes = serde_json::to_vec(&reply).unwrap_or_default();
    let bytes = match bytes.len() {
        1..=MOST_REPLY_BYTES => bytes,
        _ => serde_json::to_vec(&Reply::Refused("the reply is too long".to_owned())).unwrap_or_default(),
    };
    stream.write_u32(u32::try_from(bytes.len()).unwrap_or_default()).await?;
    stream.write_all(&bytes).await
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_desk_that_can_be_seen_can_be_asked() {
        let folder = tempfile::tempdir().unwrap();
        let (path, over) = (folder.path().to_path_buf(), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&over);
        let looking = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !until.load(Ordering::Acquire) {
                let found = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
                for socket in found.filter(|path| path.extension().is_some_and(|end| end == "sock")) {
                    if seen.insert(socket.clone()) {
                        std::os::unix::net::UnixStream::connect(&socket).unwrap();
                        Key::read(&socket).unwrap();
                    }
                }
            }
            seen.len()
        });
        let mut listening = Vec::new();
        for n in 0..500 {
            listening.push(listen(&folder.path().join(format!("{n}.sock"))).unwrap());
        }
        over.store(true, Ordering::Release);
        assert!(looking.join().unwrap() > 0);
    }

    #[test]
    fn memory_with_answers_is_closed_to_others() {
        use rustix::process::{DumpableBehavior, dumpable_behavior};
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        close_memory().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
