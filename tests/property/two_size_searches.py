"""All searches for two sizes against the best setting that was found by trying everything."""

from __future__ import annotations

from collections.abc import Callable

from dalenius.model.problem import BucketSetting, Problem
from dalenius.solve.two_size import find_two_size_setting
from paper.two_size_paper import full_pruning, loss_pruning, no_pruning
from tests.property import brute_force


def assert_agree_on_two_sizes(problem: Problem, expected: brute_force.Sizes | None) -> None:
    """Every search finds a setting of the expected loss, or none where there is none."""
    searches: list[Callable[[Problem], BucketSetting | None]] = [find_two_size_setting]
    if problem.min_size < min(problem.max_size, problem.total):
        searches += [no_pruning, loss_pruning, full_pruning]
    for search in searches:
        found = search(problem)
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert found.loss == brute_force.loss(expected)
