//! Normal forms of paths, without access to the file system.

use std::borrow::Cow;

use crate::place::Place;

/// Returns the absolute form of `path` seen from `cwd`: `.`, `..` and doubled separators resolved, `file:` URLs
/// and Windows spellings brought to `/`, and the doors that lead back to the root closed.
pub fn lexical(path: &str, cwd: &str) -> String {
    let path = without_scheme(path);
    let path = slashes(&path);
    let mut out = String::with_capacity(cwd.len() + path.len() + 2);
    let absolute = path.starts_with('/') || has_drive(&path);
    if !absolute {
        push_all(&mut out, cwd);
    }
    push_all(&mut out, &path);
    for door in ["/proc/self/root", "/proc/thread-self/root", "/proc/1/root", "/private"] {
        let leads_back =
            |rest: &str| door != "/private" || matches!(rest.split('/').nth(1), Some("etc" | "var" | "tmp"));
        if behind(&out, door).is_some_and(leads_back) {
            out.drain(..door.len());
        }
    }
    if let Some(rest) = behind(&out, "/proc/self/cwd") {
        // A working directory that is called this way is nowhere that could be told.
        let cwd = if behind(cwd, "/proc/self/cwd").is_some() { "/" } else { cwd };
        return lexical(rest.trim_start_matches('/'), cwd);
    }
    if out.is_empty() {
        out.push('/');
    }
    out
}

/// Like [`lexical`], with `~`, `$HOME` and their Windows equivalents resolved as a tool that expands them would do.
pub fn of_tool(path: &str, place: &Place) -> String {
    match expanded(path.trim(), place) {
        Some(path) => lexical(&path, "/"),
        None => lexical(path.trim(), place.cwd()),
    }
}

/// Returns the absolute form of `path` with its `..` kept, if it has any: after a link, `..` is the parent of
/// the link's target, which only the disk knows.
pub fn climbing(path: &str, cwd: &str) -> Option<String> {
    let path = without_scheme(path);
    let path = slashes(&path);
    let climbs = path.split('/').any(|segment| segment == "..");
    climbs.then(|| if path.starts_with('/') { path.into_owned() } else { format!("{cwd}/{path}") })
}

/// Like [`climbing`], with what [`of_tool`] resolves.
pub fn climbing_of_tool(path: &str, place: &Place) -> Option<String> {
    match expanded(path.trim(), place) {
        Some(path) => climbing(&path, "/"),
        None => climbing(path.trim(), place.cwd()),
    }
}

/// A path that begins with a home or a working directory, with that written out.
fn expanded(path: &str, place: &Place) -> Option<String> {
    for (prefix, base) in [
        ("~", place.home()),
        ("$HOME", place.home()),
        ("${HOME}", place.home()),
        ("%USERPROFILE%", place.home()),
        ("%HOME%", place.home()),
        ("$env:USERPROFILE", place.home()),
        ("$PWD", place.cwd()),
        ("${PWD}", place.cwd()),
    ] {
        if let Some(rest) = path.strip_prefix(prefix)
            && (rest.is_empty() || rest.starts_with(['/', '\\']))
        {
            return Some(format!("{base}/{}", rest.replace('\\', "/")));
        }
    }
    let (user, rest) = path.strip_prefix('~').map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
    let is_name = !user.is_empty() && user.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    is_name.then(|| if user == "root" { format!("/root/{rest}") } else { format!("/home/{user}/{rest}") })
}

/// Adds the segments of a path to one that is in its normal form, or empty.
fn push_all(out: &mut String, path: &str) {
    let mut at = 0;
    for segment in path.as_bytes().split(|byte| *byte == b'/') {
        let end = at + segment.len();
        match segment {
            b"" | b"." => {}
            b".." => while out.pop().is_some_and(|last| last != '/') {},
            _ => {
                out.push('/');
                out.push_str(path.get(at..end).unwrap_or_default());
            }
        }
        at = end + 1;
    }
}

/// Returns what stands behind a folder in a path in its normal form that leads through it.
fn behind<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    path.strip_prefix(folder).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn without_scheme(path: &str) -> Cow<'_, str> {
    let Some(rest) = path.strip_prefix("file:").or_else(|| path.strip_prefix("FILE:")) else {
        return Cow::Borrowed(path);
    };
    match rest.strip_prefix("//") {
        // `file://host/path`: the host is not part of the path.
        Some(rest) => Cow::Owned(rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/").to_owned()),
        None => Cow::Borrowed(rest),
    }
}

fn has_drive(path: &str) -> bool {
    let mut chars = path.chars();
    matches!((chars.next(), chars.next(), chars.next()), (Some(drive), Some(':'), Some('/' | '\\')) if drive.is_ascii_alphabetic())
}

fn slashes(path: &str) -> Cow<'_, str> {
    if path.contains('\\') && (has_drive(path) || path.starts_with("\\\\")) {
        Cow::Owned(path.replace('\\', "/"))
    } else {
        Cow::Borrowed(path)
    }
}

/// Decodes `%2f`, `%2e` and `%5c`, which can hide path traversal; `None` if there are none.
pub fn percent_decoded(path: &str) -> Option<String> {
    let lower = path.to_ascii_lowercase();
    let hidden = ["%2f", "%2e", "%5c", "%7e"].iter().any(|code| lower.contains(code));
    hidden.then(|| lower.replace("%2f", "/").replace("%2e", ".").replace("%5c", "/").replace("%7e", "~"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_path() {
        for spelling in [
            "/etc/passwd",
            "//etc//passwd",
            "/etc/./x/../passwd",
            "../../etc/passwd",
            "/proc/self/root/etc/passwd",
            "/private/etc/passwd",
            "file:///etc/passwd",
            "file://localhost/etc/passwd",
        ] {
            assert_eq!(lexical(spelling, "/work/x"), "/etc/passwd", "{spelling}");
        }
        assert_eq!(lexical("C:\\Users\\me\\.npmrc", "/x"), "/C:/Users/me/.npmrc");
        assert_eq!(lexical("a/../../..", "/x"), "/");
    }
}
