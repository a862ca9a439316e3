//! Commands of the Windows shells, translated to the syntax of a POSIX shell.
//!
//! Only what decides which command gets which path is translated: path separators, escapes, and the
//! variables of the user's home. Everything else that a POSIX shell reads differently stays as it is, so the
//! syntax of these shells is known only as far as it agrees.

use super::word::HOLE;
use crate::place::Place;

/// Returns what stands behind the switch that makes `cmd` run the rest of its line: `/c`, `/k`, or `/r`, which its help
/// leaves out, behind other switches in the same word (`/d/c`) or with the slash doubled, as MSYS wants it (`//c`).
pub(super) fn behind_switch(word: &str) -> Option<&str> {
    let mut switches = word.strip_prefix('/')?;
    loop {
        switches = switches.trim_start_matches('/');
        if let Some(behind) = switches.strip_prefix(['c', 'C', 'k', 'K', 'r', 'R']) {
            return Some(behind);
        }
        switches = switches.split_once('/')?.1;
    }
}

/// A line for the command prompt.
pub(super) fn from_cmd(text: &str, place: &Place) -> String {
    let mut out = String::with_capacity(text.len());
    let plain = rooted(&text.replace('^', "").replace('\\', "/"));
    let mut parts = plain.split('%');
    out.push_str(parts.next().unwrap_or_default());
    let mut inside = true;
    for part in parts {
        match inside {
            true if is_name(part) => out.push_str(&variable(part, place)),
            true => {
                // A lone percent sign; what follows may start a variable.
                out.push('%');
                out.push_str(part);
                continue;
            }
            false => out.push_str(part),
        }
        inside = !inside;
    }
    out
}

/// `C:x` as `C:/x`: it lies in the folder that the drive is in, which may be its root, and is all that is left of `C:\x`
/// where a POSIX shell took the backslash away.
fn rooted(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    let mut before = [' ', ' '];
    while let Some(letter) = letters.next() {
        out.push(letter);
        let [earlier, drive] = before;
        let begins = earlier.is_whitespace() || "\"'=&|(".contains(earlier);
        if letter == ':' && drive.is_ascii_alphabetic() && begins && letters.peek() != Some(&'/') {
            out.push('/');
        }
        before = [drive, letter];
    }
    out
}

/// A line for PowerShell.
pub(super) fn from_powershell(text: &str, place: &Place) -> String {
    let home = place.home();
    each_piped(text)
        .replace('\\', "/")
        .replace('`', "")
        .replace("${HOME}", home)
        .replace("$env:USERPROFILE", home)
        .replace("$env:HOMEPATH", home)
        .replace("$env:HOME", home)
        .replace("$HOME", home)
        .replace("$env:SystemDrive", "C:")
        .replace("$env:SystemRoot", "C:/Windows")
}

/// A script block behind a pipe as a loop over its input: `| % { ri $_.FullName }` (PowerShell 7.4, `ForEach-Object`). One that
/// only selects (`Where-Object`) lets everything through.
fn each_piped(text: &str) -> String {
    const EACH: [&str; 3] = ["foreach-object", "foreach", "%"];
    const SELECTS: [&str; 3] = ["where-object", "where", "?"];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once('|') {
        out.push_str(head);
        out.push('|');
        rest = tail;
        let begin = tail.trim_start();
        let Some(end) = begin.find(|c: char| c.is_whitespace() || c == '{') else { continue };
        let (name, behind) = begin.split_at_checked(end).unwrap_or((begin, ""));
        let name = name.to_ascii_lowercase();
        let behind = behind.trim_start();
        let block = behind.strip_prefix("-Process").map_or(behind, str::trim_start);
        let Some((body, after)) = block.strip_prefix('{').and_then(braced) else { continue };
        if SELECTS.contains(&name.as_str()) {
            out.push_str(" cat");
        } else if EACH.contains(&name.as_str()) {
            let item = "\"$piped\"";
            let mut body = each_piped(body);
            for name in ["$_.FullName", "$_.PSPath", "$_.Path", "$_", "$PSItem.FullName", "$PSItem"] {
                body = body.replace(name, item);
            }
            out.push_str(&format!(" while read -r piped; do {body}; done"));
        } else {
            continue;
        }
        rest = after;
    }
    out + rest
}

/// Returns what stands in front of the brace that closes, and behind it.
fn braced(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some((text.get(..at)?, text.get(at + 1..)?)),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_()".contains(c))
}

fn variable(name: &str, place: &Place) -> String {
    match name.to_ascii_uppercase().as_str() {
        "USERPROFILE" | "HOMEPATH" | "HOME" => place.home().to_owned(),
        "SYSTEMDRIVE" | "HOMEDRIVE" => "C:".to_owned(),
        "SYSTEMROOT" | "WINDIR" => "C:/Windows".to_owned(),
        "TEMP" | "TMP" => "/tmp".to_owned(),
        "CD" => place.cwd().to_owned(),
        _ => HOLE.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_found_in_its_spellings() {
        for (word, behind) in [
            ("/c", Some("")),
            ("//C", Some("")),
            ("/d/c", Some("")),
            ("/S/Krmdir", Some("rmdir")),
            ("/r", Some("")),
            ("/d", None),
            ("/", None),
            ("c", None),
        ] {
            assert_eq!(behind_switch(word), behind, "{word}");
        }
    }

    #[test]
    fn variables_and_separators_are_translated() {
        let place = Place::new("/work").with_home("/home/me");
        assert_eq!(from_cmd("d^ir %USERPROFILE%\\x 100%", &place), "dir /home/me/x 100%");
        assert_eq!(from_cmd("dir %X%", &place), format!("dir {HOLE}"));
        assert_eq!(
            from_cmd("rd C:Users D: \"c:x\" http://a a:/b /w:C", &place),
            "rd C:/Users D:/ \"c:/x\" http://a a:/b /w:C"
        );
        assert_eq!(from_powershell("gci $env:USERPROFILE\\x", &place), "gci /home/me/x");
        assert_eq!(
            from_powershell("gci a | ? { $_.Length } | % { ri $_.FullName; if (1) { b } } | c", &place),
            "gci a | cat | while read -r piped; do  ri \"$piped\"; if (1) { b } ; done | c"
        );
    }
}
