"""The paper's workload of count queries (Section 7.2.2), and how well a release answers it.

A query has q QI attributes, q uniform in 1..d, chosen at random, and for each of them and for the sensitive attribute a
predicate "A is one of b values", the values chosen at random from its domain, with

    b = ceil(|A| s^(1 / (q + 1))),

so that with independent uniform attributes a share s of the records is expected to match. With act the count on the
table and est the count from the release, the relative error is |act - est| / act. Queries with act = 0 have none: they
are counted, and left out of its mean and median.

`evaluate` compares a release with the table that it was made from, so it is for those who have that table. Everything
here is arrays of codes: value j of an attribute is the integer j, and -1 is a null, which matches nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.errors import InputError, UsageError, did_you_mean
from dalenius.infer.association import Posterior
from dalenius.infer.compositions import Compositions, UnsupportedError, find_compositions, first_buckets
from dalenius.infer.pooling import Associations
from dalenius.model.estimate import NORMAL_95, ROUNDING
from dalenius.query.bitsets import Answerer, CodedRelease, CodedTable, Integers, WorkloadQuery
from dalenius.query.calibration import Calibration
from dalenius.query.count import open_tables
from dalenius.query.learner import Codes, Dictionary, measured, release_codes, table_codes
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.tables.open_table import open_table

QUERIES = 5_000
SELECTIVITY = 0.01

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """The answers to all queries: from the table, and from the release."""

    actual: Integers
    estimate: Floats
    low: Integers
    high: Integers
    interval_low: Integers
    interval_high: Integers
    learned: Answers | None = None  # the same with learned estimates, on request
    not_learned: str | None = None  # why there are none, in spite of the request


@dataclass(frozen=True)
class WorkloadResult:
    """How well a release answers the queries. Shares and means of nothing are NaN."""

    queries: int
    empty: int  # queries that no record matches: they have no relative error
    mean_relative_error: float
    median_relative_error: float
    bounds_hold: int  # queries whose truth is within the bounds
    coverage: float  # share of queries whose truth is within the 95 % interval
    mean_interval_width: float
    mean_bounds_width: float
    learned: WorkloadResult | None = None
    not_learned: str | None = None


def values_per_predicate(domain: int, dimensions: int, selectivity: float) -> int:
    """b = ceil(|A| s^(1 / (q + 1))), at least 1 and at most |A|. Rounding errors of the power do not add one."""
    number = float(domain) * selectivity ** (1 / (dimensions + 1))
    return min(domain, max(1, math.ceil(round(float(number), 9))))


def generate(
    domains: Sequence[int],
    sensitive_domain: int,
    queries: int = QUERIES,
    selectivity: float = SELECTIVITY,
    seed: int = 0,
    *,
    most_attributes: int | None = None,
    one_value: bool = False,
) -> list[WorkloadQuery]:
    """Random queries by the paper's rule. The same seed gives the same queries.

    Other than in the paper, they may be on few QI attributes, and on one sensitive value each.
    """
    if not domains or min(domains) < 1 or sensitive_domain < 1:
        raise UsageError("a workload needs a quasi-identifier, and a value in every column")
    if not 0 < selectivity <= 1:
        raise UsageError(f"the selectivity is above 0 and at most 1, got {selectivity}")
    if queries < 1:
        raise UsageError(f"a workload has at least 1 query, got {queries}")
    random = np.random.default_rng(seed)

    def choose(domain: int, dimensions: int) -> Integers:
        values = random.choice(domain, values_per_predicate(domain, dimensions, selectivity), replace=False)
        return np.sort(values).astype(np.int64)

    pool = []
    for _ in range(queries):
        dimensions = int(random.integers(1, min(len(domains), most_attributes or len(domains)) + 1))
        attributes = tuple(sorted(int(a) for a in random.choice(len(domains), dimensions, replace=False)))
        values = tuple(choose(domains[attribute], dimensions) for attribute in attributes)
        sensitive = random.integers(sensitive_domain, size=1) if one_value else choose(sensitive_domain, dimensions)
        pool.append(WorkloadQuery(attributes, values, sensitive))
    return pool


def answer(
    table: CodedTable,
    release: CodedRelease,
    queries: Sequence[WorkloadQuery],
    threads: int = 0,
    *,
    learn: bool = False,
    calibration: Calibration | None = None,
) -> Answers:
    """Answer every query from the table and from the release. Threads (0: one per core) share the work.

    Learned intervals are widened as the calibration of the release says, if it is given.
    """
    answerer = Answerer(table, release)
    with ThreadPoolExecutor(threads or min(8, os.cpu_count() or 1)) as pool:
        if not learn:
            return _answers(list(pool.map(answerer.answer, queries)))
        try:
            compositions = coded_compositions(release)
        except UnsupportedError as unsupported:
            return replace(_answers(list(pool.map(answerer.answer, queries))), not_learned=str(unsupported))
        numbers, held = np.unique(release.buckets, return_counts=True)
        association = Associations(compositions, compositions.filling(numbers, held))
        classes = compositions.of(numbers)
        rows: list[tuple[int, float, float, float, float]] = []
        parts: list[Posterior] = []
        for first in range(0, len(queries), association.at_once):  # the matching rows by class take much memory
            block = queries[first : first + association.at_once]
            pairs = list(pool.map(lambda query: answerer.answer_by_class(query, classes, compositions.number), block))
            rows += [row for row, _ in pairs]
            matching = np.array([by_class for _, by_class in pairs], dtype=np.float64)
            sets = _value_sets(block, table.sensitive_domain)
            found = association.posterior(matching, sets[:, : association.values])
            parts.append(found if calibration is None else calibration.widened(found, sets))
    answers = _answers(rows)
    return replace(answers, learned=learned_answers(answers, parts))


def _answers(rows: Sequence[tuple[int, float, float, float, float]]) -> Answers:
    actual, mean, variance, low, high = (np.array(column) for column in zip(*rows, strict=True))
    reach = NORMAL_95 * np.sqrt(variance)
    # as in Estimate.of: a whole mean, summed in floating point, may miss the integer by a last digit
    centre = np.where(variance == 0, np.round(mean), mean)
    return Answers(
        actual=actual.astype(np.int64),
        estimate=centre,
        low=low.astype(np.int64),
        high=high.astype(np.int64),
        interval_low=np.maximum(low, np.floor(centre - reach)).astype(np.int64),
        interval_high=np.minimum(high, np.ceil(centre + reach)).astype(np.int64),
    )


def coded_compositions(release: CodedRelease) -> Compositions:
    """The classes of a release, in whatever order it is, without buckets that have no rows."""
    order = np.argsort(release.value_buckets, kind="stable")
    order = order[np.isin(release.value_buckets[order], release.buckets)]
    return find_compositions([(release.value_buckets[order], release.values[order])], release.cuts)


def _value_sets(queries: Sequence[WorkloadQuery], values: int) -> Floats:
    sets = np.zeros((len(queries), values))
    for line, query in zip(sets, queries, strict=True):
        line[query.sensitive] = 1
    return sets


def learned_answers(answers: Answers, parts: Sequence[Posterior]) -> Answers:
    """The answers with learned estimates. The parts cover all queries in order."""
    low, high = answers.low, answers.high
    mean, least, most = (np.concatenate([getattr(part, name) for part in parts]) for name in ("mean", "low", "high"))
    return replace(
        answers,
        estimate=np.clip(mean, low, high),
        interval_low=np.clip(np.floor(least + ROUNDING), low, high).astype(np.int64),
        interval_high=np.clip(np.ceil(most - ROUNDING), low, high).astype(np.int64),
    )


def summarise(answers: Answers) -> WorkloadResult:
    """A summary of the errors of all answers."""
    some = answers.actual > 0
    errors = np.abs(answers.actual[some] - answers.estimate[some]) / answers.actual[some]
    within = (answers.interval_low <= answers.actual) & (answers.actual <= answers.interval_high)
    return WorkloadResult(
        queries=len(answers.actual),
        empty=int((~some).sum()),
        mean_relative_error=float(errors.mean()) if len(errors) else math.nan,
        median_relative_error=float(np.median(errors)) if len(errors) else math.nan,
        bounds_hold=int(((answers.low <= answers.actual) & (answers.actual <= answers.high)).sum()),
        coverage=float(within.mean()),
        mean_interval_width=float((answers.interval_high - answers.interval_low).mean()),
        mean_bounds_width=float((answers.high - answers.low).mean()),
        learned=summarise(answers.learned) if answers.learned is not None else None,
        not_learned=answers.not_learned,
    )


def evaluate(
    folder: ReleaseFolder,
    source: Any,
    *,
    table: str | None = None,
    queries: int = QUERIES,
    selectivity: float = SELECTIVITY,
    seed: int = 0,
    learn: bool = False,
    sensitive: str | None = None,
) -> WorkloadResult:
    """How well a release answers the paper's workload. `source` is the table: a path, a data frame, a relation.

    Learned intervals are widened as `query` does it: by what simulated truths need. `sensitive` is the sensitive column
    that queries are on, if the release has several; else it is the first.
    """
    folder = view_of(folder, sensitive)
    kinds = value_dictionary(folder.manifest)
    truth, release = encode(folder, source, table, kinds)
    pool = generate(truth.domains, truth.sensitive_domain, queries, selectivity, seed)
    return summarise(
        answer(truth, release, pool, learn=learn, calibration=calibration_of(folder, kinds) if learn else None)
    )


def view_of(folder: ReleaseFolder, sensitive: str | None) -> ReleaseFolder:
    """The release with one of its sensitive columns alone."""
    manifest = folder.manifest
    names = [manifest.columns.sensitive.name, *(other.column.name for other in manifest.others)]
    if sensitive is not None and sensitive not in names:
        raise UsageError(f"the release has no sensitive column {sensitive!r}", did_you_mean(sensitive, names))
    view = folder.view(names.index(sensitive) if sensitive is not None else 0)
    if view.manifest.has_several_values:
        raise UsageError(
            "the paper's workload counts people with one row and one value, and here they may have several",
            "Count with dalenius query, and compare with counts of the table.",
        )
    return view


def value_dictionary(manifest: Manifest) -> Dictionary:
    """For the sensitive values of a table and of its release."""
    return Dictionary(manifest.null_value, manifest.missing)


def calibration_of(folder: ReleaseFolder, kinds: Dictionary) -> Calibration | None:
    """What simulated truths say of the intervals of a release, for the codes of its values; None if nothing."""
    try:
        with open_tables(folder) as tables:
            return measured(tables, kinds, folder.manifest)
    except UnsupportedError:
        return None


def encode(
    folder: ReleaseFolder, source: Any, table: str | None = None, kinds: Dictionary | None = None
) -> tuple[CodedTable, CodedRelease]:
    """The table and the release in the same codes. In every column they must have the same values equally often.

    Values of nobody come on top: ST has each value at least as often as the table. The codes of sensitive values are
    added to `kinds`.
    """
    columns = folder.manifest.columns
    names = [column.name for column in columns.quasi_identifiers]
    sensitive = columns.sensitive.name
    dictionaries = [Dictionary() for _ in names]
    kinds = kinds if kinds is not None else value_dictionary(folder.manifest)
    with open_table(source, table) as opened:
        for name in [*names, sensitive]:
            opened.require_column(name)
        *truth, truth_values = table_codes(opened, [*names, sensitive], [*dictionaries, kinds])
    with open_tables(folder) as tables:
        buckets, rows = release_codes(tables, names, dictionaries)
        value_buckets, (values,) = release_codes(tables, [sensitive], [kinds])
    if len(truth_values) != len(buckets):
        raise InputError(
            f"the table has {len(truth_values):,} rows and the release {len(buckets):,}",
            "Give the table that the release was made from.",
        )
    for name, before, after in zip(names, truth, rows, strict=True):
        _require_same(name, before, after)
    _require_same(sensitive, truth_values, values, len(values) - len(buckets))
    domains = tuple(len(dictionary) for dictionary in dictionaries)
    return (
        CodedTable(attributes=tuple(truth), sensitive=truth_values, domains=domains, sensitive_domain=len(kinds)),
        CodedRelease(
            attributes=tuple(rows),
            buckets=buckets,
            value_buckets=value_buckets,
            values=values,
            cuts=first_buckets(folder.manifest.strata),
        ),
    )


def _require_same(name: str, before: Codes, after: Codes, more: int = 0) -> None:
    """Require the same values equally often, apart from `more` extra values in the release."""
    most = int(max(before.max(), after.max())) + 2
    beyond = np.bincount(after + 1, minlength=most) - np.bincount(before + 1, minlength=most)
    if (beyond < 0).any() or beyond.sum() != more:
        raise InputError(
            f"the column {name!r} does not have the same values in the table and in the release",
            "Give the table that the release was made from.",
        )


def workload_object(
    result: WorkloadResult, selectivity: float, seed: int, seconds: float, learn: bool = False
) -> dict[str, Any]:
    """The result as one JSON object. The keys are a contract (docs/json.md)."""
    content = {
        "format": 1,
        "queries": result.queries,
        "selectivity": selectivity,
        "seed": seed,
        "empty": result.empty,
        "mean_relative_error": _plain_number(result.mean_relative_error),
        "median_relative_error": _plain_number(result.median_relative_error),
        "bounds_hold": result.bounds_hold,
        "coverage": result.coverage,
        "mean_interval_width": result.mean_interval_width,
        "mean_bounds_width": result.mean_bounds_width,
        "seconds": round(seconds, 3),
    }
    if not learn:
        return content
    if result.learned is None:
        return {**content, "learned": None, "note": result.not_learned}
    keys = ("mean_relative_error", "median_relative_error", "coverage", "mean_interval_width")
    return {**content, "learned": {key: _plain_number(getattr(result.learned, key)) for key in keys}}


def _plain_number(number: float) -> float | None:
    return number if math.isfinite(number) else None
