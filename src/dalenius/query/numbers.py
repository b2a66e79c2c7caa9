"""The sensitive numbers that a condition asks about: what is certain of their mean, sum and quantiles, and variances.

Take a bucket with S values, of which a go to rows that meet the condition on quasi-identifiers. They may be any a of
the S, some of which may be nobody's. c of the S are numbers that meet the condition on the sensitive column; the
others, nulls among them, count for nothing. So the condition asks about at least lo = max(0, a + c - S) of the numbers,
and at most hi = min(a, c).

**Bounds.** Let v_1 <= ... <= v_c. Whatever is to be small, with k numbers it is so for the k smallest: the first lo are
needed, and the next hi - lo are free. What is to be large is the same from the other end. Added up over all buckets,
one table says for each number how often it is needed and how often it is free, at the low end and at the high end:

- sum: what is needed, and of the free numbers those below 0 (above 0);
- mean: what is needed, and of the free numbers those below the mean (above it). That is Dinkelbach's method (1967):
  begin with some mean, take what is beyond it, and repeat with the mean of that. After a few steps nothing changes;
- quantile q: the smallest x with L >= q (L + H) and L >= 1, for L numbers up to x and H above. The low end has most
  numbers up to x and fewest above it if those that are free are taken up to x, and the high end the reverse.

Every bound is attained by some way to give the values to the rows. Whole numbers and decimals are added up exactly, and
floats as the binary fractions that they are.

**Variances.** If each choice of a of the S values is equally likely, and each has some y (0 if it counts for nothing),
the bucket's sum of y has the mean a mean(y) and the variance a (S - a) / (S - 1) var(y).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dalenius.model.estimate import Number
from dalenius.query.attached_tables import both
from dalenius.query.release_tables import ReleaseTables
from dalenius.release.manifest import Manifest
from dalenius.tables.table_errors import query_errors

_ROWS_AT_ONCE = 2**17
_MOST_PARTS = 10**15  # into which a quantile's level may divide 1
_EXACT = Context(prec=100)

End = Literal["low", "high"]
ENDS: tuple[End, End] = ("low", "high")
_BEYOND = {"low": "<", "high": ">"}


@dataclass(frozen=True)
class Expected:
    """How many numbers the condition asks about, for certain and as expected, and their expected sum."""

    records: tuple[int, int]
    number: float
    total: float
    finite: bool


@dataclass(frozen=True)
class Kind:
    """The type in which numbers are added up: its name, whether it is floating, and its digits after the point."""

    sql: str
    floating: bool
    scale: int

    @classmethod
    def of(cls, column: str) -> Kind:
        """The type for a column of some type."""
        if column in ("FLOAT", "DOUBLE"):
            return cls("DOUBLE", floating=True, scale=0)
        scale = int(column.rstrip(")").split(",")[1]) if column.startswith("DECIMAL") else 0
        return cls(f"DECIMAL(38, {scale})" if scale else "HUGEINT", floating=False, scale=scale)

    def shown(self, number: Fraction) -> Number:
        """A number of the type as Python has it."""
        if self.floating:
            return float(number)
        if not self.scale:
            return int(number)
        exact = _EXACT.divide(Decimal(number.numerator), Decimal(number.denominator))
        return _EXACT.quantize(exact, Decimal((0, (1,), -self.scale)))

    def near(self, x: Fraction, end: End) -> Number:
        """The number of the type that is nearest to x: for the low end not below x, for the high end not above it."""
        if not self.floating:
            units = x * 10**self.scale
            return self.shown(Fraction(math.ceil(units) if end == "low" else math.floor(units), 10**self.scale))
        near = float(x)
        if near < x and end == "low":
            return math.nextafter(near, math.inf)
        return math.nextafter(near, -math.inf) if near > x and end == "high" else near

    def literal(self, number: Number) -> str:
        """A number of the type in SQL."""
        return (
            f"CAST('{number:f}' AS {self.sql})" if isinstance(number, Decimal) else f"CAST('{number!r}' AS {self.sql})"
        )


class Numbers:
    """The numbers that one condition asks about, as tables of DuckDB. The next one takes their place."""

    def __init__(self, tables: ReleaseTables, rows: str, values: str) -> None:
        self._connection = tables.connection
        self.kind = Kind.of(tables.types["s"])
        self._wanted = both("s IS NOT NULL", values)
        self._has_running = False
        self._create(
            "asked",
            f"""SELECT b, a, slots, a / slots AS share
            FROM (SELECT b, count(*) AS a FROM qit WHERE {rows} GROUP BY b) JOIN sizes USING (b)""",  # noqa: S608
        )
        self._create(
            "numbers",
            f"""WITH partly AS (SELECT * FROM asked WHERE a < slots), wholly AS (SELECT b FROM asked WHERE a = slots),
            ranked AS (
                SELECT s, share, greatest(0, a + c - slots) AS lo, least(a, c) AS hi, place, c + 1 - place AS back
                FROM (SELECT b, s, row_number() OVER (PARTITION BY b ORDER BY s) AS place,
                             count(*) OVER (PARTITION BY b) AS c
                      FROM st SEMI JOIN partly USING (b) WHERE {self._wanted})
                JOIN partly USING (b)
                UNION ALL SELECT s, 1, 1, 1, 1, 1 FROM st SEMI JOIN wholly USING (b) WHERE {self._wanted})
            SELECT CAST(s AS {self.kind.sql}) AS v, sum(share) AS share,
                   count(*) FILTER (place <= lo) AS low_needed,
                   count(*) FILTER (place > lo AND place <= hi) AS low_free,
                   count(*) FILTER (back <= lo) AS high_needed,
                   count(*) FILTER (back > lo AND back <= hi) AS high_free
            FROM ranked GROUP BY s""",  # noqa: S608
        )

    def expected(self) -> Expected:
        """How many numbers there are, and what they come to."""
        infinite = "bool_or(NOT isfinite(v))" if self.kind.floating else "FALSE"
        needed, free, number, total, strange = self._row(
            f"sum(low_needed), sum(low_free), sum(share), sum(CAST(v AS DOUBLE) * share), {infinite} FROM numbers"
        )
        if needed is None:
            return Expected((0, 0), 0.0, 0.0, True)
        return Expected((int(needed), int(needed + free)), float(number), float(total), not strange)

    def mean_bounds(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest mean. There must be numbers."""
        low, high = (self._extreme_mean(end) for end in ENDS)
        return low, high

    def _extreme_mean(self, end: End) -> Fraction:
        total, number = self._taken(end, "TRUE")
        while True:
            mean = total / number
            total, number = self._taken(end, self._beyond(end, mean))
            if total == mean * number:
                return mean

    def sum_bounds(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest sum."""
        low, high = (self._taken(end, self._beyond(end, Fraction(0)))[0] for end in ENDS)
        return low, high

    def quantile_bounds(self, level: float) -> tuple[Fraction, Fraction]:
        """The smallest and the largest quantile. There must be numbers."""
        q = Fraction(str(level)).limit_denominator(_MOST_PARTS)
        reached = (
            f"{{0}}_up_to > 0 AND CAST({q.denominator - q.numerator} AS HUGEINT) * {{0}}_up_to "
            f">= CAST({q.numerator} AS HUGEINT) * {{0}}_above"
        )
        self._sum_up()
        low, high = self._row(
            f"""min(v) FILTER ({reached.format("low")}), min(v) FILTER ({reached.format("high")} OR high_above = 0)
            FROM running"""
        )
        return Fraction(low), Fraction(high)

    def reaching(self, least: Mapping[float, float]) -> dict[float, Number]:
        """For each number of records the smallest x up to which so many are expected; by the keys of `least`."""
        if not least:
            return {}
        self._sum_up()
        found = ", ".join(f"coalesce(min(v) FILTER (share_up_to >= {x!r}), max(v))" for x in least.values())
        row = self._row(f"{found} FROM running")
        return {key: self.kind.shown(Fraction(x)) for key, x in zip(least, row, strict=True)}

    def deviations(self, sums: Sequence[str], less: Sequence[str] = ()) -> list[float]:
        """Standard deviations of sums over the rows that match, values given to rows at random.

        They are sums of some y of s, in SQL; y is 0 where a value is not asked about. From all values something may be
        taken away.
        """
        if not sums:
            return []
        spreads = ", ".join(
            f"var_pop(CASE WHEN {self._wanted} THEN CAST({y} AS DOUBLE) ELSE 0 END - {off}) AS y{i}"
            for i, (y, off) in enumerate(zip(sums, less or ["0"] * len(sums), strict=True))
        )
        row = self._row(
            f"""{", ".join(f"coalesce(sum(weight * y{i}), 0)" for i in range(len(sums)))}
            FROM (SELECT any_value(a * (slots - a) / (slots - 1)) AS weight, {spreads}
                  FROM st JOIN (SELECT * FROM asked WHERE a < slots) USING (b) GROUP BY b)"""  # noqa: S608
        )
        return [math.sqrt(max(0.0, variance)) for variance in row]

    def weigh(self, band: str, records: Mapping[str, float]) -> None:
        """Expect so many records of each band; `band` is that of v in SQL. Within a band, shares stay as they are."""
        with query_errors():
            at_random = self._connection.execute(
                f"""SELECT CAST({band.format("s")} AS VARCHAR), sum(share) FROM st JOIN asked USING (b) GROUP BY 1"""  # noqa: S608
            ).fetchall()
        factors = {name: max(0.0, records[name]) / share for name, share in at_random if name is not None}
        factor = by_band(band.format("v"), factors)
        self._create("numbers", f"SELECT * REPLACE (share * {factor} AS share) FROM numbers")  # noqa: S608
        self._has_running = False

    def by_band(self, band: str, sums: Sequence[str]) -> dict[str, list[float]]:
        """For each band the expected sums of some y of v, in SQL."""
        listed = ", ".join(f"sum(CAST({y} AS DOUBLE) * share)" for y in sums)
        with query_errors():
            rows = self._connection.execute(
                f"SELECT CAST({band} AS VARCHAR), {listed} FROM numbers GROUP BY 1"  # noqa: S608
            ).fetchall()
        return {name: list(cells) for name, *cells in rows}

    def _beyond(self, end: End, x: Fraction) -> str:
        """The condition that v is below x, or above it."""
        return f"v {_BEYOND[end]} {self.kind.literal(self.kind.near(x, end))}"

    def _taken(self, end: End, condition: str) -> tuple[Fraction, int]:
        """Sum and number of what is needed at one end, and of what is free and meets a condition."""
        n = f"({end}_needed + CASE WHEN {condition} THEN {end}_free ELSE 0 END)"
        if not self.kind.floating:
            total, number = self._row(f"sum(v * {n}), sum({n}) FROM numbers")
            return Fraction(total), int(number)
        exact = _ExactSum()
        with query_errors():
            stream = self._connection.sql(f"SELECT v, {n} AS n FROM numbers WHERE n > 0")  # noqa: S608
            for batch in stream.to_arrow_reader(_ROWS_AT_ONCE):
                exact.add(batch["v"].to_numpy(), batch["n"].to_numpy())
        return exact.total(), exact.number

    def _sum_up(self) -> None:
        """How many numbers each end has up to every number, and above it."""
        if self._has_running:
            return
        self._create(
            "running",
            """SELECT v, sum(share) OVER upwards AS share_up_to,
                CAST(sum(low_needed + low_free) OVER upwards AS HUGEINT) AS low_up_to,
                CAST(sum(low_needed) OVER () - sum(low_needed) OVER upwards AS HUGEINT) AS low_above,
                CAST(sum(high_needed) OVER upwards AS HUGEINT) AS high_up_to,
                CAST(sum(high_needed + high_free) OVER () - sum(high_needed + high_free) OVER upwards AS HUGEINT)
                    AS high_above
            FROM numbers WINDOW upwards AS (ORDER BY v)""",
        )
        self._has_running = True

    def _create(self, name: str, query: str) -> None:
        with query_errors():
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def _row(self, query: str) -> tuple[Any, ...]:
        with query_errors():
            (row,) = self._connection.execute(f"SELECT {query}").fetchall()
        return tuple(row)


def band_sql(tables: ReleaseTables, manifest: Manifest, column: str) -> str:
    """In SQL, how many of the cuts between bands are not above a number: the number of its band. Null for nulls.

    A float is taken for the decimal that it is written as: it is below a cut if it is below the float next to the cut.
    """
    data_type, cuts = tables.types["s"], [Fraction(text) for text in manifest.bands or ()]
    kind = Kind.of(data_type)
    texts = [
        f"CAST('{float(cut)!r}' AS {data_type})" if kind.floating else kind.literal(kind.near(cut, "low"))
        for cut in cuts
    ]

    def among(first: int, last: int) -> str:
        if first == last:
            return str(first)
        middle = (first + last) // 2
        return f"CASE WHEN {column} < {texts[middle]} THEN {among(first, middle)} ELSE {among(middle + 1, last)} END"

    return f"CASE WHEN {column} IS NOT NULL THEN {among(0, len(cuts))} END"


def by_band(band: str, numbers: Mapping[str, float]) -> str:
    """In SQL, the number of a band; 0 if it has none."""
    cases = " ".join(f"WHEN {name} THEN CAST('{number!r}' AS DOUBLE)" for name, number in numbers.items())
    return f"(CASE {band} {cases} ELSE 0 END)" if cases else "0"


class _ExactSum:
    """Adds up floats without rounding: whole numbers of 53 bits, in two halves, by exponent."""

    def __init__(self) -> None:
        self._halves = np.zeros((2, 2_200), dtype=np.int64)
        self.number = 0

    def add(self, values: npt.NDArray[np.float64], times: npt.NDArray[Any]) -> None:
        """Add each value so many times; fewer than 2^36 in all."""
        mantissas, exponents = np.frexp(values)
        whole = np.ldexp(mantissas, 53).astype(np.int64)
        counts = times.astype(np.int64)
        for half, part in zip(self._halves, (whole >> 26, whole & (2**26 - 1)), strict=True):
            np.add.at(half, exponents + 1_100, part * counts)
        self.number += int(counts.sum())

    def total(self) -> Fraction:
        """The sum."""
        high, low = (half.tolist() for half in self._halves)
        parts = ((one * 2**26 + other) << place for place, (one, other) in enumerate(zip(high, low, strict=True)))
        return Fraction(sum(parts), 2 ** (1_100 + 53))
