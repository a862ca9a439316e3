//! `backstop test`: policy cases, judged without running anything.
//!
//! A case says what is asked (`call`), what has to come of it (`expect`) and why (`because`). The law: *a case that passes says
//! something about the policy.* So a case that could not fail is refused, no case passes because a hook failed, and no cases at
//! all are an error. Everything is read and every configuration is built before the first case is judged.
//!
//! Each case has a session of its own, so that no case depends on those before it.
//!
//! Limits: [`MAX_FILES`] files, [`MAX_CASES`] cases; files have the limits of every YAML that Backstop reads. Hooks that are
//! programs, servers or plugins are asked for real, as by `backstop check`.

mod call;
mod case;
mod expect;
mod fields;
mod files;
mod judge;
mod report;
mod schema;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backstop::Backstop;
use backstop::config::{ConfigError, Problem};

pub(crate) use self::report::Format;
pub use self::schema::schema;

use self::case::CaseFile;
use self::judge::Judged;
use self::report::Tested;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::{Surroundings, builder};

/// The most files of one run.
pub(crate) const MAX_FILES: usize = 10_000;
/// The most cases of one run.
pub(crate) const MAX_CASES: usize = 100_000;

/// What is to be tested.
#[derive(Debug)]
pub(crate) enum Settings {
    /// The cases of these files.
    Files {
        /// Files, folders and patterns.
        paths: Vec<String>,
        /// The form of the report.
        format: Format,
        /// The file for the report; people are told on stdout all the same.
        report: Option<PathBuf>,
    },
    /// Nothing: the JSON Schema of a file of cases.
    Schema,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let output = &surroundings.output;
    let (paths, format, report) = match settings {
        Settings::Files { paths, format, report } => (paths, format, report),
        Settings::Schema => {
            output.json(&schema())?;
            return Ok(Exit::Success);
        }
    };
    let files = read(&paths)?;
    let mut policies = Policies::build(&files, surroundings).await?;
    let mut tested = Vec::new();
    for file in &files {
        for config in configurations(file, surroundings) {
            let Some(policy) = policies.0.get(&config) else { continue };
            for case in &file.cases {
                let context = case.context(file, surroundings.call_context(policy.config())?, tested.len());
                let found = judge::judge(policy, &case.call, &context).await;
                let judged = Judged::of(&case.expect, found);
                tested.push(Tested { case, config: config.clone(), judged });
            }
        }
    }
    policies.shut_down().await;
    print(&tested, files.len(), format, report.as_deref(), output)?;
    Ok(report::exit(&tested))
}

/// Reads every file, and says everything that is wrong with all of them.
fn read(paths: &[String]) -> Result<Vec<CaseFile>, Error> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut files = Vec::new();
    let mut cases = 0_usize;
    for path in files::find(paths)? {
        match CaseFile::read(&path) {
            Ok(file) => {
                cases += file.cases.len();
                files.push(file);
            }
            Err(found) => problems.extend(found),
        }
        if cases > MAX_CASES {
            return Err(Error::Usage(format!(
                "there are more than {MAX_CASES} cases\nhint: test fewer files at once"
            )));
        }
    }
    ConfigError::check(problems)?;
    Ok(files)
}

/// The configurations by which a file's cases are judged; `None` for the one in force here. What the command line names takes
/// the place of what the file names.
fn configurations(file: &CaseFile, surroundings: &Surroundings) -> Vec<Option<PathBuf>> {
    if surroundings.explicit_config().is_some() || file.configs.is_empty() {
        return vec![None];
    }
    file.configs.iter().cloned().map(Some).collect()
}

/// The hooks of each configuration.
struct Policies(BTreeMap<Option<PathBuf>, Backstop>);

impl Policies {
    async fn build(files: &[CaseFile], surroundings: &Surroundings) -> Result<Self, Error> {
        let mut policies = BTreeMap::new();
        for config in files.iter().flat_map(|file| configurations(file, surroundings)) {
            if policies.contains_key(&config) {
                continue;
            }
            let policy = match &config {
                None => surroundings.judge().await?,
                // INVARIANT (same result everywhere): a configuration that the cases name holds alone, without the files that
                // lie around whoever runs them.
                Some(path) => {
                    let named = surroundings.with_config(path.clone());
                    let loaded = named.load_operators()?.loaded;
                    let builder = builder(loaded, &named).hosts(backstop::all_hosts()).without_audit();
                    builder.build().await?
                }
            };
            policies.insert(config, policy);
        }
        Ok(Self(policies))
    }

    async fn shut_down(&mut self) {
        for policy in std::mem::take(&mut self.0).into_values() {
            policy.shut_down().await;
        }
    }
}

fn print(
    tested: &[Tested<'_>],
    files: usize,
    format: Format,
    report: Option<&Path>,
    output: &Output,
) -> Result<(), Error> {
    let Some(path) = report else {
        let written = report::write(tested, files, format, output.paint());
        return Ok(output.text(&written)?);
    };
    let paint = crate::output::Paint::new(false);
    let written = report::write(tested, files, format, paint);
    std::fs::write(path, written).map_err(|source| Error::File {
        path: path.to_path_buf(),
        what: "written",
        source,
    })?;
    Ok(output.text(&report::write(tested, files, Format::Text, output.paint()))?)
}
