"""Suggested roles, of tables as people have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.policy.roles import Role, suggest_roles
from dalenius.tables.describe import ColumnFacts, Kind, TableFacts

ROWS = 10_000


def column(name: str, distinct: int, kind: Kind = "text", nulls: int = 0) -> ColumnFacts:
    return ColumnFacts(name, "VARCHAR", kind, distinct, True, nulls)


def roles(*columns: ColumnFacts, rows: int = ROWS) -> dict[str, str]:
    return {name: str(one.role) for name, one in suggest_roles(TableFacts(rows, columns)).items()}


def test_a_hospital() -> None:
    assert roles(
        column("Name", 9_990),
        column("Gender", 2),
        column("Age", 90, "number"),
        column("Zipcode", 700, "number"),
        column("Disease", 40),
        column("Ward", 1),
    ) == {
        "Name": "identifier",
        "Gender": "quasi-identifier",
        "Age": "quasi-identifier",
        "Zipcode": "quasi-identifier",
        "Disease": "sensitive",
        "Ward": "left-out",
    }


@pytest.mark.parametrize("name", ["PatientID", "patient_id", "Patient ID", "EMAIL", "phoneNumber"])
def test_names_that_identify(name: str) -> None:
    assert roles(column(name, 6_000), column("Disease", 9))[name] == "identifier"


@pytest.mark.parametrize("name", ["Identity", "Grid", "Nameday", "width"])
def test_names_are_read_by_the_word(name: str) -> None:
    assert roles(column(name, 12), column("Disease", 9))[name] == "quasi-identifier"


def test_one_column_is_sensitive_and_disease_goes_before_income() -> None:
    found = roles(column("Income", 30), column("icd10", 300), column("Occupation", 50))
    assert [name for name, role in found.items() if role == "sensitive"] == ["icd10"]


def test_without_a_name_the_last_text_is_a_guess_that_says_so() -> None:
    columns = (column("A", 5), column("B", 7), column("C", 8, "number"))
    found = suggest_roles(TableFacts(ROWS, columns))["B"]
    assert found.role is Role.SENSITIVE
    assert "guess" in found.why


def test_a_table_of_numbers_has_no_suggested_sensitive_column() -> None:
    assert "sensitive" not in roles(column("A", 5, "number"), column("B", 7, "number")).values()


def test_nested_columns_and_free_text_are_left_out() -> None:
    found = roles(column("Visits", 50, "other"), column("Remarks", 60_000), column("Disease", 9), rows=100_000)
    assert found == {"Visits": "left-out", "Remarks": "left-out", "Disease": "sensitive"}


_columns = st.builds(
    ColumnFacts,
    name=st.sampled_from(["Age", "Name", "Disease", "income", "Zip", "HIV", "x", "Remarks", "é_id", ""]) | st.text(),
    type=st.just("VARCHAR"),
    kind=st.sampled_from(["text", "number", "date", "boolean", "other"]),
    distinct=st.integers(0, 10**6),
    distinct_is_exact=st.booleans(),
    nulls=st.integers(0, 10**6),
)


@given(st.integers(0, 10**6), st.lists(_columns, max_size=8, unique_by=lambda column: column.name))
def test_every_table_has_suggestions(rows: int, columns: list[ColumnFacts]) -> None:
    found = suggest_roles(TableFacts(rows, tuple(columns)))
    assert list(found) == [column.name for column in columns]
    assert sum(one.role is Role.SENSITIVE for one in found.values()) <= 1
    for column in columns:
        one = found[column.name]
        assert one.why.endswith(".")
        if column.kind == "other" or column.distinct <= 1:
            assert one.role is Role.LEFT_OUT
        if one.role is Role.SENSITIVE:
            assert 2 <= column.distinct <= 5000


def test_nulls_do_not_make_a_column_look_less_unique() -> None:
    assert roles(column("Code", 4_000, nulls=6_000), column("Disease", 9))["Code"] == "identifier"
