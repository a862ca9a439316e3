//! The API of `backstop serve`: its configuration, and by what of the disk calls are judged.

use std::io::{BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use super::gateway::{MESSAGE, post, serve, text};
use super::plugins::installed;
use super::reload::clients::response;
use super::support::{ModelServer, User, done, interrupt, until};

/// Asks the API with a token, and gives status and body.
pub(super) fn ask(server: &Value, token: &str, (method, path): (&str, &str), body: &Value) -> (u16, Value) {
    let address = text(server, "address").strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} /-/v1/{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let (status, body) = response(&mut BufReader::new(stream)).unwrap();
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

fn token(user: &User, scope: &str) -> String {
    let made = user.run(&["--json", "token", "create", "--user", "ann", "--scope", scope]).succeeded().json();
    text(&made, "token").to_owned()
}

/// The entries about configurations: what digest, what came before it, and who wanted it.
fn configurations(user: &User) -> Vec<(String, String, Value)> {
    let entries = user.trail().into_iter().filter(|entry| entry["kind"] == "configuration.read");
    entries
        .map(|entry| {
            let body = &entry["body"];
            (text(body, "digest").to_owned(), text(body, "cause").to_owned(), body["by"].clone())
        })
        .collect()
}

#[test]
fn an_administrator_sees_the_configuration_and_has_it_read_anew() {
    let secret = ["operators", "-own", "-secret"].concat();
    let config = |level: &str| {
        format!("gateway: {{token: {secret}}}\nguards: {{command_safety: {{unknown: {level}}}}}\n")
    };
    let user = User::with_config(&config("ask"));
    let (admin, reader) = (token(&user, "admin"), token(&user, "read"));
    let (child, server) = serve(&user);
    let ask = |token: &str, what: (&str, &str), body: &Value| ask(&server, token, what, body);

    let (status, shown) = ask(&admin, ("GET", "configuration"), &Value::Null);
    assert_eq!(status, 200, "{shown}");
    let unknown = &shown["config"]["guards"]["command_safety"]["unknown"];
    assert_eq!(unknown["value"], "ask", "{shown}");
    assert!(text(unknown, "from").contains("backstop.yaml:2:"), "{unknown}");
    assert!(!shown.to_string().contains(&secret), "{shown}");
    assert_eq!(ask(&reader, ("GET", "configuration"), &Value::Null).0, 403);
    assert_eq!(ask(&admin, ("GET", "plugins"), &Value::Null), (200, json!({"plugins": []})));

    let checked = |text: &str| ask(&admin, ("POST", "configuration/check"), &json!({ "text": text }));
    assert_eq!(checked(&config("block")), (200, json!({"ok": true, "problems": [], "variables": []})));
    let (status, wrong) = checked("guards: {}\ngatewai: {}\n");
    assert_eq!(
        (status, &wrong["ok"], &wrong["problems"][0]["line"]),
        (200, &json!(false), &json!(2)),
        "{wrong}"
    );
    // What was checked is in force nowhere.
    assert_eq!(ask(&admin, ("GET", "configuration"), &Value::Null).1, shown);

    user.configure(&config("block"));
    assert_eq!(ask(&reader, ("POST", "configuration/reload"), &Value::Null).0, 403);
    let (status, now) = ask(&admin, ("POST", "configuration/reload"), &Value::Null);
    assert_eq!((status, &now["ignored"]), (200, &json!([])), "{now}");
    assert_ne!(now["digest"], shown["digest"]);
    let held = ask(&admin, ("GET", "configuration"), &Value::Null).1;
    assert_eq!(held["config"]["guards"]["command_safety"]["unknown"]["value"], "block", "{held}");

    // One that would loosen the server is refused, and the one before stays.
    user.configure("guards: {command_safety: {unknown: block}}\n");
    let (status, why) = ask(&admin, ("POST", "configuration/reload"), &Value::Null);
    assert!(status == 409 && text(&why, "detail").contains("gateway.token"), "{why}");
    assert_eq!(ask(&admin, ("GET", "configuration"), &Value::Null).1, held);
    // So is one without a trail, which could not say that it holds.
    user.configure(&format!("audit: {{enabled: false}}\n{}", config("block")));
    let (status, why) = ask(&admin, ("POST", "configuration/reload"), &Value::Null);
    assert!(status == 409 && text(&why, "detail").contains("audit.enabled"), "{why}");
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));

    let (first, second) = (text(&shown, "digest").to_owned(), text(&held, "digest").to_owned());
    let told = configurations(&user);
    assert_eq!(told.iter().map(|(digest, ..)| digest).collect::<Vec<_>>(), [&first, &second], "{told:?}");
    assert_eq!((told[0].1.as_str(), &told[0].2), ("the start of `serve`", &Value::Null));
    assert!(told[1].1 == "a request" && told[1].2.as_str().unwrap().contains("ann"), "{told:?}");
    assert!(user.run(&["log"]).succeeded().out.contains("holds"));
}

