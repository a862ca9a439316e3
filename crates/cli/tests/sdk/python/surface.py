"""Calls every method of the SDKs' clients once, and tells what each would send.

Arguments are made up from the signatures: ids are `zz-probe`, everything else is what its name asks for. What the
SDK does with the answer is of no interest, so its exceptions are swallowed; what counts is which requests it made
(told here, as the method and the path that it gave its HTTP client) and which of them came out behind the gateway
(counted by the test there).
"""

import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
from urllib.parse import urlsplit

BASE = os.environ["BACKSTOP_TEST_URL"]
KEY = os.environ["BACKSTOP_TEST_KEY"]
PROBE = "zz-probe"

# Other views of the same methods, and the parts of the client that speak no HTTP.
VIEWS = ("with_", "beta_headers")

asked = []
silent = set()


def remember(request):
    asked.append(f"{request.method} {request.url.raw_path.decode()}")


def listen(name):
    """Has the clients of an HTTP library tell what they send."""
    if importlib.util.find_spec(name) is None:
        return
    client = importlib.import_module(name).Client
    sending = client.send

    def send(self, request, **options):
        remember(request)
        return sending(self, request, **options)

    client.send = send


for library in ("httpx", "httpx2"):
    listen(library)


def listen_to_sockets():
    """Has openings of WebSockets told, too."""
    from websockets.sync import client

    opening = client.connect

    def connect(uri, *args, **options):
        asked.append(f"GET {urlsplit(str(uri)).path}")
        return opening(uri, *args, **options)

    client.connect = connect


listen_to_sockets()


def is_resource(value):
    return type(value).__module__.split(".")[0] in ("openai", "anthropic") and hasattr(value, "_client")


FILE = (PROBE, b"zz")
PICTURE = {"image_bytes": b"zz", "mime_type": "image/png"}


def google():
    """Values of Google's own types, which no signature says how to make."""
    from google.genai import types
    from google.oauth2.credentials import Credentials

    drawn = types.RawReferenceImage(reference_id=1, reference_image=types.Image(**PICTURE))
    return {
        "credentials": Credentials("token"),
        "references": [drawn],
        "operation": types.GenerateVideosOperation(name="models/zz-probe/operations/zz-probe"),
    }


MADE = google()
# What no signature says.
NAMED = {
    "genai.batches.cancel": {"name": "batches/zz-probe"},
    "genai.batches.delete": {"name": "batches/zz-probe"},
    "genai.batches.get": {"name": "batches/zz-probe"},
    "genai.batches.create": {"src": {"file_name": "files/zz-probe"}},
    "genai.batches.create_embeddings": {"src": {"file_name": "files/zz-probe"}},
    "genai.credentials.create": {
        "type": "oauth2", "id": PROBE, "client_id": PROBE, "client_secret": PROBE, "refresh_token": PROBE, "token_url": PROBE,
    },
    "genai.credentials.update": {"id": PROBE, "type": "oauth2"},
    "genai.decisions.create": {"input": PROBE, "model": PROBE, "questions": {}},
    "genai.file_search_stores.download_media": {"media_id": "fileSearchStores/zz-probe/media/zz-probe"},
    "genai.file_search_stores.upload_to_file_search_store": {"file": __file__},
    "genai.files.register_files": {"auth": MADE["credentials"], "uris": ["gs://zz/zz"]},
    "genai.files.upload": {"file": __file__},
    "genai.interactions.create": {"model": PROBE, "input": PROBE},
    "genai.models.edit_image": {"model": PROBE, "prompt": PROBE, "reference_images": MADE["references"]},
    "genai.models.generate_videos": {"model": PROBE, "source": {"prompt": PROBE}},
    "genai.models.recontext_image": {"model": PROBE, "source": {"prompt": PROBE}},
    "genai.models.segment_image": {"model": PROBE, "source": {"prompt": PROBE, "image": PICTURE}},
    "genai.models.upscale_image": {"model": PROBE, "image": PICTURE, "upscale_factor": "x2"},
    "genai.operations.get": {"operation": MADE["operation"]},
    "genai.triggers.create": {
        "interaction": {"agent": PROBE, "input": PROBE}, "schedule": "* * * * *", "time_zone": "UTC",
    },
    "genai.tunings.validate_reward": {
        "parent": PROBE, "sample_response": {"parts": [{"text": "zz"}]}, "example": {}, "single_reward_config": {},
    },
    "genai.voices.create": {"voice": {"type": "instant_clone", "name": PROBE}},
    "genai.webhooks.create": {"uri": "https://zz.invalid", "subscribed_events": []},
    "openai.beta.agents.environments.files.prepare": {"files": {"/workspace/zz-probe": __file__}},
    "openai.beta.agents.environments.files.prepare_directory": {
        "root": os.path.dirname(os.path.abspath(__file__)), "destination": "/workspace", "include": ["surface.py"],
    },
    "openai.beta.agents.environments.files.upload": {"path": "/workspace/zz-probe", "file": FILE},
    "openai.responses.stream": {"model": PROBE, "input": PROBE},
    "openai.uploads.upload_file_chunked": {"file": __file__, "mime_type": "text/plain", "purpose": "batch"},
}


