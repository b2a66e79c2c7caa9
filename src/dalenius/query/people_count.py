"""Counts from a release whose people have several rows, or several sensitive columns.

A condition is split at AND into a part on quasi-identifiers and one on each sensitive column that it names. *People*
are counted who have a row that meets the first, and for each of the others a value that meets it, in any of their rows.
*Rows* are counted that meet the first, and whose own values meet the others. `people_factors` says how many units
(people or rows) of a bucket meet one part.

**Bounds.** Of U units of a bucket let W_i meet part i of n. Whatever the truth is, at least max(0, sum W_i - (n - 1) U)
and at most min W_i meet all (Fréchet 1935), and both can be if units are people. If they are rows, person j meets part
i in w_ij of R rows. For two parts with the w known, the overlap is largest if both are in the same order, and smallest
if one is in the opposite order: sum of min(w_1j, w_2j), and of max(0, w_1j + w_2j - R).

**Estimates** assume that within a bucket each way is equally likely to give the sets of values of a column to people,
and a person's values to their rows, and that columns are independent of each other. Then two given units meet part i
with the chance o_i, if they are of different people, or s_i, if they are rows of one person, and with E X = U product
of (W_i / U),

    E X (X - 1) = P (P - 1) R² product of o_i + P R (R - 1) product of s_i.

With one part on quasi-identifiers and one value this is the hypergeometric variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, get_args

from dalenius.errors import QueryError, UsageError
from dalenius.model.estimate import Estimate, GroupEstimate, Unit
from dalenius.query.attached_tables import both
from dalenius.query.conditions import Condition, conjuncts
from dalenius.query.count import MOST_GROUPS, Counter, engine_memory, refuse_more_than
from dalenius.query.people_factors import groups_around, is_one, row_factor, several_values_factor, value_factor
from dalenius.query.people_views import PeopleTables, SensitiveLines, TupleLines
from dalenius.query.sql import Names
from dalenius.query.together_factors import TuplePart, people_with_tuples, tuples_of_rows
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.tables.connections import connect, lock

if TYPE_CHECKING:
    from dalenius.query.calibration import Calibration
    from dalenius.query.count import Known

NOT_LEARNED = (
    "Learning is for people with one row and one value of one sensitive column: only there is it known how often "
    "intervals hold."
)
_DIGITS = 12  # of sums, so that they do not depend on threads


@dataclass(frozen=True)
class Parts:
    """A condition as SQL: on quasi-identifiers, on sensitive columns by their number, and on tuples by theirs."""

    rows: str | None
    values: dict[int, str]
    tied: dict[int, str] = field(default_factory=dict)


class PeopleCounter(AbstractContextManager["PeopleCounter"]):
    """A release with people that is open for counting `unit`, for many queries.

    Questions about one sensitive column of which everybody has one value are answered as from a plain release.
    `calibration` is what another counter has measured of intervals, by the number of the sensitive column.
    """

    def __init__(
        self,
        folder: ReleaseFolder,
        *,
        memory: str | None = None,
        calibration: dict[int, Calibration] | None = None,
        unit: Unit = "people",
    ) -> None:
        self._folder, self._memory = folder, memory or engine_memory(folder)
        self._unit: Unit = unit if folder.manifest.persons is not None else "people"
        self._known = dict(calibration or {})
        self._stack = ExitStack()
        self._views: dict[int, Counter] = {}
        self._tables: PeopleTables | None = None
        columns = self.manifest.columns
        sensitive = [self.manifest.view(k).columns.sensitive.name for k in range(self.manifest.sets)]
        self._numbers = {name: k for k, name in enumerate(sensitive)}
        names = [*(column.name for column in columns.quasi_identifiers), *sensitive]
        self._names = Names({name: f"c{i}" for i, name in enumerate(names)}, columns.bucket)
        self._parser = connect(None, self._stack)
        lock(self._parser)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def manifest(self) -> Manifest:
        """The manifest of the release."""
        return self._folder.manifest

    @property
    def calibration(self) -> dict[int, Calibration]:
        """What is known of the intervals of questions about one sensitive column, by its number."""
        found = {number: view.calibration for number, view in self._views.items()}
        return self._known | {number: known for number, known in found.items() if known is not None}

    def count(self, expression: str, *, learn: bool = False, measure: bool = False) -> Estimate:
        """How many people, or rows, meet a SQL condition on the published columns."""
        view = self.plain_counter(expression, ())
        if view is not None:
            return view.count(expression, learn=learn, measure=measure)
        answers = list(self._answers(self.parts(expression), (), learn))
        return answers[0].estimate

    def count_by(
        self, expression: str, group_by: Sequence[str], *, learn: bool = False, measure: bool = False
    ) -> list[GroupEstimate]:
        """The same for every group; somebody with several values of a column is in several groups of it."""
        by = [self._names.column(name) for name in group_by]
        view = self.plain_counter(expression, by)
        if view is not None:
            return view.count_by(expression, by, learn=learn, measure=measure)
        if len(set(by)) < len(by):
            raise QueryError("a column to group by is named twice", "Name it once.")
        if not by:
            raise QueryError("there is no column to group by", "Name one.")
        answers: list[GroupEstimate] = []
        for answer in self._answers(self.parts(expression), by, learn):
            answers.append(answer)
            refuse_more_than(MOST_GROUPS, len(answers))
        return answers

    def of_numbers(self, expression: str) -> Counter:
        """The counter of the sensitive column whose mean, sum or quantiles are asked for: the condition names it.

        Else it is the only one with numbers.
        """
        if self.manifest.persons is not None:
            raise QueryError(
                "people have several rows here, and there is no mean, sum or quantile of what they have in them",
                "Count people, or rows, with values in a range.",
            )
        named = self._named(expression)
        numeric = [k for k in self._numbers.values() if _has_numbers(self.manifest.view(k))]
        candidates = sorted(named) or numeric
        if not candidates:
            raise QueryError("no sensitive column has numbers, so there is no mean, sum or quantile", "Ask for counts.")
        if len(candidates) > 1:
            raise QueryError(
                f"{len(candidates)} sensitive columns can be meant by a mean, a sum or a quantile",
                "Name one of them in the condition, and no other: income IS NOT NULL.",
            )
        if self.manifest.view(candidates[0]).has_several_values:
            raise QueryError(
                "people can have several values of this sensitive column: it has no mean, sum or quantiles",
                "Count people with values in a range.",
            )
        return self._open_view(candidates[0])

    def _named(self, expression: str, by: Sequence[str] = ()) -> set[int]:
        """The sensitive columns that a question names."""
        conditions = conjuncts(self._parser, expression, self._names)
        names = {*by}.union(*(condition.columns for condition in conditions))
        return {self._numbers[name] for name in names if name in self._numbers}

    def plain_counter(self, expression: str, by: Sequence[str]) -> Counter | None:
        """What answers questions about one column of which everybody has one value; None if this is another one."""
        named = self._named(expression, by)
        one_value = [k for k in range(self.manifest.sets) if self.manifest.view(k).is_plain]
        if len(named) > 1 or not one_value or not named <= set(one_value):
            return None
        return self._open_view(next(iter(named), one_value[0]))

    def _open_view(self, number: int) -> Counter:
        if number not in self._views:
            folder = self._folder.view(number)
            counter = Counter(folder, memory=self._memory, calibration=self._known.get(number))
            self._views[number] = self._stack.enter_context(counter)
        return self._views[number]

    def tables(self) -> PeopleTables:
        """The tables of the release."""
        if self._tables is None:
            self._tables = self._stack.enter_context(PeopleTables(self._folder, self._memory))
        return self._tables

    def parts(self, expression: str) -> Parts:
        """The parts of a condition, as SQL; an error if one of them ties columns together that are apart here."""
        rows: list[str] = []
        values: dict[int, list[str]] = {}
        tied: dict[int, list[str]] = {}
        for condition in self.tables().conditions(expression):
            kept = self._tuples(condition)
            number = self._side(condition) if kept is None else None
            if kept is not None:
                tied.setdefault(kept, []).append(condition.sql)
            else:
                (rows if number is None else values.setdefault(number, [])).append(condition.sql)
        return Parts(
            both(*rows) if rows else None,
            {number: both(*parts) for number, parts in values.items()},
            {number: both(*parts) for number, parts in tied.items()},
        )

    def _tuples(self, condition: Condition) -> int | None:
        """The number of the columns kept together that a part ties to each other; None if it ties no such columns."""
        if len(condition.columns) < 2:
            return None
        kept = (one.number for one in self.tables().together if condition.columns <= set(one.names))
        return next(kept, None)

    def _side(self, condition: Condition) -> int | None:
        """The number of the sensitive column that a part is on; None if it is on quasi-identifiers."""
        sensitive = sorted(name for name in condition.columns if name in self._numbers)
        if not sensitive:
            return None
        if len(condition.columns) > 1:
            kept = any(set(sensitive) <= set(one.names) for one in self.tables().together)
            others = "quasi-identifiers" if kept or len(sensitive) == 1 else "another sensitive column"
            raise QueryError(
                f"a part of the condition ties {sensitive[0]!r} to {others}, and the release keeps them apart",
                "Join parts by AND, each of which names one sensitive column, or several that are kept together, or "
                "quasi-identifiers alone.",
            )
        return self._numbers[sensitive[0]]

    def _answers(self, parts: Parts, by: Sequence[str], learn: bool) -> Iterator[GroupEstimate]:
        tables = self.tables()
        persons = self.manifest.persons
        query = _query(tables, self._factors(parts, by), by, self._unit)
        for row in tables.fetch(query):
            mean, variance = (float(f"{float(number or 0):.{_DIGITS}g}") for number in row[-5:-3])
            estimate = Estimate.of(mean, variance, int(row[-3]), int(row[-2]), tight=bool(row[-1]))
            estimate = replace(
                estimate,
                unit=self._unit,
                dropped=persons.dropped if persons is not None else 0,
                not_learned=NOT_LEARNED if learn and not estimate.exact else None,
            )
            yield GroupEstimate(dict(zip(by, row[:-5], strict=True)), estimate)

    def _factors(self, parts: Parts, by: Sequence[str]) -> list[str]:
        """What each part leaves open: SQL with a line for every bucket and group of its own columns."""
        tables = self.tables()
        rows = [tables.identifiers[name] for name in by if name not in self._numbers]
        factors = []
        joint: set[int] = set()
        for kept in tables.together:
            own = {name for place, name in zip(kept.places, kept.names, strict=True) if place in parts.values}
            if kept.number in parts.tied or len(own.union(by) & set(kept.names)) > 1:
                factors.append(self._joint_factor(kept, parts, by))
                joint.update(kept.places)
        for one in tables.sets:
            if one.number not in joint:
                factors += self._value_factors(one, parts.values.get(one.number), by, self._unit)
        if parts.rows is not None or rows or not factors:
            factors.append(row_factor(parts.rows or "TRUE", rows, tables.has_persons, self._unit))
        return factors

    def _value_factors(self, one: SensitiveLines, condition: str | None, by: Sequence[str], unit: Unit) -> list[str]:
        """What a condition on a single sensitive column leaves open; nothing if there is none."""
        tables = self.tables()
        if one.name in by or (condition is not None and (one.manifest.is_plain or is_one(tables, one, condition))):
            return [value_factor(one, condition or "TRUE", one.name in by, unit)]
        if condition is None:
            return []
        return [several_values_factor(one, condition, unit, groups_around(tables, one, condition))]

    def _joint_factor(self, kept: TupleLines, parts: Parts, by: Sequence[str]) -> str:
        """What conditions on columns that are kept together leave open, together."""
        tables = self.tables()
        columns = [column for column, name in zip(kept.columns, kept.names, strict=True) if name in by]
        tied = parts.tied.get(kept.number)
        conditions = [parts.values[place] for place in kept.places if place in parts.values]
        whole = both(*conditions, *([tied] if tied is not None else []))
        if self._unit == "rows" or not tables.has_persons:
            return tuples_of_rows(kept, whole, columns)
        found = [
            TuplePart(factor, parts.values.get(place, "TRUE"), [f"s{place}"] if f"s{place}" in columns else [])
            for place in kept.places
            for factor in self._value_factors(tables.sets[place], parts.values.get(place), by, self._unit)
        ]
        found += [TuplePart(several_values_factor(kept, tied, self._unit, None), tied)] if tied is not None else []
        return people_with_tuples(kept, found)


def _query(tables: PeopleTables, factors: Sequence[str], by: Sequence[str], unit: Unit) -> str:
    """From the factors to sums over buckets by group: mean, variance, bounds, and whether the bounds are closest."""
    names = [f"f{i}" for i in range(len(factors))]
    each = "each" if unit == "rows" else "1"
    units, same, other = (
        f"(people * {each})",
        f"(people * {each} * ({each} - 1))",
        f"(people * (people - 1) * {each}**2)",
    )
    low = f"greatest(0, {' + '.join(f'{f}.low' for f in names)} - {len(names) - 1} * {units})"
    high = f"least({', '.join(f'{f}.high' for f in names)})"
    closest = " AND ".join(f"{f}.tight" for f in names)
    if unit == "rows" and len(names) > 1:
        listed = " AND ".join([*(f"{f}.each_has IS NOT NULL" for f in names), "each > 1"])
        shortest = f"least({', '.join(f'len({f}.each_has)' for f in names)})"
        together = f"least({', '.join(f'{f}.each_has[i]' for f in names)})"
        high = f"CASE WHEN {listed} THEN {_list_sum(shortest, together)} ELSE {high} END"
        if len(names) == 2:
            apart = "greatest(0, f0.each_has[i] + coalesce(f1.each_has[people + 1 - i], 0) - each)"
            low = f"CASE WHEN {listed} THEN {_list_sum('len(f0.each_has)', apart)} ELSE {low} END"
        else:
            closest = f"{closest} AND each = 1"
    factor_list = ", ".join(f"{name} AS ({sql})" for name, sql in zip(names, factors, strict=True))
    joined = "sizes " + " ".join(f"JOIN {name} USING (b)" for name in names)
    groups, selected, order = tables.group_sql(by)
    return f"""WITH {factor_list},
        buckets AS (SELECT {groups} {_product(names, "total", units)} AS mean,
            {_product(names, "own", same)} + {_product(names, "others", other)} AS pairs,
            {low} AS low, {high} AS high, {closest} AS tight FROM {joined})
        SELECT {selected} fsum(greatest(low, least(high, mean))) AS mean,
            fsum(CASE WHEN low < high THEN greatest(0, pairs + mean - mean * mean) ELSE 0 END) AS variance,
            sum(low) AS low, sum(high) AS high, bool_and(tight OR low = high) AS tight
        FROM buckets {f"GROUP BY {groups.rstrip(', ')} ORDER BY {order.rstrip(', ')}" if by else ""}"""  # noqa: S608


def _product(names: Sequence[str], column: str, of: str) -> str:
    """How many of the units, or pairs of them, meet all parts, if parts are independent."""
    first, *rest = names
    return f"({' * '.join([f'{first}.{column}', *(f'coalesce({f}.{column} / nullif({of}, 0), 0)' for f in rest)])})"


def _list_sum(until: str, summand: str) -> str:
    return f"coalesce(list_sum(list_transform(range(1, {until} + 1), lambda i: {summand})), 0)"


def _has_numbers(manifest: Manifest) -> bool:
    name = manifest.columns.sensitive.type
    return name.startswith(("int", "uint", "decimal", "float", "double", "halffloat"))


def open_counter(
    folder: ReleaseFolder, *, memory: str | None = None, calibration: Known = None, unit: Unit = "people"
) -> Counter | PeopleCounter:
    """What counts from a release: people or rows where these differ. `calibration` is that of another counter of it."""
    if unit not in get_args(Unit):
        raise UsageError(f"people or rows can be counted, not {unit!r}")
    by_column = calibration if isinstance(calibration, dict) else None
    if folder.manifest.is_plain:
        own = calibration if not isinstance(calibration, dict) else None
        return Counter(folder, memory=memory, calibration=own)
    return PeopleCounter(folder, memory=memory, calibration=by_column, unit=unit)
