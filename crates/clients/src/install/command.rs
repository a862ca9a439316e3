//! The command that a client starts, written and recognised.
//!
//! An entry is ours when its command starts a program named `backstop` with `hook <client>`; nothing else
//! marks it, so that uninstalling finds entries that were moved, reordered or written by hand, and never
//! takes one of somebody else.

use std::fmt;
use std::path::{Path, PathBuf};

use super::line::STATUS_WORD;
use crate::client::Client;

/// A program that can't stand in a client's configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProgram {
    /// The client's working folder is not the installer's.
    #[error("`{0}` is not an absolute path; a client starts its hooks in another folder")]
    NotAbsolute(PathBuf),
    /// The name could not be found again.
    #[error("`{0}` is not named `backstop`, so the entry could not be recognised as ours later")]
    NotOurs(PathBuf),
    /// Not text, or with line breaks.
    #[error("`{0}` can't be written into a configuration file")]
    NotText(PathBuf),
}

/// What an entry says about the operator, so that the environment of the hook chooses nothing.
///
/// A coding agent starts its hooks with an environment that a repository may have a part in. What these folders are is
/// therefore said in the command itself, by the person who installs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed(Told);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    /// Where the operator's things are, for a hook that judges.
    Folders { home: String, operator: String, data: String, pinned: bool },
    /// Where the service of the machine listens, for a hook that hands over.
    Service(String),
}

/// Options of `backstop hook` that name what is [`Fixed`].
const HOME: &str = "--home";
const OPERATOR: &str = "--operator";
const DATA: &str = "--data";
const PINNED: &str = "--pinned";
const SERVICE: &str = "--service";

impl Fixed {
    /// The user's home, the folder of the operator's file and the folder of Backstop's data; `pinned`: the operator's file
    /// must be the one that a person has pinned.
    ///
    /// # Errors
    ///
    /// [`InvalidProgram`] for a folder that is not absolute, or not text in one line.
    pub fn new(home: &Path, operator: &Path, data: &Path, pinned: bool) -> Result<Self, InvalidProgram> {
        let [home, operator, data] = [home, operator, data].map(absolute_text);
        Ok(Self(Told::Folders { home: home?, operator: operator?, data: data?, pinned }))
    }

    /// The socket at which the service of the machine judges for all users.
    ///
    /// # Errors
    ///
    /// [`InvalidProgram`] for a path that is not absolute, or not text in one line.
    pub fn service(socket: &Path) -> Result<Self, InvalidProgram> {
        Ok(Self(Told::Service(absolute_text(socket)?)))
    }

    /// As options of `backstop hook`.
    fn words(&self) -> Vec<String> {
        let (home, operator, data, pinned) = match &self.0 {
            Told::Folders { home, operator, data, pinned } => (home, operator, data, *pinned),
            Told::Service(socket) => return vec![SERVICE.to_owned(), socket.clone()],
        };
        let folders = [(HOME, home), (OPERATOR, operator), (DATA, data)];
        let words = folders.into_iter().flat_map(|(option, folder)| [option.to_owned(), folder.clone()]);
        words.chain(pinned.then(|| PINNED.to_owned())).collect()
    }

    /// Reads what [`words`](Self::words) writes: all of it, in any order, or nothing at all.
    pub(super) fn parse(words: &[&str]) -> Option<Option<Self>> {
        if let [SERVICE, socket] = words {
            return Some(Some(Self(Told::Service((*socket).to_owned()))));
        }
        let (mut home, mut operator, mut data, mut pinned) = (None, None, None, false);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let place = match *word {
                HOME => &mut home,
                OPERATOR => &mut operator,
                DATA => &mut data,
                PINNED if !pinned => {
                    pinned = true;
                    continue;
                }
                _ => return None,
            };
            if place.replace((*words.next()?).to_owned()).is_some() {
                return None;
            }
        }
        match (home, operator, data, pinned) {
            (None, None, None, false) => Some(None),
            (Some(home), Some(operator), Some(data), pinned) => {
                Some(Some(Self(Told::Folders { home, operator, data, pinned })))
            }
            _ => None,
        }
    }
}

/// A program and what its entries are to say about the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its absolute path.
    pub path: PathBuf,
    /// What is said beside it.
    pub fixed: Option<Fixed>,
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Program {
    fn from(path: &P) -> Self {
        Self { path: path.as_ref().to_path_buf(), fixed: None }
    }
}

/// The command that an entry holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCommand {
    program: String,
    client: Client,
    event: Option<String>,
    fixed: Option<Fixed>,
}

