//! The examples are run, so that they say what is true.

#[path = "../examples/custom_host.rs"]
mod custom_host;
#[path = "../examples/interceptor.rs"]
mod interceptor;
#[path = "../examples/own_loop.rs"]
mod own_loop;
#[path = "../examples/streaming_gate.rs"]
mod streaming_gate;
#[path = "../examples/verdict_type.rs"]
mod verdict_type;

#[test]
fn a_loop_of_ones_own_with_three_hooks_and_an_approval() {
    own_loop::main().unwrap();
}

#[test]
fn a_streaming_gate() {
    streaming_gate::main().unwrap();
}

#[test]
fn an_interceptor() {
    interceptor::main().unwrap();
}

#[test]
fn a_verdict_type() {
    verdict_type::main().unwrap();
}

#[test]
fn a_custom_host() {
    custom_host::main().unwrap();
}
