//! Finding and reading files, with real files.

use std::fs;
use std::path::Path;

use backstop_config::{ConfigError, LayerKind, Locations, Source};

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A home with a user folder and a project with a nested folder.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.path("project/vendor/lib")).unwrap();
        fs::create_dir_all(place.path("home/backstop")).unwrap();
        place
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path)
    }

    fn read(&self, explicit: Option<&str>) -> Result<Vec<Source>, ConfigError> {
        Locations {
            explicit: explicit.map(|path| self.path(path)),
            working_directory: Some(self.path("project/vendor/lib")),
            user_folder: Some(self.path("home/backstop")),
            home: Some(self.path("home")),
        }
        .read()
    }

    fn layers(&self, explicit: Option<&str>) -> Vec<(LayerKind, String)> {
        let sources = self.read(explicit).unwrap();
        sources.into_iter().map(|source| (source.kind, self.relative(&source.name))).collect()
    }

    fn relative(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.root.path().display()), "")
    }

    fn error(&self, explicit: Option<&str>) -> String {
        self.relative(&self.read(explicit).unwrap_err().to_string())
    }
}

#[test]
fn a_file_in_the_working_directory_is_never_the_operators() {
    let place = Place::new();
    write(&place.path("project/backstop.yaml"), "{}");
    assert_eq!(place.layers(None), [(LayerKind::Repository, "project/backstop.yaml".to_owned())]);
}

#[test]
fn the_operator_comes_first_then_repositories_from_the_outside_in() {
    let place = Place::new();
    for path in ["project/vendor/lib/backstop.json", "project/backstop.yaml", "home/backstop/backstop.yml"] {
        write(&place.path(path), "{}");
    }
    assert_eq!(
        place.layers(None),
        [
            (LayerKind::Operator, "home/backstop/backstop.yml".to_owned()),
            (LayerKind::Repository, "project/backstop.yaml".to_owned()),
            (LayerKind::Repository, "project/vendor/lib/backstop.json".to_owned()),
        ]
    );
}

#[test]
fn an_explicit_file_replaces_the_users_and_is_not_read_twice() {
    let place = Place::new();
    write(&place.path("project/backstop.yaml"), "{}");
    write(&place.path("home/backstop/backstop.yaml"), "{}");
    assert_eq!(
        place.layers(Some("project/backstop.yaml")),
        [(LayerKind::Operator, "project/backstop.yaml".to_owned())]
    );
}

#[test]
fn relative_paths_count_from_the_operators_folder() {
    let place = Place::new();
    write(&place.path("home/backstop/backstop.yaml"), "store: {path: state.db}");
    write(&place.path("project/backstop.yaml"), "{}");
    let loaded = crate::support::load(&place.read(None).unwrap()).unwrap();
    assert_eq!(loaded.operator_folder, Some(place.path("home/backstop")));
}

#[test]
fn a_missing_explicit_file_is_an_error() {
    let error = Place::new().error(Some("nowhere.yaml"));
    assert!(error.starts_with("error: the configuration file cannot be read: "), "{error}");
    assert!(error.ends_with("\n  --> nowhere.yaml"), "{error}");
}

#[test]
fn two_files_in_one_folder_are_an_error() {
    let place = Place::new();
    write(&place.path("project/backstop.yaml"), "{}");
    write(&place.path("project/backstop.json"), "{}");
    assert_eq!(
        place.error(None),
        "error: there are two configuration files in one folder, the other is `project/backstop.yaml`\n  \
         --> project/backstop.json\n  hint: keep one of them"
    );
}

#[test]
fn what_is_not_a_small_regular_utf8_file_is_an_error() {
    let place = Place::new();
    let path = place.path("project/backstop.yaml");
    let error = |why: &str| {
        assert_eq!(
            place.error(None),
            format!("error: the configuration file cannot be read: {why}\n  --> project/backstop.yaml")
        );
    };
    write(&path, b"a: 1\nb: \xff\n");
    error("it is not UTF-8 in line 2");
    write(&path, vec![b' '; 1024 * 1024 + 1]);
    error("it is larger than 1048576 bytes");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    error("it is not a regular file");
}

