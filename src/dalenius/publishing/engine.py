"""What publishing asks of an engine, in a few verbs. The rest of the program does not know which engine answers.

survey      the columns and their types, what they hold, and how often the sensitive column has each value
sample      some records, for finding strata
count       the records of each value in each stratum, by partition where the engine has partitions
place       every record to its bucket, by the placement that it is given
write       both tables, in the order of the release
read_back   the tables as anybody would read them, to be verified before they are published

An engine gives the same plan, the same quotas and the same buckets for the same counts. Only the order in which the
records of a value get their ranks is its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from dalenius.errors import MissingExtraError, NoSuchColumnError
from dalenius.model.entries import Occurrences
from dalenius.model.problem import ValueCounts
from dalenius.model.progress import Progress, Silent
from dalenius.place.banded import NumberBands, NumberSample
from dalenius.place.budget import Budget
from dalenius.place.cutting import Cutter
from dalenius.place.permutation import KEY_BYTES
from dalenius.place.sensitive import SensitiveColumn
from dalenius.place.slots import Placement
from dalenius.place.survey import Survey
from dalenius.policy.bands import Bands, BandSpec, resolve_bands
from dalenius.publishing.arrangement import Arrangement, Numbers, StratumCounts
from dalenius.publishing.options import LOCAL, PublishOptions, choose_engine
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.release.two_tables import TableFile
from dalenius.release.writer import FORMATS


@dataclass(frozen=True)
class SampleSpec:
    """A sample of so many records, or fewer if those would take more bytes; drawn by the key.

    `keep` says that all records will be counted after it, so that a cluster does well to keep them.
    """

    key: bytes
    rows: int
    bytes: int
    keep: bool = True


@dataclass(frozen=True)
class SurveySpec:
    """Which columns to read, the name under which nulls of the sensitive one count, and whether to draw a sample.

    Of the `identifying` columns, which are not published, different values are counted. With `bands`, the sensitive
    column has numbers, which count by their bands. Texts that are `missing` count as nulls.
    """

    sensitive: str
    quasi_identifiers: tuple[str, ...]
    null_value: str | None
    sample: SampleSpec | None = None
    identifying: tuple[str, ...] = ()
    bands: NumberBands | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class SampleCodes:
    """Records of a sample: the codes of their sensitive values, and their codes in every column that has a domain.

    `combinations` says how often the quasi-identifiers of a record, taken together, occur in the whole table, where the
    engine knows it.
    """

    values: Numbers
    codes: Mapping[str, Numbers]
    combinations: Occurrences | None = None

    def only(self, sensitive: SensitiveColumn) -> SampleCodes:
        """The records whose values apply."""
        if not sensitive.apart:
            return self
        own = self.values < sensitive.applying
        return SampleCodes(self.values[own], {name: codes[own] for name, codes in self.codes.items()})


@dataclass(frozen=True)
class Agreeing:
    """How often the entries of an identifier occur, those of all quasi-identifiers together, and both together."""

    identifier: Occurrences
    quasi_identifiers: Occurrences
    both: Occurrences


@dataclass(frozen=True)
class TableSpec:
    """A table as it is to be written: its columns, which of them has the buckets, and the rows of a row group."""

    schema: pa.Schema
    bucket: str
    group: int


class OpenTable(Protocol):
    """A table that can be read more than once, and must be the same each time."""

    @property
    def names(self) -> Sequence[str]:
        """All columns."""

    def numbers(self, column: str, key: bytes | None, missing: Sequence[str]) -> NumberSample:
        """The numbers of a column, or a sample of them that the key draws, or, without a key, only their type.

        Texts that are `missing` count as nulls, from now on. An error if the column has others than numbers.
        """

    def survey(self, spec: SurveySpec, progress: Progress) -> Survey:
        """Read the table for the first time."""

    def sample(self, survey: Survey) -> SampleCodes:
        """The sample that the survey was asked for, the same one each time until records are counted."""

    def agreeing(self, survey: Survey, identifier: str) -> Agreeing | None:
        """Which records agree in an identifier and in all quasi-identifiers; None if that cannot be counted."""

    def count(self, survey: Survey, cutter: Cutter | None, progress: Progress) -> StratumCounts:
        """Count every value in every stratum; an error if the table has changed since the survey."""

    def place(self, arrangement: Arrangement, placement: Placement, progress: Progress) -> AbstractContextManager[Any]:
        """Every record to its bucket, now or while it is written, as a stage of its own: "Placing".

        What comes out is for the output of the same engine alone.
        """


class Output(Protocol):
    """Where a release is written: nobody sees it as a release before `commit`, and without it nothing is left."""

    def write(
        self, arrangement: Arrangement, placed: Any, qit: TableSpec, st: TableSpec, progress: Progress
    ) -> tuple[TableFile, TableFile]:
        """Both tables, replacing those of an earlier `write`, as a stage of its own: "Writing"."""

    def read_back(self, manifest: Manifest) -> ReleaseFolder:
        """What was written, as a release that is not published yet."""

    def commit(self, manifest: Manifest, signature: bytes | None = None) -> ReleaseFolder:
        """Publish: all or nothing, and with the signature of the manifest, if there is one."""


class Engine(Protocol):
    """Opens tables, and makes places for releases."""

    def open(self, table: Any, name: str | None) -> AbstractContextManager[OpenTable]:
        """A table, however the engine can be told which one."""

    def output(self, out: str, force: bool) -> AbstractContextManager[Output]:
        """A place for a release; `force` if it may replace one."""


@contextmanager
def open_engine(table: Any, options: PublishOptions, budget: Budget) -> Iterator[Engine]:
    """The engine that `choose_engine` chose. A Spark session that was made for it ends with the context."""
    if options.engine == LOCAL:
        from dalenius.publishing.local import LocalEngine

        yield LocalEngine(budget, options.format or FORMATS[0])
        return
    with ExitStack() as stack:
        try:
            from dalenius.publishing.spark.spark_engine import spark_engine

            engine: Engine = stack.enter_context(
                spark_engine(
                    table, budget, master=options.master, remote=options.spark_remote, conf=dict(options.spark_conf)
                )
            )
        except ImportError as error:
            if (error.name or "").partition(".")[0] == "dalenius":
                raise
            raise MissingExtraError.of("pyspark", "spark") from None
        yield engine


def count_on_engine(
    table: Any, sensitive: str, options: PublishOptions, allow_absent: bool = False, bands: BandSpec | None = None
) -> ValueCounts:
    """How often each sensitive value occurs, or each band of numbers, as the engine of the options counts it."""
    options = choose_engine(table, options)
    with (
        open_engine(table, options, Budget.of(options.memory)) as engine,
        engine.open(table, options.table) as opened,
    ):
        if sensitive not in opened.names:
            raise NoSuchColumnError.in_table(sensitive, opened.names)
        found = bands_of_numbers(opened, sensitive, bands, secrets.token_bytes(KEY_BYTES), options.missing)
        numbers = found[1] if found is not None else None
        spec = SurveySpec(sensitive, (), options.null_name, bands=numbers, missing=options.missing)
        column = opened.survey(spec, Silent()).sensitive
        column.refuse_absent_codes(options.missing, allow_absent)
        return replace(column.value_counts, cuts=found[0].levels if found is not None else ())


def bands_of_numbers(
    table: OpenTable, column: str, spec: BandSpec | None, key: bytes, missing: Sequence[str]
) -> tuple[Bands, NumberBands] | None:
    """The bands that the numbers of a column count by, of all levels and the finest; None if that is not asked for."""
    if spec is None:
        return None
    seen = table.numbers(column, None if spec.cuts else key, missing)
    bands = resolve_bands(spec, seen.numbers, seen.counts)
    return bands, NumberBands(seen.data_type, bands.cuts, bands.names, bands.notes)
