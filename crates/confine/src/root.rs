//! What root reaches besides files: devices, settings of the kernel, rights.
//!
//! Walls are laid over files, and none of these is one: a disk can be read as a device, and a line in `/proc/sys` starts a program of root's outside. INVARIANT (what is
//! harmless is listed): what stays are the devices, the file systems and the rights that are named here, and whatever else there is or will be does not open.
//!
//! Limit: who may read a disk without being root (the group `disk`) reads around the walls.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, major, minor};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_bind};
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use crate::mount_table::{Mounted, add_flags, mount_table};
use crate::mounts::{MountError, failed, on_itself};

/// The rights that change only what root may do with its own files and processes, which the walls are around. With any other one, such as `CAP_SYS_ADMIN`, a wall could be taken
/// down or reached around. `CAP_PERFMON` reads the environment of every process since Linux 6.13 (`may_access_mm` in kernel/fork.c), `CAP_NET_RAW` what passes on the loopback, with
/// `CAP_NET_ADMIN` a port is somebody else's, with `CAP_SETUID` one is a user whose processes outside show their view of the disk (`/proc/PID/root`), and `CAP_SYS_CHROOT` leads out of a
/// folder that is the root here, to mounts that are not in sight.
const RIGHTS: [CapabilitySet; 11] = [
    CapabilitySet::CHOWN,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::FOWNER,
    CapabilitySet::FSETID,
    CapabilitySet::KILL,
    CapabilitySet::SETPCAP,
    CapabilitySet::NET_BIND_SERVICE,
    CapabilitySet::IPC_LOCK,
    CapabilitySet::SYS_NICE,
    CapabilitySet::AUDIT_WRITE,
    CapabilitySet::SETFCAP,
];

const DEV: &str = "/dev";
/// A folder in it where programs put files.
const SHARED: &str = "/dev/shm";

/// Devices that give what belongs to nobody, or to who opens them alone, by name and number
/// (Documentation/admin-guide/devices.txt of Linux).
const DEVICES: [(&str, (u32, u32)); 8] = [
    ("null", (1, 3)),
    ("zero", (1, 5)),
    ("full", (1, 7)),
    ("random", (1, 8)),
    ("urandom", (1, 9)),
    ("tty", (5, 0)),
    ("fuse", (10, 229)),
    ("kvm", (10, 232)),
];

/// What gives out new terminals.
const TERMINALS: (u32, u32) = (5, 2);

/// What the names of devices that compute begin with. Their numbers are given out anew on each machine.
const COMPUTING: [&str; 5] = ["dri/renderD", "nvidia", "nvidia-caps/", "kfd", "dxg"];

/// File systems without a disk of their own that hold nothing but files. One that is missing here can be read only.
const FILES: [&str; 29] = [
    "9p",
    "afs",
    "aufs",
    "bcachefs",
    "beegfs",
    "btrfs",
    "ceph",
    "cifs",
    "devpts",
    "devtmpfs",
    "ecryptfs",
    "gpfs",
    "hostfs",
    "hugetlbfs",
    "lustre",
    "mqueue",
    "nfs",
    "nfs4",
    "orangefs",
    "overlay",
    "prl_fs",
    "ramfs",
    "smb3",
    "tmpfs",
    "ubifs",
    "vboxsf",
    "virtiofs",
    "vmhgfs",
    "zfs",
];

/// Closes what is reached without files. For who is not root the rights of a device and of a setting stand in the way already, but not those of their own terminals.
pub(crate) fn close_devices_and_settings() -> Result<(), MountError> {
    close_terminals()?;
    if !geteuid().is_root() {
        return Ok(());
    }
    let mut kept = harmless_devices();
    for device in &kept {
        on_itself(device)?;
    }
    // This one looks for the terminals beside it, which it does not find where it is mounted on itself
    // (`path_pts` in fs/namei.c of Linux); theirs does not have to look.
    let (asked, own) = (Path::new("/dev/ptmx"), Path::new("/dev/pts/ptmx"));
    if number_of(asked) == Some(TERMINALS) && number_of(own) == Some(TERMINALS) {
        mount_bind(own, asked).map_err(failed(asked.display().to_string()))?;
        kept.insert(asked.to_path_buf());
    }
    let mut table = mount_table()?;
    let own: Vec<PathBuf> = [DEV, SHARED]
        .map(PathBuf::from)
        .into_iter()
        .filter(|path| path.is_dir() && !table.contains_key(path))
        .collect();
    if !own.is_empty() {
        // They are to be closed by themselves, and not with what they lie in.
        own.iter().try_for_each(|path| on_itself(path))?;
        table = mount_table()?;
    }
    let is_setting =
        |mounted: &Mounted| mounted.is_virtual() && !is_files(&mounted.kind) && !shows_processes(mounted);
    let settings: BTreeSet<&PathBuf> =
        table.iter().filter(|(_, mounted)| is_setting(mounted)).map(|(point, _)| point).collect();
    for (point, mounted) in &table {
        let mut more = MountFlags::empty();
        // Where containers mask a file, they mount a harmless device over it.
        if mounted.kind != "devpts" && !kept.contains(point) && !is_harmless(point) {
            more |= MountFlags::NODEV;
        }
        // A device that got another name there would pass for one that computes.
        let has_devices = mounted.kind == "devtmpfs" || point == Path::new(DEV);
        if has_devices || point.ancestors().any(|above| settings.contains(&above.to_path_buf())) {
            more |= MountFlags::RDONLY;
        }
        add_flags(point, mounted, more)?;
    }
    // Each is looked at anew: what was mounted in it has changed.
    table
        .iter()
        .filter(|(_, mounted)| shows_processes(mounted))
        .try_for_each(|(point, _)| close_settings(point))
}

