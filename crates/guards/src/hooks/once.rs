//! One look at a call for two points.
//!
//! An interceptor can't ask and a hook of `before_tool_call` comes too late for other interceptors, so a guard stands
//! at both. Two looks could differ: a script was changed between them, an exception ran out, one was cut off by its
//! budget and the other was not. So the first look is handed on to the second point, for exactly the arguments that
//! it was about; only where there was none (or it was forgotten), the second point looks itself, and then it blocks
//! as well as asks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::{CallContext, Params, ToolName};

use crate::Judgement;

/// Most looks that are kept. A call that was stopped in between never asks for its own.
const MAX_LOOKS: usize = 64;

/// Looks on their way from the first point to the second.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks(Arc<Mutex<VecDeque<Look>>>);

#[derive(Debug)]
struct Look {
    tool: ToolName,
    params: Params,
    call: Whose,
    judgements: Vec<Judgement>,
}

/// Whose call it was, and where.
#[derive(Debug, PartialEq)]
struct Whose {
    session: Option<String>,
    run: Option<String>,
    workspace: Option<String>,
}

impl Whose {
    fn of(call: &CallContext) -> Self {
        Self {
            session: call.session_id.as_ref().map(ToString::to_string),
            run: call.run_id.as_ref().map(ToString::to_string),
            workspace: call.workspace_dir.clone(),
        }
    }
}

impl Looks {
    /// Hands a look on.
    pub(super) fn put(
        &self,
        tool: &ToolName,
        params: &Params,
        call: &CallContext,
        mut judgements: Vec<Judgement>,
    ) {
        for judgement in &mut judgements {
            // Nobody asks about them any more.
            judgement.processes = Vec::new();
        }
        let look = Look { tool: tool.clone(), params: params.clone(), call: Whose::of(call), judgements };
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.len() >= MAX_LOOKS {
            looks.pop_front();
        }
        looks.push_back(look);
    }

    /// The look at these very arguments: the same object, not one that is equal.
    pub(super) fn take(
        &self,
        tool: &ToolName,
        params: &Params,
        call: &CallContext,
    ) -> Option<Vec<Judgement>> {
        let whose = Whose::of(call);
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = looks
            .iter()
            .rposition(|look| look.params.same(params) && look.tool == *tool && look.call == whose)?;
        looks.remove(at).map(|look| look.judgements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_for_the_very_arguments_it_was_at_and_for_one_taker() {
        let (looks, call) = (Looks::default(), CallContext::default());
        let tool = ToolName::new("exec");
        let params = Params::new(serde_json::Map::new());
        let equal = Params::new(serde_json::Map::new());
        looks.put(&tool, &params, &call, vec![Judgement::default()]);
        assert!(looks.take(&tool, &equal, &call).is_none());
        assert!(looks.take(&ToolName::new("read"), &params, &call).is_none());
        let other = CallContext { session_id: Some("s".into()), ..CallContext::default() };
        assert!(looks.take(&tool, &params, &other).is_none());
        assert_eq!(looks.take(&tool, &params, &call).map(|judgements| judgements.len()), Some(1));
        assert!(looks.take(&tool, &params, &call).is_none());
    }

    #[test]
    fn looks_that_nobody_takes_are_forgotten() {
        let (looks, call, tool) = (Looks::default(), CallContext::default(), ToolName::new("exec"));
        let kept: Vec<Params> = (0..=MAX_LOOKS).map(|_| Params::new(serde_json::Map::new())).collect();
        kept.iter().for_each(|params| looks.put(&tool, params, &call, Vec::new()));
        let there = kept.iter().filter(|params| looks.take(&tool, params, &call).is_some()).count();
        assert_eq!(there, MAX_LOOKS);
    }
}
