//! Whether the way to a place leads through a folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The most links that are followed on the way to a place, as many as the system follows.
const MOST_LINKS: usize = 40;

/// Whether a folder whose links are followed has something of the way to a place: what is there, or any name on the way by which it is found, such as that of
/// a link. Whoever can write in the folder could lead such a name elsewhere. A way with too many links counts as one.
pub(super) fn lies_in(path: &Path, folder: &Path) -> bool {
    let parts = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
    };
    let Ok(path) = std::path::absolute(path) else { return true };
    // What is left of the way, the next part last. No link is in the place that was come to.
    let (mut left, mut at, mut links) = (parts(&path), PathBuf::new(), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        // The root replaces what was come to.
        let place = at.join(&part);
        let link = std::fs::read_link(&place);
        // A way past the folder itself, back to where it lies, is led nowhere else by who writes in it.
        let is_passed = place == folder && link.is_err() && left.last().is_some_and(|next| next == "..");
        if place.starts_with(folder) && !is_passed {
            return true;
        }
        match link {
            Ok(_) if links == MOST_LINKS => return true,
            Ok(target) => {
                links += 1;
                left.extend(parts(&target));
            }
            // It is no link, or is not there.
            Err(_) => at = place,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_lies_where_it_is_and_where_its_name_is() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let (work, keys) = (home.join("work"), home.join("keys"));
        for folder in [&work, &keys] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(keys.join("key"), "").unwrap();
        std::fs::write(work.join("key"), "").unwrap();
        std::os::unix::fs::symlink(keys.join("key"), work.join("out")).unwrap();
        std::os::unix::fs::symlink(work.join("key"), keys.join("in")).unwrap();
        std::os::unix::fs::symlink(&work, home.join("other")).unwrap();
        for inside in
            [work.join("key"), work.join("out"), work.join("none"), keys.join("in"), home.join("other/none")]
        {
            assert!(lies_in(&inside, &work), "{}", inside.display());
        }
        let passed = home.join("work/../keys/key");
        for outside in
            [keys.join("key"), keys.join("none"), home.join("work2"), keys.join("sub/../key"), passed]
        {
            assert!(!lies_in(&outside, &work), "{}", outside.display());
        }
    }

    #[test]
    fn a_place_lies_where_any_link_on_the_way_to_it_is() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let (work, keys) = (home.join("work"), home.join("keys"));
        for folder in [&work, &keys] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(keys.join("key"), "").unwrap();
        let link = |target: &Path, link: &Path| std::os::unix::fs::symlink(target, link).unwrap();
        // A folder, and a file, that are found by way of a link in the workspace, which leads out of it again.
        link(&keys, &work.join("keys"));
        link(&work.join("keys"), &home.join("by"));
        link(Path::new("by"), &home.join("by-two"));
        link(&keys.join("key"), &work.join("key"));
        link(Path::new("work/key"), &home.join("file"));
        for inside in ["by/key", "by/none", "by-two/key", "file", "by"] {
            assert!(lies_in(&home.join(inside), &work), "{inside}");
        }
        // Links that lead past the workspace are none of its.
        link(&keys, &home.join("past"));
        link(Path::new("../past/../keys"), &keys.join("round"));
        for outside in ["past/key", "keys/round/key", "past/none"] {
            assert!(!lies_in(&home.join(outside), &work), "{outside}");
        }
        // A way without an end is taken to lead in.
        link(Path::new("other"), &home.join("one"));
        link(Path::new("one"), &home.join("other"));
        assert!(lies_in(&home.join("one/key"), &work));
        let chain = |length: usize| {
            for number in 0..length {
                link(
                    Path::new(&format!("{length}-{}", number + 1)),
                    &home.join(format!("{length}-{number}")),
                );
            }
            std::fs::write(home.join(format!("{length}-{length}")), "").unwrap();
            lies_in(&home.join(format!("{length}-0")), &work)
        };
        assert!(!chain(MOST_LINKS) && chain(MOST_LINKS + 1));
    }
}
