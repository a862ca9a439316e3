//! YAML in which every value knows where it was written.
//!
//! Configurations, rule packs and catalogues are written by people, and what is wrong with them has to be said so that
//! its author can repair it: file, line, column, and the nearest word that would have been known. So a text becomes a
//! tree of [`Node`]s with their places ([`parse`]), and a tree becomes any type that `serde` can read
//! ([`Node::read`]), whose errors are [`Problem`]s at the place of the value that is wrong.
//!
//! Only the part of YAML that such files need is read, which also removes the ways in which a small file becomes a
//! large value: one document, no anchors, aliases, tags, merge keys or complex keys, no key twice. JSON is read by the
//! same code. Limits: [`MAX_BYTES`], [`MAX_NODES`], [`MAX_DEPTH`].
//!
//! ```
//! use std::sync::Arc;
//!
//! #[derive(Debug, serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Entry {
//!     program: String,
//! }
//!
//! let file = Arc::from("programs.yaml");
//! let root = backstop_yaml::parse(&file, "- program: tar\n- progam: zip\n").unwrap().unwrap();
//! let problem = root.read::<Vec<Entry>>().unwrap_err();
//! assert_eq!(
//!     problem.to_string(),
//!     "error: unknown key `progam`\n  --> programs.yaml:2:3\n  hint: did you mean `program`?"
//! );
//! ```

mod de;
mod files;
mod place;
mod problem;
mod tree;

pub use files::read_files;
pub use place::{Place, Spanned};
pub use problem::{Problem, ProblemKind, escape, is_invisible, nearest, quote, quoted_list, suggestion};
pub use tree::{Entry, Kind, MAX_BYTES, MAX_DEPTH, MAX_NODES, Node, parse};
