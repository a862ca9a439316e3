"""The adapter for Pydantic AI, with the real package."""

import unittest

from scenes import Scenes

from backstop.adapters.pydantic_ai import Backstop
from backstop.client import AsyncClient
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class TestRun(Scenes, unittest.TestCase):
    def ask(self, url, token, model, tools, prompt):
        provider = OpenAIProvider(base_url=f"{model}/v1", api_key="client-key")
        chat = OpenAIChatModel("scripted-model", provider=provider)
        agent = Agent(chat, tools=tools.all(), capabilities=[Backstop(AsyncClient(url, token))])
        return agent.run_sync(prompt).output


if __name__ == "__main__":
    unittest.main()
