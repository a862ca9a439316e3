//! Help texts, and how the command line refuses what it does not understand.

use super::support::{User, snapshot};

#[test]
fn help_of_everything() {
    let user = User::new();
    let mut text = String::new();
    for command in [
        vec![],
        vec!["agent"],
        vec!["serve"],
        vec!["run"],
        vec!["install"],
        vec!["uninstall"],
        vec!["status"],
        vec!["doctor"],
        vec!["hook"],
        vec!["check"],
        vec!["explain"],
        vec!["scan"],
        vec!["hooks"],
        vec!["config"],
        vec!["approvals"],
        vec!["approvals", "approve"],
        vec!["allow-once"],
        vec!["grants"],
        vec!["sessions"],
        vec!["audit"],
        vec!["model", "serve"],
        vec!["demo"],
    ] {
        let help = user.run(&[command.as_slice(), &["--help"]].concat()).succeeded();
        assert!(help.err.is_empty());
        text.push_str(&format!("==== {}\n{}\n", command.join(" "), help.out));
    }
    snapshot!(text);
}

#[test]
fn what_is_not_understood_is_refused_with_2() {
    let user = User::new();
    for args in [
        &[][..],
        &["chek"],
        &["check"],
        &["check", "--tool", "exec"],
        &["check", "--tool", "exec", "--args", "{}", "--jsonl"],
        &["approvals", "approve", "X", "--for", "8h"],
        &["approvals", "approve", "X", "--always", "--for", "8"],
        &["agent", "-m", "  "],
        &["agent", "--heartbeat", "x"],
        &["demo", "--interactive"],
    ] {
        let done = user.run(args);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.whole());
        assert!(done.out.is_empty(), "{args:?}: {}", done.whole());
        assert!(!done.err.is_empty(), "{args:?}");
    }
}

#[test]
fn a_typo_gets_a_suggestion() {
    snapshot!(User::new().run(&["chek"]).whole(), @r"
    exit: 2
    --- stdout
    --- stderr
    error: unrecognized subcommand 'chek'

      tip: a similar subcommand exists: 'check'

    Usage: backstop [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn an_agent_without_terminal_and_message_is_refused() {
    snapshot!(User::new().run(&["agent"]).whole(), @r"
    exit: 2
    --- stdout
    --- stderr
    error: there is no terminal to talk on
    hint: give the message with `-m`
    ");
}

#[test]
fn the_reference_names_every_command_and_code() {
    let reference = backstop_cli::reference();
    for needle in [
        "## `backstop check`",
        "## `backstop approvals approve`",
        "`--for <DURATION>`",
        "| 130 |",
        "`--jsonl`",
    ] {
        assert!(reference.contains(needle), "{needle} is missing in:\n{reference}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let user = User::new();
    let mut child = user.command(&["config", "schema"]).spawn().unwrap();
    drop(child.stdout.take());
    let done = super::support::done(child);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
}

#[test]
fn the_guide_lists_the_exit_codes_as_they_are() {
    let guide = include_str!("../../../../docs/cli.md");
    for exit in backstop_cli::Exit::ALL {
        let row = format!("| {} | {} |", exit.code(), exit.meaning());
        assert!(guide.contains(&row), "docs/cli.md has no row `{row}`");
    }
}
