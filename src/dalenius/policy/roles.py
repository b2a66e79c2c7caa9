"""The roles of columns, and a guess at them from names and counts, for a person to confirm.

A guess never looks at cells: it rests on what the name looks like and on how many different values there are. What
nobody knows by its name is left out. What looks like a diagnosis, a medicine or an outcome is sensitive. One such
column is suggested, and the others are left out: they are never suggested for publication as they are. A column that
looks like what identifies one person, and repeats, says whose row it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from dalenius.errors import UsageError
from dalenius.model.problem import name_of_nulls
from dalenius.policy.together import in_order, places_of

if TYPE_CHECKING:
    from dalenius.tables.describe import ColumnFacts, TableFacts

_IDENTIFYING = """
    name names surname firstname lastname fullname id ids identifier uuid guid ssn nino passport licence license
    email mail phone telephone mobile fax address street iban account nr number mrn record encounter nbr url ip
    username login
"""
_OF_ONE_PERSON = """
    id identifier uuid guid ssn nino passport email mail mrn nbr name fullname username login patient person
"""
_NUMBERS_OF_PEOPLE = "id identifier uuid guid ssn nino passport mrn nbr patient person"  # two people share a name
_SHARED = "surname firstname lastname first last given family street address fax phone url ip"
_SENSITIVE = """
    disease diseases krankheit maladie enfermedad diagnosis diagnoses diagnose icd chapter condition illness disorder
    hiv cancer tumor drg religion orientation crime offence offense conviction income pincp einkommen revenu salary
    gehalt wage wages earnings debt loan credit disability readmitted outcome mortality died dead death deceased
    survival discharge disposition treatment therapy medication medications drug drugs prescription dose insulin meds
    med diabetes diabetesmed glucose glu serum a1c result results lab labs cholesterol bmi pregnant pregnancy procedure
    procedures gain loss
"""  # the first that a table has is the likeliest to be meant
_SENSITIVE_STEMS = re.compile(r"(diag(?!o$|on)|icd\d|dx\d*$|a1c|hba1c|gluc|medicat|medicin|prescri|readmi)")
_MEDICINES = re.compile(  # endings of their common names
    r"gl[iy]\w+ide|\w+(formin|glinide|glipt[io]n|gliflozin|glitazone|glutide|amide|carbose|glitol|statin|sartan|"
    r"prazole|azepam|zolam|cillin|mycin|floxacin|oxetine|conazole|[ao]vir|umab|imab|tinib|olol|dipine|codone|morphine|"
    r"heparin)"
)
_SENSITIVE_OR_KNOWN = "occupation occp profession beruf job class"  # sensitive where nothing else is
_KNOWN_TO_OTHERS = """
    age ages agep alter edad sex gender geschlecht sexe sexo race rac1p ethnicity ethnic hispanic nationality
    citizenship native country land pays pais birth birthplace born pobp dob birthday birthdate birthyear zip zipcode
    postcode postal postleitzahl plz region state st province county city town municipality district area location
    place ort kanton gemeinde education schooling school schl edu bildung degree marital mar married familienstand
    relationship relp household children kids occupation occp profession beruf job work workclass cow employment
    employer industry sector hours wkhp hospital ward clinic department specialty admission admitted visit payer
    insurance insurer date year month day week quarter time language height
