//! Terminal multiplexers such as `tmux`: what they are told to start, and the keys they are told to type.

use super::Call;
use crate::data::Data;
use crate::walk::Shell;

impl Shell<'_> {
    /// Programs that keep terminals: words with blanks or operators are read by a shell, keys are typed into one, and
    /// other words are a command.
    pub(super) fn terminal(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, .. } = call;
        let typed = args.iter().position(|arg| matches!(arg.as_str(), "send-keys" | "send" | "stuff"));
        let mut texts: Vec<String> = match typed {
            Some(at) => vec![typed_keys(args.get(at + 1..).unwrap_or_default())],
            None => Vec::new(),
        };
        texts.extend(
            args.iter()
                .filter(|arg| arg.contains(|c: char| c.is_whitespace() || "$`;|&<>(){}".contains(c)))
                .cloned(),
        );
        let mut output = self.loose(call);
        if !texts.is_empty() {
            let printed = self.text(argv, &texts.join("\n"), program);
            output.get_or_insert_with(Data::empty).or(&printed);
        }
        output
    }
}

/// Returns what keys type: those with a name are not spelled out.
fn typed_keys(keys: &[String]) -> String {
    let mut text = String::new();
    for key in keys {
        match key.as_str() {
            "Enter" | "C-m" | "C-j" | "KPEnter" => text.push('\n'),
            "Space" => text.push(' '),
            "Tab" => text.push('\t'),
            "-t" | "-l" | "-H" | "-R" | "-M" => {}
            key => text.push_str(
                &key.replace("^M", "\n").replace("\\n", "\n").replace("\\015", "\n").replace("\\r", "\n"),
            ),
        }
    }
    text
}
