//! Formats of secrets and kinds of numbers that an operator adds, checked as strictly as the built-in ones.
//!
//! An entry says what it is, its source and its shape, and gives examples: at least one text in which it is found
//! and one near miss. Both are tested when the entry is read. An entry that does not do what its author thinks
//! is therefore an error at its line, and not a secret that leaks.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use backstop_yaml::{Kind, Node, Place, Problem, ProblemKind};

use crate::checks::{self, Check};
use crate::entry::{NumberEntry, SecretEntry};
use crate::notation::Template;
use crate::pii::{Needs, Number, Numbers};
use crate::secrets::{Format, Secrets};
use crate::template::Part;
use crate::{Class, Policy, Scanner};

/// The longest token of an operator's format, in bytes: what a stream may hold back.
const LONGEST_SECRET: usize = 400;
/// The longest number of an operator's kind, in bytes.
const LONGEST_NUMBER: usize = 40;
/// How many texts are tried for one match: a check digit is met by chance.
const TRIES: u64 = 4096;

/// Entries as written.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    class: Class,
    written: Written<'s>,
}

#[derive(Clone, Copy, Debug)]
enum Written<'s> {
    File { name: &'s str, text: &'s str },
    Entry(&'s Node),
}

impl<'s> Source<'s> {
    /// Creates a list of entries in YAML: secrets, or for [`Class::Pii`] numbers. The name of the file is for problems.
    #[must_use]
    pub fn file(class: Class, name: &'s str, text: &'s str) -> Self {
        Self { class, written: Written::File { name, text } }
    }

    /// Creates a source from one entry in another file.
    #[must_use]
    pub fn entry(class: Class, entry: &'s Node) -> Self {
        Self { class, written: Written::Entry(entry) }
    }
}

/// Formats of secrets and kinds of numbers besides the built-in ones.
///
/// ```
/// use std::sync::Arc;
///
/// use backstop_scan::{Catalogue, Class, Scanner, Source};
///
/// let text = "
/// - kind: acme_token
///   what: a token of Acme's deployments
///   source: Acme's handbook, chapter 3
///   formats: ['acme_<alnum:20>']
///   matches: ['use acme_<alnum:20> here']
///   near_misses: ['use acme_<alnum:19> here']
/// ";
/// let source = Source::file(Class::Secret, "acme.yaml", text);
/// let catalogue = Catalogue::read(&[source]).unwrap();
/// let scanner = Scanner::new().with(Arc::new(catalogue));
/// assert_eq!(scanner.detect("acme_k3t7Lebz9qiBlkj82tQw")[0].kind, "acme_token");
/// ```
#[derive(Debug, Default)]
pub struct Catalogue {
    secrets: Option<Secrets>,
    numbers: Numbers,
    kinds: BTreeSet<(Class, &'static str)>,
}

impl Catalogue {
    /// Reads and tests entries.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them, each with file, line and column: invalid YAML, an unknown key, a shape
    /// that can't be parsed or searched for, a case that fails.
    pub fn read(sources: &[Source<'_>]) -> Result<Self, Vec<Problem>> {
        let mut read = Read::default();
        for source in sources {
            read.source(source);
        }
        let Read { formats, numbers, kinds, cases, mut problems } = read;
        let any = !formats.is_empty();
        let secrets = any.then(|| Secrets::own(formats)).flatten();
        let catalogue = Arc::new(Self { secrets, numbers: Numbers::of(numbers), kinds });
        let scanner = Scanner::new().with(Arc::clone(&catalogue));
        problems.extend(cases.iter().flat_map(|case| case.problems(&scanner)));
        drop(scanner);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::into_inner(catalogue).unwrap_or_default())
    }

    /// Returns the kinds of a class that it adds, in alphabetical order.
    pub fn kinds(&self, class: Class) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().filter(move |(of, _)| *of == class).map(|(_, kind)| *kind)
    }

    pub(crate) fn secrets(&self) -> Option<&Secrets> {
        self.secrets.as_ref()
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}

/// What was read so far.
#[derive(Default)]
struct Read {
    formats: Vec<Format>,
    numbers: Vec<Number>,
    kinds: BTreeSet<(Class, &'static str)>,
    cases: Vec<Cases>,
    problems: Vec<Problem>,
}

impl Read {
    fn source(&mut self, source: &Source<'_>) {
        match source.written {
            Written::File { name, text } => self.file(source.class, name, text),
            Written::Entry(entry) => self.entry(source.class, entry),
        }
    }

