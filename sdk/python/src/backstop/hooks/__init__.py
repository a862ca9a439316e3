"""Tool call hooks: what they are, and how they are found by name."""

from .base import HookVerdict, PassthroughHook, ToolCallHook
from .factory import create_hooks

__all__ = ["HookVerdict", "PassthroughHook", "ToolCallHook", "create_hooks"]
