//! Programs that start another program once for each of many items.

use std::collections::HashMap;

use super::carrier::quote;
use super::data::{Data, Taint};
use super::limits::{self, Bounded, Over};
use super::trace::Fact;
use super::walk::{Shell, slices};
use super::word::{HOLE, STAR, has_hole, is_open};
use crate::effects::{Action, Touch};
use crate::options::Options;
use crate::programs::{Does, Programs};

impl Shell<'_> {
    pub(super) fn xargs(&mut self, argv: &[String], args: &[String], stdin: &Data) -> Data {
        let refs = slices(args);
        let takes = self.programs.takes("xargs").until_operand();
        let options = Options::parse(&refs, takes);
        let template = args.get(options.consumed..).unwrap_or_default();
        let marker = options
            .value(Some('I'), "")
            .or_else(|| options.value(Some('J'), ""))
            .map(str::to_owned)
            .or_else(|| replace_flag(&refs, options.consumed));
        let source = match options.value(Some('a'), "arg-file") {
            Some(file) => self.content_of(file),
            None => stdin.clone(),
        };
        self.emit(argv);
        let Some((first, _)) = template.split_first() else { return Data::unknown(source.taint) };
        self.note_flood(options.value(Some('P'), "max-procs"), &source);
        if self.programs.does(&super::trace::program_name(first), Does::SpeaksShell)
            && marker.is_none()
            && template.len() > 1
            && template.last().is_some_and(|a| a == "-c")
        {
            // `xargs sh -c`: every item is code.
            let process = self.emit(template);
            return self.run_code(&source, &[], Some(process), "xargs");
        }
        if hands_over_code(self.programs, template, marker.as_deref()) {
            self.trace.facts.push(Fact::RunsCode { process: None, from: source.taint | Taint::PROGRAM });
        }
        let items = items_of(&source, marker.is_some() || options.has('0', "null"));
        let known = items.as_ref().is_some_and(|items| !items.iter().any(|item| is_open(item)));
        let items = items.unwrap_or_else(|| vec![HOLE.to_string()]);
        let outer_taint = self.word_taint;
        self.word_taint |= source.taint.without(Taint::INPUT | Taint::FILE | Taint::UNREAD);
        let outer_open = self.open_ended;
        let takes_items =
            marker.as_deref().is_none_or(|marker| template.iter().any(|word| word.contains(marker)));
        self.open_ended |= !known && takes_items;
        let output = self.pushed("xargs", |shell| match marker {
            Some(marker) => shell.for_each(items, |shell, item| {
                let words: Vec<String> = template.iter().map(|word| word.replace(&marker, item)).collect();
                shell.dispatch(&words, &Data::empty())
            }),
            None => {
                let mut words = template.to_vec();
                words.extend(Bounded::of(&limits::WORDS, items).reported(&mut shell.trace));
                shell.dispatch(&words, &Data::empty())
            }
        });
        self.open_ended = outer_open;
        self.word_taint = outer_taint;
        output
    }

    /// Does `work` for each item. For one that was met before it would find what it found then, unless the state has
    /// changed since.
    fn for_each(&mut self, items: Vec<String>, mut work: impl FnMut(&mut Self, &str) -> Data) -> Data {
        let mut output = Data::empty();
        let mut since = self.state.clone();
        let mut met: HashMap<String, Data> = HashMap::new();
        for item in Bounded::of(&limits::ITEMS, items).reported(&mut self.trace) {
            if !self.state.is(&since) {
                met.clear();
                since = self.state.clone();
            }
            let printed = match met.get(&item) {
                Some(printed) => printed.clone(),
                None => {
                    let printed = work(self, &item);
                    met.insert(item, printed.clone());
                    printed
                }
            };
            output.then(&printed);
        }
        output
    }

    /// As many processes as there are items, of which there is no end.
    fn note_flood(&mut self, at_once: Option<&str>, items: &Data) {
        let unbounded =
            at_once.and_then(|most| most.parse::<usize>().ok()).is_some_and(|most| most == 0 || most > 1000);
        if unbounded && items.taint.has(Taint::ENDLESS) {
            self.trace.facts.push(Fact::ForkBomb);
        }
    }

    pub(super) fn parallel(&mut self, argv: &[String], args: &[String], stdin: &Data) -> Data {
        self.emit(argv);
        let refs = slices(args);
        let takes = self.programs.takes("parallel").until_operand();
        let options = Options::parse(&refs, takes);
        if options.long("dry-run") {
            return Data::unknown(Taint::NONE);
        }
        self.note_flood(options.value(Some('j'), "jobs"), stdin);
        let rest = args.get(options.consumed..).unwrap_or_default();
        let cut = rest
            .iter()
            .position(|arg| matches!(arg.as_str(), ":::" | ":::+" | "::::" | "::::+"))
            .unwrap_or(rest.len());
        let template = &with_usual_signs(rest.get(..cut).unwrap_or_default(), &refs, &options);
        let tail = rest.get(cut..).unwrap_or_default();
        if tail.is_empty() && (template.is_empty() || hands_over_code(self.programs, template, Some("{}"))) {
            self.trace.facts.push(Fact::RunsCode { process: None, from: stdin.taint | Taint::PROGRAM });
        }
        let sources = self.sources(tail, stdin);
        let items = sources.and_then(|sources| self.combined(&sources));
        let known = items.as_ref().is_some_and(|items| !items.iter().any(|item| has_hole(item)));
        let items = items.unwrap_or_else(|| vec![HOLE.to_string()]);
        let outer = self.open_ended;
        self.open_ended |= !known;
        let taint = stdin.taint;
        let output = self.pushed("parallel", |shell| {
            shell.for_each(items, |shell, item| {
                if template.is_empty() && has_hole(item) {
                    shell.trace.facts.push(Fact::RunsCode { process: None, from: taint });
                    return Data::empty();
                }
                let mut output = Data::empty();
                for text in texts_of(template, item) {
                    output.or(&shell.in_subshell(|shell| shell.run_text(&text, &Data::empty())));
                }
                if template.len() > 1 && template.iter().any(|word| word.contains(MEANING)) {
                    // Told to quote, it hands over the words as they are.
                    let word = |word: &String| filled(word, item).unwrap_or_else(|| word.clone());
                    let mut words: Vec<String> =
                        template.iter().map(|part| as_written(&word(part))).collect();
                    if !has_sign(template) {
                        words.extend(item.split(BETWEEN).map(str::to_owned));
                    }
                    output.or(&shell.in_subshell(|shell| shell.dispatch(&words, &Data::empty())));
                }
                output
            })
        });
        self.open_ended = outer;
        output
    }

    /// Returns the items of each source of `parallel`: words, lines of files, or its input. `None` when some are not known.
    fn sources(&mut self, tail: &[String], stdin: &Data) -> Option<Vec<Vec<String>>> {
        if tail.is_empty() {
            return Some(vec![items_of(stdin, true)?]);
        }
        let mut sources = Vec::new();
        for source in tail {
            match source.as_str() {
                ":::" | ":::+" | "::::" | "::::+" => sources.push((source.starts_with("::::"), Vec::new())),
                item => {
                    if let Some((of_files, items)) = sources.last_mut() {
                        match *of_files {
                            true => items.extend(items_of(&self.content_of(item), true)?),
                            false => items.push(item.to_owned()),
                        }
                    }
                }
            }
        }
        Some(sources.into_iter().map(|(_, items)| items).collect())
    }

    /// Returns every combination of the items, one of each source; sources that GNU parallel links are combined as well, which
    /// is all that they come to and more. `None` when there are too many.
    fn combined(&mut self, sources: &[Vec<String>]) -> Option<Vec<String>> {
        let count = sources.iter().try_fold(1usize, |count, items| count.checked_mul(items.len()));
        if sources.len() > 1 && count.is_none_or(|count| count > limits::ITEMS.most) {
            self.trace.note(Over::of(&limits::ITEMS));
            return None;
        }
        let mut all = vec![String::new()];
        for (nth, items) in sources.iter().enumerate() {
            let between = if nth == 0 { String::new() } else { BETWEEN.to_string() };
            let head = |head: &String| format!("{head}{between}");
            let heads: Vec<String> = all.iter().map(head).collect();
            let joined = heads.iter().flat_map(|head| items.iter().map(move |item| format!("{head}{item}")));
            all = joined.collect();
        }
        Some(all)
    }

    pub(super) fn find(&mut self, argv: &[String], args: &[String], stdin: &Data) -> Data {
        let process = self.emit(argv);
        let first = args.iter().position(|arg| starts_expression(arg)).unwrap_or(args.len());
        let mut starts: Vec<String> = args.get(..first).unwrap_or_default().to_vec();
        starts.retain(|arg| !matches!(arg.as_str(), "-L" | "-H" | "-P"));
        if starts.is_empty() {
            starts.push(".".into());
        }
        let mut at = first;
        while let Some(arg) = args.get(at) {
            at += 1;
            match arg.as_str() {
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    let rest = args.get(at..).unwrap_or_default();
                    let end = rest.iter().position(|arg| arg == ";" || arg == "+").unwrap_or(rest.len());
                    let template = rest.get(..end).unwrap_or_default().to_vec();
                    at += end + 1;
                    for found in self.found_by(&starts, args) {
                        let words: Vec<String> =
                            template.iter().map(|word| word.replace("{}", &found)).collect();
                        let names_found = template.iter().any(|word| word.contains("{}"));
                        let outer = std::mem::replace(&mut self.open_ended, names_found);
                        self.pushed("find", |shell| {
                            shell.in_subshell(|shell| {
                                shell.state.functions.clear();
                                shell.dispatch(&words, stdin)
                            })
                        });
                        self.open_ended = outer;
                    }
                }
                "-delete" => {
                    let named = names_in(args).iter().any(|name| !name.ends_with(STAR));
                    let targets = if named { self.found_by(&starts, args) } else { starts.clone() };
                    for target in targets {
                        let mut touch = Touch::new(Action::Delete, target);
                        touch.recursive = true;
                        touch.force = true;
                        touch.searched = true;
                        self.touch_by(Some(process), touch);
                    }
                }
                "-fprintf" => {
                    self.touch_path(args.get(at), Action::Write, process);
                    at += 2;
                }
                "-fprint" | "-fprint0" | "-fls" => {
                    self.touch_path(args.get(at), Action::Write, process);
                    at += 1;
                }
                _ if has_hole(arg) && arg.chars().all(|c| c == HOLE) => {
                    self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
                }
                _ if takes_value(arg) => at += 1,
                _ => {}
            }
        }
        for start in &starts {
            let mut touch = Touch::new(Action::List, start);
            touch.recursive = true;
            self.touch_by(Some(process), touch);
        }
        let lines: Vec<String> =
            starts
                .iter()
                .flat_map(|start| names_in(args).into_iter().map(move |name| found_below(start, &name)))
                .map(|path| {
                    if narrows(args) {
                        path.replace([STAR, '*'], HOLE.encode_utf8(&mut [0; 4]))
                    } else {
                        path
                    }
                })
                .collect();
        Data::text(lines.join("\n") + "\n").tainted(Taint::PROGRAM)
    }

    /// Returns what stands for the files that a search finds: everything below its starts, and the names it looks
    /// for where these are secret, or the start is a folder like any other.
    fn found_by(&self, starts: &[String], args: &[String]) -> Vec<String> {
        let only_starts =
            args.windows(2).any(|pair| matches!(pair, [test, depth] if test == "-maxdepth" && depth == "0"));
        if only_starts {
            return starts.to_vec();
        }
        let mut all = Vec::new();
        for start in starts {
            let whole = found_below(start, &STAR.to_string());
            let named: Vec<String> = names_in(args)
                .iter()
                .map(|name| found_below(start, name).replace('*', &STAR.to_string()))
                .collect();
            let ordinary = self.labels.is_ordinary(&self.resolve(start), self.place);
            let is_whole = |path: &String| path.ends_with(&format!("/{STAR}"));
            if !ordinary || named.iter().any(is_whole) {
                all.push(whole);
            }
            all.extend(named.into_iter().filter(|path| {
                !is_whole(path) && (ordinary || self.labels.is_secret(&self.resolve(path), self.place))
            }));
        }
        all
    }

    pub(crate) fn touch_path(&mut self, path: Option<&String>, action: Action, process: usize) {
        if let Some(path) = path {
            self.touch_by(Some(process), Touch::new(action, path));
        }
    }

    pub(super) fn fd(&mut self, argv: &[String], args: &[String], stdin: &Data) -> Option<Data> {
        let at =
            args.iter().position(|arg| matches!(arg.as_str(), "-x" | "--exec" | "-X" | "--exec-batch"))?;
        let mut words: Vec<String> = args.get(at + 1..)?.to_vec();
        let operands: Vec<&String> = args.iter().take(at).filter(|arg| !arg.starts_with('-')).collect();
        // A pattern that every name fits, and the folder behind it.
        let found = match operands.as_slice() {
            [pattern, folder, ..] if matches!(pattern.as_str(), "." | "" | ".*") => {
                found_below(folder, &STAR.to_string())
            }
            [_, folder, ..] => found_below(folder, &HOLE.to_string()),
            _ => format!("./{STAR}"),
        };
        if words.iter().any(|word| word.contains("{}")) {
            words.iter_mut().for_each(|word| *word = word.replace("{}", &found));
        } else {
            words.push(found);
        }
        self.emit(argv);
        let outer = std::mem::replace(&mut self.open_ended, true);
        let output = self.pushed("fd", |shell| shell.dispatch(&words, stdin));
        self.open_ended = outer;
        Some(output)
    }
}

