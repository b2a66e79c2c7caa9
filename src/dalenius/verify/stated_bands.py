"""Sensitive numbers that count by bands: are the bands of the manifest what they should be, and which one has a number?

With cuts c_1 < ... < c_k, a number is in the band after as many cuts as are not above it. Whole numbers and decimals
are compared as they are, and a float as the shortest decimal that is read back as it.

The groups of such a release are coarser bands: each is named by its ends, which are cuts, and holds the bands between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.model.memory import ReadingMemory
from dalenius.policy.bands import Bands, BandSpec, exact_text
from dalenius.release.manifest import Manifest
from dalenius.release.two_tables import named_type
from dalenius.verify.buckets import Codes, Integers
from dalenius.verify.findings import LIMITS, MANIFEST, Report, quote
from dalenius.verify.row_order import integers, nulls, order_keys, simple, words
from dalenius.verify.sensitive_values import ValueCodes
from dalenius.verify.stated_groups import StatedGroups

_LAST = 2**63 - 1
_FEW = 16  # cuts that are compared one by one


def check_bands(manifest: Manifest, report: Report) -> None:
    """Add what the manifest says of bands and cannot be."""
    if manifest.bands is not None:
        for problem in _problems(manifest, manifest.bands):
            report.fail(MANIFEST, problem)


def compare_bands(spec: BandSpec | None, manifest: Manifest, report: Report) -> None:
    """Add where a publisher's bands are not those of the manifest, as far as it can be said without the table."""
    if spec is None:
        return
    if manifest.bands is None:
        report.fail(LIMITS, "limits are to be on bands of numbers, and the release has no bands")
        return
    bands = bands_meant(spec, manifest)
    if spec.cuts and bands.cuts != spec.cuts:
        report.fail(LIMITS, "the cuts between bands are not those that are given")
    if manifest.groups and not any(bands.coarser):
        report.fail(LIMITS, "the release has bands within coarser ones, and these are not given")
    if spec.quantiles is not None:
        for level, cuts in zip((*spec.coarser, spec), bands.levels, strict=True):
            if level.quantiles is not None and len(cuts) >= level.quantiles:
                report.fail(LIMITS, f"there are more bands than {level.quantiles}")
        report.note("quantiles go by the numbers of the table: the cuts between bands are those of the manifest")
    if spec.width is not None:
        _compare_width(bands.cuts, spec.width, spec.start, report)


def bands_meant(spec: BandSpec, manifest: Manifest) -> Bands:
    """The bands of a manifest, within the coarser ones that a publisher means: which of its cuts are cuts of these.

    Only of quantiles nobody can say so without the table. Theirs are the ends of the manifest's groups, level by level;
    a band that is one on several levels is a group of the first.
    """
    texts = sorted(manifest.bands or [], key=Fraction)
    cuts = [Fraction(text) for text in texts]
    coarser, ends = [], set[str]()
    for name, level in zip(spec.levels, spec.coarser, strict=False):
        of_level = [group.name for group in manifest.groups or () if group.level == name]
        ends |= {end for group in of_level for end in _ends(group) if end is not None}
        if level.quantiles is not None:
            own = [cut for cut, text in zip(cuts, texts, strict=True) if text in ends]
        elif level.width is not None:
            own = [cut for cut in cuts if (cut - (level.start or 0)) % level.width == 0]
        else:
            own = [cut for cut in cuts if cut in level.cuts]
        coarser.append(tuple(own))
    return Bands(tuple(cuts), coarser=tuple(coarser))


def _compare_width(cuts: Sequence[Fraction], width: Fraction, start: Fraction | None, report: Report) -> None:
    if any(high - low != width for low, high in pairwise(cuts)):
        report.fail(LIMITS, f"the cuts between bands are not {exact_text(width)} apart")
    elif cuts and (cuts[0] != start if start is not None else cuts[0] % width):
        report.fail(LIMITS, "the bands do not start where they should")


def _problems(manifest: Manifest, texts: Sequence[str]) -> Iterator[str]:
    if not _has_numbers(manifest):
        yield "there are bands, and the sensitive column has no numbers"
    cuts = [Fraction(text) for text in texts]
    if any(exact_text(cut) != text for cut, text in zip(cuts, texts, strict=True)):
        yield "the cuts between bands are not spelled as numbers are"
    if any(low >= high for low, high in pairwise(cuts)):
        yield "the cuts between bands do not ascend"
    order = {name: place for place, name in enumerate(band_names(texts))}
    if manifest.null_value is not None:
        order.setdefault(manifest.null_value, len(order))
    strange = next((value.value for value in manifest.values if value.value not in order), None)
    if strange is not None:
        yield f"{quote(strange)} is none of the bands"
    elif any(order[low.value] >= order[high.value] for low, high in pairwise(manifest.values)):
        yield "the bands are not in ascending order"
    else:
        yield from _group_problems(manifest, order, texts)


def _group_problems(manifest: Manifest, order: Mapping[str, int], texts: Sequence[str]) -> Iterator[str]:
    """Groups that are no coarser bands, given the place of each value among all bands."""
    groups = StatedGroups.of(manifest)
    if groups is None:
        return
    cuts = {text: number for number, text in enumerate(texts)}
    listed = [order[value.value] for value in manifest.values]
    held: list[list[int]] = [[] for _ in groups.names]
    for value in manifest.values:
        for group in groups.path_of(value.value):
            held[group].append(order[value.value])
    for name, members in zip(groups.names, held, strict=True):
        low, high = _ends(name)
        ends = {end for end in (low, high) if end is not None}
        if not ends or not ends <= cuts.keys():
            yield f"the group {quote(name)} is no range between cuts"
            continue
        first, last = 0 if low is None else cuts[low] + 1, len(texts) if high is None else cuts[high]
        if members != [place for place in listed if first <= place <= last]:
            yield f"the group {quote(name)} does not hold the bands that it should, by its name"


