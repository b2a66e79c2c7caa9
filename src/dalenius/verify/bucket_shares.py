"""What the buckets of ST hold of every value, and of every group of values, against the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from dalenius.model.exposure import ValueExposure
from dalenius.release.folder import ReleaseFolder
from dalenius.verify.bucket_limits import ExposureOfBuckets, LimitsOfBuckets
from dalenius.verify.buckets import Integers, PresentRows, WholeBuckets
from dalenius.verify.findings import STRATA, Report, plural
from dalenius.verify.stated_groups import GroupRuns, StatedGroups


@dataclass
class Scan:
    """What reading a table showed. `complete` if every row was read."""

    report: Report = field(default_factory=Report)
    complete: bool = False
    counts: list[tuple[str | None, int]] = field(default_factory=list)
    worst: dict[str | None, tuple[int, int]] = field(default_factory=dict)  # count, and records in the bucket
    group_worst: list[tuple[int, int]] = field(default_factory=list)  # the same for each group of the manifest
    group_exposure: tuple[ValueExposure, ...] = ()
    values_in_order: bool = True
    nulls: int = 0
    largest: Integers | None = None  # how often each bucket has the value that it has most often, if it was asked for


class Shares:
    """What the buckets of ST hold of every value, and of every group of values, against the limits."""

    def __init__(
        self,
        release: ReleaseFolder,
        values: Sequence[str],
        limits: Sequence[Fraction] | None,
        groups: StatedGroups | None,
        with_largest: bool = False,
        present: PresentRows | None = None,
    ) -> None:
        manifest = release.manifest
        known, fakes = manifest.adversary.known_records, manifest.adversary.fake_values
        others = {value.value for value in manifest.values if not value.applies}
        self._apart = [code for code, value in enumerate(values) if value in others]
        self._first_apart = manifest.buckets - (manifest.apart.buckets if manifest.apart is not None else 0) + 1
        self._mixed = 0
        self._exposure = ExposureOfBuckets(fakes, release.memory, self._apart, present)
        caps: list[Fraction | None] = [*limits] if limits is not None else [None] * len(values)
        for code in self._apart:
            caps[code] = None
        self._values = LimitsOfBuckets(caps, known, fakes, self._exposure)
        self._of_apart = LimitsOfBuckets([None] * len(values))  # of which nothing is to be hidden from anybody
        self._largest: list[Integers] | None = [] if with_largest else None
        self._groups = groups
        if groups is not None:
            self._runs = GroupRuns(groups, values)
            self._group_exposure = ExposureOfBuckets(fakes, release.memory, present=present)
            self._of_groups = LimitsOfBuckets(groups.limits, known, fakes, self._group_exposure, "a group of values")

    def add(self, buckets: WholeBuckets, values: int) -> None:
        """The next buckets; `values` is how many values are known by now."""
        self._values.add(buckets, values)
        if self._largest is not None and len(buckets.numbers):
            self._largest.append(np.maximum.reduceat(buckets.counts, buckets.first_runs))
        if self._apart:
            self._of_apart.add(buckets, values)
            numbers = buckets.of_runs(buckets.numbers)
            mixed = np.isin(buckets.codes, self._apart) != (numbers >= self._first_apart)
            self._mixed += len(np.unique(numbers[mixed]))
        if self._groups is not None:
            self._of_groups.add(self._runs.of(buckets, values), len(self._groups.names))

    def conclude(self, texts: Sequence[str | None], scan: Scan) -> None:
        """What it comes to."""
        self._values.conclude(texts, scan.report)
        worst = self._values.worst(len(texts))
        if self._apart:
            unprotected = self._of_apart.worst(len(texts))
            for code in self._apart:
                worst[code] = unprotected[code]
        if self._mixed:
            hold = plural(self._mixed, "bucket holds", "buckets hold")
            scan.report.fail(STRATA, f"{hold} values that do not apply beside others, or in their place", self._mixed)
        scan.worst = dict(zip(texts, worst, strict=True))
        scan.report.exposure = self._exposure.conclude(texts)
        scan.largest = np.concatenate(self._largest) if self._largest else None
        if self._groups is not None:
            self._of_groups.conclude(self._groups.names, scan.report)
            scan.group_worst = self._of_groups.worst(len(self._groups.names))
            scan.group_exposure = self._group_exposure.conclude(self._groups.names).values
