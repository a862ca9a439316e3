//! Tools of plugins, as the agent calls them.
//!
//! A tool is a tool whatever it is written in: a `registerTool` of a script, or one of the `tools` of a program. Its answer is
//! that of the system it comes from (`{content: [{type: "text", text}], details}`); a text or another object is taken as its
//! JSON, and anything else is an error that the model reads.
//!
//! Limits: names as all providers take them, a schema of at most [`MOST_SCHEMA`] bytes, [`MOST_BLOCKS`] blocks in an answer.
//! While it is called, the plugin may keep something with the conversation of the call, or say something for its next turn.
//! A tool is given the arguments that hooks have seen: placeholders stay placeholders.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{CallContext, OwnerId, ToolName};
use backstop_script::{Argument, Arguments, JsonText, ScriptError};
use serde_json::{Map, Value, json};

use crate::external::process::ProcessPlugin;
use crate::openclaw::{Offered, Scripted};
use crate::registration::OfferKind;
use crate::set::{BACKSTOP, Running, SetError, Why};

/// The longest name of a tool: what every provider takes.
const LONGEST_NAME: usize = 64;
/// The most bytes of a tool's schema and description.
pub const MOST_SCHEMA: usize = 64 * 1024;
/// The most blocks of one answer.
pub const MOST_BLOCKS: usize = 200;

/// A tool that a plugin brings.
#[derive(Clone)]
pub struct PluginTool {
    owner: OwnerId,
    name: String,
    description: String,
    schema: Value,
    how: How,
}

#[derive(Clone)]
enum How {
    Script(Arc<Scripted>, Offered),
    Process(ProcessPlugin),
}

impl fmt::Debug for PluginTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginTool")
            .field("owner", &self.owner)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// One call of a tool.
#[derive(Clone, Copy, Debug)]
pub struct ToolRequest<'a> {
    /// The id of the call.
    pub id: &'a str,
    /// The arguments, as hooks have seen them.
    pub arguments: &'a Map<String, Value>,
    /// Whose call it is.
    pub context: &'a CallContext,
}

/// What a tool answered, or what is to be said in its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolAnswer {
    /// What the model reads.
    pub text: String,
    /// What it sees: media type and base64.
    pub images: Vec<(String, String)>,
    /// Whether the call failed.
    pub is_error: bool,
    /// What the tool says for displays, never for the model.
    pub details: Value,
}

impl PluginTool {
    /// The plugin.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the model is told that it does.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The JSON Schema of its arguments, an object's.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Calls it. When the returned future is dropped, its signal is aborted, or its program is told that nobody waits.
    pub async fn call(&self, request: ToolRequest<'_>, budget: Duration) -> ToolAnswer {
        let said = match &self.how {
            How::Script(script, offered) => {
                let _open = script.answering.open(request.context.session_key.as_ref());
                match arguments(request) {
                    Ok(arguments) => match script.call(offered, "execute", &arguments, budget).await {
                        Ok(Some(answer)) => answer.json.read::<Value>().map_err(|error| error.to_string()),
                        Ok(None) => Ok(Value::Null),
                        Err(error) => Err(words(&error)),
                    },
                    Err(error) => Err(error.to_string()),
                }
            }
            How::Process(process) => {
                let arguments = Value::Object(request.arguments.clone());
                match tokio::time::timeout(budget, process.call_tool(&self.name, &arguments)).await {
                    Ok(answer) => answer.map_err(|error| error.to_string()),
                    Err(_) => Err(format!("no answer within {} ms", budget.as_millis())),
                }
            }
        };
        match said.and_then(|said| read(&said).map_err(|error| format!("it answered garbage: {error}"))) {
            Ok(answer) => answer,
            Err(why) => self.failed(&why),
        }
    }

    fn failed(&self, why: &str) -> ToolAnswer {
        let Self { name, owner, .. } = self;
        let text = format!("tool `{name}` of plugin `{owner}` failed: {why}");
        ToolAnswer { text, is_error: true, details: json!({ "status": "error" }), ..ToolAnswer::default() }
    }
}

