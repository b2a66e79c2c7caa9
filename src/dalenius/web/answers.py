"""Answers to the browser: JSON, and JSON that may stand inside a page."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from dalenius.errors import DaleniusError
from dalenius.web.failures import RequestError, error_object, status_of

_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def json_text(content: Any) -> str:
    """JSON that is harmless wherever it ends up: no character in it can begin or end anything in HTML."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escaped in _ESCAPED.items():
        text = text.replace(character, escaped)
    return text


def json_answer(content: Any, status: int = 200) -> Response:
    """An answer to a script."""
    return Response(json_text(content).encode("utf-8", "backslashreplace"), status, media_type="application/json")


def embedded(content: Any) -> Markup:
    """JSON for a <script type="application/json"> of a page."""
    return Markup(json_text(content))  # noqa: S704 (escaped above)


def error_answer(error: DaleniusError | RequestError) -> Response:
    """An error, to a script."""
    status = error.status if isinstance(error, RequestError) else status_of(error)
    return json_answer({"error": error_object(error)}, status)
