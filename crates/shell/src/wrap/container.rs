//! Commands in containers: they reach those folders of the machine that the container was given.

use std::rc::Rc;

use super::Call;
use crate::container::Mounts;
use crate::data::Data;
use crate::options::Options;
use crate::walk::{Shell, slices};

impl Shell<'_> {
    pub(super) fn container(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        let at = args.iter().position(|arg| matches!(arg.as_str(), "exec" | "run" | "create"))?;
        if args
            .iter()
            .take(at)
            .any(|arg| !arg.starts_with('-') && !matches!(arg.as_str(), "compose" | "container"))
        {
            return None;
        }
        let refs = slices(args.get(at + 1..)?);
        let takes = self.programs.takes_of(program, "run").until_operand();
        let options = Options::parse(&refs, takes);
        let entrypoint = options.value(None, "entrypoint").map(str::to_owned);
        let outside = self.state.cwd.clone().unwrap_or_else(|| "/unknown".to_owned());
        let mounts = Mounts::of(&options, &outside);
        // What an `exec` enters, or a file of services describes, was set up by somebody else.
        let is_new =
            at == 0 && args.first().is_some_and(|sub| sub != "exec") && !program.ends_with("-compose");
        let mounts = if is_new { mounts } else { others(mounts, args) };
        let mounts = Rc::new(mounts);
        let folder = options.value(Some('w'), "workdir").map(str::to_owned);
        let consumed = options.consumed;
        let mut rest = args.get(at + 1 + consumed + 1..)?.to_vec();
        if let Some(entrypoint) = entrypoint {
            rest.insert(0, entrypoint);
        }
        if rest.is_empty() {
            return None;
        }
        self.emit(argv);
        let output = self.pushed(program, |shell| {
            shell.mounts = Some(mounts);
            shell.in_subshell(|shell| {
                shell.state.functions.clear();
                if let Some(folder) = folder.filter(|folder| folder.starts_with('/')) {
                    shell.state.cwd = Some(folder);
                }
                shell.dispatch(&rest, stdin)
            })
        });
        Some(output)
    }

    pub(super) fn kubectl(&mut self, call: Call<'_>) -> Option<Data> {
        let Call { argv, args, program, stdin } = call;
        if !args.iter().any(|arg| matches!(arg.as_str(), "exec" | "run" | "debug")) {
            return None;
        }
        let at = args.iter().position(|arg| arg == "--")?;
        let rest = args.get(at + 1..)?.to_vec();
        let mounts = others(Mounts::default(), args.get(..at).unwrap_or_default());
        self.emit(argv);
        Some(self.pushed(program, |shell| {
            shell.mounts = Some(Rc::new(mounts));
            shell.in_subshell(|shell| {
                shell.state.functions.clear();
                shell.dispatch(&rest, stdin)
            })
        }))
    }
}

/// Returns the mounts of a container that was there before; one that is called as if it served people may hold anything.
fn others(mounts: Mounts, args: &[String]) -> Mounts {
    const SERVES: [&str; 4] = ["prod", "production", "prd", "live"];
    let serves =
        |arg: &String| arg.split(|c: char| !c.is_ascii_alphabetic()).any(|part| SERVES.contains(&part));
    if args.iter().any(serves) { mounts.of_the_machine() } else { mounts.of_others() }
}
