//! The report for people.

use super::{Counts, Judged, Tested};
use crate::output::{Paint, Style, plain};

pub(super) fn write(tested: &[Tested<'_>], files: usize, paint: Paint) -> String {
    let mut text = String::new();
    for one in tested {
        let (style, word) = match one.judged {
            Judged::Passed(_) => continue,
            Judged::Failed(..) => (Style::Bad, "failed"),
            Judged::Unjudged(_) => (Style::Notice, "unjudged"),
        };
        text.push_str(&format!(
            "{} {}\n",
            paint.with(style, word),
            paint.with(Style::Name, plain(&one.title()))
        ));
        text.push_str(&format!("  --> {}\n", plain(&one.case.at.to_string())));
        line(&mut text, "expected", &one.case.expect.line());
        match one.problems() {
            [only] => line(&mut text, "but", only),
            several => several.iter().for_each(|problem| line(&mut text, "but", problem)),
        }
        line(&mut text, "because", &one.case.because);
        text.push('\n');
    }
    let Counts { passed, failed, unjudged } = Counts::of(tested);
    let noun = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let mut ends = vec![paint.with(Style::Good, format!("{passed} passed"))];
    if failed > 0 {
        ends.push(paint.with(Style::Bad, format!("{failed} failed")));
    }
    if unjudged > 0 {
        ends.push(paint.with(Style::Notice, format!("{unjudged} could not be judged")));
    }
    text.push_str(&format!(
        "{} in {}: {}\n",
        noun(tested.len(), "case"),
        noun(files, "file"),
        ends.join(", ")
    ));
    text
}

/// A labelled text whose further lines can't pass for lines of the report.
fn line(text: &mut String, label: &str, what: &str) {
    text.push_str(&format!("  {label:<9} {}\n", plain(what).replace('\n', "\n            ")));
}
