//! Keys by which requests to Amazon are signed, from a profile of its files.
//!
//! A profile stands in two files: `[name]` in the one with keys, `[profile name]` (or `[default]`) in the one with everything
//! else; where both say the same, the first counts. It has keys, or a program that prints them (`credential_process`). The form
//! of both is documented with Amazon's SDKs and tools (*Shared config and credentials files*, *Process credential provider*).
//!
//! Not read, and refused by name: profiles that stand for another role or a login (`role_arn`, `source_profile`, `sso_*`, ..).
//! Of those the keys beside are the wrong ones.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use backstop_hooks::Secret;
use jiff::Timestamp;
use serde_json::Value;

use super::files::{Files, OperatorFiles, file, text};
use super::program::Programs;
use super::token::in_time;
use super::{AwsProfile, TokenCommand, Unobtained};
use crate::settings::AwsCredentials;

/// Keys of a file say nothing of their end: so often they are read anew.
const OF_A_FILE: Duration = Duration::from_secs(300);
/// What makes a profile one that other credentials stand for.
const ELSEWHERE: [&str; 8] = [
    "role_arn",
    "source_profile",
    "credential_source",
    "web_identity_token_file",
    "mfa_serial",
    "external_id",
    "role_session_name",
    "login_session",
];
const LOGIN: &str = "sso_";
const PROCESS: &str = "credential_process";

/// The lines of a profile.
type Lines = BTreeMap<String, String>;

/// A profile, where it is read.
#[derive(Debug)]
pub(crate) struct Profile {
    settings: AwsProfile,
    files: Files,
    programs: Programs,
}

/// In which of the two files a profile stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Credentials,
    Config,
}

impl Profile {
    pub(super) fn new(settings: AwsProfile, files: Files) -> Self {
        Self { settings, programs: Programs::new(files.clone()), files }
    }

    /// The keys, and how long they are good.
    pub(super) async fn keys(&self) -> Result<(AwsCredentials, Duration), Unobtained> {
        let AwsProfile { credentials, config, name, .. } = &self.settings;
        let first = self.read(credentials, Kind::Credentials).await?;
        let second = self.read(config, Kind::Config).await?;
        if first.is_none() && second.is_none() {
            let both = format!("and `{}` have no profile `{name}`", config.display());
            return Err(file(credentials, both));
        }
        let (first, second) = (first.unwrap_or_default(), second.unwrap_or_default());
        for (lines, path) in [(&first, credentials), (&second, config)] {
            let elsewhere =
                lines.keys().find(|key| ELSEWHERE.contains(&key.as_str()) || key.starts_with(LOGIN));
            if let Some(key) = elsewhere {
                return Err(file(
                    path,
                    format!(
                        "has `{key}` in the profile `{name}`: roles and logins are not read here\nhint: a profile with `credential_process = aws configure export-credentials --profile {name}` has Amazon's own program read them"
                    ),
                ));
            }
        }
        for (lines, path) in [(&first, credentials), (&second, config)] {
            if let Some(keys) = of_lines(lines).map_err(|problem| self.wrong(path, problem))? {
                return Ok((keys, OF_A_FILE));
            }
        }
        let process = [(&first, credentials), (&second, config)];
        let process = process.into_iter().find_map(|(lines, path)| Some((lines.get(PROCESS)?, path)));
        let Some((process, path)) = process else {
            return Err(self.wrong(credentials, "no keys"));
        };
        let mut words = words(process).map_err(|problem| self.wrong(path, problem))?.into_iter();
        let program = words.next().ok_or_else(|| self.wrong(path, "no program in `credential_process`"))?;
        let environment = self.settings.environment.clone();
        let command = TokenCommand { program, arguments: words.collect(), environment };
        let printed = self.programs.run(&command).await?;
        of_process(&printed, Timestamp::now()).map_err(|problem| Unobtained::Program {
            program: command.program.to_string_lossy().into_owned(),
            problem: problem.to_owned(),
        })
    }

    fn wrong(&self, path: &Path, problem: &str) -> Unobtained {
        file(path, format!("has {problem} in the profile `{}`", self.settings.name))
    }

    async fn read(&self, path: &Path, kind: Kind) -> Result<Option<Lines>, Unobtained> {
        let Some(text) = self.files.read(path).await? else { return Ok(None) };
        profile(&text, &self.settings.name, kind)
            .map_err(|line| file(path, format!("can't be read in one way: line {line}")))
    }
}

