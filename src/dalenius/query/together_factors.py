"""What a condition on columns that are kept together leaves open in each bucket, as SQL: a factor (`people_factors`).

The release says which values are in one row. Where people have one row each, a line is a person: what is asked is
counted, and nothing is open. So it is for rows: every row has one tuple, and what is open is which rows are of one
person, if several tuples meet the condition.

A person with several rows meets several parts if some row meets each, and it need not be the same row. Then the parts
leave open what they would leave open apart, but for two things. Whoever has a tuple that meets all parts meets them: of
the lines of one tuple each is another person, and of the lines of all such tuples, with W rows together, at least W / R
people have one. And of two parts, whoever meets both, but in no row both, has a line that meets one of them alone and a
line that meets the other alone, neither of them about all rows: so they are no more than the fewer of these lines. A
part that ties columns to each other is about a row, like a part on quasi-identifiers.

In between, people have a tuple that meets both as if lines of different tuples were dealt independently; and with M
lines that are not about all rows, of M' people, two of them are of one person with (M / M' - 1) / (M - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dalenius.query.people_views import TupleLines

_SIDES = ("one", "other")  # what two parts are called


def tuples_of_rows(one: TupleLines, condition: str, by: Sequence[str]) -> str:
    """The factor of a condition on a row's values, for rows or people with one row each; `by` are some of its columns.

    Of several tuples it is not known which lines are one person's: pairs of rows are estimated as for several values.
    """
    keys = ", ".join(["b", *by])
    kinds = f"""SELECT b, people, each, {one.column}, count(*) AS h, sum(r) AS w, sum(r * r) AS q,
            coalesce(bool_or({condition}), FALSE) AS m, list(r) AS rs
        FROM {one.lines} JOIN sizes USING (b) GROUP BY b, people, each, {one.column}"""  # noqa: S608
    sums = f"""SELECT {keys}, people, each, count(*) FILTER (WHERE m) AS kinds, any_value(rs) FILTER (WHERE m) AS rs,
            coalesce(sum(w) FILTER (WHERE m), 0) AS w, coalesce(sum(q) FILTER (WHERE m), 0) AS q,
            coalesce(sum(w * w) FILTER (WHERE m), 0) AS squares
        FROM ({kinds}) GROUP BY {keys}, people, each"""  # noqa: S608
    of_one = "(q + (w::DOUBLE**2 - squares) / people) / greatest(w, 1)"
    own = f"(CASE WHEN kinds <= 1 THEN q ELSE least(greatest({of_one} * w, w, w::DOUBLE**2 / people), each * w) END)"
    listed = "kinds <= 1 AND each > 1"
    return f"""SELECT {keys}, CAST(w AS DOUBLE) AS total, greatest(0, CAST(w AS DOUBLE)**2 - {own}) AS others,
            CAST({own} - w AS DOUBLE) AS own, CAST(w AS BIGINT) AS low, CAST(w AS BIGINT) AS high,
            (kinds <= 1 OR each = 1) AS tight,
            CASE WHEN {listed} THEN list_reverse_sort(coalesce(rs, [])) ELSE CAST(NULL AS BIGINT[]) END AS each_has
        FROM ({sums})"""  # noqa: S608


@dataclass(frozen=True)
class TuplePart:
    """A part of a condition on columns that are kept together: its factor, its SQL, and its columns with groups."""

    factor: str
    condition: str
    by: Sequence[str] = ()


def people_with_tuples(one: TupleLines, parts: Sequence[TuplePart]) -> str:
    """The factor of people, who may have several rows, and who meet all of some parts."""
    by = [column for part in parts for column in part.by]
    keys = ", ".join(["b", *by])
    names = [f"p{i}" for i in range(len(parts))]
    joined = " ".join(f"JOIN ({part.factor}) AS {name} USING (b)" for part, name in zip(parts, names, strict=True))
    low = f"greatest(0, {' + '.join(f'{name}.low' for name in names)} - {len(names) - 1} * people)"
    mean = " * ".join([f"{names[0]}.total", *(f"({name}.total / people)" for name in names[1:])])
    every = " AND ".join(f"({part.condition})" for part in parts)
    same = f"""SELECT {keys}, sum(h) AS lines, sum(partial) AS partial,
            greatest(max(h), ceil(sum(w) / any_value(each))) AS least, product(1 - h / people) AS none
        FROM (SELECT b, people, each, {one.column}, count(*) AS h, sum(r) AS w, count(*) FILTER (r < each) AS partial
              FROM {one.lines} JOIN sizes USING (b) WHERE {every} GROUP BY b, people, each, {one.column})
        GROUP BY {keys}"""  # noqa: S608
    high = ", ".join(f"{name}.high" for name in names)
    grouped = f"""SELECT {keys}, people, each, {low} AS low, least({high}) AS high, {mean} AS apart
        FROM sizes {joined}"""  # noqa: S608
    others = ""
    first = second = both = "NULL"
    if len(parts) == 2:  # whoever meets both parts, and in no row both, has a line for each of them alone
        others = f"""LEFT JOIN (SELECT b, count(*) FILTER (r < each) AS open, any_value(people) - count(*)
                FILTER (r = each) AS room FROM {one.lines} JOIN sizes USING (b) GROUP BY b) AS whole
            ON whole.b = grouped.b {_of_part(one, parts[0], "one")} {_of_part(one, parts[1], "other")}"""  # noqa: S608
        first, second = (f"greatest(0, coalesce({side}.partial, 0) - coalesce(same.partial, 0))" for side in _SIDES)
        both = f"{first} * {second} * greatest(0, open / greatest(room, 1) - 1) / greatest(open - 1, 1)"
    known = f"""SELECT {", ".join(f"grouped.{name}" for name in ["b", *by])}, people, each, apart,
            coalesce(lines, 0) AS lines, people * (1 - coalesce(none, 1)) AS with_tuple, {both} AS in_two_rows,
            greatest(low, coalesce(least, 0)) AS low, least(high, coalesce(lines, 0) + least({first}, {second})) AS high
        FROM ({grouped}) AS grouped LEFT JOIN ({same}) AS same ON {_alike("same", "grouped", ["b", *by])}
        {others}"""  # noqa: S608
    several = "coalesce(with_tuple + in_two_rows * (1 - with_tuple / people), greatest(apart, with_tuple))"
    settled = f"""SELECT {keys}, people, each, CASE WHEN each = 1 THEN lines ELSE low END AS low,
            CASE WHEN each = 1 THEN lines ELSE high END AS high,
            CASE WHEN each = 1 THEN lines ELSE least(greatest({several}, low), high) END AS mean
        FROM ({known})"""  # noqa: S608
    spread = "least((high - low)**2 / 4, mean * greatest(0, 1 - mean / people))"
    return f"""SELECT {keys}, CAST(mean AS DOUBLE) AS total,
            greatest(0, {spread} + CAST(mean AS DOUBLE)**2 - mean) AS others, 0.0 AS own,
            CAST(low AS BIGINT) AS low, CAST(high AS BIGINT) AS high, (each = 1 OR low = high) AS tight,
            CAST(NULL AS BIGINT[]) AS each_has
        FROM ({settled})"""  # noqa: S608


def _of_part(one: TupleLines, part: TuplePart, name: str) -> str:
    """The lines that meet a part and are not about all rows of their person, by the part's columns with groups."""
    keys = ["b", *part.by]
    return f"""LEFT JOIN (SELECT {", ".join(keys)}, count(*) AS partial FROM {one.lines} JOIN sizes USING (b)
            WHERE r < each AND ({part.condition}) GROUP BY {", ".join(keys)}) AS {name}
        ON {_alike(name, "grouped", keys)}"""  # noqa: S608


def _alike(one: str, other: str, columns: Sequence[str]) -> str:
    return " AND ".join(f"{one}.{column} IS NOT DISTINCT FROM {other}.{column}" for column in columns)
