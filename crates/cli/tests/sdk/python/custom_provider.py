"""A provider of Chat Completions whose model calls freeform (`custom`) tools: prints its address. It runs a command or
reads a file as the human wishes, and stops once a call of its was refused."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

INPUTS = {"exec": "true # nobody-sees-this", "read": "notes.txt\nfrom the top"}


def answer(messages):
    """What the model says, and which tool it calls."""
    last = messages[-1]
    if last["role"] == "tool":
        calls = [call["id"] for message in messages for call in message.get("tool_calls") or []]
        kinds = {call["type"] for message in messages for call in message.get("tool_calls") or []}
        is_told = "was refused" in json.dumps(last["content"]) and last["tool_call_id"] in calls and kinds == {"custom"}
        return ("Then I stop." if is_told else f"What became of my call? {json.dumps(messages)}"), None
    return "I try.", "exec" if "run" in json.dumps(last["content"]) else "read"


def call_of(tool):
    return {"id": f"call_{tool}", "type": "custom", "custom": {"name": tool, "input": INPUTS[tool]}}


def whole(text, tool):
    message = {"role": "assistant", "content": text}
    if tool:
        message["tool_calls"] = [call_of(tool)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if tool else "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def chunks(text, tool):
    deltas = [{"role": "assistant", "content": ""}, {"content": text}]
    if tool:
        call = {"index": 0, **call_of(tool)}
        given = call["custom"]["input"]
        call["custom"] = {**call["custom"], "input": ""}
        deltas.append({"tool_calls": [call]})
        for at in range(0, len(given), 5):
            deltas.append({"tool_calls": [{"index": 0, "custom": {"input": given[at : at + 5]}}]})
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls" if tool else "stop"})
    for choice in choices:
        yield {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):  # noqa: N802: the library's name
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = answer(asked["messages"])
        if asked.get("stream"):
            events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks(*said)]
            kind, body = "text/event-stream", "".join([*events, "data: [DONE]\n\n"])
        else:
            kind, body = "application/json", json.dumps(whole(*said))
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
