//! Lists of program names and command-line words, by meaning.
//!
//! They are data (`words/*.yaml`), each with its source, and the build script turns them into tables. Most are the closed
//! side of a question: a listed word is harmless in that respect, and everything else is judged.

include!(concat!(env!("OUT_DIR"), "/words.rs"));

/// Returns whether a list holds a word.
pub(crate) fn is(list: &[&str], word: &str) -> bool {
    list.binary_search(&word).is_ok()
}
