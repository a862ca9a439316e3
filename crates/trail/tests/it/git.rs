//! Checkpoints on a branch of a real repository elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use backstop_trail::{GitBranches, GitError, GitSettings, SignedCheckpoint};

use crate::support::{Place, drafts};

/// A repository elsewhere, bare.
fn repository(place: &Place) -> PathBuf {
    let folder = place.path().join("elsewhere.git");
    git(place.path(), &["init", "--quiet", "--bare", "elsewhere.git"]);
    for setting in ["receive.denyNonFastForwards", "receive.denyDeletes"] {
        git(&folder, &["config", setting, "true"]);
    }
    folder
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").args(arguments);
    for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
        command.env(format!("{who}_NAME"), "x").env(format!("{who}_EMAIL"), "x");
    }
    let done = command.output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

fn branches(repository: &Path) -> GitBranches {
    let url = format!("file://{}", repository.display());
    GitBranches::new(settings(&url, Duration::from_mins(1)))
}

fn settings(url: &str, budget: Duration) -> GitSettings {
    GitSettings { url: url.to_owned(), ssh_key: None, known_hosts: None, authorities: None, budget }
}

fn signed(place: &Place, more: u64) -> SignedCheckpoint {
    let mut log = place.open();
    log.append(&drafts(more)).unwrap();
    log.checkpoint().unwrap()
}

fn sizes(notes: &[SignedCheckpoint]) -> Vec<u64> {
    notes.iter().map(|note| note.checkpoint().size).collect()
}

/// The only branch there.
fn branch(repository: &Path) -> String {
    git(repository, &["for-each-ref", "--format=%(refname)"])
}

#[test]
fn checkpoints_are_added_one_behind_the_other_and_read_back() {
    let place = Place::new();
    let elsewhere = repository(&place);
    let (ours, theirs) = (branches(&elsewhere), branches(&elsewhere));
    let first = signed(&place, 3);
    let origin = first.checkpoint().origin.clone();
    let none = ours.newest(&origin).unwrap();
    assert_eq!((sizes(&none.notes), none.unreadable, none.is_cut), (vec![], 0, false));
    ours.add(none, &first).unwrap();
    for (by, more) in [(&ours, 2), (&theirs, 4), (&ours, 1)] {
        let newest = by.newest(&origin).unwrap();
        assert_eq!(newest.notes.len(), 1);
        by.add(newest, &signed(&place, more)).unwrap();
    }
    let all = theirs.all(&origin).unwrap();
    assert_eq!((sizes(&all.notes), all.unreadable, all.is_cut), (vec![10, 9, 5, 3], 0, false));
    assert_eq!(all.notes[3], first);
    assert_eq!(sizes(&branches(&elsewhere).all("another/log").unwrap().notes), Vec::<u64>::new());
    let log = git(&elsewhere, &["log", "--format=%s", &branch(&elsewhere)]);
    assert_eq!(log.lines().next(), Some("checkpoint of 10 entries"));
    let file = git(&elsewhere, &["show", &format!("{}:checkpoint", branch(&elsewhere))]);
    assert_eq!(format!("{file}\n"), all.notes[0].to_string(), "anybody can read it with git");
}

#[test]
fn of_two_who_push_at_once_one_is_told() {
    let place = Place::new();
    let elsewhere = repository(&place);
    // One that would let itself be forced.
    git(&elsewhere, &["config", "receive.denyNonFastForwards", "false"]);
    let (ours, theirs) = (branches(&elsewhere), branches(&elsewhere));
    let note = signed(&place, 3);
    let origin = &note.checkpoint().origin;
    for _ in 0..2 {
        let (one, two) = (ours.newest(origin).unwrap(), theirs.newest(origin).unwrap());
        ours.add(one, &note).unwrap();
        let raced = theirs.add(two, &signed(&place, 1));
        assert!(matches!(raced, Err(GitError::Raced(_))), "{raced:?}");
        let again = theirs.newest(origin).unwrap();
        theirs.add(again, &signed(&place, 1)).unwrap();
        // What the other has added since is behind what this one left.
        assert!(ours.newest(origin).is_ok());
    }
    assert_eq!(ours.all(origin).unwrap().notes.len(), 4);
}

