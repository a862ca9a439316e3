//! Credentials that the gateway gets for itself: `google_credentials`, `token_command`, `aws_profile` of a provider.
//!
//! The environment of the gateway is the operator's, and counts only where the configuration says that it does
//! (`google_credentials: application-default`, `aws_profile`): a variable that is set for other programs changes nothing here.
//! Files and programs count as the operator's configuration does: if they lie in no workspace and nobody else may write them.
//! They are looked up once, when the gateway begins: what is put in their places or in front of them later does not count.
//!
//! Limits: what a program loads besides (its libraries, its settings in the home folder) is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_config::{
    GoogleSource, Loaded, Locations, Place, Provider, Untrusted, open_with_place, operators_folder,
};
use backstop_gateway::{AwsProfile, Credential, CredentialSource, OperatorFiles, Renewed, TokenCommand};

use crate::locations::from_operator;

/// What a program that prints credentials gets of the environment, if it is set.
const FOR_PROGRAMS: [&str; 7] = ["HOME", "PATH", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"];
/// Where Amazon's files are, in place of those in the home folder.
const AWS_CREDENTIALS: &str = "AWS_SHARED_CREDENTIALS_FILE";
const AWS_CONFIG: &str = "AWS_CONFIG_FILE";
/// Where the file of Google's is, and the folder in which it is usually.
const GOOGLE_FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
const GOOGLE_FOLDER: &str = "CLOUDSDK_CONFIG";
const OF_LOGIN: &str = "application_default_credentials.json";
/// The metadata server by its number, which nobody else answers to by a name.
const METADATA: &str = "http://169.254.169.254";

type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The credentials that a provider has others get, if it does.
pub(super) fn renewed(
    loaded: &Loaded,
    name: &str,
    provider: &Provider,
    environment: &Environment<'_>,
) -> Option<Credential> {
    let source = source(loaded, provider, environment)?;
    Some(match source {
        Ok(source) => {
            let (source, found) = look_up(source, environment);
            Credential::Renewed(Renewed::new(source, Arc::new(found)))
        }
        Err(why) => Credential::Missing(format!("the credentials of provider `{name}` are missing: {why}")),
    })
}

/// Why a provider would get no credentials if the gateway began now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialProblem {
    /// The provider.
    pub provider: String,
    /// Where the configuration says what they are made of.
    pub at: Place,
    /// What is missing, or is not the operator's, with the next step.
    pub says: String,
}

/// What is missing of the credentials of providers, and what is there and does not count since others may have made it. No
/// program is started, and nothing is asked for.
pub fn credential_problems(loaded: &Loaded, environment: &Environment<'_>) -> Vec<CredentialProblem> {
    let mut problems = Vec::new();
    for (name, provider) in loaded.config.providers.iter() {
        let Some((at, source)) = place_of(provider).zip(source(loaded, provider, environment)) else {
            continue;
        };
        let said = match source {
            Ok(source) => {
                let (source, found) = look_up(source, environment);
                faults(&source, found)
            }
            Err(why) => vec![why],
        };
        let provider = name.value.as_str().to_owned();
        problems.extend(said.into_iter().map(|says| CredentialProblem {
            provider: provider.clone(),
            at: at.clone(),
            says,
        }));
    }
    problems
}

/// Where the configuration says from what credentials are made.
fn place_of(provider: &Provider) -> Option<&Place> {
    let places = [
        provider.google_credentials_file.as_ref().map(|file| &file.at),
        provider.google_credentials.as_ref().map(|google| &google.at),
        provider.aws_profile.as_ref().map(|profile| &profile.at),
        provider.token_command.as_ref().map(|command| &command.at),
    ];
    places.into_iter().flatten().next()
}

/// What keeps a source from giving credentials, as far as it can be seen without asking it.
fn faults(source: &CredentialSource, found: Found) -> Vec<String> {
    let quoted = |name: &OsStr| name.to_string_lossy().into_owned();
    let programs = found.programs.into_iter().map(|(name, place)| (quoted(&name), place));
    let files = found.files.into_iter().map(|(name, place)| (quoted(name.as_os_str()), place));
    let all: Vec<(String, Lookup)> = files.chain(programs).collect();
    // Of the two files of a profile, one is enough.
    let has_any = all.iter().any(|(_, place)| matches!(place, Ok(Some(_))));
    let is_enough = has_any && matches!(source, CredentialSource::AwsProfile(_));
    let said = all.into_iter().filter_map(|(name, place)| match place {
        Ok(Some(_)) => None,
        Ok(None) if is_enough => None,
        Ok(None) => Some(format!(
            "`{name}` is not there\nhint: it is looked for when the gateway begins, or reads its configuration anew (SIGHUP)"
        )),
        Err(why) => Some(format!("`{name}` does not count: {why}")),
    });
    said.collect()
}

