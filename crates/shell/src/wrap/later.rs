//! Commands that run later: jobs of `at`, and the lines of a crontab.

use super::{Call, is_variable};
use crate::data::{Data, Taint};
use crate::options::Options;
use crate::walk::{Shell, slices};

impl Shell<'_> {
    /// `at TIME`: the job stands in a file or on the input.
    pub(super) fn queued(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        let refs = slices(args);
        let options = Options::parse(&refs, self.programs.takes(program));
        let data = match options.value(Some('f'), "") {
            Some(file) => self.content_of(file),
            None => stdin.clone(),
        };
        Some(self.text_data(argv, &data, program))
    }

    pub(super) fn crontab(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, stdin, .. } = call;
        let reads_stdin = args.iter().any(|arg| arg == "-") || args.is_empty();
        let process = self.emit(argv);
        if args.iter().any(|arg| arg == "-l") {
            // What is there already runs by itself, and is no part of what is set up now.
            return Some(Data::text("#\n").tainted(Taint::PROGRAM));
        }
        let data = if reads_stdin {
            stdin.clone()
        } else {
            let file = args.iter().find(|arg| !arg.starts_with('-'))?;
            self.content_of(&file.clone())
        };
        let text = self.text_of(&data)?.to_owned();
        for line in text.lines() {
            let line = line.trim();
            let is_setting = line.split_once('=').is_some_and(|(name, _)| is_variable(name.trim()));
            if line.is_empty() || line.starts_with('#') || is_setting {
                continue;
            }
            let fields = if line.starts_with('@') { 1 } else { 5 };
            let command =
                (0..fields).try_fold(line, |rest, _| behind_field(rest)).unwrap_or_default().to_owned();
            // Whatever stands in front of it: each kind of cron knows other schedules.
            self.in_subshell(|shell| shell.run_code(&Data::text(&command), &[], Some(process), "crontab"));
        }
        Some(Data::empty())
    }
}

/// Returns what follows the first field of a line and the blanks behind it.
fn behind_field(line: &str) -> Option<&str> {
    line.split_once(char::is_whitespace).map(|(_, rest)| rest.trim_start())
}