impl AwsProfile {
    /// The program that its files name (`credential_process`), as they stand now: the one that is to be looked up when a
    /// gateway begins. `None` where there is none, or where the files can't be read, of which a request tells.
    #[must_use]
    pub fn process(&self, files: &dyn OperatorFiles) -> Option<OsString> {
        let line = |path: &Path, kind| {
            let text = text(files, path).ok()??;
            profile(&text, &self.name, kind).ok()??.remove(PROCESS)
        };
        let both = [(&self.credentials, Kind::Credentials), (&self.config, Kind::Config)];
        let line = both.into_iter().find_map(|(path, kind)| line(path, kind))?;
        words(&line).ok()?.into_iter().next()
    }
}

/// The lines of a profile, `None` where there is no such, or the number of a line that is none.
fn profile(text: &str, name: &str, kind: Kind) -> Result<Option<Lines>, usize> {
    let mut found: Option<Lines> = None;
    let mut is_in = false;
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').filter(|_| !is_nested) {
            let (section, _) = section.split_once(']').ok_or(number)?;
            is_in = is_profile(section, name, kind);
            if is_in {
                found.get_or_insert_default();
            }
            continue;
        }
        // Below another key stands what concerns single services.
        if is_nested || !is_in {
            continue;
        }
        let (key, value) = line.split_once('=').ok_or(number)?;
        let (key, value) = (key.trim().to_ascii_lowercase(), without_comment(value.trim()));
        let lines = found.get_or_insert_default();
        if lines.insert(key, value.to_owned()).is_some() {
            return Err(number);
        }
    }
    Ok(found)
}

fn is_profile(section: &str, name: &str, kind: Kind) -> bool {
    let words: Vec<&str> = section.split_whitespace().collect();
    match (kind, words.as_slice()) {
        (Kind::Credentials, [one]) => *one == name,
        (Kind::Config, ["default"]) => name == "default",
        (Kind::Config, ["profile", one]) => one.trim_matches(['"', '\'']) == name,
        _ => false,
    }
}

/// A comment behind a value has a blank in front.
fn without_comment(value: &str) -> &str {
    let ends = value.match_indices(['#', ';']).map(|(at, _)| value.split_at(at).0);
    let end = ends.into_iter().find(|front| front.ends_with([' ', '\t']) || front.is_empty());
    end.unwrap_or(value).trim_end()
}

/// Keys as a file has them, or what is missing.
fn of_lines(lines: &Lines) -> Result<Option<AwsCredentials>, &'static str> {
    let get = |key: &str| lines.get(key).filter(|value| !value.is_empty());
    match (get("aws_access_key_id"), get("aws_secret_access_key")) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err("no `aws_access_key_id`"),
        (Some(_), None) => Err("no `aws_secret_access_key`"),
        (Some(id), Some(key)) => keys(id, key, get("aws_session_token").map(String::as_str)).map(Some),
    }
}

/// Keys as a program prints them, as the end of a sentence about it where they are none.
fn of_process(printed: &[u8], now: Timestamp) -> Result<(AwsCredentials, Duration), &'static str> {
    let said: Value = serde_json::from_slice(printed).map_err(|_| "printed what is no JSON")?;
    if said.get("Version") != Some(&1.into()) {
        return Err("printed no `Version` 1");
    }
    let get = |key: &str| said.get(key).and_then(Value::as_str).filter(|value| !value.is_empty());
    let id = get("AccessKeyId").ok_or("printed no `AccessKeyId`")?;
    let key = get("SecretAccessKey").ok_or("printed no `SecretAccessKey`")?;
    let lifetime = match said.get("Expiration") {
        None | Some(Value::Null) => OF_A_FILE,
        Some(end) => {
            let end: Option<Timestamp> = end.as_str().and_then(|end| end.parse().ok());
            let end = end.ok_or("printed an `Expiration` that can't be read")?;
            in_time(end.as_second().saturating_sub(now.as_second()))?
        }
    };
    let keys = keys(id, key, get("SessionToken")).map_err(|_| "printed keys that can't be used")?;
    Ok((keys, lifetime))
}

fn keys(id: &str, key: &str, token: Option<&str>) -> Result<AwsCredentials, &'static str> {
    let parts = [Some(id), Some(key), token];
    if !parts.into_iter().flatten().all(|part| part.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Err("keys that can't be used");
    }
    let secret = |text: &str| Secret::new(text.to_owned());
    Ok(AwsCredentials { key_id: id.to_owned(), key: secret(key), token: token.map(secret) })
}

