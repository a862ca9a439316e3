//! By which files of this machine the calls of models are judged, behind the proxy of `backstop serve` and of `backstop run`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use super::gateway::{post, serve, text};
use super::support::{ModelServer, User, done, interrupt};

/// Whose model wants to run a command in the user's folder, and nothing else.
fn user_of(command: &str, config: &str) -> (User, ModelServer) {
    let user = User::new();
    let folder = user.work();
    std::fs::write(folder.join("start.sh"), "MARK=zebra-4711\n").unwrap();
    std::fs::write(folder.join("x.sh"), "echo hello\n").unwrap();
    let call = json!({"name": "exec", "arguments": {"command": command, "workdir": folder}});
    let model = ModelServer::start(&user, &json!({"repeat": true, "tool_calls": [call]}).to_string());
    user.configure(&model.config(&config.replace("WORK", &folder.display().to_string())));
    (user, model)
}

fn asks(url: &str) -> String {
    let tool = json!({"name": "exec", "input_schema": {"type": "object"}});
    let message = json!({"role": "user", "content": "hi"});
    let body = json!({"model": "scripted-model", "max_tokens": 9, "messages": [message], "tools": [tool]});
    post(&format!("{url}/v1/messages"), &body.to_string())
}

/// What a client of `serve` is told.
fn served(user: &User) -> String {
    let (child, line): (_, Value) = serve(user);
    let answer = asks(text(&line, "url"));
    interrupt(&child);
    assert_eq!(done(child).code, Some(0));
    answer
}

fn passes(answer: &str) -> bool {
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    answer.contains("\"tool_use\"")
}

const SHARED: &str = "gateway: {api: {shared_folders: ['WORK']}}\n";

#[test]
fn clients_of_serve_are_told_nothing_of_what_is_in_files_of_the_server() {
    let command = ". ./start.sh; git push --force \"$MARK\"";
    let (user, _model) = user_of(command, "");
    let answer = served(&user);
    assert!(!passes(&answer) && !answer.contains("zebra"), "{answer}");
    // This is how it would look: whoever shares a folder shares what is in it.
    let (user, _model) = user_of(command, SHARED);
    let answer = served(&user);
    assert!(!passes(&answer) && answer.contains("zebra"), "{answer}");
}

#[test]
fn a_script_is_looked_into_where_the_operator_shares_its_folder_and_in_a_run() {
    let (user, _model) = user_of("bash ./x.sh", "");
    assert!(!passes(&served(&user)), "the script of a client may say something else");
    // The program runs on this machine.
    let mut run = user.command(&["run", "--", "sh", "-c", "echo $ANTHROPIC_BASE_URL; cat"]);
    let mut child = run.stdin(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let answer = asks(url.trim());
    drop(child.stdin.take());
    assert!(passes(&answer), "{answer}");
    assert_eq!(done(child).code, Some(0));
    let (user, _model) = user_of("bash ./x.sh", SHARED);
    let answer = served(&user);
    assert!(passes(&answer), "{answer}");
}
