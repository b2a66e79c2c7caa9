"""The publisher's own limits, as Python callers give them, for each sensitive column of a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dalenius.errors import PolicyError
from dalenius.model.problem import ValueCounts
from dalenius.policy.limits import LimitPolicy, as_policy
from dalenius.release.manifest import Manifest

Limits = LimitPolicy | Mapping[Any, Any]


def limits_by_column(limits: Limits | Sequence[Limits | None], manifest: Manifest) -> list[LimitPolicy | None]:
    """One policy for each sensitive column. A list has them in order; anything else is a rule for all columns."""
    views = [manifest.view(number) for number in range(manifest.sets)]
    counts = [ValueCounts.of((value.value, value.count) for value in view.values) for view in views]
    if isinstance(limits, Sequence):
        if len(limits) != len(views):
            raise PolicyError(
                f"there are limits for {len(limits):,} sensitive columns, and the release has {len(views):,}",
                "Give one for each, in their order; None for those of the release.",
            )
        return [as_policy(own, held) if own is not None else None for own, held in zip(limits, counts, strict=True)]
    policies: list[LimitPolicy | None] = [as_policy(limits, held) for held in counts]
    if manifest.others and any(policy is not None and policy.values for policy in policies):
        raise PolicyError(
            f"limits of single values are given, and the release has {len(views):,} sensitive columns",
            "Give a list with the limits of each column, in their order; None for those of the release.",
        )
    return policies
