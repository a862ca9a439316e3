//! What an installation writes for Cline: one script per event, since the client starts files by the name of
//! the event. The script says the refusal itself when the program fails: a last line that begins with
//! `HOOK_CONTROL` counts whatever stands before it.

use crate::install::{ForOneRun, Form, HookCommand, Layout, Moved, OwnFile, Place};

pub(super) const LAYOUT: Layout = Layout {
    // Its option `--hooks-dir` was seen to have no effect.
    once: ForOneRun::Never,
    user: Place {
        variable: Some(Moved { by: "CLINE_DIR", below: "hooks" }),
        folder: ".cline/hooks",
        file: "PreToolUse",
    },
    project: Some(Place { variable: None, folder: ".clinerules/hooks", file: "PreToolUse" }),
    form: Form::Own(files),
};

/// Events at which a failing program ends the run.
const GATES: &[&str] = &["PreToolUse", "PostToolUse", "UserPromptSubmit"];
const WATCHED: &[&str] = &["TaskStart", "TaskResume", "TaskComplete", "SessionShutdown", "PreCompact"];

fn files(command: &HookCommand) -> Vec<OwnFile> {
    let gates = GATES.iter().map(|event| {
        let text = format!(
            "#!/bin/sh\n# Written by backstop install; backstop uninstall removes it.\n{}\ncase $? in 0|2) exit 0 ;; esac\n{}\n",
            command.at(event).plain(),
            r#"printf '\nHOOK_CONTROL\t{"cancel":true,"errorMessage":"backstop could not judge this"}\n'"#,
        );
        OwnFile::script(event, text)
    });
    let watched = WATCHED.iter().map(|event| {
        let text = format!(
            "#!/bin/sh\n# Written by backstop install; backstop uninstall removes it.\n{}\n",
            command.at(event).plain()
        );
        OwnFile::script(event, text)
    });
    gates.chain(watched).collect()
}
