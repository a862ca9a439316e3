//! What calls do, and what they return.

use super::language::{Does, Language};
use super::values::{self, Value};
use crate::Taint;
use crate::decode;
use crate::effects::{Action, Touch};
use crate::marks::{ANY, HOLE, STAR, has_hole};

/// Something that code does.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// A shell reads this text.
    Shell(String),
    /// A process is started with this vector, and with this text as its input.
    Vector { argv: Vec<String>, input: Option<String> },
    /// Text is evaluated as code of the same language.
    Code { text: Option<String>, from: Taint },
    /// A shell or evaluator gets something that is not known, of this origin.
    Carrier(Taint),
    /// The entries of a directory are listed.
    Lists(String),
    /// Files are found whose names this pattern fits.
    Finds(String),
    /// A file is read, or written, whose name is not written in the code.
    OpensUnknown(Action),
    /// Something is deleted that is not written in the code.
    DeletesUnknown,
    /// A file is touched.
    Touch(Touch),
    /// What follows is done in this folder.
    Enters(String),
    /// What follows is done where the code was before.
    Leaves,
    /// Something runs, or is deleted with all below it, and nothing says what that is.
    Unread,
}

impl Call {
    /// Returns the path of a file whose content the code takes.
    pub(crate) fn reads(&self) -> Option<&str> {
        match self {
            Self::Touch(touch) if touch.action == Action::Read => Some(&touch.path),
            _ => None,
        }
    }

    /// Returns the path of a file that the code writes.
    pub(crate) fn writes(&self) -> Option<&str> {
        match self {
            Self::Touch(touch) if matches!(touch.action, Action::Write | Action::Append) => Some(&touch.path),
            _ => None,
        }
    }

    /// Returns whether the code deletes something that is not written in it.
    pub(crate) fn deletes_unknown(&self) -> bool {
        match self {
            Self::DeletesUnknown => true,
            Self::Touch(touch) => touch.action == Action::Delete && has_hole(&touch.path),
            _ => false,
        }
    }

    /// Returns whether a shell is told to fetch something.
    pub(crate) fn fetches(&self) -> bool {
        let text = match self {
            Self::Shell(text) => text.as_str(),
            Self::Vector { argv, .. } => argv.first().map_or("", String::as_str),
            _ => return false,
        };
        text.split_whitespace().any(|word| matches!(word, "curl" | "wget" | "nc" | "ncat" | "fetch"))
    }
}

/// A call as it stands in the code, and what it does.
pub(super) struct Site<'a> {
    /// Its whole name, in small letters.
    pub(super) name: &'a str,
    pub(super) receiver: Option<&'a Value>,
    pub(super) args: &'a [Value],
    pub(super) home: &'a str,
    /// Whether what starts a process by a name like this is one.
    pub(super) starts: bool,
    pub(super) calls: Vec<Call>,
    pub(super) network: bool,
}

/// Returns the last part of a name, without what marks it as dangerous or as a question.
pub(super) fn last_of(name: &str) -> &str {
    let name = name.trim_end_matches(['!', '?', '(']);
    let last = name.rsplit(['.', ':', '>', '/']).next().unwrap_or(name);
    Some(last.trim_start_matches(['$', '@', '&'])).filter(|bare| !bare.is_empty()).unwrap_or(last)
}

/// A pattern of file names with marks in place of what stands for others.
fn as_glob(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => out.push(STAR),
            '?' => out.push(ANY),
            '[' => {
                out.push(ANY);
                rest.by_ref().find(|c| *c == ']');
            }
            c => out.push(c),
        }
    }
    out
}

/// Calls whose words are numbers or memory, even where another of that name starts a process.
const OF_MEMORY: &[&str] = &["math", "json", "console", "re", "regexp", "list", "string", "str"];

impl<'a> Site<'a> {
    /// Runs the call; the answer is what it returns.
    pub(super) fn run(&mut self, language: &Language) -> Value {
        let known = language.does(self.name);
        let mut result = None;
        for does in known {
            let value = self.act(*does);
            result = result.or(value);
        }
        let prints = known.contains(&Does::Prints);
        let mut value =
            result.unwrap_or_else(|| Value::tainted(HOLE, if prints { Taint::NONE } else { self.taint() }));
        let given = || self.args.iter().chain(self.receiver);
        let hides = value.taint.has(Taint::DECODED) || value.taint.has(Taint::NET);
        value.bounded |= !hides && given().any(|value| value.bounded) && !given().any(Value::is_unsure);
        value.filed |= given().any(|value| value.filed);
        value
    }

