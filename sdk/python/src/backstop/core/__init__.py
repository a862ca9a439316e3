"""What stands between an agent and its tools."""

from .executor import ToolExecutor

__all__ = ["ToolExecutor"]
