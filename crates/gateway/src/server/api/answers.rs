//! What people answer to questions by the API.
//!
//! The law: *an answer goes as far as on the console*, by the same rules and with the same scope. How far an answer holds that holds from now on is said by
//! naming the question and a scope, never by handing in what is granted.

use std::num::NonZeroU64;
use std::time::Duration;

use backstop_hooks::{Decision, Digest, Params, Text};
use backstop_store::{
    Always, AlwaysError, AlwaysScope, Amount, Answerer, ApprovalRecord, LATER, LONGEST_GRANT, PersonsAnswer,
    ResolveError, SHORTEST_GRANT, Timestamp, UnfitSubstitute, allow_always,
};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::super::operators::Problem;
use super::approvals::{Approval, record};
use super::asked::{Answer, Asked, Empty};

/// The shortest and the longest time for which an answer holds, in seconds.
const SHORTEST: u64 = SHORTEST_GRANT.as_secs();
const LONGEST: u64 = LONGEST_GRANT.as_secs();

/// An answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ApprovalAnswer")]
#[schemars(extend("allOf" = [
    {
        "if": {"properties": {"decision": {"const": "edit"}}},
        "then": {"required": ["arguments"]},
        "else": {"properties": {"arguments": false}},
    },
    {
        "if": {"properties": {"decision": {"const": "respond"}}},
        "then": {"required": ["result"]},
        "else": {"properties": {"result": false}},
    },
    {
        "if": {"properties": {"decision": {"const": "deny"}}},
        "else": {"properties": {"word": false}},
    },
    {
        "if": {"properties": {"decision": {"const": "allow-always"}}},
        "then": {"required": ["scope"]},
        "else": {"properties": {
            "scope": false, "argument": false, "most": false, "holdsSeconds": false, "times": false,
        }},
    },
    {
        "if": {"properties": {"scope": {"const": "up-to"}}, "required": ["scope"]},
        "then": {"required": ["argument", "most"]},
        "else": {"properties": {"argument": false, "most": false}},
    },
]))]
pub(super) struct Given {
    /// What is answered.
    decision: AnswerWord,
    /// The digest of the call that the person saw. An answer to another call is refused.
    digest: Digest,
    /// With `edit`, the arguments as they should be, all of them, in at most 256 KiB. Masked secrets stay in them as they are shown.
    #[serde(default)]
    arguments: Option<Params>,
    /// With `respond`, what the model is told as the result, in at most 64 KiB.
    #[serde(default)]
    result: Option<Text>,
    /// With `deny`, what the model is told besides: one line, of which the beginning counts where it is too long.
    #[serde(default)]
    word: Option<Text>,
    /// With `allow-always`, the calls that it is about.
    #[serde(default)]
    scope: Option<ScopeWord>,
    /// With the scope `up-to`, the argument that is an amount: one of `amounts`.
    #[serde(default)]
    argument: Option<String>,
    /// With the scope `up-to`, the greatest sum, in decimal digits, such as `19.99`.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9]{1,18}(\.[0-9]{1,9})?$"))]
    most: Option<String>,
    /// With `allow-always`, for how many seconds it holds; 30 days where absent.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(min = 60, max = 2_592_000))]
    holds_seconds: Option<u64>,
    /// With `allow-always`, how many more calls it answers; without end where absent.
    #[serde(default, deserialize_with = "counted")]
    times: Option<NonZeroU64>,
}

/// What can be answered.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum AnswerWord {
    /// This call, once.
    AllowOnce,
    /// This call, and others from now on. Where `allowedDecisions` has it.
    AllowAlways,
    /// One such call within the next hour, where the question ended without an answer, or is `abandoned`.
    AllowLater,
    /// No.
    Deny,
    /// Another call in its place, with other arguments: it is judged as a call of its own. Where `substitutes` has it.
    Edit,
    /// The result, without running the tool. Where `substitutes` has it.
    Respond,
}

/// The calls that an answer is about that holds from now on.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "AnswerScope")]
enum ScopeWord {
    /// This very call.
    Call,
    /// Calls of the same program and subcommand, about which the same rules ask.
    Program,
    /// What the same rules ask about in this workspace.
    Rule,
    /// Calls with another amount in one argument, up to a sum.
    UpTo,
}

/// Reads a whole number, also one that is written with a point: by JSON Schema, `3.0` is an integer (draft 2020-12, 6.1.1 of its validation).
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    let pointed = || number.to_string().strip_suffix(".0")?.parse().ok();
    let whole = number.as_u64().or_else(pointed);
    whole.map(Some).ok_or_else(|| D::Error::custom("this is no whole number from 0"))
}

/// As [`whole`], from 1.
fn counted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroU64>, D::Error> {
    let Some(number) = whole(deserializer)? else { return Ok(None) };
    NonZeroU64::new(number).map(Some).ok_or_else(|| D::Error::custom("how many calls is a number from 1"))
}

/// What somebody wants to be done.
enum Wanted {
    Answer(PersonsAnswer),
    Always(Always),
    Later,
}

