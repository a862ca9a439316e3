//! What a shell runs before, between and beside the commands it is given: startup files, prompts, exported functions.
//!
//! The law: *text that a shell runs as code by itself is code when it is put where the shell finds it*. Whether and
//! when the shell gets there (is it interactive, does it trace, does it wait for mail) does not matter, because any later
//! command may decide that.

use super::data::Data;
use super::state::{Value, is_prompt};
use super::walk::Shell;
use super::word::{HOLE, has_hole};

/// Files that shells read when they start, by their names in the home folder or, for one shell, in `ZDOTDIR`.
const STARTUP_FILES: [&str; 14] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".zlogin",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".shrc",
];

impl Shell<'_> {
    /// Runs the files that a shell reads first: those it is told of, and those of its home that this command wrote.
    pub(super) fn run_startup_files(&mut self, named: &[&str], process: usize, program: &str) {
        let mut files: Vec<String> = named.iter().map(|file| (*file).to_owned()).collect();
        files.extend(["BASH_ENV", "ENV"].map(|name| self.environment_of(name)));
        if !self.state.disk.is_empty() {
            let folders = ["HOME", "ZDOTDIR"].map(|name| self.environment_of(name));
            let home = self.place.home().to_owned();
            for folder in folders.into_iter().chain([home]).filter(|folder| !folder.is_empty()) {
                let paths = STARTUP_FILES.map(|file| format!("{folder}/{file}"));
                files.extend(paths.into_iter().filter(|path| self.state.disk.has(&self.located(path))));
            }
        }
        for file in files.into_iter().filter(|file| !file.is_empty()) {
            // The shells that such a file starts read the same file again.
            if self.starting.contains(&file) {
                continue;
            }
            let data = self.content_of(&file);
            self.starting.push(file);
            self.run_code(&data, &[], Some(process), program);
            self.starting.pop();
        }
    }

    /// Returns the text of a script: of the working directory, or of a folder in which this command lets programs be found.
    pub(super) fn program_text(&mut self, name: &str) -> Data {
        match self.searched(name) {
            Some(path) if !self.state.disk.has(&self.located(name)) => self.content_of(&path),
            _ => self.content_of(name),
        }
    }

    /// Returns the file that this command wrote and that a shell finds by its name: in a folder of `PATH` as it was set here,
    /// or in one that holds programs by its own name.
    pub(super) fn searched(&self, name: &str) -> Option<String> {
        if self.state.disk.is_empty() || name.contains('/') || name.is_empty() {
            return None;
        }
        let set = self.environment_of("PATH");
        let list = match self.state.assigned("path") {
            Some(Value::List(list)) => list.as_slice(),
            _ => &[],
        };
        let folders = set.split(':').filter(|_| !set.is_empty()).chain(list.iter().map(String::as_str));
        let mut found = folders.filter(|folder| !has_hole(folder)).map(|folder| match folder {
            "" => name.to_owned(),
            folder => format!("{folder}/{name}"),
        });
        let found = found.find(|path| self.state.disk.has(&self.located(path)));
        found.or_else(|| self.state.disk.installed(name).map(str::to_owned))
    }

    /// Runs a program of this command's own that is found by its name.
    pub(super) fn run_searched(&mut self, path: &str, argv: &[String], stdin: &Data) -> Data {
        let data = self.content_of(path);
        let Some((word, args)) = argv.split_first() else { return Data::empty() };
        let (name, args) = (word.clone(), args.to_vec());
        self.in_subshell(|shell| {
            shell.state.name = path.to_owned();
            shell.inherited = stdin.clone();
            shell.run_code(&data, &args, None, &name)
        })
    }

    /// Runs the code that a shell takes from its environment: functions and commands of the prompt.
    pub(super) fn run_inherited_code(&mut self, process: usize, program: &str) {
        let inherited: Vec<String> = self
            .environment
            .iter()
            .filter_map(|(name, value)| match name.as_str() {
                "PROMPT_COMMAND" => Some(value.clone()),
                _ if name.starts_with("BASH_FUNC_") => {
                    value.trim_start().strip_prefix("()").map(|body| body.trim().to_owned())
                }
                // So old shells have functions; what stands behind one is run by some.
                _ => value.trim_start().strip_prefix("() {").map(|body| format!("{{ {body}")),
            })
            .collect();
        for text in inherited {
            self.in_subshell(|shell| shell.run_code(&Data::text(&text), &[], Some(process), program));
        }
        self.expand_prompts();
    }

    /// Expands the prompts that the current command is given: a shell runs what is substituted in them.
    pub(super) fn expand_prompts(&mut self) {
        let given: Vec<String> = self
            .environment
            .iter()
            .filter(|(name, value)| is_prompt(name) && substitutes(value))
            .map(|(_, value)| value.clone())
            .collect();
        for text in given {
            self.expand_prompt(&text);
        }
    }

    /// Does what a shell does by itself with what was assigned since.
    pub(super) fn act_on_assignments(&mut self) {
        while let Some((name, value)) = self.state.watched.first().cloned() {
            self.state.watched.remove(0);
            let texts = match &value {
                Value::List(list) => list.clone(),
                one => vec![one.scalar().to_owned()],
            };
            for text in texts.into_iter().filter(|text| !text.is_empty()) {
                if is_prompt(&name) {
                    self.state.prompted = true;
                    self.expand_prompt(&text);
                } else {
                    let code = Data::text(&text).tainted(self.state.taint(&name));
                    self.in_subshell(|shell| shell.run_code(&code, &[], None, &name));
                }
            }
        }
    }

    /// Returns the text of a prompt, once what is substituted in it has run.
    pub(super) fn prompt(&mut self, text: &str) -> String {
        if substitutes(text) {
            // `\$` is a dollar of the prompt, and what follows it is substituted all the same.
            return self.heredoc(&text.replace("\\$", "$").replace("\\`", "`"));
        }
        if text.contains(['\\', '%']) { HOLE.to_string() } else { text.to_owned() }
    }

    /// Expands the prompts that are set, with what they name as it is now.
    pub(super) fn expand_set_prompts(&mut self) {
        let set = |(name, value): (&str, &Value)| {
            (is_prompt(name) && substitutes(value.scalar())).then(|| value.clone())
        };
        let mut texts: Vec<Value> = self.state.assigned_with_prefix("").filter_map(set).collect();
        texts.sort_by(|one, other| one.scalar().cmp(other.scalar()));
        for value in texts {
            self.expand_prompt(value.scalar());
        }
    }

    fn expand_prompt(&mut self, text: &str) {
        if !substitutes(text) {
            return;
        }
        let environment = std::mem::take(&mut self.environment);
        self.in_subshell(|shell| {
            shell.via.push("prompt".to_owned());
            shell.prompt(text);
            shell.via.pop();
        });
        self.environment = environment;
    }
}

/// Returns whether a command is substituted in a text.
pub(super) fn substitutes(text: &str) -> bool {
    text.contains("$(") || text.contains('`') || text.contains("${")
}
