"""Tables that were made up with known coefficients, and how often intervals from their releases hold the truth.

Everybody has an age, one of two sexes, one of five regions and one of eight trades; trades say nothing. Three designs:

- `binary`: one of two values, by a logit model;
- `six values`: one of six values, by a multinomial model;
- `numbers`: an income, by a linear model, published in eight bands.

Coefficients are those that the table was drawn with (`target="population"`). Counts of a cross-tab, and means of
numbers by sex and by region, are those of the table itself (`target="table"`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import dalenius
from dalenius.analysis.cross_tabs import cross_tab
from dalenius.analysis.describing import describe
from dalenius.analysis.formulas import fit_formula
from dalenius.analysis.generalised import Family
from dalenius.analysis.learned import Lesson
from dalenius.analysis.pieces import slot_tables
from dalenius.infer.candidates import Floats
from dalenius.model.progress import Silent
from dalenius.release.folder import ReleaseFolder, open_release

IDENTIFIERS = ("age", "sex", "region", "trade")
RIGHT = "age + C(sex) + C(region)"
TERMS = ("Intercept", "C(sex)[T.m]", "C(region)[T.b]", "C(region)[T.c]", "C(region)[T.d]", "C(region)[T.e]", "age")
REGIONS = "abcde"
VALUES = "uvwxyz"
Held = dict[str, list[tuple[float, bool]]]  # by kind of quantity: error over standard error, and whether it holds


@dataclass(frozen=True)
class MadeUp:
    """A design: how many people, the odds of the release, and coefficients by outcome but the first and by term."""

    name: str
    people: int
    odds: int
    family: Family
    coefficients: Floats
    spread: float = 0.0

    def table(self, random: np.random.Generator) -> pa.Table:
        people = self.people
        age, sex = random.integers(18, 80, people), random.integers(2, size=people)
        region = random.choice(5, people, p=[0.3, 0.25, 0.2, 0.15, 0.1])
        design = np.column_stack([np.ones(people), sex, *(region == place for place in range(1, 5)), age])
        scores = design @ self.coefficients.T
        if self.family == "linear":
            answers = np.round(scores[:, 0] + self.spread * random.standard_normal(people), 2)
        else:
            answers = _chosen(np.column_stack([np.zeros(people), scores]), random)
        columns = {
            "age": age,
            "sex": np.array(["f", "m"])[sex],
            "region": np.array(list(REGIONS))[region],
            "trade": random.integers(8, size=people).astype(str),
            "answer": answers,
        }
        return pa.table(columns)

    @property
    def left(self) -> str:
        return "I(answer == 'v')" if self.family == "logit" else "answer"

    def truths(self) -> list[tuple[str, float]]:
        if self.family == "multinomial":
            return [
                (f"{VALUES[place + 1]}: {term}", float(value))
                for place, own in enumerate(self.coefficients)
                for term, value in zip(TERMS, own, strict=True)
            ]
        return [(term, float(value)) for term, value in zip(TERMS, self.coefficients[0], strict=True)]


def _chosen(scores: Floats, random: np.random.Generator) -> Any:
    """One of the outcomes for every row, by the multinomial model."""
    picked = (scores + random.gumbel(size=scores.shape)).argmax(axis=1)
    return np.array(list(VALUES))[picked]


_SIX = np.array([
    [-0.4, 0.5, 0.0, 0.3, -0.5, 0.0, 0.010],
    [0.6, -0.8, 0.4, 0.0, 0.0, 0.6, -0.020],
    [-1.0, 0.0, -0.3, 0.0, 0.8, 0.0, 0.015],
    [-0.5, 0.3, 0.0, -0.6, 0.0, 0.4, 0.000],
    [-2.5, 0.0, 0.0, 0.5, 0.0, -0.4, 0.030],
])  # fmt: skip
DESIGNS = (
    MadeUp("binary", 4000, 2, "logit", np.array([[-1.5, 0.6, 0.0, -0.4, 0.5, 0.9, 0.015]])),
    MadeUp("six values", 6000, 4, "multinomial", _SIX),
    MadeUp("numbers", 5000, 4, "linear", np.array([[20.0, 4.0, 0.0, -3.0, 2.0, 6.0, 0.3]]), 12.0),
)


def published(design: MadeUp, table: pa.Table, seed: int) -> dalenius.Release:
    limits: dict[str, Any] = {"odds": design.odds}
    if design.family == "linear":
        limits["grouping"] = "quantiles:8"
    return dalenius.publish(table, limits, sensitive="answer", quasi_identifiers=list(IDENTIFIERS), seed=seed)


def asked(design: MadeUp, seed: int) -> Iterator[tuple[str, float, bool]]:
    """The quantities of one release: their kind, error over standard error, and whether the interval has the truth."""
    table = design.table(np.random.default_rng(seed))
    release = published(design, table, seed)
    folder = open_release(release.path)
    pooled = fit_formula(folder, f"{design.left} ~ {RIGHT}", design.family, seed=seed)
    ends, place = pooled.conf_int().to_numpy(), {name: number for number, name in enumerate(pooled.names)}
    for name, truth in design.truths():
        at = place[name]
        error = float(np.sqrt(pooled.covariance[at, at]))
        holds = bool(ends[at, 0] <= truth <= ends[at, 1])
        yield "coefficient", (float(pooled.estimates[at]) - truth) / error, holds
    yield from _tabulated(design, table, folder, seed)


def _tabulated(design: MadeUp, table: pa.Table, folder: ReleaseFolder, seed: int) -> Iterator[tuple[str, float, bool]]:
    """Cells of sex and region by value, or means of numbers by sex and region, of the table: as analysts get them."""
    truth, lesson = table.to_pandas(), Lesson(folder, slot_tables(folder, ["answer"]), Silent())
    for name in ("sex", "region"):
        if design.family == "linear":
            kind, true = "mean", truth.groupby(name).answer.mean()
            found = describe(folder, "answer", name, quantiles=(), seed=seed, lesson=lesson).set_index(name)
        else:
            kind, true = "cell", truth.groupby([name, "answer"]).size()
            found = cross_tab(folder, name, "answer", seed=seed, lesson=lesson).tidy().set_index([name, "answer"])
        for at, line in found.iterrows():
            value = float(true.get(at, 0))
            off = (line["estimate"] - value) / max(line["std_error"], 1e-12)
            yield kind, float(off), bool(line["low"] <= value <= line["high"])


def measured(design: MadeUp, releases: int, first: int = 1000) -> list[dict[str, Any]]:
    """How often intervals hold, by kind of quantity."""
    held: Held = {}
    for seed in range(first, first + releases):
        for kind, ratio, holds in asked(design, seed):
            held.setdefault(kind, []).append((ratio, holds))
    return [
        {
            "design": design.name,
            "people": design.people,
            "odds": design.odds,
            "releases": releases,
            "kind": kind,
            "quantities": len(own),
            "holds": float(np.mean([holds for _, holds in own])),
            "ratio": float(np.sqrt(np.mean([ratio**2 for ratio, _ in own]))),
        }
        for kind, own in held.items()
    ]
