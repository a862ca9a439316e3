"""A scripted provider of Gemini Live: prints its address, and answers by what the human says (`argv[1]`, as the scripted model has it)."""

import asyncio
import json
import sys

from websockets.asyncio.server import serve

TURNS = json.loads(sys.argv[1])["turns"]


def said(message):
    """What a message asks for; `None` for one that asks for nothing."""
    if message.get("clientContent", {}).get("turnComplete"):
        return "".join(part.get("text", "") for part in message["clientContent"]["turns"][-1]["parts"])
    return message.get("realtimeInput", {}).get("text")


async def session(socket):
    async for message in socket:
        message = json.loads(message)
        # As Google's server does, in frames of bytes.
        async def send(frame):
            await socket.send(json.dumps(frame).encode())

        if "setup" in message:
            await send({"setupComplete": {"sessionId": "s1"}})
            continue
        prompt = said(message)
        if prompt is None:
            continue
        turn = next(turn for turn in TURNS if turn["when"]["user_contains"] in prompt)
        text, size = turn["text"], turn["chunk"]
        for at in range(0, len(text), size):
            part = {"text": text[at : at + size]}
            await send({"serverContent": {"modelTurn": {"role": "model", "parts": [part]}}})
        if turn["tool_calls"]:
            calls = [
                {"id": f"call-{n}", "name": call["name"], "args": call["arguments"]}
                for n, call in enumerate(turn["tool_calls"])
            ]
            await send({"toolCall": {"functionCalls": calls}})
            continue
        await send({"serverContent": {"generationComplete": True}})
        await send({"serverContent": {"turnComplete": True}, "usageMetadata": {"totalTokenCount": 7}})


async def main():
    async with serve(session, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        print(f"http://127.0.0.1:{port}", flush=True)
        await asyncio.Future()


asyncio.run(main())
