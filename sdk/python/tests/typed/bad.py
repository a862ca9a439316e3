"""Mistakes that a type checker refuses: below it, an ignored error that is none is an error."""

from typing import Any, Dict, Optional

import backstop
from backstop.client import Client
from backstop.hooks.base import HookVerdict, ToolCallHook
from backstop.points import AfterToolCallEvent, SessionStartEvent, ToolCallEvent, ToolCallOutcome


@backstop.hook("before_tool_cal")  # type: ignore[call-overload,untyped-decorator]
def typo_in_a_point(event: ToolCallEvent) -> None:
    return None


@backstop.hook("before_tool_call", prioriy=1)  # type: ignore[call-overload,untyped-decorator]
def typo_in_an_option(event: ToolCallEvent) -> None:
    return None


@backstop.hook("before_tool_call")  # type: ignore[type-var]
def event_of_another_point(event: SessionStartEvent) -> None:
    return None


@backstop.hook("before_tool_call")  # type: ignore[type-var]
def outcome_of_no_point(event: ToolCallEvent) -> str:
    return "yes"


@backstop.hook("after_tool_call")  # type: ignore[type-var]
def answer_where_hooks_watch(event: AfterToolCallEvent) -> Optional[ToolCallOutcome]:
    return None


@backstop.hook("before_tool_call")
def typos_in_fields(event: ToolCallEvent) -> ToolCallOutcome:
    print(event["tolName"])  # type: ignore[typeddict-item]
    return {"block": True, "blockReasn": "no"}  # type: ignore[typeddict-unknown-key]


@backstop.hook("before_tool_call")
def wrong_types(event: ToolCallEvent) -> ToolCallOutcome:
    return {"block": "true"}  # type: ignore[typeddict-item]


@backstop.hook("before_tool_call")
def options_may_be_absent(event: ToolCallEvent) -> None:
    print(event["context"]["pluginConfig"]["word"])  # type: ignore[index]


class WrongHook(ToolCallHook):
    async def pre_call(self, tool_name: str, arguments: Dict[str, Any], session_id: str = "") -> str:  # type: ignore[override]
        return "approve"


HookVerdict(approve=True)  # type: ignore[call-arg]
backstop.run(no_such_option=1)  # type: ignore[call-arg]


def no_verdict_is_a_text(client: Client) -> str:
    client.judge("tool.after", {}, patience="long")  # type: ignore[arg-type]
    Client(on_failure=True)  # type: ignore[arg-type]
    return client.permit("exec", {})  # type: ignore[return-value]
