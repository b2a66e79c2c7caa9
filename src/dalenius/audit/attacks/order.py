"""The decoding attacker: what does the order of rows say?

The attacker knows the algorithm: values are dealt out to the buckets of a size in turn, one value after another. If
records were dealt in the order of a file, and that order is known, then the next record of a value goes to the bucket
after the last one's: walk the rows, keep for each value the bucket that it must hit next, and take the value whose turn
it is. Which value is dealt first is not known, so the order of counts and the order of values are tried; and whether
the k-th row of a bucket has the k-th value.

Rows are walked as they are published, and in the order of each column with nearly as many values as rows: the file may
have been in that order. Where quasi-identifiers and values are associated, sorted rows beside sorted values agree more
often than chance: that is association, and no secret of the order. So in a release in canonical order, a function of
what is published, the rows of a bucket are taken in random order first, which loses nothing of the source's.

Claims are made where the decoder beats the baseline: all guesses of values whose limit is below its share of right
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.audit.arrays import integers
from dalenius.audit.attacks.people import People
from dalenius.audit.attacks.reading import Outline, Sample, first_buckets, limits_of, values_in_file_order
from dalenius.audit.attacks.scoring import guesses
from dalenius.audit.runs import Integers
from dalenius.infer.candidates import Candidates, Floats
from dalenius.model.attack import Attack, Share
from dalenius.release.folder import ReleaseFolder

NAME = "order"
_ROWS = 200_000  # that are walked
_STEPS = 20_000_000  # rows times values
_SURE = 4.0  # standard deviations: the best of several decoders is lucky
_COLUMNS = 2
_NO_TRUTH = "Whether decoding succeeds can only be told with the truth: give --truth"


@dataclass(frozen=True)
class _Decoder:
    name: str
    guessed: Integers  # by row, -1 where there is no guess
    of_order: bool  # whether it goes by the published order, which the canonical one may be


@dataclass(frozen=True)
class _Result:
    decoder: _Decoder
    success: Share
    baseline: Share
    control: Share
    people: int
    right: float


def order_attack(
    folder: ReleaseFolder,
    found: Outline,
    counts: dict[int, Integers],
    sample: Sample,
    people: People | None,
    step: Callable[[int], None] = lambda _: None,
) -> Attack:
    """The best of the decoders. `counts` are how many slots of each value the buckets of each size have together."""
    if people is None:
        return Attack(NAME, sample.candidates.rows, notes=(_NO_TRUTH,))
    canonical = found.in_order and sample.in_order
    results = []
    for decoder in _decoders(folder, found, counts, sample, step):
        if canonical and decoder.of_order:
            decoder = replace(decoder, guessed=_in_random_order(decoder.guessed, sample.candidates))
        result = _judged(decoder, sample.candidates, people)
        if result is not None:
            results.append(result)
    if not results:
        return Attack(NAME, 0, notes=("None of the rows that were decoded is in the sample",))
    best = max(results, key=lambda result: result.success.share - result.baseline.share)
    claims = _claims(best, limits_of(folder), people, sample.candidates) if _beats(best) else (0, 0, 0, None)
    broken = tuple(_sentence(result) for result in results if _beats(result))
    details = {
        "decoder": best.decoder.name,
        "canonical": canonical,
        "decoders": [
            {"decoder": r.decoder.name, "success": r.success.share, "baseline": r.baseline.share, "people": r.people}
            for r in results
        ],
    }
    notes = (
        ("Both tables are in the canonical order, a function of what is published",)
        if canonical
        else ("The tables are not in the canonical order: dalenius verify does not pass this release",)
    )
    above, made, right, mean_limit = claims
    return Attack(
        NAME,
        best.people,
        best.success,
        best.baseline,
        best.control,
        above,
        made,
        right,
        mean_limit,
        details=details,
        notes=notes,
        broken=broken,
    )


def decode(buckets: Integers, number: int, counts: Integers) -> Integers:
    """For each row the value (a place in `counts`) whose turn it is in the row's bucket; values are dealt in order."""
    turn = (np.cumsum(counts) - counts) % number
    left = counts.copy()
    found = np.empty(len(buckets), np.int64)
    for row, bucket in enumerate(buckets.tolist()):
        late = np.where(left > 0, (bucket - turn) % number, number)
        guess = int(late.argmin())
        found[row] = guess
        turn[guess] = (bucket + 1) % number
        left[guess] -= 1
    return found


