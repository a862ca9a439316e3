//! `audit.witness`: who keeps what the audit trail had. Only the operator can set it: whoever could name a witness could name one that is
//! silent.

use crate::config_value::item;
use crate::place::{Place, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::Text;

use super::Audit;
use super::providers::Address;

item! {
    /// Who keeps checkpoints of the audit trail: a folder or a server.
    pub struct AuditWitness {
        /// The folder to which copies of checkpoints are added, or the address of a server that speaks C2SP's tlog-witness (`/add-checkpoint` is
        /// added to it). A folder proves nothing where the user who writes the trail can change it: it belongs to another user who takes the
        /// copies away or makes it append-only, or it is a mount that lets nothing be changed.
        to ("to"): Spanned<Text>, OperatorOnly;
        /// The key of the server, `name+hash+base64`: only what it signed counts.
        key ("key"): Option<Spanned<Text>>, OperatorOnly;
        /// A PEM file with the authorities that vouch for the server. Without it, those that the system trusts.
        ca_file ("ca_file"): Option<Spanned<Text>>, OperatorOnly;
    }
    check: check;
}

impl Audit {
    /// Checks what looks at several keys together.
    pub(super) fn check(&self, cx: &mut Reader<'_>) {
        let Some(witness) = self.witness.first().filter(|_| !self.enabled.value) else { return };
        let message = "`audit.witness` has nothing to keep: `audit.enabled` is `false`";
        let problem = Problem::new(ProblemKind::Conflict, witness.to.at.clone(), message);
        cx.report(problem.with_hint("leave one of them out"));
    }
}

impl AuditWitness {
    /// Returns whether it is a server.
    pub fn is_server(&self) -> bool {
        self.to.value.expose().contains("://")
    }

    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let Some((at, message, hint)) = self.wrong() else { return Some(()) };
        cx.report(Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint));
        None
    }

    fn wrong(&self) -> Option<(&Place, &'static str, &'static str)> {
        let at = &self.to.at;
        // A variable may hold nothing, and the folder would be that of the configuration.
        if self.to.value.expose().trim().is_empty() {
            return Some((at, "`to` must not be empty", "name a folder or a server"));
        }
        if !self.is_server() {
            return match (&self.key, &self.ca_file) {
                (Some(key), _) => {
                    Some((&key.at, "`key` is for a server, and `to` is a folder", "leave it out"))
                }
                (_, Some(file)) => {
                    Some((&file.at, "`ca_file` is for a server, and `to` is a folder", "leave it out"))
                }
                (None, None) => None,
            };
        }
        match Address::parse(self.to.value.expose()) {
            None => {
                Some((at, "`to` must be a folder or an address", "for example `https://witness.example`"))
            }
            Some(found) if found.has_user => {
                Some((at, "`to` must not hold a user or a password", "a witness needs neither"))
            }
            Some(found) if !found.is_private => Some((
                at,
                "checkpoints would travel unencrypted to `to`",
                "use `https://`; plain `http://` is for this machine only",
            )),
            Some(_) if self.key.is_none() => Some((
                at,
                "a witness without `key` could be anybody",
                "whoever runs it has its key, which looks like `name+hash+base64`",
            )),
            Some(_) => None,
        }
    }
}
