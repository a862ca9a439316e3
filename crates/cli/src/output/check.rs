//! What a doctor says about one thing that it looked at.

use backstop::config::{Config, HookMode};
use serde::Serialize;

use super::{Output, Style, plain};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Grade {
    /// It is as it should be.
    Good,
    /// It works, and could be better.
    Warning,
    /// It does not work.
    Failed,
    /// Nothing that can be looked at from here.
    Note,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) grade: Grade,
    pub(crate) text: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Check {
    /// A warning for each guard that is in shadow, for its rules that are, and for each plugin whose hooks are: they are among the hooks, and
    /// nothing is stopped by them.
    pub(crate) fn in_shadow(config: &Config) -> Vec<Self> {
        let (commands, files) = (&config.guards.command_safety, &config.guards.sensitive_files);
        let warning = |what: String, key: String| Self {
            grade: Grade::Warning,
            text: format!("{what} is in shadow: it stops nothing, and asks nobody"),
            hint: Some(format!("`backstop log --would any` lists what it would have done; {key} it counts")),
        };
        let is_shadow = |mode: HookMode| mode == HookMode::Shadow;
        let guards = [
            ("command_safety", commands.enabled.value, commands.mode.value),
            ("sensitive_files", files.enabled.value, files.mode.value),
        ];
        let guards = guards.into_iter().filter(|(_, enabled, mode)| *enabled && is_shadow(*mode));
        let mut all: Vec<Self> = guards
            .map(|(key, ..)| {
                warning(format!("the guard `guards.{key}`"), format!("with `guards.{key}.mode: enforce`"))
            })
            .collect();
        if commands.enabled.value && !is_shadow(commands.mode.value) {
            all.extend(commands.shadow.iter().map(|rule| {
                let what = format!("the rule `{}` of `guards.command_safety`", rule.value.as_str());
                warning(what, "left out of `guards.command_safety.shadow`".to_owned())
            }));
        }
        for (id, entry) in config.plugins.entries.iter() {
            let is_on = entry.enabled.as_ref().is_none_or(|enabled| enabled.value);
            let (name, hooks) = (id.value.as_str(), &entry.hooks);
            let whole = is_shadow(hooks.mode.value);
            let points = hooks.modes.iter().filter(|(_, mode)| is_shadow(mode.value));
            let points: Vec<&str> = points.map(|(point, _)| point.value.name()).collect();
            if is_on && (whole || !points.is_empty()) {
                let at = if whole { String::new() } else { format!(" at `{}`", points.join("`, `")) };
                let key = format!("with `enforce` in `plugins.entries.{name}.hooks`");
                all.push(warning(format!("what hooks of the plugin `{name}` say{at}"), key));
            }
        }
        all
    }

    /// The lines that people read, below the title of what they are about.
    pub(crate) fn lines(&self, output: &Output) -> String {
        let paint = output.paint();
        let word = match self.grade {
            Grade::Good => paint.with(Style::Good, "good   "),
            Grade::Warning => paint.with(Style::Notice, "warning"),
            Grade::Failed => paint.with(Style::Bad, "failed "),
            Grade::Note => paint.with(Style::Faint, "note   "),
        };
        let hint = self.hint.as_ref().map(|hint| format!("          hint: {}\n", plain(hint)));
        format!("  {word} {}\n{}", plain(&self.text), hint.unwrap_or_default())
    }
}
