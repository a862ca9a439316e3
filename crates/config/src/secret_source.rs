//! Where the secrets of a configuration come from.
//!
//! The law: *none is forgotten*. A secret is noted where a value is read whose type says that it is one, so that whoever keeps them from agents
//! needs no list of keys, which the next key would be missing from.

use crate::place::Place;

/// Where a secret of the operator's comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSource {
    /// The key path of the value, such as `gateway.token_file`.
    pub key: String,
    /// Where that is written.
    pub at: Place,
    /// What holds the secret.
    pub origin: SecretOrigin,
}

/// What holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretOrigin {
    /// The operator's file itself: whoever can read that has it.
    Written,
    /// The variable of the environment with this name.
    Variable(String),
    /// The file at this path, which is relative to the folder of the operator's file.
    File(String),
}
