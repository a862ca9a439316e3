//! What a plugin's process and its host say to each other, beside what every program of a plugin says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use backstop_script::{
    FileAccess, FileGrant, HostGrant, Permissions, ProgramOutput, ProgramRequest, UserGrant,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The longest line of a process: what a program may be given as its input, with what makes it text.
pub(crate) const MOST_LINE: usize = 40 << 20;
/// The most that a program's output, and its errors, may have.
pub(crate) const MOST_OUTPUT: usize = 8 << 20;

/// Which plugin it is to be, and what that may reach.
#[derive(Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) name: String,
    pub(crate) root: PathBuf,
    pub(crate) entry: String,
    pub(crate) boot: Option<String>,
    /// Whether its files are held against an earlier look.
    pub(crate) sealed: bool,
    pub(crate) reach: Reach,
}

/// [`Permissions`], as they are said.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reach {
    /// Folders, and whether each is for writing.
    files: Vec<(PathBuf, bool)>,
    env: BTreeMap<String, String>,
    hosts: Vec<(String, Option<u16>)>,
    programs: Vec<PathBuf>,
    user: Option<(PathBuf, String)>,
}

impl From<&Permissions> for Reach {
    fn from(all: &Permissions) -> Self {
        let file = |grant: &FileGrant| (grant.root.clone(), grant.access == FileAccess::Write);
        Self {
            files: all.files.iter().map(file).collect(),
            env: all.env.clone(),
            hosts: all.hosts.iter().map(|grant| (grant.host.clone(), grant.port)).collect(),
            programs: all.programs.clone(),
            user: all.user.as_ref().map(|user| (user.home.clone(), user.name.clone())),
        }
    }
}

impl From<Reach> for Permissions {
    fn from(said: Reach) -> Self {
        let file = |(root, writes)| {
            let access = if writes { FileAccess::Write } else { FileAccess::Read };
            FileGrant { root, access }
        };
        Self {
            files: said.files.into_iter().map(file).collect(),
            env: said.env,
            hosts: said.hosts.into_iter().map(|(host, port)| HostGrant { host, port }).collect(),
            programs: said.programs,
            user: said.user.map(|(home, name)| UserGrant { home, name }),
        }
    }
}

/// A program that it wants to run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Wanted {
    program: PathBuf,
    arguments: Vec<String>,
    directory: PathBuf,
    environment: BTreeMap<String, String>,
    input: String,
    millis: Option<u64>,
}

impl From<ProgramRequest> for Wanted {
    fn from(request: ProgramRequest) -> Self {
        Self {
            program: request.program,
            arguments: request.arguments,
            directory: request.directory,
            environment: request.environment,
            input: STANDARD.encode(request.input),
            millis: request.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl Wanted {
    /// The request, unless its input is none.
    pub(crate) fn read(self) -> Option<ProgramRequest> {
        Some(ProgramRequest {
            program: self.program,
            arguments: self.arguments,
            directory: self.directory,
            environment: self.environment,
            input: STANDARD.decode(self.input).ok()?,
            timeout: self.millis.map(Duration::from_millis),
            most_output: MOST_OUTPUT,
        })
    }
}

/// How a program ended.
#[derive(Serialize, Deserialize)]
pub(crate) struct Done {
    code: Option<i32>,
    signal: Option<String>,
    stdout: String,
    stderr: String,
}

impl From<ProgramOutput> for Done {
    fn from(output: ProgramOutput) -> Self {
        let ProgramOutput { code, signal, stdout, stderr } = output;
        Self { code, signal, stdout: STANDARD.encode(stdout), stderr: STANDARD.encode(stderr) }
    }
}

impl Done {
    /// What it wrote, unless that is none.
    pub(crate) fn read(self) -> Option<ProgramOutput> {
        let Self { code, signal, stdout, stderr } = self;
        let (stdout, stderr) = (STANDARD.decode(stdout).ok()?, STANDARD.decode(stderr).ok()?);
        Some(ProgramOutput { code, signal, stdout, stderr })
    }
}

/// Names that it takes of a module that has them not.
#[derive(Serialize, Deserialize)]
pub(crate) struct Absent {
    pub(crate) module: String,
    pub(crate) names: BTreeSet<String>,
}

/// A grant that was missing, so often.
#[derive(Serialize, Deserialize)]
pub(crate) struct Denied {
    pub(crate) grant: String,
    pub(crate) times: u64,
}

/// A line of a log: how grave, from 0, and its text.
#[derive(Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) level: u8,
    pub(crate) text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_arrives_as_it_was_in_its_order() {
        let grant = |root: &str, access| FileGrant { root: root.into(), access };
        let all = Permissions {
            files: vec![
                grant("/a", FileAccess::Read),
                grant("/b", FileAccess::Write),
                grant("/c", FileAccess::Read),
            ],
            env: [("NAME".to_owned(), "value".to_owned())].into(),
            hosts: vec![HostGrant { host: "*.example.org".to_owned(), port: Some(8443) }],
            programs: vec!["/bin/true".into()],
            user: Some(UserGrant { home: "/home/u".into(), name: "u".to_owned() }),
        };
        let text = serde_json::to_string(&Reach::from(&all)).unwrap();
        assert_eq!(Permissions::from(serde_json::from_str::<Reach>(&text).unwrap()), all);
    }

    #[test]
    fn bytes_of_programs_arrive_as_they_were() {
        let bytes: Vec<u8> = (0..=255).collect();
        let request = ProgramRequest {
            program: "/bin/cat".into(),
            arguments: vec!["-".to_owned()],
            directory: "/".into(),
            environment: BTreeMap::new(),
            input: bytes.clone(),
            timeout: Some(Duration::from_millis(7)),
            most_output: MOST_OUTPUT,
        };
        assert_eq!(Wanted::from(request.clone()).read(), Some(request));
        let output = ProgramOutput { stdout: bytes.clone(), stderr: bytes, code: Some(1), signal: None };
        assert_eq!(Done::from(output.clone()).read(), Some(output));
        let wrong = Done { code: None, signal: None, stdout: "?".to_owned(), stderr: String::new() };
        assert_eq!(wrong.read(), None);
    }
}
