"""What every SDK is asked, and the form in which it tells what it understood.

Each case is a prompt that the scripted model knows. A script runs each case in each of its modes (whole,
streamed, async, the SDK's own helpers) and prints one JSON object, case by case and mode by mode: the text, the
tool calls and the reason for stopping, as the SDK's own types hold them. The test compares them all with one
expectation: whatever way an SDK reads an answer, it must read the same.
"""

import asyncio
import json
import os
import sys
import traceback

BASE = os.environ["BACKSTOP_TEST_URL"]
KEY = os.environ["BACKSTOP_TEST_KEY"]
MODEL = "scripted-model"
# In which cloud the SDK takes itself to be, where that is one.
CLOUD = os.environ.get("BACKSTOP_TEST_CLOUD")

CASES = {
    "text": "say hello",
    "secret": "say the token",
    "call": "read the notes",
    "withheld": "run the command",
    "both": "read the notes and run the command",
    "structured": "answer as an object",
}

READ_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
EXEC_SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}
TOOLS = [
    {"name": "read", "description": "Reads a file.", "schema": READ_SCHEMA},
    {"name": "exec", "description": "Runs a command.", "schema": EXEC_SCHEMA},
]
ANSWER_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}


def told(text, calls, stop):
    """One answer as an SDK understood it; arguments are an object or the text of one."""
    named = [(name, json.loads(args) if isinstance(args, str) else dict(args or {})) for name, args in calls]
    return {"text": text or "", "calls": [{"name": n, "arguments": a} for n, a in named], "stop": stop}


def parsed(mode):
    """A mode that tells an object as the text that it was read from."""
    return lambda prompt: told(json.dumps(mode(prompt)), [], None)


def run(modes, structured=None):
    """Runs all cases in all modes, and the case of the object also through the SDK's own readers of objects, which
    answer one. An exception of the SDK is told, not swallowed."""
    only = sys.argv[1:]
    # SDKs that print must not print into the result.
    out, sys.stdout = sys.stdout, sys.stderr
    result = {}
    # One loop for everything: some SDKs keep their connections from call to call.
    loop = asyncio.new_event_loop()
    for case, prompt in CASES.items():
        if only and case not in only:
            continue
        answers = result.setdefault(case, {})
        parsers = {name: parsed(mode) for name, mode in (structured or {}).items()}
        for name, mode in (modes | parsers if case == "structured" else modes).items():
            try:
                answer = mode(prompt)
                if asyncio.iscoroutine(answer):
                    answer = loop.run_until_complete(answer)
                answers[name] = answer
            except Exception as error:  # noqa: BLE001: whatever an SDK throws is the finding
                traceback.print_exc()
                answers[name] = {"error": f"{type(error).__name__}: {error}"}
    json.dump(result, out)
