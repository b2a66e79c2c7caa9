"""The made-up table has the paper's shape."""

from __future__ import annotations

import numpy as np
import pytest

from paper.dataset import DOMAINS, FREQUENCIES, census_shaped, margin


@pytest.mark.parametrize(("least", "most", "values"), [(0.0018, 0.075, 50), (0.0044, 0.273, 14), (0.1, 0.9, 2)])
def test_margins_have_the_ends_that_are_asked_for(least: float, most: float, values: int) -> None:
    found = margin(least, most, values)
    assert len(found) == values
    assert found.sum() == pytest.approx(1)
    assert (found[0], found[-1]) == pytest.approx((least, most))
    assert (np.diff(found) > 0).all()


def test_domains_and_frequencies_are_the_papers() -> None:
    table = census_shaped(100_000)
    assert tuple(table.column_names) == tuple(DOMAINS)
    for name, size in DOMAINS.items():
        shares = np.bincount(table[name].to_numpy(), minlength=size) / table.num_rows
        assert len(shares) == size
        assert shares.min() > 0
        if name in FREQUENCIES:
            assert (shares.min(), shares.max()) == pytest.approx(FREQUENCIES[name], rel=0.15)


def test_the_same_seed_gives_the_same_people() -> None:
    assert census_shaped(500).equals(census_shaped(500))
    assert not census_shaped(500).equals(census_shaped(500, seed=1))


@pytest.mark.parametrize(
    ("one", "other"), [("Education", "Occupation"), ("Age", "Marital"), ("Race", "Country"), ("Gender", "Occupation")]
)
def test_columns_are_associated(one: str, other: str) -> None:
    table = census_shaped(50_000)
    a, b = table[one].to_numpy().astype(int), table[other].to_numpy().astype(int)
    joint = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(joint, (a, b), 1 / len(a))
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    some = joint > 0
    assert (joint[some] * np.log2(joint[some] / independent[some])).sum() > 0.04  # bits of mutual information
