"""Studio and a release of a chain that people left: its card, counts, audit and report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dalenius.query.count import count
from dalenius.release.folder import open_release
from dalenius.studio.state import StudioOptions
from tests.attack.tables import table
from tests.chains import begin_chain, follow
from tests.studio.site import done, open_site


def test_a_release_that_people_left_is_shown_as_what_it_is(tmp_path: Path) -> None:
    made = table(600)
    begin_chain(made.write(tmp_path / "first"))
    left = np.flatnonzero(np.random.default_rng(0).random(600) < 0.4).tolist()
    folder = follow(tmp_path / "first", tmp_path / "second", left)
    with open_site(StudioOptions(releases=(folder.path,))) as site:
        (state,) = site.state()["releases"]
        assert (state["chain"], state["surplus"], state["rows"]) == (2, len(left), 600 - len(left))
        at = f"/api/releases/{state['id']}"
        assert site.work(f"{at}/verify")["verified"] is True
        condition = "kind = 'kind 1' AND Disease = 'bile'"
        answer = site.send(f"{at}/count", {"expression": condition, "learn": False})
        expected = count(open_release(folder.path), condition, learn=False, measure=False)
        found = answer["answers"][0] if "answers" in answer else answer
        assert not isinstance(expected, list)
        assert found["bounds"] == list(expected.bounds)
        assert found["estimate"] == pytest.approx(expected.estimate)
        assert site.work(f"{at}/audit")["rows"] == 600 - len(left)
        twin = json.loads(done(site.get(f"/releases/{state['id']}/report.json")).content)
        assert twin["release"]["chain"]["surplus"] == len(left)
        page = done(site.get(f"/releases/{state['id']}/report")).text
        assert "Consider a new chain" in page
