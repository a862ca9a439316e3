//! Which models an agent may use.

use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallEvent, BeforeLlmCallOutcome, NO_MODEL};
use backstop_hooks::{AgentId, Answer, Context, Hook, Reason};

use super::pattern::Pattern;

/// The only models that some agents may use.
#[derive(Clone, Debug)]
pub struct ModelRule {
    /// The agents; all, if `None`, including agents without a name.
    pub agent: Option<Pattern>,
    /// The models.
    pub allow: Vec<Pattern>,
}

/// Which models agents may use. If several rules apply to an agent, it may use what all of them allow. If no
/// rule applies, it may use any. This covers every model that a request names, not only the one that it is for.
#[derive(Clone, Debug, Default)]
pub struct ModelAccess(Vec<ModelRule>);

impl ModelAccess {
    /// Creates the guard from its rules.
    pub fn new(rules: Vec<ModelRule>) -> Self {
        Self(rules)
    }

    fn allows(&self, agent: Option<&AgentId>, model: &str) -> bool {
        let agent = agent.map(AgentId::as_str);
        let about = |rule: &&ModelRule| rule.agent.as_ref().is_none_or(|pattern| pattern.matches_any(agent));
        self.0.iter().filter(about).all(|rule| rule.allow.iter().any(|pattern| pattern.matches(model)))
    }
}

impl Hook<BeforeLlmCall> for ModelAccess {
    fn call<'a>(&'a self, event: &'a BeforeLlmCallEvent, cx: Context<'a>) -> Answer<'a, BeforeLlmCall> {
        let agent = cx.call.agent_id.as_ref();
        let main = Some(&event.model).filter(|model| *model != NO_MODEL);
        let named = main.into_iter().chain(event.other_models.iter().flatten());
        let stopped = named.into_iter().find(|model| !self.allows(agent, model));
        Answer::Now(Ok(stopped.map(|model| BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some(
                Reason::new(format!(
                    "agent `{}` may not ask the model `{}` [MODEL_NOT_ALLOWED]",
                    agent.map_or("unknown", AgentId::as_str),
                    model
                ))
                .by(["model.not-allowed".into()]),
            ),
            ..BeforeLlmCallOutcome::default()
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_about_the_agent_counts() {
        let pattern = |text: &str| Pattern::new(text).unwrap();
        let access = ModelAccess::new(vec![
            ModelRule { agent: None, allow: vec![pattern("claude-*"), pattern("gpt-*")] },
            ModelRule { agent: Some(pattern("ci-*")), allow: vec![pattern("*-haiku")] },
            ModelRule { agent: Some(pattern("*")), allow: vec![pattern("*")] },
        ]);
        let allows =
            |agent: Option<&str>, model: &str| access.allows(agent.map(AgentId::from).as_ref(), model);
        assert!(allows(Some("main"), "claude-opus"));
        assert!(!allows(Some("main"), "llama"));
        assert!(allows(Some("ci-1"), "claude-haiku"));
        assert!(!allows(Some("ci-1"), "claude-opus"));
        assert!(!allows(Some("ci-1"), "x-haiku"));
        assert!(
            allows(None, "gpt-5") && !allows(None, "llama"),
            "who has no name is bound by what binds all"
        );
    }
}
