//! What a receipt says of a dispatch: whose it was, how long it took, how hooks failed, and nothing that hooks quote.

use std::time::Duration;

use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{FailurePolicy, HookError, async_hook_fn, hook_fn};
use serde_json::{Value, json};

use crate::support::{block_on, command, on, on_failing, params, permit, tool_call, watched};

/// What is kept of a hook that failed with `message` when it judged `arguments`.
fn kept_of(message: &str, arguments: Value) -> String {
    let (engine, kept) = watched();
    let message = message.to_owned();
    let hook = hook_fn::<BeforeToolCall, _>(move |_, _| Err(HookError::failed(&message)));
    on(&engine, "fails", 0, hook);
    block_on(permit(&engine, tool_call("exec", arguments))).permit.unwrap_err();
    kept.take()[0].steps[0].failure.as_ref().unwrap().to_string()
}

#[test]
fn law_08_what_a_failed_hook_says_is_kept_unless_it_quotes_what_it_judged() {
    let long = "a long text of which a hook quotes a part only";
    let failed = "no server";
    assert!(kept_of(failed, json!({ "command": "ls" })).contains(failed));
    for (message, arguments, is_kept) in [
        ("can't read hunter", json!({ "command": "hunter" }), false),
        ("can't read hunter", json!({ "command": " hunter\n" }), false),
        ("can't read hunt", json!({ "command": "hunt" }), true),
        ("can't read hunter", json!({ "command": "ls", "args": [1, null, { "of": ["hunter"] }] }), false),
        ("of which a hook quotes a part", json!({ "command": long }), false),
        ("a hook", json!({ "command": long }), true),
    ] {
        let kept = kept_of(message, arguments.clone());
        assert_eq!(kept.contains(message), is_kept, "{message} of {arguments}: {kept}");
        assert_eq!(kept.contains("quotes what it judged"), !is_kept, "{kept}");
    }
}

#[test]
fn law_08_no_cut_hides_that_a_failed_hook_quotes_what_it_judged() {
    let secret = "q1w2-e3r4-t5y6-u7i8";
    for before in 260..320 {
        let message = format!("{} {secret} is wrong, and so on", "-".repeat(before));
        let kept = kept_of(&message, json!({ "command": secret }));
        assert!(!kept.contains("q1w2"), "{before}: {kept}");
    }
}

#[test]
fn law_08_steps_say_only_what_is_so() {
    let (engine, kept) = watched();
    on_failing::<BeforeToolCall>(
        &engine,
        "fails",
        FailurePolicy::Open,
        hook_fn(|_, _| Err(HookError::failed("no server"))),
    );
    let rewrite = hook_fn::<BeforeToolCall, _>(|event, _| {
        let rewrite = || ToolCallOutcome::rewrite(params(json!({ "command": "ls" })));
        Ok((command(event) != "ls").then(rewrite))
    });
    on(&engine, "rewrites", -1, rewrite);
    block_on(permit(&engine, tool_call("exec", json!({ "command": "x" })))).permit.unwrap();
    let receipt = serde_json::to_value(&kept.take()[0]).unwrap();
    let flags = |step: usize, flag: &str| receipt["steps"][step].get(flag).cloned();
    for (step, again, passed) in [(0, None, Some(json!(true))), (1, None, None)] {
        assert_eq!(flags(step, "again"), again, "{receipt}");
        assert_eq!(flags(step, "passedDespiteFailure"), passed, "{receipt}");
    }
    assert_eq!(flags(2, "again"), Some(json!(true)), "{receipt}");
}

#[test]
fn law_08_a_receipt_says_how_long_the_hooks_took() {
    let (engine, kept) = watched();
    let slow = async_hook_fn::<BeforeToolCall, _, _>(|_, _| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(None)
    });
    on(&engine, "slow", 0, slow);
    block_on(permit(&engine, tool_call("exec", json!({ "command": "ls" })))).permit.unwrap();
    let receipt = serde_json::to_value(&kept.take()[0]).unwrap();
    assert!(receipt["elapsedUs"].as_u64() >= Some(5_000), "{receipt}");
    assert!(receipt["steps"][0]["elapsedUs"].as_u64() >= Some(5_000), "{receipt}");
}

/// An id is unlike those of other processes, and says where it comes in this one.
#[test]
fn law_08_the_id_of_a_receipt_begins_with_what_only_this_process_has() {
    let (engine, kept) = watched();
    for _ in 0..2 {
        block_on(permit(&engine, tool_call("exec", json!({})))).permit.unwrap();
    }
    let ids: Vec<_> = kept.take().iter().map(backstop_engine::Receipt::id).collect();
    let parts: Vec<_> = ids.iter().filter_map(|id| id.split_once('-')).collect();
    assert_eq!(parts[0].0, parts[1].0);
    let is_hex = parts[0].0.chars().all(|digit| digit.is_ascii_hexdigit());
    assert!(parts[0].0.len() == 32 && is_hex, "{ids:?}");
    let place = |at: usize| parts[at].1.parse::<u64>().unwrap();
    assert_eq!(place(1), place(0) + 1);
}
