"""LiteLLM as a client: it translates each wire to its own answer type, whole and streamed."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from common import BASE, KEY, MODEL, TOOLS, run, told

litellm.telemetry = False
litellm.suppress_debug_info = True
FUNCTIONS = [
    {"type": "function", "function": {"name": t["name"], "description": t["description"], "parameters": t["schema"]}}
    for t in TOOLS
]
CHAT = {"model": f"openai/{MODEL}", "api_base": f"{BASE}/v1"}
MESSAGES = {"model": f"anthropic/{MODEL}", "api_base": BASE}


def ask(route, prompt, **more):
    messages = [{"role": "user", "content": prompt}]
    return litellm.completion(**route, api_key=KEY, messages=messages, tools=FUNCTIONS, max_retries=0, **more)


def message(answer):
    choice = answer.choices[0]
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
    return told(choice.message.content, calls, choice.finish_reason)


def built(route, prompt):
    return message(litellm.stream_chunk_builder(list(ask(route, prompt, stream=True))))


run({
    "chat": lambda prompt: message(ask(CHAT, prompt)),
    "chat_streamed": lambda prompt: built(CHAT, prompt),
    "messages": lambda prompt: message(ask(MESSAGES, prompt)),
    "messages_streamed": lambda prompt: built(MESSAGES, prompt),
})
