//! `audit.witness`: who keeps what the audit trail had. Only the operator can set it: whoever could name a witness could name one that is
//! silent.

use crate::config_value::item;
use crate::place::{Place, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::{SecretFile, Text};

use super::Audit;
use super::providers::Address;

item! {
    /// Who keeps checkpoints of the audit trail: a folder, a server, a Git repository, or an authority that stamps them.
    pub struct AuditWitness {
        /// The folder to which copies of checkpoints are added, or the address of a server that speaks C2SP's tlog-witness (`/add-checkpoint` is
        /// added to it). A folder proves nothing where the user who writes the trail can change it: it belongs to another user who takes the
        /// copies away or makes it append-only, or it is a mount that lets nothing be changed. `git+ssh://`, `git+https://` and `git+file://`
        /// name a Git repository to which each is pushed as a commit, and `rfc3161+https://` an authority that stamps them with its time.
        to ("to"): Spanned<Text>, OperatorOnly;
        /// The key of the server, `name+hash+base64`: only what it signed counts.
        key ("key"): Option<Spanned<Text>>, OperatorOnly;
        /// A PEM file with the authorities that vouch for the server. Without it, those that the system trusts.
        ca_file ("ca_file"): Option<Spanned<Text>>, OperatorOnly;
        /// The file of the key with which `ssh` pushes. Without it, the keys of the account and those of its agent.
        ssh_key ("ssh_key"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// The file with the keys of hosts that `ssh` believes. Without it, that of the account, which whoever runs as it can change.
        known_hosts ("known_hosts"): Option<Spanned<Text>>, OperatorOnly;
        /// The folder in which stamped checkpoints and their time stamps are kept, since the authority keeps none.
        keep ("keep"): Option<Spanned<Text>>, OperatorOnly;
    }
    check: check;
}

/// What a witness is, by its `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WitnessKind<'c> {
    /// A folder.
    Folder(&'c str),
    /// The address of a server that speaks tlog-witness.
    Server(&'c str),
    /// The address of a Git repository, as Git writes it.
    Git(&'c str),
    /// The address of an authority that stamps checkpoints, by RFC 3161.
    Stamps(&'c str),
}

impl WitnessKind<'_> {
    fn called(self) -> &'static str {
        match self {
            Self::Folder(_) => "a folder",
            Self::Server(_) => "a server",
            Self::Git(_) => "a Git repository",
            Self::Stamps(_) => "an authority that stamps",
        }
    }
}

impl Audit {
    /// Checks what looks at several keys together.
    pub(super) fn check(&self, cx: &mut Reader<'_>) {
        for (field, key) in [("digest_key", &self.digest_key), ("key_file", &self.key_file)] {
            let key = key.as_ref();
            if let Some((at, name)) = key.and_then(|key| Some((&key.at, key.value.variables().first()?))) {
                // The environment of a hook is an agent's, which would choose a key that it knows.
                let message = format!("`audit.{field}` takes no variables, and names `{name}`");
                let problem = Problem::new(ProblemKind::BadValue, at.clone(), message);
                cx.report(problem.with_hint("write the path out"));
            }
        }
        let Some(witness) = self.witness.first().filter(|_| !self.enabled.value) else { return };
        let message = "`audit.witness` has nothing to keep: `audit.enabled` is `false`";
        let problem = Problem::new(ProblemKind::Conflict, witness.to.at.clone(), message);
        cx.report(problem.with_hint("leave one of them out"));
    }
}

/// What is wrong with a witness: where, what, and what helps.
type Wrong<'c> = (&'c Place, String, &'static str);

impl AuditWitness {
    /// Returns what it is.
    pub fn kind(&self) -> WitnessKind<'_> {
        let to = self.to.value.expose();
        let behind = |prefix: &str| to.strip_prefix(prefix).filter(|address| address.contains("://"));
        if let Some(url) = behind("git+") {
            WitnessKind::Git(url)
        } else if let Some(url) = behind("rfc3161+") {
            WitnessKind::Stamps(url)
        } else if to.contains("://") {
            WitnessKind::Server(to)
        } else {
            WitnessKind::Folder(to)
        }
    }

    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let Some((at, message, hint)) = self.wrong() else { return Some(()) };
        cx.report(Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint));
        None
    }

    fn wrong(&self) -> Option<Wrong<'_>> {
        let at = &self.to.at;
        // A variable may hold nothing, and the folder would be that of the configuration.
        if self.to.value.expose().trim().is_empty() {
            return Some((at, "`to` must not be empty".to_owned(), "name a folder or a server"));
        }
        self.unfitting().or_else(|| match self.kind() {
            WitnessKind::Folder(_) => None,
            WitnessKind::Server(url) => self.wrong_address(url).or_else(|| {
                let message = "a witness without `key` could be anybody".to_owned();
                let hint = "whoever runs it has its key, which looks like `name+hash+base64`";
                self.key.is_none().then_some((at, message, hint))
            }),
            WitnessKind::Git(url) => self.wrong_repository(url),
            WitnessKind::Stamps(url) => self.wrong_address(url).or_else(|| {
                let message = "time stamps need `keep`".to_owned();
                let hint = "name a folder for them: the authority keeps none";
                self.keep.is_none().then_some((at, message, hint))
            }),
        })
    }

    /// Returns the first key that says nothing about what `to` is.
    fn unfitting(&self) -> Option<Wrong<'_>> {
        let kind = self.kind();
        let is_ssh = matches!(kind, WitnessKind::Git(url) if url.starts_with("ssh://"));
        let is_https = match kind {
            WitnessKind::Git(url) => url.starts_with("https://"),
            kind => !matches!(kind, WitnessKind::Folder(_)),
        };
        let [key, ca_file, known_hosts, keep] = [&self.key, &self.ca_file, &self.known_hosts, &self.keep]
            .map(|value| value.as_ref().map(|value| &value.at));
        let ssh_key = self.ssh_key.as_ref().map(|value| &value.at);
        let keys = [
            ("key", key, "a server", matches!(kind, WitnessKind::Server(_))),
            ("ca_file", ca_file, "a server", is_https),
            ("ssh_key", ssh_key, "a Git repository over SSH", is_ssh),
            ("known_hosts", known_hosts, "a Git repository over SSH", is_ssh),
            ("keep", keep, "an authority that stamps", matches!(kind, WitnessKind::Stamps(_))),
        ];
        let (name, at, whose, _) = keys.into_iter().find(|(_, at, _, fits)| at.is_some() && !fits)?;
        let message = format!("`{name}` is for {whose}, and `to` is {}", kind.called());
        Some((at?, message, "leave it out"))
    }

    fn wrong_address(&self, url: &str) -> Option<Wrong<'_>> {
        let at = &self.to.at;
        match Address::parse(url) {
            None => Some((
                at,
                "`to` must be a folder or an address".to_owned(),
                "for example `https://witness.example`",
            )),
            Some(found) if found.has_user => {
                Some((at, "`to` must not hold a user or a password".to_owned(), "a witness needs neither"))
            }
            Some(found) if !found.is_private => Some((
                at,
                "checkpoints would travel unencrypted to `to`".to_owned(),
                "use `https://`; plain `http://` is for this machine only",
            )),
            Some(_) => None,
        }
    }

    fn wrong_repository(&self, url: &str) -> Option<Wrong<'_>> {
        let at = &self.to.at;
        let (scheme, rest) = url.split_once("://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let is_sound = match scheme {
            "ssh" => !host.is_empty() && !host.starts_with('-'),
            "https" => Address::parse(url).is_some(),
            "file" => host.is_empty(),
            _ => false,
        };
        if !is_sound
            || path.is_empty()
            || url.contains(|char: char| char.is_whitespace() || char.is_control())
        {
            return Some((
                at,
                "`to` must be the address of a Git repository".to_owned(),
                "for example `git+ssh://git@witness.example/trail.git`; `https://` and `file://` are possible as well",
            ));
        }
        let hint = "`ssh` has keys for that; see `ssh_key`";
        let is_secret = user.is_some_and(|user| scheme != "ssh" || user.contains(':'));
        is_secret.then(|| (at, "`to` must not hold a password".to_owned(), hint))
    }
}
