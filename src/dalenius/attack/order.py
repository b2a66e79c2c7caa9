"""The decoding attacker: what does the order of rows say?

The attacker knows the algorithm: values are dealt out to the buckets of a size in turn (with strata, to those of a size
in a stratum), one value after another. If records were dealt in the order of a file, and that order is known, then the
next record of a value goes to the bucket after the last one's: walk the rows, keep for each value the bucket that it
must hit next, and take the value whose turn it is. Which value is dealt first is not known, so the order of counts and
the order of values are tried; and whether the k-th row of a bucket has the k-th value. Of a large release the first
rows are walked; where rows are in the order of buckets these would be the first buckets, so there it is a run of
buckets of each size, at a random place.

Rows are walked as they are published, and in the order of each column with nearly as many values as rows: the file may
have been in that order. Where quasi-identifiers and values are associated, sorted rows beside sorted values agree more
often than chance: that is association, and no secret of the order. A release in canonical order is a function of what
is published: there the published order is not decoded, and chance is shown in its place.

Claims are made where the decoder beats the baseline: all guesses of the values which it gets right more often than
their limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.attack.aligned_rows import People
from dalenius.attack.dealing import Windows, walk
from dalenius.attack.reading import Sample, Target, published_rows, values_in_file_order
from dalenius.attack.scoring import guesses
from dalenius.infer.candidates import Candidates, Floats
from dalenius.model.attack_result import Attack, Share
from dalenius.release.folder import ReleaseFolder
from dalenius.verify.buckets import Integers
from dalenius.verify.row_order import integers

NAME = "order"
_ROWS = 200_000  # that are walked
_STEPS = 20_000_000  # rows times values
_SURE = 4.0  # standard deviations: the best of several decoders is lucky
_COLUMNS = 2
_ABOVE = 1e-9
_NO_TRUTH = "Whether decoding succeeds can only be told with the truth: give --truth"
_CANONICAL = (
    "Both tables are in the canonical order, a function of what is published: as published they tell nothing, and the "
    "order attack tries columns that are nearly keys; the decoder in random order shows chance"
)
_NOT_CANONICAL = "The tables are not in the canonical order: dalenius verify does not pass this release"


@dataclass(frozen=True)
class _Decoder:
    """A way to read values from the order of rows."""

    name: str
    guessed: Integers  # by row, -1 where there is no guess
    chance: bool = False  # whether it goes by dice: for comparison with the others


@dataclass(frozen=True)
class _Result:
    """How good the guesses of a decoder are."""

    decoder: _Decoder
    people: int
    baseline: Share
    success: Share | None = None
    control: Share | None = None

    @property
    def gain(self) -> float:
        """What the decoder has over the bucket."""
        return self.success.share - self.baseline.share if self.success is not None else 0.0


def order_attack(target: Target) -> Attack:
    """The best of the decoders."""
    target.progress.stage("Order")
    outline, candidates, people = target.outline, target.candidates, target.people
    canonical = outline.in_order and target.sample.in_order
    most = max(1, min(_ROWS, _STEPS // max(1, candidates.values)))
    windows = Windows.draw(outline, most, np.random.default_rng(0))
    judged = (_judge(decoder, candidates, people) for decoder in _decoders(target, canonical, windows, most))
    results = [result for result in judged if result is not None]
    notes = [_CANONICAL if canonical else _NOT_CANONICAL]
    if most < int(outline.sizes.sum()) and not all(result.decoder.chance for result in results):
        notes.append(
            f"The order attack walks {most:,} rows: the first ones, or if rows are in the order of buckets, a run of "
            "buckets of each size, at a random place"
        )
    details = {"decoder": None, "canonical": canonical, "decoders": [_result_object(result) for result in results]}
    if people is None:
        expected = Share.of(float(_baseline(candidates, None).sum()), candidates.rows)
        return Attack(NAME, candidates.rows, baseline=expected, details=details, notes=(_NO_TRUTH, *notes))
    best = max(results, key=lambda result: result.gain)
    claims, right, mean_limit = _claims(best, target.limits, people, candidates) if _beats(best) else (0, 0, None)
    return Attack(
        name=NAME,
        people=best.people,
        success=best.success,
        baseline=best.baseline,
        control=best.control,
        people_above_limit=claims,  # one guess a person
        claims=claims,
        claims_right=right,
        mean_limit=mean_limit,
        details=details | {"decoder": best.decoder.name},
        notes=tuple(notes),
        broken=tuple(_sentence(result) for result in results if _beats(result)),
    )


def _result_object(result: _Result) -> dict[str, Any]:
    return {
        "decoder": result.decoder.name,
        "success": result.success.share if result.success else None,
        "baseline": result.baseline.share,
        "people": result.people,
    }


def _decoders(target: Target, canonical: bool, windows: Windows, most: int) -> Iterator[_Decoder]:
    by_place = _by_place(target.release, target.candidates)
    if canonical:
        yield _Decoder("values in random order", _in_random_order(by_place, target.candidates), chance=True)
    else:
        yield _Decoder("the k-th row has the k-th value", by_place)
        yield from _as_published(target, windows, most)
    yield from _by_columns(target, windows, most)


def _as_published(target: Target, windows: Windows, most: int) -> Iterator[_Decoder]:
    """Rows in the order of the file."""
    release, outline, sample = target.release, target.outline, target.sample
    places, buckets = published_rows(release, most)
    if by_bucket := _ascending(buckets):
        places, buckets = published_rows(release, release.manifest.rows, outline.numbers[windows.inside])
    there = np.searchsorted(places, sample.places)
    walked = np.append(places, -1)[there] == sample.places
    for first in ("count", "value"):
        guessed = np.append(walk(buckets, outline, target.slots, first, windows if by_bucket else None), -1)
        yield _Decoder(f"rows as published, values by {first}", np.where(walked, guessed[there], -1))


def _by_columns(target: Target, windows: Windows, most: int) -> Iterator[_Decoder]:
    """Rows in the order of columns."""
    candidates = target.candidates
    for name, order in _orders(target.sample):
        bucket_of = candidates.bucket_of[order]
        buckets = candidates.numbers[bucket_of]
        by_bucket = _ascending(buckets)
        inside = windows.inside[np.searchsorted(target.outline.numbers, candidates.numbers)]
        rows = np.flatnonzero(inside[bucket_of]) if by_bucket else np.arange(len(order))[:most]
        for first in ("count", "value"):
            guessed = np.full(candidates.rows, -1)
            guessed[order[rows]] = walk(
                buckets[rows], target.outline, target.slots, first, windows if by_bucket else None
            )
            yield _Decoder(f"rows by {name!r}, values by {first}", guessed)


def _ascending(buckets: Integers) -> bool:
    return bool((np.diff(buckets) >= 0).all())


def _by_place(folder: ReleaseFolder, candidates: Candidates) -> Integers:
    """The k-th value of the bucket in the order of ST's file, for the k-th row in the order of QIT's."""
    buckets, values = values_in_file_order(folder, candidates.numbers)
    by_bucket = values[np.argsort(buckets, kind="stable")]
    slots = np.bincount(buckets, minlength=len(candidates.numbers))
    sizes = np.bincount(candidates.bucket_of, minlength=len(candidates.numbers))
    first_slots, first_rows = np.cumsum(slots) - slots, np.cumsum(sizes) - sizes
    rank = np.arange(candidates.rows) - first_rows[candidates.bucket_of]
    guessed: Integers = by_bucket[first_slots[candidates.bucket_of] + rank].astype(np.int64)
    return guessed


def _in_random_order(guessed: Integers, candidates: Candidates) -> Integers:
    """The guesses of each bucket dealt to its rows at random."""
    chance = np.random.default_rng(0).random(candidates.rows)  # nothing secret: an attacker's own dice
    shuffled: Integers = np.empty_like(guessed)
    shuffled[np.lexsort((chance, candidates.bucket_of))] = guessed[np.argsort(candidates.bucket_of, kind="stable")]
    return shuffled


def _orders(sample: Sample) -> Iterator[tuple[str, Integers]]:
    """Rows in the order of columns that are nearly keys; of a sample the walk would miss most rows."""
    if not sample.whole:
        return
    keys = 0
    for name, column in zip(sample.rows.schema.names, sample.rows.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], column.type.value_type)
        with suppress(pa.ArrowNotImplementedError):  # a type that Arrow cannot sort
            if keys < _COLUMNS and len(pc.unique(column)) > sample.candidates.rows / 2:
                order = integers(pc.sort_indices(column)).astype(np.int64)
                keys += 1
                yield name, order


def _judge(decoder: _Decoder, candidates: Candidates, people: People | None) -> _Result | None:
    """The guesses against the truth, the bucket's most frequent value, and somebody else's truth."""
    guessed = decoder.guessed >= 0
    number = int(guessed.sum())
    baseline = Share.of(float(_baseline(candidates, people)[guessed].sum()), number)
    if baseline is None:
        return None
    if people is None:
        return _Result(decoder, number, baseline)
    right = float(people.right(candidates, decoder.guessed).sum())
    totals = np.zeros(candidates.values)
    for block, truth in zip(candidates.blocks, people.truth, strict=True):
        np.add.at(totals, block.values, truth[:, : block.size].sum(axis=1))
    control = float((totals / max(1, candidates.rows))[decoder.guessed[guessed]].sum())
    return _Result(
        decoder=decoder,
        people=number,
        baseline=baseline,
        success=Share.of(right, number),
        control=Share.of(control, number),
    )


def _claims(
    result: _Result, limits: Sequence[Fraction], people: People, candidates: Candidates
) -> tuple[int, int, float | None]:
    """Claims, claims that are right, and the mean of their limits."""
    most = np.array([float(limit) for limit in limits])
    rows = np.flatnonzero(result.decoder.guessed >= 0)
    guessed, right = result.decoder.guessed[rows], people.right(candidates, result.decoder.guessed)[rows]
    number = np.bincount(guessed, minlength=len(most))
    believed = np.bincount(guessed, weights=right, minlength=len(most)) / np.maximum(number, 1)
    claimed = (believed > most + _ABOVE)[guessed]
    claims = int(claimed.sum())
    mean_limit = float(most[guessed[claimed]].mean()) if claims else None
    return claims, round(float(right[claimed].sum())), mean_limit


def _baseline(candidates: Candidates, people: People | None) -> Floats:
    """By row, the probability that the bucket's most frequent value is right; without the truth, its share."""
    right = np.zeros(candidates.rows)
    for place, block in enumerate(candidates.blocks):
        shares = block.counts / block.slots
        top = guesses(shares)[:, None, :]
        truth = people.truth[place][:, : block.size] if people is not None else shares[:, None, :]
        right[block.rows] = (top * truth).sum(axis=2)
    return right


def _beats(result: _Result) -> bool:
    """Whether the decoder is right more often than the bucket alone, beyond what luck explains."""
    if result.success is None or result.decoder.chance:
        return False
    low = Share.of(result.success.share * result.people, result.people, _SURE)
    high = Share.of(result.baseline.share * result.people, result.people, _SURE)
    return low is not None and high is not None and low.low > high.high


def _sentence(result: _Result) -> str:
    success = result.success.share if result.success is not None else 0.0
    return (
        f"order tells values ({result.decoder.name}): {success:.1%} of {result.people:,} people are decoded, and "
        f"{result.baseline.share:.1%} would be guessed"
    )
