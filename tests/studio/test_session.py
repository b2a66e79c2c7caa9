"""What outlives a page: steps of the draft, the numbers of its versions, outcomes, names of values, made-up rows."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dalenius.errors import InputError, JobFileError, PolicyError
from dalenius.model.plan import PlanOptions
from dalenius.model.problem import ValueCounts
from dalenius.planning import prepare_problem
from dalenius.policy.banding import with_bands_as_values
from dalenius.policy.job import LimitsSection, job_text, parse_job
from dalenius.policy.limits import LimitPolicy
from dalenius.solve.sizes import why_impossible
from dalenius.studio import demo_table
from dalenius.studio.draft import Draft
from dalenius.studio.forms import RELEASE, LimitsForm, PublishForm, plain_number
from dalenius.studio.history import History, Tab
from dalenius.studio.messages import RequestError
from dalenius.studio.offers import first_number
from dalenius.studio.role_forms import RolesForm
from dalenius.studio.transfers import read_labels
from tests.studio.site import ROLES, Site, done, limits, open_site, people


def drafts(number: int) -> list[Draft]:
    return [Draft(limits=LimitsForm(theta=str(theta + 1))) for theta in range(number)]


@given(st.integers(0, 10**12), st.integers(0, 12), st.sampled_from([".", ","]), st.sampled_from(["%", " %", "  %", ""]))
def test_percentages_and_decimal_commas_are_exact(digits: int, places: int, point: str, sign: str) -> None:
    text = f"{digits:0{places + 1}d}"
    typed = f"{text[: len(text) - places]}{point}{text[len(text) - places :]}" if places else text
    wanted = Fraction(digits, 10**places) / (100 if sign else 1)
    assert Fraction(plain_number(typed + sign)) == wanted


@pytest.mark.parametrize("text", ["", "%", "5 %%", "five", "1/0", "1,2,3", "5 percent", "--1", "1 2"])
def test_other_texts_are_refused_as_numbers(text: str) -> None:
    assert plain_number(text) == text
    with pytest.raises(PolicyError):
        LimitsForm(rule="uniform", uniform=text).policy(None)


def test_every_number_of_a_limit_may_be_a_percentage() -> None:
    form = LimitsForm(rule="theta", theta="800 %", base="2%", values={"HIV": "0,5 %", "Flu": " 1 / 2 "})
    policy = form.policy(None)
    assert (policy.theta, policy.base) == (Fraction(8), Fraction(1, 50))
    assert policy.values == {"HIV": Fraction(1, 200), "Flu": Fraction(1, 2)}


def test_a_new_draft_goes_by_odds() -> None:
    assert LimitsForm().policy(None) == LimitPolicy.of(odds=4, floor="0.02")


JOBS = [
    "",
    "[limits]\nodds = 8",
    "[limits]\nodds = 2.5\nfloor = 0\nallow_absent = true\n[limits.values]\nHIV = '1/300'",
    "[limits]\ntheta = 8\nbase = 0.02\npublish_in_the_clear = true\n[solve]\nmin_size = 1",
    "[limits]\nallow_absent = false\npublish_in_the_clear = false\n[limits.values]\nFlu = 1\nHIV = 0.1",
    "[table]\nstrict = true\nstrata = 'none'\n[solve]\ntime_limit = 5\ngap = 0.01\n[report]\ntitle = 'Ours'",
    "[limits]\nbeta = 3\n[adversary]\ncorrupted = 1\nfakes = 2\navoid_ruled_out = true",
    "groups = 'icd10'\n[limits]\nodds = 8\n[limits.groups]\n'Neoplasms (C00-D49)' = '1/10'\n[limits.levels]\n"
    "block = 'none'\n[limits.levels.chapter]\ntheta = 4\nbase = 0.1",
    "[groups]\nprefix = [1, 3]\nungrouped = ['?']\n[limits.groups]\nC = 0.1",
    "[groups]\nprefixes = {C = 'any cancer', D0 = 'any cancer'}\n[limits]\nuniform = 0.5",
    "[table]\nmissing = ['?', '-9']\nnot_applicable = ['N']",
    "[groups.tree]\ngut = ['A04']\ncancer = {breast = ['C50'], skin = ['C43']}\n[limits.levels]\n'level 2' = 'none'",
]


@pytest.mark.parametrize("text", JOBS)
def test_a_job_that_is_opened_and_saved_is_the_same_job(text: str) -> None:
    job = parse_job(text)
    saved = parse_job(job_text(Draft.of_job(job).job()))
    wanted = LimitPolicy.of(odds=4) if job.limits == LimitsSection() else job.policy()
    assert saved.policy() == wanted
    assert (saved.table.missing, saved.table.not_applicable) == (job.table.missing, job.table.not_applicable)
    for name in ("allow_absent", "publish_in_the_clear"):
        assert getattr(saved.limits, name) == getattr(job.limits, name)
    assert (saved.solve, saved.report, saved.table.strict) == (job.solve, job.report, job.table.strict)
    assert saved.adversary.avoid_ruled_out == job.adversary.avoid_ruled_out
    assert Draft.of_job(saved) == Draft.of_job(job)


NUMBERS = ValueCounts.of((str(number), 1) for number in range(20))
BANDS = [
    ("[groups]\ncuts = [-5, 0, 2.5]\n[limits]\nodds = 8", "cuts", "-5, 0, 2.5"),
    ("[groups]\nquantiles = 8\n[limits.groups]\n'below 5' = '1/10'\n[limits.values]\nmissing = 0.9", "quantiles", "8"),
    ("[groups]\nwidth = '1/3'\nfrom = 1000\n[limits.levels.band]\nodds = 4\nfloor = 0.1", "width", "1/3"),
    (
        "[groups]\nwidth = 5e3\n[limits]\nodds = 8\n[limits.levels]\nband = 'none'\n[limits.values]\nx = 1",
        "width",
        "5000",
    ),
]


@pytest.mark.parametrize(("text", "source", "typed"), BANDS)
def test_bands_of_a_job_are_the_values_of_a_draft(text: str, source: str, typed: str) -> None:
    job = parse_job(text)
    draft = Draft.of_job(job)
    form = draft.limits.grouping
    assert (form.source, getattr(form, source)) == (source, typed)
    assert (draft.limits.groups, draft.limits.levels) == ({}, {})
    saved = parse_job(job_text(draft.job()))
    assert saved.groups.grouping() == job.groups.grouping()
    assert with_bands_as_values(saved.policy(), NUMBERS)[0] == with_bands_as_values(job.policy(), NUMBERS)[0]
    assert Draft.of_job(saved) == draft


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("groups = 'icd9'\n[limits.groups]\nNeoplasms = 0.1\n'140-239' = 0.2", "give one group two limits"),
        ("groups = 'cuts:5'\n[limits.groups]\n'below 5' = 0.1\n[limits.values]\n'below 5' = 0.2", "two limits"),
    ],
)
def test_a_job_that_a_draft_cannot_hold_is_refused(text: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        Draft.of_job(parse_job(text))


def test_a_job_that_keeps_columns_together_is_refused() -> None:
    with pytest.raises(JobFileError, match="keeps no columns together"):
        Draft.of_job(parse_job("[table]\nkeep_together = [['diag_1', 'insulin']]"))


def test_half_a_name_of_a_group_is_enough_in_a_job_file() -> None:
    job = parse_job("groups = 'icd9'\n[limits.groups]\nNeoplasms = 0.1")
    assert Draft.of_job(job).limits.groups == {"Neoplasms (140-239)": "0.1"}


def test_consent_to_publish_outright_is_of_one_release() -> None:
    """A job file that has it keeps it, and the next release of Studio asks again."""
    draft = Draft(RolesForm(sensitive="Disease"), LimitsForm(publish_in_the_clear=True))
    assert draft.job().limits.publish_in_the_clear
    assert not draft.publish_options(None, RELEASE).in_the_clear
    assert draft.publish_options(None, PublishForm(name="clear", in_the_clear=True)).in_the_clear
    assert draft.with_roles(RolesForm(sensitive="Income")).job().limits.publish_in_the_clear is None


@given(st.lists(st.tuples(st.sampled_from("cur"), st.integers(0, 5)), max_size=40))
def test_steps_are_those_of_a_list(steps: list[tuple[str, int]]) -> None:
    """Against an oracle: a list of drafts and a place in it."""
    known = drafts(6)
    history, line, at = History(known[0]), [known[0]], 0
    for what, which in steps:
        before = history.number
        if what == "c":
            history.change(known[which])
            if known[which] != line[at]:
                line, at = [*line[: at + 1], known[which]], at + 1
        else:
            history.step(None, back=what == "u")
            at = max(0, at - 1) if what == "u" else min(len(line) - 1, at + 1)
        assert history.draft == line[at]
        state = history.state()
        assert (state["undo"] is not None, state["redo"] is not None) == (
            at > 0,
            at < len(line) - 1,
        )
        assert history.number >= before


def test_a_gesture_is_one_step_and_there_are_only_so_many() -> None:
    known = drafts(5)
    history = History(known[0])
    for draft in known[1:4]:
        history.change(draft, gesture="drag")
    history.change(known[4], gesture="another")
    history.step(None, back=True)
    assert history.draft == known[3]
    history.step(None, back=True)
    assert history.draft == known[0]
    for draft in drafts(1000):
        history.change(draft)
    for _ in range(1000):
        history.step(None, back=True)
    assert history.draft != known[0]


def test_nobody_overwrites_what_another_tab_changed() -> None:
    known = drafts(6)
    history = History(known[0])
    history.change(known[1], Tab("a", 0))
    history.change(known[2], Tab("a", 0))  # its own change is not news to a tab, even before it has the answer
    with pytest.raises(RequestError) as refused:
        history.change(known[3], Tab("b", 0))
    assert (refused.value.status, refused.value.kind) == (409, "stale")
    history.change(known[2], Tab("b", 0))  # nothing would change
    history.change(known[3], Tab("b", history.number))
    for shows in range(history.number):
        assert history.is_stale(Tab("a", shows))
    with pytest.raises(RequestError):
        history.step(Tab("a", 2), back=True)
    history.step(Tab("b", history.number), back=True)
    assert history.draft == known[2]
    assert not history.is_stale(None)


@given(
    st.lists(st.integers(1, 60), min_size=2, max_size=8),
    st.integers(0, 4),
    st.integers(0, 2),
    st.sampled_from(["uniform", "l_diversity"]),
)
def test_a_rule_begins_with_the_strictest_number_that_works(
    numbers: list[int], known: int, fakes: int, rule: Any
) -> None:
    assume(known < sum(numbers))  # or everybody is known, which is refused
    counts = ValueCounts(tuple(f"v{at}" for at in range(len(numbers))), tuple(numbers))
    options = PlanOptions(known_records=known, fake_values=fakes)

    def policy(number: str) -> LimitPolicy:
        return LimitPolicy.of(uniform=number) if rule == "uniform" else LimitPolicy.of(l_diversity=number)

    def works(number: str) -> bool:
        return why_impossible(prepare_problem(counts, policy(number), options)[1]) is None

    given_number = "1/1000" if rule == "uniform" else "1000"
    found = first_number(rule, given_number, policy, counts, options)
    if rule == "l_diversity":
        assert works(found) or found == given_number
        assert found == given_number or not works(str(int(found) + 1))
        assert found != given_number or not works("1")
    elif found == given_number:
        assert not works("1")
    else:
        assert works(found)
        assert not works(str(Fraction(found) * Fraction(98, 100)))  # three digits are within 1 %
        assert first_number(rule, found, policy, counts, options) == found


@pytest.mark.parametrize(
    "content", [b"250;Diabetes\n401;High; very\n", b"\xef\xbb\xbf250,Diabetes\n401,High\n", b"250\tDiabetes\n401\tHigh"]
)
def test_names_of_values_come_from_csv_files(content: bytes) -> None:
    assert read_labels(content) == {"250": "Diabetes", "401": "High"}


def test_a_file_that_has_no_names_is_refused() -> None:
    with pytest.raises(InputError):
        read_labels(b"\xff\xfe1")
    assert read_labels(b"250\n\n,\n401, \n") == {}


def test_the_made_up_table_is_the_same_every_time(tmp_path: Path) -> None:
    for name in "ab":
        demo_table.write_table(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert len((tmp_path / "a").read_text().splitlines()) == 5001


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    table = tmp_path_factory.mktemp("session") / "people.csv"
    people().to_csv(table, index=False)
    with open_site() as found:
        found.begin(table, **{key: value for key, value in ROLES.items() if key != "null_value"})
        yield found


def ask(site: Site, path: str, body: Any, name: str, shows: int) -> Any:
    headers = {"Origin": site.home, "Studio-Tab": name, "Studio-Draft": str(shows)}
    return site.client.post(path, json=body, headers=headers)


def test_tabs_and_steps_over_http(site: Site) -> None:
    shows = site.state()["history"]["number"]
    first = done(ask(site, "/api/explore", {"limits": limits(theta="700 %")}, "tab-a", shows)).json()["history"]
    assert (site.state()["limits"]["theta"], first["number"], first["undo"]) == ("7", shows + 1, "limits")
    late = ask(site, "/api/explore", {"limits": limits(theta="6")}, "tab-b", shows)
    assert (late.status_code, late.json()["error"]["kind"]) == (409, "stale")
    assert site.state()["limits"]["theta"] == "7"
    for path in ("/api/publish", "/api/undo", "/api/strata-figures"):
        refused = ask(site, path, {"name": "x"} if path == "/api/publish" else {}, "tab-b", shows)
        assert refused.json()["error"]["kind"] == "stale", path
    undone = done(ask(site, "/api/undo", {}, "tab-b", first["number"])).json()["history"]
    assert (site.state()["limits"]["theta"], undone["redo"]) == ("8", "limits")
    done(ask(site, "/api/redo", {}, "tab-b", first["number"]))
    assert site.state()["limits"]["theta"] == "7"
    history = site.client.get("/api/history", headers={"Studio-Tab": "tab-a", "Studio-Draft": str(first["number"])})
    assert done(history).json()["history"]["stale"] is True
    roles = {**ROLES, "quasi_identifiers": ["Age"]}
    site.send("/api/roles", roles)
    assert site.state()["history"]["undo"] == "roles"
    site.send("/api/undo")
    assert site.state()["roles"]["quasi_identifiers"] == ROLES["quasi_identifiers"]


def test_a_draft_is_not_saved_until_somebody_has_its_job_file(site: Site) -> None:
    site.send("/api/explore", {"limits": limits(theta="5")})
    assert site.state()["history"]["saved"] is False
    done(site.get("/job.toml"))
    assert site.state()["history"]["saved"] is True
    site.send("/api/explore", {"limits": limits(theta="4")})
    assert site.state()["history"]["saved"] is False


def test_a_rule_begins_with_a_number_that_can_be_kept(site: Site) -> None:
    body = {"rule": "uniform", "limits": limits(uniform="1 %")}
    number = site.send("/api/start", body)["number"]
    assert site.send("/api/explore", {"limits": limits(rule="uniform", uniform=number), "draft": False})["setting"]
    assert site.send("/api/start", {**body, "limits": limits(uniform="0.9")})["number"] == "0.9"


def test_strata_are_priced_in_the_background_as_they_are_published(site: Site) -> None:
    site.send("/api/explore", {"limits": limits(theta="3")})
    price = site.send("/api/strata-figures")
    assert price["stale"] is False
    assert site.state()["strata_price"] == price
    release = site.work("/api/publish", {"name": "priced"})["release"]
    (made,) = [one for one in site.state()["releases"] if one["id"] == release]
    assert (made["mse"], made["strata"]) == (price["mse"], price["strata"])
    assert (made["saved"], made["downloaded"]) == (False, False)
    site.send("/api/explore", {"limits": limits(theta="2")})
    assert site.state()["strata_price"] == {**price, "stale": True}


def test_outcomes_stay_and_a_report_is_a_task(site: Site) -> None:
    release = site.work("/api/publish", {"name": "kept"})["release"]
    assert site.ask(f"/api/releases/{release}/outcomes")["verify"] is None
    verdict = site.work(f"/api/releases/{release}/verify")
    task = site.send(f"/api/releases/{release}/audit")["task"]
    assert {"id": task, "kind": "audit", "about": release} in site.state()["tasks"] or site.task(task)
    audit = site.task(task)["result"]
    kept = site.ask(f"/api/releases/{release}/outcomes")
    assert (kept["verify"], kept["audit"]) == (verdict, audit)
    twins = [done(site.get(f"/releases/{release}/report.json")).content for _ in range(2)]
    assert twins[0] == twins[1]
    done(site.get(f"/releases/{release}/release.zip"))
    assert next(one for one in site.state()["releases"] if one["id"] == release)["downloaded"] is True


def test_names_of_values_stay_in_studio(site: Site) -> None:
    def send(content: bytes) -> Any:
        headers = {"Origin": site.home, "Content-Type": "application/octet-stream"}
        return site.client.post("/api/labels", content=content, headers=headers)

    assert done(send(b"Flu,Influenza\nPlague,Plague\n")).json() == {"labels": 1, "of": 4, "others": 1}
    assert site.ask("/api/counts")["labels"] == {"Flu": "Influenza"}
    assert send(b"Plague,Plague\n").status_code == 400
    release = site.work("/api/publish", {"name": "named"})["release"]
    assert b"Influenza" not in done(site.get(f"/releases/{release}/release.zip")).content
    assert b"Influenza" not in done(site.get("/job.toml")).content


def test_the_made_up_table_has_its_roles(site: Site) -> None:
    identifier = done(site.post("/api/demo")).json()["id"]
    table = site.table(identifier)
    assert (table["origin"], table["name"], table["rows"]) == ("made-up", "made-up-hospital.csv", 5000)
    assert site.counted()["values"] == 8
    state = site.state()
    assert (state["table"], state["roles"]["sensitive"], state["history"]["undo"]) == (identifier, "Disease", None)
    assert site.remove(f"/api/tables/{identifier}").status_code == 200
