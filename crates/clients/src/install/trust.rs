//! Whether a client that runs trusted hooks only trusts ours.
//!
//! Codex skips a hook that its user has not trusted, without a word, and knows a trusted one by the digest of what it
//! does. What it trusts is in its configuration.

use std::fs;

use serde_json::Value;

use super::once::trust_digest_at;
use super::{Folders, Form, HookCommand, InvalidProgram, Program};
use crate::client::Client;

/// Whether `client` runs the entries of ours that are to be installed for `program`, as far as that hangs on its trust in
/// them. `None` for a client that asks for none. A configuration that can't be read trusts nobody.
///
/// # Errors
///
/// [`InvalidProgram`] when the program can't be named in a configuration.
pub fn is_trusted(
    client: Client,
    folders: &Folders,
    program: impl Into<Program>,
) -> Result<Option<bool>, InvalidProgram> {
    let command = HookCommand::new(client, program)?;
    let layout = client.layout();
    let (Client::Codex, Form::Merged(merged)) = (client, &layout.form) else { return Ok(None) };
    let config = layout.user_folder(folders).join("config.toml");
    let Ok(config) = fs::read_to_string(config) else { return Ok(Some(false)) };
    let is_known = |event: &'static str| {
        let group = (merged.group)(event, &command);
        let mut entries = group.get("hooks").and_then(Value::as_array).into_iter().flatten();
        // Nobody writes such a digest by chance.
        entries.all(|entry| config.contains(&trust_digest_at(event, entry)))
    };
    Ok(Some(merged.events.iter().all(|event| is_known(event))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn codex_trusts_what_its_configuration_names_by_digest() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::new(root.path(), root.path().join("p"));
        let program = Path::new("/opt/backstop");
        let trusted = || is_trusted(Client::Codex, &folders, program).unwrap();
        assert_eq!(trusted(), Some(false));
        let Form::Merged(merged) = &Client::Codex.layout().form else { panic!() };
        let command = HookCommand::new(Client::Codex, program).unwrap();
        let state = |event: &'static str| {
            let group = (merged.group)(event, &command);
            let digest = trust_digest_at(event, &group["hooks"][0]);
            format!("[hooks.state.\"/h/.codex/hooks.json:{event}:0:0\"]\ntrusted_hash = \"{digest}\"\n")
        };
        let all: Vec<String> = merged.events.iter().map(|event| state(event)).collect();
        fs::create_dir(root.path().join(".codex")).unwrap();
        fs::write(root.path().join(".codex/config.toml"), all.concat()).unwrap();
        assert_eq!(trusted(), Some(true));
        fs::write(root.path().join(".codex/config.toml"), all[1..].concat()).unwrap();
        assert_eq!(trusted(), Some(false), "one that is not known is not run");
        assert_eq!(is_trusted(Client::Claude, &folders, program).unwrap(), None);
    }
}
