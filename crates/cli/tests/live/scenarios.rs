//! What is tried with every client, and what must come of it.
//!
//! The expectations are the degradation table of `docs/clients.md` seen from outside. Where a client can't do what was
//! decided, it must do something stricter.

use crate::client::{Client, NoBuild};
use crate::model::{Call, Model};
use crate::run::{MARK, Outcome, World, script};
use crate::webhook::Webhook;

/// A test for each scenario of a module, for each client.
macro_rules! suite {
    ($name:ident: $module:ident: [$($client:ident)+] $scenarios:tt) => {
        mod $name {
            $(mod $client {
                $crate::scenarios::suite! { @ $client $module $scenarios }
            })+
        }
    };
    (@ $client:ident $module:ident [$($scenario:ident)+]) => {
        $(#[test]
        fn $scenario() {
            $crate::scenarios::try_out(stringify!($client), $crate::$module::$scenario);
        })+
    };
}
pub(crate) use suite;

/// What holds for every client.
macro_rules! every {
    ($($client:ident)+) => {
        $crate::scenarios::suite! { every: scenarios: [$($client)+]
            [allow deny rewrite redact ask waits crash missing timeout sub_agent mcp]
        }
    };
}
pub(crate) use every;

/// Ways around every client's hooks.
macro_rules! ways {
    ($($client:ident)+) => {
        $crate::scenarios::suite! { ways: around: [$($client)+]
            [
                asked_in_bypass_mode settings_of_the_next_session another_operator false_daemon answers_itself
                not_executable moved_away linked_secret replaced_settings nested_client
            ]
        }
    };
}
pub(crate) use ways;

/// What is wrong with an installation.
macro_rules! faults {
    ($($client:ident)+) => {
        $crate::scenarios::suite! { installations: faults: [$($client)+]
            [weakened_entries unusable_footing starts_of_the_list]
        }
    };
}
pub(crate) use faults;

/// What holds for clients that can be given hooks for one run.
macro_rules! in_runs {
    ($($client:ident)+) => {
        $crate::scenarios::suite! { in_runs: runs: [$($client)+]
            [judged_in_a_run unheard_in_a_run silent_on_a_terminal]
        }
    };
}
pub(crate) use in_runs;

/// What a repository can switch off, where a run switches it on again.
macro_rules! switches {
    ($($client:ident)+) => {
        $crate::scenarios::suite! { switches: around: [$($client)+] [switched_off] }
        $crate::scenarios::suite! { overruled: runs: [$($client)+] [on_whatever_the_repository_says] }
    };
}
pub(crate) use switches;

/// What a signal to the client's group does.
macro_rules! signals {
    ($($client:ident)+) => {
        $crate::scenarios::suite! { signals: around: [$($client)+] [hung_up] }
    };
}
pub(crate) use signals;

/// A client that can't be had here is told of, and nothing else is.
pub(crate) fn try_out(client: &str, scenario: fn(Client) -> Result<(), NoBuild>) {
    let client = Client::ALL.into_iter().find(|known| known.name() == client).unwrap();
    if let Err(NoBuild(why)) = scenario(client) {
        println!("skipped {}: {why}", client.name());
    }
}

pub(crate) fn leave_mark(client: Client) -> Call {
    client.exec(&format!("echo done > {MARK} && echo the command has run"))
}

pub(crate) fn policy(options: &str) -> String {
    hooks(&format!("{{ type: policy, config: {{ {options} }} }}"))
}

pub(crate) fn webhook(behaviour: Webhook, more: &str) -> String {
    let url = behaviour.start();
    hooks(&format!("{{ type: webhook, config: {{ url: '{url}', fail_open: false }}{more} }}"))
}

pub(crate) fn hooks(entry: &str) -> String {
    format!("hooks:\n  tool_call:\n    pre_call:\n      - {entry}\n")
}

/// A configuration that asks before [`mark_asked_about`].
pub(crate) const ASKS: &str = "guards:
  command_safety:
    packs:
      - id: live.ask
        severity: warning
        verdict: ask
        profile: core
        reason: the plan wants a word
        code: LIVE_ASK
        when: [{ run: { program: [touch] } }]
";

pub(crate) fn mark_asked_about(client: Client) -> Call {
    client.exec(&format!("touch {MARK}"))
}

