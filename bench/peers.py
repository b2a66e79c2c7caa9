"""make bench-peers DATA=...: the same tables through what a user would pick instead.

DATA is a folder with acs2018_income_46states.parquet (100,000 random people are published and 50,000 held out, whether
somebody earns more than $50,000 is sensitive) and adult_48842.parquet (80 % and 20 %, the occupation is sensitive).
bench.peers_methods has the methods. Of each is measured:

- the error of pairs: half the sum of absolute differences between the shares of all cells in the published people and
  in what the method gives, for each quasi-identifier with the sensitive column, as the mean over quasi-identifiers.
  Numbers are in at most 20 bands. Where values are drawn, shares are those of all draws together.
- the accuracy of a logistic regression that learned from what the method gives, on people who are held out. Columns
  are one-hot, and numbers scaled. A release fits its model by itself, see `Release.fit`.
- the advantage of an attacker who knows all quasi-identifiers: how often the guess is right for people in the table,
  minus how often for people who are held out. For releases it is the attacker `learning` of `dalenius audit`. For
  rows, real or made up, the attacker looks for people with the same quasi-identifiers and guesses their most frequent
  value; where there are none, or two are as frequent, gradient-boosted trees that learned from the rows decide. Rows
  that were left out are people in the table too. Of some rows only the people in them count.

    python -m bench.peers DATA [--only "Adult occupation"] [--method MST]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import altair
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bench.charts import save
from bench.coverage import ADULT
from bench.machine import machine
from bench.peers_methods import Frame, Given, People, generalised, mst, raw, release
from bench.publish import DOCS, RESULTS
from dalenius.errors import NoSolutionError

BANDS = 20
INCOME = ("AGEP", "COW", "SCHL", "MAR", "RELP", "WKHP", "SEX", "RAC1P")
Rows = list[dict[str, Any]]
Method = Callable[[People], Given]


@dataclass(frozen=True)
class Case:
    """A table: its roles, and how many people of it are published and held out."""

    name: str
    file: str
    sensitive: str
    quasi_identifiers: tuple[str, ...]
    numbers: tuple[str, ...]
    published: int
    held_out: int
    values: dict[Any, str] = field(default_factory=dict)

    def people(self, data: Path) -> People:
        """Both parts, at random. What is not a number becomes text."""
        table = pd.read_parquet(data / self.file, columns=[*self.quasi_identifiers, self.sensitive])
        if self.values:
            table[self.sensitive] = table[self.sensitive].map(self.values)
        table = table.astype({name: int if name in self.numbers else str for name in table.columns})
        order = np.random.default_rng(1).permutation(len(table))
        parts = order[: self.published], order[self.published : self.published + self.held_out]
        published, held_out = (table.iloc[part].reset_index(drop=True) for part in parts)
        domains = {name: sorted(table[name].unique().tolist()) for name in table.columns}
        roles = (self.sensitive, list(self.quasi_identifiers), list(self.numbers))
        return People(published, held_out, *roles, domains)


CASES = (
    Case(
        "ACS income",
        "acs2018_income_46states.parquet",
        "PINCP",
        INCOME,
        ("AGEP", "WKHP"),
        100_000,
        50_000,
        {True: "above 50,000", False: "at most 50,000"},
    ),
    Case("Adult occupation", "adult_48842.parquet", "occupation", ADULT, ("age", "hours_per_week"), 39_074, 9_768),
)
METHODS: dict[tuple[str, str], Method] = {
    ("raw rows", "all"): raw,
    ("raw rows", "2,000"): partial(raw, rows=2000),
    ("k-anonymity", "k 5, l 2"): partial(generalised, k=5, l=2),
    ("k-anonymity", "k 20, l 2"): partial(generalised, k=20, l=2),
    ("MST", "epsilon 1"): partial(mst, epsilon=1.0),
    ("MST", "epsilon 10"): partial(mst, epsilon=10.0),
    ("Anatomy", "l 2"): partial(release, limits={"l_diversity": 2}, method="anatomy", strata="none"),
    ("Anatomy", "l 4"): partial(release, limits={"l_diversity": 4}, method="anatomy", strata="none"),
    ("Dalenius", "odds 2"): partial(release, limits={"odds": 2}),
    ("Dalenius", "odds 4"): partial(release, limits={"odds": 4}),
    ("Dalenius", "odds 8"): partial(release, limits={"odds": 8}),
}


def error_of_pairs(drawn: list[Frame], people: People) -> dict[str, float]:
    """By quasi-identifier, how far its cells with the sensitive column are off."""
    given = pd.concat(drawn, ignore_index=True)
    found = {}
    for name in people.quasi_identifiers:
        edges = None
        if name in people.numbers:
            edges = np.unique(np.quantile(people.published[name], np.arange(1, BANDS) / BANDS))
        truth, told = (_shares(rows, name, people.sensitive, edges) for rows in (people.published, given))
        found[name] = float(truth.sub(told, fill_value=0).abs().sum() / 2)
    return found


def _shares(rows: Frame, name: str, sensitive: str, edges: Any) -> Any:
    cells = rows[name] if edges is None else np.digitize(rows[name], edges)
    return pd.DataFrame({"cell": cells, "value": rows[sensitive]}).value_counts(normalize=True)


def regression(rows: Frame, people: People) -> Any:
    """The model that is the same for all."""
    texts = [name for name in people.quasi_identifiers if name not in people.numbers]
    coding = ColumnTransformer(
        [("texts", OneHotEncoder(handle_unknown="ignore"), texts), ("numbers", StandardScaler(), people.numbers)]
    )
    return make_pipeline(coding, LogisticRegression(max_iter=1000)).fit(rows, rows[people.sensitive])


class Attacker:
    """Looks people up in the rows that were given, and has a model for those who are not found."""

    def __init__(self, seen: Frame, people: People) -> None:
        self._names = people.quasi_identifiers
        self._kinds = {
            name: pd.CategoricalDtype(sorted(seen[name].unique())) for name in self._names if seen[name].dtype == object
        }
        # without regularisation, rare values make it worse than a guess
        trees = HistGradientBoostingClassifier(l2_regularization=10, early_stopping=False, random_state=1)
        self._trees = trees.fit(self._coded(seen), seen[people.sensitive])
        self._found = seen.groupby([*self._names, people.sensitive]).size().unstack(fill_value=0)

    def _coded(self, rows: Frame) -> Frame:
        return rows[self._names].astype(self._kinds)

    def right(self, rows: Frame, truth: Frame) -> float:
        """How often the guess is right."""
        values = self._trees.classes_
        same = pd.MultiIndex.from_frame(rows[self._names])
        counts = self._found.reindex(index=same, columns=values, fill_value=0).to_numpy()
        chances = self._trees.predict_proba(self._coded(rows))
        guesses = values[(counts + chances / 2).argmax(axis=1)]  # halved, they never outweigh one more who is found
        return float((guesses == truth.to_numpy()).mean())


def attack(given: Given, people: People) -> tuple[float, float]:
    """How often guesses are right for people in the table, and for people who are held out."""
    if given.attack is not None:
        return given.attack
    attacker = Attacker(given.seen, people)
    inside, outside = (
        attacker.right(given.looks(rows), rows[people.sensitive]) for rows in (given.inside, people.held_out)
    )
    return inside, outside


def measured(case: Case, people: People, name: tuple[str, str]) -> dict[str, Any]:
    """One method on one table."""
    row: dict[str, Any] = {"table": case.name, "method": name[0], "setting": name[1]}
    started = time.perf_counter()
    try:
        given = METHODS[name](people)
    except NoSolutionError as impossible:
        return {**row, "impossible": str(impossible)}
    row["seconds"] = time.perf_counter() - started
    pairs = error_of_pairs(given.drawn, people)
    model = given.model if given.model is not None else regression(given.drawn[0], people)
    guesses = np.asarray(model.predict(people.held_out[people.quasi_identifiers]))
    accuracy = float((guesses == people.held_out[people.sensitive].to_numpy()).mean())
    success, control = attack(given, people)
    row |= {"rows": len(given.drawn[0]), "error": float(np.mean(list(pairs.values()))), "pairs": pairs}
    row |= {"accuracy": accuracy, "success": success, "control": control, "advantage": success - control}
    return {**row, "facts": given.facts}


def most_frequent(people: People) -> float:
    """The accuracy of whoever guesses the most frequent value of all."""
    return float((people.held_out[people.sensitive] == people.published[people.sensitive].mode()[0]).mean())


def summary(found: dict[str, Any]) -> str:
    """The table of the documentation."""
    heads = ("table", "method", "error of pairs", "accuracy", "guesses right", "held out", "advantage", "seconds")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in found["rows"]:
        start = f"| {row['table']} | {row['method']}, {row['setting']} |"
        if "impossible" in row:
            lines.append(f"{start} no release | | | | | |")
            continue
        shares = [f"{row[name]:.1%}" for name in ("accuracy", "success", "control")]
        cells = [f"{row['error']:.4f}", *shares, f"{100 * row['advantage']:+.1f} points", f"{row['seconds']:.0f}"]
        lines.append(f"{start} {' | '.join(cells)} |")
    guess = ", ".join(f"{share:.1%} ({name})" for name, share in found["most_frequent"].items())
    return "\n".join([*lines, "", f"Guessing the most frequent value is right for {guess}.", ""])


def picture(rows: Rows, table: str) -> Any:
    """Accuracy against advantage."""
    own = [row for row in rows if row["table"] == table and "impossible" not in row]
    points = [
        {**{name: row[name] for name in ("method", "setting")}, "number": number}
        | {name: 100 * row[name] for name in ("accuracy", "advantage")}
        for number, row in enumerate(own)
    ]
    order = list(dict.fromkeys(row["method"] for row in rows))
    base = altair.Chart(altair.InlineData(values=points)).encode(
        x=altair.X("accuracy:Q", title="accuracy of a model on held-out people, %", scale=altair.Scale(zero=False)),
        y=altair.Y("advantage:Q", title="advantage of the attacker, points"),
        color=altair.Color("method:N", title=None, sort=order, scale=altair.Scale(domain=order)),
    )
    marks = base.mark_point(filled=True, size=80, opacity=0.9).encode(
        shape=altair.Shape("method:N", title=None, sort=order, scale=altair.Scale(domain=order))
    )
    curve = base.mark_line(strokeWidth=1).encode(order="number:Q", detail="method:N")
    names = base.mark_text(align="left", dx=7, dy=-6, fontSize=10).encode(text="setting:N")
    return (curve + marks + names).properties(title=table, width=360, height=280)


def main() -> None:
    """Measure all, or what is chosen: results of what is not stay."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("--only", action="append", help="tables of this name")
    options.add_argument("--method", action="append", help="methods of this name")
    options.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    options.add_argument("--show", action="store_true", help="only draw the results of an earlier run again")
    asked = options.parse_args()
    file = asked.out / "peers.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"rows": [], "most_frequent": {}}
    for case in CASES if not asked.show else ():
        if asked.only is not None and case.name not in asked.only:
            continue
        people = case.people(asked.data)
        found["most_frequent"][case.name] = most_frequent(people)
        for name in METHODS:
            if asked.method is None or name[0] in asked.method:
                keep(found, measured(case, people, name))
                found["machine"] = machine(mbi=version("mbi"), scikit_learn=version("scikit-learn"))
                file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (asked.out / "peers.md").write_text(summary(found), encoding="utf-8")
    save([picture(found["rows"], table) for table in found["most_frequent"]], asked.out / "peers")
    if asked.out == RESULTS:
        (DOCS / "images" / "bench-peers.svg").write_bytes((asked.out / "peers.svg").read_bytes())
    print(summary(found))


def keep(found: dict[str, Any], row: dict[str, Any]) -> None:
    """Put a row in the place of an earlier one, in the order of tables and methods."""
    print(json.dumps({**row, "facts": None, "pairs": None}), flush=True)
    order = [(case.name, *name) for case in CASES for name in METHODS]

    def key(one: dict[str, Any]) -> tuple[str, str, str]:
        return one["table"], one["method"], one["setting"]

    others = [one for one in found["rows"] if key(one) != key(row) and key(one) in order]
    found["rows"] = sorted([*others, row], key=lambda one: order.index(key(one)))


if __name__ == "__main__":
    main()
