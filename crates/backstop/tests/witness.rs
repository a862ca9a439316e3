//! Witnesses of the trail: what a folder and a server have of it, and what they say when it was cut off or written anew. The server is a witness
//! of `backstop-trail` behind as much HTTP as the protocol needs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use backstop::config::{LayerKind, Loaded, Source};
use backstop::store::{
    AuditBody, AuditStore as _, Durability, NewAuditEntry, SqliteStore, Timestamp, VerifyAuditError,
};
use backstop::{HookTypes, WitnessError, Witnesses};
use backstop_trail::{AddCheckpoint, Copies, NotCosigned, Reader, SigningKey, StampError, Witness};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A trail in a folder.
struct Trail {
    folder: TempDir,
}

impl Trail {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Opened as each process does.
    fn store(&self) -> SqliteStore {
        SqliteStore::new(self.path("backstop.db"))
    }

    /// Adds entries, and signs them.
    async fn add(&self, count: usize) {
        let entry = |n| NewAuditEntry {
            at: Timestamp::now(),
            kind: "test".to_owned(),
            session: None,
            run: None,
            body: AuditBody::of(&n),
        };
        let store = self.store();
        store.append_audit_all((0..count).map(entry).collect(), Durability::Now).await.unwrap();
        store.conclude_audit().await.unwrap();
    }

    /// Keeps it as it is now, to be put back.
    fn kept(&self) -> TempDir {
        let kept = TempDir::new().unwrap();
        copy_all(&self.path("backstop.trail"), kept.path());
        kept
    }

    fn put_back(&self, kept: &Path) {
        fs::remove_dir_all(self.path("backstop.trail")).unwrap();
        copy_all(kept, &self.path("backstop.trail"));
    }

    /// Another witness, that watches this trail.
    fn witness(&self, name: &str) -> Witness {
        let origin = Reader::new(&self.path("backstop.trail")).origin().unwrap().unwrap();
        let logs = vec![SigningKey::read(&self.path("audit.key")).unwrap().verifier(&origin).unwrap()];
        Witness { name: name.to_owned(), folder: self.path(name), key: self.path("witness.key"), logs }
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(file.file_name());
        if file.file_type().unwrap().is_dir() {
            copy_all(&file.path(), &to);
        } else {
            fs::copy(file.path(), to).unwrap();
        }
    }
}

fn loaded(yaml: &str) -> Result<Loaded, backstop::config::ConfigError> {
    let source = Source::new(LayerKind::Operator, "backstop.yaml", yaml);
    backstop::load_sources(&[source], &HookTypes::built_in(&[]), &|_| None)
}

/// An environment with a data folder for `git` to work in.
fn data(name: &str) -> Option<String> {
    (name == "XDG_DATA_HOME").then(|| env!("CARGO_TARGET_TMPDIR").to_owned())
}

/// Serves a witness on a port of its own, with a key that is another one where `lies`.
async fn served(witness: Witness, lies: &Arc<AtomicBool>) -> Witnesses {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, key) = (listener.local_addr().unwrap(), witness.cosigner().unwrap());
    let lies = Arc::clone(lies);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let other = witness.key.with_extension("other");
            let key = if lies.load(Ordering::Acquire) { other } else { witness.key.clone() };
            answer(stream, &Witness { key, ..witness.clone() }).await;
        }
    });
    let yaml = format!("audit: {{ witness: [{{ to: 'http://{address}/w/', key: '{key}' }}] }}");
    Witnesses::of(&loaded(&yaml).unwrap(), &data).unwrap()
}

/// Answers one request.
async fn answer(mut stream: TcpStream, witness: &Witness) {
    let mut bytes = Vec::new();
    let request: AddCheckpoint = loop {
        let mut more = [0; 4096];
        let read = stream.read(&mut more).await.unwrap();
        assert_ne!(read, 0, "the request is whole");
        bytes.extend(more.iter().take(read));
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("POST /w/add-checkpoint HTTP/1.1\r\n"), "{head}");
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap().split('\r').next().unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            break body.parse().unwrap();
        }
    };
    let (status, kind, body) = match witness.add(&request, 1_764_000_000) {
        Ok(line) => ("200 OK", "text/plain", line),
        Err(NotCosigned::UnknownLog) => ("404 Not Found", "text/plain", String::new()),
        Err(NotCosigned::Signature) => ("403 Forbidden", "text/plain", String::new()),
        Err(NotCosigned::Conflict(size)) => ("409 Conflict", "text/x.tlog.size", format!("{size}\n")),
        Err(NotCosigned::OtherRoot) => ("409 Conflict", "text/plain", String::new()),
        Err(NotCosigned::Proof) => ("422 Unprocessable Entity", "text/plain", String::new()),
        Err(other) => panic!("{other}"),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
}