/// Characters that mean something to a shell.
const MEANING: [char; 11] = [' ', '\t', '\n', '$', '`', ';', '|', '&', '<', '>', '('];

fn has_sign(template: &[String]) -> bool {
    template.iter().any(|word| filled(word, "x").is_some())
}

/// Returns the texts that a shell reads for one item of `parallel`: the words are joined, and an item in them is quoted, or
/// stands as it is.
fn texts_of(template: &[String], item: &str) -> Vec<String> {
    let joined = template.join(" ");
    let plain = item.replace(BETWEEN, " ");
    let items: Vec<String> = item.split(BETWEEN).map(quote).collect();
    let quoted = items.join(&BETWEEN.to_string());
    let texts = match (template.is_empty(), has_sign(template)) {
        (true, _) => vec![plain],
        (false, true) => [item, &quoted].map(|item| filled(&joined, item).unwrap_or(joined.clone())).to_vec(),
        (false, false) => vec![format!("{joined} {}", items.join(" "))],
    };
    let mut texts: Vec<String> = texts.iter().map(|text| as_written(text)).collect();
    texts.dedup();
    texts
}

/// What stands for the usual sign of `parallel` where that is told to take another one.
const NO_SIGN: &str = "{\u{1e}}";

/// A template of `parallel` (GNU parallel 20221122, `-I`, `-i`, `--replace`, `-U`, `--rpl` and the options that name a sign for a part
/// of an item), written with the usual signs.
fn with_usual_signs(template: &[String], given: &[&str], options: &Options<'_>) -> Vec<String> {
    const PARTS: [&str; 11] = [
        "extensionreplace",
        "er",
        "basenamereplace",
        "bnr",
        "dirnamereplace",
        "dnr",
        "basenameextensionreplace",
        "bner",
        "seqreplace",
        "slotreplace",
        "rpl",
    ];
    let whole =
        options.value(Some('I'), "").map(str::to_owned).or_else(|| replace_flag(given, options.consumed));
    let whole = whole.filter(|sign| !matches!(&**sign, "" | "{}"));
    let parts = options.values(Some('U'), "").chain(PARTS.iter().flat_map(|name| options.values(None, name)));
    // Behind the sign of `--rpl` stands what is made of an item.
    let parts: Vec<&str> = parts.filter_map(|sign| sign.split_whitespace().next()).collect();
    let usual = |word: &String| {
        let mut word = word.clone();
        for part in &parts {
            word = word.replace(part, "{.}");
        }
        match &whole {
            Some(sign) => word.replace("{}", NO_SIGN).replace(sign, "{}"),
            None => word,
        }
    };
    template.iter().map(usual).collect()
}

