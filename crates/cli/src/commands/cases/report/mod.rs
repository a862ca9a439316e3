//! What is said of tested cases: for people, for programs, and in the forms that CI systems read.

mod junit;
mod tap;
mod text;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::case::Case;
use super::judge::Judged;
use crate::exit::Exit;
use crate::output::Paint;

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people: what did not pass, and how many did.
    Text,
    /// One JSON value.
    Json,
    /// JUnit XML.
    Junit,
    /// TAP, version 14.
    Tap,
}

/// A case that was tested by one configuration.
pub(super) struct Tested<'a> {
    pub(super) case: &'a Case,
    /// The configuration, where the cases name it.
    pub(super) config: Option<PathBuf>,
    pub(super) judged: Judged,
}

impl Tested<'_> {
    fn file(&self) -> &str {
        self.case.at.file()
    }

    fn config_name(&self) -> Option<String> {
        self.config.as_ref().map(|path| path.display().to_string())
    }

    /// Returns the name of the case, with its configuration where there may be several.
    fn title(&self) -> String {
        match self.config_name() {
            Some(config) => format!("{} ({config})", self.case.name),
            None => self.case.name.clone(),
        }
    }

    /// Returns why it did not pass, one line each; empty if it did.
    fn problems(&self) -> &[String] {
        match &self.judged {
            Judged::Passed(_) => &[],
            Judged::Failed(_, differences) => differences,
            Judged::Unjudged(why) => std::slice::from_ref(why),
        }
    }

    fn status(&self) -> &'static str {
        match self.judged {
            Judged::Passed(_) => "passed",
            Judged::Failed(..) => "failed",
            Judged::Unjudged(_) => "unjudged",
        }
    }

    fn seconds(&self) -> f64 {
        match &self.judged {
            Judged::Passed(found) | Judged::Failed(found, _) => found.elapsed.as_secs_f64(),
            Judged::Unjudged(_) => 0.0,
        }
    }
}

/// How many cases ended how.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    passed: usize,
    failed: usize,
    unjudged: usize,
}

impl Counts {
    fn of<'a>(tested: impl IntoIterator<Item = &'a Tested<'a>>) -> Self {
        let mut counts = Self::default();
        for one in tested {
            match one.judged {
                Judged::Passed(_) => counts.passed += 1,
                Judged::Failed(..) => counts.failed += 1,
                Judged::Unjudged(_) => counts.unjudged += 1,
            }
        }
        counts
    }
}

/// The report in that form.
pub(super) fn write(tested: &[Tested<'_>], files: usize, format: Format, paint: Paint) -> String {
    match format {
        Format::Text => text::write(tested, files, paint),
        Format::Json => json_report(tested),
        Format::Junit => junit::write(tested),
        Format::Tap => tap::write(tested),
    }
}

/// How the process ends: a case that failed outweighs one that could not be judged.
pub(super) fn exit(tested: &[Tested<'_>]) -> Exit {
    match Counts::of(tested) {
        Counts { failed: 1.., .. } => Exit::Unexpected,
        Counts { unjudged: 1.., .. } => Exit::Incomplete,
        Counts { .. } => Exit::Success,
    }
}

fn json_report(tested: &[Tested<'_>]) -> String {
    let cases: Vec<Value> = tested.iter().map(json_case).collect();
    let Counts { passed, failed, unjudged } = Counts::of(tested);
    let report = json!({ "passed": passed, "failed": failed, "unjudged": unjudged, "cases": cases });
    format!("{report:#}\n")
}

fn json_case(one: &Tested<'_>) -> Value {
    let found = match &one.judged {
        Judged::Passed(found) | Judged::Failed(found, _) => json!(found),
        Judged::Unjudged(_) => Value::Null,
    };
    json!({
        "name": one.case.name,
        "file": one.file(),
        "line": one.case.at.line(),
        "column": one.case.at.column(),
        "config": one.config_name(),
        "point": one.case.call.point(),
        "status": one.status(),
        "expected": one.case.expect,
        "found": found,
        "because": one.case.because,
        "problems": one.problems(),
    })
}
