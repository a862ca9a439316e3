"""Runs tools behind hooks, in an agent that is written in Python."""

from __future__ import annotations

import copy
import inspect
import logging
from typing import Any, Dict, Optional, Sequence

from ..hooks.base import HookVerdict, PassthroughHook, ToolCallHook

_LOG = logging.getLogger("backstop")


class ToolExecutor:
    """Runs tools, if all hooks approve.

    ``skill_loader`` finds the skill of a tool: a mapping by name, or an object with ``get_skill_for_tool``, ``get_skill`` or
    ``get``. A skill has ``execute(tool_name, arguments)``, or is a function that is given the arguments.

    A hook that raises or answers no verdict denies the call. What a hook raises after a call is logged.
    """

    def __init__(self, skill_loader: Any, hooks: Optional[Sequence[ToolCallHook]] = None) -> None:
        self._skills = skill_loader
        self._hooks = [PassthroughHook()] if hooks is None else list(hooks)

    async def execute(
        self, tool_name: str, arguments: Optional[Dict[str, Any]] = None, session_id: str = ""
    ) -> Dict[str, Any]:
        """Runs a tool. The result has ``success`` and ``output``, and ``error`` where it failed or was denied."""
        effective = copy.deepcopy(arguments or {})
        denied = None
        for hook in self._hooks:
            verdict = await self._ask(hook, tool_name, effective, session_id)
            if verdict.verdict == "modify":
                effective = copy.deepcopy(verdict.modified_arguments or {})
            elif verdict.verdict != "approve":
                denied = verdict
                break
        if denied is not None:
            why = denied.reasoning or "a hook denied the call"
            if denied.verdict == "ask":
                why = f"a human has to allow this, and nobody can be asked here: {why}"
            result: Dict[str, Any] = {"success": False, "output": "", "error": why}
        else:
            result = await self._run(tool_name, effective)
        for hook in self._hooks:
            await self._tell(hook, tool_name, effective, result, session_id)
        return result

    async def _ask(
        self, hook: ToolCallHook, tool_name: str, arguments: Dict[str, Any], session_id: str
    ) -> HookVerdict:
        try:
            # What a hook does to its copy is no verdict.
            verdict = await _awaited(hook.pre_call(tool_name, copy.deepcopy(arguments), session_id))
        except Exception as error:
            _LOG.warning("a hook failed before `%s`: %r", tool_name, error)
            return HookVerdict("deny", f"a hook failed ({type(error).__name__}), so the call is denied")
        if not isinstance(verdict, HookVerdict):
            return HookVerdict("deny", "a hook gave no verdict, so the call is denied")
        return verdict

    async def _run(self, tool_name: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
        skill = self._find(tool_name)
        if skill is None:
            return {"success": False, "output": "", "error": f"there is no tool `{tool_name}`"}
        try:
            run = getattr(skill, "execute", None)
            output = await _awaited(run(tool_name, arguments) if run else skill(**arguments))
        except Exception as error:
            return {"success": False, "output": "", "error": f"{type(error).__name__}: {error}"}
        if isinstance(output, dict) and isinstance(output.get("success"), bool):
            return output
        return {"success": True, "output": output}

    def _find(self, tool_name: str) -> Any:
        for name in ("get_skill_for_tool", "get_skill", "get"):
            find = getattr(self._skills, name, None)
            if find is not None:
                return find(tool_name)
        return None

    async def _tell(
        self,
        hook: ToolCallHook,
        tool_name: str,
        arguments: Dict[str, Any],
        result: Dict[str, Any],
        session_id: str,
    ) -> None:
        try:
            told = copy.deepcopy(arguments), copy.deepcopy(result)
            await _awaited(hook.post_call(tool_name, *told, session_id))
        except Exception as error:
            _LOG.warning("a hook failed after `%s`: %r", tool_name, error)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
