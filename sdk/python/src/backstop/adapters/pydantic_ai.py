"""Pydantic AI: a capability that has all calls of an agent's tools judged.

    agent = Agent(model, tools=[search, read], capabilities=[Backstop(AsyncClient())])

Each call is judged, waits for a human where one is asked, and runs with the arguments that were judged; its result is judged before the
model reads it. Tools that the provider of the model runs are not seen; models whose calls go through ``backstop serve`` have those judged
there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict

from pydantic_ai import ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..client import AsyncClient
from ..problems import Refused


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
        params = to_jsonable_python(tool_args)
        whose = {"sessionId": ctx.conversation_id, "runId": ctx.run_id}
        try:
            call = await self.client.permit(name, params, call_id=ctx.tool_call_id, context=whose)
        except Refused as refused:
            return refused.reason
        if call.params != params:
            tool_args = tool.args_validator.validate_python(call.params)
        try:
            value = await super().call_tool(name, tool_args, ctx, tool)
        except ModelRetry as retry:
            # Its text is what the model reads.
            raise ModelRetry(str(await self._read(call, retry.message, "the tool wants another try"))) from retry
        return await self._read(call, value, None)

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
