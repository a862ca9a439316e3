"""Responses by the official SDK: whole, streamed, async, and its accumulating stream helper."""

import openai
import pydantic

from common import BASE, CLOUD, KEY, MODEL, TOOLS, run, told

if CLOUD == "azure":
    Client, AsyncClient = openai.AzureOpenAI, openai.AsyncAzureOpenAI
    SETTINGS = {"azure_endpoint": BASE, "api_key": KEY, "api_version": "2025-04-01-preview", "max_retries": 0}
else:
    Client, AsyncClient = openai.OpenAI, openai.AsyncOpenAI
    SETTINGS = {"base_url": f"{BASE}/v1", "api_key": KEY, "max_retries": 0}
FUNCTIONS = [
    {"type": "function", "name": t["name"], "description": t["description"], "parameters": t["schema"], "strict": True}
    for t in TOOLS
]


def question(prompt):
    return {"model": MODEL, "input": prompt, "tools": FUNCTIONS}


def answer(response):
    calls = [(item.name, item.arguments) for item in response.output if item.type == "function_call"]
    return told(response.output_text, calls, response.status)


def whole(prompt):
    return answer(Client(**SETTINGS).responses.create(**question(prompt)))


def collect(events):
    """Reads deltas, `done` copies and the final object, which must all say the same."""
    text, done_text, calls, final, numbers = "", "", [], None, []
    for event in events:
        numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            text += event.delta
        elif event.type == "response.output_text.done":
            done_text += event.text
        elif event.type == "response.output_item.done" and event.item.type == "function_call":
            calls.append((event.item.name, event.item.arguments))
        elif event.type in ("response.completed", "response.incomplete", "response.failed"):
            final = event.response
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), f"sequence numbers: {numbers}"
    ended = answer(final)
    assert text == done_text == ended["text"], f"copies disagree: {text!r} {done_text!r} {ended['text']!r}"
    assert told("", calls, None)["calls"] == ended["calls"], "copies of the calls disagree"
    return ended


def streamed(prompt):
    return collect(Client(**SETTINGS).responses.create(**question(prompt), stream=True))


def helper(prompt):
    with Client(**SETTINGS).responses.stream(**question(prompt)) as stream:
        for _ in stream:
            pass
        return answer(stream.get_final_response())


async def whole_async(prompt):
    async with AsyncClient(**SETTINGS) as client:
        return answer(await client.responses.create(**question(prompt)))


async def streamed_async(prompt):
    async with AsyncClient(**SETTINGS) as client:
        events = await client.responses.create(**question(prompt), stream=True)
        return collect([event async for event in events])


class City(pydantic.BaseModel):
    city: str
    people: int


def parsed(prompt):
    answer = Client(**SETTINGS).responses.parse(model=MODEL, input=prompt, text_format=City)
    return answer.output_parsed.model_dump()


if __name__ == "__main__":
    run(
        {"whole": whole, "streamed": streamed, "helper": helper, "whole_async": whole_async, "streamed_async": streamed_async},
        structured={"parsed": parsed},
    )
