"""Realtime by the official SDK: in text and aloud, with an item before the request and with input in it."""

import openai

from common import BASE, KEY, MODEL, TOOLS, run, told

SETTINGS = {"base_url": f"{BASE}/v1", "api_key": KEY, "max_retries": 0}
FUNCTIONS = [
    {"type": "function", "name": t["name"], "description": t["description"], "parameters": t["schema"]} for t in TOOLS
]


def session(modality):
    return {"type": "realtime", "output_modalities": [modality], "tools": FUNCTIONS}


def item(prompt):
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}


class Collected:
    """Reads deltas, `done` copies and the final object, which must all say the same."""

    def __init__(self):
        self.text, self.copies, self.calls = "", "", []

    def read(self, event):
        """The answer, once it is whole."""
        match event.type:
            case "response.output_text.delta" | "response.output_audio_transcript.delta":
                self.text += event.delta
            case "response.output_text.done":
                self.copies += event.text
            case "response.output_audio_transcript.done":
                self.copies += event.transcript
            case "response.output_item.done" if event.item.type == "function_call":
                self.calls.append((event.item.name, event.item.arguments))
            case "error":
                raise RuntimeError(event.error.message)
            case "response.done":
                return self.whole(event.response)
        return None

    def whole(self, response):
        contents = [part for item in response.output if item.type == "message" for part in item.content]
        final = "".join(part.text or part.transcript or "" for part in contents)
        assert self.text == self.copies == final, f"copies disagree: {self.text!r} {self.copies!r} {final!r}"
        calls = [(item.name, item.arguments) for item in response.output if item.type == "function_call"]
        assert calls == self.calls, f"copies of the calls disagree: {self.calls!r} {calls!r}"
        return told(final, calls, response.status)


def answer(connection):
    collected = Collected()
    for event in connection:
        if (whole := collected.read(event)) is not None:
            return whole


def ask(connection, prompt):
    connection.conversation.item.create(item=item(prompt))
    connection.response.create()
    return answer(connection)


def text(prompt):
    with openai.OpenAI(**SETTINGS).realtime.connect(model=MODEL) as connection:
        connection.session.update(session=session("text"))
        return ask(connection, prompt)


def aloud(prompt):
    with openai.OpenAI(**SETTINGS).realtime.connect(model=MODEL) as connection:
        connection.session.update(session=session("audio"))
        return ask(connection, prompt)


def second(prompt):
    """The same session, after an answer that says something else."""
    with openai.OpenAI(**SETTINGS).realtime.connect(model=MODEL) as connection:
        connection.session.update(session=session("text"))
        ask(connection, "say hello")
        return ask(connection, prompt)


async def text_async(prompt):
    async with openai.AsyncOpenAI(**SETTINGS) as client, client.realtime.connect(model=MODEL) as connection:
        await connection.session.update(session=session("text"))
        await connection.conversation.item.create(item=item(prompt))
        await connection.response.create()
        collected = Collected()
        async for event in connection:
            if (whole := collected.read(event)) is not None:
                return whole


run({"text": text, "aloud": aloud, "second": second, "text_async": text_async})
