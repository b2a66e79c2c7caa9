"""The texts by which sensitive values are known: what DuckDB's CAST to VARCHAR makes of them."""

from __future__ import annotations

import pyarrow as pa


def texts(values: pa.Array) -> list[str | None]:
    """The text of each value; a null has none. DuckDB is loaded only for types whose text is not obvious."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(values.to_pylist())
    if pa.types.is_integer(kind):
        return [None if value is None else str(value) for value in values.to_pylist()]
    from dalenius.engines.duckdb import cast_to_text

    return cast_to_text(values)
