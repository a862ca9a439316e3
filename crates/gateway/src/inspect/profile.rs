//! What the proxy fires, by its settings, and what it makes of the answers; and what programs send to the API.

use backstop_hooks::{Honour, HostProfile, PointId};

use super::settings::{HookSettings, TextMode, ToolCalls, Unasked};

const TRAFFIC: [PointId; 9] = [
    PointId::MessageBefore,
    PointId::BeforeLlmCall,
    PointId::LlmInput,
    PointId::ModelCallStarted,
    PointId::ModelCallEnded,
    PointId::LlmOutput,
    PointId::ToolAfter,
    PointId::AfterLlmCall,
    PointId::BeforeResponseEmit,
];
const TOOL_GATES: [PointId; 3] = [PointId::TrustedToolPolicy, PointId::ToolBefore, PointId::BeforeToolCall];
const LIFE: [PointId; 4] =
    [PointId::SessionStart, PointId::SessionEnd, PointId::GatewayStart, PointId::GatewayStop];

const REMOVED: Honour = Honour::Stricter("the tool call is taken out of the answer");
const FILED: Honour =
    Honour::Stricter("the tool call is taken out of the answer, and the question is filed for a person");
const LEFT_TO_OTHERS: Honour =
    Honour::Ignored("it is left to who runs the tool (`tool_calls: judge-blocks`)");
const TEXT_HAS_LEFT: Honour = Honour::Ignored("the text has left by then (`text: pass`)");

/// The proxy as a host, with these settings. It sees models and never the tools: tool calls are judged in the answers
/// that hold them, where they can be taken out and not be rewritten.
pub fn host_profile(settings: &HookSettings) -> HostProfile {
    let mut host = HostProfile::new("gateway", "the LLM proxy").fires(TRAFFIC).fires(LIFE).except(
        PointId::MessageBefore,
        "metadata",
        Honour::Ignored("a proxy has no `params.before` that would read it"),
    );
    if settings.text == Some(TextMode::Pass) {
        for field in PointId::BeforeResponseEmit.info().fields {
            host = host.except(PointId::BeforeResponseEmit, field.name, TEXT_HAS_LEFT);
        }
    }
    let ask = match settings.tool_calls {
        ToolCalls::Leave => return host,
        ToolCalls::Judge(Unasked::Deny) => Some(FILED),
        ToolCalls::Judge(Unasked::Leave) => Some(LEFT_TO_OTHERS),
        ToolCalls::Judge(Unasked::Wait) => None,
    };
    for (point, rewrite) in TOOL_GATES.into_iter().zip(["params", "args", "params"]) {
        host = host.fires([point]).except(point, rewrite, REMOVED);
    }
    for point in [PointId::TrustedToolPolicy, PointId::BeforeToolCall] {
        if let Some(ask) = ask {
            host = host.except(point, "requireApproval", ask);
        }
    }
    host
}

/// The programs that have their events judged by the HTTP API, as a host.
///
/// It stands for the life of a tool call, which those programs send, and obey: a call passes all of its gates, waits for a human, and has
/// its arguments rewritten. That they could send events of other points too makes nothing sure to be asked, so that hooks at those points
/// need another host.
pub fn api_profile() -> HostProfile {
    HostProfile::new("api", "programs, by the HTTP API").fires(TOOL_GATES).fires([
        PointId::ToolAfter,
        PointId::AfterToolCall,
        PointId::AgentEnd,
    ])
}