def _decoders(
    folder: ReleaseFolder,
    found: Outline,
    counts: dict[int, Integers],
    sample: Sample,
    step: Callable[[int], None],
) -> Iterator[_Decoder]:
    candidates = sample.candidates
    most = max(1, min(_ROWS, _STEPS // max(1, candidates.values)))
    walked = first_buckets(folder, most)
    there = np.flatnonzero(sample.places < len(walked))
    for kind in ("count", "value"):
        by_place = _walk(walked, found, counts, kind)
        guessed = np.full(candidates.rows, -1)
        guessed[there] = by_place[sample.places[there]]
        yield _Decoder(f"rows as published, values by {kind}", guessed, True)
        step(1)
    yield _Decoder("the k-th row has the k-th value", _by_place(folder, candidates), True)
    step(1)
    for name, order in _orders(sample):
        rows = order[:most]
        for kind in ("count", "value"):
            guessed = np.full(candidates.rows, -1)
            guessed[rows] = _walk(candidates.numbers[candidates.bucket_of[rows]], found, counts, kind)
            yield _Decoder(f"rows by {name!r}, values by {kind}", guessed, False)


def _walk(buckets: Integers, found: Outline, counts: dict[int, Integers], kind: str) -> Integers:
    """Decode the rows of each size group by themselves."""
    place = np.minimum(np.searchsorted(found.numbers, buckets), len(found.numbers) - 1)
    sizes = found.sizes[place]
    guessed = np.full(len(buckets), -1)
    for size in np.unique(sizes).tolist():
        group = np.flatnonzero(found.sizes == size)
        rows = np.flatnonzero(sizes == size)
        held = counts[size]
        values = np.argsort(-held, kind="stable") if kind == "count" else np.arange(len(held))
        values = values[held[values] > 0]
        guessed[rows] = values[decode(np.searchsorted(group, place[rows]), len(group), held[values])]
    return guessed


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
    found: Integers = np.empty_like(guessed)
    found[np.lexsort((chance, candidates.bucket_of))] = guessed[np.argsort(candidates.bucket_of, kind="stable")]
    return found


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


def _judged(decoder: _Decoder, candidates: Candidates, people: People) -> _Result | None:
    """The guesses against the truth, the bucket's most frequent value, and somebody else's truth."""
    guessed = decoder.guessed >= 0
    number = int(guessed.sum())
    right = float(people.right(candidates, decoder.guessed).sum())
    baseline = float(_baseline(candidates, people)[guessed].sum())
    totals = np.zeros(candidates.values)
    for block, truth in zip(candidates.blocks, people.truth, strict=True):
        np.add.at(totals, block.values, truth[:, : block.size].sum(axis=1))
    control = float((totals / max(1, candidates.rows))[decoder.guessed[guessed]].sum())
    shares = [Share.of(count, number) for count in (right, baseline, control)]
    if shares[0] is None or shares[1] is None or shares[2] is None:
        return None
    return _Result(decoder, shares[0], shares[1], shares[2], number, right)


def _claims(
    result: _Result, limits: Sequence[Fraction], people: People, candidates: Candidates
) -> tuple[int, int, int, float | None]:
    """People above their limit, claims, claims that are right, and the mean of their limits."""
    most = np.array([float(limit) for limit in limits])
    guessed = result.decoder.guessed
    claimed = (guessed >= 0) & (most[guessed] < result.success.share)
    number = int(claimed.sum())
    right = round(float(people.right(candidates, np.where(claimed, guessed, -1)).sum()))
    return number, number, right, float(most[guessed[claimed]].mean()) if number else None


def _baseline(candidates: Candidates, people: People) -> Floats:
    found = np.zeros(candidates.rows)
    for block, truth in zip(candidates.blocks, people.truth, strict=True):
        top = guesses(block.counts / block.slots)[:, None, :]
        found[block.rows] = (top * truth[:, : block.size]).sum(axis=2)
    return found


def _beats(result: _Result) -> bool:
    """Whether the decoder is right more often than the bucket alone, beyond what luck explains."""
    low = Share.of(result.right, result.people, _SURE)
    high = Share.of(result.baseline.share * result.people, result.people, _SURE)
    return low is not None and high is not None and low.low > high.high


def _sentence(result: _Result) -> str:
    return (
        f"order tells values ({result.decoder.name}): {result.success.share:.1%} of {result.people:,} people are "
        f"decoded, and {result.baseline.share:.1%} would be guessed"
    )
