"""The adapter for LangChain, with the real package."""

import asyncio
import unittest

from house import TOKEN
from scenes import Scenes

from backstop.adapters.langchain import BackstopMiddleware
from backstop.client import Client
from langchain.agents import create_agent
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.types import Command, Send


def agent(url, token, model, tools):
    chat = ChatOpenAI(base_url=f"{model}/v1", api_key="client-key", model="scripted-model", max_retries=0)
    return create_agent(chat, tools.all(), middleware=[BackstopMiddleware(Client(url, token))])


def messages(prompt):
    return {"messages": [{"role": "user", "content": prompt}]}


class TestInvoked(Scenes, unittest.TestCase):
    def ask(self, url, token, model, tools, prompt):
        return agent(url, token, model, tools).invoke(messages(prompt))["messages"][-1].text


class TestInvokedAsync(Scenes, unittest.TestCase):
    def ask(self, url, token, model, tools, prompt):
        told = asyncio.run(agent(url, token, model, tools).ainvoke(messages(prompt)))
        return told["messages"][-1].text

    def test_what_a_command_writes_elsewhere_is_judged_too(self):
        call = {"name": "read", "args": {"path": "x"}, "id": "c", "type": "tool_call"}
        middleware = BackstopMiddleware(Client(self.house.url, self.house.judge))

        def told(command):
            request = ToolCallRequest(tool_call=call, tool=None, state={}, runtime=None)
            return middleware.wrap_tool_call(request, lambda _: command)

        def message(text):
            return ToolMessage(text, tool_call_id="c")

        plain = Command(update={"messages": [message(f"a {TOKEN}")], "notes": ["x"]}, goto=["next", Send("other", {"y": 1})])
        passed = told(plain)
        self.assertEqual((passed.update["notes"], passed.goto), (["x"], plain.goto))
        self.assertEqual(passed.update["messages"][0].content, "a [redacted:github_token]")
        for command in (
            Command(update={"messages": [message("a")], "notes": [TOKEN]}),
            Command(update={"notes": {"x": [message(TOKEN)]}}),
            Command(update={}, goto=Send("other", {"key": TOKEN})),
            Command(update={}, goto=[Send("other", message(TOKEN))]),
            Command(update={}, resume={"x": TOKEN}),
        ):
            withheld = told(command)
            self.assertIsInstance(withheld, ToolMessage, command)
            self.assertIn("withholds", withheld.content)


if __name__ == "__main__":
    unittest.main()
