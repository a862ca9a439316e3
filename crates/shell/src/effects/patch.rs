//! The files that a patch names, in the envelope format and in unified diffs.
//!
//! More may be reported than are touched (a line of a file may look like a header), never fewer.

use super::Action;

const HEADERS: &[(&str, Action)] = &[
    ("*** Update File:", Action::Write),
    ("*** Add File:", Action::Write),
    ("*** Delete File:", Action::Delete),
    ("*** Move to:", Action::Write),
    ("--- ", Action::Write),
    ("+++ ", Action::Write),
    ("rename from ", Action::Write),
    ("rename to ", Action::Write),
    ("copy from ", Action::Write),
    ("copy to ", Action::Write),
];

/// Returns each named file with what is done to it.
pub fn patched(patch: &str) -> impl Iterator<Item = (Action, String)> + '_ {
    patch.lines().filter_map(|line| {
        let line = line.trim_start();
        let (path, action) = HEADERS
            .iter()
            .find_map(|(header, action)| line.strip_prefix(header).map(|path| (path, *action)))?;
        let path = path.split('\t').next().unwrap_or_default().trim();
        let path = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path);
        (!path.is_empty() && path != "/dev/null").then(|| (action, path.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_patches_name_their_files() {
        let envelope = "*** Begin Patch\n*** Update File: a b\n*** Delete File: c\n*** End Patch";
        let found: Vec<_> = patched(envelope).collect();
        assert_eq!(found, [(Action::Write, "a b".to_owned()), (Action::Delete, "c".to_owned())]);
        let unified: Vec<_> = patched("--- a/x\n+++ /dev/null\n@@").collect();
        assert_eq!(unified, [(Action::Write, "x".to_owned())]);
    }
}
