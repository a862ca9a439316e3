"""The adapter for Pydantic AI, with the real package."""

import asyncio
import unittest
from datetime import date
from typing import List

from scenes import Scenes

from backstop.adapters.pydantic_ai import Backstop
from backstop.client import AsyncClient, ToolCall
from pydantic import BaseModel, Field, SecretStr
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class TestRun(Scenes, unittest.TestCase):
    def ask(self, url, token, model, tools, prompt):
        provider = OpenAIProvider(base_url=f"{model}/v1", api_key="client-key")
        chat = OpenAIChatModel("scripted-model", provider=provider)
        agent = Agent(chat, tools=tools.all(), capabilities=[Backstop(AsyncClient(url, token))])
        return agent.run_sync(prompt).output

    def call(self, tool, arguments, client=None):
        """What the model reads of a call that it makes."""
        read = []

        def answer(messages, _):
            if len(messages) == 1:
                return ModelResponse(parts=[ToolCallPart(tool.__name__, arguments)])
            read.extend(str(part.content) for part in messages[-1].parts)
            return ModelResponse(parts=[TextPart("That is all.")])

        client = client or AsyncClient(self.house.url, self.house.judge)
        agent = Agent(FunctionModel(answer), tools=[tool], capabilities=[Backstop(client)])
        self.assertEqual(asyncio.run(agent.run("go")).output, "That is all.")
        return read

    def test_a_tool_runs_with_what_was_judged_and_nothing_else(self):
        class Rewrites(AsyncClient):
            """What a hook may make of the arguments: in Python, these equal those of the model."""

            async def permit(self, tool, params, **_):
                return ToolCall(tool, {"n": True}, "c", {}, 0.0)

        ran = []

        def count(n: object) -> str:
            ran.append(n)
            return "counted"

        self.call(count, {"n": 1}, Rewrites(self.house.url, self.house.judge))
        self.assertIs(ran.pop(), True)
        self.assertEqual((self.call(count, {"n": 1}), ran), (["counted"], [1]))

    def test_a_tool_that_takes_what_was_not_judged_does_not_run(self):
        class Order(BaseModel):
            day: date
            tags: List[str] = []
            hidden: str = Field(default="", exclude=True)
            key: SecretStr = SecretStr("")

        ran = []

        def order(one: Order, many: int = 1) -> str:
            ran.append(one)
            return "ordered"

        plain = {"day": "2026-01-02", "tags": ["x"]}
        self.assertEqual(self.call(order, {"one": plain}), ["ordered"])
        self.assertEqual(ran.pop().day, date(2026, 1, 2))
        for unseen in ({"hidden": "what hooks do not see"}, {"key": "what hooks do not see"}):
            [read] = self.call(order, {"one": {**plain, **unseen}})
            self.assertIn("another form", read)
            self.assertEqual(ran, [])


if __name__ == "__main__":
    unittest.main()
