"""Models by formula, against statsmodels fitted to each completed table and Rubin's rules written out here."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import formulaic
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm

import dalenius
from dalenius.analysis import formulas
from dalenius.analysis.completing import Completion
from dalenius.analysis.draw_files import tables_of
from dalenius.analysis.formulas import fit_formula
from dalenius.analysis.generalised import Family
from dalenius.analysis.learned import Further
from dalenius.analysis.outcomes import draw_outcomes, plain_values
from dalenius.analysis.rubin import Pooled
from dalenius.errors import InputError, MemoryLimitError, NoSuchColumnError, UsageError
from dalenius.infer.candidates import Floats
from dalenius.model.memory import ReadingMemory
from dalenius.release.folder import ReleaseFolder
from tests.analysis.tables import DISEASES, patients, released

DRAWS = 4
SENSITIVE = ["disease", "stay", "drug"]


def people() -> pa.Table:
    """Patients with incomes that some do not tell, an odd name, and a stay and a drug that are sensitive as well."""
    table, random = patients(500, strength=1.0), np.random.default_rng(7)
    incomes = [None if random.random() < 0.1 else Decimal(int(random.integers(1000, 9000))) / 4 for _ in range(500)]
    visits = [None if random.random() < 0.1 else int(random.integers(0, 9)) for _ in range(500)]
    further = {
        "income": pa.array(incomes, pa.decimal128(9, 2)),
        "visits": pa.array(visits, pa.int16()),
        "went.to work?": pa.array((random.integers(0, 2, 500) == 1).tolist()),
        "stay": pa.array((1 + random.integers(0, 6, 500) + np.arange(500) % 3).tolist(), pa.int32()),
        "drug": pa.array([["x", "y", "z", "u", "v"][place] for place in random.integers(0, 5, 500).tolist()]),
    }
    for name, column in further.items():
        table = table.append_column(name, column)
    return table.drop_columns(["name"])


@pytest.fixture(scope="module", name="folder")
def made(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    return released(people(), tmp_path_factory.mktemp("made") / "release", SENSITIVE, keep_together=[SENSITIVE])


Fits = Callable[[str, str, Family], tuple[Pooled, list[pd.DataFrame]]]


@pytest.fixture(name="fitted")
def with_draws(folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch) -> Fits:
    """What a formula gives, and the completed tables that it was fitted to."""
    asked: list[tuple[list[str], Further | None]] = []

    def seen(where: ReleaseFolder, columns: list[str], *given: Any, **options: Any) -> Any:
        asked.append((columns, options["further"]))
        return draw_outcomes(where, columns, *given, **options)

    monkeypatch.setattr(formulas, "draw_outcomes", seen)

    def fitted(left: str, right: str, family: Family) -> tuple[Pooled, list[pd.DataFrame]]:
        pooled = fit_formula(folder, f"{left} ~ {right}", family, draws=DRAWS, seed=2)
        columns, further = asked[-1]
        drawn = tables_of(Completion(folder, DRAWS, columns=columns, seed=2, further=further))
        frames = [plain_values(table).to_pandas() for table in drawn]
        for frame in frames:
            frame["income"] = frame["income"].astype(float)
        return pooled, frames

    return fitted


def pooled_by_hand(fits: list[Any]) -> tuple[Floats, Floats, Floats]:
    """Estimates, standard errors and degrees of freedom, outcome by outcome."""
    found: Floats = np.array([np.asarray(fit.params, np.float64).ravel(order="F") for fit in fits])
    within = np.mean([np.diag(np.asarray(fit.cov_params(), np.float64)) for fit in fits], axis=0)
    extra = (1 + 1 / len(fits)) * found.var(axis=0, ddof=1)
    total = within + extra
    gamma, freedom = extra / total, float(fits[0].df_resid)
    observed = (freedom + 1) / (freedom + 3) * freedom * (1 - gamma)
    return found.mean(axis=0), np.sqrt(total), 1 / (gamma**2 / (len(fits) - 1) + 1 / observed)


MODELS: dict[Family, Any] = {"logit": sm.Logit, "multinomial": sm.MNLogit, "linear": sm.OLS}


def assert_as_statsmodels(
    pooled: Pooled, frames: list[pd.DataFrame], outcome: Callable[[pd.DataFrame], Any], right: str, family: Family
) -> None:
    fits = []
    for frame in frames:
        needed = [name for name in frame.columns if name in right]
        whole = frame.dropna(subset=needed)
        design = formulaic.Formula(right).get_model_matrix(whole)
        options = {} if family == "linear" else {"disp": 0, "maxiter": 200}
        fits.append(MODELS[family](outcome(whole), np.asarray(design, np.float64)).fit(**options))
    estimates, errors, freedom = pooled_by_hand(fits)
    names = [str(name) for name in design.columns]
    if family == "multinomial":
        assert [name.split(": ", 1)[1] for name in pooled.names] == names * (len(pooled.names) // len(names))
    else:
        assert list(pooled.names) == names
    assert pooled.bse.to_numpy() == pytest.approx(errors, rel=0.03)  # U is that of the mean of draws
    assert np.abs((pooled.estimates - estimates) / errors).max() < 0.01
    assert pooled.freedom == pytest.approx(freedom, rel=0.15)


RIGHT = [
    "1",
    "age",
    "age + C(ward)",
    "age * ward",
    "age:ward",
    "0 + ward",
    "visits + income",
    "np.log(age) + I(age > 50)",
    "poly(age, 2)",
    "bs(visits, df=4)",
    "scale(age) + ward",
    "C(ward, contr.treatment('south'))",
    "`went.to work?` + np.sqrt(age)",
    "age + I(`went.to work?` == True)",
    "I((age - 50) / 10) + C(age // 30)",
    "age.clip(30, 60) + I(ward.isin(['north', 'west']))",
    "0 + cr(age, df=3)",
    "center(np.log(age)) + np.digitize(visits, [2, 5])",
]


@pytest.mark.parametrize("right", RIGHT)
def test_a_condition_is_explained_as_statsmodels_does(fitted: Fits, right: str) -> None:
    pooled, frames = fitted("I(disease == 'cold')", right, "logit")
    assert_as_statsmodels(pooled, frames, lambda frame: (frame["disease"] == "cold").to_numpy(float), right, "logit")
    assert "I(disease == 'cold') = 1.0 against 0.0" in pooled.notes[0]


@pytest.mark.parametrize("right", ["1", "age + ward", "age * visits"])
def test_all_outcomes_are_explained_at_once(fitted: Fits, right: str) -> None:
    pooled, frames = fitted("disease", right, "multinomial")
    assert_as_statsmodels(
        pooled, frames, lambda frame: frame["disease"].map(DISEASES.index).to_numpy(), right, "multinomial"
    )
    outcomes = list(dict.fromkeys(name.split(": ")[0] for name in pooled.names))
    assert outcomes == DISEASES[1:]
    assert "against ague" in pooled.notes[0]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        *[("stay", right) for right in ("1", "age + ward", "0 + age", "0 + ward", "age + visits", "bs(age, df=5)")],
        *[(left, "age + visits") for left in ("np.log(stay)", "I(stay**2)", "I(disease == 'cold')")],
    ],
)
def test_numbers_are_explained_by_least_squares(fitted: Fits, left: str, right: str) -> None:
    pooled, frames = fitted(left, right, "linear")
    outcomes: dict[str, Callable[[pd.DataFrame], Any]] = {
        "stay": lambda frame: frame["stay"].to_numpy(float),
        "np.log(stay)": lambda frame: np.log(frame["stay"].to_numpy(float)),
        "I(stay**2)": lambda frame: frame["stay"].to_numpy(float) ** 2,
        "I(disease == 'cold')": lambda frame: (frame["disease"] == "cold").to_numpy(float),
    }
    assert_as_statsmodels(pooled, frames, outcomes[left], right, "linear")


@pytest.mark.parametrize("right", ["drug", "age + drug + stay", "stay:ward", "visits + np.log(stay)"])
def test_other_sensitive_columns_explain(fitted: Fits, right: str) -> None:
    pooled, frames = fitted("I(disease == 'cold')", right, "logit")
    assert_as_statsmodels(pooled, frames, lambda frame: (frame["disease"] == "cold").to_numpy(float), right, "logit")


def test_columns_that_are_published_apart_do_not_explain_each_other(tmp_path: Path) -> None:
    folder = released(people(), tmp_path / "r", SENSITIVE, quasi_identifiers=["age", "ward"])
    with pytest.raises(UsageError, match="'disease' and 'drug' are published apart"):
        fit_formula(folder, "I(disease == 'cold') ~ age + drug", "logit", draws=2)


def test_rows_with_nulls_are_left_out_and_counted(fitted: Fits) -> None:
    pooled, frames = fitted("I(disease == 'cold')", "visits", "logit")
    nulls = int(frames[0]["visits"].isna().sum())
    assert nulls > 20
    assert f"{nulls} rows with nulls in columns of the formula are left out." in pooled.notes
    assert not any("left out" in note for note in fitted("I(disease == 'cold')", "age", "logit")[0].notes)


def test_of_the_table_itself_nothing_is_unknown_but_who_has_what(folder: ReleaseFolder) -> None:
    whole, itself = (
        fit_formula(folder, "I(disease == 'cold') ~ ward", "logit", target=target, draws=DRAWS, seed=2)
        for target in ("population", "table")
    )
    assert itself.estimates == pytest.approx(whole.estimates)
    assert (itself.bse < whole.bse).all()
    assert itself.freedom.tolist() == [DRAWS - 1] * 3


def test_levels_that_only_some_draws_have_are_levels(tmp_path: Path) -> None:
    """A drug that nobody with an age has in the first draw may be that of one in another."""
    random = np.random.default_rng(0)
    table = patients(200)
    ages = [None if random.random() < 0.8 else age for age in table["age"].to_pylist()]
    drugs = [f"d{place % 10}" if place < 60 else f"d{place % 3}" for place in random.permutation(200).tolist()]
    table = table.set_column(0, "age", pa.array(ages, pa.int64())).append_column("drug", pa.array(drugs))
    kept: dict[str, Any] = {"quasi_identifiers": ["age", "ward"], "keep_together": [["disease", "drug"]]}
    folder = released(table, tmp_path / "r", ["disease", "drug"], **kept)
    for seed in range(4):
        pooled = fit_formula(folder, "I(disease == 'cold') ~ drug", "logit", draws=3, seed=seed)
        assert list(pooled.names) == ["Intercept", *(f"drug[T.d{place}]" for place in range(1, 10))]
        try:
            pooled = fit_formula(folder, "I(disease == 'cold') ~ age + drug", "logit", draws=3, seed=seed)
        except UsageError as error:
            assert "depend on each other" in str(error)  # noqa: PT017 (a level may be in no draw at all)
        else:
            assert len(pooled.names) == 11


def test_outcomes_that_are_null_are_left_out(tmp_path: Path) -> None:
    table = patients(300)
    random = np.random.default_rng(1)
    stay = [None if place % 8 == 0 else int(random.integers(1, 9)) for place in range(300)]
    table = table.drop_columns(["disease"]).append_column("stay", pa.array(stay, pa.int32()))
    folder = released(table, tmp_path / "r", "stay", null_value="unknown", quasi_identifiers=["age", "ward"])
    pooled = fit_formula(folder, "stay ~ 1", "linear", draws=3, seed=1)
    known = [number for number in stay if number is not None]
    assert pooled.estimates[0] == pytest.approx(np.mean(known))  # the same in every draw
    assert pooled.bse.iloc[0] == pytest.approx(np.std(known, ddof=1) / np.sqrt(len(known)), rel=1e-6)
    freedom = len(known) - 1
    assert pooled.freedom[0] == pytest.approx((freedom + 1) / (freedom + 3) * freedom)
    assert f"{300 - len(known)} rows with nulls in columns of the formula are left out." in pooled.notes


def with_stays(stay: list[float | None], folder: Path) -> ReleaseFolder:
    table = patients(len(stay)).drop_columns(["disease"]).append_column("stay", pa.array(stay, pa.float64()))
    return released(table, folder, "stay", null_value="unknown", quasi_identifiers=["age", "ward"])


@pytest.mark.parametrize("formula", ["stay ~ 1", "I(2 * stay) ~ 1", "np.exp(np.log(stay)) ~ 1"])
def test_outcomes_that_are_no_number_are_left_out(tmp_path: Path, formula: str) -> None:
    random = np.random.default_rng(1)
    stay: list[float | None] = [random.integers(1, 9) / 2 for _ in range(300)]
    stay[::8], stay[1::16] = [float("nan")] * len(stay[::8]), [None] * len(stay[1::16])
    pooled = fit_formula(with_stays(stay, tmp_path / "r"), formula, "linear", draws=3, seed=1)
    known = np.array([number for number in stay if number is not None and number == number])
    times = 2 if "2" in formula else 1
    assert pooled.estimates[0] == pytest.approx(times * known.mean())
    assert pooled.bse.iloc[0] == pytest.approx(times * known.std(ddof=1) / np.sqrt(len(known)), rel=1e-6)
    assert f"{300 - len(known)} rows with nulls in columns of the formula are left out." in pooled.notes


def test_values_that_are_no_number_are_no_outcome_of_a_multinomial_model(tmp_path: Path) -> None:
    stay: list[float | None] = [[1.5, 2.5, 3.5, float("nan"), 0.5][place % 5] for place in range(300)]
    pooled = fit_formula(with_stays(stay, tmp_path / "r"), "stay ~ 1", "multinomial", draws=2, seed=1)
    assert list(pooled.names) == ["1.5: Intercept", "2.5: Intercept", "3.5: Intercept"]


def test_infinite_outcomes_are_refused(tmp_path: Path) -> None:
    stay: list[float | None] = [[1.5, 2.5, 3.5, float("inf"), 0.5][place % 5] for place in range(300)]
    with pytest.raises(InputError, match="'stay' is infinite for some people"):
        fit_formula(with_stays(stay, tmp_path / "r"), "stay ~ 1", "linear", draws=2, seed=1)


@pytest.mark.parametrize(("right", "spare"), [("age + ward", 2**15), ("C(age)*C(visits) + income", 2**20)])
def test_columns_that_do_not_fit_into_memory_are_refused_before_anything_is_learned(
    folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch, right: str, spare: int
) -> None:
    monkeypatch.setattr("dalenius.analysis.learned.fit", None)
    small = ReleaseFolder(folder.path, folder.manifest, memory=ReadingMemory(2**29, spare))
    with pytest.raises(MemoryLimitError, match=r"formula(.|\n)*would not fit into a memory of 512 MiB"):
        fit_formula(small, f"I(disease == 'cold') ~ {right}", "logit", draws=2)


def test_what_is_learned_of_rows_takes_little_more_than_it_is(tmp_path: Path) -> None:
    """And nobody is the same as anybody else here."""
    random, number = np.random.default_rng(0), 30_000
    rows = pa.table({"x": random.normal(size=number), "y": random.integers(0, 50, number)})
    columns = formulas._Columns("x + C(y)", rows, ReadingMemory.of(None))
    tracemalloc.start()
    found = columns(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (number, 51)
    assert peak < 3 * found.nbytes
    expected = np.asarray(formulaic.Formula("x + C(y)").get_model_matrix(rows.to_pandas()), np.float64)[:, 1:]
    expected = (expected - expected.mean(axis=0)) / expected.std(axis=0)
    assert found[:, 1:] == pytest.approx(expected, abs=1e-4)
    assert (found[:, 0] == 0).all()  # a constant tells nothing


@pytest.mark.parametrize(
    ("formula", "family", "said"),
    [
        ("disease", "logit", "has an outcome, a ~"),
        ("~ age", "logit", "has an outcome, a ~"),
        ("disease ~ ", "multinomial", "has an outcome, a ~"),
        ("age ~ ward", "linear", "one sensitive column"),
        ("disease + stay ~ age", "linear", "one sensitive column"),
        ("1 ~ age", "linear", "one sensitive column"),
        ("disease ~ age", "poisson", "no family 'poisson'"),
        ("disease ~ disease", "multinomial", "both sides"),
        ("disease ~ age", "logit", "two values"),
        ("disease ~ age", "linear", "no numbers"),
        ("I(disease == 'colt') ~ age", "logit", "two values"),
        ("I(disease == 'colt') ~ age", "linear", "the same for everybody"),
        ("I(disease == 'colt') ~ age", "multinomial", "the same for everybody"),
        ("C(disease) ~ age", "multinomial", "not one number"),
        ("I(disease == 'cold') + I(disease == 'flux') ~ age", "linear", "not one number"),
        ("I(disease in ['cold']) ~ age", "logit", "cannot be evaluated"),
        ("I(disease > 3) ~ age", "logit", "cannot be evaluated"),
        ("disease ~ age +", "multinomial", "cannot be evaluated"),
        ("disease ~ unheard(age)", "multinomial", "cannot be evaluated"),
        ("disease ~ age | ward", "multinomial", "no sum of terms"),
        ("disease ~ age ~ ward", "multinomial", "no sum of terms"),
        ("disease ~ 0", "multinomial", "no column on its right"),
        ("disease ~ age + I(2 * age)", "multinomial", "depend on each other"),
        ("I(disease == 'cold') ~ 0 + ward + I(age > 0)", "logit", "depend on each other"),
        ("disease ~ C(age)*C(visits)*ward", "multinomial", "coefficients"),
    ],
)
def test_wrong_formulas_are_refused(folder: ReleaseFolder, formula: str, family: Any, said: str) -> None:
    """By an error that says what is wrong, and quotes no value that the formula does not."""
    with pytest.raises(UsageError, match=said) as error:
        fit_formula(folder, formula, family, draws=2, seed=1)
    values = {*DISEASES, "north", "south", "west", "cold", "flux"}
    assert not any(repr(value) in str(error.value) and value not in formula for value in values)


@pytest.mark.parametrize("formula", ["disease ~ ages", "diseases ~ age", "disease ~ poly(ages, 2)", "disease ~ `a.b`"])
def test_columns_that_are_not_there_are_missed(folder: ReleaseFolder, formula: str) -> None:
    with pytest.raises(NoSuchColumnError):
        fit_formula(folder, formula, "multinomial", draws=2, seed=1)


LOOKING_AROUND = [
    "I(age > np.median(age))",
    "I(age > 2 * np.mean(age))",
    "I(age >= np.quantile(age, 0.9))",
    "ward + I((age - age.mean()) / age.std())",
    "I((age - age.min()) / (age.max() - age.min()))",
    "C(age > age.mean())",
    "scale(age / age.max())",
    "ward:I(visits > np.median(visits))",
    "I(age == age.max())",
    "I(age.rank())",
    "I(age * 1000 + len(age))",
    "lag(age)",
    "I(ward == ward.mode()[0])",
    "I(visits + income > np.median(visits + income))",
    "I(age + np.random.default_rng(0).normal(size=len(age)))",
    "drug + I(stay > np.median(stay))",
]


@pytest.mark.parametrize("right", LOOKING_AROUND)
def test_what_depends_on_other_people_is_refused_on_the_right(folder: ReleaseFolder, right: str) -> None:
    """It is evaluated for people who differ, each once: a median of those is not that of everybody."""
    with pytest.raises(UsageError, match="depends on other people's rows") as error:
        fit_formula(folder, f"I(disease == 'cold') ~ {right}", "logit", draws=2, seed=1)
    assert "I(income > 31000)" in str(error.value)
    assert "scale(), center()" in str(error.value)


@pytest.mark.parametrize(
    ("left", "family"),
    [
        ("I(stay > np.median(stay))", "logit"),
        ("I(stay > np.median(stay))", "linear"),
        ("I(stay - stay.mean())", "linear"),
        ("scale(stay)", "linear"),
        ("center(stay)", "linear"),
        ("I(stay.rank())", "multinomial"),
        ("I(disease == disease.max())", "logit"),
    ],
)
def test_what_depends_on_other_people_is_refused_on_the_left(folder: ReleaseFolder, left: str, family: Family) -> None:
    with pytest.raises(UsageError, match="depends on other people's rows"):
        fit_formula(folder, f"{left} ~ age", family, draws=2, seed=1)


def test_infinite_numbers_are_refused(folder: ReleaseFolder) -> None:
    with pytest.raises(InputError, match="infinite"), np.errstate(all="ignore"):
        fit_formula(folder, "disease ~ I(1 / visits)", "multinomial", draws=2, seed=1)


def test_a_target_or_one_draw_that_make_no_sense_are_refused(folder: ReleaseFolder) -> None:
    with pytest.raises(UsageError, match="no target"):
        fit_formula(folder, "disease ~ age", "multinomial", target="sample")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="got 1"):
        fit_formula(folder, "disease ~ age", "multinomial", draws=1)


def test_an_association_comes_back(tmp_path: Path) -> None:
    """The coefficient that complete rows give, within what the pooled one does not know; at random it would be lost."""
    table = patients(1200, strength=2.0)
    folder = released(table, tmp_path / "r", quasi_identifiers=["age", "ward"])
    for ward, target in (("north", 2.0), ("south", None)):
        formula = f"I(disease == 'cold') ~ age + I(ward == '{ward}')"
        pooled = fit_formula(folder, formula, "logit", target="table", draws=10, seed=3)
        frame = table.to_pandas()
        design = np.column_stack([np.ones(1200), frame["age"], frame["ward"] == ward]).astype(float)
        whole = sm.Logit((frame["disease"] == "cold").to_numpy(float), design).fit(disp=0)
        assert (np.abs(pooled.estimates - whole.params) < 4 * pooled.bse.to_numpy() + 0.05).all()
        if target is not None:
            assert pooled.estimates[2] > 0.7 * whole.params[2]


def test_a_formula_that_is_too_wide_to_be_learned_says_so(
    folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    formula = "I(disease == 'cold') ~ age * C(ward)"
    assert not any("silent" in note for note in fit_formula(folder, formula, "logit", draws=2, seed=1).notes)
    monkeypatch.setattr("dalenius.analysis.formulas._MOST_ASKED", 5)
    wide = fit_formula(folder, formula, "logit", draws=2, seed=1)
    assert any("6 columns, too many to be learned" in note for note in wide.notes)


def test_decimals_are_numbers_on_both_sides(tmp_path: Path) -> None:
    rows = 400
    money = [Decimal(f"{100 + place % 50}.25") for place in range(rows)]
    table = pa.table({"age": [place % 40 for place in range(rows)], "paid": money})
    release = dalenius.publish(
        table, {"odds": 4, "grouping": "quantiles:4"}, sensitive="paid", quasi_identifiers=["age"], seed=1
    )
    found = release.fit("np.log(paid) ~ age", "linear", draws=2, seed=1)
    assert found.params["Intercept"] == pytest.approx(np.log(np.array(money, float)).mean(), abs=0.1)
    assert release.complete(1)[0]["paid"].dtype == np.float64


def test_hints_spell_odd_names_as_formulas_have_them(tmp_path: Path) -> None:
    table = patients(300).drop_columns(["name"]).rename_columns(["age", "ward", "the disease"])
    folder = released(table, tmp_path / "r", "the disease")
    with pytest.raises(UsageError, match=r"I\(`the disease` == 'value'\)"):
        fit_formula(folder, "`the disease` ~ age", "logit", draws=2)


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("disease ~ age", "logit"),  # five values
        ("disease ~ age", "linear"),  # texts
        ("I(disease == 'could') ~ age", "logit"),  # nobody
        ("I(disease == 'could') ~ age", "multinomial"),
    ],
)
def test_outcomes_that_cannot_be_are_refused_before_anything_is_learned(
    folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch, formula: str, family: Family
) -> None:
    monkeypatch.setattr("dalenius.analysis.learned.fit", None)
    with pytest.raises(UsageError):
        fit_formula(folder, formula, family, draws=2)