/// Turns what was not a replacement string into text again.
fn as_written(text: &str) -> String {
    text.replace(NO_SIGN, "{}")
}

/// What stands between the items that one run of `parallel` gets.
const BETWEEN: char = '\u{1f}';

/// A word of `parallel` (GNU parallel 20221122) with its replacement strings filled: `{}` and `{2}` by items, and those that
/// stand for a part of one, or for a number, by something that is not known. `None` for a word without any.
fn filled(word: &str, item: &str) -> Option<String> {
    let items: Vec<&str> = item.split(BETWEEN).collect();
    let mut out = String::new();
    let mut rest = word;
    let mut any = false;
    while let Some((head, tail)) = rest.split_once('{') {
        out.push_str(head);
        let inner = tail.split_once('}');
        let digits = inner.map_or(0, |(inner, _)| {
            inner.len() - inner.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-').len()
        });
        let value = inner.and_then(|(inner, _)| {
            let (nth, part) = inner.split_at_checked(digits)?;
            match part {
                "" if nth.is_empty() => Some(items.join(" ")),
                "" => Some(
                    nth.parse::<usize>()
                        .ok()
                        .and_then(|nth| items.get(nth.checked_sub(1)?))
                        .map_or_else(|| HOLE.to_string(), |item| (*item).to_owned()),
                ),
                "." | "/" | "//" | "/." | "#" | "%" => Some(HOLE.to_string()),
                perl if perl.starts_with('=') => Some(HOLE.to_string()),
                _ => None,
            }
        });
        match (value, inner) {
            (Some(value), Some((_, behind))) => {
                out.push_str(&value);
                rest = behind;
                any = true;
            }
            _ => {
                out.push('{');
                rest = tail;
            }
        }
    }
    any.then(|| out + rest)
}

