"""The adapter for LangChain, with the real package."""

import asyncio
import unittest

from scenes import Scenes

from backstop.adapters.langchain import BackstopMiddleware
from backstop.client import Client
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


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


if __name__ == "__main__":
    unittest.main()