"""
_HOW_MANY = "num number count anzahl nombre"  # number_diagnoses is about diagnoses, not one of them
_FEW_ROWS = 20  # in which every column looks unique
_NEARLY_UNIQUE = 0.9
_NEARLY_ALL = 0.98
_MOST_SUSPECTS = 4
_MOST_SENSITIVE = 5_000
_MOST_GUESSED = 1_000
_MOST_TEXTS = 10_000  # different texts of a quasi-identifier
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_UNKNOWN = "Nobody knows from its name what it is: it is left out unless you give it a role."
_TOO = "It looks sensitive too. It is left out unless you make it sensitive as well."
_ROWS_A_PERSON = 50  # on average, at most


class Role(StrEnum):
    """What a column is for."""

    SENSITIVE = "sensitive"
    QUASI_IDENTIFIER = "quasi-identifier"
    IDENTIFIER = "identifier"
    PERSON = "person"
    LEFT_OUT = "left-out"


@dataclass(frozen=True)
class SensitiveSet:
    """One or more columns of one kind, which are sensitive: whoever has a value in any of them has it.

    A plain sensitive column is a set of one column, and has its name. Nulls count as `null_value`, and so do the texts
    that are `missing`.
    """

    name: str
    columns: tuple[str, ...]
    null_value: str | None = None
    missing: tuple[str, ...] = ()

    @property
    def null_name(self) -> str | None:
        """The name under which nulls count, and the texts that are `missing`."""
        return name_of_nulls(self.null_value, self.missing)


@dataclass(frozen=True)
class Roles:
    """The roles of the columns. Columns without a role are not published.

    `sensitive` is the name of the first of the sensitive `sets`; without any, it is the only sensitive column. Rows
    with the same value of `person` are about one person. That column identifies people, and is never published.
    Values of columns that are in one of the lists of `keep_together` are published as tuples, too.
    """

    sensitive: str
    quasi_identifiers: tuple[str, ...]
    identifiers: tuple[str, ...] = ()
    person: str | None = None
    sets: tuple[SensitiveSet, ...] = ()
    keep_together: tuple[tuple[str, ...], ...] = ()

    @property
    def all_sets(self) -> tuple[SensitiveSet, ...]:
        """The sensitive sets, of which a plain request has one."""
        return self.sets or (SensitiveSet(self.sensitive, (self.sensitive,)),)

    @property
    def together(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the sensitive sets that are kept together, list by list, in their order."""
        return places_of(in_order(self.keep_together, self.all_sets), self.all_sets)

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """The columns of the table that any of the sets is made of."""
        return tuple(column for one in self.all_sets for column in one.columns)

    @property
    def all_identifiers(self) -> tuple[str, ...]:
        """The columns that are never published: that of the person, if there is one, comes first."""
        named = () if self.person is None else (self.person,)
        return tuple(dict.fromkeys([*named, *self.identifiers]))

    @property
    def by_people(self) -> bool:
        """Whether a person may have several rows or several sensitive values, so that rows alone do not count."""
        return self.person is not None or len(self.sensitive_columns) > 1


def check_roles(roles: Roles) -> None:
    """An error if a column has two roles, or a set a name that says something else."""
    if not roles.quasi_identifiers:
        raise UsageError("no quasi-identifiers are named", "Say which columns to publish beside the sensitive one.")
    named = [*roles.quasi_identifiers, *roles.sensitive_columns, *roles.identifiers]
    if roles.person is not None and roles.person not in roles.identifiers:
        named.append(roles.person)
    if not all(isinstance(name, str) and name for name in named):
        raise UsageError("column names must be text")
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        where = sum(twice in one.columns for one in roles.all_sets)
        what = "is in more than one sensitive set" if where > 1 else "has more than one role"
        raise UsageError(f"the column {twice!r} {what}", "Name each column once.")
    check_sets(roles)
    in_order(roles.keep_together, roles.all_sets)


def check_sets(roles: Roles) -> None:
    """An error if a sensitive set is not whole, or called like something else."""
    sets = roles.all_sets
    names = [one.name for one in sets]
    if roles.sensitive != names[0]:
        raise UsageError(f"the first sensitive set is {names[0]!r}, and not {roles.sensitive!r}")
    for one in sets:
        check_set(one)
        if names.count(one.name) > 1:
            raise UsageError(f"two sensitive sets are called {one.name!r}", "Give each a name of its own.")
        others = [*roles.quasi_identifiers, *roles.all_identifiers]
        others += [column for other in sets if other is not one for column in other.columns]
        if one.name in others:
            raise UsageError(
                f"the sensitive set {one.name!r} is called like a column that is not part of it",
                "Give it another name.",
            )


