//! Which calls matter, in the languages that people write one-liners in.

use super::names::{
    COPIERS, DECODERS, DELETERS, EVALUATORS, MODES, MOVERS, NETWORK, OWNERS, READERS, RECURSIVE, SHELLS,
    UNKNOWN_DECODERS, VECTORS, WRITERS,
};
use crate::Taint;
use crate::decode;
use crate::effects::{Action, Touch};
use crate::marks::{HOLE, STAR, has_hole};

/// Something that code does.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// A shell reads this text.
    Shell(String),
    /// A process is started with this vector.
    Vector(Vec<String>),
    /// Text is evaluated as code of the same language.
    Code { text: Option<String>, from: Taint },
    /// A shell or evaluator gets something that is not known, of this origin.
    Carrier(Taint),
    /// The entries of a directory are listed.
    Lists(String),
    /// A file is touched.
    Touch(Touch),
}

impl Call {
    /// The path of a file whose content the code takes.
    pub(crate) fn reads(&self) -> Option<&str> {
        match self {
            Self::Touch(touch) if touch.action == Action::Read => Some(&touch.path),
            _ => None,
        }
    }

    /// True when a shell is told to fetch something.
    pub(crate) fn fetches(&self) -> bool {
        let text = match self {
            Self::Shell(text) => text.as_str(),
            Self::Vector(argv) => argv.first().map_or("", String::as_str),
            _ => return false,
        };
        text.split_whitespace().any(|word| matches!(word, "curl" | "wget" | "nc" | "ncat" | "fetch"))
    }
}

/// A value in code: text that may have holes, and where it comes from.
#[derive(Debug, Clone, Default)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) taint: Taint,
    pub(super) listed: bool,
}

impl Value {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(super) fn hole() -> Self {
        Self::text(HOLE.to_string())
    }

    fn is_unknown(&self) -> bool {
        self.text.chars().all(|c| c == HOLE) && !self.text.is_empty()
    }
}