/// What of the disk credentials of providers are made of, absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialPlaces {
    /// Files and programs, by the names that they have and by where links lead.
    pub files: BTreeSet<PathBuf>,
    /// The folders that they are in, there or not, and those in which their programs find others. Whoever can put something
    /// there chooses credentials as well as who writes the files.
    pub folders: BTreeSet<PathBuf>,
}

/// Where the credentials of providers come from.
pub fn credential_places(loaded: &Loaded, environment: &Environment<'_>) -> CredentialPlaces {
    let sources = loaded.config.providers.iter();
    let sources = sources.filter_map(|(_, provider)| source(loaded, provider, environment)?.ok());
    let mut places = CredentialPlaces::default();
    for (source, found) in sources.map(|source| look_up(source, environment)) {
        for (name, place) in found.files {
            places.add(name);
            places.files.extend(place.ok().flatten());
        }
        if found.programs.is_empty() {
            continue;
        }
        for (name, place) in found.programs {
            places.add(name.into());
            place.into_iter().flatten().for_each(|place| places.add(place));
        }
        let path = environment_of(&source).and_then(|environment| environment.get(OsStr::new("PATH")));
        let folders = path.iter().flat_map(std::env::split_paths);
        places.folders.extend(folders.filter(|folder| folder.is_absolute()));
    }
    let real: Vec<PathBuf> = places.files.iter().filter_map(|file| fs::canonicalize(file).ok()).collect();
    real.into_iter().for_each(|file| places.add(file));
    places
}

impl CredentialPlaces {
    fn add(&mut self, file: PathBuf) {
        if file.is_absolute() {
            self.folders.extend(file.parent().map(Path::to_path_buf));
            self.files.insert(file);
        }
    }
}

/// Looks up the files and programs of a source, once: what is put there later, by whoever is judged, does not count. Of the
/// `PATH` of its programs those folders are left that are the operator's.
fn look_up(mut source: CredentialSource, environment: &Environment<'_>) -> (CredentialSource, Found) {
    let mut found = Found::new(environment);
    let given = match &mut source {
        CredentialSource::Command(command) => Some(&mut command.environment),
        CredentialSource::AwsProfile(profile) => Some(&mut profile.environment),
        CredentialSource::GoogleFile(_) | CredentialSource::GoogleMetadata { .. } => None,
    };
    let mut folders = Vec::new();
    if let Some(path) = given.and_then(|given| given.get_mut(OsStr::new("PATH"))) {
        folders = found.operators_folders(path);
        // Folders that hold a `:` came out of no such list.
        *path = std::env::join_paths(&folders).unwrap_or_default();
    }
    match &source {
        CredentialSource::GoogleFile(file) => found.look_for_file(file),
        CredentialSource::AwsProfile(profile) => {
            found.look_for_file(&profile.credentials);
            found.look_for_file(&profile.config);
            if let Some(program) = profile.process(&found) {
                found.look_for_program(program, &folders);
            }
        }
        CredentialSource::Command(command) => found.look_for_program(command.program.clone(), &folders),
        CredentialSource::GoogleMetadata { .. } => {}
    }
    (source, found)
}

fn environment_of(source: &CredentialSource) -> Option<&BTreeMap<OsString, OsString>> {
    match source {
        CredentialSource::Command(command) => Some(&command.environment),
        CredentialSource::AwsProfile(profile) => Some(&profile.environment),
        CredentialSource::GoogleFile(_) | CredentialSource::GoogleMetadata { .. } => None,
    }
}

fn source(
    loaded: &Loaded,
    provider: &Provider,
    environment: &Environment<'_>,
) -> Option<Result<CredentialSource, String>> {
    if let Some(file) = &provider.google_credentials_file {
        return Some(Ok(CredentialSource::GoogleFile(from_operator(loaded, file.value.expose()))));
    }
    if let Some(google) = &provider.google_credentials {
        return Some(match google.value {
            GoogleSource::ApplicationDefault => {
                application_default(environment).map(CredentialSource::GoogleFile)
            }
            GoogleSource::Metadata => Ok(CredentialSource::GoogleMetadata { address: METADATA.to_owned() }),
        });
    }
    if let Some(profile) = &provider.aws_profile {
        return Some(aws_profile(profile.value.as_str(), environment).map(CredentialSource::AwsProfile));
    }
    let mut words = provider.token_command.as_ref()?.value.iter().map(|word| word.value.expose());
    let program = words.next()?;
    let more = provider.token_environment.iter().map(|name| name.value.as_str());
    Some(Ok(CredentialSource::Command(TokenCommand {
        program: if program.contains('/') { from_operator(loaded, program).into() } else { program.into() },
        arguments: words.map(OsString::from).collect(),
        environment: given(more, environment),
    })))
}

