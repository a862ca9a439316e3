//! What only one client has.

/// Claude Code, which writes its own settings by a tool for files, too.
mod claude {
    use serde_json::json;

    use crate::client::{Client, NoBuild};
    use crate::model::Call;
    use crate::run::World;
    use crate::scenarios::try_out;

    #[test]
    fn bypass_mode_writes_no_settings() {
        try_out("claude", settings_stay_as_they_are);
    }

    fn settings_stay_as_they_are(client: Client) -> Result<(), NoBuild> {
        for name in [".claude/settings.local.json", ".claude/settings.json"] {
            let world = World::new(client, "{}");
            world.install();
            let file = world.file(name);
            let write =
                Call::new("Write", json!({ "file_path": file, "content": "{\"disableAllHooks\": true}" }));
            let outcome = world.trial(&[write]).argument(client.bypass().unwrap()).go()?;
            assert!(!file.exists(), "{name} was written\n{outcome:?}");
            assert!(outcome.heard.requests() > 1, "the model was not told\n{outcome:?}");
        }
        Ok(())
    }
}

/// Codex, whose agent can type into what it has started without any hook being told.
mod codex {
    use std::process::{Command, Stdio};

    use serde_json::json;

    use crate::client::{Client, NoBuild, Place};
    use crate::model::{Call, Model};
    use crate::run::World;
    use crate::scenarios::{assert_refused, leave_mark, policy, try_out};

    #[test]
    fn open_shell() {
        try_out("codex", no_shell_is_opened);
    }

    fn no_shell_is_opened(client: Client) -> Result<(), NoBuild> {
        let world = World::new(client, "{}");
        let open = Call::new("exec_command", json!({ "cmd": "bash --norc", "tty": true }));
        let outcome = world.run(&[open], |_| ())?;
        assert_refused(client, &world, &outcome, "UNSEEN_INPUT");
        Ok(())
    }

    /// Codex passes over hooks that nobody has trusted, without a word; `doctor` fails and says where they are trusted.
    #[test]
    fn untrusted_hooks() {
        try_out("codex", hooks_that_nobody_trusts_are_told_of);
    }

    fn hooks_that_nobody_trusts_are_told_of(client: Client) -> Result<(), NoBuild> {
        let world = World::new(client, &policy("deny_argument_patterns: { '*': ['echo done'] }"));
        world.install();
        let (is_content, said) = world.doctor(&[]);
        assert!(!is_content && said.contains("/hooks"), "{said}");
        let call = [leave_mark(client)];
        let trusted = world.trial(&call).go()?;
        assert!(!world.ran(), "it ran with trusted hooks\n{trusted:?}");
        let model = Model::start(&call, false);
        let started = Place { model: model.address(), ..world.place() }.started(client)?;
        let mut command = Command::new(started.get_program());
        command.args(started.get_args().filter(|word| *word != "--dangerously-bypass-hook-trust"));
        command.env_clear().envs(started.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(world.file("")).stdin(Stdio::null());
        let printed = world.wait(&mut command, |_| ());
        assert!(model.stop().requests() > 0, "the model was never asked\n{printed}");
        assert!(world.ran(), "Codex starts hooks that nobody trusts now\n{printed}");
        Ok(())
    }

    /// A payload names the folder that the agent chose for a command; the rules of the session's folder hold all the same.
    #[test]
    fn folder_of_a_call() {
        try_out("codex", the_sessions_rules_hold_elsewhere);
    }

    fn the_sessions_rules_hold_elsewhere(client: Client) -> Result<(), NoBuild> {
        let world = World::new(client, "{}");
        let rules =
            "hooks:\n  tool_call:\n    pre_call:\n      - { type: policy, config: { deny_tools: [exec] } }\n";
        std::fs::write(world.file("backstop.yaml"), rules).unwrap();
        let call = Call::new("exec_command", json!({ "cmd": "pwd", "workdir": "/" }));
        let outcome = world.run(&[call], |_| ())?;
        assert_refused(client, &world, &outcome, "is denied by `deny_tools` pattern `exec`");
        Ok(())
    }
}