impl Given {
    /// Returns what is wanted of somebody's answer, and nothing of what does not belong to it.
    fn wanted(self, by: &Answerer) -> Result<Wanted, Problem> {
        let (by, now) = (by.clone(), Timestamp::now());
        let unfit = |error: UnfitSubstitute| Problem::body(error.to_string());
        let has_scope = self.scope.is_some()
            || self.argument.is_some()
            || self.most.is_some()
            || self.holds_seconds.is_some()
            || self.times.is_some();
        let answer = match (self.decision, self.arguments, self.result, self.word, has_scope) {
            (AnswerWord::AllowOnce, None, None, None, false) => {
                PersonsAnswer::new(Decision::AllowOnce, by, now)
            }
            (AnswerWord::Deny, None, None, word, false) => {
                let word = word.unwrap_or_default();
                PersonsAnswer::new(Decision::Deny, by, now).with_word(word.as_str())
            }
            (AnswerWord::Edit, Some(arguments), None, None, false) => {
                PersonsAnswer::edit(arguments, by, now).map_err(unfit)?
            }
            (AnswerWord::Respond, None, Some(result), None, false) => {
                PersonsAnswer::respond(result, by, now).map_err(unfit)?
            }
            (AnswerWord::AllowLater, None, None, None, false) => return Ok(Wanted::Later),
            (AnswerWord::AllowAlways, None, None, None, _) => {
                let scope = scope(self.scope, self.argument, self.most)?;
                let ttl = span(self.holds_seconds)?;
                return Ok(Wanted::Always(Always { scope, ttl, times: self.times }));
            }
            _ => {
                return Err(Problem::body(
                    "`edit` comes with `arguments`, `respond` with `result`, `deny` with a `word` or without, `allow-always` with a `scope`, and no answer with what belongs to another one"
                        .to_owned(),
                ));
            }
        };
        Ok(Wanted::Answer(answer))
    }
}

fn scope(
    scope: Option<ScopeWord>,
    argument: Option<String>,
    most: Option<String>,
) -> Result<AlwaysScope, Problem> {
    match (scope, argument, most) {
        (Some(ScopeWord::Call), None, None) => Ok(AlwaysScope::Call),
        (Some(ScopeWord::Program), None, None) => Ok(AlwaysScope::Program),
        (Some(ScopeWord::Rule), None, None) => Ok(AlwaysScope::Rule),
        (Some(ScopeWord::UpTo), Some(argument), Some(most)) => {
            let most = most.parse::<Amount>().map_err(|error| Problem::body(format!("`most`: {error}")))?;
            Ok(AlwaysScope::UpTo { argument, most })
        }
        _ => Err(Problem::body(
            "`allow-always` comes with a `scope`, the scope `up-to` with `argument` and `most`, and other scopes with neither"
                .to_owned(),
        )),
    }
}

fn span(seconds: Option<u64>) -> Result<Option<Duration>, Problem> {
    match seconds {
        Some(seconds) if !(SHORTEST..=LONGEST).contains(&seconds) => {
            Err(Problem::body(format!("`holdsSeconds` is from {SHORTEST} to {LONGEST}")))
        }
        seconds => Ok(seconds.map(Duration::from_secs)),
    }
}

/// Answers a question.
pub(super) async fn answer(asked: Asked, _: Empty, given: Given) -> Result<Answer<Approval>, Problem> {
    let found = record(&asked).await?;
    let engine = asked.engine()?;
    if engine.keeps_answers_apart() {
        return Err(Problem::strict());
    }
    // INVARIANT (what the human saw): an answer says which call it is about.
    if found.request.digest != given.digest {
        return Err(Problem::other_call());
    }
    let by = asked.caller.answerer(engine.people());
    let (store, now) = (engine.answer_store(), Timestamp::now());
    let done: Result<ApprovalRecord, AlwaysError> = match given.wanted(&by)? {
        Wanted::Answer(answer) => {
            let resolved = store.answer_approval(&found.id, answer).await;
            resolved.map(|resolved| resolved.record).map_err(AlwaysError::from)
        }
        Wanted::Later => store.allow_later(&found.id, &by, LATER, now).await.map_err(AlwaysError::from),
        Wanted::Always(always) => {
            allow_always(store.as_ref(), &found.id, &always, &by).await.map(|(record, _)| record)
        }
    };
    match done {
        Ok(record) => Ok(Approval::of(&record, engine.people()).into()),
        Err(AlwaysError::Resolve(error)) => Err(refused(error)),
        Err(error @ AlwaysError::Beyond { .. }) => Err(Problem::conflict(error.to_string())),
    }
}

/// Why an answer does not count.
fn refused(error: ResolveError) -> Problem {
    match error {
        ResolveError::Unknown(_) => Problem::no_approval(),
        ResolveError::Store(_) => Problem::store(),
        ResolveError::AlreadyResolved { status, by, .. } => {
            let by = by.map(|by| format!(", by {by}")).unwrap_or_default();
            Problem::conflict(format!("the question is already {status}{by}"))
        }
        ResolveError::NoSubstitute { .. } => {
            Problem::conflict("`substitutes` of the question does not have this answer".to_owned())
        }
        ResolveError::Masked { moved, .. } => Problem::conflict(moved.to_string()),
        ResolveError::Abandoned { .. } => Problem::conflict(
            "nobody waits for the answer any more: `allow-later` allows the next such call".to_owned(),
        ),
        ResolveError::NotAsked(refused) => Problem::not_asked(refused.why()),
        ResolveError::OtherVote { .. } => Problem::conflict("you have answered otherwise already".to_owned()),
        ResolveError::Expired { at, .. } => Problem::conflict(format!("the question expired at {at}")),
        ResolveError::NotOffered { .. } => {
            Problem::conflict("the hooks that asked did not offer this answer".to_owned())
        }
        ResolveError::Unseen { .. } => Problem::conflict(
            "a part of the arguments was shown to nobody yet: `POST ../whole` shows all of them".to_owned(),
        ),
    }
}
