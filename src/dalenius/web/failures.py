"""Errors as answers: one shape, {"error": {"kind", "message", "hint"}}, and the status that goes with it."""

from __future__ import annotations

from typing import Any

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
