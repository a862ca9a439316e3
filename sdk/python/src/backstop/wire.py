"""One request to Backstop's API, and its response.

The token goes to the server that was named and nowhere else: proxies of the environment are not used, redirects are not followed, and
plain HTTP is for this machine. A response is bounded, and so is the time that is waited for it.
"""

from __future__ import annotations

import errno
import http.client
import ipaddress
import json
import logging
import socket
import ssl
import threading
import time
import uuid
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional
from urllib.parse import quote, urlsplit

from . import problems

_LOG = logging.getLogger("backstop")
MOST_BYTES = 16 << 20
"""The most bytes of a response."""
MOST_SENT = 4 << 20
"""The most bytes of a request, as the API takes them."""
ATTEMPTS = 3
"""How often a request that is done once is sent, where its connection breaks."""
PAUSE = 0.1
"""Seconds between two of them."""
_NOBODY_THERE = (
    errno.ECONNREFUSED,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ETIMEDOUT,
)
"""What says that nobody is there. Other failures to connect are our own, such as too many open files, and a program may cause them."""


@dataclass(frozen=True)
class Request:
    """A request of the API."""

    method: str
    path: str
    body: Optional[Dict[str, Any]] = None
    key: Optional[str] = None
    """Its idempotency key."""
    renews: bool = False
    """Whether it may be sent by another key, too: nobody but this request knows the one that it has."""
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
        self._host, self._port = host, parts.port or (80 if parts.scheme == "http" else 443)
        self._tls = None if parts.scheme == "http" else ssl_context or ssl.create_default_context()
        self._token, self._timeout = token, timeout
        self.url = f"{parts.scheme}://{parts.netloc}"

    def send(self, request: Request) -> Any:
        """Sends a request, and returns the JSON of its response; ``None`` where it has none."""
        end = time.monotonic() + self._timeout + request.wait
        attempt, was_sent = 1, False
        while True:
            try:
                return self._send(request, end)
            except problems.Unavailable as error:
                was_sent = was_sent or not isinstance(error, problems.Unreachable)
                if was_sent and isinstance(error, problems.Unreachable):
                    # INVARIANT (failing is not passing): what was sent before may have been judged, or a human may be asked.
                    error = problems.Unavailable(None, "unreachable", error.detail)
                # A connection that broke says nothing about what was done; the key does.
                if error.status is not None or not request.is_once or attempt >= ATTEMPTS:
                    raise error
                attempt += 1
            except problems.Conflict as error:
                if error.kind == "conflict" and attempt > 1 and request.renews:
                    # The answer that was lost said that the call may run, which is said once. Nothing ran by it: it is judged once more.
                    request = replace(request, key=uuid.uuid4().hex, renews=False)
                elif error.kind != "under-way":
                    raise
                was_sent = True
            if time.monotonic() + PAUSE >= end:
                raise problems.Unavailable(None, "timeout", "Backstop did not answer in time")
            time.sleep(PAUSE)

    def _send(self, request: Request, end: float) -> Any:
        body = None if request.body is None else _written(request.body)
        connection = self._connection(max(end - time.monotonic(), 0.001))
        try:
            headers = {"authorization": f"Bearer {self._token}", "accept": "application/json"}
            if body is not None:
                headers["content-type"] = "application/json"
            if request.key is not None:
                headers["idempotency-key"] = request.key
            connection.request(request.method, f"/-/v1/{request.path}", body, headers)
            response = connection.getresponse()
            text = _read(response, end)
        except (OSError, http.client.HTTPException) as error:
            raise problems.Unavailable(None, "unreachable", self._unreachable(error)) from error
        finally:
            connection.close()
        return _answer(response.status, text)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        try:
            plain = socket.create_connection((self._host, self._port), timeout)
        except OSError as error:
            is_nobody = isinstance(error, (socket.gaierror, socket.timeout)) or error.errno in _NOBODY_THERE
            kind = problems.Unreachable if is_nobody else problems.Unavailable
            raise kind(None, "unreachable", self._unreachable(error)) from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Whoever answers with a certificate that does not count is somebody, so that is not as if nobody were there.
            connection.sock = self._tls.wrap_socket(plain, server_hostname=self._host) if self._tls else plain
        except OSError as error:
            plain.close()
            raise problems.Unavailable(None, "unreachable", self._unreachable(error)) from error
        return connection

    def _unreachable(self, error: Exception) -> str:
        return f"Backstop can't be reached at {self.url} ({type(error).__name__})"


class Underway:
    """A request that may be cancelled before it is answered: what is pending by then is given up, since nobody else knows of it."""

    def __init__(self, wire: Wire, request: Request) -> None:
        self._wire, self._asks = wire, request.method == "POST"
        self._lock, self._is_cancelled = threading.Lock(), False
        self._answer: Any = None

    def is_answered_too_late(self, answer: Any) -> bool:
        with self._lock:
            self._answer = answer
            return self._is_cancelled

    def cancel(self) -> Any:
        """Returns the answer, if there is one already."""
        with self._lock:
            self._is_cancelled = True
            return self._answer

    def give_up(self, answer: Any) -> None:
        is_pending = isinstance(answer, dict) and answer.get("status") != "decided" and "id" in answer
        if self._asks and is_pending:
            try:
                self._wire.send(Request("DELETE", f"decisions/{quote(str(answer['id']), safe='')}"))
            except problems.ApiError as error:
                _LOG.warning("a question that nobody waits for is still open: %s", error)


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
