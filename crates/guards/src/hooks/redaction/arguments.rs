//! Secrets in the arguments of calls: the values behind placeholders, one vault for each session, and who gets them
//! back; and calls that hold a secret, personal data or text that hides as it is, in their name or their arguments.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use backstop_engine::Unsealer;
use backstop_hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop_hooks::{
    Answer, ApprovalRequest, CallContext, Context, Ground, Hook, Params, SessionId, Severity,
};
use backstop_scan::{Action, Catalogue, Class, Finding, Policy, Redactor, Scanner, Vault};

use super::{ArgumentActions, InArguments, kind, kinds, log_reported};

/// Judges the arguments of calls.
#[derive(Debug)]
pub(super) struct Calls {
    actions: ArgumentActions,
    redactor: Redactor,
}

impl Calls {
    pub(super) fn new(actions: ArgumentActions, catalogue: &Arc<Catalogue>) -> Self {
        let scanner = Scanner::for_classes(&actions.classes()).with(Arc::clone(catalogue));
        Self { actions, redactor: Redactor::new(Arc::new(scanner), Policy::new(Action::Report)) }
    }

    fn judge(&self, event: &ToolCallEvent) -> Option<ToolCallOutcome> {
        let mut findings = self.redactor.apply_json_and_keys(&mut event.params.to_value());
        // The name is a text as well: in a proxy also that of a field which nobody knows.
        let names = [Some(event.tool_name.canonical()), event.tool_name.called_as()];
        findings.extend(names.into_iter().flatten().flat_map(|name| self.redactor.apply(name).findings));
        let is_reported =
            |finding: &&Finding| self.actions.of(finding.span.class) == Some(InArguments::Report);
        log_reported("before_tool_call", &findings.iter().filter(is_reported).cloned().collect::<Vec<_>>());
        let action = findings.iter().filter_map(|finding| self.actions.of(finding.span.class)).max()?;
        // What is only reported is no reason.
        findings.retain(|finding| self.actions.of(finding.span.class) == Some(action));
        let said = format!("its arguments hold {}", kinds(&findings));
        match action {
            InArguments::Report => None,
            InArguments::Block => Some(ToolCallOutcome::block(format!("{said}, which may not pass here"))),
            InArguments::Ask => {
                let ground =
                    |finding: &Finding| Ground { rule: kind(finding).to_string().into(), about: Vec::new() };
                let request = ApprovalRequest::cut(asked(&findings), &said);
                let grounds: Vec<_> = findings.iter().map(ground).collect();
                let severities = grounds.iter().map(|ground| (ground.rule.clone(), Severity::Warning));
                let request = request.severity(Severity::Warning).severities(severities.collect::<Vec<_>>());
                Some(ToolCallOutcome::ask(request.grounds(grounds)))
            }
        }
    }
}

/// What a human is asked.
fn asked(findings: &[Finding]) -> &'static str {
    let holds = |class: Class| findings.iter().any(|finding| finding.span.class == class);
    match () {
        () if holds(Class::Secret) => "run a call that holds a secret",
        () if holds(Class::Pii) => "run a call that holds personal data",
        () => "run a call that hides text",
    }
}

impl Hook<BeforeToolCall> for Calls {
    fn call<'a>(&'a self, event: &'a ToolCallEvent, _: Context<'a>) -> Answer<'a, BeforeToolCall> {
        Answer::Now(Ok(self.judge(event)))
    }
}

/// The vaults of the sessions that are at work. Bounded: the session that was quiet for the longest time
/// loses its vault, and its placeholders mean nothing any more.
#[derive(Debug)]
pub(super) struct Vaults {
    tools: Vec<String>,
    /// Whether anything is kept at all.
    used: bool,
    open: Mutex<VecDeque<(SessionId, Arc<Vault>)>>,
}

impl Vaults {
    /// How many sessions have a vault at a time.
    const MOST: usize = 128;

    pub(super) fn new(tools: &[String], used: bool) -> Self {
        Self { tools: tools.to_vec(), used, open: Mutex::default() }
    }

    /// Returns the vault of the session, which is made if need be. Without a session there is none: what one
    /// conversation hid must not be had by another.
    pub(super) fn of(&self, call: &CallContext) -> Option<Arc<Vault>> {
        let session = call.session_id.as_ref().filter(|_| self.used)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|(id, _)| id == session).and_then(|at| open.remove(at));
        let (id, vault) =
            known.unwrap_or_else(|| (session.clone(), Arc::new(Vault::new(self.tools.iter().cloned()))));
        open.push_back((id, Arc::clone(&vault)));
        if open.len() > Self::MOST {
            open.pop_front();
        }
        Some(vault)
    }
}

impl Unsealer for Vaults {
    fn unseal(&self, event: &ToolCallEvent, call: &CallContext) -> Option<Params> {
        let vault = self.of(call)?;
        let mut arguments = event.params.to_value();
        let tool = event.tool_name.names_it_is_allowed_by().find(|name| vault.serves(name))?;
        let restored = vault.restore(tool, &mut arguments);
        (restored > 0).then(|| Params::from_value(arguments)).flatten()
    }
}
