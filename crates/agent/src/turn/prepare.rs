//! The first half of a turn: from a message to a prompt that may be asked.
//!
//! `message.before` -> `params.before` -> `before_model_resolve` -> the session and what was queued for it
//! -> `agent_turn_prepare` -> `before_prompt_build` (with the deprecated `before_agent_start`, and
//! `heartbeat_prompt_contribution` on background turns) -> `before_agent_run`. Nothing is stored and no
//! model reads anything before the last of these has let the prompt pass.
//!
//! What hooks put around the message belongs to this turn: the model reads it with the message in each call
//! of the turn, the transcript keeps the message alone.

use std::sync::Arc;

use backstop_engine::{BlockCause, Blocked, HookMeta, Rewrite, parameter_changes};
use backstop_hooks::conversation::{Message, Part, Role};
use backstop_hooks::points::{
    AgentRunEvent, AgentRunOutcome, AgentStartOutcome, AgentTurnPrepare, Attachment, AttachmentKind,
    BeforeAgentRun, BeforeAgentStart, BeforeModelResolve, BeforePromptBuild, HeartbeatEvent,
    HeartbeatPromptContribution, MessageBefore, MessageBeforeEvent, ModelResolveEvent, ParamsBefore,
    ParamsBeforeEvent, Placement, PromptBuildEvent, PromptBuildOutcome, QueuedInjection, ReasoningLevel,
    ThinkLevel, ToolsAllow, TurnPrepareEvent,
};
use backstop_hooks::{Outcome, Params, Point, PointId, Reason, Text, ToolName};
use backstop_llm::Model;
use backstop_store::{Injection, Timestamp};
use serde_json::json;

use super::run::{Run, Stop};
use super::transcript::{Transcript, own_meta};
use crate::report::{TurnError, TurnInput, TurnTrigger};
use crate::tools::ToolSpec;

/// A prompt that may be asked, and of whom.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The message as `message.before` left it.
    pub(crate) message: Message,
    /// The message with its context, as the model reads it.
    pub(crate) prompt: Text,
    pub(crate) system: Text,
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) client: Arc<dyn Model>,
    pub(crate) params: ModelParams,
    pub(crate) tools: Vec<ToolSpec>,
}

/// What `params.before` fixes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelParams {
    pub(crate) think: Option<ThinkLevel>,
    pub(crate) reasoning: ReasoningLevel,
    pub(crate) temperature: Option<f64>,
}

/// Text around the message and the system prompt, and the tools left.
#[derive(Debug, Default)]
struct Surroundings {
    before: Vec<Text>,
    after: Vec<Text>,
    build: PromptBuildOutcome,
    provider: Option<String>,
    model: Option<String>,
}

/// Takes the input through every point in front of the run.
pub(crate) async fn prepare(
    run: &Run<'_>,
    transcript: &mut Transcript,
    input: &TurnInput,
) -> Result<Prepared, Stop> {
    let (text, metadata) = message_before(run, &input.prompt).await?;
    let params = params_before(run, &text, metadata).await?;
    let mut around = Surroundings::default();
    resolve_model(run, &text, input, &mut around).await?;
    let message = user_message(&text, input);
    turn_prepare(run, transcript, &text, &mut around).await?;
    prompt_build(run, transcript, &message, &text, &mut around).await?;
    if let TurnTrigger::Heartbeat { name } = &input.trigger {
        heartbeat(run, name.clone(), &mut around).await?;
    }
    let prompt: Text = around.around(&text).into();
    let system: Text = around.system(&run.agent.settings.system_prompt).into();
    agent_run(run, transcript, &prompt, &system, input).await?;

    let settings = &run.agent.settings;
    let provider = around.provider.take().unwrap_or_else(|| settings.provider.clone());
    let model = around.model.take().unwrap_or_else(|| settings.model.clone());
    let client = run.agent.models.resolve(&provider, &model);
    let client = client.map_err(|error| Stop::Failed(TurnError::UnknownModel(error)))?;
    let tools = offered(run, around.build.tools_allow.as_ref());
    Ok(Prepared { message, prompt, system, provider, model, client, params, tools })
}

