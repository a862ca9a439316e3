//! What pages are made of besides themselves. Each file has its digest as entity tag, and in its address, so that no browser keeps an old one.

use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

/// A file that pages use.
#[derive(Debug)]
pub struct Asset {
    /// Its name below `/-/console/`.
    pub name: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
    tag: LazyLock<String>,
}

/// The style sheet.
pub static STYLE: Asset = Asset {
    name: "console.css",
    kind: "text/css; charset=utf-8",
    text: include_str!("../assets/console.css"),
    tag: LazyLock::new(|| tag(include_str!("../assets/console.css"))),
};
/// The script.
pub static SCRIPT: Asset = Asset {
    name: "console.js",
    kind: "text/javascript; charset=utf-8",
    text: include_str!("../assets/console.js"),
    tag: LazyLock::new(|| tag(include_str!("../assets/console.js"))),
};
/// The picture in tabs.
pub static ICON: Asset = Asset {
    name: "icon.svg",
    kind: "image/svg+xml",
    text: include_str!("../assets/icon.svg"),
    tag: LazyLock::new(|| tag(include_str!("../assets/icon.svg"))),
};

/// What shows notices on devices. It has an address of its own, at which browsers look for another one.
pub static WORKER: Asset = Asset {
    name: "worker.js",
    kind: "text/javascript; charset=utf-8",
    text: include_str!("../assets/worker.js"),
    tag: LazyLock::new(|| tag(include_str!("../assets/worker.js"))),
};
/// What makes it something that can be installed.
pub static MANIFEST: Asset = Asset {
    name: "console.webmanifest",
    kind: "application/manifest+json; charset=utf-8",
    text: include_str!("../assets/console.webmanifest"),
    tag: LazyLock::new(|| tag(include_str!("../assets/console.webmanifest"))),
};

impl Asset {
    /// Returns the one of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        [&STYLE, &SCRIPT, &ICON, &WORKER, &MANIFEST].into_iter().find(|asset| asset.name == name)
    }

    /// Returns its address on pages.
    pub fn address(&self) -> String {
        format!("/-/console/{}?v={}", self.name, self.tag.as_str())
    }

    /// Returns its entity tag, in quotation marks.
    pub fn entity_tag(&self) -> String {
        format!("\"{}\"", self.tag.as_str())
    }
}

/// The beginning of the digest of a text.
fn tag(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
