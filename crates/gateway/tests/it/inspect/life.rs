//! What the proxy declares to fire is what it fires, and the life of the server and of its conversations is told.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use backstop_gateway::Gateway;
use backstop_gateway::inspect::{HookSettings, Hooks, TextMode, ToolCalls, Unasked, host_profile};
use backstop_hooks::points::*;
use backstop_hooks::{Honour, Point, PointId, for_each_point, hook_fn};
use backstop_llm::Api;
use serde_json::json;

use super::support::{House, ask, forms, model, send, send_to, settings_of};
use crate::support::{Script, Upstream, eventually, start};

type Fired = Arc<Mutex<BTreeSet<PointId>>>;

fn watch<P: Point>(house: &House, fired: &Fired) {
    let fired = Arc::clone(fired);
    house.on::<P>(
        P::INFO.name,
        hook_fn::<P, _>(move |_, _| {
            fired.lock().unwrap().insert(P::INFO.id);
            Ok(None)
        }),
    );
}

macro_rules! watch_all {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal, $injection:literal,
       $event:ident, $outcome:ident, $summary:literal;)*) => {
        fn watch_all(house: &House, fired: &Fired) {
            $(watch::<$point>(house, fired);)*
        }
    };
}
for_each_point!(watch_all);

async fn serve(house: &House, url: &str, settings: HookSettings) -> (Gateway, Hooks) {
    let hooks = Hooks::new(house.engine.clone(), settings).unwrap();
    let gateway = start(settings_of(url), hooks.clone()).await.unwrap();
    hooks.started(gateway.address().port());
    (gateway, hooks)
}

/// An answer that cites something which a tool of the provider's brought in.
async fn cited(house: &House, settings: HookSettings) {
    let message = json!({"role": "assistant", "content": "fine", "annotations": [{"type": "url_citation"}]});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let body = json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}).to_string();
    let upstream = Upstream::start(move |_| Script::json("200 OK", &body)).await;
    let (gateway, _) = serve(house, &upstream.url(), settings).await;
    send(&gateway, Api::OpenAiChat, &ask(Api::OpenAiChat, false, "hi")).await;
}

#[tokio::test]
async fn law_07_every_point_that_the_proxy_declares_is_fired_and_no_other() {
    let leave = HookSettings { tool_calls: ToolCalls::Leave, ..HookSettings::default() };
    for settings in [HookSettings::default(), leave] {
        let declared: BTreeSet<PointId> = host_profile(&settings).points().collect();
        for (api, stream) in forms() {
            let (house, fired) = (House::new(), Fired::default());
            watch_all(&house, &fired);
            let call = json!({"id": "call-exec-00001", "name": "exec", "arguments": {"command": "true"}});
            let model = model(json!([{"repeat": true, "text": "fine", "tool_calls": [call]}])).await;
            let (gateway, hooks) = serve(&house, &model.base_url(), settings.clone()).await;
            send_to(&gateway, api, stream, &ask(api, stream, "hi")).await;
            gateway.shut_down().await;
            hooks.stopped("shutdown").await;
            cited(&house, settings.clone()).await;
            eventually("all points were fired", || fired.lock().unwrap().len() >= declared.len()).await;
            assert_eq!(*fired.lock().unwrap(), declared, "{api} {stream}");
        }
    }
}

#[test]
fn what_the_proxy_cant_honour_is_declared_by_its_settings() {
    let ask = |tool_calls| {
        let host = host_profile(&HookSettings { tool_calls, ..HookSettings::default() });
        host.honour(PointId::BeforeToolCall, "requireApproval")
    };
    assert!(matches!(ask(ToolCalls::Judge(Unasked::Deny)), Some(Honour::Stricter(_))));
    assert!(matches!(ask(ToolCalls::Judge(Unasked::Leave)), Some(Honour::Ignored(_))));
    assert_eq!(ask(ToolCalls::Leave), None);
    let passing = host_profile(&HookSettings { text: Some(TextMode::Pass), ..HookSettings::default() });
    assert!(matches!(passing.honour(PointId::BeforeResponseEmit, "block"), Some(Honour::Ignored(_))));
    for host in [passing, host_profile(&HookSettings::default())] {
        for (point, field, _) in host.exceptions() {
            assert!(host.honour(point, field).is_some(), "`{field}` is a field at {point}");
        }
    }
}

#[tokio::test]
async fn a_conversation_begins_once_and_ends_with_the_server() {
    let house = House::new();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let said = Arc::clone(&told);
    house.on::<SessionStart>(
        "start",
        hook_fn::<SessionStart, _>(move |event, cx| {
            assert_eq!(cx.call.session_id.as_ref(), Some(&event.session_id));
            said.lock().unwrap().push(format!("{} begins", event.session_id));
            Ok(None)
        }),
    );
    let said = Arc::clone(&told);
    house.on::<SessionEnd>(
        "end",
        hook_fn::<SessionEnd, _>(move |event, _| {
            let line = format!("{} ends: {:?}, {}", event.session_id, event.reason, event.message_count);
            said.lock().unwrap().push(line);
            Ok(None)
        }),
    );
    let model = model(json!([{"repeat": true, "text": "fine"}])).await;
    let (gateway, hooks) = serve(&house, &model.base_url(), HookSettings::default()).await;
    let mut body = ask(Api::OpenAiChat, false, "hi");
    body["metadata"] = json!({"session_id": "s-1"});
    send(&gateway, Api::OpenAiChat, &body).await;
    body["messages"] = json!([
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "fine"}, {"role": "user", "content": "more"},
    ]);
    send(&gateway, Api::OpenAiChat, &body).await;
    eventually("the beginning was told", || !told.lock().unwrap().is_empty()).await;
    gateway.shut_down().await;
    hooks.stopped("shutdown").await;
    assert_eq!(*told.lock().unwrap(), ["s-1 begins", "s-1 ends: Shutdown, 3"]);
}

#[tokio::test]
async fn the_server_tells_where_it_listens_and_why_it_stops() {
    let house = House::new();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let said = Arc::clone(&told);
    house.on::<GatewayStart>(
        "start",
        hook_fn::<GatewayStart, _>(move |event, _| {
            said.lock().unwrap().push(format!("start {}", event.port));
            Ok(None)
        }),
    );
    let said = Arc::clone(&told);
    house.on::<GatewayStop>(
        "stop",
        hook_fn::<GatewayStop, _>(move |event, _| {
            said.lock().unwrap().push(format!("stop {}", event.reason.as_deref().unwrap_or_default()));
            Ok(None)
        }),
    );
    let model = model(json!([{"text": "fine"}])).await;
    let (gateway, hooks) = serve(&house, &model.base_url(), HookSettings::default()).await;
    let port = gateway.address().port();
    eventually("the start was told", || !told.lock().unwrap().is_empty()).await;
    gateway.shut_down().await;
    hooks.stopped("shutdown").await;
    assert_eq!(*told.lock().unwrap(), [format!("start {port}"), "stop shutdown".to_owned()]);
}
