"""One request to Backstop's API, and its response.

The token goes to the server that was named and nowhere else: proxies of the environment are not used, redirects are not followed, and
plain HTTP is for this machine. A response is bounded, and so is the time that is waited for it.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional
from urllib.parse import urlsplit

from . import problems

MOST_BYTES = 16 << 20
"""The most bytes of a response."""
MOST_SENT = 4 << 20
"""The most bytes of a request, as the API takes them."""
ATTEMPTS = 3
"""How often a request that is done once is sent, where its connection breaks."""
PAUSE = 0.1
"""Seconds between two of them."""


@dataclass(frozen=True)
class Request:
    """A request of the API."""

    method: str
    path: str
    body: Optional[Dict[str, Any]] = None
    key: Optional[str] = None
    """Its idempotency key."""
    wait: float = 0.0
    """How many seconds the server may take besides."""

    @property
    def is_once(self) -> bool:
        """Whether it may be sent again: what it does is done once."""
        return self.method in ("GET", "DELETE") or self.key is not None


class Wire:
    """The way to a server. It is shared by threads: each request has a connection of its own."""

    def __init__(
        self, url: str, token: str, timeout: float, ssl_context: Optional[ssl.SSLContext] = None
    ) -> None:
        parts = urlsplit(url)
        host = parts.hostname
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError("the address of Backstop is http://HOST:PORT or https://HOST")
        # An address with a path is one that `serve` prints for models: it holds a token of its own.
        if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
            raise ValueError("the address of Backstop has no path, and its token is given as `token`")
        if parts.scheme == "http" and not _is_local(host):
            raise ValueError("a token is sent to other machines by https:// only")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("`token` is an access token with the scope `judge`: `backstop token create`")
        if not timeout > 0:
            raise ValueError("`timeout` is a number of seconds above 0")
        self._host, self._port = host, parts.port
        self._tls = None if parts.scheme == "http" else ssl_context or ssl.create_default_context()
        self._token, self._timeout = token, timeout
        self.url = f"{parts.scheme}://{parts.netloc}"

    def send(self, request: Request) -> Any:
        """Sends a request, and returns the JSON of its response; ``None`` where it has none."""
        end = time.monotonic() + self._timeout + request.wait
        attempt = 1
        while True:
            try:
                return self._send(request, end)
            except problems.Unavailable as error:
                # A connection that broke says nothing about what was done; the key does.
                if error.status is not None or not request.is_once or attempt >= ATTEMPTS:
                    raise
                attempt += 1
            except problems.Conflict as error:
                if error.kind != "under-way":
                    raise
            if time.monotonic() + PAUSE >= end:
                raise problems.Unavailable(None, "timeout", "Backstop did not answer in time")
            time.sleep(PAUSE)

    def _send(self, request: Request, end: float) -> Any:
        connection = self._connection(max(end - time.monotonic(), 0.001))
        try:
            body = None if request.body is None else _written(request.body)
            headers = {"authorization": f"Bearer {self._token}", "accept": "application/json"}
            if body is not None:
                headers["content-type"] = "application/json"
            if request.key is not None:
                headers["idempotency-key"] = request.key
            connection.request(request.method, f"/-/v1/{request.path}", body, headers)
            response = connection.getresponse()
            text = _read(response, end)
        except (OSError, http.client.HTTPException) as error:
            raise problems.Unavailable(
                None, "unreachable", f"Backstop can't be reached at {self.url} ({type(error).__name__})"
            ) from error
        finally:
            connection.close()
        return _answer(response.status, text)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)


def _written(body: Dict[str, Any]) -> bytes:
    try:
        text = json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise problems.InvalidRequest(None, "body", f"this has no JSON form: {error}") from error
    # INVARIANT (failing is not passing): the server would break the connection off, and that looks as if it could not be reached.
    if len(text) > MOST_SENT:
        raise problems.InvalidRequest(None, "too-large", f"a body has at most {MOST_SENT} bytes")
    return text


def _read(response: http.client.HTTPResponse, end: float) -> bytes:
    pieces: List[bytes] = []
    size = 0
    while True:
        piece = response.read1(1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise problems.Unavailable(None, "too-large", f"a response has more than {MOST_BYTES} bytes")
        if time.monotonic() > end:
            raise problems.Unavailable(None, "timeout", "Backstop did not answer in time")


def _answer(status: int, text: bytes) -> Any:
    try:
        body = json.loads(text) if text else None
    except (ValueError, RecursionError):
        body = None
        if 200 <= status < 300:
            raise problems.Unavailable(status, "malformed", "the response is no JSON") from None
    if not 200 <= status < 300:
        raise problems.of_response(status, body)
    if body is not None and not isinstance(body, dict):
        raise problems.Unavailable(status, "malformed", "the response is no JSON object")
    return body


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
