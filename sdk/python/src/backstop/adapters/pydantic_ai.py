"""Pydantic AI: a capability that has all calls of an agent's tools judged.

    agent = Agent(model, tools=[search, read], capabilities=[Backstop(AsyncClient())])

Each call is judged, waits for a human where one is asked, and runs with the arguments that were judged; its result is judged before the
model reads it. Tools that the provider of the model runs are not seen; models whose calls go through ``backstop serve`` have those judged
there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, Optional

from pydantic_ai import ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..client import AsyncClient
from ..problems import Refused, Responded


@dataclass
class Backstop(AbstractCapability[Any]):
    """Has the tool calls of an agent judged."""

    client: AsyncClient

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return BackstopToolset(toolset, self.client)


@dataclass
class BackstopToolset(WrapperToolset[Any]):
    """The tools of another toolset, whose calls are judged."""

    client: AsyncClient

    async def call_tool(
        self, name: str, tool_args: Dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        try:
            params = to_jsonable_python(tool_args)
        except PydanticSerializationError:
            return "the arguments have no JSON form, so they could not be judged, and the call was not run"
        whose = {"sessionId": ctx.conversation_id, "runId": ctx.run_id}
        try:
            call = await self.client.permit(
                name, params, call_id=ctx.tool_call_id, context=whose, takes_result=True
            )
        except Responded as responded:
            return responded.result
        except Refused as refused:
            return refused.reason
        judged = _read_again(tool, call.params, ctx)
        is_changed = _text(call.params) != _text(params)
        # What JSON does not say was not judged: a field that is left out, a secret that is masked.
        if judged is None or not (is_changed or _is_equal(judged, tool_args)):
            return "the tool takes its arguments in another form than they were judged in, so the call was not run"
        try:
            value = await super().call_tool(name, judged, ctx, tool)
        except ModelRetry as retry:
            said = retry.message
        else:
            return await self._read(call, value, None)
        # Its text is what the model reads. Out of the `except`, so that what was said before it was judged is not its cause.
        raise ModelRetry(str(await self._read(call, said, "the tool wants another try")))

    async def _read(self, call: Any, value: Any, error: Any) -> Any:
        try:
            plain = to_jsonable_python(value)
        except PydanticSerializationError:
            plain = value
        try:
            told = await self.client.result(call, plain, error=error)
        except Refused as refused:
            return refused.reason
        return value if told is plain else told


def _read_again(tool: ToolsetTool[Any], params: Dict[str, Any], ctx: RunContext[Any]) -> Optional[Dict[str, Any]]:
    """The arguments that a tool makes of what was judged, if they say the same."""
    try:
        args: Dict[str, Any] = tool.args_validator.validate_json(json.dumps(params), context=ctx.validation_context)
        return args if _text(to_jsonable_python(args)) == _text(params) else None
    except (ValueError, PydanticSerializationError):
        return None


def _text(params: Any) -> str:
    """As JSON: in Python, ``1`` equals ``True``."""
    return json.dumps(params, sort_keys=True)


def _is_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:
        return False
