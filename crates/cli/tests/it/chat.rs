//! Talking with the own agent in the console of a real server, whose model is a scripted one.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use backstop::confine::Group;
use serde_json::{Value, json};

use super::gateway::{serve, text};
use super::run_client::NO_SHELL;
use super::support::{BACKSTOP, Done, ModelServer, User, done, hang_up, interrupt, until};
use super::trying::{HOST, ask, words};

/// A call that a human is asked about, and that does nothing but write a file.
const ASKED: &str = r#"eval "$PLAN" || true; echo ran > ran.txt"#;
/// The guards would stop commands before the walls do.
const NO_GUARDS: &str = "guards: {command_safety: {enabled: false}, sensitive_files: {enabled: false}}\n";

fn config(model: &ModelServer, console: &str, more: &str) -> String {
    model.config(&format!("gateway: {{hosts: [{HOST}], console: {{{console}}}}}\n{more}"))
}

const ON: &str = "chat: true";

/// A call of a tool, as a script has it.
fn call(tool: &str, arguments: &Value) -> String {
    json!({"tool_calls": [{"name": tool, "arguments": arguments}]}).to_string()
}

fn exec(command: &str) -> String {
    call("exec", &json!({ "command": command }))
}

fn answer(text: &str) -> String {
    json!({ "text": text }).to_string()
}

/// A server where people talk, and its model.
struct House {
    user: User,
    model: ModelServer,
    child: Child,
    server: Value,
}

/// Somebody who is signed in.
struct Person {
    token: Value,
    cookie: String,
    form: String,
}

impl House {
    /// A command of the operator, whose variables are those of the server.
    fn run(&self, words: &[&str]) -> Done {
        let mut command = self.user.command(words);
        for (name, word) in VARIABLES {
            command.env(name, hush(word));
        }
        done(command.spawn().unwrap())
    }

    fn open(script: &[String], more: &str) -> Self {
        let user = User::new();
        let model = ModelServer::start(&user, &script.join("\n"));
        user.configure(&config(&model, ON, more));
        let (child, server) = serve(&user);
        Self { user, model, child, server }
    }

    fn person(&self, name: &str) -> Person {
        let words = ["--json", "token", "create", "--user", name, "--scope", "admin", "--scope", "approve"];
        let token = self.run(&words).succeeded().json();
        self.enter(token)
    }

    fn enter(&self, token: Value) -> Person {
        let fields = [("token", text(&token, "token"))];
        let cookie = until("somebody was signed in", || {
            let (status, head, _) = ask(&self.server, "POST", "/sign-in", "", &fields);
            let line = head.lines().find_map(|line| line.strip_prefix("set-cookie: "))?;
            (status < 400).then(|| line.split(';').next().unwrap().to_owned())
        });
        let (status, _, page) = ask(&self.server, "GET", "/chat", &cookie, &[]);
        assert_eq!(status, 200, "{page}");
        let form = page.split_once("name=\"form\" value=\"").unwrap().1.chars().take(64).collect();
        Person { token, cookie, form }
    }

    fn get(&self, person: &Person, path: &str) -> (u16, String) {
        let (status, _, page) = ask(&self.server, "GET", path, &person.cookie, &[]);
        (status, page)
    }

    fn post(&self, person: &Person, path: &str, fields: &[(&str, &str)]) -> (u16, String, String) {
        let fields = [&[("form", person.form.as_str())], fields].concat();
        ask(&self.server, "POST", path, &person.cookie, &fields)
    }

    /// Begins a conversation, and returns its address.
    fn begin(&self, person: &Person) -> String {
        let (status, head, page) = self.post(person, "/chat", &[]);
        assert_eq!(status, 303, "{}", words(&page));
        let line = head.lines().find_map(|line| line.strip_prefix("location: /-/console")).unwrap();
        line.trim().to_owned()
    }

    fn say(&self, person: &Person, chat: &str, message: &str) {
        let (status, _, page) = self.post(person, &format!("{chat}/say"), &[("message", message)]);
        assert_eq!(status, 303, "{}", words(&page));
    }

