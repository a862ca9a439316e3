//! From a specifier to the one name of a module.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::package::{Asked, Mapped, Package, Platform};
use crate::source::FilesSeen;

/// What a specifier means among the files of a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A file, by its name: the path relative to the folder.
    File(String),
    /// A name that is looked for anew, because a map says so.
    Other(String),
    /// An empty module.
    Empty,
}

/// Endings that are tried where a path has none, and for what a folder begins with.
const ENDINGS: [&str; 7] = ["ts", "js", "mjs", "cjs", "mts", "cts", "json"];

/// The name of a module whose file has this path inside of the folder. One whose first part has a colon is one of ours.
pub(super) fn name_of(inside: &Path) -> Option<String> {
    let name = inside.to_str()?;
    let first = name.split('/').next().unwrap_or_default();
    Some(if first.contains(':') { format!("./{name}") } else { name.to_owned() })
}

/// Bytes of one `package.json`.
const MOST_PACKAGE: u64 = 4 << 20;
/// Bytes of all `package.json` that are remembered.
const MOST_REMEMBERED: u64 = 16 << 20;

/// What is remembered of packages; it is forgotten as a whole when it would be too much, and read again.
#[derive(Default)]
struct Packages {
    of: HashMap<PathBuf, Option<Arc<Package>>>,
    bytes: u64,
}

/// The files of a script.
pub(super) struct Files {
    root: PathBuf,
    /// What the host calls the folder, where a link leads there: scripts are told of it by that name.
    given: Option<PathBuf>,
    /// How many folders are remembered.
    most: usize,
    packages: RefCell<Packages>,
    seen: Option<Arc<dyn FilesSeen>>,
    platform: Platform,
}

impl Files {
    /// The files below a folder.
    pub(super) fn new(
        root: &Path,
        most: usize,
        seen: Option<Arc<dyn FilesSeen>>,
        platform: Platform,
    ) -> std::io::Result<Self> {
        let (real, given) = (root.canonicalize()?, normal(root));
        let given = Some(given).filter(|given| given.is_absolute() && *given != real);
        Ok(Self { root: real, given, most, packages: RefCell::default(), seen, platform })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a module's file is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name.strip_prefix("./").unwrap_or(name))
    }

    fn folder_of(&self, importer: &str) -> PathBuf {
        if importer.is_empty() {
            return self.root.clone();
        }
        let path = self.path(importer);
        path.parent().map_or_else(|| self.root.clone(), Path::to_owned)
    }

    /// A path by the real name of the folder.
    fn really(&self, path: PathBuf) -> PathBuf {
        let inside = self.given.as_ref().and_then(|given| path.strip_prefix(given).ok());
        inside.map(|inside| self.root.join(inside)).unwrap_or(path)
    }

    /// Refuses a path that leads out of the folder by its text.
    ///
    /// INVARIANT (nobody learns what there is outside): this is asked before the disk is.
    fn stays_inside(&self, path: &Path) -> Result<(), String> {
        match normal(path).starts_with(&self.root) {
            true => Ok(()),
            false => Err(OUTSIDE.to_owned()),
        }
    }

    /// The name of the module of a file, which has to be inside.
    fn name(&self, path: &Path) -> Result<String, String> {
        self.stays_inside(path)?;
        let real = path.canonicalize().map_err(|error| format!("its file cannot be read ({error})"))?;
        let inside = real.strip_prefix(&self.root).map_err(|_| OUTSIDE.to_owned())?;
        name_of(inside).ok_or_else(|| "its path is no Unicode".to_owned())
    }

