//! Where the machine's Node is, for plugins that run under it.
//!
//! The law: *whoever is judged chooses no program*. Of `PATH` those folders count that are the operator's; the first that has a Node decides,
//! and by every link on the way to it nobody else may lead. What chose it is walled off from what an agent starts, see [`node_places`].

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use backstop_config::{Loaded, Locations, PluginRuntime, Untrusted, open_with_place, operators_folder};

/// The name of the program.
const NODE: &str = "node";

/// What the environment says of a name.
type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The folders of `PATH` that are the operator's, as they are written, up to the first that has a Node.
fn folders(environment: &Environment<'_>, locations: &Locations) -> Vec<PathBuf> {
    let path = environment("PATH").unwrap_or_default();
    let mut folders = Vec::new();
    for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute()) {
        let Ok(place) = operators_folder(&folder, locations) else { continue };
        let has_it = is_runnable(&place.join(NODE));
        folders.push(folder);
        if has_it {
            break;
        }
    }
    folders
}

fn is_runnable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|met| met.is_file() && met.permissions().mode() & 0o111 != 0)
}

fn locations(environment: &Environment<'_>) -> Locations {
    Locations {
        working_directory: std::env::current_dir().ok(),
        home: environment("HOME").map(PathBuf::from),
        ..Locations::default()
    }
}

/// Node, by its place when all links are followed; in words why there is none.
pub(super) fn find(environment: &Environment<'_>, workspace: Option<&Path>) -> Result<PathBuf, String> {
    let locations = locations(environment);
    let folders = folders(environment, &locations);
    let found = folders.iter().map(|folder| folder.join(NODE)).find(|file| is_runnable(file));
    let Some(file) = found else {
        return Err("none is in the folders of `PATH` that are the operator's".to_owned());
    };
    let refused = |Untrusted { why, hint }: Untrusted| {
        let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("`{}` can't be used: {why}{hint}", file.display())
    };
    let (_, place) = open_with_place(&file, &locations).map_err(refused)?;
    let is_of_agent = |workspace: &Path| workspace.canonicalize().is_ok_and(|root| place.starts_with(root));
    match workspace.is_some_and(is_of_agent) {
        true => Err(format!("`{}` lies in the folder that the agent works in", place.display())),
        false => Ok(place),
    }
}

/// The Node that plugins run under, and the folders that choose it, if one of them does: files by their names and by where links lead, and
/// folders. Whoever can put something there chooses what plugins run under.
pub fn node_places(loaded: &Loaded, environment: &Environment<'_>) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
    let (mut files, mut chosen) = (BTreeSet::new(), BTreeSet::new());
    let runs = |runtime| runtime == PluginRuntime::Node;
    if !loaded.config.plugins.entries.iter().any(|(_, entry)| runs(entry.runtime.value)) {
        return (files, chosen);
    }
    for folder in folders(environment, &locations(environment)) {
        let file = folder.join(NODE);
        if is_runnable(&file) {
            let place = fs::canonicalize(&file).ok();
            chosen.extend(place.iter().filter_map(|place| place.parent()).map(Path::to_path_buf));
            files.extend(place);
            files.insert(file);
        }
        chosen.insert(folder);
    }
    (files, chosen)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn put(folder: &Path, mode: u32) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let file = folder.join(NODE);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn the_first_of_the_operators_folders_decides_and_no_folder_of_others_does() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (loose, none, bin, work) =
            (root.join("loose"), root.join("none"), root.join("bin"), root.join("work"));
        put(&loose, 0o755);
        fs::set_permissions(&loose, fs::Permissions::from_mode(0o777)).unwrap();
        fs::create_dir(&none).unwrap();
        let real = put(&root.join("lib"), 0o755);
        fs::create_dir(&bin).unwrap();
        symlink(&real, bin.join(NODE)).unwrap();
        put(&work, 0o755);
        let environment = |path: String| move |name: &str| (name == "PATH").then(|| path.clone());
        let list = |folders: &[&Path]| std::env::join_paths(folders).unwrap().into_string().unwrap();
        let path = environment(list(&[Path::new("relative"), &loose, &none, &bin, &work]));
        assert_eq!(find(&path, Some(&work)).unwrap(), real);
        assert_eq!(folders(&path, &locations(&path)), [none, bin]);
        let of_work = environment(list(&[&work]));
        assert!(find(&of_work, Some(&work)).unwrap_err().contains("the agent works in"));
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(find(&path, None).unwrap_err().contains("other users may write"));
        let nothing = environment(list(&[&loose]));
        assert!(find(&nothing, None).unwrap_err().contains("none is in"));
    }
}
