"""The page: one HTML file that needs nothing else, made from the twin alone.

Most sentences come from `front_page`, `words`, `statements` and `attackers`; this module lists the promises with their
checks, fills the tables, and renders the template.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from dalenius.errors import MissingExtraError
from dalenius.report import attackers, charts, group_tree, words
from dalenius.report.formatting import (
    NOTHING,
    fine_percent,
    kind,
    number,
    part,
    percent,
    plain,
    plural,
    sentence,
    share_of_limit,
    visible,
)
from dalenius.report.front_page import front_page, squared_error
from dalenius.report.statements import (
    compared,
    exposures,
    is_free,
    limited_groups,
    statements,
    without_exposure,
    without_limit,
)
from dalenius.report.twin import twin_text

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

Twin = dict[str, Any]
MOST_ROWS = 1000  # of a table on the page; the twin has them all
_PROMISES = {
    "files": "The manifest and both tables are there.",
    "manifest": "The manifest is consistent: rows, sizes, counts, columns and worst cases agree.",
    "hashes": "Both tables are, byte for byte, the files that the manifest names.",
    "schema": "The tables have only the named columns, and carry no metadata of the source.",
    "sizes": "Every bucket has its stated size.",
    "strata": "The quasi-identifiers of a record determine its stratum.",
    "limits": "In every bucket, every value keeps its limit",
    "values": "The counts and worst cases of all values are as stated.",
    "order": "The published data determine the order of rows, so it reveals nothing about the order of the source.",
    "source": "Every record of the table is in the release exactly once.",
    "job": "The release is what the job file asks for.",
}
_WITH_GROUPS = {
    "limits": "In every bucket, every value keeps its limit, and so does every group of values",
    "values": "The counts and worst cases of all values and groups are as stated.",
}
_SOURCE = "Not checked here: this needs the table that was published."
_SEPARATELY = "Rows and sensitive values were compared separately, not which value is in which row's bucket."
_PLACEMENT = (
    "Records are placed at random, with a key that is then forgotten: within a bucket, no order and no number links "
    "rows to values."
)
_TITLE = "Privacy report"
_OPTION = re.compile(r"--[a-z][a-z-]*")
_RESULTS = {"passed": "passed", "failed": "FAILED", "not-checked": "not checked"}


def require_libraries() -> None:
    """Raise an error that says what to install, now rather than after an hour of work."""
    charts.require_altair()
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("Jinja, which lays out the page,", "report") from None


def report_html(twin: Twin) -> str:
    """The whole page. The same twin always gives the same page."""
    require_libraries()
    from markupsafe import Markup

    audit, workload = twin["audit"], twin["workload"]
    style = files("dalenius.report").joinpath("report.css").read_text(encoding="utf-8")
    drawings = {name: Markup(svg) if svg else None for name, svg in _drawings(twin).items()}  # noqa: S704 (Vega escapes)
    front = front_page(twin)
    page: str = _template().render(
        style=Markup(style),  # noqa: S704 (our own file)
        twin=twin,
        release=twin["release"],
        drawings=drawings,
        front=front,
        statements=statements(twin),
        title=f"{visible(twin['title'] or _TITLE)}: {front['verdict']['words']}",
        heading=twin["title"] or _TITLE,
        promises=_promises(twin),
        made_on=f"{datetime.date.fromisoformat(twin['made_on']):%d %B %Y}".lstrip("0"),
        twin_sha256=hashlib.sha256(twin_text(twin).encode()).hexdigest(),
        attackers=attackers.attackers(audit) if audit is not None else [],
        left_out=attackers.left_out(audit) if audit is not None else [],
        audit_in_words=attackers.audit_in_words(audit) if audit is not None else "",
        workload=words.workload_rows(workload) if workload is not None else [],
        most_drawn=charts.MOST_VALUES,
        passed={check["check"] for check in twin["verify"]["checks"] if check["passed"]},
        compared=compared(twin),
        command=words.command(twin),
        learned=audit is not None and bool(audit.get("learning", {}).get("people")),
        **_release(twin) if twin["release"] is not None else {},
    )
    return page.lstrip()


@cache
def _template() -> Template:
    """Compiled once: that takes longer than to fill it in."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("dalenius.report", ".")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "visible": visible,
        "number": number,
        "percent": percent,
        "plain": plain,
        "sentence": sentence,
        "kind": kind,
        "options": _options,
    }
    environment.globals |= {"plural": plural, "part": part}
    return environment.get_template("template.html")


def _options(text: str) -> Markup:
    """A text in which options stand out, and are not broken at the end of a line."""
    from markupsafe import Markup, escape

    return Markup(_OPTION.sub(r'<code class="together">\g<0></code>', str(escape(text))))  # noqa: S704 (escaped)


def _drawings(twin: Twin) -> dict[str, str | None]:
    release, audit = twin["release"], twin["audit"]
    played = {label: attack for label, _, attack in attackers.every_attack(audit)} if audit is not None else {}
    exposure = twin["exposure"]
    return {
        "exposure": charts.exposure_chart(exposure) if exposure is not None else None,
        "values": charts.values_chart(release) if release is not None else None,
        "sizes": charts.sizes_chart(release) if release is not None else None,
        "audit": charts.audit_chart(played, audit["approximate"]) if audit is not None else None,
    }


