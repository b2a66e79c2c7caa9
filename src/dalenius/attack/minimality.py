"""The attacker who asks why leaves were merged (minimality attack: Wong, Fu, Wang and Pei 2007).

The rule is known: a leaf in which some value x has more than the share

    most_x = f_x + margin * (limit_x - f_x),    f_x its share in the table; 1 if limit_x is 1,

is unfit, and is merged with others. So in a stratum of several leaves one is unfit at least, and that tells something
about its people. What exactly depends on the model (`minimality_models`); all of them are played. What they conclude
about leaves is reported for each, and first for the one with the largest share / limit.

The posterior share of a value in a leaf is compared with its limit. People are guessed with all that is known: the
posterior share over the share of the stratum is the weight of a row's values, matched with the others of its bucket.
The model whose guesses are right more often is scored; without the truth, the one that is reported first.

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

from dalenius.attack.minimality_models import MODELS, MergedStratum, Suspicion, least_above
from dalenius.attack.people import People
from dalenius.attack.reading import Target
from dalenius.attack.scoring import Scores, attack_result, score
from dalenius.errors import ReleaseError
from dalenius.infer.candidates import Beliefs, Block, Candidates, Floats, Integers
from dalenius.infer.naive_bayes import match_values
from dalenius.model.attack_result import Attack
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest, Strata
from dalenius.tables.arrays import numpy_array
from dalenius.verify.findings import Report
from dalenius.verify.stated_tree import Tree, check_tree

NAME = "minimality"
_ABOVE = 1e-9
_LEAST = 1e-26  # the smallest weight of a value: products of eight of them are still numbers
_MOST_SUSPECTED = 10
_ROWS_AT_ONCE = 2**17
_NO_STRATA = "There are no strata, so nothing was merged and nothing can be concluded from it"
_NOT_COVERED = "F'-privacy does not cover what merging tells: beliefs above a limit break no promise"
_IN_SAMPLE = "A sample does not tell whether suspected leaves are really unfit"


@dataclass(frozen=True)
class _Play:
    """A model, how good its guesses are, and what it concludes about leaves."""

    name: str
    scores: Scores
    conclusions: dict[str, Any]


def most_shares(manifest: Manifest, limits: Sequence[Fraction]) -> list[Fraction]:
    """most_x for every value, as far as a release tells: where there are fake values, f is that of ST's rows."""
    margin = Fraction(manifest.strata.margin) if manifest.strata is not None else Fraction(1)
    slots = max(1, manifest.slots - (manifest.apart.rows if manifest.apart is not None else 0))
    shares = [Fraction(value.count, slots) for value in manifest.values]
    return [
        limit if limit == 1 else share + margin * (limit - share) for share, limit in zip(shares, limits, strict=True)
    ]


def leaf_rows(folder: ReleaseFolder, tree: Tree) -> Integers:
    """How many rows of QIT arrive at each leaf; those that are set apart go through no tree."""
    rows: Integers = np.zeros(len(tree.leaf_places), np.int64)
    manifest = folder.manifest
    last = manifest.buckets - (manifest.apart.buckets if manifest.apart is not None else 0)
    names = [*tree.columns, manifest.columns.bucket]
    for whole in folder.batches("qit", names, rows=_ROWS_AT_ONCE, coded=True):
        batch = whole.slice(0, int(np.searchsorted(numpy_array(whole.column(len(names) - 1)), last, side="right")))
        rows += np.bincount(tree.leaves(tree.rank(batch), batch.num_rows), minlength=len(rows))
    return rows


def merged_strata(
    tree: Tree, rows: Integers, slots: Mapping[int, tuple[Integers, Integers]]
) -> Iterator[MergedStratum]:
    """The strata with several leaves that have rows. `slots` are the values of each, and how many slots have them."""
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
            yield MergedStratum(stratum=stratum, leaves=leaves, rows=rows[leaves], values=values, slots=held)


def minimality(target: Target) -> Attack:
    """Conclude by every model, and score the best one."""
    target.progress.stage("Minimality")
    manifest, candidates, people = target.release.manifest, target.candidates, target.people
    strata = manifest.strata
    if strata is None:
        return Attack(NAME, candidates.rows, notes=(_NO_STRATA,))
    if not check_tree(manifest, Report()):
        raise ReleaseError("the manifest's tree cannot be followed", "Run dalenius verify on the release.")
    schema = target.release.schema("qit")
    tree = Tree.of(strata, dict(zip(schema.names, schema.types, strict=True)))
    merged = list(merged_strata(tree, leaf_rows(target.release, tree), target.slots.strata()))
    plays = _play_models(target, tree, merged)
    # of equals the first
    worst = max(plays, key=lambda play: play.conclusions["worst_ratio"] or 0.0)
    best = max(plays, key=lambda play: play.scores.right) if people is not None else worst
    details = {**_merging(strata, merged), "model": worst.name, **worst.conclusions, "guesses_by": best.name}
    details["models"] = [_play_object(play, people is not None) for play in plays]
    notes = (_NOT_COVERED,) if people is None or people.whole else (_NOT_COVERED, _IN_SAMPLE)
    return attack_result(NAME, best.scores, target, details, notes)


def _play_models(target: Target, tree: Tree, merged: Sequence[MergedStratum]) -> list[_Play]:
    manifest, candidates, people = target.release.manifest, target.candidates, target.people
    most = most_shares(manifest, target.limits)
    leaf_of = _leaves(tree, target.sample.rows, candidates.rows)
    texts = [entry.value for entry in manifest.values]
    counts = _true_counts(tree, leaf_of, people, len(texts)) if people is not None and people.whole else None
    plays = []
    for name, model in MODELS.items():
        suspicions = [model(stratum, most) for stratum in merged]
        scores = score(target, _beliefs(candidates, leaf_of, suspicions))
        conclusions = _conclusions(tree, suspicions, target.limits, texts)
        if people is not None:
            truth = _against_truth(counts, suspicions, most, target.limits) if counts is not None else None
            conclusions["truth"] = truth
        plays.append(_Play(name, scores, conclusions))
    return plays


