"""Scripts, styles and pictures of the pages: the files of the package's own folder, found by name in a list."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from dalenius.web.failures import not_found

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


async def static_file(request: Request) -> Response:
    """GET /static/NAME. No path is made of the name: it is one of the list, or there is nothing."""
    path = _listed().get(request.path_params["name"])
    if path is None:
        raise not_found()
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix])


def _listed() -> dict[str, Path]:
    found = (path for path in _FOLDER.rglob("*") if path.suffix in _TYPES and not path.is_symlink() and path.is_file())
    return {path.relative_to(_FOLDER).as_posix(): path for path in found}
