"""Hooks that judge AI agents, in Python.

A hook is registered with :func:`hook` and served with :func:`run`; a :class:`ToolCallHook` is served by ``run(MyHook())`` or
stands in front of tools in a :class:`ToolExecutor`. Events and outcomes have types in :mod:`backstop.points`.
"""

from .core.executor import ToolExecutor
from .decorators import hook, tool
from .hooks.base import HookVerdict, ToolCallHook
from .serve import log, run

__all__ = ["HookVerdict", "ToolCallHook", "ToolExecutor", "hook", "log", "run", "tool"]
__version__ = "0.1.0"
