"""Freeform (`custom`) tools of Chat Completions by the official SDK: whole, streamed, and once a call was refused."""

import json
import sys

import openai

from common import BASE, KEY, MODEL, told

CLIENT = openai.OpenAI(base_url=f"{BASE}/v1", api_key=KEY, max_retries=0)
TOOLS = [
    {"type": "custom", "custom": {"name": name, "description": "Takes any text.", "format": {"type": "text"}}}
    for name in ("read", "exec")
]


def human(text):
    return {"role": "user", "content": text}


def ask(messages):
    return CLIENT.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)


def answer(completion):
    choice = completion.choices[0]
    calls = [(call.custom.name, {"input": call.custom.input}) for call in choice.message.tool_calls or []]
    return told(choice.message.content, calls, choice.finish_reason)


def whole(prompt):
    return answer(ask([human(prompt)]))


def streamed(prompt):
    text, calls, stop = "", {}, None
    for chunk in CLIENT.chat.completions.create(model=MODEL, messages=[human(prompt)], tools=TOOLS, stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                # The SDK's types of pieces know functions alone; what they do not know they keep.
                custom = call.model_dump()["custom"]
                name, given = calls.get(call.index, ("", ""))
                calls[call.index] = (name + (custom.get("name") or ""), given + (custom.get("input") or ""))
            stop = choice.finish_reason or stop
    return told(text, [(name, {"input": given}) for name, given in calls.values()], stop)


def after(prompt):
    """The next question of a conversation in which a call was refused."""
    first = [human("run the command")]
    refused = ask(first).choices[0].message
    return answer(ask([*first, refused.model_dump(exclude_none=True), human(prompt)]))


MODES = {"whole": whole, "streamed": streamed, "after": after}
CASES = {"call": "read the notes", "refused": "run the command"}
json.dump({case: {name: mode(prompt) for name, mode in MODES.items()} for case, prompt in CASES.items()}, sys.stdout)
