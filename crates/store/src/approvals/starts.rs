//! What a call would start, for people who are asked about it. Nothing decides by it.

use backstop_hooks::Text;
use serde::{Deserialize, Serialize};

/// What a call would start and touch, as far as it says so itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Starts {
    /// The programs, in the order in which they are found.
    pub processes: Vec<StartedProcess>,
    /// The files and folders.
    pub paths: Vec<TouchedPath>,
    /// The hosts in addresses among the words.
    pub hosts: Vec<Text>,
    /// What can't be told of it.
    pub unknown: Vec<Text>,
    /// How many more there are of all these than are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

/// A program that would start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedProcess {
    /// The program and its arguments. What is not known of them is shown as `…`.
    pub words: Vec<Text>,
    /// The programs that it is started through, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub through: Vec<Text>,
    /// The folder that it starts in, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<Text>,
}

/// A file or folder that would be touched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TouchedPath {
    /// What is done to it, in a word (`read`, `write`, `delete`).
    pub action: String,
    /// Where it is.
    pub path: Text,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_zero(number: &usize) -> bool {
    *number == 0
}
