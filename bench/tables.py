"""Made-up tables of any length, written in pieces: the shapes that publishing is measured on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

_PIECE = 1_000_000
_CENSUS = {"Age": 76, "Gender": 2, "Education": 14, "Marital": 5, "Race": 9, "WorkClass": 8, "Country": 83}
_OCCUPATIONS = 50


@dataclass(frozen=True)
class Shape:
    """A kind of table. `codes`: seven columns of bytes. `mixed`: text, dates and numbers. `wide`: beyond 64 bits."""

    name: str
    quasi_identifiers: tuple[str, ...]
    sensitive: str = "Occupation"


SHAPES = {
    "codes": Shape("codes", tuple(_CENSUS)),
    "mixed": Shape("mixed", ("Age", "Gender", "Education", "Birth", "Zip")),
    "wide": Shape("wide", ("Age", "Gender", "Education", "Birth", "Zip", "Income", "Seen")),
}


def _skewed(rng: np.random.Generator, values: int, rows: int) -> npt.NDArray[np.uint8]:
    """Codes that get rarer, the largest share about five times the mean."""
    weights = 1 / (np.arange(values) + values / 8 + 1)
    return rng.choice(values, rows, p=weights / weights.sum()).astype(np.uint8)


def _piece(shape: Shape, rng: np.random.Generator, rows: int) -> pa.Table:
    codes = {name: _skewed(rng, values, rows) for name, values in _CENSUS.items()}
    # four of ten have an occupation that goes with their education, gender and age: there is something to cut by
    alike = (_skewed(rng, 6, rows) + 3 * codes["Education"] + 7 * codes["Gender"] + codes["Age"] // 16) % _OCCUPATIONS
    occupation = np.where(rng.random(rows) < 0.4, alike, _skewed(rng, _OCCUPATIONS, rows)).astype(np.uint8)
    if shape.name == "codes":
        return pa.table(
            {name: pa.array(column) for name, column in codes.items()} | {"Occupation": pa.array(occupation)}
        )
    labels = {
        "Gender": ["F", "M"],
        "Education": [f"Education level {k}" for k in range(14)],
        "Zip": [f"{k * 197:05d}" for k in range(500)],
        "Occupation": [f"Occupation {k}" for k in range(_OCCUPATIONS)],
    }

    def text(name: str, code: npt.NDArray[np.integer]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int16)), labels[name]).cast(pa.string())

    columns = {
        "Age": pa.array(codes["Age"]),
        "Gender": text("Gender", codes["Gender"]),
        "Education": text("Education", codes["Education"]),
        "Birth": pa.array(rng.integers(0, 14_600, rows).astype(np.int32)).cast(pa.date32()),
        "Zip": text("Zip", rng.integers(0, 500, rows)),
    }
    if shape.name == "wide":
        columns["Income"] = pa.array(np.round(rng.lognormal(10, 1, rows), 2))
        columns["Seen"] = pa.array(rng.integers(0, 10**15, rows)).cast(pa.timestamp("us"))
    return pa.table(columns | {"Occupation": text("Occupation", occupation)})


def write_table(shape: Shape, rows: int, path: Path) -> None:
    """Write so many rows as Parquet."""
    rng = np.random.default_rng(rows)
    with pyarrow.parquet.ParquetWriter(path, _piece(shape, rng, 1).schema) as writer:
        for first in range(0, rows, _PIECE):
            writer.write_table(_piece(shape, rng, min(_PIECE, rows - first)))


def write_folder(shape: Shape, rows: int, folder: Path) -> None:
    """Write so many rows as a folder of Parquet files: four of them, or one for every million rows."""
    rng = np.random.default_rng(rows)
    folder.mkdir()
    files = max(4, -(-rows // _PIECE))
    cuts = np.linspace(0, rows, files + 1).astype(int).tolist()
    for number, (first, last) in enumerate(pairwise(cuts)):
        pyarrow.parquet.write_table(_piece(shape, rng, last - first), folder / f"part-{number:05d}.parquet")
