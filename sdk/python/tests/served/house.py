"""A Backstop for tests: the real ``backstop serve``, a scripted model, and people who answer.

``BACKSTOP_TEST_PROGRAM`` names the program; it is what ``cargo test`` built. Everything listens on this machine only.
"""

import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from urllib.parse import urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "sdk" / "python" / "src"))

PROGRAM = os.environ.get("BACKSTOP_TEST_PROGRAM") or str(ROOT / "target" / "debug" / "backstop")
DENIED = "web_search"
# A call about which the guard asks. Nobody runs it: the tools of these tests write a file.
ASKED = 'eval "$PLAN" || true; echo ran'
# Looks like a token of GitHub and is none; put together here so that no scanner of this repository trips.
TOKEN = "".join(["ghp", "_", "aB3dE5fG7hJ9kL1m", "N2pQ4rS6tU8vW0xY2zA4"])
CONFIG = """
hooks:
  tool_call:
    pre_call:
      - { type: policy, config: { deny_tools: ["web_*"] } }
    post_call:
      - { type: passthrough }
"""


class House:
    """``backstop serve`` with a home of its own. Use it in a ``with``."""

    def __init__(self, config=CONFIG):
        self._folder = tempfile.TemporaryDirectory()
        self.home = pathlib.Path(self._folder.name)
        self._children, self._config = [], config

    def __enter__(self):
        folder = self.home / "config" / "backstop"
        folder.mkdir(parents=True)
        (folder / "backstop.yaml").write_text(self._config)
        self.url = self.start("serve", "--port", "0")
        self.judge = self.token("--agent", "bot", "--scope", "judge")
        self.person = self.token("--user", "ann", "--scope", "approve", "--scope", "read")
        return self

    def __exit__(self, *_):
        for child in self._children:
            child.kill()
            child.wait()
            child.stdout.close()
        self._folder.cleanup()

    def _command(self, *args):
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "data"),
        }
        quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return {"args": [PROGRAM, *args], "cwd": self.home, "env": env, **quiet}

    def start(self, *args):
        """Starts a part of the program that prints its address, and returns that."""
        child = subprocess.Popen(**self._command(*args), stdout=subprocess.PIPE)
        self._children.append(child)
        url = child.stdout.readline().decode().strip()
        assert url.startswith("http"), f"{args} did not start"
        # What `serve` prints is for models, and has a token in its path.
        return "http://" + urlsplit(url).netloc

    def run(self, *args):
        """Runs a command of the program, and returns what it prints."""
        return subprocess.run(**self._command(*args), stdout=subprocess.PIPE, check=True).stdout.decode()

    def token(self, *args):
        """Makes an access token, and waits until the server knows it."""
        token = self.run("token", "create", *args).strip()
        until(lambda: self.ask("GET", "openapi.json", token)[0] == 200)
        return token

    def stop(self):
        """Ends the server, and whatever else was started."""
        for child in self._children:
            child.kill()
            child.wait()

    def ask(self, method, path, token=None, body=None, headers=None):
        """Asks the API, without the client that is tested. Returns the status and the JSON."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
        try:
            text = None if body is None else json.dumps(body)
            headers = {"authorization": f"Bearer {token or self.person}", **(headers or {})}
            if text is not None:
                headers["content-type"] = "application/json"
            connection.request(method, f"/-/v1/{path}", text, headers)
            response = connection.getresponse()
            told = response.read()
            return response.status, json.loads(told) if told else None
        finally:
            connection.close()

    def questions(self, state="pending"):
        return self.ask("GET", f"approvals?state={state}")[1]["approvals"]

    def answer(self, decision, **more):
        """Waits for the one question that there is, and answers it. Returns the question."""
        [question] = until(self.questions)
        given = {"decision": decision, "digest": question["digest"], **more}
        status, told = self.ask("POST", f"approvals/{question['id']}/answer", body=given)
        assert status == 200, told
        return question


class Answering:
    """A person who answers the next question, beside what is tested."""

    def __init__(self, house, decision, before=lambda: None, **more):
        self._question, self._error = None, None

        def work():
            try:
                until(house.questions)
                before()
                self._question = house.answer(decision, **more)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=work)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join()
        if self._error is not None:
            raise self._error

    @property
    def question(self):
        self._thread.join()
        return self._question


class Recorder:
    """Passes requests on to the scripted model, and keeps what the model was sent."""

    def __init__(self, url):
        self.received = []
        received, target = self.received, urlsplit(url)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append(body.decode())
                connection = http.client.HTTPConnection(target.hostname, target.port, timeout=30)
                kind = {"content-type": "application/json", "authorization": "Bearer client-key"}
                connection.request("POST", self.path, body, kind)
                response = connection.getresponse()
                answer = response.read()
                connection.close()
                self.send_response(response.status)
                self.send_header("content-type", response.headers["content-type"])
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def until(holds):
    """Waits until something is true, and returns it."""
    end = time.monotonic() + 60
    while True:
        value = holds()
        if value:
            return value
        assert time.monotonic() < end, "it did not become true within a minute"
        time.sleep(0.02)