def check_set(one: SensitiveSet) -> None:
    """An error if a set has no columns or no name, or one that hides which column it is."""
    if not one.columns:
        raise UsageError(f"the sensitive set {one.name!r} has no columns", "Name at least one.")
    if not isinstance(one.name, str) or not one.name:
        raise UsageError(
            f"a sensitive set of {len(one.columns)} columns has no name", "Name it: diagnosis=diag_1,diag_2."
        )
    if len(one.columns) == 1 and one.columns != (one.name,):
        raise UsageError(
            f"the sensitive column {one.columns[0]!r} is to be called {one.name!r}",
            "A set of one column has the name of its column: leave the other name out. "
            "(On the command line, put a column with = in its name in double quotes.)",
        )


@dataclass(frozen=True)
class Suggestion:
    """A role, and one sentence why."""

    role: Role
    why: str


def suggest_roles(facts: TableFacts) -> dict[str, Suggestion]:
    """A role for each column, by name; at most one of them is sensitive, and at most one says whose row it is."""
    suggestions = {column.name: _suggest_alone(column, facts.rows) for column in facts.columns}
    person = min((one for one in facts.columns if _is_of_people(one, facts.rows)), key=_person_rank, default=None)
    if person is not None:
        suggestions[person.name] = Suggestion(Role.PERSON, _of_people(person, facts.rows))
    sensitive = _find_sensitive(facts, suggestions)
    if sensitive is not None:
        suggestions[sensitive[0].name] = sensitive[1]
    return suggestions


def repeats(column: ColumnFacts, rows: int) -> bool:
    """Whether what looks like an identifier has fewer entries than there are rows, clearly."""
    there = rows - column.nulls
    says_a_person = not _words(column.name).isdisjoint(_OF_ONE_PERSON.split()) and may_be_a_person(column.name)
    return says_a_person and there > _FEW_ROWS and 1 < column.distinct < _NEARLY_ALL * there


def _is_of_people(column: ColumnFacts, rows: int) -> bool:
    """Whether a column looks as if its repeats say whose row it is: it has a place for everybody, and many people."""
    words = _words(column.name)
    is_whole = repeats(column, rows) and column.nulls == 0 and column.kind in ("text", "number")
    numbers = not words.isdisjoint(_NUMBERS_OF_PEOPLE.split()) and _may_identify(words)
    return is_whole and numbers and column.distinct * _ROWS_A_PERSON >= rows


def _person_rank(column: ColumnFacts) -> tuple[bool, int]:
    return not says_a_person(column.name), -column.distinct


def says_a_person(name: str) -> bool:
    """Whether the name of a column says that its entries are of people, and not of visits or houses."""
    return not _words(name).isdisjoint(("patient", "person", "mrn", "ssn"))


def _of_people(column: ColumnFacts, rows: int) -> str:
    about = "" if column.distinct_is_exact else "about "
    return f"{about}{column.distinct:,} people in {rows:,} rows, if its repeats say whose row it is."


def identifying_columns(roles: Roles, names: Sequence[str]) -> tuple[str, ...]:
    """The identifiers, and the first few columns without a role whose entries may stand for one person each."""
    used = (*roles.sensitive_columns, *roles.quasi_identifiers, *roles.all_identifiers)
    unused = [name for name in names if name not in used]
    return (*roles.all_identifiers, *[name for name in unused if _may_identify(_words(name))][:_MOST_SUSPECTS])


def may_be_a_person(name: str) -> bool:
    """Whether people of different names would have different entries in an identifying column: not in a street."""
    return _words(name).isdisjoint(_SHARED.split())


def _may_identify(words: set[str]) -> bool:
    says_more = not words.isdisjoint(_KNOWN_TO_OTHERS.split()) or _looks_sensitive(words)  # admission_type_id
    return not words.isdisjoint(_OF_ONE_PERSON.split()) and not says_more


