"""What a program registers, and which points there are."""

from __future__ import annotations

import difflib
from typing import Any, Callable, Dict

from .points import ALIASES, POINTS


class Registered:
    """A hook, and what Backstop is told of it."""

    def __init__(self, declaration: Dict[str, Any], function: Callable[..., Any]) -> None:
        self.declaration = declaration
        self.function = function


class Registry:
    """The hooks and the tools of one program."""

    def __init__(self) -> None:
        self.hooks: Dict[str, Registered] = {}
        self.tools: Dict[str, Registered] = {}

    def add_hook(self, declaration: Dict[str, Any], function: Callable[..., Any]) -> None:
        name = declaration["id"]
        number = 2
        while declaration["id"] in self.hooks:
            declaration["id"] = f"{name}-{number}"
            number += 1
        self.hooks[declaration["id"]] = Registered(declaration, function)

    def add_tool(self, declaration: Dict[str, Any], function: Callable[..., Any]) -> None:
        if declaration["name"] in self.tools:
            raise ValueError(f"there are two tools called `{declaration['name']}`")
        self.tools[declaration["name"]] = Registered(declaration, function)


REGISTRY = Registry()
"""What the decorators register."""


def check_point(point: str) -> str:
    """The point, by its name today.

    Raises ``ValueError`` with the nearest name for one that does not exist.
    """
    name = ALIASES.get(point, point)
    if name not in POINTS:
        near = difflib.get_close_matches(point, POINTS, n=1)
        hint = f"\nhint: did you mean `{near[0]}`?" if near else ""
        raise ValueError(f"unknown hook point `{point}`{hint}")
    return name
