"""What the parts of a condition leave open in each bucket, as SQL: how many people or rows meet one part.

A bucket has P people with R rows each. A part of a condition is on quasi-identifiers, or on one sensitive column.
Person i meets it in w_i rows; where people are counted, w_i is 1 if they meet it in any row, and 0 if not. A *factor*
is one line for every bucket (and group), with

    total       W = sum of w_i, as it is expected
    others      W² - sum of w_i², as it is expected: pairs of units of different people that both meet it
    own         sum of w_i² - W: the same for different rows of one person; 0 where people are counted
    low, high   between which W certainly lies
    tight       whether both can be, and (of rows) how the w_i are distributed is known
    each_has    the w_i above 0, in descending order, where rows are counted, R > 1 and they are known; else null

For quasi-identifiers all of it is certain. ST has a line for every person and value, and does not say which lines are
of one person. So it is certain for one value. For several values of which a person can have several, let h_v be the
lines of value v; M are the values that meet the part, with m lines and W_M rows, and N are the others. People with one
of M number at most min(P, m), and at least max h_v. Also:

- One column. A line with all R rows is a person who has no other line: these are taken out first. Of the others, each
  has at least two lines and R rows: at least W_M / R of them have one of M, at most W_N / R have none, and at most
  n - max h_u of the n lines of N are all that somebody has, for every u in N. With R = 2 (people are pairs of lines)
  these bounds are attained: any such number of pairs is one of a matching in a complete multipartite graph.
- k columns. Everybody has 1 to k R cells. If R = 1, everybody without M has a line of N; and whoever has M has room for
  k lines: any t values of N have at most t (P - c) + k c - m lines if c people have M, so
  c >= (m + h_1 + ... + h_t - t P) / (k - t). By Gale's theorem these bounds are attained.
- A table of groups has the people of each group: at least those of a group within M, at most those of one around M.

In between, lines of different values are taken to be dealt to people independently: with h_v of P people each, somebody
has none of M with the probability q = product of (1 - h_v / P), and two people have none with the product of
(P - h_v) (P - 1 - h_v) / (P (P - 1)). This gives mean and variance of the number of people with M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dalenius.model.estimate import Unit
from dalenius.query.people_views import PeopleTables, SensitiveLines, TupleLines
from dalenius.tables.connections import literal

_KNOWN = """CAST({0} AS DOUBLE) AS total, CAST({0} AS DOUBLE) * {0} - {1} AS others, CAST({1} - {0} AS DOUBLE) AS own,
    CAST({0} AS BIGINT) AS low, CAST({0} AS BIGINT) AS high, TRUE AS tight, {2} AS each_has"""
_UNKNOWN_LIST = "CAST(NULL AS BIGINT[])"


@dataclass(frozen=True)
class GroupsAround:
    """Groups of values whose people are known: those within the values that are asked for, and one around them.

    None stands for the values that are in no group.
    """

    within: Sequence[str]  # conditions on g, in SQL
    around: str | None


def row_factor(condition: str, groups: Sequence[str], has_persons: bool, unit: Unit) -> str:
    """The factor of a condition on quasi-identifiers, by bucket and group."""
    keys = ", ".join(["b", *groups])
    if not has_persons:
        return (
            f"SELECT {keys}, {_KNOWN.format('w', 'w', _UNKNOWN_LIST)} FROM "  # noqa: S608
            f"(SELECT {keys}, count(*) FILTER (WHERE {condition}) AS w FROM qit GROUP BY {keys})"
        )
    people = ", ".join(["b", "p", *groups])
    matching = f"SELECT {people}, count(*) FILTER (WHERE {condition}) AS n FROM qit GROUP BY {people}"  # noqa: S608
    if unit == "people":
        return (
            f"SELECT {keys}, {_KNOWN.format('w', 'w', _UNKNOWN_LIST)} FROM "  # noqa: S608
            f"(SELECT {keys}, count(*) FILTER (WHERE n > 0) AS w FROM ({matching}) GROUP BY {keys})"
        )
    return f"""SELECT {keys}, {_KNOWN.format("w", "q", "list_reverse_sort(coalesce(ns, []))")}
        FROM (SELECT {keys}, sum(n) AS w, sum(n * n) AS q, list(n) FILTER (WHERE n > 0 AND each > 1) AS ns
              FROM ({matching}) JOIN sizes USING (b) GROUP BY {keys})"""  # noqa: S608


def value_factor(one: SensitiveLines, condition: str, by_value: bool, unit: Unit) -> str:
    """The factor of a condition on a sensitive column where lines are people.

    Everybody has one value of it, or the condition means one, or there is a group for each.
    """
    keys = f"b, {one.column}" if by_value else "b"
    matching = f"FILTER (WHERE {condition})"
    if unit == "people":
        return (
            f"SELECT {keys}, {_KNOWN.format('w', 'w', _UNKNOWN_LIST)} FROM "  # noqa: S608
            f"(SELECT {keys}, count(*) {matching} AS w FROM {one.lines} GROUP BY {keys})"
        )
    return f"""SELECT {keys}, {_KNOWN.format("w", "q", "list_reverse_sort(coalesce(rs, []))")}
        FROM (SELECT {keys}, coalesce(sum(r) {matching}, 0) AS w, coalesce(sum(r * r) {matching}, 0) AS q,
                     list(r) FILTER (WHERE ({condition}) AND each > 1) AS rs
              FROM {one.lines} JOIN sizes USING (b) GROUP BY {keys})"""  # noqa: S608


def several_values_factor(
    one: SensitiveLines | TupleLines, condition: str, unit: Unit, groups: GroupsAround | None
) -> str:
    """The factor of a condition on a sensitive column of which people can have several values."""
    several = one.slots > 1
    full = "0" if several else "count(*) FILTER (WHERE r = each)"
    lists = f"list(r) FILTER (WHERE {condition})" if unit == "rows" else _UNKNOWN_LIST
    values = f"""SELECT b, people, each, coalesce(bool_or({condition}), FALSE) AS m, count(*) AS h, {full} AS f,
            sum(r) AS w, sum(r * r) AS q, {lists} AS rs
        FROM {one.lines} JOIN sizes USING (b) GROUP BY b, people, each, {one.column}"""  # noqa: S608
    # people whose only line takes all of their rows are taken out: `room` is for the lines of the others
    open_lines = f"SELECT *, h - f AS x, people - sum(f) OVER (PARTITION BY b) AS room FROM ({values})"  # noqa: S608
    sums = f"""SELECT b, people, each, people * each AS units, any_value(room) AS room,
            count(*) FILTER (WHERE m) AS kinds, any_value(rs) FILTER (WHERE m) AS rs, {_SUMS},
            {f"coalesce(max(h, {one.slots - 1}) FILTER (WHERE NOT m), [])" if several else "[]"} AS largest
        FROM ({open_lines}) GROUP BY b, people, each"""  # noqa: S608
    low, high = _several_columns(one.slots) if several else _one_column()
    bounded = f"SELECT *, {low} AS low_people, {high} AS high_people FROM ({sums})"  # noqa: S608
    if groups is not None:
        bounded = _with_groups(bounded, one.number, groups)
    always = "(each = 1)" if several else "(each <= 2)"
    closest = f"(kinds <= 1 OR {'FALSE' if one.manifest.group_table is not None else always})"
    return _units(bounded, closest, one.slots, unit)


_SUMS = """coalesce(sum(h) FILTER (WHERE m), 0) AS h_in, coalesce(sum(h) FILTER (WHERE NOT m), 0) AS h_out,
            coalesce(sum(f) FILTER (WHERE m), 0) AS f_in, coalesce(sum(f) FILTER (WHERE NOT m), 0) AS f_out,
            coalesce(max(x) FILTER (WHERE m), 0) AS x_in, coalesce(max(x) FILTER (WHERE NOT m), 0) AS x_out,
            coalesce(sum(w) FILTER (WHERE m), 0) AS w_in, coalesce(sum(w) FILTER (WHERE NOT m), 0) AS w_out,
            coalesce(max(w) FILTER (WHERE m), 0) AS w_most, coalesce(sum(w * w) FILTER (WHERE m), 0) AS w_squares,
            coalesce(sum(q) FILTER (WHERE m), 0) AS q_in,
            coalesce(product(1 - x / greatest(room, 1)) FILTER (WHERE m), 1) AS none,
            coalesce(product((room - x) / greatest(room, 1) * (room - 1 - x) / greatest(room - 1, 1))
                FILTER (WHERE m), 1) AS none_of_two,
            coalesce(product(1 - w / (people * each)) FILTER (WHERE m), 1) AS no_row"""


def _ceiling(number: str, by: str) -> str:
    """A quotient rounded up, or 0 if it is below."""
    return f"(greatest({number}, 0) + {by} - 1) // ({by})"


def _one_column() -> tuple[str, str]:
    """Bounds of the people with one of the values, where a row has one value."""
    least = [
        "x_in",
        _ceiling("w_in - f_in * each", "each"),
        "room - (h_out - f_out) + x_out",
        "room - (w_out - f_out * each) // each",
    ]
    return f"f_in + greatest(0, {', '.join(least)})", "f_in + least(room, h_in - f_in)"


def _several_columns(slots: int) -> tuple[str, str]:
    """The same where a row has up to `slots` different values."""
    filled = [
        f"CASE WHEN each = 1 THEN {_ceiling(f'h_in + coalesce(list_sum(largest[1:{t}]), 0) - {t} * people', by)} END"
        for t, by in ((t, str(slots - t)) for t in range(slots))
    ]
    most = _ceiling("w_in", f"{slots} * each")
    return f"greatest(x_in, people - h_out, people - w_out // each, {most}, {', '.join(filled)})", "least(people, h_in)"


def _with_groups(bounded: str, number: int, groups: GroupsAround) -> str:
    """The same bounds with what the table of groups says."""
    within = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in groups.within)
    around = f"count(*) FILTER (WHERE {groups.around})" if groups.around is not None else "NULL"
    return f"""SELECT * REPLACE (greatest(low_people, known_low) AS low_people,
            least(high_people, coalesce(known_high, people)) AS high_people)
        FROM ({bounded}) JOIN (SELECT b, greatest(0{", " + within if within else ""}) AS known_low,
            {around} AS known_high FROM g{number} GROUP BY b) USING (b)"""  # noqa: S608


def _units(bounded: str, closest: str, slots: int, unit: Unit) -> str:
    """The factor, once the people with a value are bounded: of people, or of rows where they have several."""
    people = f"""SELECT *, least(greatest(f_in + room * (1 - none), low_people), high_people) AS mean,
            least((high_people - low_people)**2 / 4, greatest(0,
                room * (room - 1) * none_of_two + room * none - (room * none)**2)) AS variance
        FROM ({bounded})"""  # noqa: S608
    of_people = {
        "total": "CAST(mean AS DOUBLE)",
        "others": "greatest(0, variance + CAST(mean AS DOUBLE)**2 - mean)",
        "own": "0.0",
        "low": "CAST(low_people AS BIGINT)",
        "high": "CAST(high_people AS BIGINT)",
        "tight": f"({closest} OR low_people = high_people)",
        "each_has": _UNKNOWN_LIST,
    }
    if unit == "people":
        return f"SELECT b, {_named(of_people)} FROM ({people})"  # noqa: S608
    low, high, mean = "w_in", "w_in", "w_in"
    if slots > 1:
        low = f"greatest(w_most, units - w_out, {_ceiling('w_in', str(slots))})"
        high, mean = "least(units, w_in)", "units * (1 - no_row)"
    rows = f"""SELECT *, {low} AS low_rows, {high} AS high_rows,
            least(greatest(CASE WHEN kinds <= 1 THEN w_in ELSE {mean} END, {low}), {high})::DOUBLE AS mean_rows,
            (q_in + (w_in::DOUBLE**2 - w_squares) / people) / greatest(w_in, 1) AS of_one
        FROM ({people})"""  # noqa: S608
    squares = f"""SELECT *, least(greatest(of_one * mean_rows, mean_rows, mean_rows**2 / people), each * mean_rows)
        AS squares FROM ({rows})"""  # noqa: S608
    of_rows = {
        "total": "mean_rows",
        "others": "greatest(0, mean_rows**2 - squares)",
        "own": "squares - mean_rows",
        "low": "CAST(low_rows AS BIGINT)",
        "high": "CAST(high_rows AS BIGINT)",
        "tight": "kinds <= 1",
        "each_has": f"CASE WHEN kinds <= 1 THEN list_reverse_sort(coalesce(rs, [])) ELSE {_UNKNOWN_LIST} END",
    }
    chosen = {name: f"CASE WHEN each = 1 THEN {of_people[name]} ELSE {of_rows[name]} END" for name in of_rows}
    return f"SELECT b, {_named(chosen)} FROM ({squares})"  # noqa: S608


def _named(columns: dict[str, str]) -> str:
    return ", ".join(f"{sql} AS {name}" for name, sql in columns.items())


def is_one(tables: PeopleTables, one: SensitiveLines, condition: str) -> bool:
    """Whether at most one value meets a condition: its lines are people, and need not be told apart by value."""
    query = f"SELECT DISTINCT {one.column} FROM st{one.number} WHERE {condition} LIMIT 2"  # noqa: S608
    return sum(1 for _ in tables.fetch(query)) <= 1


def groups_around(tables: PeopleTables, one: SensitiveLines, condition: str) -> GroupsAround | None:
    """The largest groups within the values that meet a condition, and the smallest around them."""
    manifest = one.manifest
    if manifest.group_table is None or manifest.groups is None:
        return None
    texts = f"SELECT DISTINCT CAST({one.column} AS VARCHAR) FROM st{one.number} WHERE {condition}"  # noqa: S608
    matching = {manifest.null_value if text is None else str(text) for (text,) in tables.fetch(texts)}
    parents = [group.parent for group in manifest.groups]
    members: dict[int | None, set[str]] = {}
    for value in manifest.values:
        place = value.group
        members.setdefault(place, set()).add(value.value)
        while place is not None and (place := parents[place]) is not None:
            members.setdefault(place, set()).add(value.value)
    within = {place for place, values in members.items() if values <= matching}
    largest = [place for place in within if place is None or parents[place] not in within or parents[place] is None]
    around = [place for place, values in members.items() if matching <= values]
    smallest = min(around, key=lambda place: len(members[place]), default=None)

    def is_group(place: int | None) -> str:
        return "g IS NULL" if place is None else f"g = {literal((manifest.groups or [])[place].name)}"

    return GroupsAround([is_group(place) for place in largest], is_group(smallest) if around else None)