def _play_object(play: _Play, with_truth: bool) -> dict[str, Any]:
    scores = play.scores
    success = scores.right / scores.people if with_truth and scores.people else None
    return {"model": play.name, "success": success, "claims": scores.claims, **play.conclusions}


def _leaves(tree: Tree, rows: pa.Table, number: int) -> Integers:
    if not tree.columns:
        return np.zeros(number, np.int64)
    batches = rows.select(list(tree.columns)).to_batches(max_chunksize=_ROWS_AT_ONCE)
    parts = [tree.leaves(tree.rank(batch), batch.num_rows) for batch in batches]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _beliefs(candidates: Candidates, leaf_of: Integers, suspicions: Sequence[Suspicion]) -> Beliefs:
    """The lift of each row's values as its likelihood, matched within buckets. Elsewhere the bucket's shares stay."""
    strata = [suspicion.stratum for suspicion in suspicions]
    keys = [(stratum.leaves[:, None] * candidates.values + stratum.values).ravel() for stratum in strata]
    every = np.concatenate([np.zeros(0, np.int64), *keys])
    lifts = [suspicion.lifts.ravel() for suspicion in suspicions]
    order = np.argsort(every)
    every, lift = every[order], np.concatenate([np.zeros(0), *lifts])[order]
    return [_match(block, leaf_of, candidates.values, every, lift) for block in candidates.blocks]


def _match(block: Block, leaf_of: Integers, values: int, keys: Integers, lifts: Floats) -> Floats:
    wanted = leaf_of[block.rows][:, :, None] * values + block.values[:, None, :]
    place = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
    there = keys[place] == wanted if len(keys) else np.zeros(wanted.shape, bool)
    if not there.any():
        return block.shares()
    weights = np.ones(block.shape)
    weights[:, : block.size] = np.where(there, lifts[place], 1.0)
    weights /= weights.max(axis=2, keepdims=True)
    beliefs: Floats = match_values(block, np.maximum(weights, _LEAST))
    return beliefs


def _merging(strata: Strata, merged: Sequence[MergedStratum]) -> dict[str, Any]:
    return {
        "margin": strata.margin,
        "strata": sum(1 for stratum in strata.strata if stratum.applies),
        "merged_strata": len(merged),
        "merged_leaves": sum(len(stratum.leaves) for stratum in merged),
        "merged_people": sum(int(stratum.rows.sum()) for stratum in merged),
    }


def _conclusions(
    tree: Tree, suspicions: Sequence[Suspicion], limits: Sequence[Fraction], texts: Sequence[str]
) -> dict[str, Any]:
    """What a model concludes from the release alone. Leaves are named by their places in the manifest's tree."""
    most = np.array([float(limit) for limit in limits])
    suspected: list[dict[str, Any]] = []
    pairs, leaves, people, worst = 0, 0, 0, 0.0
    for suspicion in suspicions:
        stratum = suspicion.stratum
        allowed = most[stratum.values]
        above = suspicion.shares > allowed + _ABOVE
        pairs += int(above.sum())
        leaves += int(above.any(axis=1).sum())
        people += int(stratum.rows[above.any(axis=1)].sum())
        worst = max(worst, float((suspicion.shares / allowed).max()))
        leaf, value = suspicion.most_suspected
        suspected.append(
            {
                "stratum": stratum.stratum + 1,
                "leaf": int(tree.leaf_places[stratum.leaves[leaf]]),
                "value": texts[stratum.values[value]],
                "probability": float(suspicion.weights[leaf, value]),
                "share": float(suspicion.shares[leaf, value]),
                "limit": float(allowed[value]),
            }
        )
    suspected.sort(key=lambda entry: (-entry["share"] / entry["limit"], entry["stratum"]))
    return {
        "pairs_above_limit": pairs,
        "leaves_above_limit": leaves,
        "people_in_leaves_above_limit": people,
        "worst_ratio": worst if suspicions else None,
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
    counts: Integers, suspicions: Sequence[Suspicion], fit: Sequence[Fraction], limits: Sequence[Fraction]
) -> dict[str, Any]:
    """Of the strata's most suspected pairs, how many are unfit and how many above the limit; and of all such pairs.

    The worst ratio is of all pairs, suspected or not: what a merged leaf really has, over the limit.
    """
    names = ("suspected", "suspected_unfit", "suspected_above_limit", "pairs_true", "pairs_unfit")
    numbers: dict[str, Any] = dict.fromkeys(names, 0)
    most = np.array([float(limit) for limit in limits])
    worst: float | None = None
    for suspicion in suspicions:
        stratum = suspicion.stratum
        held, allowed = counts[stratum.leaves][:, stratum.values], most[stratum.values]
        unfit = held >= least_above(stratum, fit)
        above = held >= least_above(stratum, limits)
        at = suspicion.most_suspected
        numbers["suspected"] += 1
        numbers["suspected_unfit"] += int(unfit[at])
        numbers["suspected_above_limit"] += int(above[at])
        numbers["pairs_true"] += int((above & (suspicion.shares > allowed + _ABOVE)).sum())
        numbers["pairs_unfit"] += int(unfit.sum())
        worst = max(worst or 0.0, float((held / stratum.rows[:, None] / allowed).max()))
    return {**numbers, "worst_true_ratio": worst}
