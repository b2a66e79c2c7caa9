"""Releases of the table by each method, and what is measured of them: loss, count queries, the learning adversary.

Placement is seeded, so that a run can be repeated. These releases are measured and thrown away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dalenius.errors import NoSolutionError
from dalenius.model.attack_result import Share
from dalenius.model.plan import Method
from dalenius.publishing.flow import publish
from dalenius.publishing.published import Release
from dalenius.query.workload import evaluate
from dalenius.release.folder import open_release
from paper.experiment import Context
from paper.problems import MAX_SIZE, limits

TWO_SIZE, MULTI_SIZE, OPTIMAL = "TwoSize", "MultiSize", "Optimal (ours, exact)"
STRATA = "Optimal, in strata (ours)"
ONE_BUCKET = "one bucket (no association)"
_METHODS = {TWO_SIZE: Method.TWO_SIZE, MULTI_SIZE: Method.MULTI_SIZE, OPTIMAL: Method.OPTIMAL, STRATA: Method.OPTIMAL}
_SEED = 2012
_QUERY_SEED = 7


def mse(context: Context, sensitive: str, theta: int, method: str) -> float | None:
    """The release's MSE; None if the method has no release under these limits."""

    def measure() -> float | None:
        release = _publish(context, sensitive, theta, method)
        return None if release is None else release.manifest.loss / (release.manifest.rows - 1)

    return _measure(context, "mse", measure, sensitive, theta, method)  # type: ignore[no-any-return]


def relative_error(context: Context, sensitive: str, theta: int, method: str) -> dict[str, Any] | None:
    """The paper's count queries: the mean and the median of |act - est| / act, and how many queries match nobody."""
    queries = context.settings.queries

    def measure() -> dict[str, Any] | None:
        release = _publish(context, sensitive, theta, method)
        if release is None:
            return None
        table = context.dataset.first(context.settings.rows, sensitive)
        workload = evaluate(open_release(release.path), table, queries=queries, seed=_QUERY_SEED)
        return {
            "mean": workload.mean_relative_error,
            "median": workload.median_relative_error,
            "queries": workload.queries,
            "empty": workload.empty,
        }

    return _measure(context, "relative error", measure, sensitive, theta, method, queries=queries)  # type: ignore[no-any-return]


def learning_attack(context: Context, sensitive: str, theta: int, method: str) -> dict[str, Any] | None:
    """How often the learning adversary of `dalenius audit` is right, and what the buckets alone and guessing give."""

    def measure() -> dict[str, Any] | None:
        release = _publish(context, sensitive, theta, method)
        if release is None:
            return None
        table = context.dataset.first(context.settings.rows, sensitive)
        attack = release.audit(truth=table, attacks=["learning"])["learning"]
        parts = {"top1": attack.success, "baseline": attack.baseline, "guessing": attack.control}
        shares = {name: part.share if isinstance(part, Share) else None for name, part in parts.items()}
        return {**shares, "learner": attack.details.get("learner")}

    return _measure(context, "learning adversary", measure, sensitive, theta, method)  # type: ignore[no-any-return]


def _measure(
    context: Context, what: str, run: Callable[[], Any], sensitive: str, theta: int, method: str, **more: Any
) -> Any:
    """One bucket of everybody is the same whatever theta is."""
    key = {"theta": theta} if method != ONE_BUCKET else {}
    rows = context.settings.rows
    return context.measure(what, run, sensitive=sensitive, method=method, rows=rows, **key, **more)


def _publish(context: Context, sensitive: str, theta: int, method: str) -> Release | None:
    rows = context.settings.rows
    one = method == ONE_BUCKET
    try:
        return publish(
            context.dataset.first(rows, sensitive),
            limits(theta),
            sensitive=sensitive,
            quasi_identifiers=context.dataset.quasi_identifiers(sensitive),
            method=_METHODS.get(method, Method.OPTIMAL),
            strata="auto" if method == STRATA else "none",
            seed=_SEED,
            time_limit=context.settings.limit,
            min_size=rows if one else 1,  # the paper's smallest bucket, in which a value is published outright ...
            publish_in_the_clear=True,  # ... where theta gives it the limit 1
            max_size=rows if one else None if method == STRATA else MAX_SIZE,  # sizes grow where a stratum needs it
        )
    except NoSolutionError:
        return None
