//! `backstop check`: judges calls without running them.
//!
//! Lines from stdin are judged one after the other, and answers come in the same order; see
//! [`Conversation`].

use std::io;

use backstop::Backstop;
use backstop::hooks::points::ToolCallEvent;
use backstop::hooks::{CallContext, Params, ToolName};
use serde::Deserialize;

use super::lines::{Conversation, NotAnswered, Question};
use super::verdict::{Verdict, Word};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Style, plain};
use crate::session::Surroundings;

/// What is to be judged.
#[derive(Debug)]
pub(crate) enum Settings {
    /// One call.
    Call(Call),
    /// Lines from stdin.
    Lines,
}

/// A call that nobody is going to run.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) tool: ToolName,
    pub(crate) args: Params,
}

impl Call {
    pub(super) fn event(self) -> ToolCallEvent {
        ToolCallEvent::new(self.tool, self.args)
    }
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let backstop = surroundings.judge().await?;
    let call = surroundings.call_context(backstop.config())?;
    let done = match settings {
        Settings::Call(one) => {
            let verdict = judge(&backstop, one, &call).await;
            print(&verdict, surroundings)?;
            Ok(Exit::Success)
        }
        Settings::Lines => lines(&backstop, &call).await,
    };
    backstop.shut_down().await;
    done
}

async fn judge(backstop: &Backstop, one: Call, call: &CallContext) -> Verdict {
    Verdict::of(&backstop.engine().review_tool_call(one.event(), call, false).await)
}

fn print(verdict: &Verdict, surroundings: &Surroundings) -> io::Result<()> {
    let output = &surroundings.output;
    if output.is_json() {
        return output.json_line(verdict);
    }
    let style = match verdict.decision {
        Word::Allow => Style::Good,
        Word::Ask | Word::Modify => Style::Notice,
        Word::Block => Style::Bad,
    };
    let mut text = output.paint().with(style, verdict.decision.as_str());
    if let Some(hook) = &verdict.hook {
        text.push_str(&format!(" by {}", plain(hook.as_str())));
    }
    if let Some(reason) = &verdict.reason {
        // A line of a reason must not pass for an answer.
        text.push_str(&format!(": {}", plain(reason).replace('\n', "\n  ")));
    }
    if let (Word::Modify, Some(params)) = (verdict.decision, &verdict.params) {
        text.push_str(&format!("\nparams: {}", plain(&params.to_value().to_string())));
    }
    output.text(&text)
}

/// A line of input. Anything else in it is a mistake: a call that was half understood is not judged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    tool: String,
    args: Params,
}

/// How a line is written, for whoever wrote another one.
const FORM: &str = "{\"tool\": ..., \"args\": {...}}";

async fn lines(backstop: &Backstop, call: &CallContext) -> Result<Exit, Error> {
    let mut lines = Conversation::new();
    let mut exit = Exit::Success;
    while let Some(question) = lines.next(FORM)? {
        match question.and_then(asked) {
            Ok(one) => lines.answer(&judge(backstop, one, call).await)?,
            Err(error) => {
                exit = Exit::Incomplete;
                let line = lines.number();
                lines.answer(&NotAnswered { error, line })?;
            }
        }
    }
    Ok(exit)
}

/// The call in a line.
fn asked(Line { tool, args }: Line) -> Question<Call> {
    if tool.trim().is_empty() {
        return Err("`tool` is empty".to_owned());
    }
    Ok(Call { tool: ToolName::new(&tool), args })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_call_is_refused() {
        let understood = |line: &str| {
            let line = serde_json::from_str(line).map_err(|error| error.to_string());
            line.and_then(asked)
        };
        for wrong in [
            r#"{"tool": "exec"}"#,
            r#"{"tool": "exec", "args": "ls"}"#,
            r#"{"tool": "exec", "args": {}, "extra": 1}"#,
            r#"{"tool": " ", "args": {}}"#,
            r#"["exec"]"#,
            "nonsense",
        ] {
            assert!(understood(wrong).is_err(), "{wrong}");
        }
        assert!(understood(r#"{"tool": "exec", "args": {}}"#).is_ok());
    }
}
