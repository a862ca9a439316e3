//! The command that a client starts, written and recognised.
//!
//! An entry is ours when its command starts a program named `backstop` with `hook <client>`; nothing else
//! marks it, so that uninstalling finds entries that were moved, reordered or written by hand, and never
//! takes one of somebody else.

use std::fmt;
use std::path::{Path, PathBuf};

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

/// The command that an entry holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCommand {
    program: String,
    client: Client,
    event: Option<String>,
}

/// What the shell around a program says when that fails.
const FAILED: &str =
    r#"s=$?; case $s in 0|2) exit $s;; esac; echo "backstop failed with $s: denied" >&2; exit 2"#;

impl HookCommand {
    /// The command by which `client` starts `program`.
    ///
    /// # Errors
    ///
    /// [`InvalidProgram`] when the path can't be used from a configuration file.
    pub fn new(client: Client, program: &Path) -> Result<Self, InvalidProgram> {
        let text = program.to_str().filter(|text| !text.chars().any(char::is_control));
        let text = text.ok_or_else(|| InvalidProgram::NotText(program.to_owned()))?;
        if !program.is_absolute() {
            return Err(InvalidProgram::NotAbsolute(program.to_owned()));
        }
        if !is_ours(text) {
            return Err(InvalidProgram::NotOurs(program.to_owned()));
        }
        Ok(Self { program: text.to_owned(), client, event: None })
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

    fn arguments(&self) -> String {
        match &self.event {
            Some(event) => format!("hook {} {event}", self.client),
            None => format!("hook {}", self.client),
        }
    }

    /// The command for a shell.
    pub fn plain(&self) -> String {
        format!("{} {}", quoted(&self.program), self.arguments())
    }

    /// The command with a shell of its own around it, which turns every end but 0 and 2 into a refusal: a
    /// missing program, a crash, a signal. Whatever shell the client uses only has to read single quotes.
    pub fn guarded(&self) -> String {
        format!("/bin/sh -c '\"$0\" {}; {FAILED}' {}", self.arguments(), quoted(&self.program))
    }

    /// Reads a command of ours; `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let words = words(text)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let ["/bin/sh", "-c", script, program] = words.as_slice() {
            let arguments = script.strip_prefix("\"$0\" ")?.split(';').next()?;
            return Self::of(program, &arguments.split_whitespace().collect::<Vec<_>>());
        }
        let (program, arguments) = words.split_first()?;
        Self::of(program, arguments)
    }

    fn of(program: &str, arguments: &[&str]) -> Option<Self> {
        let (client, event) = match arguments {
            ["hook", client] => (client, None),
            ["hook", client, event] => (client, Some((*event).to_owned())),
            _ => return None,
        };
        let client = client.parse().ok()?;
        is_ours(program).then(|| Self { program: program.to_owned(), client, event })
    }
}

impl fmt::Display for HookCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plain())
    }
}

/// Whether a path's last part names a Backstop: `backstop`, `backstop-1.2`, `backstop.exe`.
fn is_ours(program: &str) -> bool {
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
fn words(text: &str) -> Option<Vec<String>> {
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
            let command = command(program);
            for written in [command.clone(), command.at("PreToolUse")] {
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
        ] {
            assert_eq!(HookCommand::parse(foreign), None, "{foreign}");
        }
        assert!(HookCommand::parse("backstop hook claude").is_some());
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
    }
}
