//! One step after another, each with its name before it and its time after it.

use std::process::Command;
use std::time::Instant;

use crate::error::Error;

/// Something that can fail, with a name for people.
pub(crate) struct Step {
    name: &'static str,
    run: Box<dyn FnOnce() -> Result<(), Error>>,
}

impl Step {
    pub(crate) fn new(name: &'static str, run: impl FnOnce() -> Result<(), Error> + 'static) -> Self {
        Self { name, run: Box::new(run) }
    }

    pub(crate) fn command(name: &'static str, command: Command) -> Self {
        Self::new(name, move || execute(command))
    }
}

/// Runs the steps in order and stops at the first that fails.
pub(crate) fn run_all(steps: Vec<Step>) -> Result<(), Error> {
    let all = steps.len();
    let begin = Instant::now();
    for (index, step) in steps.into_iter().enumerate() {
        let at = format!("[{}/{all}] {}", index + 1, step.name);
        println!("\n=== {at}");
        let begin = Instant::now();
        (step.run)().inspect_err(|_| eprintln!("=== {at}: failed"))?;
        println!("=== {at}: ok in {:.1} s", begin.elapsed().as_secs_f64());
    }
    println!("\nall {all} steps passed in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a command with the terminal as its own.
pub(crate) fn execute(mut command: Command) -> Result<(), Error> {
    let shown = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Failed { command: shown, status }),
        Err(source) => Err(Error::Start { command: shown, source }),
    }
}
