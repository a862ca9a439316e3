//! Which programs of the machine plugins are, start and run under.
//!
//! The laws are those of [programs](super::programs). A name is looked for among the system's own, unless `plugins.programs` says which file it
//! is: the operator has what lies in a home (a Node of a version manager, a Python of an environment) by naming it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_config::{Loaded, PluginRuntime};
use backstop_plugins::set::{FoundProgram, Machine};

use super::programs::{Environment, Files, Programs, is_runnable};
use crate::locations::from_operator;

/// The name of the program that plugins of `runtime: node` run under.
const NODE: &str = "node";

/// The programs of this machine.
#[derive(Debug)]
pub(super) struct Known {
    programs: Programs,
    path: OsString,
    /// What the operator names.
    named: BTreeMap<String, PathBuf>,
    /// The folder that the agent works in, if there is one.
    workspace: Option<PathBuf>,
}

impl Known {
    pub(super) fn new(loaded: &Loaded, environment: &Environment<'_>, workspace: Option<&Path>) -> Self {
        let mut programs = Programs::new(environment);
        if let Some(workspace) = workspace {
            programs.leave_out(workspace);
        }
        let named = loaded.config.plugins.programs.iter().map(|(name, file)| {
            let file = from_operator(loaded, file.value.expose());
            (name.value.as_str().to_owned(), std::path::absolute(&file).unwrap_or(file))
        });
        Self {
            path: programs.path(),
            programs,
            named: named.collect(),
            workspace: workspace.map(Path::to_path_buf),
        }
    }

    fn file(&self, name: &str) -> Result<PathBuf, String> {
        match self.named.get(name) {
            Some(file) if is_runnable(file) => Ok(file.clone()),
            Some(file) => {
                let file = file.display();
                Err(format!("`{file}`, which `plugins.programs` names, is no program that can be started"))
            }
            None => self.programs.named(name).map_err(|why| {
                format!("{why}\nhint: say which file it is in `plugins.programs`: `{name}: /path/to/{name}`")
            }),
        }
    }
}

impl Machine for Known {
    fn program(&self, name: &str) -> Result<FoundProgram, String> {
        let file = self.file(name)?;
        let files = vec![self.programs.looked(&file)?];
        let files = Files { files, locations: self.programs.locations.clone() };
        if let Some(workspace) = &self.workspace {
            files.beside(workspace)?;
        }
        let held = Arc::new(files.clone());
        Ok(FoundProgram { file, held, beside: Arc::new(move |folder: &Path| files.beside(folder)) })
    }

    fn path(&self) -> &OsStr {
        &self.path
    }
}

/// The programs that the configuration names for plugins, and the Node that some run under, and the folders that choose them: files by their
/// names and by where links lead. Whoever can put something there chooses what plugins run under.
pub fn program_places(
    loaded: &Loaded,
    environment: &Environment<'_>,
) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
    let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
    let known = Known::new(loaded, environment, None);
    let runs = |runtime| runtime == PluginRuntime::Node;
    let under_node = loaded.config.plugins.entries.iter().any(|(_, entry)| runs(entry.runtime.value));
    let names = known.named.keys().map(String::as_str).chain(under_node.then_some(NODE));
    for file in names.filter_map(|name| known.file(name).ok()) {
        files.extend(fs::canonicalize(&file));
        files.insert(file);
    }
    folders.extend(files.iter().filter_map(|file| file.parent()).map(Path::to_path_buf));
    if under_node && !known.named.contains_key(NODE) {
        folders.extend(known.programs.folders);
    }
    (files, folders)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use backstop_config::{LayerKind, Source};

    use super::*;

    fn put(folder: &Path, mode: u32) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let file = folder.join(NODE);
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    fn loaded(text: &str) -> Loaded {
        let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
        crate::load_sources(&[source], &crate::HookTypes::built_in(&[]), &|_| None).unwrap()
    }

    fn known(text: &str, path: &[&Path], workspace: Option<&Path>) -> Known {
        let path = std::env::join_paths(path).unwrap().into_string().unwrap();
        Known::new(&loaded(text), &|name: &str| (name == "PATH").then(|| path.clone()), workspace)
    }

    #[test]
    fn a_folder_of_others_chooses_nothing_and_the_operator_names_what_lies_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (loose, work, own) = (root.join("loose"), root.join("work"), root.join("own"));
        put(&loose, 0o755);
        fs::set_permissions(&loose, fs::Permissions::from_mode(0o777)).unwrap();
        put(&work, 0o755);
        let own = put(&own, 0o755);
        let why = known("{}", &[Path::new("relative"), &loose], None).program(NODE).unwrap_err();
        assert!(why.contains("belongs to root") && why.contains("hint: say which file"), "{why}");
        let text = format!("plugins: {{programs: {{node: {:?}}}}}", own.display().to_string());
        let known_by_name = known(&text, &[&loose, &work], Some(&work));
        assert_eq!(known_by_name.program(NODE).unwrap().file, own);
        assert_eq!(known_by_name.path(), "", "neither where others write nor where the agent does");
        // Where an agent works there is no program, however it is named.
        let text = format!("plugins: {{programs: {{node: {:?}}}}}", work.join(NODE).display().to_string());
        let why = known(&text, &[], Some(&work)).program(NODE).unwrap_err();
        assert!(why.contains("in the workspace"), "{why}");
        let found = known(&text, &[], None).program(NODE).unwrap();
        assert!((found.beside)(&work).is_err() && (found.beside)(&root.join("own")).is_ok());
        // What leads to another place later is not started.
        let link = root.join("own/link");
        symlink(&own, &link).unwrap();
        let text = format!("plugins: {{programs: {{linked: {:?}}}}}", link.display().to_string());
        let found = known(&text, &[], None).program("linked").unwrap();
        assert_eq!(found.held.check(), Ok(()));
        fs::remove_file(&link).unwrap();
        symlink(work.join(NODE), &link).unwrap();
        assert!(found.held.check().unwrap_err().contains("not the file that it was"));
        let (files, folders) = program_places(&loaded(&text), &|_| None);
        assert!(files.contains(&link) && files.contains(&work.join(NODE)), "{files:?}");
        assert!(folders.contains(&work) && folders.contains(&root.join("own")), "{folders:?}");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        let text = format!("plugins: {{programs: {{node: {:?}}}}}", own.display().to_string());
        assert!(known(&text, &[], None).program(NODE).unwrap_err().contains("other users may write"));
    }

    #[test]
    fn nothing_is_walled_off_where_no_plugin_runs_under_anything() {
        assert_eq!(program_places(&loaded("{}"), &|_| None), Default::default());
        let text = "plugins: {entries: {mine: {runtime: node}}}";
        let places =
            program_places(&loaded(text), &|name: &str| (name == "PATH").then(|| "/usr/bin".to_owned()));
        assert!(places.1.contains(Path::new("/usr/bin")), "{places:?}");
    }
}
