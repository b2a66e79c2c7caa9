"""One group at a time, or a batch of triples: what the limits, the release and the noise make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.engines.groups import Group
from dalenius.model.dp_risk import GroupRisk, ValueRisk
from dalenius.model.plan import Plan
from dalenius.ratio.noise import Noise
from dalenius.ratio.released import Released
from dalenius.ratio.simulate import noisy_ratios, pinned, ratio, thresholds
from dalenius.ratio.tally import Triples

_MOST_VALUES = 10  # of a group that are listed one by one


class Judge:
    """The limits, the release and the noise that every group is judged by."""

    def __init__(self, plan: Plan, release: Released | None, noises: Sequence[Noise]) -> None:
        self.plan, self.release, self.noises = plan, release, noises
        self.limits = plan.problem.limits
        self.thresholds = thresholds([float(limit) for limit in self.limits])

    def above(self, size: int, count: int, code: int) -> bool:
        """Whether y/x is above the limit, in integers."""
        limit = self.limits[code]
        return count * limit.denominator > size * limit.numerator

    def triples(self, batch: pa.RecordBatch) -> tuple[Triples, Any]:
        """A batch of triples with their limits, and the values' codes."""
        sizes, counts, codes, cells = (np.asarray(batch[name]) for name in ("x", "y", "v", "cells"))
        above = np.fromiter(map(self.above, sizes.tolist(), counts.tolist(), codes.tolist()), dtype=bool)
        return Triples(sizes, counts, self.thresholds[codes], above, (cells * counts).astype(np.float64)), codes

    def group(self, group: Group, columns: Sequence[str] = ()) -> GroupRisk:
        """One group, with those of its values that most people are pinned to."""
        counts = np.array([count for _, count in group.counts])
        codes = [code for code, _ in group.counts]
        above = np.array([self.above(group.size, count, code) for code, count in group.counts])
        chances = np.zeros((len(self.noises), len(counts)))
        for number, noise in enumerate(self.noises):
            for i, count in enumerate(counts):  # one at a time: a group may have very many values, and draws are many
                ratios, claims = noisy_ratios(np.array([group.size]), np.array([count]), noise)
                chances[number, i] = pinned(ratios, claims, self.thresholds[[codes[i]]]).mean()
        order = np.lexsort((-counts, -(chances * counts).sum(axis=0), ~above))[:_MOST_VALUES].tolist()
        return GroupRisk(
            group.size,
            dict(zip(columns, group.key, strict=True)) if group.key is not None else None,
            tuple((chances @ counts).tolist()),
            tuple((chances @ (counts * above)).tolist()),
            self.release.of(group.counts) if self.release is not None else None,
            tuple(self._value(group, i, bool(above[i]), chances[:, i].tolist()) for i in order),
            len(counts) - len(order),
        )

    def _value(self, group: Group, place: int, above: bool, chances: Sequence[float]) -> ValueRisk:
        code, count = group.counts[place]
        own = self.release.own[code] if self.release is not None else None
        return ValueRisk(
            self.plan.problem.values[code],
            count,
            self.limits[code],
            above,
            tuple(ratio(group.size, count, noise) for noise in self.noises),
            tuple(chances),
            own.largest if own is not None else None,
            float(own.mean) if own is not None else None,
        )
