"""Quantities of real tables that a release leaves open, and whether intervals from completed tables hold them.

Three kinds of quantities are asked of a table: how many people have one value of a quasi-identifier and one sensitive
value; which share of a random group, by one to three quasi-identifiers, has one value; and coefficients of logit models
of one value on two or three quasi-identifiers. The truth is what the published table itself gives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import dalenius
from bench.coverage import Case
from dalenius.analysis.generalised import Lines, Model, fit_draws
from dalenius.analysis.outcomes import draw_outcomes, plain_values
from dalenius.analysis.rubin import pool_estimates
from dalenius.errors import UsageError
from dalenius.infer.candidates import Floats, Integers
from dalenius.query.workload import answer, encode, generate, value_dictionary, values_per_predicate
from dalenius.release.folder import ReleaseFolder, open_release

KINDS = ("cell", "share", "coefficient")
_SEED = 11
_SELECTIVITY = 0.05
_LEAST_GROUP = 100  # people
_LEAST_CELL = 5  # people
_COLUMNS = 3  # of a model, at most
Bools = npt.NDArray[np.bool_]
Quantities = Callable[["Coded", Integers], Floats]


@dataclass(frozen=True)
class Coded:
    """The quasi-identifiers of rows as codes from 0, and the number that each code stands for, if there are numbers."""

    names: list[str]
    codes: list[Integers]
    numbers: list[Floats | None]
    values: int

    @property
    def rows(self) -> int:
        return len(self.codes[0])


@dataclass(frozen=True)
class Subject:
    """A table and its release in the same codes: what everybody has, in truth and in each draw."""

    truth: Coded
    truth_values: Integers
    drawn: Coded
    draws: list[Integers]
    labels: list[Any]
    seconds: dict[str, float]


def publish(case: Case, table: pa.Table) -> dalenius.Release:
    names = list(case.quasi_identifiers)
    return dalenius.publish(table, {"odds": case.odds}, sensitive=case.sensitive, quasi_identifiers=names, seed=_SEED)


def subject(case: Case, table: pa.Table, folder: ReleaseFolder, draws: int = 20, seed: int = 1) -> Subject:
    """Draw completed tables, and code them as the table."""
    started = time.perf_counter()
    found = draw_outcomes(folder, [case.sensitive], list(case.quasi_identifiers), draws=draws, seed=seed)
    seconds = {"drawing": time.perf_counter() - started}
    labels, codes = found.kinds(case.sensitive)
    rows, here = plain_values(table).to_pandas(), plain_values(found.rows).to_pandas()
    place = {label: number for number, label in enumerate(labels)}
    truth: list[Integers] = []
    drawn: list[Integers] = []
    numbers: list[Floats | None] = []
    for name in case.quasi_identifiers:
        both = np.concatenate([rows[name].to_numpy(), here[name].to_numpy()])
        values, coded = np.unique(both.astype(str) if both.dtype == object else both, return_inverse=True)
        truth.append(coded[: len(rows)].astype(np.int64))
        drawn.append(coded[len(rows) :].astype(np.int64))
        numbers.append(values.astype(np.float64) if values.dtype.kind in "iuf" else None)
    names = list(case.quasi_identifiers)
    return Subject(
        Coded(names, truth, numbers, len(labels)),
        rows[case.sensitive].map(place).to_numpy().astype(np.int64),
        Coded(names, drawn, numbers, len(labels)),
        [own.astype(np.int64) for own in codes],
        labels,
        seconds,
    )


@dataclass(frozen=True)
class Asked:
    """Some quantities of one kind, and how to work them out from what everybody has."""

    kind: str
    number: int
    of: Callable[[Coded, Sequence[Integers]], Floats]  # draws x quantities
    about: list[tuple[list[str], int]]  # for each its quasi-identifiers and its value


def ask(coded: Coded, values: Integers, quantities: int, seed: int) -> list[Asked]:
    """Random quantities, a third of each kind, of the rows of the table and their values."""
    random = np.random.default_rng(seed)
    third = quantities // 3
    models = _models(coded, values, quantities - 2 * third, random)
    return [_cells(coded, third, random), _shares(coded, third, random), *models]


def _cells(coded: Coded, number: int, random: np.random.Generator) -> Asked:
    columns = random.integers(len(coded.codes), size=number)
    codes = np.array([coded.codes[column][random.integers(coded.rows)] for column in columns])
    values = random.integers(coded.values, size=number)

    def of(rows: Coded, draws: Sequence[Integers]) -> Floats:
        found = np.empty((len(draws), number))
        for column in np.unique(columns):
            own, kinds = columns == column, int(rows.codes[column].max()) + 1
            for place, draw in enumerate(draws):
                table = np.bincount(rows.codes[column] * rows.values + draw, minlength=kinds * rows.values)
                found[place, own] = table[codes[own] * rows.values + values[own]]
        return found

    return Asked(
        "cell", number, of, [([coded.names[one]], int(value)) for one, value in zip(columns, values, strict=True)]
    )


def _shares(coded: Coded, number: int, random: np.random.Generator) -> Asked:
    groups: list[tuple[list[tuple[int, Integers]], int]] = []
    kinds = [int(own.max()) + 1 for own in coded.codes]
    while len(groups) < number:
        wide = int(random.integers(1, min(3, len(kinds)) + 1))
        chosen = [
            (int(column), random.choice(kinds[column], values_per_predicate(kinds[column], wide, _SELECTIVITY), False))
            for column in random.choice(len(kinds), wide, replace=False)
        ]
        if _matching(coded, chosen).sum() >= _LEAST_GROUP:
            groups.append((chosen, int(random.integers(coded.values))))

    def of(rows: Coded, draws: Sequence[Integers]) -> Floats:
        found = np.empty((len(draws), number))
        for place, (chosen, value) in enumerate(groups):
            those = np.flatnonzero(_matching(rows, chosen))
            found[:, place] = [(draw[those] == value).mean() for draw in draws]
        return found

    about = [([coded.names[column] for column, _ in chosen], value) for chosen, value in groups]
    return Asked("share", number, of, about)


def _matching(rows: Coded, chosen: list[tuple[int, Integers]]) -> Bools:
    matching = np.ones(rows.rows, bool)
    for column, codes in chosen:
        kept = np.zeros(int(max(rows.codes[column].max(), codes.max())) + 1, bool)
        kept[codes] = True
        matching &= kept[rows.codes[column]]
    return matching


def _models(coded: Coded, values: Integers, number: int, random: np.random.Generator) -> list[Asked]:
    """Logit models of one value; an ordered column is a number in them, of any other one value is."""
    models, left = [], number
    while left > 0:
        wide = min(left, int(random.integers(2, _COLUMNS + 1)), len(coded.codes))
        columns = random.choice(len(coded.codes), wide, replace=False)
        terms = [_term(coded, int(column), random) for column in columns]
        value = int(random.integers(coded.values))
        if not all(_has_slope(coded, term, values == value) for term in terms):
            continue
        about = [([coded.names[column]], value) for column, _ in terms]
        models.append(Asked("coefficient", wide, _Logit(terms, value), about))
        left -= wide
    return models


def _term(coded: Coded, column: int, random: np.random.Generator) -> tuple[int, Floats]:
    numbers = coded.numbers[column]
    kinds = int(coded.codes[column].max()) + 1
    if numbers is not None and kinds > 4:
        return column, numbers
    chosen = np.zeros(kinds)
    chosen[coded.codes[column][random.integers(coded.rows)]] = 1.0
    return column, chosen


def _has_slope(coded: Coded, term: tuple[int, Floats], those: Bools) -> bool:
    """Whether some people of a category have the value, and some do not: else its coefficient is infinite."""
    column, numbers = term
    if set(np.unique(numbers)) != {0.0, 1.0}:
        return True
    category = numbers[coded.codes[column]] > 0
    having = int((category & those).sum())
    return having >= _LEAST_CELL and int(category.sum()) - having >= _LEAST_CELL


@dataclass(frozen=True)
class _Logit:
    terms: list[tuple[int, Floats]]
    value: int

    def __call__(self, rows: Coded, draws: Sequence[Integers]) -> Floats:
        key = np.zeros(rows.rows, np.int64)
        for column, numbers in self.terms:
            key = key * len(numbers) + rows.codes[column]
        used, line = np.unique(key, return_inverse=True)
        design, rest = [np.ones(len(used))], used
        for _, numbers in reversed(self.terms):
            rest, code = np.divmod(rest, len(numbers))
            design.append(numbers[code])
        columns = np.stack(design, axis=1)
        lines = Lines(columns, np.ones(len(used), bool), [line] * len(draws))
        try:
            found, _ = fit_draws(Model(columns, 0), lines, [(draw == self.value) * 1 for draw in draws], 2)
        except UsageError:
            return np.full((len(draws), len(self.terms)), np.nan)
        return found[:, :0:-1]


def compare(held: Subject, asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """For every quantity the truth, the pooled estimate and its interval."""
    found: list[dict[str, Any]] = []
    for one in asked:
        truth = one.of(held.truth, [held.truth_values])[0]
        draws = one.of(held.drawn, held.draws)
        pooled = pool_estimates([one.kind] * one.number, draws, np.zeros((one.number, one.number)), 0.0)
        ends = pooled.conf_int().to_numpy()
        errors = np.sqrt(np.diag(pooled.covariance))
        found += [
            {
                "kind": one.kind,
                "about": [*one.about[place][0], str(held.labels[one.about[place][1]])],
                "truth": float(truth[place]),
                "estimate": float(pooled.estimates[place]),
                "error": float(errors[place]),
                "holds": bool(ends[place, 0] <= truth[place] + 1e-9 and truth[place] - 1e-9 <= ends[place, 1]),
            }
            for place in range(one.number)
            if np.isfinite(truth[place]) and np.isfinite(draws[:, place]).all()
        ]
    return found


def coverage(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By kind: how often intervals hold, and the root of the mean square of errors over their standard errors."""
    result = {}
    for kind in ("all", *KINDS):
        own = [one for one in found if kind in ("all", one["kind"])]
        if own:
            ratios = np.array([(one["estimate"] - one["truth"]) / max(one["error"], 1e-12) for one in own])
            some = np.array([one["error"] > 0 for one in own])
            off = [abs(one["estimate"] - one["truth"]) / abs(one["truth"]) for one in own if one["truth"]]
            result[kind] = {
                "quantities": len(own),
                "holds": float(np.mean([one["holds"] for one in own])),
                "ratio": float(np.sqrt(np.mean(ratios[some] ** 2))) if some.any() else 0.0,
                "relative error": float(np.median(off)),
            }
    return result


