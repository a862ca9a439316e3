//! What of a client's head reaches a provider.
//!
//! Servers and what stands in front of them take methods, paths and hosts out of headers of all kinds of names
//! (`x-http-method-override`, `x-original-url`, `x-override-url`, `x-forwarded-path`), and a text in a header goes past
//! everybody who judges what is said to a model. So those headers pass that the makers' SDKs and the coding agents send, or that
//! HTTP has for a message, with values of a closed shape. Left out is what clients send for itself to be read by people or by
//! whoever traces (`baggage`, `referer`, `x-codex-turn-metadata`), what keeps a state in a client (`cookie`), and conditions
//! (`if-none-match`): an answer that is not sent can't be judged.
//!
//! Sources: RFC 9110; what the SDKs for Python and Node and the coding agents sent in the tests of this repository, and
//! the names that stand in them.

use super::Row;
use super::shape::Shape::{
    Accept, Caching, Credentials, EachOf, Flag, Id, Languages, Media, Name, Names, Number, OneOf, Products,
    Range, Seal, Site, Time, Trace,
};

/// What HTTP says of a message and of who asks.
const OF_HTTP: &[Row] = &[
    ("accept", Accept),
    ("accept-encoding", EachOf(&["*", "br", "compress", "deflate", "gzip", "identity", "zstd"])),
    ("accept-language", Languages),
    ("api-key", Credentials),
    ("authorization", Credentials),
    ("cache-control", Caching),
    ("content-encoding", EachOf(&["br", "deflate", "gzip", "identity", "x-gzip", "zstd"])),
    ("content-length", Number),
    ("content-md5", Seal),
    ("content-type", Media),
    ("date", Time),
    ("pragma", OneOf(&["no-cache"])),
    ("priority", OneOf(&["u=0", "u=1", "u=1, i", "u=3", "u=4"])),
    ("range", Range),
    ("sec-fetch-dest", OneOf(&["document", "empty", "websocket"])),
    ("sec-fetch-mode", OneOf(&["cors", "navigate", "no-cors", "same-origin", "websocket"])),
    ("sec-fetch-site", OneOf(&["cross-site", "none", "same-origin", "same-site"])),
    ("sec-fetch-user", Flag),
    ("user-agent", Products),
    ("x-api-key", Credentials),
    ("x-goog-api-key", Credentials),
    ("x-requested-with", OneOf(&["XMLHttpRequest"])),
];

/// By which ids requests are told apart, traced and asked for once only.
const IDS: &[Row] = &[
    ("amz-sdk-invocation-id", Id),
    ("conversation{-|_}id", Id),
    ("{idempotency-key|x-idempotency-key}", Id),
    ("request-id", Id),
    ("session{-|_}id", Id),
    ("thread{-|_}id", Id),
    ("traceparent", Trace),
    (
        "x-{activity-request|agent-task|client-request|conversation|correlation|interaction|parent-session|request|session|task|trace|turn}-id",
        Id,
    ),
    ("x-ms-client-request-id", Id),
    ("x-session-affinity", Id),
];

/// What the makers of models read.
const OF_MAKERS: &[Row] = &[
    ("anthropic-beta", Names),
    ("anthropic-client-{platform|version}", Name),
    ("anthropic-dangerous-direct-browser-access", Flag),
    ("anthropic-{organization|user-profile|workspace}-id", Id),
    ("anthropic-usage-limit", Name),
    ("anthropic-version", Name),
    ("anthropic-workspace", Name),
    ("chatgpt-account-id", Id),
    ("openai-beta", Names),
    ("openai-intent", Name),
    ("openai-{organization|project}", Name),
    ("openai-version", Name),
    ("x-amz-content-sha256", Id),
    ("x-amz-date", Id),
    ("x-amz-user-agent", Products),
    ("x-amzn-bedrock-accept", Accept),
    ("x-amzn-bedrock-guardrail{identifier|version}", Name),
    ("x-amzn-bedrock-performanceconfig-latency", OneOf(&["optimized", "standard"])),
    ("x-amzn-bedrock-service-tier", OneOf(&["default", "flex", "priority", "reserved"])),
    ("x-amzn-bedrock-trace", OneOf(&["DISABLED", "ENABLED", "ENABLED_FULL"])),
    ("x-dashscope-{async|cachecontrol|ossresourceresolve|sse}", OneOf(&["disable", "enable"])),
    ("x-dashscope-authtype", Name),
    ("x-dashscope-useragent", Products),
    ("x-dashscope-workspace", Name),
    ("x-github-api-version", Name),
    ("x-goog-api-client", Products),
    ("x-goog-user-project", Name),
    // Another name of Azure's for another deployment is refused before anybody is asked.
    ("x-ms-oai-image-generation-deployment", Name),
    ("x-ms-useragent", Products),
    ("x-openai-{fedramp|internal-codex-responses-lite|memgen-request}", Flag),
    ("x-openai-{internal-codex-residency|product-sku|subagent}", Name),
    ("x-openrouter-cache", Flag),
    ("{http-referer}", Site),
    ("{x-openrouter-title|x-title}", Name),
    ("x-responsesapi-include-timing-metrics", Flag),
    ("x-vertex-ai-llm-{request-type|shared-request-type}", Name),
];

/// What SDKs and coding agents say of themselves.
const OF_CLIENTS: &[Row] = &[
    ("copilot-integration-id", Name),
    ("copilot-vision-request", Flag),
    ("{editor-plugin-version|editor-version}", Products),
    ("originator", Name),
    ("version", Name),
    ("x-anthropic-additional-protection", Flag),
    ("x-app", Name),
    ("x-claude-code-{agent|parent-agent|prompt|session}-id", Id),
    ("x-claude-code-{agent-type|request-class}", Name),
    ("x-claude-remote-{container|session}-id", Id),
    ("x-client-{type|version}", Name),
    ("x-codex-beta-features", Names),
    ("x-codex-{inference-call|installation|parent-thread|window}-id", Id),
    ("x-codex-routing-hint", Name),
    ("x-codex-turn-state", Seal),
    ("x-core-version", Name),
    ("x-gemini-api-privileged-user-id", Id),
    ("x-initiator", OneOf(&["agent", "user"])),
    ("x-interaction-type", Name),
    ("x-is-multiroot", Flag),
    ("x-opencode-{parent|project|request|session}", Id),
    ("x-opencode-client", Name),
    ("x-platform", Name),
    ("x-platform-version", Name),
    ("x-server-timeout", Number),
    ("x-stainless-{arch|async|lang|os|package-version|raw-response|runtime|runtime-version}", Name),
    ("x-stainless-{custom-poll-interval|retry-count}", Number),
    ("x-stainless-{helper|helper-method|poll-helper|stream-helper}", Names),
    ("x-stainless-{read-timeout|timeout}", Name),
];

/// How names begin that a maker of models has for its own. Where the operator pays, single ones of them pass
/// ([`head`](crate::head)).
pub(super) const MAKERS: [&str; 11] = [
    "anthropic-",
    "openai-",
    "x-amzn-bedrock-",
    "x-dashscope-",
    "x-github-",
    "x-ms-oai-",
    "x-oai-",
    "x-openai-",
    "x-openrouter-",
    "x-responsesapi-",
    "x-vertex-ai-",
];

pub(super) const TABLES: [&[Row]; 4] = [OF_HTTP, IDS, OF_MAKERS, OF_CLIENTS];
