//! The adversary's list: ways around Backstop that an agent could try.
//!
//! One file per class in `ways/`, one way a line. Each is judged as the client's hook would report it, by the guards as they are
//! without any configuration, against a home and a workspace that are on the disk with their links and settings. Nothing of
//! it is ever run.
//!
//! | field | meaning |
//! | --- | --- |
//! | `n` | the number of the way, for ever: SECURITY.md names what remains open by it |
//! | `client` | whose call it is; `any` is judged as Claude Code's |
//! | `where` | `call`: a tool call, judged here. `start`: how a client is started. `outside`: no call at all |
//! | `expect` | the mildest verdict that holds: `block` or `ask`; `allow` in `neighbours.jsonl`, where it is the only one |
//! | `why`, `source` | what it would gain, and whose document says that it works |
//! | `disk`, `start` | links and files of the workspace that are there before, and the environment of a client's start |
//! | `calls` | the calls in order; a way is stopped where one of them is. `@home@` and `@work@` stand for the folders |
//! | `open` | why it is not stopped (a neighbour: why it is). Such a way must still be open |
//! | `system` | why such a way is closed where Backstop is installed for the whole machine |
//! | `held` | `start` and `outside`: the test that shows that it is closed, as `file: function` |

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly, helpers of tests too")]

mod calls;
mod places;
mod ways;

use std::collections::BTreeSet;
use std::path::Path;

use backstop::Backstop;

use calls::Judged;
use places::Places;
use ways::{Way, Where};

/// The strictest verdict on any of a way's calls.
async fn judged(backstop: &Backstop, places: &Places, way: &Way) -> Judged {
    places.lay_out(&way.disk);
    let mut strictest = Judged::Allow;
    for call in &way.calls {
        strictest = strictest.max(calls::judge(backstop.engine(), places, way.client(), call).await);
    }
    strictest
}

#[tokio::test]
async fn every_way_is_stopped_or_known_to_be_open_and_every_neighbour_passes() {
    let places = Places::new(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let backstop = Backstop::builder().home(places.home()).build().await.unwrap();
    let mut wrong = Vec::new();
    for way in ways::all().iter().filter(|way| way.happens == Where::Call) {
        let verdict = judged(&backstop, &places, way).await;
        let holds = match way.expect {
            Judged::Allow => verdict == Judged::Allow,
            least => verdict >= least,
        };
        if holds == way.open.is_some() {
            let said = if holds { "is listed as open and is not" } else { "got" };
            wrong.push(format!("{} {:?} {said} {verdict:?}: {}", way.n, way.expect, way.shown()));
        }
    }
    assert!(wrong.is_empty(), "{} ways:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_way_that_is_no_call_says_what_closes_it_or_why_it_is_open() {
    for way in ways::all() {
        let one = way.held.is_some() != way.open.is_some();
        assert!(way.happens == Where::Call && way.held.is_none() || one, "{}", way.n);
    }
}

#[test]
fn what_holds_a_way_is_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for way in ways::all() {
        let Some((file, test)) = way.held.as_deref().map(|held| held.split_once(": ").unwrap()) else {
            continue;
        };
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        assert!(text.contains(&format!("fn {test}(")), "{}: {file} has no test `{test}`", way.n);
    }
}

#[test]
fn numbers_are_given_once() {
    let mut seen = BTreeSet::new();
    for way in ways::all() {
        assert!(seen.insert(way.n), "{} is there twice", way.n);
    }
}

#[test]
fn security_md_names_what_remains_open_by_number() {
    let open: BTreeSet<u32> =
        ways::all().iter().filter(|way| way.is_attack() && way.open.is_some()).map(|way| way.n).collect();
    let said = ways::said_to_be_open(include_str!("../../../../SECURITY.md"));
    let missing: Vec<_> = open.difference(&said).collect();
    let closed: Vec<_> = said.difference(&open).collect();
    assert!(missing.is_empty(), "not named in SECURITY.md: {missing:?}");
    assert!(closed.is_empty(), "named in SECURITY.md, and not open: {closed:?}");
}

#[test]
fn security_md_says_which_of_these_the_system_scope_holds() {
    let held: BTreeSet<u32> =
        ways::all().iter().filter(|way| way.system.is_some()).map(|way| way.n).collect();
    assert_eq!(ways::said_to_be_held(include_str!("../../../../SECURITY.md")), held);
}
