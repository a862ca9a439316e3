"""A scripted provider of OpenAI's WebSockets, Realtime and Responses: prints its address, and answers by what the human
says (`argv[1]`, as the scripted model has it)."""

import asyncio
import json
import sys

from websockets.asyncio.server import serve

TURNS = json.loads(sys.argv[1])["turns"]
# Sound of no length.
SOUND = "AAAA"


def turn_for(prompt):
    return next(turn for turn in TURNS if turn["when"]["user_contains"] in prompt)


def prompt_of(items):
    """What the human said last."""
    said = [item for item in items if item.get("type", "message") == "message" and item.get("role") == "user"]
    content = said[-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def pieces(turn):
    return [turn["text"][at : at + turn["chunk"]] for at in range(0, len(turn["text"]), turn["chunk"])]


def parts(is_aloud, text):
    """The part of an answer that begins, and the content of its item when it is whole."""
    if is_aloud:
        return {"type": "audio", "transcript": text}, [{"type": "output_audio", "transcript": text}]
    return {"type": "text", "text": text}, [{"type": "output_text", "text": text}]


def realtime(identity, turn, is_aloud):
    """The events of an answer, as OpenAI documents them."""

    def response(status, output, usage):
        return {
            "object": "realtime.response", "id": identity, "status": status, "status_details": None, "output": output,
            "conversation_id": "conv_1", "output_modalities": ["audio" if is_aloud else "text"], "usage": usage,
            "max_output_tokens": "inf", "metadata": None,
        }

    message = {"id": f"item_{identity}", "object": "realtime.item", "type": "message", "role": "assistant"}
    at = {"item_id": message["id"], "output_index": 0, "content_index": 0}
    begun, whole = {**message, "status": "in_progress", "content": []}, {**message, "status": "completed"}
    part, whole["content"] = parts(is_aloud, turn["text"])
    yield "response.created", {"response": response("in_progress", [], None)}
    yield "response.output_item.added", {"output_index": 0, "item": begun}
    yield "conversation.item.added", {"previous_item_id": None, "item": begun}
    yield "response.content_part.added", {**at, "part": parts(is_aloud, "")[0]}
    name = "output_audio_transcript" if is_aloud else "output_text"
    for piece in pieces(turn):
        yield f"response.{name}.delta", {**at, "delta": piece}
        if is_aloud:
            yield "response.output_audio.delta", {**at, "delta": SOUND}
    if is_aloud:
        yield "response.output_audio.done", at
    yield f"response.{name}.done", {**at, "transcript" if is_aloud else "text": turn["text"]}
    yield "response.content_part.done", {**at, "part": part}
    yield "conversation.item.done", {"previous_item_id": None, "item": whole}
    yield "response.output_item.done", {"output_index": 0, "item": whole}
    output = [whole]
    for index, call in enumerate(turn["tool_calls"], start=1):
        arguments = json.dumps(call["arguments"])
        item = {
            "id": f"call_{identity}_{index}", "object": "realtime.item", "type": "function_call", "name": call["name"],
            "call_id": f"call_{index}",
        }
        begun = {**item, "status": "in_progress", "arguments": ""}
        whole = {**item, "status": "completed", "arguments": arguments}
        at = {"item_id": item["id"], "output_index": index, "call_id": item["call_id"]}
        yield "response.output_item.added", {"output_index": index, "item": begun}
        yield "conversation.item.added", {"previous_item_id": output[-1]["id"], "item": begun}
        yield "response.function_call_arguments.delta", {**at, "delta": arguments}
        yield "response.function_call_arguments.done", {**at, "name": call["name"], "arguments": arguments}
        yield "conversation.item.done", {"previous_item_id": output[-1]["id"], "item": whole}
        yield "response.output_item.done", {"output_index": index, "item": whole}
        output.append(whole)
    usage = {
        "total_tokens": 7, "input_tokens": 4, "output_tokens": 3,
        "input_token_details": {"text_tokens": 4, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 0},
        "output_token_details": {"text_tokens": 3, "audio_tokens": 0},
    }
    yield "response.done", {"response": response("completed", output, usage)}


def responses(identity, turn):
    """The events of an answer over a WebSocket of Responses."""

    def response(status, output, usage):
        return {
            "id": identity, "object": "response", "created_at": 1, "status": status, "model": "scripted-model",
            "output": output, "usage": usage, "error": None, "incomplete_details": None, "instructions": None,
            "metadata": {}, "parallel_tool_calls": True, "temperature": 1, "tool_choice": "auto", "tools": [], "top_p": 1,
        }

    message = {"id": f"msg_{identity}", "type": "message", "role": "assistant"}
    at = {"item_id": message["id"], "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": turn["text"], "annotations": []}
    yield "response.created", {"response": response("in_progress", [], None)}
    yield "response.output_item.added", {"output_index": 0, "item": {**message, "status": "in_progress", "content": []}}
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
    for piece in pieces(turn):
        yield "response.output_text.delta", {**at, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**at, "text": turn["text"], "logprobs": []}
    yield "response.content_part.done", {**at, "part": part}
    whole = {**message, "status": "completed", "content": [part]}
    yield "response.output_item.done", {"output_index": 0, "item": whole}
    output = [whole]
    for index, call in enumerate(turn["tool_calls"], start=1):
        arguments = json.dumps(call["arguments"])
        item = {"id": f"fc_{identity}_{index}", "type": "function_call", "name": call["name"], "call_id": f"call_{index}"}
        at = {"item_id": item["id"], "output_index": index}
        whole = {**item, "status": "completed", "arguments": arguments}
        yield "response.output_item.added", {"output_index": index, "item": {**item, "status": "in_progress", "arguments": ""}}
        yield "response.function_call_arguments.delta", {**at, "delta": arguments}
        yield "response.function_call_arguments.done", {**at, "name": call["name"], "arguments": arguments}
        yield "response.output_item.done", {"output_index": index, "item": whole}
        output.append(whole)
    usage = {
        "input_tokens": 4, "output_tokens": 3, "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
    }
    yield "response.completed", {"response": response("completed", output, usage)}


class Realtime:
    """A session of Realtime."""

    def __init__(self):
        self.items, self.answers, self.modalities = [], 0, ["audio"]

    def greeting(self):
        return [("session.created", {"session": {"type": "realtime", "model": "scripted-model"}})]

    def answer(self, message):
        match message["type"]:
            case "session.update":
                self.modalities = message["session"].get("output_modalities", self.modalities)
                return [("session.updated", {"session": message["session"]})]
            case "conversation.item.create":
                self.items.append(message["item"])
                return [(f"conversation.item.{end}", {"item": message["item"]}) for end in ("added", "done")]
            case "response.create":
                self.answers += 1
                asked = message.get("response", {})
                modalities = asked.get("output_modalities", self.modalities)
                turn = turn_for(prompt_of(self.items + asked.get("input", [])))
                return realtime(f"resp_{self.answers}", turn, "audio" in modalities)
        return []


class Responses:
    """A connection of Responses."""

    def __init__(self):
        self.answers = 0

    def greeting(self):
        return []

    def answer(self, message):
        self.answers += 1
        asked = message["input"]
        prompt = asked if isinstance(asked, str) else prompt_of(asked)
        events = responses(f"resp_{self.answers}", turn_for(prompt))
        return [(kind, {**fields, "sequence_number": number}) for number, (kind, fields) in enumerate(events)]


async def session(socket):
    spoken = Realtime() if "/realtime" in socket.request.path else Responses()
    sent = 0

    async def send(events):
        nonlocal sent
        for kind, fields in events:
            sent += 1
            event = {"type": kind, **fields}
            if isinstance(spoken, Realtime):
                event["event_id"] = f"event_{sent}"
                if kind.startswith("response.") and "response" not in fields:
                    event["response_id"] = f"resp_{spoken.answers}"
            await socket.send(json.dumps(event))

    await send(spoken.greeting())
    async for message in socket:
        await send(spoken.answer(json.loads(message)))


async def main():
    async with serve(session, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        print(f"http://127.0.0.1:{port}", flush=True)
        await asyncio.Future()


asyncio.run(main())
