//! `cmd`, which reads its command in the language of the command prompt.

use super::Call;
use crate::data::Data;
use crate::walk::Shell;
use crate::windows::{behind_switch, from_cmd};

impl Shell<'_> {
    /// `cmd /c COMMAND`, or lines on its standard input.
    pub(super) fn command_prompt(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        let found = args.iter().enumerate().find_map(|(at, arg)| Some((at, behind_switch(arg)?)));
        let Some((at, first)) = found else {
            let lines = match stdin.exact() {
                Some(lines) => Data::text(from_cmd(lines, self.place)),
                None => stdin.clone(),
            };
            return Some(self.text_data(argv, &lines, program));
        };
        let rest = args.get(at + 1..).unwrap_or_default();
        let words: Vec<&str> = [first]
            .into_iter()
            .filter(|first| !first.is_empty())
            .chain(rest.iter().map(String::as_str))
            .collect();
        let text = from_cmd(&words.join(" "), self.place);
        let output = self.text(argv, &text, program);
        // What hands the words over puts quotes around those with blanks in them, so each may also be one word.
        match rest {
            [_, ..] if first.is_empty() => {
                let rest = rest.to_vec();
                let mut printed = self.pushed(program, |shell| {
                    shell.in_subshell(|shell| {
                        shell.state.functions.clear();
                        shell.dispatch(&rest, stdin)
                    })
                });
                printed.or(&output);
                Some(printed)
            }
            _ => Some(output),
        }
    }
}
