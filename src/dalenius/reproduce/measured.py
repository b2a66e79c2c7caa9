"""What was measured so far, kept in the folder: a run that was stopped goes on where it was.

Every measurement has a key with all that it depends on besides the table, the program and the machine, which are the
same for the whole file. A file of another table, program or machine is not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dalenius.reproduce.files import written

FILE = "measured.json"


class Measured:
    """Measurements by key, written to the folder one by one."""

    def __init__(self, folder: Path, of: Mapping[str, Any], *, fresh: bool = False) -> None:
        self._path, self._of = folder / FILE, dict(of)
        self._found = _read(self._path, self._of)
        self._stale = set(self._found) if fresh else set()

    def get(self, key: Mapping[str, Any], measure: Callable[[], Any]) -> Any:
        """What was measured under the key, now or before. Measurements are JSON values."""
        name = json.dumps(key, sort_keys=True)
        if name not in self._found or name in self._stale:
            self._stale.discard(name)
            self._found[name] = json.loads(json.dumps(measure()))
            written(self._path, json.dumps({"of": self._of, "found": self._found}, indent=1))
        return self._found[name]


def _read(path: Path, of: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
        if text["of"] == json.loads(json.dumps(of)):
            return dict(text["found"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or not ours: everything is measured anew
    return {}
