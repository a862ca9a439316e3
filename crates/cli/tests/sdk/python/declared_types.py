"""Prints the types that the SDKs declare for what stands in answers and requests, and the words of their states, reasons and roles, as JSON: by table, each once."""

import enum
import inspect
import json
import re
import types
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

import anthropic.types as messages
import botocore.session
import anthropic.types.beta as beta_messages
import openai.types.beta as beta_responses
import openai.types.chat as chat
import openai.types.realtime as realtime
import openai.types.responses as responses
import pydantic
from anthropic.types import message_create_params
from anthropic.types.beta import message_create_params as beta_message_create_params
from google.genai import _live_converters, models
from google.genai.types import (
    Candidate,
    Content,
    GenerateContentResponse,
    LiveClientMessage,
    LiveClientSetup,
    LiveServerContent,
    LiveServerMessage,
    Part,
)
from openai.types.beta import response_create_params as beta_response_create_params
from google.genai.types import FunctionCall, PartialArg, Tool
from openai.types.beta import beta_response_input_item
from openai.types.chat import (
    chat_completion,
    chat_completion_chunk,
    chat_completion_message,
    chat_completion_message_custom_tool_call,
    chat_completion_message_function_tool_call,
    completion_create_params,
)
from openai.types.responses import response_create_params

def members(union):
    """The types of a union, through aliases and annotations."""
    if get_origin(union) is Annotated:
        return members(get_args(union)[0])
    if get_origin(union) in (Union, types.UnionType):
        return [member for part in get_args(union) for member in members(part)]
    return [union]