@dataclass(frozen=True)
class Promise:
    """A row of the table of checks: the promise, and the outcome of its check."""

    promise: str
    outcome: str
    result: str
    remarks: tuple[str, ...] = ()


def _promises(twin: dict[str, Any]) -> list[Promise]:
    """Every check, and the promises that no check can see."""
    checks = twin["verify"]["checks"]
    promises = [_checked_promise(check, twin["release"]) for check in checks]
    if all(check["check"] != "source" for check in checks):
        promises.append(_unchecked(_PROMISES["source"], _SOURCE))
    if twin["release"] is not None:
        promises.append(_placement(twin["release"]))
    return promises


def _unchecked(promise: str, remark: str) -> Promise:
    outcome = "not-checked"
    return Promise(promise=promise, outcome=outcome, result=_RESULTS[outcome], remarks=(remark,))


def _checked_promise(check: dict[str, Any], release: dict[str, Any] | None) -> Promise:
    promise = _PROMISES.get(check["check"], check["check"])
    if release is not None and release["groups"]:
        promise = _WITH_GROUPS.get(check["check"], promise)
    if check["check"] == "limits":
        known = release["known_records"] if release is not None else 0
        if known:
            records = "record of the bucket is" if known == 1 else f"{known:,} records of the bucket are"
            promise += f", whichever other {records} known"
        promise += "."
    outcome = check["outcome"]
    remarks = tuple(sentence(finding["message"]) for finding in check["findings"]) or (sentence(check["message"]),)
    if outcome == "passed":
        remarks = (_SEPARATELY,) if check["check"] == "source" else ()
    return Promise(promise=promise, outcome=outcome, result=_RESULTS[outcome], remarks=remarks)


def _placement(release: dict[str, Any]) -> Promise:
    if release["randomness"] == "cryptographic":
        return _unchecked(_PLACEMENT, "The manifest says so. The files cannot show it.")
    remark = "The manifest says that the order came from a seed: not for publication."
    return Promise(promise=_PLACEMENT, outcome="failed", result="not kept", remarks=(remark,))


def _release(twin: Twin) -> Twin:
    """What the page shows of a release whose manifest can be read."""
    release = twin["release"]
    return {
        "squared_error": squared_error(release),
        "linked": words.linked(twin),
        "limits": words.limits_in_words(release),
        "free_values": words.free_values(release),
        "set_apart": words.set_apart(release),
        "example": words.example(release),
        "nearest": words.nearest(release),
        "limited_groups": len(limited_groups(release)),
        "nearest_groups": group_tree.nearest(release),
        "groups_in_words": group_tree.in_words(twin),
        "groups": group_tree.tree(twin),
        "values": [
            _value_row(value, release["known_records"], release["fake_values"])
            for value in release["values"][:MOST_ROWS]
        ],
        "values_in_words": words.values_in_words(release),
        "drawn": len(charts.drawn_values(release)),
        "sizes": [_size_row(group, release["rows"]) for group in release["setting"][:MOST_ROWS]],
        "sizes_in_words": words.sizes_in_words(release),
        "strata": words.strata_in_words(release),
        "proof": words.proof(release),
        "fakes": words.fakes(release, twin["audit"]),
        "without_limit": without_limit(release),
        "exposures": exposures(release) or [without_exposure(release)],
        "hashes": _hashes(release),
        "fingerprint": (release["files"][0]["sha256"] or "")[:16],
    }


def _hashes(release: Twin) -> list[Twin]:
    """The files of the release with their hashes; only the manifest, which has the other hashes, if there are many."""
    manifest, *tables = release["files"]
    listed = [manifest]
    for table in tables:
        folder = table["file"]
        parts = table["parts"]
        listed += [table] if parts is None else [{**part, "file": f"{folder}/{part['file']}"} for part in parts]
    return listed if len(listed) <= MOST_ROWS else [manifest]


def _value_row(value: Twin, known: int, fakes: int) -> Twin:
    worst, limit = value["worst"], Fraction(value["limit"])
    exact = value["probability"]
    return {
        "name": visible(value["value"]),
        "count": number(value["count"]),
        "worst": f"{worst['count']:,} {'for' if fakes else 'of'} {worst['size'] - known:,}",
        "probability": percent(Fraction(exact)) if exact is not None else NOTHING,
        "limit": value["limit"],
        "limit_percent": _limit_in_percent(value, limit),
        "share": NOTHING if limit == 1 else share_of_limit(value["share_of_limit"]),
    }


def _limit_in_percent(value: Twin, limit: Fraction) -> str:
    if limit < 1:
        return fine_percent(limit)
    return "no limit" if is_free(value) else "its group's"


def _size_row(group: Twin, rows: int) -> Twin:
    return {
        "size": number(group["size"]),
        "buckets": number(group["buckets"]),
        "records": number(group["records"]),
        "share": percent(Fraction(group["records"], rows)),
    }
