//! What stands on the stage besides questions and receipts: sessions, grants, budgets, answers, and another configuration.

use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::Engine;
use backstop_gateway::{
    CheckedConfiguration, Configuration, ConfigurationProblem, Exception, ReloadedConfiguration,
    ServedPlugin, ShownConfiguration, TriedCall,
};
use backstop_hooks::conversation::{Message, Part, Role, ToolCall, ToolResult};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{
    AgentId, CallContext, Decision, HookId, Json, OwnerId, Params, SessionId, Severity, ToolName,
};
use backstop_store::{
    Asked, Charge, GrantPlace, GrantTarget, LeaseHolder, NewEntry, NewGrant, ReservationId, Session,
    Timestamp,
};
use serde_json::{Value, json};

use super::{DAY, Stage};

/// What nobody is to take for markup, nor to read backwards.
pub(super) const HOSTILE: &str = "<b onclick=window.hit=1>eve\u{202e}";

impl Stage {
    /// Keeps a session in which a model calls a tool, all of it with this text.
    pub(super) async fn session(&self, said: &Value) {
        let text = said["text"].as_str().unwrap();
        let id = SessionId::from(said["id"].as_str().unwrap().to_owned());
        let (now, holder) = (Timestamp::now(), LeaseHolder::new("stage"));
        let session = Session {
            id: id.clone(),
            key: text.to_owned().into(),
            agent: AgentId::new(text),
            workspace: text.to_owned(),
            created_at: now,
            updated_at: now,
            ended: None,
            resumed_from: None,
            meta: Json::default(),
        };
        self.store.create_session(session).await.unwrap();
        self.store.lease_session(&id, &holder, Duration::from_secs(60), now).await.unwrap();
        let call = ToolCall {
            id: text.to_owned().into(),
            name: text.to_owned(),
            arguments: Params::from_value(json!({ text: text })).unwrap(),
            malformed: None,
            meta: None,
        };
        let result = ToolResult {
            tool_call_id: text.to_owned().into(),
            tool_name: Some(text.to_owned()),
            content: vec![Part::Text { text: text.into(), meta: None }],
            is_error: true,
            details: None,
            meta: None,
        };
        let messages = [
            (Role::User, Part::Text { text: text.into(), meta: None }),
            (Role::Assistant, Part::Thinking { text: text.into(), meta: None }),
            (Role::Assistant, Part::ToolCall(call)),
            (Role::Tool, Part::ToolResult(result)),
        ];
        let entries = messages.into_iter().enumerate().map(|(number, (role, part))| NewEntry {
            id: format!("m{number}").into(),
            run: None,
            message: Message { role, content: vec![part].into(), id: None, run_id: None, meta: None },
            at: now,
            tokens: None,
        });
        self.store.append(&id, &holder, entries.collect()).await.unwrap();
    }

    /// Grants something for longer, all of it with this text.
    pub(super) async fn grant(&self, said: &Value) {
        let (text, now) = (said.as_str().unwrap(), Timestamp::now());
        let question = Asked {
            owner: OwnerId::operator(),
            hook: HookId::new(text),
            severity: Severity::Warning,
            rules: [backstop_hooks::RuleId::new(text)].into(),
            title: text.into(),
        };
        let grant = NewGrant {
            agent: AgentId::new(text),
            tool_name: ToolName::new(text),
            place: GrantPlace { workspace: Some(text.to_owned()), ..GrantPlace::default() },
            question,
            target: GrantTarget::Program { words: vec![text.to_owned()] },
            origin: None,
            title: text.into(),
            created_by: text.to_owned(),
            person: None,
            created_at: now,
            expires_at: now.after(DAY),
            most_uses: Some(3),
        };
        self.engine.answer_store().add_grant(grant).await.unwrap();
    }

    /// Spends of a budget, all of whose names are this text.
    pub(super) async fn budget(&mut self, said: &Value) {
        let (text, now) = (said.as_str().unwrap(), Timestamp::now());
        self.asked += 1;
        let part = text.replace('%', "%25").replace('/', "%2f");
        let charge = Charge {
            counter: format!("budget/{text}/{part}/{part}/{part}/tokens").into(),
            since: now,
            until: Some(now.after(DAY)),
            amount: 7,
            limit: 10,
        };
        let reservation = ReservationId::new(format!("stage-{}", self.asked));
        self.store.reserve(&reservation, vec![charge]).await.unwrap();
    }

    /// Answers a question for somebody of whom nothing is known.
    pub(super) async fn answer(&self, said: &Value) {
        let id = said["id"].as_str().unwrap().to_owned().into();
        let by = said["by"].as_str().unwrap();
        let decision = if said["deny"] == true { Decision::Deny } else { Decision::AllowOnce };
        self.engine.answer_store().resolve_approval(&id, decision, by, Timestamp::now()).await.unwrap();
    }
}

/// Another configuration, whatever text it is: the hooks are those of the stage, and one of it was not asked.
#[derive(Debug)]
pub(super) struct Other(pub(super) Engine);

#[async_trait]
impl Configuration for Other {
    fn shown(&self) -> ShownConfiguration {
        ShownConfiguration { values: json!({}), digest: String::new() }
    }

    fn check(&self, _: &str) -> CheckedConfiguration {
        CheckedConfiguration::default()
    }

    async fn try_call(
        &self,
        text: String,
        event: ToolCallEvent,
        call: CallContext,
    ) -> Result<TriedCall, Vec<ConfigurationProblem>> {
        if text.starts_with("wrong") {
            let (message, hint, line, column) = (text.clone(), Some(text), Some(7), Some(3));
            return Err(vec![ConfigurationProblem { kind: "unknown", message, line, column, hint }]);
        }
        let reviewed = self.0.review_tool_call(event, &call, true).await;
        let (unasked, hooks) = (vec![(text.clone(), "it is a program")], self.0.registry().list());
        Ok(TriedCall { reviewed, starts: None, hooks, unasked, variables: vec![text] })
    }

    async fn reload(&self, _: &str) -> Result<ReloadedConfiguration, String> {
        Err("not here".to_owned())
    }

    fn plugins(&self) -> Vec<ServedPlugin> {
        Vec::new()
    }

    fn exceptions(&self) -> Vec<Exception> {
        let hostile = || Some(HOSTILE.to_owned());
        let one = |rule: Option<String>, last_day: Option<String>| Exception {
            guard: "command_safety",
            rule,
            exempt: hostile(),
            reason: HOSTILE.to_owned(),
            last_day,
            at: format!("{HOSTILE}:7:3"),
        };
        vec![one(hostile(), None), one(None, Some("2001-02-03".to_owned()))]
    }
}
