"""The five pages and the page of an error, from the package's templates. Everything in them is escaped."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import jinja2
from starlette.responses import HTMLResponse, Response

from dalenius.model.version import VERSION
from dalenius.web.answers import embedded, json_answer
from dalenius.web.failures import internal_object
from dalenius.web.studio import Studio

PAGES = ("table", "limits", "protection", "publish", "query")
_FOLDER = Path(__file__).parent / "templates"


class Pages:
    """Renders pages."""

    def __init__(self) -> None:
        loader = jinja2.FileSystemLoader(_FOLDER)
        self._templates = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)

    def page(self, studio: Studio, name: str) -> Response:
        """One of the five, with the state of everything in it."""
        state = studio.state()
        return self._rendered(f"{name}.html", {"page": name, "state": state, "state_json": embedded(state)})

    def error(self, status: int, title: str, message: str, hint: str | None = None) -> Response:
        """What went wrong. It tells nothing of the tables: whoever has no token sees it too."""
        try:
            about = {"page": "error", "title": title, "message": message, "hint": hint, "status": status}
            return self._rendered("error.html", about, status)
        except jinja2.TemplateError:
            parts = [html.escape(part) for part in (title, message, hint or "")]
            text = "<!doctype html><html lang=en><meta charset=utf-8><title>{0}</title><h1>{0}</h1><p>{1}</p><p>{2}</p>"
            return HTMLResponse(text.format(*parts), status)

    def bug(self, path: str, error: Exception) -> Response:
        """An error that nobody expected."""
        found = internal_object(error)
        if is_for_scripts(path):
            return json_answer({"error": found}, 500)
        return self.error(500, "Something went wrong", found["message"], found["hint"])

    def _rendered(self, template: str, content: dict[str, Any], status: int = 200) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(version=VERSION, **content), status)


def is_for_scripts(path: str) -> bool:
    """Whether a script asks at this address, rather than a person."""
    return path.startswith("/api/")
