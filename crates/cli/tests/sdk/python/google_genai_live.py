"""Gemini Live by the official SDK: what is said in turns, and as it is made."""

from google import genai
from google.genai import types

from common import BASE, KEY, MODEL, TOOLS, run, told

DECLARATIONS = [
    types.FunctionDeclaration(name=t["name"], description=t["description"], parameters_json_schema=t["schema"])
    for t in TOOLS
]
CONFIG = types.LiveConnectConfig(
    response_modalities=[types.Modality.TEXT],
    tools=[types.Tool(function_declarations=DECLARATIONS)],
)
CLIENT = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=BASE))
# The SDK asks for TLS wherever it is sent, and here is none.
CLIENT._api_client._websocket_base_url = lambda *_: BASE.replace("http://", "ws://")
CLIENT._api_client._websocket_ssl_ctx = {}


async def answer(session):
    text, calls = "", []
    async for message in session.receive():
        content = message.server_content
        for part in (content.model_turn.parts if content and content.model_turn else None) or []:
            text += part.text or ""
        if message.tool_call:
            calls += [(call.name, call.args) for call in message.tool_call.function_calls]
            break
    return told(text, calls, None)


async def turns(prompt):
    async with CLIENT.aio.live.connect(model=MODEL, config=CONFIG) as session:
        await session.send_client_content(turns=types.Content(role="user", parts=[types.Part(text=prompt)]))
        return await answer(session)


async def realtime(prompt):
    async with CLIENT.aio.live.connect(model=MODEL, config=CONFIG) as session:
        await session.send_realtime_input(text=prompt)
        return await answer(session)


async def second(prompt):
    """The same session, after an answer that says something else."""
    async with CLIENT.aio.live.connect(model=MODEL, config=CONFIG) as session:
        await session.send_client_content(turns=types.Content(role="user", parts=[types.Part(text="say hello")]))
        await answer(session)
        await session.send_client_content(turns=types.Content(role="user", parts=[types.Part(text=prompt)]))
        return await answer(session)


run({"turns": turns, "realtime": realtime, "second": second})
