"""The tables of a release, wherever they lie."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

import dalenius
from dalenius.query.count import Counter
from dalenius.release.folder import open_release


@pytest.mark.parametrize("name", ["release[1]", "it's", "a*b?"])
def test_a_folder_whose_name_is_a_pattern(name: str, tmp_path: Path) -> None:
    people = pandas.DataFrame({"Age": [1, 2] * 4, "Disease": ["Flu", "Flu", "HIV", "HIV"] * 2})
    for folder, rows in ((tmp_path / name, people), (tmp_path / "release1", pandas.concat([people, people]))):
        dalenius.publish(rows, {"uniform": "1/2"}, sensitive="Disease", quasi_identifiers=["Age"], out=folder)
    with Counter(open_release(tmp_path / name)) as counter:
        assert counter.count("Age = 1").estimate == 4
