//! The reference of the command line, made from clap's definitions.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use crate::args::Cli;
use crate::exit::Exit;

/// The reference as Markdown: every command with its options, and the exit codes.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from("# Command line reference\n\n");
    let mut root = Cli::command();
    root.build();
    text.push_str(&section(&root, "backstop"));
    text.push_str("\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "| {} | {} |", exit.code(), exit.meaning());
    }
    text
}

fn section(command: &Command, path: &str) -> String {
    let mut text = format!("## `{path}`\n\n");
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        let _ = writeln!(text, "{about}\n");
    }
    let options: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version"))
        .filter(|arg| path == "backstop" || !arg.is_global_set())
        .collect();
    if !options.is_empty() {
        text.push_str("| option | meaning |\n| --- | --- |\n");
        for arg in options {
            let _ = writeln!(text, "| `{}` | {} |", written(arg), meaning(arg));
        }
        text.push('\n');
    }
    if let Some(after) = command.get_after_help() {
        let _ = writeln!(text, "{after}\n");
    }
    for sub in command.get_subcommands() {
        text.push_str(&section(sub, &format!("{path} {}", sub.get_name())));
    }
    text
}

fn written(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
    let takes_value = arg.get_action().takes_values();
    let mut names = Vec::new();
    names.extend(arg.get_short().map(|short| format!("-{short}")));
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    let mut text = names.join(", ");
    if takes_value {
        let value = value.unwrap_or_else(|| arg.get_id().to_string().to_uppercase());
        if !text.is_empty() {
            text.push(' ');
        }
        let _ = write!(text, "<{value}>");
    }
    text
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|_| arg.get_action().takes_values())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !choices.is_empty() {
        let _ = write!(text, "; one of {}", choices.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = write!(text, " [default: {}]", defaults.join(", "));
    }
    text.replace('|', "\\|")
}