fn user_message(text: &Text, input: &TurnInput) -> Message {
    let images = input.attachments.iter().map(|image| Part::Image {
        mime_type: image.mime_type.clone(),
        source: image.source.clone(),
        meta: None,
    });
    Message::new(Role::User, std::iter::once(Part::text(text.clone())).chain(images).collect())
}

async fn message_before(run: &Run<'_>, prompt: &Text) -> Result<(Text, Params), Stop> {
    let settings = &run.agent.settings;
    let event = MessageBeforeEvent {
        agent_id: settings.agent_id.clone(),
        session_key: run.call.session_key.clone(),
        provider: settings.provider.clone(),
        model: settings.model.clone(),
        message: prompt.clone(),
        metadata: Params::default(),
    };
    let event = run.pass::<MessageBefore>(event).await?.event;
    let mut changes = Vec::new();
    if event.message != *prompt {
        changes.push("message mutated".to_owned());
    }
    if !event.metadata.is_empty() {
        let keys: Vec<&str> = event.metadata.keys().map(String::as_str).collect();
        changes.push(format!("metadata: {}", keys.join(", ")));
    }
    run.outlet().changed(PointId::MessageBefore, changes);
    Ok((event.message, event.metadata))
}

async fn params_before(run: &Run<'_>, text: &Text, metadata: Params) -> Result<ModelParams, Stop> {
    let settings = &run.agent.settings;
    let event = ParamsBeforeEvent {
        agent_id: settings.agent_id.clone(),
        session_key: run.call.session_key.clone(),
        message: text.clone(),
        metadata,
        provider: settings.provider.clone(),
        model: settings.model.clone(),
        think_level: settings.think,
        reasoning_level: Some(settings.reasoning),
        temperature: settings.temperature,
    };
    let outcome = run.pass::<ParamsBefore>(event).await?;
    run.outlet().changed(PointId::ParamsBefore, parameter_changes(&outcome.outcome));
    Ok(ModelParams {
        think: outcome.event.think_level,
        // What a hook cleared is what nobody asked for.
        reasoning: outcome.event.reasoning_level.unwrap_or(ReasoningLevel::Off),
        temperature: outcome.event.temperature,
    })
}

async fn resolve_model(
    run: &Run<'_>,
    text: &Text,
    input: &TurnInput,
    around: &mut Surroundings,
) -> Result<(), Stop> {
    let attachments: Vec<Attachment> = input
        .attachments
        .iter()
        .map(|image| Attachment { kind: AttachmentKind::Image, mime_type: Some(image.mime_type.clone()) })
        .collect();
    let event = ModelResolveEvent {
        prompt: text.clone(),
        attachments: (!attachments.is_empty()).then_some(attachments),
    };
    let outcome = run.pass::<BeforeModelResolve>(event).await?.outcome;
    around.provider = outcome.provider_override;
    around.model = outcome.model_override;
    Ok(())
}

async fn turn_prepare(
    run: &Run<'_>,
    transcript: &Transcript,
    text: &Text,
    around: &mut Surroundings,
) -> Result<(), Stop> {
    let key = run.session.key();
    // The store may be that of hosts with another configuration: what is of others stays for them.
    let owners = run.agent.engine.registry().snapshot().injecting_owners();
    let taken = run.agent.store.take_injections(key, &run.id, &owners, Timestamp::now()).await?;
    let injections: Vec<QueuedInjection> = taken.iter().map(as_queued).collect();
    for injection in &injections {
        match injection.placement {
            Placement::PrependContext => around.before.push(injection.text.clone()),
            Placement::AppendContext => around.after.push(injection.text.clone()),
        }
    }
    let event = TurnPrepareEvent {
        prompt: text.clone(),
        messages: transcript.messages(),
        queued_injections: injections,
    };
    let outcome = run.pass::<AgentTurnPrepare>(event).await?.outcome;
    around.before.extend(outcome.prepend_context);
    around.after.extend(outcome.append_context);
    Ok(())
}

