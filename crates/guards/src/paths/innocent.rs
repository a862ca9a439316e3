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

/// Endings of source files: a name of keys in front of one says what the code is about.
pub(super) const SOURCES: &[&str] = &[
    ".go", ".rs", ".py", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".java", ".kt", ".scala", ".swift",
    ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rb", ".php", ".ex", ".erl", ".hs", ".lua", ".dart", ".vue",
    ".svelte", ".html", ".css", ".sql", ".proto", ".svg", ".png",
];

/// Directories below which sensitive names are test material or vendored code.
pub(super) const INNOCENT_DIRECTORIES: &[&str] = &[
    "node_modules",
    "test",
    "tests",
    "testdata",
    "fixtures",
    "__fixtures__",
    "site-packages",
    "templates",
    "vendor",
    "locales",
    "locale",
    "i18n",
    "translations",
];

/// Directories of other people's code and of test material: what lies there is not run where it lies.
pub(super) const VENDORED: &[&str] =
    &["node_modules", "testdata", "fixtures", "__fixtures__", "vendor", "templates"];

/// Endings that make a copy of a file.
pub(super) const BACKUPS: &[&str] = &[
    ".bak",
    ".backup",
    ".old",
    ".orig",
    ".save",
    ".saved",
    ".copy",
    ".swp",
    ".tmp",
    ".disabled",
    "~",
    "-backup",
    "-old",
    "_backup",
    "_old",
    ".gz",
    ".zip",
    ".tar",
    ".tgz",
    ".xz",
    ".zst",
    ".b64",
];
