//! `backstop token`, and what a token opens.

use super::gateway::{MESSAGE, post, serve, text};
use super::support::{ModelServer, User, done, interrupt, until};

fn created(user: &User, args: &[&str]) -> serde_json::Value {
    user.run(&[&["--json", "token", "create", "--agent", "coder"], args].concat()).succeeded().json()
}

#[test]
fn a_token_is_made_once_listed_and_revoked() {
    let user = User::new();
    let made =
        user.run(&["token", "create", "--agent", "coder", "--note", "for CI", "--for", "7d"]).succeeded();
    let token = made.out.trim();
    assert!(token.starts_with("bst_") && made.out.lines().count() == 1, "{}", made.whole());
    let id = token.split('_').nth(1).unwrap();
    assert!(made.err.contains(id) && !made.err.contains(token), "{}", made.whole());
    let listed = user.run(&["token", "list"]).succeeded();
    for part in [id, "coder", "for CI", "in 6 days", "never"] {
        assert!(listed.out.contains(part), "{part}: {}", listed.whole());
    }
    let revoked = user.run(&["token", "revoke", id.get(..6).unwrap()]).succeeded();
    assert_eq!(revoked.out, format!("revoked: token {id} of agent `coder`\n"));
    assert!(!user.run(&["token", "list"]).succeeded().out.contains(id));
    let all = user.run(&["--json", "token", "list", "--all"]).succeeded();
    assert_eq!((all.json()[0]["counts"].clone(), all.json()[0]["id"].clone()), (false.into(), id.into()));
    // Neither the token nor its digest is anywhere, and the trail says who did what.
    let secret = token.rsplit('_').next().unwrap();
    let trail = user.run(&["--json", "log"]).succeeded();
    assert!(trail.out.contains("access_token.created") && trail.out.contains("access_token.revoked"));
    for told in [&all.out, &trail.out, &listed.out] {
        assert!(!told.contains(secret), "{told}");
    }
    assert!(!all.out.contains("sha256:"), "{}", all.out);
    let data = user.path().join("data/backstop");
    for file in std::fs::read_dir(data).unwrap().flatten().filter(|file| file.path().is_file()) {
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{file:?}");
    }
}

#[test]
fn another_token_takes_the_place_of_one_that_still_counts_a_while() {
    let user = User::new();
    let old = created(&user, &[]);
    let id = old["id"].as_str().unwrap();
    let new = created(&user, &["--replaces", id, "--overlap", "1h"]);
    assert_eq!(new["replaces"], old["id"]);
    let listed = user.run(&["--json", "token", "list"]).succeeded().json();
    let ends = |token: &serde_json::Value| token["endsAt"].as_i64().unwrap();
    let hour = ends(&listed[1]) - listed[0]["createdAt"].as_i64().unwrap();
    assert_eq!((listed[1]["id"].clone(), hour), (old["id"].clone(), 3_600_000));
    assert!(ends(&listed[0]) > ends(&listed[1]));
    let other = user.run(&["token", "create", "--agent", "other", "--replaces", id]);
    assert_eq!(other.code, Some(1), "{}", other.whole());
    assert!(other.err.contains("agent `other` has no access token"), "{}", other.whole());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let user = User::new();
    for (args, code, told) in [
        (&["token", "create", "--agent", "a b"][..], 2, "is no name of an agent"),
        (&["token", "create", "--agent", "a", "--for", "4000d"], 2, "at most ten years"),
        (&["token", "create", "--agent", "a", "--for", "soon"], 2, "is not a duration"),
        (&["token", "create", "--agent", "a", "--overlap", "1h"], 2, "--replaces"),
        (&["token", "create", "--agent", "a", "--replaces", "12"], 1, "there is no access token `12`"),
        (&["token", "revoke", "12"], 1, "there is no access token `12`"),
        (&["token", "revoke", ""], 1, "there is no access token ``"),
    ] {
        let refused = user.run(args);
        assert_eq!(refused.code, Some(code), "{args:?} {}", refused.whole());
        assert!(refused.err.contains(told), "{args:?} {}", refused.whole());
    }
    // An agent makes none, and may look at what there is.
    let mut command = user.command(&["token", "create", "--agent", "a"]);
    let inside = done(command.env("CLAUDECODE", "1").spawn().unwrap());
    assert!(inside.err.contains("making access tokens is for people"), "{}", inside.whole());
    assert!(user.run(&["token", "list"]).succeeded().err.contains("no access token counts"));
}

#[test]
fn a_token_opens_the_gateway_until_it_is_revoked() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"repeat": true, "text": "from the model"}"#);
    user.configure(&model.config(""));
    let early = created(&user, &[]);
    let (child, line) = serve(&user);
    let ask = |made: &serde_json::Value| {
        let token = made["token"].as_str().unwrap();
        post(&format!("{}/t/{token}/v1/messages", text(&line, "address")), MESSAGE)
    };
    assert!(ask(&early).contains("from the model"), "it counts from the start");
    let late = created(&user, &[]);
    until("a new token opens", || ask(&late).contains("from the model").then_some(()));
    user.run(&["token", "revoke", early["id"].as_str().unwrap()]).succeeded();
    until("a revoked token opens nothing", || ask(&early).starts_with("HTTP/1.1 401 ").then_some(()));
    assert!(ask(&late).contains("from the model"));
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
}

#[test]
fn a_token_for_the_api_is_an_agents_or_a_persons_and_never_both() {
    let user = User::new();
    let made =
        user.run(&["--json", "token", "create", "--user", "ann", "--scope", "approve", "--scope", "read"]);
    let made = made.succeeded().json();
    assert_eq!((&made["agent"], &made["user"]), (&serde_json::Value::Null, &"ann".into()));
    assert_eq!(made["scopes"], serde_json::json!(["approve", "read"]));
    assert_eq!(created(&user, &["--scope", "judge"])["scopes"], serde_json::json!(["judge"]));
    let listed = user.run(&["token", "list"]).succeeded();
    assert!(listed.out.contains("approve read") && listed.out.contains("judge"), "{}", listed.whole());
    for wrong in [
        &["--user", "ann"][..],
        &["--user", "ann", "--scope", "judge"],
        &["--agent", "a", "--scope", "approve"],
        &["--agent", "a", "--user", "ann", "--scope", "read"],
        &["--agent", "a", "--scope", "judge", "--scope", "approve"],
        &["--user", "ann", "--scope", "judge", "--scope", "approve"],
        &["--scope", "read"],
        &["--scope", "all", "--user", "ann"],
        &[],
    ] {
        let done = user.run(&[&["token", "create"], wrong].concat());
        assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{wrong:?}: {}", done.whole());
    }
    // What replaces a token allows no more than that did.
    let id = made["id"].as_str().unwrap();
    for other in [
        &["--user", "ann", "--scope", "admin"][..],
        &["--user", "bob", "--scope", "approve", "--scope", "read"],
    ] {
        let done = user.run(&[&["token", "create", "--replaces", id], other].concat());
        assert_eq!(done.code, Some(1), "{other:?}: {}", done.whole());
    }
}
