"""The attacker who knows what does not go together: a record's quasi-identifiers rule out some values of its bucket.

The release itself shows which pairs do not go together (`infer.negative`). The values that are left are believed in
proportion to their counts; where all are ruled out, none is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.attack.aligned_rows import People
from dalenius.attack.reading import Target
from dalenius.attack.scoring import attack_result, score
from dalenius.infer.candidates import Beliefs, Block, Candidates, Floats
from dalenius.infer.negative import NegativePair, NegativePairs, negative_pairs
from dalenius.model.attack_result import Attack

NAME = "negative"
_STRONGEST = 10
_BITS_AT_ONCE = 2**24

Octets = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.bool_]


def negative(target: Target) -> Attack:
    """Exclude values, renormalise what is left, and score."""
    target.progress.stage("Negative")
    candidates, pairs = target.candidates, negative_pairs(target.release)
    octets = _octets(candidates, target.sample.rows, pairs)
    beliefs: Beliefs = []
    excluded, alone = 0, 0
    for block in candidates.blocks:
        p, possible = _exclude(block, _ruled_out(block, octets))
        excluded += int((~possible).sum())
        alone += int((possible.sum(axis=2) == 1).sum()) if block.values.shape[1] > 1 else 0
        beliefs.append(p)
    details: dict[str, Any] = {
        "pairs": len(pairs.pairs),
        "strongest": [_pair_object(pair) for pair in sorted(pairs.pairs, key=lambda pair: pair.p_value)[:_STRONGEST]],
        "mean_ruled_out": excluded / max(1, candidates.rows),
        "left_with_one": alone,
    }
    if candidates.fakes and not target.release.manifest.surplus and target.people is not None:
        details |= _fakes_ruled_out(candidates, octets, target.people)
    notes = tuple(note.rstrip(".") for note in pairs.notes)
    return attack_result(NAME, score(target, beliefs), target, details, notes)


def _octets(candidates: Candidates, rows: pa.Table, pairs: NegativePairs) -> Octets | None:
    """The ruled out values of every row, eight to an octet; None if nothing is ruled out."""
    if not pairs.pairs:
        return None
    at_once = max(1, _BITS_AT_ONCE // candidates.values)
    batches = rows.select(list(pairs.columns)).to_batches(max_chunksize=at_once)
    return np.concatenate([np.packbits(pairs.ruled_out(batch), axis=1, bitorder="little") for batch in batches])


def _ruled_out(block: Block, octets: Octets | None) -> Bits:
    """Rows x values of every bucket."""
    if octets is None:
        return np.zeros((len(block.buckets), block.size, block.values.shape[1]), bool)
    held = octets[block.rows[:, :, None], block.values[:, None, :] >> 3]
    bits: Bits = (held >> (block.values & 7).astype(np.uint8)[:, None, :] & 1).astype(bool)
    return bits


def _exclude(block: Block, out: Bits) -> tuple[Floats, Bits]:
    """Beliefs, and which candidates are left; a row that would have none keeps all."""
    possible = ~out | out.all(axis=2, keepdims=True)
    counts = block.counts[:, None, :] * possible
    p = counts / counts.sum(axis=2, keepdims=True)
    if block.fakes:
        p = np.concatenate([p, block.shares()[:, block.size :]], axis=1)
    return p, possible


def _fakes_ruled_out(candidates: Candidates, octets: Octets | None, people: People) -> dict[str, float]:
    """Of the pairs of a record and a fake value in its bucket, the share that is ruled out; and of all slots."""
    fakes, slots, pairs = 0.0, 0.0, [0.0, 0.0]
    for block, truth in zip(candidates.blocks, people.truth, strict=True):
        share = _ruled_out(block, octets).mean(axis=1)
        fakes += float((share * truth[:, -1]).sum())
        slots += float((share * block.counts).sum())
        pairs = [pairs[0] + block.fakes * len(share), pairs[1] + block.slots * len(share)]
    return {"fakes_ruled_out": fakes / max(1.0, pairs[0]), "slots_ruled_out": slots / max(1.0, pairs[1])}


def _pair_object(pair: NegativePair) -> dict[str, Any]:
    """A pair for JSON: a value or range of a column, which the release shows, never a row."""
    return {
        "column": pair.column,
        "value": pair.value,
        "sensitive": pair.sensitive,
        "ratio": pair.ratio,
        "expected": pair.expected,
        "estimated": pair.estimated,
        "p_value": pair.p_value,
    }