impl Client {
    /// Whether a refusal ends the run, so that neither the model nor its user reads why.
    fn ends_when_refused(self) -> bool {
        self == Self::Cline
    }
}

/// The call did not run, and the model read this about it, if the client tells its model anything.
#[track_caller]
pub(crate) fn assert_refused(client: Client, world: &World, outcome: &Outcome, reason: &str) {
    assert!(!world.ran(), "the tool ran\n{outcome:?}");
    assert!(outcome.heard.requests() > 0, "the model was never asked\n{}", outcome.printed);
    let results = outcome.heard.results();
    if client.ends_when_refused() {
        assert!(results.is_empty(), "the run went on: {results:?}");
        assert!(outcome.printed.contains("run_aborted"), "the run did not end\n{}", outcome.printed);
    } else {
        assert!(results.iter().any(|text| text.contains(reason)), "it read {results:?}\n{}", outcome.printed);
    }
}

/// What nobody objects to runs as if we were not there.
pub(crate) fn allow(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, "{}");
    let outcome = world.run(&[leave_mark(client)], |_| ())?;
    assert!(world.ran(), "the tool did not run\n{outcome:?}");
    let results = outcome.heard.results();
    assert!(results.iter().any(|text| text.contains("the command has run")), "{results:?}");
    assert!(outcome.heard.requests() > 1, "the model was not told of the result");
    assert_eq!(world.judged(), 1, "one call is one event");
    Ok(())
}

/// A refused call does not run, and the model reads our reason.
pub(crate) fn deny(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, &policy("deny_tools: [exec]"));
    let outcome = world.run(&[leave_mark(client)], |_| ())?;
    assert_refused(client, &world, &outcome, "is denied by `deny_tools` pattern `exec`");
    assert_eq!(world.judged(), 1, "one call is one event");
    Ok(())
}

/// A changed call runs as changed. Qwen Code would run it unchanged, so there it is refused.
pub(crate) fn rewrite(client: Client) -> Result<(), NoBuild> {
    let other = Webhook::Command("echo done > rewritten.txt".to_owned());
    let world = World::new(client, &webhook(other, ""));
    let outcome = world.run(&[leave_mark(client)], |_| ())?;
    assert!(!world.ran(), "it ran unchanged\n{outcome:?}");
    let runs = client != Client::Qwen;
    assert_eq!(world.file("rewritten.txt").exists(), runs, "{outcome:?}");
    assert!(!outcome.heard.results().is_empty(), "{outcome:?}");
    Ok(())
}

/// A secret in a result does not reach the model. Cline can't change results, so there the run ends.
pub(crate) fn redact(client: Client) -> Result<(), NoBuild> {
    // Looks like a token of GitHub and is none; put together here so that no scanner of this repository trips.
    let token = ["ghp", "_", "aB3dE5fG7hJ9kL1m", "N2pQ4rS6tU8vW0xY2zA4"].concat();
    let world = World::new(client, "{}");
    std::fs::write(world.file("letter.txt"), format!("the token is {token}, keep it\n")).unwrap();
    let outcome = world.run(&[client.exec(&format!("echo done > {MARK} && cat letter.txt"))], |_| ())?;
    assert!(world.ran(), "the tool did not run\n{outcome:?}");
    assert!(!outcome.heard.everything().contains(&token), "the model read the token");
    if !client.ends_when_refused() {
        let results = outcome.heard.results();
        assert!(results.iter().any(|text| text.contains("[redacted:github_token]")), "{results:?}");
    }
    Ok(())
}

/// Where nobody can be asked the call is refused with the reason, and with nothing by which the agent could answer. When a
/// human has allowed it by its code, the agent may make the same call again, once, in this session or another. Cline has ended its run by then, so there it is
/// another.
pub(crate) fn ask(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, ASKS);
    let call = mark_asked_about(client);
    let once = std::slice::from_ref(&call);
    let outcome = world.run(once, |_| ())?;
    assert_refused(client, &world, &outcome, "a person can allow ");
    assert_refused(client, &world, &outcome, "the plan wants a word [LIVE_ASK]");

    world.allow_last_question();
    let outcome = world.run(once, |_| ())?;
    assert!(world.ran(), "another session did not run what was allowed\n{outcome:?}");
    std::fs::remove_file(world.file(MARK)).unwrap();
    let outcome = world.run(once, |_| ())?;
    assert_refused(client, &world, &outcome, "a person can allow ");

    if !client.ends_when_refused() {
        let outcome = world.run_with_human(&[call.clone(), call.again("a person can allow ")])?;
        assert!(world.ran(), "the tool did not run although it was allowed\n{outcome:?}");
    }
    Ok(())
}

