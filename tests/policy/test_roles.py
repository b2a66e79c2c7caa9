"""Suggested roles, of tables as people have them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.policy.roles import Role, Roles, identifying_columns, repeats, suggest_roles
from dalenius.tables.describe import ColumnFacts, Kind, TableFacts

ROWS = 10_000
_KNOWN = """
    age Sex GENDER race zip Postcode region state native_country education education_num marital-status birth_date
    DateOfBirth workclass WorkClass Geschlecht Alter PLZ hospital admission_type_id hours_per_week AGEP RAC1P SCHL
    medical_specialty payer_code time_in_hospital
"""
_PRIVATE = """
    diag_1 diag_2 Diagnosis2 icd10 ICD_code condition chapter drg insulin metformin glyburide-metformin atorvastatin
    amoxicillin medication DrugName prescription dose A1Cresult max_glu_serum glucose readmitted died outcome
    discharge_disposition_id lab_result income salary capital_gain num_medications number_diagnoses diabetesMed HIV
"""
_CLINIC = "race gender age admission_type_id admission_source_id time_in_hospital payer_code"
_CLINICAL = "diag_1 diag_2 diag_3 insulin metformin glipizide max_glu_serum A1Cresult diabetesMed readmitted"
_CENSUS = "age workclass education marital_status occupation relationship race sex native_country"


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
    assert roles(column(name, 9_900), column("Disease", 9))[name] == "identifier"


def test_one_column_says_whose_row_it_is_if_its_entries_repeat() -> None:
    found = suggest_roles(
        TableFacts(ROWS, (column("Disease", 9), column("visit_id", ROWS), column("patient_id", 6_000)))
    )
    assert found["patient_id"].role is Role.PERSON
    assert "6,000 people in 10,000 rows" in found["patient_id"].why
    assert found["visit_id"].role is Role.IDENTIFIER
    two = roles(column("Disease", 9), column("staff_id", 5_000), column("patient_id", 6_000))
    assert (two["patient_id"], two["staff_id"]) == ("person", "identifier")
    # nobody is called like a number, few people have fifty rows each, and people share names
    for name, different in (("patient_id", 9_900), ("patient_id", 150), ("email", 6_000), ("surname", 6_000)):
        assert "person" not in roles(column("Disease", 9), column(name, different)).values()
    facts = replace(column("patient_id", 6_000), nulls=3)  # whose rows are these?
    assert "person" not in roles(column("Disease", 9), facts).values()


@pytest.mark.parametrize(
    ("name", "different", "wanted"),
    [("mrn", 6_000, True), ("Name", 6_000, True), ("mrn", 9_900, False), ("surname", 6_000, False), ("Age", 90, False)],
)
def test_identifiers_that_repeat(name: str, different: int, wanted: bool) -> None:
    assert repeats(column(name, different), ROWS) is wanted


@pytest.mark.parametrize("name", ["Identity", "Grid", "Nameday", "width"])
def test_names_are_read_by_the_word(name: str) -> None:
    assert roles(column(name, 6_000), column("Disease", 9))[name] == "left-out"


def test_what_nobody_knows_is_left_out_and_says_so() -> None:
    found = suggest_roles(TableFacts(ROWS, (column("fnlwgt", 5_000, "number"), column("q17", 3), column("Flu", 2))))
    assert found["fnlwgt"].role is Role.LEFT_OUT
    assert "left out unless you give it a role" in found["fnlwgt"].why


@pytest.mark.parametrize(
    "name",
    _KNOWN.split(),
)
def test_what_others_know(name: str) -> None:
    assert roles(column(name, 12), column("Disease", 9))[name] == "quasi-identifier"


@pytest.mark.parametrize(
    "name",
    _PRIVATE.split(),
)
def test_what_looks_sensitive_is_never_published_as_it_is(name: str) -> None:
    """It is the sensitive column, or, beside a better one, it is left out and says why."""
    assert roles(column("Age", 90), column(name, 12))[name] == "sensitive"
    beside = suggest_roles(TableFacts(ROWS, (column("Disease", 9), column(name, 12))))[name]
    assert beside.role is Role.LEFT_OUT
    assert "looks sensitive too" in beside.why


def test_a_clinic_of_many_columns() -> None:
    quasi_identifiers = _CLINIC.split()
    sensitive = _CLINICAL.split()
    found = roles(
        column("encounter_id", ROWS),
        column("patient_nbr", 7_000),
        column("weight", 10),
        *(column(name, 8) for name in quasi_identifiers),
        column("number_diagnoses", 16, "number"),
        *(column(name, 4) for name in sensitive),
        column("change", 2),
    )
    assert {name for name, role in found.items() if role == "quasi-identifier"} == set(quasi_identifiers)
    assert {name for name, role in found.items() if role == "identifier"} == {"encounter_id"}
    assert found["patient_nbr"] == "person"
    assert found["diag_1"] == "sensitive"


def test_a_census() -> None:
    known = _CENSUS.split()
    others = [column("fnlwgt", 5_000, "number"), column("capital_gain", 100, "number"), column("split", 2)]
    found = roles(*(column(name, 9) for name in known), *others, column("income", 2))
    assert {name for name, role in found.items() if role == "quasi-identifier"} == set(known)
    assert found["income"] == "sensitive"
    assert {found[one.name] for one in others} == {"left-out"}
    found = roles(column("Age", 70), column("WorkClass", 8), column("Occupation", 50))
    assert found == {"Age": "quasi-identifier", "WorkClass": "quasi-identifier", "Occupation": "sensitive"}


def test_columns_that_may_stand_for_people() -> None:
    names = ["Age", "patient_nbr", "Disease", "visit_id", "admission_type_id", "Name", "diagnosis_id"]
    assert identifying_columns(Roles("Disease", ("Age",), ("Name",)), names) == ("Name", "patient_nbr")
    assert identifying_columns(Roles("Disease", ("Age", "patient_nbr")), names) == ("Name",)
    many = [f"id {number}" for number in range(50)]
    assert len(identifying_columns(Roles("Disease", ("Age",)), many)) == 4


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
