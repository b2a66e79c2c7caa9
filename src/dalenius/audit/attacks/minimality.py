"""The attacker who asks why leaves were merged (minimality attack: Wong, Fu, Wang and Pei 2007).

The rule is known: a leaf in which some value x has more than the share

    most_x = f_x + margin * (limit_x - f_x),    f_x its share in the table; 1 if limit_x is 1,

is unfit, and is merged with others. So in a stratum of several leaves one is unfit at least, and that tells something
about its people.

The attacker's model. A stratum has N slots, M_x of them with value x, as ST shows; leaf A has n_A rows, as QIT shows.
Without the rule every matching of slots and rows is as likely, and count_x(A) is hypergeometric. Given the rule, one of
the events

    e = (A, x):   count_x(A) > most_x * n_A

has happened. Events are taken as exclusive, each with the weight w_e = P(e) / sum of P: that is close where they are
improbable; where they are not, several may have happened, and the attacker believes in each a little too much. Given
e = (A, x) with m = E(count_x(A) | e), the rest is as random as before, so exactly

    E(count_y(A) | e) = m                                       for y = x,    (n_A - m) M_y / (N - M_x)    for others,
    E(count_y(B) | e) = (M_y - E(count_y(A) | e)) n_B / (N - n_A)             in the other leaves B,

and the posterior share of y in B is the sum over e of w_e E(count_y(B) | e) / n_B. Fake values are slots like others.

That share is held against the limit of y, leaf by leaf. People are guessed with all that is known: the posterior share
over the share of the stratum is the weight of a row's values, matched with the others of its bucket.

Leaves are merged for other reasons, too, such as few rows, which say nothing about who has what. The attacker does not
think of them, and so concludes too much rather than too little. F'-privacy says nothing of this attack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.audit.attacks.people import People
from dalenius.audit.attacks.scoring import attack, score
from dalenius.audit.attacks.tails import tails
from dalenius.audit.report import Report
from dalenius.audit.tree import Tree, check_tree
from dalenius.errors import ReleaseError
from dalenius.infer.candidates import Beliefs, Block, Candidates, Floats, Integers
from dalenius.infer.matching import matched
from dalenius.model.attack import Attack
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest, Strata

NAME = "minimality"
_ABOVE = 1e-9
_LEAST = 1e-26  # the smallest weight of a value: products of eight of them are still numbers
_MOST_SUSPECTED = 10
_ROWS_AT_ONCE = 2**17
_NO_STRATA = "There are no strata, so nothing was merged and nothing can be concluded from it"
_NOT_COVERED = "F'-privacy does not cover what merging tells: beliefs above a limit break no promise"
_IN_SAMPLE = "Whether suspected leaves are really unfit is not told of a sample"


@dataclass(frozen=True)
class Merged:
    """A stratum of several leaves: the leaves with rows, how many these have, its values, and how many slots each."""

    stratum: int
    leaves: Integers
    rows: Integers
    values: Integers
    slots: Integers


@dataclass(frozen=True)
class Suspicion:
    """By leaf and value of a merged stratum: the weight of its event, and the posterior share."""

    merged: Merged
    weights: Floats
    shares: Floats

    @property
    def lifts(self) -> Floats:
        """The posterior share over that of the stratum."""
        found: Floats = self.shares / (self.merged.slots / self.merged.slots.sum())
        return found


def most_shares(manifest: Manifest, limits: Sequence[Fraction]) -> list[Fraction]:
    """most_x for every value, as far as a release tells: where there are fake values, f is that of ST's rows."""
    margin = Fraction(manifest.strata.margin) if manifest.strata is not None else Fraction(1)
    shares = [Fraction(value.count, manifest.slots) for value in manifest.values]
    return [
        limit if limit == 1 else share + margin * (limit - share) for share, limit in zip(shares, limits, strict=True)
    ]


def suspicion(merged: Merged, most: Sequence[Fraction]) -> Suspicion:
    """What is to be concluded from a stratum's having been merged."""
    total, held, rows = int(merged.slots.sum()), merged.slots.astype(np.float64), merged.rows.astype(np.float64)
    least = _least_above(merged, most)
    logs, means = tails(total, merged.slots[None, :], merged.rows[:, None], least)
    if not np.isfinite(logs).any():  # no leaf can be unfit: there was another reason
        return Suspicion(merged, np.zeros(logs.shape), np.tile(held / total, (len(rows), 1)))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    # in the leaf of the event: m of its value, and of the others their part of the rest
    rest = weights * (rows[:, None] - means) / np.maximum(total - held, 1.0)
    inside = weights * means + held * (rest.sum(axis=1, keepdims=True) - rest)
    # in the others: what is left, in proportion to their rows
    outside = (weights.sum(axis=1, keepdims=True) * held - inside) / np.maximum(total - rows, 1.0)[:, None]
    elsewhere = outside.sum(axis=0) - outside
    return Suspicion(merged, weights, inside / rows[:, None] + elsewhere)


