//! `backstop serve` and `backstop run`.

use std::ffi::OsString;
use std::net::SocketAddr;

use backstop::clients::Client;
use clap::ValueEnum;

use crate::commands::gateway::{run, serve};
use crate::log::{Format, Level, Log};

/// Serves an LLM proxy: programs that are pointed at it reach their models through the hooks.
///
/// Speaks the APIs of Anthropic, OpenAI and Gemini. Prints its address, which holds the token that opens it, on
/// stdout, and tells of what it stops or changes on stderr. Runs until Ctrl-C; answers that are under way then get
/// `gateway.timeouts.drainMs` to end.
#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// The address and port, instead of `gateway.listen`
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The port, instead of that of `gateway.listen`; 0 takes a free one
    #[arg(long, value_name = "N", conflicts_with = "listen")]
    port: Option<u16>,
    /// How it reports on stderr: lines for people, or one JSON object per line
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
    /// How much it reports there: failures, also warnings and decisions, or also each request
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "warn")]
    log_level: LogLevel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogLevel {
    Error,
    Warn,
    Info,
}

/// Runs a program whose model calls pass the hooks, and a coding agent with all it does.
///
/// Starts an LLM proxy for this program alone and points it there with the variables that model clients read
/// (`ANTHROPIC_BASE_URL`, `OPENAI_BASE_URL`, `OPENAI_API_BASE`, `GOOGLE_GEMINI_BASE_URL` and others). A program that is a coding agent
/// (claude, codex, qwen, opencode) is also given Backstop's hooks, for this run and without a change to its
/// files, and pointed at the proxy in a way that neither a repository nor its own settings undo. Tells of what it stops
/// or changes on stderr, passes signals on, ends with the program's exit code and leaves nothing running and no file
/// behind. A program that ends well without one request to the proxy is an error with a code of its own: nothing that it
/// asked a model was judged.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Which agent the program is, for budgets and hooks
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The coding agent that the program is, where its name does not say it
    #[arg(long, value_name = "CLIENT")]
    client: Option<Client>,
    /// Give a coding agent no hooks; its model calls pass ours all the same
    #[arg(long)]
    no_hooks: bool,
    /// Leave its model calls to it: they do not pass the proxy, and only its hooks are ours
    #[arg(long, conflicts_with = "no_hooks")]
    hooks_only: bool,
    /// Do not confine it: it can then change Backstop's own places and the settings of coding agents
    #[arg(long)]
    no_sandbox: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

impl ServeArgs {
    pub(super) fn lower(self) -> serve::Settings {
        let format = match self.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        };
        let level = match self.log_level {
            LogLevel::Error => Level::Error,
            LogLevel::Warn => Level::Warn,
            LogLevel::Info => Level::Info,
        };
        let log = Log { format, level };
        serve::Settings { listen: self.listen, port: self.port, log }
    }
}

impl RunArgs {
    pub(super) fn lower(self) -> run::Settings {
        run::Settings {
            command: self.command,
            agent: self.agent,
            client: self.client,
            hooks: !self.no_hooks,
            proxy: !self.hooks_only,
            sandbox: !self.no_sandbox,
        }
    }
}
