//! Gemini.

use backstop_hooks::conversation::{Message, Part, Role, ToolCall};
use serde_json::Value;

use super::BodyEdit;
use super::align::{Step, align};
use super::content::{Outcome, PartWire, edit_content, set_text};
use crate::live::span::{Node, Slot, Splices};
use crate::model::{ModelRequest, ToolDefinition};
use crate::wire::gemini::{Calls, encode_request, encode_request_content, encode_request_part};

/// Results find the names and ids of their calls in the conversation.
struct Parts<'a> {
    calls: &'a Calls<'a>,
}

impl PartWire for Parts<'_> {
    fn edit_part(&self, node: &Node<'_>, old: &Part, new: &Part, splices: &mut Splices) -> Outcome {
        match (old, new) {
            // What is signed with the old text goes with it: nobody here can read what the signature holds.
            (Part::Text { meta: old, .. }, Part::Text { text, meta: new })
            | (Part::Thinking { meta: old, .. }, Part::Thinking { text, meta: new })
                if old == new =>
            {
                if text.is_empty() {
                    return Outcome::Empty;
                }
                splices.remove_members(node, |key| key == "thoughtSignature");
                set_text(node, "text", text, splices)
            }
            (Part::ToolCall(old), Part::ToolCall(new)) => edit_call(node, old, new, splices),
            _ => Outcome::Rewrite,
        }
    }

    fn encode_part(&self, part: &Part) -> Option<String> {
        encode_request_part(part, self.calls).map(|part| part.to_string())
    }
}

fn edit_call(node: &Node<'_>, old: &ToolCall, new: &ToolCall, splices: &mut Splices) -> Outcome {
    let is_same = old.meta == new.meta && old.malformed.is_none() && new.malformed.is_none();
    let call = node.get_some("functionCall").filter(|_| is_same);
    let Some((call, args)) = call.and_then(|call| Some((call.clone(), call.get_some("args")?))) else {
        return Outcome::Rewrite;
    };
    if old.arguments != new.arguments {
        splices.replace(args.span(), new.arguments.to_value().to_string());
    }
    if old.name == new.name { Outcome::Edited } else { set_text(&call, "name", &new.name, splices) }
}

/// Edits a body; `None` if it is written in a form that has to be written anew: the other spelling of field
/// names, or single objects where lists are documented.
pub(super) fn edit(
    root: &Node<'_>,
    old: &ModelRequest,
    new: &ModelRequest,
    edit: &mut BodyEdit,
) -> Option<()> {
    if !is_documented(root) {
        return None;
    }
    let (old_body, new_body) = (encode_request(old), encode_request(new));
    // System messages that are new have no place inside the conversation: the prompt has them.
    if let Some(prompt) = new_body.get("systemInstruction")
        && old_body.get("systemInstruction") != Some(prompt)
    {
        edit_system(root, old, new, prompt, edit);
    } else if new_body.get("systemInstruction").is_none() {
        edit.set_field("systemInstruction", None);
    }
    edit_contents(root, old, new, &mut edit.splices)?;
    edit_tools(root, old, new, new_body.get("tools"), edit);
    Some(())
}

fn is_documented(root: &Node<'_>) -> bool {
    let plain = |object: &Node<'_>| object.members().iter().all(|member| !member.key.contains('_'));
    let is_list = |node: &Node<'_>| node.raw().starts_with('[');
    let content = |content: &Node<'_>| {
        plain(content)
            && content.get_some("parts").is_none_or(|parts| {
                is_list(&parts)
                    && parts.items().iter().all(|part| {
                        plain(part) && part.get_some("functionCall").is_none_or(|call| plain(&call))
                    })
            })
    };
    plain(root)
        && root.get_some("contents").is_some_and(|list| is_list(&list) && list.items().iter().all(content))
        && root.get_some("systemInstruction").is_none_or(|system| content(&system))
        && root.get_some("tools").is_none_or(|list| {
            is_list(&list)
                && list.items().iter().all(|tool| {
                    plain(tool) && tool.get_some("functionDeclarations").is_none_or(|list| is_list(&list))
                })
        })
}

fn edit_system(root: &Node<'_>, old: &ModelRequest, new: &ModelRequest, prompt: &Value, edit: &mut BodyEdit) {
    let in_place =
        root.get_some("systemInstruction").and_then(|system| system.get_some("parts")).map(|parts| match new
            .messages
            .iter()
            .any(|message| message.role == Role::System)
        {
            true => Outcome::Rewrite,
            false => edit_content(
                &Parts { calls: &Calls::default() },
                &parts,
                &old.system,
                &new.system,
                &mut edit.splices,
            ),
        });
    if in_place != Some(Outcome::Edited) {
        edit.set_field("systemInstruction", Some(prompt.to_string()));
    }
}

