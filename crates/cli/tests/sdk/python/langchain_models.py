"""LangChain's chat models over Chat Completions and Messages: invoked, streamed, async."""

from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

from common import ANSWER_SCHEMA, BASE, KEY, MODEL, TOOLS, run, told

CHAT = {"base_url": f"{BASE}/v1", "api_key": KEY, "model": MODEL, "max_retries": 0}
MESSAGES = {"base_url": BASE, "api_key": KEY, "model": MODEL, "max_retries": 0}
SCHEMAS = [{"title": t["name"], "description": t["description"], **t["schema"]} for t in TOOLS]


def chat():
    return ChatOpenAI(**CHAT).bind_tools(SCHEMAS)


def messages():
    return ChatAnthropic(**MESSAGES).bind_tools(SCHEMAS)


def message(answer):
    meta = answer.response_metadata
    return told(answer.text, [(c["name"], c["args"]) for c in answer.tool_calls], meta.get("finish_reason") or meta.get("stop_reason"))


def summed(chunks):
    total = None
    for chunk in chunks:
        total = chunk if total is None else total + chunk
    return message(total)


async def summed_async(model, prompt):
    return summed([chunk async for chunk in model.astream(prompt)])


def parsed(model, prompt):
    return model.with_structured_output({"title": "city", **ANSWER_SCHEMA}, method="json_schema").invoke(prompt)


run({
    "chat": lambda prompt: message(chat().invoke(prompt)),
    "chat_streamed": lambda prompt: summed(chat().stream(prompt)),
    "chat_async": lambda prompt: summed_async(chat(), prompt),
    "messages": lambda prompt: message(messages().invoke(prompt)),
    "messages_streamed": lambda prompt: summed(messages().stream(prompt)),
    "messages_async": lambda prompt: summed_async(messages(), prompt),
}, structured={
    "chat_parsed": lambda prompt: parsed(ChatOpenAI(**CHAT), prompt),
    "messages_parsed": lambda prompt: parsed(ChatAnthropic(**MESSAGES), prompt),
})
