"""Messages by the official SDK: whole, streamed, async, and its accumulating stream helper; of the maker, or in a cloud."""

import anthropic
import pydantic

from common import BASE, CLOUD, KEY, MODEL, TOOLS, run, told

if CLOUD == "vertex":
    Client, AsyncClient = anthropic.AnthropicVertex, anthropic.AsyncAnthropicVertex
    SETTINGS = {"base_url": f"{BASE}/v1", "access_token": KEY, "project_id": "p", "region": "us-east5", "max_retries": 0}
elif CLOUD == "bedrock":
    # Whoever speaks to the proxy needs no key of Amazon's; the SDK wants one to sign with all the same.
    Client, AsyncClient = anthropic.AnthropicBedrock, anthropic.AsyncAnthropicBedrock
    SETTINGS = {"base_url": BASE, "aws_access_key": "nobody", "aws_secret_key": "nothing", "aws_region": "us-east-1", "max_retries": 0}
else:
    Client, AsyncClient = anthropic.Anthropic, anthropic.AsyncAnthropic
    SETTINGS = {"base_url": BASE, "api_key": KEY, "max_retries": 0}
CLIENT_TOOLS = [{"name": t["name"], "description": t["description"], "input_schema": t["schema"]} for t in TOOLS]


def question(prompt):
    messages = [{"role": "user", "content": prompt}]
    return {"model": MODEL, "max_tokens": 1000, "messages": messages, "tools": CLIENT_TOOLS}


def message(answer):
    text = "".join(block.text for block in answer.content if block.type == "text")
    calls = [(block.name, block.input) for block in answer.content if block.type == "tool_use"]
    return told(text, calls, answer.stop_reason)


def whole(prompt):
    return message(Client(**SETTINGS).messages.create(**question(prompt)))


def collect(events):
    text, calls, stop, opened = "", {}, None, []
    for event in events:
        if event.type == "content_block_start":
            opened.append(event.index)
            if event.content_block.type == "tool_use":
                calls[event.index] = [event.content_block.name, ""]
            elif event.content_block.type == "text":
                text += event.content_block.text
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            text += event.delta.text
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            calls[event.index][1] += event.delta.partial_json
        elif event.type == "message_delta":
            stop = event.delta.stop_reason
    assert opened == list(range(len(opened))), f"blocks: {opened}"
    return told(text, [(name, args or "{}") for name, args in calls.values()], stop)


def streamed(prompt):
    return collect(Client(**SETTINGS).messages.create(**question(prompt), stream=True))


def helper(prompt):
    with Client(**SETTINGS).messages.stream(**question(prompt)) as stream:
        for _ in stream:
            pass
        return message(stream.get_final_message())


async def whole_async(prompt):
    async with AsyncClient(**SETTINGS) as client:
        return message(await client.messages.create(**question(prompt)))


async def helper_async(prompt):
    async with AsyncClient(**SETTINGS) as client:
        async with client.messages.stream(**question(prompt)) as stream:
            return message(await stream.get_final_message())


class City(pydantic.BaseModel):
    city: str
    people: int


def parsed(prompt):
    messages = [{"role": "user", "content": prompt}]
    client = Client(**SETTINGS)
    answer = client.messages.parse(model=MODEL, max_tokens=1000, messages=messages, output_format=City)
    return answer.parsed_output.model_dump()


run(
    {"whole": whole, "streamed": streamed, "helper": helper, "whole_async": whole_async, "helper_async": helper_async},
    structured={"parsed": parsed},
)
