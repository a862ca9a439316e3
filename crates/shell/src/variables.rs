//! Environment variables that make a program run, load or read other code than it was started with.
//!
//! This is the only list of them: the command guard asks about a command that sets one to something foreign, and an
//! agent that builds an environment leaves them out. What a variable does is a fact; who may set it is policy
//! and not decided here.
//!
//! A value can still be harmless: an editor called by its bare name is a program like any other, and
//! `NODE_OPTIONS=--max-old-space-size=4096` loads nothing. Each entry therefore says what its value is ([`Value`]).
//!
//! Sources: ld.so(8), bash(1) 5.2, zsh(1) 5.9, git(1) 2.46, less(1), the environment variables of Cargo 1.82, Go 1.23,
//! GNU make 4.4, Node.js 22, Python 3.13, Perl 5.40, Ruby 3.3, the JDK 21, Lua 5.4, .NET 8, Ansible 2.17, npm 10,
//! pip 24, uv 0.5, Bun 1.1, Yarn 4, rustup 1.28.

/// What a variable changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Influence {
    /// Which programs are found.
    SearchPath,
    /// What a shell reads or does.
    Shell,
    /// What the system loads into programs.
    Loader,
    /// Which program another one starts.
    Program,
    /// Which compilers and build tools run, and what they are told.
    Build,
    /// What a language runtime loads.
    Runtime,
    /// Where package managers fetch what they install or run.
    Packages,
}

/// What the value of a variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// Code, or a file or library with code: whatever it is, it runs.
    Code,
    /// A program to start, with its options.
    Program,
    /// Options; those that begin with one of these load or run something.
    Options(&'static [&'static str]),
    /// Folders in which code is looked for, between colons.
    Folders,
    /// URLs from which code is fetched.
    Sources,
    /// A setting that runs no code by itself.
    Setting,
}

type Group = (Influence, Value, &'static [&'static str]);

