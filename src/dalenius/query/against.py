"""A release against the table that it was made from: the workload's errors. For those who hold the raw table."""

from __future__ import annotations

from typing import Any

import numpy as np

from dalenius.engines.codes import Codes, Dictionary, release_codes, table_codes
from dalenius.engines.duckdb import open_table
from dalenius.errors import InputError
from dalenius.infer.compositions import first_buckets
from dalenius.query.coded import CodedRelease, CodedTable
from dalenius.query.count import open_tables
from dalenius.query.workload import QUERIES, SELECTIVITY, WorkloadResult, answer, generate, summarise
from dalenius.release.folder import ReleaseFolder


def evaluate(
    folder: ReleaseFolder,
    source: Any,
    *,
    table: str | None = None,
    queries: int = QUERIES,
    selectivity: float = SELECTIVITY,
    seed: int = 0,
    learn: bool = False,
) -> WorkloadResult:
    """How well a release answers the paper's workload. `source` is the table: a path, a data frame, a relation."""
    truth, release = encode(folder, source, table)
    pool = generate(truth.domains, truth.sensitive_domain, queries, selectivity, seed)
    return summarise(answer(truth, release, pool, learn=learn))


def encode(folder: ReleaseFolder, source: Any, table: str | None = None) -> tuple[CodedTable, CodedRelease]:
    """The table and the release in the same codes. They must have the same values as often, column by column.

    Fake values come on top of those of the table: ST has each at least as often.
    """
    columns = folder.manifest.columns
    names = [column.name for column in columns.quasi_identifiers]
    sensitive = columns.sensitive.name
    dictionaries = [Dictionary() for _ in names]
    kinds = Dictionary(folder.manifest.null_value)
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
        CodedTable(tuple(truth), truth_values, domains, len(kinds)),
        CodedRelease(tuple(rows), buckets, value_buckets, values, first_buckets(folder.manifest.strata)),
    )


def _require_same(name: str, before: Codes, after: Codes, more: int = 0) -> None:
    """The same values as often, but for `more` values that the release has and the table has not."""
    most = int(max(before.max(), after.max())) + 2
    beyond = np.bincount(after + 1, minlength=most) - np.bincount(before + 1, minlength=most)
    if (beyond < 0).any() or beyond.sum() != more:
        raise InputError(
            f"the column {name!r} does not have the same values in the table and in the release",
            "Give the table that the release was made from.",
        )
