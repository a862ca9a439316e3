"""Calls every method of the SDKs' clients once, and tells what each would send.

Arguments are made up from the signatures: ids are `zz-probe`, everything else is what its name asks for. What the
SDK does with the answer is of no interest, so its exceptions are swallowed; what counts is which requests it made,
what the gateway answered to each (both are printed here, the answer as its status and the beginning of its body), and
which requests came out behind the gateway (counted by the test there).
"""

import asyncio
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import warnings
from urllib.parse import urlsplit

BASE = os.environ["BACKSTOP_TEST_URL"]
KEY = os.environ["BACKSTOP_TEST_KEY"]
PROBE = "zz-probe"

# Other views of the same methods, and the parts of the client that speak no HTTP.
VIEWS = ("with_", "beta_headers")

# Requests as `[method and path, status, beginning of the answer]`.
asked = []
silent = set()
# As much of an answer as says who gave it.
LONGEST = 2000


def remember(method, target, status, body):
    text = body.decode(errors="replace") if isinstance(body, (bytes, bytearray)) else str(body)
    asked.append([f"{method} {target}", status, text[:LONGEST]])


def listen(name):
    """Records what the clients of an HTTP library send, and what they are answered."""
    if importlib.util.find_spec(name) is None:
        return
    client = importlib.import_module(name).Client
    sending = client.send

    def send(self, request, **options):
        answer = sending(self, request, **options)
        remember(request.method, request.url.raw_path.decode(), answer.status_code, answer.read())
        return answer

    client.send = send


for library in ("httpx", "httpx2"):
    listen(library)


def listen_to_sockets():
    """Records openings of WebSockets, too."""
    from websockets.asyncio import client as asynchronous
    from websockets.exceptions import InvalidStatus
    from websockets.sync import client

    opening, entering = client.connect, asynchronous.connect.__aenter__

    def connect(uri, *args, **options):
        try:
            socket = opening(uri, *args, **options)
        except InvalidStatus as refused:
            remember("GET", urlsplit(str(uri)).path, refused.response.status_code, refused.response.body or b"")
            raise
        remember("GET", urlsplit(str(uri)).path, 101, b"")
        return socket

    async def enter(self):
        try:
            socket = await entering(self)
        except InvalidStatus as refused:
            remember("GET", urlsplit(self.uri).path, refused.response.status_code, refused.response.body or b"")
            raise
        remember("GET", urlsplit(self.uri).path, 101, b"")
        return socket

    client.connect, asynchronous.connect.__aenter__ = connect, enter


listen_to_sockets()
warnings.simplefilter("ignore")


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
JOB = {"name": "projects/zz/locations/zz/batchPredictionJobs/1"}
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
    "genai.environments.files.upload": {"path": "/workspace/zz-probe", "file": __file__, "environment_id": PROBE},
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
    "vertex.batches.cancel": JOB,
    "vertex.batches.create": {"model": PROBE, "src": "gs://zz/zz.jsonl", "config": {"dest": "gs://zz/zz"}},
    "vertex.batches.delete": JOB,
    "vertex.batches.get": JOB,
    "openai.beta.agents.environments.files.prepare": {"files": {"/workspace/zz-probe": __file__}},
    "openai.beta.agents.environments.files.prepare_directory": {
        "root": os.path.dirname(os.path.abspath(__file__)), "destination": "/workspace", "include": ["surface.py"],
    },
    "openai.beta.agents.environments.files.upload": {"path": "/workspace/zz-probe", "file": FILE},
    "openai.beta.realtime.connect": {"model": PROBE},
    "openai.realtime.connect": {"model": PROBE},
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


# Clients of clouds, and whose methods they have.
MAKERS = {
    "anthropic_aws": "anthropic",
    "anthropic_bedrock": "anthropic",
    "anthropic_foundry": "anthropic",
    "anthropic_google_cloud": "anthropic",
    "anthropic_mantle": "anthropic",
    "anthropic_vertex": "anthropic",
    "azure": "openai",
    "bedrock_openai": "openai",
    "vertex": "genai",
}
# The methods that were called.
called = set()


def of_maker(name):
    """The name of a method of a cloud's client at the client of its maker."""
    client, _, rest = name.partition(".")
    return f"{MAKERS.get(client, client)}.{rest}"


def without_view(names):
    """These methods without those of clouds' clients that the makers' clients have, which were called there: what a
    cloud does not have, its client refuses by itself."""
    return {name for name in names if (maker := of_maker(name)) == name or maker not in called}


