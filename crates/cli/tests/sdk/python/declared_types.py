"""Prints the types that the SDKs declare for the parts of answers, as JSON: by table, each type once."""

import json
import types
from typing import Annotated, Literal, Union, get_args, get_origin

import anthropic.types as messages
import anthropic.types.beta as beta_messages
import openai.types.beta as beta_responses
import openai.types.chat as chat
import openai.types.responses as responses
from google.genai.types import Part

UNIONS = {
    "openai-responses items": [responses.ResponseOutputItem, beta_responses.BetaResponseOutputItem],
    "openai-responses parts of messages": [responses.response_output_message.Content],
    "openai-responses events": [responses.ResponseStreamEvent, beta_responses.BetaResponseStreamEvent],
    "openai-chat calls": [chat.ChatCompletionMessageToolCallUnion],
    "anthropic-messages blocks": [messages.ContentBlock, beta_messages.BetaContentBlock],
    "anthropic-messages deltas": [messages.RawContentBlockDelta, beta_messages.BetaRawContentBlockDelta],
    "anthropic-messages events": [messages.RawMessageStreamEvent, beta_messages.BetaRawMessageStreamEvent],
}


def members(union):
    """The types of a union, through aliases and annotations."""
    if get_origin(union) is Annotated:
        return members(get_args(union)[0])
    if get_origin(union) in (Union, types.UnionType):
        return [member for part in get_args(union) for member in members(part)]
    return [union]


def names(union):
    for member in members(union):
        for literal in members(member.model_fields["type"].annotation):
            assert get_origin(literal) is Literal, f"{member.__name__} has no literal type"
            yield from get_args(literal)


found = {table: sorted({name for union in unions for name in names(union)}) for table, unions in UNIONS.items()}
found["gemini fields of parts"] = sorted(field.alias or name for name, field in Part.model_fields.items())
print(json.dumps(found))
