"""What a publisher would do with a table of people: a release, made-up people, generalised rows, or the rows.

Every method takes `People` and gives `Given`: rows for the analyst, and what an attacker gets to see.

- MST (McKenna, Miklau and Sheldon 2021) on top of `mbi`: counts of all columns with Gaussian noise, a spanning tree of
  pairs of columns by the exponential mechanism, counts of these pairs with noise, and made-up people from the model
  that fits the counts. A third of the budget goes to each step. Values that are too rare to be told from noise count
  as one. Which values a column may have is taken as known to everybody.
- ANJANA generalises columns for everybody alike until every combination is that of k people with l different values,
  and leaves out some people. Numbers go to bands of 5, 10 and 20, then to *; all else goes to *. An analyst draws for
  each label one of the values that it stands for.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")  # mbi wants both, and looks when it is imported
os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "0")

import mbi
import networkx
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import dalenius

Frame = Any  # of pandas
Pair = tuple[str, ...]
DRAWS = 5
DELTA = 1e-9
_LEFT_OUT = 5  # percent of people that ANJANA may leave out
_WIDTHS = (5, 10, 20)
_ORDERS = 1 + np.geomspace(1e-2, 1e4, 4000)
_APART = Path(__file__).with_name("peers_apart.py")


@dataclass(frozen=True)
class People:
    """Who is published and who is held out, as rows with the same columns, and the values that a column may have."""

    published: Frame
    held_out: Frame
    sensitive: str
    quasi_identifiers: list[str]
    numbers: list[str]
    domains: dict[str, list[Any]]

    @property
    def columns(self) -> list[str]:
        return [*self.quasi_identifiers, self.sensitive]


def unchanged(rows: Frame) -> Frame:
    return rows


@dataclass(frozen=True)
class Given:
    """What a method gives. `drawn` are rows for an analyst, who may have a `model` besides.

    An attacker sees `seen`, where people look as `looks` says, and guesses the values of the people `inside`. Or else
    the `attack` is known already: how often guesses are right, and how often for people who are held out.
    """

    drawn: list[Frame]
    inside: Frame
    seen: Frame = None
    looks: Callable[[Frame], Frame] = unchanged
    model: Any = None
    attack: tuple[float, float] | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def raw(people: People, rows: int | None = None) -> Given:
    """The rows themselves, or some of them."""
    given = people.published if rows is None else people.published.iloc[:rows]
    return Given([given], given, seen=given)


def release(people: People, limits: dict[str, Any], **options: Any) -> Given:
    """A release, what an analyst makes of it, and what its own audit says of the attacker who learns."""
    roles: dict[str, Any] = {"sensitive": people.sensitive, "quasi_identifiers": people.quasi_identifiers}
    published: Any = dalenius.publish(people.published, limits, **roles, seed=1, **options)
    audit = published.audit(truth=people.published, control=people.held_out, attacks=["learning"])
    learning = audit["learning"].as_object()
    drawn = [frame[people.columns] for frame in published.complete(DRAWS)]
    model = published.fit(LogisticRegression(max_iter=1000))
    strata = published.manifest.strata
    facts = {
        "mse": published.manifest.mse,
        "strata": 1 if strata is None else len(strata.strata),
        "baseline": learning["baseline"],
        "learner": learning["details"].get("learner"),
    }
    attack = (learning["success"], learning["control"])
    return Given(drawn, people.published, model=model, attack=attack, facts=facts)


def concentrated(epsilon: float, delta: float = DELTA) -> float:
    """The largest rho for which rho-zCDP implies (epsilon, delta)-differential privacy.

    It does for delta = min over a > 1 of exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1) (Canonne, Kamath and
    Steinke 2020). Every a is enough, so that a grid of them errs on the safe side.
    """

    def excess(rho: float) -> float:
        logs = (_ORDERS - 1) * (_ORDERS * rho - epsilon) + _ORDERS * np.log1p(-1 / _ORDERS) - np.log(_ORDERS - 1)
        return float(logs.min()) - math.log(delta)

    return float(brentq(excess, 1e-9, epsilon + 1))


def mst(people: People, epsilon: float) -> Given:
    """Made-up people by MST, as many as the noisy counts say that there are."""
    rng = np.random.default_rng(1)
    np.random.seed(1)  # mbi draws people from it
    rho = concentrated(epsilon)
    domains = {name: np.array(people.domains[name]) for name in people.columns}
    codes = {name: pd.Categorical(people.published[name], values).codes for name, values in domains.items()}
    table = mbi.Dataset(codes, mbi.Domain(people.columns, [len(values) for values in domains.values()]))
    counts = _noisy(table, [(name,) for name in people.columns], rho / 3, rng)
    total = _total(counts)
    merged = {one.clique[0]: _merged(one) for one in counts}
    counts = [one.compress(merged, table.domain) for one in counts]
    table = table.compress(merged)
    independent = mbi.estimation.MirrorDescent().estimate(table.domain, counts, total, iters=1000)
    pairs = _spanning_tree(table, independent, rho / 3, rng)
    counts += _noisy(table, pairs, rho / 3, rng)
    model = mbi.estimation.MirrorDescent().estimate(table.domain, counts, total, iters=5000)
    made = model.synthetic_data().decompress(merged)
    rows = pd.DataFrame({name: values[made.data[name]] for name, values in domains.items()})
    return Given([rows], people.published, seen=rows, facts={"rho": rho, "pairs": pairs})


def _noisy(table: Any, columns: list[Pair], rho: float, rng: np.random.Generator) -> list[Any]:
    """Counts with noise: with deviation s, one person more or less costs 1 / (2 s²) for each set of columns."""
    deviation = math.sqrt(len(columns) / (2 * rho))
    exact = [np.asarray(table.project(names).datavector()) for names in columns]
    noisy = [counts + rng.normal(0, deviation, counts.size) for counts in exact]
    return [mbi.LinearMeasurement(*one, deviation) for one in zip(noisy, columns, strict=True)]


def _merged(counts: Any) -> npt.NDArray[np.int64]:
    """The new code of every value: values of fewer than three deviations are one."""
    frequent = np.asarray(counts.noisy_measurement) >= 3 * counts.stddev
    return np.where(frequent, np.cumsum(frequent) - 1, frequent.sum())


def _total(counts: list[Any]) -> float:
    """How many people there are, as far as noisy counts of all columns tell: columns of few values tell it best."""
    numbers = np.array([one.noisy_measurement.size for one in counts])
    sums = np.array([one.noisy_measurement.sum() for one in counts])
    return float((sums / numbers).sum() / (1 / numbers).sum())


def _spanning_tree(table: Any, independent: Any, rho: float, rng: np.random.Generator) -> list[Pair]:
    """Pairs that connect all columns, each chosen by how far off its counts are if columns are independent.

    The distance changes by 1 at most with one person. A choice with probabilities in proportion to exp(e / 2 times the
    distance) costs e² / 8.
    """
    names = list(table.domain.attributes)
    pairs = list(itertools.combinations(names, 2))
    off = {
        pair: float(np.abs(np.asarray(table.project(pair).datavector() - independent.project(pair).datavector())).sum())
        for pair in pairs
    }
    epsilon = math.sqrt(8 * rho / (len(names) - 1))
    tree = networkx.Graph()
    tree.add_nodes_from(names)
    while len(tree.edges) < len(names) - 1:
        pairs = [pair for pair in pairs if not networkx.has_path(tree, *pair)]
        chances = softmax([epsilon / 2 * off[pair] for pair in pairs])
        tree.add_edge(*pairs[rng.choice(len(pairs), p=chances)])
    return [tuple(edge) for edge in tree.edges]


def generalised(people: People, k: int, l: int) -> Given:  # noqa: E741
    """Rows by ANJANA."""
    levels = {name: _levels(people, name) for name in people.quasi_identifiers}
    settings = {
        "sensitive": people.sensitive,
        "quasi_identifiers": people.quasi_identifiers,
        "k": k,
        "l": l,
        "left_out": _LEFT_OUT,
        "hierarchies": levels,
    }
    seen = _by_anjana(people.published.astype(str), settings)
    chosen = {name: _chosen(levels[name], seen[name]) for name in people.quasi_identifiers}

    def looks(rows: Frame) -> Frame:
        return pd.DataFrame({name: rows[name].astype(str).map(labels) for name, labels in chosen.items()})

    rng = np.random.default_rng(1)
    drawn = [_drawn(people, seen, chosen, rng) for _ in range(DRAWS)]
    shown = {name: len(set(labels.values())) for name, labels in chosen.items()}
    facts = {"left_out": len(people.published) - len(seen), "labels": shown}
    return Given(drawn, people.published, seen=seen, looks=looks, facts=facts)


def _levels(people: People, name: str) -> list[list[str]]:
    """The labels of every value of a column: its own, wider and wider bands if it is a number, and *."""
    values = people.domains[name]
    bands = [
        [f"{value // width * width}-{value // width * width + width - 1}" for value in values]
        for width in (_WIDTHS if name in people.numbers else ())
    ]
    return [[str(value) for value in values], *bands, ["*"] * len(values)]


def _by_anjana(table: Frame, settings: dict[str, Any]) -> Frame:
    with tempfile.TemporaryDirectory() as name:
        source, asked, out = (Path(name) / file for file in ("table.parquet", "settings.json", "anonymous.parquet"))
        table.to_parquet(source, index=False)
        asked.write_text(json.dumps(settings), encoding="utf-8")
        uv = os.environ.get("UV", "uv")  # which `uv run` sets
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}  # so that nothing of this folder is imported there
        subprocess.run([uv, "run", "--script", str(_APART), str(source), str(asked), str(out)], check=True,
                       env=environment)  # fmt: skip
        return pd.read_parquet(out)


def _chosen(levels: list[list[str]], labels: Frame) -> dict[str, str]:
    """The label of every value on the level that was chosen for all."""
    shown = set(labels)
    level = next(level for level in levels if shown <= set(level))
    return dict(zip(levels[0], level, strict=True))


def _drawn(people: People, seen: Frame, chosen: dict[str, dict[str, str]], rng: np.random.Generator) -> Frame:
    """Rows with one of the values that each label stands for, all of them equally likely."""
    rows = {}
    for name, labels in chosen.items():
        values = np.array(people.domains[name])
        meant = np.array(list(labels.values()))
        column = np.empty(len(seen), values.dtype)
        for label in set(labels.values()):
            here = (seen[name] == label).to_numpy()
            column[here] = rng.choice(values[meant == label], here.sum())
        rows[name] = column
    return pd.DataFrame({**rows, people.sensitive: seen[people.sensitive].to_numpy()})
