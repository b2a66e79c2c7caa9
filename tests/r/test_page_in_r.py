"""The scripts in R of docs/analysing.md give what `dalenius.pool` gives, on the draws of the page itself."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dalenius
from tests.analysis.page_examples import PAGE, examples, run
from tests.r.conftest import PoolInR, RunScript

TERMS = {"Intercept": "(Intercept)", "C(smoker)[T.yes]": "smokeryes", "age": "age"}


@pytest.fixture(scope="module")
def draws(run_script: RunScript, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of draws that the page makes."""
    assert run_script is not None
    folder = tmp_path_factory.mktemp("page")
    for example in examples(PAGE.read_text(encoding="utf-8")):
        if example.path.name in ("make_release.py", "complete.sh"):
            run(example, folder)
    return folder / "draws"


@pytest.mark.parametrize("script", ["pool_with_mice.R", "pool_with_mitools.R"])
def test_the_page_gives_the_same_in_r_and_python(script: str, draws: Path, pool_in_r: PoolInR) -> None:
    tables = [pd.read_csv(path) for path in sorted(draws.glob("draw-*.csv"))]
    for table in tables:
        table["cancer"] = 1 * (table["disease"] == "cancer")
    pooled = dalenius.pool(smf.logit("cancer ~ age + C(smoker)", table).fit(disp=False) for table in tables)
    found = pool_in_r(script, draws)
    for ours, theirs in TERMS.items():
        assert found[theirs].estimate == pytest.approx(pooled.params[ours], rel=1e-4)
        assert found[theirs].error == pytest.approx(pooled.bse[ours], rel=1e-4)