/// Returns the names a search looks for, as written; everything when it looks for none.
fn names_in(args: &[String]) -> Vec<String> {
    let mut names: Vec<String> = args
        .windows(2)
        .filter_map(|pair| match pair {
            [test, name] if matches!(test.as_str(), "-name" | "-iname") => {
                Some(name.rsplit('/').next().unwrap_or(name).to_owned())
            }
            [test, path] if matches!(test.as_str(), "-path" | "-ipath" | "-wholename") => {
                Some(path.trim_matches('*').trim_matches('/').to_owned()).filter(|path| !path.is_empty())
            }
            _ => None,
        })
        .collect();
    if names.is_empty() {
        names.push(STAR.to_string());
    }
    names
}

/// Returns whether a search looks for some files and not for all.
fn narrows(args: &[String]) -> bool {
    const ALL: [&str; 10] = [
        "-print",
        "-print0",
        "-depth",
        "-follow",
        "-xdev",
        "-mount",
        "-type",
        "-maxdepth",
        "-mindepth",
        "-L",
    ];
    args.iter().any(|arg| arg.starts_with('-') && !ALL.contains(&arg.as_str()))
}

fn found_below(start: &str, name: &str) -> String {
    let start = start.trim_end_matches('/');
    // A name may stand at any depth.
    if name.chars().all(|c| c == STAR || c == '*') {
        return format!("{start}/{STAR}");
    }
    format!("{start}/{STAR}/{name}")
}

