"""The program that the conformance cases are sent to."""

import asyncio
import collections
import dataclasses

import backstop
from backstop.hooks.base import HookVerdict, ToolCallHook


def judge(event):
    if "sudo" in event["params"].get("command", ""):
        return {"block": True, "blockReason": "sudo is not allowed"}
    return None


@backstop.hook("before_tool_call", priority=50, matcher=["exec"])
def no_sudo(event):
    return judge(event)


@backstop.hook("before_tool_call")
async def no_sudo_later(event):
    await asyncio.sleep(0)
    return judge(event)


@backstop.hook("before_tool_call")
def rewrites(event):
    return {"params": {**event["params"], "command": "echo changed"}}


@backstop.hook("before_tool_call")
def asks(event):
    return {"requireApproval": {"title": "Sure?", "severity": "critical"}}


@backstop.hook("before_tool_call")
def silent(event):
    pass


@backstop.hook("before_tool_call")
def raises(event):
    raise RuntimeError("out of order")


@backstop.hook("before_tool_call")
def prints(event):
    print("to standard output")
    backstop.log("to the log", "warn")
    return {"block": True, "blockReason": "printed"}


@backstop.hook("before_tool_call")
def no_json(event):
    return {"params": {"number": float("nan")}}


@dataclasses.dataclass
class Says:
    block: bool = True


class Computes(dict):
    def items(self):
        return {"block": True}.items()


def cycle():
    answer = {"params": {}}
    answer["params"]["answer"] = answer
    return answer


NO_DATA = {
    "container": lambda: collections.OrderedDict(block=True),
    "class": Says,
    "computed": Computes,
    "keys": lambda: {True: True},
    "nested": lambda: {"params": {"list": [{"a"}]}},
    "cycle": cycle,
    # What only this language has.
    "namedtuple": lambda: collections.namedtuple("Verdict", "block")(True),
    "number": lambda: {"params": {1: "a", "1": "b"}},
    "bytes": lambda: {"block": True, "blockReason": b"no"},
    "surrogate": lambda: {"block": True, "blockReason": "\ud800"},
    "infinity": lambda: {"params": {"number": float("inf")}},
}


@backstop.hook("before_tool_call")
def no_data(event):
    return NO_DATA[event["params"]["kind"]]()


@backstop.hook("before_agent_run", timeout_ms=500, triggers=["user"])
def run_gate(event):
    return None


@backstop.hook("deactivate")
def stops(event):
    return None


@backstop.hook("before_tool_call")
async def waits(event):
    await asyncio.Event().wait()


@backstop.tool("echo", "Answers its arguments.")
def echo(arguments):
    return {"echo": arguments}


class MyHook(ToolCallHook):
    async def pre_call(self, tool_name, arguments, session_id="") -> HookVerdict:
        command = arguments.get("command", "")
        if tool_name == "run_command" and "sudo" in command:
            return HookVerdict(verdict="deny", reasoning="sudo not allowed")
        if command == "modify":
            return HookVerdict(verdict="modify", modified_arguments={"command": "ls"})
        if command == "ask":
            return HookVerdict(verdict="ask", reasoning="sure?")
        if command == "nonsense":
            return "approve"
        return HookVerdict(verdict="approve")

    async def post_call(self, tool_name, arguments, result, session_id="") -> None:
        print(f"{tool_name} → success={result['success']}")


if __name__ == "__main__":
    backstop.run(MyHook())
