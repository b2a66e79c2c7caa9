"""What is known of a table before it has any roles: its columns, and never a cell of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "number", "date", "boolean", "other"]


@dataclass(frozen=True)
class ColumnFacts:
    """One column. `type` is what the file says, `kind` what the values look like.

    `distinct` is the number of different values that are not null, about right if it is not exact. `nulls` is exact.
    """

    name: str
    type: str
    kind: Kind
    distinct: int
    distinct_is_exact: bool
    nulls: int


@dataclass(frozen=True)
class TableFacts:
    """The columns in the order of the table, and the number of its rows."""

    rows: int
    columns: tuple[ColumnFacts, ...]