/// What the only witness says.
async fn kept(witnesses: &Witnesses, trail: &Trail) -> Result<Vec<String>, WitnessError> {
    witnesses.kept(&trail.store()).await.remove(0).1
}

#[tokio::test]
async fn a_folder_shows_a_trail_that_was_cut_off_or_written_anew() {
    let trail = Trail::new();
    trail.add(300).await;
    let old = trail.kept();
    let folder = trail.path("witness");
    fs::create_dir(&folder).unwrap();
    let witnesses = Witnesses::folder(&folder);
    assert!(matches!(kept(&witnesses, &trail).await, Err(WitnessError::Empty)));
    trail.add(20).await;
    let told = witnesses.tell(&trail.store()).await.remove(0).1.unwrap();
    assert_eq!((told.entries, told.at), (320, None));
    let copies = kept(&witnesses, &trail).await.unwrap();
    trail.store().verify_audit_with(None, &copies, None).await.unwrap();
    // It ends before the copy, and fits its own checkpoints.
    trail.put_back(old.path());
    trail.store().verify_audit(None).await.unwrap();
    let copies = kept(&witnesses, &trail).await.unwrap();
    let found = trail.store().verify_audit_with(None, &copies, None).await;
    assert!(matches!(found, Err(VerifyAuditError::Truncated { known: 320, found: 300 })), "{found:?}");
    // Whoever hands it over is told as well.
    let told = witnesses.tell(&trail.store()).await.remove(0).1;
    assert!(matches!(told, Err(WitnessError::CutOff { known: 320, found: 300 })), "{told:?}");
    let other = trail.kept();
    trail.add(20).await;
    let told = witnesses.tell(&trail.store()).await.remove(0).1;
    let found = trail.store().audit_head().await.unwrap().seq;
    assert_eq!(found, 320, "a start, or a stop, would make it another size");
    assert!(matches!(told, Err(WitnessError::Rewritten { found: 320 })), "{told:?}");
    trail.put_back(other.path());
    trail.add(50).await;
    // It hides nothing to hand over what it is now.
    witnesses.tell(&trail.store()).await.remove(0).1.unwrap();
    let copies = kept(&witnesses, &trail).await.unwrap();
    let found = trail.store().verify_audit_with(None, &copies, None).await;
    assert!(matches!(found, Err(VerifyAuditError::Rewritten { seq: 320 })), "{found:?}");
    // A trail that began anew is another one.
    fs::remove_dir_all(trail.path("backstop.trail")).unwrap();
    trail.add(3).await;
    assert!(matches!(kept(&witnesses, &trail).await, Err(WitnessError::OtherTrail(4))));
}

