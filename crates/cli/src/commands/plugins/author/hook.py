"""Judges one event: JSON on standard input, an answer or nothing on standard output.

Exit code 2 stops what is judged, with standard error as the reason; any other than 0 means that this has failed.
A program that stays, with types for all points, is made with Backstop's SDK for Python.
"""

import json
import sys


def judge(event):
    command = str(event["params"].get("command", ""))
    if command.split()[:1] == ["sudo"]:
        return {"block": True, "blockReason": "sudo is not allowed"}
    return None


if __name__ == "__main__":
    answer = judge(json.load(sys.stdin))
    if answer is not None:
        json.dump(answer, sys.stdout)
