"""Hooks by the names that a configuration gives them."""

from __future__ import annotations

import difflib
from typing import Any, Callable, Dict, Iterable, List, Mapping

from .base import PassthroughHook, ToolCallHook

_HOOK_REGISTRY: Dict[str, Callable[..., ToolCallHook]] = {"passthrough": PassthroughHook}
"""The types of hooks. Add your own: ``_HOOK_REGISTRY["my_hook"] = MyHook``."""

_BUILT_IN = ("policy", "webhook", "human_approval")


def create_hooks(entries: Iterable[Mapping[str, Any]]) -> List[ToolCallHook]:
    """The hooks of ``hooks.tool_call.pre_call``, each made from its ``type`` and its ``config``."""
    hooks = []
    for entry in entries:
        unknown = set(entry) - {"type", "config"}
        if unknown:
            raise ValueError(f"a hook has `type` and `config`, and not `{sorted(unknown)[0]}`")
        name = entry.get("type")
        make = _HOOK_REGISTRY.get(name) if isinstance(name, str) else None
        if make is None:
            raise ValueError(_unknown(name))
        hooks.append(make(**(entry.get("config") or {})))
    return hooks


def _unknown(name: Any) -> str:
    if name in _BUILT_IN:
        return f"`{name}` is a hook of Backstop itself\nhint: configure it in `backstop.yaml`"
    near = difflib.get_close_matches(str(name), _HOOK_REGISTRY, n=1)
    hint = f"\nhint: did you mean `{near[0]}`?" if near else '\nhint: add it: `_HOOK_REGISTRY["my_hook"] = MyHook`'
    return f"unknown hook type `{name}`{hint}"
