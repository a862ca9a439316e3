"""The client of the decision API, against the real ``backstop serve``."""

import asyncio
import json
import os
import pathlib
import errno
import socket
import sys
import threading
import traceback
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from house import ASKED, DENIED, TOKEN, Answering, House, until

from backstop.client import AsyncClient, Client, ToolFailed
from backstop.problems import ApiError, Conflict, InvalidRequest, NotAllowed, NotFound, Refused, Responded, Unavailable

CONTEXT = {"sessionId": "s-1", "runId": "r-1"}


class TestClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.house = cls.enterClassContext(House()) if hasattr(cls, "enterClassContext") else House().__enter__()
        if not hasattr(cls, "enterClassContext"):
            cls.addClassCleanup(cls.house.__exit__)
        cls.client = Client(cls.house.url, cls.house.judge, context=CONTEXT)

    def ran(self, tool, params, client=None):
        """Runs a tool that only notes its arguments. Returns what came of it, and with which arguments it ran."""
        ran = []

        def execute(given):
            ran.append(given)
            return "done"

        try:
            return (client or self.client).run(tool, params, execute), ran
        except Refused as refused:
            return refused, ran

    def test_what_may_run_runs_with_the_arguments_that_were_judged(self):
        told, ran = self.ran("read", {"path": "notes.txt", "lines": [1, 2.5, None, "ü"]})
        self.assertEqual((told, ran), ("done", [{"path": "notes.txt", "lines": [1, 2.5, None, "ü"]}]))

    def test_what_is_denied_does_not_run_and_says_why(self):
        refused, ran = self.ran(DENIED, {"query": "weather"})
        self.assertEqual(ran, [])
        self.assertIsInstance(refused, Refused)
        self.assertEqual(refused.hook, "hooks.tool_call.pre_call[0]")
        self.assertIn(DENIED, refused.reason)
        self.assertFalse(refused.unavailable)

    def test_who_is_asked_about_waits_and_goes_on_after_the_answer(self):
        held = []
        with Answering(self.house, "allow-once", before=lambda: held.append(list(ran))) as person:
            ran = []
            told = self.client.run("exec", {"command": ASKED}, lambda given: ran.append(given) or "done")
        self.assertEqual((told, ran, held), ("done", [{"command": ASKED}], [[]]))
        self.assertEqual(person.question["agent"], "bot")
        with Answering(self.house, "deny"):
            refused, ran = self.ran("exec", {"command": ASKED})
        self.assertIsInstance(refused, Refused)
        self.assertEqual(ran, [])

    def test_a_call_that_a_person_changed_runs_as_they_changed_it(self):
        with Answering(self.house, "edit", arguments={"command": "echo other"}):
            told, ran = self.ran("exec", {"command": ASKED})
        self.assertEqual((told, ran), ("done", [{"command": "echo other"}]))

    def test_a_result_that_a_person_gave_is_judged_and_the_tool_does_not_run(self):
        with Answering(self.house, "respond", result=f"key {TOKEN}"):
            told, ran = self.ran("exec", {"command": ASKED})
        self.assertEqual((told, ran), ("key [redacted:github_token]", []))

        async def scene():
            return await self.client.asynchronous().run("exec", {"command": ASKED}, ran.append)

        with Answering(self.house, "respond", result="by hand"):
            self.assertEqual((asyncio.run(scene()), ran), ("by hand", []))
        with Answering(self.house, "respond", result="by hand"):
            with self.assertRaises(Responded) as responded:
                self.client.permit("exec", {"command": ASKED}, takes_result=True)
        self.assertEqual(responded.exception.result, "by hand")
        # Whoever does not say so is not given one.
        with Answering(self.house, "allow-once") as person:
            self.client.permit("exec", {"command": ASKED})
        self.assertEqual(person.question["substitutes"], ["edit"])

    def test_who_loses_patience_is_refused_and_the_question_goes(self):
        impatient = Client(self.house.url, self.house.judge, patience=1)
        refused, ran = self.ran("exec", {"command": ASKED}, impatient)
        self.assertIsInstance(refused, Refused)
        self.assertTrue(refused.unavailable)
        self.assertEqual(ran, [])
        until(lambda: self.house.questions() == [])

    def test_a_question_can_be_waited_for_later_or_given_up(self):
        event = {"toolName": "exec", "params": {"command": ASKED}}
        pending = self.client.submit("before_tool_call", event)
        self.assertTrue(pending.is_pending and not pending.may_happen and pending.params is None)
        self.assertEqual(self.house.questions()[0]["id"], pending.question["approval"])
        with Answering(self.house, "allow-once"):
            decided = self.client.wait(pending)
        self.assertEqual((decided.verdict, decided.params), ("allow", {"command": ASKED}))
        # That it may run is told once.
        with self.assertRaises(Conflict):
            self.client.wait(pending)
        given_up = self.client.submit("before_tool_call", event)
        self.client.cancel(given_up)
        # Whoever gave it up does not wait for its question to go.
        until(lambda: self.house.questions() == [])
        with self.assertRaises(NotFound) as problem:
            self.client.wait(given_up)
        self.assertEqual((problem.exception.status, problem.exception.kind), (404, "decision"))

    def test_a_result_is_judged_before_the_model_reads_it(self):
        for value in (f"key {TOKEN}", {"keys": [TOKEN]}, [{"type": "text", "text": TOKEN}]):
            told = self.client.run("read", {"path": "keys"}, lambda _, value=value: value)
            self.assertIn("[redacted:github_token]", told)
            self.assertNotIn(TOKEN, told)
        # What is not changed stays what it is, unless it has a form that hooks do not see.
        plain = {"people": [1, None, "ü"]}
        self.assertIs(self.client.run("read", {"path": "x"}, lambda _: plain), plain)
        self.assertEqual(self.client.run("read", {"path": "x"}, lambda _: pathlib.PurePosixPath("a/b")), "a/b")

        class Hides:
            key = TOKEN

            def __repr__(self):
                return "nothing to see"

        self.assertEqual(self.client.run("read", {"path": "x"}, lambda _: Hides()), "nothing to see")

    def test_what_a_tool_raises_is_judged_too(self):
        def fails(_):
            raise OSError(f"no entry for {TOKEN}")

        with self.assertRaises(ToolFailed) as failed:
            self.client.run("read", {"path": "x"}, fails)
        self.assertEqual(str(failed.exception), "OSError: no entry for [redacted:github_token]")
        # Nobody has judged what led to it.
        self.assertIsNone(failed.exception.__context__)
        self.assertNotIn(TOKEN, "".join(traceback.format_exception(type(failed.exception), failed.exception, None)))

        async def scene():
            await self.client.asynchronous().run("read", {"path": "x"}, fails)

        with self.assertRaises(ToolFailed) as failed:
            asyncio.run(scene())
        self.assertIsNone(failed.exception.__context__)

    def test_any_point_can_be_judged_and_its_outcome_comes_back(self):
        event = {
            "toolName": "read",
            "toolCallId": "c",
            "isError": False,
            "result": {"toolCallId": "c", "content": [{"type": "text", "text": TOKEN}]},
        }
        ruling = self.client.judge("tool.after", event)
        self.assertEqual(ruling.verdict, "modify")
        [part] = ruling.outcome["result"]["content"]
        self.assertEqual(part["text"], "[redacted:github_token]")

    def test_what_ran_is_reported_and_a_run_can_end(self):
        whose = {"sessionId": "s-2", "runId": "r-2"}
        self.client.run("read", {"path": "x"}, lambda _: "done", context=whose)
        pending = self.client.submit(
            "before_tool_call", {"toolName": "exec", "params": {"command": ASKED}, "runId": "r-2"}, whose
        )
        self.client.end("r-2", context=whose)
        self.assertEqual(self.house.questions(), [])
        self.assertFalse(self.client.wait(pending).may_happen)

        def points():
            entries = self.house.ask("GET", "audit?kind=receipt&limit=1000")[1]["entries"]
            return {entry["body"]["point"] for entry in entries if entry.get("run") == "r-2"}

        until(lambda: {"before_tool_call", "tool.after", "after_tool_call"} <= points())

    def test_a_call_to_which_a_person_gave_the_result_is_not_reported_as_one_that_ran(self):
        whose = {"sessionId": "s-3", "runId": "r-3"}
        with Answering(self.house, "respond", result="by hand"):
            with self.assertRaises(Responded):
                self.client.permit("exec", {"command": ASKED}, context=whose, takes_result=True)

        def points():
            entries = self.house.ask("GET", "audit?kind=receipt&limit=1000")[1]["entries"]
            return {entry["body"]["point"] for entry in entries if entry.get("run") == "r-3"}

        until(lambda: {"before_tool_call", "tool.after"} <= points())
        self.assertNotIn("after_tool_call", points())

    def test_a_request_with_a_key_is_judged_once(self):
        event = {"toolName": "read", "params": {"path": "once"}}
        self.assertEqual(self.client.judge("before_tool_call", event, key="a key").verdict, "allow")
        # A key permits nothing: that it may run is told once.
        with self.assertRaises(Conflict) as problem:
            self.client.judge("before_tool_call", event, key="a key")
        self.assertEqual(problem.exception.kind, "conflict")
        other = {"toolName": "exec", "params": {"command": ASKED}}
        first, again = (self.client.submit("before_tool_call", other, key="another") for _ in range(2))
        self.assertEqual((first.raw, first.is_pending), (again.raw, True))
        self.client.cancel(first)
        with self.assertRaises(InvalidRequest) as problem:
            self.client.judge("before_tool_call", {**event, "params": {}}, key="a key")
        self.assertEqual(problem.exception.kind, "idempotency-key")

    def test_problems_have_types(self):
        event = {"toolName": "read", "params": {}}
        for client, point, event, error, kind in (
            (Client(self.house.url, "bst_0_0"), "before_tool_call", event, NotAllowed, "token"),
            (Client(self.house.url, self.house.person), "before_tool_call", event, NotAllowed, "scope"),
            (self.client, "before_tool_cal", event, NotFound, "point"),
            (self.client, "../approvals", event, NotFound, "no-route"),
            (self.client, "before_tool_call", {"toolName": "read"}, InvalidRequest, "body"),
            (self.client, "before_tool_call", {"params": {"x": float("nan")}}, InvalidRequest, "body"),
            (self.client, "before_tool_call", {"params": {"x": object()}}, InvalidRequest, "body"),
        ):
            with self.assertRaises(error) as problem:
                client.judge(point, event)
            self.assertEqual(problem.exception.kind, kind)

    def test_what_is_refused_as_a_request_runs_on_nobodys_word(self):
        # It is the one who is judged who chooses how large a call is.
        lenient = Client(self.house.url, self.house.judge, on_failure="allow")
        for params in ({"text": "x" * (5 << 20)}, {"x": float("nan")}):
            refused, ran = self.ran("write", params, lenient)
            self.assertIsInstance(refused, Refused)
            self.assertEqual(ran, [])
        stranger = Client(self.house.url, "bst_0_0", on_failure="allow")
        self.assertEqual(self.ran("read", {}, stranger)[1], [])

    def test_a_token_goes_nowhere_else(self):
        for url in ("http://example.com", "ftp://127.0.0.1", "http://127.0.0.1@example.com", "http://127.0.0.1/t/x"):
            with self.assertRaises(ValueError):
                Client(url, "bst_0_0")
        for token in ("", "a b", "a\r\nb: c", "ü"):
            with self.assertRaises(ValueError):
                Client(self.house.url, token)
        self.assertNotIn("bst", repr(Client(self.house.url, self.house.judge)))

    def test_the_environment_says_where_backstop_is(self):
        before = {name: os.environ.get(name) for name in ("BACKSTOP_URL", "BACKSTOP_TOKEN", "http_proxy")}
        # A proxy of the environment is not used.
        os.environ.update(BACKSTOP_URL=self.house.url, BACKSTOP_TOKEN=self.house.judge, http_proxy="http://127.0.0.1:9")
        try:
            self.assertEqual(self.ran("read", {}, Client())[0], "done")
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def test_the_same_for_asyncio(self):
        async def scene():
            client = self.client.asynchronous()

            async def execute(given):
                return f"key {TOKEN}"

            told = await client.run("read", {"path": "x"}, execute)
            self.assertEqual(told, "key [redacted:github_token]")
            with self.assertRaises(Refused):
                await client.run(DENIED, {}, execute)
            with Answering(self.house, "allow-once"):
                self.assertEqual((await client.permit("exec", {"command": ASKED})).params, {"command": ASKED})
            # Many may wait at once, and others are judged meanwhile.
            waiting = [asyncio.create_task(client.permit("exec", {"command": ASKED})) for _ in range(40)]
            while len(await asyncio.to_thread(self.house.questions)) < 40:
                await asyncio.sleep(0.02)
            await client.permit("read", {"path": "x"})
            for task in waiting:
                task.cancel()
            told = await asyncio.gather(*waiting, return_exceptions=True)
            self.assertEqual({type(error) for error in told}, {asyncio.CancelledError})

        asyncio.run(scene())
        # Whoever is cancelled leaves no question.
        until(lambda: self.house.questions() == [])


