//! What `backstop run` does around a client.

use crate::client::{Client, NoBuild};
use crate::run::{MARK, World};
use crate::scenarios::{leave_mark, policy};

/// The hooks of a run judge each call once, and the client's files stay as they are. What is allowed runs, though the proxy held it
/// until a hook was heard of.
pub(crate) fn judged_in_a_run(client: Client) -> Result<(), NoBuild> {
    let call = [leave_mark(client)];
    let world = World::new(client, "{}");
    let outcome = world.trial(&call).by_run().go()?;
    assert!(world.ran(), "the tool did not run\n{outcome:?}");
    assert!(
        outcome.printed.contains("backstop: 1 tool call judged, 0 blocked, 0 asked about"),
        "{outcome:?}"
    );

    let world = World::new(client, &policy("deny_argument_patterns: { '*': ['echo done'] }"));
    let outcome = world.trial(&call).by_run().go()?;
    assert!(!world.ran(), "the tool ran\n{outcome:?}");
    assert!(outcome.heard.requests() > 0, "the model was never asked\n{outcome:?}");
    Ok(())
}

/// A client that lost the hooks of its run gets no tool call, and its run ends.
pub(crate) fn unheard_in_a_run(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, "{}");
    let outcome = world.trial(&[leave_mark(client)]).by_deaf_run().go()?;
    assert!(!world.ran(), "{MARK} is there\n{outcome:?}");
    assert!(outcome.heard.requests() > 0, "the model was never asked\n{outcome:?}");
    let said = "called a tool and none of its hooks was heard of, so the run was ended";
    assert!(outcome.printed.contains(said), "{outcome:?}");
    Ok(())
}