/// What a call does, and what it returns.
pub(super) fn evaluate(
    name: &str,
    receiver: Option<&Value>,
    args: &[Value],
    network: &mut bool,
) -> (Vec<Call>, Value) {
    let mut calls = Vec::new();
    let lower = name.to_ascii_lowercase();
    let last = lower.rsplit(['.', ':', '>']).next().unwrap_or(&lower);
    let owner = lower.strip_suffix(last).unwrap_or_default().trim_end_matches(['.', ':', '-', '>']);
    let first = args.first();
    let text = |at: usize| args.get(at).map(|value| value.text.clone());
    let taint = args.iter().chain(receiver).fold(Taint::NONE, |all, value| all | value.taint);
    let is_math = matches!(owner, "math" | "json" | "console" | "re" | "regexp" | "list" | "string" | "str");
    if NETWORK.contains(&last)
        && (owner.contains("http")
            || owner.contains("request")
            || owner.contains("url")
            || owner.contains("net")
            || owner.contains("axios")
            || matches!(last, "urlopen" | "fetch" | "urlretrieve" | "curl_exec" | "getstore" | "download"))
        || last == "open" && first.is_some_and(|value| value.text.starts_with("http"))
        || matches!(last, "file_get_contents" | "readlines" | "source")
            && first.is_some_and(|value| value.text.starts_with("http"))
    {
        *network = true;
        if last == "source" {
            calls.push(Call::Carrier(Taint::NET));
        }
        return (calls, Value { text: HOLE.to_string(), taint: taint | Taint::NET, listed: false });
    }
    if matches!(last, "home" | "homedir" | "gethomedir") && args.is_empty() {
        return (calls, Value::text("~"));
    }
    if matches!(
        last,
        "walk" | "walkdir" | "scandir" | "listdir" | "iterdir" | "rglob" | "readdirsync" | "find"
    ) && let Some(folder) =
        first.into_iter().chain(receiver).find(|value| value.text.starts_with(['/', '~', '.']))
    {
        calls.push(Call::Lists(folder.text.clone()));
        return (
            calls,
            Value { text: format!("{}/{STAR}", folder.text.trim_end_matches('/')), taint, listed: true },
        );
    }
    if matches!(last, "glob" | "iglob" | "children" | "each_child" | "entries")
        && let Some(pattern) =
            first.into_iter().chain(receiver).find(|value| value.text.starts_with(['/', '~']))
    {
        let folder = pattern.text.split('*').next().unwrap_or_default().trim_end_matches('/').to_owned();
        let text = format!("{folder}/{STAR}");
        calls.push(Call::Lists(folder));
        return (calls, Value { text, taint, listed: true });
    }
    if DECODERS.contains(&last)
        || last == "from" && args.iter().any(|value| value.text == "base64")
        || last == "decode" && args.iter().any(|value| value.text.starts_with("base64"))
    {
        let decoded = first.filter(|value| !value.is_unknown()).and_then(|value| decode::base64(&value.text));
        return (
            calls,
            Value {
                text: decoded.unwrap_or_else(|| HOLE.to_string()),
                taint: taint | Taint::DECODED,
                listed: false,
            },
        );
    }
    let hex = match last {
        "fromhex" | "unhexlify" | "hex2bin" | "a2b_hex" => first,
        "pack" if first.is_some_and(|value| value.text.starts_with('H')) => args.get(1),
        "from" if args.iter().any(|value| value.text == "hex") => first,
        _ => None,
    };
    if let Some(value) = hex {
        let decoded = if value.is_unknown() { None } else { decode::hex(&value.text) };
        let text = decoded.unwrap_or_else(|| HOLE.to_string());
        return (calls, Value { text, taint: taint | Taint::DECODED, listed: false });
    }
    if last == "bytes" && (first.is_none() || args.iter().all(Value::is_unknown)) {
        return (calls, Value { text: HOLE.to_string(), taint: taint | Taint::DECODED, listed: false });
    }
    if last == "getattr" && args.len() > 1 {
        let name = args.get(1).map_or("", |value| value.text.as_str());
        return (calls, Value::text(format!("\u{1}{name}")));
    }
    if last == "join"
        && let Some(separator) = receiver.filter(|value| name.starts_with('.') && !value.text.contains('/'))
    {
        let parts: Vec<&str> = args.iter().map(|value| value.text.as_str()).collect();
        return (calls, Value { text: parts.join(&separator.text), taint, listed: false });
    }
    if UNKNOWN_DECODERS.contains(&last) {
        return (calls, Value { text: HOLE.to_string(), taint: taint | Taint::DECODED, listed: false });
    }
    if matches!(
        last,
        "decode"
            | "tostring"
            | "str"
            | "string"
            | "join"
            | "joinpath"
            | "strip"
            | "encode"
            | "expanduser"
            | "path"
            | "abspath"
            | "realpath"
            | "resolve"
            | "file"
            | "read"
            | "text"
            | "bytes"
            | "normalize"
            | "posixpath"
            | "purepath"
            | "new"
            | "expand_path"
            | "absolute"
            | "b"
            | "fspath"
            | "glob"
            | "url"
            | "pathtofileurl"
            | "with_name"
    ) && !args.is_empty() | receiver.is_some()
        && !(last == "file" && owner == "bun" || last == "read" && owner == "file")
    {
        let mut parts: Vec<&str> = Vec::new();
        if let Some(receiver) = receiver.filter(|_| {
            !matches!(owner, "os.path" | "path" | "os")
                || matches!(last, "decode" | "tostring" | "strip" | "resolve" | "read" | "text")
        }) {
            parts.push(&receiver.text);
        }
        if matches!(
            last,
            "join"
                | "joinpath"
                | "path"
                | "expanduser"
                | "abspath"
                | "realpath"
                | "resolve"
                | "str"
                | "string"
                | "new"
                | "expand_path"
                | "normalize"
                | "file"
                | "purepath"
                | "posixpath"
                | "b"
                | "fspath"
                | "glob"
                | "url"
                | "absolute"
                | "pathtofileurl"
                | "read"
                | "text"
        ) {
            parts.extend(args.iter().map(|value| value.text.as_str()));
        }
        if matches!(last, "path" | "file" | "glob" | "read" | "text" | "new") {
            parts.truncate(1);
        }
        return (calls, Value { text: parts.join("/"), taint, listed: false });
    }
    let shellish = SHELLS.contains(&last)
        || last == "exec"
            && !(owner.is_empty()
                && args.len() == 1
                && first.is_some_and(|v| {
                    v.text.contains('(') || v.taint != Taint::NONE || v.text.contains("import ")
                }));
    if shellish && !is_math {
        start(args, taint, true, &mut calls);
    } else if (VECTORS.contains(&last) || last == "cmd" && owner == "system") && !args.is_empty() && !is_math
    {
        start(args, taint, false, &mut calls);
    } else if EVALUATORS.contains(&last) && !is_math || last == "exec" {
        let known = first.filter(|value| !value.is_unknown()).map(|value| value.text.clone());
        if known.is_some() || taint != Taint::NONE {
            calls.push(Call::Code { text: known, from: taint });
        }
    } else if DELETERS.contains(&last) && !is_math {
        let operand = if matches!(
            owner,
            "os" | "fs"
                | "shutil"
                | "fileutils"
                | "file"
                | "dir"
                | "io"
                | "path"
                | "pathname"
                | "deno"
                | "require(\"fs\")"
                | ""
        ) || receiver.is_none()
        {
            first
        } else {
            receiver.or(first)
        };
        let operands: Vec<&Value> = if operand.is_some_and(|value| {
            Some(value.text.as_str()) == receiver.map(|r| r.text.as_str()) && receiver.is_some()
        }) && args.is_empty()
        {
            operand.into_iter().collect()
        } else if args.is_empty() {
            receiver.into_iter().collect()
        } else {
            args.iter().collect()
        };
        for value in operands.into_iter().filter(|value| looks_like_path(&value.text)) {
            let mut touch = Touch::new(Action::Delete, value.text.clone());
            touch.recursive = RECURSIVE.contains(&last)
                || args.iter().any(|value| matches!(value.text.as_str(), "recursive" | "true"));
            touch.force = touch.recursive;
            calls.push(Call::Touch(touch));
        }
    } else if WRITERS.contains(&last)
        || last == "write" && matches!(owner, "file" | "io" | "pathname" | "bun" | "fs")
        || OWNERS.contains(&last)
        || MODES.contains(&last)
    {
        let action = if OWNERS.contains(&last) {
            Action::Own
        } else if MODES.contains(&last) {
            Action::Expose
        } else {
            Action::Write
        };
        for value in args.iter().take(3).chain(receiver).filter(|value| looks_like_path(&value.text)) {
            calls.push(Call::Touch(Touch::new(action, value.text.clone())));
        }
    } else if MOVERS.contains(&last) || COPIERS.contains(&last) {
        let moves = MOVERS.contains(&last);
        let all: Vec<&Value> =
            receiver.filter(|value| looks_like_path(&value.text)).into_iter().chain(args).collect();
        if let Some((target, sources)) = all.split_last().filter(|(_, sources)| !sources.is_empty() || moves)
        {
            for source in sources {
                calls.push(Call::Touch(Touch::new(
                    if moves { Action::Move } else { Action::Read },
                    source.text.clone(),
                )));
            }
            calls.push(Call::Touch(Touch::new(Action::Place, target.text.clone())));
        }
    } else if READERS.contains(&last) && !is_math || last == "file" {
        let mode = text(1).or_else(|| (first.is_none()).then(String::new)).unwrap_or_default();
        let target = if first.is_some_and(|value| looks_like_path(&value.text)) { first } else { receiver };
        let writes = last == "open" && is_write_mode(&mode)
            || matches!(last, "fopen" | "opensync") && is_write_mode(&mode);
        if let Some(value) = target.filter(|value| looks_like_path(&value.text)) {
            if let Some(command) = mode
                .strip_prefix('|')
                .or_else(|| value.text.strip_suffix('|'))
                .or_else(|| value.text.strip_prefix('|'))
            {
                calls.push(Call::Shell(command.to_owned()));
            }
            let path = value.text.trim_start_matches(['<', '>', ' ']).to_owned();
            let writes = writes || value.text.starts_with('>');
            calls.push(Call::Touch(Touch::new(if writes { Action::Write } else { Action::Read }, path)));
            if let Some(path) = text(2).filter(|_| matches!(mode.as_str(), "<" | ">" | ">>")) {
                calls.push(Call::Touch(Touch::new(
                    if mode == "<" { Action::Read } else { Action::Write },
                    path,
                )));
            }
        }
        return (calls, Value { text: HOLE.to_string(), taint, listed: false });
    }
    (
        calls,
        Value {
            text: HOLE.to_string(),
            taint: if last == "print" { Taint::NONE } else { taint },
            listed: false,
        },
    )
}

