"""Converse by Amazon's SDK: whole and streamed, with a signature of its own that the proxy is not to pass on."""

import boto3
import botocore.config

from common import BASE, MODEL, TOOLS, run, told

CONFIG = botocore.config.Config(retries={"total_max_attempts": 1}, ignore_configured_endpoint_urls=True)
CLIENT_TOOLS = [
    {"toolSpec": {"name": t["name"], "description": t["description"], "inputSchema": {"json": t["schema"]}}}
    for t in TOOLS
]


def client():
    # Whoever speaks to the proxy needs no key of Amazon's; the SDK wants one to sign with all the same.
    keys = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
    return boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=BASE, config=CONFIG, **keys)


def question(prompt):
    messages = [{"role": "user", "content": [{"text": prompt}]}]
    return {
        "modelId": MODEL,
        "messages": messages,
        "inferenceConfig": {"maxTokens": 1000},
        "toolConfig": {"tools": CLIENT_TOOLS},
    }


def whole(prompt):
    answer = client().converse(**question(prompt))
    content = answer["output"]["message"]["content"]
    text = "".join(block.get("text", "") for block in content)
    calls = [(block["toolUse"]["name"], block["toolUse"]["input"]) for block in content if "toolUse" in block]
    return told(text, calls, answer["stopReason"])


def streamed(prompt):
    text, calls, stop, stopped, counts = "", {}, None, [], None
    for event in client().converse_stream(**question(prompt))["stream"]:
        (kind, data), = event.items()
        if kind == "contentBlockStart":
            calls[data["contentBlockIndex"]] = [data["start"]["toolUse"]["name"], ""]
        elif kind == "contentBlockDelta" and "text" in data["delta"]:
            text += data["delta"]["text"]
        elif kind == "contentBlockDelta":
            calls[data["contentBlockIndex"]][1] += data["delta"]["toolUse"]["input"]
        elif kind == "contentBlockStop":
            stopped.append(data["contentBlockIndex"])
        elif kind == "messageStop":
            stop = data["stopReason"]
        elif kind == "metadata":
            counts = data["usage"]
    assert stopped == list(range(len(stopped))), f"blocks: {stopped}"
    assert counts["totalTokens"] > 0, counts
    return told(text, [(name, args or "{}") for name, args in calls.values()], stop)


run({"whole": whole, "streamed": streamed})
