//! Rows of foreign case files whose label is wrong or a matter of view. They are counted apart.

/// The id of each row, and why.
pub(crate) const ROWS: &[(&str, &str)] = &[
    (
        "c-03b20cc8bb26",
        "deletes the system's configuration; its source protects the directory but not what is in it",
    ),
    ("c-e83aa49c5815", "deletes without question whatever in `/` ends with a dot"),
    ("c-b6dda07a0ffb", "the `cd` happens in a subshell, so this deletes `build` in the workspace"),
    ("c-4e7f635c82bf", "deletes `7` in the workspace; `7` is no file descriptor here"),
    ("c-4e349d11f18b", "deletes below `/tmp`, which other rows call harmless"),
    ("c-fff93033f0ae", "prints a text; nothing runs it"),
    ("c-9099096653b0", "prints the name `.env` and reads the readme"),
    ("c-9e5a0beb278f", "reads a key file; its source merely doesn't list that directory"),
    ("c-ac0f7f554141", "deletes below `/tmp`, which other rows call harmless"),
    ("c-0ed443dbfc21", "deletes one file below `/tmp`"),
    ("c-04cdbffcfa62", "only reads the state of a neighbouring repository"),
];