def _least_above(merged: Merged, most: Sequence[Fraction]) -> Integers:
    """The smallest count of each value with which its share in each leaf is above these, exactly."""
    shares = [most[value] for value in merged.values.tolist()]
    rows = merged.rows.tolist()
    return np.array([[share.numerator * n // share.denominator + 1 for share in shares] for n in rows], np.int64)


def leaf_rows(folder: ReleaseFolder, tree: Tree) -> Integers:
    """How many rows of QIT arrive at each leaf."""
    found: Integers = np.zeros(len(tree.leaf_places), np.int64)
    names = list(tree.asked) or [folder.manifest.columns.bucket]
    for batch in folder.batches("qit", names, rows=_ROWS_AT_ONCE, coded=True):
        found += np.bincount(tree.leaves(tree.ranked(batch), batch.num_rows), minlength=len(found))
    return found


def merged_strata(tree: Tree, rows: Integers, slots: Mapping[int, tuple[Integers, Integers]]) -> Iterator[Merged]:
    """The strata with several leaves that have rows."""
    filled = np.flatnonzero(rows)
    order = filled[np.argsort(tree.stratum_of[filled], kind="stable")]
    starts = np.flatnonzero(np.diff(tree.stratum_of[order], prepend=-1))
    for leaves in np.split(order, starts[1:]):
        if len(leaves) > 1:
            stratum = int(tree.stratum_of[leaves[0]])
            listed, counts = slots[stratum]
            values, place = np.unique(listed, return_inverse=True)
            held: Integers = np.zeros(len(values), np.int64)
            np.add.at(held, place, counts)
            yield Merged(stratum, leaves, rows[leaves], values, held)


def minimality(
    folder: ReleaseFolder,
    slots: Mapping[int, tuple[Integers, Integers]],
    candidates: Candidates,
    sampled: pa.Table,
    limits: Sequence[Fraction],
    people: People | None,
    frequencies: Floats,
) -> Attack:
    """Conclude, and score. `slots` are the values of each stratum and how many slots have them; `sampled` the rows."""
    strata = folder.manifest.strata
    if strata is None:
        return Attack(NAME, candidates.rows, notes=(_NO_STRATA,))
    if not check_tree(folder.manifest, Report()):
        raise ReleaseError("the manifest's tree cannot be followed", "Run dalenius verify on the release.")
    schema = folder.schema("qit")
    tree = Tree.of(strata, dict(zip(schema.names, schema.types, strict=True)))
    rows = leaf_rows(folder, tree)
    most = most_shares(folder.manifest, limits)
    found = [suspicion(merged, most) for merged in merged_strata(tree, rows, slots)]
    leaf_of = _leaves(tree, sampled, candidates.rows)
    beliefs = _beliefs(candidates, leaf_of, found)
    scores = score(candidates, limits, beliefs, people, frequencies)
    texts = [entry.value for entry in folder.manifest.values]
    details = _details(strata, tree, found, limits, texts)
    notes = [_NOT_COVERED]
    if people is not None and people.whole:
        details["truth"] = _against_truth(_true_counts(tree, leaf_of, people, len(limits)), found, most, limits)
    elif people is not None:
        details["truth"] = None
        notes.append(_IN_SAMPLE)
    return attack(NAME, scores, people is not None, details, tuple(notes))


def _leaves(tree: Tree, rows: pa.Table, number: int) -> Integers:
    if not tree.asked:
        return np.zeros(number, np.int64)
    batches = rows.select(list(tree.asked)).to_batches(max_chunksize=_ROWS_AT_ONCE)
    parts = [tree.leaves(tree.ranked(batch), batch.num_rows) for batch in batches]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _beliefs(candidates: Candidates, leaf_of: Integers, found: Sequence[Suspicion]) -> Beliefs:
    """The lift of each row's values as its likelihood, matched within buckets. Elsewhere the bucket's shares stay."""
    keys = [(one.merged.leaves[:, None] * candidates.values + one.merged.values).ravel() for one in found]
    every, lifts = np.concatenate([np.zeros(0, np.int64), *keys]), [one.lifts.ravel() for one in found]
    order = np.argsort(every)
    every, lift = every[order], np.concatenate([np.zeros(0), *lifts])[order]
    return [_matched(block, leaf_of, candidates.values, every, lift) for block in candidates.blocks]


def _matched(block: Block, leaf_of: Integers, values: int, keys: Integers, lifts: Floats) -> Floats:
    wanted = leaf_of[block.rows][:, :, None] * values + block.values[:, None, :]
    place = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
    there = keys[place] == wanted if len(keys) else np.zeros(wanted.shape, bool)
    if not there.any():
        return block.shares()
    weights = np.ones(block.shape)
    weights[:, : block.size] = np.where(there, lifts[place], 1.0)
    weights /= weights.max(axis=2, keepdims=True)
    found: Floats = matched(block, np.maximum(weights, _LEAST))
    return found


def _details(
    strata: Strata, tree: Tree, found: Sequence[Suspicion], limits: Sequence[Fraction], texts: Sequence[str]
) -> dict[str, Any]:
    """What the release alone shows, leaf by leaf. Leaves are named by their places in the manifest's tree."""
    most = np.array([float(limit) for limit in limits])
    suspected: list[dict[str, Any]] = []
    pairs, leaves, people, worst = 0, 0, 0, 0.0
    for one in found:
        allowed = most[one.merged.values]
        above = one.shares > allowed + _ABOVE
        pairs += int(above.sum())
        leaves += int(above.any(axis=1).sum())
        people += int(one.merged.rows[above.any(axis=1)].sum())
        worst = max(worst, float((one.shares / allowed).max()))
        leaf, value = _most_suspected(one)
        suspected.append(
            {
                "stratum": one.merged.stratum + 1,
                "leaf": int(tree.leaf_places[one.merged.leaves[leaf]]),
                "value": texts[one.merged.values[value]],
                "probability": float(one.weights[leaf, value]),
                "share": float(one.shares[leaf, value]),
                "limit": float(allowed[value]),
            }
        )
    suspected.sort(key=lambda entry: (-entry["share"] / entry["limit"], entry["stratum"]))
    return {
        "margin": strata.margin,
        "strata": len(strata.strata),
        "merged_strata": len(found),
        "merged_leaves": sum(len(one.merged.leaves) for one in found),
        "merged_people": sum(int(one.merged.rows.sum()) for one in found),
        "pairs_above_limit": pairs,
        "leaves_above_limit": leaves,
        "people_in_leaves_above_limit": people,
        "worst_ratio": worst if found else None,
        "most_suspected": suspected[:_MOST_SUSPECTED],
    }


def _most_suspected(one: Suspicion) -> tuple[int, int]:
    """The leaf and value of the most probable event."""
    leaf, value = np.unravel_index(int(one.weights.argmax()), one.weights.shape)
    return int(leaf), int(value)


def _true_counts(tree: Tree, leaf_of: Integers, people: People, values: int) -> Integers:
    """Records by leaf and value: rows of a class are all in one leaf."""
    classes = people.classes
    leaf_of_class: Integers = np.zeros(len(classes.records), np.int64)
    leaf_of_class[classes.class_of] = leaf_of
    counts: Integers = np.zeros((len(tree.leaf_places), values), np.int64)
    np.add.at(counts, (leaf_of_class[classes.cell_classes], classes.cell_values), classes.cell_counts)
    return counts


def _against_truth(
    counts: Integers, found: Sequence[Suspicion], fit: Sequence[Fraction], limits: Sequence[Fraction]
) -> dict[str, int]:
    """Of the strata's most suspected pairs, how many are unfit and how many above the limit; and of all such pairs."""
    told = dict.fromkeys(("suspected", "suspected_unfit", "suspected_above_limit", "pairs_true", "pairs_unfit"), 0)
    most = np.array([float(limit) for limit in limits])
    for one in found:
        held = counts[one.merged.leaves][:, one.merged.values]
        unfit = held >= _least_above(one.merged, fit)
        above = held >= _least_above(one.merged, limits)
        at = _most_suspected(one)
        told["suspected"] += 1
        told["suspected_unfit"] += int(unfit[at])
        told["suspected_above_limit"] += int(above[at])
        told["pairs_true"] += int((above & (one.shares > most[one.merged.values] + _ABOVE)).sum())
        told["pairs_unfit"] += int(unfit.sum())
    return told
