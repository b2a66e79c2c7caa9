"""The page: one HTML file that needs nothing else, made from the twin alone.

Most sentences come from `front_page`, `words`, `statements` and `attackers`; this module fills the
tables, and renders the template.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from dalenius.errors import MissingExtraError
from dalenius.report import attackers, charts, group_tree, people_words, words
from dalenius.report.by_column import all_at_once, one_by_one
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
    tenths,
    visible,
)
from dalenius.report.front_page import bands_title, front_page, squared_error
from dalenius.report.promises import promises
from dalenius.report.statements import (
    chain_in_words,
    compared,
    exposures,
    has_values_of_nobody,
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
MOST_DRAWN = 12  # sensitive columns with a chart
_TITLE = "Privacy report"
_OPTION = re.compile(r"--[a-z][a-z-]*")


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
    drawings = {name: _markup(svg) for name, svg in _drawings(twin).items()}
    front = front_page(twin)
    by_people = twin["release"] is not None and twin["release"]["by_people"]
    page: str = _template().render(
        style=Markup(style),  # noqa: S704 (our own file)
        twin=twin,
        release=twin["release"],
        drawings=drawings,
        front=front,
        bands_title=bands_title(twin["exposure"]) if twin["exposure"] is not None else "",
        record="person" if by_people else "record",
        records="people" if by_people else "records",
        by_people=by_people,
        statements=statements(twin),
        title=f"{visible(twin['title'] or _TITLE)}: {front['verdict']['words']}",
        heading=twin["title"] or _TITLE,
        promises=promises(twin),
        made_on=f"{datetime.date.fromisoformat(twin['made_on']):%d %B %Y}".lstrip("0"),
        twin_sha256=hashlib.sha256(twin_text(twin).encode()).hexdigest(),
        attackers=attackers.attackers(audit) if audit is not None else [],
        left_out=attackers.left_out(audit) if audit is not None else [],
        audit_in_words=attackers.audit_in_words(audit) if audit is not None else "",
        workload=words.workload_rows(workload) if workload is not None else [],
        passed={check["check"] for check in twin["verify"]["checks"] if check["passed"]},
        compared=compared(twin),
        command=words.command(twin),
        learned=audit is not None and bool(audit.get("learning", {}).get("people")),
        **_release(twin) if twin["release"] is not None else {},
    )
    return page.lstrip()


def _markup(svg: str | None) -> Markup | None:
    """A drawing of Vega's, which escapes whatever is text."""
    from markupsafe import Markup

    return Markup(svg) if svg else None  # noqa: S704


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
        "sizes": charts.sizes_chart(release) if release is not None else None,
        "audit": charts.audit_chart(played, audit["approximate"]) if audit is not None else None,
    }


def _release(whole: Twin) -> Twin:
    """What the page shows of a release whose manifest can be read."""
    release = all_at_once(whole["release"])
    twin = {**whole, "release": release}
    return {
        "whole": whole["release"],
        "size_in_words": people_words.how_many(release),
        "which_columns": people_words.which_columns(whole["release"]),
        "rows_each": people_words.rows_each(release),
        "rows_left_out": people_words.left_out(release),
        "sources": people_words.sources(whole["release"]),
        "kept_together": people_words.kept_together(whole),
        "group_tables": sum(1 for file in release["files"] if "_groups" in file["file"]),
        "columns": [_column(own, place) for place, own in enumerate(one_by_one(whole))],
        "squared_error": squared_error(release),
        "linked": words.linked(twin),
        "limits": words.limits_in_words(release),
        "free_values": words.free_values(release),
        "set_apart": words.set_apart(release),
        "example": words.example(release),
        "nearest": words.nearest(release),
        "limited_groups": len(limited_groups(release)),
        "nearest_groups": group_tree.nearest(release),
        "sizes": [
            _size_row(group, sum(one["people"] for one in release["setting"]))
            for group in release["setting"][:MOST_ROWS]
        ],
        "sizes_in_words": words.sizes_in_words(release),
        "strata": words.strata_in_words(release),
        "proof": words.proof(release),
        "fakes": words.fakes(release, twin["audit"]),
        "chain": chain_in_words(whole),
        "without_limit": without_limit(release),
        "exposures": exposures(release) or [without_exposure(release)],
        "hashes": _hashes(release),
        "fingerprint": (release["files"][0]["sha256"] or "")[:16],
    }


def _column(twin: Twin, place: int) -> Twin:
    """What the page shows of one sensitive column; its parts on the page have names of their own."""
    release, suffix = twin["release"], f"-{place + 1}" if place else ""
    exposure = {one["value"]: one for one in (twin["exposure"] or {"values": []})["values"]}
    values = release["values"]
    return {
        "name": release["columns"]["sensitive"]["name"],
        "suffix": suffix,
        "every": len(values),
        "rows": [_value_row(value, release, exposure.get(value["value"])) for value in values[:MOST_ROWS]],
        "apart": min(len(values), MOST_ROWS) > charts.MOST_VALUES,
        "in_words": words.values_in_words(release),
        "drawn": len(charts.drawn_values(release)),
        "drawing": _markup(charts.values_chart(release, f"values{suffix}")) if place < MOST_DRAWN else None,
        "groups": group_tree.tree(twin),
        "groups_in_words": group_tree.in_words(twin),
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


def _value_row(value: Twin, release: Twin, exposure: Twin | None) -> Twin:
    known, fakes = release["known_records"], has_values_of_nobody(release)
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
        "exposure": tenths(exposure["mean"]) if exposure is not None else NOTHING,
    }


def _limit_in_percent(value: Twin, limit: Fraction) -> str:
    if limit < 1:
        return fine_percent(limit)
    return "no limit" if is_free(value) else "its group's"


def _size_row(group: Twin, everybody: int) -> Twin:
    return {
        "size": number(group["size"]),
        "buckets": number(group["buckets"]),
        "people": number(group["people"]),
        "share": percent(Fraction(group["people"], everybody)),
    }
