//! What stands in requests besides fields: items, blocks and parts of messages, and tools.
//!
//! The law: *what a request brings and nobody here knows may offer the model something*, as `additional_tools` and
//! `tool_addition` do, so whoever reads requests judges it as an offer that is named after its type. A tool that is in no table
//! is run by the provider.
//!
//! Types of tools stand here without the dates of their versions (`web_search_20250305`).

use super::types::RESPONSES_PARTS;
use super::types::{AMAZON, ANTHROPIC, GOOGLE, OPENAI};
use super::{ANTHROPIC_BLOCKS, Api, CONVERSE_BLOCKS, GEMINI_PARTS, RESPONSES_ITEMS, TypeClass, TypeTable};

/// The tables of what stands in requests.
pub(super) static ASKED_TABLES: [&TypeTable; 10] = [
    &RESPONSES_INPUTS,
    &RESPONSES_INPUT_PARTS,
    &CHAT_INPUT_PARTS,
    &ANTHROPIC_INPUTS,
    &REALTIME_ITEMS,
    &RESPONSES_TOOLS,
    &CHAT_TOOLS,
    &ANTHROPIC_TOOLS,
    &GEMINI_TOOLS,
    &CONVERSE_TOOLS,
];

const PARTS: &str = "parts of messages in requests";
const TOOLS: &str = "tools";

/// Items of a request of OpenAI Responses (`ResponseInputItem`, `BetaResponseInputItem`).
static RESPONSES_INPUTS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "items of requests",
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["agent_message", "message", "reasoning"]),
        (
            TypeClass::Call,
            &[
                "apply_patch_call",
                "computer_call",
                "custom_tool_call",
                "function_call",
                "local_shell_call",
                "mcp_approval_request",
                // It has the provider call.
                "mcp_approval_response",
                "multi_agent_call",
                "program",
                "shell_call",
                "tool_search_call",
            ],
        ),
        (
            TypeClass::Result,
            &[
                "apply_patch_call_output",
                "computer_call_output",
                "custom_tool_call_output",
                "function_call_output",
                "local_shell_call_output",
                "multi_agent_call_output",
                "program_output",
                "shell_call_output",
                "tool_search_output",
            ],
        ),
        (
            TypeClass::Ran,
            &[
                "additional_tools",
                "code_interpreter_call",
                "file_search_call",
                "image_generation_call",
                "mcp_call",
                "mcp_list_tools",
                "web_search_call",
            ],
        ),
        (TypeClass::Inert, &["compaction", "compaction_trigger", "configuration_update", "item_reference"]),
    ],
};

/// Parts of a message, or of what a call came to, in a request of OpenAI Responses (`ResponseInputContent`, the parts of
/// `ResponseFunctionCallOutputItem`, of `ComputerCallOutput` and of `BetaAgentMessage`).
static RESPONSES_INPUT_PARTS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: PARTS,
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["input_text"]),
        (TypeClass::Inert, &["computer_screenshot", "encrypted_content", "input_file", "input_image"]),
    ],
};

/// Parts of a message in a request of OpenAI Chat (`ChatCompletionContentPartParam`), and the media of servers that speak it.
static CHAT_INPUT_PARTS: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: PARTS,
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["refusal", "text", "thinking"]),
        (
            TypeClass::Inert,
            &["audio_url", "document_url", "file", "image_url", "input_audio", "reference", "video_url"],
        ),
    ],
};

/// Blocks of a request of Anthropic Messages (`ContentBlockParam`, `BetaContentBlockParam`).
static ANTHROPIC_INPUTS: TypeTable = TypeTable {
    api: Api::AnthropicMessages,
    things: "blocks of requests",
    source: ANTHROPIC,
    types: &[
        (TypeClass::Text, &["text", "thinking"]),
        (TypeClass::Call, &["tool_use"]),
        (
            TypeClass::Result,
            &[
                "advisor_tool_result",
                "bash_code_execution_tool_result",
                "code_execution_tool_result",
                "document",
                "mcp_tool_listing",
                "mcp_tool_result",
                "search_result",
                "text_editor_code_execution_tool_result",
                "tool_result",
                "tool_search_tool_result",
                "web_fetch_tool_result",
                "web_search_tool_result",
            ],
        ),
        // The third may bring the definition of a tool, and so may a compaction.
        (TypeClass::Ran, &["mcp_tool_use", "server_tool_use", "tool_addition"]),
        (
            TypeClass::Inert,
            &["compaction", "container_upload", "fallback", "image", "redacted_thinking", "tool_removal"],
        ),
    ],
};

/// Items of a conversation of OpenAI Realtime (`ConversationItem`). What the provider does by itself no client says.
pub static REALTIME_ITEMS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: "items of Realtime",
    source: OPENAI,
    types: &[
        (TypeClass::Text, &["message"]),
        (TypeClass::Call, &["function_call", "mcp_approval_response"]),
        (TypeClass::Result, &["function_call_output"]),
        (TypeClass::Ran, &["mcp_approval_request", "mcp_call", "mcp_list_tools"]),
    ],
};