def guess(parameter):
    """A value for a parameter: what its annotation allows, as far as that can be told."""
    text = str(parameter.annotation).strip("'\"")
    if "FileTypes" in text:
        return FILE
    if parameter.name == "model":
        return PROBE
    for word, value in (("int", 1), ("float", 1.0), ("bool", False)):
        if text in (word, f"<class '{word}'>"):
            return value
    if text.startswith(("Iterable", "List", "list", "typing.Iterable", "typing.List", "SequenceNotStr")):
        return []
    if "Dict" in text or "Param" in text and "Union" not in text and "Literal" not in text:
        return {}
    return PROBE


def takes_part(parameter):
    """Whether it may stand in the path although it has a default."""
    return parameter.name.endswith("_id") and parameter.name != "session_id"


def arguments(method):
    """What the signature wants, by name; positions too, where a name can't be given."""
    positional, named = [], {}
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is not parameter.empty and not takes_part(parameter):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(guess(parameter))
        else:
            named[parameter.name] = guess(parameter)
    return positional, named


def learn(named, error):
    """Whether the words of an error say what else is wanted; then it is there."""
    text = str(error)
    before = dict(named)
    if found := re.search(r"missing \d+ required .*arguments?: (.*)", text):
        named.update({name: PROBE for name in re.findall(r"'(\w+)'", found[1])})
    elif found := re.search(r"Expected either \((.*?)\)", text):
        named.update({name: PROBE for name in re.findall(r"'(\w+)'", found[1])})
    elif found := re.search(r"Expected entry at `(\w+)` to be bytes", text):
        named[found[1]] = FILE
    return named != before


def call(name, method):
    before = len(asked)
    positional, named = arguments(method)
    everything = dict.fromkeys(named, PROBE)
    if name in NAMED:
        positional, named = [], dict(NAMED[name])
    for wanted in (named, everything):
        for _ in range(6):
            try:
                answer = method(*positional, **wanted)
                if hasattr(answer, "__enter__"):
                    with answer as stream:
                        next(iter(stream), None)
                elif hasattr(answer, "__next__"):
                    next(answer, None)
                error = ""
            except Exception as said:  # noqa: BLE001: whatever it says, the request was made or was not
                error = said
            if len(asked) > before:
                return
            if not learn(wanted, error):
                break
    silent.add(name)


def walk(value, name, seen):
    for member in sorted(dir(type(value)) + list(vars(value))):
        if member.startswith("_") or member.startswith(VIEWS) or (name.count(".") == 0 and member in CLIENT_ONLY):
            continue
        try:
            part = getattr(value, member)
        except Exception:  # noqa: BLE001: an optional part that is not installed
            continue
        if is_resource(part) and not inspect.isroutine(part):
            if type(part) not in seen:
                walk(part, f"{name}.{member}", seen | {type(part)})
        elif inspect.ismethod(part) and part.__self__ is value:
            call(f"{name}.{member}", part)


CLIENT_ONLY = {
    "get", "post", "put", "patch", "delete", "request", "close", "copy", "get_api_list", "platform_headers", "is_closed",
    "do_request", "auth_headers", "default_headers", "default_query", "qs", "base_url", "custom_auth", "user_agent", "websocket_base_url",
}


def openai_surface():
    import openai

    walk(openai.OpenAI(base_url=f"{BASE}/v1", api_key=KEY, admin_api_key=KEY, max_retries=0), "openai", set())


def anthropic_surface():
    import anthropic

    walk(anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0), "anthropic", set())


def google_surface():
    from google import genai

    options = {"base_url": BASE, "retry_options": {"attempts": 1}}
    walk_google(genai.Client(api_key=KEY, http_options=options))
    # What only Vertex AI has, as a client of that asks for it.
    clouds = {"project": PROBE, "location": PROBE, "credentials": MADE["credentials"]}
    left = {name for name in silent if name.startswith("genai.")}
    silent.difference_update(left)
    walk_google(genai.Client(vertexai=True, http_options=options, **clouds), left)


def walk_google(client, only=None):
    for part in sorted(name for name in dir(client) if not name.startswith("_")):
        value = getattr(client, part)
        if inspect.isroutine(value) or part in ("aio", "vertexai", "chats", "live"):
            continue
        for member in sorted(dir(value)):
            method = getattr(value, member)
            is_meant = only is None or f"genai.{part}.{member}" in only
            if is_meant and not member.startswith("_") and member != "do_request" and inspect.ismethod(method):
                call(f"genai.{part}.{member}", method)


SURFACES = {"openai": openai_surface, "anthropic": anthropic_surface, "google": google_surface}
for wanted in sys.argv[1:] or SURFACES:
    out, sys.stdout = sys.stdout, sys.stderr
    SURFACES[wanted]()
    sys.stdout = out
json.dump({"asked": sorted(set(asked)), "silent": sorted(silent)}, sys.stdout)
