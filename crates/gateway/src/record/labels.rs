//! The words that a record may contain.
//!
//! The law: *clients can't create labels*. A [`Word`] is a constant of this program. A [`Label`] is a name from the operator's
//! configuration: an agent that has a token, a user, a provider, a model or the pattern that it matches. The agent of an access token
//! has the name with which an operator made the token. Anything else that a client sends
//! becomes [`Label::other`]. Therefore the number of labels is bounded by the configuration and by the tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use backstop_hooks::AgentId;
use globset::GlobMatcher;
use http::Method;

use crate::endpoint::{Endpoint, Family, Operation};
use crate::settings::Settings;
use crate::upstream::glob;

/// A word of this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word(&'static str);

impl Word {
    pub(crate) const NONE: Self = Self("none");

    pub(super) const fn of_reason(word: &'static str) -> Self {
        Self(word)
    }

    /// The word.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// A name that the operator gave to something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(Arc<str>);

static OTHER: LazyLock<Label> = LazyLock::new(|| Label("other".into()));
static NONE: LazyLock<Label> = LazyLock::new(|| Label("none".into()));
static UNREAD: LazyLock<Label> = LazyLock::new(|| Label("unread".into()));

impl Label {
    /// The label.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn named_for_tests(name: &str) -> Self {
        Self(name.into())
    }

    /// Everything that has no name of its own.
    pub fn other() -> Self {
        OTHER.clone()
    }

    /// Nothing was said.
    pub fn none() -> Self {
        NONE.clone()
    }

    /// Nobody looked.
    pub(crate) fn unread() -> Self {
        UNREAD.clone()
    }
}

impl Default for Label {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All labels that there are.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    agents: BTreeSet<Label>,
    users: BTreeSet<Label>,
    providers: BTreeSet<Label>,
    models: BTreeMap<Arc<str>, Label>,
    /// Patterns of models, in the order in which they are looked up.
    patterns: Vec<(GlobMatcher, Label)>,
}

impl std::borrow::Borrow<str> for Label {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Labels {
    pub(crate) fn of(settings: &Settings) -> Self {
        let label = |name: &str| Label(name.into());
        let agents = settings.agents.keys().chain(settings.quotas.agents.keys());
        let mut labels = Self {
            agents: agents.map(|agent| label(agent.as_str())).collect(),
            users: settings.quotas.users.keys().map(|user| label(user)).collect(),
            providers: settings.providers.keys().map(|name| label(name)).collect(),
            ..Self::default()
        };
        let of_providers = settings.providers.values().flat_map(|provider| &provider.models);
        let routed = settings.routes.iter().flat_map(|route| &route.models);
        for name in settings.known_models.iter().chain(of_providers).chain(routed) {
            if name.contains(['*', '?', '[', '{', '\\']) {
                let is_new = labels.patterns.iter().all(|(_, label)| label.as_str() != name);
                labels.patterns.extend(glob(name).filter(|_| is_new).map(|glob| (glob, label(name))));
            } else {
                let label = label(name);
                labels.models.insert(Arc::clone(&label.0), label);
            }
        }
        labels
    }

    /// The label of an agent. One that `is_proved` has its name from a token, and that from an operator.
    pub(crate) fn agent(&self, agent: Option<&AgentId>, is_proved: bool) -> Label {
        agent.map_or_else(Label::none, |agent| match self.agents.get(agent.as_str()) {
            Some(known) => known.clone(),
            None if is_proved => Label(agent.as_str().into()),
            None => Label::other(),
        })
    }

    /// The label of a user, whose name an issuer may have given.
    pub(crate) fn user(&self, user: Option<&str>) -> Label {
        user.map_or_else(Label::none, |user| self.users.get(user).cloned().unwrap_or_else(Label::other))
    }

    pub(crate) fn provider(&self, name: &str) -> Label {
        self.providers.get(name).cloned().unwrap_or_else(Label::other)
    }

