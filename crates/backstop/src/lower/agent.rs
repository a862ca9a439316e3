//! `agent.*` as the settings of the agent.

use std::time::Duration;

use backstop_agent::{AgentSettings, Compaction, SessionExpiry, Verbosity};
use backstop_config::{Expiry, Loaded, Thinking, Verbose};
use backstop_hooks::points::{ThinkLevel, ToolsAllow};
use backstop_hooks::{AgentId, Text, ToolName};

use super::secrets::withheld_variables;

/// The agent's settings as the configuration has them, for a model that was chosen.
pub fn agent_settings(
    loaded: &Loaded,
    agent_id: AgentId,
    provider: impl Into<String>,
    model: impl Into<String>,
) -> AgentSettings {
    let section = &loaded.config.agent;
    let defaults = AgentSettings::new(agent_id, provider, model);
    let compaction = &section.compaction;
    AgentSettings {
        system_prompt: section
            .system_prompt
            .as_ref()
            .map_or(defaults.system_prompt, |prompt| Text::from(prompt.value.expose())),
        tools: section
            .tools
            .as_ref()
            .map(|tools| ToolsAllow::new(tools.value.names().iter().map(ToolName::canonical))),
        max_iterations: u32::try_from(section.max_iterations.value.get()).unwrap_or(u32::MAX),
        max_tokens: Some(section.max_tokens.value.get()),
        temperature: section.temperature.as_ref().map(|temperature| temperature.value.get()),
        think: section.thinking.as_ref().map(|thinking| think_level(thinking.value)),
        hold_back_bytes: usize::try_from(section.hold_back_bytes.value.get()).unwrap_or(usize::MAX),
        verbosity: match section.verbose.value {
            Verbose::Off => Verbosity::Off,
            Verbose::On => Verbosity::On,
            Verbose::Full => Verbosity::Full,
        },
        compaction: compaction.enabled.value.then(|| Compaction {
            trigger_tokens: compaction.trigger_tokens.value.get(),
            keep_turns: usize::try_from(compaction.keep_turns.value.get()).unwrap_or(usize::MAX),
        }),
        expiry: expiry(&section.sessions),
        withheld: withheld_variables(loaded),
        ..defaults
    }
}

fn expiry(section: &Expiry) -> SessionExpiry {
    SessionExpiry {
        idle: section.idle_minutes.as_ref().map(|minutes| Duration::from_mins(minutes.value.get())),
        daily_at: section.daily_hour.as_ref().and_then(|hour| u8::try_from(hour.value.get()).ok()),
    }
}

fn think_level(thinking: Thinking) -> ThinkLevel {
    match thinking {
        Thinking::Off => ThinkLevel::Off,
        Thinking::Low => ThinkLevel::Low,
        Thinking::Medium => ThinkLevel::Medium,
        Thinking::High => ThinkLevel::High,
    }
}

#[cfg(test)]
mod tests {
    use backstop_config::{LayerKind, Source};

    use super::*;
    use crate::{HookTypes, load_sources};

    #[test]
    fn commands_of_the_agent_have_no_variable_with_a_secret_of_the_operator() {
        let text = "
gateway: { operators: { token: '${A}' } }
providers: { maker: { api: anthropic, base_url: 'https://api.example', api_key: '${K}' } }
";
        let environment =
            |name: &str| (name.len() == 1).then(|| format!("{name}-0123456789abcdef0123456789"));
        let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
        let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap();
        let settings = agent_settings(&loaded, AgentId::new("main"), "maker", "model");
        assert_eq!(settings.withheld.iter().map(String::as_str).collect::<Vec<_>>(), ["A", "K"]);
    }
}