fn edit_contents(
    root: &Node<'_>,
    old: &ModelRequest,
    new: &ModelRequest,
    splices: &mut Splices,
) -> Option<()> {
    let list = root.get("contents")?;
    let items = list.items();
    if items.len() != old.messages.len() {
        return None;
    }
    let spans: Vec<_> = items.iter().map(Node::span).collect();
    let calls = Calls::of(&new.messages);
    let wire = Parts { calls: &calls };
    let encoded = |message: &Message| {
        encode_request_content(message, &calls).map(|content| Slot::New(content.to_string()))
    };
    let mut slots = Vec::new();
    for step in align(&old.messages, &new.messages, |old, new| old.role == new.role && old.meta == new.meta) {
        match step {
            Step::Keep(place) => slots.push(Slot::Keep(place)),
            Step::New(at) => slots.extend(encoded(new.messages.get(at)?)),
            Step::Edit(place, at) => {
                let (item, old_message, message) =
                    (items.get(place)?, old.messages.get(place)?, new.messages.get(at)?);
                let parts = item.get_some("parts");
                let outcome = parts.as_ref().map_or(Outcome::Rewrite, |parts| {
                    edit_content(&wire, parts, &old_message.content, &message.content, splices)
                });
                match outcome {
                    Outcome::Edited => slots.push(Slot::Keep(place)),
                    Outcome::Empty => {}
                    Outcome::Rewrite => slots.extend(encoded(message)),
                }
            }
        }
    }
    splices.set_list(&list, &spans, slots);
    Some(())
}

/// Takes tools out one by one; other changes write the list anew.
fn edit_tools(
    root: &Node<'_>,
    old: &ModelRequest,
    new: &ModelRequest,
    encoded: Option<&Value>,
    edit: &mut BodyEdit,
) {
    if old.tools == new.tools {
        return;
    }
    let kept = kept_tools(&old.tools, &new.tools).filter(|_| !new.tools.is_empty());
    let (Some(list), Some(kept)) = (root.get_some("tools"), kept) else {
        edit.set_field("tools", encoded.map(ToString::to_string));
        return;
    };
    let tools = list.items();
    let spans: Vec<_> = tools.iter().map(Node::span).collect();
    let (mut next, mut slots) = (0, Vec::new());
    for (place, tool) in tools.iter().enumerate() {
        let declarations = tool.get_some("functionDeclarations");
        let functions = declarations.as_ref().map(Node::items).unwrap_or_default();
        let others = tool.members().iter().filter(|member| member.key != "functionDeclarations").count();
        let mut is_kept = |_: usize| {
            next += 1;
            kept.get(next - 1).copied().unwrap_or(false)
        };
        let functions_kept: Vec<bool> = (0..functions.len()).map(&mut is_kept).collect();
        let others_kept: Vec<bool> = (0..others).map(&mut is_kept).collect();
        let any = |kept: &[bool]| kept.iter().any(|kept| *kept);
        if !any(&functions_kept) && !any(&others_kept) {
            continue;
        }
        if let Some(list) = declarations.filter(|_| any(&functions_kept)) {
            let spans: Vec<_> = functions.iter().map(Node::span).collect();
            edit.splices.remove(&list, &spans, |place| functions_kept.get(place) == Some(&false));
        }
        let mut others_kept = others_kept.into_iter();
        let members = tool.members();
        let gone: Vec<bool> = members
            .iter()
            .map(|member| match &*member.key {
                "functionDeclarations" => !any(&functions_kept),
                _ => others_kept.next() == Some(false),
            })
            .collect();
        if any(&gone) {
            let spans: Vec<_> = members.iter().map(|member| member.span.clone()).collect();
            edit.splices.remove(tool, &spans, |place| gone.get(place) == Some(&true));
        }
        slots.push(Slot::Keep(place));
    }
    edit.splices.set_list(&list, &spans, slots);
}

/// For each old tool whether it is still there; `None` if something else changed, too.
fn kept_tools(old: &[ToolDefinition], new: &[ToolDefinition]) -> Option<Vec<bool>> {
    let mut rest = new.iter().peekable();
    let kept = old.iter().map(|tool| rest.next_if(|next| *next == tool).is_some()).collect();
    rest.next().is_none().then_some(kept)
}
