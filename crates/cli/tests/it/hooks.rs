//! `backstop hooks`.

use super::support::{User, snapshot};

#[test]
fn without_configuration_the_built_in_hooks_stand() {
    snapshot!(User::new().run(&["hooks"]).succeeded().out);
}

#[test]
fn configured_hooks_are_shown_with_budget_and_failure_policy() {
    let user = User::with_config(
        "\
hooks:
  tool_call:
    pre_call:
      - type: policy
        id: house-rules
        timeoutMs: 50
        config: {deny_tools: [canvas]}
      - type: passthrough
    post_call:
      - type: webhook
        config: {url: 'http://127.0.0.1:9/hook'}
  on_failure:
    house-rules: allow
guards:
  sensitive_files: {enabled: false}
",
    );
    snapshot!(user.run(&["hooks"]).succeeded().out);
}

#[test]
fn a_guard_is_switched_off_as_a_plugin_too() {
    let user = User::with_config("plugins: {entries: {'builtin:security-audit': {enabled: false}}}\n");
    let hooks = user.run(&["hooks"]).succeeded().out;
    assert!(!hooks.contains("security-audit") && hooks.contains("command-safety-guard"), "{hooks}");
}

#[test]
fn budgets_of_built_in_hooks_are_the_operators() {
    let user = User::with_config(
        "\
plugins:
  entries:
    'builtin:command-safety-guard':
      hooks: {timeoutMs: 700, timeouts: {tool.before: 300}}
    'builtin:security-audit':
      hooks: {timeoutMs: 700}
",
    );
    let points = user.run(&["hooks", "--json"]).succeeded().json();
    let at = points.as_array().unwrap().iter().find(|at| at["name"] == "tool.before").unwrap();
    let budget = |hook: usize| {
        let hook = &at["hooks"][hook];
        (hook["budgetMs"].as_u64().unwrap(), hook["budgetSource"].as_str().unwrap().to_owned())
    };
    assert_eq!(budget(0), (300, "operator-point".to_owned()));
    assert_eq!(budget(1), (700, "operator-owner".to_owned()));
}

#[test]
fn points_without_hooks_are_shown_on_request() {
    let user = User::new();
    let all = user.run(&["hooks", "--all"]).succeeded().out;
    assert!(all.contains("before_llm_call"), "{all}");
    assert!(all.contains("fired by no host yet"), "{all}");
    snapshot!(user.run(&["hooks", "--point", "resolve_exec_env"]).succeeded().out, @r"
    resolve_exec_env (decide, 15.0 s, goes on)
      fired by agent
      no hooks
    ");
    snapshot!(user.run(&["hooks", "--point", "cron_changed"]).succeeded().out, @r"
    cron_changed
      fired by no host yet
    ");
    snapshot!(user.run(&["hooks", "--point", "tool.befor"]).whole(), @r"
    exit: 2
    --- stdout
    --- stderr
    error: unknown hook point `tool.befor`
    hint: did you mean `tool.before`?
    ");
}

#[test]
fn json_lists_points_with_their_hooks_in_running_order() {
    let points = User::new().run(&["hooks", "--json"]).succeeded().json();
    let before = points.as_array().unwrap().iter().find(|point| point["name"] == "tool.before").unwrap();
    let ids: Vec<_> =
        before["hooks"].as_array().unwrap().iter().map(|hook| hook["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["builtin:command-safety-guard", "builtin:security-audit"]);
}

#[test]
fn every_point_says_which_hosts_fire_it() {
    let points = User::new().run(&["hooks", "--all", "--json"]).succeeded().json();
    let hosts = |point: &str| {
        let at = points.as_array().unwrap().iter().find(|at| at["name"] == point).unwrap();
        at["hosts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|host| host.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(hosts("gateway_start"), ["gateway"]);
    assert_eq!(hosts("resolve_exec_env"), ["agent"]);
    assert_eq!(hosts("message_sending"), Vec::<String>::new());
    assert!(hosts("after_tool_call").contains(&"claude".to_owned()));
    assert!(!hosts("after_tool_call").contains(&"gateway".to_owned()));
    let text = User::new().run(&["hooks", "--point", "message_sending"]).succeeded().out;
    assert!(text.contains("fired by no host yet"), "{text}");
}