    pub(crate) fn model(&self, name: &str) -> Label {
        if let Some(label) = self.models.get(name) {
            return label.clone();
        }
        let pattern = self.patterns.iter().find(|(pattern, _)| pattern.is_match(name));
        pattern.map_or_else(Label::other, |(_, label)| label.clone())
    }
}

/// The word for a method. Others than these are chosen by clients.
pub(crate) fn method(method: &Method) -> Word {
    const KNOWN: [(&Method, &str); 7] = [
        (&Method::GET, "GET"),
        (&Method::HEAD, "HEAD"),
        (&Method::POST, "POST"),
        (&Method::PUT, "PUT"),
        (&Method::PATCH, "PATCH"),
        (&Method::DELETE, "DELETE"),
        (&Method::OPTIONS, "OPTIONS"),
    ];
    Word(KNOWN.iter().find(|(known, _)| *known == method).map_or("other", |(_, word)| word))
}

/// The word for what is asked.
pub(crate) const fn operation(operation: Operation) -> Word {
    Word(match operation {
        Operation::Messages => "messages",
        Operation::CountTokens | Operation::BedrockCount => "count_tokens",
        Operation::ChatCompletions => "chat_completions",
        Operation::Responses => "responses",
        Operation::StoredResponse => "stored_response",
        Operation::Embeddings => "embeddings",
        Operation::Document => "document",
        Operation::Batch => "batch",
        Operation::Models => "models",
        Operation::GenerateContent => "generate_content",
        Operation::StreamGenerateContent => "stream_generate_content",
        Operation::Converse => "converse",
        Operation::Live => "live",
        Operation::Other => "other",
    })
}

/// The word for a wire: that of its codec, or of its maker where there is no codec.
pub(crate) fn wire(endpoint: Endpoint) -> Word {
    match endpoint.api() {
        Some(api) => Word(api.as_str()),
        None => Word(match endpoint.family {
            Family::Anthropic => "anthropic",
            Family::OpenAi => "openai",
            Family::Gemini => "gemini",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ModelRoute, Provider};
    use backstop_hooks::Secret;
    use proptest::prelude::*;

    fn labels() -> Labels {
        let mut settings = Settings::new(Secret::new("0123456789abcdef".to_owned()));
        settings.agents.insert(AgentId::new("coder"), Secret::new("coder-token-0123".to_owned()));
        let provider = Provider {
            models: vec!["claude-*".to_owned(), "exact".to_owned()],
            ..Provider::passing(Family::Anthropic, "http://localhost")
        };
        settings.providers.insert("anthropic".to_owned(), provider);
        settings.routes.push(ModelRoute { models: vec!["gpt-?".to_owned()], providers: Vec::new() });
        settings.known_models = vec!["claude-exact".to_owned(), "claude-*".to_owned()];
        Labels::of(&settings)
    }

    #[test]
    fn models_are_known_by_their_name_or_by_the_first_pattern_that_fits() {
        let labels = labels();
        for (name, label) in [
            ("exact", "exact"),
            ("claude-exact", "claude-exact"),
            ("claude-anything", "claude-*"),
            ("claude-*", "claude-*"),
            ("gpt-4", "gpt-?"),
            ("gpt-45", "other"),
            ("", "other"),
        ] {
            assert_eq!(labels.model(name).as_str(), label, "{name}");
        }
        assert_eq!(labels.agent(Some(&AgentId::new("coder")), false).as_str(), "coder");
        assert_eq!(labels.agent(Some(&AgentId::new("coders")), false), Label::other());
        assert_eq!(labels.agent(Some(&AgentId::new("of-a-token")), true).as_str(), "of-a-token");
        assert_eq!(labels.agent(None, false), Label::none());
        assert_eq!((labels.user(None), labels.user(Some("alice"))), (Label::none(), Label::other()));
        assert_eq!(method(&Method::from_bytes(b"SECRET").unwrap()).as_str(), "other");
    }

    proptest! {
        #[test]
        fn no_client_makes_a_label(name in "\\PC{0,40}", tail in "[a-z0-9*?-]{0,20}") {
            let labels = labels();
            let known = ["exact", "claude-exact", "claude-*", "gpt-?", "other", "none", "coder", "anthropic"];
            for name in [name.clone(), format!("claude-{tail}"), format!("gpt-{tail}"), format!("exact{tail}")] {
                let method = Method::from_bytes(name.as_bytes()).map_or(Word::NONE, |given| method(&given));
                prop_assert!(method.as_str().len() <= 7);
                for label in [
                    labels.model(&name),
                    labels.provider(&name),
                    labels.agent(Some(&AgentId::new(name.as_str())), false),
                    labels.user(Some(&name)),
                ] {
                    prop_assert!(known.contains(&label.as_str()), "{label}");
                }
            }
        }
    }
}