def hints(model):
    """The fields of a model, or of a dictionary with types, as they are written."""
    if hasattr(model, "model_fields"):
        return {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    return get_type_hints(model)


def names(*unions):
    for union in unions:
        for member in members(union):
            found = list(literals(hints(member)["type"]))
            assert found, f"{member.__name__} has no literal type"
            yield from found


def inside(annotation):
    """An annotation and the parts of it."""
    yield annotation
    if get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from inside(part)


def literals(annotation):
    for part in inside(annotation):
        if get_origin(part) is Literal:
            yield from (word for word in get_args(part) if isinstance(word, str))
        elif isinstance(part, type) and issubclass(part, enum.Enum):
            yield from (word.value for word in part)


def element(annotation):
    """What a list has."""
    (of,) = {get_args(part)[0] for part in inside(annotation) if get_origin(part) is list}
    return of


UNIONS = {
    "openai-responses items": [responses.ResponseOutputItem, beta_responses.BetaResponseOutputItem],
    "openai-responses parts of messages": [
        responses.response_output_message.Content,
        beta_responses.beta_response_output_message.Content,
        *(
            element(hints(item)[field])
            for item in (responses.ResponseReasoningItem, beta_responses.BetaResponseReasoningItem)
            for field in ("content", "summary")
        ),
    ],
    "openai-responses events": [responses.ResponseStreamEvent, beta_responses.BetaResponseStreamEvent],
    "openai-responses events of Realtime": [realtime.RealtimeServerEvent],
    "openai-chat calls": [chat.ChatCompletionMessageToolCallUnion],
    "anthropic-messages blocks": [messages.ContentBlock, beta_messages.BetaContentBlock],
    "anthropic-messages deltas": [messages.RawContentBlockDelta, beta_messages.BetaRawContentBlockDelta],
    "anthropic-messages events": [messages.RawMessageStreamEvent, beta_messages.BetaRawMessageStreamEvent],
    "anthropic-messages blocks of requests": [messages.ContentBlockParam, beta_messages.BetaContentBlockParam],
    "openai-responses items of requests": [responses.ResponseInputItem, beta_responses.BetaResponseInputItem],
    "openai-responses parts of messages in requests": [
        responses.ResponseInputContent,
        beta_responses.BetaResponseInputContent,
        element(responses.ResponseFunctionCallOutputItemList),
        responses.ResponseComputerToolCallOutputScreenshot,
        element(hints(beta_response_input_item.AgentMessage)["content"]),
    ],
    "openai-responses items of Realtime": [realtime.ConversationItem],
    "openai-chat parts of messages in requests": [chat.ChatCompletionContentPartParam],
    "openai-responses tools": [responses.Tool, beta_responses.BetaTool],
    "openai-chat tools": [chat.ChatCompletionToolUnionParam],
    "anthropic-messages tools": [messages.ToolUnionParam, beta_messages.BetaToolUnionParam],
}

found = {table: sorted(set(names(*unions))) for table, unions in UNIONS.items()}
# Tables have tools without the dates of their versions, and those that are tried out as what they will be.
VERSION = re.compile(r"(_preview)?(_[0-9]+)*$")
found |= {table: sorted({VERSION.sub("", name) for name in said}) for table, said in found.items() if table.endswith(" tools")}


def models_of(unions, wanted):
    """The members of unions whose types are wanted."""
    return [model for union in unions for model in members(union) if wanted(next(literals(hints(model)["type"])))]


def request_fields(module):
    """The fields of the bodies that a module of parameters declares."""
    bodies = [body for name, body in vars(module).items() if "CreateParams" in name and hasattr(body, "__annotations__")]
    assert bodies, module.__name__
    return {field for body in bodies for field in get_type_hints(body)}


def gemini_fields():
    """The fields that the SDK writes beside the configuration, which it spreads over the body."""
    converters = [
        converter
        for service in ("mldev", "vertex")
        for converter in (f"_GenerateContentConfig_to_{service}", f"_GenerateContentParameters_to_{service}")
    ]
    for converter in converters:
        source = inspect.getsource(getattr(models, converter))
        target = "parent_object" if "Config_" in converter else "to_object"
        written = re.findall(rf"setv\(\s*{target},\s*\['(\w+)'", source)
        assert written, converter
        yield from (field for field in written if field != "_url")


def live_fields():
    """The fields of a session of Live that the SDK writes."""
    for service in ("mldev", "vertex"):
        source = inspect.getsource(getattr(_live_converters, f"_LiveConnectConfig_to_{service}"))
        written = re.findall(r"\['setup', '(\w+)'", source)
        assert written, service
        yield from written


FIELDS = {
    "openai-chat fields of requests": [completion_create_params],
    "openai-responses fields of requests": [response_create_params, beta_response_create_params],
    "anthropic-messages fields of requests": [message_create_params, beta_message_create_params],
}
for table, modules in FIELDS.items():
    found[table] = sorted({field for module in modules for field in request_fields(module)})
found["gemini fields of requests"] = sorted(set(gemini_fields()))


def answer_fields(*models):
    """The fields of models of answers, as they are written; a union stands for its members."""
    each = [member for model in models for member in members(model)]
    return sorted({field for model in each for field in hints(model)})


# Items that ask the client to act and have a form of their own.
FORMS = {
    "apply_patch_call",
    "computer_call",
    "custom_tool_call",
    "function_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
}
TEXTS = ("text", "thinking", "compaction")
ITEMS = UNIONS["openai-responses items"]
BLOCKS = UNIONS["anthropic-messages blocks"]


EVENTS = [*UNIONS["openai-responses events"]], [*UNIONS["anthropic-messages events"]]
found |= {
    "openai-chat fields of answers": answer_fields(chat.ChatCompletion, chat.ChatCompletionChunk),
    "openai-chat fields of choices": answer_fields(chat_completion.Choice, chat_completion_chunk.Choice),
    "openai-chat fields of messages": answer_fields(chat.ChatCompletionMessage, chat_completion_chunk.ChoiceDelta),
    "openai-chat fields of parts": answer_fields(
        chat.ChatCompletionContentPartText, chat.ChatCompletionContentPartRefusalParam
    ),
    "openai-chat fields of calls": answer_fields(
        chat.ChatCompletionMessageToolCallUnion, chat_completion_chunk.ChoiceDeltaToolCall
    ),
    "openai-chat fields of what is called": answer_fields(
        chat_completion_message.FunctionCall,
        chat_completion_message_function_tool_call.Function,
        chat_completion_message_custom_tool_call.Custom,
        chat_completion_chunk.ChoiceDeltaFunctionCall,
        chat_completion_chunk.ChoiceDeltaToolCallFunction,
    ),
    "openai-responses fields of calls": answer_fields(*models_of(ITEMS, lambda kind: kind in FORMS)),
    "openai-responses fields of sealed items": answer_fields(*models_of(ITEMS, lambda kind: kind == "compaction")),
    "anthropic-messages fields of blocks": answer_fields(
        *models_of(BLOCKS, lambda kind: kind not in TEXTS and not kind.endswith(("_result", "_listing")))
    ),
    "openai-responses fields of answers": answer_fields(responses.Response, beta_responses.BetaResponse),
    "openai-responses fields of events": answer_fields(*EVENTS[0]),
    "openai-responses fields of messages": answer_fields(
        responses.ResponseOutputMessage,
        responses.ResponseReasoningItem,
        responses.ResponseOutputText,
        responses.ResponseOutputRefusal,
        beta_responses.BetaResponseOutputMessage,
        beta_responses.BetaResponseReasoningItem,
    ),
    "anthropic-messages fields of answers": answer_fields(
        messages.Message,
        messages.raw_message_delta_event.Delta,
        beta_messages.BetaMessage,
        beta_messages.beta_raw_message_delta_event.Delta,
        *EVENTS[1],
    ),
    "anthropic-messages fields of texts": answer_fields(
        *models_of(BLOCKS, lambda kind: kind in TEXTS),
        *UNIONS["anthropic-messages deltas"],
    ),
    "gemini fields of calls": answer_fields(FunctionCall, PartialArg),
    "gemini tools": answer_fields(Tool),
    "gemini fields of answers": answer_fields(GenerateContentResponse),
    "gemini fields of candidates": answer_fields(Candidate, Content),
    "gemini fields of messages of Live": answer_fields(LiveServerMessage),
    "gemini fields of contents of Live": answer_fields(LiveServerContent),
    "gemini fields of setups of Live": sorted({*answer_fields(LiveClientSetup), *live_fields()}),
    "gemini fields of messages of clients of Live": answer_fields(LiveClientMessage),
}
BEDROCK = botocore.session.get_session().get_service_model("bedrock-runtime")


def bedrock_members(*shapes):
    """The members of structures, as Amazon's service model has them."""
    return sorted({member for shape in shapes for member in BEDROCK.shape_for(shape).members})


found |= {
    "bedrock-converse blocks": bedrock_members("ContentBlock"),
    "bedrock-converse tools": bedrock_members("Tool"),
    "bedrock-converse fields of calls": bedrock_members("ToolUseBlock", "ToolUseBlockStart", "ToolUseBlockDelta"),
    "bedrock-converse fields of pictures": bedrock_members(
        "ImageBlock", "ImageBlockStart", "ImageBlockDelta", "GuardrailConverseImageBlock"
    ),
    "bedrock-converse beginnings of blocks": bedrock_members("ContentBlockStart"),
    "bedrock-converse deltas": bedrock_members("ContentBlockDelta"),
    "bedrock-converse events": bedrock_members("ConverseStreamOutput"),
    "bedrock-converse fields of requests": bedrock_members("ConverseRequest", "ConverseStreamRequest"),
    "bedrock-converse fields of answers": bedrock_members(
        "ConverseResponse",
        "ConverseOutput",
        "Message",
        "MessageStartEvent",
        "ContentBlockStartEvent",
        "ContentBlockDeltaEvent",
        "ContentBlockStopEvent",
        "MessageStopEvent",
        "ConverseStreamMetadataEvent",
    ),
    "bedrock-converse fields of texts": bedrock_members(
        "ReasoningContentBlock",
        "ReasoningTextBlock",
        "ReasoningContentBlockDelta",
        "CitationsContentBlock",
        "GuardrailConverseContentBlock",
        "GuardrailConverseTextBlock",
    ),
}
# Fields that hold one of a few words: a state, a reason, a phase.
STATE = re.compile(r"(^|_)(status|state|reason|phase|truncation|role)$|(Status|State|Reason)$|^(category|probability|severity)$")


def words(table, *roots):
    """The words of states and reasons in everything that answers of these types may hold."""
    told, seen, todo = {}, set(), list(roots)
    while todo:
        for model in inside(todo.pop()):
            if not (isinstance(model, type) and issubclass(model, pydantic.BaseModel)) or model in seen:
                continue
            seen.add(model)
            for name, field in model.model_fields.items():
                todo.append(field.annotation)
                name = field.alias or name
                if STATE.search(name):
                    told.setdefault(f"{table} words of {name}", set()).update(literals(field.annotation))
    return {field: sorted(said) for field, said in told.items() if said}


def bedrock_words(*roots):
    """The same of structures of Amazon's service model."""
    told, seen, todo = {}, set(), [BEDROCK.shape_for(root) for root in roots]
    while todo:
        shape = todo.pop()
        if shape.name in seen:
            continue
        seen.add(shape.name)
        if shape.type_name == "structure":
            todo += shape.members.values()
            for name, member in shape.members.items():
                if STATE.search(name) and getattr(member, "enum", None):
                    told.setdefault(f"bedrock-converse words of {name}", set()).update(member.enum)
        elif shape.type_name in ("list", "map"):
            todo.append(shape.member if shape.type_name == "list" else shape.value)
    return {field: sorted(said) for field, said in told.items()}


found |= words("openai-chat", chat.ChatCompletion, chat.ChatCompletionChunk)
# The last two come on WebSockets alone.
STEERED = [responses.ResponseSteerPendingEvent, beta_responses.BetaResponseSteerPendingEvent]
found |= words("openai-responses", responses.Response, beta_responses.BetaResponse, *EVENTS[0], *STEERED)
found |= words("anthropic-messages", messages.Message, beta_messages.BetaMessage, *EVENTS[1])
found |= words("gemini", GenerateContentResponse, LiveServerMessage)
found |= bedrock_words("ConverseResponse", "ConverseStreamOutput")
found["gemini fields of parts"] = sorted(field.alias or name for name, field in Part.model_fields.items())
print(json.dumps(found))
