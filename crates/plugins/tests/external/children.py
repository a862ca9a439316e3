"""Small programs that speak the process protocol, well or badly: the first argument says how."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

KIND = sys.argv[1]
ARGUMENTS = sys.argv[2:]
POINTS = ["before_tool_call", "after_tool_call"]


def send(message):
    line = json.dumps(message) + "\n"
    sys.stdout.write(line)
    sys.stdout.flush()


def answer(request, result):
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def mark(name):
    """Leaves a file that the test looks for."""
    with open(os.path.join(ARGUMENTS[0], name), "a") as file:
        file.write(f"{os.getpid()}\n")


def declared(patient=False, **more):
    """What it has. A patient hook has minutes, for tests that are about something else than time."""
    hooks = [{"id": point, "point": point, **({"timeoutMs": 120_000} if patient else {})} for point in POINTS]
    return {"protocol": 1, "name": "test", "hooks": hooks, **more}


def command(request):
    return request["params"]["event"]["params"].get("command", "")


def requests():
    for line in sys.stdin:
        yield json.loads(line)


def each(handle, **more):
    """Answers the handshake, and hands events to `handle`."""
    for request in requests():
        method = request.get("method")
        if method == "initialize":
            answer(request, declared(**more))
        elif method == "shutdown":
            answer(request, None)
            if KIND != "stubborn":
                return
        elif method in ("event", "tool"):
            handle(request)
        elif method == "$/cancel" and KIND == "late":
            late(request["params"]["id"])


def judge(request):
    """What a good program does."""
    if request["method"] == "tool":
        return answer(request, {"echo": request["params"]["arguments"]})
    if "sudo" in command(request):
        return answer(request, {"block": True, "blockReason": "sudo is not allowed"})
    if "rewrite" in command(request):
        return answer(request, {"params": {"command": "echo changed"}})
    if "fail" in command(request):
        error = {"code": -32000, "message": "I give up"}
        return send({"jsonrpc": "2.0", "id": request["id"], "error": error})
    if "malformed" in command(request):
        return answer(request, {"blok": True})
    if "environment" in command(request):
        return answer(request, {"block": True, "blockReason": " ".join(sorted(os.environ))})
    return answer(request, None)


def late(number):
    send({"jsonrpc": "2.0", "id": number, "result": {"block": True, "blockReason": "late"}})
    mark("answered-late")


def raw(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def bad(request):
    """One bad deed for `bad` commands, a good answer for others."""
    if command(request) != "bad":
        return answer(request, None)
    good = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": None}) + "\n"
    if KIND == "flood-line":
        while True:
            raw("x" * 65536)
    elif KIND == "flood-logs":
        log = {"jsonrpc": "2.0", "method": "log", "params": {"level": "info", "message": "x" * 100}}
        while True:
            send(log)
    elif KIND == "flood-errors":
        for _ in range(2000):
            print("y" * 1000, file=sys.stderr)
        raw(good)
    elif KIND == "dies":
        os._exit(3)
    elif KIND == "dies-in-answer":
        raw(good[:10])
        os._exit(3)
    elif KIND == "twice":
        raw(good + good)
    elif KIND == "other-id":
        raw(good.replace(f'"id": {request["id"]}', '"id": 4711'))
    elif KIND == "no-json":
        raw("debug: got a call\n" + good)
    elif KIND == "no-message":
        raw('{"result": null}\n')
    elif KIND == "asks":
        raw('{"jsonrpc": "2.0", "id": 1, "method": "fs/read", "params": {}}\n')
    return None


def never_reads():
    """Answers the handshake, and then reads nothing any more."""
    line = sys.stdin.buffer.raw.readline() if False else os.read(0, 1 << 20)
    answer(json.loads(line), declared(concurrency=256))
    mark("deaf")
    while True:
        time.sleep(60)


def slow():
    """Works on several events at once; each waits for a file."""
    running, most = 0, 0
    lock = threading.Lock()

    def work(request):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            mark(f"running-{running}")
        while not os.path.exists(os.path.join(ARGUMENTS[0], "go")):
            time.sleep(0.002)
        with lock:
            running -= 1
            answer(request, {"block": True, "blockReason": str(most)})

    each(lambda request: threading.Thread(target=work, args=[request]).start(), concurrency=3)


def forks_away():
    """Leaves a process in a session of its own."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(ARGUMENTS[0], "child"), "w") as file:
        file.write(str(child.pid))
    each(judge, patient=True)


def main():
    if KIND == "good":
        each(judge, concurrency=4, tools=[{"name": "echo", "description": "says it", "inputSchema": {}}])
    elif KIND == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        mark("pid")
        each(judge)
        while True:
            time.sleep(60)
    elif KIND == "forks-away":
        forks_away()
    elif KIND == "never-reads":
        never_reads()
    elif KIND == "slow":
        slow()
    elif KIND in ("late", "silent"):
        mark("started")
        each(lambda request: mark("asked") if command(request) == "wait" else answer(request, None))
    elif KIND == "crash-at-start":
        print("no module named `hunter`", file=sys.stderr)
        sys.exit(4)
    elif KIND == "crash-later":
        mark("started")
        if os.path.exists(os.path.join(ARGUMENTS[0], "crash")):
            sys.exit(5)
        each(lambda request: os._exit(5) if command(request) == "bad" else answer(request, None))
    elif KIND == "mute-again":
        mark("started")
        if os.path.exists(os.path.join(ARGUMENTS[0], "again")):
            for _ in requests():
                pass
        with open(os.path.join(ARGUMENTS[0], "again"), "w"):
            pass
        each(
            lambda request: os._exit(5) if command(request) == "bad" else answer(request, None),
            patient=True,
        )
    elif KIND == "changes":
        mark("started")
        again = os.path.exists(os.path.join(ARGUMENTS[0], "again"))
        with open(os.path.join(ARGUMENTS[0], "again"), "w"):
            pass
        each(
            lambda request: os._exit(5) if command(request) == "bad" else answer(request, None),
            concurrency=2 if again else 1,
        )
    elif KIND == "mute":
        time.sleep(60)
    elif KIND == "old":
        answer(next(requests()), {"protocol": 7, "hooks": []})
        time.sleep(60)
    elif KIND == "logs":
        print("to standard error", file=sys.stderr, flush=True)
        send({"jsonrpc": "2.0", "method": "log", "params": {"level": "warn", "message": "to the log"}})
        each(judge)
    else:
        each(bad)


main()
