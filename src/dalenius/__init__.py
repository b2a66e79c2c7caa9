"""Inferential privacy for tables about people.

Publish a table so that analysts can count, while nobody can pin a sensitive value on anybody above a limit that the
publisher sets value by value.
"""

from dalenius.errors import DaleniusError
from dalenius.model.plan import Plan
from dalenius.model.solution import Method, Status
from dalenius.plan import plan
from dalenius.policy.limits import LimitPolicy

__version__ = "0.1.0"

__all__ = ["DaleniusError", "LimitPolicy", "Method", "Plan", "Status", "__version__", "plan"]
