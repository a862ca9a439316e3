//! A package of npm's registry, with what it depends on.
//!
//! npm is run twice, in folders of ours: once to get the package as its authors packed it, which the reader of archives unpacks, and
//! once for its dependencies, in a project that names them and nothing else. So nothing in the package steers npm: neither its `.npmrc` nor
//! its scripts. The laws: no script is run (`--ignore-scripts`); peers and what is for development are left out; what it depends on
//! comes from the registry, by version, and never from an address, a repository or a folder; npm's own configuration is empty, and so is its
//! cache, so that neither a file of the workspace nor of the user chooses the registry; folders above ours are no project of npm's; the registry
//! is asked for first, told to npm each time, and shown. What was unpacked is looked at before anything is written into it, so that no link of
//! the package's leads us out.
//!
//! Limits: packages of other registries, and those that need a login, are not had; a range means what npm makes of it today. What came is
//! pinned by the content hash, dependencies and all.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::tool::Tool;
use super::{FetchError, Origin, Scratch, archive};
use crate::package::{self, Bounds, PackageError, unwritable};

/// Longest name that npm gives.
const LONGEST_NAME: usize = 214;
const LONGEST_RANGE: usize = 200;
const LONGEST_REGISTRY: usize = 500;
/// Most bytes of a package's description of itself, and of npm's list of packages.
const MOST_MANIFEST: u64 = 16 << 20;
/// What is the same whatever npm is to do.
const ALWAYS: [&str; 10] = [
    // Else npm looks for a project in the folders above, which others can write, and reads the configuration there.
    "--no-workspaces",
    "--ignore-scripts",
    "--omit=peer",
    "--omit=dev",
    "--legacy-peer-deps",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--no-bin-links",
    "--no-package-lock",
];

/// A package, and which version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpmSource {
    name: String,
    version: Option<String>,
}

impl fmt::Display for NpmSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.version.as_ref().map_or(Ok(()), |version| write!(f, "@{version}"))
    }
}

impl FromStr for NpmSource {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        // The `@` at the beginning is a scope's.
        let after = text.strip_prefix('@').map_or(0, |_| 1);
        let at = text.char_indices().skip(after).find(|(_, c)| *c == '@').map(|(at, _)| at);
        let (name, version) = match at.and_then(|at| text.split_at_checked(at)) {
            Some((name, version)) => (name, version.strip_prefix('@')),
            None => (text, None),
        };
        if !is_name(name) {
            return Err("that is no name of a package");
        }
        if version.is_some_and(|version| !is_range(version)) {
            return Err("behind `@` stands a version, a range or a tag of the registry");
        }
        Ok(Self { name: name.to_owned(), version: version.map(str::to_owned) })
    }
}

/// A name that the registry can have.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let begins = part.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        begins && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    let inner = match name.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, inner)) if is_part(scope) => inner,
            _ => return false,
        },
        None => name,
    };
    name.len() <= LONGEST_NAME && is_part(inner)
}

/// A version, a range or a tag, and nothing that npm would look for elsewhere.
fn is_range(range: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" .-+_^~*<>=|".contains(&byte);
    range.len() <= LONGEST_RANGE
        && !range.starts_with('-')
        && !range.trim().is_empty()
        && range.bytes().all(is_plain)
        || range.is_empty()
}

/// As [`is_range`], or such a version of a package by another name.
fn is_of_registry(range: &str) -> bool {
    match range.strip_prefix("npm:") {
        Some(other) => other.parse::<NpmSource>().is_ok(),
        None => is_range(range),
    }
}

