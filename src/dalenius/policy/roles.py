"""The roles of columns, and a guess at them from names and counts, for a person to confirm.

A guess never looks at cells: it rests on what the name looks like and on how many different values there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from dalenius.tables.describe import ColumnFacts, TableFacts

_IDENTIFYING = """
    name names surname firstname lastname fullname id ids identifier uuid guid ssn nino passport licence license
    email mail phone telephone mobile fax address street iban account nr number mrn record encounter nbr url ip
    username login
"""
_SENSITIVE = """
    disease diseases diagnosis diagnoses diag icd icd9 icd10 condition illness disorder hiv medication drug treatment
    religion orientation ethnicity crime offence conviction income salary wage wages earnings debt disability
    occupation profession job class
"""  # the first that a table has is the likeliest to be meant
_FEW_ROWS = 20  # in which every column looks unique
_NEARLY_UNIQUE = 0.9
_MOST_SENSITIVE = 5_000
_MOST_GUESSED = 1_000
_MOST_TEXTS = 10_000  # different texts of a quasi-identifier
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")


class Role(StrEnum):
    """What a column is for."""

    SENSITIVE = "sensitive"
    QUASI_IDENTIFIER = "quasi-identifier"
    IDENTIFIER = "identifier"
    LEFT_OUT = "left-out"


@dataclass(frozen=True)
class Roles:
    """The roles of the columns. Columns without a role are not published."""

    sensitive: str
    quasi_identifiers: tuple[str, ...]
    identifiers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suggestion:
    """A role, and one sentence why."""

    role: Role
    why: str


def suggest_roles(facts: TableFacts) -> dict[str, Suggestion]:
    """A role for each column, by name; at most one of them is sensitive."""
    suggestions = {column.name: _suggest_alone(column, facts.rows) for column in facts.columns}
    sensitive = _find_sensitive(facts, suggestions)
    if sensitive is not None:
        suggestions[sensitive[0].name] = sensitive[1]
    return suggestions


def _suggest_alone(column: ColumnFacts, rows: int) -> Suggestion:
    """A role for a column by itself, if it is not the sensitive one."""
    if column.kind == "other":
        return Suggestion(Role.LEFT_OUT, "Its values are not single values.")
    if column.distinct <= 1:
        return Suggestion(Role.LEFT_OUT, "It has the same value everywhere." if column.distinct else "It is empty.")
    there = rows - column.nulls
    unique = there > _FEW_ROWS and column.distinct >= _NEARLY_UNIQUE * there
    if unique and (column.kind != "number" or _identifies(column) or column.distinct_is_exact):
        return Suggestion(Role.IDENTIFIER, "Nearly every record has a value of its own.")
    if _identifies(column) and column.distinct > there / 20:
        return Suggestion(Role.IDENTIFIER, "Its name sounds like one that identifies people.")
    if column.kind == "text" and column.distinct > _MOST_TEXTS:
        return Suggestion(Role.LEFT_OUT, f"It has {column.distinct:,} different texts.")
    return Suggestion(Role.QUASI_IDENTIFIER, "Others may know it, and analysts may ask for it.")


def _find_sensitive(facts: TableFacts, alone: dict[str, Suggestion]) -> tuple[ColumnFacts, Suggestion] | None:
    """The column that is likeliest to be sensitive, by its name, or, as a guess, the last one that could be."""
    possible = [
        column
        for column in facts.columns
        if 2 <= column.distinct <= _MOST_SENSITIVE and alone[column.name].role is not Role.IDENTIFIER
        if column.kind != "other"
    ]
    for word in _SENSITIVE.split():
        for column in possible:
            if word in _words(column.name):
                return column, Suggestion(Role.SENSITIVE, "Its name sounds like something people keep to themselves.")
    texts = [column for column in possible if column.kind == "text" and 3 <= column.distinct <= _MOST_GUESSED]
    if not texts:
        return None
    return texts[-1], Suggestion(Role.SENSITIVE, "A guess: no name says which column is sensitive.")


def _identifies(column: ColumnFacts) -> bool:
    return not _words(column.name).isdisjoint(_IDENTIFYING.split())


def _words(name: str) -> set[str]:
    """The words of a name: PatientID, patient_id and "Patient ID" have the same."""
    return {word.lower() for word in _WORDS.findall(name)} | {name.lower()}
