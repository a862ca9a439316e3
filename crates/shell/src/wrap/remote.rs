//! Commands that run on another machine: through `ssh`, which passes a text to a shell there, through `mosh`, which passes
//! the words, and through a cloud service.

use super::Call;
use crate::data::{Data, Taint};
use crate::options::Options;
use crate::trace::Fact;
use crate::walk::{Shell, slices};

impl Shell<'_> {
    pub(super) fn ssh(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        let refs = slices(args);
        let options = Options::parse(&refs, self.programs.takes(program).until_operand());
        let proxies: Vec<String> = options
            .values(Some('o'), "")
            .filter_map(|option| option.split_once(['=', ' ']))
            .filter(|(name, _)| {
                name.eq_ignore_ascii_case("proxycommand") || name.eq_ignore_ascii_case("localcommand")
            })
            .map(|(_, text)| text.to_owned())
            .collect();
        let consumed = options.consumed;
        let rest = args.get(consumed + 1..).unwrap_or_default().to_vec();
        let process = self.emit(argv);
        if !options.short('n') {
            self.trace.facts.push(Fact::Sends { process, what: stdin.taint | self.word_taint });
        }
        for text in proxies {
            self.trace.facts.push(Fact::RunsCode { process: Some(process), from: Taint::PROGRAM });
            self.pushed(program, |shell| shell.run_text(&text, stdin));
        }
        let typed = stdin.taint.has(Taint::INPUT) && stdin.marked().is_none();
        if rest.is_empty() {
            // The shell on the other side reads what it is sent.
            if !(typed || options.short('n') || options.short('N')) {
                self.in_subshell(|shell| {
                    shell.state.cwd = None;
                    shell.run_code(stdin, &[], Some(process), program)
                });
            }
            return Some(Data::unknown(Taint::NET));
        }
        let text = rest.join(" ");
        let output = self.pushed(program, |shell| {
            shell.in_subshell(|shell| {
                shell.state.cwd = None;
                shell.run_text(&text, stdin)
            })
        });
        Some(Data::unknown(output.taint | Taint::NET))
    }

    /// `mosh HOST [--] COMMAND`, whose words reach the other side as they are.
    pub(super) fn mosh(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, stdin, .. } = call;
        let options = Options::parse(&slices(args), self.programs.takes("mosh").until_operand());
        let rest = args.get(options.consumed + 1..).unwrap_or_default();
        let rest = rest.strip_prefix(&["--".to_owned()]).unwrap_or(rest);
        if rest.is_empty() {
            return None;
        }
        self.emit(argv);
        self.pushed("mosh", |shell| {
            shell.in_subshell(|shell| {
                shell.state.cwd = None;
                shell.state.functions.clear();
                shell.dispatch(rest, stdin)
            })
        });
        Some(Data::unknown(Taint::NET))
    }

    /// `aws ssm send-command --parameters commands=TEXT`, where the texts may be a list in JSON.
    pub(super) fn sent_commands(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        if !args.iter().any(|arg| matches!(arg.as_str(), "send-command" | "start-session")) {
            return None;
        }
        let value = args.iter().find_map(|arg| arg.split_once("commands").map(|(_, value)| value))?;
        let value = value.trim_start_matches(['"', '=', ':', ' ']);
        let list = value.rfind(']').and_then(|end| value.get(..=end)).filter(|_| value.starts_with('['));
        let texts: Option<Vec<String>> =
            list.and_then(|list| serde_json::from_str(&list.replace(char::is_control, " ")).ok());
        let text = texts.map_or_else(|| value.to_owned(), |texts| texts.join("\n"));
        self.remote(argv, &[text], program, stdin)
    }
}
