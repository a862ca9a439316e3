//! A process that shuts itself in, once and for good, before it runs what nobody trusts.
//!
//! The other walls of this crate are around programs that do their work outside of a few protected places; these are around a process of
//! ours that needs next to nothing: what is not named in its [`Opening`] is closed. It must have one thread only, since most of this
//! holds for the thread that does it and for those that it starts.
//!
//! What the system can't do is told by name ([`shut_in`]), and the rest stands all the same: who calls this decides whether that is enough.
//!
//! Limits: the kernel knows no names of hosts, so the network is open as a whole or not at all. Sockets that have a place on the disk can be
//! connected to by whoever may write them.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, set_no_new_privs};

use crate::mounts::{keep_own_name, unshare};
use crate::shut_in_opening::{Gap, Opening};

/// What can be done with the content of files and with names in folders.
const READING: BitFlags<AccessFs> = landlock::make_bitflags!(AccessFs::{ReadFile | ReadDir});
/// What else where files may be made and changed. Devices, pipes, sockets and links are not made.
const WRITING: BitFlags<AccessFs> = landlock::make_bitflags!(AccessFs::{WriteFile | Truncate | RemoveDir | RemoveFile | MakeDir | MakeReg | Refer});
/// Of these, what a file can have.
const OF_FILES: BitFlags<AccessFs> = landlock::make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate});
/// What root keeps: the rights to its files, and none over the system.
const OF_ROOT: [CapabilitySet; 4] = [
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::DAC_READ_SEARCH,
    CapabilitySet::FOWNER,
    CapabilitySet::CHOWN,
];
/// How many files may be open at once.
const MOST_OPEN: u64 = 512;

/// Shuts this process in, which must have one thread only, and says which of the walls this system can't build.
///
/// # Errors
///
/// Where a wall that there is can't be built, or a bound can't be set. Some may stand then; the process is to end.
pub fn shut_in(opening: &Opening) -> io::Result<Vec<Gap>> {
    bound(Resource::Core, 0)?;
    bound(Resource::Nofile, MOST_OPEN)?;
    if let Some(bytes) = opening.memory {
        bound(Resource::Data, bytes)?;
    }
    let mut gaps = Vec::new();
    if !opening.network && leave_network().is_err() {
        gaps.push(Gap::Datagrams);
    }
    gaps.extend(wall_off(opening)?);
    drop_rights()?;
    Ok(gaps)
}

/// Never more than there was.
fn bound(what: Resource, most: u64) -> io::Result<()> {
    let before = getrlimit(what);
    let lower = |now: Option<u64>| Some(now.map_or(most, |now| now.min(most)));
    setrlimit(what, Rlimit { current: lower(before.current), maximum: lower(before.maximum) })?;
    Ok(())
}

/// Leaves the network for one in which there is nothing, not even a loopback.
fn leave_network() -> io::Result<()> {
    if geteuid().is_root() && unshare(UnshareFlags::NEWNET).is_ok() {
        return Ok(());
    }
    let (user, group) = (geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWNET | UnshareFlags::NEWUSER)?;
    // Without its own name it is nobody, and may do as much with its files.
    let _ = keep_own_name(user, group);
    Ok(())
}

/// Builds those walls that the kernel has. They are one set of rules: what one set does not speak of, such as moving files between folders,
/// others may not allow.
fn wall_off(opening: &Opening) -> io::Result<Vec<Gap>> {
    let mut gaps = Vec::new();
    let mut rules = strict();
    let files = [ABI::V3, ABI::V2, ABI::V1].map(AccessFs::from_all).into_iter();
    let files = files.clone().find(|all| has(strict().handle_access(*all)));
    if let Some(all) = files {
        rules = rules.handle_access(all).map_err(refused)?;
        // Before the third version files could always be cut.
        gaps.extend((!all.contains(AccessFs::Truncate)).then_some(Gap::Lengths));
    } else {
        gaps.push(Gap::Files);
    }
    let connections = AccessNet::from_all(ABI::V4);
    let closes_network = !opening.network && has(strict().handle_access(connections));
    if closes_network {
        rules = rules.handle_access(connections).map_err(refused)?;
    } else if !opening.network {
        gaps.push(Gap::Connections);
    }
    let scopes = Scope::Signal | Scope::AbstractUnixSocket;
    let keeps_off_others = has(strict().scope(scopes));
    if keeps_off_others {
        rules = rules.scope(scopes).map_err(refused)?;
    } else {
        gaps.push(Gap::Others);
    }
    if files.is_none() && !closes_network && !keeps_off_others {
        return Ok(gaps);
    }
    let mut rules = rules.create().map_err(refused)?;
    if let Some(all) = files {
        rules = open(rules, &opening.read, READING & all)?;
        rules = open(rules, &opening.write, (READING | WRITING) & all)?;
    }
    enforce(rules)?;
    Ok(gaps)
}

/// Whether the kernel has this. Nothing is walled off by asking.
fn has(rules: Result<Ruleset, RulesetError>) -> bool {
    rules.and_then(Ruleset::create).is_ok()
}

