//! What a gateway is told of credentials that it gets for itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::files::OperatorFiles;

/// Credentials that are had when they are needed, and anew before they expire.
#[derive(Clone, Debug)]
pub struct Renewed {
    /// Where they come from.
    pub source: CredentialSource,
    /// Who reads files, and vouches for them.
    pub files: Arc<dyn OperatorFiles>,
    /// The longest time that having them may take.
    pub patience: Duration,
}

impl Renewed {
    /// Credentials from there, which may take 30 seconds.
    pub fn new(source: CredentialSource, files: Arc<dyn OperatorFiles>) -> Self {
        Self { source, files, patience: Duration::from_secs(30) }
    }
}

/// Where credentials come from.
#[derive(Clone, Debug)]
pub enum CredentialSource {
    /// A file of Google's: of a service account, or of a user (`authorized_user`). For Vertex AI.
    GoogleFile(PathBuf),
    /// The metadata server of a machine in Google's cloud. For Vertex AI.
    GoogleMetadata {
        /// Its address, such as `http://169.254.169.254`.
        address: String,
    },
    /// A program that prints an access token. For Vertex AI and Azure.
    Command(TokenCommand),
    /// A profile of Amazon's files. For Bedrock.
    AwsProfile(AwsProfile),
}

/// A program that prints credentials, and what it is given.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenCommand {
    /// What to run: a path or a name, as [`OperatorFiles::program`] knows it.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its environment: this, and nothing else.
    pub environment: BTreeMap<OsString, OsString>,
}

impl fmt::Debug for TokenCommand {
    /// Without arguments and environment, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCommand").field("program", &self.program).finish_non_exhaustive()
    }
}

/// A profile of Amazon's files.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsProfile {
    /// Its name.
    pub name: String,
    /// The file with keys, usually `~/.aws/credentials`.
    pub credentials: PathBuf,
    /// The file with everything else, usually `~/.aws/config`.
    pub config: PathBuf,
    /// The environment of a program that the profile names.
    pub environment: BTreeMap<OsString, OsString>,
}

impl fmt::Debug for AwsProfile {
    /// Without the environment, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsProfile")
            .field("name", &self.name)
            .field("credentials", &self.credentials)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
