"""What times depend on."""

from __future__ import annotations

import os
import platform

from dalenius.model.version import VERSION


def machine() -> dict[str, str]:
    """The machine's description."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "dalenius": VERSION,
        "cores": str(cores),
        "processor": platform.machine(),
        "python": platform.python_version(),
    }


def described(found: dict[str, str]) -> str:
    """In words."""
    cores = found["cores"]
    plural = "" if cores == "1" else "s"
    return f"{cores} {found['processor']} core{plural}, Python {found['python']}, Dalenius {found['dalenius']}"
