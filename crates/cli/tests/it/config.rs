//! `backstop config`, and what wrong configurations get.

use super::support::{User, snapshot};

#[test]
fn all_problems_are_reported_together_with_their_places() {
    let user = User::with_config(
        "\
guards:
  command_safety:
    profil: strict
hooks:
  tool_call:
    pre_call:
      - type: polcy
      - type: policy
        config: {deny_tools: []}
agent:
  provider: nobody
",
    );
    snapshot!(user.run(&["config", "check"]).whole());
}

#[test]
fn what_only_wiring_finds_has_its_place_too() {
    let user = User::with_config(
        "\
guards:
  command_safety:
    allow:
      - rule: git.hook-bypas
        reason: typo
  sensitive_files:
    deny: ['a[']
hooks:
  tool_call:
    pre_call:
      - type: policy
        config:
          deny_tools: ['group:fss']
      - type: policy
        config:
          deny_argument_patterns: {command: ['(']}
      - type: webhook
        config: {url: nonsense}
",
    );
    snapshot!(user.run(&["config", "check"]).whole());
}

#[test]
fn a_rule_pack_is_yaml_and_its_mistakes_have_their_places() {
    const HEAD: &str = "# ours\n- id: own.deploy\n  severity: warning\n  verdict: ask\n  profile: core\n  reason: deploys\n  \
                        code: DEPLOY\n";
    let user = User::with_config("guards: {command_safety: {packs: [packs/ours.yaml]}}\n");
    let file = user.path().join("config/backstop/packs/ours.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let checked = |rest: &str| {
        std::fs::write(&file, format!("{HEAD}{rest}")).unwrap();
        user.run(&["config", "check"]).whole()
    };
    let whole = "  when:\n    - run: {program: [deploy]}\n  match: [deploy prod]\n";
    for (text, place, hint) in [
        (whole.replace("program", "programm"), "ours.yaml:9:13", "did you mean `program`?"),
        (whole.replace("run", "rum"), "ours.yaml:9:7", "did you mean `run`?"),
        (whole.replace("[deploy prod]", "[ls]"), "ours.yaml:2:3", "not triggered by its own example `ls`"),
        (format!("{whole}{}{whole}", HEAD.replace("# ours", "")), "ours.yaml:12:3", "defined twice"),
    ] {
        let said = checked(&text);
        assert!(said.contains(place) && said.contains(hint), "{text}: {said}");
    }
    let said = checked(whole);
    assert!(!said.contains("error"), "{said}");
    let said = user.run(&["check", "--tool", "exec", "--args", r#"{"command": "deploy prod"}"#]).whole();
    assert!(said.contains("own.deploy"), "{said}");
}

#[test]
fn operators_add_programs_of_their_own() {
    let user = User::with_config(
        "guards: {command_safety: {programs: [ours.yaml], packs: [{id: own.deploy, severity: warning, verdict: ask, \
         profile: core, reason: deploys, code: DEPLOY, source: our deploy 3, when: [{run: {program: [deploy]}}], \
         match: [with-db orders deploy], no_match: [with-db deploy orders]}]}}\n",
    );
    let file = user.path().join("config/backstop/ours.yaml");
    let entry = "- names: [with-db]\n  source: with-db 2, its README\n  starts: {after: 1}\n  \
                 match: [with-db orders rm x => starts rm x]\n  no_match: [with-db rm x => starts rm x]\n";
    for (text, place, hint) in [
        (entry.replace("starts:", "start:"), "ours.yaml:3:3", "did you mean `starts`?"),
        (entry.replace("with-db]", "curl]"), "ours.yaml:1:3", "`curl` has an entry already"),
        (entry.replace("after: 1", "after: 0"), "ours.yaml:1:3", "should be true of `with-db orders rm x`"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let said = user.run(&["config", "check"]).whole();
        assert!(said.contains(place) && said.contains(hint), "{text}: {said}");
    }
    std::fs::write(&file, entry).unwrap();
    let judged = |command: &str| {
        let call = format!(r#"{{"command": "{command}"}}"#);
        user.run(&["check", "--tool", "exec", "--args", &call]).whole()
    };
    assert!(judged("with-db orders deploy prod").contains("own.deploy"));
    assert!(!judged("other-db orders deploy prod").contains("own.deploy"));
}

#[test]
fn operators_add_formats_of_secrets_and_numbers() {
    let user = User::with_config(
        "guards: {secrets: {formats: [ours.yaml], kinds: {acme_token: block}}, personal_data: {formats: [{kind: acme_member, what: a \
         member, source: a handbook, words: [member], formats: ['<digit:8>'], matches: ['member <digit:8>'], near_misses: ['order \
         <digit:8>']}], kinds: {acme_member: mask}}}\n",
    );
    let file = user.path().join("config/backstop/ours.yaml");
    let entry = "- kind: acme_token\n  what: a token\n  source: a handbook\n  formats: ['acme_<alnum:20>']\n  matches: ['use \
                 acme_<alnum:20>']\n  near_misses: ['acme_<alnum:19>']\n";
    for (from, to, place, hint) in [
        ("what:", "wat:", "ours.yaml:2:3", "did you mean `what`?"),
        (
            "<alnum:20>']\n  matches",
            "<alnm:20>']\n  matches",
            "ours.yaml:4:13",
            "no alphabet is called `alnm`",
        ),
        ("alnum:19", "alnum:20", "ours.yaml:6:17", "is found in"),
        ("acme_token", "acme_tokens", "backstop.yaml:1:", "no kind of secret is called `acme_token`"),
    ] {
        std::fs::write(&file, entry.replace(from, to)).unwrap();
        let said = user.run(&["config", "check"]).whole();
        assert!(said.contains(place) && said.contains(hint), "{to}: {said}");
    }
    std::fs::write(&file, entry).unwrap();
    let said = user.run(&["config", "check"]).whole();
    assert!(!said.contains("error"), "{said}");
}

#[test]
fn ids_that_belong_to_nobody_are_refused() {
    let user = User::with_config(
        "hooks: {on_failure: {house-rules: allow}}\nplugins: {entries: {'builtin:security-audi': {enabled: false}}}\n",
    );
    snapshot!(user.run(&["hooks"]).whole());
}

#[test]
fn problems_as_json() {
    let user = User::with_config("guards: {command_safety: {profil: strict}}\n");
    let done = user.run(&["config", "check", "--json"]);
    assert_eq!(done.code, Some(2));
    let told = done.json();
    assert_eq!(told["ok"], false);
    assert_eq!(told["problems"][0]["kind"], "unknown_key");
    assert_eq!(told["problems"][0]["line"], 1);
    assert_eq!(told["problems"][0]["hint"], "did you mean `profile`?");
}

#[test]
fn nothing_wrong() {
    snapshot!(User::new().run(&["config", "check"]).whole(), @r"
    exit: 0
    --- stdout
    no problems: the built-in defaults
    --- stderr
    ");
    let user = User::with_config("guards: {command_safety: {profile: strict}}\n");
    snapshot!(user.run(&["config", "check"]).whole(), @r"
    exit: 0
    --- stdout
    no problems: `[user]/config/backstop/backstop.yaml`
    --- stderr
    ");
}

/// What the gateway could pay with is looked for only when it begins: whoever checks hears of it before.
#[test]
fn credentials_that_are_missing_or_not_the_operators_are_told_of() {
    let user = User::new();
    let shared = user.path().join("shared.json");
    std::fs::write(&shared, "{}").unwrap();
    std::fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    user.configure(&format!(
        "\
providers:
  gone: {{api: gemini, cloud: vertex, region: r, project: p, google_credentials_file: no.json}}
  shared: {{api: gemini, cloud: vertex, region: r, project: p, google_credentials_file: {}}}
  lost: {{api: gemini, cloud: vertex, region: r, project: p, token_command: [no-such-program]}}
  profile: {{api: anthropic, cloud: bedrock, region: r, aws_profile: work}}
  fine: {{api: gemini, cloud: vertex, region: r, project: p, token_command: [/bin/true]}}
  keyed: {{api: openai-chat, api_key_env: NO_KEY}}
",
        shared.display()
    ));
    let said = user.run(&["config", "check"]).succeeded().err;
    let of = |provider: &str| {
        said.lines().filter(|line| line.starts_with(&format!("warning: provider `{provider}` at "))).count()
    };
    let told = ["gone", "shared", "lost", "profile", "fine", "keyed"].map(of);
    assert_eq!(told, [1, 1, 1, 2, 0, 0], "{said}");
    assert!(said.contains("no.json` is not there\nhint: it is looked for when the gateway begins"), "{said}");
    assert!(said.contains("backstop.yaml:2:"), "{said}");
    assert!(
        said.contains("`no-such-program` is not there") && said.contains("shared.json` does not count"),
        "{said}"
    );
    let json = user.run(&["config", "check", "--json"]).succeeded().json();
    assert_eq!(json["warnings"].as_array().unwrap().len(), 5, "{json}");
    assert_eq!((&json["ok"], &json["warnings"][0]["provider"]), (&true.into(), &"gone".into()), "{json}");
}

#[test]
fn a_repository_only_tightens_and_is_told_what_had_no_effect() {
    let user = User::new();
    std::fs::write(
        user.work().join("backstop.yaml"),
        "guards: {command_safety: {enabled: false, profile: strict}}\n",
    )
    .unwrap();
    snapshot!(user.run(&["check", "--tool", "exec", "--args", r#"{"command": "git branch -D topic"}"#]).whole(), @r"
    exit: 0
    --- stdout
    ask by builtin:command-safety-guard: run a command that needs a look: deletes a branch that may not be merged [GIT_BRANCH_DELETE]: git branch -D topic; safer: git branch -d x (rule git.branch-delete)
    --- stderr
    ignored: `guards.command_safety.enabled` at [user]/work/backstop.yaml:1:36 has no effect: it would be less strict than the value in force
    ");
    let shown = user.run(&["config", "show"]).succeeded().out;
    assert!(shown.contains("guards.command_safety.profile = \"strict\""), "{shown}");
    assert!(shown.contains("without effect:"), "{shown}");
}

#[test]
fn show_never_prints_a_secret() {
    let secret = ["made", "up", "secret"].join("-");
    let user = User::with_config("providers: {p: {api: anthropic, api_key: '${DEMO_KEY}'}}\n");
    for args in [&["config", "show"][..], &["config", "show", "--json"]] {
        let child = user.command(args).env("DEMO_KEY", &secret).spawn().unwrap();
        let done = super::support::done(child).succeeded();
        assert!(!done.out.contains(&secret), "{}", done.whole());
        assert!(done.out.contains("DEMO_KEY"), "{}", done.whole());
    }
}

#[test]
fn the_schema_is_json() {
    let schema = User::new().run(&["config", "schema"]).succeeded().json();
    assert_eq!(schema["title"], "backstop.yaml");
}

#[test]
fn an_explicit_file_that_is_missing_is_refused() {
    snapshot!(User::new().run(&["--config", "no.yaml", "hooks"]).whole(), @r"
    exit: 2
    --- stdout
    --- stderr
    error: the configuration file cannot be read: No such file or directory (os error 2)
      --> no.yaml
    ");
}

#[test]
fn it_is_said_what_an_outage_of_each_webhook_means() {
    let user = User::with_config(
        "\
hooks:
  tool_call:
    pre_call:
      - {type: webhook, config: {url: 'http://127.0.0.1:9/'}}
      - {type: webhook, id: lenient, config: {url: 'http://127.0.0.1:9/', fail_open: true}}
      - {type: webhook, id: overruled, config: {url: 'http://127.0.0.1:9/', fail_open: true}}
    post_call:
      - {type: webhook, id: watcher, config: {url: 'http://127.0.0.1:9/'}}
  llm_call:
    pre_call:
      - {type: webhook, id: models, on_failure: allow, config: {url: 'http://127.0.0.1:9/'}}
  on_failure: {overruled: block}
",
    );
    let lines = [
        "webhook hooks.tool_call.pre_call[0]: an outage blocks the call (default)",
        "webhook lenient: an outage lets the call through, marked in its receipt (entry)",
        "webhook overruled: an outage blocks the call (hooks.on_failure)",
        "webhook watcher: an outage changes nothing",
        "webhook models: an outage lets the call through, marked in its receipt (entry)",
    ];
    for command in [&["config", "check"], &["hooks"][..]] {
        let out = user.run(command).succeeded().out;
        let said: Vec<&str> = out.lines().filter(|line| line.starts_with("webhook ")).collect();
        assert_eq!(said, lines, "{command:?}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&user.run(&["config", "check", "--json"]).succeeded().out).unwrap();
    let said: Vec<_> = json["webhooks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|webhook| (&webhook["outage"], &webhook["source"]))
        .collect();
    assert_eq!(said[0], (&"blocks".into(), &"default".into()));
    assert_eq!(said[1], (&"lets-through".into(), &"entry".into()));
    assert_eq!(said[3].0, "nothing");
}

#[test]
fn a_name_that_nobody_knows_loads_and_a_typo_is_a_hint() {
    let user = User::with_config(
        "hooks: {tool_call: {pre_call: [{type: policy, config: {deny_tools: ['run_*', send_email, exce]}}]}}\n",
    );
    for command in [vec!["config", "check"], vec!["hooks"]] {
        let told = user.run(&command).whole();
        assert!(told.contains("exit: 0") && told.contains("did you mean `exec`?"), "{told}");
        assert!(!told.contains("send_email`;") && !told.contains("run_*`;"), "{told}");
    }
}
