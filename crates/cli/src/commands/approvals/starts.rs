//! What a call would start, as people read it.

use std::collections::BTreeMap;

use backstop::hooks::Text;
use backstop::store::{StartedProcess, Starts};

use crate::output::one_line;

/// The most that is shown of each list; `--json` has all that is kept.
const SHOWN: usize = 12;
/// The most characters of a line.
const LINE: usize = 160;

/// Some lines, of which each ends; none if it starts nothing that is known.
pub(super) fn told(starts: &Starts) -> String {
    let processes = lines("starts", starts.processes.iter().map(process));
    let mut by_action: BTreeMap<&str, Vec<&Text>> = BTreeMap::new();
    for touched in &starts.paths {
        by_action.entry(&touched.action).or_default().push(&touched.path);
    }
    let paths = by_action.iter().map(|(action, paths)| format!("{action} {}", listed(paths)));
    let hosts: Vec<&Text> = starts.hosts.iter().collect();
    let hosts = (!hosts.is_empty()).then(|| listed(&hosts));
    let unknown = lines("not known", starts.unknown.iter().map(ToString::to_string));
    let more = (starts.more > 0).then(|| format!("{} more than are kept", starts.more));
    processes + &lines("touches", paths) + &lines("hosts", hosts) + &unknown + &lines("and", more)
}

fn process(process: &StartedProcess) -> String {
    let words: Vec<String> = process.words.iter().map(|word| quoted(word)).collect();
    let through: Vec<&str> = process.through.iter().map(Text::as_str).collect();
    match through.is_empty() {
        true => words.join(" "),
        false => format!("{} (through {})", words.join(" "), through.join(", ")),
    }
}

/// A word that can be told from those beside it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"';
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("{word:?}") }
}

fn listed(texts: &[&Text]) -> String {
    let shown: Vec<String> = texts.iter().take(SHOWN).map(|text| quoted(text)).collect();
    match texts.len().saturating_sub(SHOWN) {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}

fn lines(name: &str, items: impl IntoIterator<Item = String>) -> String {
    let mut items = items.into_iter();
    let mut text: String =
        items.by_ref().take(SHOWN).map(|item| format!("  {name}: {}\n", one_line(&item, LINE))).collect();
    if let more @ 1.. = items.count() {
        text.push_str(&format!("  {name}: {more} more\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use backstop::store::TouchedPath;

    use super::*;

    #[test]
    fn each_list_is_told_and_bounded() {
        let process = |words: &[&str], through: &[&str]| StartedProcess {
            words: words.iter().map(|word| (*word).into()).collect(),
            through: through.iter().map(|program| (*program).into()).collect(),
            folder: None,
        };
        let touched = |n: usize| TouchedPath { action: "write".to_owned(), path: format!("/w/{n}").into() };
        let starts = Starts {
            processes: vec![process(&["make", "all of it", ""], &[]), process(&["id"], &["sudo"])],
            paths: (0..20).map(touched).collect(),
            hosts: vec!["example.org".into()],
            unknown: vec!["what `x` is".into()],
            more: 3,
        };
        let told = told(&starts);
        for line in [
            "  starts: make \"all of it\" \"\"\n",
            "  starts: id (through sudo)\n",
            "/w/11 and 8 more\n",
            "  hosts: example.org\n",
            "  not known: what `x` is\n",
            "  and: 3 more than are kept\n",
        ] {
            assert!(told.contains(line), "{line:?} is missing in {told}");
        }
        assert_eq!(super::told(&Starts::default()), "");
    }
}