def call(name, method):
    called.add(name)
    before = len(asked)
    positional, named = arguments(method)
    everything = dict.fromkeys(named, PROBE)
    if (known := name if name in NAMED else of_maker(name)) in NAMED:
        positional, named = [], dict(NAMED[known])
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

    keys = {"api_key": KEY, "admin_api_key": KEY, "max_retries": 0}
    # It opens some of its sockets with TLS if nobody says otherwise.
    sockets = f"{BASE}/v1".replace("http://", "ws://")
    walk(openai.OpenAI(base_url=f"{BASE}/v1", websocket_base_url=sockets, **keys), "openai", set())


def azure_surface():
    import openai

    settings = {"api_key": KEY, "api_version": "2025-04-01-preview", "max_retries": 0}
    sockets = f"{BASE}/p/azure/openai".replace("http://", "ws://")
    client = openai.AzureOpenAI(azure_endpoint=f"{BASE}/p/azure", websocket_base_url=sockets, **settings)
    walk(client, "azure", set())


def bedrock_openai_surface():
    import openai

    sockets = f"{BASE}/v1".replace("http://", "ws://")
    settings = {"api_key": KEY, "aws_region": "us-east-1", "max_retries": 0}
    client = openai.BedrockOpenAI(base_url=f"{BASE}/v1", websocket_base_url=sockets, **settings)
    walk(client, "bedrock_openai", set())


def anthropic_surface():
    import anthropic

    walk(anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0), "anthropic", set())


AMAZONS_KEYS = {"aws_access_key": "nobody", "aws_secret_key": "nothing", "aws_region": "us-east-1"}


def anthropic_bedrock_surface():
    from anthropic import AnthropicBedrock

    walk(AnthropicBedrock(base_url=f"{BASE}/p/bedrock", max_retries=0, **AMAZONS_KEYS), "anthropic_bedrock", set())


def anthropic_mantle_surface():
    from anthropic import AnthropicBedrockMantle

    settings = {"api_key": KEY, "aws_region": "us-east-1", "max_retries": 0}
    walk(AnthropicBedrockMantle(base_url=BASE, **settings), "anthropic_mantle", set())


def anthropic_aws_surface():
    from anthropic import AnthropicAWS

    settings = {"api_key": KEY, "aws_region": "us-east-1", "workspace_id": PROBE, "max_retries": 0}
    walk(AnthropicAWS(base_url=BASE, **settings), "anthropic_aws", set())


def anthropic_foundry_surface():
    from anthropic import AnthropicFoundry

    walk(AnthropicFoundry(base_url=BASE, api_key=KEY, max_retries=0), "anthropic_foundry", set())


def anthropic_google_cloud_surface():
    from anthropic import AnthropicGoogleCloud

    settings = {"project": PROBE, "location": PROBE, "workspace_id": PROBE, "max_retries": 0}
    client = AnthropicGoogleCloud(base_url=BASE, token_provider=lambda: KEY, **settings)
    walk(client, "anthropic_google_cloud", set())


def anthropic_vertex_surface():
    from anthropic import AnthropicVertex

    settings = {"access_token": KEY, "project_id": PROBE, "region": PROBE, "max_retries": 0}
    walk(AnthropicVertex(base_url=f"{BASE}/p/claude-vertex/v1", **settings), "anthropic_vertex", set())


def google_surface():
    from google import genai

    options = {"base_url": BASE, "retry_options": {"attempts": 1}}
    walk_google(genai.Client(api_key=KEY, http_options=options), "genai", set())
    live(genai.Client(api_key=KEY, http_options=options), BASE, "genai")
    # What only Vertex AI has, as a client of that asks for it.
    clouds = {"project": PROBE, "location": PROBE, "credentials": MADE["credentials"]}
    left = {name for name in silent if name.startswith("genai.")}
    silent.difference_update(left)
    walk_google(genai.Client(vertexai=True, http_options=options, **clouds), "genai", set(), left)
    # And what Vertex AI answers itself, at a provider there.
    options["base_url"] = f"{BASE}/p/vertex"
    in_cloud = genai.Client(vertexai=True, http_options=options, **clouds)
    walk_google(in_cloud, "vertex", set())
    live(in_cloud, options["base_url"], "vertex")


# Parts of Google's clients that are not walked, and why.
NOT_WALKED = {
    "aio": "the same methods, asynchronous; `live`, which is only there, is opened by itself",
    "chats": "keep a conversation here, and ask by `models.generate_content`",
    "parent_ref": "is the client that has the part",
    "sdk_configuration": "are settings",
}