fn as_queued(injection: &Injection) -> QueuedInjection {
    QueuedInjection {
        id: injection.idempotency_key.clone().unwrap_or_else(|| injection.seq.to_string()),
        owner: injection.owner.clone(),
        text: injection.text.clone(),
        placement: injection.placement,
        idempotency_key: injection.idempotency_key.clone(),
        created_at: injection.created_at.as_millis(),
        ttl_ms: injection.ttl().map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
        metadata: injection.metadata.clone(),
    }
}

async fn prompt_build(
    run: &Run<'_>,
    transcript: &Transcript,
    message: &Message,
    text: &Text,
    around: &mut Surroundings,
) -> Result<(), Stop> {
    let event = PromptBuildEvent {
        prompt: text.clone(),
        messages: transcript.messages(),
        current_user_message: Some(message.clone()),
        system_prompt: Some(run.agent.settings.system_prompt.clone()),
    };
    let before = event.clone();
    let built = run.pass::<BeforePromptBuild>(event).await?;
    around.build = built.outcome;
    warn_of_old_point(run);
    let AgentStartOutcome {
        provider_override,
        model_override,
        system_prompt,
        prepend_context,
        append_context,
        prepend_system_context,
        append_system_context,
        tools_allow,
    } = run.pass::<BeforeAgentStart>(built.event).await?.outcome;
    around.provider = around.provider.take().or(provider_override);
    around.model = around.model.take().or(model_override);
    let system_prompt = match system_prompt {
        Some(proposed) => older_system_prompt(run, before, proposed).await?,
        None => None,
    };
    // What the older point says counts as said after the newer one.
    around.build.merge(PromptBuildOutcome {
        system_prompt,
        prepend_context,
        append_context,
        prepend_system_context,
        append_system_context,
        tools_allow,
    });
    around.before.extend(around.build.prepend_context.take());
    around.after.extend(around.build.append_context.take());
    Ok(())
}

/// The system prompt that hooks at the older point propose, if those at the newer one accept it. Both points fail open,
/// so a rewrite to which somebody objects gives way, unless a hook says that its rewrite is required.
async fn older_system_prompt(
    run: &Run<'_>,
    mut event: PromptBuildEvent,
    proposed: Text,
) -> Result<Option<Text>, Stop> {
    event.system_prompt = Some(proposed.clone());
    let judged = run.pass::<BeforePromptBuild>(event).await?.event.system_prompt;
    if judged.as_ref() == Some(&proposed) {
        return Ok(Some(proposed));
    }
    let hooks = run.agent.engine.registry().list();
    let insists =
        |hook: &HookMeta| hook.point == PointId::BeforeAgentStart && hook.rewrite == Rewrite::Required;
    match hooks.iter().find(|hook| insists(hook)) {
        None => {
            tracing::warn!(
                "a system prompt of `before_agent_start` is not used: a hook at `before_prompt_build` objects"
            );
            Ok(None)
        }
        Some(hook) => Err(Stop::Blocked {
            point: PointId::BeforeAgentStart,
            blocked: Blocked {
                cause: BlockCause::UnstableRewrite { writer: Some(hook.id.clone()) },
                reason: Some(Reason::fixed(
                    "rewrite.unstable",
                    format!(
                        "unstable_rewrite: `before_prompt_build` does not accept what `{}` wrote",
                        hook.id
                    ),
                )),
                hook: Some(hook.id.clone()),
                owner: Some(hook.owner.clone()),
            },
            message: None,
        }),
    }
}

