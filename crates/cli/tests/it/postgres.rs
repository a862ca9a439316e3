//! Gateways of several machines on one PostgreSQL server: each user here is a machine, with folders of its own.

use std::path::Path;

use serde_json::{Value, json};

use super::api::ask;
use super::gateway::{serve, text};
use super::postgres_server::Server;
use super::records::copy_all;
use super::support::{Done, User, done, interrupt, last_code, snapshot, until};

/// A call that a person is asked about.
fn asked() -> Value {
    json!({
        "event": { "toolName": "exec", "params": { "command": "git push --force origin main" } },
        "context": { "sessionId": "s-1", "workspaceDir": "/srv/work" },
    })
}

/// A machine whose configuration keeps state on that server.
fn machine(server: &Server) -> User {
    let Server { url, schema, .. } = server;
    User::with_config(&format!(
        "store: {{ postgres: {{ url: '{url}', schema: {schema} }} }}\n\
         guards: {{ command_safety: {{ unknown: ask }} }}\n"
    ))
}

fn trail(user: &User) -> std::path::PathBuf {
    user.path().join("data/backstop/backstop.trail")
}

#[test]
fn a_question_of_one_gateway_is_answered_at_another() {
    let server = Server::start();
    let (berlin, oslo) = (machine(&server), machine(&server));
    let judge = text(
        &berlin.run(&["--json", "token", "create", "--agent", "bot", "--scope", "judge"]).json(),
        "token",
    )
    .to_owned();
    let (child, serving) = serve(&berlin);
    let (status, pending) = ask(&serving, &judge, ("POST", "hooks/before_tool_call"), &asked());
    assert_eq!(status, 202, "{pending}");

    // The other machine has neither the process that asks nor a file of it.
    let code = last_code(&oslo);
    oslo.run(&["approvals", "approve", &code]).succeeded();
    let decision = format!("decisions/{}?wait=30", text(&pending, "id"));
    let (status, decided) = ask(&serving, &judge, ("GET", &decision), &Value::Null);
    assert_eq!((status, &decided["verdict"]), (200, &json!("allow")), "{decided}");
    // Whoever answers second is told who was first.
    let late = berlin.run(&["approvals", "deny", &code]);
    assert!(late.code != Some(0) && late.err.contains("already"), "{}", late.whole());

    // A token is good at every gateway, and revoked at all of them at once.
    let (other, elsewhere) = serve(&oslo);
    assert_eq!(ask(&elsewhere, &judge, ("POST", "hooks/before_tool_call"), &asked()).0, 202);
    let list = oslo.run(&["--json", "token", "list"]).succeeded().json();
    berlin.run(&["token", "revoke", text(&list[0], "id")]).succeeded();
    until("the revoked token was refused at both", || {
        let refused = [&serving, &elsewhere]
            .map(|at| ask(at, &judge, ("POST", "hooks/before_tool_call"), &asked()).0 == 401);
        (refused == [true, true]).then_some(())
    });
    for child in [child, other] {
        interrupt(&child);
        assert_eq!(done(child).code, Some(0));
    }
    // What one answered is in its own trail, and not in the other's.
    let answers =
        |user: &User| user.trail().iter().filter(|entry| entry["kind"] == "approval.answered").count();
    assert_eq!((answers(&berlin), answers(&oslo)), (0, 1));
}

#[test]
fn gateways_keep_each_others_checkpoints_so_that_a_trail_that_was_cut_off_shows() {
    let server = Server::start();
    let (berlin, oslo) = (machine(&server), machine(&server));
    let backup = berlin.path().join("backup");
    for user in [&berlin, &oslo] {
        user.run(&["token", "create", "--agent", "bot", "--scope", "judge"]).succeeded();
    }
    copy_all(&trail(&berlin), &backup);
    berlin.run(&["token", "create", "--agent", "other", "--scope", "judge"]).succeeded();
    // As `serve` does by itself.
    for user in [&berlin, &oslo, &berlin] {
        user.run(&["audit", "witness"]).succeeded();
    }
    let taken: Vec<Value> =
        oslo.trail().into_iter().filter(|entry| entry["kind"] == "peer.checkpoint").collect();
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert!(berlin.trail().iter().any(|entry| entry["kind"] == "peer.checkpoint"));
    assert!(oslo.run(&["log"]).succeeded().out.contains("of another gateway has"));

    let of_oslo = trail(&oslo);
    let peer = of_oslo.to_str().unwrap();
    let verified = berlin.run(&["audit", "verify", "--peer", peer, "--json"]).succeeded().json();
    let names: Vec<&Value> =
        verified["witnesses"].as_array().unwrap().iter().map(|witness| &witness["witness"]).collect();
    assert_eq!(names, [&json!("the shared database"), &json!(peer)]);

    // Cut off: the database knows more, and so does the other trail when the database is made to forget.
    std::fs::remove_dir_all(trail(&berlin)).unwrap();
    copy_all(&backup, &trail(&berlin));
    let cut = berlin.run(&["audit", "verify"]);
    assert!(cut.code == Some(1) && cut.err.contains("cut off"), "{}", cut.whole());
    let told = berlin.run(&["audit", "witness"]);
    assert!(told.code == Some(1) && told.err.contains("cut off"), "{}", told.whole());
    super::support::block_on(server.run("DELETE FROM checkpoints"));
    let forgotten = berlin.run(&["audit", "verify"]);
    assert_eq!(forgotten.code, Some(3), "{}", forgotten.whole());
    let by_peer = berlin.run(&["audit", "verify", "--peer", peer]);
    assert!(by_peer.code == Some(1) && by_peer.err.contains("cut off"), "{}", by_peer.whole());
}