#[test]
fn a_branch_that_was_written_anew_or_removed_is_told() {
    let place = Place::new();
    let elsewhere = repository(&place);
    let ours = branches(&elsewhere);
    let note = signed(&place, 3);
    let origin = note.checkpoint().origin.clone();
    let add = |by: &GitBranches| by.add(by.newest(&origin).unwrap(), &signed(&place, 1)).unwrap();
    (0..3).for_each(|_| add(&ours));
    // Whoever may do anything there goes back by one, and adds others.
    let (name, before) = (branch(&elsewhere), git(&elsewhere, &["rev-parse", &branch(&elsewhere)]));
    git(&elsewhere, &["update-ref", &name, &format!("{before}~1")]);
    assert!(matches!(ours.newest(&origin), Err(GitError::Rewound(_))));
    add(&branches(&elsewhere));
    assert!(matches!(ours.newest(&origin), Err(GitError::Rewound(_))));
    assert!(matches!(ours.all(&origin), Err(GitError::Rewound(_))));
    git(&elsewhere, &["update-ref", "-d", &name]);
    assert!(matches!(ours.newest(&origin), Err(GitError::Rewound(_))));
    // As it was, all is well.
    git(&elsewhere, &["update-ref", &name, &before]);
    add(&ours);
}

#[test]
fn commits_without_a_checkpoint_are_counted() {
    let place = Place::new();
    let elsewhere = repository(&place);
    let ours = branches(&elsewhere);
    let note = signed(&place, 3);
    let origin = &note.checkpoint().origin;
    ours.add(ours.newest(origin).unwrap(), &note).unwrap();
    let (name, tree) = (branch(&elsewhere), git(&elsewhere, &["mktree", "--missing"]));
    let commit = git(&elsewhere, &["commit-tree", &tree, "-p", &name, "-m", "x"]);
    git(&elsewhere, &["update-ref", &name, &commit]);
    let newest = ours.newest(origin).unwrap();
    assert_eq!((newest.notes.len(), newest.unreadable), (0, 1));
    ours.add(newest, &signed(&place, 1)).unwrap();
    let all = branches(&elsewhere).all(origin).unwrap();
    assert_eq!((sizes(&all.notes), all.unreadable), (vec![4, 3], 1));
}

#[test]
fn what_refuses_is_told_and_no_program_of_the_account_runs() {
    let place = Place::new();
    let elsewhere = repository(&place);
    let note = signed(&place, 3);
    let origin = &note.checkpoint().origin;
    let missing = branches(&place.path().join("nowhere.git")).newest(origin);
    assert!(matches!(missing, Err(GitError::Failed { what: "ls-remote", .. })), "{missing:?}");
    // A repository may refuse; its words are shown.
    let hook = elsewhere.join("hooks/pre-receive");
    fs::create_dir_all(elsewhere.join("hooks")).unwrap();
    fs::write(&hook, "#!/bin/sh\necho 'not today' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let ours = branches(&elsewhere);
    let refused = ours.add(ours.newest(origin).unwrap(), &note);
    let Err(GitError::Failed { what: "push", said }) = refused else { panic!("{refused:?}") };
    assert!(said.contains("not today"), "{said}");
    // Another protocol, and one that runs programs, is none that is spoken.
    for url in ["ext::sh -c touch% x", "-upload-pack=x", "ftp://127.0.0.1:9/x"] {
        let settings = settings(url, Duration::from_mins(1));
        assert!(matches!(GitBranches::new(settings).newest(origin), Err(GitError::Failed { .. })), "{url}");
    }
}

#[test]
fn a_server_that_never_answers_holds_nobody_and_what_was_started_ends() {
    use std::io::Read as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x.git", listener.local_addr().unwrap());
    let silent = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        // Ends when the program is gone that asked.
        stream.read_to_end(&mut asked).unwrap();
        asked
    });
    let found = GitBranches::new(settings(&url, Duration::from_secs(3))).newest("a/log");
    assert!(matches!(found, Err(GitError::Slow)), "{found:?}");
    assert!(silent.join().unwrap().starts_with(b"GET /x.git/info/refs"));
}