/// Returns whether something belongs to processes there, which they change, besides the settings of the kernel.
fn shows_processes(mounted: &Mounted) -> bool {
    mounted.kind == "proc" && mounted.is_whole()
}

fn is_files(kind: &str) -> bool {
    FILES.contains(&kind) || kind == "fuseblk" || kind == "fuse" || kind.starts_with("fuse.")
}

/// Lets nothing in a view of the processes be changed but what belongs to one of them.
fn close_settings(proc: &Path) -> Result<(), MountError> {
    let what = || proc.display().to_string();
    let mut settings = BTreeSet::new();
    let entries = match fs::read_dir(proc) {
        // Something else is mounted above it.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        found => found.map_err(failed(what()))?,
    };
    for entry in entries {
        let entry = entry.map_err(failed(what()))?;
        let is_process = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        // One that is gone by now was that of a driver, or that of a process.
        let Ok(met) = entry.metadata() else { continue };
        if !is_process && !met.is_symlink() && (met.is_dir() || met.mode() & 0o222 != 0) {
            settings.insert(entry.path());
        }
    }
    for setting in &settings {
        on_itself(setting)?;
    }
    for (point, mounted) in mount_table()? {
        if point.ancestors().any(|above| settings.contains(above)) {
            add_flags(&point, &mounted, MountFlags::RDONLY)?;
        }
    }
    Ok(())
}

/// Returns the devices that stay: those that are harmless, and the terminal that the program has anyway.
fn harmless_devices() -> BTreeSet<PathBuf> {
    let dev = Path::new(DEV);
    let mut kept: BTreeSet<PathBuf> =
        DEVICES.iter().map(|(name, _)| dev.join(name)).filter(|path| is_harmless(path)).collect();
    for folder in [dev.to_path_buf(), dev.join("dri"), dev.join("nvidia-caps")] {
        let found = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let computes = |path: &PathBuf| {
            let name = path.strip_prefix(dev).ok().and_then(Path::to_str).unwrap_or_default();
            COMPUTING.iter().any(|begin| name.starts_with(begin)) && number_of(path).is_some()
        };
        kept.extend(found.filter(computes));
    }
    kept.extend(own_terminals());
    kept
}

fn is_harmless(path: &Path) -> bool {
    let number = number_of(path);
    DEVICES.iter().any(|(_, harmless)| Some(*harmless) == number)
}

/// The terminals that are open here, and stay so behind the walls.
fn own_terminals() -> impl Iterator<Item = PathBuf> {
    let terminals = [io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal()];
    let open = (0..).zip(terminals).filter(|(_, is_terminal)| *is_terminal);
    let named = open.filter_map(|(number, _): (u8, _)| fs::read_link(format!("/proc/self/fd/{number}")).ok());
    named.filter(|path| path.starts_with("/dev") && number_of(path).is_some())
}

/// Lets nobody read what is typed into another terminal, which may be where people answer, nor write there. Those that are opened later are not
/// known.
fn close_terminals() -> Result<(), MountError> {
    let own: BTreeSet<PathBuf> = own_terminals().collect();
    let entries =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_number = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    let mut others: Vec<PathBuf> = Vec::new();
    for (point, _) in mount_table()?.iter().filter(|(_, mounted)| mounted.kind == "devpts") {
        others.extend(entries(point).filter(is_number));
    }
    // The screens of this machine belong to who sits there. To root they are closed with the other devices.
    let is_open_screen = |path: &PathBuf| {
        number_of(path).is_some_and(|(major, minor)| major == 4 && minor < 64)
            && access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
    };
    if !geteuid().is_root() {
        others.extend(entries(Path::new(DEV)).filter(is_open_screen));
    }
    let nothing = Path::new("/dev/null");
    for path in others.iter().filter(|path| !own.contains(*path)) {
        match mount_bind(nothing, path) {
            // It was closed meanwhile.
            Err(Errno::NOENT) if is_harmless(nothing) => {}
            done => done.map_err(failed(path.display().to_string()))?,
        }
    }
    Ok(())
}

/// The number of a device that is no disk.
fn number_of(path: &Path) -> Option<(u32, u32)> {
    let met = path.symlink_metadata().ok()?;
    met.file_type().is_char_device().then(|| (major(met.rdev()), minor(met.rdev())))
}

/// Gives up all rights but [`RIGHTS`], for this process and whatever it becomes.
pub(crate) fn drop_rights() -> Result<(), MountError> {
    let failed = failed("dropping rights of root");
    let drop = || {
        // What is inherited from who started this would outlive the bound.
        let held = capabilities(None)?;
        set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::empty(), ..held })?;
        // By number: a newer kernel has rights that have no name here.
        let rights = (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number));
        for right in rights.filter(|right| !RIGHTS.contains(right)) {
            match remove_capability_from_bounding_set(right) {
                // This kernel does not know so many.
                Ok(()) | Err(Errno::INVAL) => {}
                // Root of a container may keep none of them, and whoever may drop none may have lost them before.
                Err(Errno::PERM)
                    if !geteuid().is_root() || !capability_is_in_bounding_set(right).unwrap_or(true) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    drop().map_err(failed)
}
