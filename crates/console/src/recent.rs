//! What a hook did in the last hour, span by span, and small plots of it.

use std::time::Duration;

use maud::{Markup, html};

/// How many spans are remembered.
const SPANS: usize = 30;
/// How long each is.
pub const SPAN: Duration = Duration::from_secs(120);
/// How high a plot is.
const HEIGHT: u64 = 20;

/// What a hook did in one span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    answers: u64,
    failed: u64,
    micros: u64,
}

impl Span {
    fn mean(self) -> u64 {
        self.micros.checked_div(self.answers).unwrap_or_default()
    }
}

/// What a hook did in the newest spans, each of which is [`SPAN`] long and has a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// The oldest first.
    spans: [Span; SPANS],
    /// The number of the last one.
    last: u64,
}

impl Recent {
    /// Counts an answer of the span with this number, which took so long. One that is over counts as of the last.
    pub fn count(&mut self, number: u64, took: Duration, has_failed: bool) {
        *self = self.as_of(number);
        let Some(span) = self.spans.last_mut() else { return };
        span.answers = span.answers.saturating_add(1);
        span.failed = span.failed.saturating_add(u64::from(has_failed));
        span.micros = span.micros.saturating_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Returns the same with this span as the last.
    fn as_of(mut self, number: u64) -> Self {
        let passed = usize::try_from(number.saturating_sub(self.last)).unwrap_or(SPANS).min(SPANS);
        self.spans.rotate_left(passed % SPANS);
        let begun = self.spans.iter_mut().rev().take(passed);
        begun.for_each(|span| *span = Span::default());
        Self { last: self.last.max(number), ..self }
    }

    /// Returns two plots as of the span with this number: its mean times, of the budget, and the share of its answers that failed. Nothing where it was
    /// not asked.
    pub(crate) fn plots(self, number: u64, budget: Duration, name: &str) -> Markup {
        let spans = self.as_of(number).spans;
        if spans.iter().all(|span| span.answers == 0) {
            return html! {};
        }
        let budget = u64::try_from(budget.as_micros()).unwrap_or(u64::MAX);
        let slowest = spans.iter().map(|span| span.mean()).max().unwrap_or_default();
        let (answers, failed) = spans.iter().fold((0_u64, 0_u64), |(answers, failed), span| {
            (answers.saturating_add(span.answers), failed.saturating_add(span.failed))
        });
        let percent = u128::from(slowest).saturating_mul(100).checked_div(budget.into()).unwrap_or_default();
        let time = format!("{name}, last hour: at most {percent} % of its budget in the mean of two minutes");
        let failures = format!("{name}, last hour: {failed} of {answers} answers failed");
        html! {
            (plot("time", &time, spans.map(|span| height(span.mean(), budget))))
            (plot("failures", &failures, spans.map(|span| height(span.failed, span.answers))))
        }
    }
}

/// How high a bar is: nothing is none, and little can still be seen.
fn height(part: u64, whole: u64) -> u64 {
    if part == 0 || whole == 0 {
        return 0;
    }
    let high = u128::from(part).saturating_mul(HEIGHT.into()) / u128::from(whole);
    u64::try_from(high).unwrap_or(HEIGHT).clamp(1, HEIGHT)
}

fn plot(kind: &str, says: &str, bars: [u64; SPANS]) -> Markup {
    let width = SPANS * 2;
    html! {
        svg.plot.(kind) viewBox=(format!("0 0 {width} {HEIGHT}")) role="img" aria-label=(says) preserveAspectRatio="none" {
            title { (says) }
            @for (at, high) in bars.into_iter().enumerate() {
                @if high > 0 { rect x=(at * 2) y=(HEIGHT - high) width="1.6" height=(high) {} }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(counted: &[(u64, u64, bool)]) -> Recent {
        let mut recent = Recent::default();
        for (number, millis, has_failed) in counted {
            recent.count(*number, Duration::from_millis(*millis), *has_failed);
        }
        recent
    }

    fn bars(recent: Recent, number: u64) -> (usize, usize) {
        let text = recent.plots(number, Duration::from_millis(100), "gate").into_string();
        let (time, failures) = text.split_once("</svg>").unwrap_or_default();
        (time.matches("<rect").count(), failures.matches("<rect").count())
    }

    #[test]
    fn each_span_has_its_bar_for_an_hour() {
        let spans = SPANS as u64;
        let counted = [(3, 50, false), (3, 70, true), (4, 10, false), (9, 1, true)];
        let of = recent(&counted);
        assert_eq!(bars(of, 9), (3, 2));
        assert_eq!(bars(of, 2 + spans), (3, 2), "the first is the oldest");
        assert_eq!(bars(of, 3 + spans), (2, 1));
        assert_eq!(bars(of, 9 + spans), (0, 0));
        assert_eq!(bars(of, u64::MAX), (0, 0));
        assert_eq!(
            bars(recent(&[(u64::MAX, 1, true), (0, 1, true)]), u64::MAX),
            (1, 1),
            "late, and not lost"
        );
        assert_eq!(bars(Recent::default(), 5), (0, 0));
    }

    #[test]
    fn a_bar_is_as_high_as_its_share_and_never_higher_than_the_plot() {
        for (part, whole, high) in
            [(0, 9, 0), (9, 0, 0), (1, u64::MAX, 1), (1, 2, 10), (2, 2, 20), (u64::MAX, 1, 20)]
        {
            assert_eq!(height(part, whole), high, "{part} of {whole}");
        }
        let text = recent(&[(1, 60, false), (1, 20, true)])
            .plots(1, Duration::from_millis(80), "gate")
            .into_string();
        assert!(
            text.contains("at most 50 % of its budget") && text.contains("1 of 2 answers failed"),
            "{text}"
        );
    }
}