    /// The bytes of a file, as the disk has it: links are followed, and what leads out of the folder is refused, whoever made
    /// its name. What was looked at before is compared with that look.
    pub(super) fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, String> {
        self.name(path)?;
        let unreadable = |error: std::io::Error| format!("its file cannot be read ({error})");
        let real = path.canonicalize().map_err(unreadable)?;
        let file = std::fs::File::open(&real).map_err(unreadable)?;
        let data = file.metadata().map_err(unreadable)?;
        if !data.is_file() || data.len() > most {
            return Err(format!("its file has {} bytes; the most is {most}", data.len()));
        }
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > most) {
            return Err(format!("its file grows beyond {most} bytes, which is the most"));
        }
        let name = real.strip_prefix(&self.root).ok().and_then(Path::to_str);
        let is_seen = |seen: &Arc<dyn FilesSeen>| name.is_some_and(|name| seen.holds(name, &bytes));
        if !self.seen.as_ref().is_none_or(is_seen) {
            return Err("its file is not what was looked at before it was loaded\n  hint: somebody changed it since; look at it again".to_owned());
        }
        Ok(bytes)
    }

    /// The nearest package around a folder, with its own folder.
    fn package_around(&self, folder: &Path) -> Result<Option<(PathBuf, Arc<Package>)>, String> {
        if leads_up(folder) {
            return Ok(None);
        }
        for above in folder.ancestors() {
            if !above.starts_with(&self.root) {
                break;
            }
            if let Some(package) = self.package(above)? {
                return Ok(Some((above.to_owned(), package)));
            }
            if above.file_name().is_some_and(|name| name == "node_modules") {
                break;
            }
        }
        Ok(None)
    }

    fn package(&self, folder: &Path) -> Result<Option<Arc<Package>>, String> {
        if let Some(known) = self.packages.borrow().of.get(folder) {
            return Ok(known.clone());
        }
        let path = folder.join("package.json");
        let mut bytes = 0;
        let read = match std::fs::metadata(&path) {
            Ok(data) if data.is_file() && data.len() <= MOST_PACKAGE => {
                bytes = data.len();
                // It may be a link, so it has to be inside as any file has.
                let text = self.read(&path, MOST_PACKAGE).and_then(|bytes| {
                    String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned())
                });
                let text =
                    text.map_err(|reason| format!("{} cannot be read: {reason}", self.shown(&path)))?;
                let package = Package::read(&text, self.platform)
                    .map_err(|error| format!("{} is broken: {error}", self.shown(&path)))?;
                Some(Arc::new(package))
            }
            _ => None,
        };
        let mut packages = self.packages.borrow_mut();
        if packages.of.len() >= self.most || packages.bytes + bytes > MOST_REMEMBERED {
            *packages = Packages::default();
        }
        packages.bytes += bytes;
        packages.of.insert(folder.to_owned(), read.clone());
        Ok(read)
    }

    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }

    /// Whether `.js` around a file is an ES module, if that is said.
    pub(super) fn is_module(&self, name: &str) -> Option<bool> {
        let folder = self.folder_of(name);
        self.package_around(&folder).ok().flatten().and_then(|(_, package)| package.is_module)
    }

    /// Resolves a specifier that is no module of ours.
    pub(super) fn resolve(&self, importer: &str, specifier: &str, asked: Asked) -> Result<Found, String> {
        let folder = self.folder_of(importer);
        if let Some(scheme) = scheme(specifier) {
            return Err(format!(
                "modules are files of the script's folder, and none comes from an address (`{scheme}:`)\n  hint: put its code into a file beside the importer"
            ));
        }
        if let Some(path) = specifier.strip_prefix("file://") {
            return self.probe(&self.really(normal(Path::new(&percent_decoded(path))))).map(Found::File);
        }
        if is_path(specifier) {
            // `/` leads to a file only if that is inside; `join` takes an absolute path as it is.
            let path = self.really(normal(&folder.join(specifier)));
            if let Some((home, package)) = self.package_around(&folder)?
                && let Ok(inside) = path.strip_prefix(&home)
                && let Some(mapped) = package.replaced(&format!("./{}", inside.display()))
            {
                return self.mapped(&home, mapped);
            }
            return self.probe(&path).map(Found::File);
        }
        if let Some((home, package)) = self.package_around(&folder)? {
            if specifier.starts_with('#') {
                let to = package.internal(specifier, asked).ok_or_else(|| {
                    format!("{} has no `imports` for it", self.shown(&home.join("package.json")))
                })?;
                if !to.starts_with("./") {
                    return Ok(Found::Other(to));
                }
                let found = self.inside(&home, &to)?;
                return self.after_map(&home, &package, found).map(Found::File);
            }
            if let Some(mapped) = package.replaced(specifier) {
                return self.mapped(&home, mapped);
            }
            let (name, subpath) = split(specifier);
            if package.has_exports() && package.name.as_deref() == Some(name) {
                return self.of_package(&home, &package, &subpath, asked).map(Found::File);
            }
        }
        self.bare(&folder, specifier, asked).map(Found::File)
    }

    /// What the `browser` map of the importer's package puts in the place of a module of Node's.
    pub(super) fn replaced(&self, importer: &str, specifier: &str) -> Option<Result<Found, String>> {
        let (home, package) = self.package_around(&self.folder_of(importer)).ok()??;
        Some(self.mapped(&home, package.replaced(specifier)?))
    }

    fn mapped(&self, home: &Path, mapped: Mapped) -> Result<Found, String> {
        match mapped {
            Mapped::Empty => Ok(Found::Empty),
            Mapped::To(to) if is_path(&to) => self.probe(&normal(&home.join(to))).map(Found::File),
            Mapped::To(other) => Ok(Found::Other(other)),
        }
    }

    /// Looks for a package in the folders `node_modules` from here up to the script's own.
    fn bare(&self, folder: &Path, specifier: &str, asked: Asked) -> Result<String, String> {
        let (name, subpath) = split(specifier);
        if name.is_empty() || name.split('/').any(|part| part.is_empty() || part == "..") {
            return Err("this is no name of a package".to_owned());
        }
        if leads_up(folder) {
            return Err("its importer is outside of the script's folder".to_owned());
        }
        for above in folder.ancestors().take_while(|above| above.starts_with(&self.root)) {
            let home = above.join("node_modules").join(name);
            let Ok(real) = home.canonicalize() else { continue };
            if !real.is_dir() {
                continue;
            }
            if !real.starts_with(&self.root) {
                return Err(
                    "its package is a link out of the script's folder\n  hint: install it there".to_owned()
                );
            }
            let package = self.package(&real)?.unwrap_or_else(|| Arc::new(Package::unsaid(self.platform)));
            return self.of_package(&real, &package, &subpath, asked);
        }
        Err(format!(
            "there is no package `{name}` in the script's folder, and no module of that name here\n  hint: install it into the folder's `node_modules`, or bundle it"
        ))
    }

    fn of_package(
        &self,
        home: &Path,
        package: &Package,
        subpath: &str,
        asked: Asked,
    ) -> Result<String, String> {
        if package.has_exports() {
            let to = package.exported(subpath, asked).ok_or_else(|| {
                format!("{} does not export `{subpath}`", self.shown(&home.join("package.json")))
            })?;
            let found = self.inside(home, &to)?;
            return self.after_map(home, package, found);
        }
        if subpath != "." {
            return self.after_map(home, package, self.probe(&normal(&home.join(subpath)))?);
        }
        let start = package.start().unwrap_or("index");
        let found = self.probe(&normal(&home.join(start))).or_else(|_| self.probe(&home.join("index")))?;
        self.after_map(home, package, found)
    }

    /// What the map `browser` of a package has instead of one of its files.
    fn after_map(&self, home: &Path, package: &Package, found: String) -> Result<String, String> {
        let path = self.path(&found);
        let Ok(inside) = path.strip_prefix(home) else { return Ok(found) };
        match package.replaced(&format!("./{}", inside.display())) {
            Some(Mapped::To(to)) if is_path(&to) => self.probe(&normal(&home.join(to))),
            _ => Ok(found),
        }
    }

    /// A target of `exports`: a file of the package, as it is written.
    fn inside(&self, home: &Path, to: &str) -> Result<String, String> {
        let path = normal(&home.join(to));
        if !to.starts_with("./") || !path.starts_with(home) {
            return Err(format!(
                "{} leads to `{to}`, which is not in the package",
                self.shown(&home.join("package.json"))
            ));
        }
        self.probe(&path)
    }

    /// The file that a path means: itself, its TypeScript form, with an ending, or the beginning of a folder.
    fn probe(&self, path: &Path) -> Result<String, String> {
        const TYPESCRIPT: &[(&str, &str)] = &[("js", "ts"), ("mjs", "mts"), ("cjs", "cts")];
        self.stays_inside(path)?;
        if path.is_file() {
            return self.name(path);
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        if let Some((_, typed)) = TYPESCRIPT.iter().find(|(plain, _)| Some(*plain) == ending) {
            let typed = path.with_extension(typed);
            if typed.is_file() {
                return self.name(&typed);
            }
        }
        let with = |base: &Path| {
            ENDINGS
                .iter()
                .map(|ending| PathBuf::from(format!("{}.{ending}", base.display())))
                .find(|path| path.is_file())
        };
        if let Some(found) = with(path) {
            return self.name(&found);
        }
        if path.is_dir() {
            // The folder itself has to be inside before anything in it is read.
            self.name(path)?;
            if let Some(package) = self.package(path)?
                && let Some(start) = package.start()
                && start != "."
            {
                let start = normal(&path.join(start));
                if start != path
                    && let Ok(found) = self.probe(&start)
                {
                    return Ok(found);
                }
            }
            if let Some(found) = with(&path.join("index")) {
                return self.name(&found);
            }
        }
        Err(self.not_there(path))
    }

    /// What is said of a path inside of the folder that means no file.
    fn not_there(&self, path: &Path) -> String {
        let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", path.display()));
        if let Some(ending) = ["tsx", "jsx"].into_iter().find(|ending| beside(ending).is_file()) {
            return format!(
                "there is no such file\n  hint: `{}` is JSX, which is not read here; compile it",
                self.shown(&beside(ending))
            );
        }
        let endings = ENDINGS.map(|ending| format!("`.{ending}`")).join(", ");
        let shown = self.shown(path);
        match path.is_dir() {
            true => format!(
                "it is a folder that begins with no file\n  hint: it needs `index` with one of {endings}, or a `package.json` with `main`"
            ),
            false => format!(
                "there is no such file\n  hint: tried were `{shown}`, that with {endings}, and `index` in a folder of that name"
            ),
        }
    }
}