def reply(status, body):
    return f"HTTP/1.1 {status} x\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"


class TestWithoutServer(unittest.TestCase):
    def test_a_server_that_is_gone_lets_nothing_run(self):
        with House() as house:
            client = Client(house.url, house.judge)
            lenient = Client(house.url, house.judge, on_failure="allow")
            waiting = client.submit("before_tool_call", {"toolName": "exec", "params": {"command": ASKED}})
            house.stop()
            ran = []
            for again in (client, AsyncClient(house.url, house.judge)):
                with self.assertRaises(Refused) as refused:
                    asked = again.run("read", {}, ran.append)
                    asyncio.run(asked)
                self.assertTrue(refused.exception.unavailable)
            self.assertEqual(ran, [])
            with self.assertRaises(Unavailable):
                client.wait(waiting)
            with self.assertLogs("backstop", "WARNING") as logged:
                self.assertEqual(lenient.run("read", {"path": "x"}, lambda given: f"read {given}"), "read {'path': 'x'}")
            self.assertIn("was not judged", logged.output[0])

    def answering(self, *answers):
        """A server that says these, one for each connection, and is gone then. Returns its address and what it was sent."""
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        received = []

        def work():
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    received.append(connection.recv(1 << 16).decode())
                    connection.sendall(answer.encode())
            listener.close()

        threading.Thread(target=work, daemon=True).start()
        self.addCleanup(listener.close)
        return url, received

    def test_what_is_no_answer_of_backstop_lets_nothing_run(self):
        decided = {"status": "decided", "verdict": "allow"}
        for answer in (
            reply(200, "<html>"),
            reply(200, "[]"),
            reply(200, "[1]"),
            reply(200, json.dumps({**decided, "verdict": "block", "blocked": "no"})),
            reply(200, "{}"),
            reply(200, json.dumps(decided)),
            reply(200, json.dumps({**decided, "params": "ls"})),
            reply(200, json.dumps({**decided, "params": {}, "verdict": "allowed"})),
            reply(200, json.dumps({**decided, "params": {}, "status": "done"})),
            reply(200, json.dumps({"status": "decided", "verdict": "respond", "result": "x"})),
            reply(204, ""),
            reply(302, ""),
            reply(418, ""),
            reply(500, "{}"),
            "no http",
        ):
            url, received = self.answering(answer, answer, answer)
            with self.assertRaises(Refused, msg=answer):
                Client(url, "bst_0_0").permit("read", {})
            self.assertTrue(received)

    def test_only_where_nobody_is_there_something_passes_unjudged(self):
        pending = reply(202, json.dumps({"id": "d-1", "status": "pending"}))
        problems = [reply(status, json.dumps({"type": "urn:backstop:problem:x"})) for status in (408, 429, 500, 503)]
        # Whoever is judged can bring these about. Nobody listens any more after the last answer.
        for answers in (*([problem] for problem in problems), ["no http"], ["", "", ""], [""], [pending], [pending, ""]):
            url, received = self.answering(*answers)
            with self.assertRaises(Refused, msg=answers) as refused:
                Client(url, "bst_0_0", on_failure="allow").permit("read", {})
            self.assertTrue(refused.exception.unavailable and received)
        # A failure of our own, such as of too many open files, says nothing of whether somebody is there.
        lenient = Client("http://127.0.0.1:9", "bst_0_0", on_failure="allow")
        for code, passes in ((errno.EMFILE, False), (errno.EADDRNOTAVAIL, False), (errno.EHOSTUNREACH, True)):
            with mock.patch("socket.create_connection", side_effect=OSError(code, "x")):
                if passes:
                    with self.assertLogs("backstop", "WARNING"):
                        self.assertEqual(lenient.permit("read", {"x": 1}).params, {"x": 1})
                else:
                    with self.assertRaises(Refused):
                        lenient.permit("read", {})

    def test_a_server_that_is_slow_is_there(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with self.assertRaises(Refused):
            Client(url, "bst_0_0", timeout=0.3, on_failure="allow").permit("read", {})

    def test_a_result_that_is_taken_away_is_not_read(self):
        decided = {"status": "decided", "verdict": "allow", "params": {}}
        for result in ({}, {"content": []}, "x", []):
            judged = {"status": "decided", "verdict": "modify", "outcome": {"result": result}}
            url, _ = self.answering(*(reply(200, json.dumps(body)) for body in (decided, judged, decided)))
            try:
                told = Client(url, "bst_0_0").run("read", {}, lambda _: "what nobody may read")
            except Refused:
                told = ""
            self.assertEqual(told, "", result)

    def test_who_is_cancelled_before_the_answer_leaves_no_question(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        asked, is_cancelled, received = threading.Event(), threading.Event(), []

        def work():
            for answer in (reply(202, json.dumps({"id": "d-1", "status": "pending"})), reply(204, "")):
                connection, _ = listener.accept()
                with connection:
                    received.append(connection.recv(1 << 16).decode().split(" HTTP")[0])
                    asked.set()
                    is_cancelled.wait()
                    connection.sendall(answer.encode())

        worker = threading.Thread(target=work, daemon=True)
        worker.start()

        async def scene():
            client = AsyncClient(f"http://127.0.0.1:{listener.getsockname()[1]}", "bst_0_0")
            asking = asyncio.create_task(client.permit("read", {}))
            await asyncio.to_thread(asked.wait)
            asking.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await asking

        asyncio.run(scene())
        is_cancelled.set()
        until(lambda: received == ["POST /-/v1/hooks/before_tool_call", "DELETE /-/v1/decisions/d-1"])

    def test_a_connection_that_breaks_is_no_second_request(self):
        body = json.dumps({"status": "decided", "verdict": "allow", "params": {}})
        whole = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
        url, received = self.answering("", whole)
        Client(url, "bst_0_0").permit("read", {})
        keys = [line for text in received for line in text.splitlines() if line.startswith("idempotency-key")]
        self.assertEqual((len(keys), len(set(keys))), (2, 1))

    def test_a_permit_that_was_lost_is_asked_for_anew(self):
        told = json.dumps({"type": "urn:backstop:problem:conflict", "detail": "told before"})
        body = json.dumps({"status": "decided", "verdict": "allow", "params": {}})
        url, received = self.answering("", reply(409, told), reply(200, body))
        Client(url, "bst_0_0").permit("read", {})
        keys = [line for text in received for line in text.splitlines() if line.startswith("idempotency-key")]
        self.assertEqual((keys[0] == keys[1], keys[1] == keys[2], len(keys)), (True, False, 3))
        # Not without a connection that broke, not twice, and not by the key of whoever asks.
        for answers, key in (([reply(409, told)], None), (["", *[reply(409, told)] * 2], None), (["", reply(409, told)], "k")):
            url, received = self.answering(*answers)
            with self.assertRaises(Conflict):
                Client(url, "bst_0_0").judge("before_tool_call", {"toolName": "read", "params": {}}, key=key)
            self.assertEqual(len(received), len(answers))

    def test_a_server_that_says_nothing_is_waited_for_within_bounds(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with self.assertRaises(Refused) as refused:
            Client(url, "bst_0_0", timeout=0.3).permit("read", {})
        self.assertIsInstance(refused.exception.__cause__, ApiError)


if __name__ == "__main__":
    unittest.main()