/// What was thrown, without the place in the plugin's files, which nobody can do anything with who only calls it.
fn words(error: &ScriptError) -> String {
    match error {
        ScriptError::Thrown { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

fn arguments(request: ToolRequest<'_>) -> Result<Arguments, serde_json::Error> {
    let ToolRequest { id, arguments, context } = request;
    let context = json!({
        "agentId": context.agent_id,
        "sessionKey": context.session_key,
        "sessionId": context.session_id,
        "runId": context.run_id,
        "messageChannel": context.message_provider,
    });
    Ok(Arguments::new([
        Argument::Json(JsonText::of(id)?),
        Argument::Json(JsonText::of(arguments)?),
        Argument::Signal,
        Argument::Json(JsonText::of(&context)?),
    ]))
}

/// Reads an answer.
fn read(said: &Value) -> Result<ToolAnswer, String> {
    let answer = match said {
        Value::String(text) => return Ok(ToolAnswer { text: text.clone(), ..ToolAnswer::default() }),
        Value::Object(answer) => answer,
        Value::Null => return Err("nothing".to_owned()),
        Value::Array(_) => return Err("a list, where `{content: [..]}` was expected".to_owned()),
        Value::Bool(_) | Value::Number(_) => return Err(format!("`{said}`")),
    };
    let details = answer.get("details").cloned().unwrap_or_default();
    let mut read = ToolAnswer { details, ..ToolAnswer::default() };
    match answer.get("content") {
        None => read.text = said.to_string(),
        Some(Value::String(text)) => read.text.clone_from(text),
        Some(Value::Array(blocks)) if blocks.len() > MOST_BLOCKS => {
            return Err(format!("{} blocks, where {MOST_BLOCKS} may be", blocks.len()));
        }
        Some(Value::Array(blocks)) => {
            let mut texts = Vec::new();
            for (at, block) in blocks.iter().enumerate() {
                take(block, &mut texts, &mut read.images).map_err(|why| format!("`content[{at}]` {why}"))?;
            }
            read.text = texts.join("\n");
        }
        Some(_) => return Err("`content` is no list of blocks".to_owned()),
    }
    let status = read.details.get("status").and_then(Value::as_str);
    read.is_error = match answer.get("isError") {
        None => matches!(status, Some("error" | "timeout")),
        Some(Value::Bool(is_error)) => *is_error,
        Some(_) => return Err("`isError` is neither true nor false".to_owned()),
    };
    Ok(read)
}

fn take(
    block: &Value,
    texts: &mut Vec<String>,
    images: &mut Vec<(String, String)>,
) -> Result<(), &'static str> {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    match field("type") {
        Some("text") => texts.push(field("text").ok_or("has no `text`")?.to_owned()),
        Some("image") => {
            let mime_type = field("mimeType").filter(|mime_type| mime_type.starts_with("image/"));
            let data = field("data").filter(|data| !data.is_empty());
            images.push((
                mime_type.ok_or("has no `mimeType` of a picture")?.to_owned(),
                data.ok_or("has no `data`")?.to_owned(),
            ));
        }
        _ => return Err("is neither a text nor an image"),
    }
    Ok(())
}

/// A tool as its plugin registered it.
pub(crate) struct Brought {
    pub(crate) tool: PluginTool,
    pub(crate) optional: bool,
}

/// The tools of one plugin, as its code has them.
pub(crate) fn of(plugin: &Running) -> Result<Vec<Brought>, Why> {
    let owner = OwnerId::new(plugin.id.as_str());
    let mut all = Vec::new();
    let offers = plugin.registration.offers().iter().filter(|offer| offer.kind == OfferKind::Tool);
    for (at, offer) in offers.enumerate() {
        let how = match (&plugin.script, &plugin.process) {
            (Some(script), _) => {
                let offered = script.offers.iter().filter(|offered| offered.offer.kind == OfferKind::Tool);
                let Some(offered) = offered.into_iter().nth(at) else { continue };
                How::Script(Arc::clone(script), offered.clone())
            }
            (None, Some(process)) => How::Process(process.clone()),
            (None, None) => continue,
        };
        let optional = match &how {
            How::Script(_, offered) => offered.more.get("optional") == Some(&Value::Bool(true)),
            How::Process(_) => false,
        };
        let schema = offer.schema.as_ref().map(backstop_hooks::Json::to_value).unwrap_or_default();
        let bad = |why: &str| Why::Tool { name: offer.name.clone(), why: why.to_owned() };
        is_name(&offer.name).map_err(&bad)?;
        let schema = object_schema(schema).map_err(&bad)?;
        if schema.to_string().len() + offer.description.len() > MOST_SCHEMA {
            return Err(bad("has more than 64 KiB of schema and description"));
        }
        let (name, description) = (offer.name.clone(), offer.description.clone());
        all.push(Brought {
            tool: PluginTool { owner: owner.clone(), name, description, schema, how },
            optional,
        });
    }
    Ok(all)
}

fn is_name(name: &str) -> Result<(), &'static str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_one = !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(plain);
    is_one.then_some(()).ok_or("has a name that no model can call\nhint: 1 to 64 letters, digits, `_`, `-`")
}

