//! Where a client's model calls go under `backstop run`, counted at its model, at the proxy, at a server to which everything else
//! leads, and at the way out of this machine.

use crate::client::{Client, NoBuild};
use crate::lure::Lure;
use crate::lures::Told;
use crate::run::{Outcome, Trial, World};
use crate::scenarios::{leave_mark, policy};

impl<'w> Trial<'w> {
    /// Starts it where something leads elsewhere. By a run, who comes there fails the test.
    fn lured(mut self, lure: impl FnOnce(&str) -> Lure + 'w) -> Self {
        self.lure = Some(Box::new(lure));
        self
    }
}

/// Whatever the files of the repository and of the user say, the client asks its model through the proxy of the run: as many
/// requests reach the model as came to the proxy, and none goes elsewhere, which is looked at for every run. A harmless call
/// runs, and what is stopped does not.
pub(crate) fn pointed_in_a_run(client: Client) -> Result<(), NoBuild> {
    let denies = policy("deny_argument_patterns: { '*': ['echo done'] }");
    let lures = client.lures("");
    let lures = (0..lures.len()).filter(|which| lures.get(*which).is_some_and(|told| !told.is_refused));
    let call = [leave_mark(client)];
    for (configuration, which, runs) in
        lures.map(|which| ("{}", which, true)).chain([(denies.as_str(), 0, false)])
    {
        let world = World::new(client, configuration);
        let lure = |there: &str| client.lures(there).remove(which).lure;
        let outcome = world.trial(&call).by_run().lured(lure).go()?;
        let what = client.lures("").remove(which).lure.what;
        assert_eq!(world.ran(), runs, "{what}: {outcome:?}");
        assert_counted(what, &outcome, runs);
        assert!(!outcome.printed.contains("not one request"), "{what}: {outcome:?}");
    }
    Ok(())
}

/// As many requests reached the model as came to the proxy. Where a call was stopped the proxy tells the model so itself, and
/// asks it once more.
#[track_caller]
fn assert_counted(what: &str, outcome: &Outcome, ran: bool) {
    let asked = outcome.heard.requests();
    assert!(asked > 0, "{what}: the model was never asked\n{outcome:?}");
    let of_client = if ran { asked } else { asked - 1 };
    let came = format!("; {of_client} request{} came to the proxy", if of_client == 1 { "" } else { "s" });
    assert!(outcome.printed.contains(&came), "{what}: {asked} requests are not all\n{outcome:?}");
}

