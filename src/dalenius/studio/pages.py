"""The pages and the error page, from the package's templates, and the static files they need.

Everything in a page is escaped. A static file is served only if its name is in the list of the package's own files.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from dalenius.analysis.completing import NOT_DATA
from dalenius.model import VERSION
from dalenius.studio.messages import internal_object, json_answer, not_found, script_json
from dalenius.studio.state import Studio

PAGES = ("table", "limits", "protection", "publish", "query", "figures", "crosstab", "completed")
_TEMPLATES = Path(__file__).parent / "templates"


class Pages:
    """Renders pages."""

    def __init__(self) -> None:
        loader = jinja2.FileSystemLoader(_TEMPLATES)
        self._templates = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)

    def page(self, studio: Studio, name: str) -> Response:
        """One of the pages, with the state of everything in it."""
        state = studio.state()
        content = {"page": name, "state": state, "state_json": script_json(state), "not_data": NOT_DATA}
        return self._render(f"{name}.html", content)

    def error(self, status: int, title: str, message: str, hint: str | None = None) -> Response:
        """What went wrong. It reveals nothing about the tables: somebody without a token sees it too."""
        try:
            about = {"page": "error", "title": title, "message": message, "hint": hint, "status": status}
            return self._render("error.html", about, status)
        except jinja2.TemplateError:
            parts = [html.escape(part) for part in (title, message, hint or "")]
            text = "<!doctype html><html lang=en><meta charset=utf-8><title>{0}</title><h1>{0}</h1><p>{1}</p><p>{2}</p>"
            return HTMLResponse(text.format(*parts), status)

    def bug(self, path: str, error: Exception) -> Response:
        """An error that nobody expected."""
        fault = internal_object(error)
        if is_for_scripts(path):
            return json_answer({"error": fault}, 500)
        return self.error(500, "Something went wrong", fault["message"], fault["hint"])

    def _render(self, template: str, content: dict[str, Any], status: int = 200) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(version=VERSION, **content), status)


def is_for_scripts(path: str) -> bool:
    """Whether a script asks at this address, rather than a person."""
    return path.startswith("/api/")


_STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


async def static_file(request: Request) -> Response:
    """GET /static/NAME. The name is looked up in a list; no path is made from it."""
    path = _static_files().get(request.path_params["name"])
    if path is None:
        raise not_found()
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix])


def _static_files() -> dict[str, Path]:
    files = (path for path in _STATIC.rglob("*") if path.suffix in _TYPES and not path.is_symlink() and path.is_file())
    return {path.relative_to(_STATIC).as_posix(): path for path in files}