#[tokio::test]
async fn a_checkpoint_that_the_trail_s_key_did_not_sign_is_not_handed_over_and_says_nothing() {
    let trail = Trail::new();
    trail.add(3).await;
    let folder = trail.path("witness");
    fs::create_dir(&folder).unwrap();
    let witnesses = Witnesses::folder(&folder);
    witnesses.tell(&trail.store()).await.remove(0).1.unwrap();
    let file = trail.path("backstop.trail").join("checkpoint");
    let sound = fs::read_to_string(&file).unwrap();
    let forged = sound.replacen("\n3\n", "\n999999\n", 1);
    fs::write(&file, &forged).unwrap();
    let told = witnesses.tell(&trail.store()).await.remove(0).1;
    assert!(matches!(told, Err(WitnessError::NotOurs)), "{told:?}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::write(&file, &sound).unwrap();
    // What was put there all the same counts for nothing.
    Copies::new(&folder).add(&forged.parse().unwrap()).unwrap();
    witnesses.tell(&trail.store()).await.remove(0).1.unwrap();
    let copies = kept(&witnesses, &trail).await.unwrap();
    let report = trail.store().verify_audit_with(None, &copies, None).await.unwrap();
    assert_eq!((copies.len(), report.checkpoints.foreign), (2, 1));
    // A copy that a key before has signed counts on.
    trail.store().rotate_audit_key(Timestamp::now(), "ann").await.unwrap();
    trail.store().rotate_audit_key(Timestamp::now(), "ann").await.unwrap();
    let report = trail.store().verify_audit_with(None, &copies, None).await.unwrap();
    assert_eq!(report.checkpoints.foreign, 1);
}

#[tokio::test]
async fn signatures_are_checked_by_a_key_that_is_given_where_there_is_none() {
    let trail = Trail::new();
    trail.add(3).await;
    let key = trail.store().verify_audit(None).await.unwrap().checkpoints.key.unwrap();
    fs::rename(trail.path("audit.key"), trail.path("away")).unwrap();
    let verify = async |key| trail.store().verify_audit_with(None, &[], key).await;
    assert_eq!(verify(None).await.unwrap().checkpoints.key, None);
    assert_eq!(verify(Some(&key)).await.unwrap().checkpoints.key.as_ref(), Some(&key));
    assert!(matches!(verify(Some("x")).await, Err(VerifyAuditError::Untrusted(_))));
    let origin = key.split('+').next().unwrap();
    let stranger = SigningKey::open(&trail.path("stranger")).unwrap().verifier(origin).unwrap().to_string();
    assert!(matches!(verify(Some(&stranger)).await, Err(VerifyAuditError::Untrusted(_))));
}

#[tokio::test]
async fn a_server_cosigns_what_only_grew_and_knows_what_did_not() {
    let trail = Trail::new();
    trail.add(300).await;
    let old = trail.kept();
    let lies = Arc::default();
    let witnesses = served(trail.witness("witness.example"), &lies).await;
    for more in [1, 40, 300] {
        trail.add(more).await;
        let told = witnesses.tell(&trail.store()).await.remove(0);
        let has = told.1.unwrap();
        assert_eq!(told.0, "witness.example");
        assert_eq!(has.at, Some(Timestamp::from_millis(1_764_000_000_000)));
        assert_eq!(has.entries, trail.store().audit_head().await.unwrap().seq);
    }
    // Another process knows nothing of what the witness has.
    let other = served(trail.witness("witness.example"), &lies).await;
    let copies = kept(&other, &trail).await.unwrap();
    trail.store().verify_audit_with(None, &copies, None).await.unwrap();
    let known = trail.store().audit_head().await.unwrap().seq;
    lies.store(true, Ordering::Release);
    trail.add(1).await;
    assert!(matches!(kept(&other, &trail).await, Err(WitnessError::Unsigned)));
    lies.store(false, Ordering::Release);
    let known = known + 1;

    trail.put_back(old.path());
    for witnesses in [&other, &served(trail.witness("witness.example"), &lies).await] {
        let found = kept(witnesses, &trail).await.unwrap_err();
        assert!(found.is_tampering(), "{found}");
        assert!(matches!(found, WitnessError::CutOff { known: k, found: 300 } if k <= known), "{found:?}");
    }
    trail.add(600).await;
    let found = kept(&other, &trail).await.unwrap_err();
    assert!(found.is_tampering() && matches!(found, WitnessError::Rewritten { found: 900 }), "{found:?}");
}

#[tokio::test]
async fn a_server_that_does_not_know_the_trail_or_is_gone_is_told_so() {
    let (trail, other) = (Trail::new(), Trail::new());
    trail.add(3).await;
    other.add(3).await;
    let lies = Arc::default();
    let witnesses = served(other.witness("w"), &lies).await;
    assert!(matches!(kept(&witnesses, &trail).await, Err(WitnessError::Unwatched)));
    let witness = trail.witness("w");
    trail.store().rotate_audit_key(Timestamp::now(), "ann").await.unwrap();
    trail.add(1).await;
    let witnesses = served(witness, &lies).await;
    let found = kept(&witnesses, &trail).await;
    assert!(matches!(found, Err(WitnessError::OtherKey)), "{found:?}");
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let key = trail.witness("w").cosigner().unwrap();
    let yaml = format!("audit: {{ witness: [{{ to: 'http://127.0.0.1:{port}', key: '{key}' }}] }}");
    let witnesses = Witnesses::of(&loaded(&yaml).unwrap(), &data).unwrap();
    assert!(matches!(kept(&witnesses, &trail).await, Err(WitnessError::Silent(_))));
}

/// Runs a program of the machine in a folder.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    let done = command.current_dir(folder).args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// A Git repository as a witness, as another process sees it.
fn repository(folder: &Path) -> Witnesses {
    let yaml = format!("audit: {{ witness: [{{ to: 'git+file://{}' }}] }}", folder.display());
    Witnesses::of(&loaded(&yaml).unwrap(), &data).unwrap()
}

#[tokio::test]
async fn a_repository_shows_a_trail_that_was_cut_off_or_written_anew() {
    let trail = Trail::new();
    trail.add(30).await;
    let old = trail.kept();
    run(trail.folder.path(), "git", &["init", "--quiet", "--bare", "elsewhere.git"]);
    let elsewhere = trail.path("elsewhere.git");
    let other = || repository(&elsewhere);
    assert!(matches!(kept(&other(), &trail).await, Err(WitnessError::Empty)));
    let ours = other();
    for (more, by, has) in
        [(20, &ours, Some(50)), (1, &other(), Some(51)), (1, &ours, None), (1, &other(), Some(53))]
    {
        trail.add(more).await;
        let told = by.tell(&trail.store()).await.pop();
        // Who told it a short time ago does not tell it again, and does not say so either.
        assert_eq!(told.map(|(_, told)| told.unwrap().entries), has);
    }
    let copies = kept(&ours, &trail).await.unwrap();
    assert_eq!(copies.len(), 3);
    trail.store().verify_audit_with(None, &copies, None).await.unwrap();
    // It ends before what was pushed, and fits its own checkpoints.
    trail.put_back(old.path());
    let found = trail.store().verify_audit_with(None, &copies, None).await;
    assert!(matches!(found, Err(VerifyAuditError::Truncated { known: 53, found: 30 })), "{found:?}");
    let told = other().tell(&trail.store()).await.remove(0).1;
    assert!(matches!(told, Err(WitnessError::CutOff { known: 53, found: 30 })), "{told:?}");
    trail.add(100).await;
    let told = other().tell(&trail.store()).await.remove(0).1;
    assert!(matches!(told, Err(WitnessError::Rewritten { found: 130 })), "{told:?}");
    assert_eq!(kept(&other(), &trail).await.unwrap().len(), 3, "nothing is pushed behind what does not fit");
    // A branch that went back is told by whoever knows what was there.
    let name = run(&elsewhere, "git", &["for-each-ref", "--format=%(refname)"]);
    run(&elsewhere, "git", &["update-ref", &name, &format!("{name}~1")]);
    let found = kept(&ours, &trail).await.unwrap_err();
    assert!(found.is_tampering() && found.to_string().contains("written it anew"), "{found}");
}

/// An authority of `openssl ts` behind as much HTTP as the protocol needs, and what it is told to answer instead.
async fn stamping(folder: PathBuf, instead: &Arc<Mutex<Option<Vec<u8>>>>) -> u16 {
    let settings = "[req]\ndistinguished_name=n\nprompt=no\nx509_extensions=e\n[n]\nCN=stamps.example\n\
        [e]\nbasicConstraints=critical,CA:TRUE\nextendedKeyUsage=critical,timeStamping\n\
        [t]\nserial=serial\nsigner_cert=ca.pem\nsigner_key=key.pem\nsigner_digest=sha256\n\
        default_policy=1.2.3.4\ndigests=sha256\ness_cert_id_alg=sha256\n";
    fs::write(folder.join("settings"), settings).unwrap();
    let made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem"];
    let certificate = ["req", "-x509", "-config", "settings", "-out", "ca.pem", "-days", "2"];
    run(&folder, "openssl", &[&certificate[..], &made].concat());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, instead) = (listener.local_addr().unwrap().port(), Arc::clone(instead));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            let query = loop {
                let mut more = [0; 4096];
                let read = stream.read(&mut more).await.unwrap();
                assert_ne!(read, 0, "the request is whole");
                bytes.extend(more.iter().take(read));
                let Some(end) = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
                let head = String::from_utf8_lossy(bytes.get(..end).unwrap()).to_lowercase();
                assert!(head.contains("content-type: application/timestamp-query"), "{head}");
                let length = head.split("content-length: ").nth(1).unwrap().split('\r').next().unwrap();
                let body = bytes.get(end + 4..).unwrap();
                if body.len() == length.parse::<usize>().unwrap() {
                    break body.to_vec();
                }
            };
            fs::write(folder.join("query"), query).unwrap();
            let reply = ["ts", "-reply", "-config", "settings", "-section", "t", "-queryfile", "query"];
            run(&folder, "openssl", &[&reply[..], &["-out", "reply"]].concat());
            let answer = instead.lock().unwrap().clone();
            let answer = answer.unwrap_or_else(|| fs::read(folder.join("reply")).unwrap());
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/timestamp-reply\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                answer.len()
            );
            stream.write_all(&[head.as_bytes(), &answer].concat()).await.unwrap();
        }
    });
    port
}

