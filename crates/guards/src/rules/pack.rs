//! Rule packs, as people write them.
//!
//! A pack is YAML: a list of rules, a mapping with that list under `rules`, or one rule. The built-in packs and those of
//! operators share one form and one reader, which reports every mistake with file, line, column and the nearest word.

use std::sync::Arc;

use backstop_yaml::{Kind, Node, Place, Problem, ProblemKind, Spanned};

use super::Rule;

/// Reads the text of a pack; `file` is its name for messages. A text with nothing in it holds no rules.
///
/// # Errors
///
/// Every rule that can't be read, each with its first problem; or a syntax error of the YAML.
pub fn read_pack(file: &str, text: &str) -> Result<Vec<Spanned<Rule>>, Vec<Problem>> {
    match backstop_yaml::parse(&Arc::from(file), text) {
        Ok(Some(root)) => rules_of(&root),
        Ok(None) => Ok(Vec::new()),
        Err(problem) => Err(vec![problem]),
    }
}

/// Returns the rules of a pack that is already parsed into a tree.
///
/// # Errors
///
/// Like [`read_pack`].
pub fn rules_of(root: &Node) -> Result<Vec<Spanned<Rule>>, Vec<Problem>> {
    let (mut rules, mut problems) = (Vec::new(), Vec::new());
    for node in listed(root)? {
        match node.read() {
            Ok(value) => rules.push(Spanned { value, at: node.at.clone() }),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(rules) } else { Err(problems) }
}

fn listed(root: &Node) -> Result<&[Node], Vec<Problem>> {
    let wrong = |at: &Place, message: &str| {
        vec![Problem::new(ProblemKind::BadValue, at.clone(), format!("a pack is a list of rules, {message}"))]
    };
    match &root.kind {
        Kind::List(rules) => Ok(rules),
        Kind::Map(entries) => match entries.as_slice() {
            [entry] if entry.key == "rules" => match &entry.value.kind {
                Kind::List(rules) => Ok(rules),
                _ => Err(wrong(&entry.value.at, &format!("found {}", entry.value.shape()))),
            },
            _ => match entries.iter().find(|entry| entry.key == "rules") {
                Some(entry) => Err(wrong(&entry.key_at, "so `rules` stands alone")),
                None => Ok(std::slice::from_ref(root)),
            },
        },
        _ => Err(wrong(&root.at, &format!("found {}", root.shape()))),
    }
}
