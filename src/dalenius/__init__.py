"""Inferential privacy for tables about people.

Publish a table so that analysts can count, while nobody can pin a sensitive value on anybody above a limit that the
publisher sets value by value.
"""

from __future__ import annotations

import importlib

from dalenius.model import VERSION

TYPE_CHECKING = False  # but to type checkers; importing it takes longer than all else that a command does first
if TYPE_CHECKING:
    from typing import Any

    from dalenius.analysis.rubin import pool
    from dalenius.attack.over_time import audit_releases
    from dalenius.errors import DaleniusError
    from dalenius.model.plan import Method, Plan, Status
    from dalenius.planning import plan
    from dalenius.policy.limits import LimitPolicy
    from dalenius.publishing.flow import publish
    from dalenius.publishing.published import Release, load
    from dalenius.release.signature import sign_release

__version__ = VERSION

__all__ = [
    "DaleniusError",
    "LimitPolicy",
    "Method",
    "Plan",
    "Release",
    "Status",
    "__version__",
    "audit_releases",
    "load",
    "plan",
    "pool",
    "publish",
    "sign_release",
]

# Names are loaded when they are first used, so that `dalenius --help` and shell completion need no engine or solver.
_HOMES = {
    "DaleniusError": "dalenius.errors",
    "LimitPolicy": "dalenius.policy.limits",
    "Method": "dalenius.model.plan",
    "Plan": "dalenius.model.plan",
    "Release": "dalenius.publishing.published",
    "Status": "dalenius.model.plan",
    "audit_releases": "dalenius.attack.over_time",
    "load": "dalenius.publishing.published",
    "plan": "dalenius.planning",
    "pool": "dalenius.analysis.rubin",
    "publish": "dalenius.publishing.flow",
    "sign_release": "dalenius.release.signature",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dalenius' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
