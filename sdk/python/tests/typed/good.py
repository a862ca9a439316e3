"""Hooks that a type checker takes, in strict mode."""

from typing import Any, Dict, Optional

import backstop
from backstop.client import AsyncClient, Client, Ruling
from backstop.core.executor import ToolExecutor
from backstop.hooks import create_hooks
from backstop.hooks.base import HookVerdict, ToolCallHook
from backstop.points import (
    AfterToolCallEvent,
    AgentRunEvent,
    AgentRunOutcome,
    MessageBeforeEvent,
    MessageBeforeOutcome,
    ToolCallEvent,
    ToolCallOutcome,
)
from backstop.problems import ApiError, Refused
from backstop.registry import Registry

REGISTRY = Registry()


@backstop.hook("before_tool_call", priority=50, matcher=["exec"], timeout_ms=500, registry=REGISTRY)
def no_sudo(event: ToolCallEvent) -> Optional[ToolCallOutcome]:
    command = event["params"].get("command")
    if isinstance(command, str) and "sudo" in command:
        return {"block": True, "blockReason": f"{event['toolName']}: sudo is not allowed"}
    return None


@backstop.hook("before_tool_call", registry=REGISTRY)
async def asks(event: ToolCallEvent) -> Optional[ToolCallOutcome]:
    config = event["context"]["pluginConfig"]
    if config is None or "toolCallId" not in event:
        return None
    return {"requireApproval": {"title": "Sure?", "description": event["toolCallId"], "severity": "critical"}}


@backstop.hook("after_tool_call", registry=REGISTRY)
def watch(event: AfterToolCallEvent) -> None:
    backstop.log(f"{event['toolName']} took {event['durationMs']} ms", "debug")


@backstop.hook("before_agent_run", triggers=["user"], registry=REGISTRY)
def gate(event: AgentRunEvent) -> AgentRunOutcome:
    return {"outcome": "block", "reason": "no"} if event["prompt"] == "" else {"outcome": "pass"}


@backstop.hook("message.before", registry=REGISTRY)
def trims(event: MessageBeforeEvent) -> MessageBeforeOutcome:
    return {"message": event["message"].strip()}


@backstop.hook("deactivate", registry=REGISTRY)
def stops(event: object) -> None:
    return None


@backstop.tool("echo", "Answers its arguments.", registry=REGISTRY)
def echo(arguments: Dict[str, Any]) -> Dict[str, Any]:
    return arguments


class MyHook(ToolCallHook):
    async def pre_call(self, tool_name: str, arguments: Dict[str, Any], session_id: str = "") -> HookVerdict:
        return HookVerdict(verdict="deny", reasoning="no") if tool_name == "rm" else HookVerdict(verdict="approve")

    async def post_call(
        self, tool_name: str, arguments: Dict[str, Any], result: Dict[str, Any], session_id: str = ""
    ) -> None:
        print(f"{tool_name} -> success={result['success']}")


class NoAsync(ToolCallHook):
    def pre_call(self, tool_name: str, arguments: Dict[str, Any], session_id: str = "") -> HookVerdict:
        return HookVerdict(verdict="approve")

    def post_call(
        self, tool_name: str, arguments: Dict[str, Any], result: Dict[str, Any], session_id: str = ""
    ) -> None:
        print(tool_name)


def asks_for_a_decision(client: Client) -> str:
    try:
        ruling: Ruling = client.judge("message.before", {"message": "hello"}, {"sessionId": "s"})
        return str(client.run("read", {"path": "x"}, lambda params: params["path"])) if ruling.may_happen else ""
    except Refused as refused:
        return refused.reason
    except ApiError as problem:
        return problem.kind


async def asks_too(client: AsyncClient) -> Dict[str, Any]:
    call = await client.permit("exec", {"command": "ls"}, patience=1.5)
    await client.result(call, "done")
    return call.params


async def main() -> bool:
    executor = ToolExecutor({}, hooks=[MyHook(), NoAsync(), *create_hooks([{"type": "passthrough"}])])
    result = await executor.execute("ls", {"command": "ls"})
    return bool(result["success"])


if __name__ == "__main__":
    backstop.run(MyHook(), concurrency=2, registry=REGISTRY)
