//! Walls, by what a program can't do behind those of each tier. Every program here is a shell that tries to write into files of the test.

use std::path::Path;
use std::process::{Command, Stdio};

use super::support::{BACKSTOP, Done, done};

/// The walls of a launcher, and a program behind them.
struct Walled<'a> {
    how: &'static str,
    read_only: &'a [&'a Path],
    hidden: &'a [&'a Path],
    writable: &'a [&'a Path],
}

impl Walled<'_> {
    fn run(&self, folder: &Path, script: &str) -> Done {
        let mut command = Command::new(BACKSTOP);
        self.command(&mut command, script).current_dir(folder);
        done(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// As somebody who has no right to make mounts of their own without a user namespace.
    fn run_without_rights(&self, folder: &Path, script: &str) -> Done {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", BACKSTOP]);
        self.command(&mut command, script).current_dir(folder);
        done(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn command<'c>(&self, command: &'c mut Command, script: &str) -> &'c mut Command {
        command.args(["confined", self.how]);
        for (option, paths) in
            [("--read-only", self.read_only), ("--hidden", self.hidden), ("--writable", self.writable)]
        {
            for path in paths {
                command.arg(option).arg(path);
            }
        }
        command.args(["--", "sh", "-c", script])
    }
}

const TIERS: [&str; 2] = ["--mount-walls", "--keep-files"];

/// A home with a protected file and a secret one, and a place to work in.
pub(super) fn scene() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for folder in ["agent", "data", "work"] {
        std::fs::create_dir(home.path().join(folder)).unwrap();
    }
    std::fs::write(home.path().join("agent/settings"), "guarded").unwrap();
    std::fs::write(home.path().join("agent/state"), "old").unwrap();
    std::fs::write(home.path().join("data/rows"), "hush").unwrap();
    home
}

pub(super) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Ways to put something else where a protected file is. Each ends with the name of the file's content, if it could.
const WAYS: [&str; 12] = [
    "echo evil > ../agent/settings",
    "echo evil >> ../agent/settings",
    "rm -f ../agent/settings; echo evil > ../agent/settings",
    "echo evil > ../agent/x; mv ../agent/x ../agent/settings",
    "mv ../agent ../gone; mkdir ../agent; echo evil > ../agent/settings",
    "mv ../agent/settings ../agent/gone; echo evil > ../agent/settings",
    "cd ..; mv work/../agent elsewhere; mkdir -p agent; echo evil > agent/settings",
    "ln ../agent/settings k; echo evil > k",
    "ln -s ../agent/settings l; echo evil > l",
    "cd ../agent; echo evil > settings",
    "echo evil > /proc/self/cwd/../agent/settings",
    "unshare --user --map-root-user --mount sh -c 'umount ../agent/settings; echo evil > ../agent/settings'",
];

#[test]
fn a_protected_file_stays_what_it_is_whatever_is_tried() {
    for how in TIERS {
        for way in WAYS {
            let home = scene();
            let settings = home.path().join("agent/settings");
            let walled = Walled { how, read_only: &[&settings], hidden: &[], writable: &[] };
            for done in [
                walled.run(&home.path().join("work"), way),
                walled.run_without_rights(&home.path().join("work"), way),
            ] {
                assert_eq!(read(&settings), "guarded", "{how}: {way}: {}", done.whole());
            }
        }
    }
}

#[test]
fn what_is_hidden_can_not_be_read_nor_replaced() {
    for how in TIERS {
        let home = scene();
        let data = home.path().join("data");
        let rows = data.join("rows");
        for hidden in [&data, &rows] {
            let walled = Walled { how, read_only: &[], hidden: &[hidden], writable: &[] };
            let tried = "cat ../data/rows; cat /proc/self/cwd/../data/rows; echo evil > ../data/rows; \
                         mv ../data ../gone && mkdir ../data && echo evil > ../data/rows; cp ../data/rows taken; cat taken";
            let done = walled.run(&home.path().join("work"), tried);
            assert!(!done.out.contains("hush"), "{how}: {}", done.whole());
            assert_eq!(read(&rows), "hush", "{how}: {}", done.whole());
        }
    }
}