def _suggest_alone(column: ColumnFacts, rows: int) -> Suggestion:
    """A role for a column by itself, if it is not the sensitive one."""
    if column.kind == "other":
        return Suggestion(Role.LEFT_OUT, "Its values are not single values.")
    if column.distinct <= 1:
        return Suggestion(Role.LEFT_OUT, "It has the same value everywhere." if column.distinct else "It is empty.")
    there = rows - column.nulls
    words = _words(column.name)
    identifies = not words.isdisjoint(_IDENTIFYING.split())
    unique = there > _FEW_ROWS and column.distinct >= _NEARLY_UNIQUE * there
    if unique and (column.kind != "number" or identifies or column.distinct_is_exact):
        return Suggestion(Role.IDENTIFIER, "Nearly every record has a value of its own.")
    if identifies and column.distinct > there / 20:
        return Suggestion(Role.IDENTIFIER, "Its name sounds like one that identifies people.")
    if column.kind == "text" and column.distinct > _MOST_TEXTS:
        return Suggestion(Role.LEFT_OUT, f"It has {column.distinct:,} different texts.")
    if _looks_sensitive(words):
        return Suggestion(Role.LEFT_OUT, _TOO)
    if not words.isdisjoint(_KNOWN_TO_OTHERS.split()):
        return Suggestion(Role.QUASI_IDENTIFIER, "Others may know it, and analysts may ask for it.")
    return Suggestion(Role.LEFT_OUT, _UNKNOWN)


def _find_sensitive(facts: TableFacts, alone: dict[str, Suggestion]) -> tuple[ColumnFacts, Suggestion] | None:
    """The column that is likeliest to be sensitive, by its name, or, as a guess, the last text that nobody knows."""
    possible = [
        column
        for column in facts.columns
        if 2 <= column.distinct <= _MOST_SENSITIVE and alone[column.name].role is not Role.IDENTIFIER
        if column.kind != "other"
    ]
    ranked = [(rank, column) for column in possible if (rank := _sensitivity(_words(column.name))) is not None]
    if ranked:
        _, best = min(ranked, key=lambda one: one[0])
        return best, Suggestion(Role.SENSITIVE, "Its name sounds like something people keep to themselves.")
    unknown = [column for column in possible if alone[column.name].why == _UNKNOWN]
    texts = [column for column in unknown if column.kind == "text" and 3 <= column.distinct <= _MOST_GUESSED]
    if not texts:
        return None
    return texts[-1], Suggestion(Role.SENSITIVE, "A guess: no name says which column is sensitive.")


def _sensitivity(words: set[str]) -> tuple[int, int] | None:
    """How likely a column is the sensitive one, the likeliest first; None if its name does not say so."""
    known = _SENSITIVE.split()
    ranks = [known.index(word) for word in words if word in known]
    if any(_SENSITIVE_STEMS.match(word) for word in words):
        ranks.append(known.index("icd"))
    if any(_MEDICINES.fullmatch(word) for word in words):
        ranks.append(known.index("insulin"))
    if ranks:
        return int(not words.isdisjoint(_HOW_MANY.split())), min(ranks)
    weak = [place for place, word in enumerate(_SENSITIVE_OR_KNOWN.split()) if word in words]
    is_work_class = "class" in words and not words.isdisjoint(_KNOWN_TO_OTHERS.split())
    return (2, min(weak)) if weak and not is_work_class else None


def _looks_sensitive(words: set[str]) -> bool:
    """Whether a name is that of something that is nobody's business, and not also known to others."""
    rank = _sensitivity(words)
    return rank is not None and rank[0] < 2


def _words(name: str) -> set[str]:
    """The words of a name: PatientID, patient_id and "Patient ID" have the same."""
    return {word.lower() for word in _WORDS.findall(name)} | {name.lower()}