/// Returns the replacement string of `-i`, `--replace`, which may be left out.
fn replace_flag(args: &[&str], consumed: usize) -> Option<String> {
    args.iter().take(consumed).find_map(|arg| match *arg {
        "-i" | "--replace" | "--replace=" => Some("{}".to_owned()),
        _ => arg.strip_prefix("--replace=").or_else(|| arg.strip_prefix("-i")).map(str::to_owned),
    })
}

/// True for a template in which an item becomes code: `sh -c {}`, `sh -c 'eval "$1"'`, `sudo --`.
fn hands_over_code(programs: &Programs, template: &[String], marker: Option<&str>) -> bool {
    const STARTERS: [&str; 8] = ["sudo", "doas", "env", "nohup", "nice", "setsid", "command", "exec"];
    let Some((first, rest)) = template.split_first() else { return false };
    let program = super::trace::program_name(first);
    if STARTERS.contains(&program.as_str()) {
        return rest.iter().all(|arg| arg.starts_with('-'));
    }
    if !programs.does(&program, Does::SpeaksShell) {
        return false;
    }
    let Some(at) = rest.iter().position(|arg| arg.starts_with('-') && arg.ends_with('c')) else {
        return false;
    };
    rest.get(at + 1).is_none_or(|code| {
        marker.is_some_and(|marker| code == marker) || code.contains("eval") || code.contains("sh -c")
    })
}

/// Returns the items in known text: one a line, or one a word.
fn items_of(source: &Data, lines: bool) -> Option<Vec<String>> {
    let text = source.marked()?;
    Some(if lines {
        text.split(['\n', '\0']).map(str::to_owned).filter(|item| !item.is_empty()).collect()
    } else {
        text.split_whitespace().map(|item| item.trim_matches(['"', '\'']).to_owned()).collect()
    })
}

fn starts_expression(arg: &str) -> bool {
    arg.starts_with('-') && !matches!(arg, "-L" | "-H" | "-P")
        || matches!(arg, "(" | ")" | "!" | "\\(" | "\\!")
        || has_hole(arg) && arg.chars().all(|c| c == HOLE)
}

/// Tests of `find` that take a value.
fn takes_value(arg: &str) -> bool {
    const TESTS: [&str; 42] = [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-iwholename",
        "-lname",
        "-ilname",
        "-regex",
        "-iregex",
        "-type",
        "-xtype",
        "-size",
        "-mtime",
        "-mmin",
        "-atime",
        "-amin",
        "-ctime",
        "-cmin",
        "-newer",
        "-anewer",
        "-cnewer",
        "-newermt",
        "-perm",
        "-user",
        "-group",
        "-uid",
        "-gid",
        "-maxdepth",
        "-mindepth",
        "-samefile",
        "-inum",
        "-links",
        "-fstype",
        "-printf",
        "-regextype",
        "-used",
        "-D",
        "-O",
        "-context",
        "-files0-from",
        "-Bmin",
    ];
    TESTS.contains(&arg)
}