/// The way to keep services that run things on request from a tree. Landlock has no say in connecting before its version 9.
#[test]
fn a_hidden_socket_can_not_be_connected_to_behind_mounts() {
    let home = scene();
    let socket = home.path().join("data/bus");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let connect = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"../data/bus\"); print(\"connected\")'";
    let data = home.path().join("data");
    for hidden in [&socket, &data] {
        let walled = Walled { how: "--mount-walls", read_only: &[], hidden: &[hidden], writable: &[] };
        let done = walled.run(&home.path().join("work"), connect);
        assert!(!done.out.contains("connected"), "{}", done.whole());
    }
    let other = home.path().join("data/rows");
    let walled = Walled { how: "--mount-walls", read_only: &[&socket], hidden: &[&other], writable: &[] };
    let done = walled.run(&home.path().join("work"), connect);
    assert!(done.out.contains("connected"), "what is not hidden is open: {}", done.whole());
    drop(listener);
}

#[test]
fn what_is_not_protected_can_be_used_as_ever() {
    for how in TIERS {
        let home = scene();
        let settings = home.path().join("agent/settings");
        let walled =
            Walled { how, read_only: &[&settings], hidden: &[&home.path().join("data")], writable: &[] };
        let usual = "cat ../agent/settings && echo new > ../agent/state && mkdir d && echo a > d/f && mv d/f g && \
                     echo x > /dev/null && ls .. > /dev/null && sleep 0 & wait; exit 7";
        let done = walled.run(&home.path().join("work"), usual);
        assert_eq!(done.code, Some(7), "{how}: {}", done.whole());
        assert!(done.out.contains("guarded"), "{how}: {}", done.whole());
        assert_eq!(read(&home.path().join("agent/state")), "new\n", "{how}");
        assert_eq!(read(&home.path().join("work/g")), "a\n", "{how}");
    }
    // In a folder that holds a protected file, new names can be made where mounts protect it.
    let home = scene();
    let settings = home.path().join("agent/settings");
    let walled = Walled { how: "--mount-walls", read_only: &[&settings], hidden: &[], writable: &[] };
    walled
        .run(&home.path().join("work"), "echo b > ../agent/new && mv ../agent/new ../agent/state")
        .succeeded();
    assert_eq!(read(&home.path().join("agent/state")), "b\n");
}

#[test]
fn where_only_some_places_can_be_changed_no_other_can() {
    for how in TIERS {
        let home = scene();
        let (work, settings) = (home.path().join("work"), home.path().join("work/settings"));
        std::fs::write(&settings, "guarded").unwrap();
        let walled = Walled { how, read_only: &[&settings], hidden: &[], writable: &[&work] };
        let tried = "echo a > a; echo evil > settings; echo evil > ../agent/state; echo evil > ../new; echo x > /dev/null && echo null";
        let done = walled.run(&work, tried);
        assert!(done.out.contains("null"), "{how}: {}", done.whole());
        assert_eq!(read(&settings), "guarded", "{how}");
        assert_eq!(read(&home.path().join("agent/state")), "old", "{how}");
        assert!(!home.path().join("new").exists(), "{how}");
        if how == "--mount-walls" {
            assert_eq!(read(&work.join("a")), "a\n", "{}", done.whole());
        }
    }
}

/// What is on a disk is read from its device, too, a line in `/proc/sys` starts a program outside, and whoever becomes
/// another user sees through that user's processes.
#[test]
fn root_reaches_nothing_behind_mounts_that_is_no_file() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = scene();
    let work = home.path().join("work");
    // A node for what is harmless, which is a device all the same.
    if !Command::new("mknod").arg(work.join("node")).args(["c", "1", "3"]).status().unwrap().success() {
        return;
    }
    let tried = "
        (: < node) || echo 'no node'
        for device in null zero full random urandom; do (: < /dev/$device) || echo \"no $device\"; done
        for setting in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/irq /sys /sys/kernel; do
            test ! -w $setting || echo \"$setting can be written\"
        done
        echo 100 > /proc/self/oom_score_adj || echo 'not even its own'
        setpriv --reuid 65534 true || echo 'no other user'
        setpriv --regid 65534 --clear-groups true || echo 'no other group'
        grep CapInh /proc/self/status
        python3 -c 'import pty; pty.openpty(); print(\"a terminal\")'";
    let walled = Walled { how: "--mount-walls", read_only: &[], hidden: &[], writable: &[] };
    let mut inherited = Command::new("setpriv");
    inherited.args(["--inh-caps", "+perfmon,+sys_admin", BACKSTOP]);
    walled.command(&mut inherited, tried).current_dir(&work);
    inherited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let expected = "no node\nno other user\nno other group\nCapInh:\t0000000000000000\na terminal\n";
    for done in [done(inherited.spawn().unwrap()), walled.run_without_rights(&work, tried)] {
        assert_eq!(done.out, expected, "{}", done.whole());
    }
    // What one program makes of a device would be opened by the next, which finds a name like those of devices that compute.
    let name = format!("/dev/nvidia-backstop-{}", std::process::id());
    let renamed = format!("ln /dev/kmsg {name} && rm {name} && echo made");
    let done = walled.run(&work, &renamed);
    assert_eq!(done.out, "", "{}", done.whole());
    let shared = format!("{name}-shared").replace("/dev/", "/dev/shm/");
    let done = walled.run(&work, &format!("echo a > {shared} && rm {shared} && echo shared"));
    assert_eq!(done.out, "shared\n", "{}", done.whole());
    // What is narrowed further stays closed.
    let narrowed = Walled { writable: &[&work], ..walled };
    let done = narrowed.run(&work, tried);
    assert_eq!(done.out, expected, "{}", done.whole());
    let done = narrowed.run(&work, &renamed);
    assert_eq!(done.out, "", "{}", done.whole());
}

