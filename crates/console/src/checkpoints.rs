//! What stands for the trail elsewhere: its newest checkpoint, the key that signs it, and who was told of it.

use backstop_store::Timestamp;
use maud::{Markup, html};

use crate::money::grouped;
use crate::shown::{ago, one_line, plain};

/// What is signed of the trail, and who keeps it.
#[derive(Debug)]
pub struct Signed {
    /// The newest checkpoint, as others keep it, or why there is none.
    pub note: Result<String, String>,
    /// The keys by which checkpoints count: the one that signs, and the one before it. None where it can't be read.
    pub keys: Vec<String>,
    /// Those who are told of it; `None` where nobody counts that.
    pub witnesses: Option<Vec<WitnessState>>,
}

/// What became of telling a witness, since this process began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessState {
    /// Its name.
    pub name: String,
    /// When it last took a checkpoint; `None` if it never did.
    pub took: Option<Timestamp>,
    /// How often it was told in vain.
    pub failures: u64,
}

pub(crate) fn section(signed: &Signed, now: Timestamp) -> Markup {
    html! {
        section aria-labelledby="checkpoints-title" {
            h2 #checkpoints-title { "Checkpoints" }
            @match &signed.note {
                Ok(note) => {
                    details {
                        summary { "The newest one, to keep elsewhere" }
                        pre.exact tabindex="0" role="region" aria-label="The newest checkpoint" { (plain(note)) }
                        p { a href="/-/console/audit/checkpoint" download="trail.checkpoint" { "Download it" } }
                    }
                }
                Err(why) => p.empty { (plain(why)) }
            }
            @if !signed.keys.is_empty() {
                dl.facts { @for (index, key) in signed.keys.iter().enumerate() {
                    div { dt { @if index == 0 { "key" } @else { "key before" } } dd { code.exact { (one_line(key, 300)) } } }
                } }
            }
            @match &signed.witnesses {
                None => p.summary { "This process counts nothing of witnesses: it runs without metrics." },
                Some(all) if all.is_empty() => p.summary { "No witness is told of checkpoints (" code { "audit.witness" } ")." },
                Some(all) => ul.reasons aria-label="Witnesses" { @for one in all { (witness(one, now)) } },
            }
        }
    }
}

fn witness(one: &WitnessState, now: Timestamp) -> Markup {
    html! {
        li {
            code.exact { (one_line(&one.name, 200)) } " "
            @match one.took {
                Some(at) => { "took a checkpoint " (ago(at, now)) },
                None => span.bad { "took none since this process began" },
            }
            @if one.failures > 0 { ", and was told in vain " span.bad { (grouped(one.failures)) } @if one.failures == 1 { " time" } @else { " times" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_that_took_nothing_is_told() {
        let now = Timestamp::from_millis(60_000);
        let witness = |took, failures| WitnessState { name: "<b>far".to_owned(), took, failures };
        let signed = |witnesses| Signed { note: Err("none yet".to_owned()), keys: Vec::new(), witnesses };
        let page = |witnesses| section(&signed(witnesses), now).into_string();
        let silent = page(Some(vec![witness(None, 2)]));
        assert!(silent.contains("took none since this process began"), "{silent}");
        assert!(silent.contains("&lt;b&gt;far") && silent.contains(" times"), "{silent}");
        let heard = page(Some(vec![witness(Some(Timestamp::from_millis(0)), 0)]));
        assert!(heard.contains("took a checkpoint") && heard.contains("1 min ago"), "{heard}");
        assert!(!heard.contains("in vain") && heard.contains("none yet"), "{heard}");
        assert!(page(Some(Vec::new())).contains("No witness is told"));
        assert!(page(None).contains("without metrics"));
    }

    #[test]
    fn the_newest_checkpoint_and_its_keys_can_be_taken_along() {
        let keys = vec!["now+1".to_owned(), "before+1".to_owned()];
        let signed = Signed { note: Ok("a\n3\nroot\n".to_owned()), keys, witnesses: None };
        let page = section(&signed, Timestamp::from_millis(0)).into_string();
        assert!(page.contains("a\n3\nroot\n") && page.contains("/-/console/audit/checkpoint"), "{page}");
        assert!(page.contains("<dt>key</dt>") && page.contains("<dt>key before</dt>"), "{page}");
    }
}
