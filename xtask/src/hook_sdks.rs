//! Our own SDKs, in which hooks are written in Python and in TypeScript: their tests, their types, and the Python package.
//!
//! They promise to run on Python 3.9, Node 20 and Bun. The tests of the Python SDK run on the oldest Python of this machine that the SDK
//! promises to support and on its default one, and say which these are. Bun, mypy, the TypeScript compiler and setuptools are locked and
//! installed like what other tests need. Their clients of the decision API, and the adapters for agents, are tried with `backstop serve` by
//! the tests of `crates/cli`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::sdks;
use crate::step::execute;
use crate::workspace::root;

/// The oldest Python 3 that the SDK supports, as `requires-python` says.
const OLDEST: u32 = 9;
/// Python versions are looked for up to this one.
const NEWEST: u32 = 30;

const PYTHON: &str = "sdk/python";
const TOOLS: &str = "sdk/python/tests/tools.txt";
const TYPESCRIPT: &str = "sdk/typescript/tests";
const COMPILER: &str = "crates/script/tests/typescript/node_modules/typescript/bin/tsc";

/// Where mypy and setuptools are installed.
fn tools() -> PathBuf {
    root().join("target/sdk/tools")
}

/// Installs what the checks of the SDKs need.
pub(crate) fn prepare() -> Result<(), Error> {
    sdks::install(TOOLS, &tools(), |venv| sdks::python(venv, TOOLS))?;
    let bun = root().join(TYPESCRIPT).join("bun");
    let lock = format!("{TYPESCRIPT}/bun/package-lock.json");
    sdks::install(&lock, &bun.join("node_modules"), |_| sdks::npm(&bun))
}

/// All of it, for people who change an SDK.
pub(crate) fn run() -> Result<(), Error> {
    prepare()?;
    python()?;
    typescript()
}

/// Everything about the SDK for Python.
pub(crate) fn python() -> Result<(), Error> {
    let oldest = python_tests()?;
    python_types()?;
    python_package(&oldest)
}

/// Runs the tests on the oldest Python that there is and on the default one. Returns the oldest.
fn python_tests() -> Result<PathBuf, Error> {
    let found = pythons();
    let Some((version, oldest)) = found.first_key_value() else {
        return Err(Error::Missing {
            tool: "python3",
            hint: "the SDK needs Python 3.9 or newer; install one",
        });
    };
    let all = found.keys().map(|minor| format!("3.{minor}")).collect::<Vec<_>>().join(", ");
    println!("Python: there is {all}; the oldest is tried, and the default one");
    if *version > OLDEST {
        println!("warning: there is no Python 3.{OLDEST} here, so the oldest that is supported is NOT tried");
    }
    let default = minor(OsStr::new("python3"));
    let default = default.filter(|minor| minor != version).map(|minor| (minor, PathBuf::from("python3")));
    for (minor, python) in std::iter::once((*version, oldest.clone())).chain(default) {
        println!("the tests on Python 3.{minor} ({})", python.display());
        let mut tests = Command::new(&python);
        tests.args(["-B", "-m", "unittest", "discover", "--start-directory", "sdk/python/tests"]);
        execute(in_root(tests))?;
    }
    Ok(oldest.clone())
}

/// The Pythons of this machine that the SDK supports, by their minor version: those of the path, and those of pyenv.
fn pythons() -> BTreeMap<u32, PathBuf> {
    let named = (OLDEST..=NEWEST).map(|minor| PathBuf::from(format!("python3.{minor}")));
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = pyenv.and_then(|pyenv| std::fs::read_dir(pyenv.join("versions")).ok());
    let installed =
        versions.into_iter().flatten().flatten().map(|version| version.path().join("bin/python3"));
    let mut found = BTreeMap::new();
    for python in std::iter::once(PathBuf::from("python3")).chain(named).chain(installed) {
        if let Some(minor) = minor(python.as_os_str()).filter(|minor| *minor >= OLDEST) {
            found.entry(minor).or_insert(python);
        }
    }
    found
}

