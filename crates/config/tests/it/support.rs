//! What the tests share: known names, an environment, and loading in one line.

use backstop_config::{
    ConfigError, HookSlot, HookType, InRepository, KnownNames, LayerKind, Loaded, Loader, Source,
};

/// The value behind `${TOKEN}`; it must never be printed.
pub(crate) const TOKEN: &str = "tok-from-environment";

pub(crate) fn names() -> KnownNames {
    let verdict = |name: &str, repository| HookType {
        name: name.to_owned(),
        slots: vec![HookSlot::ToolPreCall, HookSlot::ToolPostCall],
        repository,
    };
    KnownNames {
        hook_types: vec![
            verdict("passthrough", InRepository::Allowed),
            verdict("policy", InRepository::Allowed),
            verdict("human_approval", InRepository::Without(&["title"])),
            verdict("webhook", InRepository::Refused),
        ],
        tools: vec!["deploy".to_owned()],
    }
}

pub(crate) fn environment(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some(TOKEN.to_owned()),
        "NOTHING" => Some(String::new()),
        _ => None,
    }
}

pub(crate) fn load(sources: &[Source]) -> Result<Loaded, ConfigError> {
    Loader::new(&names(), &environment).load(sources)
}

pub(crate) fn operator(text: &str) -> Source {
    Source::new(LayerKind::Operator, "operator.yaml", text)
}

pub(crate) fn repository(text: &str) -> Source {
    Source::new(LayerKind::Repository, "repository.yaml", text)
}

/// A file that uses every key; a test holds it to that.
pub(crate) const FULL: &str = include_str!("full.yaml");