    fn entry(&mut self, class: Class, entry: &Node) {
        let read = match class {
            Class::Pii => self.number(entry),
            _ => self.secret(entry),
        };
        self.problems.extend(read.err());
    }

    fn file(&mut self, class: Class, name: &str, text: &str) {
        let file: Arc<str> = Arc::from(name);
        let nothing =
            || Problem::new(ProblemKind::Unreadable, Place::file_only(name), "the file holds no entry");
        let root = backstop_yaml::parse(&file, text).and_then(|root| root.ok_or_else(nothing));
        let problem = match root.as_ref().map(|root| (&root.kind, &root.at)) {
            Ok((Kind::List(items), _)) => {
                for item in items {
                    self.entry(class, item);
                }
                return;
            }
            Ok((_, at)) => Problem::new(ProblemKind::BadValue, at.clone(), "expected a list of entries"),
            Err(problem) => problem.clone(),
        };
        self.problems.push(problem);
    }

    fn secret(&mut self, item: &Node) -> Result<(), Problem> {
        let entry: SecretEntry = item.read()?;
        let kind = interned(&entry.kind.0);
        let words: Vec<Cow<'static, str>> =
            entry.words.iter().map(|word| Cow::Owned(word.0.clone())).collect();
        for (index, template) in entry.formats.iter().enumerate() {
            let at = || place(item, "formats", index);
            fits(template, LONGEST_SECRET, at)?;
            let parts = Cow::Owned(template.parts.clone());
            let format = Format { kind, proof: entry.proof, words: Cow::Owned(words.clone()), parts };
            if format.search().is_none() {
                let message = format!("nothing leads to `{}`", template.written);
                let hint = "begin it with at least two fixed characters, or give the `words` in front of it";
                return Err(Problem::new(ProblemKind::BadValue, at(), message).with_hint(hint));
            }
            self.formats.push(format);
        }
        self.kinds.insert((Class::Secret, kind));
        self.cases.push(Cases {
            class: Class::Secret,
            kind,
            what: entry.what.0,
            source: entry.source.0,
            matches: placed(item, "matches", &entry.matches),
            near_misses: placed(item, "near_misses", &entry.near_misses),
        });
        Ok(())
    }

