"""Who earns more than 50,000: models from a release of ACSIncome against models from the rows themselves.

A fifth of the people is held out. Every model is a logistic regression with a slight ridge, on two sets of features:
`linear`, a column for every category, and age, hours and schooling as numbers; and `curved`, those of the release's own
model: a column for every age, number of hours and grade too, their ranks, and the squares of these. From a release, a
model is fitted to everybody's learned weights (`weights="learned"`), or to the shares of values in buckets, which is
what joining the two tables gives.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from sklearn.metrics import roc_auc_score

import dalenius
from dalenius.analysis.outcomes import plain_values
from dalenius.analysis.weighing import Weighing, Weights
from dalenius.infer.candidates import Column, Floats, encode_column
from dalenius.infer.features import Coding, Singles
from dalenius.release.folder import ReleaseFolder, open_release

FILE = "acs2018_income_46states.parquet"
IDENTIFIERS = ("AGEP", "COW", "SCHL", "MAR", "RELP", "WKHP", "SEX", "RAC1P")
NUMBERS = ("AGEP", "SCHL", "WKHP")
PUBLISHED, HELD_OUT, FEW = 200_000, 50_000, 2_000
LIMITS: dict[str, dict[str, Any]] = {
    "above 1/2, below 1": {"above": Fraction(1, 2), "below": 1},
    "odds 2": {"odds": 2},
    "odds 4": {"odds": 4},
    "odds 8": {"odds": 8},
}
_STEPS, _RIDGE = 12, 1.0


def split(data: Path, whole: bool) -> tuple[pa.Table, pa.Table]:
    """The people who are published, and those who are held out."""
    table = pyarrow.parquet.read_table(data / FILE, columns=[*IDENTIFIERS, "PINCP"])
    names = pa.array(["below", "above"]).take(table["PINCP"].cast(pa.int8()))
    table = table.set_column(table.column_names.index("PINCP"), "PINCP", names)
    order = np.random.default_rng(5).permutation(table.num_rows)
    most = table.num_rows * 4 // 5 if whole else PUBLISHED
    rest = table.num_rows - most if whole else HELD_OUT
    return table.take(pa.array(order[:most])), table.take(pa.array(order[most : most + rest]))


class Features:
    """Both sets of features, for the people of one table and of another."""

    def __init__(self, published: pa.Table, held_out: pa.Table) -> None:
        self.rows = published.num_rows
        encoded = (encode_column(name, published[name], 2, held_out[name]) for name in IDENTIFIERS)
        self._columns = [column for column in encoded if column is not None]
        self._curved = Coding(self._columns, self.rows)
        plain = [Column(one.name, one.codes, one.kinds) for one in self._columns if one.name not in NUMBERS]
        self._plain, self._linear = plain, Coding(plain, self.rows)
        both = [np.concatenate([published[name].to_numpy(), held_out[name].to_numpy()]) * 1.0 for name in NUMBERS]
        self._numbers = np.stack([(own - own.mean()) / own.std() for own in both], axis=1).astype(np.float32)

    def of(self, kind: str, held_out: bool) -> Singles:
        rows = slice(self.rows, len(self._numbers)) if held_out else slice(0, self.rows)
        if kind == "curved":
            features = self._curved.dense(self._columns, rows)
        else:
            features = np.hstack([self._linear.dense(self._plain, rows), self._numbers[rows]])
        found: Singles = np.hstack([features, np.ones((len(features), 1), np.float32)])
        return found


def logistic(features: Singles, answers: Floats) -> Floats:
    """The slopes by Newton's method. Answers may be shares."""
    slopes = np.zeros(features.shape[1])
    ridge = np.append(np.full(features.shape[1] - 1, _RIDGE), 1e-6)
    for _ in range(_STEPS):
        shares = 1 / (1 + np.exp(-(features @ slopes.astype(np.float32)).astype(np.float64)))
        slope = features.T @ (answers - shares).astype(np.float32) - ridge * slopes
        weighted = features * np.sqrt(shares * (1 - shares)).astype(np.float32)[:, None]
        step = np.linalg.solve((weighted.T @ weighted).astype(np.float64) + np.diag(ridge), slope)
        slopes += step
        if np.abs(step).max() < 1e-4:
            break
    return slopes


def scored(slopes: Floats, features: Singles, truth: Floats) -> dict[str, float]:
    scores = features @ slopes
    return {"accuracy": float(((scores > 0) == (truth > 0)).mean()), "auc": float(roc_auc_score(truth, scores))}


def weighed(folder: ReleaseFolder, weights: Weights) -> tuple[pa.Table, Floats]:
    """The rows of a release, and how probable it is that each earns more."""
    people, shares = [], []
    weighing = Weighing(folder, weights)
    for piece in weighing.pieces():
        person = piece[weighing.names[0]].to_numpy()
        firsts = np.flatnonzero(np.diff(person, prepend=-1))
        above = np.array(piece["PINCP"].cast(pa.string()).to_numpy(zero_copy_only=False) == "above")
        own = piece[weighing.names[-1]].to_numpy() * above
        shares.append(np.add.reduceat(own, firsts))
        people.append(plain_values(piece.select(list(IDENTIFIERS)).take(pa.array(firsts))))
    return pa.concat_tables(people), np.concatenate(shares)


def earns(table: pa.Table) -> Floats:
    found: Floats = (table["PINCP"].to_numpy() == "above").astype(np.float64)
    return found


def measured(data: Path, whole: bool) -> list[dict[str, Any]]:
    """Accuracy and area under the curve for the people who are held out."""
    published, held_out = split(data, whole)
    truth = earns(held_out)
    rows: list[dict[str, Any]] = []

    def add(source: str, limits: str, people: pa.Table, answers: Floats) -> None:
        features = Features(people, held_out)
        for kind in ("linear", "curved"):
            slopes = logistic(features.of(kind, False), answers)
            found = scored(slopes, features.of(kind, True), truth)
            rows.append({"from": source, "limits": limits, "features": kind, "people": people.num_rows, **found})
            print(rows[-1], flush=True)

    add("rows", "-", published, earns(published))
    few = published.slice(0, FEW)
    add(f"{FEW:,} rows", "-", few, earns(few))
    for name, limits in LIMITS.items():
        release = dalenius.publish(
            published, limits, sensitive="PINCP", quasi_identifiers=list(IDENTIFIERS), seed=1, publish_in_the_clear=True
        )
        folder = open_release(release.path)
        for source, weights in (("release", "learned"), ("naive join", "bucket")):
            people, shares = weighed(folder, weights)  # type: ignore[arg-type]
            add(source, name, people, shares)
    return rows
