//! Control groups of what a run, or a conversation in the console, starts.

use std::ffi::OsString;

use backstop::confine::{Group, joining, why_not_joined};
use backstop::new_token;

use super::launcher;

/// How their names begin.
const NAME: &str = "backstop-run-";

/// Whether a control group is called as one of these. Units of a service manager have a suffix with a point.
pub(crate) fn is_group(name: &str) -> bool {
    name.starts_with(NAME) && !name.contains('.')
}

/// Makes one, if this user may make such a thing and start something in it. Nobody can guess its name, and make another one of that name before.
pub(super) fn group() -> Result<Group, String> {
    let name: String = new_token().expose().chars().rev().take(16).collect();
    let group =
        Group::create(&format!("{NAME}{}-{name}", std::process::id())).map_err(|error| error.to_string())?;
    let launcher = launcher().map_err(|error| error.to_string())?;
    why_not_joined(&launcher, group.path()).map_or(Ok(group), Err)
}

/// Makes one for what these words start, which are those of a [`Confined`](super::Confined). Returns the words by which it is a member, too. What is left of
/// it ends when the group is dropped.
pub(crate) fn join(words: &[OsString]) -> Result<(Vec<OsString>, Group), String> {
    let group = group()?;
    let launcher = launcher().map_err(|error| error.to_string())?;
    Ok((joining(&launcher, words, group.path()), group))
}
