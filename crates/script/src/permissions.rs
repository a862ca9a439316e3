//! What a script may reach outside of its own folder's modules: nothing, unless it stands here.
//!
//! A [`Permissions`] is data. Whoever embeds scripts makes it, from what a script asks for and what a person
//! granted; each host function asks it at the moment of the call, and a denial names the grant that is missing.
//! Absent means denied: there is no value that means "everything".

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What may be done with the files below a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Reading files and listing folders.
    Read,
    /// Reading, making, changing and removing.
    Write,
}

/// A folder whose files a script may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileGrant {
    /// The folder. What lies below it is reached only through it, so that a link can't lead out.
    pub root: PathBuf,
    /// What may be done there.
    pub access: FileAccess,
}

/// A host that a script may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostGrant {
    /// A name (`api.example.org`), `*.` and a name for what lies below it, or an address. Addresses of this
    /// machine and of private networks are reached only if one is written here.
    pub host: String,
    /// The port; `None` is the usual one of the scheme.
    pub port: Option<u16>,
}

/// Who runs a script, as it may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserGrant {
    /// The home folder. Knowing where it is reaches none of its files.
    pub home: PathBuf,
    /// The user's name.
    pub name: String,
}

/// What a script may reach. The default reaches nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Folders.
    pub files: Vec<FileGrant>,
    /// The environment that the script sees: names with their values, nothing of the process's own.
    pub env: BTreeMap<String, String>,
    /// Hosts.
    pub hosts: Vec<HostGrant>,
    /// Programs, by their absolute paths. A script starts a shell only if the shell stands here.
    pub programs: Vec<PathBuf>,
    /// Who runs the script, if it may know.
    pub user: Option<UserGrant>,
}

impl std::fmt::Debug for Permissions {
    /// Names of variables, never their values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permissions")
            .field("files", &self.files)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("hosts", &self.hosts)
            .field("programs", &self.programs)
            .field("user", &self.user)
            .finish()
    }
}