fn open(rules: RulesetCreated, paths: &[PathBuf], access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let mut rules = rules;
    for path in paths {
        // What is not there needs no opening.
        let Ok(opened) = PathFd::new(path) else { continue };
        let allowed = if Path::is_dir(path) { access } else { access & OF_FILES };
        rules = rules.add_rule(PathBeneath::new(opened, allowed)).map_err(refused)?;
    }
    Ok(rules)
}

fn strict() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

fn refused(error: RulesetError) -> io::Error {
    io::Error::other(error)
}

fn enforce(rules: RulesetCreated) -> io::Result<()> {
    let status = rules.restrict_self().map_err(refused)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(io::Error::other("the kernel enforces a part only")),
    }
}

fn drop_rights() -> io::Result<()> {
    set_no_new_privs(true)?;
    let now = rustix::thread::capabilities(None)?;
    let all = OF_ROOT.into_iter().fold(CapabilitySet::empty(), |all, one| all | one);
    let kept = if geteuid().is_root() { now.permitted & all } else { CapabilitySet::empty() };
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
    use std::process::Command;

    use super::*;

    /// What a thread comes to that is shut in.
    fn inside<T: Send + 'static>(opening: Opening, act: impl FnOnce(Vec<Gap>) -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(move || {
            let gaps = shut_in(&opening).unwrap();
            act(gaps)
        });
        thread.join().unwrap()
    }

    #[test]
    fn without_an_opening_there_is_no_file_no_program_no_network_and_no_signal() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "text").unwrap();
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&other);
        let at = folder.path().to_owned();
        let (gaps, done) = inside(Opening::default(), move |gaps| {
            let done = [
                (Gap::Files, fs::read(&file).is_ok()),
                (Gap::Files, fs::read("/etc/passwd").is_ok()),
                (Gap::Files, fs::read("/proc/self/environ").is_ok()),
                (Gap::Files, fs::read_dir("/").is_ok()),
                (Gap::Files, fs::write(&file, "other").is_ok()),
                (Gap::Files, fs::write(at.join("new"), "other").is_ok()),
                (Gap::Files, fs::remove_file(&file).is_ok()),
                (Gap::Files, Command::new("/bin/true").status().is_ok()),
                (Gap::Connections, TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()),
                (Gap::Connections, TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).is_ok()),
                (Gap::Datagrams, {
                    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
                    socket.is_ok_and(|socket| socket.send_to(b"x", (Ipv4Addr::LOCALHOST, port)).is_ok())
                }),
                (Gap::Others, rustix::process::kill_process(pid, rustix::process::Signal::TERM).is_ok()),
            ];
            (gaps, done)
        });
        let _ = other.kill();
        let _ = other.wait();
        for (at, (gap, is_done)) in done.into_iter().enumerate() {
            assert!(!is_done || gaps.contains(&gap), "{at}: {gaps:?}");
        }
        assert!(gaps.contains(&Gap::Files) || folder.path().join("file").exists());
    }

    #[test]
    fn what_is_opened_is_open_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let [read, write, beside] = ["read", "write", "beside"].map(|name| folder.path().join(name));
        for at in [&read, &write, &beside] {
            fs::create_dir(at).unwrap();
            fs::write(at.join("file"), "text").unwrap();
        }
        let opening = Opening {
            read: vec![read.clone(), folder.path().join("none")],
            write: vec![write.clone()],
            ..Opening::default()
        };
        inside(opening, move |gaps| {
            if gaps.contains(&Gap::Files) {
                return;
            }
            assert_eq!(fs::read_to_string(read.join("file")).unwrap(), "text");
            assert!(fs::read_dir(&read).is_ok() && fs::write(read.join("file"), "x").is_err());
            fs::write(write.join("file"), "x").unwrap();
            fs::create_dir(write.join("made")).unwrap();
            fs::rename(write.join("file"), write.join("made/file")).unwrap();
            fs::remove_dir_all(write.join("made")).unwrap();
            assert!(std::os::unix::fs::symlink("/", write.join("link")).is_err());
            assert!(fs::read(beside.join("file")).is_err());
        });
    }

    #[test]
    fn a_network_that_is_needed_stays() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        inside(Opening { network: true, ..Opening::default() }, move |gaps| {
            assert!(!gaps.contains(&Gap::Connections) && !gaps.contains(&Gap::Datagrams));
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        });
    }

    #[test]
    fn bounds_are_never_raised() {
        inside(Opening { memory: Some(u64::MAX / 2), ..Opening::default() }, |_| {
            let data = getrlimit(Resource::Data).maximum;
            assert!(data.is_some_and(|most| most <= u64::MAX / 2));
            assert_eq!(getrlimit(Resource::Core).maximum, Some(0));
            assert!(bound(Resource::Nofile, 10_000).is_ok());
            assert!(getrlimit(Resource::Nofile).maximum.is_some_and(|most| most <= MOST_OPEN));
        });
    }
}
