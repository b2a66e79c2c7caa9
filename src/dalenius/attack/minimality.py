"""The attacker who asks why leaves were merged (minimality attack: Wong, Fu, Wang and Pei 2007).

The rule is known: a leaf in which some value x has more than the share

    most_x = f_x + margin * (limit_x - f_x),    f_x its share in the table; 1 if limit_x is 1,

is unfit, and is merged with others. So in a stratum of several leaves one is unfit at least, and that tells something
about its people: what exactly, depends on the model (`minimality_models`). Two are played. What is concluded about
leaves is told of both, and first of the one with the largest share / limit.

The posterior share of a value in a leaf is held against its limit. People are guessed with all that is known: the
posterior share over the share of the stratum is the weight of a row's values, matched with the others of its bucket.
The model whose guesses are right more often is scored; without the truth, the one that is told of first.

The attacker uses nothing but that rule. How partners were chosen is not used, so more might be concluded. Leaves are
also merged for few rows, and strata joined that have no plan within the largest size: the attacker does not think of
that, and then suspects without reason. F'-privacy says nothing of this attack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.attack.minimality_models import MODELS, Merged, Suspicion, least_above
from dalenius.attack.people import People
from dalenius.attack.scoring import Scores, attack, score
from dalenius.errors import ReleaseError
from dalenius.infer.candidates import Beliefs, Block, Candidates, Floats, Integers
from dalenius.infer.naive_bayes import match_values
from dalenius.model.attack_result import Attack
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest, Strata
from dalenius.verify.findings import Report
from dalenius.verify.stated_tree import Tree, check_tree

NAME = "minimality"
_ABOVE = 1e-9
_LEAST = 1e-26  # the smallest weight of a value: products of eight of them are still numbers
_MOST_SUSPECTED = 10
_ROWS_AT_ONCE = 2**17
_NO_STRATA = "There are no strata, so nothing was merged and nothing can be concluded from it"
_NOT_COVERED = "F'-privacy does not cover what merging tells: beliefs above a limit break no promise"
_IN_SAMPLE = "Whether suspected leaves are really unfit is not told of a sample"


@dataclass(frozen=True)
class _Played:
    """A model, how its guesses fare, and what it concludes about leaves."""

    name: str
    scores: Scores
    told: dict[str, Any]


def most_shares(manifest: Manifest, limits: Sequence[Fraction]) -> list[Fraction]:
    """most_x for every value, as far as a release tells: where there are fake values, f is that of ST's rows."""
    margin = Fraction(manifest.strata.margin) if manifest.strata is not None else Fraction(1)
    shares = [Fraction(value.count, manifest.slots) for value in manifest.values]
    return [
        limit if limit == 1 else share + margin * (limit - share) for share, limit in zip(shares, limits, strict=True)
    ]


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
    merged = list(merged_strata(tree, rows, slots))
    leaf_of = _leaves(tree, sampled, candidates.rows)
    texts = [entry.value for entry in folder.manifest.values]
    whole = people is not None and people.whole
    counts = _true_counts(tree, leaf_of, people, len(limits)) if people is not None and people.whole else None
    played: list[_Played] = []
    for name, model in MODELS.items():
        found = [model(one, most) for one in merged]
        scores = score(candidates, limits, _beliefs(candidates, leaf_of, found), people, frequencies)
        told = _told(tree, found, limits, texts)
        if people is not None:
            told["truth"] = _against_truth(counts, found, most, limits) if counts is not None else None
        played.append(_Played(name, scores, told))
    # of equals the first
    shown = max(played, key=lambda one: one.told["worst_ratio"] or 0.0)
    guessing = max(played, key=lambda one: one.scores.right) if people is not None else shown
    details = {**_merging(strata, merged), "model": shown.name, **shown.told, "guesses_by": guessing.name}
    details["models"] = [
        {
            "model": one.name,
            "success": one.scores.right / one.scores.people if people is not None and one.scores.people else None,
            "claims": one.scores.claims,
            **one.told,
        }
        for one in played
    ]
    notes = (_NOT_COVERED,) if people is None or whole else (_NOT_COVERED, _IN_SAMPLE)
    return attack(NAME, guessing.scores, people is not None, details, notes)


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
    found: Floats = match_values(block, np.maximum(weights, _LEAST))
    return found


def _merging(strata: Strata, merged: Sequence[Merged]) -> dict[str, Any]:
    return {
        "margin": strata.margin,
        "strata": len(strata.strata),
        "merged_strata": len(merged),
        "merged_leaves": sum(len(one.leaves) for one in merged),
        "merged_people": sum(int(one.rows.sum()) for one in merged),
    }


def _told(tree: Tree, found: Sequence[Suspicion], limits: Sequence[Fraction], texts: Sequence[str]) -> dict[str, Any]:
    """What a model concludes from the release alone. Leaves are named by their places in the manifest's tree."""
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
        leaf, value = one.most_suspected
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
        "pairs_above_limit": pairs,
        "leaves_above_limit": leaves,
        "people_in_leaves_above_limit": people,
        "worst_ratio": worst if found else None,
        "most_suspected": suspected[:_MOST_SUSPECTED],
    }


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
) -> dict[str, Any]:
    """Of the strata's most suspected pairs, how many are unfit and how many above the limit; and of all such pairs.

    The worst ratio is of all pairs, suspected or not: what a merged leaf really has, over the limit.
    """
    names = ("suspected", "suspected_unfit", "suspected_above_limit", "pairs_true", "pairs_unfit")
    told: dict[str, Any] = dict.fromkeys(names, 0)
    most = np.array([float(limit) for limit in limits])
    worst: float | None = None
    for one in found:
        held, allowed = counts[one.merged.leaves][:, one.merged.values], most[one.merged.values]
        unfit = held >= least_above(one.merged, fit)
        above = held >= least_above(one.merged, limits)
        at = one.most_suspected
        told["suspected"] += 1
        told["suspected_unfit"] += int(unfit[at])
        told["suspected_above_limit"] += int(above[at])
        told["pairs_true"] += int((above & (one.shares > allowed + _ABOVE)).sum())
        told["pairs_unfit"] += int(unfit.sum())
        worst = max(worst or 0.0, float((held / one.merged.rows[:, None] / allowed).max()))
    return {**told, "worst_true_ratio": worst}