def counted(held: Subject, table: pa.Table, folder: ReleaseFolder, queries: int) -> dict[str, float]:
    """The median relative error of counts: matched at random, learned as `count` does, and as draws have them."""
    truth, coded = encode(folder, table, None, value_dictionary(folder.manifest))
    for mine, theirs in zip(held.drawn.codes, coded.attributes, strict=True):
        if len(np.unique(mine * (int(theirs.max()) + 2) + theirs)) != len(np.unique(mine)):
            raise SystemExit("rows of draws are not in the order of the release")
    own_code = np.zeros(held.truth.values, np.int64)
    own_code[held.truth_values] = truth.sensitive
    shares = np.zeros((held.drawn.rows, truth.sensitive_domain), np.float32)
    for draw in held.draws:
        shares[np.arange(held.drawn.rows), own_code[draw]] += 1 / len(held.draws)
    kinds = {"most_attributes": 3, "one_value": True}
    pool = generate(truth.domains, truth.sensitive_domain, queries, _SELECTIVITY, _SEED, **kinds)  # type: ignore[arg-type]
    answers = answer(truth, coded, pool, learn=True)
    mean = np.empty(len(pool))
    for place, query in enumerate(pool):
        matching = np.ones(held.drawn.rows, bool)
        for attribute, values in zip(query.attributes, query.values, strict=True):
            matching &= np.isin(coded.attributes[attribute], values)
        mean[place] = shares[matching][:, query.sensitive].sum(dtype=np.float64)
    some = answers.actual > 0
    actual = answers.actual[some]
    estimates = {"at random": answers.estimate, "draws": mean}
    if answers.learned is not None:
        estimates["count"] = answers.learned.estimate
    return {name: float(np.median(np.abs(own[some] - actual) / actual)) for name, own in estimates.items()}


def measured(case: Case, data: Path, quantities: int) -> dict[str, Any]:
    """One release of a real table, with quantities and a release that nothing was chosen by."""
    table = case.table(data)
    release = publish(case, table)
    folder = open_release(release.path)
    held = subject(case, table, folder)
    found = compare(held, ask(held.truth, held.truth_values, quantities, seed=_SEED))
    return {
        "case": f"{case.name}, odds {case.odds}",
        "strata": len(release.manifest.strata.strata) if release.manifest.strata is not None else 1,
        "coverage": coverage(found),
        "errors of counts": counted(held, table, folder, quantities),
        "seconds": held.seconds,
    }