/// Where the operator wants it, the hook waits for a person, and the call runs at once when it is allowed.
pub(crate) fn waits(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, &format!("{ASKS}agent: {{ approvals: {{ wait: true }} }}\n"));
    world.install();
    let mut allowed = false;
    let call = [mark_asked_about(client)];
    let person = |_: &Model, _| {
        if !allowed && world.backstop(&["approvals", "list", "--json"]).contains("\"code\"") {
            world.allow_last_question();
            allowed = true;
        }
    };
    let outcome = world.trial(&call).watch(person).go()?;
    assert!(world.ran(), "the tool did not run\n{outcome:?}");
    Ok(())
}

/// A hook that is killed while it judges the call does not let it run.
pub(crate) fn crash(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, "{}");
    // All other events are none of its business, so that the run gets as far as the call.
    let text = format!("case \"$(cat)\" in *{MARK}*) kill -9 $$ ;; esac\n{}", client.silence());
    let outcome = world.run(&[leave_mark(client)], |program| script(program, &text))?;
    assert!(!world.ran(), "the tool ran\n{outcome:?}");
    assert!(outcome.heard.requests() > 0, "the model was never asked\n{}", outcome.printed);
    Ok(())
}

impl Client {
    /// How a hook of this client lets something pass, in a shell.
    fn silence(self) -> &'static str {
        match self {
            Self::OpenCode => r#"printf '{"decision":"pass"}'"#,
            _ => "exit 0",
        }
    }
}

/// A Backstop that is gone does not let anything run.
pub(crate) fn missing(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, "{}");
    let outcome = world.run(&[leave_mark(client)], |program| std::fs::remove_file(program).unwrap())?;
    assert!(!world.ran(), "the tool ran\n{outcome:?}");
    Ok(())
}

/// A hook of ours that never answers is not waited for, and the call does not run.
pub(crate) fn timeout(client: Client) -> Result<(), NoBuild> {
    let world = World::new(client, &webhook(Webhook::Silent, ", timeoutMs: 1000"));
    let outcome = world.run(&[leave_mark(client)], |_| ())?;
    assert_refused(client, &world, &outcome, "no answer within 1000 ms");
    Ok(())
}

/// The calls of a sub-agent are judged like those of its parent.
pub(crate) fn sub_agent(client: Client) -> Result<(), NoBuild> {
    let mut calls = vec![client.sub_agent("Do what the plan says."), leave_mark(client)];
    calls.extend(client.wait_for_sub_agent());
    let world = World::new(client, "{}");
    let outcome = world.run(&calls, |_| ())?;
    assert!(world.ran(), "no sub-agent ran the tool, so nothing can be said\n{outcome:?}");

    let world = World::new(client, &policy("deny_argument_patterns: { '*': ['echo done'] }"));
    let outcome = world.run(&calls, |_| ())?;
    if client.ends_when_refused() {
        // The run that ends is the sub-agent's. Its parent reads that it was aborted, and nothing of why.
        assert!(!world.ran(), "the tool ran\n{outcome:?}");
        let results = outcome.heard.results();
        assert!(results.iter().any(|text| text.contains("aborted")), "{results:?}\n{}", outcome.printed);
    } else {
        assert_refused(client, &world, &outcome, "matches the denied pattern");
    }
    Ok(())
}

/// Calls of MCP tools are judged under one name, whatever the client calls them.
pub(crate) fn mcp(client: Client) -> Result<(), NoBuild> {
    let call = [client.note("buy milk")];
    let world = World::new(client, "{}");
    let outcome = world.run(&call, |_| ())?;
    assert!(world.ran(), "the tool did not run\n{outcome:?}");
    let results = outcome.heard.results();
    assert!(results.iter().any(|text| text.contains("noted: buy milk")), "{results:?}");

    let world = World::new(client, &policy("deny_tools: [mcp__notes__take_note]"));
    let outcome = world.run(&call, |_| ())?;
    assert_refused(client, &world, &outcome, "`mcp__notes__take_note` is denied");
    Ok(())
}