/// The schema as one of an object, which arguments are.
fn object_schema(schema: Value) -> Result<Value, &'static str> {
    let Value::Object(mut fields) = schema else { return Err("has no schema of its arguments") };
    match fields.get("type") {
        None => fields.insert("type".to_owned(), "object".into()).map_or(Ok(()), |_| Ok(())),
        Some(Value::String(kind)) if kind == "object" => Ok(()),
        Some(_) => Err("has a schema that is not of an object, which arguments are"),
    }?;
    // Some providers refuse an object that does not say what it holds.
    fields.entry("properties").or_insert_with(|| json!({}));
    Ok(Value::Object(fields))
}

/// Refuses two tools that a model or a rule could take for each other. `own` are the agent's.
pub(crate) fn check_names(plugins: &[Running], own: &[String]) -> Result<(), SetError> {
    let mut taken: BTreeMap<String, String> =
        own.iter().map(|name| (ToolName::new(name).canonical().to_owned(), BACKSTOP.to_owned())).collect();
    for plugin in plugins {
        for tool in &plugin.tools {
            let canonical = ToolName::new(&tool.name).canonical().to_ascii_lowercase();
            if let Some(by) = taken.insert(canonical, format!("plugin `{}`", plugin.id)) {
                let why = Why::Taken { what: OfferKind::Tool, name: tool.name.clone(), by };
                return Err(SetError { id: plugin.id.clone(), why: Box::new(why) });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_reference_are_read_and_garbage_is_named() {
        let answer = read(&json!({ "content": [
            { "type": "text", "text": "a" }, { "type": "image", "mimeType": "image/png", "data": "AA==" },
            { "type": "text", "text": "b" },
        ], "details": { "n": 1 } }))
        .unwrap();
        assert_eq!(
            (answer.text.as_str(), answer.images.len(), answer.is_error, &answer.details),
            ("a\nb", 1, false, &json!({ "n": 1 }))
        );
        assert_eq!(read(&json!("plain")).unwrap().text, "plain");
        assert_eq!(read(&json!({ "n": 1 })).unwrap().text, r#"{"n":1}"#);
        assert_eq!(read(&json!({ "content": [] })).unwrap().text, "");
        assert!(read(&json!({ "content": [], "isError": true })).unwrap().is_error);
        assert!(read(&json!({ "content": [], "details": { "status": "error" } })).unwrap().is_error);
        for garbage in [
            json!(null),
            json!(3),
            json!(true),
            json!([]),
            json!({ "content": 3 }),
            json!({ "content": [3] }),
            json!({ "content": [{ "type": "text" }] }),
            json!({ "content": [{ "type": "image", "data": "AA==" }] }),
            json!({ "content": [{ "type": "image", "data": "AA==", "mimeType": "text/html" }] }),
            json!({ "content": [{ "type": "tool_use" }] }),
            json!({ "content": [], "isError": "yes" }),
            json!({ "content": vec![json!({ "type": "text", "text": "" }); MOST_BLOCKS + 1] }),
        ] {
            assert!(read(&garbage).is_err(), "{garbage}");
        }
    }

    #[test]
    fn a_schema_is_one_of_an_object() {
        assert_eq!(object_schema(json!({})).unwrap(), json!({ "type": "object", "properties": {} }));
        for schema in [json!(null), json!({ "type": "string" }), json!({ "type": ["object"] }), json!(true)] {
            assert!(object_schema(schema.clone()).is_err(), "{schema}");
        }
        assert!(is_name("a-b_9").is_ok());
        for name in ["", "a b", "ä", "a.b", &"x".repeat(65)] {
            assert!(is_name(name).is_err(), "{name}");
        }
    }
}