/// What a program gets of the environment.
fn given<'a>(
    more: impl Iterator<Item = &'a str>,
    environment: &Environment<'_>,
) -> BTreeMap<OsString, OsString> {
    let names = FOR_PROGRAMS.into_iter().chain(more);
    names.filter_map(|name| Some((name.into(), environment(name)?.into()))).collect()
}

/// A path that a variable names. One that counts from a working directory would have that choose.
fn named(variable: &str, environment: &Environment<'_>) -> Result<Option<PathBuf>, String> {
    match environment(variable).filter(|value| !value.is_empty()).map(PathBuf::from) {
        Some(path) if !path.is_absolute() => Err(format!("`{variable}` names no absolute path")),
        path => Ok(path),
    }
}

fn in_home(path: &str, environment: &Environment<'_>) -> Result<PathBuf, String> {
    let home = named("HOME", environment)?.ok_or("the environment variable `HOME` is not set")?;
    Ok(home.join(path))
}

fn application_default(environment: &Environment<'_>) -> Result<PathBuf, String> {
    if let Some(file) = named(GOOGLE_FILE, environment)? {
        return Ok(file);
    }
    match named(GOOGLE_FOLDER, environment)? {
        Some(folder) => Ok(folder.join(OF_LOGIN)),
        None => Ok(in_home(".config/gcloud", environment)?.join(OF_LOGIN)),
    }
}

fn aws_profile(name: &str, environment: &Environment<'_>) -> Result<AwsProfile, String> {
    let file = |variable: &str, usual: &str| match named(variable, environment)? {
        Some(file) => Ok(file),
        None => in_home(usual, environment),
    };
    Ok(AwsProfile {
        name: name.to_owned(),
        credentials: file(AWS_CREDENTIALS, ".aws/credentials")?,
        config: file(AWS_CONFIG, ".aws/config")?,
        environment: given([AWS_CREDENTIALS, AWS_CONFIG].into_iter(), environment),
    })
}

/// Where something was when it was looked up, all links followed; `None` where it was not, or why it does not count.
type Lookup = Result<Option<PathBuf>, String>;

/// What was there when the gateway began. Of it opens what nobody but the operator can have written.
#[derive(Debug)]
struct Found {
    locations: Locations,
    files: BTreeMap<PathBuf, Lookup>,
    programs: BTreeMap<OsString, Lookup>,
}

impl Found {
    fn new(environment: &Environment<'_>) -> Self {
        let locations = Locations {
            working_directory: std::env::current_dir().ok(),
            home: environment("HOME").map(PathBuf::from),
            ..Locations::default()
        };
        Self { locations, files: BTreeMap::new(), programs: BTreeMap::new() }
    }

    fn look_for_file(&mut self, path: &Path) {
        self.files.insert(path.to_owned(), self.place(path));
    }

    /// Looks for a program by its path, or by its name in these folders.
    fn look_for_program(&mut self, name: OsString, folders: &[PathBuf]) {
        let path = Path::new(&name);
        let place = if path.is_absolute() {
            self.place(path)
        } else {
            let all = folders.iter().map(|folder| folder.join(path));
            // As shells do, which pass over what can't be run.
            all.filter(|path| is_runnable(path)).map(|path| self.place(&path)).next().unwrap_or(Ok(None))
        };
        self.programs.insert(name, place);
    }

