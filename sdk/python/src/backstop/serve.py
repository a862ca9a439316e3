"""Speaks with Backstop: JSON-RPC 2.0, one message a line.

Standard output is the line to Backstop. ``run`` takes it away from everybody else, so that what is printed, also by programs that
a hook starts, goes to standard error, and that to the log.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Dict, Optional

from .hooks.base import ToolCallHook
from .registry import REGISTRY, Registered, Registry
from .verdicts import register as register_verdicts

PROTOCOL = 1
"""The version of the protocol, and of the JSON of events and outcomes."""

_FAILED = -32000
_NO_METHOD = -32601
_MOST_DEPTH = 100

_server: Optional["_Server"] = None


def log(message: str, level: str = "info") -> None:
    """Sends a line to Backstop's log. ``level`` is ``debug``, ``info``, ``warn`` or ``error``."""
    if level not in ("debug", "info", "warn", "error"):
        raise ValueError("`level` is one of `debug`, `info`, `warn`, `error`")
    if _server is None:
        print(message, file=sys.stderr)
    else:
        _server.send({"jsonrpc": "2.0", "method": "log", "params": {"level": level, "message": str(message)}})


def run(*hooks: ToolCallHook, concurrency: int = 1, registry: Registry = REGISTRY) -> None:
    """Serves the registered hooks, and ``hooks``, until Backstop ends the program."""
    global _server
    if not 1 <= concurrency <= 256:
        raise ValueError("`concurrency` is a number between 1 and 256")
    for each in hooks:
        register_verdicts(registry, each)
    if sys.stdin.isatty():
        print("this is a program for Backstop to start: it speaks JSON on its standard input", file=sys.stderr)
    sys.stdout.flush()
    line = os.dup(1)
    os.dup2(2, 1)
    _server = _Server(registry, concurrency, line)
    try:
        _server.serve()
    finally:
        _server.close()


def check(value: Any, path: str = "answer", depth: int = 0) -> None:
    """Refuses what is not plain data: what JSON would turn into something else, or what is another thing each time it is read."""

    def no(why: str) -> TypeError:
        return TypeError(f"{path} {why}; answer with plain data")

    kind = type(value)
    if value is None or kind is bool:
        return
    # Of a text or number of a class of its own, as an `Enum` is, JSON has the text or the number itself.
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise no("is no text that Unicode knows (a lone surrogate)") from None
    elif isinstance(value, int):
        return
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise no(f"is {float(value)}, which JSON does not have")
    elif depth >= _MOST_DEPTH:
        raise no("is nested too deep, or holds itself")
    elif kind is list or kind is tuple:
        for index, each in enumerate(value):
            check(each, f"{path}[{index}]", depth + 1)
    elif kind is dict:
        for key, each in value.items():
            if type(key) is not str:
                raise no(f"has a key that is no text but a {type(key).__name__}")
            check(key, path, depth + 1)
            check(each, f"{path}.{key}", depth + 1)
    else:
        raise no(f"is a {kind.__name__}")


class _Server:
    def __init__(self, registry: Registry, concurrency: int, line: int) -> None:
        self._registry = registry
        self._concurrency = concurrency
        self._line = line
        self._writing = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._threads: Optional[ThreadPoolExecutor] = None
        self._running: Dict[Any, "Future[Any]"] = {}

    def serve(self) -> None:
        with os.fdopen(os.dup(0), "rb") as lines:
            for line in lines:
                request = json.loads(line)
                method = request.get("method")
                if method == "shutdown":
                    self._answer(request["id"], None)
                    return
                self._handle(method, request)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        # Threads of hooks that are stuck must not keep the program.
        sys.stderr.flush()
        if self._threads is not None:
            os._exit(0)

    def _handle(self, method: Any, request: Dict[str, Any]) -> None:
        params = request.get("params") or {}
        if method == "initialize":
            self._answer(request["id"], self._declaration())
        elif method == "event":
            registered = self._registry.hooks.get(params["hook"])
            self._start(request["id"], registered, params["event"], params["point"])
        elif method == "tool":
            self._start(request["id"], self._registry.tools.get(params["name"]), params["arguments"], None)
        elif method == "$/cancel":
            future = self._running.get(params.get("id"))
            if future is not None:
                future.cancel()
        elif "id" in request:
            self._fail(request["id"], f"there is no `{method}` here", _NO_METHOD)

    def _declaration(self) -> Dict[str, Any]:
        return {
            "protocol": PROTOCOL,
            "concurrency": self._concurrency,
            "hooks": [each.declaration for each in self._registry.hooks.values()],
            "tools": [each.declaration for each in self._registry.tools.values()],
        }

    def _start(self, number: Any, registered: Optional[Registered], given: Any, point: Optional[str]) -> None:
        if registered is None:
            self._fail(number, "there is no such hook or tool here")
            return
        function = registered.function
        if inspect.iscoroutinefunction(function):
            self._track(number, point, asyncio.run_coroutine_threadsafe(function(given), self._event_loop()))
        elif self._concurrency == 1:
            # Nothing else is asked meanwhile, and another thread would cost more than most hooks.
            self._finish(number, point, lambda: function(given))
        else:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._concurrency, "hook")
            self._track(number, point, self._threads.submit(function, given))

    def _track(self, number: Any, point: Optional[str], future: "Future[Any]") -> None:
        self._running[number] = future

        def done(future: "Future[Any]") -> None:
            self._running.pop(number, None)
            if future.cancelled():
                # Nobody waits for it, and Backstop wants to know that it is over.
                self._fail(number, "cancelled")
            else:
                self._finish(number, point, future.result)

        future.add_done_callback(done)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="hooks", daemon=True).start()
        return self._loop

    def _finish(self, number: Any, point: Optional[str], result: Callable[[], Any]) -> None:
        try:
            answer = result()
            if inspect.isawaitable(answer):
                self._track(number, point, asyncio.run_coroutine_threadsafe(_await(answer), self._event_loop()))
                return
            if answer is None and point == "before_agent_run":
                # The one gate that takes no silence for an answer.
                answer = {"outcome": "pass"}
            check(answer)
            self._answer(number, answer)
        except Exception as error:
            self._fail(number, f"{type(error).__name__}: {error}")

    def _answer(self, number: Any, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "result": result})

    def _fail(self, number: Any, message: str, code: int = _FAILED) -> None:
        self.send({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    def send(self, message: Dict[str, Any]) -> None:
        # What is no JSON raises here, before a byte of it is written.
        text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        with self._writing:
            while text:
                text = text[os.write(self._line, text) :]


async def _await(answer: Any) -> Any:
    return await answer