/// Says once that hooks stand at the deprecated point.
fn warn_of_old_point(run: &Run<'_>) {
    static SAID: std::sync::Once = std::sync::Once::new();
    if run.agent.engine.has_hooks::<BeforeAgentStart>() {
        let instead = BeforeAgentStart::INFO.deprecated.unwrap_or_default();
        SAID.call_once(|| {
            tracing::warn!("hooks stand at `before_agent_start`, which is deprecated: {instead}");
        });
    }
}

async fn heartbeat(
    run: &Run<'_>,
    heartbeat_name: Option<String>,
    around: &mut Surroundings,
) -> Result<(), Stop> {
    let event = HeartbeatEvent {
        session_key: run.call.session_key.clone(),
        agent_id: run.call.agent_id.clone(),
        heartbeat_name,
    };
    let outcome = run.pass::<HeartbeatPromptContribution>(event).await?.outcome;
    around.before.extend(outcome.prepend_context);
    around.after.extend(outcome.append_context);
    Ok(())
}

impl Surroundings {
    fn around(&self, text: &Text) -> String {
        join(self.before.iter().chain([text]).chain(&self.after))
    }

    fn system(&self, configured: &Text) -> String {
        let own = self.build.system_prompt.as_ref().unwrap_or(configured);
        let before = self.build.prepend_system_context.iter();
        join(before.chain([own]).chain(&self.build.append_system_context))
    }
}

fn join<'a>(texts: impl Iterator<Item = &'a Text>) -> String {
    texts.map(Text::as_str).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The gate in front of the run. Of a prompt that it stops, nothing is kept but that it was stopped.
async fn agent_run(
    run: &Run<'_>,
    transcript: &mut Transcript,
    prompt: &Text,
    system: &Text,
    input: &TurnInput,
) -> Result<(), Stop> {
    let sender = input.sender.as_ref();
    let event = AgentRunEvent {
        prompt: prompt.clone(),
        messages: transcript.messages(),
        system_prompt: Some(system.clone()),
        sender_id: sender.and_then(|sender| sender.sender_id.clone()),
        sender_is_owner: sender.and_then(|sender| sender.sender_is_owner),
    };
    let decided = run.decide::<BeforeAgentRun>(event).await?.into_parts();
    let Some(blocked) = decided.blocked else { return Ok(()) };
    let (message, category) = match decided.outcome {
        AgentRunOutcome::Block { message, category, .. } if blocked.cause == BlockCause::Decision => {
            (message, category)
        }
        AgentRunOutcome::Block { .. } | AgentRunOutcome::Pass {} => (None, None),
    };
    let by = blocker(&blocked, PointId::BeforeAgentRun);
    let said: Text = match message {
        Some(message) => format!("this message was not passed on: {message} (blocked by {by})").into(),
        None => format!("this message was not passed on (blocked by {by})").into(),
    };
    let mut kept = Message::user(said.clone());
    let facts = json!({ "blockedBy": by, "blockedAt": Timestamp::now(), "category": category });
    kept.meta = Some(own_meta("beforeAgentRunBlocked", facts));
    transcript.append(run, kept).await?;
    // INVARIANT (internal reason): it quotes what must not be kept, and goes no further than here.
    let blocked = Blocked { reason: None, ..blocked };
    Err(Stop::Blocked { point: PointId::BeforeAgentRun, blocked, message: Some(said) })
}

/// Who blocked: the hook, or the point where it stands.
pub(crate) fn blocker(blocked: &Blocked, point: PointId) -> String {
    blocked.hook.as_ref().map_or_else(|| point.info().name.to_owned(), ToString::to_string)
}

/// The tools of this turn.
fn offered(run: &Run<'_>, allowed: Option<&ToolsAllow>) -> Vec<ToolSpec> {
    let configured = run.agent.settings.tools.as_ref();
    let mut tools = run.toolbox.definitions();
    tools.retain(|tool| {
        let name = ToolName::new(&tool.name);
        [configured, allowed].into_iter().flatten().all(|list| list.allows(&name))
    });
    tools
}
