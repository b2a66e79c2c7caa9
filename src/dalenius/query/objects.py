"""Estimates and workloads as JSON objects, the same for the command line, the report and Studio."""

from __future__ import annotations

import math
from typing import Any

from dalenius.model.estimate import Estimate, GroupEstimate
from dalenius.query.workload import WorkloadResult


def answer_object(answer: Estimate | list[GroupEstimate], learn: bool = False) -> Any:
    """One object, or a list of them. The keys are a contract (docs/json.md)."""
    if isinstance(answer, Estimate):
        return _estimate_object(answer, learn)
    return [
        {"group": {k: _plain(v) for k, v in a.group.items()}, **_estimate_object(a.estimate, learn)} for a in answer
    ]


def workload_object(
    result: WorkloadResult, selectivity: float, seed: int, seconds: float, learn: bool = False
) -> dict[str, Any]:
    """The result as one JSON object. The keys are a contract (docs/json.md)."""
    found = {
        "format": 1,
        "queries": result.queries,
        "selectivity": selectivity,
        "seed": seed,
        "empty": result.empty,
        "mean_relative_error": _plain_number(result.mean_relative_error),
        "median_relative_error": _plain_number(result.median_relative_error),
        "bounds_hold": result.bounds_hold,
        "coverage": result.coverage,
        "mean_interval_width": result.mean_interval_width,
        "mean_bounds_width": result.mean_bounds_width,
        "seconds": round(seconds, 3),
    }
    if not learn:
        return found
    if result.learned is None:
        return {**found, "learned": None, "note": result.not_learned}
    keys = ("mean_relative_error", "median_relative_error", "coverage", "mean_interval_width")
    return {**found, "learned": {key: _plain_number(getattr(result.learned, key)) for key in keys}}


def _estimate_object(estimate: Estimate, learn: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "estimate": estimate.estimate,
        "bounds": list(estimate.bounds),
        "standard_error": estimate.standard_error,
        "interval": list(estimate.interval),
        "exact": estimate.exact,
    }
    if not estimate.tight:
        found["tight"] = False
    if learn and estimate.learned is None:
        found |= {"learned": None, "note": estimate.not_learned}
    elif learn and estimate.learned is not None:
        learned = estimate.learned
        found["learned"] = {
            "estimate": learned.estimate,
            "standard_error": learned.standard_error,
            "interval": list(learned.interval),
        }
    return found


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain_number(number: float) -> float | None:
    return number if math.isfinite(number) else None
