//! Reads entries from YAML, with their places.

use std::sync::Arc;

use backstop_yaml::{Kind, Node, Problem, ProblemKind, Spanned};

use super::Program;

/// Reads the text of a catalogue; `file` is its name for messages. A text with nothing in it holds no entries.
///
/// # Errors
///
/// Every entry that can't be read, each with its first problem; or a syntax error of the YAML.
pub fn read_programs(file: &str, text: &str) -> Result<Vec<Spanned<Program>>, Vec<Problem>> {
    match backstop_yaml::parse(&Arc::from(file), text) {
        Ok(Some(root)) => programs_of(&root),
        Ok(None) => Ok(Vec::new()),
        Err(problem) => Err(vec![problem]),
    }
}

/// Returns the entries of a catalogue that is already parsed into a tree: one, or a list.
///
/// # Errors
///
/// Like [`read_programs`].
pub fn programs_of(root: &Node) -> Result<Vec<Spanned<Program>>, Vec<Problem>> {
    let nodes = match &root.kind {
        Kind::List(nodes) => nodes.as_slice(),
        Kind::Map(_) => std::slice::from_ref(root),
        _ => {
            let message = format!("a catalogue is a list of programs, found {}", root.shape());
            return Err(vec![Problem::new(ProblemKind::BadValue, root.at.clone(), message)]);
        }
    };
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for node in nodes {
        match node.read() {
            Ok(value) => entries.push(Spanned { value, at: node.at.clone() }),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(entries) } else { Err(problems) }
}