/// A program and its arguments, as a line has them: words between blanks, in quotes where there are blanks in them.
fn words(line: &str) -> Result<Vec<OsString>, &'static str> {
    const UNCLEAR: &str = "quotes or escapes that can be read in two ways";
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let quote = matches!(first, '"' | '\'').then_some(first);
        let (word, behind) = match quote {
            Some(quote) => {
                let inner = rest.strip_prefix(quote).unwrap_or_default();
                inner.split_once(quote).ok_or(UNCLEAR)?
            }
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        // What follows a word in quotes at once would be a part of it for some readers.
        let is_apart = quote.is_none() || behind.is_empty() || behind.starts_with(char::is_whitespace);
        let is_plain = quote.is_some() || !word.contains(['"', '\'']);
        if !is_apart || !is_plain || word.contains('\\') {
            return Err(UNCLEAR);
        }
        words.push(word.into());
        rest = behind.trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, name: &str, kind: Kind) -> Option<Vec<(String, String)>> {
        profile(text, name, kind).unwrap().map(|lines| lines.into_iter().collect())
    }

    #[test]
    fn a_profile_is_found_where_it_stands_and_nowhere_else() {
        let text = "# x\n[default]\na = 1\n[profile work]\nB=two  # why\nc =\ns3 =\n  a = 9\n\n[profile \"far\"]\na=3;4\n[services work]\nd = 5\n";
        let pairs = |pairs: &[(&str, &str)]| {
            Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(lines(text, "default", Kind::Config), pairs(&[("a", "1")]));
        assert_eq!(lines(text, "work", Kind::Config), pairs(&[("b", "two"), ("c", ""), ("s3", "")]));
        assert_eq!(lines(text, "far", Kind::Config), pairs(&[("a", "3;4")]));
        assert_eq!(lines(text, "other", Kind::Config), None);
        assert_eq!(lines("[work]\na=1\n[x]\nb=2", "work", Kind::Credentials), pairs(&[("a", "1")]));
        assert_eq!(lines("[work]\na=1", "work", Kind::Config), None);
        assert_eq!(lines("[profile work]\na=1", "work", Kind::Credentials), None);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused_by_its_line() {
        for (text, line) in [("[work", 1), ("[work]\na=1\na=2", 3), ("[work]\nnothing", 2)] {
            assert_eq!(profile(text, "work", Kind::Credentials), Err(line), "{text}");
        }
        // Of other profiles nobody asks.
        assert_eq!(
            profile("[x]\nnothing\n[work]\na=1", "work", Kind::Credentials).map(|l| l.is_some()),
            Ok(true)
        );
    }

    #[test]
    fn a_command_is_split_as_it_is_written() {
        let read = |line: &str| words(line);
        let plain = |words: &[&str]| Ok(words.iter().map(Into::into).collect::<Vec<OsString>>());
        assert_eq!(read("/bin/x a  b"), plain(&["/bin/x", "a", "b"]));
        assert_eq!(read(" \"/a b/x\" --y 'z \"w\"' "), plain(&["/a b/x", "--y", "z \"w\""]));
        assert_eq!(read(""), plain(&[]));
        for line in ["\"/a", "a\"b\"", "\"a\"b", "a\\ b", "'a\\'", "x 'y"] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_a_process_prints_is_keys_or_refused() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let read = |said: &str| of_process(said.as_bytes(), now);
        let (keys, lifetime) = read(
            r#"{"Version":1,"AccessKeyId":"i","SecretAccessKey":"k","SessionToken":"t","Expiration":"2026-01-01T01:00:00+00:00"}"#,
        )
        .unwrap();
        assert_eq!((keys.key_id.as_str(), keys.key.expose().as_str()), ("i", "k"));
        assert_eq!(keys.token.map(|token| token.expose().clone()).as_deref(), Some("t"));
        assert_eq!(lifetime, Duration::from_secs(3600));
        assert_eq!(read(r#"{"Version":1,"AccessKeyId":"i","SecretAccessKey":"k"}"#).unwrap().1, OF_A_FILE);
        for said in [
            "",
            "sesame",
            "{}",
            r#"{"Version":2,"AccessKeyId":"i","SecretAccessKey":"sesame"}"#,
            r#"{"Version":1,"SecretAccessKey":"sesame"}"#,
            r#"{"Version":1,"AccessKeyId":"i"}"#,
            r#"{"Version":1,"AccessKeyId":"i","SecretAccessKey":"sesame\n"}"#,
            r#"{"Version":1,"AccessKeyId":"i","SecretAccessKey":"sesame","Expiration":"2025-12-31T23:59:59Z"}"#,
            r#"{"Version":1,"AccessKeyId":"i","SecretAccessKey":"sesame","Expiration":"soon"}"#,
            r#"{"Version":1,"AccessKeyId":"i","SecretAccessKey":"sesame","Expiration":5}"#,
        ] {
            let why = read(said).expect_err(said);
            assert!(!why.contains("sesame"), "{why}");
        }
    }
}