/// A process is started: from one text, or from a vector.
fn start(args: &[Value], taint: Taint, shell: bool, calls: &mut Vec<Call>) {
    let words: Vec<&Value> = args.iter().filter(|value| !is_setting(&value.text)).collect();
    let Some(first) = words.first() else { return };
    if first.is_unknown() {
        calls.push(Call::Carrier(taint));
        return;
    }
    if taint.has(Taint::DECODED) && words.iter().any(|word| has_hole(&word.text)) {
        calls.push(Call::Carrier(taint));
    }
    let listed = args.iter().any(|value| value.listed);
    if words.len() == 1
        || (shell && !listed)
            && words.get(1).is_none_or(|second| !second.text.starts_with('-'))
            && first.text.contains(' ')
    {
        calls.push(Call::Shell(first.text.clone()));
    } else {
        calls.push(Call::Vector(words.iter().map(|value| value.text.clone()).collect()));
    }
}

/// Option words that calls to start processes take.
fn is_setting(text: &str) -> bool {
    matches!(
        text,
        "utf8" | "utf-8" | "inherit" | "pipe" | "ignore" | "r" | "w" | "shell" | "stdio" | "encoding" | "cwd"
    )
}

fn is_write_mode(mode: &str) -> bool {
    !mode.is_empty() && mode.len() <= 4 && mode.starts_with(['w', 'a', 'x', '>'])
        || mode.contains('+') && mode.len() <= 4
}

fn looks_like_path(text: &str) -> bool {
    !text.is_empty() && text.len() < 4096 && !text.contains('\n')
}
