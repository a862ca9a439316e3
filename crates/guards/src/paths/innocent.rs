//! What looks like a secret and is not: names, endings and folders that make a sensitive name innocent.

/// Files that look like secrets and are not, at any place.
pub(super) const INNOCENT_NAMES: &[&str] = &[
    "package-lock.json",
    "known_hosts",
    "known_hosts.old",
    "authorized_keys.example",
    "cacert.pem",
    "ca-certificates.crt",
    "ca-bundle.pem",
    "cert.pem",
    "fullchain.pem",
    "chain.pem",
    "isrgrootx1.pem",
];

/// Suffixes of names that make a sensitive name innocent.
pub(super) const INNOCENT_SUFFIXES: &[&str] = &[
    ".pub",
    ".example",
    ".sample",
    ".template",
    ".tmpl",
    ".dist",
    ".defaults",
    ".schema",
    ".md",
    ".markdown",
    ".rst",
    ".adoc",
    ".d.ts",
    ".snap",
];

/// Directories below which sensitive names are test material or vendored code.
pub(super) const INNOCENT_DIRECTORIES: &[&str] =
    &["node_modules", "test", "tests", "testdata", "fixtures", "__fixtures__", "site-packages", "vendor"];
