"""Responses over a WebSocket by the official SDK."""

import openai

from common import BASE, KEY, run
from openai_responses import collect, question

SETTINGS = {"base_url": f"{BASE}/v1", "api_key": KEY, "max_retries": 0}
LAST = ("response.completed", "response.incomplete", "response.failed")


def answer(events):
    """The events of one answer."""
    for event in events:
        if event.type == "error":
            raise RuntimeError(event.error.message)
        yield event
        if event.type in LAST:
            return


def socket(prompt):
    with openai.OpenAI(**SETTINGS).responses.connect() as connection:
        connection.response.create(**question(prompt))
        return collect(answer(connection))


def second(prompt):
    """The same connection, after an answer that says something else."""
    with openai.OpenAI(**SETTINGS).responses.connect() as connection:
        connection.response.create(**question("say hello"))
        collect(answer(connection))
        connection.response.create(**question(prompt))
        return collect(answer(connection))


async def socket_async(prompt):
    async with openai.AsyncOpenAI(**SETTINGS) as client, client.responses.connect() as connection:
        await connection.response.create(**question(prompt))
        events = []
        async for event in connection:
            events.append(event)
            if event.type in LAST:
                return collect(events)


run({"socket": socket, "second": second, "socket_async": socket_async})
