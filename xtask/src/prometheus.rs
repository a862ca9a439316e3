//! The Prometheus that the metrics are tried with, from Debian.
//!
//! Unpacked below `target`, and not installed: as a package of the system it would begin to listen.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::step::execute;
use crate::workspace::root;

/// Where the tests look for it.
const FOLDER: &str = "target/prometheus";

/// Gets it, unless it is there.
pub(crate) fn prepare() -> Result<(), Error> {
    let folder = root().join(FOLDER);
    if folder.join("usr/bin/prometheus").is_file() && folder.join("usr/bin/promtool").is_file() {
        println!("prometheus: there");
        return Ok(());
    }
    println!("prometheus: missing, unpacking");
    let hint = "the metrics are held against a real Prometheus; unpack one to target/prometheus/usr/bin";
    unpack(&folder).map_err(|_| Error::Missing { tool: "prometheus", hint })
}

fn unpack(folder: &Path) -> Result<(), Error> {
    let failed = |source| Error::File { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let within = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder);
        command
    };
    let mut download = within("apt-get");
    download.args(["download", "prometheus"]);
    execute(download)?;
    let mut files = std::fs::read_dir(folder).map_err(failed)?.filter_map(Result::ok).map(|file| file.path());
    let package = files.find(|path| path.extension().is_some_and(|ending| ending == "deb"));
    let mut unpack = within("dpkg");
    unpack.arg("-x").args(package).arg(".");
    execute(unpack)
}