#[test]
fn a_checkpoint_that_somebody_planted_in_the_database_proves_nothing_and_is_told() {
    let server = Server::start();
    let user = machine(&server);
    user.run(&["token", "create", "--agent", "bot", "--scope", "judge"]).succeeded();
    user.run(&["audit", "witness"]).succeeded();
    user.run(&["audit", "verify"]).succeeded();
    let plant = "INSERT INTO checkpoints (origin, entries, checkpoint, left_at) \
                 SELECT origin, entries + 100, 'none', left_at FROM checkpoints";
    super::support::block_on(server.run(plant));
    let verified = user.run(&["audit", "verify"]);
    assert!(verified.code == Some(3) && verified.err.contains("can't be read"), "{}", verified.whole());
    assert_eq!(user.run(&["audit", "witness"]).code, Some(3));
}

#[test]
fn what_no_gateway_leaves_is_not_read_and_is_told_by_all() {
    let server = Server::start();
    let (berlin, oslo) = (machine(&server), machine(&server));
    for user in [&berlin, &oslo] {
        user.run(&["token", "create", "--agent", "bot", "--scope", "judge"]).succeeded();
    }
    berlin.run(&["audit", "witness"]).succeeded();
    let plant = "INSERT INTO checkpoints (origin, entries, checkpoint, left_at) \
                 SELECT origin, entries, repeat('x', 100000), 9223372036854775807 FROM checkpoints \
                 UNION ALL SELECT origin, -1, checkpoint, 0 FROM checkpoints";
    super::support::block_on(server.run(plant));
    for (user, whose) in [(&oslo, "other gateways"), (&berlin, "this trail")] {
        let told = user.run(&["audit", "witness"]);
        let said = format!("2 of what is there as checkpoints of {whose}");
        assert!(told.code == Some(3) && told.err.contains(&said), "{}", told.whole());
    }
    // What is genuine is taken in all the same.
    let taken = oslo.trail().iter().filter(|entry| entry["kind"] == "peer.checkpoint").count();
    assert_eq!(taken, 1);
}

#[test]
fn without_its_server_what_needs_it_is_refused_and_nothing_has_to_be_started_again() {
    let mut server = Server::own(&[]);
    let user = machine(&server);
    let judge =
        text(&user.run(&["--json", "token", "create", "--agent", "bot", "--scope", "judge"]).json(), "token")
            .to_owned();
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "tool_use_id": "toolu_01A09q90qw90lq917835lq9", "tool_input": { "command": "ls" },
    });
    let hook = || user.feed(&["hook", "claude-code"], event.to_string());
    let denies = |done: &Done| done.code == Some(2) || done.out.contains("deny");
    let passed = hook();
    assert!(passed.code == Some(0) && !denies(&passed), "{}", passed.whole());
    let (child, serving) = serve(&user);
    let harmless = json!({
        "event": { "toolName": "exec", "params": { "command": "ls" } }, "context": { "sessionId": "s-1" },
    });
    let judged = |call: &Value| {
        let (status, said) = ask(&serving, &judge, ("POST", "hooks/before_tool_call"), call);
        (status, said["verdict"].as_str().unwrap_or_default().to_owned())
    };
    let passes = (200, "allow".to_owned());
    assert_eq!(judged(&harmless), passes);
    assert_eq!(judged(&asked()).0, 202);
    server.stop();
    // A question that nobody can be asked is none that waits, while the token is still known, and then nothing is.
    assert_ne!(judged(&asked()).0, 202);
    until("the token counted no longer", || (judged(&harmless).0 == 503).then_some(()));
    let refused = hook();
    assert!(denies(&refused), "a proxy may have denied it, which nobody can know: {}", refused.whole());
    let listed = user.run(&["approvals", "list"]);
    assert!(listed.code == Some(1) && listed.err.contains("can't be reached"), "{}", listed.whole());
    server.start_again();
    until("the gateway recovered", || (judged(&harmless) == passes).then_some(()));
    assert_eq!(judged(&asked()).0, 202);
    assert_eq!(user.run(&["approvals", "list"]).code, Some(0));
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
}