#[tokio::test]
async fn an_authority_stamps_and_openssl_checks_what_is_kept() {
    let trail = Trail::new();
    trail.add(3).await;
    let old = trail.kept();
    let (folder, keep) = (trail.path("authority"), trail.path("it's kept"));
    fs::create_dir(&folder).unwrap();
    fs::create_dir(&keep).unwrap();
    let instead = Arc::new(Mutex::new(None));
    let port = stamping(folder.clone(), &instead).await;
    let yaml = format!(
        "audit: {{ witness: [{{ to: 'rfc3161+http://127.0.0.1:{port}/tsr', keep: \"{}\" }}] }}",
        keep.display()
    );
    let other = || Witnesses::of(&loaded(&yaml).unwrap(), &data).unwrap();
    let stamps = async |witnesses: &Witnesses| witnesses.stamps(&trail.store()).await.remove(0).1;
    assert!(matches!(stamps(&other()).await, Err(WitnessError::Empty)));
    for (more, count) in [(3, 1), (0, 1), (4, 2)] {
        if more > 0 {
            trail.add(more).await;
        }
        let told = other().tell(&trail.store()).await.remove(0).1.unwrap();
        let found = stamps(&other()).await.unwrap();
        assert_eq!((found.count, found.unreadable, Some(found.at)), (count, 0, told.at));
        assert_eq!(found.entries, told.entries);
        let line = found.check.replace("CA.pem", "ca.pem");
        assert!(run(&folder, "sh", &["-c", &format!("{line} 2>&1")]).ends_with("Verification: OK"));
    }
    assert!(other().kept(&trail.store()).await.is_empty(), "nobody else keeps what is stamped");
    // An answer to another request is none, and nothing is kept of it.
    *instead.lock().unwrap() = Some(fs::read(folder.join("reply")).unwrap());
    trail.add(1).await;
    let told = other().tell(&trail.store()).await.remove(0).1;
    assert!(matches!(told, Err(WitnessError::Stamp(StampError::Imprint))), "{told:?}");
    *instead.lock().unwrap() = Some(b"<html>".to_vec());
    let told = other().tell(&trail.store()).await.remove(0).1;
    assert!(matches!(told, Err(WitnessError::Stamp(StampError::Form))), "{told:?}");
    assert_eq!(stamps(&other()).await.unwrap().count, 2);
    trail.put_back(old.path());
    assert!(matches!(stamps(&other()).await, Err(WitnessError::CutOff { known: 10, found: 3 })));
    trail.add(50).await;
    let told = other().tell(&trail.store()).await.remove(0).1;
    assert!(matches!(told, Err(WitnessError::Rewritten { found: 53 })), "{told:?}");
}

