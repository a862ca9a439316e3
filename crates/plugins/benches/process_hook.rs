//! What a hook costs that is a program which stays: one event there and its answer back.
//!
//! The program is the smallest that reads a line and answers it; what is measured is ours, and two turns of the system's
//! scheduler.

#![expect(clippy::unwrap_used, reason = "a bench may fail loudly")]

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_engine::{Attendance, Engine, OperatorSettings, Snapshot};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, Json, Params};
use backstop_plugins::external::process::{Limits, ProcessPlugin, ProcessSettings};
use backstop_plugins::registration::Registration;
use serde_json::json;
use tokio::runtime::Runtime;

/// Reads a line, finds the number in it, answers. Every request of ours begins the same.
const CHILD: &str = r#"
import os, sys
def lines():
    rest = b""
    while True:
        chunk = os.read(0, 65536)
        if not chunk: return
        rest += chunk
        *whole, rest = rest.split(b"\n")
        yield from whole
for line in lines():
    head = line[:60]
    number = head[head.index(b'"id":') + 5:].split(b",")[0].split(b"}")[0]
    if b'"initialize"' in head:
        result = b'{"protocol":1,"concurrency":4,"hooks":[{"id":"h","point":"before_tool_call"}]}'
    else:
        result = b"null"
    os.write(1, b'{"jsonrpc":"2.0","id":' + number + b',"result":' + result + b"}\n")
"#;

fn main() {
    divan::main();
}

fn engine(runtime: &Runtime) -> (ProcessPlugin, Engine) {
    let settings = ProcessSettings {
        plugin: "bench".to_owned(),
        program: "python3".into(),
        arguments: vec!["-c".into(), CHILD.into()],
        directory: "/".into(),
        environment: BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap_or_default())]),
        config: Json::default(),
        limits: Limits::default(),
        seal: None,
    };
    let plugin = runtime.block_on(ProcessPlugin::start(settings)).unwrap();
    let mut registration = Registration::new("bench").unwrap();
    plugin.register(&mut registration, |hook| hook).unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    registration.seat(&mut snapshot).unwrap();
    (plugin, Engine::builder().snapshot(snapshot).build())
}

fn round_trip(bencher: divan::Bencher<'_, '_>, runtime: Runtime) {
    let (_plugin, engine) = engine(&runtime);
    let params = Params::from_value(json!({ "command": "ls -la ".repeat(100) })).unwrap_or_default();
    let event = ToolCallEvent::new("exec", params);
    let (engine, call) = (Arc::new(engine), CallContext::default());
    bencher.bench_local(|| {
        let verdict = runtime.block_on(engine.permit_tool_call(event.clone(), &call, &Attendance::Nobody));
        assert!(verdict.permit.is_ok());
    });
}

/// As `backstop hook` and tests have it.
#[divan::bench(sample_count = 3000)]
fn in_one_thread(bencher: divan::Bencher<'_, '_>) {
    round_trip(bencher, tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
}

/// As servers have it.
#[divan::bench(sample_count = 3000)]
fn in_several_threads(bencher: divan::Bencher<'_, '_>) {
    round_trip(
        bencher,
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    );
}
