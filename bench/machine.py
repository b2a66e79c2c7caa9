"""What the numbers of a benchmark depend on."""

from __future__ import annotations

import os
import platform
from typing import Any


def machine(**versions: str) -> dict[str, Any]:
    """The machine, and the versions of the libraries that a benchmark names."""
    return {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version(), **versions}
