//! Compiles the catalogue in: what is written in `catalogue/*.yaml` becomes tables in the program, so that nothing is
//! read or parsed when it runs. A mistake in an entry stops the build, with its file, line and column.

// The reader of the library, which operators' own entries are read with, too.
#[expect(dead_code, reason = "the build needs the reader, not what the library does with entries")]
#[path = "src/checks.rs"]
mod checks;
#[expect(dead_code, reason = "as above")]
#[path = "src/entry.rs"]
mod entry;
#[expect(dead_code, reason = "as above")]
#[path = "src/notation.rs"]
mod notation;
#[expect(dead_code, reason = "as above")]
#[path = "src/template.rs"]
mod template;
#[expect(dead_code, reason = "as above")]
#[path = "src/text.rs"]
mod text;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use entry::{NumberEntry, SecretEntry};
use template::Part;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=catalogue");
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join("secrets.rs"), secrets()?)?;
    std::fs::write(Path::new(&out).join("numbers.rs"), numbers()?)?;
    std::fs::write(Path::new(&out).join("kinds.rs"), kinds()?)?;
    std::fs::write(Path::new(&out).join("published.rs"), published()?)?;
    Ok(())
}

/// The entries of all files in a folder, in the order of the files' names, or of one file.
fn entries<T: serde::de::DeserializeOwned>(path: &str) -> Result<Vec<T>, Box<dyn Error>> {
    let mut files: Vec<PathBuf> = match Path::new(path).is_dir() {
        true => std::fs::read_dir(path)?.map(|file| Ok(file?.path())).collect::<std::io::Result<_>>()?,
        false => vec![path.into()],
    };
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let name = Arc::from(file.to_string_lossy());
        let root = backstop_yaml::parse(&name, &std::fs::read_to_string(&file)?)
            .map_err(|problem| problem.to_string())?;
        let root = root.ok_or_else(|| format!("{name} is empty"))?;
        all.extend(root.read::<Vec<T>>().map_err(|problem| problem.to_string())?);
    }
    Ok(all)
}

fn secrets() -> Result<String, Box<dyn Error>> {
    let entries: Vec<SecretEntry> = entries("catalogue/secrets")?;
    let mut written: BTreeMap<&str, &str> = BTreeMap::new();
    let mut table = String::from("&[\n");
    for entry in &entries {
        let words: Vec<&str> = entry.words.iter().map(|word| word.0.as_str()).collect();
        for format in &entry.formats {
            if words.is_empty()
                && let Some(other) = written.insert(&format.written, &entry.kind.0)
            {
                let (kind, format) = (&entry.kind.0, &format.written);
                return Err(format!("`{format}` is both `{other}` and `{kind}`").into());
            }
            let words = borrowed(words.iter().map(|word| format!("Cow::Borrowed({word:?})")));
            let mut write = |words: &str, parts: &[Part]| {
                let parts = borrowed(parts.iter().map(part));
                let (kind, proof) = (&entry.kind.0, entry.proof);
                writeln!(
                    table,
                    "Format {{ kind: {kind:?}, proof: Proof::{proof:?}, words: {words}, parts: {parts} }},"
                )
            };
            write(&words, &format.parts)?;
            if let Some(wrapped) = wrapped(&format.parts).filter(|_| entry.words.is_empty()) {
                write(&words, &wrapped)?;
            }
        }
    }
    table.push(']');
    Ok(table)
}

/// The fewest characters of a wrapped token that its prefix decides.
const LEAST_WRAPPED: usize = 5;

