"""The attacker who knows what does not go together: values that a record's quasi-identifiers rule out.

Which pairs are ruled out is learned from the release (`infer.negative`). The probability of the values that are left is
in proportion to their counts; where all are ruled out, none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.attack.people import People
from dalenius.attack.scoring import attack, score
from dalenius.infer.candidates import Beliefs, Block, Candidates, Floats
from dalenius.infer.negative import NegativePair
from dalenius.model.attack_result import Attack

NAME = "negative"
_STRONGEST = 10
_BITS_AT_ONCE = 2**24

Octets = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.bool_]


class Pairs(Protocol):
    """What is asked of the pairs that were found."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns with a pair."""

    @property
    def pairs(self) -> tuple[NegativePair, ...]:
        """What does not go together."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be learned."""

    def ruled_out(self, batch: pa.RecordBatch) -> Bits:
        """The values that rows rule out: rows x values, in the manifest's order."""


def negative(
    candidates: Candidates,
    rows: pa.Table,
    pairs: Pairs,
    limits: Sequence[Fraction],
    people: People | None,
    frequencies: Floats,
) -> Attack:
    """Exclude, renormalise, and score."""
    octets = _octets(candidates, rows, pairs)
    beliefs: Beliefs = []
    excluded, alone = 0, 0
    for block in candidates.blocks:
        out = _ruled_out(block, octets)
        p, kept = _excluded(block, out)
        excluded += int((~kept).sum())
        alone += int((kept.sum(axis=2) == 1).sum()) if block.values.shape[1] > 1 else 0
        beliefs.append(p)
    found = score(candidates, limits, beliefs, people, frequencies)
    details: dict[str, Any] = {
        "pairs": len(pairs.pairs),
        "strongest": [_shown(pair) for pair in sorted(pairs.pairs, key=lambda pair: pair.p_value)[:_STRONGEST]],
        "mean_ruled_out": excluded / max(1, candidates.rows),
        "left_with_one": alone,
    }
    if candidates.fakes and people is not None:
        details |= _fakes_ruled_out(candidates, octets, people)
    return attack(NAME, found, people is not None, details, tuple(note.rstrip(".") for note in pairs.notes))


def _octets(candidates: Candidates, rows: pa.Table, pairs: Pairs) -> Octets | None:
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
    found: Bits = (held >> (block.values & 7).astype(np.uint8)[:, None, :] & 1).astype(bool)
    return found


def _excluded(block: Block, out: Bits) -> tuple[Floats, Bits]:
    """Beliefs, and which candidates are left; a row that would have none keeps all."""
    kept = ~out | out.all(axis=2, keepdims=True)
    counts = block.counts[:, None, :] * kept
    p = counts / counts.sum(axis=2, keepdims=True)
    if block.fakes:
        p = np.concatenate([p, block.shares()[:, block.size :]], axis=1)
    return p, kept


def _fakes_ruled_out(candidates: Candidates, octets: Octets | None, people: People) -> dict[str, float]:
    """Of the pairs of a record and a fake value in its bucket, the share that is ruled out; and of all slots."""
    fakes, slots, pairs = 0.0, 0.0, [0.0, 0.0]
    for block, truth in zip(candidates.blocks, people.truth, strict=True):
        share = _ruled_out(block, octets).mean(axis=1)
        fakes += float((share * truth[:, -1]).sum())
        slots += float((share * block.counts).sum())
        pairs = [pairs[0] + block.fakes * len(share), pairs[1] + block.slots * len(share)]
    return {"fakes_ruled_out": fakes / max(1.0, pairs[0]), "slots_ruled_out": slots / max(1.0, pairs[1])}


def _shown(pair: NegativePair) -> dict[str, Any]:
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
