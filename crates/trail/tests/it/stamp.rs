//! Time stamps by a real authority: `openssl ts`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use backstop_trail::{Copies, SignedCheckpoint, Stamp, StampError, StampRequest, Stamped, now, stamp_check};
use tempfile::TempDir;

use crate::support::{Place, drafts};

/// An authority with a certificate of its own.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let authority = Self(TempDir::new().unwrap());
        let settings = "[req]\ndistinguished_name=n\nprompt=no\nx509_extensions=e\n[n]\nCN=stamps.example\n\
            [e]\nbasicConstraints=critical,CA:TRUE\nextendedKeyUsage=critical,timeStamping\n\
            [tsa]\ndefault_tsa=t\n[t]\nserial=serial\nsigner_cert=ca.pem\nsigner_key=key.pem\nsigner_digest=sha256\n\
            default_policy=1.2.3.4\ndigests=sha256\naccuracy=secs:1\nordering=yes\ntsa_name=yes\ness_cert_id_alg=sha256\n";
        fs::write(authority.path("settings"), settings).unwrap();
        authority.openssl(&[
            "req",
            "-x509",
            "-config",
            "settings",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            "key.pem",
            "-out",
            "ca.pem",
            "-days",
            "2",
        ]);
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("openssl");
        let done = command.current_dir(self.0.path()).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn answer(&self, query: &[u8]) -> Vec<u8> {
        fs::write(self.path("query"), query).unwrap();
        self.openssl(&[
            "ts",
            "-reply",
            "-config",
            "settings",
            "-section",
            "t",
            "-queryfile",
            "query",
            "-out",
            "reply",
        ]);
        fs::read(self.path("reply")).unwrap()
    }
}

fn checkpoint() -> SignedCheckpoint {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    log.checkpoint().unwrap()
}

/// Runs the command that is printed.
fn is_sound(authority: &Authority, checkpoint: &Path, answer: &Path) -> bool {
    let line = stamp_check(checkpoint, answer).replace("CA.pem", "ca.pem");
    let done = Command::new("sh").current_dir(authority.0.path()).args(["-c", &line]).output().unwrap();
    done.status.success()
}

#[test]
fn a_real_authority_stamps_a_checkpoint_and_openssl_checks_what_was_kept() {
    let (authority, note) = (Authority::new(), checkpoint());
    let request = StampRequest::new(&note).unwrap();
    let answer = authority.answer(&request.to_der());
    let query = authority.openssl(&["ts", "-query", "-in", "query", "-text"]);
    for line in ["Version: 1", "Hash Algorithm: sha256", "Certificate required: yes", "Nonce: 0x"] {
        assert!(query.contains(line), "{query}");
    }
    let stamp = request.check(&answer).unwrap();
    assert!((stamp.at - now() / 1000).abs() < 600, "{stamp:?}");
    assert_eq!(Stamp::read(&answer, &note).unwrap(), stamp);
    let folder = authority.path("it's kept");
    fs::create_dir(&folder).unwrap();
    let (copies, origin) = (Copies::new(&folder), note.checkpoint().origin.clone());
    assert_eq!(copies.stamped(&origin).unwrap(), (vec![], 0));
    assert!(copies.add_stamp(&note, &answer).unwrap() && !copies.add_stamp(&note, &answer).unwrap());
    let (stamped, unreadable) = copies.stamped(&origin).unwrap();
    let [Stamped { note: kept, stamp: found, checkpoint, answer: token }] = stamped.as_slice() else {
        panic!("{stamped:?}")
    };
    assert_eq!((kept, *found, unreadable, fs::read(token).unwrap()), (&note, stamp, 0, answer));
    assert!(is_sound(&authority, checkpoint, token));
    // What was changed is not read as a stamp, and the line that is printed finds it.
    fs::remove_file(checkpoint).unwrap();
    let other = note.with_signatures("— w.example AAAAAAAA\n").unwrap();
    fs::write(checkpoint, other.to_string()).unwrap();
    assert!(!is_sound(&authority, checkpoint, token));
    assert_eq!(copies.stamped(&origin).unwrap(), (vec![], 1));
}

#[test]
fn a_stamp_of_something_else_or_for_another_is_none() {
    let (authority, note, other) = (Authority::new(), checkpoint(), checkpoint());
    let request = StampRequest::new(&note).unwrap();
    let answer = authority.answer(&request.to_der());
    let again = StampRequest::new(&note).unwrap();
    assert_eq!(again.check(&answer), Err(StampError::Nonce));
    assert_eq!(StampRequest::new(&other).unwrap().check(&answer), Err(StampError::Imprint));
    assert_eq!(Stamp::read(&answer, &other), Err(StampError::Imprint));
    // What it can't stamp it refuses, in the form of an answer.
    let mut bad = request.to_der();
    bad[15] ^= 1;
    fs::write(authority.path("query"), &bad).unwrap();
    let refused = authority.answer(&bad);
    assert_eq!(request.check(&refused), Err(StampError::Status(2)));
}

#[test]
fn no_part_of_an_answer_is_one() {
    let (authority, note) = (Authority::new(), checkpoint());
    let request = StampRequest::new(&note).unwrap();
    let answer = authority.answer(&request.to_der());
    for cut in 0..answer.len() {
        assert!(request.check(&answer[..cut]).is_err(), "{cut}");
    }
    let longer = [&answer[..], &[0]].concat();
    assert_eq!(request.check(&longer), Err(StampError::Form));
    // Whatever byte is changed, what is read is the same but for the time itself; whether that is the authority's is for openssl to say.
    let sound = request.check(&answer).unwrap();
    let time = answer.windows(4).position(|bytes| bytes == b"\x18\x0f20").unwrap();
    let mut read = 0;
    for at in 0..answer.len() {
        let mut changed = answer.clone();
        changed[at] ^= 1;
        if let Ok(stamp) = request.check(&changed) {
            assert!(stamp == sound || (time..time + 17).contains(&at), "byte {at}");
            read += 1;
        }
    }
    assert!(read > 0, "signatures are not checked here");
}