/// What is said of a path that leads out of the script's folder, whether something is there or not.
const OUTSIDE: &str = "its file is outside of the script's folder\n  hint: copy it into the folder; links out of it are not followed";

/// The scheme of an address that is no file's, if the specifier is one. A letter alone is a drive, and no scheme.
fn scheme(specifier: &str) -> Option<&str> {
    let (scheme, _) = specifier.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|part| part.is_ascii_alphanumeric() || "+-.".contains(part));
    (is_scheme && scheme != "file").then_some(scheme)
}

fn is_path(specifier: &str) -> bool {
    specifier == "."
        || specifier == ".."
        || ["./", "../", "/"].iter().any(|start| specifier.starts_with(start))
}

/// `@scope/name/part` as the package and the part in it.
fn split(specifier: &str) -> (&str, String) {
    let parts = if specifier.starts_with('@') { 2 } else { 1 };
    let end = specifier.match_indices('/').nth(parts - 1).map_or(specifier.len(), |(at, _)| at);
    let (name, rest) = specifier.split_at(end);
    (name, format!(".{rest}"))
}

/// A path without `.` and `..`, by its text alone.
fn normal(path: &Path) -> PathBuf {
    let mut made = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                made.pop();
            }
            other => made.push(other),
        }
    }
    made
}