/// A client that is told to ask in another protocol asks the proxy in that.
pub(crate) fn spoken_in_a_run(client: Client) -> Result<(), NoBuild> {
    let keys = ["ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
    for service in ["openai-responses", "anthropic", "gemini", "vertex-ai"] {
        let (world, call) = (World::new(client, "{}"), [leave_mark(client)]);
        let mut trial = world.trial(&call).by_run().argument("--auth-type").argument(service);
        for name in keys {
            trial = trial.variable(name, "none");
        }
        let outcome = trial.go()?;
        assert!(world.ran(), "{service}: {outcome:?}");
        assert_counted(service, &outcome, true);
    }
    Ok(())
}

/// Where its starter has it ask a cloud in which the proxy has a key of its own, it asks the proxy in that cloud's envelope, and
/// is judged like any other.
pub(crate) fn cloud_in_a_run(client: Client) -> Result<(), NoBuild> {
    let denies = policy("deny_argument_patterns: { '*': ['echo done'] }");
    for (switch, named, cloud) in [
        (
            "CLAUDE_CODE_USE_BEDROCK",
            ("AWS_REGION", "us-east-1"),
            "api: anthropic, cloud: bedrock, region: us-east-1, api_key: 'of-the-proxy'",
        ),
        (
            "CLAUDE_CODE_USE_VERTEX",
            ("ANTHROPIC_VERTEX_PROJECT_ID", "of-the-starter"),
            "api: anthropic, cloud: vertex, region: us-east5, project: ours, api_key: 'of-the-proxy'",
        ),
    ] {
        for (configuration, runs) in [("{}", true), (denies.as_str(), false)] {
            let (world, call) = (World::new(client, configuration), [leave_mark(client)]);
            let trial = world.trial(&call).in_cloud(cloud).variable(switch, "1").variable(named.0, named.1);
            let outcome = trial.variable("CLOUD_ML_REGION", "us-east5").go()?;
            assert_eq!(world.ran(), runs, "{switch}: {outcome:?}");
            // It asks for a list of models as well, which the proxy does not pass on, so the numbers differ.
            assert!(outcome.heard.requests() > 0, "{switch}: the model was never asked\n{outcome:?}");
            assert!(!outcome.printed.contains("not one request"), "{switch}: {outcome:?}");
        }
    }
    Ok(())
}

/// With a login at its maker the client asks that maker's service, through the proxy. The login is made up.
pub(crate) fn logged_in_in_a_run(client: Client) -> Result<(), NoBuild> {
    // Unsigned, and of nobody: `alg` is `none`, and it ends in the year 2100.
    let token = [
        "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.",
        "eyJlbWFpbCI6ImFAYi5pbnZhbGlkIiwiZXhwIjo0MTAyNDQ0ODAwLCJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2h",
        "hdGdwdF9wbGFuX3R5cGUiOiJwbHVzIiwiY2hhdGdwdF9hY2NvdW50X2lkIjoiYWNjIiwiY2hhdGdwdF91c2VyX2lkIjoidSJ9fQ.eyJzIjoxfQ",
    ]
    .concat();
    let login = serde_json::json!({
        "auth_mode": "chatgpt", "last_refresh": "2099-01-01T00:00:00Z",
        "tokens": { "id_token": token, "access_token": token, "refresh_token": "none", "account_id": "acc" },
    });
    let denies = policy("deny_argument_patterns: { '*': ['echo done'] }");
    for (configuration, runs) in [("{}", true), (denies.as_str(), false)] {
        let (world, call) = (World::new(client, configuration), [leave_mark(client)]);
        std::fs::create_dir_all(world.path("home/.codex")).unwrap();
        std::fs::write(world.path("home/.codex/auth.json"), login.to_string()).unwrap();
        let outcome = world.trial(&call).by_run().go()?;
        assert_eq!(world.ran(), runs, "{outcome:?}");
        assert!(outcome.heard.requests() > 0, "the model was never asked\n{outcome:?}");
        // It asks for lists of models as well, so the numbers differ.
        assert!(outcome.printed.contains(" requests came to the proxy"), "{outcome:?}");
    }
    Ok(())
}

/// What is written to lead a client elsewhere does, where no run points it: otherwise nothing would be shown by its failing.
pub(crate) fn lured_without_a_run(client: Client) -> Result<(), NoBuild> {
    for which in 0..client.lures("").len() {
        let world = World::new(client, "{}");
        let lure = |there: &str| client.lures(there).remove(which).lure;
        let call = [leave_mark(client)];
        let outcome = world.trial(&call).lured(lure).go()?;
        let Told { lure: Lure { what, .. }, is_heeded, .. } = client.lures("").remove(which);
        assert_eq!(!outcome.elsewhere.is_empty(), is_heeded, "{what}: {:?} {outcome:?}", outcome.elsewhere);
    }
    Ok(())
}

/// A service that the person who starts the client chose, and that the proxy can't stand in for, is an error, as is code that a
/// repository brings into the client: nothing is started, and nobody is asked.
pub(crate) fn sent_elsewhere_in_a_run(client: Client) -> Result<(), NoBuild> {
    let all = |there: &str| {
        let refused = client.lures(there).into_iter().filter(|told| told.is_refused);
        client.choices(there).into_iter().chain(refused).collect::<Vec<_>>()
    };
    for which in 0..all("").len() {
        let world = World::new(client, "{}");
        let what = all("").remove(which).lure.what;
        let lure = |there: &str| all(there).remove(which).lure;
        let outcome = world.trial(&[leave_mark(client)]).by_run().lured(lure).go()?;
        assert!(outcome.printed.contains("its model calls elsewhere"), "{what}: {outcome:?}");
        assert_eq!(outcome.code, Some(1), "{what}: {outcome:?}");
        assert!(!world.ran() && outcome.heard.requests() == 0, "{what}: {outcome:?}");
    }
    Ok(())
}

/// A client that asks no model, because it is to say its version, is no failure.
pub(crate) fn version_in_a_run(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, "{}");
    let outcome = world.trial(&[]).by_run().argument("--version").go()?;
    assert_eq!((outcome.heard.requests(), outcome.code), (0, Some(0)), "{outcome:?}");
    assert!(!outcome.printed.contains("not one request"), "{outcome:?}");
    Ok(())
}
