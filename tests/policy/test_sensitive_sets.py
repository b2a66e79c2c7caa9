"""Several sensitive columns, sets of them, and the limits of each."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import dalenius
from dalenius.errors import DaleniusError, PolicyError, UsageError
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.roles import Roles, SensitiveSet, check_roles, identifying_columns
from dalenius.policy.sensitive_sets import read_sets
from dalenius.publishing.options import PublishOptions, PublishRequest

ODDS = {"odds": 8}
DIAGNOSIS = {"columns": ["diag_1", "diag_2"], "name": "diagnosis"}


def request(sensitive: Any, limits: Any = ODDS, person: str | None = None, **options: Any) -> PublishRequest:
    """A request as Python callers make it."""
    said = read_sets(sensitive, limits, options.pop("null_value", None), options.pop("missing", ()))
    roles = said.roles(("age", "sex"), options.pop("identifiers", ()), person)
    return PublishRequest(
        table=None,
        roles=roles,
        limits=said.limits[0],
        set_limits=said.limits_by_set(roles),
        options=PublishOptions(null_value=said.sets[0].null_value, missing=said.sets[0].missing, **options),
    )


@pytest.mark.parametrize("sensitive", ["diag_1", ["diag_1"], [{"columns": ["diag_1"]}], {"columns": "diag_1"}])
def test_one_column_is_a_plain_request_however_it_is_written(sensitive: Any) -> None:
    made = request(sensitive, missing=("?",), null_value="unknown")
    assert made.roles == Roles("diag_1", ("age", "sex"))
    assert (made.by_people, made.set_limits, made.limits) == (False, (), ODDS)
    assert (made.options.missing, made.options.null_value) == (("?",), "unknown")


def test_limits_and_codes_of_a_single_set_are_those_of_the_request() -> None:
    said = {"columns": ["diag_1"], "limits": {"values": {"HIV": "0.02"}}, "missing": ["?"], "groups": "icd9"}
    made = request([said])
    assert made.limits == {"odds": 8, "values": {"HIV": "0.02"}, "grouping": "icd9"}
    assert (made.by_people, made.options.missing) == (False, ("?",))


def test_a_person_makes_people_count() -> None:
    made = request("diag_1", person="patient", missing=("?",), most_rows=2)
    assert made.by_people
    assert made.roles.sets == (SensitiveSet("diag_1", ("diag_1",), None, ("?",)),)
    assert made.roles.sets[0].null_name == "missing"
    assert made.set_limits == (ODDS,)
    assert made.roles.all_identifiers == ("patient",)
    without_sets = PublishRequest(
        table=None,
        roles=Roles("diag_1", ("age", "sex"), person="patient"),
        limits=ODDS,
        options=PublishOptions(missing=("?",), most_rows=2),
    )
    assert (without_sets.roles, without_sets.set_limits) == (made.roles, made.set_limits)


def test_several_sets_have_limits_of_their_own_or_the_general_rule() -> None:
    own = {**DIAGNOSIS, "limits": {"uniform": "0.1", "values": {"HIV": "0.02"}}}
    excepted = {"columns": ["insulin"], "limits": {"values": {"Up": "0.5"}}}
    made = request([own, excepted, "readmitted"])
    assert made.by_people
    assert made.roles.sensitive == "diagnosis"
    assert made.roles.sensitive_columns == ("diag_1", "diag_2", "insulin", "readmitted")
    assert made.limits == made.set_limits[0] == own["limits"]
    assert made.set_limits[1:] == ({"odds": 8, "values": {"Up": "0.5"}}, ODDS)


def test_policies_are_filled_up_as_dicts_are() -> None:
    own = LimitPolicy.of(values={"Up": "0.5"})
    general = LimitPolicy.of(odds=8, allow_absent=True)
    first, second = request([{"columns": ["insulin"], "limits": own}, "readmitted"], general).set_limits
    assert first == LimitPolicy.of(odds=8, values={"Up": "0.5"}, allow_absent=True)
    assert second == general
    (tight, _) = request([{"columns": ["insulin"], "limits": LimitPolicy.of(uniform="1/3")}, "b"], general).set_limits
    assert isinstance(tight, LimitPolicy)
    assert (tight.uniform, tight.odds, tight.floor) == (Fraction(1, 3), None, None)


@pytest.mark.parametrize(
    ("general", "what"),
    [
        ({"HIV": "0.02"}, "single values"),
        ({"odds": 8, "values": {"HIV": "0.02"}}, "single values"),
        ({"odds": 8, "grouping": "icd9"}, "groups"),
        (LimitPolicy.of(odds=8, values={"HIV": "0.02"}), "single values"),
        (LimitPolicy.of(odds=8, grouping="icd9", groups={"001-139": "0.1"}), "groups"),
    ],
)
def test_what_names_values_is_never_general(general: Any, what: str) -> None:
    with pytest.raises(PolicyError, match=f"about {what}, and there are 2 sensitive sets") as caught:
        request(["diag_1", "insulin"], general)
    assert "diag_1:VALUE=0.02" in str(caught.value.hint)
    assert request("diag_1", general, person="patient").set_limits == (general,)


def test_general_codes_are_those_of_sets_without_their_own() -> None:
    sensitive = [{**DIAGNOSIS, "missing": ["?"]}, {"columns": ["b"], "missing": []}, "c"]
    assert [one.missing for one in request(sensitive, missing=("-9",)).roles.sets] == [("?",), (), ("-9",)]


ROLES = Roles("a", ("age", "sex"))


@pytest.mark.parametrize(
    ("sensitive", "more", "says"),
    [
        (["a", "a"], {}, "'a' is in more than one sensitive set"),
        ([{"columns": ["a", "b"], "name": "x"}, "b"], {}, "'b' is in more than one sensitive set"),
        ([{"columns": ["a", "a"], "name": "x"}], {}, "'a' has more than one role"),
        (["a", "sex"], {}, "'sex' has more than one role"),
        ("a", {"person": "age"}, "'age' has more than one role"),
        ("a", {"person": "a"}, "'a' has more than one role"),
        ([{"columns": ["a", "b"], "name": "age"}], {}, "'age' is called like a column that is not part of it"),
        ([{"columns": ["a", "b"], "name": "c"}, "c"], {}, "two sensitive sets are called 'c'"),
        ([{"columns": ["a", "b"], "name": "x"}, {"columns": ["c", "d"], "name": "x"}], {}, "two sensitive sets"),
        ([{"columns": ["a", "b"]}], {}, "a sensitive set of 2 columns has no name"),
        ([{"columns": ["a"], "name": "x"}], {}, "'a' is to be called 'x'"),
        ([{"columns": []}], {}, "has no columns"),
        ([{"colums": ["a"]}], {}, "a sensitive set has no 'colums'"),
        ([["a", "b"]], {}, "must be a name or a dict, got list"),
        ([], {}, "nothing says which column is sensitive"),
        ("a", {"most_rows": 2}, "most_rows is about people with several rows"),
        ("a", {"person": "p", "most_rows": 0}, "at least 1, got 0"),
        ("a", {"person": "p", "most_rows": True}, "at least 1, got True"),
    ],
)
def test_contradictions(sensitive: Any, more: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        request(sensitive, **more)


def test_the_person_may_be_among_the_identifiers() -> None:
    made = request("a", person="p", identifiers=("name", "p"))
    assert made.roles.all_identifiers == ("p", "name")
    names = ["p", "name", "age", "sex", "a", "patient_id"]
    assert identifying_columns(made.roles, names) == ("p", "name", "patient_id")
    check_roles(made.roles)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"engine": "spark"}, "Spark does not publish people with several rows: the rows of a person are spread"),
        ({"fake_values": 1}, "fake values are not made for people with several rows"),
        ({"not_applicable": ["N"]}, "nobody is set apart"),
        ({"format": "parts"}, "are not written in parts"),
        ({"sensitive": [{"columns": ["a"], "groups": "cuts:10"}]}, "numbers of 'a' cannot count by bands"),
    ],
)
def test_what_people_rule_out(more: dict[str, Any], says: str) -> None:
    table = pa.table({"p": [1, 1, 2], "age": [1, 2, 3], "a": ["x", "y", "z"]})
    asked: dict[str, Any] = {"sensitive": "a", "quasi_identifiers": ["age"], "person": "p", **more}
    with pytest.raises(DaleniusError, match=says):
        dalenius.publish(table, ODDS, **asked)
