//! What only one client has.

/// Codex, whose agent can type into what it has started without any hook being told.
mod codex {
    use serde_json::json;

    use crate::client::{Client, NoBuild};
    use crate::model::Call;
    use crate::run::World;
    use crate::scenarios::{assert_refused, try_out};

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
