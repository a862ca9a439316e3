"""A tool call hook as two hooks of Backstop."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List

from .hooks.base import HookVerdict, ToolCallHook
from .registry import Registry

_MOST_TITLE = 80
_MOST_DESCRIPTION = 512


def register(registry: Registry, hook: ToolCallHook) -> None:
    """Puts ``hook`` before and after every tool call."""
    name = type(hook).__name__
    if not isinstance(hook, ToolCallHook):
        raise TypeError(f"`{name}` is no ToolCallHook")

    async def before(event: Dict[str, Any]) -> Any:
        tool, arguments = _called(event), event["params"]
        verdict = hook.pre_call(tool, arguments, _session(event))
        return _outcome(tool, await verdict if inspect.isawaitable(verdict) else verdict)

    async def after(event: Dict[str, Any]) -> None:
        told = hook.post_call(_called(event), event["params"], _result(event), _session(event))
        if inspect.isawaitable(told):
            await told

    registry.add_hook({"id": name, "point": "before_tool_call", "priority": 0}, before)
    registry.add_hook({"id": f"{name}.post_call", "point": "after_tool_call", "priority": 0}, after)


def _called(event: Dict[str, Any]) -> str:
    """The tool, as the model called it."""
    return str(event.get("calledAs") or event["toolName"])


def _session(event: Dict[str, Any]) -> str:
    return str(event.get("context", {}).get("sessionId", ""))


def _result(event: Dict[str, Any]) -> Dict[str, Any]:
    result = event.get("result") or {}
    parts: List[Any] = result.get("content") or []
    output = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    failed = result.get("isError", False) or "error" in event
    told = {"success": not failed, "output": output}
    if failed:
        told["error"] = event.get("error", output)
    return told


def _outcome(tool: str, verdict: Any) -> Any:
    if not isinstance(verdict, HookVerdict):
        raise TypeError("a hook answered no HookVerdict")
    if verdict.verdict == "deny":
        return {"block": True, "blockReason": verdict.reasoning or "denied by a hook that gave no reason"}
    if verdict.verdict == "modify":
        return {"params": verdict.modified_arguments}
    if verdict.verdict == "ask":
        title = f"`{tool}` needs approval"[:_MOST_TITLE]
        return {"requireApproval": {"title": title, "description": verdict.reasoning[:_MOST_DESCRIPTION]}}
    return None
