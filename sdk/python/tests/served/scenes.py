"""What every adapter is tried with: an agent of another package, the scripted model, and the real ``backstop serve``.

The tools write a file where they run, so that it shows whether they did. What the model was sent is looked at behind the package, as it
came over the wire.
"""

import json
import pathlib
import tempfile
import unittest

from house import ASKED, DENIED, TOKEN, Answering, House, Recorder

NOTES = f"the key is {TOKEN}, keep it"


class Tools:
    """The tools of the agents, as plain functions. Each leaves a file of its name."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def ran(self, tool):
        marker = self.folder / tool
        return json.loads(marker.read_text()) if marker.exists() else None

    def _mark(self, tool, **arguments):
        (self.folder / tool).write_text(json.dumps(arguments))

    def web_search(self, query: str) -> str:
        """Searches the web."""
        self._mark(DENIED, query=query)
        return "found"

    def exec(self, command: str) -> str:
        """Runs a command."""
        self._mark("exec", command=command)
        return "it ran"

    def read_notes(self, path: str) -> str:
        """Reads notes."""
        self._mark("read_notes", path=path)
        return NOTES

    def all(self):
        return [self.web_search, self.exec, self.read_notes]


def script():
    def turn(when, tool, **arguments):
        return {"repeat": True, "when": {"user_contains": when}, "tool_calls": [{"name": tool, "arguments": arguments}]}

    return {
        "turns": [
            {"repeat": True, "when": {"tool_result": True}, "text": "That is all."},
            turn("search", DENIED, query="weather"),
            turn("run", "exec", command=ASKED),
            turn("read", "read_notes", path="notes.txt"),
        ]
    }


class Scenes:
    """The scenes. A class of tests names how its package asks, with a model at ``url`` and these tools."""

    def ask(self, url, token, model, tools, prompt):
        """Has the agent answer a prompt. Returns its answer."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        cls.house = House()
        cls.house.__enter__()
        cls.addClassCleanup(cls.house.__exit__)
        file = cls.house.home / "script.json"
        file.write_text(json.dumps(script()))
        cls.model = cls.house.start("model", "serve", "--script", str(file))

    def scene(self, prompt):
        """Returns what came of a prompt: the tools, and what the model was sent after the call."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        tools = Tools(folder)
        with Recorder(self.model) as recorder:
            answer = self.ask(self.house.url, self.house.judge, recorder.url, tools, prompt)
        self.assertEqual(answer, "That is all.")
        self.assertEqual(len(recorder.received), 2, recorder.received)
        return tools, recorder.received[1]

    def test_a_denied_tool_does_not_run_and_the_model_reads_why(self):
        tools, received = self.scene("search the web")
        self.assertIsNone(tools.ran(DENIED))
        self.assertIn("web_*", received)

    def test_an_asked_tool_waits_and_runs_after_the_answer(self):
        with Answering(self.house, "allow-once") as person:
            tools, received = self.scene("run it")
        self.assertEqual(tools.ran("exec"), {"command": ASKED})
        self.assertIn("it ran", received)
        self.assertEqual(person.question["arguments"], {"command": ASKED})

    def test_a_tool_that_a_person_denies_does_not_run(self):
        with Answering(self.house, "deny"):
            tools, received = self.scene("run it")
        self.assertIsNone(tools.ran("exec"))
        self.assertNotIn("it ran", received)

    def test_a_result_that_a_person_gives_is_what_the_model_reads_and_the_tool_does_not_run(self):
        with Answering(self.house, "respond", result=f"done by hand, with {TOKEN}") as person:
            tools, received = self.scene("run it")
        self.assertIsNone(tools.ran("exec"))
        self.assertIn("done by hand, with [redacted:github_token]", received)
        self.assertNotIn(TOKEN, received)
        self.assertEqual(sorted(person.question["substitutes"]), ["edit", "respond"])

    def test_a_result_is_redacted_before_the_model_reads_it(self):
        tools, received = self.scene("read the notes")
        self.assertEqual(tools.ran("read_notes"), {"path": "notes.txt"})
        self.assertIn("[redacted:github_token]", received)
        self.assertNotIn(TOKEN, received)

    def test_without_backstop_no_tool_runs(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        tools = Tools(folder)
        with Recorder(self.model) as recorder:
            # Nobody listens on the port of nothing.
            self.ask("http://127.0.0.1:9", self.house.judge, recorder.url, tools, "read the notes")
        self.assertIsNone(tools.ran("read_notes"))
        self.assertIn("could not be judged", recorder.received[1])
