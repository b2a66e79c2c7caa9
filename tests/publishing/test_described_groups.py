"""What a manifest says of groups of values, from the tree of the problem."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dalenius
from dalenius.model.groups import NO_GROUP, Group, Groups
from dalenius.publishing import flow
from dalenius.publishing.arrangement import Arrangement
from dalenius.publishing.description import describe
from dalenius.verify.judge import verify

# As a policy may list them: not in the order of a manifest, and one of them for no value.
TREE = (
    Group("Z", Fraction(3, 4), level="chapter"),
    Group("B", parent=0, level="block"),
    Group("unused", Fraction(1, 9), parent=0),
    Group("A", Fraction(5, 6), parent=0, level="block"),
    Group("M"),
)
OF_VALUE = {"a1": 3, "a2": 3, "b1": 1, "m": 4, "n": NO_GROUP}  # in this order, the values of every group are neighbours


@pytest.mark.parametrize("changes", [{}, {"known_records": 1, "fake_values": 1}, {"strata": ["Age"]}])
def test_groups_are_described_as_verify_finds_them(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def described(request: Any, arrangement: Arrangement, *others: Any) -> Any:
        problem = arrangement.plan.problem
        groups = Groups(TREE, tuple(OF_VALUE[value] for value in problem.values))
        plan = replace(arrangement.plan, problem=replace(problem, groups=groups))
        return describe(request, replace(arrangement, plan=plan), *others)

    monkeypatch.setattr(flow, "describe", described)
    values = [value for value in OF_VALUE for _ in range({"a1": 5, "a2": 20, "b1": 9}.get(value, 60))]
    table = pa.table({"Age": [place % 7 for place in range(len(values))], "Disease": values})
    limits = {"uniform": "0.4"}
    release = dalenius.publish(
        table, limits, sensitive="Disease", quasi_identifiers=["Age"], out=tmp_path / "release", **changes
    )
    stated = release.manifest.groups or []
    assert [(group.name, group.level, group.parent, group.limit) for group in stated] == [
        ("M", "", None, None),
        ("Z", "chapter", None, "3/4"),
        ("A", "block", 1, "5/6"),
        ("B", "block", 1, None),
    ]
    assert [value.group for value in release.manifest.values] == [2, 2, 3, 0, None]
    if not changes:
        assert [group.count for group in stated] == [60, 34, 25, 9]
    verdict = verify(tmp_path / "release")
    assert verdict, verdict.findings
    assert [(share.count, share.size) for share in verdict.groups] == [
        (group.worst.count, group.worst.size) for group in stated
    ]
