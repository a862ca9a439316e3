//! The built-in catalogue, compiled by the build script: a table of names, and entries that are parsed on first
//! use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, OnceLock};

use super::Program;

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

type Read = OnceLock<Option<Box<Program>>>;

static READ: LazyLock<Box<[Read]>> = LazyLock::new(|| ENTRIES.iter().map(|_| Read::new()).collect());

static BROKEN: AtomicBool = AtomicBool::new(false);

/// Returns whether an entry could not be read.
pub(super) fn is_broken() -> bool {
    BROKEN.load(Ordering::Acquire)
}

/// Returns the entry with this name.
pub(super) fn named(name: &str) -> Option<&'static Program> {
    let at = NAMES.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    entry(NAMES.get(at)?.1)
}

/// Returns the first entry one of whose names is a beginning of this one.
pub(super) fn begun(name: &str) -> Option<&'static Program> {
    entry(BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning))?.1)
}

fn entry(at: usize) -> Option<&'static Program> {
    READ.get(at)?.get_or_init(|| read(ENTRIES.get(at)?)).as_deref()
}

fn read(written: &str) -> Option<Box<Program>> {
    let read = serde_json::from_str(written).ok();
    if read.is_none() {
        BROKEN.store(true, Ordering::Release);
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_can_be_read_and_is_found_by_each_of_its_names() {
        for (at, written) in ENTRIES.iter().enumerate() {
            let program = entry(at).unwrap_or_else(|| panic!("{written}"));
            for name in &program.names {
                let found = match name.strip_suffix('*') {
                    Some(beginning) => begun(&format!("{beginning}x")),
                    None => named(name),
                };
                assert!(found.is_some_and(|found| std::ptr::eq(found, program)), "{name}");
            }
        }
        assert!(!is_broken());
        assert!(NAMES.is_sorted());
    }
}