    fn number(&mut self, item: &Node) -> Result<(), Problem> {
        let entry: NumberEntry = item.read()?;
        let kind = interned(&entry.kind.0);
        let words: Vec<Cow<'static, str>> =
            entry.words.iter().map(|word| Cow::Owned(word.0.clone())).collect();
        let needs = match (entry.confidence, words.is_empty(), entry.alone) {
            (Some(sure), true, false) if (0.0..=1.0).contains(&sure) => Needs::Nothing(sure),
            (None, false, false) => Needs::Words(Cow::Owned(words)),
            (None, true, true) => Needs::Alone,
            _ => {
                let message =
                    format!("`{kind}` needs exactly one of `confidence` (from 0 to 1), `words` and `alone`");
                return Err(Problem::new(ProblemKind::Conflict, item.at.clone(), message));
            }
        };
        let check = entry
            .check
            .as_ref()
            .and_then(|check| Check::of(&check.0))
            .map_or(checks::any as fn(&[u8]) -> bool, |check| check.0);
        for (index, template) in entry.formats.iter().enumerate() {
            fits(template, LONGEST_NUMBER, || place(item, "formats", index))?;
            let parts = Cow::Owned(template.parts.clone());
            self.numbers.push(Number { kind, parts, check, needs: needs.clone() });
        }
        self.kinds.insert((Class::Pii, kind));
        self.cases.push(Cases {
            class: Class::Pii,
            kind,
            what: entry.what.0,
            source: entry.source.0,
            matches: placed(item, "matches", &entry.matches),
            near_misses: placed(item, "near_misses", &entry.near_misses),
        });
        Ok(())
    }
}

/// Returns whether the longest value of a shape is no longer than what is read of a text at once.
fn fits(template: &Template, most: usize, at: impl Fn() -> Place) -> Result<(), Problem> {
    let longest: usize = template.parts.iter().map(Part::longest).sum();
    if longest <= most {
        return Ok(());
    }
    let message =
        format!("`{}` may be {longest} bytes long, and no more than {most} are read", template.written);
    Err(Problem::new(ProblemKind::BadValue, at(), message))
}

/// Returns where the item of a list stands that is the value of a key.
fn place(entry: &Node, key: &str, index: usize) -> Place {
    let field = match &entry.kind {
        Kind::Map(fields) => fields.iter().find(|field| field.key == key),
        _ => None,
    };
    let item = field.and_then(|field| match &field.value.kind {
        Kind::List(items) => items.get(index).map(|item| &item.at),
        _ => None,
    });
    item.or(field.map(|field| &field.value.at)).unwrap_or(&entry.at).clone()
}

/// The texts of an entry, and where they stand.
#[derive(Clone, Debug)]
struct Cases {
    class: Class,
    kind: &'static str,
    what: String,
    source: String,
    matches: Vec<(Template, Place)>,
    near_misses: Vec<(Template, Place)>,
}

/// Returns the cases under a key, and where each stands.
fn placed(entry: &Node, key: &str, cases: &[Template]) -> Vec<(Template, Place)> {
    cases.iter().enumerate().map(|(index, case)| (case.clone(), place(entry, key, index))).collect()
}

impl Cases {
    /// Returns the cases that do not hold for `scanner`.
    fn problems(&self, scanner: &Scanner) -> Vec<Problem> {
        let least = if self.class == Class::Secret { Policy::DEFAULT_CONFIDENCE } else { 0.0 };
        let finds = |text: &str| {
            let spans = scanner.detect(text);
            spans.iter().any(|span| span.kind == self.kind && span.confidence >= least)
        };
        let says = |(case, at): &(Template, Place), what: &str| {
            let message = format!("`{}`, {}, {what} in `{}`", self.kind, self.what, case.written);
            let hint = format!("compare its shape with what it was taken from: {}", self.source);
            Problem::new(ProblemKind::Conflict, at.clone(), message).with_hint(hint)
        };
        let tries = if self.class == Class::Secret { 1..5 } else { 1..TRIES };
        let missed =
            self.matches.iter().filter(|(case, _)| !tries.clone().any(|seed| finds(&case.filled(seed))));
        let missed = missed.map(|case| says(case, "is not found"));
        let wrong = self.near_misses.iter().filter(|(case, _)| (1..5).any(|seed| finds(&case.filled(seed))));
        missed.chain(wrong.map(|case| says(case, "is found"))).collect()
    }
}

/// A name that lives as long as the process. Few are ever read, and a name that is read again is the same one.
fn interned(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<BTreeSet<&'static str>>> =
        LazyLock::new(|| Mutex::new(Class::ALL.iter().flat_map(|class| Scanner::kinds(*class)).collect()));
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.get(name) {
        Some(known) => known,
        None => {
            let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
            names.insert(name);
            name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the entries that come with the crate, read by the reader of operators' entries.
    fn built_in() -> Read {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogue");
        let mut read = Read::default();
        for (folder, class) in [("secrets", Class::Secret), ("numbers", Class::Pii)] {
            let mut files: Vec<_> =
                std::fs::read_dir(root.join(folder)).unwrap().map(|file| file.unwrap().path()).collect();
            files.sort();
            for file in files {
                let text = std::fs::read_to_string(&file).unwrap();
                read.file(class, &file.to_string_lossy(), &text);
            }
        }
        // Those that come with the crate may be longer than an operator's.
        read.problems.retain(|problem| !problem.message().contains("bytes long"));
        read
    }

    fn shown(problems: &[Problem]) -> String {
        problems.iter().map(|problem| format!("{problem}\n")).collect()
    }

    #[test]
    fn every_entry_finds_its_matches_and_leaves_its_near_misses() {
        let read = built_in();
        assert!(read.problems.is_empty(), "{}", shown(&read.problems));
        let scanner = Scanner::new();
        let problems: Vec<Problem> = read.cases.iter().flat_map(|case| case.problems(&scanner)).collect();
        assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), read.cases.len(), shown(&problems));
    }

    /// A check that lets everything pass proves nothing: of the numbers that look like a match, some are none.
    #[test]
    fn every_check_says_no_to_something() {
        let read = built_in();
        let scanner = Scanner::new();
        let proves = |number: &&Number| !std::ptr::fn_addr_eq(number.check, checks::any as fn(&[u8]) -> bool);
        let mut checked: BTreeSet<&str> =
            read.numbers.iter().filter(proves).map(|number| number.kind).collect();
        for number in read.numbers.iter().filter(|number| !proves(number)) {
            checked.remove(number.kind);
        }
        assert!(checked.len() > 30, "the checks were not found");
        for case in read.cases.iter().filter(|case| checked.contains(case.kind)) {
            let fails = |text: &str| !scanner.detect(text).iter().any(|span| span.kind == case.kind);
            let no = case.matches.iter().any(|(text, _)| (1..400).any(|seed| fails(&text.filled(seed))));
            assert!(no, "`{}` is found whatever its digits are", case.kind);
        }
    }

    #[test]
    fn what_is_wrong_with_an_entry_is_said_at_its_place() {
        let whole = "- kind: acme_token\n  what: a token\n  source: a handbook\n  formats: ['acme_<alnum:20>']\n  \
                     matches: ['use acme_<alnum:20>']\n  near_misses: ['acme_<alnum:19>']\n";
        let read = |text: &str| Catalogue::read(&[Source::file(Class::Secret, "x.yaml", text)]);
        assert!(read(whole).is_ok());
        for (from, to, wanted) in [
            ("kind:", "knd:", "error: unknown key `knd`\n  --> x.yaml:1:3\n  hint: did you mean `kind`?"),
            ("  what: a token\n", "", "error: `what` is missing\n  --> x.yaml:1:3"),
            ("alnum:20>'", "alnm:20>'", "no alphabet is called `alnm`; they are digit, "),
            ("['acme_<alnum:20>']", "['acme_<alnum:20']", "x.yaml:4:13"),
            (
                "['acme_<alnum:20>']",
                "['<alnum:20>']",
                "error: nothing leads to `<alnum:20>`\n  --> x.yaml:4:13",
            ),
            ("['acme_<alnum:20>']", "['acme_<alnum:999>']", "x.yaml:4:13"),
            (
                "use acme_<alnum:20>",
                "use acme_<alnum:18>",
                "`acme_token`, a token, is not found in `use acme_<alnum:18>`\n  --> x.yaml:5:13",
            ),
            (
                "acme_<alnum:19>",
                "acme_<alnum:20>",
                "`acme_token`, a token, is found in `acme_<alnum:20>`\n  --> x.yaml:6:17",
            ),
            ("acme_token", "Acme", "x.yaml:1:9"),
        ] {
            let text = whole.replacen(from, to, 1);
            assert_ne!(text, whole);
            let problems = read(&text).unwrap_err();
            assert!(shown(&problems).contains(wanted), "{}", shown(&problems));
        }
        for text in ["", "kind: acme", "[", "- kind: [acme]"] {
            assert_eq!(read(text).unwrap_err().len(), 1, "{text}");
        }
    }

    #[test]
    fn an_operators_number_is_found_by_its_words_and_its_check() {
        let text = "- kind: acme_member\n  what: a member\n  source: a handbook\n  check: luhn\n  words: [member]\n  formats: \
                    ['<digit:8>']\n  matches: ['member <digit:8>']\n  near_misses: ['order <digit:8>']\n";
        let source = Source::file(Class::Pii, "x.yaml", text);
        let scanner = Scanner::new().with(Arc::new(Catalogue::read(&[source]).unwrap()));
        let kinds = |text: &str| scanner.detect(text).iter().map(|span| span.kind).collect::<Vec<_>>();
        assert!(kinds("member 10000008").contains(&"acme_member"));
        assert!(!kinds("member 10000009").contains(&"acme_member"));
        assert!(scanner.knows(Class::Pii, "acme_member") && !scanner.knows(Class::Secret, "acme_member"));
        let misspelt = text.replace("luhn", "lun");
        let problems = Catalogue::read(&[Source::file(Class::Pii, "x.yaml", &misspelt)]).unwrap_err();
        assert!(
            shown(&problems).contains("x.yaml:4:10\n  hint: did you mean `luhn`?"),
            "{}",
            shown(&problems)
        );
    }
}