const GROUPS: &[Group] = &[
    (Influence::SearchPath, Value::Folders, &["PATH"]),
    (Influence::Shell, Value::Code, &["BASH_ENV", "ENV", "FPATH", "KSH_ENV", "PROMPT_COMMAND", "ZDOTDIR"]),
    (Influence::Shell, Value::Program, &["CONFIG_SHELL", "FCEDIT", "SHELL"]),
    (Influence::Shell, Value::Setting, &["BASHOPTS", "CONFIG_SITE", "HISTFILE", "IFS", "PS4", "SHELLOPTS"]),
    (Influence::Loader, Value::Code, &["LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH"]),
    (
        Influence::Loader,
        Value::Folders,
        &["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "DYLD_FALLBACK_LIBRARY_PATH"],
    ),
    (Influence::Loader, Value::Setting, &["GLIBC_TUNABLES", "HOSTALIASES", "SSLKEYLOGFILE"]),
    (
        Influence::Program,
        Value::Program,
        &[
            "BROWSER",
            "BZR_EDITOR",
            "BZR_SSH",
            "EDITOR",
            "GIT_ASKPASS",
            "GIT_EDITOR",
            "GIT_EXTERNAL_DIFF",
            "GIT_PAGER",
            "GIT_PROXY_COMMAND",
            "GIT_SEQUENCE_EDITOR",
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "HGEDITOR",
            "HGMERGE",
            "JULIA_EDITOR",
            "MANPAGER",
            "PAGER",
            "RSYNC_RSH",
            "SSH_ASKPASS",
            "SUDO_ASKPASS",
            "SUDO_EDITOR",
            "SVN_EDITOR",
            "SVN_SSH",
            "SYSTEMD_EDITOR",
            "SYSTEMD_PAGER",
            "VISUAL",
        ],
    ),
    (
        Influence::Program,
        Value::Code,
        &["EMACSLOADPATH", "EXINIT", "GVIMINIT", "LESSCLOSE", "LESSOPEN", "MYVIMRC", "VIMINIT"],
    ),
    (
        Influence::Build,
        Value::Program,
        &[
            "CARGO_BUILD_RUSTC",
            "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "CARGO_BUILD_RUSTDOC",
            "CC",
            "CMAKE_CXX_COMPILER",
            "CMAKE_C_COMPILER",
            "CPP",
            "CXX",
            "CXXCPP",
            "MAKE",
            "RUSTC",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_WRAPPER",
            "RUSTDOC",
        ],
    ),
    (Influence::Build, Value::Options(&["-C linker", "-Clinker", "linker=", "-Zcodegen"]), &["RUSTFLAGS"]),
    (Influence::Build, Value::Options(&["-toolexec", "--toolexec", "-exec"]), &["GOFLAGS"]),
    (
        Influence::Build,
        Value::Options(&["--eval", "-E", "SHELL=", "-f", "--file", "--makefile", "-I"]),
        &["MAKEFLAGS", "MFLAGS"],
    ),
    (
        Influence::Build,
        Value::Options(&["-fplugin", "-wrapper", "-B/", "-fuse-ld=/", "-specs"]),
        &["CFLAGS", "CGO_CFLAGS", "CGO_LDFLAGS", "CPPFLAGS", "CXXFLAGS", "LDFLAGS"],
    ),
    (
        Influence::Build,
        Value::Setting,
        &[
            "BUNDLE_GEMFILE",
            "CMAKE_TOOLCHAIN_FILE",
            "CPATH",
            "CPLUS_INCLUDE_PATH",
            "C_INCLUDE_PATH",
            "HELM_PLUGINS",
            "LIBRARY_PATH",
            "OBJC_INCLUDE_PATH",
            "PACKER_PLUGIN_PATH",
            "VAGRANT_VAGRANTFILE",
        ],
    ),
    (
        Influence::Runtime,
        Value::Code,
        &[
            "CORECLR_PROFILER",
            "CORECLR_PROFILER_PATH",
            "DOTNET_ADDITIONAL_DEPS",
            "DOTNET_STARTUP_HOOKS",
            "LUA_INIT",
            "LUA_INIT_5_1",
            "LUA_INIT_5_2",
            "LUA_INIT_5_3",
            "LUA_INIT_5_4",
            "NODE_REPL_EXTERNAL_MODULE",
            "PERL5DB",
            "PERL5DBCMD",
            "PYTHONSTARTUP",
            "RUBYSHELL",
            "R_ENVIRON",
            "R_ENVIRON_USER",
            "R_PROFILE",
            "R_PROFILE_USER",
        ],
    ),
    (
        Influence::Runtime,
        Value::Options(&["-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file"]),
        &["NODE_OPTIONS"],
    ),
    (Influence::Runtime, Value::Options(&["-M", "-m", "-I", "-d"]), &["PERL5OPT"]),
    (Influence::Runtime, Value::Options(&["-r", "--require", "-I"]), &["RUBYOPT"]),
    (
        Influence::Runtime,
        Value::Options(&[
            "-javaagent",
            "-agentlib",
            "-agentpath",
            "-Xbootclasspath",
            "-XX:OnError",
            "-XX:OnOutOf",
        ]),
        &[
            "ANT_OPTS",
            "CATALINA_OPTS",
            "GRADLE_OPTS",
            "JAVA_OPTS",
            "JAVA_TOOL_OPTIONS",
            "JDK_JAVA_OPTIONS",
            "MAVEN_OPTS",
            "SBT_OPTS",
            "_JAVA_OPTIONS",
        ],
    ),
    (
        Influence::Runtime,
        Value::Options(&["-eval", "-s", "-run", "-pa", "-pz"]),
        &["ELIXIR_ERL_OPTIONS", "ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS"],
    ),
    (
        Influence::Runtime,
        Value::Folders,
        &[
            "ANSIBLE_CALLBACK_PLUGINS",
            "ANSIBLE_CONNECTION_PLUGINS",
            "ANSIBLE_FILTER_PLUGINS",
            "ANSIBLE_INVENTORY_PLUGINS",
            "ANSIBLE_LIBRARY",
            "ANSIBLE_LOOKUP_PLUGINS",
            "ANSIBLE_MODULE_UTILS",
            "ANSIBLE_STRATEGY_PLUGINS",
            "BZR_PLUGIN_PATH",
            "CLASSPATH",
            "LUA_CPATH",
            "LUA_PATH",
            "NODE_PATH",
            "PERL5LIB",
            "PYTHONHOME",
            "PYTHONPATH",
            "RUBYLIB",
            "TCLLIBPATH",
        ],
    ),
    (
        Influence::Runtime,
        Value::Setting,
        &[
            "ANSIBLE_COLLECTIONS_PATH",
            "ANSIBLE_CONFIG",
            "ANSIBLE_REMOTE_TEMP",
            "ANSIBLE_ROLES_PATH",
            "GEM_HOME",
            "GEM_PATH",
            "NODE_REDIRECT_WARNINGS",
            "NODE_REPL_HISTORY",
            "NODE_V8_COVERAGE",
            "PYTHONBREAKPOINT",
            "PYTHONUSERBASE",
            "R_LIBS_USER",
        ],
    ),
    (
        Influence::Packages,
        Value::Sources,
        &[
            "BUN_CONFIG_REGISTRY",
            "GOPROXY",
            "NPM_CONFIG_REGISTRY",
            "PIP_EXTRA_INDEX_URL",
            "PIP_FIND_LINKS",
            "PIP_INDEX_URL",
            "PIP_PYPI_URL",
            "RUSTUP_DIST_ROOT",
            "RUSTUP_DIST_SERVER",
            "RUSTUP_UPDATE_ROOT",
            "UV_DEFAULT_INDEX",
            "UV_EXTRA_INDEX_URL",
            "UV_INDEX",
            "UV_INDEX_URL",
            "YARN_NPM_REGISTRY_SERVER",
            "YARN_REGISTRY",
        ],
    ),
    (Influence::Program, Value::Program, &["NPM_CONFIG_SCRIPT_SHELL", "NPM_CONFIG_EDITOR", "NPM_CONFIG_GIT"]),
    (
        Influence::Runtime,
        Value::Options(&["-r", "--require", "--import", "--loader"]),
        &["NPM_CONFIG_NODE_OPTIONS"],
    ),
];

/// Returns what a variable changes and what its value is; `None` for one that runs no other code. Names are compared
/// without regard to case, since some programs read them so.
pub fn of(name: &str) -> Option<(Influence, Value)> {
    let upper = name.to_ascii_uppercase();
    let listed = GROUPS.iter().find(|(_, _, names)| names.contains(&upper.as_str()));
    if let Some((influence, value, _)) = listed {
        return Some((*influence, *value));
    }
    if upper.starts_with("LD_") || upper.starts_with("DYLD_") {
        return Some((Influence::Loader, Value::Setting));
    }
    if upper.starts_with("BASH_FUNC_") {
        return Some((Influence::Shell, Value::Code));
    }
    // `CARGO_TARGET_<TRIPLE>_LINKER` and `_RUNNER`.
    let triple = upper
        .strip_prefix("CARGO_TARGET_")
        .and_then(|rest| rest.strip_suffix("_LINKER").or_else(|| rest.strip_suffix("_RUNNER")));
    triple.filter(|triple| !triple.is_empty()).map(|_| (Influence::Build, Value::Program))
}

/// Variables that move a folder of settings, and where that folder is below a home while they don't.
///
/// Sources: the environment variables of Claude Code 2.1, Codex 0.169, Gemini CLI 0.61, Qwen Code, Copilot CLI, Cline and Kimi Code 2.1; XDG
/// Base Directory Specification 0.8.
const FOLDERS: &[(&str, &str)] = &[
    ("CLAUDE_CONFIG_DIR", "/.claude"),
    ("CLINE_DIR", "/.cline"),
    ("CODEX_HOME", "/.codex"),
    ("COPILOT_HOME", "/.copilot"),
    ("GEMINI_CLI_HOME", ""),
    ("KIMI_CODE_HOME", "/.kimi-code"),
    ("QWEN_HOME", "/.qwen"),
    ("XDG_CONFIG_HOME", "/.config"),
    ("XDG_DATA_HOME", "/.local/share"),
];

/// Beginnings of variables that coding agents and Backstop read.
const OF_AGENTS: &[&str] = &[
    "BACKSTOP_",
    "CLAUDE",
    "CLINE_",
    "CODEX_",
    "COPILOT_",
    "CURSOR_",
    "GEMINI_",
    "GOOSE_",
    "KIMI_",
    "KIRO_",
    "OPENCODE_",
    "QWEN_",
    "XDG_",
];

/// Returns the folder below a home that a variable stands for when nobody moved it.
pub(crate) fn usual_folder(name: &str) -> Option<&'static str> {
    FOLDERS.iter().find_map(|(known, folder)| (*known == name).then_some(*folder))
}

/// Returns whether a variable says where settings are, or changes what a coding agent does.
pub(crate) fn leads_agents(name: &str) -> bool {
    name == "HOME" || OF_AGENTS.iter().any(|beginning| name.starts_with(beginning))
}

/// Returns every variable that is listed by name.
pub fn names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, _, names)| names.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_is_listed_once_and_in_capitals() {
        let mut all: Vec<&str> = names().collect();
        let listed = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), listed);
        assert!(all.iter().all(|name| name.to_ascii_uppercase() == *name));
    }

    #[test]
    fn variables_are_known_in_any_spelling_and_by_their_beginnings() {
        assert_eq!(of("ld_preload"), Some((Influence::Loader, Value::Code)));
        assert_eq!(of("LD_SHOW_AUXV"), Some((Influence::Loader, Value::Setting)));
        assert_eq!(of("npm_config_script_shell"), Some((Influence::Program, Value::Program)));
        assert_eq!(
            of("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"),
            Some((Influence::Build, Value::Program))
        );
        assert_eq!(of("CARGO_TARGET_DIR"), None);
        assert_eq!(of("NODE_ENV"), None);
    }
}
