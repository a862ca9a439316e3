"""What can go wrong when Backstop is asked.

A :class:`Refused` is an answer: something may not happen. An :class:`ApiError` is none: Backstop did not judge. Both are
:class:`BackstopError`, so that one ``except`` is enough for whoever lets nothing run on either.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Type

PREFIX = "urn:backstop:problem:"


class BackstopError(Exception):
    """Something may not happen, or could not be judged."""


class Refused(BackstopError):
    """Something may not happen."""

    def __init__(
        self,
        reason: str,
        *,
        hook: Optional[str] = None,
        rules: Tuple[str, ...] = (),
        unavailable: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        """Why, in words that the model may read."""
        self.hook = hook
        """The hook that stopped it, where one did."""
        self.rules = rules
        """The rules that it names."""
        self.unavailable = unavailable
        """Whether nobody could judge. It is no decision, and may be tried again."""


class Responded(Refused):
    """A tool may not run, because a person gave its result.

    It is raised only to whoever says that they take it. Whoever knows of no such thing runs nothing, as with every :class:`Refused`.
    """

    def __init__(self, result: str) -> None:
        super().__init__(result)
        self.result = result
        """The result, as far as the model may read it."""


class ApiError(BackstopError):
    """Backstop refused the request itself, with problem details (RFC 9457), or could not be reached."""

    def __init__(self, status: Optional[int], kind: str, detail: str) -> None:
        super().__init__(f"{detail} ({status} {kind})" if status is not None else detail)
        self.status = status
        """The status of the response; ``None`` where there was none."""
        self.kind = kind
        """Which problem, such as ``scope``: the end of its ``type``."""
        self.detail = detail
        """What is wrong, and what to do about it."""


class InvalidRequest(ApiError):
    """The request is malformed or too large. It is as wrong when it is repeated."""


class NotAllowed(ApiError):
    """The token does not count, or lacks the scope."""


class NotFound(ApiError):
    """There is no such thing for this token."""


class Conflict(ApiError):
    """It contradicts what is so already."""


class Unavailable(ApiError):
    """Backstop could not be reached, or could not judge now."""


class Unreachable(Unavailable):
    """No connection to Backstop came about, so that nothing was sent: nobody judges, and nobody is asked."""


_BY_STATUS: Dict[int, Type[ApiError]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    429: Unavailable,
}


def of_response(status: int, body: Any) -> ApiError:
    """The error that a response tells."""
    problem: Dict[str, Any] = body if isinstance(body, dict) else {}
    kind = problem.get("type")
    kind = kind[len(PREFIX) :] if isinstance(kind, str) and kind.startswith(PREFIX) else "unknown"
    detail = problem.get("detail")
    detail = detail if isinstance(detail, str) else "the response is no problem of Backstop's"
    # What is not known to be the request's own fault may be over a moment later.
    otherwise = InvalidRequest if 400 <= status < 500 else Unavailable
    return _BY_STATUS.get(status, otherwise)(status, kind, detail)