/// What the shell around a program starts, and what it says when that fails. It outlives a signal to its group, which
/// would else be no answer and let the tool run; the program refuses then. No word in it can be taken for the name of
/// a variable: some clients put variables into their settings before any shell reads them.
const SCRIPT: &str = r#"trap "" HUP INT TERM; "$@"; case $? in 0) exit 0;; 2) exit 2;; *) echo "backstop failed with $?: denied" >&2; exit 2;; esac"#;
/// What that shell is called.
const SHELL: &str = "backstop";

impl HookCommand {
    /// The command by which `client` starts `program`.
    ///
    /// # Errors
    ///
    /// [`InvalidProgram`] when the path can't be used from a configuration file.
    pub fn new(client: Client, program: impl Into<Program>) -> Result<Self, InvalidProgram> {
        let Program { path, fixed } = program.into();
        let text = absolute_text(&path)?;
        if !is_ours(&text) {
            return Err(InvalidProgram::NotOurs(path));
        }
        Ok(Self { program: text, client, event: None, fixed })
    }

    /// The same command with the event's name, for clients whose payload does not say it.
    pub(crate) fn at(&self, event: &str) -> Self {
        Self { event: Some(event.to_owned()), ..self.clone() }
    }

    /// The program.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The client that the command is for.
    pub fn client(&self) -> Client {
        self.client
    }

    /// The event, for clients whose payload does not say it.
    pub(crate) fn event(&self) -> Option<&str> {
        self.event.as_deref()
    }

    /// What the program is given.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let names = ["hook", self.client.name()].into_iter().map(str::to_owned);
        let fixed = self.fixed.as_ref().map(Fixed::words).unwrap_or_default();
        names.chain(self.event.clone()).chain(fixed).collect()
    }

    /// The command by which the client has its status line printed.
    pub(super) fn line(&self) -> String {
        let words = self.fixed.as_ref().map(Fixed::words).unwrap_or_default();
        let words = [self.program.as_str(), STATUS_WORD].into_iter().chain(words.iter().map(String::as_str));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// The command for a shell.
    pub fn plain(&self) -> String {
        let words = self.arguments();
        let words = std::iter::once(&self.program).chain(&words).map(|word| quoted(word));
        words.collect::<Vec<_>>().join(" ")
    }

    /// The command with a shell of its own around it, which turns every end but 0 and 2 into a refusal: a
    /// missing program, a crash, a signal. Whatever shell the client uses only has to read single quotes.
    pub fn guarded(&self) -> String {
        format!("/bin/sh -c '{SCRIPT}' {SHELL} {}", self.plain())
    }

    /// Reads a command of ours; `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words = words(text)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["/bin/sh", "-c", SCRIPT, SHELL, program, arguments @ ..] => return Self::of(program, arguments),
            // As versions before this one wrote it: the words stand in the script.
            ["/bin/sh", "-c", script, program] => {
                let started = script.strip_prefix("\"$0\" ")?.split(';').next()?;
                return Self::of(program, &started.split_whitespace().collect::<Vec<_>>());
            }
            _ => {}
        }
        let (program, arguments) = words.split_first()?;
        Self::of(program, arguments)
    }

    fn of(program: &str, arguments: &[&str]) -> Option<Self> {
        let (client, event, options) = match arguments {
            ["hook", client, event, options @ ..] if !event.starts_with('-') => {
                (client, Some((*event).to_owned()), options)
            }
            ["hook", client, options @ ..] => (client, None, options),
            _ => return None,
        };
        let (client, fixed) = (client.parse().ok()?, Fixed::parse(options)?);
        is_ours(program).then(|| Self { program: program.to_owned(), client, event, fixed })
    }
}

impl fmt::Display for HookCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plain())
    }
}

/// A path that means the same in every folder and can stand in a line of text.
fn absolute_text(path: &Path) -> Result<String, InvalidProgram> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    let text = text.ok_or_else(|| InvalidProgram::NotText(path.to_owned()))?;
    if !path.is_absolute() {
        return Err(InvalidProgram::NotAbsolute(path.to_owned()));
    }
    Ok(text.to_owned())
}

/// Whether a path's last part names a Backstop: `backstop`, `backstop-1.2`, `backstop.exe`.
pub(super) fn is_ours(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    name.strip_prefix("backstop").is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', '_']))
}