def walk_google(value, name, seen, only=None):
    for member in sorted(name for name in dir(value) if not name.startswith("_")):
        if member in NOT_WALKED or member.startswith(VIEWS) or member in ("do_request", "close"):
            continue
        try:
            part = getattr(value, member)
        except Exception:  # noqa: BLE001: Vertex AI does not have all parts
            continue
        path = f"{name}.{member}"
        if inspect.ismethod(part):
            if only is None or path in only:
                call(path, part)
        elif is_part_of_google(part) and type(part) not in seen:
            walk_google(part, path, seen | {type(part)}, only)


def is_part_of_google(value):
    of = type(value)
    return of.__module__.startswith("google.genai")


def live(client, base, name):
    """A session of Gemini Live, which is there for asynchronous programs alone."""
    client._api_client._websocket_base_url = lambda *_: base.replace("http://", "ws://")
    client._api_client._websocket_ssl_ctx = {}

    async def opened():
        async with client.aio.live.connect(model=PROBE):
            pass

    before = len(asked)
    try:
        asyncio.run(opened())
    except Exception as error:  # noqa: BLE001: see `call`
        print("live:", error, file=sys.stderr)
    if len(asked) == before:
        silent.add(f"{name}.live.connect")


def bedrock_runtime_surface():
    """Every operation that Amazon's description of its service has, by Amazon's SDK."""
    import boto3
    import botocore.config
    from botocore.httpsession import URLLib3Session

    sending = URLLib3Session.send

    def send(self, request):
        answer = sending(self, request)
        parts = urlsplit(request.url)
        remember(request.method, parts.path, answer.status_code, answer.content)
        return answer

    URLLib3Session.send = send
    config = botocore.config.Config(retries={"total_max_attempts": 1}, parameter_validation=False)
    keys = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing", "region_name": "us-east-1"}
    client = boto3.client("bedrock-runtime", endpoint_url=f"{BASE}/p/bedrock", config=config, **keys)
    methods = {operation: method for method, operation in client.meta.method_to_api_mapping.items()}
    for operation in client.meta.service_model.operation_names:
        before = len(asked)
        try:
            shape = client.meta.service_model.operation_model(operation).input_shape
            getattr(client, methods[operation])(**BEDROCK.get(operation, {name: PROBE for name in shape.required_members}))
        except Exception as error:  # noqa: BLE001: see `call`
            print(operation, error, file=sys.stderr)
        if len(asked) == before:
            silent.add(f"bedrock_runtime.{operation}")


CONVERSED = {"modelId": PROBE, "messages": [{"role": "user", "content": [{"text": PROBE}]}]}
INVOKED = {"modelId": PROBE, "body": json.dumps({"max_tokens": 1, "messages": [{"role": "user", "content": PROBE}]})}
# What Amazon's description does not say.
BEDROCK = {
    "ApplyGuardrail": {"guardrailIdentifier": PROBE, "guardrailVersion": "1", "source": "INPUT", "content": [{"text": {"text": PROBE}}]},
    "Converse": CONVERSED,
    "ConverseStream": CONVERSED,
    "CountTokens": {"modelId": PROBE, "input": {"converse": {"messages": CONVERSED["messages"]}}},
    "GetAsyncInvoke": {"invocationArn": PROBE},
    "InvokeGuardrailChecks": {},
    "InvokeModel": INVOKED,
    "InvokeModelWithResponseStream": INVOKED,
    "ListAsyncInvokes": {},
    "StartAsyncInvoke": {"modelId": PROBE, "modelInput": {}, "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://zz/zz"}}},
}

SURFACES = {
    "openai": openai_surface,
    "azure": azure_surface,
    "anthropic": anthropic_surface,
    "anthropic_bedrock": anthropic_bedrock_surface,
    "anthropic_vertex": anthropic_vertex_surface,
    "anthropic_mantle": anthropic_mantle_surface,
    "anthropic_aws": anthropic_aws_surface,
    "anthropic_foundry": anthropic_foundry_surface,
    "anthropic_google_cloud": anthropic_google_cloud_surface,
    "bedrock_openai": bedrock_openai_surface,
    "bedrock_runtime": bedrock_runtime_surface,
    "google": google_surface,
}
for wanted in sys.argv[1:] or SURFACES:
    out, sys.stdout = sys.stdout, sys.stderr
    SURFACES[wanted]()
    sys.stdout = out
json.dump({"asked": asked, "silent": sorted(without_view(silent))}, sys.stdout)