pub(super) async fn fetch(source: &NpmSource, scratch: &Scratch<'_>) -> Result<Origin, FetchError> {
    let npm = Tool::new(
        "npm",
        scratch,
        &[
            // What an unknown option would be on a command line, it is not here.
            ("npm_config_allow_git", "none"),
            ("npm_config_git", "/nonexistent"),
            // Well within what its memory may be, so that it makes room before there is none.
            ("NODE_OPTIONS", "--max-old-space-size=768"),
        ],
    );
    let mut common = settings(scratch.work)?;
    let packing = project(scratch.work, "pack", r#"{"private":true}"#)?;
    let registry = registry(&npm, &common, &packing).await?;
    common.push(format!("--registry={registry}").into());
    let mut pack: Vec<OsString> = vec!["pack".into(), "--json".into()];
    pack.extend(common.iter().cloned());
    pack.extend(["--".into(), source.to_string().into()]);
    let told = npm.run("get that package", &pack, &packing).await?;
    let packed = Packed::read(&told, source)?;
    archive::unpack(&packing.join(&packed.file), scratch.plugin, &Bounds::default())?;
    opened(scratch)?;
    let wanted = dependencies(scratch.plugin)?;
    if !wanted.is_empty() {
        let installing = project(scratch.work, "install", &Value::Object(wanted).to_string())?;
        let mut install: Vec<OsString> = vec!["install".into()];
        install.extend(common.iter().cloned());
        npm.run("get what that package depends on", &install, &installing).await?;
        let modules = installing.join("node_modules");
        if modules.symlink_metadata().is_ok() {
            let list = text_of(&modules.join(".package-lock.json"))?;
            from_registry(&list, &registry)?;
        }
        bring(&modules, &scratch.plugin.join("node_modules"))?;
    }
    Ok(Origin {
        words: format!("npm:{}@{} ({}) from {registry}", source.name, packed.version, packed.integrity),
        notes: Vec::new(),
    })
}

/// A folder in which npm finds nothing but what we write.
fn project(work: &Path, name: &str, package: &str) -> Result<std::path::PathBuf, FetchError> {
    let folder = work.join(name);
    fs::create_dir(&folder)
        .and_then(|()| fs::write(folder.join("package.json"), package))
        .map_err(unwritable(&folder))?;
    Ok(folder)
}

/// The registry that npm has where nobody but whoever installed it has configured anything.
async fn registry(npm: &Tool<'_>, common: &[OsString], project: &Path) -> Result<String, FetchError> {
    let mut ask: Vec<OsString> = vec!["config".into(), "get".into(), "registry".into()];
    ask.extend(common.iter().cloned());
    let told = npm.run("name its registry", &ask, project).await?;
    let mut registry = told.trim().to_owned();
    if !registry.ends_with('/') {
        registry.push('/');
    }
    let is_plain = registry.len() <= LONGEST_REGISTRY && registry.bytes().all(|byte| byte.is_ascii_graphic());
    let has_credentials = registry.contains('@');
    match registry.starts_with("https://") && is_plain && !has_credentials {
        true => Ok(registry),
        false => Err(FetchError::Refused(
            "npm's registry is no plain `https` address\nhint: `npm config get registry` shows it; it stands in the configuration that npm itself was installed with"
                .to_owned(),
        )),
    }
}

/// Takes the plugin out of the folder `package`, into which npm packs. The archive is a stranger's: that folder has to be one, and no
/// link in it may lead out, before anything is done with it.
fn opened(scratch: &Scratch<'_>) -> Result<(), FetchError> {
    let inner = scratch.plugin.join("package");
    package::check(&inner, &Bounds::default())?;
    let moved = scratch.work.join("package");
    fs::rename(&inner, &moved)
        .and_then(|()| fs::remove_dir(scratch.plugin))
        .and_then(|()| fs::rename(&moved, scratch.plugin))
        .map_err(unwritable(scratch.plugin))?;
    Ok(())
}

/// What npm is told each time: to be quiet and careful, and that its configuration is empty.
fn settings(work: &Path) -> Result<Vec<OsString>, FetchError> {
    let mut all: Vec<OsString> = ALWAYS.iter().map(OsString::from).collect();
    for name in ["user", "global"] {
        let file = work.join(format!("npmrc-{name}"));
        fs::write(&file, "").map_err(unwritable(&file))?;
        let mut option = OsString::from(format!("--{name}config="));
        option.push(file);
        all.push(option);
    }
    let mut cache = OsString::from("--cache=");
    cache.push(work.join("cache"));
    all.push(cache);
    Ok(all)
}

/// What npm says of what it packed.
#[derive(Debug, PartialEq)]
struct Packed {
    version: String,
    integrity: String,
    file: String,
}

impl Packed {
    fn read(told: &str, source: &NpmSource) -> Result<Self, FetchError> {
        let wrong = || {
            FetchError::Refused(format!(
                "npm says nothing of `{source}` that is understood\nhint: npm 9 or newer is needed"
            ))
        };
        let told: Value = serde_json::from_str(told).map_err(|_| wrong())?;
        let text = |key: &str| -> Option<String> {
            let text = told.get(0)?.get(key)?.as_str()?;
            (text.len() <= LONGEST_NAME && text.bytes().all(|byte| byte.is_ascii_graphic()))
                .then(|| text.to_owned())
        };
        let (name, version) = (text("name").ok_or_else(wrong)?, text("version").ok_or_else(wrong)?);
        if name != source.name {
            return Err(FetchError::Refused(format!("npm packed another package than `{source}`")));
        }
        let file = text("filename")
            .filter(|file| !file.contains('/') && !file.starts_with('.'))
            .ok_or_else(wrong)?;
        Ok(Self { version, integrity: text("integrity").unwrap_or_else(|| "no integrity".to_owned()), file })
    }
}

/// The project whose dependencies are those of the package in this folder; empty if it has none.
fn dependencies(folder: &Path) -> Result<Map<String, Value>, FetchError> {
    let text = text_of(&folder.join("package.json"))?;
    let package: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| FetchError::Refused(format!("its `package.json` is no JSON: {error}")))?;
    let brought = names(package.get("bundleDependencies").or_else(|| package.get("bundledDependencies")));
    let mut project = Map::new();
    for key in ["dependencies", "optionalDependencies"] {
        let mut wanted = Map::new();
        for (name, range) in package.get(key).and_then(Value::as_object).into_iter().flatten() {
            if brought.iter().any(|brought| brought == name) {
                continue;
            }
            let range = range.as_str().unwrap_or_default();
            if !is_name(name) || !is_of_registry(range) {
                return Err(FetchError::Refused(format!(
                    "it depends on `{}` from `{}`, which is no version of npm's registry\nhint: install it from a folder that has its dependencies",
                    backstop_yaml::quote(name),
                    backstop_yaml::quote(range)
                )));
            }
            wanted.insert(name.clone(), json!(range));
        }
        if !wanted.is_empty() {
            project.insert(key.to_owned(), Value::Object(wanted));
        }
    }
    if !project.is_empty() {
        project.insert("private".to_owned(), json!(true));
    }
    Ok(project)
}