#[cfg(unix)]
#[test]
fn a_repository_file_may_not_be_a_symbolic_link() {
    let place = Place::new();
    write(&place.path("elsewhere.yaml"), "{}");
    std::os::unix::fs::symlink(place.path("elsewhere.yaml"), place.path("project/backstop.yaml")).unwrap();
    let error = place.error(None);
    assert!(error.contains("a repository's configuration may not be a symbolic link"), "{error}");
}

#[test]
fn the_user_folder_never_depends_on_the_working_directory() {
    let folder = |pairs: &[(&str, &str)]| {
        let environment =
            |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Locations::user_folder(&environment)
    };
    assert_eq!(folder(&[("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")]), Some("/x/backstop".into()));
    assert_eq!(folder(&[("XDG_CONFIG_HOME", "x"), ("HOME", "/h")]), Some("/h/.config/backstop".into()));
    assert_eq!(folder(&[("HOME", ".")]), None);
}

#[test]
fn a_byte_order_mark_is_no_key() {
    let source = Source::new(LayerKind::Operator, "f", "\u{feff}audit: {enabled: false}");
    assert!(!crate::support::load(&[source]).unwrap().config.audit.enabled.value);
}

#[cfg(unix)]
fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
#[cfg(unix)]
fn an_operators_file_that_others_may_write_is_refused() {
    let place = Place::new();
    write(&place.path("home/backstop/backstop.yaml"), "{}");
    mode(&place.path("home/backstop/backstop.yaml"), 0o646);
    let error = place.error(None);
    assert!(error.contains("other users may write") && error.contains("chmod go-w"), "{error}");
    mode(&place.path("home/backstop/backstop.yaml"), 0o644);
    mode(&place.path("home/backstop"), 0o777);
    assert!(
        place.error(None).contains("other users may write"),
        "whoever may write the folder may replace the file"
    );
    mode(&place.path("home/backstop"), 0o755);
    assert_eq!(place.layers(None).len(), 1);
}

#[test]
#[cfg(unix)]
fn an_operators_file_that_a_link_leads_into_the_workspace_is_refused() {
    let place = Place::new();
    write(&place.path("project/evil/backstop.yaml"), "guards: {command_safety: {enabled: false}}");
    fs::create_dir(place.path("project/.git")).unwrap();
    let file = place.path("home/backstop/backstop.yaml");
    std::os::unix::fs::symlink(place.path("project/evil/backstop.yaml"), &file).unwrap();
    let error = place.error(None);
    assert!(error.contains("lies in the workspace `project`"), "{error}");
    fs::remove_file(&file).unwrap();
    fs::remove_dir(place.path("home/backstop")).unwrap();
    std::os::unix::fs::symlink(place.path("project/evil"), place.path("home/backstop")).unwrap();
    assert!(place.error(None).contains("lies in the workspace"), "a link to the folder leads there, too");
}

#[test]
fn a_home_that_is_itself_under_version_control_is_no_workspace() {
    let place = Place::new();
    fs::create_dir_all(place.path("home/.git")).unwrap();
    write(&place.path("home/backstop/backstop.yaml"), "{}");
    let locations = Locations {
        explicit: None,
        working_directory: Some(place.path("home")),
        user_folder: Some(place.path("home/backstop")),
        home: Some(place.path("home")),
    };
    assert_eq!(locations.read().unwrap().len(), 1);
    let elsewhere = Locations { home: Some(place.path("other")), ..locations };
    assert!(elsewhere.read().unwrap_err().to_string().contains("lies in the workspace"));
}

#[test]
#[cfg(target_os = "linux")]
fn an_operators_file_behind_proc_is_refused() {
    let place = Place::new();
    write(&place.path("away/backstop.yaml"), "{}");
    let here = place.path("away");
    let opened = fs::File::open(&here).unwrap();
    use std::os::fd::AsRawFd as _;
    let locations = Locations {
        user_folder: Some(format!("/proc/self/fd/{}", opened.as_raw_fd()).into()),
        ..Locations::default()
    };
    let error = locations.read().unwrap_err().to_string();
    assert!(error.contains("`/proc`"), "{error}");
    let plain = Locations { user_folder: Some(here), ..Locations::default() };
    assert_eq!(plain.read().unwrap().len(), 1);
}
