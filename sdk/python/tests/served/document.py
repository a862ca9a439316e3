"""The HTTP API, held against its own OpenAPI document by Schemathesis: what it takes, refuses and answers. Its
examples are the same each time.

Run with the packages of ``schemathesis.txt``. The token of an agent asks what agents may, that of a person what people see and answer, and
that of an administrator the rest. It comes last: it may end tokens, and has the configuration read anew.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from house import ASKED, House

EXAMPLES = "40"
CONFIG = """
hooks = "held.py"
generation = { deterministic = true, allow-extra-parameters = false }

[auth.openapi.token]
bearer = "${BACKSTOP_TOKEN}"

# What an event is depends on the point, which the document leaves to the reference of the points.
[[operations]]
include-operation-id = "judge"
checks.positive_data_acceptance.enabled = false
"""
# What no schema says: a key is brought with one request only.
HELD = """
import uuid

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    key = (case.headers or {}).get("idempotency-key")
    if isinstance(key, str) and 0 < len(key) <= 128 and key.strip() and key.isascii() and key.isprintable():
        case.headers["idempotency-key"] = key.strip()[:96] + uuid.uuid4().hex
"""


def held(house, token, scopes):
    """Holds the operations with these scopes against the document. Returns whether they are as it says."""
    document = house.ask("GET", "openapi.json", token)[1]
    operations = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
        # A stream has no end that could be waited for.
        if operation["x-scope"] in scopes and "text/event-stream" not in operation["responses"].get("200", {}).get("content", {})
    ]
    assert operations, scopes
    program = pathlib.Path(sys.executable).parent / "schemathesis"
    command = [program, "run", "openapi.json", "--url", house.url, "--max-examples", EXAMPLES]
    command += ["--suppress-health-check", "all", "--request-timeout", "30", "--continue-on-failure"]
    command += ["--phases", "examples,coverage,fuzzing", "--no-color", *sys.argv[1:]]
    for operation in operations:
        command += ["--include-operation-id", operation]
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "openapi.json").write_text(json.dumps(document))
        (place / "schemathesis.toml").write_text(CONFIG)
        (place / "held.py").write_text(HELD)
        env = {**os.environ, "BACKSTOP_TOKEN": token, "PYTHONPATH": folder}
        return subprocess.run(command, cwd=folder, env=env).returncode == 0


def main():
    with House() as house:
        # There is something of each kind to be found.
        event = {"event": {"toolName": "exec", "params": {"command": ASKED}}}
        house.ask("POST", "hooks/before_tool_call", house.judge, event)
        agents = held(house, house.judge, ("judge",))
        people = held(house, house.person, ("read", "approve", None))
        admins = held(house, house.token("--user", "root", "--scope", "admin"), ("admin",))
    return 0 if agents and people and admins else 1


if __name__ == "__main__":
    sys.exit(main())
