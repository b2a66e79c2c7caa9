"""An analysis that goes wrong where both tables of a release are joined, and what completed tables make of it.

The table is Diabetes-130 with the chapter of the first diagnosis as sensitive value. Joined, every row is there once
for each value of its bucket, with the weight count / size. This is what somebody does who does not know better: the
weights add up to the table, so that standard errors look as they do for a table. Asked are the chi-square of gender by
chapter, logit slopes of `circulatory` and `neoplasms` on the decade of age, the difference that being a woman makes to
the log-odds of `genitourinary`, and the log-odds of `pregnancy` for men. No man has it, so half a person is added.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.analysis_tables import publish
from bench.coverage import CASES
from dalenius.analysis.outcomes import draw_outcomes, plain_values
from dalenius.analysis.rubin import pool_estimates
from dalenius.analysis.weighing import Weighing
from dalenius.release.folder import open_release

DRAWS = 20
SLOPES = {
    "age slope of circulatory": ("circulatory", "decade"),
    "age slope of neoplasms": ("neoplasms", "decade"),
    "women: genitourinary": ("genitourinary", "woman"),
}
Frame = Any


def _prepared(rows: Frame) -> Frame:
    kept = rows[rows["gender"].astype(str) != "Unknown/Invalid"]
    return pd.DataFrame(
        {
            "woman": (kept["gender"].astype(str) == "Female").to_numpy() * 1.0,
            "decade": kept["age"].astype(str).str.extract(r"\[(\d+)-")[0].astype(float).to_numpy() / 10,
            "chapter": kept["chapter"].astype(str).to_numpy(),
            "weight": kept["weight"].to_numpy() if "weight" in kept else np.ones(len(kept)),
        }
    )


def chi_square(rows: Frame) -> float:
    table = rows.groupby(["woman", "chapter"])["weight"].sum().unstack(fill_value=0.0).to_numpy()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return float(((table - expected) ** 2 / expected).sum())


def pregnant_men(rows: Frame) -> tuple[float, float]:
    """Their log-odds with the standard error."""
    men = rows[rows["woman"] == 0]
    having = float(men.loc[men["chapter"] == "pregnancy", "weight"].sum()) + 0.5
    others = float(men["weight"].sum()) - having + 1
    return float(np.log(having / others)), float(np.sqrt(1 / having + 1 / others))


def slope(rows: Frame, value: str, column: str) -> tuple[float, float]:
    """The logit slope with its standard error, by Newton's method."""
    counts = rows.assign(has=rows["chapter"] == value).groupby([column, "has"])["weight"].sum().unstack(fill_value=0.0)
    having, total = counts[True].to_numpy(), counts.to_numpy().sum(axis=1)
    design = np.column_stack([np.ones(len(counts)), counts.index.to_numpy(dtype=np.float64)])
    point = np.array([np.log(having.sum() / (total - having).sum()), 0.0])
    for _ in range(20):
        shares = 1 / (1 + np.exp(-design @ point))
        inverse = np.linalg.inv((design * (total * shares * (1 - shares))[:, None]).T @ design)
        point = point + inverse @ design.T @ (having - total * shares)
    return float(point[1]), float(np.sqrt(inverse[1, 1]))


def measured(data: Path) -> list[dict[str, Any]]:
    """For each question the truth, the answer of the join with its standard error, and that of the release."""
    case = next(case for case in CASES if case.sensitive == "chapter")
    table = case.table(data)
    release = publish(case, table)
    folder = open_release(release.path)
    truth = _prepared(table.to_pandas())
    weighing = Weighing(folder, "bucket")
    pieces = [piece.select(["gender", "age", "chapter", weighing.names[-1]]) for piece in weighing.pieces()]
    joined = _prepared(pd.concat([piece.to_pandas() for piece in pieces]))
    found = draw_outcomes(folder, ["chapter"], ["gender", "age"], draws=DRAWS, seed=1)
    labels, codes = found.kinds("chapter")
    names, here = np.array(labels), plain_values(found.rows).to_pandas()
    draws = [_prepared(here.assign(chapter=names[own])) for own in codes]
    chis = np.array([chi_square(one) for one in draws])
    rows = [
        {
            "asked": "chi-square of gender by chapter",
            "truth": chi_square(truth),
            "join": chi_square(joined),
            "release": float(chis.mean()),
            "lowest": float(chis.min()),
            "highest": float(chis.max()),
        }
    ]
    asked: dict[str, Callable[[Frame], tuple[float, float]]] = {
        name: partial(slope, value=value, column=column) for name, (value, column) in SLOPES.items()
    }
    for name, question in {**asked, "men: log-odds of pregnancy": pregnant_men}.items():
        fitted = [question(one) for one in draws]
        within = np.array([[np.mean([error**2 for _, error in fitted])]])
        pooled = pool_estimates([name], np.array([[own] for own, _ in fitted]), within)
        true, joint = question(truth), question(joined)
        rows.append(
            {
                "asked": name,
                "truth": true[0],
                "truth error": true[1],
                "join": joint[0],
                "join error": joint[1],
                "release": float(pooled.estimates[0]),
                "release error": float(pooled.bse.iloc[0]),
            }
        )
    return rows
