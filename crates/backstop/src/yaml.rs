//! YAML whose errors name file, line, column and the nearest known word, for files beside the configuration.

pub use backstop_yaml::{
    Entry, Kind, MAX_BYTES, Node, Place, Problem, ProblemKind, parse, quote, suggestion,
};
