//! What a case asks: a command, a tool call, or an event at any hook point.

use backstop::hooks::points::{self, ToolCallEvent, context_schema};
use backstop::hooks::{CallContext, Mode, Params, Point, PointId, ToolName};
use backstop::yaml::{Kind, Node, Problem, ProblemKind, quote};
use serde_json::Value;

use super::fields::{Fields, text, unknown, wrong};

/// The tool that runs a command.
const SHELL: &str = "exec";

/// What is judged.
#[derive(Clone, Debug)]
pub(super) enum Call {
    /// A tool call, which passes all gates in front of a tool.
    Tool(ToolCallEvent),
    /// An event at another point, in its JSON form.
    Event(PointId, Value),
}

impl Call {
    /// Reads one call, or each of a list of them.
    pub(super) fn read(node: &Node) -> Result<Vec<Self>, Problem> {
        match &node.kind {
            Kind::List(items) if items.is_empty() => Err(wrong(node, "`call` is an empty list")),
            Kind::List(items) => items.iter().map(Self::one).collect(),
            _ => Ok(vec![Self::one(node)?]),
        }
    }

    fn one(node: &Node) -> Result<Self, Problem> {
        if let Kind::Text(_) = node.kind {
            return Ok(Self::command(text(node, "call")?));
        }
        let hint = "write a command as a text, {tool: NAME, args: {...}}, or {point: NAME, event: {...}}";
        let known = ["command", "tool", "args", "point", "event"];
        let fields =
            Fields::of(node, "a call that is no text", &known).map_err(|problem| match problem.kind() {
                ProblemKind::UnknownKey => problem,
                _ => problem.with_hint(hint),
            })?;
        let [command, tool, args, point, event] = known.map(|key| fields.get(key));
        match (command, tool, args, point, event) {
            (Some(command), None, None, None, None) => Ok(Self::command(text(command, "command")?)),
            (None, Some(tool), args, None, None) => {
                let params = args.map_or_else(|| Ok(Params::default()), params)?;
                Ok(Self::Tool(ToolCallEvent::new(ToolName::new(text(tool, "tool")?), params)))
            }
            (None, None, None, Some(point), Some(event)) => Self::event(point, event),
            _ => Err(wrong(node, "this is no call, or several").with_hint(hint)),
        }
    }

    fn command(command: &str) -> Self {
        let args = [("command".to_owned(), Value::from(command))].into_iter().collect();
        Self::Tool(ToolCallEvent::new(ToolName::new(SHELL), Params::new(args)))
    }

    fn event(at: &Node, event: &Node) -> Result<Self, Problem> {
        let point: PointId = text(at, "point")?.parse().map_err(|_| {
            let name = quote(text(at, "point").unwrap_or_default());
            let problem =
                Problem::new(ProblemKind::UnknownName, at.at.clone(), format!("unknown hook point `{name}`"));
            match PointId::nearest(&name) {
                Some(nearest) => problem.with_hint(format!("did you mean `{nearest}`?")),
                None => problem.with_hint("`backstop hooks --all` lists them"),
            }
        })?;
        match point {
            PointId::ToolBefore | PointId::TrustedToolPolicy => {
                return Err(wrong(
                    at,
                    format!("`{point}` is one of the gates that a tool call passes together"),
                )
                .with_hint("write {tool: NAME, args: {...}}, or the event of `before_tool_call`"));
            }
            _ if point.info().mode == Mode::Observe => {
                return Err(wrong(at, format!("hooks at `{point}` only watch, so a case there can't fail")));
            }
            _ => {}
        }
        let value = read_event(point, event)?;
        if point == PointId::BeforeToolCall {
            return Ok(Self::Tool(event.read::<ToolCallEvent>()?));
        }
        Ok(Self::Event(point, value))
    }

    /// Returns the point at which it is judged.
    pub(super) fn point(&self) -> PointId {
        match self {
            Self::Tool(_) => PointId::BeforeToolCall,
            Self::Event(point, _) => *point,
        }
    }

    /// Returns the call in one line, for its name.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Tool(event) => {
                let command = event.params.get("command").and_then(Value::as_str);
                match command.filter(|_| event.tool_name.called() == SHELL && event.params.len() == 1) {
                    Some(command) => command.to_owned(),
                    None => format!("{} {}", event.tool_name.called(), event.params.to_value()),
                }
            }
            Self::Event(point, event) => format!("{point} {event}"),
        }
    }
}

fn params(node: &Node) -> Result<Params, Problem> {
    match node.kind {
        Kind::Map(_) => node.read(),
        _ => Err(wrong(node, format!("`args` is a mapping, found {}", node.shape()))),
    }
}

/// Reads who calls, in the JSON form of the contexts of hooks.
pub(super) fn context(node: &Node) -> Result<CallContext, Problem> {
    known_keys(node, &context_schema())?;
    node.read()
}

/// INVARIANT (closed world): an event's type passes over keys that it does not know, and a case with a misspelt key would
/// say something else than its author believes.
fn known_keys(node: &Node, schema: &impl serde::Serialize) -> Result<(), Problem> {
    let Kind::Map(entries) = &node.kind else {
        return Err(wrong(node, format!("expected a mapping, found {}", node.shape())));
    };
    let schema = serde_json::to_value(schema).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    let known: Vec<&str> = properties.into_iter().flat_map(|keys| keys.keys()).map(String::as_str).collect();
    match entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
        Some(entry) => Err(unknown(entry, &known)),
        None => Ok(()),
    }
}

macro_rules! read_at_each {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal,
       $injection:literal, $event:ident, $outcome:ident, $summary:literal;)*) => {
        /// Reads an event of a point, so that what is wrong with it is said at its place.
        fn read_event(point: PointId, node: &Node) -> Result<Value, Problem> {
            known_keys(node, &point.event_schema())?;
            match point {
                $(PointId::$point => {
                    let event = node.read::<<points::$point as Point>::Event>()?;
                    serde_json::to_value(event).map_err(|error| wrong(node, error.to_string()))
                })*
            }
        }
    };
}

backstop::hooks::for_each_point!(read_at_each);
