"""Chat Completions by the official SDK: whole, streamed, async, and its accumulating stream helper; of the maker, or at Azure."""

import openai
import pydantic

from common import BASE, CLOUD, KEY, MODEL, TOOLS, run, told

if CLOUD == "azure":
    Client, AsyncClient = openai.AzureOpenAI, openai.AsyncAzureOpenAI
    SETTINGS = {"azure_endpoint": BASE, "api_version": "2024-10-21", "api_key": KEY, "max_retries": 0}
else:
    Client, AsyncClient = openai.OpenAI, openai.AsyncOpenAI
    SETTINGS = {"base_url": f"{BASE}/v1", "api_key": KEY, "max_retries": 0}
FUNCTIONS = [
    {"type": "function", "function": {"name": t["name"], "description": t["description"], "parameters": t["schema"], "strict": True}}
    for t in TOOLS
]


def question(prompt):
    return {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "tools": FUNCTIONS}


def message(completion):
    choice = completion.choices[0]
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
    return told(choice.message.content, calls, choice.finish_reason)


def whole(prompt):
    return message(Client(**SETTINGS).chat.completions.create(**question(prompt)))


def collect(chunks):
    text, calls, stop = "", {}, None
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                entry = calls.setdefault(call.index, ["", ""])
                entry[0] += call.function.name or ""
                entry[1] += call.function.arguments or ""
            stop = choice.finish_reason or stop
    assert sorted(calls) == list(range(len(calls))), f"indexes have gaps: {sorted(calls)}"
    return told(text, [tuple(calls[index]) for index in sorted(calls)], stop)


def streamed(prompt):
    options = {"include_usage": True}
    return collect(Client(**SETTINGS).chat.completions.create(**question(prompt), stream=True, stream_options=options))


def helper(prompt):
    with Client(**SETTINGS).chat.completions.stream(**question(prompt)) as stream:
        for _ in stream:
            pass
        return message(stream.get_final_completion())


async def whole_async(prompt):
    async with AsyncClient(**SETTINGS) as client:
        return message(await client.chat.completions.create(**question(prompt)))


async def streamed_async(prompt):
    async with AsyncClient(**SETTINGS) as client:
        chunks = await client.chat.completions.create(**question(prompt), stream=True)
        return collect([chunk async for chunk in chunks])


class City(pydantic.BaseModel):
    city: str
    people: int


def parsed(prompt):
    messages = [{"role": "user", "content": prompt}]
    client = Client(**SETTINGS)
    answer = client.chat.completions.parse(model=MODEL, messages=messages, response_format=City)
    return answer.choices[0].message.parsed.model_dump()


run(
    {"whole": whole, "streamed": streamed, "helper": helper, "whole_async": whole_async, "streamed_async": streamed_async},
    structured={"parsed": parsed},
)
