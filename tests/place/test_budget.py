from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from dalenius.errors import UsageError
from dalenius.fakes.marking import draw_marks
from dalenius.model.memory import MIB
from dalenius.place.budget import Budget
from tests.fakes.grids import partition_of


def test_marks_have_a_quarter_of_what_is_spare() -> None:
    budget = Budget(total=1000 * MIB, spare=400 * MIB)
    budget.check_fakes(2_000_000)
    with pytest.raises(UsageError, match="5,000,000 fake values do not fit into a memory of 1,000 MiB") as refused:
        budget.check_fakes(5_000_000)
    assert refused.value.hint == "Give --memory 1516MiB, or have fewer fake values."
    Budget(total=1516 * MIB, spare=916 * MIB).check_fakes(5_000_000)


def test_people_have_all_that_is_spare() -> None:
    budget = Budget(total=1000 * MIB, spare=400 * MIB)
    budget.check_people(1_500_000, 2)
    with pytest.raises(UsageError, match="3,000,000 records by person do not fit") as refused:
        budget.check_people(3_000_000, 2)
    assert refused.value.hint == "Give --memory 1287MiB."
    Budget(total=1287 * MIB, spare=687 * MIB).check_people(3_000_000, 2)
    with pytest.raises(UsageError, match="whose 30,000,000 records are does not fit") as refused:
        budget.check_identifiers(30_000_000)
    assert refused.value.hint == "Give --memory 1516MiB."


def test_drawing_marks_takes_what_the_budget_says() -> None:
    """What is allowed for a fake value is enough, beyond working arrays that do not grow."""
    buckets = 300_000
    quotas = np.asarray([5, 4, 3, 3])[:, None] * (buckets // 5)
    partition = partition_of([(3, buckets)], quotas, quotas // 3)
    budget = Budget(total=1000 * MIB, spare=4 * 48 * buckets)
    budget.check_fakes(buckets)
    tracemalloc.start()
    draw_marks([partition], bytes(32))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 48 * buckets
