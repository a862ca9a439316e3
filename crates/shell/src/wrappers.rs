//! Which programs start another program given in their arguments, and where it stands.

use crate::options::Takes;

/// A wrapper whose command follows its own options and `skip` operands.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    pub(super) takes: Takes,
    pub(super) skip: usize,
}

const fn wrapper(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static [&'static str],
    skip: usize,
) -> Wrapper {
    Wrapper { names, takes: Takes::wrapper(short, long), skip }
}

/// Wrappers with options of their own that are known.
pub(super) const WRAPPERS: &[Wrapper] = &[
    wrapper(
        &[
            "nohup",
            "setsid",
            "busybox",
            "toybox",
            "unbuffer",
            "fakeroot",
            "firejail",
            "dbus-run-session",
            "catchsegv",
            "torsocks",
            "torify",
            "usewithtor",
            "chronic",
            "ts",
            "rlwrap",
            "winpty",
            "caffeinate",
            "autoexpect",
            "xvfb-run",
        ],
        "ens",
        &[],
        0,
    ),
    wrapper(&["nice", "gnice"], "n", &["adjustment"], 0),
    wrapper(&["ionice"], "cnpPu", &["class", "classdata", "pid", "pgid", "uid"], 0),
    wrapper(&["timeout", "gtimeout"], "ks", &["kill-after", "signal"], 1),
    wrapper(&["stdbuf", "gstdbuf"], "ioe", &["input", "output", "error"], 0),
    wrapper(&["gtime"], "fo", &["format", "output"], 0),
    wrapper(&["chroot"], "", &["userspec", "groups"], 1),
    wrapper(
        &["unshare", "nsenter"],
        "tSGRw",
        &["target", "setuid", "setgid", "map-user", "map-group", "propagation"],
        0,
    ),
    wrapper(&["strace", "ltrace"], "aeEIoOpPsSuUX", &["output", "attach", "user", "trace"], 0),
    wrapper(&["taskset"], "", &[], 1),
    wrapper(&["chrt"], "TPD", &[], 1),
    wrapper(&["setarch"], "", &[], 1),
    wrapper(&["linux32", "linux64", "i386", "x86_64"], "", &[], 0),
    wrapper(&["prlimit", "cpulimit", "choom"], "nplc", &["pid", "limit"], 0),
    wrapper(&["proxychains", "proxychains4"], "f", &[], 0),
    wrapper(
        &["systemd-run", "systemd-inhibit"],
        "pEuGHM",
        &[
            "unit",
            "property",
            "slice",
            "description",
            "setenv",
            "uid",
            "gid",
            "what",
            "who",
            "why",
            "mode",
            "working-directory",
        ],
        0,
    ),
    wrapper(&["valgrind"], "", &[], 0),
    wrapper(&["pkexec"], "", &["user"], 0),
    wrapper(
        &["dotenv", "dotenvx", "envdir", "chpst", "setuidgid", "softlimit", "gosu", "su-exec"],
        "fe",
        &[],
        1,
    ),
    wrapper(&["sshpass"], "fdpP", &[], 0),
    wrapper(&["entr"], "", &[], 0),
    wrapper(&["perf"], "eo", &["event", "output"], 1),
    wrapper(&["start"], "", &[], 0),
];

/// Programs with many options of their own whose command begins at the first word that names one.
pub(super) const LOOSE: &[&str] = &[
    "bwrap",
    "proot",
    "systemd-nspawn",
    "screen",
    "tmux",
    "dtach",
    "abduco",
    "daemonize",
    "start-stop-daemon",
    "runcon",
    "capsh",
    "setpriv",
    "cgexec",
    "numactl",
    "sandbox-exec",
    "ld.so",
    "arch",
    "lxc",
    "incus",
];

/// Programs of the form `tool run CMD...` whose command is what follows the subcommand.
pub(super) const RUNNERS: &[(&str, &[&str])] = &[
    ("uv", &["run"]),
    ("poetry", &["run"]),
    ("pipenv", &["run"]),
    ("pdm", &["run"]),
    ("rye", &["run"]),
    ("hatch", &["run"]),
    ("conda", &["run"]),
    ("mamba", &["run"]),
    ("bundle", &["exec"]),
    ("npm", &["exec", "x"]),
    ("pnpm", &["exec", "dlx"]),
    ("yarn", &["exec", "dlx"]),
    ("mise", &["exec", "x"]),
    ("asdf", &["exec"]),
    ("rbenv", &["exec"]),
    ("pyenv", &["exec"]),
    ("op", &["run"]),
    ("doppler", &["run"]),
    ("rtk", &["proxy"]),
];
