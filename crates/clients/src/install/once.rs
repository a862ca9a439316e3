//! Hooks for one run: what a client has to be started with so that it starts our hooks, and none of its files is
//! touched.
//!
//! Most clients can be told of one more set of settings when they are started. What is theirs and the user's stays in
//! force: our entries stand beside it. Everything lies in one folder of the run, so that a run that is killed leaves
//! nothing in a place where a client would find it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::command::HookCommand;
use super::edit::ConfigError;
use super::{Events, Form, InvalidProgram, Merged, Program, Scope, line, merge};
use crate::client::Client;

/// The largest file of settings that is read.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
const SETTINGS_FILE: &str = "settings.json";
/// The setting by which Claude Code and Qwen Code run no hook at all.
pub(super) const DISABLE_ALL: &str = "disableAllHooks";
/// The same of Codex, where it is a feature that is on.
const CODEX_FEATURE: &str = "features.hooks";

/// How a client is told of hooks when it is started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ForOneRun {
    /// It can't be told.
    Never,
    /// By an option that takes a file of settings, or their text.
    SettingsOption(&'static str),
    /// By a variable that names the file of the machine's settings, which is otherwise at the path.
    SettingsVariable { name: &'static str, otherwise: &'static str },
    /// By a variable with a configuration that may name plugins.
    PluginVariable(&'static str),
    /// By an option that sets a value of the configuration, trusted by its digest.
    TrustedOption(&'static str),
}

/// What a client has to be started with.
#[derive(Clone, Debug, Default)]
pub struct Once {
    /// The files that have to be there, in the folder of the run, and what they say.
    pub files: Vec<(PathBuf, String)>,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables of its environment.
    pub variables: Vec<(&'static str, OsString)>,
    /// What the person who starts it should be told.
    pub notes: Vec<String>,
}

/// Why a client can't be given hooks for one run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// The program can't be named in a configuration.
    #[error(transparent)]
    Program(#[from] InvalidProgram),
    /// The settings that it would have had are no settings.
    #[error("the settings in `{place}` can't be added to: {source}")]
    Settings {
        /// Where they come from.
        place: String,
        /// Why not.
        source: ConfigError,
    },
    /// It would be started so that it runs no hooks.
    #[error("`{0}` keeps it from running hooks")]
    WithoutHooks(String),
    /// They are longer than is read.
    #[error("the settings in `{place}` are too long: at most {MOST_BYTES} bytes are read")]
    TooLong {
        /// Where they come from.
        place: String,
    },
    /// They can't be read.
    #[error("the settings in `{place}` can't be read: {source}")]
    Unreadable {
        /// Where they come from.
        place: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// What `client` has to be started with so that it starts `program` at every event, in this run only. `None` for a
/// client that can't be told.
///
/// `arguments` are those that it is started with, `environment` tells what it would inherit, `folder` is where the
/// files of the run will lie.
///
/// # Errors
///
/// [`OnceError`] when it could be told, but not beside what it is started with.
pub fn plan_once(
    client: Client,
    program: impl Into<Program>,
    folder: &Path,
    arguments: &[OsString],
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<Once>, OnceError> {
    let command = HookCommand::new(client, program)?;
    let layout = client.layout();
    if let Some(what) = without_hooks(client, arguments, environment) {
        return Err(OnceError::WithoutHooks(what));
    }
    let mut once = Once { arguments: arguments.to_vec(), ..Once::default() };
    match (layout.once, &layout.form) {
        (ForOneRun::SettingsOption(option), Form::Merged(merged)) => {
            let given = take_option(&mut once.arguments, option);
            let text = match &given {
                Some(value) => settings_given(value)?,
                None => String::new(),
            };
            let place = given.unwrap_or_default().to_string_lossy().into_owned();
            let text = settings(&text, merged, &command, place)?;
            let file = once.add(folder, SETTINGS_FILE, switched_on(text));
            once.arguments.splice(0..0, [option.into(), file]);
        }
        (ForOneRun::SettingsVariable { name, otherwise }, Form::Merged(merged)) => {
            let place = environment(name).map_or_else(|| otherwise.into(), PathBuf::from);
            let text = read(&place)?;
            let text = settings(&text, merged, &command, place.display().to_string())?;
            let file = once.add(folder, SETTINGS_FILE, switched_on(text));
            once.variables.push((name, file));
        }
        (ForOneRun::TrustedOption(option), Form::Merged(merged)) => {
            let value = format!("hooks={}", toml(&trusted(merged, &command)));
            let on = format!("{CODEX_FEATURE}=true");
            once.arguments.splice(0..0, [option.into(), on.into(), option.into(), value.into()]);
        }
        (ForOneRun::PluginVariable(name), Form::Own(files)) => {
            let given = environment(name).unwrap_or_default();
            let plugins: Vec<_> =
                files(&command).into_iter().map(|file| once.add(folder, &file.name, file.text)).collect();
            once.variables.push((name, with_plugins(&given, &plugins, name)?.into()));
        }
        (ForOneRun::Never, _) => return Ok(None),
        // A test goes through all clients.
        (_, Form::Merged(_) | Form::Tables(_) | Form::Own(_)) => return Ok(None),
    }
    Ok(Some(once))
}

impl Once {
    /// The text of a file of the run.
    pub(super) fn file(&self, path: &Path) -> Option<&str> {
        self.files.iter().find(|(name, _)| name == path).map(|(_, text)| text.as_str())
    }

    /// Gives a file of the run that text, whether or not it was there.
    pub(super) fn set_file(&mut self, path: PathBuf, text: String) {
        match self.files.iter_mut().find(|(name, _)| *name == path) {
            Some((_, found)) => *found = text,
            None => self.files.push((path, text)),
        }
    }

    /// Adds a file, and gives its path.
    fn add(&mut self, folder: &Path, name: &str, text: String) -> OsString {
        let path = folder.join(name);
        self.files.push((path.clone(), text));
        path.into_os_string()
    }
}

impl Once {
    /// Has a client show a line of ours, which `command` prints, where it has such a thing and its user has chosen none:
    /// neither in what it is started with, nor in `settings`, the texts of the files that it reads. One that can't be read may
    /// have it.
    pub fn show_status(&mut self, client: Client, settings: &[String], command: &[&str]) {
        if line::is_shown(client, Scope::User) && settings.iter().all(|text| line::is_free(text)) {
            for (_, text) in &mut self.files {
                if let Some(with) = line::of_run(text, command) {
                    *text = with;
                }
            }
        }
    }
}

fn settings(text: &str, merged: &Merged, command: &HookCommand, place: String) -> Result<String, OnceError> {
    merge::install(text, merged, Events::UnderHooks, command)
        .map_err(|source| OnceError::Settings { place, source })
}

/// The option or variable by which the client would start without hooks, settings or plugins, if one is there.
fn without_hooks(
    client: Client,
    arguments: &[OsString],
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Option<String> {
    let (options, variables): (&[&str], &[&str]) = match client {
        Client::Claude => (&["--bare", "--safe-mode"], &["CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE"]),
        Client::Qwen => (&["--bare", "--safe-mode"], &[]),
        Client::OpenCode => (&["--pure"], &["OPENCODE_PURE"]),
        Client::Codex => (&["features.hooks=false", "features.codex_hooks=false"], &[]),
        _ => (&[], &[]),
    };
    let text = |argument: &OsString| argument.to_string_lossy().replace(' ', "");
    let option = arguments.iter().map(text).find(|argument| options.iter().any(|option| argument == option));
    let disabled = || {
        let pairs = arguments.windows(2).filter(|_| client == Client::Codex);
        let mut pairs = pairs.filter_map(|pair| Some((pair.first()?.to_str()?, pair.get(1)?.to_str()?)));
        pairs
            .find(|pair| matches!(pair, ("--disable", "hooks" | "codex_hooks")))
            .map(|_| "--disable hooks".to_owned())
    };
    let is_set = |name: &&&str| environment(name).is_some_and(|value| !value.is_empty() && value != "0");
    let variable = || variables.iter().find(is_set).map(|name| (*name).to_owned());
    option.or_else(disabled).or_else(variable)
}

/// The settings with hooks switched on, whatever a repository's settings say about them.
fn switched_on(text: String) -> String {
    merge::set(&text, DISABLE_ALL, &json!(false)).unwrap_or(text)
}

fn is_option(argument: &OsStr, option: &str) -> bool {
    argument
        .to_str()
        .and_then(|text| text.strip_prefix(option))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// Takes an option and its value out of the arguments: of several the last, which is the one that counts.
pub(super) fn take_option(arguments: &mut Vec<OsString>, option: &str) -> Option<OsString> {
    let mut value = None;
    while let Some(place) = arguments.iter().position(|argument| is_option(argument, option)) {
        let found = arguments.remove(place);
        value = match found.to_str().and_then(|text| text.split_once('=')) {
            Some((_, value)) => Some(value.into()),
            None if place < arguments.len() => Some(arguments.remove(place)),
            None => None,
        };
    }
    value
}

/// Settings as an option names them: their text, or a file.
pub(super) fn settings_given(value: &OsStr) -> Result<String, OnceError> {
    match value.to_str().filter(|text| text.trim_start().starts_with('{')) {
        Some(text) => Ok(text.to_owned()),
        None => {
            let path = Path::new(value);
            let place = value.to_string_lossy().into_owned();
            if path.exists() {
                return read(path);
            }
            Err(OnceError::Unreadable { place, source: std::io::ErrorKind::NotFound.into() })
        }
    }
}

/// The text of a file; what is not there has none.
fn read(path: &Path) -> Result<String, OnceError> {
    use std::io::Read as _;
    let unreadable = |source| OnceError::Unreadable { place: path.display().to_string(), source };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= MOST_BYTES) {
        return Ok(text);
    }
    Err(OnceError::TooLong { place: path.display().to_string() })
}

/// The configuration in a variable, with our plugins beside those that it names.
fn with_plugins(given: &OsStr, plugins: &[OsString], name: &'static str) -> Result<String, OnceError> {
    let wrong = |expected| OnceError::Settings {
        place: name.to_owned(),
        source: ConfigError::Shape { key: "the whole text".to_owned(), line: 1, expected },
    };
    let text = given.to_str().ok_or_else(|| wrong("text"))?;
    let mut value = match text.trim() {
        "" => json!({}),
        text => serde_json::from_str(text).map_err(|_| wrong("JSON"))?,
    };
    let fields = value.as_object_mut().ok_or_else(|| wrong("an object"))?;
    let named = fields.entry("plugin").or_insert_with(|| json!([]));
    let named = named.as_array_mut().ok_or_else(|| wrong("a list of plugins"))?;
    named.extend(plugins.iter().map(|path| Value::from(format!("file://{}", path.to_string_lossy()))));
    Ok(value.to_string())
}

// ==== Codex ====

/// Where Codex says that a configuration on its command line comes from.
const COMMAND_LINE: &str = "/<session-flags>/config.toml";

/// Our hooks, and that just these are trusted. Codex skips a hook that its user has not trusted, and knows a trusted
/// one by the digest of what it does. Its own option to trust all hooks would trust those of the repository, too.
fn trusted(merged: &Merged, command: &HookCommand) -> Value {
    let mut hooks = serde_json::Map::new();
    let mut state = serde_json::Map::new();
    for event in merged.events {
        let group = (merged.group)(event, command);
        let label = snake_case(event);
        for (place, entry) in group.get("hooks").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let digest = trust_digest(&label, entry);
            state.insert(format!("{COMMAND_LINE}:{label}:0:{place}"), json!({ "trusted_hash": digest }));
        }
        hooks.insert((*event).to_owned(), json!([group]));
    }
    hooks.insert("state".to_owned(), Value::Object(state));
    Value::Object(hooks)
}

/// The digest by which Codex knows the hook in `entry` at that event.
pub(super) fn trust_digest_at(event: &str, entry: &Value) -> String {
    trust_digest(&snake_case(event), entry)
}

/// The digest by which Codex knows a command: of its identity as JSON with sorted keys.
fn trust_digest(label: &str, entry: &Value) -> String {
    let identity = json!({
        "event_name": label,
        "hooks": [{
            "async": false, "command": entry.get("command"), "timeout": entry.get("timeout"), "type": "command",
        }],
    });
    let digest = Sha256::digest(identity.to_string());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// A value in one line of TOML. Texts of JSON are texts of TOML.
pub(super) fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let field =
                |(key, value): (&String, &Value)| format!("{}={}", Value::from(key.as_str()), toml(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "/opt/back stop/backstop";

    fn plan(client: Client, arguments: &[&str], variable: Option<&str>) -> Result<Option<Once>, OnceError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let folder = Path::new("/run/once");
        let environment = |name: &str| variable.filter(|_| !name.contains("PURE")).map(OsString::from);
        plan_once(client, Path::new(PROGRAM), folder, &arguments, &environment)
    }

    fn planned(client: Client, arguments: &[&str], variable: Option<&str>) -> Once {
        plan(client, arguments, variable).unwrap().unwrap()
    }

    fn words(once: &Once) -> Vec<&str> {
        once.arguments.iter().map(|word| word.to_str().unwrap()).collect()
    }

    #[test]
    fn a_client_that_can_be_told_starts_our_program_at_its_events() {
        for client in Client::ALL {
            let Some(once) = plan(client, &["-x"], None).unwrap() else {
                assert!(matches!(client.layout().once, ForOneRun::Never), "{client}");
                continue;
            };
            assert_eq!(words(&once).last(), Some(&"-x"), "{client}");
            assert!(once.files.iter().all(|(path, _)| path.parent() == Some(Path::new("/run/once"))));
            let written: Vec<_> = once.files.iter().map(|(_, text)| text.as_str()).collect();
            let all = format!("{}{:?}", written.concat(), once.arguments);
            assert!(all.contains("back stop/backstop") && all.contains("hook"), "{client}: {all}");
        }
    }

    #[test]
    fn settings_of_the_user_stay() {
        let own =
            r#"{"model": "m", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "bell"}]}]}}"#;
        for arguments in [&["--settings", own, "-p", "hi"][..], &["-p", "hi", &format!("--settings={own}")]] {
            let once = planned(Client::Claude, arguments, None);
            assert_eq!(words(&once), ["--settings", "/run/once/settings.json", "-p", "hi"]);
            let text = &once.files[0].1;
            assert!(text.contains("\"disableAllHooks\": false"), "{text}");
            assert!(text.contains("bell") && text.contains("\"model\": \"m\""), "{text}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.json");
        std::fs::write(&file, "{ // mine\n  \"telemetry\": false\n}").unwrap();
        let file = file.to_str().unwrap();
        let once = planned(Client::Claude, &["--settings", file], None);
        assert!(once.files[0].1.contains("// mine"));
        let once = planned(Client::Qwen, &[], Some(file));
        assert!(once.files[0].1.contains("// mine"));
        assert_eq!(once.variables, [("QWEN_CODE_SYSTEM_SETTINGS_PATH", "/run/once/settings.json".into())]);
        let once = planned(Client::OpenCode, &[], Some(r#"{"plugin": ["a"], "share": "off"}"#));
        let expected = json!({ "plugin": ["a", "file:///run/once/backstop.js"], "share": "off" });
        assert_eq!(once.variables, [("OPENCODE_CONFIG_CONTENT", expected.to_string().into())]);
    }

    #[test]
    fn a_client_that_would_start_without_hooks_is_an_error() {
        for (client, arguments) in [
            (Client::Claude, &["-p", "--bare"][..]),
            (Client::Claude, &["--safe-mode"]),
            (Client::Codex, &["--disable", "hooks"]),
            (Client::Codex, &["-c", "features.hooks = false"]),
            (Client::OpenCode, &["--pure"]),
        ] {
            let error = plan(client, arguments, None).unwrap_err();
            assert!(matches!(error, OnceError::WithoutHooks(_)), "{client}: {error}");
        }
        let simple = |name: &str| (name == "CLAUDE_CODE_SIMPLE").then(|| OsString::from("1"));
        let planned = plan_once(Client::Claude, Path::new(PROGRAM), Path::new("/run/once"), &[], &simple);
        assert!(matches!(planned, Err(OnceError::WithoutHooks(_))));
        assert!(plan(Client::Codex, &["--disable", "web"], None).is_ok());
    }

    #[test]
    fn settings_that_are_cut_short_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.json");
        let write = |more: usize| {
            let length = usize::try_from(MOST_BYTES).unwrap() + more - 2;
            std::fs::write(&file, format!("{{{}}}", " ".repeat(length))).unwrap();
        };
        write(0);
        assert!(plan(Client::Claude, &["--settings", file.to_str().unwrap()], None).is_ok());
        write(1);
        let error = plan(Client::Claude, &["--settings", file.to_str().unwrap()], None).unwrap_err();
        assert!(error.to_string().contains("are too long"), "{error}");
    }

    #[test]
    fn a_status_line_is_shown_where_the_user_has_none() {
        let given = |settings: &str, user: &[&str]| {
            let mut once = plan(Client::Claude, &["--settings", settings], None).unwrap().unwrap();
            let user: Vec<String> = user.iter().map(|text| (*text).to_owned()).collect();
            once.show_status(Client::Claude, &user, &["/opt/back stop/backstop", "statusline", "/run/s"]);
            serde_json::from_str::<Value>(&once.files[0].1).unwrap()
        };
        let ours = json!({ "type": "command", "command": "'/opt/back stop/backstop' statusline /run/s" });
        assert_eq!(given("{}", &["", "{ // none\n}"])["statusLine"], ours);
        let theirs = r#"{"statusLine": {"type": "command", "command": "date"}}"#;
        assert_eq!(given(theirs, &[])["statusLine"]["command"], "date");
        for kept in [theirs, "{]"] {
            assert!(given("{}", &["{}", kept]).get("statusLine").is_none(), "{kept}");
        }
        let mut other = plan(Client::Qwen, &[], Some("/no/such")).unwrap().unwrap();
        let before = other.files.clone();
        other.show_status(Client::Qwen, &[], &["backstop"]);
        assert_eq!(other.files, before, "it has no such setting");
    }

    #[test]
    fn what_can_not_be_added_to_is_an_error() {
        let cases = [
            (Client::Claude, &["--settings", "{]"][..], None, "can't be added to"),
            (Client::Claude, &["--settings", "/no/such/file"], None, "can't be read"),
            (Client::OpenCode, &[], Some("[]"), "can't be added to"),
        ];
        for (client, arguments, variable, said) in cases {
            let error = plan(client, arguments, variable).unwrap_err().to_string();
            assert!(error.contains(said), "{client}: {error}");
        }
    }

    /// The digest is the one that Codex 0.169.0 was seen to accept.
    #[test]
    fn codex_knows_our_hooks_by_their_digest() {
        let entry = json!({ "type": "command", "command": "/opt/backstop hook codex", "timeout": 300 });
        assert_eq!(
            trust_digest("pre_tool_use", &entry),
            "sha256:d68e1f191a6c14bdf560ff129356a1ec1795d599ad9833570640a87af6e296c6"
        );
        let once = planned(Client::Codex, &["exec"], None);
        let [first, on, option, value, rest] = words(&once)[..] else { panic!("{:?}", once.arguments) };
        assert_eq!((first, on, option, rest), ("-c", "features.hooks=true", "-c", "exec"));
        assert!(
            value.starts_with(r#"hooks={"PreToolUse"=[{"hooks"=[{"type"="command","command"="#),
            "{value}"
        );
        assert!(
            value.contains(
                r#""/<session-flags>/config.toml:user_prompt_submit:0:0"={"trusted_hash"="sha256:"#
            )
        );
    }
}
