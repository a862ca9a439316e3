"""Gemini by the official SDK: whole, streamed, async, and chats that gather history; of the maker, or in Vertex AI."""

from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials

from common import ANSWER_SCHEMA, BASE, CLOUD, KEY, MODEL, TOOLS, run, told

DECLARATIONS = [
    types.FunctionDeclaration(name=t["name"], description=t["description"], parameters_json_schema=t["schema"])
    for t in TOOLS
]
CONFIG = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=DECLARATIONS)],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


# A client closes its connections when it goes, also below an answer that is still being read.
OPTIONS = types.HttpOptions(base_url=BASE)
if CLOUD == "vertex":
    CLIENT = genai.Client(vertexai=True, project="p", location="us-east5", credentials=Credentials(KEY), http_options=OPTIONS)
else:
    CLIENT = genai.Client(api_key=KEY, http_options=OPTIONS)


def gather(responses):
    text, calls, stop = "", [], None
    for response in responses:
        for candidate in response.candidates or []:
            for part in (candidate.content.parts if candidate.content else None) or []:
                if part.text and not part.thought:
                    text += part.text
                if part.function_call:
                    calls.append((part.function_call.name, part.function_call.args))
            stop = candidate.finish_reason.value if candidate.finish_reason else stop
    return told(text, calls, stop)


def whole(prompt):
    return gather([CLIENT.models.generate_content(model=MODEL, contents=prompt, config=CONFIG)])


def streamed(prompt):
    return gather(list(CLIENT.models.generate_content_stream(model=MODEL, contents=prompt, config=CONFIG)))


def chat(prompt):
    return gather(list(CLIENT.chats.create(model=MODEL, config=CONFIG).send_message_stream(prompt)))


async def whole_async(prompt):
    return gather([await CLIENT.aio.models.generate_content(model=MODEL, contents=prompt, config=CONFIG)])


async def streamed_async(prompt):
    stream = await CLIENT.aio.models.generate_content_stream(model=MODEL, contents=prompt, config=CONFIG)
    return gather([response async for response in stream])


def parsed(prompt):
    config = {"response_mime_type": "application/json", "response_json_schema": ANSWER_SCHEMA}
    return CLIENT.models.generate_content(model=MODEL, contents=prompt, config=config).parsed


run(
    {"whole": whole, "streamed": streamed, "chat": chat, "whole_async": whole_async, "streamed_async": streamed_async},
    structured={"parsed": parsed},
)
