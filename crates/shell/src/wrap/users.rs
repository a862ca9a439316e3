//! Programs that run a command as another user: `sudo` and `su`, and programs with the same arguments.

use super::{Call, is_variable};
use crate::data::Data;
use crate::effects::{Action, Touch};
use crate::options::Options;
use crate::walk::{Shell, slices};

impl Shell<'_> {
    pub(super) fn sudo(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        let refs = slices(args);
        let takes = self.programs.takes(program).until_operand();
        let options = Options::parse(&refs, takes);
        let mut rest = args.get(options.consumed..).unwrap_or_default();
        if options.has('e', "edit") {
            self.emit(argv);
            for file in rest {
                self.touch(Touch::new(Action::Write, file));
            }
            return Some(Data::empty());
        }
        if rest.is_empty() {
            return None;
        }
        let directory = options.value(Some('D'), "chdir").map(str::to_owned);
        self.emit(argv);
        let mut environment = self.environment.clone();
        while let Some((first, tail)) = rest.split_first()
            && let Some((name, value)) = first.split_once('=').filter(|(name, _)| is_variable(name))
        {
            environment.push((name.to_owned(), value.to_owned()));
            rest = tail;
        }
        let rest = rest.to_vec();
        let shell_wanted = options.short('s') || options.short('i') || options.long("login");
        self.with_directory(directory, |shell| {
            let outer = std::mem::replace(&mut shell.environment, environment);
            let output = shell.pushed(program, |shell| match rest.as_slice() {
                [text] if shell_wanted => shell.run_text(text, stdin),
                _ => shell.dispatch(&rest, stdin),
            });
            shell.environment = outer;
            output
        })
        .into()
    }

    pub(super) fn su(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        let refs = slices(args);
        let options = Options::parse(&refs, self.programs.takes(program));
        if let Some(text) = options.value(Some('c'), "command").map(str::to_owned) {
            return Some(self.text(argv, &text, program));
        }
        let skip = options.dashes_at?;
        let rest: Vec<String> = options.operands.iter().skip(skip).map(|arg| (*arg).to_owned()).collect();
        (!rest.is_empty()).then(|| self.inner(argv, &rest, program, stdin))
    }
}