    /// The folders of a `PATH` into which nobody but the operator puts anything, by their places. Whoever chooses the working
    /// directory chooses none, nor does who makes one that is not there.
    fn operators_folders(&self, path: &OsStr) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
            if let Ok(folder) = operators_folder(&folder, &self.locations)
                && !folders.contains(&folder)
            {
                folders.push(folder);
            }
        }
        folders
    }

    fn place(&self, path: &Path) -> Lookup {
        Ok(self.opened(path)?.map(|(_, place)| place))
    }

    fn opened(&self, path: &Path) -> Result<Option<(File, PathBuf)>, String> {
        let is_missing = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
        if fs::metadata(path).is_err_and(|error| is_missing(error.kind())) {
            return Ok(None);
        }
        open_with_place(path, &self.locations).map(Some).map_err(|Untrusted { why, hint }| match hint {
            Some(hint) => format!("{why}\nhint: {hint}"),
            None => why,
        })
    }

    /// Opens what is still where it was found.
    fn again(&self, found: Option<&Lookup>) -> Result<Option<(File, PathBuf)>, String> {
        const UNKNOWN: &str =
            "it was not looked up when the gateway began\nhint: have the gateway read its configuration anew";
        let Some(place) = found.ok_or(UNKNOWN)?.clone()? else { return Ok(None) };
        match self.opened(&place)? {
            Some((_, now)) if now != place => {
                Err("a link leads elsewhere than when the gateway began".to_owned())
            }
            opened => Ok(opened),
        }
    }
}

fn is_runnable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|met| met.is_file() && met.permissions().mode() & 0o111 != 0)
}

impl OperatorFiles for Found {
    fn open(&self, path: &Path) -> Result<Option<File>, String> {
        Ok(self.again(self.files.get(path))?.map(|(file, _)| file))
    }

    fn program(&self, name: &OsStr) -> Result<Option<PathBuf>, String> {
        Ok(self.again(self.programs.get(name))?.map(|(_, place)| place))
    }
}

#[cfg(test)]
mod tests {
    use backstop_config::{LayerKind, Source};

    use super::*;
    use crate::{HookTypes, gateway_settings, load_sources};

    const HOME: &str = "/home/operator";

    fn credential(keys: &str, variables: &[(&str, &str)]) -> Credential {
        let cloud = if keys.contains("aws") { "bedrock" } else { "vertex, project: p" };
        let text = format!("providers: {{a: {{api: anthropic, cloud: {cloud}, region: r, {keys}}}}}");
        let mut source = Source::new(LayerKind::Operator, "backstop.yaml", text);
        source.folder = Some("/etc/backstop".into());
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap();
        gateway_settings(&loaded, &environment).unwrap().providers.remove("a").unwrap().credential
    }