    fn owner(&self) -> &str {
        let last = last_of(self.name);
        let owner = self.name.trim_end_matches(['!', '?', '(']).strip_suffix(last).unwrap_or_default();
        owner.trim_end_matches(['.', ':', '-', '>', '$', '@', '&', '/'])
    }

    fn taint(&self) -> Taint {
        self.args.iter().chain(self.receiver).fold(Taint::NONE, |all, value| all | value.taint)
    }

    /// Returns what is handed over without being a setting.
    fn words(&self) -> Vec<&'a Value> {
        self.args.iter().filter(|value| !is_setting(value)).collect()
    }

    fn first(&self) -> Option<&'a Value> {
        self.args.iter().find(|value| !is_setting(value)).or(self.args.first())
    }

    fn act(&mut self, does: Does) -> Option<Value> {
        let of_memory = OF_MEMORY.contains(&self.owner());
        match does {
            Does::Shell if !of_memory => self.start(true),
            Does::Process if !of_memory => self.start(false),
            Does::Exec if self.evaluates_only() => self.evaluate(),
            Does::Exec => self.start(true),
            Does::Evaluates if !of_memory => self.evaluate(),
            Does::Deletes | Does::DeletesTree if !of_memory => self.delete(does == Does::DeletesTree),
            Does::Writes => self.touch(Action::Write),
            Does::Owns => self.touch(Action::Own),
            Does::Modes => self.touch(Action::Expose),
            Does::Moves | Does::Copies => self.place(does == Does::Moves),
            Does::Reads | Does::Opens if !of_memory => return self.open(does == Does::Opens),
            Does::Lists => return self.list(),
            Does::Globs => return self.glob(),
            Does::Fetches => return Some(self.fetch()),
            Does::Requests => {
                let owner = self.owner();
                let talks =
                    ["http", "request", "url", "net", "axios"].iter().any(|part| owner.contains(part));
                return talks.then(|| self.fetch());
            }
            Does::Home if self.args.is_empty() => return Some(Value::text("~")),
            Does::Here if self.args.is_empty() => return Some(Value::text(".")),
            Does::Climbs => return self.args.first().or(self.receiver).map(Value::climbed),
            Does::Temporary => return Some(Value::text(values::TEMPORARY)),
            Does::Environment => {
                let name = self.args.first().filter(|value| value.is_known())?;
                return Some(values::value_of_variable(&name.text, self.home));
            }
            Does::Enters => {
                let folder = self.args.first().filter(|value| value.is_known());
                self.calls.extend(folder.map(|value| Call::Enters(value.text.clone())));
            }
            Does::Imports => return self.args.first().map(import),
            Does::Formats => return self.format(),
            Does::Splits => return self.split(),
            Does::Base64 | Does::Hex | Does::Pack => return self.decode(does),
            Does::Decodes => return Some(Value::tainted(HOLE, self.taint() | Taint::DECODED)),
            Does::Looks => {
                return match self.args {
                    [_, name, ..] if name.is_unknown() && name.bounded => Some(Value::within()),
                    [_, name, ..] => Some(Value::named(&name.text)),
                    // `globals()`, `vars(x)`: what is taken out of it is looked up.
                    _ => Some(Value::named(self.name)),
                };
            }
            Does::Joins | Does::Same | Does::Text => return self.make(does),
            _ => {}
        }
        None
    }

    /// A process is started: from one text, or from a vector, perhaps in another folder.
    fn start(&mut self, shell: bool) {
        let folder = self.args.iter().find(|value| value.is_called("cwd") || value.is_called("chdir"));
        let folder = folder.filter(|value| value.is_known() && !is_false(&value.text));
        self.calls.extend(folder.map(|value| Call::Enters(value.text.clone())));
        self.start_here(shell);
        self.calls.extend(folder.map(|_| Call::Leaves));
    }

    fn start_here(&mut self, shell: bool) {
        let (words, taint) = (self.words(), self.taint());
        let mut words: Vec<&'a Value> =
            words.into_iter().filter(|value| !is_setting_word(&value.text)).collect();
        if let Some(program) = words.iter().position(|value| value.is_called("executable")) {
            let program = words.remove(program);
            // It takes the place of the first word, but for a shell, which reads that.
            match words.first_mut().filter(|_| !self.args.iter().any(|value| value.is_called("shell"))) {
                Some(first) if !first.text.starts_with('-') => *first = program,
                _ => words.insert(0, program),
            }
        }
        let Some(first) = words.first() else { return };
        if self.starts && first.begins_unsure() {
            self.calls.push(Call::Unread);
        }
        if first.is_unknown() {
            return self.calls.push(Call::Carrier(taint));
        }
        if taint.has(Taint::DECODED) && words.iter().any(|word| has_hole(&word.text)) {
            self.calls.push(Call::Carrier(taint));
        }
        let argv: Vec<String> = words.iter().map(|value| value.text.clone()).collect();
        let input = self.args.iter().find(|value| value.is_called("input")).map(|value| value.text.clone());
        let listed = self.args.iter().any(|value| value.listed);
        let shelled = self.args.iter().any(|value| value.is_called("shell") && !is_false(&value.text));
        if shelled {
            // A shell reads the first of a list, and the words of others as one text.
            let text = if first.listed { first.text.clone() } else { argv.join(" ") };
            self.calls.push(Call::Shell(text));
        }
        let one_text = shell
            && !listed
            && first.text.contains(' ')
            && words.get(1).is_none_or(|second| !second.text.starts_with('-'));
        if (words.len() == 1 || one_text) && input.is_none() {
            if !shelled {
                self.calls.push(Call::Shell(first.text.clone()));
            }
        } else if !shelled || first.listed || input.is_some() {
            self.calls.push(Call::Vector { argv, input });
        }
    }

    /// Returns whether `exec` gets code and not a command.
    fn evaluates_only(&self) -> bool {
        let code = |value: &Value| {
            value.text.contains('(') || value.taint != Taint::NONE || value.text.contains("import ")
        };
        self.owner().is_empty() && self.args.len() == 1 && self.args.first().is_some_and(code)
    }

    fn evaluate(&mut self) {
        // The parameters of a JavaScript `Function` stand in front of its body.
        let is_function = self.name.ends_with("function");
        let code = if is_function { self.args.last() } else { self.first() };
        let known = code.filter(|value| !value.is_unknown()).map(|value| value.text.clone());
        let from = self.taint();
        let runs =
            matches!(last_of(self.name), "eval" | "exec" | "function" | "instance_eval" | "class_eval")
                && matches!(
                    self.owner(),
                    "" | "builtins" | "__builtins__" | "global" | "globalthis" | "window" | "vm" | "kernel"
                );
        if runs && code.is_some_and(|value| value.begins_unsure() && !value.filed) {
            self.calls.push(Call::Unread);
        }
        if known.is_some() || from != Taint::NONE {
            self.calls.push(Call::Code { text: known, from });
        }
    }

    fn delete(&mut self, tree: bool) {
        let words = self.words();
        let operands: Vec<&'a Value> =
            if words.is_empty() { self.receiver.into_iter().collect() } else { words };
        let asked = self.args.iter().any(|value| {
            let meant = value.is_called("recursive") || value.is_called("force");
            // `rm("-rf", "a")` of ShellJS takes the options of the program.
            let is_option = value.text.starts_with('-') && value.text.contains(['r', 'R']);
            meant && !is_false(&value.text)
                || value.key.is_none() && (matches!(value.text.as_str(), "recursive" | "true") || is_option)
        });
        if operands.is_empty() {
            self.calls.push(Call::DeletesUnknown);
        }
        // What a list of a service or a cache holds is called `del`, too.
        let is_tree = (tree || asked) && last_of(self.name) != "del";
        if is_tree && operands.iter().any(|value| value.begins_unsure()) {
            self.calls.push(Call::Unread);
        }
        for value in operands {
            if value.function().is_some() {
                self.calls.push(Call::DeletesUnknown);
            } else if !value.is_path() {
                continue;
            }
            let mut touch = Touch::new(Action::Delete, value.text.clone());
            touch.recursive = tree || asked;
            touch.force = touch.recursive;
            self.calls.push(Call::Touch(touch));
        }
    }

    fn touch(&mut self, action: Action) {
        for value in self.args.iter().chain(self.receiver).filter(|value| value.is_path()) {
            self.calls.push(Call::Touch(Touch::new(action, value.text.clone())));
        }
    }

    /// Moves or copies all but the last to the last.
    fn place(&mut self, moves: bool) {
        let all: Vec<&Value> =
            self.receiver.filter(|value| value.is_path()).into_iter().chain(self.args).collect();
        let Some((target, sources)) = all.split_last().filter(|(_, sources)| !sources.is_empty() || moves)
        else {
            return;
        };
        let action = if moves { Action::Move } else { Action::Read };
        let sources = sources.iter().map(|source| Call::Touch(Touch::new(action, source.text.clone())));
        self.calls.extend(sources);
        self.calls.push(Call::Touch(Touch::new(Action::Place, target.text.clone())));
    }

    /// A file is opened, or a command by the way Perl and others write it.
    fn open(&mut self, by_mode: bool) -> Option<Value> {
        let first = self.first();
        if first.is_some_and(|value| value.text.starts_with("http")) {
            return Some(self.fetch());
        }
        let mode = self.args.get(1).map(|value| value.text.clone()).unwrap_or_default();
        // A method of a file has its mode in front.
        let own_mode =
            || first.filter(|_| self.receiver.is_some()).map(|value| value.text.clone()).unwrap_or_default();
        let writes =
            by_mode && (is_write_mode(&mode) || last_of(self.name) == "open" && is_write_mode(&own_mode()));
        let target =
            if first.is_some_and(Value::is_path) && !(self.receiver.is_some() && is_mode(&own_mode())) {
                first
            } else {
                self.receiver
            };
        let mut found = Vec::new();
        if let Some(value) = target.filter(|value| value.is_path()) {
            let piped = mode.strip_prefix('|').or_else(|| mode.strip_suffix('|').filter(|mode| mode != &"-"));
            let piped =
                piped.or_else(|| value.text.strip_suffix('|')).or_else(|| value.text.strip_prefix('|'));
            found.extend(piped.map(|command| Call::Shell(command.to_owned())));
            let path = value.text.trim_start_matches(['<', '>', ' ']).to_owned();
            let writes = writes || value.text.starts_with('>');
            let action = if writes { Action::Write } else { Action::Read };
            found.push(Call::Touch(Touch::new(action, path)));
        } else {
            found.push(Call::OpensUnknown(if writes { Action::Write } else { Action::Read }));
        }
        let third = self.args.get(2).map(|value| value.text.clone());
        // `open(F, ">>path")`.
        let attached = mode.trim_start_matches(['+', '<', '>']);
        if attached.len() < mode.len()
            && !attached.trim().is_empty()
            && !attached.starts_with(':')
            && third.is_none()
        {
            let action = if mode.contains('>') { Action::Write } else { Action::Read };
            found.push(Call::Touch(Touch::new(action, attached.trim())));
        }
        match (mode.as_str(), third) {
            ("<" | ">" | ">>", Some(path)) => {
                let action = if mode == "<" { Action::Read } else { Action::Write };
                found.push(Call::Touch(Touch::new(action, path)));
            }
            ("-|" | "|-", Some(_)) => {
                let argv: Vec<String> = self.args.iter().skip(2).map(|value| value.text.clone()).collect();
                found.push(match argv.as_slice() {
                    [text] => Call::Shell(text.clone()),
                    _ => Call::Vector { argv, input: None },
                });
            }
            _ => {}
        }
        self.calls.extend(found);
        let filed = target.is_some_and(Value::is_known);
        Some(Value { filed, ..Value::tainted(HOLE, self.taint()) })
    }

    fn list(&mut self) -> Option<Value> {
        let is_folder = |value: &&Value| value.text.starts_with(['/', '~', '.']);
        let folder = match self.args.iter().chain(self.receiver).find(is_folder) {
            Some(value) => value.text.clone(),
            None if self.args.is_empty() && self.receiver.is_none() => ".".to_owned(),
            None => return None,
        };
        let listed = format!("{}/{STAR}", folder.trim_end_matches('/'));
        self.calls.push(Call::Lists(folder));
        Some(Value { listed: true, bounded: true, ..Value::tainted(listed, self.taint()) })
    }

    fn glob(&mut self) -> Option<Value> {
        let is_deep = last_of(self.name).starts_with('r');
        let written = self.first().filter(|value| value.is_known()).map_or("", |value| &value.text);
        let folder =
            self.receiver.map(|value| value.text.trim_end_matches('/')).filter(|_| !written.starts_with('/'));
        let found = match folder.filter(|folder| folder.starts_with(['/', '~', '.'])) {
            Some(folder) if is_deep => format!("{folder}/{STAR}/{written}"),
            Some(folder) => format!("{folder}/{written}"),
            None => written.to_owned(),
        };
        self.calls.push(Call::Finds(as_glob(&found)));
        let is_pattern = |value: &&Value| value.text.starts_with(['/', '~']);
        let Some(pattern) = self.first().into_iter().chain(self.receiver).find(is_pattern) else {
            // What it finds lies here, or in the folder it is called on.
            let bounded = self.first().is_some_and(Value::is_known);
            return Some(Value { listed: true, bounded, ..Value::tainted(HOLE, self.taint()) });
        };
        let folder = pattern.text.split('*').next().unwrap_or_default().trim_end_matches('/').to_owned();
        let text = as_glob(&pattern.text);
        self.calls.push(Call::Lists(if folder.is_empty() { "/".to_owned() } else { folder }));
        Some(Value { listed: true, bounded: true, ..Value::tainted(text, self.taint()) })
    }

    fn fetch(&mut self) -> Value {
        self.network = true;
        if last_of(self.name) == "source" {
            self.calls.push(Call::Carrier(Taint::NET));
        }
        Value::tainted(HOLE, self.taint() | Taint::NET)
    }

    fn decode(&self, does: Does) -> Option<Value> {
        let says = |word: &str| self.args.iter().any(|value| value.text.starts_with(word));
        let last = last_of(self.name);
        let first = self.args.first();
        let decoded = |value: Option<&Value>, decode: fn(&str) -> Option<String>| {
            let text = value.filter(|value| !value.is_unknown()).and_then(|value| decode(&value.text));
            Some(Value::tainted(text.unwrap_or_else(|| HOLE.to_string()), self.taint() | Taint::DECODED))
        };
        match does {
            Does::Base64 if matches!(last, "from" | "decode") && !says("base64") => None,
            Does::Base64 => decoded(first, decode::base64),
            Does::Hex if last == "from" && !says("hex") => None,
            Does::Hex => decoded(first, decode::hex),
            _ => {
                let hex = first.filter(|value| value.text.starts_with('H')).and(self.args.get(1));
                let template =
                    first.is_some_and(|value| value.text.starts_with('H')).then_some(self.receiver).flatten();
                hex.or(template).map_or_else(
                    || Some(Value::tainted(HOLE, self.taint() | Taint::DECODED)),
                    |value| decoded(Some(value), decode::hex),
                )
            }
        }
    }

    /// Values that are joined by the first of them, or by what the name of the function says.
    fn joined(&self, last: &str) -> Option<String> {
        let parts: Vec<&str> = self.args.iter().map(|value| value.text.as_str()).collect();
        let (first, rest) = parts.split_first()?;
        match last {
            "paste" => Some(parts.join(" ")),
            "paste0" => Some(parts.concat()),
            _ if !rest.is_empty() && first.chars().all(|c| c == ' ' || c == ',') => Some(rest.join(first)),
            _ => None,
        }
    }

    /// Text or a path that is made of others.
    fn make(&self, does: Does) -> Option<Value> {
        let (owner, last) = (self.owner(), last_of(self.name));
        if last == "bytes"
            && (self.args.is_empty() && self.receiver.is_none() || self.args.iter().all(Value::is_unknown))
        {
            return Some(Value::tainted(HOLE, self.taint() | Taint::DECODED));
        }
        if does == Does::Joins
            && let Some(separator) =
                self.receiver.filter(|value| self.name.starts_with('.') && !value.text.contains('/'))
        {
            let parts: Vec<&str> = self.args.iter().map(|value| value.text.as_str()).collect();
            return Some(Value::tainted(parts.join(&separator.text), self.taint()));
        }
        if does == Does::Joins
            && let Some(joined) = self.joined(last)
        {
            return Some(Value::tainted(joined, self.taint()));
        }
        if self.args.is_empty() && self.receiver.is_none() {
            return None;
        }
        let of_path = matches!(owner, "os.path" | "path" | "os");
        let receiver = self.receiver.filter(|_| !of_path || does == Does::Same || last == "resolve");
        let mut parts: Vec<&str> = receiver.map(|value| value.text.as_str()).into_iter().collect();
        if does != Does::Same {
            parts.extend(self.args.iter().map(|value| value.text.as_str()));
        }
        if matches!(last, "file" | "glob" | "read" | "text" | "new") {
            parts.truncate(1);
        }
        let mut whole = String::new();
        for part in parts {
            // What begins at the root stands alone.
            if part.starts_with('/') && last == "path" {
                whole.clear();
            }
            if !whole.is_empty() && !whole.ends_with('/') {
                whole.push('/');
            }
            whole.push_str(part);
        }
        Some(Value::tainted(whole, self.taint()))
    }

    /// `"a {}".format(b)`, `sprintf("a %s", b)`.
    fn format(&self) -> Option<Value> {
        let called_on = self.receiver.filter(|value| value.function().is_none());
        let (template, rest) = match called_on {
            Some(template) => (template, self.args),
            None => self.args.split_first()?,
        };
        let mut filled = template.clone();
        filled.key = None;
        let opening = if called_on.is_some() { '{' } else { '%' };
        for value in rest {
            filled.fill(value, opening);
        }
        Some(filled)
    }

    /// Returns the words of a text that is known.
    fn split(&self) -> Option<Value> {
        let called_on = self.receiver.filter(|value| value.function().is_none());
        let first = self.args.first().filter(|_| self.owner() == "shlex");
        let text = called_on.or(first)?;
        let by_blanks = called_on.is_none() || self.args.iter().all(|value| value.text.trim().is_empty());
        let words = text.text.split_whitespace().map(Value::text).collect();
        (text.is_known() && by_blanks).then(|| Value::list(words))
    }
}

