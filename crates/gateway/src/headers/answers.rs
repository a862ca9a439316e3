//! What of a provider's head reaches a client.
//!
//! A head can steer a client: to another place (`location`, `alt-svc`, `link`), into keeping something (`set-cookie`,
//! `strict-transport-security`), or past what it believes of us (`x-backstop-*`). And it can tell an agent something, since
//! clients print ids and states. So those headers pass that clients and SDKs read, with values of a closed shape. Who asks
//! again because of one (`retry-after`, `x-should-retry`) is bounded by the client, which counts its tries.
//!
//! Sources: RFC 9110 and RFC 9111; the SDKs of OpenAI, Anthropic, Google and Amazon Bedrock for Python and Node, and the coding
//! agents, as the tests of this repository install them: what they read from answers; the makers' pages about rate limits.

use super::Row;
use super::shape::Shape::{
    Accept, Caching, EachOf, Flag, Id, Kind, Media, Name, Number, OneOf, Range, Seal, Tag, Time,
};

/// What HTTP says of a message.
const OF_HTTP: &[Row] = &[
    ("accept-ranges", OneOf(&["bytes", "none"])),
    ("age", Number),
    ("cache-control", Caching),
    ("content-encoding", EachOf(&["br", "deflate", "gzip", "identity", "x-gzip", "zstd"])),
    ("content-length", Number),
    ("content-range", Range),
    ("content-type", Media),
    ("date", Time),
    ("etag", Tag),
    ("expires", Time),
    ("last-modified", Time),
    ("pragma", OneOf(&["no-cache"])),
    ("retry-after", Time),
    ("x-accel-buffering", OneOf(&["no", "yes"])),
    ("x-content-type-options", OneOf(&["nosniff"])),
];

/// By which ids an answer is told apart.
const IDS: &[Row] = &[
    ("apim-request-id", Id),
    ("cf-ray", Id),
    ("request-id", Id),
    ("x-amz-request-id", Id),
    ("x-amzn-request-id", Id),
    ("x-amzn-requestid", Id),
    ("x-github-request-id", Id),
    ("x-goog-request-id", Id),
    ("x-ms-client-request-id", Id),
    ("x-ms-request-id", Id),
    ("x-oai-request-id", Id),
    ("x-request-id", Id),
];

/// How much more may be asked, and when.
const LIMITS: &[Row] = &[
    ("anthropic-{fast|priority}-{input|output}-tokens-{limit|remaining|reset}", Time),
    ("anthropic-ratelimit-{input-tokens|output-tokens|requests|tokens}-{limit|remaining|reset}", Time),
    (
        "anthropic-ratelimit-unified-{status|5h-status|7d-status|7d_oi-status|overage-status|slow-status|grace-status}",
        OneOf(&["allowed", "allowed_warning", "rejected"]),
    ),
    ("anthropic-ratelimit-unified-{5h|7d|7d_oi|overage}-{reset|surpassed-threshold|utilization}", Time),
    ("anthropic-ratelimit-unified-{grace-5h|grace-7d|slow-budget}-utilization", Number),
    ("anthropic-ratelimit-unified-{reset|slow-budget-reset|slow-max-wait|slow-retry-after}", Time),
    ("anthropic-ratelimit-unified-{overage-daily-cap-paused|overage-in-use}", Flag),
    ("anthropic-ratelimit-unified-fallback", OneOf(&["available"])),
    ("anthropic-ratelimit-unified-slow-offer", OneOf(&["control", "treatment"])),
    (
        "anthropic-ratelimit-unified-{overage-disabled-reason|overage-period|overage-scope|representative-claim}",
        Name,
    ),
    ("openai-poll-after-ms", Number),
    ("ratelimit-{limit|remaining|reset|reset-after}", Time),
    ("retry-after-ms", Number),
    ("x-codex-{primary|secondary}-{reset-after-seconds|reset-at|used-percent|window-minutes}", Number),
    ("x-codex-credits-balance", Number),
    ("x-codex-credits-{has-credits|unlimited}", Flag),
    ("x-codex-{active-limit|rate-limit-reached-type}", Name),
    ("x-ms-retry-after-ms", Number),
    ("x-rate-limit-reset", Time),
    ("x-ratelimit-{limit|remaining|reset|reset-after|retry-after}", Time),
    ("x-ratelimit-{limit|remaining|reset}-{input-images|project-tokens|requests|tokens}", Time),
    ("x-should-retry", OneOf(&["false", "true"])),
];

/// What the makers say of an answer.
const OF_MAKERS: &[Row] = &[
    ("anthropic-{organization|workspace}-id", Id),
    ("cf-mitigated", OneOf(&["challenge"])),
    ("openai-{model|organization|version}", Name),
    ("openai-processing-ms", Number),
    ("openai-project", Id),
    ("x-amzn-bedrock-content-type", Accept),
    ("x-amzn-bedrock-invocation-latency", Number),
    ("x-amzn-bedrock-{cache-read-input|cache-write-input|input|output}-token-count", Number),
    ("x-amzn-bedrock-performanceconfig-latency", OneOf(&["optimized", "standard"])),
    ("x-amzn-bedrock-service-tier", OneOf(&["default", "flex", "priority", "reserved"])),
    ("x-amzn-errortype", Kind),
    ("x-codex-safety-buffering-enabled", Flag),
    ("x-codex-turn-state", Seal),
    ("x-gemini-service-tier", Name),
    ("x-models-etag", Tag),
    ("x-openai-authorization-error", Name),
    ("x-reasoning-included", Flag),
];

pub(super) const TABLES: [&[Row]; 4] = [OF_HTTP, IDS, LIMITS, OF_MAKERS];
