"""What other methods find under the same limits: the paper's two sizes, and Anatomy."""

from __future__ import annotations

import time
from dataclasses import replace

from dalenius.errors import UndecidedError
from dalenius.model.exploration import Peer
from dalenius.model.problem import Problem
from dalenius.model.setting import BucketSetting
from dalenius.solve.anatomy import anatomy
from dalenius.solve.eligible import fakes_can_be_in_proportion
from dalenius.solve.methods import why_not_anatomy
from dalenius.solve.sizes import larger
from dalenius.solve.two_size import two_size

TWO_SIZE, ANATOMY = "two-size", "anatomy"


def anatomy_peer(problem: Problem, max_size: int | None) -> Peer:
    """Anatomy's buckets of l and l + 1; its setting is told even where it is not private."""
    found = anatomy(problem)
    most = problem.total if max_size is None else max_size
    fits = found.setting is not None and found.setting.groups[-1].size <= most
    fits = fits and found.setting is not None and found.setting.groups[0].size >= problem.min_size
    if found.eligible and fits:
        return Peer("feasible", found.setting)
    return Peer("infeasible", found.setting, why_not_anatomy(found, problem))


def two_size_peer(problem: Problem, deadline: float, *, grow: bool) -> Peer:
    """The best of two sizes, in the range of the problem or, with `grow`, in the first larger one that has any."""
    if not fakes_can_be_in_proportion(problem):
        one = BucketSetting.of([(problem.total, 1)]) if grow else None
        note = None if grow else "two sizes have no setting within the largest size"
        return Peer("feasible" if grow else "infeasible", one, note)
    while True:
        try:
            found = two_size(problem, deadline)
        except UndecidedError:
            return Peer("undecided", None, "looking for the best two sizes takes longer than a few seconds")
        if found is not None:
            return Peer("feasible", found)
        size = larger(problem.max_size, problem.total) if grow else None
        if size is None or time.monotonic() > deadline:
            break
        problem = replace(problem, max_size=size)
    if grow and size is None:
        return Peer(
            "feasible", BucketSetting.of([(problem.total, 1)]), "no two sizes were found; one bucket holds everybody"
        )
    return Peer("infeasible", None, "two sizes have no setting within the largest size")
