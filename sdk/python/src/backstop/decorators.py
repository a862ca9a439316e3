"""How hooks and tools are registered.

The types of ``hook`` at each point are in the stub beside this file, which is generated.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from .registry import REGISTRY, Registry, check_point


def hook(
    point: str,
    *,
    id: Optional[str] = None,
    priority: int = 0,
    timeout_ms: Optional[int] = None,
    matcher: Any = None,
    triggers: Any = None,
    dispatch_kinds: Any = None,
    registry: Registry = REGISTRY,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as a hook at ``point``.

    It is given the event and answers with the outcome, or ``None`` for no opinion. Higher ``priority`` runs first; ``matcher``
    is a regular expression, or a list of names of tools.
    """
    if not isinstance(point, str):
        raise TypeError('`hook` wants the name of a point, as in `@hook("before_tool_call")`')
    name = check_point(point)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        declaration: Dict[str, Any] = {
            "id": id or getattr(function, "__name__", name),
            "point": name,
            "priority": priority,
        }
        options: List[Any] = [
            ("timeoutMs", timeout_ms),
            ("matcher", list(matcher) if isinstance(matcher, (list, tuple, set, frozenset)) else matcher),
            ("triggers", None if triggers is None else list(triggers)),
            ("dispatchKinds", None if dispatch_kinds is None else list(dispatch_kinds)),
        ]
        declaration.update({key: value for key, value in options if value is not None})
        registry.add_hook(declaration, function)
        return function

    return register


def tool(
    name: str, description: str = "", input_schema: Optional[Any] = None, *, registry: Registry = REGISTRY
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as a tool of the agent. It is given the arguments as one dictionary."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        declaration = {
            "name": name,
            "description": description or (function.__doc__ or "").strip(),
            "inputSchema": {"type": "object"} if input_schema is None else input_schema,
        }
        registry.add_tool(declaration, function)
        return function

    return register
