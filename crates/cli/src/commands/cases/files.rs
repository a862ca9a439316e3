//! From what the command line names to files: a file, all YAML files of a folder, all files that a pattern matches.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;

use super::MAX_FILES;
use crate::error::Error;

/// How deep folders are searched.
const MAX_DEPTH: usize = 32;
/// How many entries of folders are looked at.
const MAX_ENTRIES: usize = 200_000;

/// Finds the files, in the order of their names, each once.
pub(super) fn find(named: &[String]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut seen = BTreeSet::new();
    for name in named {
        let path = Path::new(name);
        let found = if path.is_dir() {
            all_of(name, path, &|file| is_yaml(file))?
        } else if path.exists() || !is_pattern(name) {
            vec![path.to_path_buf()]
        } else {
            matching(name)?
        };
        // The same file by two names is one file.
        files.extend(
            found
                .into_iter()
                .filter(|file| seen.insert(std::fs::canonicalize(file).unwrap_or_else(|_| file.clone()))),
        );
        if files.len() > MAX_FILES {
            return Err(Error::Usage(format!(
                "there are more than {MAX_FILES} files\nhint: name a folder further inside"
            )));
        }
    }
    Ok(files)
}

fn is_yaml(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '[', '{'])
}

/// The files that a pattern matches, below the folders at its beginning that are none.
fn matching(pattern: &str) -> Result<Vec<PathBuf>, Error> {
    let glob = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|error| Error::Usage(format!("`{pattern}` is no pattern: {}", error.kind())))?;
    let glob = glob.compile_matcher();
    let plain = Path::new(pattern).components().take_while(|part| match part {
        Component::Normal(name) => !is_pattern(&name.to_string_lossy()),
        _ => true,
    });
    let root: PathBuf = plain.collect();
    all_of(pattern, &root, &|file| glob.is_match(file))
}

/// All files below a folder that are `wanted`, without those of hidden folders and behind links to folders.
fn all_of(named: &str, root: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![(root.to_path_buf(), 0_usize)];
    let mut entries = 0_usize;
    while let Some((folder, depth)) = folders.pop() {
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        let unreadable = |source| Error::File { path: here.to_path_buf(), what: "read", source };
        for entry in std::fs::read_dir(here).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            entries += 1;
            if entries > MAX_ENTRIES || depth > MAX_DEPTH {
                return Err(Error::Usage(format!(
                    "`{named}` is too large to be searched: more than {MAX_ENTRIES} entries, or {MAX_DEPTH} levels of folders\nhint: name a folder further inside"
                )));
            }
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(unreadable)?;
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if kind.is_dir() && !hidden {
                folders.push((path, depth + 1));
            } else if !kind.is_dir() && path.is_file() && wanted(&path) {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Error::Usage(format!(
            "`{named}` has no files of cases, and a test of nothing would pass\nhint: of a folder, all files `*.yaml` and `*.yml` are read; a pattern is put in quotes"
        )));
    }
    Ok(files)
}
