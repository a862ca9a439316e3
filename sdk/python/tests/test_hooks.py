"""What the package does without Backstop."""

import asyncio
import pathlib
import sys
import typing
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "src"))

import backstop
from backstop import points
from backstop.core.executor import ToolExecutor
from backstop.hooks.base import HookVerdict, ToolCallHook
from backstop.hooks.factory import _HOOK_REGISTRY, create_hooks
from backstop.registry import Registry


# As the seed has it, but for the imports.
class MyHook(ToolCallHook):
    async def pre_call(self, tool_name, arguments, session_id="") -> HookVerdict:
        if tool_name == "run_command" and "sudo" in arguments.get("command", ""):
            return HookVerdict(verdict="deny", reasoning="sudo not allowed")
        return HookVerdict(verdict="approve")

    async def post_call(self, tool_name, arguments, result, session_id="") -> None:
        print(f"{tool_name} → success={result['success']}", file=sys.stderr)


class Skill:
    def __init__(self):
        self.ran = []

    async def execute(self, tool_name, arguments):
        self.ran.append((tool_name, arguments))
        return "done"


class Says(ToolCallHook):
    def __init__(self, verdict=None, error=None):
        self.verdict, self.error, self.told, self.asked = verdict, error, [], []

    def pre_call(self, tool_name, arguments, session_id=""):
        self.asked.append(dict(arguments))
        arguments["command"] = "tampered"
        if self.error:
            raise self.error
        return self.verdict

    def post_call(self, tool_name, arguments, result, session_id=""):
        self.told.append(result)
        if self.error:
            raise self.error


def execute(hooks, command="ls", tool="run_command"):
    skill = Skill()
    executor = ToolExecutor({"run_command": skill}, hooks=hooks)
    result = asyncio.run(executor.execute(tool, {"command": command}, session_id="s"))
    return result, skill.ran


class Executor(unittest.TestCase):
    def test_my_hook_denies_sudo(self):
        result, ran = execute([MyHook()], "sudo ls")
        self.assertEqual(result, {"success": False, "output": "", "error": "sudo not allowed"})
        self.assertEqual(ran, [])
        result, ran = execute([MyHook()])
        self.assertEqual(result, {"success": True, "output": "done"})
        self.assertEqual(ran, [("run_command", {"command": "ls"})])

    def test_hooks_chain(self):
        after = Says(HookVerdict("approve"))
        result, ran = execute([Says(HookVerdict("modify", modified_arguments={"command": "b"})), after])
        self.assertTrue(result["success"])
        self.assertEqual(after.asked, [{"command": "b"}])
        self.assertEqual(ran, [("run_command", {"command": "b"})])
        first, later = Says(HookVerdict("deny", "no")), Says(HookVerdict("approve"))
        result, ran = execute([first, later])
        self.assertEqual((result["error"], ran, later.asked), ("no", [], []))
        self.assertEqual((len(first.told), len(later.told)), (1, 1), "all are told how it ended")

    def test_what_a_hook_does_to_its_copy_changes_nothing(self):
        _, ran = execute([Says(HookVerdict("approve"))])
        self.assertEqual(ran, [("run_command", {"command": "ls"})])

    def test_failing_is_not_passing(self):
        for hook in [Says(error=ValueError("x")), Says(None), Says("approve"), Says({"verdict": "approve"})]:
            result, ran = execute([hook])
            self.assertEqual((result["success"], ran), (False, []))
        result, ran = execute([Says(HookVerdict("ask", "why"))])
        self.assertIn("human", result["error"])
        self.assertEqual(ran, [])

    def test_no_hooks_is_passthrough(self):
        self.assertEqual(execute(None)[0], {"success": True, "output": "done"})
        self.assertIn("no tool", execute(None, tool="other")[0]["error"])

    def test_verdicts_are_checked(self):
        for bad in [
            {"verdict": "yes"},
            {"verdict": "modify"},
            {"verdict": "modify", "modified_arguments": []},
            {"verdict": "approve", "modified_arguments": {"a": 1}},
        ]:
            with self.assertRaises(ValueError):
                HookVerdict(**bad)


class Registries(unittest.TestCase):
    def test_types_by_name(self):
        self.assertEqual(len(create_hooks([{"type": "passthrough"}])), 1)
        _HOOK_REGISTRY["my_hook"] = MyHook
        self.assertIsInstance(create_hooks([{"type": "my_hook", "config": {}}])[0], MyHook)
        for bad, said in [("my_hok", "my_hook"), ("policy", "backstop.yaml"), (None, "unknown")]:
            with self.assertRaisesRegex(ValueError, said):
                create_hooks([{"type": bad}])
        with self.assertRaisesRegex(ValueError, "confg"):
            create_hooks([{"type": "my_hook", "confg": {}}])

    def test_unknown_points_have_the_nearest_name(self):
        with self.assertRaisesRegex(ValueError, "did you mean `before_tool_call`"):
            backstop.hook("before_tool_cal")
        with self.assertRaisesRegex(TypeError, "name of a point"):
            backstop.hook(lambda event: None)

    def test_ids_are_unique(self):
        registry = Registry()
        for _ in range(3):
            backstop.hook("before_tool_call", id="a", registry=registry)(lambda event: None)
        self.assertEqual(list(registry.hooks), ["a", "a-2", "a-3"])

    def test_every_point_has_types_that_hold(self):
        self.assertEqual(len(set(points.POINTS)), len(points.POINTS))
        for name, value in vars(points).items():
            if isinstance(value, type) and hasattr(value, "__required_keys__"):
                self.assertIsInstance(typing.get_type_hints(value), dict, name)
        self.assertIn("toolName", points.ToolCallEvent.__required_keys__)
        self.assertIn("calledAs", points.ToolCallEvent.__optional_keys__)


if __name__ == "__main__":
    unittest.main()