#[test]
fn what_is_wrong_with_the_address_is_said_where_it_stands_and_a_password_nowhere() {
    let word = ["hun", "ter2"].concat();
    let told = |postgres: &str| {
        let user = User::with_config(&format!("store:\n  postgres: {postgres}\n"));
        let done = user.run(&["approvals", "list"]);
        assert!(!done.whole().contains(&word), "{}", done.whole());
        done.whole()
    };
    let all = [
        format!("{{ url: 'postgres://ann:{word}@127.0.0.1/state' }}"),
        "{ url: 'postgres://${USER}@127.0.0.1/state' }".to_owned(),
        "{ url: 'postgres://ann@127.0.0.1/state', ca_file: '${USER}/ca.pem' }".to_owned(),
        "{ url: 'postgres://ann@127.0.0.1/state', password_file: '${USER}/password' }".to_owned(),
        "{ url: 'mysql://ann@127.0.0.1/state' }".to_owned(),
        "{ url: 'postgres://ann@127.0.0.1/state?sslmode=prefer' }".to_owned(),
        "{ url: 'postgres://ann@127.0.0.1/state?passfile=/etc/hostname' }".to_owned(),
        "{ url: 'postgres://ann@127.0.0.1/state?sslmode=disable', ca_file: /etc/passwd }".to_owned(),
        "{ url: 'postgres://ann@%2Frun%2Fpostgresql/state?sslmode=disable' }".to_owned(),
        "{ url: 'postgres://ann@127.0.0.1/state', schema: 'No Schema' }".to_owned(),
        format!("{{ url: 'postgres://ann@127.0.0.1/state', password: {word}, password_file: none }}"),
        "{ url: 'postgres://ann@127.0.0.1/state?sslmode=disable', password_file: none }".to_owned(),
        "{ schema: state }".to_owned(),
    ];
    snapshot!(all.iter().map(|postgres| told(postgres)).collect::<String>());
}

#[test]
fn a_hook_that_judges_alone_believes_no_authorities_that_its_environment_names() {
    let told = |postgres: &str| {
        let user = User::with_config(&format!("store:\n  postgres: {postgres}\n"));
        let event = json!({
            "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
            "tool_use_id": "toolu_01A09q90qw90lq917835lq9", "tool_input": { "command": "ls" },
        });
        let done = user.feed(&["hook", "claude-code"], event.to_string());
        assert!(done.code == Some(2) || done.out.contains("deny"), "{}", done.whole());
        done.whole()
    };
    let needs_them = |said: &str| said.contains("store.postgres.ca_file");
    for address in
        ["postgres://ann@127.0.0.1:1/state", "postgres://ann@127.0.0.1:1/state?sslmode=verify-full"]
    {
        let said = told(&format!("{{ url: '{address}' }}"));
        assert!(needs_them(&said), "{said}");
    }
    let said = told("{ url: 'postgres://ann@127.0.0.1:1/state?sslmode=disable' }");
    assert!(!needs_them(&said), "{said}");
}

#[test]
fn the_file_with_the_password_is_the_operators() {
    use std::os::unix::fs::PermissionsExt as _;

    let user = User::new();
    let file = user.path().join("password");
    user.configure(&format!(
        "store: {{ postgres: {{ url: 'postgres://ann@127.0.0.1:1/state?sslmode=disable', password_file: '{}' }} }}\n",
        file.display()
    ));
    let told = |text: &str, mode: u32| {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        user.run(&["approvals", "list"]).err
    };
    assert!(told("word\n", 0o600).contains("can't be reached"));
    assert!(told("\n", 0o600).contains("the password is empty"));
    assert!(told("word\n", 0o666).contains("chmod"));
    assert!(told("word\n", 0o644).contains("chmod 600"));
    assert!(told("word\n", 0o640).contains("chmod 600"));
    assert!(!told("word\n", 0o666).contains("word\n"));
    assert!(Path::new(&file).exists());
}
