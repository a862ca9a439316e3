use super::rooms::STAGING;
use super::*;

fn source(version: &str, code: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifest = format!(r#"{{"id": "mine", "version": "{version}", "kind": "script", "entry": "a.js"}}"#);
    fs::write(folder.path().join("backstop.plugin.json"), manifest).unwrap();
    fs::write(folder.path().join("a.js"), code).unwrap();
    folder
}

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().join("plugins"));
    (folder, home)
}

fn put(home: &Home, source: &tempfile::TempDir) -> Installed {
    let staged = home.stage(source.path()).unwrap();
    let hash = staged.package.hash;
    home.install(staged, hash, "a folder", 7).unwrap()
}

fn is_trusted(installed: &Installed) -> bool {
    matches!(installed.state(), State::Trusted)
}

#[test]
fn what_is_installed_is_a_copy_and_a_change_is_off_until_it_is_trusted_again() {
    let (_folder, home) = home();
    assert!(home.installed().unwrap().is_empty() && !home.folder().exists(), "looking makes nothing");
    let source = source("1", "one");
    let installed = put(&home, &source);
    fs::write(source.path().join("a.js"), "two").unwrap();
    assert!(is_trusted(&installed), "what the source becomes changes nothing");
    fs::write(installed.root.join("a.js"), "two").unwrap();
    let State::Changed(now) = home.find("mine").unwrap().state() else { panic!("it has changed") };
    let error = home.trust(&installed.id, installed.record.hash, 8).unwrap_err();
    assert!(matches!(error, TrustError::NotThis { .. }), "{error}");
    home.trust(&installed.id, now, 8).unwrap();
    assert!(is_trusted(&home.find("mine").unwrap()));
    fs::write(installed.root.join("new.js"), "").unwrap();
    assert!(!is_trusted(&home.find("mine").unwrap()), "a file more is a change");
}

#[test]
fn a_new_version_takes_the_place_of_the_old_and_keeps_its_switch() {
    let (_folder, home) = home();
    let old = put(&home, &source("1", "one"));
    home.enable(&old.id, false).unwrap();
    let new = put(&home, &source("2", "two"));
    assert!(!new.record.enabled && new.record.version.as_deref() == Some("2"));
    assert!(!old.root.exists() && is_trusted(&new));
    home.remove(&new.id).unwrap();
    assert!(!new.root.exists() && home.installed().unwrap().is_empty());
    let error = home.find("mein").unwrap_err().to_string();
    assert!(error.contains("`mein`"), "{error}");
}

#[test]
fn what_is_not_what_was_consented_to_is_not_installed() {
    let (_folder, home) = home();
    let old = put(&home, &source("1", "one"));
    let staged = home.stage(source("2", "two").path()).unwrap();
    let shown = staged.package.hash;
    fs::write(staged.folder().join("a.js"), "three").unwrap();
    let error = home.install(staged, shown, "a folder", 8).unwrap_err();
    assert!(matches!(error, TrustError::NotThis { .. }), "{error}");
    assert!(is_trusted(&home.find("mine").unwrap()) && home.find("mine").unwrap().root == old.root);
    assert_eq!(folders(&home.folder().join(STAGING)).count(), 0, "what was staged is gone");
}

#[test]
fn whoever_is_killed_on_the_way_leaves_the_old() {
    let (_folder, home) = home();
    let old = put(&home, &source("1", "one"));
    // Each state in which an installation can be left: staged; renamed into place; the next list half written.
    let staged = home.stage(source("2", "two").path()).unwrap();
    let place = home.code(&old.id, staged.package.hash);
    assert!(is_trusted(&home.find("mine").unwrap()));
    fs::rename(staged.folder(), &place).unwrap();
    drop(staged);
    fs::create_dir_all(home.folder().join(STAGING).join("left/plugin")).unwrap();
    fs::write(home.folder().join("trust.json.next"), "{").unwrap();
    let found = home.find("mine").unwrap();
    assert!(is_trusted(&found) && found.root == old.root);
    let new = put(&home, &source("2", "two"));
    assert!(is_trusted(&new) && new.root == place, "and the next one finds nothing in its way");
    assert_eq!(folders(&home.folder().join(STAGING)).count(), 0, "and removes what was left");
}

#[test]
fn two_installations_at_once_are_one_and_an_error() {
    let (_folder, home) = home();
    let staged = home.stage(source("1", "one").path()).unwrap();
    let error = home.stage(source("2", "two").path()).unwrap_err();
    assert!(matches!(error, TrustError::Busy), "{error}");
    let hash = staged.package.hash;
    home.install(staged, hash, "a folder", 7).unwrap();
    assert!(is_trusted(&put(&home, &source("2", "two"))));
}

#[test]
fn a_list_that_cannot_be_read_is_an_error_and_not_an_empty_one() {
    let (_folder, home) = home();
    put(&home, &source("1", "one"));
    for text in ["", "{", "{}", r#"{"form": 2, "plugins": {}}"#, r#"{"form": 1, "plugins": {"../x": {}}}"#] {
        fs::write(home.folder().join(LIST), text).unwrap();
        let error = home.installed().unwrap_err().to_string();
        assert!(error.contains("trust.json") && error.contains("\nhint: "), "{text}: {error}");
    }
}