/// A file system may be mounted more than once.
#[test]
fn what_is_protected_is_protected_by_all_of_its_names() {
    for how in TIERS {
        let home = scene();
        let (work, data, settings) =
            (home.path().join("work"), home.path().join("data"), home.path().join("agent/settings"));
        for folder in ["around", "same", "inner"] {
            std::fs::create_dir(home.path().join(folder)).unwrap();
        }
        std::fs::create_dir(data.join("deep")).unwrap();
        std::fs::write(data.join("deep/rows"), "hush").unwrap();
        let walled = Walled { how, read_only: &[&settings], hidden: &[&data], writable: &[] };
        let tried =
            "cat ../around/data/rows ../same/rows ../inner/rows; echo evil > ../around/agent/settings";
        let mounts = "mount --bind .. ../around && mount --bind ../data ../same && mount --bind ../data/deep ../inner && exec \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", mounts, BACKSTOP]);
        walled.command(&mut command, tried).current_dir(&work);
        let done =
            done(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(!done.out.contains("hush"), "{how}: {}", done.whole());
        assert!(done.err.contains("around/data/rows"), "{how}: it was tried: {}", done.whole());
        assert_eq!(read(&settings), "guarded", "{how}: {}", done.whole());
    }
}

/// What is typed into one may be an answer.
#[test]
fn terminals_of_others_are_out_of_reach_behind_mounts() {
    let home = scene();
    std::fs::create_dir(home.path().join("pts")).unwrap();
    let script = r#"
import os, pty, subprocess, sys
def read(master):
    os.set_blocking(master, False)
    try:
        return os.read(master, 99).decode().strip()
    except BlockingIOError:
        return "nothing"
(own, inside), (other, name) = pty.openpty(), pty.openpty()
name = os.ttyname(name)
tried = f'echo mine > "$(tty)"; echo evil > {name}; echo evil > pts/{os.path.basename(name)}; exec 3<>{name}; test -t 3 && echo terminal >&2'
mounts = 'mount --bind /dev/pts pts && exec "$0" "$@"'
around = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounts]
done = subprocess.run(around + sys.argv[1:] + ["sh", "-c", tried], stdin=inside, capture_output=True, text=True)
print(read(own), read(other), done.stderr.strip())
"#;
    for (program, before) in
        [(BACKSTOP, &[][..]), ("setpriv", &["--bounding-set", "-sys_admin", BACKSTOP][..])]
    {
        let mut command = Command::new("python3");
        command.args(["-c", script, program]).args(before).args(["confined", "--mount-walls", "--"]);
        command.current_dir(home.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = done(command.spawn().unwrap());
        assert_eq!(done.out, "mine nothing \n", "{}", done.whole());
    }
}

#[test]
fn a_wall_that_can_not_be_built_starts_nothing() {
    for how in TIERS {
        let home = scene();
        let absent = home.path().join("absent");
        let walled = Walled { how, read_only: &[&absent], hidden: &[], writable: &[] };
        let done = walled.run(home.path(), "echo started");
        assert_eq!(done.code, Some(126), "{}", done.whole());
        assert!(done.err.contains("absent") && done.out.is_empty(), "{}", done.whole());
    }
    let done = done(
        Command::new(BACKSTOP)
            .args(["confined", "--unheard-of", "--", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    assert_eq!(done.code, Some(126), "{}", done.whole());
}