    fn source_of(keys: &str, variables: &[(&str, &str)]) -> Result<CredentialSource, String> {
        match credential(keys, variables) {
            Credential::Renewed(renewed) => Ok(renewed.source),
            Credential::Missing(why) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_environment_counts_where_the_configuration_says_so() {
        let home = ("HOME", HOME);
        let file = |keys: &str, variables: &[(&str, &str)]| match source_of(keys, variables).unwrap() {
            CredentialSource::GoogleFile(file) => file.display().to_string(),
            other => panic!("{other:?}"),
        };
        let default = "google_credentials: application-default";
        let named = (GOOGLE_FILE, "/keys/account.json");
        assert_eq!(file(default, &[home, named]), "/keys/account.json");
        assert_eq!(file(default, &[home, (GOOGLE_FOLDER, "/gcloud")]), format!("/gcloud/{OF_LOGIN}"));
        assert_eq!(file(default, &[home]), format!("{HOME}/.config/gcloud/{OF_LOGIN}"));
        assert_eq!(file("google_credentials_file: k.json", &[home, named]), "/etc/backstop/k.json");
        for (keys, variables, why) in [
            (default, &[home, (GOOGLE_FILE, "account.json")][..], GOOGLE_FILE),
            (default, &[("HOME", "here")][..], "HOME"),
            (default, &[][..], "`HOME` is not set"),
            ("aws_profile: x", &[home, (AWS_CONFIG, "config")][..], AWS_CONFIG),
        ] {
            let told = source_of(keys, variables).unwrap_err();
            assert!(told.contains(why) && told.contains("provider `a`"), "{told}");
        }
        // Nothing of it makes credentials where nothing is said.
        let own = credential("models: [m]", &[home, named]);
        assert!(matches!(own, Credential::Client), "{own:?}");
    }

    #[test]
    fn a_program_gets_what_is_written_down_and_nothing_else() {
        let variables = [("HOME", HOME), ("PATH", "/bin"), ("A_TOKEN", "x"), ("MORE", "y"), ("TZ", "UTC")];
        let keys = "token_command: [./print, 'a b', '$c'], token_environment: [MORE, UNSET]";
        let CredentialSource::Command(command) = source_of(keys, &variables).unwrap() else { panic!() };
        assert_eq!(Path::new(&command.program), Path::new("/etc/backstop/./print"));
        assert_eq!(command.arguments, ["a b", "$c"]);
        let names: Vec<_> = command.environment.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, ["HOME", "MORE", "PATH", "TZ"]);
        let CredentialSource::Command(command) = source_of("token_command: [gcloud]", &variables).unwrap()
        else {
            panic!()
        };
        assert_eq!(command.program, "gcloud");
    }

    #[test]
    fn a_profile_is_looked_for_in_the_files_of_the_operator() {
        let files = |variables: &[(&str, &str)]| {
            let CredentialSource::AwsProfile(profile) = source_of("aws_profile: work", variables).unwrap()
            else {
                panic!()
            };
            (profile.name, profile.credentials, profile.config)
        };
        let home = ("HOME", HOME);
        let usual = (
            "work".to_owned(),
            format!("{HOME}/.aws/credentials").into(),
            format!("{HOME}/.aws/config").into(),
        );
        assert_eq!(files(&[home]), usual);
        assert_eq!(files(&[home, ("AWS_PROFILE", "other")]), usual);
        let moved = ("work".to_owned(), "/a/keys".into(), "/a/config".into());
        assert_eq!(files(&[(AWS_CREDENTIALS, "/a/keys"), (AWS_CONFIG, "/a/config")]), moved);
    }

    #[test]
    fn what_an_agent_may_have_written_is_no_operators() {
        let folder = tempfile::tempdir().unwrap();
        let (work, keys) = (folder.path().join("work"), folder.path().join("keys"));
        for path in [&work, &keys] {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            fs::write(path.join("account.json"), "{}").unwrap();
            fs::set_permissions(path.join("account.json"), fs::Permissions::from_mode(0o644)).unwrap();
        }
        std::os::unix::fs::symlink(work.join("account.json"), keys.join("link.json")).unwrap();
        let open = |path: &Path| {
            let mut found = in_workspace(&work);
            found.look_for_file(path);
            found.open(path)
        };
        assert!(open(&keys.join("account.json")).unwrap().is_some());
        assert!(open(&keys.join("none.json")).unwrap().is_none());
        std::os::unix::fs::symlink(keys.join("account.json"), work.join("back.json")).unwrap();
        std::os::unix::fs::symlink(work.join("back.json"), keys.join("there-and-back.json")).unwrap();
        for path in [
            work.join("account.json"),
            work.join("back.json"),
            keys.join("link.json"),
            keys.join("there-and-back.json"),
        ] {
            let why = open(&path).unwrap_err();
            assert!(why.contains("it lies in the workspace") && why.contains("hint: "), "{why}");
        }
        fs::set_permissions(keys.join("account.json"), fs::Permissions::from_mode(0o666)).unwrap();
        let why = open(&keys.join("account.json")).unwrap_err();
        assert!(why.contains("other users may write"), "{why}");
    }

    fn in_workspace(work: &Path) -> Found {
        let mut found = Found::new(&|_| None);
        found.locations.working_directory = Some(work.to_owned());
        found
    }

    /// Folders `work` (the workspace), `keys` and `bin`, which nobody else may write.
    fn places() -> (tempfile::TempDir, [PathBuf; 3]) {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let folders = ["work", "keys", "bin"].map(|name| real.join(name));
        for path in &folders {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        (folder, folders)
    }

    fn put(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_was_not_there_when_the_gateway_began_is_never_read() {
        let (_folder, [work, keys, bin]) = places();
        let (absent, there) = (keys.join("credentials"), keys.join("config"));
        put(&there, "first", 0o600);
        let mut found = in_workspace(&work);
        found.look_for_file(&absent);
        found.look_for_file(&there);
        found.look_for_program("tool".into(), std::slice::from_ref(&bin));
        found.look_for_program(bin.join("other").into(), &[]);
        put(&absent, "late", 0o600);
        put(&bin.join("tool"), "", 0o755);
        put(&bin.join("other"), "", 0o755);
        assert!(found.open(&absent).unwrap().is_none());
        assert_eq!(found.program(OsStr::new("tool")), Ok(None));
        assert_eq!(found.program(bin.join("other").as_os_str()), Ok(None));
        // What was there is read anew, also where it was replaced in its place.
        put(&keys.join("new"), "second", 0o600);
        fs::rename(keys.join("new"), &there).unwrap();
        let read = std::io::read_to_string(found.open(&there).unwrap().unwrap()).unwrap();
        assert_eq!(read, "second");
        // Nor is there anything that nobody looked for.
        assert!(found.open(&keys.join("new")).unwrap_err().contains("was not looked up"));
        assert!(found.program(OsStr::new("sh")).unwrap_err().contains("was not looked up"));
    }

    #[test]
    fn links_that_are_moved_later_lead_nowhere_else() {
        let (_folder, [work, keys, bin]) = places();
        let (first, second) = (keys.join("first"), keys.join("second"));
        for path in [&first, &second] {
            put(path, path.file_name().unwrap().to_str().unwrap(), 0o755);
        }
        let link = bin.join("link");
        std::os::unix::fs::symlink(&first, &link).unwrap();
        let mut found = in_workspace(&work);
        found.look_for_file(&link);
        found.look_for_program("link".into(), std::slice::from_ref(&bin));
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&second, &link).unwrap();
        let read = std::io::read_to_string(found.open(&link).unwrap().unwrap()).unwrap();
        assert_eq!(read, "first");
        assert_eq!(found.program(OsStr::new("link")), Ok(Some(first.clone())));
        fs::remove_file(&first).unwrap();
        std::os::unix::fs::symlink(&second, &first).unwrap();
        assert!(found.open(&link).unwrap_err().contains("leads elsewhere"));
        assert!(found.program(OsStr::new("link")).unwrap_err().contains("leads elsewhere"));
    }

    #[test]
    fn folders_that_are_not_the_operators_choose_no_program() {
        let (folder, [work, keys, bin]) = places();
        let (venv, shared) = (work.join("bin"), folder.path().join("shared"));
        for path in [&venv, &shared] {
            fs::create_dir(path).unwrap();
        }
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        put(&bin.join("tool"), "", 0o755);
        let inward = bin.join("inward");
        std::os::unix::fs::symlink(&venv, &inward).unwrap();
        let path =
            [&venv, &shared, &inward, Path::new("bin"), &folder.path().join("none"), &keys, &bin, &keys];
        let path = std::env::join_paths(path).unwrap();
        // A file that can't be run is passed over, wherever it is.
        for (text, mode) in [("", 0o644), ("", 0o755)] {
            put(&venv.join("tool"), text, mode);
            put(&keys.join("tool"), text, 0o644);
            let mut found = in_workspace(&work);
            let folders = found.operators_folders(&path);
            assert_eq!(folders, [keys.clone(), bin.clone()]);
            found.look_for_program("tool".into(), &folders);
            assert_eq!(found.program(OsStr::new("tool")), Ok(Some(bin.join("tool"))));
        }
        // By its path, too, and where a link leads from there to what is the operator's.
        fs::remove_file(venv.join("tool")).unwrap();
        std::os::unix::fs::symlink(bin.join("tool"), venv.join("tool")).unwrap();
        let mut found = in_workspace(&work);
        found.look_for_program(venv.join("tool").into(), &[]);
        assert!(found.program(venv.join("tool").as_os_str()).unwrap_err().contains("lies in the workspace"));
    }

    #[test]
    fn programs_of_commands_and_of_profiles_are_listed_with_all_folders_that_choose_them() {
        let (_folder, [home, keys, bin]) = places();
        let real = keys.join("tool-1.0");
        put(&real, "", 0o755);
        std::os::unix::fs::symlink(&real, bin.join("tool")).unwrap();
        put(&keys.join("config"), "[profile work]\ncredential_process = tool x\n", 0o600);
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let variables =
            [("HOME", path(&home)), ("PATH", path(&bin)), (AWS_CONFIG, path(&keys.join("config")))];
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone())
        };
        let places = |keys: &str| {
            let cloud = if keys.contains("aws") { "bedrock" } else { "vertex, project: p" };
            let text = format!("providers: {{a: {{api: anthropic, cloud: {cloud}, region: r, {keys}}}}}");
            let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
            let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap();
            credential_places(&loaded, &environment)
        };
        let aws = places("aws_profile: work");
        for file in [home.join(".aws/credentials"), keys.join("config"), real.clone()] {
            assert!(aws.files.contains(&file), "{aws:?}");
        }
        assert_eq!(aws.folders, BTreeSet::from([home.join(".aws"), keys.clone(), bin.clone()]));
        let command = places("token_command: [tool]");
        assert_eq!(command.files, BTreeSet::from([real.clone()]));
        assert_eq!(command.folders, BTreeSet::from([keys.clone(), bin.clone()]));
        // Without a program nothing of `PATH` matters.
        let other = places("aws_profile: other");
        assert!(!other.folders.contains(&bin) && other.folders.contains(&home.join(".aws")), "{other:?}");
    }
}
