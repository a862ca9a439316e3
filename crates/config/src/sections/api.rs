//! `gateway.api`: the decision API of `backstop serve`. Only the operator can set it: a repository that could would have decisions sent elsewhere.

use crate::config_value::{Entries, item, section};
use crate::place::{Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::{Secret, SecretFile, Text};
use crate::values::Name;

use super::surfaces::{not_once, report, unusable};

/// The most callbacks.
const MOST: usize = 32;
/// The longest name of a callback.
const LONGEST_NAME: usize = 64;

section! {
    /// The decision API.
    pub struct GatewayApi {
        /// Servers that programs can have called when a person has decided, by the names that their requests give.
        callbacks ("callbacks"): Entries<Name, ApiCallback>, OperatorOnly;
        /// Folders of this machine, as absolute paths, in which those who ask work as well: a call with such a `workspaceDir` is judged by the scripts and
        /// links that are there, and so are calls of models behind the proxy of `serve` that name files in them. Whoever may ask may find out what is in them.
        /// Without them, calls are judged by no file.
        shared_folders ("shared_folders"): Vec<Spanned<Text>>, OperatorOnly;
    }
}

item! {
    /// A server that is told what was decided, by signed requests (Standard Webhooks).
    pub struct ApiCallback {
        /// The address that is posted to.
        url ("url"): Spanned<Text>, OperatorOnly;
        /// The secret with which requests to it are signed, usually `${VAR}`: `whsec_` and base64, or a text; of at least 24 bytes.
        secret ("secret"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `secret`.
        secret_file ("secret_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// The agents that may have it called, by the names of their tokens. Without it, all.
        agents ("agents"): Option<Spanned<Vec<Spanned<Name>>>>, OperatorOnly;
        /// Whether it may be at an address that is not on the public internet.
        allow_private ("allow_private"): Setting<bool> = false, OperatorOnly;
    }
    check: check;
}

impl ApiCallback {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let at = &self.url.at;
        let secret = [("secret", &self.secret, "secret_file", &self.secret_file)];
        let nobody = self.agents.as_ref().filter(|agents| agents.value.is_empty()).map(|agents| {
            let message = "`agents` is empty, so nobody could have it called".to_owned();
            Problem::new(ProblemKind::BadValue, agents.at.clone(), message)
                .with_hint("leave it out for all agents, or leave out the callback")
        });
        let problem = not_once(secret, at, true).or_else(|| unusable("url", Some(&self.url))).or(nobody);
        report(problem, cx)
    }
}

impl GatewayApi {
    /// Checks what looks at several of them together, and the folders.
    pub(super) fn check(&self, cx: &mut Reader<'_>) {
        for folder in &self.shared_folders {
            if !folder.value.expose().starts_with('/') {
                let message = format!("`{}` is no absolute path", folder.value.as_written());
                let problem = Problem::new(ProblemKind::BadValue, folder.at.clone(), message);
                cx.report(problem.with_hint("a folder that is shared is named from the root"));
            }
        }
        for (index, (name, _)) in self.callbacks.iter().enumerate() {
            let text = name.value.as_str();
            let is_plain = text.len() <= LONGEST_NAME
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            if !is_plain {
                let message = format!(
                    "`{text}` is the name of a callback, and has up to {LONGEST_NAME} letters, digits, `-` and `_`"
                );
                cx.report(Problem::new(ProblemKind::BadValue, name.at.clone(), message));
            }
            if index == MOST {
                let message = format!("there are more than {MOST} callbacks");
                cx.report(Problem::new(ProblemKind::BadValue, name.at.clone(), message));
            }
        }
    }
}