#[test]
fn plugins_in_force_are_listed() {
    let user = User::new();
    installed(&user);
    let (admin, reader) = (token(&user, "admin"), token(&user, "read"));
    let (child, server) = serve(&user);
    let (status, listed) = ask(&server, &admin, ("GET", "plugins"), &Value::Null);
    assert_eq!((status, listed["plugins"].as_array().unwrap().len()), (200, 1), "{listed}");
    let plugin = &listed["plugins"][0];
    assert_eq!((&plugin["id"], &plugin["waiting"]), (&json!("no-canvas"), &json!([])), "{listed}");
    assert_eq!(plugin["hooks"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(ask(&server, &reader, ("GET", "plugins"), &Value::Null).0, 403);
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
}

#[test]
fn callers_are_listed_with_what_they_may_ask_and_what_they_used() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"repeat": true, "text": "from the model"}"#);
    let own = ["0123456789", "abcdef"].concat();
    user.configure(
        &model.config(&format!("gateway: {{agents: {{coder: {{token: {own}, requests_per_minute: 9}}}}}}\n")),
    );
    let reader = token(&user, "read");
    let (child, server) = serve(&user);
    let coder = || {
        let (status, agents) = ask(&server, &reader, ("GET", "agents"), &Value::Null);
        assert_eq!(status, 200, "{agents}");
        assert!(!agents.to_string().contains(&own), "{agents}");
        agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "coder").unwrap().clone()
    };
    let before = coder();
    assert_eq!(
        (&before["listed"], &before["requestsPerMinute"], &before["requests"]),
        (&json!(true), &json!(9), &json!(0))
    );
    post(&format!("{}/t/{own}/v1/messages", text(&server, "address")), MESSAGE);
    until("the request was counted", || (coder()["requests"] == 1).then_some(()));
    assert!(coder()["outputTokens"].as_u64().unwrap() > 0, "{}", coder());
    let (status, users) = ask(&server, &reader, ("GET", "users"), &Value::Null);
    assert_eq!((status, &users["users"][0]["requests"]), (200, &json!(1)), "{users}");
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
}

/// Has a command judged, and gives the decision. Nobody answers what is asked.
fn judged(server: &Value, token: &str, params: &Value, context: &Value) -> Value {
    let event = json!({"toolName": "exec", "params": params});
    let body = json!({"event": event, "context": context, "answerWithinMs": 1000});
    let (status, ruling) = ask(server, token, ("POST", "hooks/before_tool_call?wait=30"), &body);
    assert_eq!((status, &ruling["status"]), (200, &json!("decided")), "{ruling}");
    ruling
}

fn agent_token(user: &User) -> String {
    let made = user.run(&["--json", "token", "create", "--agent", "bot", "--scope", "judge"]).succeeded();
    text(&made.json(), "token").to_owned()
}

