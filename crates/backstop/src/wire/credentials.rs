//! Credentials that the gateway gets for itself: `google_credentials`, `token_command`, `aws_profile` of a provider.
//!
//! The environment of the gateway is the operator's, and counts only where the configuration says that it does
//! (`google_credentials: application-default`, `aws_profile`): a variable that is set for other programs changes nothing here.
//! Files and programs count as the operator's configuration does: if they lie in no workspace and nobody else may write them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_config::{GoogleSource, Loaded, Locations, Provider, Untrusted, open_operators};
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
        Ok(source) => Credential::Renewed(Renewed::new(source, Arc::new(Trusted::of(environment)))),
        Err(why) => Credential::Missing(format!("the credentials of provider `{name}` are missing: {why}")),
    })
}

/// The files and programs of which credentials of providers are made.
pub fn credential_files(loaded: &Loaded, environment: &Environment<'_>) -> Vec<PathBuf> {
    let sources = loaded.config.providers.iter();
    let sources = sources.filter_map(|(_, provider)| source(loaded, provider, environment)?.ok());
    let files = sources.flat_map(|source| match source {
        CredentialSource::GoogleFile(file) => vec![file],
        CredentialSource::AwsProfile(profile) => vec![profile.credentials, profile.config],
        CredentialSource::Command(command) => vec![command.program.into()],
        CredentialSource::GoogleMetadata { .. } => Vec::new(),
    });
    files.filter(|file: &PathBuf| file.is_absolute()).collect()
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

/// Opens what nobody but the operator can have written.
#[derive(Debug)]
struct Trusted(Locations);

impl Trusted {
    fn of(environment: &Environment<'_>) -> Self {
        Self(Locations {
            working_directory: std::env::current_dir().ok(),
            home: environment("HOME").map(PathBuf::from),
            ..Locations::default()
        })
    }
}

impl OperatorFiles for Trusted {
    fn open(&self, path: &Path) -> Result<Option<File>, String> {
        let is_missing = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
        if fs::metadata(path).is_err_and(|error| is_missing(error.kind())) {
            return Ok(None);
        }
        open_operators(path, &self.0).map(Some).map_err(|Untrusted { why, hint }| match hint {
            Some(hint) => format!("{why}\nhint: {hint}"),
            None => why,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
        let trusted = Trusted(Locations { working_directory: Some(work.clone()), ..Locations::default() });
        assert!(trusted.open(&keys.join("account.json")).unwrap().is_some());
        assert!(trusted.open(&keys.join("none.json")).unwrap().is_none());
        for path in [work.join("account.json"), keys.join("link.json")] {
            let why = trusted.open(&path).unwrap_err();
            assert!(why.contains("it lies in the workspace") && why.contains("hint: "), "{why}");
        }
        fs::set_permissions(keys.join("account.json"), fs::Permissions::from_mode(0o666)).unwrap();
        let why = trusted.open(&keys.join("account.json")).unwrap_err();
        assert!(why.contains("other users may write"), "{why}");
    }
}
