"""The adapter for the OpenAI Agents SDK, with the real package."""

import asyncio
import dataclasses
import json
import unittest

from scenes import Scenes

from agents import Agent, OpenAIChatCompletionsModel, Runner, WebSearchTool, function_tool, set_tracing_disabled
from backstop.adapters.openai_agents import guarded
from agents.tool_context import ToolContext
from backstop.client import AsyncClient, ToolCall
from backstop.problems import Refused, Responded
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall

# It would send what happens to its maker.
set_tracing_disabled(True)


class TestRun(Scenes, unittest.TestCase):
    def ask(self, url, token, model, tools, prompt):
        client = AsyncOpenAI(base_url=f"{model}/v1", api_key="client-key", max_retries=0)
        chat = OpenAIChatCompletionsModel(model="scripted-model", openai_client=client)
        offered = guarded([function_tool(tool) for tool in tools.all()], AsyncClient(url, token))
        agent = Agent(name="helper", model=chat, tools=offered)
        return asyncio.run(Runner.run(agent, prompt)).final_output

    def test_what_runs_elsewhere_is_not_taken(self):
        with self.assertRaises(TypeError):
            guarded([WebSearchTool()], AsyncClient(self.house.url, self.house.judge))

    def test_a_tool_runs_with_what_was_judged_and_nothing_else(self):
        class Rewrites(AsyncClient):
            """What a hook may make of the arguments: in Python, these equal those of the model."""

            async def permit(self, tool, params, **_):
                return ToolCall(tool, {"n": True}, "c", {}, 0.0)

        ran = []

        def count(context: ToolContext, n: object) -> str:
            """Counts."""
            ran.append((n, json.loads(context.tool_arguments), json.loads(context.tool_call.arguments)))
            return "counted"

        def call(client, arguments):
            [tool] = guarded([function_tool(count, strict_mode=False)], client)
            asked = ResponseFunctionToolCall(arguments=arguments, call_id="c", name="count", type="function_call")
            context = ToolContext(None, tool_name="count", tool_call_id="c", tool_arguments=arguments, tool_call=asked)
            return asyncio.run(tool.on_invoke_tool(context, arguments))

        address = (self.house.url, self.house.judge)
        call(Rewrites(*address), '{"n": 1}')
        self.assertEqual([type(n) for n in (ran[0][0], ran[0][1]["n"], ran[0][2]["n"])], [bool, bool, bool])
        self.assertEqual(call(AsyncClient(*address), '{"n": 1}'), "counted")
        self.assertEqual(ran.pop()[0], 1)
        # Of two that have the same name, one reader takes the first and another the last.
        for twice in ('{"n": 1, "n": 2}', '{"n": {"x": 1, "x": 2}}'):
            ran.clear()
            self.assertIn("twice", call(AsyncClient(*address), twice))
            self.assertEqual(ran, [])

    def test_what_is_raised_in_a_tool_is_not_taken_for_its_own_call(self):
        def outer() -> str:
            """Has other calls judged."""
            return ""

        for raised in (Responded("of another call"), Refused("of another call")):

            async def has_another_judged(context, arguments, raised=raised):
                raise raised

            inner = dataclasses.replace(function_tool(outer), on_invoke_tool=has_another_judged)
            [tool] = guarded([inner], AsyncClient(self.house.url, self.house.judge))
            asked = ResponseFunctionToolCall(arguments="{}", call_id="c", name="outer", type="function_call")
            context = ToolContext(None, tool_name="outer", tool_call_id="c", tool_arguments="{}", tool_call=asked)
            with self.assertRaises(type(raised)):
                asyncio.run(tool.on_invoke_tool(context, "{}"))


if __name__ == "__main__":
    unittest.main()
