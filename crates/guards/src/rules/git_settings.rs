//! Git settings that may make git start another program than expected.
//!
//! Settings that can't do so are listed (`words/git.yaml`), according to git-config(1). A program in the value of a
//! setting that expects one is as acceptable there as in a command. Every other setting may name what git starts, now or
//! later, reads as settings, or fetches from, and is asked about.

use backstop_shell::Place;
use backstop_shell::git_settings::{self, GitSetting};

use super::environment::is_foreign_program;
use super::words;

/// Returns whether git is given, or keeps, a setting that may make it start something else.
pub(super) fn run_code(args: &[&str], environment: &[(String, String)], folder: &str, at: &Place) -> bool {
    git_settings::settings(args, environment).iter().any(|setting| !is_harmless(setting, folder, at))
}

fn is_harmless(GitSetting { key, value }: &GitSetting, folder: &str, at: &Place) -> bool {
    let Some((section, rest)) = key.split_once('.') else { return false };
    let (middle, name) = rest.rsplit_once('.').unwrap_or(("", rest));
    let general = if middle.is_empty() { key.clone() } else { format!("{section}.*.{name}") };
    let is_program =
        words::is(words::GIT_PROGRAMS, &general) || words::is(words::GIT_PROGRAMS, key) || section == "pager";
    match (section, name) {
        _ if words::is(words::HARMLESS_GIT_SECTIONS, section) => true,
        _ if words::is(words::HARMLESS_GIT_SETTINGS, &general)
            || words::is(words::HARMLESS_GIT_SETTINGS, key) =>
        {
            true
        }
        _ if is_program => {
            let is_switch = matches!(value.as_str(), "" | "true" | "false" | ":");
            is_switch || !is_foreign_program(value, folder, at)
        }
        ("credential", "helper") => {
            let helper = value.split_whitespace().next().unwrap_or_default();
            helper.is_empty() || words::is(words::GIT_CREDENTIAL_HELPERS, helper)
        }
        // An alias that is no command of the shell is one of git's, and judged as that.
        ("alias", _) => !value.starts_with('!') && !value.starts_with(backstop_shell::marks::HOLE),
        ("url", "insteadof" | "pushinsteadof") => {
            let base = host(middle);
            middle.ends_with("://") || !base.is_empty() && base == host(value)
        }
        // New repositories begin as copies of it, with hooks; an empty one has none.
        ("init", "templatedir") => value.is_empty(),
        _ => false,
    }
}

/// Returns the host in an address of a repository: `https://user@host/path`, `git@host:path`; empty where there is none.
fn host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', ':']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(command: &str) -> bool {
        let place = Place::new("/work/project").with_home("/home/me");
        let words: Vec<&str> = command.split(' ').collect();
        run_code(&words, &[], "/work/project", &place)
    }

    #[test]
    fn what_no_list_calls_harmless_may_run_code() {
        for command in [
            "config core.fsmonitor ./x",
            "config include.path ../x",
            "config diff.x.textconv ./x",
            "config filter.x.clean ./x",
            "config merge.x.driver x",
            "config init.templateDir t",
            "clone --template=t https://a.example/b",
            "config credential.helper !x",
            "config credential.https://a.example.helper /tmp/x",
            "config url.https://b.example/.insteadOf https://a.example/",
            "config url.https://b.example/.insteadOf https",
            "config url./tmp/x/.insteadOf https://a.example/",
            "config protocol.ext.allow always",
            "config submodule.x.update !x",
            "config setting.of.tomorrow 1",
            "config core.pager ./pager",
            "-c core.sshCommand=./x fetch",
            "-c sendemail.smtpserver=/x send-email",
            "-c uploadpack.packObjectsHook=x fetch",
            "--config-env=core.pager=P log",
        ] {
            assert!(runs(command), "{command}");
        }
    }

    #[test]
    fn settings_of_every_day_are_harmless() {
        for command in [
            "config user.name x",
            "config --global core.autocrlf input",
            "config --global core.editor vim",
            "config --global core.pager delta",
            "config pager.branch false",
            "config core.fsmonitor true",
            "config --global init.defaultBranch main",
            "config --global --add safe.directory *",
            "config credential.helper cache",
            "config credential.helper osxkeychain",
            "config filter.lfs.process git-lfs",
            "config remote.origin.url https://a.example/b",
            "config branch.main.rebase true",
            "config url.git@a.example:.insteadOf https://a.example/",
            "config url.https://.insteadOf git://",
            "config alias.st status",
            "-c protocol.file.allow=always submodule update",
            "-c user.email=a@b.example commit",
            "init --template=",
            "log -c",
        ] {
            assert!(!runs(command), "{command}");
        }
    }
}
