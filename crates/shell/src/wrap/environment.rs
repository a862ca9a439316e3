//! `env`: a command after variables, also assembled from a text (`-S`).

use super::Call;
use crate::carrier::quote;
use crate::data::Data;
use crate::walk::Shell;

impl Shell<'_> {
    pub(super) fn env(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, stdin, .. } = call;
        let mut environment = self.environment.clone();
        let mut directory = None;
        let mut at = 0;
        let mut split: Option<String> = None;
        while let Some(arg) = args.get(at) {
            at += 1;
            match arg.as_str() {
                "--" => break,
                "-u" | "--unset" | "--argv0" | "-a" => at += 1,
                "-C" | "--chdir" => {
                    directory = args.get(at).cloned();
                    at += 1;
                }
                "-S" | "--split-string" => {
                    split = args.get(at).cloned();
                    at += 1;
                    break;
                }
                "-P" => at += 1,
                _ if arg.starts_with("--split-string=") => {
                    split = arg.strip_prefix("--split-string=").map(str::to_owned);
                    break;
                }
                // The last of several letters: `-iS`, `-vStext`.
                _ if is_split(arg) => {
                    let text = arg.split_once('S').map_or("", |(_, text)| text);
                    split = if text.is_empty() { args.get(at).cloned() } else { Some(text.to_owned()) };
                    at += usize::from(text.is_empty());
                    break;
                }
                _ if arg.starts_with("--chdir=") => {
                    directory = arg.strip_prefix("--chdir=").map(str::to_owned);
                }
                _ if arg.starts_with('-') => {}
                // Whatever has `=` in it is a variable here, also names that no shell would take.
                _ => match arg.split_once('=').filter(|(name, _)| !name.is_empty()) {
                    Some((name, value)) => environment.push((name.to_owned(), value.to_owned())),
                    None => {
                        at -= 1;
                        break;
                    }
                },
            }
        }
        let rest = args.get(at..).unwrap_or_default().to_vec();
        if rest.is_empty() && split.is_none() {
            return None;
        }
        self.emit(argv);
        Some(self.with_directory(directory, |shell| {
            let outer = std::mem::replace(&mut shell.environment, environment);
            let output = shell.pushed("env", |shell| match split {
                Some(text) => {
                    let text = unescaped(&text);
                    let words: Vec<String> = rest.iter().map(|word| quote(word)).collect();
                    shell.in_subshell(|shell| shell.run_text(&format!("{text} {}", words.join(" ")), stdin))
                }
                None => {
                    let functions = std::mem::take(&mut shell.state.functions);
                    let output = shell.dispatch(&rest, stdin);
                    shell.state.functions = functions;
                    output
                }
            });
            shell.environment = outer;
            output
        }))
    }
}

/// Returns whether `S` is among the letters of an option, and none before it takes a value.
fn is_split(arg: &str) -> bool {
    let letters = arg.strip_prefix('-').and_then(|letters| letters.split_once('S')).map(|(before, _)| before);
    letters.is_some_and(|letters| letters.chars().all(|c| matches!(c, 'i' | '0' | 'v')))
}

/// Returns the text of `-S` as a shell would write it: `\_` is a blank in it, and nothing behind `\c` counts (GNU coreutils
/// 9.1).
fn unescaped(text: &str) -> String {
    let text = text.split_once("\\c").map_or(text, |(text, _)| text);
    text.replace("\\_", " ")
        .replace("\\t", " ")
        .replace("\\n", " ")
        .replace("\\v", " ")
        .replace("\\f", " ")
        .replace("\\r", " ")
}
