"""The table that the experiments run on: one that is given, or one that is made up.

The made-up table has the shape of the paper's CENSUS: its columns, its domain sizes, its sensitive frequencies.

It is a latent class model. Every person belongs to one of `CLASSES` walks of life, which lie on a line from 0 to 1 (how
much schooling they take). The class makes education, occupation, work class and age likely or unlikely, gender follows
occupation, marital status age, and the country of birth race. So occupation and education are associated with each
other and with all columns but race and country, which have nothing to do with them. Nobody in the table exists.

The margins of education and occupation are set: frequencies grow geometrically from the rarest to the most frequent
value of the paper's OCC-300K (0.18 % to 7.5 %) and EDU-300K (0.44 % to 27.3 %), and the table of class by value is
fitted to them by iterative proportional fitting. How frequent a value is has nothing to do with its place on the line.
Rows are independent, so the first n rows are a random sample for every n.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.errors import InputError, NoSuchColumnError, UsageError
from dalenius.model.problem import ValueCounts
from dalenius.planning import count_values
from dalenius.tables.arrays import plain_arrow_errors
from dalenius.tables.sources import open_source

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

DOMAINS = {
    "Age": 76,
    "Gender": 2,
    "Education": 14,
    "Marital": 6,
    "Race": 9,
    "WorkClass": 10,
    "Country": 83,
    "Occupation": 50,
}
FREQUENCIES = {"Education": (0.0044, 0.273), "Occupation": (0.0018, 0.075)}
CLASSES = 24
SEED = 2012
CENSUS_SENSITIVE = ("Occupation", "Education")
SHORT = {"Occupation": "OCC", "Education": "EDU"}  # the paper's names of its two tables
FEWEST_ROWS = 1_000
_SYNTHETIC = "synthetic, CENSUS-shaped"
# Tables that are known by their first rows, whatever their file is called.
_KNOWN = {"bc0028ac78cb28d4771d17e17b5dddc8531b159e22df539ecea0813f659badb1": "ACS 2018, CENSUS-shaped"}


@dataclass(frozen=True)
class Dataset:
    """A table in memory, with its roles. `title` is what pictures and pages call it."""

    title: str
    table: pa.Table
    sensitive: tuple[str, ...]
    columns: tuple[str, ...]  # quasi-identifiers; the sensitive ones are each other's
    fingerprint: str
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows there are for the experiments."""
        return int(self.table.num_rows)

    def first(self, rows: int, sensitive: str) -> pa.Table:
        """The first rows, with the columns that have a role beside this sensitive one."""
        return self.table.select([*self.quasi_identifiers(sensitive), sensitive]).slice(0, rows)

    def quasi_identifiers(self, sensitive: str) -> list[str]:
        """The columns that are published beside a sensitive one."""
        return [name for name in self.columns if name != sensitive]

    def counts(self, sensitive: str, rows: int) -> ValueCounts:
        """How often each sensitive value is in the first rows."""
        return count_values(self.table.select([sensitive]).slice(0, rows), sensitive)

    def panel(self, sensitive: str) -> str:
        """What a panel is called: OCC (Occupation)."""
        return f"{SHORT[sensitive]} ({sensitive})" if sensitive in SHORT else sensitive


def make_dataset(rows: int) -> Dataset:
    """The made-up table, with as many rows as the experiments need."""
    table = census_shaped(rows)
    note = f"The table is made up (`paper.dataset`, seed {SEED}): nobody in it exists."
    return Dataset(
        title=_SYNTHETIC,
        table=table,
        sensitive=CENSUS_SENSITIVE,
        columns=tuple(table.column_names),
        fingerprint=_digest(table),
        notes=(note,),
    )


def read_dataset(
    path: Path,
    rows: int,
    *,
    sensitive: Sequence[str] = (),
    quasi_identifiers: Sequence[str] = (),
    title: str | None = None,
    table_name: str | None = None,
) -> Dataset:
    """The first rows of a table, CENSUS-shaped unless roles are given."""
    sensitive_columns = tuple(dict.fromkeys(sensitive)) or CENSUS_SENSITIVE
    with plain_arrow_errors(), open_source(path, table_name) as source:
        for name in (*sensitive_columns, *quasi_identifiers):
            if name not in source.names:
                raise NoSuchColumnError.in_table(name, source.names)
        columns = tuple(dict.fromkeys(quasi_identifiers or source.names))
        named = list(dict.fromkeys((*columns, *sensitive_columns)))
        table = _read(source.batches(named), source.schema(named), rows)
    for name in sensitive_columns:
        if not [column for column in columns if column != name]:
            raise UsageError(f"there is no quasi-identifier beside {name!r}", "Name some with --quasi-identifiers.")
    if table.num_rows < FEWEST_ROWS:
        raise InputError(
            f"the table has {table.num_rows:,} rows, and the experiments need at least {FEWEST_ROWS:,}",
            "Give a larger table, or none: one is then made up.",
        )
    notes: tuple[str, ...] = ()
    if table.num_rows < rows:
        notes = (f"The table has {table.num_rows:,} rows, fewer than the {rows:,} of these settings: all are used.",)
    return Dataset(
        title=title or _KNOWN.get(_first_rows(table), path.stem),
        table=table,
        sensitive=sensitive_columns,
        columns=columns,
        fingerprint=_digest(table),
        notes=notes,
    )


