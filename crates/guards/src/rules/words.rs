//! Lists of words that programs are called, and that stand on command lines, by what they mean.
//!
//! They are data (`words/*.yaml`), each with its source, and are made into tables by the build script. Most are the closed
//! side of a question: what stands in one is harmless in that respect, and everything else is judged.

include!(concat!(env!("OUT_DIR"), "/words.rs"));

/// Whether a list holds a word.
pub(crate) fn is(list: &[&str], word: &str) -> bool {
    list.binary_search(&word).is_ok()
}