#[test]
fn ids_that_are_one_name_for_some_systems_are_not_installed_together() {
    let (_folder, home) = home();
    let mine = put(&home, &source("1", "one"));
    let called = |id: &str| {
        let other = source("2", "two");
        let path = other.path().join("backstop.plugin.json");
        let text = fs::read_to_string(&path).unwrap().replace("\"mine\"", &format!("\"{id}\""));
        fs::write(path, text).unwrap();
        home.stage(other.path())
    };
    for id in ["MINE", "Mine", "minE"] {
        let staged = called(id).unwrap();
        let hash = staged.package.hash;
        let error = home.install(staged, hash, "a folder", 8).unwrap_err();
        assert!(matches!(error, TrustError::SameName { .. }), "{id}: {error}");
        assert!(is_trusted(&home.find("mine").unwrap()));
    }
    // What a system leaves out or keeps for devices is no id, nor is a letter that only looks like one.
    for id in ["mine.", "mine..", "con", "NUL", "aux.js", "com1", "m\u{131}ne", "mine ", "mi\u{200b}ne"] {
        assert!(called(id).is_err(), "{id}");
    }
    let list = home.folder().join(LIST);
    let text = fs::read_to_string(&list).unwrap();
    let mut both: serde_json::Value = serde_json::from_str(&text).unwrap();
    both["plugins"]["MINE"] = both["plugins"]["mine"].clone();
    fs::write(&list, both.to_string()).unwrap();
    let error = home.installed().unwrap_err().to_string();
    assert!(error.contains("`MINE`") && error.contains("`mine`"), "{error}");
    fs::write(&list, text).unwrap();
    assert!(is_trusted(&mine));
}

#[test]
fn a_name_like_anothers_is_found_and_a_bad_plugin_leaves_nothing() {
    let (_folder, home) = home();
    put(&home, &source("1", "one"));
    let other = source("1", "one");
    let text = fs::read_to_string(other.path().join("backstop.plugin.json")).unwrap();
    fs::write(other.path().join("backstop.plugin.json"), text.replace("\"mine\"", "\"m1ne\"")).unwrap();
    let staged = home.stage(other.path()).unwrap();
    assert!(staged.package.findings.iter().any(|finding| finding.places == ["mine"]));
    drop(staged);
    fs::write(other.path().join("backstop.plugin.json"), "{}").unwrap();
    home.stage(other.path()).unwrap_err();
    assert_eq!(folders(&home.folder().join(STAGING)).count(), 0);
}

#[cfg(unix)]
#[test]
fn a_plugin_that_is_a_link_is_neither_staged_nor_installed() {
    use std::os::unix::fs::symlink;
    let (_folder, home) = home();
    let source = source("1", "one");
    let room = home.staging().unwrap();
    fs::remove_dir(room.plugin()).unwrap();
    symlink(source.path(), room.plugin()).unwrap();
    let error = home.staged(room, Origin::default()).unwrap_err();
    assert!(matches!(error, TrustError::Package(PackageError::NoFolder(_))), "{error}");
    // Nor where it becomes one after it was shown.
    let staged = home.stage(source.path()).unwrap();
    let shown = staged.package.hash;
    fs::remove_dir_all(staged.folder()).unwrap();
    symlink(source.path(), staged.folder()).unwrap();
    let error = home.install(staged, shown, "a folder", 7).unwrap_err();
    assert!(matches!(error, TrustError::Package(PackageError::NoFolder(_))), "{error}");
    assert!(home.installed().unwrap().is_empty());
    // A person may name a link: what is installed is a copy of what it leads to.
    let outer = tempfile::tempdir().unwrap();
    let link = outer.path().join("link");
    symlink(source.path(), &link).unwrap();
    assert_eq!(home.stage(&link).unwrap().package.hash, shown);
}

#[test]
fn whoever_looks_keeps_nobody_from_installing_and_waits_for_nobody() {
    let (_folder, home) = home();
    let installing = home.room(Purpose::Install).unwrap();
    let looking = home.room(Purpose::Look).unwrap();
    let other = home.room(Purpose::Look).unwrap();
    assert!(matches!(home.room(Purpose::Install), Err(TrustError::Busy)));
    for room in [&installing, &looking, &other] {
        assert!(room.plugin().is_dir(), "{room:?}");
    }
    // What is left of one who was killed goes when somebody looks next; what is in use stays.
    let left = looking.plugin().parent().unwrap().with_file_name("left");
    fs::create_dir_all(left.join("plugin")).unwrap();
    let last = home.room(Purpose::Look).unwrap();
    assert!(!left.exists() && [&looking, &other, &last].iter().all(|room| room.plugin().is_dir()));
    let place = last.plugin().to_owned();
    drop(last);
    assert!(!place.exists());
}

#[test]
fn whatever_is_done_with_plugins_makes_the_list_say_something_else() {
    let (_folder, home) = home();
    let read = || fs::read(home.folder().join(LIST)).unwrap();
    let staged = home.stage(source("1", "one").path()).unwrap();
    let hash = staged.package.hash;
    let installed = home.install(staged, hash, "here", 0).unwrap();
    let mut before = vec![read()];
    let steps: [&dyn Fn(); 4] = [
        &|| home.touch().unwrap(),
        &|| home.enable(&installed.id, false).unwrap(),
        &|| home.enable(&installed.id, true).unwrap(),
        &|| home.touch().unwrap(),
    ];
    for step in steps {
        step();
        let now = read();
        assert!(!before.contains(&now));
        before.push(now);
    }
}
