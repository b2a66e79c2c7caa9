"""Answers to the browser: JSON, JSON inside a page, and errors.

Every error has one shape, {"error": {"kind", "message", "hint"}}, and a status that goes with its kind.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from dalenius.errors import (
    CancelledError,
    DaleniusError,
    MissingExtraError,
    NoSolutionError,
    SelfCheckError,
    SolverError,
)
from dalenius.model.plan import Plan

BUG_HINT = "This is probably a bug in Dalenius: please report it."


class RequestError(Exception):
    """A request that Studio refuses. The kinds are a contract (docs/studio.md)."""

    def __init__(self, status: int, kind: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.hint = status, kind, message, hint


# Answers to concerns are written for a terminal. Here there are buttons and pages instead of options.
_ANSWERS = {
    "not-attacked": "Audit it against the table.",
    "not-measured": "Audit it against the table.",
    "not-compared": "Verify it against the table.",
}
_INSTEAD = (
    (re.compile(r" \(--quasi-identifiers\)"), ""),
    (re.compile(r": --person \S+?(?=\.?$)"), ", by the person's column on the table page"),
    (re.compile(r" \(--person COLUMN\)"), " on the table page"),
    (re.compile(r": --groups '?(\S+:)?cuts:\S*?(?=\.?$)"), ", on the limits page"),
    (re.compile(r": --groups quantiles:8"), ", on the limits page"),
    (
        re.compile(r": --groups '?(?:\S+:)?icd(\d+)'?( --ungrouped ('[^']*'|[^\s.]+))*"),
        r": choose ICD-\1 on the limits page",
    ),
    (re.compile(r": --groups takes a file, prefixes of codes, or bands of numbers"), ", on the limits page"),
    (re.compile(r"say so: --missing '.*' counts them"), "name them under missing values: they count"),
    (re.compile(r"Leave out --fakes, or --not-applicable"), "Use no fake values, or let every value apply"),
    (re.compile(r"Leave out --fakes"), "Use no fake values"),
    (
        re.compile(r"Where it is meant, say so: --allow-absent-values, or allow_absent = true in"),
        "Correct it on the table page. Where it is meant, say allow_absent = true in",
    ),
    (re.compile(r" \(--strata [^)]*\)"), " on the protection page"),
    (re.compile(r": --limit .*$"), ", on the limits page."),
    (re.compile(r": --odds \d+ never reaches 1"), ", on the limits page"),
    (re.compile(r": --most-rows (\d+)"), r": at most \1"),
    (re.compile(r" \(--uniform [\d.]+\)"), ""),
    (re.compile(r"Leave out --not-applicable"), "Name no values that do not apply, on the table page"),
    (re.compile(r"--corrupted Q"), "Known records"),
    (re.compile(r"or give fewer --corrupted"), "or allow fewer known records"),
    (re.compile(r"Say who they are: --person COLUMN"), "Choose the column that says whose row it is"),
    (re.compile(r"--corrupted 1\b"), "1 known record, on the protection page"),
    (re.compile(r"--strata auto and --strata none"), "automatic strata and none"),
    (re.compile(r"Count with 'dalenius query', or choose other columns with --sensitive"), "Choose another column"),
    (re.compile(r"Count with 'dalenius query'"), "Count on the first tab"),
    (re.compile(r"Write --format parquet or csv"), "Choose Parquet or CSV"),
    (re.compile(r"Put numbers into ranges: bins=\{.*?\};"), "Put numbers into fewer ranges,"),
    (re.compile(r"a smaller --max-size"), "a smaller largest bucket, on the limits page"),
)


_RAISE = re.compile(r"^Raise what is too low: (.*)$", re.MULTILINE)
_WITHOUT_TABLE = "Studio does not have the table that it was made from: use dalenius report with --audit and --truth."


def on_a_page(answer: str, code: str, has_table: bool = True) -> str:
    """What to do about a concern, for somebody who sees pages; some of it needs the table of the release."""
    if code in _ANSWERS:
        return _ANSWERS[code] if has_table else _WITHOUT_TABLE
    answer = _RAISE.sub(lambda found: _raised(found[1]), answer)
    for option, words in _INSTEAD:
        answer = option.sub(words, answer)
    return answer


def _raised(options: str) -> str:
    """The limits that would do, and the rows that people may keep then, without options."""
    words, _, left = options.rstrip(".").partition(", which leaves out ")
    given = shlex.split(words)
    limits = [value for option, value in zip(given[::2], given[1::2], strict=False) if option.endswith("limit")]
    rows = next(
        (value for option, value in zip(given[::2], given[1::2], strict=False) if option == "--most-rows"), None
    )
    kept = f", and keep at most {rows} rows of a person, which leaves out {left}" if rows is not None else ""
    return f"Raise what is too low, on the limits page: {', '.join(limits)}{kept}."


def not_found() -> RequestError:
    """Nothing is there. The message does not repeat the request."""
    return RequestError(404, "not-found", "there is nothing with this name")


def status_of(error: DaleniusError) -> int:
    """The HTTP status of an error of Dalenius."""
    if isinstance(error, NoSolutionError):
        return 422
    if isinstance(error, SelfCheckError | SolverError | MissingExtraError):
        return 500
    return 409 if isinstance(error, CancelledError) else 400


def error_object(error: DaleniusError | RequestError) -> dict[str, Any]:
    """The content of {"error": ...}, with the reason if there is no solution."""
    hint = on_a_page(error.hint, "") if error.hint is not None else None
    content: dict[str, Any] = {"kind": error.kind, "message": error.message, "hint": hint}
    if isinstance(error, NoSolutionError) and error.most_rows is not None:
        content["most_rows"] = error.most_rows  # the page has a button for it
    plan = error.plan if isinstance(error, NoSolutionError) else None
    if isinstance(plan, Plan) and plan.no_solution is not None:
        content["reason"] = plan.no_solution.reason
    return content


def internal_object(error: BaseException) -> dict[str, Any]:
    """An unexpected error: only its type, as its message may quote data."""
    return {"kind": "internal", "message": f"unexpected {type(error).__name__}", "hint": BUG_HINT}


_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_text(content: object) -> str:
    """JSON that is harmless in HTML: no character in it can begin or end anything there."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escaped in _ESCAPED.items():
        text = text.replace(character, escaped)
    return text


def json_answer(content: object, status: int = 200) -> Response:
    """An answer to a script."""
    return Response(json_text(content).encode("utf-8", "backslashreplace"), status, media_type="application/json")


def script_json(content: object) -> Markup:
    """JSON for a <script type="application/json"> of a page."""
    return Markup(json_text(content))  # noqa: S704 (escaped above)


def error_answer(error: DaleniusError | RequestError) -> Response:
    """An error, to a script."""
    status = error.status if isinstance(error, RequestError) else status_of(error)
    return json_answer({"error": error_object(error)}, status)
