"""Which value forces the large buckets?

A value with the limit f' needs buckets of ceil(1 / f') records that nobody knows. In a setting, the group with the
largest part of the loss among those that somebody needs is there because of the value that needs most of its buckets:
o_i records, at most cap[i, S] of them in each. Raising its limit is tried out where there is time for that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dalenius.model.exploration import Forcing
from dalenius.model.plan import Plan
from dalenius.model.problem import Problem
from dalenius.solve.caps import Instance, smallest_size
from dalenius.solve.glance import Memory, glance

_TRIED = 3  # values
_SECONDS = 0.5  # for each of them


def needed_sizes(problem: Problem) -> npt.NDArray[np.int64]:
    """The smallest bucket that may hold each value."""
    known = problem.known_records
    return np.asarray([smallest_size(limit, known) for limit in problem.limits], dtype=np.int64)


def forcing(plan: Plan) -> Forcing | None:
    """The value that most of the loss hangs on, by a rule of thumb; None if no larger buckets are needed by any."""
    return next(_candidates(plan), None)


def tried_out(plan: Plan) -> Forcing | None:
    """Of a few such values, the one whose limit, doubled, saves most; with what it saves."""
    setting, problem = plan.solution.setting, plan.problem
    if setting is None or not setting.loss:
        return None
    memory = Memory(sizes=tuple(group.size for group in sorted(setting.groups, key=lambda group: -group.loss)))
    tried = []
    for _, candidate in zip(range(_TRIED), _candidates(plan), strict=False):
        value = problem.values.index(candidate.value)
        limits = (*problem.limits[:value], candidate.relaxed_limit, *problem.limits[value + 1 :])
        found = glance(replace(problem, limits=limits), 1e-4, time.monotonic() + _SECONDS, memory).partition
        saved = 0.0 if found is None else max(0.0, (setting.loss - found.setting.loss) / setting.loss)
        tried.append(replace(candidate, saves=saved))
    return max(tried, key=lambda one: one.saves or 0.0, default=None)


def _candidates(plan: Plan) -> Iterator[Forcing]:
    """Values that large parts of the loss hang on, the largest first: one a size group."""
    setting, problem = plan.solution.setting, plan.problem
    if setting is None or plan.solution.partition is None or not setting.loss:
        return
    sizes = np.asarray([group.size for group in setting.groups], dtype=np.int64)
    group_of = np.searchsorted(sizes, needed_sizes(problem))
    caps = Instance(problem).most_values(sizes)
    limited = np.asarray([limit.numerator < limit.denominator for limit in problem.limits])
    for j in sorted(range(len(sizes)), key=lambda j: -setting.groups[j].loss):
        own = np.flatnonzero((group_of == j) & limited)
        if sizes[j] > 1 and own.size:
            counts = np.asarray(problem.counts, dtype=float)[own]
            value = int(own[np.argmax(counts / caps[own, j])])
            share = setting.groups[j].loss / setting.loss
            doubled = min(Fraction(1), 2 * problem.limits[value])
            yield Forcing(problem.values[value], int(sizes[j]), share, doubled)