    /// What the page says, once it says that.
    fn shown(&self, person: &Person, chat: &str, wanted: &str) -> String {
        let mut last = String::new();
        let end = std::time::Instant::now() + super::support::PATIENCE;
        while std::time::Instant::now() < end {
            last = words(&self.get(person, &format!("{chat}/part")).1);
            if last.contains(wanted) {
                return last;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("`{wanted}` was never said, but: {last}");
    }

    /// Says something, and returns what is shown once the agent is done.
    fn talk(&self, person: &Person, chat: &str, message: &str) -> String {
        self.say(person, chat, message);
        self.shown(person, chat, "The agent waits for you")
    }

    /// The question that waits, as the command line has it.
    fn question(&self) -> Value {
        until("a question", || {
            let list = self.run(&["approvals", "list", "--json"]).succeeded().json();
            list.as_array().unwrap().first().cloned()
        })
    }

    fn ran(&self) -> bool {
        self.user.work().join("ran.txt").exists()
    }

    fn reload(&self, text: &str) {
        self.user.configure(text);
        hang_up(&self.child);
    }

    fn stop(self) -> (User, ModelServer, Done) {
        let Self { user, model, child, .. } = self;
        interrupt(&child);
        let ended = done(child);
        assert_eq!(ended.code, Some(0), "{}", ended.whole());
        (user, model, ended)
    }
}

#[test]
fn a_person_is_answered_and_sees_what_was_decided_on_each_call() {
    let script = [
        call("write", &json!({"path": "a.txt", "content": "a"})),
        exec("touch never.txt"),
        answer("I wrote it, and was kept from the rest."),
    ];
    let house = House::open(&script, NO_SHELL);
    let ann = house.person("ann");
    let chat = house.begin(&ann);
    let said = house.talk(&ann, &chat, "write a.txt, and touch never.txt");
    assert!(said.contains("You write a.txt, and touch never.txt"), "{said}");
    assert!(said.contains("ran write a.txt"), "{said}");
    assert!(said.contains("denied exec denied by `house-rules`"), "{said}");
    assert!(said.contains("Agent I wrote it, and was kept from the rest."), "{said}");
    assert_eq!(std::fs::read_to_string(house.user.work().join("a.txt")).unwrap(), "a");
    assert!(!house.user.work().join("never.txt").exists());
    // It is a session like others, and one trail has it all, with who asked for it.
    let id = chat.strip_prefix("/chat/").unwrap();
    let session = house.run(&["sessions", "show", id]).succeeded().out;
    assert!(session.contains("kept from the rest"), "{session}");
    let trail = house.user.trail();
    let receipts: Vec<&Value> = trail
        .iter()
        .filter(|entry| entry["kind"] == "receipt" && entry["body"]["point"] == "before_tool_call")
        .collect();
    let asked_for = |entry: &&&Value| entry["body"]["requester"]["senderId"] == "ann";
    assert_eq!(receipts.iter().filter(asked_for).count(), 2, "{receipts:#?}");
    let (user, model, _) = house.stop();
    user.run(&["audit", "verify"]).succeeded();
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn a_question_is_answered_at_the_console_and_the_run_goes_on() {
    let script = [exec(ASKED), answer("finished"), exec(ASKED), answer("again")];
    let house = House::open(&script, "");
    let ann = house.person("ann");
    let chat = house.begin(&ann);
    house.say(&ann, &chat, "go");
    let waits = house.shown(&ann, &chat, "waits for an answer exec");
    assert!(waits.contains("The agent waits for an answer.") && !house.ran(), "{waits}");
    // The page leads to the question, where it is answered.
    let page = house.get(&ann, &format!("{chat}/part")).1;
    let path = page.split_once("/-/console/approvals/").unwrap().1.split('"').next().unwrap();
    let question = house.get(&ann, &format!("/approvals/{path}")).1;
    let digest = question.split_once("name=\"digest\" value=\"").unwrap().1.split('"').next().unwrap();
    let fields = [("digest", digest), ("decision", "allow-once")];
    let (status, _, said) = house.post(&ann, &format!("/approvals/{path}/answer"), &fields);
    assert!(status < 400, "{}", words(&said));
    let said = house.shown(&ann, &chat, "The agent waits for you");
    assert!(said.contains("ran exec") && said.contains("allowed once by a person"), "{said}");
    assert!(said.contains("its question") && said.contains("Agent finished") && house.ran(), "{said}");
    // On the command line as well, where a person answers and no agent is above them.
    house.say(&ann, &chat, "once more");
    let code = text(&house.question(), "code").to_owned();
    house.run(&["approvals", "deny", &code]).succeeded();
    let said = house.shown(&ann, &chat, "Agent again");
    assert!(said.contains("denied exec denied by a person"), "{said}");
    house.stop();
}

#[test]
fn stopping_and_leaving_withdraw_what_waits() {
    let script = [exec(ASKED), exec(ASKED), answer("unused")];
    let house = House::open(&script, "");
    let ann = house.person("ann");
    let chat = house.begin(&ann);
    for how in ["stop", "leave"] {
        house.say(&ann, &chat, "go");
        let id = text(&house.question(), "id").to_owned();
        let (status, _, page) = house.post(&ann, &format!("{chat}/{how}"), &[]);
        assert_eq!(status, 303, "{}", words(&page));
        let state = until("the question was withdrawn", || {
            let list = house.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
            let found = list.as_array().unwrap().iter().find(|one| one["id"] == id.as_str()).cloned()?;
            let state = text(&found["state"], "status").to_owned();
            (state != "pending").then_some(state)
        });
        assert_eq!(state, "cancelled", "{how}");
        if how == "stop" {
            let said = house.shown(&ann, &chat, "The agent waits for you");
            assert!(said.contains("Stopped by you.") && said.contains("stopped exec"), "{said}");
            assert_eq!(
                house.post(&ann, &format!("{chat}/stop"), &[]).0,
                409,
                "nothing is left to be stopped"
            );
        }
    }
    assert!(!house.ran());
    assert!(house.get(&ann, &chat).1.contains("Go on with it"));
    house.stop();
}

#[test]
fn a_conversation_outlives_the_server_and_stays_its_persons() {
    let script =
        [answer("first"), json!({"expect": {"user_contains": "the second"}, "text": "second"}).to_string()];
    let house = House::open(&script, "");
    let ann = house.person("ann");
    let chat = house.begin(&ann);
    assert!(house.talk(&ann, &chat, "the first").contains("Agent first"));
    let token = ann.token;
    let (user, model, _) = house.stop();
    let (child, server) = serve(&user);
    let house = House { user, model, child, server };
    let (ann, bob) = (house.enter(token), house.person("bob"));
    let closed = house.get(&ann, &chat).1;
    assert!(closed.contains("not open here") && closed.contains("Go on with it"), "{closed}");
    assert_eq!(house.get(&bob, &chat).0, 404);
    assert_eq!(house.post(&bob, &format!("{chat}/go-on"), &[]).0, 404);
    assert_eq!(house.post(&ann, &format!("{chat}/go-on"), &[]).0, 303);
    let said = house.talk(&ann, &chat, "the second");
    assert!(said.contains("It goes on.") && said.contains("Agent second"), "{said}");
    let id = chat.strip_prefix("/chat/").unwrap();
    let session = house.run(&["sessions", "show", id]).succeeded().out;
    for part in ["the first", "first", "the second", "second"] {
        assert!(session.contains(part), "{session}");
    }
    let (_, model, _) = house.stop();
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn another_configuration_holds_at_once_and_one_without_chat_ends_it() {
    let script = [
        exec("echo ran > ran.txt"),
        answer("ran"),
        exec(ASKED),
        exec("echo ran > later.txt"),
        answer("kept from it"),
        exec(ASKED),
    ];
    let mut house = House::open(&script, "");
    let mut told = BufReader::new(house.child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut is_read = || assert!(told.any(|line| line.contains("was read anew")));
    let ann = house.person("ann");
    let chat = house.begin(&ann);
    house.talk(&ann, &chat, "run it");
    assert!(house.ran());
    // What runs under the one before, and waits, is stopped.
    house.say(&ann, &chat, "ask");
    house.question();
    house.reload(&config(&house.model, ON, NO_SHELL));
    is_read();
    let said = house.shown(&ann, &chat, "another configuration came into force");
    assert!(said.contains("stopped exec"), "{said}");
    house.shown(&ann, &chat, "The agent waits for you");
    let said = house.talk(&ann, &chat, "run it later");
    assert!(
        said.contains("The configuration was read anew.") && said.contains("denied by `house-rules`"),
        "{said}"
    );
    assert!(!house.user.work().join("later.txt").exists());
    house.reload(&config(&house.model, ON, ""));
    is_read();
    house.say(&ann, &chat, "ask again");
    let id = text(&house.question(), "id").to_owned();
    house.reload(&config(&house.model, "", ""));
    until("it is off", || {
        house.get(&ann, "/chat").1.contains("gateway: {console: {chat: true}}").then_some(())
    });
    assert_eq!(house.get(&ann, &chat).0, 404);
    assert_eq!(house.post(&ann, "/chat", &[]).0, 404);
    until("its question was withdrawn", || {
        let list = house.run(&["approvals", "list", "--json"]).succeeded().json();
        list.as_array().unwrap().iter().all(|one| one["id"] != id.as_str()).then_some(())
    });
    house.reload(&config(&house.model, ON, ""));
    until("it is on again", || (house.get(&ann, &chat).0 == 200).then_some(()));
    assert!(house.get(&ann, &chat).1.contains("Go on with it"));
    house.stop();
}

#[test]
fn a_run_ends_with_the_token_of_whoever_began_it() {
    let house = House::open(&[exec(ASKED), answer("unused")], "");
    let ann = house.person("ann");
    let chat = house.begin(&ann);
    house.say(&ann, &chat, "go");
    let id = text(&house.question(), "id").to_owned();
    house.run(&["token", "revoke", text(&ann.token, "id")]).succeeded();
    until("her session was over", || (house.get(&ann, &chat).0 == 401).then_some(()));
    until("what she asked was withdrawn", || {
        let list = house.run(&["approvals", "list", "--json"]).succeeded().json();
        list.as_array().unwrap().iter().all(|one| one["id"] != id.as_str()).then_some(())
    });
    // With another token of hers she finds what became of it.
    let again = house.person("ann");
    let said = house.shown(&again, &chat, "The agent waits for you");
    assert!(said.contains("whoever said this may talk no more") && !house.ran(), "{said}");
    house.stop();
}

/// A call that leaves a process running, which writes down its number.
fn left_running() -> String {
    call("exec", &json!({"command": "echo $$ > left.txt; sleep 600", "background": true}))
}

impl House {
    /// The process that a call left running, once it is there.
    fn left(&self) -> std::path::PathBuf {
        let file = self.user.work().join("left.txt");
        let process = until("something was left running", || {
            let id = std::fs::read_to_string(&file).ok()?;
            let process = std::path::Path::new("/proc").join(id.trim());
            (id.ends_with('\n') && process.is_dir()).then_some(process)
        });
        std::fs::remove_file(file).unwrap();
        process
    }
}

#[test]
fn what_a_run_left_running_ends_with_its_right_and_with_its_configuration() {
    let script = [
        left_running(),
        answer("left"),
        left_running(),
        exec(ASKED),
        left_running(),
        answer("left again"),
        answer("unused"),
    ];
    // Its number is that of this machine only where nothing is walled off.
    let house = House::open(&script, "sandbox: {mode: \"off\"}\n");
    let ann = house.person("ann");
    let chat = house.begin(&ann);
    house.talk(&ann, &chat, "leave one");
    let left = house.left();
    hang_up(&house.child);
    until("it ended with the configuration", || (!left.exists()).then_some(()));
    house.say(&ann, &chat, "leave one, and ask");
    let left = house.left();
    house.question();
    assert_eq!(house.post(&ann, &format!("{chat}/stop"), &[]).0, 303);
    until("it ended with its run", || (!left.exists()).then_some(()));
    house.shown(&ann, &chat, "The agent waits for you");
    let said = house.talk(&ann, &chat, "leave another");
    assert_eq!(said.matches("The configuration was read anew.").count(), 1, "{said}");
    let left = house.left();
    house.run(&["token", "revoke", text(&ann.token, "id")]).succeeded();
    until("her session was over", || (house.get(&ann, &chat).0 == 401).then_some(()));
    until("it ended with the token", || (!left.exists()).then_some(()));
    house.stop();
}

/// Leaves a process running that has no parents and not the mark of its call, and writes down its number.
const HIDDEN: &str = "(env -u BACKSTOP_EXEC_ID setsid sh -c 'echo $$ > left.txt; exec sleep 600' > /dev/null 2>&1 < /dev/null &); \
                      while [ ! -s left.txt ]; do sleep 0.05; done";

#[test]
fn what_hid_from_its_call_ends_with_the_conversation_and_not_with_another_one() {
    // Without a delegation there are no control groups to find it by, and the server says so.
    let Ok(group) = Group::create(&format!("backstop-test-chat-{}", std::process::id())) else { return };
    drop(group);
    let script = [exec(HIDDEN), answer("left"), exec(HIDDEN), answer("left another")];
    for sandbox in ["", "sandbox: {mode: \"off\"}\n"] {
        let house = House::open(&script, &format!("{NO_GUARDS}{sandbox}"));
        let (ann, bob) = (house.person("ann"), house.person("bob"));
        let (of_ann, of_bob) = (house.begin(&ann), house.begin(&bob));
        assert!(house.talk(&ann, &of_ann, "leave one").contains("Agent left"));
        let left = house.left();
        let grouped = std::fs::read_to_string(left.join("cgroup")).unwrap();
        assert!(grouped.contains("/backstop-run-"), "{grouped}");
        assert!(house.talk(&bob, &of_bob, "leave another").contains("Agent left another"));
        let other = house.left();
        assert_ne!(std::fs::read_to_string(other.join("cgroup")).unwrap(), grouped);
        assert_eq!(house.post(&ann, &format!("{of_ann}/leave"), &[]).0, 303);
        until("it ended with the conversation", || (!is_running(&left)).then_some(()));
        assert!(is_running(&other));
        house.stop();
        assert!(!is_running(&other));
        let group = grouped.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            assert!(!std::path::Path::new(&format!("{root}{group}")).exists(), "{group}");
        }
    }
}

/// Whether a process is there that has not ended. Where nobody collects it, one that has is there all the same.
fn is_running(process: &std::path::Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

#[test]
fn conversations_and_messages_are_bounded_and_it_is_said() {
    let script = [exec(ASKED), exec(ASKED), exec(ASKED), answer("unused")];
    let house = House::open(&script, "");
    let ann = house.person("ann");
    let chats = [(); 3].map(|()| house.begin(&ann));
    let long = "x".repeat(33 << 10);
    let (status, _, page) = house.post(&ann, &format!("{}/say", chats[0]), &[("message", &long)]);
    assert!(
        status == 409 && page.contains("A message has 32768 bytes at most, and this one has 33792."),
        "{}",
        words(&page)
    );
    let (status, _, page) = house.post(&ann, &format!("{}/say", chats[0]), &[("message", " \n")]);
    assert!(status == 409 && page.contains("Say something."), "{}", words(&page));
    for chat in &chats[1..] {
        house.say(&ann, chat, "go");
        house.shown(&ann, chat, "waits for an answer");
    }
    let (status, _, page) = house.post(&ann, &format!("{}/say", chats[1]), &[("message", "more")]);
    assert!(status == 409 && page.contains("still works on the message before"), "{}", words(&page));
    // A fourth takes the place of the one that does nothing; a fifth has none.
    let fourth = house.begin(&ann);
    assert!(house.get(&ann, &chats[0]).1.contains("Go on with it"));
    house.say(&ann, &fourth, "go");
    house.shown(&ann, &fourth, "waits for an answer");
    let (status, _, page) = house.post(&ann, "/chat", &[]);
    assert!(status == 409 && page.contains("works in 3 conversations of yours"), "{}", words(&page));
    assert_eq!(house.post(&house.person("bob"), "/chat", &[]).0, 303, "others have room");
    house.stop();
}

/// Variables of the server in which secrets are.
const VARIABLES: [(&str, &str); 2] = [("PLAIN_NAME", "operators"), ("MY_OWN_NAME", "third")];

/// What a tool finds of what the server knows.
const PROBE: &str = "#!/bin/sh
echo \"variables: [$PLAIN_NAME] [$MY_OWN_NAME] [$INHERITED_FINE]\"
echo \"server: $(tr '\\0' '\\n' < /proc/$PPID/environ 2>&1 | grep -c MY_OWN_NAME)\"
for file in \"$@\"; do echo \"file: [$(head -c 64 \"$file\" 2>/dev/null | tr '\\0\\n' '  ')]\"; done
for process in /proc/[0-9]*; do
  tr '\\0' '\\n' < $process/environ 2>/dev/null | grep -q ^MY_OWN_NAME= && echo \"environment of $process\"
done
";

/// A secret, put together so that no file holds one.
fn hush(word: &str) -> String {
    ["hush", "-", word, "-0123456789abcdef"].concat()
}

#[test]
fn tools_learn_nothing_that_only_the_server_knows_and_answer_nothing() {
    let user = User::new();
    let keys = user.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    std::fs::write(keys.join("provider.key"), hush("provider")).unwrap();
    std::fs::write(keys.join("bell.secret"), hush("bell")).unwrap();
    std::fs::write(user.work().join("probe.sh"), PROBE).unwrap();
    let data = user.path().join("data/backstop");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("witness.key"), hush("witness")).unwrap();
    let files = [
        keys.join("provider.key"),
        keys.join("bell.secret"),
        data.join("backstop.db"),
        data.join("witness.key"),
    ];
    let listed: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let answering = format!(
        "{BACKSTOP} approvals approve AAAA; env -u BACKSTOP_EXEC_ID {BACKSTOP} allow-once AAAA; true"
    );
    let script = [exec(&format!("sh probe.sh {}", listed.join(" "))), exec(&answering), answer("looked")];
    let model = ModelServer::start(&user, &script.join("\n"));
    let more = format!(
        "{NO_GUARDS}approvals: {{surfaces: {{webhook: {{bell: {{url: 'http://127.0.0.1:9/', secret_file: {0}/bell.secret, allow_private: true}}}}}}}}\n",
        keys.display()
    );
    let text_of = |model: &ModelServer, operators: &str| {
        config(model, ON, &more)
            .replace(
                "gateway: {",
                &format!("gateway: {{operators: {{token: {operators}}}, "),
            )
            .replace(
                "providers: {",
                &format!(
                    "providers: {{ other: {{api: anthropic, api_key_file: {0}/provider.key}}, third: {{api: openai-chat, api_key_env: MY_OWN_NAME}}, ",
                    keys.display()
                ),
            )
    };
    user.configure(&text_of(&model, "'${PLAIN_NAME}'"));
    let mut command = user.command(&["serve", "--json", "--port", "0"]);
    command.env("INHERITED_FINE", "fine");
    for (name, word) in VARIABLES {
        command.env(name, hush(word));
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let server = serde_json::from_str(&line).unwrap();
    let house = House { user, model, child, server };
    let ann = house.person("ann");
    let chat = house.begin(&ann);
    let said = house.talk(&ann, &chat, "look around");
    assert!(said.contains("Agent looked"), "{said}");
    let id = chat.strip_prefix("/chat/").unwrap();
    let session = house.run(&["sessions", "show", id, "--json"]).succeeded().out;
    assert!(session.contains("variables: [] [] [fine]"), "{session}");
    assert!(!session.contains("environment of /proc"), "{session}");
    for secret in ["operators", "third", "provider", "bell", "witness"] {
        assert!(!session.contains(&hush(secret)), "{secret}: {session}");
    }
    assert_eq!(session.matches("file: []").count(), files.len(), "{session}");
    // Whatever it tries by the command line is not a person's.
    assert!(session.contains("`BACKSTOP_EXEC_ID` is set"), "{session}");
    assert!(session.contains("is `backstop serve`"), "{session}");
    // A secret in the configuration itself would be readable.
    house.reload(&text_of(&house.model, &hush("operators")));
    until("nobody may talk", || {
        let page = words(&house.get(&ann, "/chat").1);
        page.contains("secrets that stand in the configuration itself").then_some(())
    });
    let (status, _, page) = house.post(&ann, "/chat", &[]);
    assert!(status == 409 && !page.contains(&hush("operators")), "{}", words(&page));
    let (_, _, ended) = house.stop();
    assert!(!ended.err.contains(&hush("operators")), "{}", ended.err);
}

#[test]
fn nobody_talks_where_nothing_can_be_confined_as_configured() {
    let house = House::open(&[answer("unused")], "sandbox: {mode: \"off\", sockets: []}\n");
    let ann = house.person("ann");
    let (status, _, page) = house.post(&ann, "/chat", &[]);
    assert!(status == 409 && page.contains("`sandbox.mode` is `off`"), "{}", words(&page));
    // Tools that touch files are in front of the walls, so that nothing of the server's may lie where they work.
    let home = format!("agent: {{ workspace: '{}', ", house.user.path().display());
    house.reload(&config(&house.model, ON, "").replace("agent: {", &home));
    until("it lies in the workspace", || {
        let (status, _, page) = house.post(&ann, "/chat", &[]);
        let said = words(&page);
        (status == 409 && said.contains("in it, which its tools must not touch")).then_some(())
    });
    house.stop();
}
