//! Many programs, their figures, and what is shown of a failure.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::choices::Choices;
use super::compare::{Foreseen, Prediction};
use super::generator::{Dialect, program};
use super::sandbox::{Sandbox, is_there};
use super::shrink::smallest;

/// After so many programs a run says how far it is.
const OFTEN: u64 = 1000;
/// Failures after which a run ends.
const ENOUGH: u64 = 24;
/// Of a hundred programs at most these may be covered by an unknown alone: what is unknown everywhere says nothing.
const MOST_COVERED: u64 = 5;

/// What to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Programs for each shell.
    pub(crate) programs: u64,
    /// The seed of the first one.
    pub(crate) seed: u64,
}

#[derive(Debug, Default)]
struct Figures {
    programs: u64,
    late: u64,
    started: u64,
    exactly: u64,
    in_part: u64,
    covered: u64,
    failures: u64,
}

impl Figures {
    /// Tells of a failure at once: a long run may be ended before it is done.
    fn fail(&mut self, failure: &str) {
        println!("{failure}\n");
        self.failures += 1;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { programs, late, started, exactly, in_part, covered, failures } = self;
        write!(
            f,
            "{programs} programs: {started} processes were started; {exactly} were foreseen exactly, {in_part} in part, \
             {covered} are covered by an unknown; {late} programs took too long; {failures} failures"
        )
    }
}

/// Runs a plan, tells its figures, and says whether everything was foreseen.
pub(crate) fn run(plan: Plan) -> bool {
    let there: Vec<Dialect> = Dialect::ALL.into_iter().filter(|dialect| is_there(*dialect)).collect();
    if there.len() < Dialect::ALL.len() {
        eprintln!("a shell is missing\nhint: apt-get install bash dash zsh");
        return false;
    }
    let figures = Mutex::new(Figures::default());
    let next = AtomicU64::new(0);
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                if let Err(error) = work(plan, &next, &figures) {
                    locked(&figures, |figures| figures.fail(&format!("the sandbox failed: {error}")));
                }
            });
        }
    });
    let figures = figures.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("from seed {}, {figures}", plan.seed);
    let Figures { started, covered, failures, .. } = figures;
    if covered * 100 > started * MOST_COVERED {
        println!("too much is covered by an unknown alone");
        return false;
    }
    failures == 0
}

fn locked<T>(figures: &Mutex<Figures>, work: impl FnOnce(&mut Figures) -> T) -> T {
    work(&mut figures.lock().unwrap_or_else(PoisonError::into_inner))
}

fn work(plan: Plan, next: &AtomicU64, figures: &Mutex<Figures>) -> io::Result<()> {
    let sandbox = Sandbox::new()?;
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let enough = locked(figures, |figures| figures.failures >= ENOUGH);
        if at >= plan.programs * 3 || enough {
            return Ok(());
        }
        let seed = plan.seed + at / 3;
        let dialect = match at % 3 {
            0 => Dialect::Bash,
            1 => Dialect::Dash,
            _ => Dialect::Zsh,
        };
        let (text, choices) = program(Choices::seeded(seed), dialect);
        let Some(started) = sandbox.run(dialect, &text)? else {
            locked(figures, |figures| figures.late += 1);
            continue;
        };
        let prediction = Prediction::of(&text, &sandbox.home());
        let mut failed = false;
        for words in &started {
            let foreseen = prediction.foresees(words);
            failed |= foreseen == Foreseen::Not;
            locked(figures, |figures| {
                figures.started += 1;
                match foreseen {
                    Foreseen::Exactly => figures.exactly += 1,
                    Foreseen::InPart => figures.in_part += 1,
                    Foreseen::Covered => figures.covered += 1,
                    Foreseen::Not => {}
                }
            });
        }
        locked(figures, |figures| {
            figures.programs += 1;
            if figures.programs.is_multiple_of(OFTEN) {
                eprintln!("up to seed {seed}, {figures}");
            }
        });
        if failed {
            let small = smallest(choices, |list| {
                let (text, _) = program(Choices::replayed(list.to_vec()), dialect);
                first_missed(&sandbox, dialect, &text).is_some()
            });
            let (text, _) = program(Choices::replayed(small), dialect);
            let shown = told(&sandbox, dialect, &text);
            locked(figures, |figures| {
                figures.fail(&format!("seed {seed} in {dialect}, shrunk:\n{shown}"));
            });
        }
    }
}

