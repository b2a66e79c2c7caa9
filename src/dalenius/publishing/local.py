"""The local engine: DuckDB and Arrow read, threads place, and the release is written to a folder beside its target.

A table is read twice: once to find out what it holds, and once more to place its records. Where strata are found or
counted in between, all records stay in memory from that reading on if there is room for them, and no further reading is
needed. Whether there is room changes nothing but the time that it takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.errors import InputError, SelfCheckError
from dalenius.model.problem import SizeGroup
from dalenius.model.progress import Progress, Silent
from dalenius.place.banded import NumberSample, SourceWithNulls, sample_numbers
from dalenius.place.budget import Budget
from dalenius.place.cutting import Cutter, StratumValues, count_strata
from dalenius.place.domains import Domain, codes_of
from dalenius.place.numbering import nobody_repeats
from dalenius.place.occurrences import OccurrenceCounter, count_numbers
from dalenius.place.packed import PackedRecords, Pieces
from dalenius.place.people import People, SetSpec, count_sets, read_people
from dalenius.place.people_counts import CountedPeople, count_people
from dalenius.place.slots import Placement
from dalenius.place.stream import (
    CodedRecords,
    Records,
    is_packed,
    place_coded_records,
    place_records,
    read_records,
)
from dalenius.place.survey import Sample, Survey, first_row_bytes, layout_of, survey
from dalenius.place.wide import WideRecords
from dalenius.publishing.arrangement import Arrangement, Integers, Numbers
from dalenius.publishing.engine import Agreeing, SampleCodes, SampleSpec, SurveySpec
from dalenius.publishing.local_output import LocalOutput, PlacedRecords
from dalenius.release.atomic import writable
from dalenius.release.staging import staging
from dalenius.release.writer import Format
from dalenius.tables.arrays import plain_arrow_errors
from dalenius.tables.arrow import Source
from dalenius.tables.open_table import hash_agreeing
from dalenius.tables.sources import open_source

_NUMBER_BYTES = 8
_SAMPLED_NUMBERS = 2**20


@dataclass(frozen=True)
class LocalCounts:
    """The counts, and the records themselves where they are kept."""

    totals: Integers
    kept: CodedRecords | None = None

    def renumber(self, table: Numbers) -> LocalCounts:
        """Merge strata, by a table of old numbers."""
        values = self.totals.shape[1]
        totals = np.zeros((int(table.max()) // values + 1) * values, dtype=np.int64)
        np.add.at(totals, table, self.totals.ravel())
        kept = self.kept.renumber(table) if self.kept is not None else None
        return LocalCounts(totals.reshape(-1, values), kept)


class LocalTable:
    """A source that is open. `scratch` says where records may go that do not fit into memory."""

    def __init__(self, source: Source, budget: Budget, workers: Executor, scratch: Callable[[], Path | None]) -> None:
        self._source, self._budget, self._workers, self._scratch = source, budget, workers, scratch
        self._progress: Progress = Silent()
        self._sample_spec: SampleSpec | None = None
        self._sample: Sample | None = None
        self._drawn: SampleCodes | None = None
        self._kept: CodedRecords | None = None

    @property
    def names(self) -> Sequence[str]:
        """All columns."""
        return self._source.names

    def numbers(self, column: str, key: bytes | None, missing: Sequence[str]) -> NumberSample:
        """The numbers of a column, all of them up to `_SAMPLED_NUMBERS`, or only their type."""
        self._source = SourceWithNulls(self._source, column, missing) if missing else self._source
        return sample_numbers(self._source, column, None if key is None else Sample(key, _SAMPLED_NUMBERS))

    def survey(self, spec: SurveySpec, progress: Progress) -> Survey:
        """Read the table for the first time, and draw the sample on the way unless all records will be in memory.

        What an earlier survey of another column has kept is of no use to this one.
        """
        source, budget = self._source, self._budget
        self._progress = progress
        self._drawn = self._kept = self._sample = None
        if spec.sample is not None:
            row_bytes = first_row_bytes(source, [*spec.quasi_identifiers, spec.sensitive])
            rows = max(1, min(spec.sample.rows, spec.sample.bytes // max(1, row_bytes)))
            self._sample_spec = SampleSpec(spec.sample.key, rows, spec.sample.bytes)
            fits = source.rows is not None and budget.copy_fits(source.rows)
            self._sample = Sample(self._sample_spec.key, rows) if not fits else None
        return survey(
            source,
            spec.sensitive,
            spec.quasi_identifiers,
            spec.null_value,
            budget,
            progress.advance,
            self._sample,
            spec.identifying,
            spec.bands,
            spec.missing,
        )

    def sample(self, survey: Survey) -> SampleCodes:
        """From memory, from the first reading, or from a new one, if the records could not be kept after all."""
        spec = self._sample_spec
        if spec is None:
            raise SelfCheckError("the survey was not asked for a sample")
        if self._drawn is None:
            self._drawn = self._draw(survey, spec)
        return self._drawn

    def _draw(self, survey: Survey, spec: SampleSpec) -> SampleCodes:
        self._keep_if_it_fits(survey, self._progress)
        if self._kept is not None:
            self._sample = None
            combinations = count_numbers([batch.codes for batch in self._kept.batches])
            return SampleCodes(*self._kept.sample(spec.key, spec.rows), combinations)
        sample, self._sample = self._sample, None
        if sample is None:
            sample = Sample(spec.key, spec.rows)
            for batch in self._source.batches(survey.schema.names, survey.batch_rows):
                sample.add(batch)
        columns = survey.sample_columns(sample)
        values = np.concatenate([survey.sensitive.encode(one) for one in columns[survey.sensitive.name]])
        known = {name: domain for name, domain in survey.domains.items() if domain is not None}
        codes = {name: np.concatenate([codes_of(d, one) for one in columns[name]]) for name, d in known.items()}
        return SampleCodes(values, codes)

    def agreeing(self, survey: Survey, identifier: str) -> Agreeing | None:
        """Which records with an identifier agree in it and in all quasi-identifiers, in a further reading."""
        counters = [OccurrenceCounter() for _ in range(3)]
        try:
            for batch in self._source.batches([identifier, *survey.domains], survey.batch_rows):
                for counter, hashes in zip(counters, hash_agreeing(batch), strict=True):
                    counter.add(hashes)
        except InputError:
            return None
        return Agreeing(*(counter.finish() for counter in counters))

    def count(self, survey: Survey, cutter: Cutter | None, progress: Progress) -> LocalCounts:
        """Count in memory, or in a further reading; without strata the first one has counted already."""
        self._drawn = None
        if cutter is None:
            return LocalCounts(np.asarray([survey.sensitive.counts], dtype=np.int64), self._kept)
        self._keep_if_it_fits(survey, progress)
        kept, self._kept = self._kept, None  # its numbers are made anew, and the old ones not kept beside them
        if kept is not None:
            return LocalCounts(*kept.cut(cutter, len(survey.sensitive.counts), self._workers))
        virtual = StratumValues(survey.sensitive, cutter)
        return LocalCounts(
            count_strata(self._source, survey.schema, virtual, self._workers, survey.batch_rows, progress.advance)
        )

    def people(
        self,
        survey: Survey,
        sets: Sequence[SetSpec],
        person: str | None,
        most_rows: int | None,
        key: bytes,
        progress: Progress,
        together: Sequence[Sequence[int]] = (),
    ) -> People:
        """All records by person, in memory: a reading of the sensitive columns, and one of everything."""
        self._drawn = self._kept = self._sample = None
        self.check_room(sets, together, survey.rows)
        columns = count_sets(self._source, sets, survey.batch_rows)
        advance = progress.advance
        return read_people(self._source, survey, sets, columns, person, most_rows, key, advance, together)

    def check_room(
        self, sets: Sequence[SetSpec], together: Sequence[Sequence[int]] = (), rows: int | None = None
    ) -> None:
        """An error if there is no room for all records by person; before the table is read, if it says how many."""
        rows = self._source.rows if rows is None else rows
        if rows is not None:
            self._budget.check_people(rows, sum(len(one.columns) for one in sets) + sum(map(len, together)))

    def count_people(self, sets: Sequence[SetSpec], person: str | None) -> CountedPeople:
        """Who has what, without the rest of their rows."""
        self.check_room(sets)
        batch_rows = self._budget.batch_rows(_NUMBER_BYTES)
        columns = count_sets(self._source, sets, batch_rows)
        self.check_room(sets, rows=sum(columns[0].counts) // len(sets[0].columns))
        return count_people(self._source, sets, columns, person, batch_rows)

    def nobody_repeats(self, person: str) -> bool:
        """Whether every row is a person's only one."""
        if self._source.rows is not None:
            self._budget.check_identifiers(self._source.rows)
        return nobody_repeats(self._source, person, self._budget.batch_rows(_NUMBER_BYTES))

    @contextmanager
    def place(self, arrangement: Arrangement, placement: Placement, progress: Progress) -> Iterator[PlacedRecords]:
        """Place all records, from memory or in a further reading."""
        survey, counts = arrangement.survey, arrangement.counts
        quotas = [sum(row) for partition in arrangement.partitions for row in partition.quotas]
        progress.stage("Placing", survey.rows)
        with writable():
            records, numbers, carried = self._stores(arrangement)
            try:
                kept = counts.kept if isinstance(counts, LocalCounts) else None
                both = (records, numbers)
                if kept is not None and is_packed(both):
                    workers, advance = self._workers, progress.advance
                    place_coded_records(kept, placement, quotas, *both, carried, workers, advance)
                else:
                    schema = pa.schema([survey.schema.field(name) for name in survey.domains])
                    place_records(
                        self._source,
                        schema,
                        StratumValues(survey.sensitive, arrangement.cutter, apart=True),
                        quotas,
                        placement,
                        records,
                        self._workers,
                        survey.batch_rows,
                        progress.advance,
                        numbers,
                        carried,
                    )
                yield PlacedRecords(records, self._workers, numbers, carried)
            finally:
                records.close()
                if numbers is not None:
                    numbers.close()

    def _keep_if_it_fits(self, survey: Survey, progress: Progress) -> None:
        copied = 2 * survey.rows if survey.numbers else survey.rows
        layout = survey.layout() if self._kept is None and self._budget.copy_fits(copied) else None
        if layout is not None:
            fields = list(survey.schema)
            self._kept = read_records(
                self._source,
                fields,
                survey.sensitive,
                layout,
                self._workers,
                survey.batch_rows,
                progress.advance,
                layout_of(survey.numbers) if survey.numbers else None,
            )

    def _stores(self, arrangement: Arrangement) -> tuple[Records, Records | None, bool]:
        """Where records are kept until they are written, and sensitive numbers: with them, if records are short."""
        survey = arrangement.survey
        if survey.numbers:
            together = {**survey.domains, **survey.numbers}
            if layout_of(together, arrangement.setting.buckets) is not None:
                return self._store(arrangement, together, survey.row_bytes), None, True
        records = self._store(arrangement, survey.domains, survey.row_bytes)
        return records, self._store(arrangement, survey.numbers, _NUMBER_BYTES) if survey.numbers else None, False

    def _store(self, arrangement: Arrangement, domains: Mapping[str, Domain | None], row_bytes: int) -> Records:
        groups, survey = arrangement.groups, arrangement.survey
        stores = 2 if survey.numbers else 1
        return self._records(survey, domains, groups, row_bytes, stores, lambda rows: Pieces.of(groups, rows))

    def _records(
        self,
        survey: Survey,
        domains: Mapping[str, Domain | None],
        groups: Sequence[SizeGroup],
        row_bytes: int,
        stores: int,
        pieces: Callable[[int], Pieces],
    ) -> Records:
        scratch = self._scratch()
        if scratch is None:
            raise SelfCheckError("records are placed, and there is no output for them")
        layout = layout_of(domains, sum(group.buckets for group in groups))
        if layout is not None:
            in_memory = self._budget.keys_fit(stores * survey.rows)
            return PackedRecords(layout, pieces(self._budget.piece_rows(groups)), None if in_memory else scratch)
        schema = pa.schema([*(survey.schema.field(name) for name in domains), ("bucket", pa.int64())])
        return WideRecords(schema, domains, pieces(self._budget.piece_rows(groups, 6 * row_bytes + 40)), scratch)


class LocalEngine:
    """Reads, places and writes within a budget of memory. What does not fit into it goes to the disk of the output."""

    def __init__(self, budget: Budget, format: Format) -> None:
        self._budget, self._format = budget, format
        self._scratch: Path | None = None

    @contextmanager
    def open(self, table: Any, name: str | None) -> Iterator[LocalTable]:
        """A path (CSV, TSV, Parquet, DuckDB), a DataFrame, an Arrow table or a DuckDB relation."""
        with (
            plain_arrow_errors(),
            open_source(table, name, self._budget.engine) as source,
            ThreadPoolExecutor(_cores()) as workers,
        ):
            yield LocalTable(source, self._budget, workers, lambda: self._scratch)

    @contextmanager
    def output(self, out: str, force: bool) -> Iterator[LocalOutput]:
        """A staging folder beside the target, which has room for scratch files as well."""
        with staging(Path(out), force) as stage, ThreadPoolExecutor(1) as disk:
            self._scratch = stage.folder
            try:
                yield LocalOutput(stage, Path(out), force, self._budget, self._format, disk)
            finally:
                self._scratch = None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
