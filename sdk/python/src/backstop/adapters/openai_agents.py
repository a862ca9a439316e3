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
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from agents import FunctionTool
from agents.tool_context import ToolContext

from ..client import AsyncClient
from ..problems import Refused, Responded


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
            params = json.loads(arguments or "{}", object_pairs_hook=_object)
        except (ValueError, RecursionError):
            params = None
        if not isinstance(params, dict):
            return "the arguments are no JSON object, or name one twice, so the call was not run"
        try:
            call = await client.permit(
                tool.name, params, call_id=context.tool_call_id, context=whose, takes_result=True
            )
        except Responded as responded:
            return responded.result
        except Refused as refused:
            return refused.reason
        # Never the text of the model: it may be read in another way than it was judged.
        judged, context = json.dumps(call.params), copy.copy(context)
        context.tool_arguments = judged
        if context.tool_call is not None and json.dumps(call.params, sort_keys=True) != json.dumps(
            params, sort_keys=True
        ):
            # A tool may read its arguments here, too.
            context.tool_call = context.tool_call.model_copy(update={"arguments": judged})
        # What is raised in the tool is about another call than this one.
        value = await run(context, judged)
        try:
            return await client.result(call, value)
        except Refused as refused:
            return refused.reason

    return dataclasses.replace(tool, on_invoke_tool=invoke)


def _object(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """An object whose names differ: of two that are the same, one reader takes the first and another the last."""
    taken = dict(pairs)
    if len(taken) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return taken