def census_shaped(rows: int, seed: int = SEED) -> pa.Table:
    """So many made-up people, each column as codes from 0."""
    chance = np.random.default_rng(seed)
    sizes = chance.dirichlet(np.full(CLASSES, 6.0))
    place = np.sort(chance.random(CLASSES))
    education = _fit_margin(sizes, place, margin(*FREQUENCIES["Education"], DOMAINS["Education"]), 0.10, chance)
    occupation = _fit_margin(sizes, place, margin(*FREQUENCIES["Occupation"], DOMAINS["Occupation"]), 0.08, chance)
    work = _fit_margin(sizes, place, margin(0.002, 0.65, DOMAINS["WorkClass"]), 0.25, chance)
    female = chance.beta(1.2, 1.2, DOMAINS["Occupation"])
    ages = _bell(DOMAINS["Age"], 12 + 24 * chance.random(CLASSES) + 8 * place, 13.0)

    person = chance.choice(CLASSES, rows, p=sizes)
    age = _draw(ages, person, chance)
    job = _draw(occupation, person, chance)
    race = chance.choice(DOMAINS["Race"], rows, p=margin(0.0006, 0.75, DOMAINS["Race"])[::-1])
    columns = {
        "Age": age,
        "Gender": (chance.random(rows) < female[job]).astype(np.int64),
        "Education": _draw(education, person, chance),
        "Marital": _draw(_marital(), np.minimum(age // 8, 8), chance),
        "Race": race,
        "WorkClass": _draw(work, person, chance),
        "Country": _draw(_countries(chance), race, chance),
        "Occupation": job,
    }
    return pa.table({name: pa.array(columns[name].astype(np.uint8)) for name in DOMAINS})


def margin(least: float, most: float, values: int) -> Floats:
    """Frequencies from `least` to `most` that sum to 1: least (most / least)^(t^a), t from 0 to 1, with the right a."""
    places = np.linspace(0.0, 1.0, values)
    low, high = 1e-3, 1e3
    for _ in range(200):  # the sum falls as a grows
        power = np.sqrt(low * high)
        frequencies = least * (most / least) ** (places**power)
        low, high = (power, high) if frequencies.sum() > 1 else (low, power)
    return np.asarray(frequencies / frequencies.sum())


def _fit_margin(sizes: Floats, place: Floats, target: Floats, width: float, chance: np.random.Generator) -> Floats:
    """Chances of each value in each class, more where their places on the line are near, with the margin `target`."""
    value_place = chance.permutation(np.linspace(0.0, 1.0, len(target)))
    joint = np.exp(-0.5 * ((place[:, None] - value_place) / width) ** 2) + 0.01
    joint *= chance.gamma(2.0, 1.0, joint.shape)
    for _ in range(500):
        joint *= (sizes / joint.sum(axis=1))[:, None]
        joint *= target / joint.sum(axis=0)
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def _bell(values: int, centres: Floats, width: float) -> Floats:
    heights = np.exp(-0.5 * ((np.arange(values) - centres[:, None]) / width) ** 2) + 3e-3
    return np.asarray(heights / heights.sum(axis=1, keepdims=True))


def _marital() -> Floats:
    """Six states, by age in steps of eight years: the never married give way to the married, they to the widowed."""
    old = np.linspace(0.0, 1.0, 9)
    never, widowed = 0.88 * np.exp(-4.0 * old) + 0.04, 0.01 + 0.45 * old**3
    divorced, separated, absent = 0.02 + 0.16 * np.sqrt(old), np.full(9, 0.02), np.full(9, 0.015)
    married = 1.0 - never - widowed - divorced - separated - absent
    return np.stack([married, never, divorced, widowed, separated, absent], axis=1)


def _countries(chance: np.random.Generator) -> Floats:
    """Country 0 is home; the others are rare, and each is more likely for some races than for others."""
    abroad = np.geomspace(0.2, 0.002, DOMAINS["Country"] - 1) * chance.gamma(0.7, 1.0, (DOMAINS["Race"], 82)) + 1e-3
    home = np.concatenate([[0.94], np.linspace(0.7, 0.35, DOMAINS["Race"] - 1)])  # the first race is the most frequent
    away = abroad / abroad.sum(axis=1, keepdims=True) * (1 - home[:, None])
    return np.concatenate([home[:, None], away], axis=1)


def _draw(chances: Floats, given: Codes, chance: np.random.Generator) -> Codes:
    """A value for every person by the row of `chances` that `given` names."""
    edges = np.cumsum(chances, axis=1)
    draws = chance.random(len(given)) + given  # row g of the edges lies between g and g + 1
    edges[:, -1] = 1.0
    flat = (edges + np.arange(len(edges))[:, None]).ravel()
    return np.asarray(np.searchsorted(flat, draws, side="right") - given * chances.shape[1])


def _read(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> pa.Table:
    read: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        read.append(batch.slice(0, missing))
        missing -= read[-1].num_rows
        if missing <= 0:
            break
    if not read:
        return schema.empty_table()
    table = pa.Table.from_batches(read)
    plain = [pc.cast(c, c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(plain, names=table.column_names).combine_chunks()


def _first_rows(table: pa.Table) -> str:
    rows = table.slice(0, FEWEST_ROWS).to_pydict()
    return hashlib.sha256(repr(sorted(rows.items())).encode()).hexdigest()


def _digest(table: pa.Table) -> str:
    """A hash of what the table says, column by column."""
    digest = hashlib.sha256()
    sink = pa.BufferOutputStream()
    bare = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, bare.schema) as stream:
        stream.write_table(bare)
    digest.update(sink.getvalue())
    return digest.hexdigest()