#[test]
fn what_can_be_no_witness_is_refused_with_its_place() {
    for (witness, message) in [
        ("{ to: '' }", "must be a text that is not empty"),
        ("{ to: /mnt/w, key: x }", "`key` is for a server"),
        ("{ to: /mnt/w, ca_file: x }", "`ca_file` is for a server"),
        ("{ to: 'https://w.example' }", "could be anybody"),
        ("{ to: 'http://w.example', key: x }", "unencrypted"),
        ("{ to: 'ftp://w.example', key: x }", "a folder or an address"),
        ("{ to: 'https://a:b@w.example', key: x }", "a user or a password"),
        ("{ to: 'https://w.example', key: 'w+00000000+AAAA' }", "is no key of a witness"),
        ("{ to: /mnt/w, keep: x }", "`keep` is for an authority that stamps, and `to` is a folder"),
        ("{ to: 'git+ssh://w.example/t', keep: x }", "`keep` is for an authority that stamps"),
        ("{ to: 'git+https://w.example/t', ssh_key: x }", "`ssh_key` is for a Git repository over SSH"),
        ("{ to: 'git+ssh://w.example/t', ca_file: x }", "`ca_file` is for a server"),
        ("{ to: 'git+ssh://a:b@w.example/t' }", "must not hold a password"),
        ("{ to: 'git+https://token@w.example/t' }", "must not hold a password"),
        ("{ to: 'git+ext://sh/x' }", "the address of a Git repository"),
        ("{ to: 'git+http://w.example/t' }", "the address of a Git repository"),
        ("{ to: 'git+ssh://-oProxyCommand=x/t' }", "the address of a Git repository"),
        ("{ to: 'git+ssh://w.example' }", "the address of a Git repository"),
        ("{ to: 'rfc3161+https://t.example/tsr' }", "time stamps need `keep`"),
        ("{ to: 'rfc3161+http://t.example/tsr', keep: x }", "unencrypted"),
        ("{ to: 'rfc3161+https://t.example/tsr', keep: x, key: x }", "`key` is for a server"),
    ] {
        let yaml = format!("audit: {{ witness: [{witness}] }}");
        let refused = match loaded(&yaml) {
            Err(refused) => refused,
            Ok(loaded) => Witnesses::of(&loaded, &data).unwrap_err(),
        };
        let refused = refused.to_string();
        assert!(refused.contains(message) && refused.contains("backstop.yaml:1:"), "{witness}: {refused}");
    }
}