/// The minor version of a Python 3, if this is one that starts.
fn minor(python: &OsStr) -> Option<u32> {
    let mut ask = Command::new(python);
    ask.args(["-c", "import sys, venv, unittest; print(*sys.version_info[:2])"]).stderr(Stdio::null());
    let output = ask.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()?.trim().strip_prefix("3 ")?.parse().ok()
}

/// Checks the types of the package, and of files that hold to them and that do not.
fn python_types() -> Result<(), Error> {
    let mypy = |what: &[&str]| {
        let mut check = Command::new(tools().join("bin/mypy"));
        check.arg(format!("--python-version=3.{OLDEST}")).arg("--strict");
        check.arg("--config-file").arg(root().join(PYTHON).join("pyproject.toml"));
        check.arg("--cache-dir").arg(root().join("target/sdk/mypy")).args(what);
        check.env("MYPYPATH", root().join(PYTHON).join("src"));
        execute(in_root(check))
    };
    mypy(&["-p", "backstop"])?;
    mypy(&["sdk/python/tests/typed/good.py", "sdk/python/tests/typed/bad.py"])
}

/// Builds the package, installs it where nothing else is, and imports it.
fn python_package(python: &Path) -> Result<(), Error> {
    let folder = root().join("target/sdk/package");
    let failed = |source| Error::File { path: folder.clone(), source };
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    // It is built from a copy: the build leaves files beside what it builds.
    let source = folder.join("source");
    copy(&root().join(PYTHON), &source).map_err(failed)?;
    let mut build = Command::new(tools().join("bin/pip"));
    build.args(["wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir"]);
    build.arg(folder.join("wheel")).arg(&source);
    execute(build)?;
    let venv = folder.join("venv");
    let mut create = Command::new(python);
    create.args(["-m", "venv"]).arg(&venv);
    execute(create)?;
    let mut install = Command::new(venv.join("bin/pip"));
    install.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
        "--no-deps",
        "--find-links",
    ]);
    install.arg(folder.join("wheel")).arg("backstop");
    execute(install)?;
    let mut import = Command::new(venv.join("bin/python"));
    // `-I`: nothing of this folder or of the environment is imported in its place.
    import.arg("-I").arg(root().join(PYTHON).join("tests/installed.py"));
    execute(import)
}

/// Copies what the package is built from.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (name, target) = (entry.file_name(), to.join(entry.file_name()));
        let is_left_out = name == "tests" || name == "__pycache__" || name == "build";
        if entry.file_type()?.is_dir() && !is_left_out {
            copy(&entry.path(), &target)?;
        } else if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Everything about the SDK for TypeScript and JavaScript.
pub(crate) fn typescript() -> Result<(), Error> {
    let [hooks, conformance] = ["hooks", "conformance"].map(|name| format!("{TYPESCRIPT}/{name}.test.js"));
    let mut tests = Command::new("node");
    tests.arg("--test").args([&hooks, &conformance]);
    execute(in_root(tests))?;
    let bun = bun()?;
    println!("the same under Bun");
    let mut tests = Command::new(&bun);
    tests.arg("test").arg(format!("./{hooks}"));
    execute(in_root(tests))?;
    // The programs of the cases run under Bun; what asks them does not matter.
    let mut tests = Command::new("node");
    tests.arg("--test").arg(&conformance).env("BACKSTOP_TEST_RUNTIME", &bun);
    execute(in_root(tests))?;
    println!("the types");
    let mut compile = Command::new("node");
    compile.arg(COMPILER).args(["--project", &format!("{TYPESCRIPT}/types")]);
    execute(in_root(compile))
}

/// The locked Bun of this machine.
fn bun() -> Result<PathBuf, Error> {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        other => other,
    };
    let package = format!("{TYPESCRIPT}/bun/node_modules/@oven/bun-{system}-{processor}/bin/bun");
    let bun = root().join(package);
    match bun.is_file() {
        true => Ok(bun),
        false => Err(Error::Missing {
            tool: "Bun",
            hint: "sdk/typescript/tests/bun lists the systems that it is locked for; add this one",
        }),
    }
}

fn in_root(mut command: Command) -> Command {
    command.current_dir(root());
    command
}
