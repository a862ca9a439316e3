//! Tests the cases of the built-in catalogue.

use super::*;

fn written() -> Vec<Spanned<Program>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let mut entries = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        entries.extend(
            read_programs(&path.to_string_lossy(), &text).unwrap_or_else(|problems| panic!("{problems:#?}")),
        );
    }
    entries
}

#[test]
fn every_entry_has_a_source_and_keeps_its_word() {
    let (programs, written) = (Programs::built_in(), written());
    assert!(!programs.is_broken());
    let mut wrong = Vec::new();
    for Spanned { value: entry, at } in &written {
        wrong.extend(entry.lacking().map(|lacking| format!("{at}: {lacking}")));
        wrong.extend(entry.check(&programs).err().map(|error| format!("{at}: {error}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const SHOOT: &str = "
- names: [shoot]
  source: shoot 1.2, its manual
  values: -n --name
  starts: {after: 1}
  touches: nothing
  match: ['shoot -n a foot rm x => starts rm x']
  no_match: ['shoot rm x => starts rm x']
";

fn with(text: &str) -> Result<Programs, Problem> {
    Programs::with(read_programs("mine.yaml", text).map_err(|problems| problems.into_iter().next().unwrap())?)
}

/// Returns what is said of a catalogue that is `SHOOT` with something else in it.
fn refused(from: &str, to: &str) -> String {
    assert!(SHOOT.contains(from));
    with(&SHOOT.replace(from, to)).unwrap_err().to_string()
}

#[test]
fn whoever_asks_can_add_programs() {
    let programs = Arc::new(with(SHOOT).unwrap());
    let analyzer = crate::Analyzer::new().with_programs(programs);
    let place = crate::Place::new("/work");
    let started = |analyzer: &crate::Analyzer| {
        analyzer.trace("shoot --name a foot rm x", crate::ShellKind::Posix, &place).processes.len()
    };
    assert_eq!(started(&analyzer), 2);
    assert_eq!(started(&crate::Analyzer::new()), 1, "only who adds it knows it");
}

#[test]
fn an_entry_that_is_wrong_is_refused_where_it_stands() {
    let unknown = refused("values:", "value:");
    assert!(unknown.contains("unknown key `value`") && unknown.contains("mine.yaml:4:3"), "{unknown}");
    assert!(unknown.contains("did you mean `values`"), "{unknown}");
    let option = refused("-n --name", "-n name");
    assert!(option.contains("`name` is no option") && option.contains("mine.yaml:4:11"), "{option}");
    let word = refused("touches: nothing", "touches: moved");
    assert!(word.contains("mine.yaml:6:12") && word.contains("did you mean `moves`"), "{word}");
    let known = refused("[shoot]", "[shoot, curl]");
    assert!(known.contains("the program `curl` has an entry already"), "{known}");
    assert!(known.contains("mine.yaml:2:3"), "{known}");
    let again = refused("[shoot]", "[python3.9]");
    assert!(again.contains("`python3.9` has an entry already"), "{again}");
}

#[test]
fn an_entry_that_can_t_be_held_to_its_word_is_refused() {
    assert!(refused("shoot 1.2, its manual", "' '").contains("needs a `source`"));
    assert!(refused("['shoot rm x => starts rm x']", "[]").contains("near miss under `no_match`"));
    let false_case = refused("after: 1", "after: 0");
    assert!(false_case.contains("`starts rm x` should be true of `shoot -n a foot rm x`"), "{false_case}");
    let near = refused("shoot rm x =>", "shoot a rm x =>");
    assert!(near.contains("should not be true of `shoot a rm x`"), "{near}");
    assert!(
        refused("=> starts rm x']\n  no", "=> begins rm x']\n  no").contains("nothing that a case can say")
    );
    assert!(refused("a foot rm x => starts rm x", "a foot rm x").contains("lacks ` => `"));
}

#[test]
fn a_catalogue_that_can_t_be_read_leaves_everything_unknown() {
    let broken = Arc::new(Programs { is_broken: true, ..Programs::empty() });
    let trace = crate::Analyzer::new().with_programs(broken).trace(
        "ls",
        crate::ShellKind::Posix,
        &crate::Place::new("/work"),
    );
    assert!(trace.unknowns.iter().any(|unknown| unknown.carrier));
}
