"""The attacker who asks why leaves were merged (minimality attack: Wong, Fu, Wang and Pei 2007).

The rule is known: a leaf in which some value x has more than the share

    most_x = f_x + margin * (limit_x - f_x),    f_x its share in the table; 1 if limit_x is 1,

is unfit, and is merged with others; x may also be a group of values with a limit. So in a stratum of several leaves one
is unfit at least, and that tells something about its people. What exactly depends on the model (`minimality_models`);
all of them are played. What they conclude about leaves is reported for each, and first for the one with the largest
share / limit.

The posterior share of a value in a leaf is compared with its limit. People are guessed with all that is known: the
posterior share over the share of the stratum is the weight of a row's values, matched with the others of its bucket.
The model whose guesses are right more often is scored; without the truth, the one that is reported first.

The attacker uses nothing but that rule. How partners were chosen is not used, so more might be concluded. Leaves are
also merged for few rows, and strata joined that have no plan within the largest size: the attacker does not think of
that, and then suspects without reason. F'-privacy says nothing of this attack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dalenius.attack.aligned_rows import People
from dalenius.attack.claims import ABOVE, LimitedGroups
from dalenius.attack.minimality_models import MODELS, MergedStratum, Suspicion, least_above
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
_LEAST = 1e-26  # the smallest weight of a value: products of eight of them are still numbers
_MOST_SUSPECTED = 10
_ROWS_AT_ONCE = 2**17
_NO_STRATA = "There are no strata, so nothing was merged and nothing can be concluded from it"
_FOLLOWS = "the release follows on others: how these were cut into strata is not in it"
_NOT_COVERED = "F'-privacy does not cover what merging tells: beliefs above a limit break no promise"
_IN_SAMPLE = "A sample does not tell whether suspected leaves are really unfit"


@dataclass(frozen=True)
class _Play:
    """A model, how good its guesses are, and what it concludes about leaves."""

    name: str
    scores: Scores
    conclusions: dict[str, Any]


@dataclass(frozen=True)
class _Limited:
    """All that has a limit, the values and then the groups: names, limits, and the largest shares that are fit."""

    names: list[str]
    limits: list[Fraction]
    most: list[Fraction]
    values: int

    @classmethod
    def of(cls, target: Target) -> _Limited:
        groups, manifest = target.groups, target.release.manifest
        limits = [*target.limits, *(groups.limits if groups is not None else ())]
        names = [*(entry.value for entry in manifest.values), *(groups.names if groups is not None else ())]
        return cls(names, limits, most_shares(manifest, limits, groups), len(manifest.values))


def most_shares(manifest: Manifest, limits: Sequence[Fraction], groups: LimitedGroups | None = None) -> list[Fraction]:
    """most_x for every value, and then every group, as far as a release tells.

    Where there are fake values, f is that of ST's rows.
    """
    margin = Fraction(manifest.strata.margin) if manifest.strata is not None else Fraction(1)
    slots = max(1, manifest.slots - (manifest.apart.rows if manifest.apart is not None else 0))
    shares = [Fraction(value.count, slots) for value in manifest.values]
    shares += groups.shares if groups is not None else ()
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
    tree: Tree,
    rows: Integers,
    slots: Mapping[int, tuple[Integers, Integers]],
    groups: LimitedGroups | None = None,
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
            merged = MergedStratum(stratum=stratum, leaves=leaves, rows=rows[leaves], values=values, slots=held)
            yield merged if groups is None else _with_groups(merged, groups)


def _with_groups(stratum: MergedStratum, groups: LimitedGroups) -> MergedStratum:
    holding = groups.holding[stratum.values]
    inside = holding >= 0
    there, places = np.unique(holding[inside], return_inverse=True)
    holding[inside] = places
    return replace(stratum, groups=there + len(groups.holding), holding=holding)


def minimality(target: Target) -> Attack:
    """Conclude by every model, and show the one that is the worst threat."""
    target.progress.stage("Minimality")
    manifest, candidates, people = target.release.manifest, target.candidates, target.people
    strata = manifest.strata
    if strata is None:
        return Attack(NAME, candidates.rows, notes=(_NO_STRATA,))
    if manifest.chain is not None and manifest.chain.release > 1:
        return Attack(NAME, 0, not_played=_FOLLOWS)
    if not check_tree(manifest, Report()):
        raise ReleaseError("the manifest's tree cannot be followed", "Run dalenius verify on the release.")
    schema = target.release.schema("qit")
    tree = Tree.of(strata, dict(zip(schema.names, schema.types, strict=True)))
    merged = list(merged_strata(tree, leaf_rows(target.release, tree), target.slots.strata(), target.groups))
    plays = _play_models(target, tree, merged)
    # of equals the first
    worst = max(plays, key=lambda play: play.conclusions["worst_ratio"] or 0.0)
    notes = (_NOT_COVERED,) if people is None or people.whole else (_NOT_COVERED, _IN_SAMPLE)
    attacks = [(attack_result(NAME, play.scores, target, {}, notes), play) for play in plays]
    if people is not None:
        attack, best = max(attacks, key=lambda entry: entry[0].threat)
    else:
        attack, best = next(entry for entry in attacks if entry[1] is worst)
    details = {**_merging(strata, merged), "model": worst.name, **worst.conclusions, "guesses_by": best.name}
    details["models"] = [_play_object(play, people is not None) for play in plays]
    return replace(attack, details={**attack.details, **details})


def _play_models(target: Target, tree: Tree, merged: Sequence[MergedStratum]) -> list[_Play]:
    candidates, people = target.candidates, target.people
    limited = _Limited.of(target)
    leaf_of = leaves_of(tree, target.sample.rows, candidates.rows)
    counts = _true_counts(tree, leaf_of, people, limited.values) if people is not None and people.whole else None
    plays = []
    for name, model in MODELS.items():
        suspicions = [model(stratum, limited.most) for stratum in merged]
        scores = score(target, _beliefs(candidates, leaf_of, suspicions))
        conclusions = _conclusions(tree, suspicions, limited)
        if people is not None:
            truth = _against_truth(counts, suspicions, limited) if counts is not None else None
            conclusions["truth"] = truth
        plays.append(_Play(name, scores, conclusions))
    return plays


def _play_object(play: _Play, with_truth: bool) -> dict[str, Any]:
    scores = play.scores
    success = scores.right / scores.people if with_truth and scores.people else None
    return {"model": play.name, "success": success, "claims": scores.values.claims, **play.conclusions}


def leaves_of(tree: Tree, rows: pa.Table, number: int) -> Integers:
    """The leaf at which each of so many rows arrives."""
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


def _conclusions(tree: Tree, suspicions: Sequence[Suspicion], limited: _Limited) -> dict[str, Any]:
    """What a model concludes from the release alone. Leaves are named by their places in the manifest's tree."""
    most = np.array([float(limit) for limit in limited.limits])
    suspected: list[dict[str, Any]] = []
    pairs, leaves, people, worst = 0, 0, 0, 0.0
    for suspicion in suspicions:
        stratum = suspicion.stratum
        allowed, shares = most[stratum.events], stratum.with_groups(suspicion.shares)
        above = shares > allowed + ABOVE
        pairs += int(above.sum())
        leaves += int(above.any(axis=1).sum())
        people += int(stratum.rows[above.any(axis=1)].sum())
        worst = max(worst, float((shares / allowed).max()))
        leaf, event = suspicion.most_suspected
        number = int(stratum.events[event])
        suspected.append(
            {
                "stratum": stratum.stratum + 1,
                "leaf": int(tree.leaf_places[stratum.leaves[leaf]]),
                "value": limited.names[number],
                "is_group": number >= limited.values,
                "probability": float(suspicion.weights[leaf, event]),
                "share": float(shares[leaf, event]),
                "limit": float(allowed[event]),
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


def _against_truth(counts: Integers, suspicions: Sequence[Suspicion], limited: _Limited) -> dict[str, Any]:
    """Of the strata's most suspected pairs, how many are unfit and how many above the limit; and of all such pairs.

    The worst ratio is of all pairs, suspected or not: what a merged leaf really has, over the limit.
    """
    names = ("suspected", "suspected_unfit", "suspected_above_limit", "pairs_true", "pairs_unfit")
    numbers: dict[str, Any] = dict.fromkeys(names, 0)
    most = np.array([float(limit) for limit in limited.limits])
    worst: float | None = None
    for suspicion in suspicions:
        stratum = suspicion.stratum
        held, allowed = stratum.with_groups(counts[stratum.leaves][:, stratum.values]), most[stratum.events]
        unfit = held >= least_above(stratum, limited.most)
        above = held >= least_above(stratum, limited.limits)
        at = suspicion.most_suspected
        numbers["suspected"] += 1
        numbers["suspected_unfit"] += int(unfit[at])
        numbers["suspected_above_limit"] += int(above[at])
        numbers["pairs_true"] += int((above & (stratum.with_groups(suspicion.shares) > allowed + ABOVE)).sum())
        numbers["pairs_unfit"] += int(unfit.sum())
        worst = max(worst or 0.0, float((held / stratum.rows[:, None] / allowed).max()))
    return {**numbers, "worst_true_ratio": worst}
