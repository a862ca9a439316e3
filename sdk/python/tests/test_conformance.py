"""The cases that every SDK has to pass."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).parent
CONFORMANCE = HERE.parent.parent / "conformance"
CASES = json.loads((CONFORMANCE / "cases.json").read_text("utf-8"))
POINTS = json.loads((CONFORMANCE / "points.json").read_text("utf-8"))["points"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parent / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def converse(messages, answers, fixture="fixture.py"):
    """Sends messages and takes as many answers."""
    program = subprocess.Popen(
        [sys.executable, str(HERE / fixture)],
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

    def test_every_point(self):
        messages, expected = [], {}

        def ask(case, hook):
            number = len(messages) + 2
            event = {**case["event"], "context": {"sessionId": "s1", "pluginConfig": None}}
            params = {"hook": f"{case['point']}/{hook}", "point": case["point"], "event": event}
            messages.append({"jsonrpc": "2.0", "id": number, "method": "event", "params": params})
            return number

        for case in POINTS:
            for number, answer in enumerate(case["answers"]):
                expected[ask(case, number)] = ("result", answer)
            expected[ask(case, "silent")] = ("result", case["silence"])
            expected[ask(case, "fails")] = ("error", "out of order")
        declared, taken = converse(messages, len(messages), "points_fixture.py")
        hooks = {(hook["id"], hook["point"]) for hook in declared["result"]["hooks"]}
        self.assertEqual(hooks, {(message["params"]["hook"], message["params"]["point"]) for message in messages})
        by_id = {message["id"]: message for message in taken}
        for message in messages:
            kind, wanted = expected[message["id"]]
            with self.subTest(message["params"]["hook"]):
                got = by_id[message["id"]]
                if kind == "error":
                    self.assertIn(wanted, got.get("error", {}).get("message", got))
                else:
                    self.assertEqual(got.get("result", got), wanted)
        self.assertEqual([case["point"] for case in POINTS], list(backstop_points()))


def backstop_points():
    sys.path.insert(0, str(HERE.parent / "src"))
    from backstop.points import POINTS as names

    return names


if __name__ == "__main__":
    unittest.main()
