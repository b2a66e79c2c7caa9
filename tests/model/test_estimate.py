"""Figures beside the group that they are of."""

from __future__ import annotations

from dalenius.model.estimate import Estimate, GroupEstimate, free_name


def test_columns_that_are_called_like_figures_keep_what_they_hold() -> None:
    group = {"estimate": "a", "estimate_2": "b", "method": "c", "bound_low_2": "d"}
    row = GroupEstimate(group, Estimate.of(3.5, 1.0, 2, 5)).as_row()
    assert {name: row[name] for name in group} == group
    assert (row["estimate_3"], row["method_2"], row["bound_low"]) == (3.5, "at random", 2)
    assert len(row) == len(group) + 8


def test_a_free_name_is_the_first_that_nobody_has() -> None:
    assert free_name("low", ["high"]) == "low"
    assert free_name("low", ["low", "low_3"]) == "low_2"
    assert free_name("low", ["low", "low_2", "low_3"]) == "low_4"