/// A module that is loaded by its name.
fn import(name: &Value) -> Value {
    match name.is_unknown() {
        true if name.bounded || name.filed => Value::within(),
        true => Value::named(&HOLE.to_string()),
        // A part of the project.
        false if has_hole(&name.text) || name.text.starts_with(['.', '/']) => Value::within(),
        false => Value::named(&name.text),
    }
}

fn is_false(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "false" | "0" | "none" | "nil" | "null")
}

/// Returns whether the value says how something is done, and not what with.
fn is_setting(value: &Value) -> bool {
    const KEYS: &[&str] = &[
        "shell",
        "cwd",
        "env",
        "stdio",
        "stdin",
        "stdout",
        "stderr",
        "encoding",
        "timeout",
        "check",
        "capture_output",
        "text",
        "universal_newlines",
        "recursive",
        "force",
        "ignore_errors",
        "missing_ok",
        "exist_ok",
        "input",
        "windowshide",
        "maxbuffer",
        "detached",
        "mode",
        "bufsize",
        "close_fds",
        "errors",
        "parents",
        "noop",
        "verbose",
        "maxretries",
        "retrydelay",
        "chdir",
        "out",
        "err",
        "in",
        "intern",
        "wait",
    ];
    value.key.as_deref().is_some_and(|key| KEYS.contains(&key))
}

/// Option words that calls to start processes take.
fn is_setting_word(text: &str) -> bool {
    matches!(
        text,
        "utf8" | "utf-8" | "inherit" | "pipe" | "ignore" | "r" | "w" | "shell" | "stdio" | "encoding" | "cwd"
    )
}

fn is_mode(text: &str) -> bool {
    matches!(text.trim_end_matches(['b', 't', '+']), "r" | "w" | "a" | "x")
}

fn is_write_mode(mode: &str) -> bool {
    !mode.is_empty() && mode.len() <= 4 && mode.starts_with(['w', 'a', 'x', '>'])
        || mode.contains('+') && mode.len() <= 4
}
