//! What `backstop run` does around a client.

use crate::client::{Client, NoBuild};
use crate::run::{MARK, World};
use crate::scenarios::{ASKS, leave_mark, mark_asked_about, policy};

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
    assert!(outcome.printed.contains("1 tool call judged, 1 blocked"), "offers are no calls\n{outcome:?}");
    Ok(())
}

/// A repository's file that switches hooks off does not switch off those of a run.
pub(crate) fn on_whatever_the_repository_says(client: Client) -> Result<(), NoBuild> {
    let (file, text) = client.switch();
    let world = World::new(client, &policy("deny_argument_patterns: { '*': ['echo done'] }"));
    std::fs::create_dir_all(world.file(file).parent().unwrap()).unwrap();
    std::fs::write(world.file(file), text).unwrap();
    let outcome = world.trial(&[leave_mark(client)]).by_run().go()?;
    assert!(!world.ran(), "the tool ran\n{outcome:?}");
    assert!(!outcome.printed.contains("none of its hooks was heard of"), "they are off\n{outcome:?}");
    Ok(())
}

/// On a terminal nothing is written into the program: what was asked is in the list of questions, and a summary at the end,
/// which names codes only where a person started the run, and after the program's end.
pub(crate) fn silent_on_a_terminal(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, ASKS);
    let outcome = world.trial(&[mark_asked_about(client)]).by_run().on_terminal().go()?;
    assert!(!world.ran(), "the tool ran\n{outcome:?}");
    let code = world.last_code();
    assert!(!outcome.heard.everything().contains(&code), "the model read the code");
    let (screen, summary) = outcome.printed.rsplit_once("backstop: ").unwrap_or_default();
    assert!(summary.starts_with("1 tool call judged, 0 blocked, 1 asked about"), "{outcome:?}");
    assert!(!screen.contains(&code), "the code is on the screen\n{outcome:?}");
    assert!(!screen.contains("backstop: before_tool_call"), "it wrote into the program\n{outcome:?}");
    Ok(())
}

/// Behind walls, without which nothing would be started, and in a network of its own: a harmless turn works, and what is denied does
/// not run. Clients that can be given no hooks for a run are judged by its proxy.
pub(crate) fn walled_in_a_run(client: Client) -> Result<(), NoBuild> {
    let call = [leave_mark(client)];
    for sandbox in ["{mode: required}", "{mode: required, hosts: []}"] {
        for (hooks, runs) in
            [(String::new(), true), (policy("deny_argument_patterns: { '*': ['echo done'] }"), false)]
        {
            let world = World::new(client, &format!("{hooks}sandbox: {sandbox}\n"));
            let outcome = world.trial(&call).by_run().go()?;
            assert_eq!(world.ran(), runs, "{sandbox}: {outcome:?}");
            assert!(outcome.heard.requests() > 0, "the model was never asked\n{outcome:?}");
        }
    }
    Ok(())
}