/// A file of npm's, itself and no link. One that is longer than any is cut, and so no JSON.
fn text_of(path: &Path) -> Result<String, FetchError> {
    let unreadable = |error| PackageError::Unreadable { path: path.to_owned(), error };
    let mut text = String::new();
    let file = package::open_itself(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(PackageError::Special(path.to_owned()).into());
    }
    file.take(MOST_MANIFEST).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Checks npm's own list of what it installed: all of it came from the registry, also what others depend on.
fn from_registry(list: &str, registry: &str) -> Result<(), FetchError> {
    let unknown = || {
        FetchError::Refused(
            "npm does not say where the dependencies came from\nhint: npm 9 or newer is needed".to_owned(),
        )
    };
    let list: Value = serde_json::from_str(list).map_err(|_| unknown())?;
    let packages = list.get("packages").and_then(Value::as_object).ok_or_else(unknown)?;
    let is_registry = registry.starts_with("https://") && registry.ends_with('/');
    for (name, package) in packages {
        // What a package brings along in its own archive came with that.
        let is_brought = package.get("inBundle") == Some(&json!(true));
        let from = package.get("resolved").and_then(Value::as_str).unwrap_or_default();
        if !(is_brought || is_registry && from.starts_with(registry)) {
            return Err(FetchError::Refused(format!(
                "`{}` came from `{}`, and not from npm's registry\nhint: install the plugin from a folder that has its dependencies",
                backstop_yaml::quote(name),
                backstop_yaml::quote(from)
            )));
        }
    }
    Ok(())
}

/// The names in a list; `true` would be all, which npm writes out when it packs.
fn names(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

/// Puts what npm installed beside what the package brought along, which stays. Nothing is put behind a link.
fn bring(from: &Path, to: &Path) -> Result<(), FetchError> {
    let failed = unwritable(to);
    match to.symlink_metadata() {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(PackageError::NoFolder(to.to_owned()).into()),
        Err(_) => {
            return match fs::rename(from, to) {
                // Everything that it depends on is optional, and for other machines.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                moved => Ok(moved.map_err(&failed)?),
            };
        }
    }
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let (source, place) = (entry.path(), to.join(entry.file_name()));
        let is_scope = entry.file_name().to_string_lossy().starts_with('@');
        match place.symlink_metadata() {
            Err(_) => fs::rename(&source, &place).map_err(&failed)?,
            Ok(found) if is_scope && found.is_dir() => bring(&source, &place)?,
            Ok(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_as_the_registry_names_it_and_in_no_other_way() {
        for (text, name, version) in [
            ("a", "a", None),
            ("@s/p", "@s/p", None),
            ("@s/p@1.2.3", "@s/p", Some("1.2.3")),
            ("p@^1 || >=2.0.0-rc.1", "p", Some("^1 || >=2.0.0-rc.1")),
            ("p@latest", "p", Some("latest")),
        ] {
            let expected = NpmSource { name: name.to_owned(), version: version.map(str::to_owned) };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for bad in [
            "",
            "@",
            "@s",
            "@s/",
            "../p",
            "./p",
            "/p",
            "p/q",
            "-g",
            "--prefix",
            "p@file:..",
            "p@git+ssh://x/y",
            "p@https://x/y.tgz",
            "p@x/y",
            "p@-g",
            "https://x/y.tgz",
            "p q",
            "p@npm:q@1",
            "@s/-p",
            "p@\u{a0}1",
            &"x".repeat(215),
        ] {
            assert!(bad.parse::<NpmSource>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_came_from_elsewhere_is_told_by_npms_own_list() {
        let registry = "https://registry.example/";
        let list = |package: Value| json!({ "packages": { "node_modules/a": package } }).to_string();
        for (package, fine) in [
            (json!({"resolved": "https://registry.example/a/-/a-1.tgz"}), true),
            (json!({"inBundle": true}), true),
            (json!({"resolved": "https://registry.example.org/a.tgz"}), false),
            (json!({"resolved": "git+ssh://git@registry.example/a.git#1"}), false),
            (json!({"resolved": "../../a", "link": true}), false),
            (json!({}), false),
        ] {
            assert_eq!(from_registry(&list(package.clone()), registry).is_ok(), fine, "{package}");
        }
        let fine = list(json!({"resolved": "http://registry.example/a.tgz"}));
        assert!(
            from_registry(&fine, "http://registry.example/").is_err() && from_registry(&fine, "").is_err()
        );
        assert!(from_registry("[]", registry).is_err() && from_registry("{", registry).is_err());
    }

    #[test]
    fn what_it_depends_on_comes_from_the_registry_or_the_package_is_refused() {
        let wanted = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("package.json"), text).unwrap();
            dependencies(folder.path()).map_err(|error| error.to_string())
        };
        let fine = r#"{"dependencies": {"a": "^1", "b": "npm:@s/c@2", "brought": "1"}, "bundleDependencies": ["brought"],
            "optionalDependencies": {"d": "*"}, "devDependencies": {"e": "file:.."}, "peerDependencies": {"openclaw": "*"}, "scripts": {"install": "x"}}"#;
        let project = Value::Object(wanted(fine).unwrap());
        assert_eq!(
            project,
            json!({"dependencies": {"a": "^1", "b": "npm:@s/c@2"}, "optionalDependencies": {"d": "*"}, "private": true})
        );
        assert!(wanted(r#"{"peerDependencies": {"openclaw": "*"}}"#).unwrap().is_empty());
        for elsewhere in
            ["file:../..", "git+ssh://x/y", "x/y", "https://x/y.tgz", "link:..", "npm:file:x", "workspace:*"]
        {
            let text = json!({"dependencies": {"a": elsewhere}}).to_string();
            let error = wanted(&text).unwrap_err();
            assert!(error.contains("`a`") && error.contains("\nhint: "), "{elsewhere}: {error}");
        }
    }

    /// Folders as they are when npm has packed: one for the plugin, one beside it, one that is nobody's of ours.
    fn folders() -> (tempfile::TempDir, [std::path::PathBuf; 3]) {
        let outer = tempfile::tempdir().unwrap();
        let all = ["plugin", "work", "elsewhere"].map(|name| outer.path().join(name));
        all.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        (outer, all)
    }

    fn open(plugin: &Path, work: &Path) -> Result<(), String> {
        opened(&Scratch { plugin, work, environment: &|_| None }).map_err(|error| error.to_string())
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_a_package_brings_leads_nothing_out_of_its_folder() {
        use std::os::unix::fs::symlink;
        for (name, target) in [
            ("package", "../elsewhere"),
            ("package/node_modules", "../../elsewhere"),
            ("package/node_modules/@s", "../../../elsewhere"),
            ("package/package.json", "../../elsewhere/file"),
        ] {
            let (_outer, [plugin, work, elsewhere]) = folders();
            fs::write(elsewhere.join("file"), "{}").unwrap();
            let link = plugin.join(name);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, &link).unwrap();
            let error = open(&plugin, &work).unwrap_err();
            assert!(error.contains("leads out") || error.contains("is no folder"), "{name}: {error}");
        }
        // Without any of that it is taken.
        let (_outer, [plugin, work, _]) = folders();
        fs::create_dir(plugin.join("package")).unwrap();
        fs::write(plugin.join("package/a.js"), "").unwrap();
        open(&plugin, &work).unwrap();
        assert!(plugin.join("a.js").exists());
    }

    #[cfg(unix)]
    #[test]
    fn dependencies_are_put_into_folders_and_behind_no_link() {
        let (_outer, [plugin, work, elsewhere]) = folders();
        fs::create_dir_all(work.join("node_modules/@s/b")).unwrap();
        fs::create_dir_all(work.join("node_modules/a")).unwrap();
        let (from, to) = (work.join("node_modules"), plugin.join("node_modules"));
        // Also where it leads to a folder of the plugin's own.
        fs::create_dir(plugin.join("lib")).unwrap();
        for target in [&elsewhere, Path::new("lib")] {
            std::os::unix::fs::symlink(target, &to).unwrap();
            let error = bring(&from, &to).unwrap_err().to_string();
            assert!(error.contains("is no folder"), "{error}");
            fs::remove_file(&to).unwrap();
        }
        for untouched in [&elsewhere, &plugin.join("lib")] {
            assert_eq!(fs::read_dir(untouched).unwrap().count(), 0);
        }
        fs::create_dir_all(to.join("@s")).unwrap();
        bring(&from, &to).unwrap();
        assert!(to.join("a").is_dir() && to.join("@s/b").is_dir());
    }

    #[cfg(unix)]
    #[test]
    fn a_description_of_a_package_is_a_file_and_nobody_waits_for_a_pipe() {
        let (_outer, [plugin, _, elsewhere]) = folders();
        let path = plugin.join("package.json");
        fs::write(elsewhere.join("file"), "{}").unwrap();
        std::os::unix::fs::symlink(elsewhere.join("file"), &path).unwrap();
        dependencies(&plugin).unwrap_err();
        fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        let error = dependencies(&plugin).unwrap_err().to_string();
        assert!(error.contains("neither a file"), "{error}");
    }

    #[tokio::test]
    async fn folders_above_ours_do_not_choose_the_registry() {
        let (outer, [plugin, work, _]) = folders();
        fs::write(outer.path().join("package.json"), r#"{"private": true, "workspaces": ["work/*"]}"#)
            .unwrap();
        fs::write(outer.path().join(".npmrc"), "registry=https://elsewhere.invalid/\n").unwrap();
        let environment = |name: &str| (name == "PATH").then(|| std::env::var(name).unwrap());
        let scratch = Scratch { plugin: &plugin, work: &work, environment: &environment };
        let npm = Tool::new("npm", &scratch, &[]);
        let folder = project(&work, "pack", "{}").unwrap();
        let common = settings(&work).unwrap();
        let found = registry(&npm, &common, &folder).await.unwrap();
        assert!(found.starts_with("https://") && !found.contains("elsewhere"), "{found}");
    }
}