/// A token that was written in base64 once more, as `echo ... | base64 -d` and manifests have it: its prefix decides the
/// first characters, and the rest may be any.
fn wrapped(parts: &[Part]) -> Option<[Part; 4]> {
    let Some(Part::Lit(prefix)) = parts.first() else { return None };
    let decided = prefix.len() * 8 / 6;
    let encoded: String = base64(prefix.as_bytes()).chars().take(decided).collect();
    let long = |bytes: usize| bytes.div_ceil(3) * 4;
    let least = long(parts.iter().map(Part::shortest).sum()).saturating_sub(decided + 2);
    let most = long(parts.iter().map(Part::longest).sum::<usize>() + 1).saturating_sub(decided);
    let padding = || Part::Maybe(text::EQUALS);
    let rest = Part::Run(text::ALNUM.or(text::PLUS_SLASH), least, most);
    (decided >= LEAST_WRAPPED).then(|| [Part::Lit(encoded.into()), rest, padding(), padding()])
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut written = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_usize, |bits, &byte| bits << 8 | usize::from(byte))
            << (8 * (3 - three.len()));
        written.extend(
            [18, 12, 6, 0]
                .into_iter()
                .take(three.len() + 1)
                .filter_map(|shift| ALPHABET.get(bits >> shift & 63).map(|&byte| char::from(byte))),
        );
    }
    written
}

fn numbers() -> Result<String, Box<dyn Error>> {
    let entries: Vec<NumberEntry> = entries("catalogue/numbers")?;
    let mut table = String::from("&[\n");
    for entry in &entries {
        let words = borrowed(entry.words.iter().map(|word| format!("Cow::Borrowed({:?})", word.0)));
        let needs = match (entry.confidence, entry.words.is_empty(), entry.alone) {
            (Some(confidence), true, false) => format!("Needs::Nothing({confidence:?})"),
            (None, false, false) => format!("Needs::Words({words})"),
            (None, true, true) => "Needs::Alone".to_owned(),
            _ => {
                return Err(format!("`{}` has one of `confidence`, `words` and `alone`", entry.kind.0).into());
            }
        };
        let check = entry.check.as_ref().map_or("any", |check| check.0.as_str());
        for format in &entry.formats {
            let (kind, parts) = (&entry.kind.0, borrowed(format.parts.iter().map(part)));
            writeln!(
                table,
                "Number {{ kind: {kind:?}, parts: {parts}, check: checks::{check}, needs: {needs} }},"
            )?;
        }
    }
    table.push(']');
    Ok(table)
}

/// A value that documents print.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    digest: String,
    source: entry::Words,
}

fn published() -> Result<String, Box<dyn Error>> {
    let mut digests = Vec::new();
    for Published { digest, source } in entries("catalogue/published.yaml")? {
        let bytes = (0..digest.len())
            .step_by(2)
            .map(|at| digest.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok()));
        let bytes: Option<Vec<u8>> = bytes.collect();
        match bytes.filter(|bytes| bytes.len() == 16) {
            Some(bytes) => digests.push(bytes),
            None => return Err(format!("the digest of {} is not 32 hexadecimal digits", source.0).into()),
        }
    }
    digests.sort();
    Ok(format!("&{digests:?}"))
}

/// What is said about each kind.
fn kinds() -> Result<String, Box<dyn Error>> {
    let mut kinds = BTreeMap::new();
    for SecretEntry { kind, what, source, .. } in entries("catalogue/secrets")? {
        kinds.entry(("Secret", kind.0)).or_insert((what.0, source.0));
    }
    for NumberEntry { kind, what, source, .. } in entries("catalogue/numbers")? {
        kinds.entry(("Pii", kind.0)).or_insert((what.0, source.0));
    }
    let mut table = String::from("&[\n");
    for ((class, kind), (what, source)) in &kinds {
        writeln!(
            table,
            "Described {{ class: Class::{class}, kind: {kind:?}, what: {what:?}, source: {source:?} }},"
        )?;
    }
    table.push(']');
    Ok(table)
}

fn borrowed(items: impl Iterator<Item = String>) -> String {
    format!("Cow::Borrowed(&[{}])", items.collect::<Vec<_>>().join(", "))
}

/// A part of a shape as Rust has it.
fn part(part: &Part) -> String {
    match part {
        Part::Lit(literal) => format!("Part::Lit(Cow::Borrowed({literal:?}))"),
        Part::Fold(literal) => format!("Part::Fold(Cow::Borrowed({literal:?}))"),
        Part::Run(set, least, most) => format!("Part::Run(ByteSet({}), {least}, {most})", set.0),
        Part::Maybe(set) => format!("Part::Maybe(ByteSet({}))", set.0),
    }
}
