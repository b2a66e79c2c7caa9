"""Answers to the browser: JSON, and JSON that may stand inside a page.

Errors as answers: one shape, {"error": {"kind", "message", "hint"}}, and the status that goes with it.
"""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from dalenius.errors import (
    CancelledError,
    DaleniusError,
    MissingExtraError,
    NoSolutionError,
    SelfCheckError,
    SolverError,
)
from dalenius.model.plan import Plan

BUG_HINT = "This is probably a bug in Dalenius: please report it."


class RequestError(Exception):
    """A request that cannot be met. The kinds are a contract (docs/studio.md)."""

    def __init__(self, status: int, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.hint = status, kind, message, hint


def not_found() -> RequestError:
    """Nothing is there; what was asked for is not repeated."""
    return RequestError(404, "not-found", "there is nothing of that name here")


def status_of(error: DaleniusError) -> int:
    """The status of an error of ours."""
    if isinstance(error, NoSolutionError):
        return 422
    if isinstance(error, SelfCheckError | SolverError | MissingExtraError):
        return 500
    return 409 if isinstance(error, CancelledError) else 400


def error_object(error: DaleniusError | RequestError) -> dict[str, Any]:
    """What is inside {"error": ...}; where no release exists, with the reason."""
    found: dict[str, Any] = {"kind": error.kind, "message": error.message, "hint": error.hint}
    plan = error.plan if isinstance(error, NoSolutionError) else None
    if isinstance(plan, Plan) and plan.no_solution is not None:
        found["reason"] = plan.no_solution.reason
    return found


def internal_object(error: BaseException) -> dict[str, Any]:
    """An error that nobody expected: its type alone, for its message may quote data."""
    return {"kind": "internal", "message": f"unexpected {type(error).__name__}", "hint": BUG_HINT}


_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_text(content: Any) -> str:
    """JSON that is harmless wherever it ends up: no character in it can begin or end anything in HTML."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escaped in _ESCAPED.items():
        text = text.replace(character, escaped)
    return text


def json_answer(content: Any, status: int = 200) -> Response:
    """An answer to a script."""
    return Response(json_text(content).encode("utf-8", "backslashreplace"), status, media_type="application/json")


def embedded(content: Any) -> Markup:
    """JSON for a <script type="application/json"> of a page."""
    return Markup(json_text(content))  # noqa: S704 (escaped above)


def error_answer(error: DaleniusError | RequestError) -> Response:
    """An error, to a script."""
    status = error.status if isinstance(error, RequestError) else status_of(error)
    return json_answer({"error": error_object(error)}, status)
