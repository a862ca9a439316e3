"""The program that the cases of every point are sent to.

At each point stand a hook for each answer of its case (``before_tool_call/0``), one that checks its event and has no opinion
(``before_tool_call/silent``), and one that raises (``before_tool_call/fails``). With an argument, only those whose id ends with it.
"""

import json
import pathlib
import sys

import backstop

# Whoever asks may be busy.
BUDGET_MS = 60_000
CASES = pathlib.Path(__file__).parent.parent.parent / "conformance" / "points.json"


def says(answer):
    return lambda event: answer


def silent(expected):
    async def check(event):
        given = {key: value for key, value in event.items() if key != "context"}
        if given != expected:
            raise ValueError(f"the event is another: {given}")

    return check


def fails(event):
    raise RuntimeError("out of order")


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    for case in json.loads(CASES.read_text("utf-8"))["points"]:
        hooks = {str(number): says(answer) for number, answer in enumerate(case["answers"])}
        hooks.update(silent=silent(case["event"]), fails=fails)
        for name, function in hooks.items():
            if wanted in (None, name):
                backstop.hook(case["point"], id=f"{case['point']}/{name}", timeout_ms=BUDGET_MS)(function)
    backstop.run()


if __name__ == "__main__":
    main()
