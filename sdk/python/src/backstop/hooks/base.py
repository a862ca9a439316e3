"""Tool call hooks: asked before each tool call, told after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Awaitable, Dict, Optional, Union

VERDICTS = ("approve", "deny", "modify", "ask")


@dataclass(frozen=True)
class HookVerdict:
    """What a hook says before a tool call.

    ``approve`` goes on to the next hook, ``deny`` ends the call, ``modify`` gives other arguments to later hooks and the tool,
    ``ask`` wants a human. A word that is none of these is an error: it is no consent.
    """

    verdict: str
    reasoning: str = ""
    modified_arguments: Optional[Dict[str, Any]] = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            known = ", ".join(f"`{word}`" for word in VERDICTS)
            raise ValueError(f"a verdict is one of {known}")
        if self.verdict == "modify" and not isinstance(self.modified_arguments, dict):
            raise ValueError("`modify` needs `modified_arguments`, a dictionary")
        if self.verdict != "modify" and self.modified_arguments:
            raise ValueError(f"`{self.verdict}` changes nothing; say `modify`")


class ToolCallHook:
    """A hook around tool calls. Its methods may be ``async`` or not."""

    if TYPE_CHECKING:
        # A type checker takes both for an override; an ``async def`` here would refuse a ``def``.
        def pre_call(
            self, tool_name: str, arguments: Dict[str, Any], session_id: str = ""
        ) -> Union[HookVerdict, Awaitable[HookVerdict]]: ...

        def post_call(
            self, tool_name: str, arguments: Dict[str, Any], result: Dict[str, Any], session_id: str = ""
        ) -> Union[None, Awaitable[None]]: ...

    else:

        async def pre_call(self, tool_name, arguments, session_id=""):
            """Is asked before a call."""
            return HookVerdict(verdict="approve")

        async def post_call(self, tool_name, arguments, result, session_id=""):
            """Is told how a call went. ``result`` has ``success`` and ``output``, and ``error`` for a call that failed."""


class PassthroughHook(ToolCallHook):
    """Approves everything."""

    def __init__(self, **config: Any) -> None:
        if config:
            raise ValueError("`passthrough` has no options")
