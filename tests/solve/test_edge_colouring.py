"""Equitable edge colourings: the guarantee on random multigraphs, with and without groups, by counting alone."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dalenius.solve.edge_colouring import colour_edges
from tests.effort import examples


def _check(numbers: np.ndarray, nodes: np.ndarray, colours: int) -> None:
    found = colour_edges(numbers, nodes, colours)
    assert found is not None
    assert (found.sum(axis=1) == numbers).all()
    everything = [np.ones(len(numbers), dtype=bool)]
    at_nodes = [(nodes == node).any(axis=1) for node in range(nodes.max() + 1)]
    for mask in everything + at_nodes:
        edges = int(numbers[mask].sum())
        of_colour = found[mask].sum(axis=0)
        assert of_colour.min() >= edges // colours
        assert of_colour.max() <= -(-edges // colours)


@pytest.mark.parametrize("seed", range(examples(120)))
def test_every_node_has_floor_or_ceil_of_its_edges_in_every_colour(seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = (int(k) for k in random.integers(1, 9, size=2))
    pairs = np.asarray(list(product(range(left), range(right))))
    numbers = random.integers(0, 6, size=len(pairs))
    numbers[0] += 1
    nodes = np.column_stack([pairs[:, 0], left + pairs[:, 1]])
    _check(numbers, nodes, int(random.integers(1, 14)))


@pytest.mark.parametrize("seed", range(examples(80)))
def test_so_have_groups_of_both_columns(seed: int) -> None:
    """Values in groups, and these in larger groups; some values are in none."""
    random = np.random.default_rng(seed)
    pairs = np.asarray(list(product(range(9), range(6))))
    numbers = random.integers(0, 4, size=len(pairs))
    numbers[0] += 1
    groups = random.integers(-1, 3, size=9)  # of the first column: nodes 15, 16, 17, the first two of them in node 18
    mine = groups[pairs[:, 0]]
    above = np.where((mine == 0) | (mine == 1), 18, -1)
    others = np.where(pairs[:, 1] < 3, 19, -1)
    nodes = np.column_stack([pairs[:, 0], 9 + pairs[:, 1], np.where(mine >= 0, 15 + mine, -1), above, others])
    _check(numbers, nodes, int(random.integers(2, 11)))


def test_after_the_deadline_there_is_none() -> None:
    assert colour_edges(np.asarray([5, 5]), np.asarray([[0, 1], [0, 2]]), 3, deadline=0.0) is None
