"""What a condition on columns that are kept together leaves open in each bucket, as SQL: a factor (`people_factors`).

The release says which values are in one row. Where people have one row each, a line is a person: what is asked is
counted, and nothing is open. So it is for rows: every row has one tuple, and what is open is which rows are of one
person, if several tuples meet the condition.

A person with several rows meets several parts if some row meets each, and it need not be the same row. Then the parts
leave open what they would leave open apart, but for two things. Whoever has a tuple that meets all parts meets them: of
the lines of one tuple each is another person, and of the lines of all such tuples, with W rows together, at least W / R
people have one. And a part that ties columns to each other is about a row, like a part on quasi-identifiers.
"""

from __future__ import annotations

from collections.abc import Sequence

from dalenius.query.people_tables import TupleLines


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


def people_with_tuples(one: TupleLines, condition: str, parts: Sequence[str], by: Sequence[str]) -> str:
    """The factor of people with several rows. `parts` are the factors of the parts, and `condition` is all of them.

    `by` are the columns by which there are groups; each is in one of the parts.
    """
    keys = ", ".join(["b", *by])
    names = [f"p{i}" for i in range(len(parts))]
    joined = " ".join(f"JOIN ({part}) AS {name} USING (b)" for part, name in zip(parts, names, strict=True))
    low = f"greatest(0, {' + '.join(f'{name}.low' for name in names)} - {len(names) - 1} * people)"
    mean = " * ".join([f"{names[0]}.total", *(f"({name}.total / people)" for name in names[1:])])
    same = f"""SELECT {keys}, sum(h) AS lines, greatest(max(h), ceil(sum(w) / any_value(each))) AS least,
            product(1 - h / people) AS none
        FROM (SELECT b, people, each, {one.column}, count(*) AS h, sum(r) AS w
              FROM {one.lines} JOIN sizes USING (b) WHERE {condition} GROUP BY b, people, each, {one.column})
        GROUP BY {keys}"""  # noqa: S608
    matched = " AND ".join(f"same.{name} IS NOT DISTINCT FROM grouped.{name}" for name in ["b", *by])
    high = ", ".join(f"{name}.high" for name in names)
    grouped = f"""SELECT {keys}, people, each, {low} AS low, least({high}) AS high,
            {mean} AS apart FROM sizes {joined}"""  # noqa: S608
    at_least = f"""SELECT {", ".join(f"grouped.{name}" for name in ["b", *by])}, people, each, high, apart,
            CASE WHEN each = 1 THEN coalesce(lines, 0) ELSE greatest(low, coalesce(least, 0)) END AS low,
            coalesce(lines, 0) AS lines, people * (1 - coalesce(none, 1)) AS with_tuple
        FROM ({grouped}) AS grouped LEFT JOIN ({same}) AS same ON {matched}"""  # noqa: S608
    bounded = f"""SELECT * REPLACE (CASE WHEN each = 1 THEN lines ELSE high END AS high),
            CASE WHEN each = 1 THEN lines ELSE least(greatest(apart, with_tuple, low), high) END AS mean
        FROM ({at_least})"""  # noqa: S608
    known = f"SELECT *, least((high - low)**2 / 4, mean * greatest(0, 1 - mean / people)) AS variance FROM ({bounded})"  # noqa: S608
    return f"""SELECT {keys}, CAST(mean AS DOUBLE) AS total,
            greatest(0, variance + CAST(mean AS DOUBLE)**2 - mean) AS others, 0.0 AS own,
            CAST(low AS BIGINT) AS low, CAST(high AS BIGINT) AS high, (each = 1 OR low = high) AS tight,
            CAST(NULL AS BIGINT[]) AS each_has
        FROM ({known})"""  # noqa: S608
