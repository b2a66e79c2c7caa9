"""Columns as integer codes, by the text of their values: the same text, the same code, whatever the type was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from dalenius.engines.connections import quoted
from dalenius.engines.counting import ReleaseTables
from dalenius.engines.duckdb import Table
from dalenius.engines.query_errors import release_errors
from dalenius.engines.table_errors import plain_errors

_ROWS_AT_ONCE = 2**18

Codes = npt.NDArray[np.int32]


class Dictionary:
    """The codes of one column, from 0 in the order in which values are met; a null is -1, or what it is named."""

    def __init__(self, null_name: str | None = None) -> None:
        self._codes: dict[str, int] = {}
        self._null_name = null_name

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, text: str | None) -> int:
        """The code of a text that was met."""
        name = self._null_name if text is None else text
        return -1 if name is None else self._codes[name]

    def encode(self, texts: Any) -> Codes:
        """The codes of a column of texts."""
        encoded = texts.dictionary_encode()
        known = [self._codes.setdefault(text, len(self._codes)) for text in encoded.dictionary.to_pylist()]
        null = -1
        if self._null_name is not None and encoded.null_count:
            null = self._codes.setdefault(self._null_name, len(self._codes))
        places = pc.fill_null(encoded.indices, len(known)).to_numpy(zero_copy_only=False)
        codes: Codes = np.array([*known, null], dtype=np.int32)[places]
        return codes


def table_codes(table: Table, columns: Sequence[str], dictionaries: Sequence[Dictionary]) -> list[Codes]:
    """Columns of a table."""
    with plain_errors():
        return _codes(table.relation, [quoted(name) for name in columns], dictionaries)


def release_codes(
    tables: ReleaseTables, columns: Sequence[str], dictionaries: Sequence[Dictionary]
) -> tuple[npt.NDArray[np.int64], list[Codes]]:
    """Columns of QIT, or the one of ST, and the buckets of their rows."""
    names = [tables.identifiers[name] for name in columns]
    view = tables.connection.table("st" if names == ["s"] else "qit")
    with release_errors():
        buckets = np.concatenate([np.asarray(batch["b"]) for batch in view.project("b").to_arrow_reader(_ROWS_AT_ONCE)])
        return buckets.astype(np.int64), _codes(view, names, dictionaries)


def _codes(relation: Any, columns: Sequence[str], dictionaries: Sequence[Dictionary]) -> list[Codes]:
    texts = ", ".join(f"CAST({column} AS VARCHAR) AS c{i}" for i, column in enumerate(columns))
    parts: list[list[Codes]] = [[np.zeros(0, dtype=np.int32)] for _ in columns]
    for batch in relation.project(texts).to_arrow_reader(_ROWS_AT_ONCE):
        for part, dictionary, column in zip(parts, dictionaries, batch.columns, strict=True):
            part.append(dictionary.encode(column))
    return [np.concatenate(part) for part in parts]