/// The first start that was not foreseen.
fn first_missed(sandbox: &Sandbox, dialect: Dialect, text: &str) -> Option<Vec<String>> {
    let started = sandbox.run(dialect, text).ok()??;
    let prediction = Prediction::of(text, &sandbox.home());
    started.into_iter().find(|words| prediction.foresees(words) == Foreseen::Not)
}

fn told(sandbox: &Sandbox, dialect: Dialect, text: &str) -> String {
    let home = sandbox.home();
    let prediction = Prediction::of(text, &home);
    let Ok(Some(started)) = sandbox.run(dialect, text) else { return format!("{text}\n(took too long)") };
    let mut out = text.to_owned();
    for words in started {
        let foreseen = prediction.foresees(&words);
        out.push_str(&format!("  {foreseen:?}: {words:?}\n"));
    }
    out.push_str(&format!("  foreseen: {}", prediction.shown()));
    let case = serde_json::json!({"shell": dialect.name(), "program": text});
    out.push_str(&format!("\n  case: {case}"));
    out.replace(home.to_string_lossy().as_ref(), "HOME")
}

/// Shows one program, what it starts and what was foreseen.
pub(crate) fn show(seed: u64, shell: &str) -> bool {
    let (Some(dialect), Ok(sandbox)) =
        (Dialect::ALL.into_iter().find(|dialect| dialect.name() == shell), Sandbox::new())
    else {
        eprintln!("`{shell}` is none of bash, dash, zsh, or there is no room for a sandbox");
        return false;
    };
    let (text, _) = program(Choices::seeded(seed), dialect);
    println!("{}", told(&sandbox, dialect, &text));
    true
}

/// A program that started something which was once not foreseen.
#[derive(Debug, Deserialize)]
struct Case {
    shell: String,
    program: String,
}

/// Runs every program that once failed, and says whether all they start is foreseen now.
pub(crate) fn replay() -> bool {
    let Ok(sandbox) = Sandbox::new() else { return false };
    let mut passed = true;
    for line in include_str!("cases.jsonl").lines() {
        let case: Case = match serde_json::from_str(line) {
            Ok(case) => case,
            Err(error) => {
                println!("{line}: {error}");
                passed = false;
                continue;
            }
        };
        for dialect in
            Dialect::ALL.into_iter().filter(|dialect| case.shell.split(' ').any(|s| s == dialect.name()))
        {
            if let Some(words) = first_missed(&sandbox, dialect, &case.program) {
                println!("{words:?} was not foreseen:\n{}", told(&sandbox, dialect, &case.program));
                passed = false;
            }
        }
    }
    passed
}

/// Reads a program from standard input, and shows it as `show` does.
pub(crate) fn given(shell: &str) -> bool {
    let text = io::read_to_string(io::stdin()).unwrap_or_default();
    let (Some(dialect), Ok(sandbox)) =
        (Dialect::ALL.into_iter().find(|dialect| dialect.name() == shell), Sandbox::new())
    else {
        return false;
    };
    println!("{}", told(&sandbox, dialect, &text));
    true
}

/// Prints the program of a seed.
pub(crate) fn print(seed: u64, shell: &str) -> bool {
    let Some(dialect) = Dialect::ALL.into_iter().find(|dialect| dialect.name() == shell) else {
        return false;
    };
    print!("{}", program(Choices::seeded(seed), dialect).0);
    true
}
