"""The OpenAI Agents SDK: function tools whose calls are judged.

    agent = Agent(name="helper", tools=guarded([search, read], AsyncClient()))

Each call is judged, waits for a human where one is asked, and runs with the arguments that were judged; its result is judged before the
model reads it. ``timeout_seconds`` of a tool counts the wait for a human, too. Tools of other kinds run elsewhere (at the provider, in
an MCP server, in another agent), so that :func:`guarded` refuses them.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any, Iterable, List, Mapping, Optional

from agents import FunctionTool
from agents.tool_context import ToolContext

from ..client import AsyncClient
from ..problems import Refused


def guarded(
    tools: Iterable[Any], client: AsyncClient, context: Optional[Mapping[str, Any]] = None
) -> List[FunctionTool]:
    """Returns the tools, each of whose calls is judged. Raises ``TypeError`` for a tool that runs elsewhere."""
    return [_guarded(tool, client, context) for tool in tools]


def _guarded(tool: Any, client: AsyncClient, whose: Optional[Mapping[str, Any]]) -> FunctionTool:
    if not isinstance(tool, FunctionTool):
        raise TypeError(f"a {type(tool).__name__} runs elsewhere, so that its calls can't be judged here")
    run = tool.on_invoke_tool

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        try:
            params = json.loads(arguments or "{}")
        except ValueError:
            params = None
        if not isinstance(params, dict):
            return "the arguments are no JSON object, so the call was not run"
        try:
            call = await client.permit(tool.name, params, call_id=context.tool_call_id, context=whose)
            if call.params != params:
                # A tool may read its arguments here, too.
                arguments, context = json.dumps(call.params), copy.copy(context)
                context.tool_arguments = arguments
            return await client.result(call, await run(context, arguments))
        except Refused as refused:
            return refused.reason

    return dataclasses.replace(tool, on_invoke_tool=invoke)
