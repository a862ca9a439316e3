//! What a doctor says about one thing that it looked at.

use backstop::config::{Guards, HookMode};
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
    /// A warning for each guard that is in shadow: it is among the hooks, and nothing is stopped by it.
    pub(crate) fn guards_in_shadow(guards: &Guards) -> impl Iterator<Item = Self> {
        let Guards { command_safety, sensitive_files, .. } = guards;
        let commands = ("command_safety", command_safety.enabled.value, command_safety.mode.value);
        let files = ("sensitive_files", sensitive_files.enabled.value, sensitive_files.mode.value);
        let shadows =
            [commands, files].into_iter().filter(|(_, enabled, mode)| *enabled && *mode == HookMode::Shadow);
        shadows.map(|(key, ..)| Self {
            grade: Grade::Warning,
            text: format!("the guard `guards.{key}` is in shadow: it stops nothing, and asks nobody"),
            hint: Some(format!(
                "`backstop log --would any` lists what it would have done; with `guards.{key}.mode: enforce` it counts"
            )),
        })
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
