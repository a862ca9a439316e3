//! Writing a hook: closures that answer now or later, and what a hook is given besides its event.

use std::time::{Duration, Instant};

use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{
    Answer, CallContext, Context, Hook, HookError, HookResult, Json, Malformed, Outcome, Point, SessionKey,
    async_hook_fn, hook_fn,
};
use serde_json::json;

use crate::sample::Sample;
use crate::wire::now;

fn ask(
    hook: &dyn Hook<BeforeToolCall>,
    call: &CallContext,
    deadline: Option<Instant>,
) -> HookResult<BeforeToolCall> {
    let event = Sample::of("before_tool_call").event::<BeforeToolCall>();
    let config = Json::new(json!({"limit": 3}));
    match hook.call(&event, Context { call, plugin_config: &config, deadline, evidence: None, forms: None }) {
        Answer::Now(result) => result,
        Answer::Later(future) => now::<BeforeToolCall>(future),
    }
}

#[test]
fn a_closure_answers_at_once_and_sees_event_context_and_configuration() {
    let hook = hook_fn::<BeforeToolCall, _>(|event, cx| {
        assert_eq!(event.tool_name.canonical(), "exec");
        assert_eq!(cx.plugin_config.get("limit"), Some(&json!(3)));
        Ok(cx.call.session_key.as_ref().map(|key| ToolCallOutcome::block(key.as_str())))
    });
    let known = CallContext { session_key: Some(SessionKey::new("chat:42")), ..CallContext::default() };
    assert_eq!(ask(&*hook, &known, None).unwrap().unwrap().block_reason().unwrap(), "chat:42");
    assert_eq!(ask(&*hook, &CallContext::default(), None), Ok(None));
}

#[test]
fn a_future_has_its_own_copy_of_what_it_needs() {
    let hook = async_hook_fn::<BeforeToolCall, _, _>(|event, cx| async move {
        assert_eq!(cx.plugin_config.get("limit"), Some(&json!(3)));
        Ok(Some(ToolCallOutcome::rewrite(event.params)))
    });
    let rewritten = ask(&*hook, &CallContext::default(), None).unwrap().unwrap();
    let event = Sample::of("before_tool_call").event::<BeforeToolCall>();
    assert_eq!(rewritten.params, Some(event.params));
}

#[test]
fn a_hook_can_see_how_much_time_it_has() {
    let hook = hook_fn::<BeforeToolCall, _>(|_, cx| match cx.remaining() {
        None => Ok(None),
        Some(Duration::ZERO) => Err(HookError::failed("too late")),
        Some(left) => {
            assert!(left <= Duration::from_secs(5));
            Ok(Some(ToolCallOutcome::default()))
        }
    });
    let call = CallContext::default();
    let now = Instant::now();
    assert_eq!(ask(&*hook, &call, None), Ok(None));
    assert!(ask(&*hook, &call, Some(now + Duration::from_secs(5))).unwrap().is_some());
    assert_eq!(ask(&*hook, &call, Some(now)), Err(HookError::Failed("too late".to_owned())));
}

#[test]
fn a_failed_hook_says_how() {
    let malformed: HookError = Malformed::new("`params` is no object").into();
    assert_eq!(malformed.to_string(), "malformed answer: `params` is no object");
    assert_eq!(
        HookError::Unreachable("connection refused".to_owned()).to_string(),
        "unreachable: connection refused"
    );
    assert!(<BeforeToolCall as Point>::Outcome::from_json(json!({"block": "yes"})).is_err());
}