fn percent_decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut made = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = bytes
            .get(at + 1..at + 3)
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        match code {
            Some(code) if *byte == b'%' => {
                made.push(code);
                at += 3;
            }
            _ => {
                made.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&made).into_owned()
}

/// The URL of a file.
pub(super) fn url(path: &Path) -> String {
    use std::fmt::Write as _;
    let mut made = "file://".to_owned();
    for byte in path.to_string_lossy().bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~!$&'()*+,;=:@".contains(&byte) {
            made.push(char::from(byte));
        } else {
            let _ = write!(made, "%{byte:02X}");
        }
    }
    made
}

/// Whether a folder is named by a way up: a process names its importers itself, and the disk is not asked about what is outside.
fn leads_up(folder: &Path) -> bool {
    folder.components().any(|part| part == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that holds a script may write any name of a module.
    #[test]
    fn a_name_that_leads_out_is_the_same_error_whether_something_is_there() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::create_dir(outer.path().join("root")).unwrap();
        std::fs::write(outer.path().join("there"), "x").unwrap();
        let files = Files::new(&outer.path().join("root"), 4, None, Platform::Node).unwrap();
        for name in ["../there", "../nothing", "a/../../there", "/etc/hostname", "/nothing", ".."] {
            assert_eq!(files.read(&files.path(name), 9), Err(OUTSIDE.to_owned()), "{name}");
        }
    }

    #[test]
    fn a_folder_that_a_link_leads_to_has_both_names() {
        let outer = tempfile::tempdir().unwrap();
        let (root, link) = (outer.path().join("root"), outer.path().join("link"));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a.js"), "").unwrap();
        std::fs::write(outer.path().join("b.js"), "").unwrap();
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let files = Files::new(&link, 4, None, Platform::Ours).unwrap();
        for folder in [&root, &link] {
            for specifier in [format!("{}/a", folder.display()), format!("file://{}/a.js", folder.display())]
            {
                let found = files.resolve("", &specifier, Asked::Import);
                assert_eq!(found, Ok(Found::File("a.js".to_owned())), "{specifier}");
            }
            let outside = files.resolve("", &format!("{}/../b.js", folder.display()), Asked::Import);
            assert_eq!(outside, Err(OUTSIDE.to_owned()));
        }
    }

    #[test]
    fn what_is_remembered_of_packages_is_bounded_and_what_they_say_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("package.json"), r#"{"type": "module"}"#).unwrap();
        let files = Files::new(folder.path(), 4, None, Platform::Ours).unwrap();
        for number in 0..100 {
            assert_eq!(files.is_module(&format!("{number}/a.js")), Some(true));
            assert!(files.packages.borrow().of.len() <= 4);
        }
    }
}
