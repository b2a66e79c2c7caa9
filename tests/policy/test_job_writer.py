"""Job files are read as they were written."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dalenius.policy.job import Job, job_text, parse_job

_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_number = st.one_of(
    st.sampled_from(["0.02", "1/50", "17/100"]),
    st.integers(0, 10**6),
    st.decimals("0.001", "0.999", places=6),
)


GROUPS: list[dict[str, Any]] = [
    {},
    {"named": "icd9"},
    {"prefix": 3},
    {"prefix": [1, 3]},
    {"prefixes": {"C": "any cancer", "D0": "any cancer"}},
    {"tree": {"any cancer": ["C50"], "other": {"mind": ["F1"], "heart": ["I1"]}}},
    {"cuts": [0, Decimal("0.5")]},
    {"quantiles": 8},
    {"width": "2.5", "from": 0},
    {"cuts": [["1/3"], [0, "1/3", Decimal("0.5")]]},
    {"quantiles": [2, 8]},
    {"width": ["5", Decimal("2.5")], "from": 0},
]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    columns = draw(st.lists(_text, min_size=1, max_size=6, unique=True))
    table: dict[str, Any] = {"sensitive": columns[0], "quasi_identifiers": columns[1:4], "identifiers": columns[4:]}
    table["null_value"] = draw(st.none() | _text)
    if draw(st.booleans()):
        table["strata"] = draw(st.sampled_from(["auto", "none", 12, ["A", "B"]]))
    limits: dict[str, Any] = {draw(st.sampled_from(["theta", "uniform", "beta"])): draw(_number)}
    limits["values"] = draw(st.dictionaries(_text, _number, max_size=4))
    groups = draw(st.sampled_from(GROUPS))
    if groups:
        limits["groups"] = draw(st.dictionaries(_text, _number, max_size=2))
        limits["levels"] = draw(st.dictionaries(_text, st.sampled_from(["none", {"odds": 8}]), max_size=2))
        groups = {**groups, "ungrouped": draw(st.lists(st.sampled_from("?!"), max_size=2))}
    solve = {
        "method": draw(st.sampled_from([None, "optimal", "two-size"])),
        "max_size": draw(st.none() | st.integers(1, 99)),
        "gap": draw(st.sampled_from([None, Decimal("0.01"), Decimal(0)])),
    }
    adversary = {
        "corrupted": draw(st.none() | st.integers(0, 5)),
        "fakes": draw(st.none() | st.integers(0, 5)),
        "avoid_ruled_out": draw(st.none() | st.booleans()),
    }
    table["missing"] = draw(st.lists(_text, max_size=2))
    return Job.model_validate(
        {"table": table, "limits": limits, "solve": solve, "adversary": adversary, "groups": groups}
    )


@st.composite
def jobs_with_sets(draw: st.DrawFn) -> Job:
    names = draw(st.lists(_text, min_size=6, max_size=6, unique=True))
    limits = {"odds": draw(_number.filter(lambda n: str(n).isdigit() and int(n) > 0)), "values": {"x": "0.1"}}
    sets: list[Any] = [
        {"columns": names[:2], "name": names[5], "limits": limits, "missing": draw(st.none() | st.just([]))},
        {"columns": [names[2]], "null_value": draw(st.none() | _text), "groups": draw(st.sampled_from(GROUPS))},
        names[3],
    ]
    table = {"sensitive": draw(st.permutations(sets)), "person": names[4], "most_rows": draw(st.none() | st.just(3))}
    together = draw(st.sampled_from([[], [[names[2], names[3]]], [[names[3], names[2]]]]))
    return Job.model_validate({"table": {**table, "keep_together": together}, "limits": {"odds": 8}})


@given(jobs_with_sets())
def test_sets_are_read_as_they_were_written(job: Job) -> None:
    assert parse_job(job_text(job)) == job


@given(jobs())
def test_reading_gives_what_was_written(job: Job) -> None:
    assert parse_job(job_text(job)) == job


def test_what_is_not_set_is_not_written() -> None:
    text = job_text(Job.model_validate({"table": {"sensitive": "Disease"}, "limits": {"theta": "8"}}))
    assert text == '[table]\nsensitive = "Disease"\n\n[limits]\ntheta = "8"\n'


def test_a_column_of_several_is_written_as_a_text() -> None:
    text = job_text(Job.model_validate({"table": {"sensitive": ["diag_1", {"columns": ["insulin"]}]}}))
    assert "".join(text.split()) == '[table]sensitive=["diag_1","insulin",]'
