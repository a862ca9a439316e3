//! What has to come of a case, and whether anything else could.

use backstop::hooks::{Mode, PointId};
use backstop::yaml::{Kind, Node, Place, Problem, ProblemKind, quote, suggestion};
use serde::Serialize;
use serde_json::{Map, Value};

use super::call::Call;
use super::fields::{Fields, text, texts, wrong};

/// How a judgement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// It goes on as it is.
    Allow,
    /// It goes on as something else.
    Modify,
    /// A human is asked.
    Ask,
    /// It is stopped.
    Block,
    /// A hook took it.
    Handled,
}

impl Verdict {
    pub(super) const ALL: [Self; 5] = [Self::Allow, Self::Modify, Self::Ask, Self::Block, Self::Handled];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Modify => "modify",
            Self::Ask => "ask",
            Self::Block => "block",
            Self::Handled => "handled",
        }
    }

    /// Returns what can come of an event at this point.
    fn possible(point: PointId) -> &'static [Self] {
        match (point, point.info().mode) {
            (PointId::BeforeToolCall, _) => &[Self::Allow, Self::Modify, Self::Ask, Self::Block],
            (_, Mode::Claim) => &[Self::Allow, Self::Handled, Self::Block],
            (_, Mode::Decide | Mode::Observe) => &[Self::Allow, Self::Modify, Self::Block],
        }
    }
}

/// What has to come of a call.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Expect {
    /// One of these.
    pub(super) verdict: Vec<Verdict>,
    /// The hook that decided, or one of those that did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hook: Option<String>,
    /// The rules that all have to be named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rule: Vec<String>,
    /// What the reason contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The arguments with which the tool would run, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<Map<String, Value>>,
    /// Fields of the merged outcome, each with its whole value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<Map<String, Value>>,
}

impl Expect {
    /// Reads what has to come of `call`.
    pub(super) fn read(node: &Node, call: &Call) -> Result<Self, Problem> {
        let known = ["verdict", "hook", "rule", "reason", "args", "outcome"];
        let Kind::Map(_) = node.kind else {
            let verdict = verdicts(node, call.point())?;
            return Ok(Self {
                verdict,
                hook: None,
                rule: Vec::new(),
                reason: None,
                args: None,
                outcome: None,
            });
        };
        let fields = Fields::of(node, "an expectation that is no word", &known)?;
        let verdict =
            fields.required("verdict", "one of allow, modify, ask, block, handled, or a list of some")?;
        let one = |key| fields.get(key).map(|node| text(node, key).map(str::to_owned)).transpose();
        let expect = Self {
            verdict: verdicts(verdict, call.point())?,
            hook: one("hook")?,
            rule: fields.get("rule").map(|node| texts(node, "rule")).transpose()?.unwrap_or_default(),
            reason: one("reason")?,
            args: fields.get("args").map(|node| object(node, "args")).transpose()?,
            outcome: fields.get("outcome").map(|node| object(node, "outcome")).transpose()?,
        };
        expect.check(fields.at, call)?;
        Ok(expect)
    }

    /// Refuses what no judgement can meet.
    fn check(&self, at: &Place, call: &Call) -> Result<(), Problem> {
        let only = |verdict: Verdict| self.verdict == [verdict];
        let is_tool = matches!(call, Call::Tool(_));
        let contradiction = match self {
            _ if only(Verdict::Allow)
                && (self.hook.is_some() || !self.rule.is_empty() || self.reason.is_some()) =>
            {
                "what is allowed was decided by no hook, so `hook`, `rule` and `reason` can't be met"
            }
            Self { args: Some(_), .. } if only(Verdict::Block) => {
                "what is blocked has no arguments to run with"
            }
            Self { args: Some(_), .. } if !is_tool => "only tool calls have `args`; expect `outcome` here",
            Self { outcome: Some(_), .. } if is_tool => "of a tool call, expect `args` instead of `outcome`",
            _ => return Ok(()),
        };
        Err(Problem::new(ProblemKind::Conflict, at.clone(), contradiction))
    }

    /// Returns the expectation in words.
    pub(super) fn line(&self) -> String {
        let words: Vec<&str> = self.verdict.iter().map(|verdict| verdict.as_str()).collect();
        let mut line = words.join(" or ");
        if let Some(hook) = &self.hook {
            line.push_str(&format!(" by {hook}"));
        }
        for rule in &self.rule {
            line.push_str(&format!(", rule {rule}"));
        }
        if let Some(reason) = &self.reason {
            line.push_str(&format!(", because of \"{reason}\""));
        }
        for (key, value) in [("args", &self.args), ("outcome", &self.outcome)] {
            if let Some(value) = value {
                line.push_str(&format!(", {key} {}", Value::Object(value.clone())));
            }
        }
        line
    }
}

fn verdicts(node: &Node, point: PointId) -> Result<Vec<Verdict>, Problem> {
    let possible = Verdict::possible(point);
    let words: Vec<&str> = possible.iter().map(|verdict| verdict.as_str()).collect();
    let mut found = Vec::new();
    let (items, is_list) = match &node.kind {
        Kind::List(items) => (items.as_slice(), true),
        _ => (std::slice::from_ref(node), false),
    };
    for item in items {
        let word = text(item, "verdict")?;
        let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == word).ok_or_else(|| {
            wrong(item, format!("unknown verdict `{}`", quote(word)))
                .with_hint(suggestion(word, &words, "verdicts"))
        })?;
        if !possible.contains(&verdict) {
            return Err(wrong(item, format!("nothing at `{point}` ends as `{word}`"))
                .with_hint(format!("it ends as one of {}", words.join(", "))));
        }
        if !found.contains(&verdict) {
            found.push(verdict);
        }
    }
    if found.is_empty() {
        return Err(wrong(node, "no verdict is expected"));
    }
    if is_list && possible.iter().all(|verdict| found.contains(verdict)) {
        return Err(wrong(
            node,
            format!("every verdict that there is at `{point}` is expected, so the case can't fail"),
        ));
    }
    Ok(found)
}

fn object(node: &Node, key: &str) -> Result<Map<String, Value>, Problem> {
    match &node.kind {
        Kind::Map(entries) if entries.is_empty() && key == "outcome" => {
            Err(wrong(node, "`outcome` names no field, so it is met by everything"))
        }
        Kind::Map(_) => node.read(),
        _ => Err(wrong(node, format!("`{key}` is a mapping, found {}", node.shape()))),
    }
}
