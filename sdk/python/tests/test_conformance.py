"""The cases that every SDK has to pass."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).parent
CASES = json.loads((HERE.parent.parent / "conformance" / "cases.json").read_text("utf-8"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parent / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def converse(messages, answers):
    """Sends messages and takes as many answers."""
    program = subprocess.Popen(
        [sys.executable, str(HERE / "fixture.py")],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    def send(message):
        program.stdin.write(json.dumps(message).encode() + b"\n")
        program.stdin.flush()

    def take():
        while True:
            line = program.stdout.readline()
            assert line, "the program has ended"
            message = json.loads(line)
            if "id" in message:
                return message
            assert message["method"] == "log"

    send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocol": 1}})
    declared = take()
    for message in messages:
        send(message)
    taken = [take() for _ in range(answers)]
    send({"jsonrpc": "2.0", "id": 99, "method": "shutdown"})
    assert take() == {"jsonrpc": "2.0", "id": 99, "result": None}
    assert program.stdout.readline() == b"", "it goes on"
    assert program.wait(timeout=30) == 0
    program.stdin.close()
    program.stdout.close()
    return declared, taken


class Conformance(unittest.TestCase):
    maxDiff = None

    def test_declares(self):
        declared, _ = converse([], 0)
        self.assertEqual(declared["result"], CASES["declares"])

    def test_cases(self):
        for case in CASES["cases"]:
            with self.subTest(case["name"]):
                _, taken = converse(case["messages"], len(case["answers"]))
                by_id = {message["id"]: message for message in taken}
                for answer in case["answers"]:
                    message = by_id[answer["id"]]
                    self.assertEqual(message["jsonrpc"], "2.0")
                    if "error" in answer:
                        self.assertIn(answer["error"], message["error"]["message"])
                        self.assertNotIn("result", message)
                    else:
                        self.assertEqual(message["result"], answer["result"])
                        self.assertNotIn("error", message)

    def test_what_is_no_data_fails_whatever_the_language_calls_it(self):
        for kind in ["namedtuple", "number", "bytes", "surrogate", "infinity"]:
            event = {"toolName": "exec", "params": {"kind": kind}, "context": {}}
            params = {"hook": "no_data", "point": "before_tool_call", "event": event}
            _, taken = converse([{"jsonrpc": "2.0", "id": 2, "method": "event", "params": params}], 1)
            self.assertIn("plain data", taken[0].get("error", {}).get("message", ""), kind)


if __name__ == "__main__":
    unittest.main()