def _ends(name: str) -> tuple[str | None, str | None]:
    """The cuts between which a band is, by its name; None for an end that it does not have."""
    low, between, high = name.partition(" to below ")
    if between:
        return low, high
    if name.startswith("below "):
        return None, name.removeprefix("below ")
    return (name.removesuffix(" and above"), None) if name.endswith(" and above") else (None, None)


def band_names(texts: Sequence[str]) -> list[str]:
    """The names of the bands between cuts, as docs/release-format.md has them."""
    if not texts:
        return ["any number"]
    between = [f"{low} to below {high}" for low, high in pairwise(texts)]
    return [f"below {texts[0]}", *between, f"{texts[-1]} and above"]


def value_codes(manifest: Manifest, values: Sequence[str], memory: ReadingMemory | None) -> ValueCodes:
    """What gives every row of ST the place of its value among some, or of its number's band."""
    column = manifest.columns.sensitive
    if manifest.bands is None or not _has_numbers(manifest):
        return ValueCodes(column.name, values, manifest.null_value, memory)
    return _BandCodes(column.name, values, manifest.null_value, manifest.bands, named_type(column.type))


class _BandCodes(ValueCodes):
    """Gives every row the place of its number's band; bands that are not known get places after their end."""

    def __init__(
        self, column: str, known: Sequence[str], null_value: str | None, cuts: Sequence[str], data_type: pa.DataType
    ) -> None:
        super().__init__(column, known, null_value)
        self._thresholds = np.array([_threshold(Fraction(cut), data_type) for cut in cuts], np.int64)
        self._names = band_names(cuts)
        self._of_band: dict[int, int] = {}

    def of(self, column: pa.Array) -> Codes:
        """The places of a batch's bands."""
        column = simple(column)
        bands = self._bands(_ordered(column))
        missing = nulls(column)
        bands[missing] = len(self._names)
        self.nulls += column.null_count
        places = np.zeros(len(self._names) + 1, np.int32)
        counts = np.bincount(bands, minlength=len(places))
        for band in np.flatnonzero(counts).tolist():
            places[band] = self._place(self._names[band] if band < len(self._names) else self._null_value)
        self._counts = np.append(self._counts, np.zeros(len(self.texts) - len(self._counts), np.int64))
        np.add.at(self._counts, places[counts > 0], counts[counts > 0])
        return places.take(bands)

    def _bands(self, numbers: Integers) -> Integers:
        """How many cuts each number reaches."""
        if len(self._thresholds) > _FEW:
            return np.searchsorted(self._thresholds, numbers, side="right")
        reached = np.zeros(len(numbers), np.uint8)
        for threshold in self._thresholds:
            reached += numbers >= threshold
        return reached.astype(np.intp)

    @property
    def unused(self) -> int:
        """Numbers have no dictionary."""
        return 0

    def in_order(self) -> bool:
        """Whether bands are in their order is a matter of the manifest alone."""
        return True


def _ordered(column: pa.Array) -> Integers:
    """Numbers as integers in their order; what stands where a null is means nothing."""
    if pa.types.is_decimal(column.type) and column.type.bit_width > 64:
        return np.ascontiguousarray(words(column).T[0]).view(np.int64)
    if pa.types.is_uint64(column.type):
        return np.minimum(integers(column), np.uint64(_LAST)).astype(np.int64)
    *_, keys = order_keys(column)
    return keys.astype(np.int64)


def _threshold(cut: Fraction, data_type: pa.DataType) -> int:
    """The smallest number of the type, as an integer in their order, that is not below a cut."""
    if pa.types.is_decimal(data_type):
        return min(max(ceil(cut * Fraction(10) ** int(data_type.scale)), -_LAST), _LAST)
    if pa.types.is_integer(data_type):
        return min(max(ceil(cut), -_LAST), _LAST)
    least = _least_float(cut, data_type)
    return int(_ordered(pa.array([-0.0 if least == 0 else least], data_type))[0])  # both zeros are the number 0


def least_text(cut: str, data_type: pa.DataType) -> str:
    """The smallest number of a type that is not below a cut, as it is written."""
    exact = Fraction(cut)
    if pa.types.is_decimal(data_type):
        return str(Decimal(ceil(exact * Fraction(10) ** int(data_type.scale))).scaleb(-int(data_type.scale)))
    return str(ceil(exact)) if pa.types.is_integer(data_type) else str(_least_float(exact, data_type))


def _least_float(cut: Fraction, data_type: pa.DataType) -> Any:
    kind: Any = {16: np.float16, 32: np.float32, 64: np.float64}[data_type.bit_width]
    with np.errstate(over="ignore"):
        near = kind(float(cut)) if abs(cut) < 2**1023 else kind(inf if cut > 0 else -inf)
        while _reaches(near, cut) and near > -inf:
            near = np.nextafter(near, kind(-inf))
        while not _reaches(near, cut):
            near = np.nextafter(near, kind(inf))
    return near


def _reaches(number: Any, cut: Fraction) -> bool:
    """Whether a float is not below a cut."""
    return bool(number == inf or (number > -inf and Fraction(Decimal(str(number))) >= cut))


def _has_numbers(manifest: Manifest) -> bool:
    """Whether the sensitive column can have bands. That its type is none at all is told elsewhere."""
    try:
        data_type = named_type(manifest.columns.sensitive.type)
    except ValueError:
        return False
    t = pa.types
    return bool(t.is_integer(data_type) or t.is_floating(data_type) or t.is_decimal(data_type))