/// A word for a POSIX shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ':' | '@');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words of a command as [`quoted`] writes them, and of simple ones that a person would write. `None`
/// where only a shell could tell.
pub(super) fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut letters = text.trim().chars().peekable();
    while letters.peek().is_some() {
        let mut word = String::new();
        loop {
            match letters.next() {
                None | Some(' ' | '\t') => break,
                Some(quote @ ('\'' | '"')) => loop {
                    match letters.next()? {
                        end if end == quote => break,
                        '$' | '`' | '\\' if quote == '"' => return None,
                        letter => word.push(letter),
                    }
                },
                Some('\\') => word.push(letters.next()?),
                Some('|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '\n') => return None,
                Some(letter) => word.push(letter),
            }
        }
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        words.push(word);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(program: &str) -> HookCommand {
        HookCommand::new(Client::Claude, Path::new(program)).unwrap()
    }

    #[test]
    fn what_is_written_is_recognised() {
        for program in ["/opt/backstop", "/home/a b/it's/backstop-1.2", "/ä/$HOME/backstop"] {
            let folder = Path::new("/home/a b/it's");
            let fixed = |pinned| Fixed::new(folder, &folder.join("c"), &folder.join("d"), pinned).ok();
            let (plain, mut pinned, mut followed) = (command(program), command(program), command(program));
            (pinned.fixed, followed.fixed) = (fixed(true), fixed(false));
            let mut handed_over = command(program);
            handed_over.fixed = Fixed::service(&folder.join("s")).ok();
            let all = [plain, pinned, followed, handed_over];
            for written in all.iter().cloned().chain(all.iter().map(|command| command.at("PreToolUse"))) {
                assert_eq!(HookCommand::parse(&written.plain()), Some(written.clone()), "{program}");
                assert_eq!(HookCommand::parse(&written.guarded()), Some(written), "{program}");
            }
        }
    }

    #[test]
    fn what_others_wrote_is_not_ours() {
        for foreign in [
            "",
            "backstop",
            "backstop check",
            "my-backstop hook claude",
            "backstopper hook claude",
            "echo /opt/backstop hook claude",
            "/opt/backstop hook emacs",
            "/opt/backstop hook claude; rm x",
            "/opt/backstop hook claude && other",
            "'/opt/backstop hook claude",
            "/opt/backstop hook claude --home /h",
            "/opt/backstop hook claude --pinned",
            "/opt/backstop hook claude --service",
            "/opt/backstop hook claude --service /s --pinned",
            "/opt/backstop hook claude --home /h --operator /o --data /d --config /evil.yaml",
        ] {
            assert_eq!(HookCommand::parse(foreign), None, "{foreign}");
        }
        assert!(HookCommand::parse("backstop hook claude").is_some());
        let before = r#"/bin/sh -c '"$0" hook codex PreToolUse; exit 2' /opt/backstop"#;
        assert_eq!(HookCommand::parse(before).unwrap().event(), Some("PreToolUse"));
        assert!(HookCommand::parse("\"/opt/x y/backstop\"  hook claude PreToolUse").is_some());
    }

    #[test]
    fn a_program_that_could_not_be_found_again_is_refused() {
        let error =
            |program: &str| HookCommand::new(Client::Claude, Path::new(program)).unwrap_err().to_string();
        assert!(error("backstop").contains("not an absolute path"));
        assert!(error("/usr/bin/guard").contains("not named"));
        assert!(error("/a\nb/backstop").contains("can't be written"));
    }

    /// The shell around the program: what it lets through, and what it makes a refusal.
    #[test]
    #[cfg(unix)]
    fn the_shell_around_a_program_refuses_what_is_no_answer() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("back stop's").join("backstop");
        std::fs::create_dir(program.parent().unwrap()).unwrap();
        let run = |script: Option<&str>| {
            if let Some(script) = script {
                std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
                std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            let guarded = command(program.to_str().unwrap()).guarded();
            let output = std::process::Command::new("/bin/sh").arg("-c").arg(guarded).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let (code, said) = run(None);
        assert_eq!(code, Some(2));
        assert!(said.contains("backstop failed with 127: denied"), "{said}");
        assert_eq!(run(Some("test \"$1 $2\" = 'hook claude'")), (Some(0), String::new()));
        assert_eq!(run(Some("echo no >&2; exit 2")), (Some(2), "no\n".to_owned()));
        for failure in ["exit 1", "exit 101", "kill -9 $$"] {
            let (code, said) = run(Some(failure));
            assert_eq!(code, Some(2), "{failure}");
            assert!(said.contains("denied"), "{said}");
        }
        // What ends the group ends the shell, too, and a shell that is killed lets the tool run.
        for signal in ["HUP", "INT", "TERM"] {
            let (code, said) = run(Some(&format!("kill -{signal} $PPID; echo no >&2; exit 2")));
            assert_eq!((code, said.as_str()), (Some(2), "no\n"), "{signal}");
        }
    }
}
