"""LangChain: a middleware for ``langchain.agents.create_agent``.

    agent = create_agent(model, tools, middleware=[BackstopMiddleware(Client())])

Each call of a tool is judged, waits for a human where one is asked, and runs with the arguments that were judged; its result is judged
before the model reads it. Put it last: what a middleware behind it changes is not judged. Tools that the provider of the model runs are
not seen; models whose calls go through ``backstop serve`` have those judged there.
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, Generator, List

from langchain.agents.middleware import AgentMiddleware
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command, Send

from ..client import Client, ToolCall
from ..problems import Refused, Responded
from ..wire import Request

_Result = Any


class BackstopMiddleware(AgentMiddleware):
    """Has the tool calls of an agent judged, in ``invoke`` and in ``ainvoke``."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client, self._async = client, client.asynchronous()

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], _Result]
    ) -> _Result:
        try:
            call = self._client.permit(**_asked(request), takes_result=True)
        except Responded as responded:
            return _told(request, responded.result, "success")
        except Refused as refused:
            return _told(request, refused.reason, "error")
        return self._client.drive(self._judged(request, call, handler(_permitted(request, call))))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[_Result]]
    ) -> _Result:
        try:
            call = await self._async.permit(**_asked(request), takes_result=True)
        except Responded as responded:
            return _told(request, responded.result, "success")
        except Refused as refused:
            return _told(request, refused.reason, "error")
        return await self._async.drive(self._judged(request, call, await handler(_permitted(request, call))))

    def _judged(
        self, request: ToolCallRequest, call: ToolCall, result: _Result
    ) -> Generator[Request, Any, _Result]:
        if isinstance(result, ToolMessage):
            error = "the tool failed" if result.status == "error" else None
            try:
                content = yield from self._client.resulted(call, result.content, error)
            except Refused as refused:
                return _told(request, refused.reason, "error")
            return result.model_copy(update={"content": content})
        if isinstance(result, list):
            return (yield from self._each(request, call, result))
        if isinstance(result, Command) and isinstance(result.update, dict):
            update = dict(result.update)
            rest = {
                "update": {key: value for key, value in update.items() if key != "messages"},
                "goto": _gone_to(result.goto),
                "resume": result.resume,
            }
            if any(rest.values()) and not (yield from self._stays(call, rest)):
                return _told(request, "Backstop withholds what this result writes elsewhere", "error")
            if "messages" in update:
                update["messages"] = yield from self._each(request, call, update["messages"])
            return Command(graph=result.graph, update=update, resume=result.resume, goto=result.goto)
        # What has another form can't be judged, so the model does not read it.
        return _told(request, "Backstop can't read this result, so it is withheld", "error")

    def _stays(self, call: ToolCall, value: Any) -> Generator[Request, Any, bool]:
        """Whether the model may read all of a value as it is. It may in no other form, because programs read it, too."""
        try:
            return (yield from self._client.resulted(call, value, None)) is value
        except Refused:
            return False

    def _each(
        self, request: ToolCallRequest, call: ToolCall, results: List[Any]
    ) -> Generator[Request, Any, List[Any]]:
        judged = []
        for result in results:
            judged.append((yield from self._judged(request, call, result)))
        return judged


def _gone_to(goto: Any) -> List[Any]:
    """What the nodes are told that a command goes to. Their names alone tell nothing."""
    aims = goto if isinstance(goto, (list, tuple)) else [goto]
    return [aim.arg if isinstance(aim, Send) else aim for aim in aims if not isinstance(aim, str)]


def _asked(request: ToolCallRequest) -> Dict[str, Any]:
    call = request.tool_call
    runtime = getattr(request, "runtime", None)
    settings = (getattr(runtime, "config", None) or {}).get("configurable") or {}
    thread = settings.get("thread_id")
    context = {} if thread is None else {"sessionId": str(thread)}
    return {"tool": call["name"], "params": call["args"], "call_id": call["id"], "context": context}


def _permitted(request: ToolCallRequest, call: ToolCall) -> ToolCallRequest:
    return request.override(tool_call={**request.tool_call, "args": call.params})


def _told(request: ToolCallRequest, text: str, status: Any) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status=status)