/// Tools of OpenAI Responses (`Tool`, `BetaTool`). A shell runs in a container of the provider's, unless it says otherwise.
static RESPONSES_TOOLS: TypeTable = TypeTable {
    api: Api::OpenAiResponses,
    things: TOOLS,
    source: OPENAI,
    types: &[
        (TypeClass::Call, &["apply_patch", "computer", "computer_use", "custom", "function", "local_shell"]),
        (
            TypeClass::Ran,
            &[
                "code_interpreter",
                "file_search",
                "image_generation",
                "mcp",
                "programmatic_tool_calling",
                "shell",
                "tool_search",
                "web_search",
            ],
        ),
        // It holds tools, and gives them a part of their names.
        (TypeClass::Inert, &["namespace"]),
    ],
};

/// Tools of OpenAI Chat (`ChatCompletionToolUnionParam`).
static CHAT_TOOLS: TypeTable = TypeTable {
    api: Api::OpenAiChat,
    things: TOOLS,
    source: OPENAI,
    types: &[(TypeClass::Call, &["custom", "function"])],
};

/// Tools of Anthropic Messages (`ToolUnionParam`, `BetaToolUnionParam`). Calls of a toolset but an MCP server's are made by
/// `tool_use`, with its `toolset_name`.
static ANTHROPIC_TOOLS: TypeTable = TypeTable {
    api: Api::AnthropicMessages,
    things: TOOLS,
    source: ANTHROPIC,
    types: &[
        (
            TypeClass::Call,
            &["bash", "browser_toolset", "computer", "computer_toolset", "custom", "memory", "text_editor"],
        ),
        (
            TypeClass::Ran,
            &[
                "advisor",
                "code_execution",
                "mcp_toolset",
                "tool_search_tool_bm25",
                "tool_search_tool_regex",
                "web_fetch",
                "web_search",
            ],
        ),
    ],
};

/// Tools of Gemini (the fields of `Tool`), two of them in the other spelling that it takes as well.
static GEMINI_TOOLS: TypeTable = TypeTable {
    api: Api::Gemini,
    things: TOOLS,
    source: GOOGLE,
    types: &[
        (TypeClass::Call, &["computerUse", "computer_use", "functionDeclarations", "function_declarations"]),
        (
            TypeClass::Ran,
            &[
                "codeExecution",
                "enterpriseWebSearch",
                "exaAiSearch",
                "fileSearch",
                "googleMaps",
                "googleSearch",
                "googleSearchRetrieval",
                "mcpServers",
                "parallelAiSearch",
                "retrieval",
                "urlContext",
            ],
        ),
    ],
};

/// Tools of Bedrock's Converse (`Tool`). A `toolSpec` that could not be read as a function may be anything.
static CONVERSE_TOOLS: TypeTable = TypeTable {
    api: Api::BedrockConverse,
    things: TOOLS,
    source: AMAZON,
    types: &[
        (TypeClass::Ran, &["systemTool", "toolSpec"]),
        // Where the provider may begin to remember.
        (TypeClass::Inert, &["cachePoint"]),
    ],
};

/// What becomes of a tool of this type, without the date of its version; what one wire's provider runs counts as run by the
/// provider on all of them. `None` for a type that nobody here knows.
pub fn tool_class(kind: &str) -> Option<TypeClass> {
    let tables = ASKED_TABLES.iter().filter(|table| table.things == TOOLS);
    let classes: Vec<TypeClass> = tables.filter_map(|table| table.class(kind)).collect();
    classes.iter().copied().find(|class| *class == TypeClass::Ran).or_else(|| classes.first().copied())
}

/// Whether an item, a block or a part of a request is of a type that somebody here knows. Where things have no type, `kind` is
/// the field that says what they are.
pub fn is_known_input(api: Api, kind: &str) -> bool {
    let tables: &[&TypeTable] = match api {
        Api::OpenAiResponses => {
            &[&RESPONSES_INPUTS, &RESPONSES_INPUT_PARTS, &RESPONSES_ITEMS, &RESPONSES_PARTS]
        }
        Api::OpenAiChat => &[&CHAT_INPUT_PARTS],
        Api::AnthropicMessages => &[&ANTHROPIC_INPUTS, &ANTHROPIC_BLOCKS],
        Api::Gemini => &[&GEMINI_PARTS],
        Api::BedrockConverse => &[&CONVERSE_BLOCKS],
    };
    tables.iter().any(|table| table.class(kind).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_a_provider_is_one_on_all_wires() {
        for (kind, class) in [
            ("function", Some(TypeClass::Call)),
            ("bash", Some(TypeClass::Call)),
            ("namespace", Some(TypeClass::Inert)),
            ("shell", Some(TypeClass::Ran)),
            ("web_search", Some(TypeClass::Ran)),
            ("tool_of_tomorrow", None),
            ("Function", None),
            ("", None),
        ] {
            assert_eq!(tool_class(kind), class, "{kind}");
        }
    }

    #[test]
    fn an_input_of_tomorrow_is_unknown() {
        for (api, known) in [
            (Api::OpenAiResponses, "additional_tools"),
            (Api::OpenAiChat, "image_url"),
            (Api::AnthropicMessages, "tool_addition"),
            (Api::Gemini, "inlineData"),
            (Api::BedrockConverse, "toolAddition"),
        ] {
            assert!(is_known_input(api, known), "{api}");
            for unknown in ["input_of_tomorrow", "", "Text", "additional_tools "] {
                assert!(!is_known_input(api, unknown), "{api} {unknown}");
            }
        }
    }
}
