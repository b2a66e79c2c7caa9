"""stub"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dalenius.solve.unit_problem import UnitProblem
from dalenius.solve.units_bound import UnitBound


def search_buckets(
    problem: UnitProblem,
    bound: UnitBound,
    gap: float,
    deadline: float,
    random: np.random.Generator,
    each: Callable[[], None],
) -> npt.NDArray[np.int32]:
    """A valid bucketization: at first everybody in one bucket."""
    return np.zeros(problem.units, dtype=np.int32)
