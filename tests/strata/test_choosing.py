from __future__ import annotations

import pytest

from dalenius.strata.growing import automatic_leaves, least_stratum_rows


@pytest.mark.parametrize("rows", [1, 4_999, 5_000, 48_842, 300_000, 10**7, 10**9])
@pytest.mark.parametrize("values", [1, 2, 50, 3_200, 100_000])
def test_bounds_of_automatic_strata(rows: int, values: int) -> None:
    leaf_rows, most_leaves = automatic_leaves(rows, values)
    assert leaf_rows >= 200
    assert least_stratum_rows(leaf_rows) == leaf_rows // 2
    assert 1 <= most_leaves <= 500
    assert most_leaves * values <= 2**18 or most_leaves == 1
    assert (most_leaves > 1) == (rows >= 5_000)


def test_larger_tables_have_larger_leaves() -> None:
    assert automatic_leaves(20_000, 15) == (200, 500)
    assert automatic_leaves(300_000, 50) == (400, 500)
    assert automatic_leaves(10_000_000, 50) == (13_333, 500)
    assert least_stratum_rows(1) == 1
