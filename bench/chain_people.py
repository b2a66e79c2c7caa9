"""People who come, stay and leave: the tables that are published one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from bench.attacks import COLUMNS
from bench.coverage import ADULT

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """Who is there at a time: the columns as codes, everybody's number, and the table that is published.

    `combinations` are numbers of the quasi-identifiers, apart from how old people are by now.
    """

    people: Integers
    values: Integers
    columns: tuple[Integers, ...]
    combinations: Integers
    texts: tuple[str, ...]
    table: pa.Table


@dataclass(frozen=True)
class Setting:
    """A table, how many people are there at a time, and what happens from one release to the next."""

    name: str
    file: str
    sensitive: str
    quasi_identifiers: tuple[str, ...]
    age: str
    present: int
    turnover: float
    changes: float = 0.0
    too_few: tuple[str, ...] = ("counterfeits",)

    def worlds(self, data: Path, releases: int) -> Iterator[World]:
        """Everybody, release by release."""
        names = [*self.quasi_identifiers, self.sensitive]
        table = pyarrow.parquet.read_table(data / self.file, columns=names)
        rng = np.random.default_rng(31)
        order = rng.permutation(len(table))
        moving = round(self.turnover * self.present)
        here, waiting = order[: self.present], order[self.present :]
        texts, values = np.unique(table[self.sensitive].cast(pa.string()).to_numpy(), return_inverse=True)
        codes = [np.unique(_plain(table[name]), return_inverse=True)[1] for name in self.quasi_identifiers]
        combinations = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].ravel()
        ages = np.asarray(table[self.age].to_numpy(), np.int64)
        for year in range(releases):
            if year:
                stay = np.sort(rng.permutation(len(here))[moving:])
                here, waiting = np.concatenate([here[stay], waiting[:moving]]), waiting[moving:]
                if self.changes:
                    others = rng.permutation(len(here) - moving)[: round(self.changes * len(here))]
                    values[here[others]] = _other(values[here[others]], values, rng)
            columns = {name: table[name].take(pa.array(here)) for name in self.quasi_identifiers}
            columns[self.age] = pa.array(ages[here] + year)
            sensitive = pa.array([str(texts[one]) for one in values[here].tolist()])
            columns |= {self.sensitive: sensitive, "id": pa.array([f"P{one}" for one in here.tolist()])}
            yield World(
                people=here,
                values=values[here],
                columns=tuple(
                    ages[here] + year if name == self.age else code[here]
                    for name, code in zip(self.quasi_identifiers, codes, strict=True)
                ),
                combinations=combinations[here],
                texts=tuple(str(one) for one in texts),
                table=pa.table(columns),
            )


def _plain(column: pa.ChunkedArray) -> npt.NDArray[np.generic]:
    found = column.combine_chunks()
    found = found.cast(pa.string()) if pa.types.is_dictionary(found.type) else found
    return np.asarray(found.to_numpy(zero_copy_only=False))


def _other(values: Integers, everybody: Integers, rng: np.random.Generator) -> Integers:
    """Another value than before, as often as people have it."""
    found = rng.choice(everybody, len(values))
    while (same := found == values).any():
        found[same] = rng.choice(everybody, int(same.sum()))
    return np.asarray(found, np.int64)


def _adult(name: str, turnover: float, **others: object) -> Setting:
    known = tuple(name for name in ADULT if name != "hours_per_week")
    return Setting(name, "adult_48842.parquet", "occupation", known, "age", 24_421, turnover, **others)  # type: ignore[arg-type]


_CENSUS = tuple(name for name in COLUMNS if name != "Occupation")
SETTINGS = (
    _adult("Adult", 0.05),
    Setting("ACS", "census_like_500k.parquet", "Occupation", _CENSUS, "Age", 80_000, 0.05),
    _adult("Adult, 1 % change", 0.05, changes=0.01),
    _adult("Adult, few come", 0.002, too_few=("hold-back", "counterfeits")),
)
