"""Decisions of Backstop for a program in Python: a client of the decision API of ``backstop serve``.

:class:`Client` and :class:`AsyncClient` do the same. :meth:`Client.run` is a tool call with everything around it: it is judged, it waits
for a human where one is asked, it runs with the arguments that were judged, and its result is judged before the model reads it.

Failing is not passing: what can't be judged is :class:`~backstop.problems.Refused`, unless the author says otherwise for a server that is
not there (``on_failure="allow"``): no connection came about, and nothing was sent. Any other failure is never a pass, because who is judged
could bring it about: a refusal of the request, a server that has too much to do, an answer that takes too long. Nor is a failure
while a human is asked.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Dict, Generator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union
from urllib.parse import quote

from .problems import ApiError, Refused, Responded, Unreachable
from .wire import Request, Underway, Wire

_LOG = logging.getLogger("backstop")
_T = TypeVar("_T")
_Flow = Generator[Request, Any, _T]
Context = Mapping[str, Any]

POLL = 30.0
"""The most seconds that one request waits for a human."""


@dataclass(frozen=True)
class Ruling:
    """What the hooks made of an event, or the question that it waits for."""

    raw: Mapping[str, Any]
    """All of it, as the API told it."""

    @property
    def id(self) -> Optional[str]:
        """By which it is waited for; ``None`` where it was made at once."""
        return self.raw.get("id")

    @property
    def is_pending(self) -> bool:
        """Whether a human is asked."""
        return self.raw.get("status") != "decided"

    @property
    def question(self) -> Optional[Mapping[str, Any]]:
        """What the human is asked, while it is pending."""
        return self.raw.get("question")

    @property
    def verdict(self) -> Optional[str]:
        """``allow``, ``modify`` (by hooks, or by a person), ``block``, ``handled``, ``observed`` or ``respond``; ``None`` while it is pending."""
        return self.raw.get("verdict")

    @property
    def may_happen(self) -> bool:
        """Whether it may happen. What is not known to mean so does not."""
        return not self.is_pending and self.verdict in ("allow", "modify", "handled", "observed")

    @property
    def params(self) -> Optional[Dict[str, Any]]:
        """The arguments with which the tool is to run, and no others; for tool calls that may run."""
        return self.raw.get("params")

    @property
    def result(self) -> Optional[str]:
        """The result that a person gave in the place of a tool call. The tool does not run, and the result is judged as every one."""
        is_given = not self.is_pending and self.verdict == "respond"
        return self.raw.get("result") if is_given else None

    @property
    def outcome(self) -> Mapping[str, Any]:
        """The merged answer of the hooks, which is to be obeyed."""
        outcome = self.raw.get("outcome")
        return outcome if isinstance(outcome, dict) else {}

    def refused(self) -> Refused:
        """Why it may not happen."""
        blocked = self.raw.get("blocked")
        blocked = blocked if isinstance(blocked, dict) else {}
        return Refused(
            str(blocked.get("reason") or "Backstop does not allow this"),
            hook=blocked.get("hook"),
            rules=tuple(blocked.get("rules") or ()),
            unavailable=bool(blocked.get("unavailable")),
        )


@dataclass(frozen=True)
class ToolCall:
    """A tool call that may run."""

    tool: str
    params: Dict[str, Any]
    """The arguments to run it with, and no others."""
    id: str
    context: Mapping[str, Any]
    started: float


class _Flows:
    """What both clients do: each flow yields requests, is sent their responses, and returns what came of it."""

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        context: Optional[Context] = None,
        timeout: float = 30.0,
        patience: Optional[float] = None,
        on_failure: str = "refuse",
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        if on_failure not in ("refuse", "allow"):
            raise ValueError('`on_failure` is "refuse" or "allow"')
        url = url or os.environ.get("BACKSTOP_URL") or "http://127.0.0.1:8484"
        self._wire = Wire(url, token or os.environ.get("BACKSTOP_TOKEN") or "", timeout, ssl_context)
        self._context: Dict[str, Any] = dict(context or {})
        self._patience, self._allows_failure = patience, on_failure == "allow"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wire.url!r})"

    def _like(self, other: "_Flows") -> None:
        self._wire, self._context = other._wire, other._context
        self._patience, self._allows_failure = other._patience, other._allows_failure

    def _whose(self, context: Optional[Context]) -> Dict[str, Any]:
        whose = {**self._context, **(context or {})}
        return {name: value for name, value in whose.items() if value is not None}

    def _asked(
        self,
        point: str,
        event: Mapping[str, Any],
        context: Optional[Context],
        key: Optional[str],
        substitutes: Sequence[str] = (),
    ) -> _Flow[Ruling]:
        body: Dict[str, Any] = {"event": dict(event), "context": self._whose(context)}
        if substitutes:
            body["substitutes"] = list(substitutes)
        path = f"hooks/{quote(point, safe='')}"
        request = Request("POST", path, body, key or uuid.uuid4().hex, renews=not key)
        return Ruling((yield request) or {})

    def _waited(self, ruling: Ruling, patience: Optional[float]) -> _Flow[Ruling]:
        """Waits until a decision is made, or gives it up."""
        end = None if patience is None else time.monotonic() + patience
        path = f"decisions/{quote(ruling.id or '', safe='')}"
        try:
            while ruling.is_pending:
                left = POLL if end is None else end - time.monotonic()
                if left <= 0:
                    raise Refused("nobody answered in time, so it may not happen", unavailable=True)
                wait = min(POLL, max(1.0, left))
                request = Request("GET", f"{path}?wait={int(wait)}", wait=wait)
                ruling = Ruling((yield request) or {})
        except BaseException:
            # Who stops waiting has no use for an answer, so the question goes, too.
            try:
                yield Request("DELETE", path)
            except ApiError:
                pass
            raise
        return ruling

    def _judged(
        self,
        point: str,
        event: Mapping[str, Any],
        context: Optional[Context],
        patience: Optional[float],
        key: Optional[str] = None,
    ) -> _Flow[Ruling]:
        ruling = yield from self._asked(point, event, context, key)
        if ruling.is_pending and ruling.id:
            ruling = yield from self._waited(ruling, self._patience if patience is None else patience)
        return ruling

    def _decided(
        self,
        what: str,
        point: str,
        event: Mapping[str, Any],
        context: Optional[Context],
        patience: Optional[float],
        substitutes: Sequence[str] = (),
    ) -> _Flow[Optional[Ruling]]:
        """A ruling that is made; ``None`` if something happens although nobody could judge it."""
        is_known = False
        try:
            ruling = yield from self._asked(point, event, context, None, substitutes)
            # From here on somebody judges, or a human is asked: no failure is a pass.
            is_known = True
            if ruling.is_pending and ruling.id:
                ruling = yield from self._waited(ruling, self._patience if patience is None else patience)
            return ruling
        except ApiError as error:
            if self._allows_failure and not is_known and isinstance(error, Unreachable):
                _LOG.warning("%s was not judged, and is let through (on_failure): %s", what, error)
                return None
            raise Refused(f"it could not be judged, so it may not happen: {error}", unavailable=True) from error

    def _permitted(
        self,
        tool: str,
        params: Mapping[str, Any],
        call_id: Optional[str],
        context: Optional[Context],
        patience: Optional[float],
        takes_result: bool,
    ) -> _Flow[ToolCall]:
        whose, call_id = self._whose(context), call_id or uuid.uuid4().hex
        event: Dict[str, Any] = {"toolName": tool, "params": dict(params), "toolCallId": call_id}
        if "runId" in whose:
            event["runId"] = whose["runId"]
        # Whoever runs the call runs it with the arguments of the ruling, so a person may change them.
        substitutes = ("edit", "respond") if takes_result else ("edit",)
        what = f"the call of `{tool}`"
        ruling = yield from self._decided(what, "before_tool_call", event, whose, patience, substitutes)
        if ruling is None:
            # As it was sent: a copy as JSON.
            run: Dict[str, Any] = json.loads(json.dumps(event["params"]))
        elif ruling.may_happen and isinstance(ruling.params, dict):
            run = ruling.params
        elif takes_result and isinstance(ruling.result, str):
            # Nothing runs. What a person gave is judged as every result is.
            made = ToolCall(tool, json.loads(json.dumps(event["params"])), call_id, whose, time.monotonic())
            raise Responded(str((yield from self.resulted(made, ruling.result, None, ran=False))))
        else:
            raise ruling.refused()
        return ToolCall(tool, run, call_id, whose, time.monotonic())

    def resulted(self, call: ToolCall, value: Any, error: Optional[str], *, ran: bool = True) -> _Flow[Any]:
        """Has a result judged, and reports it where the call ran. Returns what the model may read."""
        parts, is_plain = _parts(value)
        result = {"toolCallId": call.id, "content": parts, "isError": error is not None}
        event = {
            "toolName": call.tool,
            "toolCallId": call.id,
            "params": call.params,
            "isError": error is not None,
            "result": result,
        }
        told, refused = result, None
        ruling = yield from self._decided(f"the result of `{call.tool}`", "tool.after", event, call.context, None)
        if ruling is not None:
            given = ruling.outcome.get("result")
            if ruling.may_happen and (given is None or isinstance(given, dict)):
                told = result if given is None else given
            else:
                refused = ruling.refused()
                told = {**result, "content": _parts(refused.reason)[0], "isError": True}
        if ran:
            yield from self._reported(call, told, error)
        if refused is not None:
            raise refused
        is_same = is_plain and told.get("content") == parts
        return value if is_same else _text(told.get("content"))

    def _reported(self, call: ToolCall, result: Mapping[str, Any], error: Optional[str]) -> _Flow[None]:
        """Tells those who watch. Nothing depends on it, so its failure is logged."""
        duration = max(0, int((time.monotonic() - call.started) * 1000))
        event: Dict[str, Any] = {
            "toolName": call.tool,
            "params": call.params,
            "toolCallId": call.id,
            "result": result,
            "durationMs": duration,
        }
        if "runId" in call.context:
            event["runId"] = call.context["runId"]
        if error is not None:
            event["error"] = _text(result.get("content"))
        try:
            yield from self._asked("after_tool_call", event, call.context, None)
        except ApiError as problem:
            _LOG.warning("that `%s` ran could not be reported: %s", call.tool, problem)

    def _ended(
        self, run_id: Optional[str], success: bool, error: Optional[str], context: Optional[Context]
    ) -> _Flow[None]:
        whose = self._whose(context)
        run_id = run_id or whose.get("runId")
        event: Dict[str, Any] = {"messages": [], "success": success, "durationMs": 0}
        if run_id is not None:
            event["runId"] = whose["runId"] = run_id
        if error is not None:
            event["error"] = error
        yield from self._asked("agent_end", event, whose, None)


class Client(_Flows):
    """A client that waits in its thread. It can be used by several threads.

    ``url`` and ``token`` are those of ``backstop serve`` and of an access token with the scope ``judge``; where they are absent,
    ``BACKSTOP_URL`` and ``BACKSTOP_TOKEN`` of the environment count. ``context`` says whose the events are: ``sessionId``, ``runId``
    and what else hooks are told. ``timeout`` bounds each request, in seconds, besides the time that a human takes; ``patience``
    bounds that, and without one it is as long as the question is open.
    """

    def judge(
        self,
        point: str,
        event: Mapping[str, Any],
        context: Optional[Context] = None,
        *,
        patience: Optional[float] = None,
        key: Optional[str] = None,
    ) -> Ruling:
        """Has an event judged at a hook point, and waits for the human who is asked.

        A ruling that blocks is returned, not raised. ``key`` is an idempotency key: a request with one that is known is not judged
        again, and that a tool call may run is told to it once (:class:`~backstop.problems.Conflict`). Without it each call has one of
        its own, so that a connection that breaks asks nobody twice.

        Raises :class:`~backstop.problems.ApiError` where it could not be judged.
        """
        return self.drive(self._judged(point, event, context, patience, key))

    def submit(
        self,
        point: str,
        event: Mapping[str, Any],
        context: Optional[Context] = None,
        *,
        key: Optional[str] = None,
    ) -> Ruling:
        """Has an event judged, and returns without waiting for a human: the ruling may be pending."""
        return self.drive(self._asked(point, event, context, key))

    def wait(self, ruling: Ruling, patience: Optional[float] = None) -> Ruling:
        """Waits until a pending ruling is decided. That something may run is told once."""
        return self.drive(self._waited(ruling, self._patience if patience is None else patience))

    def cancel(self, ruling: Ruling) -> None:
        """Gives a pending ruling up; its question is cancelled."""
        self._wire.send(Request("DELETE", f"decisions/{quote(ruling.id or '', safe='')}"))

    def permit(
        self,
        tool: str,
        params: Mapping[str, Any],
        *,
        call_id: Optional[str] = None,
        context: Optional[Context] = None,
        patience: Optional[float] = None,
        takes_result: bool = False,
    ) -> ToolCall:
        """Has a tool call judged. Raises :class:`~backstop.problems.Refused` unless it may run.

        With ``takes_result`` a person may give the result in its place: :class:`~backstop.problems.Responded` is raised then, and has what
        the model may read of it.
        """
        return self.drive(self._permitted(tool, params, call_id, context, patience, takes_result))

    def result(self, call: ToolCall, value: Any, *, error: Optional[str] = None) -> Any:
        """Has the result of a tool judged, and reports that it ran. Returns what the model may read.

        That is ``value`` itself, or a text in its place where a hook changed it. ``error`` says why the tool failed, if it did.
        Raises :class:`~backstop.problems.Refused` where the model may read nothing of it.
        """
        return self.drive(self.resulted(call, value, error))

    def run(
        self,
        tool: str,
        params: Mapping[str, Any],
        execute: Callable[[Dict[str, Any]], Any],
        *,
        call_id: Optional[str] = None,
        context: Optional[Context] = None,
    ) -> Any:
        """Runs a tool if it may run, and returns what the model may read of its result.

        ``execute`` is given the arguments that were judged. What it raises is judged as a result and raised as :class:`ToolFailed`.
        Where a person gave the result, it does not run, and that is what the model may read.
        """
        try:
            call = self.permit(tool, params, call_id=call_id, context=context, takes_result=True)
        except Responded as responded:
            return responded.result
        try:
            value = execute(call.params)
        except Exception as error:
            kind, said = _said(error)
        else:
            return self.result(call, value)
        # Out of the `except`, so that nobody who prints what led to it prints what was said before it was judged.
        raise ToolFailed(str(self.result(call, said, error=kind)))

    def end(
        self,
        run_id: Optional[str] = None,
        *,
        success: bool = True,
        error: Optional[str] = None,
        context: Optional[Context] = None,
    ) -> None:
        """Says that a run is over. Questions that it waits for are cancelled."""
        self.drive(self._ended(run_id, success, error, context))

    def asynchronous(self) -> "AsyncClient":
        """Returns the same client for ``asyncio``."""
        client = AsyncClient.__new__(AsyncClient)
        client._like(self)
        return client

    def drive(self, flow: _Flow[_T]) -> _T:
        try:
            request = next(flow)
            while True:
                try:
                    reply = self._wire.send(request)
                except BaseException as error:
                    request = flow.throw(error)
                else:
                    request = flow.send(reply)
        except StopIteration as done:
            result: _T = done.value
            return result


class AsyncClient(_Flows):
    """A :class:`Client` for ``asyncio``. A call that is cancelled cancels its question."""

    async def judge(
        self,
        point: str,
        event: Mapping[str, Any],
        context: Optional[Context] = None,
        *,
        patience: Optional[float] = None,
        key: Optional[str] = None,
    ) -> Ruling:
        """As :meth:`Client.judge`."""
        return await self.drive(self._judged(point, event, context, patience, key))

    async def submit(
        self,
        point: str,
        event: Mapping[str, Any],
        context: Optional[Context] = None,
        *,
        key: Optional[str] = None,
    ) -> Ruling:
        """As :meth:`Client.submit`."""
        return await self.drive(self._asked(point, event, context, key))

    async def wait(self, ruling: Ruling, patience: Optional[float] = None) -> Ruling:
        """As :meth:`Client.wait`."""
        return await self.drive(self._waited(ruling, self._patience if patience is None else patience))

    async def cancel(self, ruling: Ruling) -> None:
        """As :meth:`Client.cancel`."""
        await self._send(Request("DELETE", f"decisions/{quote(ruling.id or '', safe='')}"))

    async def permit(
        self,
        tool: str,
        params: Mapping[str, Any],
        *,
        call_id: Optional[str] = None,
        context: Optional[Context] = None,
        patience: Optional[float] = None,
        takes_result: bool = False,
    ) -> ToolCall:
        """As :meth:`Client.permit`."""
        return await self.drive(self._permitted(tool, params, call_id, context, patience, takes_result))

    async def result(self, call: ToolCall, value: Any, *, error: Optional[str] = None) -> Any:
        """As :meth:`Client.result`."""
        return await self.drive(self.resulted(call, value, error))

    async def run(
        self,
        tool: str,
        params: Mapping[str, Any],
        execute: Callable[[Dict[str, Any]], Union[Awaitable[Any], Any]],
        *,
        call_id: Optional[str] = None,
        context: Optional[Context] = None,
    ) -> Any:
        """As :meth:`Client.run`; ``execute`` may be a coroutine function."""
        try:
            call = await self.permit(tool, params, call_id=call_id, context=context, takes_result=True)
        except Responded as responded:
            return responded.result
        try:
            value = execute(call.params)
            if isinstance(value, Awaitable):
                value = await value
        except Exception as error:
            kind, said = _said(error)
        else:
            return await self.result(call, value)
        raise ToolFailed(str(await self.result(call, said, error=kind)))

    async def end(
        self,
        run_id: Optional[str] = None,
        *,
        success: bool = True,
        error: Optional[str] = None,
        context: Optional[Context] = None,
    ) -> None:
        """As :meth:`Client.end`."""
        await self.drive(self._ended(run_id, success, error, context))

    async def drive(self, flow: _Flow[_T]) -> _T:
        try:
            request = next(flow)
            while True:
                try:
                    reply = await self._send(request)
                except BaseException as error:
                    request = flow.throw(error)
                else:
                    request = flow.send(reply)
        except StopIteration as done:
            result: _T = done.value
            return result

    async def _send(self, request: Request) -> Any:
        # A thread for each request: those of a pool would be taken by questions that wait, and hold the end of the program up.
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()
        call = Underway(self._wire, request)

        def settle(value: Any, error: Optional[BaseException]) -> None:
            if reply.done():
                return
            if error is not None:
                reply.set_exception(error)
            else:
                reply.set_result(value)

        def work() -> None:
            value, problem = None, None
            try:
                value = self._wire.send(request)
            except BaseException as error:
                problem = error
            if call.is_answered_too_late(value):
                call.give_up(value)
                return
            try:
                loop.call_soon_threadsafe(settle, value, problem)
            except RuntimeError:
                pass  # The loop is closed: nobody waits.

        threading.Thread(target=work, name="backstop", daemon=True).start()
        try:
            return await reply
        except asyncio.CancelledError:
            answer = call.cancel()
            if answer is not None:
                threading.Thread(target=call.give_up, args=(answer,), name="backstop", daemon=True).start()
            raise


class ToolFailed(Exception):
    """A tool raised. The text is what the model may read of it; what the tool raised is not its cause, because nobody has judged that."""


def _said(error: Exception) -> Tuple[str, str]:
    """What a tool that raised is known to have failed with, and the text that is judged."""
    kind = type(error).__name__
    return kind, f"{kind}: {error}"


def _parts(value: Any) -> Tuple[List[Dict[str, Any]], bool]:
    """A result as the parts that hooks judge, and whether they are all of it.

    What is no text is judged as its JSON. Where it has none, the text that was judged takes its place: whoever writes it for the model
    by other means may write more of it.
    """
    if isinstance(value, str):
        return [{"type": "text", "text": value}], True
    if isinstance(value, list) and value and all(_is_text_part(item) for item in value):
        return [dict(item) for item in value], True
    try:
        return [{"type": "text", "text": json.dumps(value, ensure_ascii=False)}], True
    except (TypeError, ValueError, RecursionError):
        return [{"type": "text", "text": str(value)}], False


def _is_text_part(item: Any) -> bool:
    is_text = isinstance(item, dict) and set(item) == {"type", "text"}
    return is_text and item["type"] == "text" and isinstance(item["text"], str)


def _text(parts: Any) -> str:
    texts = [part.get("text") for part in parts or () if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


__all__: Tuple[str, ...] = ("AsyncClient", "Client", "Ruling", "ToolCall", "ToolFailed")