#[test]
fn callers_are_told_nothing_of_what_is_in_files_of_the_server() {
    let user = User::new();
    let folder = user.work();
    std::fs::write(folder.join("start.sh"), "MARK=zebra-4711\n").unwrap();
    let token = agent_token(&user);
    let (child, server) = serve(&user);
    let command = ". ./start.sh; git push --force \"$MARK\"";
    let whole = format!(". {}/start.sh; git push --force \"$MARK\"", folder.display());
    for (params, context) in [
        (json!({"command": command}), json!({"workspaceDir": folder})),
        (json!({"command": command, "workdir": folder}), json!({})),
        (json!({"command": whole}), json!({"workspaceDir": "/"})),
    ] {
        let ruling = judged(&server, &token, &params, &context);
        assert_eq!(ruling["verdict"], "block", "{ruling}");
        assert!(!ruling.to_string().contains("zebra"), "{params} {context}: {ruling}");
    }
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
    let trail = user.trail();
    assert!(!trail.is_empty() && trail.iter().all(|entry| !entry.to_string().contains("zebra")), "{trail:?}");
}

#[test]
fn callers_are_judged_by_the_servers_files_only_where_the_operator_shares_them() {
    let user = User::new();
    let (folder, elsewhere) = (user.work(), user.path().join("elsewhere"));
    std::fs::create_dir(&elsewhere).unwrap();
    for folder in [&folder, &elsewhere] {
        std::fs::write(folder.join("x.sh"), "echo hello\n").unwrap();
    }
    // A link in a shared folder shares nothing else.
    std::os::unix::fs::symlink(&elsewhere, folder.join("out")).unwrap();
    let token = agent_token(&user);
    let verdicts = || {
        let (child, server) = serve(&user);
        let verdict = |folder: &Path, command: &str| {
            let context = json!({"workspaceDir": folder});
            judged(&server, &token, &json!({"command": command}), &context)["verdict"].clone()
        };
        let verdicts = [
            verdict(&folder, "bash ./x.sh"),
            verdict(&elsewhere, "bash ./x.sh"),
            verdict(&folder, "bash ./out/x.sh"),
            verdict(&folder.join("out"), "bash ./x.sh"),
            verdict(&folder, "echo hello"),
        ];
        interrupt(&child);
        assert_eq!(done(child).code, Some(0));
        verdicts
    };
    assert_eq!(verdicts(), ["block", "block", "block", "block", "allow"]);
    user.configure(&format!("gateway: {{api: {{shared_folders: ['{}']}}}}\n", folder.display()));
    assert_eq!(verdicts(), ["allow", "block", "block", "block", "allow"]);
    user.configure("gateway: {api: {shared_folders: [work]}}\n");
    let refused = user.run(&["serve", "--port", "0"]);
    assert!(refused.code == Some(2) && refused.err.contains("absolute path"), "{}", refused.whole());
}

#[test]
fn a_link_to_what_is_secret_is_no_way_around_for_callers_on_this_machine() {
    let user = User::new();
    let folder = user.work();
    std::os::unix::fs::symlink(user.path().join(".ssh/id_ed25519"), folder.join("notes")).unwrap();
    std::fs::write(folder.join("plain"), "nothing\n").unwrap();
    let token = agent_token(&user);
    for config in
        ["{}\n".to_owned(), format!("gateway: {{api: {{shared_folders: ['{}']}}}}\n", folder.display())]
    {
        user.configure(&config);
        let (child, server) = serve(&user);
        for context in [json!({"workspaceDir": folder}), json!({})] {
            let verdict = |name: &str| {
                let command = format!("cat {}", folder.join(name).display());
                judged(&server, &token, &json!({"command": command}), &context)["verdict"].clone()
            };
            assert_eq!([verdict("plain"), verdict("notes")], ["allow", "block"], "{config} {context}");
        }
        interrupt(&child);
        assert_eq!(done(child).code, Some(0));
    }
}
