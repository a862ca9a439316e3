"""The adapter for the OpenAI Agents SDK, with the real package."""

import asyncio
import unittest

from scenes import Scenes

from agents import Agent, OpenAIChatCompletionsModel, Runner, WebSearchTool, function_tool, set_tracing_disabled
from backstop.adapters.openai_agents import guarded
from backstop.client import AsyncClient
from openai import AsyncOpenAI

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


if __name__ == "__main__":
    unittest.main()
