//! The parts of the SDK that compute and reach nothing.

use backstop_plugins::openclaw::Dialect::OpenClaw;
use serde_json::{Value, json};

use crate::support::{Plugins, call, context, engine};

/// What an expression over all that a part of the SDK exports is worth.
async fn worth(part: &str, expression: &str) -> Value {
    let source = format!(
        "import * as sdk from \"openclaw/plugin-sdk/{part}\";\n\
         export default {{ register(api) {{ api.on(\"before_tool_call\", async () => \
         ({{ block: true, blockReason: JSON.stringify(await ({expression})) }})); }} }};"
    );
    let plugins = Plugins::new();
    let plugin = plugins.load("mine", OpenClaw, &source).await.unwrap();
    let (engine, seated) = engine(&[&plugin]);
    assert!(seated[0].left_out.is_empty(), "{part} is provided");
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    let said = reviewed.blocked.unwrap().reason.unwrap().to_string();
    // What is no JSON is what went wrong.
    serde_json::from_str(&said).unwrap_or(Value::String(said))
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_read_out_of_anything() {
    let said = worth(
        "string-coerce-runtime",
        "[sdk.readStringValue(' a '), sdk.readStringValue(1), sdk.normalizeNullableString(' a '), sdk.normalizeNullableString(' '), \
          sdk.normalizeOptionalString([]), sdk.normalizeStringifiedOptionalString(7), sdk.normalizeOptionalStringifiedId(NaN), \
          sdk.normalizeOptionalStringifiedId(7), sdk.normalizeOptionalLowercaseString(' AB '), sdk.normalizeLowercaseStringOrEmpty(null), \
          sdk.hasNonEmptyString(' '), sdk.lowercasePreservingWhitespace(' A '), sdk.normalizeStringEntries([' a ', 1, null, ' ']), sdk.isRecord([])] \
          .map((one) => one ?? null)",
    );
    let expected =
        json!([" a ", null, "a", null, null, "7", null, "7", "ab", "", false, " a ", ["a", "1"], false]);
    assert_eq!(said.await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_have_plain_names() {
    let said = worth(
        "account-id",
        "[sdk.DEFAULT_ACCOUNT_ID, sdk.normalizeAccountId(' Work Phone! '), sdk.normalizeAccountId('__proto__'), sdk.normalizeAccountId(null), \
          sdk.normalizeAccountId('x'.repeat(90)).length, sdk.normalizeOptionalAccountId('--') ?? null]",
    );
    assert_eq!(said.await, json!(["default", "work-phone", "default", "default", 64, null]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_a_number_as_a_whole_or_not_at_all() {
    let said = worth(
        "number-runtime",
        "[sdk.asFiniteNumber(1.5), sdk.asFiniteNumber('1'), sdk.asFiniteNumber(Infinity), sdk.asPositiveSafeInteger(0), sdk.asPositiveSafeInteger(3), \
          sdk.parseFiniteNumber(' 1.5 '), sdk.parseFiniteNumber('1x'), sdk.parseFiniteNumber(''), sdk.parseStrictInteger('-4'), \
          sdk.parseStrictInteger('4.0'), sdk.parseStrictNonNegativeInteger('0'), sdk.parseStrictPositiveInteger('0'), \
          sdk.parseStrictPositiveInteger('99999999999999999999')].map((one) => one ?? null)",
    );
    assert_eq!(said.await, json!([1.5, null, null, null, 3, 1.5, null, null, -4, null, 0, null, null]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_asked_again_as_often_as_it_was_said() {
    let said = worth(
        "retry-runtime",
        "(async () => { const all = []; \
          const failing = (times) => { let n = 0; return async () => { n += 1; if (n <= times) throw new Error(`no ${n}`); return n; }; }; \
          const told = (work, options) => sdk.retryAsync(work, options).catch((error) => error.message); \
          all.push(await told(failing(2), { attempts: 3, minDelayMs: 0 })); all.push(await told(failing(3), { attempts: 3, minDelayMs: 0 })); \
          all.push(await told(failing(9), { attempts: 9, minDelayMs: 0, shouldRetry: (error, attempt) => attempt < 2 })); \
          const waits = []; await told(failing(2), { attempts: 3, minDelayMs: 1, maxDelayMs: 1, onRetry: ({ attempt, delayMs }) => waits.push([attempt, delayMs]) }); \
          all.push(waits, await told(failing(1), 1), sdk.resolveRetryConfig({ attempts: 0, minDelayMs: 9, maxDelayMs: 1, jitter: 7 })); return all; })()",
    );
    let config = json!({ "attempts": 1, "minDelayMs": 9, "maxDelayMs": 9, "jitter": 1 });
    assert_eq!(said.await, json!([3, "no 3", "no 2", [[1, 1], [2, 1]], "no 1", config]));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_key_go_one_after_another() {
    let said = worth(
        "keyed-async-queue",
        "(async () => { const queue = new sdk.KeyedAsyncQueue(); const seen = []; let open; const gate = new Promise((done) => (open = done)); \
          const first = queue.enqueue('a', async () => { seen.push('a1'); await gate; seen.push('a1 done'); throw new Error('no'); }); \
          const second = queue.enqueue('a', async () => { seen.push('a2'); return 2; }); \
          await queue.enqueue('b', async () => { seen.push('b'); open(); }); \
          const failed = await first.catch((error) => error.message); seen.push(failed, await second); await queue.waitForIdle(); \
          await new Promise((done) => setTimeout(done)); return [...seen, queue.getTailMapForTesting().size]; })()",
    );
    assert_eq!(said.await, json!(["a1", "b", "a1 done", "a2", "no", 2, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_texts_are_cut_where_lines_or_words_end() {
    let said = worth(
        "text-chunking",
        "[sdk.chunkTextForOutbound('', 4), sdk.chunkTextForOutbound('short', 9), sdk.chunkTextForOutbound('one two three', 8), \
          sdk.chunkTextForOutbound('one\\ntwo three', 8), sdk.chunkTextForOutbound('abcdefgh', 3), sdk.chunkTextForOutbound('a\u{1F600}b', 2), \
          sdk.chunkTextForOutbound('ab  cd', 3, { preserveWhitespace: true }).join(''), sdk.chunkItems([1, 2, 3], 2)]",
    );
    let expected = json!([
        [],
        ["short"],
        ["one two", "three"],
        ["one", "two", "three"],
        ["abc", "def", "gh"],
        ["a", "\u{1F600}", "b"],
        "ab  cd",
        [[1, 2], [3]]
    ]);
    assert_eq!(said.await, expected);
}
